//! What rounded weights make up for, and which of several ways to round is the best.
//!
//! ```text
//! to the nearest
//! for the inputs that enter:   Q x^ ~ W x^      makes up for the rounding of weights
//! for the exact ones:          Q x^ ~ W x       and for that of inputs and of layers before
//! ```
//!
//! The last asks most of the batches. In four bits, where the errors are large, it gains most; in eight, where they
//! are small and the batches few, what it learns is often these batches alone. So each way rounds on some of the batches,
//! and the error of the outputs on the others chooses.

use spark_quant::calibration::{InputMoments, compensate};
use spark_quant::{ExecutionPolicy, PackedTensor, QuantError, Quantizer, Recipe};

/// Of so many batches, one judges the ways to round.
pub(super) const EVERY: usize = 4;
/// Rows of a layer's outputs on which its error is measured.
pub(super) const ERROR_ROWS: usize = 512;

/// What weights are made up for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Fit {
    Nearest,
    /// The rounding of weights.
    Weights,
    /// That, and what has become of the inputs.
    WeightsAndInputs,
}

impl Fit {
    pub(super) const ALL: [Self; 3] = [Self::Nearest, Self::Weights, Self::WeightsAndInputs];

    /// Rounds `weights`, `[out][in]` of this `shape`, for rows of inputs: what the layer gets in f32, and what enters it.
    pub(super) fn round(
        self,
        policy: ExecutionPolicy,
        weights: &[f32],
        shape: [usize; 2],
        (exact, rounded): (&[f32], &[f32]),
        recipe: Recipe,
    ) -> Result<PackedTensor, QuantError> {
        let wanted = match self {
            Self::Nearest => return Quantizer::new(recipe).quantize(policy, weights, &shape, 1),
            Self::Weights => rounded,
            Self::WeightsAndInputs => exact,
        };
        let mut moments = InputMoments::new(shape[1]);
        moments.observe(policy, wanted, rounded)?;
        Ok(compensate(policy, weights, &moments, recipe)?.packed)
    }
}

/// The way with the least error, the first of those alike; `otherwise` where none is below infinity.
pub(super) fn best_way<W: Copy>(
    ways: impl IntoIterator<Item = W>,
    otherwise: W,
    mut error: impl FnMut(W) -> Result<f64, QuantError>,
) -> Result<W, QuantError> {
    let mut best = (otherwise, f64::INFINITY);
    for way in ways {
        let error = error(way)?;
        if error < best.1 {
            best = (way, error);
        }
    }
    Ok(best.0)
}
