//! GEMM with four-bit weights, NVFP4 and MXFP4.
//!
//! ```text
//! for each group of 128 values, R rows, I inputs at a time:
//!     packed = 64 bytes of a row                         lane l = 4 bytes = values 8l .. 8l+8
//!     exact:  part = 0; for s in 0..8: part = fma(e2m1[packed >> 4s], x[s], part)
//!     bytes:  part = -12 sum(x) + (2 e2m1 + 12) . x      integers, exact
//!     sum = fma(part, scale of lane l, sum)
//! out = tree(sum) * factor
//! ```
//!
//! 1. Four bytes per lane mean that a shift and a sixteen-entry lookup decode a vector: no unpacking.
//! 2. The byte path looks both nibbles up as `2 value + 12`, unsigned, because the dot product
//!    instruction wants one unsigned side; the constant's part is known from the inputs alone and is
//!    where the accumulation starts.
//! 3. Four rows at a time keep four independent chains of additions in flight and load each input once.

use std::marker::PhantomData;

use super::prepare::{GROUP, LaneBytes, LaneInput, Layout, PreparedInput};
use crate::packed::{PackedFormat, PackedTensor, Scales};
use crate::scalar::MiniFormat;
use crate::simd::{ExecutionPolicy, Kernel, Simd};

/// Rows of weights in one register tile.
const ROWS: usize = 4;
/// Inputs done together when there are several.
const INPUTS: usize = 4;

/// Prefetch distance of the weights.
const PREFETCH_BYTES: isize = 1024;

/// How the scale bytes of a group become sixteen lanes.
trait LaneScales: Copy {
    /// Scale bytes per group.
    const BYTES: usize;
    /// What the lanes must still be multiplied with.
    const FACTOR: f32;
    fn lanes<S: Simd>(s: S, bytes: &[u8]) -> S::F;
}

#[derive(Clone, Copy)]
struct Nvfp4;

impl LaneScales for Nvfp4 {
    const BYTES: usize = GROUP / 16;
    const FACTOR: f32 = 256.0;
    #[inline(always)]
    fn lanes<S: Simd>(s: S, bytes: &[u8]) -> S::F {
        s.e4m3_pairs(bytes.first_chunk().expect("eight scales per group"))
    }
}

#[derive(Clone, Copy)]
struct Mxfp4;

impl LaneScales for Mxfp4 {
    const BYTES: usize = GROUP / 32;
    const FACTOR: f32 = 1.0;
    #[inline(always)]
    fn lanes<S: Simd>(s: S, bytes: &[u8]) -> S::F {
        let codes = s.spread_4(bytes.first_chunk().expect("four scales per group"));
        // Code 0 is the subnormal 2^-127, which no exponent field gives.
        s.bits_to_f32(s.max_i(s.shl(codes, 23), s.splat_u(0x0040_0000)))
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
    let (scales, tensor) = match weights.scales() {
        Scales::Nvfp4 { block, tensor } => (block, *tensor),
        Scales::Mx(scales) => (scales, 1.0),
        Scales::F32 { .. } => unreachable!("four-bit formats have block scales"),
    };
    let rows = Rows {
        codes: weights.codes(),
        scales,
        row_bytes: weights.row_bytes(),
        scales_per_row: weights.padded_depth() / weights.format().block(),
        n_groups: weights.depth().div_ceil(GROUP),
    };
    let n_inputs = x.n_inputs();
    match (&x.layout, weights.format()) {
        (Layout::Lanes(x), PackedFormat::Nvfp4) => policy.run(Exact::<Nvfp4> {
            rows,
            x,
            first,
            n_inputs,
            tensor,
            out,
            scales: PhantomData,
        }),
        (Layout::Lanes(x), _) => policy.run(Exact::<Mxfp4> {
            rows,
            x,
            first,
            n_inputs,
            tensor,
            out,
            scales: PhantomData,
        }),
        (Layout::LaneBytes(x), PackedFormat::Nvfp4) => {
            policy.run(Bytes::<Nvfp4> {
                rows,
                x,
                first,
                n_inputs,
                tensor,
                out,
                scales: PhantomData,
            });
        }
        (Layout::LaneBytes(x), _) => policy.run(Bytes::<Mxfp4> {
            rows,
            x,
            first,
            n_inputs,
            tensor,
            out,
            scales: PhantomData,
        }),
        (Layout::Plain { .. } | Layout::Bytes { .. }, _) => {
            unreachable!("checked against the weights")
        }
    }
}

#[derive(Clone, Copy)]
struct Rows<'a> {
    codes: &'a [u8],
    scales: &'a [u8],
    row_bytes: usize,
    scales_per_row: usize,
    n_groups: usize,
}

impl<'a> Rows<'a> {
    #[inline(always)]
    fn row(&self, row: usize) -> (&'a [u8], &'a [u8]) {
        let codes = &self.codes[row * self.row_bytes..][..self.row_bytes];
        (
            codes,
            &self.scales[row * self.scales_per_row..][..self.scales_per_row],
        )
    }

    /// Number of groups that lie completely in the rows.
    #[inline(always)]
    fn n_whole(&self, scale_bytes: usize) -> usize {
        (self.row_bytes / 64).min(self.scales_per_row / scale_bytes)
    }

    /// A group that ends after its row, filled up with zeros.
    fn padded(&self, row: usize, group: usize, scale_bytes: usize) -> ([u8; 64], [u8; 8]) {
        let (codes, scales) = self.row(row);
        let (codes, scales) = (&codes[group * 64..], &scales[group * scale_bytes..]);
        let (mut padded_codes, mut padded_scales) = ([0; 64], [0; 8]);
        padded_codes[..codes.len()].copy_from_slice(codes);
        padded_scales[..scales.len()].copy_from_slice(scales);
        (padded_codes, padded_scales)
    }
}

/// Calls the tile function over rows and inputs: four by one for a single input, one by four else.
macro_rules! tiles {
    ($self:ident, $s:ident) => {{
        let n_rows = $self.out.len() / $self.n_inputs;
        if $self.n_inputs == 1 {
            let whole = n_rows / ROWS * ROWS;
            for row in (0..whole).step_by(ROWS) {
                $self.tile::<S, ROWS, 1>($s, row, 0);
            }
            for row in whole..n_rows {
                $self.tile::<S, 1, 1>($s, row, 0);
            }
        } else {
            let whole = $self.n_inputs / INPUTS * INPUTS;
            for row in 0..n_rows {
                for input in (0..whole).step_by(INPUTS) {
                    $self.tile::<S, 1, INPUTS>($s, row, input);
                }
                for input in whole..$self.n_inputs {
                    $self.tile::<S, 1, 1>($s, row, input);
                }
            }
        }
    }};
}

struct Exact<'a, K> {
    rows: Rows<'a>,
    x: &'a [f32],
    first: usize,
    n_inputs: usize,
    tensor: f32,
    out: &'a mut [f32],
    scales: PhantomData<K>,
}

impl<K: LaneScales> Kernel for Exact<'_, K> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        tiles!(self, s);
    }
}

impl<K: LaneScales> Exact<'_, K> {
    #[inline(always)]
    fn tile<S: Simd, const R: usize, const I: usize>(&mut self, s: S, row: usize, input: usize) {
        let per_input = self.rows.n_groups * 8;
        let (vectors, _) = self.x.as_chunks::<16>();
        let x: [&[[f32; 16]]; I] =
            std::array::from_fn(|i| &vectors[(input + i) * per_input..][..per_input]);
        let rows: [(&[u8], &[u8]); R] =
            std::array::from_fn(|r| self.rows.row(self.first + row + r));
        let n_whole = self.rows.n_whole(K::BYTES);
        let mut sums = [[s.splat(0.0); I]; R];
        for group in 0..n_whole {
            for r in 0..R {
                let codes = rows[r].0[group * 64..]
                    .first_chunk()
                    .expect("a whole group");
                let scales = &rows[r].1[group * K::BYTES..][..K::BYTES];
                exact_step::<K, S, I>(s, codes, scales, &x, group, &mut sums[r]);
            }
        }
        if n_whole < self.rows.n_groups {
            for r in 0..R {
                let (codes, scales) = self.rows.padded(self.first + row + r, n_whole, K::BYTES);
                exact_step::<K, S, I>(s, &codes, &scales[..K::BYTES], &x, n_whole, &mut sums[r]);
            }
        }
        for r in 0..R {
            for i in 0..I {
                self.out[(row + r) * self.n_inputs + input + i] =
                    s.sum(sums[r][i]) * (K::FACTOR * self.tensor);
            }
        }
    }
}

/// Adds one group of one row for all inputs.
#[inline(always)]
fn exact_step<K: LaneScales, S: Simd, const I: usize>(
    s: S,
    codes: &[u8; 64],
    scales: &[u8],
    x: &[&[[f32; 16]]; I],
    group: usize,
    sums: &mut [S::F; I],
) {
    let table: &[f32; 16] = MiniFormat::E2m1.table().first_chunk().expect("256 entries");
    s.prefetch(codes, PREFETCH_BYTES);
    let packed = s.load_u32_le(codes);
    let mut parts = [s.splat(0.0); I];
    for step in 0..8 {
        let weight = s.lookup(table, s.shr(packed, 4 * step as u32));
        for i in 0..I {
            parts[i] = s.mul_add(weight, s.load(&x[i][8 * group + step]), parts[i]);
        }
    }
    let scale = K::lanes(s, scales);
    for i in 0..I {
        sums[i] = s.mul_add(parts[i], scale, sums[i]);
    }
}

struct Bytes<'a, K> {
    rows: Rows<'a>,
    x: &'a LaneBytes,
    first: usize,
    n_inputs: usize,
    tensor: f32,
    out: &'a mut [f32],
    scales: PhantomData<K>,
}

impl<K: LaneScales> Kernel for Bytes<'_, K> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        tiles!(self, s);
    }
}

impl<K: LaneScales> Bytes<'_, K> {
    #[inline(always)]
    fn tile<S: Simd, const R: usize, const I: usize>(&mut self, s: S, row: usize, input: usize) {
        let n_groups = self.rows.n_groups;
        let inputs: [LaneInput; I] = std::array::from_fn(|i| self.x.input(input + i, n_groups));
        let rows: [(&[u8], &[u8]); R] =
            std::array::from_fn(|r| self.rows.row(self.first + row + r));
        let n_whole = self.rows.n_whole(K::BYTES);
        let mut sums = [[s.splat(0.0); I]; R];
        for group in 0..n_whole {
            for i in 0..I {
                let input = LoadedInput::new(s, &inputs[i], group);
                for r in 0..R {
                    let codes = rows[r].0[group * 64..]
                        .first_chunk()
                        .expect("a whole group");
                    let scales = &rows[r].1[group * K::BYTES..][..K::BYTES];
                    sums[r][i] = input.step::<K>(s, codes, scales, sums[r][i]);
                }
            }
        }
        if n_whole < n_groups {
            for r in 0..R {
                let (codes, scales) = self.rows.padded(self.first + row + r, n_whole, K::BYTES);
                for i in 0..I {
                    let input = LoadedInput::new(s, &inputs[i], n_whole);
                    sums[r][i] = input.step::<K>(s, &codes, &scales[..K::BYTES], sums[r][i]);
                }
            }
        }
        // The bytes of the weights are doubled values.
        let factor = 0.5 * K::FACTOR * self.tensor * self.x.factor;
        for r in 0..R {
            for i in 0..I {
                self.out[(row + r) * self.n_inputs + input + i] = s.sum(sums[r][i]) * factor;
            }
        }
    }
}

/// One group of one input in registers.
struct LoadedInput<S: Simd> {
    even: S::B,
    odd: S::B,
    correction: S::U,
    scale: S::F,
}

impl<S: Simd> LoadedInput<S> {
    #[inline(always)]
    fn new(s: S, input: &LaneInput<'_>, group: usize) -> Self {
        Self {
            even: s.load_b(&input.values[2 * group]),
            odd: s.load_b(&input.values[2 * group + 1]),
            correction: s.load_u(&input.corrections[group]),
            scale: s.load(&input.scales[group]),
        }
    }

    /// `sum` plus one group of one row.
    #[inline(always)]
    fn step<K: LaneScales>(&self, s: S, codes: &[u8; 64], scales: &[u8], sum: S::F) -> S::F {
        s.prefetch(codes, PREFETCH_BYTES);
        let (low, high) = s.e2m1_bytes(s.load_b(codes));
        let part = s.dot_u7(s.dot_u7(self.correction, low, self.even), high, self.odd);
        s.mul_add(
            s.i32_to_f32(part),
            s.mul(K::lanes(s, scales), self.scale),
            sum,
        )
    }
}
