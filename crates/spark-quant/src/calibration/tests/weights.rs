//! Scaled weights: the convention, the search, and what it gains.

use super::{gaussian, observe};
use crate::calibration::{Observer, ScaledWeights, scale_weights};
use crate::{ExecutionPolicy, QuantError, Quantizer, Recipe};

const N_IN: usize = 128;
const N_OUT: usize = 64;

/// Inputs a few channels of which are far larger than the others, as behind a norm layer.
fn inputs() -> Vec<f32> {
    let mut values = gaussian(60, 512 * N_IN);
    for row in values.chunks_exact_mut(N_IN) {
        for channel in (3..N_IN).step_by(29) {
            row[channel] *= 40.0;
        }
    }
    values
}

fn scaled(recipe: Recipe, weights: &[f32], inputs: &Observer) -> ScaledWeights {
    let (magnitude, square): (Vec<f64>, Vec<f64>) = inputs
        .channels()
        .map(|x| (x.mean_magnitude, x.mean_square))
        .unzip();
    scale_weights(weights, &magnitude, &square, |weights| {
        Quantizer::new(recipe).round_trip(ExecutionPolicy::detect(), weights, &[N_OUT, N_IN], 1)
    })
    .expect("finite values")
}

/// Squared error of the outputs of real inputs, per row.
fn sampled_error(inputs: &[f32], weights: &[f32], back: &[f32]) -> f64 {
    let mut error = 0.0;
    for row in inputs.chunks_exact(N_IN) {
        for (weights, back) in weights.chunks_exact(N_IN).zip(back.chunks_exact(N_IN)) {
            let terms = weights.iter().zip(back).zip(row);
            let difference: f64 = terms
                .map(|((w, b), x)| (f64::from(*w) - f64::from(*b)) * f64::from(*x))
                .sum();
            error += difference * difference;
        }
    }
    error / (inputs.len() / N_IN) as f64
}

#[test]
fn the_expected_error_is_that_of_real_inputs_and_scaling_lowers_it() {
    let (inputs, weights) = (inputs(), gaussian(61, N_OUT * N_IN));
    let observer = observe(N_IN, &inputs);
    for recipe in [Recipe::NVFP4, Recipe::MXFP4, Recipe::INT8] {
        let got = scaled(recipe, &weights, &observer);
        let back = Quantizer::new(recipe)
            .round_trip(ExecutionPolicy::detect(), &got.weights, &[N_OUT, N_IN], 1)
            .expect("finite values");
        let back: Vec<f32> = back
            .iter()
            .zip(got.pre_quant_scale.iter().cycle())
            .map(|(w, s)| w * s)
            .collect();
        let sampled = sampled_error(&inputs, &weights, &back);
        assert!(
            (sampled / got.error - 1.0).abs() < 0.1,
            "{recipe:?}: {sampled}, {}",
            got.error
        );
        let gained = 10.0 * (got.unscaled_error / got.error).log10();
        eprintln!("{}: alpha {}, {gained:.2} dB", recipe.label(), got.alpha);
        assert!(
            got.alpha > 0.0 && gained > 0.5,
            "{recipe:?}: alpha {}, {gained:.2} dB",
            got.alpha
        );
    }
}

#[test]
fn scaled_weights_over_scaled_inputs_are_the_same_product() {
    let (inputs, weights) = (inputs(), gaussian(62, N_OUT * N_IN));
    let got = scaled(Recipe::NVFP4, &weights, &observe(N_IN, &inputs));
    assert!(
        got.pre_quant_scale
            .iter()
            .all(|&scale| scale > 0.0 && scale.is_finite())
    );
    for (row, scaled) in weights
        .chunks_exact(N_IN)
        .zip(got.weights.chunks_exact(N_IN))
    {
        for i in 0..N_IN {
            let back = scaled[i] * got.pre_quant_scale[i];
            assert!((back - row[i]).abs() <= 2.0 * f32::EPSILON * row[i].abs());
        }
    }
    let [largest, smallest] = [f32::max as fn(f32, f32) -> f32, f32::min].map(|pick| {
        got.pre_quant_scale
            .iter()
            .copied()
            .reduce(pick)
            .expect("channels")
    });
    assert!(
        (largest * smallest - 1.0).abs() < 1e-5,
        "the scales lie around one"
    );
}

#[test]
fn equal_inputs_leave_the_weights_as_they_are() {
    let weights = gaussian(63, N_OUT * N_IN);
    let got = scale_weights(&weights, &[0.8; N_IN], &[1.0; N_IN], |weights| {
        Quantizer::new(Recipe::NVFP4).round_trip(
            ExecutionPolicy::detect(),
            weights,
            &[N_OUT, N_IN],
            1,
        )
    })
    .expect("finite values");
    assert_eq!((got.alpha, got.weights), (0.0, weights));
    assert_eq!(got.error, got.unscaled_error);
}

#[test]
fn hostile_arguments_are_refused_or_survived() {
    let same = |weights: &[f32]| Ok(weights.to_vec());
    assert!(scale_weights(&[1.0; 6], &[1.0; 3], &[1.0; 2], same).is_err());
    assert!(scale_weights(&[1.0; 7], &[1.0; 3], &[1.0; 3], same).is_err());
    assert!(scale_weights(&[1.0], &[], &[], same).is_err());
    assert!(scale_weights(&[], &[], &[], same).is_ok());
    assert!(scale_weights(&[f32::NAN; 3], &[1.0; 3], &[1.0; 3], same).is_err());
    for mean in [-1.0, f64::NAN, f64::INFINITY] {
        let got = scale_weights(&[1.0; 2], &[1.0, mean], &[1.0; 2], same);
        assert!(matches!(got, Err(QuantError::Calibration { .. })));
    }
    assert!(scale_weights(&[1.0; 2], &[1.0; 2], &[1.0; 2], |_| Ok(vec![])).is_err());
    // Dead channels, tiny and huge ones, weights at the top of f32.
    let got = scale_weights(
        &[f32::MAX, 1.0, 0.0],
        &[0.0, 1e-300, 1e38],
        &[0.0, 0.0, 1e76],
        same,
    );
    let got = got.expect("finite values");
    assert!(
        got.pre_quant_scale
            .iter()
            .all(|scale| scale.is_finite() && *scale > 0.0)
    );
    assert!(
        scale_weights(&[1.0; 4], &[0.0; 2], &[0.0; 2], |w| Ok(vec![
            f32::NAN;
            w.len()
        ]))
        .is_ok()
    );
}
