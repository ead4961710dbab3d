//! What is to be chosen, and how.

use std::collections::BTreeMap;

use spark_quant::calibration::ScaleMethod;

use crate::Precision;

/// How weights are rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum WeightRounding {
    /// For the inputs that they meet, each making up for those before
    /// ([`compensate`](spark_quant::calibration::compensate)). Every fourth batch (of a single
    /// one, a fourth of its rows) judges whether that is better, and whether making up for the rounding of inputs too is.
    #[default]
    Compensated,
    /// To the nearest.
    Nearest,
}

/// What is chosen, and how.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct CalibrationOptions {
    /// Format of every layer that can have it: fp8, fp4 or int8; fp32 leaves layers alone.
    pub precision: Precision,
    /// Formats of single layers by name of the step, as a mixed plan gives them; fp8 and fp4 are calibrated, others
    /// left alone. Beside int8 there is only fp32, and int8 is not for single layers.
    pub by_step: BTreeMap<String, Precision>,
    /// How the scale of inputs is chosen.
    pub scales: ScaleMethod,
    /// How weights are rounded.
    pub weights: WeightRounding,
}

impl CalibrationOptions {
    /// Everything in `precision`, scales by the least squared error, weights rounded for their inputs.
    pub fn new(precision: Precision) -> Self {
        Self {
            precision,
            by_step: BTreeMap::new(),
            scales: ScaleMethod::MeanSquaredError,
            weights: WeightRounding::default(),
        }
    }

    /// Chooses input scales this way.
    #[must_use]
    pub fn with_scales(mut self, scales: ScaleMethod) -> Self {
        self.scales = scales;
        self
    }

    /// Rounds weights this way.
    #[must_use]
    pub fn with_weights(mut self, weights: WeightRounding) -> Self {
        self.weights = weights;
        self
    }

    /// Gives single layers formats of their own.
    #[must_use]
    pub fn with_by_step(mut self, by_step: BTreeMap<String, Precision>) -> Self {
        self.by_step = by_step;
        self
    }
}
