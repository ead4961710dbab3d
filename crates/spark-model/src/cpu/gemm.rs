//! The product micro-kernel under every convolution and matrix product.
//!
//! ```text
//! M rows (pixels)   N columns (output channels)   T taps   K input channels per tap
//!
//! y[m, n] = epilogue( sum over t, k of x[row(m, t) + k] * w[t, k, n] )
//!
//! w packed:  panel of NV vectors:  [t][k][NV * LANES]      read once, in order
//! tile:      MR rows x NV vectors of accumulators stay in registers for all t and k;
//!            each step loads NV vectors of w and broadcasts MR elements of x
//! ```
//!
//! 1. Rows are given by pointers, so an image is never unrolled into a matrix: a tap
//!    outside the image points at zeros. (The idea is XNNPACK's indirect convolution:
//!    M. Dukhan, "The Indirect Convolution Algorithm", 2019.)
//! 2. Bias, residual and clamp are applied in registers; other activations run over the
//!    row segment just stored, while it is in the nearest cache.
//! 3. The order of additions depends on the shapes alone, not on threads or tiles.

use super::math;
use super::simd::{Isa, Simd, dispatch};
use crate::plan::Activation;

/// Most vectors a panel is wide.
fn max_panel_vectors(isa: Isa) -> usize {
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => 2,
        Isa::Scalar => 2,
        _ => 4,
    }
}

/// One panel of packed columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Panel {
    /// First column.
    pub(crate) column: usize,
    /// Vectors, the last perhaps partly beyond the matrix (zero there).
    pub(crate) vectors: usize,
}

/// How `n` columns are cut into panels: as few as possible, as even as possible.
pub(crate) fn panels(isa: Isa, n: usize) -> impl Iterator<Item = Panel> + Clone {
    let lanes = isa.lanes();
    let vectors = n.div_ceil(lanes);
    let count = vectors.div_ceil(max_panel_vectors(isa)).max(1);
    (0..count).map(move |i| {
        let first = vectors * i / count;
        Panel {
            column: first * lanes,
            vectors: vectors * (i + 1) / count - first,
        }
    })
}

/// Elements a packed `[depth, n]` matrix takes.
pub(crate) fn packed_len(isa: Isa, depth: usize, n: usize) -> usize {
    depth * n.next_multiple_of(isa.lanes())
}

/// Start of a panel in a packed matrix.
pub(crate) fn panel_offset(panel: Panel, depth: usize) -> usize {
    depth * panel.column
}

/// Packs element `(k, n)` at `source[k * row_stride + n * column_stride]`.
///
/// # Safety
///
/// `source` must be readable at all those positions; `packed` must hold [`packed_len`].
pub(crate) unsafe fn pack(
    isa: Isa,
    source: *const f32,
    (row_stride, column_stride): (isize, isize),
    (depth, n): (usize, usize),
    packed: &mut [f32],
) {
    let lanes = isa.lanes();
    for panel in panels(isa, n) {
        let width = panel.vectors * lanes;
        let valid = width.min(n - panel.column);
        let start = panel_offset(panel, depth);
        let rows = packed[start..start + depth * width].chunks_exact_mut(width.max(1));
        for (k, row) in rows.enumerate() {
            let base = k as isize * row_stride + panel.column as isize * column_stride;
            for (j, to) in row[..valid].iter_mut().enumerate() {
                // SAFETY: `k < depth` and `panel.column + j < n`, which the caller vouches for.
                *to = unsafe { *source.offset(base + j as isize * column_stride) };
            }
            row[valid..].fill(0.0);
        }
    }
}

/// Where the rows of a tile are read, tap by tap.
pub(crate) trait Rows {
    /// Pointers to `K` elements for each of the tile's rows at tap `tap`.
    ///
    /// # Safety
    ///
    /// `tap` must be below the product's number of taps.
    unsafe fn at<const MR: usize>(&self, tap: usize) -> [*const f32; MR];
}

/// Rows at fixed places plus an offset per tap.
pub(crate) struct PlainRows<'a, const N: usize> {
    /// Start of every row at offset zero.
    pub(crate) base: [*const f32; N],
    /// Elements from there, per tap.
    pub(crate) offsets: &'a [isize],
}

impl<const N: usize> Rows for PlainRows<'_, N> {
    #[inline(always)]
    unsafe fn at<const MR: usize>(&self, tap: usize) -> [*const f32; MR] {
        // SAFETY: `tap` is in range by the trait's contract.
        let offset = unsafe { *self.offsets.get_unchecked(tap) };
        std::array::from_fn(|i| self.base[i].wrapping_offset(offset))
    }
}

/// What happens to a tile's results before they are stored.
#[derive(Clone, Copy)]
pub(crate) struct TileEpilogue {
    /// One value per column of the panel, padded to whole vectors; may be null.
    pub(crate) bias: *const f32,
    /// The function.
    pub(crate) activation: Activation,
    /// Whether the activation comes after the residual.
    pub(crate) residual_first: bool,
    /// Instruction set, for functions applied after storing.
    pub(crate) isa: Isa,
}

/// Depth and width of a tile.
#[derive(Clone, Copy)]
pub(crate) struct TileShape {
    /// Taps.
    pub(crate) taps: usize,
    /// Elements per tap and row.
    pub(crate) depth: usize,
    /// Columns of the panel that exist; more than all but the last vector.
    pub(crate) columns: usize,
}

/// Computes one tile of `MR` rows by `NV` vectors.
///
/// # Safety
///
/// `rows` must give pointers readable for `shape.depth` elements; `w` must hold
/// `taps * depth * NV * LANES` elements, `bias` `NV * LANES` if not null; each of `y`
/// must be writable, and each of `residual`, if not null, readable for `shape.columns`.
#[inline(always)]
pub(crate) unsafe fn tile<S: Simd, R: Rows, const MR: usize, const NV: usize>(
    rows: &R,
    w: *const f32,
    shape: TileShape,
    y: &[*mut f32; MR],
    residual: &[*const f32; MR],
    epilogue: &TileEpilogue,
) {
    // SAFETY: every pointer is moved only within the ranges of the function's contract.
    unsafe {
        let mut acc = [[S::splat(0.0); NV]; MR];
        if !epilogue.bias.is_null() {
            let bias: [S::V; NV] =
                std::array::from_fn(|v| S::load(epilogue.bias.add(v * S::LANES)));
            acc = [bias; MR];
        }
        let mut w = w;
        for tap in 0..shape.taps {
            let x: [*const f32; MR] = rows.at(tap);
            for k in 0..shape.depth {
                let b: [S::V; NV] = std::array::from_fn(|v| S::load(w.add(v * S::LANES)));
                w = w.add(NV * S::LANES);
                for i in 0..MR {
                    let a = S::splat(*x[i].add(k));
                    for v in 0..NV {
                        acc[i][v] = S::fma(a, b[v], acc[i][v]);
                    }
                }
            }
        }
        let last = shape.columns - (NV - 1) * S::LANES;
        if epilogue.residual_first && !residual[0].is_null() {
            for i in 0..MR {
                add_row::<S, NV>(&mut acc[i], residual[i], last);
            }
        }
        if let Activation::Clamp { low, high } = epilogue.activation {
            let (low, high) = (S::splat(low), S::splat(high));
            for row in &mut acc {
                for value in row.iter_mut() {
                    // The bound first: `max` and `min` give the second operand for NaN.
                    *value = S::min(high, S::max(low, *value));
                }
            }
        }
        for i in 0..MR {
            for (v, &value) in acc[i][..NV - 1].iter().enumerate() {
                S::store(y[i].add(v * S::LANES), value);
            }
            let end = y[i].add((NV - 1) * S::LANES);
            if last == S::LANES {
                S::store(end, acc[i][NV - 1]);
            } else {
                S::store_first(end, acc[i][NV - 1], last);
            }
        }
        if let Activation::Function(function) = epilogue.activation {
            for &row in y {
                let row = std::slice::from_raw_parts_mut(row, shape.columns);
                math::apply(epilogue.isa, function, row);
            }
        }
        if !epilogue.residual_first && !residual[0].is_null() {
            for i in 0..MR {
                let row = std::slice::from_raw_parts_mut(y[i], shape.columns);
                for (j, value) in row.iter_mut().enumerate() {
                    *value += *residual[i].add(j);
                }
            }
        }
    }
}

/// Adds `NV` vectors, the last of `last` elements, from `p`.
#[inline(always)]
unsafe fn add_row<S: Simd, const NV: usize>(acc: &mut [S::V; NV], p: *const f32, last: usize) {
    // SAFETY: the caller vouches for `(NV - 1) * LANES + last` readable elements.
    unsafe {
        for (v, value) in acc[..NV - 1].iter_mut().enumerate() {
            *value = S::add(*value, S::load(p.add(v * S::LANES)));
        }
        let end = p.add((NV - 1) * S::LANES);
        let tail = if last == S::LANES {
            S::load(end)
        } else {
            S::load_first(end, last)
        };
        acc[NV - 1] = S::add(acc[NV - 1], tail);
    }
}

/// A product whose rows are evenly spaced: `y[m] = epilogue(x[m] * w)`.
#[derive(Clone, Copy)]
pub(crate) struct RowsProduct {
    /// First row.
    pub(crate) x: *const f32,
    /// Elements from one row to the next.
    pub(crate) x_stride: isize,
    /// First row of the result.
    pub(crate) y: *mut f32,
    /// Elements from one row to the next.
    pub(crate) y_stride: isize,
    /// First row of the residual; may be null.
    pub(crate) residual: *const f32,
    /// Elements from one row to the next.
    pub(crate) residual_stride: isize,
    /// Rows.
    pub(crate) m: usize,
    /// Depth.
    pub(crate) k: usize,
    /// Columns.
    pub(crate) n: usize,
    /// After the product; `bias` for column 0, padded to whole vectors.
    pub(crate) epilogue: TileEpilogue,
}

/// Rows `first..last` of the columns of one panel.
///
/// # Safety
///
/// The pointers of `product` must be valid for its shape, `w` a matrix packed by [`pack`] for
/// the same instruction set, and rows and columns not written by another thread meanwhile.
pub(crate) unsafe fn product_rows(
    isa: Isa,
    product: &RowsProduct,
    w: *const f32,
    panel: Panel,
    (first, last): (usize, usize),
) {
    // SAFETY: forwarded; `isa` names a set this processor has.
    unsafe {
        match panel.vectors {
            1 => {
                dispatch!(isa, product_kernel::<1, 8>(product: &RowsProduct, w: *const f32, panel: Panel, first: usize, last: usize) => (product, w, panel, first, last))
            }
            2 => {
                dispatch!(isa, product_kernel::<2, 6>(product: &RowsProduct, w: *const f32, panel: Panel, first: usize, last: usize) => (product, w, panel, first, last))
            }
            3 => {
                dispatch!(isa, product_kernel::<3, 8>(product: &RowsProduct, w: *const f32, panel: Panel, first: usize, last: usize) => (product, w, panel, first, last))
            }
            _ => {
                dispatch!(isa, product_kernel::<4, 6>(product: &RowsProduct, w: *const f32, panel: Panel, first: usize, last: usize) => (product, w, panel, first, last))
            }
        }
    }
}

#[inline(always)]
unsafe fn product_kernel<S: Simd, const NV: usize, const MR: usize>(
    p: &RowsProduct,
    w: *const f32,
    panel: Panel,
    first: usize,
    last: usize,
) {
    // SAFETY: the caller vouches for every row in `first..last` and the panel's columns.
    unsafe {
        let w = w.add(panel_offset(panel, p.k));
        let mut m = first;
        while m + MR <= last {
            product_tile::<S, NV, MR>(p, w, panel, m);
            m += MR;
        }
        while m + 4 <= last {
            product_tile::<S, NV, 4>(p, w, panel, m);
            m += 4;
        }
        while m < last {
            product_tile::<S, NV, 1>(p, w, panel, m);
            m += 1;
        }
    }
}

#[inline(always)]
unsafe fn product_tile<S: Simd, const NV: usize, const MR: usize>(
    p: &RowsProduct,
    w: *const f32,
    panel: Panel,
    m: usize,
) {
    let shape = TileShape {
        taps: 1,
        depth: p.k,
        columns: (panel.vectors * S::LANES).min(p.n - panel.column),
    };
    let column = panel.column;
    let row = |i: usize| (m + i) as isize;
    let rows = PlainRows {
        base: std::array::from_fn::<_, MR, _>(|i| p.x.wrapping_offset(row(i) * p.x_stride)),
        offsets: &[0],
    };
    let y = std::array::from_fn(|i| {
        p.y.wrapping_offset(row(i) * p.y_stride)
            .wrapping_add(column)
    });
    let residual = std::array::from_fn(|i| {
        if p.residual.is_null() {
            std::ptr::null()
        } else {
            p.residual
                .wrapping_offset(row(i) * p.residual_stride)
                .wrapping_add(column)
        }
    });
    let mut epilogue = p.epilogue;
    if !epilogue.bias.is_null() {
        epilogue.bias = epilogue.bias.wrapping_add(column);
    }
    // SAFETY: rows m..m + MR exist by the caller's word; the panel's columns likewise.
    unsafe { tile::<S, _, MR, NV>(&rows, w, shape, &y, &residual, &epilogue) }
}

#[cfg(test)]
mod tests;
