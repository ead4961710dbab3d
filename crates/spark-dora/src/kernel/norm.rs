//! Row norms of `V = W + s B A` without forming `B A`.
//!
//! ```text
//! |V_j|^2 = |W_j|^2 + 2 s B_j . U_j + s^2 B_j . (B G)_j       U = W A^T  [out, r]    G = A A^T  [r, r]
//! ```
//!
//! `|W_j|^2` never changes and is kept in f64; the rest is one narrow product per change of A or B.
//! Where the three terms cancel (a row almost undone by its update), the row is formed and summed.

use super::block::{Block, panels};
use super::{LowRank, ROWS_AT_ONCE, Real};
use crate::base::WeightRows;

/// Below this fraction of its terms a sum has lost too many digits.
const CANCELLED: f64 = 1e-3;

/// Squared norms of the rows of a weight with `columns` columns.
pub(crate) fn squares<T: Real>(weight: &dyn WeightRows<T>, columns: usize) -> Vec<f64> {
    let mut sums = Vec::new();
    weight.for_each(&mut |_, n_rows, w| {
        let rows = w.chunks(columns.max(1)).take(n_rows);
        sums.extend(rows.map(|row| row.iter().map(|v| v.to_f64().powi(2)).sum::<f64>()));
    });
    sums
}

/// Norms of the rows of `V`; `squares` are those of `W`.
pub(crate) fn row_norms<T: Real>(
    weight: &dyn WeightRows<T>,
    columns: usize,
    squares: &[f64],
    low: LowRank<'_, T>,
) -> Vec<f64> {
    let rank = low.rank;
    if rank == 0 || low.b.iter().all(|b| *b == T::zero()) {
        return squares.iter().map(|s| s.sqrt()).collect();
    }
    let scaling = low.scaling.to_f64();
    let mut gram = vec![T::zero(); rank * rank];
    let mut products = vec![T::zero(); ROWS_AT_ONCE * rank];
    let blocks: Vec<(usize, Block<T>)> = panels::<T>(rank)
        .map(|(first, count)| {
            let mut block = Block::new();
            block.fill_columns(columns, count, &low.a[first * columns..], columns);
            block.multiply((low.a, columns), (&mut gram[first..], rank), rank, false);
            (first, block)
        })
        .collect();
    let gram: Vec<f64> = gram.iter().map(|g| g.to_f64()).collect();
    let mut norms = Vec::with_capacity(squares.len());
    weight.for_each(&mut |first_row, n_rows, w| {
        for row in (0..n_rows).step_by(ROWS_AT_ONCE) {
            let here = ROWS_AT_ONCE.min(n_rows - row);
            for (first, block) in &blocks {
                let to = (&mut products[*first..], rank);
                block.multiply((&w[row * columns..], columns), to, here, false);
            }
            for (r, u) in products.chunks(rank).take(here).enumerate() {
                let j = first_row + row + r;
                let b = &low.b[j * rank..][..rank];
                let cross = 2.0 * scaling * dot(b, u);
                let own = scaling * scaling * quadratic(b, &gram);
                let sum = squares[j] + cross + own;
                norms.push(if sum > CANCELLED * (squares[j] + own) {
                    sum.sqrt()
                } else {
                    formed_norm(&w[(row + r) * columns..][..columns], b, low)
                });
            }
        }
    });
    norms
}

fn dot<T: Real>(a: &[T], b: &[T]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a.to_f64() * b.to_f64()).sum()
}

/// `b . (G b)`.
fn quadratic<T: Real>(b: &[T], gram: &[f64]) -> f64 {
    let rows = gram.chunks(b.len());
    let terms = b.iter().zip(rows).map(|(left, row)| {
        let inner: f64 = b.iter().zip(row).map(|(b, g)| b.to_f64() * g).sum();
        left.to_f64() * inner
    });
    terms.sum()
}

/// The norm of one row, formed in f64.
fn formed_norm<T: Real>(w: &[T], b: &[T], low: LowRank<'_, T>) -> f64 {
    let scaling = low.scaling.to_f64();
    let columns = w.len();
    let square = |k: usize| {
        let update: f64 = (0..low.rank)
            .map(|l| b[l].to_f64() * low.a[l * columns + k].to_f64())
            .sum();
        (w[k].to_f64() + scaling * update).powi(2)
    };
    (0..columns).map(square).sum::<f64>().sqrt()
}
