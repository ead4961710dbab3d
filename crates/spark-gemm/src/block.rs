//! The micro-kernel for safe code: small blocks, checked slices.
//!
//! ```text
//! y[m, n] (+)= sum over k of x[m, k] * block[k, n]        n at most max_columns(isa)
//!
//! block   k rows of row_len(isa, n) floats, the columns beyond n zero: the order the
//!         micro-kernel reads, so whoever fills the block also packs it
//! ```
//!
//! Callers cut their columns into blocks and their depth into pieces that stay in a cache;
//! what fills a block (rows, columns, an unfolded image) is theirs.
//!
//! Deliberately absent: threads, transposition, epilogues.

#![allow(
    unsafe_code,
    reason = "calls the kernel with slices that were held against the shape"
)]

use spark_simd::Isa;

use crate::epilogue::TileEpilogue;
use crate::float_format::FloatFormat;
use crate::gemm::{Gemm, gemm_panel};
use crate::layout::PackedLayout;
use crate::panel::{Panel, max_panel};

/// Most columns of one block.
pub const fn max_columns(isa: Isa) -> usize {
    max_panel(isa) * isa.lanes()
}

/// Floats from one row of a block of `n` columns to the next.
///
/// # Panics
///
/// If that is no `usize`.
pub const fn row_len(isa: Isa, n: usize) -> usize {
    match n.checked_next_multiple_of(isa.lanes()) {
        Some(len) => len,
        None => panic!("a row of more columns than there are addresses"),
    }
}

/// The operands of [`matmul`].
#[derive(Debug)]
pub struct BlockMatmul<'a> {
    /// Left operand: row `m` starts at `m * x_stride` and has `k` elements.
    pub x: &'a [f32],
    /// Elements from one row of `x` to the next.
    pub x_stride: usize,
    /// Right operand: `k` rows of [`row_len`] floats.
    pub block: &'a [f32],
    /// Result: row `m` starts at `m * y_stride` and has `n` elements.
    pub y: &'a mut [f32],
    /// Elements from one row of `y` to the next.
    pub y_stride: usize,
    /// Rows of `x` and `y`.
    pub m: usize,
    /// Depth: columns of `x`, rows of `block`.
    pub k: usize,
    /// Columns of `block` and of `y`, 1 to [`max_columns`].
    pub n: usize,
    /// Whether the result is added to `y` instead of replacing it.
    pub accumulate: bool,
}

/// Multiplies one block: `y = x block`, or `y += x block`. Each result is one chain of multiply-adds over
/// `k`, fused but in portable code, to which `y` is added last.
///
/// # Panics
///
/// If an operand is shorter than its shape says, or `n` is not in range.
///
/// # Examples
///
/// ```
/// use spark_gemm::block::{BlockMatmul, matmul, row_len};
/// use spark_simd::Isa;
///
/// let isa = Isa::detect();
/// let (m, k, n) = (2, 3, 4);
/// let x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]; // 2 rows of 3
/// let mut block = vec![0.0; k * row_len(isa, n)];
/// for row in block.chunks_exact_mut(row_len(isa, n)) {
///     row[..n].copy_from_slice(&[1.0, 0.0, 0.0, 2.0]);
/// }
/// let mut y = [0.0; 8];
/// let operands = BlockMatmul {
///     x: &x,
///     x_stride: k,
///     block: &block,
///     y: &mut y,
///     y_stride: n,
///     m,
///     k,
///     n,
///     accumulate: false,
/// };
/// matmul(isa, operands);
/// assert_eq!(y, [6.0, 0.0, 0.0, 12.0, 15.0, 0.0, 0.0, 30.0]);
/// ```
pub fn matmul(isa: Isa, product: BlockMatmul<'_>) {
    let BlockMatmul { m, k, n, .. } = product;
    if m == 0 {
        return;
    }
    assert!(n >= 1 && n <= max_columns(isa), "{n} columns in a block");
    let reach = |stride: usize, len: usize| (m - 1).checked_mul(stride)?.checked_add(len);
    assert!(
        reach(product.x_stride, k).is_some_and(|end| end <= product.x.len()),
        "x has the rows its shape says"
    );
    assert!(
        reach(product.y_stride, n).is_some_and(|end| end <= product.y.len()),
        "y has the rows its shape says"
    );
    assert!(product.y_stride >= n || m == 1, "rows of y do not overlap");
    assert!(
        k.checked_mul(row_len(isa, n))
            .is_some_and(|len| len <= product.block.len()),
        "the block has the rows its shape says"
    );
    // A single row has no next one: strides beyond the operands would only overflow.
    let (x_stride, y_stride) = match m {
        1 => (k, n),
        _ => (product.x_stride, product.y_stride),
    };
    let y = product.y.as_mut_ptr();
    let (residual, residual_stride) = match product.accumulate {
        true => (y.cast_const(), y_stride as isize),
        false => (std::ptr::null(), 0),
    };
    let gemm = Gemm {
        x: product.x.as_ptr(),
        x_format: FloatFormat::F32,
        x_stride: x_stride as isize,
        y,
        y_stride: y_stride as isize,
        residual,
        residual_stride,
        m,
        k,
        n,
        layout: PackedLayout::F32,
        epilogue: TileEpilogue::none(isa),
    };
    let panel = Panel {
        column: 0,
        vectors: n.div_ceil(isa.lanes()),
    };
    // SAFETY: the assertions above give every row of `x`, `y` and the block; the residual is `y`
    // itself, each element of which is read before it is written, by the same tile; `y` is
    // borrowed exclusively.
    unsafe { gemm_panel(isa, &gemm, product.block.as_ptr(), panel, (0, m)) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Small whole numbers, so that every order of additions gives the same bits.
    fn whole(len: usize, seed: usize) -> Vec<f32> {
        let number = |i: usize| ((i * 7 + seed * 13) % 11) as f32 - 5.0;
        (0..len).map(number).collect()
    }

    #[test]
    fn every_shape_of_a_block_gives_the_naive_product() {
        for isa in Isa::available() {
            for n in [1, 3, isa.lanes(), isa.lanes() + 1, max_columns(isa)] {
                for (m, k) in [(1, 1), (3, 5), (17, 8), (9, 0)] {
                    let (x_stride, y_stride, wide) = (k + 2, n + 3, row_len(isa, n));
                    let x = whole(m * x_stride, 1);
                    let block = whole(k * wide, 2);
                    let before = whole(m * y_stride, 3);
                    for accumulate in [false, true] {
                        let mut y = before.clone();
                        matmul(
                            isa,
                            BlockMatmul {
                                x: &x,
                                x_stride,
                                block: &block,
                                y: &mut y,
                                y_stride,
                                m,
                                k,
                                n,
                                accumulate,
                            },
                        );
                        let mut want = before.clone();
                        for (row, col) in (0..m).flat_map(|r| (0..n).map(move |c| (r, c))) {
                            let terms =
                                (0..k).map(|i| x[row * x_stride + i] * block[i * wide + col]);
                            let sum: f32 = terms.sum();
                            let to = &mut want[row * y_stride + col];
                            *to = if accumulate { *to + sum } else { sum };
                        }
                        assert_eq!(y, want, "{isa:?} {m}x{k}x{n} {accumulate}");
                    }
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "x has the rows")]
    fn a_left_operand_one_element_short_is_refused() {
        let isa = Isa::portable();
        matmul(
            isa,
            BlockMatmul {
                x: &[0.0; 5],
                x_stride: 3,
                block: &[0.0; 12],
                y: &mut [0.0; 4],
                y_stride: 2,
                m: 2,
                k: 3,
                n: 2,
                accumulate: false,
            },
        );
    }
}
