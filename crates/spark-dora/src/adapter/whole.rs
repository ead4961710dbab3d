//! Modules that are trained whole, offered to an adapter.
//!
//! Tensors lie in PEFT's file under the names they have in the network: `base_model.model.<module>.<tensor>`.

use std::collections::BTreeMap;

use candle_core::Tensor;

use super::entry::{Entry, Kind};
use super::size::LayerSize;
use super::{Adapter, Source};
use crate::config::Targets;
use crate::error::{DoraError, Result};
use crate::finite;
use crate::layer::factors::named;
use crate::layer::{SavedLayer, SavedTensors, WholeLayer};

impl Adapter {
    /// Offers a module of any kind by its tensors: variables for all of them if `modules_to_save` means it,
    /// otherwise nothing, and the module stays as it is. No other way of adapting applies to it.
    ///
    /// # Errors
    ///
    /// [`DoraError::Duplicate`] for a name used before or a tensor given twice; [`DoraError::SavedAndAdapted`]
    /// if the settings mean the module in both ways; [`DoraError::NotFinite`] and [`DoraError::ElementType`]
    /// for tensors that cannot be trained; [`DoraError::Tensors`] and [`DoraError::Shape`] if a file's tensors
    /// do not fit.
    ///
    /// # Examples
    ///
    /// ```
    /// use candle_core::{DType, Device, Tensor};
    /// use candle_nn::{LayerNorm, Module};
    /// use spark_dora::{Adapter, DoraConfig};
    ///
    /// let config = DoraConfig::builder(4).targets([""; 0]).modules_to_save(["norm"]).build()?;
    /// let mut adapter = Adapter::new(config, DType::F32, &Device::Cpu)?;
    /// let weight = Tensor::ones(8, DType::F32, &Device::Cpu)?;
    /// let norm = adapter.module("trunk.norm", &[("weight", &weight)])?;
    /// let norm = norm.expect("it is meant");
    /// let x = Tensor::randn(0f32, 1.0, (2, 8), &Device::Cpu)?;
    /// // Made anew in every forward pass.
    /// let y = LayerNorm::new_no_bias(norm.get("weight")?, 1e-5).forward(&x)?;
    /// assert_eq!(adapter.variables().whole.len(), 1);
    /// # Ok::<(), spark_dora::DoraError>(())
    /// ```
    pub fn module(
        &mut self,
        name: &str,
        tensors: &[(&str, &Tensor)],
    ) -> Result<Option<SavedTensors>> {
        let saved = self.saved(name, tensors, false)?;
        if saved.is_none() {
            self.refuse_known(name)?;
            let size = LayerSize::frozen(tensors.iter().map(|(_, tensor)| *tensor));
            let kind = Kind::Plain;
            let entry = Entry::new(kind, size, None, self.dtype);
            self.layers.insert(name.to_owned(), entry);
        }
        Ok(saved)
    }

    /// The layer with variables for its weight and its bias, if it is to be trained whole.
    pub(super) fn saved_layer<P: WholeLayer>(
        &mut self,
        name: &str,
        frozen: &P,
    ) -> Result<Option<SavedLayer<P>>> {
        let (weight, bias) = frozen.tensors();
        let tensors = [("weight", Some(&weight)), ("bias", bias.as_ref())];
        let tensors: Vec<_> = tensors
            .into_iter()
            .filter_map(|(n, t)| Some((n, t?)))
            .collect();
        let Some(variables) = self.saved(name, &tensors, true)? else {
            return Ok(None);
        };
        let base = frozen.with_tensors(weight, bias)?;
        Ok(Some(SavedLayer::new(base, variables)))
    }

    /// The module's variables, if it is to be trained whole; `is_layer` where it could be adapted instead.
    fn saved(
        &mut self,
        name: &str,
        tensors: &[(&str, &Tensor)],
        is_layer: bool,
    ) -> Result<Option<SavedTensors>> {
        if !self.config.saves(name) {
            return Ok(None);
        }
        self.refuse_known(name)?;
        let targets = self.config.target_modules.as_ref();
        let is_targeted = match targets.is_some_and(Targets::is_all) {
            true => is_layer,
            false => self.config.targets(name)?,
        };
        let is_adapted = is_targeted || self.config.is_magnitude_only(name);
        if is_adapted && !self.config.excludes(name)? {
            return Err(DoraError::SavedAndAdapted {
                layer: name.to_owned(),
            });
        }
        let mut values = BTreeMap::new();
        for &(tensor_name, tensor) in tensors {
            let key = named(name, tensor_name);
            finite::check(&key, tensor)?;
            if values
                .insert(tensor_name.to_owned(), tensor.detach())
                .is_some()
            {
                return Err(DoraError::Duplicate { name: key });
            }
        }
        let types: Vec<_> = values.values().map(Tensor::dtype).collect();
        let frozen = LayerSize::frozen(values.values());
        if let Source::Peft { stored, .. } = &mut self.source {
            stored.claim_whole(name, &mut values)?;
        }
        let mut variables = BTreeMap::new();
        for ((tensor_name, value), base_type) in values.into_iter().zip(types) {
            let value = value.to_dtype(self.dtype)?;
            let variable = self.put(&named(name, &tensor_name), &value)?;
            variables.insert(tensor_name, (variable.as_tensor().clone(), base_type));
        }
        let saved = SavedTensors::new(variables);
        let variable_bytes = frozen.base_parameters * self.dtype.size_in_bytes();
        let size = LayerSize {
            adapter_bytes: variable_bytes,
            adapter_parameters: frozen.base_parameters,
            fixed_bytes: variable_bytes,
            ..frozen
        };
        let kind = Kind::Whole(saved.clone());
        let entry = Entry::new(kind, size, None, self.dtype);
        self.layers.insert(name.to_owned(), entry);
        Ok(Some(saved))
    }
}
