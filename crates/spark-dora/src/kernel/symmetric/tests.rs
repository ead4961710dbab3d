//! Eigenvalues and vectors against what defines them, a slow method, and NumPy.

use super::*;
use crate::kernel::decompose::svd;
use crate::random::Random;

fn noise(len: usize, seed: u64) -> Vec<f64> {
    Random::new(seed, "symmetric").uniform(len, 1.0)
}

fn symmetric(n: usize, seed: u64) -> Vec<f64> {
    let values = noise(n * n, seed);
    let at = |i: usize| values[i / n * n + i % n] + values[i % n * n + i / n];
    (0..n * n).map(at).collect()
}

/// `X X^T` of `[n, rank]`.
fn of_rank(n: usize, rank: usize, seed: u64) -> Vec<f64> {
    let x = noise(n * rank, seed);
    let row = |i: usize| &x[i * rank..][..rank];
    let at = |i: usize| dot(row(i / n), row(i % n));
    (0..n * n).map(at).collect()
}

/// Two-sided Jacobi: the largest element beside the diagonal is turned away until none is left. Largest first.
fn naive(mut a: Vec<f64>, n: usize) -> Vec<f64> {
    loop {
        let beside = (0..n * n).filter(|i| i / n < i % n);
        let Some(at) = beside.max_by(|&i, &j| a[i].abs().total_cmp(&a[j].abs())) else {
            break;
        };
        let size = a.iter().fold(0.0f64, |most, v| most.max(v.abs()));
        if a[at].abs() <= 1e-17 * size {
            break;
        }
        let (p, q) = (at / n, at % n);
        let angle = 0.5 * (2.0 * a[at]).atan2(a[q * n + q] - a[p * n + p]);
        let (sine, cosine) = angle.sin_cos();
        for k in 0..n {
            let (x, y) = (a[k * n + p], a[k * n + q]);
            (a[k * n + p], a[k * n + q]) = (cosine * x - sine * y, sine * x + cosine * y);
        }
        for k in 0..n {
            let (x, y) = (a[p * n + k], a[q * n + k]);
            (a[p * n + k], a[q * n + k]) = (cosine * x - sine * y, sine * x + cosine * y);
        }
    }
    let mut values: Vec<f64> = (0..n).map(|i| a[i * n + i]).collect();
    values.sort_by(|x, y| y.total_cmp(x));
    values
}

/// Fails unless the vectors are of length 1, at right angles, and turned into themselves times the values.
#[track_caller]
fn check(matrix: &[f64], n: usize, count: usize) -> Eigen {
    let eigen = largest(matrix.to_vec(), n, count);
    let count = count.min(n);
    assert_eq!((eigen.values.len(), eigen.vectors.len()), (n, count * n));
    assert!(eigen.values.is_sorted_by(|a, b| a >= b));
    let size = matrix.iter().fold(f64::MIN_POSITIVE, |m, v| m.max(v.abs()));
    let bound = 1e-14 * size * n as f64;
    let vectors: Vec<&[f64]> = eigen.vectors.chunks(n.max(1)).collect();
    for (i, v) in vectors.iter().enumerate() {
        for (j, other) in vectors.iter().enumerate() {
            let want = if i == j { 1.0 } else { 0.0 };
            assert!((dot(v, other) - want).abs() < 1e-13, "{i} {j}");
        }
        for (row, of_v) in matrix.chunks(n).zip(*v) {
            let off = dot(row, v) - eigen.values[i] * of_v;
            assert!(off.abs() <= bound, "vector {i} is off by {off:e}");
        }
    }
    let trace: f64 = (0..n).map(|i| matrix[i * n + i]).sum();
    let sum: f64 = eigen.values.iter().sum();
    assert!((trace - sum).abs() <= bound * n as f64);
    eigen
}

#[test]
fn values_are_those_of_a_slow_method() {
    for n in [1, 2, 3, 5, 8, 13, 24] {
        for matrix in [symmetric(n, 3), of_rank(n, n.div_ceil(2), 4)] {
            let size = matrix.iter().fold(0.0f64, |m, v| m.max(v.abs()));
            let eigen = check(&matrix, n, n);
            for (got, want) in eigen.values.iter().zip(naive(matrix, n)) {
                assert!(
                    (got - want).abs() <= 1e-13 * size * n as f64,
                    "{got} {want}"
                );
            }
        }
    }
}

#[test]
fn values_and_vectors_are_numpys() {
    // `numpy.linalg.eigh`, with signs as `eva` chooses them.
    let matrix = [
        [-5., -4., -1., 4., 0., -2.],
        [-4., -4., 3., 1., 1., -2.],
        [-1., 3., -4., 4., -3., -2.],
        [4., 1., 4., 1., 4., -2.],
        [0., 1., -3., 4., 0., -2.],
        [-2., -2., -2., -2., -2., -2.],
    ];
    let values = [
        7.215105163673385,
        1.9640582119330716,
        0.16910457451571906,
        -3.0996217083219433,
        -9.27442771184563,
        -10.974218529954602,
    ];
    let vectors = [
        [
            0.23308441541184644,
            0.1515306474236413,
            0.23188787135475813,
            0.7281318345369177,
            0.4353405902511556,
            -0.3863168845853458,
        ],
        [
            -0.3195250298712812,
            0.496675174728126,
            0.6163425098993357,
            0.015537903672121935,
            -0.4961665842847764,
            -0.15785034296504802,
        ],
    ];
    let eigen = check(matrix.as_flattened(), 6, 2);
    for (got, want) in eigen.values.iter().zip(values) {
        assert!((got - want).abs() < 1e-14 * 6.0, "{got} {want}");
    }
    for (got, want) in eigen.vectors.chunks(6).zip(vectors) {
        let sign = dot(got, &want).signum();
        for (got, want) in got.iter().zip(want) {
            assert!((sign * got - want).abs() < 1e-14, "{got} {want}");
        }
    }
}

#[test]
fn positive_ones_are_decomposed_as_the_singular_values_are() {
    let n = 40;
    let matrix = of_rank(n, 60, 5);
    let eigen = check(&matrix, n, 7);
    let svd = svd(&matrix, (n, n), 7);
    for (k, want) in svd.s.iter().enumerate() {
        assert!((eigen.values[k] - want).abs() < 1e-12);
        let vector = &eigen.vectors[k * n..][..n];
        assert!(dot(vector, &svd.vt[k * n..][..n]).abs() > 1.0 - 1e-12);
    }
}

#[test]
fn hard_matrices_are_decomposed_too() {
    let diagonal = |values: &[f64]| -> Vec<f64> {
        let n = values.len();
        let at = |i: usize| if i / n == i % n { values[i / n] } else { 0.0 };
        (0..n * n).map(at).collect()
    };
    check(&[], 0, 3);
    check(&[0.0; 25], 5, 5);
    check(&[1.0; 49], 7, 7);
    check(&diagonal(&[1.0; 6]), 6, 6);
    check(&diagonal(&[3.0, -1.0, 3.0, 0.0, 2.0]), 5, 5);
    // Sizes far apart, and far from 1.
    check(&diagonal(&[1e-300, 1e-200, 1.0, 1e150]), 4, 4);
    for scale in [1e-290, 1e290] {
        let matrix: Vec<f64> = symmetric(9, 1).iter().map(|v| v * scale).collect();
        check(&matrix, 9, 9);
    }
    // Pairs of values that agree in nearly all digits (Wilkinson's), and all of one size.
    let n = 21;
    let wilkinson: Vec<f64> = (0..n * n)
        .map(|at: usize| match (at / n).abs_diff(at % n) {
            0 => (at / n).abs_diff(n / 2) as f64,
            1 => 1.0,
            _ => 0.0,
        })
        .collect();
    let eigen = check(&wilkinson, n, n);
    assert!((eigen.values[0] - 10.746194182903393).abs() < 1e-13);
    assert!(eigen.values[0] - eigen.values[1] < 1e-12);
    check(&of_rank(60, 2, 8), 60, 60);
    let graded: Vec<f64> = (0..144)
        .map(|at| symmetric(12, 2)[at] * 10f64.powi(-((at / 12 + at % 12) as i32)))
        .collect();
    check(&graded, 12, 12);
}

#[test]
fn threads_and_the_number_of_vectors_change_no_bit() {
    let n = 70;
    let matrix = of_rank(n, 100, 9);
    let bits = |values: &[f64]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    let one = on_threads(matrix.clone(), n, n, |_| 1);
    for threads in [2, 3, 8] {
        let more = on_threads(matrix.clone(), n, n, |_| threads);
        assert_eq!(bits(&more.values), bits(&one.values));
        assert_eq!(bits(&more.vectors), bits(&one.vectors));
    }
    let few = largest(matrix, n, 5);
    assert_eq!(bits(&few.values), bits(&one.values));
    assert_eq!(bits(&few.vectors), bits(&one.vectors[..5 * n]));
}
