//! Modules that are trained whole and saved beside the adapter: PEFT's `modules_to_save`.
//!
//! ```text
//! base        the module as it was offered; it is not touched
//! variables   a copy of all its tensors, f32 or f64, trained
//! forward     the module made of the variables, converted to the base's types
//! ```
//!
//! A module that holds integers (the counter of a batch norm of torch's) cannot be trained whole here.

use std::collections::BTreeMap;

use candle_core::{DType, Result as CandleResult, Tensor};
use candle_nn::{Conv1d, Conv2d, Embedding, Linear, Module};

use super::train::TrainModule;
use crate::error::{DoraError, Result};

/// The tensors of a module that is trained whole, by their names in the module.
#[derive(Clone, Debug)]
pub struct SavedTensors {
    /// A variable, and the type of the base's tensor.
    tensors: BTreeMap<String, (Tensor, DType)>,
}

impl SavedTensors {
    pub(crate) fn new(tensors: BTreeMap<String, (Tensor, DType)>) -> Self {
        Self { tensors }
    }

    /// The present values of a tensor in the type of the base's, through which gradients reach the variable.
    /// To be asked for in every forward pass, since a tensor of another type than the variable's is a copy.
    ///
    /// # Errors
    ///
    /// [`DoraError::UnknownLayer`] for a name the module was not offered with.
    pub fn get(&self, name: &str) -> Result<Tensor> {
        let Some((tensor, dtype)) = self.tensors.get(name) else {
            return Err(DoraError::UnknownLayer {
                name: name.to_owned(),
            });
        };
        Ok(tensor.to_dtype(*dtype)?)
    }

    /// The variables with their names, in the order of these.
    pub fn variables(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        let named = self.tensors.iter();
        named.map(|(name, (tensor, _))| (name.as_str(), tensor))
    }
}

/// A layer of candle's that can be made again with other tensors.
///
/// Implemented for `Linear`, `Conv1d`, `Conv2d` and `Embedding`.
pub trait WholeLayer: Sized {
    /// Its weight, and its bias if it has one.
    fn tensors(&self) -> (Tensor, Option<Tensor>);

    /// A layer of the same settings with these tensors.
    ///
    /// # Errors
    ///
    /// As candle's, for a weight of other axes.
    fn with_tensors(&self, weight: Tensor, bias: Option<Tensor>) -> CandleResult<Self>;
}

impl WholeLayer for Linear {
    fn tensors(&self) -> (Tensor, Option<Tensor>) {
        (self.weight().clone(), self.bias().cloned())
    }

    fn with_tensors(&self, weight: Tensor, bias: Option<Tensor>) -> CandleResult<Self> {
        Ok(Self::new(weight, bias))
    }
}

impl WholeLayer for Conv1d {
    fn tensors(&self) -> (Tensor, Option<Tensor>) {
        (self.weight().clone(), self.bias().cloned())
    }

    fn with_tensors(&self, weight: Tensor, bias: Option<Tensor>) -> CandleResult<Self> {
        Ok(Self::new(weight, bias, *self.config()))
    }
}

impl WholeLayer for Conv2d {
    fn tensors(&self) -> (Tensor, Option<Tensor>) {
        (self.weight().clone(), self.bias().cloned())
    }

    fn with_tensors(&self, weight: Tensor, bias: Option<Tensor>) -> CandleResult<Self> {
        Ok(Self::new(weight, bias, *self.config()))
    }
}

impl WholeLayer for Embedding {
    fn tensors(&self) -> (Tensor, Option<Tensor>) {
        (self.embeddings().clone(), None)
    }

    fn with_tensors(&self, weight: Tensor, _: Option<Tensor>) -> CandleResult<Self> {
        let width = weight.dim(1)?;
        Ok(Self::new(weight, width))
    }
}

/// A layer that is trained whole: its weight and its bias are variables.
#[derive(Clone, Debug)]
pub struct SavedLayer<P> {
    base: P,
    variables: SavedTensors,
}

impl<P: WholeLayer> SavedLayer<P> {
    pub(crate) fn new(base: P, variables: SavedTensors) -> Self {
        Self { base, variables }
    }

    /// The layer as it was offered.
    pub fn base(&self) -> &P {
        &self.base
    }

    /// The variables, `weight` and `bias`.
    pub fn variables(&self) -> &SavedTensors {
        &self.variables
    }

    /// A plain layer of the present values, in the base's types; gradients reach the variables.
    ///
    /// # Errors
    ///
    /// As candle's.
    pub fn layer(&self) -> Result<P> {
        let weight = self.variables.get("weight")?;
        let (_, bias) = self.base.tensors();
        let bias = bias.map(|_| self.variables.get("bias")).transpose()?;
        Ok(self.base.with_tensors(weight, bias)?)
    }
}

impl<P: WholeLayer + Module> Module for SavedLayer<P> {
    fn forward(&self, x: &Tensor) -> CandleResult<Tensor> {
        self.layer()?.forward(x)
    }
}

/// Training is as evaluation: a whole layer drops nothing.
impl<P: WholeLayer + Module> TrainModule for SavedLayer<P> {}
