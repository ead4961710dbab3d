//! Packing a computed matrix: into the layout of f32 that the micro-kernel reads.
//!
//! ```text
//! element (k, n) is source[k * row_stride + n * column_stride]
//! packed  panel after panel: [k][panel's columns, zero beyond the matrix]
//!
//! column_stride 1   rows of a panel are copied
//! row_stride 1      the matrix lies transposed: blocks of 4 k by LANES n are transposed in registers
//! ```

#![allow(
    unsafe_code,
    reason = "reads a matrix of any strides that the caller vouches for"
)]

use spark_simd::{Isa, Simd, dispatch};

use crate::panel::{packed_len, panel_offset, panels};

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
