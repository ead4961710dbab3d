//! GEMM with six- and eight-bit weights: MXFP8, MXFP6, FP8, INT8.
//!
//! ```text
//! exact:  for each run of values that share a scale:
//!             part = 0; for each 16 values: part = fma(decode(w), x, part)
//!             sum = fma(part, scale, sum)
//! bytes:  INT8 only; 65536 products at a time add up exactly in i32, then in f32
//! out = tree(sum) * factor
//! ```
//!
//! A run that ends inside a vector goes on in a padded copy. Four rows at a time, as in the four-bit
//! kernels.

use super::prepare::{Layout, PreparedInput};
use crate::block::plain::{ByteCode, Int8Code};
use crate::packed::bits::unpack_sixes;
use crate::packed::{PackedFormat, PackedTensor, Scales};
use crate::scalar::lanes::decode;
use crate::scalar::{E2m3, E3m2, E5m2, MiniFloat, MiniFormat, e8m0};
use crate::simd::{ExecutionPolicy, Kernel, Simd, array};

/// Rows of weights in one register tile.
const ROWS: usize = 4;
/// Inputs done together when there are several.
const INPUTS: usize = 4;
/// Values whose integer products are added before going to f32: 65536 * 127 * 127 / 16 fits i32.
pub(crate) const INTEGER_RUN: usize = 65536;

/// Sixteen weights as f32.
trait Weight: Copy {
    /// Bytes of sixteen codes.
    const BYTES: usize;
    /// What the values must still be multiplied with, a power of two.
    const FACTOR: f32 = 1.0;
    fn values<S: Simd>(s: S, codes: &[u8]) -> S::F;
}

#[derive(Clone, Copy)]
struct Float<F>(std::marker::PhantomData<F>);

/// E4M3 without NaN codes, which packed tensors do not hold.
#[derive(Clone, Copy)]
struct FiniteE4m3;

impl Weight for FiniteE4m3 {
    const BYTES: usize = 16;
    const FACTOR: f32 = 256.0;
    #[inline(always)]
    fn values<S: Simd>(s: S, codes: &[u8]) -> S::F {
        s.load_e4m3(codes.first_chunk().expect("sixteen codes"))
    }
}

impl<F: MiniFloat> Weight for Float<F> {
    const BYTES: usize = 2 * F::SPEC.bits() as usize;
    #[inline(always)]
    fn values<S: Simd>(s: S, codes: &[u8]) -> S::F {
        if F::SPEC.bits() == 8 {
            return decode::<F, S>(s, s.load_u8(codes.first_chunk().expect("sixteen codes")));
        }
        let mut bytes = [0; 16];
        unpack_sixes(&codes[..12], &mut bytes);
        decode::<F, S>(s, s.load_u8(&bytes))
    }
}

#[derive(Clone, Copy)]
struct Int8;

impl Weight for Int8 {
    const BYTES: usize = 16;
    #[inline(always)]
    fn values<S: Simd>(s: S, codes: &[u8]) -> S::F {
        Int8Code::decode(s, s.load_u8(codes.first_chunk().expect("sixteen codes")))
    }
}

/// Rows `first..` of `weights` times all inputs, `[rows, inputs]`.
pub(super) fn dot_rows(
    policy: ExecutionPolicy,
    weights: &PackedTensor,
    x: &PreparedInput,
    first: usize,
    out: &mut [f32],
) {
    match (&x.layout, weights.format()) {
        (Layout::Bytes { .. }, _) => policy.run(Integer {
            weights,
            x,
            first,
            out,
        }),
        (_, PackedFormat::Int8) => exact::<Int8>(policy, weights, x, first, out),
        (_, PackedFormat::Mx(format) | PackedFormat::Fp8(format)) => match format {
            MiniFormat::E4m3 => exact::<FiniteE4m3>(policy, weights, x, first, out),
            MiniFormat::E5m2 => exact::<Float<E5m2>>(policy, weights, x, first, out),
            MiniFormat::E2m3 => exact::<Float<E2m3>>(policy, weights, x, first, out),
            MiniFormat::E3m2 => exact::<Float<E3m2>>(policy, weights, x, first, out),
            MiniFormat::E2m1 => unreachable!("four-bit weights have their own kernels"),
        },
        (_, PackedFormat::Nvfp4) => unreachable!("four-bit weights have their own kernels"),
    }
}

fn exact<W: Weight>(
    policy: ExecutionPolicy,
    weights: &PackedTensor,
    x: &PreparedInput,
    first: usize,
    out: &mut [f32],
) {
    let Layout::Plain { values, padded } = &x.layout else {
        unreachable!("checked against the weights")
    };
    let depth = weights.depth();
    let (run, n_runs) = match weights.scales() {
        Scales::F32 { block, .. } => (block[1], depth.div_ceil(block[1])),
        Scales::Mx(_) | Scales::Nvfp4 { .. } => (32, depth.div_ceil(32)),
    };
    let row_bytes = weights.row_bytes();
    let kernel = Exact::<W> {
        weights,
        x: values,
        x_stride: *padded,
        n_inputs: x.n_inputs(),
        first,
        out,
        run,
        n_runs,
        row_bytes,
        decoder: std::marker::PhantomData,
    };
    policy.run(kernel);
}

struct Exact<'a, W> {
    weights: &'a PackedTensor,
    x: &'a [f32],
    x_stride: usize,
    n_inputs: usize,
    first: usize,
    out: &'a mut [f32],
    run: usize,
    n_runs: usize,
    row_bytes: usize,
    decoder: std::marker::PhantomData<W>,
}

impl<W: Weight> Kernel for Exact<'_, W> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        let n_rows = self.out.len() / self.n_inputs;
        if self.n_inputs == 1 {
            let whole = n_rows / ROWS * ROWS;
            for row in (0..whole).step_by(ROWS) {
                self.tile::<S, ROWS, 1>(s, row, 0);
            }
            for row in whole..n_rows {
                self.tile::<S, 1, 1>(s, row, 0);
            }
            return;
        }
        let whole = self.n_inputs / INPUTS * INPUTS;
        for row in 0..n_rows {
            for input in (0..whole).step_by(INPUTS) {
                self.tile::<S, 1, INPUTS>(s, row, input);
            }
            for input in whole..self.n_inputs {
                self.tile::<S, 1, 1>(s, row, input);
            }
        }
    }
}

impl<W: Weight> Exact<'_, W> {
    /// Scale of run `run` of row `row`.
    #[inline(always)]
    fn scale(&self, row: usize, run: usize) -> f32 {
        match self.weights.scales() {
            Scales::F32 { values, block } => values[row / block[0] * self.n_runs + run],
            Scales::Mx(scales) => e8m0::decode(scales[row * self.n_runs + run]),
            Scales::Nvfp4 { .. } => f32::NAN,
        }
    }

    #[inline(always)]
    fn tile<S: Simd, const R: usize, const I: usize>(&mut self, s: S, row: usize, input: usize) {
        let rows: [&[u8]; R] = std::array::from_fn(|r| {
            &self.weights.codes()[(self.first + row + r) * self.row_bytes..][..self.row_bytes]
        });
        let x: [&[f32]; I] =
            std::array::from_fn(|i| &self.x[(input + i) * self.x_stride..][..self.x_stride]);
        let depth = self.row_bytes * 16 / W::BYTES;
        let mut sums = [[s.splat(0.0); I]; R];
        for run in 0..self.n_runs {
            let start = run * self.run;
            let end = (start + self.run).min(depth);
            let n_whole = (end - start) / 16;
            let mut parts = [[s.splat(0.0); I]; R];
            for vector in 0..n_whole {
                let k = start + 16 * vector;
                let inputs = array!([s.splat(0.0); I], i => s.load(x[i][k..].first_chunk().expect("padded")));
                for r in 0..R {
                    let codes = &rows[r][k / 16 * W::BYTES + k % 16..][..W::BYTES];
                    s.prefetch(&codes[0], 1024);
                    let weight = W::values(s, codes);
                    for i in 0..I {
                        parts[r][i] = s.mul_add(weight, inputs[i], parts[r][i]);
                    }
                }
            }
            let k = start + 16 * n_whole;
            if k < end {
                let rest = end - k;
                for i in 0..I {
                    let mut values = [0.0; 16];
                    values[..rest].copy_from_slice(&x[i][k..end]);
                    let value = s.load(&values);
                    for r in 0..R {
                        // Only formats of one byte per code have runs that end inside a vector.
                        let mut codes = [0; 16];
                        codes[..rest].copy_from_slice(&rows[r][k..end]);
                        parts[r][i] = s.mul_add(W::values(s, &codes), value, parts[r][i]);
                    }
                }
            }
            for r in 0..R {
                let scale = s.splat(self.scale(self.first + row + r, run));
                for i in 0..I {
                    sums[r][i] = s.mul_add(parts[r][i], scale, sums[r][i]);
                }
            }
        }
        for r in 0..R {
            for i in 0..I {
                self.out[(row + r) * self.n_inputs + input + i] = s.sum(sums[r][i]) * W::FACTOR;
            }
        }
    }
}

/// INT8 weights with byte inputs.
struct Integer<'a> {
    weights: &'a PackedTensor,
    x: &'a PreparedInput,
    first: usize,
    out: &'a mut [f32],
}

impl Kernel for Integer<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        let n_inputs = self.x.n_inputs();
        let n_rows = self.out.len() / n_inputs;
        let whole = n_rows / ROWS * ROWS;
        for input in 0..n_inputs {
            for row in (0..whole).step_by(ROWS) {
                self.tile::<S, ROWS>(s, row, input);
            }
            for row in whole..n_rows {
                self.tile::<S, 1>(s, row, input);
            }
        }
    }
}

impl Integer<'_> {
    #[inline(always)]
    fn tile<S: Simd, const R: usize>(&mut self, s: S, row: usize, input: usize) {
        let (
            Layout::Bytes {
                values,
                padded,
                factors,
            },
            Scales::F32 {
                values: scales,
                block,
            },
        ) = (&self.x.layout, self.weights.scales())
        else {
            unreachable!("checked against the weights")
        };
        let depth = self.weights.depth();
        let rows: [&[u8]; R] = std::array::from_fn(|r| {
            &self.weights.codes()[(self.first + row + r) * depth..][..depth]
        });
        let x = &values[input * padded..][..*padded];
        let mut sums = [s.splat(0.0); R];
        for start in (0..depth).step_by(INTEGER_RUN) {
            let end = (start + INTEGER_RUN).min(depth);
            let mut parts = [s.splat_u(0); R];
            let n_whole = (end - start) / 64;
            for vector in 0..n_whole {
                let k = start + 64 * vector;
                let inputs = s.load_b(x[k..].first_chunk().expect("padded"));
                for r in 0..R {
                    let codes = rows[r][k..].first_chunk().expect("inside the row");
                    s.prefetch(codes, 1024);
                    parts[r] = s.dot_i8(parts[r], s.load_b(codes), inputs);
                }
            }
            let k = start + 64 * n_whole;
            if k < end {
                let inputs = s.load_b(x[k..].first_chunk().expect("padded"));
                for r in 0..R {
                    let mut codes = [0; 64];
                    codes[..end - k].copy_from_slice(&rows[r][k..end]);
                    parts[r] = s.dot_i8(parts[r], s.load_b(&codes), inputs);
                }
            }
            for r in 0..R {
                sums[r] = s.add(sums[r], s.i32_to_f32(parts[r]));
            }
        }
        for r in 0..R {
            // Rows of no values have no scales either; their sums are zero.
            let scale = scales.get((self.first + row + r) / block[0]).copied();
            let factor = factors.get(input).copied();
            self.out[(row + r) * self.x.n_inputs() + input] =
                s.sum(sums[r]) * (scale.unwrap_or(0.0) * factor.unwrap_or(0.0));
        }
    }
}
