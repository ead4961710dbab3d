//! A panel of f32 weights, all its tiles in one function.
//!
//! ```text
//! for tile of MR rows:   acc = bias;  for tap, k: acc += x[i + tap, k] w[tap, k];  store epilogue(acc)
//! ```
//!
//! With few columns of `x` a tile is short: what is between two of them, pointers above all, is
//! here a few additions of addresses. The products are those of `weights_f32`, in the same order.

use spark_simd::Simd;

use crate::epilogue::{TileEpilogue, TileOutput, apply_epilogue_and_store, init_accumulators};
use crate::float_format::FloatFormat;
use crate::panel::{MAX_ROWS, max_panel_of, next_rows};
use crate::prefetch::Prefetch;

/// How operands and results of a panel of f32 are held.
pub(super) const F32: FloatFormat = FloatFormat::F32;

/// Evenly spaced rows of a matmul, and the panel they are multiplied by.
pub(crate) struct PanelRows<'a> {
    /// First row of the left operand, and elements from one to the next.
    pub(crate) x: (*const f32, isize),
    /// How they are held: as f32, unless dot products of bf16 read them.
    pub(crate) x_format: FloatFormat,
    /// Elements from a row to each of the taps that are summed over; one of zero for a plain matmul.
    pub(crate) offsets: &'a [isize],
    /// The same of the result, at the panel's first column.
    pub(crate) y: (*mut f32, isize),
    /// The same of what is added to it; may be null.
    pub(crate) residual: (*const f32, isize),
    /// The panel's packed columns.
    pub(crate) w: *const f32,
    /// The next panel as it is packed, and its elements: what is prefetched meanwhile.
    pub(crate) next: (*const f32, usize),
    /// Depth of a tap.
    pub(crate) k: usize,
    /// Rows.
    pub(crate) rows: usize,
    /// Columns that exist: they reach into the last vector.
    pub(crate) columns: usize,
    /// What happens to the results before they are stored.
    pub(crate) epilogue: &'a TileEpilogue,
}

impl PanelRows<'_> {
    /// The taps, which the compiler knows to be one of zero unless there are `TAPS`: a loop over them costs a tenth of a
    /// short tile.
    #[inline(always)]
    pub(super) fn taps<const TAPS: bool>(&self) -> &[isize] {
        match TAPS {
            true => self.offsets,
            false => &[0],
        }
    }

    /// Rows `m..m + MR` of the left operand at the tap `tap` elements on, held in the kernel's `format`.
    #[inline(always)]
    pub(super) fn x_rows<const MR: usize>(
        &self,
        m: usize,
        tap: isize,
        format: FloatFormat,
    ) -> [*const f32; MR] {
        let (x, stride) = self.x;
        std::array::from_fn(|i| format.offset(x, (m + i) as isize * stride + tap))
    }

    /// What tile `index`, of rows `m..m + MR`, prefetches: its share of the next panel,
    /// and the rows behind its own where there are no gaps between them, as another thread may have left them in
    /// its cache.
    /// A step is a word of the packed columns.
    #[inline(always)]
    pub(super) fn prefetch<const MR: usize, const TAPS: bool>(
        &self,
        m: usize,
        index: usize,
        format: FloatFormat,
    ) -> Prefetch {
        let per_word = size_of::<f32>() / format.size_bytes();
        let words = self.taps::<TAPS>().len() * self.k.div_ceil(per_word);
        let prefetch = Prefetch::share(self.next.0, self.next.1, words, index);
        let (x, stride) = self.x;
        match stride == self.k as isize {
            // Behind the last one begin those of the next task.
            true => prefetch.and_rows(format.offset(x, (m + MR) as isize * stride), MR),
            false => prefetch,
        }
    }

    /// Where the results of rows `m..m + MR` go, held in `y_format`, as the residual is in `residual_format`.
    #[inline(always)]
    pub(super) fn output<const MR: usize>(
        &self,
        m: usize,
        y_format: FloatFormat,
        residual_format: FloatFormat,
    ) -> TileOutput<'_> {
        let row = |i: usize| (m + i.min(MR - 1)) as isize;
        let ((y, stride), (residual, residual_stride)) = (self.y, self.residual);
        TileOutput {
            y: std::array::from_fn::<_, MAX_ROWS, _>(|i| y_format.offset_mut(y, row(i) * stride)),
            residual: std::array::from_fn(|i| {
                residual_format.offset(residual, row(i) * residual_stride)
            }),
            columns: self.columns,
            epilogue: self.epilogue,
        }
    }
}

/// All rows of a panel of `NV` vectors; of a plain matmul unless there are `TAPS`.
#[inline(always)]
pub(super) unsafe fn panel_f32<S: Simd, const NV: usize, const TAPS: bool>(p: &PanelRows<'_>) {
    if NV > max_panel_of::<S>() {
        // `panels` never makes one so wide; saying so keeps its code from being generated.
        return;
    }
    let (mut m, mut index) = (0, 0);
    while m < p.rows {
        let n = next_rows(NV, p.rows - m);
        // SAFETY: rows `m..m + n` exist.
        unsafe {
            match n {
                8 => tile::<S, NV, 8, TAPS>(p, m, index),
                6 => tile::<S, NV, 6, TAPS>(p, m, index),
                4 => tile::<S, NV, 4, TAPS>(p, m, index),
                _ => tile::<S, NV, 1, TAPS>(p, m, index),
            }
        }
        m += n;
        index += 1;
    }
}

/// Rows `m..m + MR`, tile `index`.
#[inline(always)]
#[allow(
    clippy::needless_range_loop,
    reason = "constant bounds unroll, iterators may not"
)]
unsafe fn tile<S: Simd, const NV: usize, const MR: usize, const TAPS: bool>(
    p: &PanelRows<'_>,
    m: usize,
    index: usize,
) {
    // SAFETY: every pointer is moved only to rows and columns that exist.
    unsafe {
        let mut acc = init_accumulators::<S, NV, MR>(p.epilogue);
        let mut w = p.w;
        let prefetch = p.prefetch::<MR, TAPS>(m, index, F32);
        let mut ahead = prefetch.start;
        for &offset in p.taps::<TAPS>() {
            let x: [*const f32; MR] = p.x_rows(m, offset, F32);
            for k in 0..p.k {
                let b: [S::V; NV] = std::array::from_fn(|v| S::load(w.add(v * S::LANES)));
                w = w.add(NV * S::LANES);
                prefetch.issue::<S, NV, MR>(w, &mut ahead);
                for i in 0..MR {
                    let a = S::splat(*x[i].add(k));
                    for v in 0..NV {
                        acc[i][v] = S::fma(a, b[v], acc[i][v]);
                    }
                }
            }
        }
        apply_epilogue_and_store::<S, NV, MR>(&p.output::<MR>(m, F32, F32), acc);
    }
}
