//! A panel of a matmul, tile after tile.
//!
//! ```text
//! M rows   N columns   K depth      y[m, n] = epilogue(sum over k of x[m, k] w[k, n])
//! w packed:  panel of NV vectors:  [k][NV * LANES]      read once, in order
//! ```
//!
//! Columns and rows are shared out between threads by the caller: any division into panels and ranges of
//! rows gives the same bits.

#![allow(
    unsafe_code,
    reason = "moves pointers through operands that the caller vouches for"
)]

use spark_simd::Isa;

use crate::epilogue::{TileEpilogue, TileOutput};
use crate::float_format::FloatFormat;
use crate::kernel::PanelRows;
use crate::layout::PackedLayout;
use crate::panel::{MAX_ROWS, Panel, next_rows, panel_offset};
use crate::prefetch::Prefetch;
use crate::tile::{Tile, TileShape};

/// A matmul whose rows are evenly spaced: `y[m] = epilogue(x[m] w)`. Nothing is checked: see [`gemm_panel`].
#[derive(Debug, Clone, Copy)]
pub struct Gemm {
    /// First row of the left operand.
    pub x: *const f32,
    /// How it is held, as in [`Tile::x_format`].
    pub x_format: FloatFormat,
    /// Elements from one row to the next.
    pub x_stride: isize,
    /// First row of the result, held as the epilogue says.
    pub y: *mut f32,
    /// Elements from one row to the next.
    pub y_stride: isize,
    /// First row of the residual, held as the epilogue says; may be null.
    pub residual: *const f32,
    /// Elements from one row to the next.
    pub residual_stride: isize,
    /// Rows of `x` and of the result.
    pub m: usize,
    /// Depth: elements of a row of `x`, rows of the packed matrix.
    pub k: usize,
    /// Columns of the packed matrix and of the result.
    pub n: usize,
    /// How the packed matrix is held.
    pub layout: PackedLayout,
    /// Applied to the result before it is stored; `bias` for column 0, padded to whole vectors.
    pub epilogue: TileEpilogue,
}

/// Pointers `stride` elements apart; those beyond a tile's own rows may lie outside of the operand.
#[inline(always)]
fn evenly_spaced(format: FloatFormat, first: *const f32, stride: isize) -> [*const f32; MAX_ROWS] {
    std::array::from_fn(|i| format.offset(first, i as isize * stride))
}

/// Computes rows `first..last` of the columns of one panel.
///
/// # Safety
///
/// The pointers of `gemm` must be valid for its shape, `w` a matrix packed by
/// [`PackedLayout::pack`] for the same instruction set, and rows and columns not written by another thread meanwhile.
pub unsafe fn gemm_panel(isa: Isa, gemm: &Gemm, w: *const f32, panel: Panel, rows: (usize, usize)) {
    // SAFETY: forwarded.
    unsafe { gemm_panel_converting(isa, gemm, w, panel, rows, std::ptr::null_mut()) }
}

/// Whether [`gemm_panel_taps`] computes these formats and layout.
pub fn has_panel_taps(
    layout: PackedLayout,
    x_format: FloatFormat,
    epilogue: &TileEpilogue,
) -> bool {
    let held = [x_format, epilogue.y_format, epilogue.residual_format];
    match layout {
        PackedLayout::F32 => held == [FloatFormat::F32; 3],
        layout => layout == PackedLayout::Bf16Dot,
    }
}

/// The same as a sum over taps, each `k` deep, `offsets` elements from a row of `x`: a convolution where its windows lie
/// inside the image. The packed matrix has one matrix `k` deep for every tap, in this order; results have the bits of
/// [`Tile::run`] over these taps.
///
/// # Safety
///
/// As [`gemm_panel`], where a row of `x` is what lies at every offset; [`has_panel_taps`] must hold.
pub unsafe fn gemm_panel_taps(
    isa: Isa,
    gemm: &Gemm,
    offsets: &[isize],
    w: *const f32,
    panel: Panel,
    rows: (usize, usize),
) {
    debug_assert!(has_panel_taps(gemm.layout, gemm.x_format, &gemm.epilogue));
    let panel = PanelOf::new(isa, gemm, offsets.len(), w, panel);
    // SAFETY: forwarded.
    unsafe { panel.run(gemm, offsets, panel.packed, rows) }
}

/// What is the same for all rows of a panel.
struct PanelOf {
    isa: Isa,
    vectors: usize,
    columns: usize,
    epilogue: TileEpilogue,
    /// Results and residual at the panel's first column.
    y: *mut f32,
    residual: *const f32,
    residual_stride: isize,
    /// Words of a column, of all taps.
    words: usize,
    /// The panel's packed columns, and the words they take.
    packed: *const f32,
    len: usize,
}

impl PanelOf {
    fn new(isa: Isa, p: &Gemm, taps: usize, w: *const f32, panel: Panel) -> Self {
        let mut epilogue = p.epilogue;
        if !epilogue.bias.is_null() {
            epilogue.bias = epilogue.bias.wrapping_add(panel.column);
        }
        let (y_format, residual_format) = (epilogue.y_format, epilogue.residual_format);
        let column = panel.column as isize;
        let (residual, residual_stride) = match p.residual.is_null() {
            true => (p.residual, 0),
            false => (
                residual_format.offset(p.residual, column),
                p.residual_stride,
            ),
        };
        let words = taps * p.layout.words(p.k);
        Self {
            isa,
            vectors: panel.vectors,
            columns: (panel.vectors * isa.lanes()).min(p.n - panel.column),
            epilogue,
            y: y_format.offset_mut(p.y, column),
            residual,
            residual_stride,
            words,
            packed: w.wrapping_add(panel_offset(panel, words)),
            len: words * panel.vectors * isa.lanes(),
        }
    }

    /// Computes rows `first..last` in one call, from columns at `w`, which are f32 or pairs for dot products.
    ///
    /// # Safety
    ///
    /// As [`gemm_panel_taps`].
    unsafe fn run(
        &self,
        p: &Gemm,
        offsets: &[isize],
        w: *const f32,
        (first, last): (usize, usize),
    ) {
        let (y_format, residual_format) = (self.epilogue.y_format, self.epilogue.residual_format);
        let at = |stride: isize| first as isize * stride;
        let rows = PanelRows {
            x: (p.x_format.offset(p.x, at(p.x_stride)), p.x_stride),
            x_format: p.x_format,
            offsets,
            y: (y_format.offset_mut(self.y, at(p.y_stride)), p.y_stride),
            residual: (
                residual_format.offset(self.residual, at(self.residual_stride)),
                self.residual_stride,
            ),
            w,
            next: (self.packed.wrapping_add(self.len), self.len),
            k: p.k,
            rows: last - first,
            columns: self.columns,
            epilogue: &self.epilogue,
        };
        // SAFETY: rows and the panel's columns exist, guaranteed by the caller, who has checked that the processor has
        // the layout's instructions.
        unsafe {
            match p.layout {
                #[cfg(target_arch = "x86_64")]
                PackedLayout::Bf16Dot => rows.run_bf16_dot(self.vectors),
                _ => rows.run(self.isa, self.vectors),
            }
        }
    }
}

/// The same with workspace for a panel as f32 at `converted`, unless it is null: the first tile writes
/// f16 columns there, the others read them there.
///
/// # Safety
///
/// As [`gemm_panel`]; `converted` must be writable for `k * vectors * LANES` elements and not used
/// by another thread meanwhile.
pub unsafe fn gemm_panel_converting(
    isa: Isa,
    gemm: &Gemm,
    w: *const f32,
    panel: Panel,
    (first, last): (usize, usize),
    converted: *mut f32,
) {
    let p = gemm;
    let of = PanelOf::new(isa, gemm, 1, w, panel);
    let PanelOf {
        epilogue,
        y,
        residual,
        residual_stride,
        words,
        packed,
        len,
        ..
    } = of;
    let (y_format, residual_format) = (epilogue.y_format, epilogue.residual_format);
    // Rows without gaps are prefetched, as another thread may have left them in its cache.
    let has_dense_rows = p.x_stride == p.k as isize;
    let is_f32 = [p.x_format, y_format, residual_format] == [FloatFormat::F32; 3];
    // Where the next tile finds the panel, and as what.
    let (mut held, mut held_as) = (packed, p.layout);
    let (mut m, mut index) = (first, 0);
    while m < last {
        if held_as == PackedLayout::F32 && is_f32 || held_as == PackedLayout::Bf16Dot {
            // SAFETY: all that is left, guaranteed by the caller; f16 columns were converted to f32.
            return unsafe { of.run(p, &[0], held, (m, last)) };
        }
        let rows = next_rows(panel.vectors, last - m);
        let converts = held_as == PackedLayout::F16 && !converted.is_null() && m + rows < last;
        let row = m as isize;
        let mut prefetch = Prefetch::share(packed.wrapping_add(len), len, words, index);
        if has_dense_rows {
            // Behind the last one begin those of the next task.
            let next = p.x_format.offset(p.x, (m + rows) as isize * p.x_stride);
            let bytes = rows * p.k * p.x_format.size_bytes();
            prefetch = prefetch.and_rows(next, bytes / size_of::<f32>() / words.max(1));
        }
        let tile = Tile {
            x: evenly_spaced(
                p.x_format,
                p.x_format.offset(p.x, row * p.x_stride),
                p.x_stride,
            ),
            x_format: p.x_format,
            offsets: &[0],
            border: None,
            w: held,
            layout: held_as,
            converted: match converts {
                true => converted,
                false => std::ptr::null_mut(),
            },
            prefetch,
            shape: TileShape {
                taps: 1,
                depth: p.k,
            },
            output: TileOutput {
                y: evenly_spaced(
                    y_format,
                    y_format.offset(y.cast_const(), row * p.y_stride),
                    p.y_stride,
                )
                .map(<*const f32>::cast_mut),
                residual: evenly_spaced(
                    residual_format,
                    residual_format.offset(residual, row * residual_stride),
                    residual_stride,
                ),
                columns: of.columns,
                epilogue: &epilogue,
            },
        };
        // SAFETY: rows first..last and the panel's columns exist, guaranteed by the caller.
        unsafe { tile.run(isa, panel.vectors, rows) };
        if converts {
            (held, held_as) = (converted.cast_const(), PackedLayout::F32);
        }
        m += rows;
        index += 1;
    }
}

#[cfg(test)]
mod tests;
