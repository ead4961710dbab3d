//! What an adapter keeps of a layer that was offered to it.

use candle_core::{DType, Tensor};

use super::size::LayerSize;
use crate::config::LayerConfig;
use crate::layer::factors::Factors;
use crate::layer::saved::SavedTensors;

/// Key of the bias of a layer under the adapter.
pub(super) const UNDER_ADAPTER: &str = "base_layer.bias";
/// Key of another layer's.
pub(super) const PLAIN: &str = "bias";

/// A layer of an adapter.
pub(super) struct Entry {
    pub(super) kind: Kind,
    pub(super) size: LayerSize,
    /// Its bias, if that is trained beside the adapters.
    pub(super) bias: Option<Tensor>,
}

/// What became of an offered layer.
pub(super) enum Kind {
    /// It stays as it was.
    Plain,
    /// It is under the adapter.
    Adapted {
        config: LayerConfig,
        factors: Factors,
        /// Of its base weight.
        fingerprint: u64,
    },
    /// All its tensors are trained.
    Whole(SavedTensors),
}

impl Entry {
    /// A layer whose bias, if it is a variable, is trained in `dtype`.
    pub(super) fn new(
        kind: Kind,
        mut size: LayerSize,
        bias: Option<&Tensor>,
        dtype: DType,
    ) -> Self {
        let bias = bias.filter(|bias| bias.is_variable()).cloned();
        let count = bias.as_ref().map_or(0, Tensor::elem_count);
        size.adapter_parameters += count;
        size.adapter_bytes += count * dtype.size_in_bytes();
        size.fixed_bytes += count * dtype.size_in_bytes();
        Self { kind, size, bias }
    }

    /// What PEFT calls the bias in its files, behind the module's name: an adapted layer is inside another module there.
    pub(super) fn key_of_bias(&self) -> &'static str {
        match self.kind {
            Kind::Adapted { .. } => UNDER_ADAPTER,
            Kind::Plain | Kind::Whole(_) => PLAIN,
        }
    }

    /// Settings and variables, if the layer is under the adapter.
    pub(super) fn adapted(&self) -> Option<(&LayerConfig, &Factors)> {
        match &self.kind {
            Kind::Adapted {
                config, factors, ..
            } => Some((config, factors)),
            Kind::Plain | Kind::Whole(_) => None,
        }
    }

    /// Settings of a layer under the adapter as they are written: of twice the rank, and of the same scale, if A
    /// and B began as parts of the weight.
    pub(super) fn written(&self) -> Option<LayerConfig> {
        let (config, factors) = self.adapted()?;
        let mut written = config.clone();
        if factors.initial().is_some() {
            written.rank *= 2;
            written.alpha *= alpha_of_twice_the_rank(config.rslora);
        }
        Some(written)
    }
}

/// By what alpha grows so that the scale stays where the rank doubles.
pub(super) fn alpha_of_twice_the_rank(rslora: bool) -> f64 {
    if rslora {
        std::f64::consts::SQRT_2
    } else {
        2.0
    }
}
