//! How weights and activations of eight and four bits are quantised before a GEMM.
//!
//! ```text
//!        weights                                        activations
//! fp8    E4M3, a scale per output channel               E4M3, a scale per tensor
//! fp4    NVFP4, a scale per 16 input channels and one   NVFP4, the same; scales by the largest
//!        per tensor; scales by least squared error      magnitude
//! ```
//!
//! What an executor must do with it: quantise the weights when it packs them, along the input
//! channels of a tap; and, where there is a recipe for activations, quantise the whole operand of a
//! step before the GEMM at every run, with values that are not finite refused. The values that enter
//! the GEMM are then those of `spark-quant` to the last bit, whatever computes it.

use spark_quant::Recipe;
use spark_quant::block::Granularity;
use spark_quant::scalar::MiniFormat;

use super::Activations;
use crate::Precision;

/// The recipes of both sides of one GEMM or convolution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct GemmRecipes {
    /// What weights go through, once.
    pub(crate) weights: Recipe,
    /// What activations go through at every run; `None` if they enter as they are, in f32.
    pub(crate) activations: Option<Recipe>,
}

impl GemmRecipes {
    /// The recipes of a step in `precision`, which is fp8 or fp4; `None` for any other.
    pub(crate) fn of(precision: Precision, activations: Activations) -> Option<Self> {
        let fp8 = |granularity| Recipe::Fp8 {
            format: MiniFormat::E4m3,
            granularity,
        };
        let (weights, quantised) = match precision {
            Precision::Fp8 => (fp8(Granularity::Row), fp8(Granularity::Tensor)),
            Precision::Fp4 => (Recipe::NVFP4_SWEEP, Recipe::NVFP4),
            _ => return None,
        };
        Some(Self {
            weights,
            activations: (activations == Activations::Quantised).then_some(quantised),
        })
    }
}
