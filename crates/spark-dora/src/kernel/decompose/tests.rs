//! Decompositions against what defines them.

use super::*;

fn noise(len: usize, seed: u64) -> Vec<f64> {
    Random::new(seed, "decompositions").uniform(len, 1.0)
}

#[track_caller]
fn close(got: &[f64], want: &[f64], bound: f64) {
    assert_eq!(got.len(), want.len());
    for (got, want) in got.iter().zip(want) {
        assert!((got - want).abs() <= bound, "{got} for {want}");
    }
}

fn identity(n: usize) -> Vec<f64> {
    (0..n * n)
        .map(|i| f64::from(u8::from(i / n == i % n)))
        .collect()
}

/// `diag(s) v`.
fn scaled(s: &[f64], v: &[f64]) -> Vec<f64> {
    let len = v.len() / s.len().max(1);
    v.iter().enumerate().map(|(i, v)| s[i / len] * v).collect()
}

const SHAPES: [(usize, usize); 6] = [(1, 1), (1, 7), (9, 1), (12, 12), (20, 33), (41, 17)];

#[test]
fn singular_vectors_are_orthonormal_and_make_up_the_weight() {
    for (rows, columns) in SHAPES {
        let w = noise(rows * columns, 1);
        let rank = rows.min(columns);
        let Svd { u, s, vt } = svd(&w, (rows, columns), rank);
        assert!(s.is_sorted_by(|a, b| a >= b) && s[rank - 1] > 0.0);
        let again = product(&u, &scaled(&s, &vt), (rows, rank, columns));
        close(&again, &w, 1e-13);
        let ut = transposed(&u, (rows, rank));
        close(
            &product(&ut, &u, (rank, rows, rank)),
            &identity(rank),
            1e-13,
        );
        let v = transposed(&vt, (rank, columns));
        close(
            &product(&vt, &v, (rank, columns, rank)),
            &identity(rank),
            1e-13,
        );
        // Fewer are the first of these.
        let few = svd(&w, (rows, columns), rank.div_ceil(2));
        close(&few.s, &s[..rank.div_ceil(2)], 0.0);
    }
}

#[test]
fn singular_values_are_those_the_weight_was_made_of() {
    let (q, _) = qr(&noise(30 * 5, 2), (30, 5), 5);
    let (p, _) = qr(&noise(18 * 5, 3), (18, 5), 5);
    // Two are equal, one is tiny, one is none.
    let s = [4.0, 2.0, 2.0, 1e-9, 0.0];
    let w = product(&q, &scaled(&s, &transposed(&p, (18, 5))), (30, 5, 18));
    let got = svd(&w, (30, 18), 5);
    close(&got.s, &s, 1e-14);
    assert!(got.u.iter().chain(&got.vt).all(|v| v.is_finite()));
    let zero = svd(&[0.0; 12], (3, 4), 2);
    assert_eq!(
        (zero.u, zero.s, zero.vt),
        (vec![0.0; 6], vec![0.0; 2], vec![0.0; 8])
    );
}

#[test]
fn random_ranges_find_the_largest_values_of_a_weight_that_has_few() {
    for (rows, columns) in [(40, 25), (25, 40)] {
        let (q, _) = qr(&noise(rows * 6, 4), (rows, 6), 6);
        let (p, _) = qr(&noise(columns * 6, 5), (columns, 6), 6);
        let s = [5.0, 3.0, 2.0, 1e-3, 1e-4, 1e-5];
        let w = product(
            &q,
            &scaled(&s, &transposed(&p, (columns, 6))),
            (rows, 6, columns),
        );
        let mut random = Random::new(1, "range");
        let got = svd_randomised(&w, (rows, columns), 3, 4, &mut random);
        close(&got.s, &s[..3], 1e-9);
        let again = product(&got.u, &scaled(&got.s, &got.vt), (rows, 3, columns));
        close(&again, &w, 1.1e-3);
    }
}

#[test]
fn q_is_orthonormal_r_is_triangular_and_their_product_is_the_weight() {
    for (rows, columns) in SHAPES {
        let w = noise(rows * columns, 6);
        let rank = rows.min(columns);
        let (q, r) = qr(&w, (rows, columns), rank);
        close(&product(&q, &r, (rows, rank, columns)), &w, 1e-13);
        let qt = transposed(&q, (rows, rank));
        close(
            &product(&qt, &q, (rank, rows, rank)),
            &identity(rank),
            1e-13,
        );
        for (k, row) in r.chunks(columns).enumerate() {
            assert!(row[..k].iter().all(|v| *v == 0.0));
        }
        let (few_q, few_r) = qr(&w, (rows, columns), 1);
        close(&few_r, &r[..columns], 0.0);
        let first: Vec<f64> = q.iter().step_by(rank).copied().collect();
        close(&few_q, &first, 1e-14);
    }
    // LAPACK's sign: the diagonal has the one that the column has not; a column of zeros below is left.
    let (q, r) = qr(&[3.0, 1.0, 4.0, 2.0], (2, 2), 2);
    close(&[r[0], q[0], q[2]], &[-5.0, -0.6, -0.8], 1e-15);
    let (q, r) = qr(&[2.0, 1.0, 0.0, -3.0], (2, 2), 2);
    close(&r, &[2.0, 1.0, 0.0, -3.0], 0.0);
    close(&q, &identity(2), 0.0);
}
