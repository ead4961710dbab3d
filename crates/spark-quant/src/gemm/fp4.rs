//! Products with four-bit weights, NVFP4 and MXFP4.
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

use super::prepare::{GROUP, LaneBytes, Layout, PreparedInput};
use crate::packed::{PackedFormat, PackedTensor, Scales};
use crate::scalar::MiniFormat;
use crate::simd::{Cpu, Kernel, Simd};

/// Rows done together.
const ROWS: usize = 4;
/// Inputs done together when there are several.
const INPUTS: usize = 4;

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
        s.from_bits(s.max_i(s.shl(codes, 23), s.splat_u(0x0040_0000)))
    }
}

/// Rows `first..` of `weights` times all inputs, `[rows, inputs]`.
pub(super) fn dot_rows(
    cpu: Cpu,
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
        (Layout::Lanes(x), PackedFormat::Nvfp4) => cpu.run(Exact::<Nvfp4> {
            rows,
            x,
            first,
            n_inputs,
            tensor,
            out,
            scales: Nvfp4,
        }),
        (Layout::Lanes(x), _) => cpu.run(Exact::<Mxfp4> {
            rows,
            x,
            first,
            n_inputs,
            tensor,
            out,
            scales: Mxfp4,
        }),
        (Layout::LaneBytes(x), PackedFormat::Nvfp4) => {
            cpu.run(Bytes::<Nvfp4> {
                rows,
                x,
                first,
                n_inputs,
                tensor,
                out,
                scales: Nvfp4,
            });
        }
        (Layout::LaneBytes(x), _) => cpu.run(Bytes::<Mxfp4> {
            rows,
            x,
            first,
            n_inputs,
            tensor,
            out,
            scales: Mxfp4,
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

    /// Calls `whole` for every group that lies completely in the rows, then for a padded copy of the
    /// last one if it does not.
    #[inline(always)]
    fn for_groups<const R: usize>(
        &self,
        first: usize,
        scale_bytes: usize,
        mut each: impl FnMut(usize, [&[u8; 64]; R], [&[u8]; R]),
    ) {
        let rows: [(&[u8], &[u8]); R] = std::array::from_fn(|r| self.row(first + r));
        let n_whole = (self.row_bytes / 64).min(self.scales_per_row / scale_bytes);
        for group in 0..n_whole {
            let codes = std::array::from_fn(|r| {
                rows[r].0[group * 64..]
                    .first_chunk()
                    .expect("a whole group")
            });
            let scales = std::array::from_fn(|r| &rows[r].1[group * scale_bytes..][..scale_bytes]);
            each(group, codes, scales);
        }
        if n_whole < self.n_groups {
            let padded: [([u8; 64], [u8; 8]); R] = std::array::from_fn(|r| {
                let (mut codes, mut scales) = ([0; 64], [0; 8]);
                let (code_tail, scale_tail) = (
                    &rows[r].0[n_whole * 64..],
                    &rows[r].1[n_whole * scale_bytes..],
                );
                codes[..code_tail.len()].copy_from_slice(code_tail);
                scales[..scale_tail.len()].copy_from_slice(scale_tail);
                (codes, scales)
            });
            let codes = std::array::from_fn(|r| &padded[r].0);
            let scales = std::array::from_fn(|r| &padded[r].1[..scale_bytes]);
            each(n_whole, codes, scales);
        }
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
    scales: K,
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
        let _ = self.scales;
        let table: &[f32; 16] = MiniFormat::E2m1.table().first_chunk().expect("256 entries");
        let per_input = self.rows.n_groups * GROUP;
        let x: [&[f32]; I] =
            std::array::from_fn(|i| &self.x[(input + i) * per_input..][..per_input]);
        let mut sums = [[s.splat(0.0); I]; R];
        self.rows
            .for_groups::<R>(self.first + row, K::BYTES, |group, codes, scales| {
                let x: [&[[f32; 16]]; I] =
                    std::array::from_fn(|i| x[i][group * GROUP..][..GROUP].as_chunks().0);
                for r in 0..R {
                    s.prefetch(codes[r], 512);
                    let packed = s.load_u32_le(codes[r]);
                    let mut parts = [s.splat(0.0); I];
                    for step in 0..8 {
                        let weight = s.lookup(table, s.shr(packed, 4 * step as u32));
                        for i in 0..I {
                            parts[i] = s.mul_add(weight, s.load(&x[i][step]), parts[i]);
                        }
                    }
                    let scale = K::lanes(s, scales[r]);
                    for i in 0..I {
                        sums[r][i] = s.mul_add(parts[i], scale, sums[r][i]);
                    }
                }
            });
        for r in 0..R {
            for i in 0..I {
                self.out[(row + r) * self.n_inputs + input + i] =
                    s.sum(sums[r][i]) * (K::FACTOR * self.tensor);
            }
        }
    }
}

struct Bytes<'a, K> {
    rows: Rows<'a>,
    x: &'a LaneBytes,
    first: usize,
    n_inputs: usize,
    tensor: f32,
    out: &'a mut [f32],
    scales: K,
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
        let _ = self.scales;
        let n_groups = self.rows.n_groups;
        let x: [&[[u8; 64]]; I] = std::array::from_fn(|i| {
            self.x.values[(input + i) * n_groups * GROUP..][..n_groups * GROUP]
                .as_chunks()
                .0
        });
        let per_lane: [std::ops::Range<usize>; I] =
            std::array::from_fn(|i| (input + i) * n_groups * 16..(input + i + 1) * n_groups * 16);
        let corrections: [&[[u32; 16]]; I] =
            std::array::from_fn(|i| self.x.corrections[per_lane[i].clone()].as_chunks().0);
        let x_scales: [&[[f32; 16]]; I] =
            std::array::from_fn(|i| self.x.scales[per_lane[i].clone()].as_chunks().0);
        let mut sums = [[s.splat(0.0); I]; R];
        self.rows
            .for_groups::<R>(self.first + row, K::BYTES, |group, codes, scales| {
                let inputs: [_; I] = std::array::from_fn(|i| {
                    let (even, odd) = (s.load_b(&x[i][2 * group]), s.load_b(&x[i][2 * group + 1]));
                    (
                        even,
                        odd,
                        s.load_u(&corrections[i][group]),
                        s.load(&x_scales[i][group]),
                    )
                });
                for r in 0..R {
                    s.prefetch(codes[r], 512);
                    let (low, high) = s.e2m1_bytes(s.load_b(codes[r]));
                    let scale = K::lanes(s, scales[r]);
                    for i in 0..I {
                        let (even, odd, correction, x_scale) = inputs[i];
                        let part =
                            s.i32_to_f32(s.dot_u7(s.dot_u7(correction, low, even), high, odd));
                        sums[r][i] = s.mul_add(part, s.mul(scale, x_scale), sums[r][i]);
                    }
                }
            });
        // The bytes of the weights are doubled values.
        let factor = 0.5 * K::FACTOR * self.tensor * self.x.factor;
        for r in 0..R {
            for i in 0..I {
                self.out[(row + r) * self.n_inputs + input + i] = s.sum(sums[r][i]) * factor;
            }
        }
    }
}
