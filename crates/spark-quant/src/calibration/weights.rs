//! Weights scaled for their inputs, as AWQ does: large inputs meet weights that are rounded less.
//!
//! ```text
//! y = W x = (W diag(s)) (x / s)          s[i] = mean|x[i]|^alpha, normalised: sqrt(max s * min s) = 1
//! pre_quant_scale = 1 / s                inputs are multiplied by it, before they are quantized
//! weights         = W diag(s)            what is quantized and kept
//! error(alpha)    = sum over o, i of  E[x[i]^2] (W[o, i] - Q(W diag(s))[o, i] / s[i])^2
//! ```
//!
//! The error is that of the outputs if inputs of different channels are not correlated; the search needs no
//! samples then, only what an [`Observer`](super::Observer) keeps. It counts the rounding of weights, not
//! of inputs. Exponents are 0 to 1 in steps of 1/20; 0 leaves the weights as they are, so that the result
//! is never worse than that.
//!
//! Sources: Lin et al., *AWQ* (arXiv 2306.00978), section 3.2; NVIDIA ModelOpt, `awq_lite`, for `pre_quant_scale`
//! (inputs are multiplied by it, `weight / pre_quant_scale` is quantized), the lower bound 1e-4 and the
//! normalisation. There the scale is divided by a power `1 - alpha` of how large the weights of the channel are in
//! their blocks, so that exponent 0 is not the unscaled weight; here, as in the paper, it is. Deliberately absent:
//! clipping of weights (`awq_clip`), groups of layers that share a scale.

use crate::error::QuantError;

/// Steps between the exponents 0 and 1.
const STEPS: u32 = 20;
/// Smallest factor of a channel before the normalisation, relative to the largest.
const SMALLEST: f64 = 1e-4;

/// Weights scaled per input channel, with what the inputs are to be multiplied by.
#[derive(Debug, Clone, PartialEq)]
pub struct ScaledWeights {
    /// Exponent that was best.
    pub alpha: f64,
    /// `[in]`: what inputs are multiplied by before they are quantized. Above zero.
    pub pre_quant_scale: Vec<f32>,
    /// `[out, in]`: the weights divided by it, as f32 rounds them; not yet quantized.
    pub weights: Vec<f32>,
    /// Expected squared error of the outputs, summed over them, per row of inputs.
    pub error: f64,
    /// The same without scaling.
    pub unscaled_error: f64,
}

/// Searches the scaling of input channels under which quantized weights give the best outputs.
///
/// # Shapes
///
/// `weights` is `[out, in]`, row-major; `mean_magnitude` and `mean_square` are `[in]`, of the inputs as
/// they are ([`Statistics`](super::Statistics) has both per channel). `round_trip` takes scaled weights
/// `[out, in]` and gives what they are after quantizing and dequantizing; it is called 21 times.
///
/// # Errors
///
/// [`QuantError::LengthMismatch`] if the two means differ in length or `round_trip` gives another number of
/// weights; [`QuantError::NotAMultiple`] unless `weights` is whole rows; [`QuantError::NotFinite`] for
/// weights that are not; [`QuantError::Calibration`] for means that are negative or not finite; what
/// `round_trip` returns.
///
/// # Examples
///
/// ```
/// use spark_quant::calibration::scale_weights;
/// use spark_quant::{ExecutionPolicy, Quantizer, Recipe};
///
/// let weights: Vec<f32> = (0..64 * 32).map(|i| (i as f32 * 0.7).sin()).collect();
/// // The third input is a hundred times as large as the others.
/// let mean_magnitude: Vec<f64> = (0..32).map(|i| if i == 2 { 100.0 } else { 1.0 }).collect();
/// let mean_square: Vec<f64> = mean_magnitude.iter().map(|x| 1.5 * x * x).collect();
/// let quantizer = Quantizer::new(Recipe::NVFP4);
/// let scaled = scale_weights(&weights, &mean_magnitude, &mean_square, |weights| {
///     quantizer.round_trip(ExecutionPolicy::detect(), weights, &[64, 32], 1)
/// })?;
/// assert!(scaled.error < 0.7 * scaled.unscaled_error);
/// # Ok::<(), spark_quant::QuantError>(())
/// ```
pub fn scale_weights(
    weights: &[f32],
    mean_magnitude: &[f64],
    mean_square: &[f64],
    mut round_trip: impl FnMut(&[f32]) -> Result<Vec<f32>, QuantError>,
) -> Result<ScaledWeights, QuantError> {
    let n_in = mean_magnitude.len();
    QuantError::check_length("mean_square", mean_square.len(), n_in)?;
    if n_in > 0 || !weights.is_empty() {
        QuantError::check_multiple("weights", weights.len(), n_in)?;
    }
    if let Some(index) = weights.iter().position(|weight| !weight.is_finite()) {
        return Err(QuantError::NotFinite {
            index,
            value: weights[index],
        });
    }
    for &mean in mean_magnitude.iter().chain(mean_square) {
        if !(mean >= 0.0 && mean.is_finite()) {
            return Err(QuantError::Calibration {
                what: "mean of an input channel",
                got: mean,
                want: "a finite number, not below zero",
            });
        }
    }
    let mut attempt = |step: u32| {
        let alpha = f64::from(step) / f64::from(STEPS);
        let factors = factors(mean_magnitude, alpha);
        let scaled = multiply(weights, &factors);
        // Weights near the top of f32 do not bear every factor.
        let error = if scaled.iter().all(|weight| weight.is_finite()) {
            let back = round_trip(&scaled)?;
            QuantError::check_length("round_trip(weights)", back.len(), weights.len())?;
            output_error(weights, &back, &factors, mean_square)
        } else {
            f64::INFINITY
        };
        Ok::<_, QuantError>(ScaledWeights {
            alpha,
            pre_quant_scale: factors.iter().map(|factor| factor.recip()).collect(),
            weights: scaled,
            error,
            unscaled_error: error,
        })
    };
    let mut best = attempt(0)?;
    for step in 1..=STEPS {
        let other = attempt(step)?;
        if other.error < best.error {
            best = ScaledWeights {
                unscaled_error: best.unscaled_error,
                ..other
            };
        }
    }
    Ok(best)
}

/// What each input channel's weights are multiplied by.
fn factors(mean_magnitude: &[f64], alpha: f64) -> Vec<f32> {
    let largest = mean_magnitude.iter().copied().fold(0.0, f64::max);
    if largest == 0.0 || alpha == 0.0 {
        return vec![1.0; mean_magnitude.len()];
    }
    let powers = mean_magnitude
        .iter()
        .map(|mean| (mean / largest).powf(alpha).max(SMALLEST));
    let powers: Vec<f64> = powers.collect();
    // The largest power is 1.
    let middle = powers.iter().copied().fold(1.0, f64::min).sqrt();
    powers
        .into_iter()
        .map(|power| (power / middle) as f32)
        .collect()
}

fn multiply(weights: &[f32], factors: &[f32]) -> Vec<f32> {
    let rows = weights.chunks(factors.len().max(1));
    rows.flat_map(|row| {
        row.iter()
            .zip(factors)
            .map(|(weight, factor)| weight * factor)
    })
    .collect()
}

/// Squared error of the outputs for inputs whose channels are not correlated.
fn output_error(weights: &[f32], back: &[f32], factors: &[f32], mean_square: &[f64]) -> f64 {
    let n_in = factors.len().max(1);
    let mut error = 0.0;
    for (row, back) in weights.chunks(n_in).zip(back.chunks(n_in)) {
        for (i, (&weight, &back)) in row.iter().zip(back).enumerate() {
            let difference = f64::from(weight) - f64::from(back) / f64::from(factors[i]);
            error += mean_square[i] * difference * difference;
        }
    }
    // A round trip may give what is no number; such a choice is none.
    if error.is_nan() { f64::INFINITY } else { error }
}
