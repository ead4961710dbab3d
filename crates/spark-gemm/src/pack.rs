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
    pub(crate) first: *const f32,
    pub(crate) row_stride: isize,
    pub(crate) column_stride: isize,
}

impl Source {
    /// Where element `(k, n)` is.
    pub(crate) fn at(&self, k: usize, n: usize) -> *const f32 {
        let offset = k as isize * self.row_stride + n as isize * self.column_stride;
        self.first.wrapping_offset(offset)
    }
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
    (row_stride, column_stride): (isize, isize),
    (depth, n): (usize, usize),
    packed: &mut [f32],
) {
    let lanes = isa.lanes();
    assert!(
        packed_len(isa, depth, n) <= packed.len(),
        "`packed` holds a matrix"
    );
    let source = Source {
        first: source,
        row_stride,
        column_stride,
    };
    for panel in panels(isa, n) {
        let width = panel.vectors * lanes;
        let start = panel_offset(panel, depth);
        let to = packed[start..start + depth * width].as_mut_ptr();
        for column in (0..width).step_by(lanes) {
            let first = panel.column + column;
            // A vector of columns; its rows are `width` apart.
            let block = Block {
                source: Source {
                    first: source.at(0, first),
                    ..source
                },
                depth,
                valid: n.saturating_sub(first).min(lanes),
                to: to.wrapping_add(column),
                stride: width,
            };
            let block = &block;
            // SAFETY: the source is guaranteed by the caller; the block lies inside `packed`.
            unsafe { dispatch!(isa, pack_block(block: &Block) => (block)) };
        }
    }
}

/// A vector of columns, `valid` of which exist.
struct Block {
    source: Source,
    depth: usize,
    valid: usize,
    to: *mut f32,
    /// Elements from one row of the result to the next.
    stride: usize,
}

#[inline(always)]
unsafe fn pack_block<S: Simd>(block: &Block) {
    let Block { depth, valid, .. } = *block;
    let is_whole = valid == S::LANES;
    let source = block.source;
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
mod tests {
    use super::*;

    #[test]
    fn every_order_and_shape_lands_where_the_kernel_reads() {
        for isa in Isa::available() {
            for (depth, n) in [(1, 1), (4, isa.lanes()), (7, 37), (64, 5), (3, 197), (0, 4)] {
                let matrix: Vec<f32> = (0..depth * n).map(|i| i as f32 + 1.0).collect();
                // By rows, by columns, and every other element of rows twice as long.
                let spread: Vec<f32> = matrix.iter().flat_map(|&v| [v, -1.0]).collect();
                let by_column: Vec<f32> = (0..depth * n)
                    .map(|i| matrix[i % depth * n + i / depth])
                    .collect();
                for (source, strides) in [
                    (&matrix, (n, 1)),
                    (&by_column, (1, depth)),
                    (&spread, (2 * n, 2)),
                ] {
                    let mut packed = vec![f32::NAN; packed_len(isa, depth, n)];
                    let strides = (strides.0 as isize, strides.1 as isize);
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
