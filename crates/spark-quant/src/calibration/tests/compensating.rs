//! Rounding for inputs against plain sums over all rows.

use crate::calibration::{InputMoments, compensate};
use crate::{ExecutionPolicy, PackedTensor, QuantError, Quantizer, Recipe};

use super::gaussian;

const RECIPES: [Recipe; 3] = [Recipe::FP8, Recipe::NVFP4_SWEEP, Recipe::INT8];

/// Rows whose neighbouring inputs are alike.
fn correlated(seed: u64, n_rows: usize, depth: usize) -> Vec<f32> {
    let mut rows = gaussian(seed, n_rows * depth);
    for row in rows.chunks_exact_mut(depth) {
        for k in 1..depth {
            row[k] = 0.8 * row[k - 1] + 0.6 * row[k];
        }
    }
    rows
}

fn moments(exact: &[f32], rounded: &[f32], depth: usize) -> InputMoments {
    let mut moments = InputMoments::new(depth);
    let policy = ExecutionPolicy::detect();
    moments
        .observe(policy, exact, rounded)
        .expect("finite rows");
    moments
}

/// Mean over rows of the squared error of all outputs, by definition.
fn error(weights: &[f32], packed: &PackedTensor, exact: &[f32], rounded: &[f32]) -> f64 {
    let depth = packed.depth();
    let values = packed
        .dequantize(ExecutionPolicy::one_thread())
        .expect("ours");
    let dot = |a: &[f32], b: &[f32]| -> f64 {
        a.iter()
            .zip(b)
            .map(|(&a, &b)| f64::from(a) * f64::from(b))
            .sum()
    };
    let rows = exact.chunks_exact(depth).zip(rounded.chunks_exact(depth));
    let errors = rows.flat_map(|(x, rounded)| {
        let outputs = weights.chunks_exact(depth).zip(values.chunks_exact(depth));
        outputs.map(move |(w, q)| (dot(w, x) - dot(q, rounded)).powi(2))
    });
    errors.sum::<f64>() / (exact.len() / depth) as f64
}

#[test]
fn the_gain_is_what_the_rows_say_and_holds_on_rows_that_were_not_seen() {
    let (n, depth) = (24, 48);
    let policy = ExecutionPolicy::detect();
    let weights = gaussian(3, n * depth);
    let exact = correlated(1, 600, depth);
    let fresh = correlated(2, 600, depth);
    for recipe in RECIPES {
        let trip = |rows: &[f32]| {
            let quantizer = Quantizer::new(recipe);
            quantizer
                .round_trip(policy, rows, &[600, depth], 1)
                .expect("finite")
        };
        let (rounded, fresh_rounded) = (trip(&exact), trip(&fresh));
        let moments = moments(&exact, &rounded, depth);
        let nearest = Quantizer::new(recipe)
            .quantize(policy, &weights, &[n, depth], 1)
            .expect("finite");
        let made = compensate(policy, &weights, &moments, recipe).expect("finite");
        let (before, after) = (
            error(&weights, &nearest, &exact, &rounded),
            error(&weights, &made.packed, &exact, &rounded),
        );
        assert!(
            ((before - after) - made.gain).abs() < 1e-4 * before,
            "{recipe:?}: {before} {after} {}",
            made.gain
        );
        let (before, after) = (
            error(&weights, &nearest, &fresh, &fresh_rounded),
            error(&weights, &made.packed, &fresh, &fresh_rounded),
        );
        assert!(after < 0.8 * before, "{recipe:?}: {after} of {before}");
    }
}

#[test]
fn inputs_that_are_not_correlated_leave_the_nearest_codes() {
    let depth = 32;
    // One input at a time, all of the same size.
    let rows: Vec<f32> = (0..depth * depth)
        .map(|i| if i / depth == i % depth { 1.5 } else { 0.0 })
        .collect();
    let weights = gaussian(5, 8 * depth);
    let policy = ExecutionPolicy::detect();
    for recipe in RECIPES {
        let made =
            compensate(policy, &weights, &moments(&rows, &rows, depth), recipe).expect("finite");
        let nearest = Quantizer::new(recipe)
            .quantize(policy, &weights, &[8, depth], 1)
            .expect("finite");
        assert_eq!((made.packed, made.gain), (nearest, 0.0), "{recipe:?}");
    }
}

#[test]
fn threads_do_not_change_it_and_many_inputs_are_taken_in_parts() {
    let (n, depth) = (5, 1500);
    let weights = gaussian(7, n * depth);
    let rows = correlated(8, 200, depth);
    let one = ExecutionPolicy::one_thread();
    let four = one.with_threads(4.try_into().expect("not zero"));
    let mut made = Vec::new();
    for policy in [one, four] {
        let mut moments = InputMoments::new(depth);
        moments.observe(policy, &rows, &rows).expect("finite rows");
        assert_eq!((moments.depth(), moments.n_rows()), (depth, 200));
        made.push(compensate(policy, &weights, &moments, Recipe::FP8).expect("finite"));
    }
    assert_eq!(made[0], made[1]);
    let nearest = Quantizer::new(Recipe::FP8)
        .quantize(one, &weights, &[n, depth], 1)
        .expect("finite");
    let before = error(&weights, &nearest, &rows, &rows);
    let after = error(&weights, &made[0].packed, &rows, &rows);
    assert!(after < 0.7 * before, "{after} of {before}");
}

#[test]
fn what_says_nothing_gives_the_nearest_and_what_is_wrong_is_refused() {
    let policy = ExecutionPolicy::detect();
    let weights = gaussian(9, 4 * 16);
    let nearest = Quantizer::new(Recipe::FP8)
        .quantize(policy, &weights, &[4, 16], 1)
        .expect("finite");
    let zeros = [0.0; 64];
    // The squares of the last are beyond f32.
    for rows in [&[][..], &zeros, &[1e30; 32], &[f32::MAX; 16], &[1e-40; 32]] {
        let made =
            compensate(policy, &weights, &moments(rows, rows, 16), Recipe::FP8).expect("finite");
        assert_eq!(
            (&made.packed, made.gain),
            (&nearest, 0.0),
            "{:?}",
            rows.first()
        );
    }
    let mut seen = InputMoments::new(16);
    let bad = [f32::NAN; 16];
    assert!(matches!(
        seen.observe(policy, &bad, &zeros[..16]),
        Err(QuantError::NotFinite { index: 0, .. })
    ));
    assert!(matches!(
        seen.observe(policy, &zeros[..16], &bad),
        Err(QuantError::NotFinite { .. })
    ));
    assert!(matches!(
        seen.observe(policy, &zeros[..17], &zeros[..17]),
        Err(QuantError::NotAMultiple { .. })
    ));
    assert!(matches!(
        seen.observe(policy, &zeros[..16], &zeros),
        Err(QuantError::LengthMismatch { .. })
    ));
    assert_eq!(seen.n_rows(), 0);
    for recipe in [
        Recipe::MXFP4,
        Recipe::Int8 {
            granularity: crate::block::Granularity::Tensor,
        },
    ] {
        let refused = compensate(policy, &weights, &seen, recipe);
        assert!(
            matches!(refused, Err(QuantError::Unsupported { .. })),
            "{recipe:?}"
        );
    }
    let refused = compensate(policy, &weights[..17], &seen, Recipe::FP8);
    assert!(matches!(refused, Err(QuantError::NotAMultiple { .. })));
    let refused = compensate(policy, &bad, &seen, Recipe::FP8);
    assert!(matches!(refused, Err(QuantError::NotFinite { .. })));
    let none = compensate(policy, &[], &InputMoments::new(0), Recipe::NVFP4).expect("nothing");
    assert_eq!(none.packed.n_values(), 0);
}

#[test]
fn extreme_weights_and_inputs_end_in_codes_never_in_a_panic() {
    let policy = ExecutionPolicy::detect();
    for recipe in RECIPES {
        for weight in [1e38, -1e38, 1e-38, f32::MIN_POSITIVE, 0.0] {
            for scale in [1e-20, 1.0, 1e15] {
                let weights: Vec<f32> = (0..64)
                    .map(|i| if i % 3 == 0 { weight } else { -weight / 3.0 })
                    .collect();
                let rows: Vec<f32> = correlated(11, 40, 16).iter().map(|x| x * scale).collect();
                let made = compensate(policy, &weights, &moments(&rows, &rows, 16), recipe)
                    .expect("finite weights");
                let values = made.packed.dequantize(policy).expect("ours");
                assert!(
                    values.iter().all(|value| value.is_finite()),
                    "{recipe:?} {weight} {scale}"
                );
                assert!(made.gain >= 0.0 && made.gain.is_finite(), "{}", made.gain);
            }
        }
    }
}
