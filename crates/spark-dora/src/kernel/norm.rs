//! Row norms of `V = W + s B A` without forming `B A`.
//!
//! ```text
//! |V_j|^2 = |W_j|^2 + 2 s B_j . (U + s/2 B G)_j       U = W A^T  [out, r]    G = A A^T  [r, r]
//! ```
//!
//! `|W_j|^2` never changes and is kept in f64; the rest is one narrow matmul per change of A or B,
//! which a forward pass over few tokens makes along with its own (`linear`), reading W once.
//! Where the three terms cancel (a row almost undone by its update), the row is formed and summed.

use super::block::{Block, panels};
use super::{LowRank, ROWS_AT_ONCE, Real, threads};
use crate::base::WeightRows;

/// Below this fraction of `|W_j|^2` a sum has lost too many digits: its terms nearly cancel only where
/// the update is about as long as the row.
const CANCELLED: f64 = 4e-3;

/// Squared norms of the rows of a weight with `columns` columns.
pub(crate) fn squares<T: Real>(weight: &dyn WeightRows<T>, columns: usize) -> Vec<f64> {
    let mut sums = Vec::new();
    weight.for_each(&mut |_, n_rows, w| {
        let threads = threads::worth(n_rows * columns);
        let runs = threads::runs(n_rows, 1, threads);
        let parts = threads::map(threads, runs, |run| {
            let w = &w[run.start * columns..run.end * columns];
            let rows = w.chunks(columns.max(1)).take(run.len());
            let squares = rows.map(|row| row.iter().map(|v| v.to_f64().powi(2)).sum::<f64>());
            squares.collect::<Vec<_>>()
        });
        sums.extend(parts.concat());
    });
    sums
}

/// The norm of row `j` of `V`, which is `w` in the base.
///
/// `sums` is row `j` of `W A^T + (s / 2) B A A^T`, and `square` is `|W_j|^2`.
pub(crate) fn row_norm<T: Real>(
    (j, square): (usize, f64),
    w: &[T],
    sums: &[T],
    low: LowRank<'_, T>,
) -> f64 {
    let b = &low.b[j * low.rank..][..low.rank];
    let sum = square + 2.0 * low.scaling.to_f64() * dot(b, sums);
    if sum > CANCELLED * square {
        sum.sqrt()
    } else {
        formed_norm(w, b, low)
    }
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
    let half = low.scaling * T::from_f64(0.5);
    // Of A^T and of (s / 2) A A^T, as many columns as fit.
    let blocks: Vec<(usize, [Block<T>; 2])> = panels::<T>(rank)
        .map(|(first, count)| {
            let (mut a, mut gram) = (Block::new(), Block::new());
            a.fill_columns(columns, count, &low.a[first * columns..], columns);
            gram.reset(rank, count);
            let width = gram.width();
            a.multiply((low.a, columns), (gram.as_mut_slice(), width), rank, false);
            gram.as_mut_slice().iter_mut().for_each(|g| *g *= half);
            (first, [a, gram])
        })
        .collect();
    let mut norms = Vec::with_capacity(squares.len());
    weight.for_each(&mut |first_row, n_rows, w| {
        let threads = threads::worth(n_rows * columns * rank);
        let runs = threads::runs(n_rows, ROWS_AT_ONCE, threads);
        let parts = threads::map(threads, runs, |run| {
            let mut sums = vec![T::zero(); ROWS_AT_ONCE * rank];
            let mut norms = Vec::with_capacity(run.len());
            for row in run.clone().step_by(ROWS_AT_ONCE) {
                let here = ROWS_AT_ONCE.min(run.end - row);
                let b = (&low.b[(first_row + row) * rank..], rank);
                for (first, [a, gram]) in &blocks {
                    let to = &mut sums[*first..];
                    let w = (&w[row * columns..], columns);
                    a.multiply(w, (&mut *to, rank), here, false);
                    gram.multiply(b, (to, rank), here, true);
                }
                for (r, sums) in sums.chunks(rank).take(here).enumerate() {
                    let j = first_row + row + r;
                    let w = &w[(row + r) * columns..][..columns];
                    norms.push(row_norm((j, squares[j]), w, sums, low));
                }
            }
            norms
        });
        norms.extend(parts.concat());
    });
    norms
}

fn dot<T: Real>(a: &[T], b: &[T]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a.to_f64() * b.to_f64()).sum()
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
