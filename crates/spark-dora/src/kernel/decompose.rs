//! Decompositions of weights, in f64: what initial values are made of.
//!
//! ```text
//! svd(W)            W = U S V^T by rotations of pairs of rows until all are orthogonal (one-sided Jacobi)
//! svd_randomised    the same of the range that a few products with random vectors span
//! qr(W)             W = Q R by reflections, of which as many are made as columns of Q are wanted
//! ```
//!
//! Matrices are row-major. Loops are plain, so the same weight gives the same bits on every machine.
//!
//! M. Hestenes, "Inversion of matrices by biorthogonalization and related results", 1958; N. Halko, P. Martinsson,
//! J. Tropp, "Finding structure with randomness", SIAM Review 2011, algorithm 4.4; signs of reflections as in LAPACK.
//!
//! Deliberately absent: a linear algebra crate. nalgebra takes 17 s of processor time to compile and brings 30
//! packages into the lock file for these two functions.

use super::block::transposed;
use crate::random::Random;

/// The largest singular values with their vectors.
pub(crate) struct Svd {
    /// `[rows, rank]`.
    pub(crate) u: Vec<f64>,
    /// `[rank]`, largest first.
    pub(crate) s: Vec<f64>,
    /// `[rank, columns]`.
    pub(crate) vt: Vec<f64>,
}

/// Vectors whose cosine is below this are orthogonal.
const ORTHOGONAL: f64 = 1e-15;
/// Sweeps over all pairs; about ten are enough for any weight, and the product is W after every one.
const MOST_SWEEPS: usize = 60;

/// The `rank` largest singular values of `w`, `[rows, columns]`. Vectors of a singular value of 0 are zero.
pub(crate) fn svd(w: &[f64], (rows, columns): (usize, usize), rank: usize) -> Svd {
    let is_wide = rows <= columns;
    let (count, len) = (rows.min(columns), rows.max(columns));
    let mut vectors = match is_wide {
        true => w.to_vec(),
        false => transposed(w, (rows, columns)),
    };
    let mut turned = vec![0.0; count * count];
    (0..count).for_each(|i| turned[i * count + i] = 1.0);
    for _ in 0..MOST_SWEEPS {
        let mut is_done = true;
        for p in 0..count {
            for q in p + 1..count {
                is_done &= rotate(&mut vectors, len, &mut turned, count, (p, q));
            }
        }
        if is_done {
            break;
        }
    }
    let sizes = vectors.chunks(len).map(|v| dot(v, v).sqrt());
    let mut order: Vec<(usize, f64)> = sizes.enumerate().collect();
    order.sort_by(|a, b| b.1.total_cmp(&a.1));
    order.truncate(rank);
    // Of the longer side, and of the shorter one, a vector per row.
    let (mut long, mut short) = (Vec::new(), Vec::new());
    for &(index, size) in &order {
        let inverse = if size > 0.0 { 1.0 / size } else { 0.0 };
        let vector = &vectors[index * len..][..len];
        long.extend(vector.iter().map(|v| v * inverse));
        let is_there = if size > 0.0 { 1.0 } else { 0.0 };
        let vector = &turned[index * count..][..count];
        short.extend(vector.iter().map(|v| v * is_there));
    }
    let (left, vt) = match is_wide {
        true => (short, long),
        false => (long, short),
    };
    Svd {
        u: transposed(&left, (order.len(), rows)),
        s: order.into_iter().map(|(_, size)| size).collect(),
        vt,
    }
}

/// Turns vectors `p` and `q` so that they are orthogonal; whether they were.
fn rotate(
    vectors: &mut [f64],
    len: usize,
    turned: &mut [f64],
    count: usize,
    (p, q): (usize, usize),
) -> bool {
    let (before, from_q) = vectors.split_at_mut(q * len);
    let (x, y) = (&mut before[p * len..][..len], &mut from_q[..len]);
    let (xx, yy, xy) = (dot(x, x), dot(y, y), dot(x, y));
    if xy.abs() <= ORTHOGONAL * (xx * yy).sqrt() {
        return true;
    }
    let ratio = (yy - xx) / (2.0 * xy);
    let tangent = ratio.signum() / (ratio.abs() + ratio.hypot(1.0));
    let cosine = 1.0 / tangent.hypot(1.0);
    let sine = cosine * tangent;
    let turn = |x: &mut [f64], y: &mut [f64]| {
        for (x, y) in x.iter_mut().zip(y) {
            (*x, *y) = (cosine * *x - sine * *y, sine * *x + cosine * *y);
        }
    };
    turn(x, y);
    let (before, from_q) = turned.split_at_mut(q * count);
    turn(&mut before[p * count..][..count], &mut from_q[..count]);
    false
}

/// As [`svd`], of the range that `rank` random vectors span after `iterations` products with `W W^T`.
pub(crate) fn svd_randomised(
    w: &[f64],
    (rows, columns): (usize, usize),
    rank: usize,
    iterations: usize,
    random: &mut Random,
) -> Svd {
    if rows < columns {
        let flipped = transposed(w, (rows, columns));
        let of = svd_randomised(&flipped, (columns, rows), rank, iterations, random);
        return Svd {
            u: transposed(&of.vt, (of.s.len(), rows)),
            vt: transposed(&of.u, (columns, of.s.len())),
            s: of.s,
        };
    }
    let flipped = transposed(w, (rows, columns));
    let start = random.normal(columns * rank, 1.0);
    let basis = |product: &[f64], rows: usize| qr(product, (rows, rank), rank).0;
    let mut q = basis(&product(w, &start, (rows, columns, rank)), rows);
    for _ in 0..iterations {
        let back = basis(&product(&flipped, &q, (columns, rows, rank)), columns);
        q = basis(&product(w, &back, (rows, columns, rank)), rows);
    }
    let small = product(&transposed(&q, (rows, rank)), w, (rank, rows, columns));
    let of = svd(&small, (rank, columns), rank);
    Svd {
        u: product(&q, &of.u, (rows, rank, of.s.len())),
        ..of
    }
}

/// The first `rank` columns of Q, `[rows, rank]`, and rows of R, `[rank, columns]`, of `w = Q R`; `rank` is at most the
/// smaller of both.
pub(crate) fn qr(w: &[f64], (rows, columns): (usize, usize), rank: usize) -> (Vec<f64>, Vec<f64>) {
    // By columns, which reflections work on.
    let mut by_columns = transposed(w, (rows, columns));
    let mut reflections: Vec<Vec<f64>> = Vec::with_capacity(rank);
    for k in 0..rank {
        let column = &by_columns[k * rows..][..rows];
        let reflection = reflection(&column[k..]);
        for column in by_columns.chunks_mut(rows).skip(k) {
            reflect(&reflection, &mut column[k..]);
        }
        reflections.push(reflection);
    }
    let mut q = vec![0.0; rank * rows];
    for (k, column) in q.chunks_mut(rows.max(1)).enumerate() {
        column[k] = 1.0;
        for (at, reflection) in reflections.iter().enumerate().rev() {
            reflect(reflection, &mut column[at..]);
        }
    }
    let mut r = vec![0.0; rank * columns];
    for (j, column) in by_columns.chunks(rows.max(1)).enumerate() {
        for k in 0..rank.min(j + 1) {
            r[k * columns + j] = column[k];
        }
    }
    (transposed(&q, (rank, rows)), r)
}

/// `v` with `|v|^2 = 2`, or nothing, so that `x - v (v . x)` has one element other than 0, of the sign that `x` has not.
fn reflection(x: &[f64]) -> Vec<f64> {
    let size = dot(x, x).sqrt();
    if x.iter().skip(1).all(|x| *x == 0.0) {
        return Vec::new();
    }
    let mut v = x.to_vec();
    v[0] += if x[0] < 0.0 { -size } else { size };
    let scale = (2.0 / dot(&v, &v)).sqrt();
    v.iter_mut().for_each(|v| *v *= scale);
    v
}

fn reflect(v: &[f64], x: &mut [f64]) {
    if v.is_empty() {
        return;
    }
    let along = dot(v, x);
    x.iter_mut().zip(v).for_each(|(x, v)| *x -= along * v);
}

/// Sums in lanes, so that they become vectors.
pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    let mut lanes = [0.0; 8];
    for (a, b) in a.iter().zip(b) {
        for i in 0..8 {
            lanes[i] += a[i] * b[i];
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    lanes.iter().sum::<f64>() + rest
}

/// `[m, n]` of `[m, k]` and `[k, n]`.
fn product(a: &[f64], b: &[f64], (m, k, n): (usize, usize, usize)) -> Vec<f64> {
    let mut to = vec![0.0; m * n];
    for (a, to) in a.chunks(k.max(1)).zip(to.chunks_mut(n.max(1))) {
        for (a, b) in a.iter().zip(b.chunks(n.max(1))) {
            to.iter_mut().zip(b).for_each(|(to, b)| *to += a * b);
        }
    }
    to
}

#[cfg(test)]
mod tests;
