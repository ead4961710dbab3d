//! Biases that are trained beside the adapters: PEFT's `bias`, of all layers or of adapted ones.
//!
//! ```text
//! base_model.model.<layer>.base_layer.bias     of adapted layers
//! base_model.model.<layer>.bias                of others, with `all`
//! ```
//!
//! A bias is its own variable, so there is nothing to add when a network is merged. PEFT 0.21.2,
//! `peft/tuners/tuners_utils.py`: which biases learn, and under which names they are saved.
//! Deliberately absent: biases of modules that are no layers ([`Adapter::module`]).

use candle_core::Tensor;

use super::entry::{PLAIN, UNDER_ADAPTER};
use super::{Adapter, Source};
use crate::config::Biases;
use crate::error::{DoraError, Result};
use crate::finite;
use crate::layer::factors::named;

impl Adapter {
    /// The bias of a layer that was offered, if it is trained: its variable.
    pub fn bias(&self, name: &str) -> Option<&Tensor> {
        self.layers.get(name)?.bias.as_ref()
    }

    /// Whether biases of any layers are trained.
    pub(super) fn trains_biases(&self) -> bool {
        self.config.bias != Biases::None
    }

    /// The bias of a layer under the adapter: a variable, or frozen.
    pub(super) fn bias_of_adapted(
        &mut self,
        name: &str,
        bias: Option<&Tensor>,
    ) -> Result<Option<Tensor>> {
        self.bias_by(name, bias, true)
    }

    /// The bias of a layer that is not adapted: a variable, or frozen.
    pub(super) fn bias_of_plain(
        &mut self,
        name: &str,
        bias: Option<&Tensor>,
    ) -> Result<Option<Tensor>> {
        self.bias_by(name, bias, false)
    }

    fn bias_by(
        &mut self,
        name: &str,
        bias: Option<&Tensor>,
        is_adapted: bool,
    ) -> Result<Option<Tensor>> {
        let Some(bias) = bias else { return Ok(None) };
        if !self.config.bias.trains(is_adapted) {
            return Ok(Some(bias.detach()));
        }
        if bias.dtype() != self.dtype {
            return Err(DoraError::Unsupported {
                name: "bias",
                value: format!("{:?}", self.config.bias),
                reason: "biases are trained in the type of the adapter's variables, which the layer's must be of",
            });
        }
        finite::check(&named(name, "bias"), bias)?;
        let key = match is_adapted {
            true => UNDER_ADAPTER,
            false => PLAIN,
        };
        let value = match &mut self.source {
            Source::Peft { stored, .. } => stored.claim_bias(&named(name, key), bias.dims())?,
            Source::New | Source::Kohya(_) => bias.detach(),
        };
        let value = value.to_dtype(self.dtype)?;
        let variable = self.put(&named(name, key), &value)?;
        Ok(Some(variable.as_tensor().clone()))
    }
}
