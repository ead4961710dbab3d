//! The largest eigenvalues of a symmetric matrix with their vectors, in f64.
//!
//! ```text
//! S = H T H^T     reflections H make S tridiagonal: each pass over the rows applies the last one and makes the next product
//! T = G L G^T     rotations G, by the implicit QL method with Wilkinson's shifts, make that diagonal; they are kept
//! V = H G E       E: the unit vectors of the eigenvalues that are wanted, so that the others cost nothing
//! ```
//!
//! Every element is the same chain of operations for any number of threads, so bits do not depend on it.
//!
//! G. Golub, C. Van Loan, *Matrix Computations*, sections 8.3.1 to 8.3.5; the order of the QL method's steps is that of
//! EISPACK's `tql2`.
//!
//! Deliberately absent: blocks of reflections, which would read a large matrix fewer times.

use super::decompose::dot;
use super::threads::{cut, for_each, runs, worth};

/// Eigenvalues, and as many unit vectors as were asked for.
pub(crate) struct Eigen {
    /// All of them, largest first.
    pub(crate) values: Vec<f64>,
    /// `[count, n]`, in the order of the values.
    pub(crate) vectors: Vec<f64>,
}

/// Squares of what is nothing beside the matrix's largest element, which is 1: what is left of a matrix of low rank once its rank
/// is used up is rounding of rounding, whose squares leave the range of f64.
const NEGLIGIBLE: f64 = f64::EPSILON * f64::EPSILON * f64::EPSILON * f64::EPSILON;

/// Far more steps than any eigenvalue takes, which is two on average: the shifts converge for every matrix.
const MOST_STEPS: usize = 200;

/// Of `matrix`, `[n, n]`, symmetric and finite, with vectors of the `count` largest; at most `n` are there.
pub(crate) fn largest(matrix: Vec<f64>, n: usize, count: usize) -> Eigen {
    on_threads(matrix, n, count.min(n), worth)
}

/// The same on as many threads as are told for a number of multiplications.
fn on_threads(
    mut matrix: Vec<f64>,
    n: usize,
    count: usize,
    threads: impl Fn(usize) -> usize,
) -> Eigen {
    // Squares of what follows stay within range.
    let scale = matrix.iter().fold(0.0f64, |most, v| most.max(v.abs()));
    if scale > 0.0 {
        matrix.iter_mut().for_each(|v| *v /= scale);
    }
    let Tridiagonal {
        mut diagonal,
        mut beside,
        factors,
    } = tridiagonal(&mut matrix, n, threads);
    let sweeps = rotated(&mut diagonal, &mut beside);
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&a, &b| diagonal[b].total_cmp(&diagonal[a]));

    // By rows of all vectors, which are turned together.
    let mut by_place = vec![0.0; n * count];
    for (vector, &place) in order[..count].iter().enumerate() {
        by_place[place * count + vector] = 1.0;
    }
    for sweep in sweeps.iter().rev() {
        sweep.turn_back(&mut by_place, count);
    }
    for (k, &factor) in factors.iter().enumerate().rev() {
        let reflection = &matrix[k * n + k + 1..(k + 1) * n];
        reflect(&mut by_place[(k + 1) * count..], count, reflection, factor);
    }
    let vector = |of: usize| by_place[of..].iter().step_by(count.max(1)).copied();
    Eigen {
        values: order.iter().map(|&place| diagonal[place] * scale).collect(),
        vectors: (0..count).flat_map(vector).collect(),
    }
}

/// A tridiagonal matrix, and by what its reflections `I - f v v^T` are multiplied; `v` of reflection `k` lies in row `k`
/// of the matrix, behind the diagonal.
struct Tridiagonal {
    diagonal: Vec<f64>,
    /// Element `i` is beside the diagonal, in rows `i` and `i + 1`; the last is 0.
    beside: Vec<f64>,
    factors: Vec<f64>,
}

fn tridiagonal(matrix: &mut [f64], n: usize, threads: impl Fn(usize) -> usize) -> Tridiagonal {
    let mut diagonal = vec![0.0; n];
    let mut beside = vec![0.0; n];
    let mut factors = vec![0.0; n.saturating_sub(1)];
    // The reflection before, `S - v w^T - w v^T`, which rows behind have not seen yet.
    let (mut v, mut w) = (vec![0.0; n], vec![0.0; n]);
    let mut product = vec![0.0; n];
    for k in 0..n {
        let (done, rest) = matrix.split_at_mut((k + 1) * n);
        let row = &mut done[k * n..];
        subtract(&mut row[k..], (v[k], &v[k..]), (w[k], &w[k..]));
        diagonal[k] = row[k];
        let row = &mut row[k + 1..];
        if row.is_empty() {
            break;
        }
        (beside[k], factors[k]) = reflection(row);

        let behind = n - k - 1;
        let threads = threads(2 * behind * behind);
        let runs = runs(behind, 1, threads);
        let parts = cut(rest, &runs, n).into_iter();
        let parts = parts.zip(cut(&mut product[k + 1..], &runs, 1)).zip(&runs);
        for_each(threads, parts.collect(), |((rows, products), run)| {
            let rows = rows.chunks_exact_mut(n).zip(products);
            for (i, (of_row, product)) in run.clone().zip(rows) {
                let (i, of_row) = (k + 1 + i, &mut of_row[k + 1..]);
                subtract(of_row, (v[i], &v[k + 1..]), (w[i], &w[k + 1..]));
                *product = dot(of_row, row);
            }
        });
        let (product, factor) = (&product[k + 1..], factors[k]);
        let half = factor * factor / 2.0 * dot(product, row);
        v[k + 1..].copy_from_slice(row);
        let w = w[k + 1..].iter_mut().zip(product).zip(&*row);
        w.for_each(|((w, product), v)| *w = factor * product - half * v);
    }
    Tridiagonal {
        diagonal,
        beside,
        factors,
    }
}

/// `row - v_i w - w_i v`.
fn subtract(row: &mut [f64], (v_i, v): (f64, &[f64]), (w_i, w): (f64, &[f64])) {
    for ((to, v), w) in row.iter_mut().zip(v).zip(w) {
        *to -= v_i * w + w_i * v;
    }
}

/// Makes `x` the `v` of the reflection that leaves of it its first element alone; gives that element, and the factor.
fn reflection(x: &mut [f64]) -> (f64, f64) {
    let tail = dot(&x[1..], &x[1..]);
    if tail <= NEGLIGIBLE {
        let first = x[0];
        x.fill(0.0);
        return (first, 0.0);
    }
    let length = (x[0] * x[0] + tail).sqrt();
    let left = if x[0] > 0.0 { -length } else { length };
    x[0] -= left;
    (left, 2.0 / (x[0] * x[0] + tail))
}

/// `y - f v (v^T y)` for all vectors.
fn reflect(by_place: &mut [f64], count: usize, v: &[f64], factor: f64) {
    if factor == 0.0 || count == 0 {
        return;
    }
    let mut products = vec![0.0; count];
    for (y, v) in by_place.chunks_exact(count).zip(v) {
        products.iter_mut().zip(y).for_each(|(p, y)| *p += v * y);
    }
    for (y, v) in by_place.chunks_exact_mut(count).zip(v) {
        let by = factor * v;
        y.iter_mut().zip(&products).for_each(|(y, p)| *y -= by * p);
    }
}

/// Rotations of one step: the first turns places `end - 1` and `end`, each other one those in front of it.
struct Sweep {
    end: usize,
    /// Cosine and sine.
    turns: Vec<[f64; 2]>,
}

impl Sweep {
    /// Turns all vectors by the last rotation first.
    fn turn_back(&self, by_place: &mut [f64], count: usize) {
        for (nth, [cosine, sine]) in self.turns.iter().enumerate().rev() {
            let both = &mut by_place[(self.end - 1 - nth) * count..][..2 * count];
            let (one, other) = both.split_at_mut(count);
            for (x, y) in one.iter_mut().zip(other) {
                let (before, behind) = (*x, *y);
                *x = cosine * before + sine * behind;
                *y = cosine * behind - sine * before;
            }
        }
    }
}

/// Makes a tridiagonal matrix diagonal; by which sweeps.
fn rotated(diagonal: &mut [f64], beside: &mut [f64]) -> Vec<Sweep> {
    let mut sweeps = Vec::new();
    let is_zero = |d: &[f64], e: &[f64], i: usize| {
        // The matrix's largest element was 1, so that the square is far below its rounding.
        let near = d[i].abs() + d[i + 1].abs() + f64::EPSILON;
        e[i].abs() <= f64::EPSILON * near
    };
    let n = diagonal.len();
    for first in 0..n {
        for _ in 0..MOST_STEPS {
            let end = (first..n - 1).find(|&i| is_zero(diagonal, beside, i));
            let end = end.unwrap_or(n - 1);
            if end == first {
                break;
            }
            let turns = step(diagonal, beside, (first, end));
            sweeps.push(Sweep { end, turns });
        }
    }
    sweeps
}

/// One implicit step between `first` and `end`, from the end to the front.
fn step(diagonal: &mut [f64], beside: &mut [f64], (first, end): (usize, usize)) -> Vec<[f64; 2]> {
    let mut turns = Vec::with_capacity(end - first);
    let half = (diagonal[first + 1] - diagonal[first]) / (2.0 * beside[first]);
    let root = half.hypot(1.0);
    let mut g = diagonal[end] - diagonal[first] + beside[first] / (half + root.copysign(half));
    let (mut sine, mut cosine, mut moved) = (1.0, 1.0, 0.0);
    for i in (first..end).rev() {
        let f = sine * beside[i];
        let b = cosine * beside[i];
        let r = f.hypot(g);
        beside[i + 1] = r;
        if r == 0.0 {
            // The part in front fell off by itself.
            diagonal[i + 1] -= moved;
            beside[end] = 0.0;
            return turns;
        }
        (sine, cosine) = (f / r, g / r);
        g = diagonal[i + 1] - moved;
        let r = (diagonal[i] - g) * sine + 2.0 * cosine * b;
        moved = sine * r;
        diagonal[i + 1] = g + moved;
        g = cosine * r - b;
        turns.push([cosine, sine]);
    }
    diagonal[first] -= moved;
    beside[first] = g;
    beside[end] = 0.0;
    turns
}

#[cfg(test)]
mod tests;
