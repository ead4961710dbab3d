//! What a calibration chose, by name of the step or product.
//!
//! ```text
//! fp8, fp4    codes and scales of the weights, a scale for the inputs         put into the plan (`apply`)
//! fp16, fp32  nothing: the weights are the network's own                      layers of a mixed plan
//! int8        codes and scales of the weights, a bias, bytes on both sides    put into the graph (`integers`)
//! ```
//!
//! Deliberately absent: the file (`file`).

use std::collections::BTreeMap;
use std::sync::Arc;

use spark_quant::packed::Scales;
use spark_quant::scalar::MiniFormat;
use spark_quant::{PackedFormat, PackedTensor};

use super::integer_layer::IntegerLayer;
use crate::plan::{CalibratedWeights, Plan, PlannedStep, Step, Weights};
use crate::{ModelError, Precision};

/// Values that share a scale in four bits.
const BLOCK: usize = PackedFormat::Nvfp4.block();

/// Weights and input scales of the layers of one network, chosen on real inputs.
///
/// [`RunOptions::with_calibration`](crate::RunOptions::with_calibration) runs the network with it; it fits that network
/// only, with any batch size.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Calibration {
    /// Layers in fp8 and fp4.
    pub(super) layers: BTreeMap<String, Arc<CalibratedWeights>>,
    /// Formats of layers whose weights are the network's own.
    pub(super) others: BTreeMap<String, Precision>,
    /// Products in int8; if there are any, there is nothing else.
    pub(super) integers: BTreeMap<String, Arc<IntegerLayer>>,
}

// Scales and codes have no NaN: every way to make one refuses it.
impl Eq for Calibration {}

impl Calibration {
    /// What was chosen for `products`, by name.
    pub(super) fn of_integers<'a>(
        products: impl IntoIterator<Item = (&'a String, &'a Arc<IntegerLayer>)>,
    ) -> Self {
        let products = products.into_iter();
        Self {
            integers: products
                .map(|(name, layer)| (name.clone(), Arc::clone(layer)))
                .collect(),
            ..Self::default()
        }
    }

    /// Names of the layers, with the format of each.
    pub fn formats(&self) -> impl Iterator<Item = (&str, Precision)> {
        let layers = self.layers.iter();
        let layers =
            layers.filter_map(|(name, layer)| Some((name.as_str(), precision_of(&layer.packed)?)));
        let others = self.others.iter();
        let others = others.map(|(name, precision)| (name.as_str(), *precision));
        let integers = self.integers.keys();
        let integers = integers.map(|name| (name.as_str(), Precision::Int8));
        layers.chain(others).chain(integers)
    }

    /// Whether it is for products on eight-bit integers: all of its layers are.
    pub fn is_of_integers(&self) -> bool {
        !self.integers.is_empty()
    }

    /// What was chosen for product `name` in int8.
    pub fn integer_layer(&self, name: &str) -> Option<&IntegerLayer> {
        self.integers.get(name).map(Arc::as_ref)
    }

    /// Codes and scales of the weights of layer `name`, `[out][tap, in]`; in four bits the inputs of a tap are padded
    /// with zeros to a multiple of 16. In int8 `[out][in, tap]`, see [`IntegerLayer::weights`].
    pub fn weights(&self, name: &str) -> Option<&PackedTensor> {
        let floats = self.layers.get(name).map(|layer| &layer.packed);
        floats.or_else(|| self.integer_layer(name).map(|layer| &layer.weights))
    }

    /// What code 1.0 of an input of layer `name` stands for, in fp4 the scale of the tensor, in int8 what a step of one
    /// byte is worth; `None` where inputs are not rounded.
    pub fn input_scale(&self, name: &str) -> Option<f32> {
        match self.layers.get(name) {
            Some(layer) => layer.input_scale,
            None => self.integer_layer(name).map(|layer| layer.input.scale),
        }
    }

    /// What was chosen for layer `name`.
    pub(super) fn layer(&self, name: &str) -> Option<Arc<CalibratedWeights>> {
        self.layers.get(name).cloned()
    }

    /// Bytes of codes and scales.
    pub fn size_bytes(&self) -> usize {
        let layers = self.layers.values();
        let floats: usize = layers.map(|layer| layer.packed.size_bytes() + 4).sum();
        let integers = self.integers.values();
        floats + integers.map(|layer| layer.size_bytes()).sum::<usize>()
    }

    /// Gives each layer's step of `plan` what was chosen for it; products in int8 are the graph's already.
    ///
    /// # Errors
    ///
    /// [`ModelError::Calibration`] for a layer that the plan has not once, or with other extents or weights.
    pub(crate) fn apply(&self, plan: &mut Plan) -> Result<(), ModelError> {
        for (name, layer) in &self.layers {
            let mut steps = plan.steps.iter_mut().filter(|step| step.name == *name);
            let (Some(step), None) = (steps.next(), steps.next()) else {
                return Err(refused(name, "the network has no one step of this name"));
            };
            let weights = weights_mut(step);
            let weights =
                weights.ok_or_else(|| refused(name, "the step has no weights in one group"))?;
            if layer.packed.shape() != packed_shape(weights, precision_of(&layer.packed)) {
                return Err(refused(
                    name,
                    &format!(
                        "weights of shape {:?}, where the step has {} outputs, {} taps and {} inputs",
                        layer.packed.shape(),
                        weights.out_per_group,
                        weights.taps,
                        weights.in_per_group
                    ),
                ));
            }
            if layer.chosen_for != weights.digest() {
                return Err(refused(
                    name,
                    "it was made for other weights than the network has",
                ));
            }
            weights.set_calibrated(Some(Arc::clone(layer)));
        }
        let is_there = |name: &String| plan.steps.iter().any(|step| step.name == *name);
        match self.others.keys().find(|name| !is_there(name)) {
            Some(name) => Err(refused(name, "the network has no step of this name")),
            None => Ok(()),
        }
    }

    pub(super) fn insert(&mut self, name: String, layer: Arc<CalibratedWeights>) {
        self.layers.insert(name, layer);
    }

    /// Leaves the weights of layer `name` as the network has them, in `precision`.
    pub(super) fn leave(&mut self, name: String, precision: Precision) {
        self.others.insert(name, precision);
    }
}

/// The format that runs such weights, if any does.
pub(super) fn precision_of(packed: &PackedTensor) -> Option<Precision> {
    let is_per_row =
        matches!(packed.scales(), Scales::F32 { values, .. } if values.len() == packed.n_rows());
    let is_matrix = packed.shape().len() == 2 && packed.axis() == 1 && packed.rotation().is_none();
    match packed.format() {
        _ if !is_matrix => None,
        PackedFormat::Nvfp4 => Some(Precision::Fp4),
        PackedFormat::Fp8(MiniFormat::E4m3) if is_per_row => Some(Precision::Fp8),
        PackedFormat::Int8 if is_per_row => Some(Precision::Int8),
        _ => None,
    }
}

/// The shape of `weights` packed in `precision`.
pub(super) fn packed_shape(weights: &Weights, precision: Option<Precision>) -> [usize; 2] {
    let depth = match precision {
        Some(Precision::Fp4) => weights.in_per_group.next_multiple_of(BLOCK),
        _ => weights.in_per_group,
    };
    [weights.out_per_group, weights.taps * depth]
}

/// The weights of a step that a calibration can choose for.
pub(super) fn weights(step: &PlannedStep) -> Option<&Weights> {
    match &step.step {
        Step::Conv(s) if s.weights.groups == 1 && !s.transposed => Some(&s.weights),
        Step::Linear(s) => Some(&s.weights),
        _ => None,
    }
}

/// The same, to be changed.
pub(super) fn weights_mut(step: &mut PlannedStep) -> Option<&mut Weights> {
    match &mut step.step {
        Step::Conv(s) if s.weights.groups == 1 && !s.transposed => Some(&mut s.weights),
        Step::Linear(s) => Some(&mut s.weights),
        _ => None,
    }
}

pub(super) fn refused(step: &str, reason: &str) -> ModelError {
    ModelError::Calibration {
        step: step.to_owned(),
        reason: reason.to_owned(),
    }
}
