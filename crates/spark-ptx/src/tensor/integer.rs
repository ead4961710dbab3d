//! `mma` of integers: exact products, summed with 32 bits.
//!
//! ```text
//! D = sum over k of A[m,k] B[k,n] + C      modulo 2^32, or clamped once with .satfinite
//! ```
//!
//! Source: PTX ISA 9.1, 9.7.14.5 (".satfinite": "clamped", without it "wrapped"). That the clamp
//! comes once, after the exact sum, is the plain reading; no document says what a sum does that
//! leaves the range and comes back.

use super::fragment::{Accumulators, MAX_DEPTH, N_COLUMNS, N_ROWS};

pub(super) struct IntegerTiles {
    pub(super) a: [[i32; MAX_DEPTH]; N_ROWS],
    pub(super) b: [[i32; N_COLUMNS]; MAX_DEPTH],
}

pub(super) fn multiply(
    tiles: &IntegerTiles,
    depth: usize,
    c: &Accumulators,
    saturate: bool,
) -> Accumulators {
    let mut d = [[0; N_COLUMNS]; N_ROWS];
    for (row, d_row) in d.iter_mut().enumerate() {
        // 64 products of at most 255 * 255 stay far below 2^31.
        let mut sums = [0_i32; N_COLUMNS];
        for k in 0..depth {
            for (sum, b) in sums.iter_mut().zip(&tiles.b[k]) {
                *sum += tiles.a[row][k] * b;
            }
        }
        for (column, result) in d_row.iter_mut().enumerate() {
            let start = c[row][column] as i32;
            let sum = if saturate {
                start.saturating_add(sums[column])
            } else {
                start.wrapping_add(sums[column])
            };
            *result = sum as u32;
        }
    }
    d
}
