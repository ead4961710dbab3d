//! Packing a computed matrix: into the layout of f32 that the micro-kernel reads.
//!
//! ```text
//! element (k, n) is source[k * row_stride + n * column_stride]
//! packed  panel after panel: [k][panel's columns, zero beyond the matrix]
//!
//! column_stride 1   rows of a panel are copied
//! row_stride 1      the matrix lies transposed: blocks of 4 k by LANES n are transposed in registers
//! ```
//!
//! A matrix that is packed for one product serves the product with its transpose, too: a panel of that is put together
//! where it is used ([`pack_panel_of_transpose`]), with the bits that packing the transpose would give.

#![allow(
    unsafe_code,
    reason = "reads a matrix of any strides that the caller vouches for"
)]

use spark_simd::{Isa, Simd, dispatch};

use crate::panel::{Panel, packed_len, panel_offset, panels};

/// f32 in one cache line of 64 bytes.
const LINE: usize = 16;

/// Where a matrix is.
#[derive(Clone, Copy)]
pub(crate) struct Source {
    first: *const f32,
    pub(crate) row_stride: isize,
    pub(crate) column_stride: isize,
}

impl Source {
    /// A matrix whose element `(k, n)` is at `first[k * row_stride + n * column_stride]`.
    pub(crate) fn new(first: *const f32, (row_stride, column_stride): (isize, isize)) -> Self {
        Self {
            first,
            row_stride,
            column_stride,
        }
    }

    /// Where element `(k, n)` is.
    pub(crate) fn at(&self, k: usize, n: usize) -> *const f32 {
        let offset = k as isize * self.row_stride + n as isize * self.column_stride;
        self.first.wrapping_offset(offset)
    }
}

/// A vector of columns, and its place in a packed matrix.
pub(crate) struct Columns {
    pub(crate) source: Source,
    /// So many of them exist.
    pub(crate) valid: usize,
    pub(crate) to: *mut f32,
    /// Elements from one row of the result to the next.
    pub(crate) stride: usize,
    /// Where what is packed next lies, as long as these columns and without gaps; may be null.
    pub(crate) next: *const f32,
}

/// The `n` columns of `source`, vector by vector, for a packed matrix of `rows` rows.
///
/// # Panics
///
/// If `packed` does not hold [`packed_len`].
pub(crate) fn columns(
    isa: Isa,
    source: Source,
    (rows, n): (usize, usize),
    packed: &mut [f32],
) -> impl Iterator<Item = Columns> {
    let lanes = isa.lanes();
    assert!(
        packed_len(isa, rows, n) <= packed.len(),
        "`packed` holds a matrix"
    );
    let to = packed.as_mut_ptr();
    panels(isa, n).flat_map(move |panel| {
        let width = panel.vectors * lanes;
        (0..width).step_by(lanes).map(move |column| {
            let first = panel.column + column;
            Columns {
                source: Source {
                    first: source.at(0, first),
                    ..source
                },
                valid: n.saturating_sub(first).min(lanes),
                to: to.wrapping_add(panel_offset(panel, rows) + column),
                stride: width,
                next: std::ptr::null(),
            }
        })
    })
}

/// Packs element `(k, n)` at `source[k * row_stride + n * column_stride]`.
///
/// # Safety
///
/// `source` must be readable at all those positions.
///
/// # Panics
///
/// If `packed` does not hold [`packed_len`].
pub unsafe fn pack(
    isa: Isa,
    source: *const f32,
    strides: (isize, isize),
    (depth, n): (usize, usize),
    packed: &mut [f32],
) {
    for block in columns(isa, Source::new(source, strides), (depth, n), packed) {
        let block = &block;
        // SAFETY: the source is guaranteed by the caller; the columns lie inside `packed`.
        unsafe { dispatch!(isa, pack_block(block: &Columns, depth: usize) => (block, depth)) };
    }
}

/// Puts one panel of a transpose together: of the `[n, depth]` matrix packed in `packed`, which has `depth` columns, the
/// `panel` of its transpose `[depth, n]`. Returns the panel's columns, `[depth][vectors * LANES]`, zero beyond the matrix.
///
/// # Panics
///
/// If `packed` or `to` is too short, or `panel` is none of [`panels`] of `n` columns.
///
/// # Examples
///
/// ```
/// use spark_gemm::{pack, pack_panel_of_transpose, packed_len, panels};
/// use spark_simd::Isa;
///
/// let (isa, w) = (Isa::detect(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]); // [2, 3]
/// let mut packed = vec![0.0; packed_len(isa, 2, 3)];
/// // SAFETY: rows are three elements apart, columns one.
/// unsafe { pack(isa, w.as_ptr(), (3, 1), (2, 3), &mut packed) };
/// let panel = panels(isa, 2).next().expect("one panel");
/// let mut to = vec![0.0; packed_len(isa, 3, 2)];
/// let transpose = pack_panel_of_transpose(isa, &packed, (3, 2), panel, &mut to);
/// assert_eq!(transpose[..2], [1.0, 4.0]); // the first row of the transpose
/// ```
pub fn pack_panel_of_transpose<'to>(
    isa: Isa,
    packed: &[f32],
    (depth, n): (usize, usize),
    panel: Panel,
    to: &'to mut [f32],
) -> &'to [f32] {
    let lanes = isa.lanes();
    let width = panel.vectors * lanes;
    assert!(
        packed.len() >= packed_len(isa, n, depth),
        "`packed` holds a matrix"
    );
    let is_of_matrix = panels(isa, n).any(|of| of == panel);
    assert!(is_of_matrix, "the panel is one of the matrix");
    let to = &mut to[..depth * width];
    for rows in panels(isa, depth) {
        let stride = rows.vectors * lanes;
        let n_rows = stride.min(depth - rows.column);
        for column in (0..width).step_by(lanes) {
            let first = panel.column + column;
            let held = panel_offset(rows, n) + first * stride;
            let block = &Columns {
                source: Source::new(packed[held..].as_ptr(), (1, stride as isize)),
                valid: n.saturating_sub(first).min(lanes),
                to: to[rows.column * width + column..].as_mut_ptr(),
                stride: width,
                // Rows of the same columns: far from these, so that no processor guesses them.
                next: packed.as_ptr().wrapping_add(held + n * stride),
            };
            // SAFETY: of `valid` columns from `first` on, which are rows of the packed matrix, `n_rows` elements lie in
            // `packed`; rows of the result lie in `to`, as was asserted.
            unsafe {
                dispatch!(isa, pack_block(block: &Columns, n_rows: usize) => (block, n_rows))
            };
        }
    }
    to
}

#[inline(always)]
unsafe fn pack_block<S: Simd>(block: &Columns, depth: usize) {
    let Columns { source, valid, .. } = *block;
    let is_whole = valid == S::LANES;
    // SAFETY: the caller of `pack` vouches for the source; rows of the result take a
    // vector.
    unsafe {
        if source.column_stride == 1 {
            for k in 0..depth {
                let row = match is_whole {
                    true => S::load(source.at(k, 0)),
                    false => S::load_first(source.at(k, 0), valid),
                };
                S::store(block.to.add(k * block.stride), row);
            }
            return;
        }
        let transposed = match source.row_stride == 1 && is_whole {
            true => depth / 4 * 4,
            false => 0,
        };
        for k in (0..transposed).step_by(4) {
            if !block.next.is_null() {
                for line in (0..4 * S::LANES).step_by(LINE) {
                    S::prefetch(block.next.wrapping_add(k * S::LANES + line));
                }
            }
            let columns = S::load_columns(source.at(k, 0), source.column_stride);
            let to = block.to.add(k * block.stride);
            S::store(to, columns[0]);
            S::store(to.add(block.stride), columns[1]);
            S::store(to.add(2 * block.stride), columns[2]);
            S::store(to.add(3 * block.stride), columns[3]);
        }
        for k in transposed..depth {
            let to = block.to.add(k * block.stride);
            for j in 0..S::LANES {
                *to.add(j) = match j < valid {
                    true => *source.at(k, j),
                    false => 0.0,
                };
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A matrix by rows, by columns, and as every other element of rows twice as long, with the strides of each.
    pub(crate) fn in_every_order(
        matrix: &[f32],
        depth: usize,
        n: usize,
    ) -> [(Vec<f32>, (isize, isize)); 3] {
        let spread = matrix.iter().flat_map(|&v| [v, -1.0]).collect();
        let by_column = (0..depth * n)
            .map(|i| matrix[i % depth * n + i / depth])
            .collect();
        let (depth, n) = (depth as isize, n as isize);
        [
            (matrix.to_vec(), (n, 1)),
            (by_column, (1, depth)),
            (spread, (2 * n, 2)),
        ]
    }

    #[test]
    fn a_panel_of_the_transpose_is_that_of_the_transpose_packed() {
        for isa in Isa::available() {
            for (depth, n) in [
                (1, 1),
                (4, isa.lanes()),
                (7, 37),
                (64, 5),
                (3, 197),
                (130, 66),
            ] {
                let matrix: Vec<f32> = (0..depth * n).map(|i| i as f32 + 1.0).collect();
                let [(rows, by_row), (columns, by_column), _] = in_every_order(&matrix, depth, n);
                let mut want = vec![f32::NAN; packed_len(isa, depth, n)];
                let mut packed = vec![f32::NAN; packed_len(isa, n, depth)];
                // SAFETY: the strides reach every element of the sources and none beyond. The second lies transposed.
                unsafe {
                    pack(isa, rows.as_ptr(), by_row, (depth, n), &mut want);
                    let turned = (by_column.1, by_column.0);
                    pack(isa, columns.as_ptr(), turned, (n, depth), &mut packed);
                }
                for panel in panels(isa, n) {
                    let len = depth * panel.vectors * isa.lanes();
                    let mut to = vec![f32::NAN; len + 3];
                    let got = pack_panel_of_transpose(isa, &packed, (depth, n), panel, &mut to);
                    let start = panel_offset(panel, depth);
                    assert_eq!(
                        got,
                        &want[start..start + len],
                        "{isa:?} {depth}x{n} {panel:?}"
                    );
                    assert!(
                        to[len..].iter().all(|v| v.is_nan()),
                        "nothing is written beyond"
                    );
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "the panel is one of the matrix")]
    fn a_panel_of_another_matrix_is_refused() {
        let isa = Isa::detect();
        let packed = vec![0.0; packed_len(isa, 8, 8)];
        let panel = Panel {
            column: 1 << 20,
            vectors: 1,
        };
        pack_panel_of_transpose(isa, &packed, (8, 8), panel, &mut [0.0; 1024]);
    }

    #[test]
    fn every_order_and_shape_lands_where_the_kernel_reads() {
        for isa in Isa::available() {
            for (depth, n) in [(1, 1), (4, isa.lanes()), (7, 37), (64, 5), (3, 197), (0, 4)] {
                let matrix: Vec<f32> = (0..depth * n).map(|i| i as f32 + 1.0).collect();
                for (source, strides) in in_every_order(&matrix, depth, n) {
                    let mut packed = vec![f32::NAN; packed_len(isa, depth, n)];
                    // SAFETY: the strides reach every element of the source and none beyond.
                    unsafe { pack(isa, source.as_ptr(), strides, (depth, n), &mut packed) };
                    for panel in panels(isa, n) {
                        let width = panel.vectors * isa.lanes();
                        for (k, j) in (0..depth).flat_map(|k| (0..width).map(move |j| (k, j))) {
                            let got = packed[panel_offset(panel, depth) + k * width + j];
                            let column = panel.column + j;
                            let want = match column < n {
                                true => matrix[k * n + column],
                                false => 0.0,
                            };
                            assert_eq!(got, want, "{isa:?} {depth}x{n} {strides:?} {k} {column}");
                        }
                    }
                }
            }
        }
    }
}
