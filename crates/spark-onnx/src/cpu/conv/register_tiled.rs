//! Convolution to few channels: an element of the image, broadcast once, serves all taps of a
//! window's row.
//!
//! ```text
//! results o .. o + MR of one row, one panel of NV vectors, window of KW columns, step SX
//!
//! for each row of the window, for each channel k:
//!     b[t] = w[t, k]                                   KW * NV vectors, in registers
//!     for each pixel p under the results:              SX (MR - 1) + KW of them
//!         a = broadcast x[p, k]
//!         acc[o] += a * b[p - SX o]                    every o with 0 <= p - SX o < KW
//! ```
//!
//! A tile of `spark-gemm` loads one element for every `NV` products, which with one or two
//! vectors is as many loads as the processor can do; here it is one for every `KW NV / SX`.
//!
//! Each result is added up in the order window row, channel, window column, whatever the place
//! of its segment, so it does not depend on how work is split. Pixels beyond the image are zeros
//! in a copy of the segment; window rows beyond it are left out.
//!
//! Deliberately absent: windows dilated along a row, transposed ones, weights packed in 16 bits, instruction sets of
//! 16 registers, whose tiles are as wide as these.

use std::mem::MaybeUninit;
use std::ops::Range;

use spark_gemm::{
    MAX_ROWS, PackedLayout, TileEpilogue, TileOutput, apply_epilogue_and_store, init_accumulators,
    max_panel,
};

use crate::cpu::simd::{Isa, Simd, dispatch};
use crate::plan::ConvStep;

/// Most input channels: a copied segment of them stays in the L1 cache.
const MAX_DEPTH: usize = 64;
/// Most pixels under a segment: 16 results, five taps, a step of two.
const MAX_PIXELS: usize = 35;
/// Lanes of all results of a segment: 16 vectors of at most 16.
const MOST_LANES: usize = 256;
/// Part of all computed results that must be of use, in percent.
const LEAST_USE: usize = 75;

/// Results of a segment that is `vectors` wide.
const fn results(vectors: usize) -> usize {
    match vectors {
        1 => 2 * MAX_ROWS,
        _ => MAX_ROWS,
    }
}

/// Whether the step is computed here. Decided by shapes alone.
pub(super) fn can_implement(isa: Isa, step: &ConvStep, layout: PackedLayout) -> bool {
    let (window, weights) = (&step.window, &step.weights);
    let vectors = weights.out_per_group.div_ceil(isa.lanes());
    let width = step.y.axes[3].extent;
    let most = results(vectors);
    // Sets of 32 registers have the wider panels.
    max_panel(isa) == 4
        && (1..=2).contains(&vectors)
        && layout == PackedLayout::F32
        && !step.transposed
        && (1..=MAX_DEPTH).contains(&weights.in_per_group)
        && matches!(window.kernel[1], 3 | 5)
        && matches!(window.stride[1], 1 | 2)
        && window.dilation[1] == 1
        && width * 100 >= width.next_multiple_of(most) * LEAST_USE
}

/// Results in a row, and what they are made of.
pub(super) struct Segment<'a> {
    /// Start of the image's row under the window's first row, which may lie outside.
    pub(super) x: *const f32,
    /// From one row of the window to the next, and from pixel to pixel.
    pub(super) x_strides: [isize; 2],
    /// Rows of the window that are in the image.
    pub(super) rows: Range<usize>,
    /// Column of the image under the first result's first tap; may lie outside.
    pub(super) first: isize,
    /// Columns of the image; taps in others read zeros.
    pub(super) width: isize,
    /// Channels of the image, which lie side by side.
    pub(super) depth: usize,
    /// The panel's packed columns, `[taps][depth][vectors * LANES]`.
    pub(super) w: *const f32,
    /// Where the first result goes, at the first column.
    pub(super) y: *mut f32,
    /// Elements from one result to the next.
    pub(super) y_stride: isize,
    /// What is added to the first result; may be null.
    pub(super) residual: *const f32,
    /// From one to the next.
    pub(super) residual_stride: isize,
    /// Results of the segment; at most [`Segment::most`].
    pub(super) len: usize,
    /// Columns of the panel that exist.
    pub(super) columns: usize,
    /// What happens to results before they are stored.
    pub(super) epilogue: &'a TileEpilogue,
}

/// A copy of the pixels under a segment.
type Copied = [MaybeUninit<f32>; MAX_PIXELS * MAX_DEPTH];

impl Segment<'_> {
    /// Most results of a segment that is `vectors` wide.
    pub(super) const fn most(vectors: usize) -> usize {
        results(vectors)
    }

    /// Computes the results of a panel of `vectors` for a window of `kernel` columns that moves
    /// by `stride`.
    ///
    /// # Safety
    ///
    /// [`can_implement`] must hold for the step. Pixels inside the image in the window's `rows` must be
    /// readable for `depth` elements; `y` writable, and the residual, if any, readable, for
    /// `columns` elements at each of `len` places. `w` must be packed for `isa` with these vectors.
    pub(super) unsafe fn run(&self, isa: Isa, vectors: usize, kernel: usize, stride: usize) {
        // SAFETY: forwarded; `isa` names a set this processor has.
        unsafe {
            match (vectors, kernel, stride) {
                (1, 3, 1) => dispatch!(isa, segment::<1, 16, 3, 1>(s: &Segment<'_>) => (self)),
                (1, 3, _) => dispatch!(isa, segment::<1, 16, 3, 2>(s: &Segment<'_>) => (self)),
                (1, _, 1) => dispatch!(isa, segment::<1, 16, 5, 1>(s: &Segment<'_>) => (self)),
                (1, _, _) => dispatch!(isa, segment::<1, 16, 5, 2>(s: &Segment<'_>) => (self)),
                (_, 3, 1) => dispatch!(isa, segment::<2, 8, 3, 1>(s: &Segment<'_>) => (self)),
                (_, 3, _) => dispatch!(isa, segment::<2, 8, 3, 2>(s: &Segment<'_>) => (self)),
                (_, _, 1) => dispatch!(isa, segment::<2, 8, 5, 1>(s: &Segment<'_>) => (self)),
                _ => dispatch!(isa, segment::<2, 8, 5, 2>(s: &Segment<'_>) => (self)),
            }
        }
    }

    /// The segment's `pixels` under window row `row`: where they start and how far apart they are.
    #[inline(never)]
    unsafe fn pixels(&self, row: usize, pixels: usize, copied: &mut Copied) -> (*const f32, isize) {
        let step = self.x_strides[1];
        let start = self.x.wrapping_offset(row as isize * self.x_strides[0]);
        if self.first >= 0 && self.first + pixels as isize <= self.width {
            return (start.wrapping_offset(self.first * step), step);
        }
        let depth = self.depth;
        // Pixels `left..right` are inside the image.
        let left = (-self.first).clamp(0, pixels as isize) as usize;
        let right = (self.width - self.first).clamp(left as isize, pixels as isize) as usize;
        copied[..left * depth].fill(MaybeUninit::new(0.0));
        copied[right * depth..pixels * depth].fill(MaybeUninit::new(0.0));
        // Pixels without gaps are one run.
        let (runs, len) = match step == depth as isize {
            true => (1, (right - left) * depth),
            false => (right - left, depth),
        };
        for run in 0..runs {
            let column = self.first + (left + run) as isize;
            // SAFETY: pixels of the image in a row that is inside it, guaranteed by the caller.
            let from = unsafe {
                std::slice::from_raw_parts(
                    start
                        .wrapping_offset(column * step)
                        .cast::<MaybeUninit<f32>>(),
                    len,
                )
            };
            let to = (left + run) * depth;
            copied[to..to + len].copy_from_slice(from);
        }
        (copied.as_ptr().cast(), depth as isize)
    }

    /// Where results `from..` go, for a tile of which `rows` exist.
    #[inline(always)]
    fn results(&self, from: usize, rows: usize) -> TileOutput<'_> {
        let at = |i: usize| (from + i.min(rows - 1)) as isize;
        TileOutput {
            y: std::array::from_fn(|i| {
                let format = self.epilogue.y_format;
                format.offset_mut(self.y, at(i) * self.y_stride)
            }),
            residual: std::array::from_fn(|i| match self.residual.is_null() {
                true => self.residual,
                false => {
                    let format = self.epilogue.residual_format;
                    format.offset(self.residual, at(i) * self.residual_stride)
                }
            }),
            columns: self.columns,
            epilogue: self.epilogue,
        }
    }
}

/// The kernel.
#[inline(always)]
#[allow(
    clippy::needless_range_loop,
    reason = "constant bounds unroll, iterators may not"
)]
unsafe fn segment<S: Simd, const NV: usize, const MR: usize, const KW: usize, const SX: usize>(
    s: &Segment<'_>,
) {
    if S::REGISTERS < 32 {
        // `can_implement` never lets one of these through; saying so keeps the code from being generated.
        return;
    }
    let mut copied: Copied = [MaybeUninit::uninit(); MAX_PIXELS * MAX_DEPTH];
    let pixels = SX * (MR - 1) + KW;
    // SAFETY: pixels are in the image or copied; weights and results are guaranteed by the caller.
    unsafe {
        let mut acc = init_accumulators::<S, NV, MR>(s.epilogue);
        let tap = s.depth * NV * S::LANES;
        for row in s.rows.clone() {
            let (x, step) = s.pixels(row, pixels, &mut copied);
            let mut w = s.w.add(row * KW * tap);
            for k in 0..s.depth {
                let mut b = [[S::splat(0.0); NV]; KW];
                for t in 0..KW {
                    for v in 0..NV {
                        b[t][v] = S::load(w.add(t * tap + v * S::LANES));
                    }
                }
                w = w.add(NV * S::LANES);
                let mut p = x.add(k);
                do_for!(i in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26
                             27 28 29 30 31 32 33 34 => {
                    if i < pixels {
                        let a = S::splat(*p);
                        p = p.wrapping_offset(step);
                        for t in 0..KW {
                            if i >= t && (i - t).is_multiple_of(SX) && (i - t) / SX < MR {
                                for v in 0..NV {
                                    let o = (i - t) / SX;
                                    acc[o][v] = S::fma(a, b[t][v], acc[o][v]);
                                }
                            }
                        }
                    }
                });
            }
        }
        store::<S, NV, MR>(s, acc);
    }
}

/// Finishes as many of the results as the segment has.
#[inline(always)]
#[allow(
    clippy::needless_range_loop,
    reason = "constant bounds unroll, iterators may not"
)]
unsafe fn store<S: Simd, const NV: usize, const MR: usize>(s: &Segment<'_>, acc: [[S::V; NV]; MR]) {
    // SAFETY: guaranteed by the caller of `Segment::run`; no more than `len` results are written.
    unsafe {
        if s.len == MR {
            // No loop: an index known at run time would keep `acc` out of the registers.
            let part: [[S::V; NV]; MAX_ROWS] = std::array::from_fn(|i| acc[i]);
            apply_epilogue_and_store::<S, NV, MAX_ROWS>(&s.results(0, MAX_ROWS), part);
            if MR > MAX_ROWS {
                let part: [[S::V; NV]; MAX_ROWS] =
                    std::array::from_fn(|i| acc[(MAX_ROWS + i).min(MR - 1)]);
                apply_epilogue_and_store::<S, NV, MAX_ROWS>(&s.results(MAX_ROWS, MAX_ROWS), part);
            }
            return;
        }
        // By way of memory, for the same reason.
        let mut spilled = [0.0_f32; MOST_LANES];
        let row = NV * S::LANES;
        for i in 0..MR {
            for v in 0..NV {
                S::store(spilled.as_mut_ptr().add(i * row + v * S::LANES), acc[i][v]);
            }
        }
        for i in 0..s.len {
            let from = spilled.as_ptr().add(i * row);
            let one = std::array::from_fn(|v| S::load(from.add(v * S::LANES)));
            apply_epilogue_and_store::<S, NV, 1>(&s.results(i, 1), [one]);
        }
    }
}
