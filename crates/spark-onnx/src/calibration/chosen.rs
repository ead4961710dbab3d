//! What a calibration chose, by name of the step, and its file.
//!
//! ```text
//! NAME.weight        codes and scales, [out][tap, in], in spark-quant's own safetensors layout
//! NAME.chosen_for    f32, four values of 16 bits: a digest of the weights that were rounded
//! NAME.input_scale   f32, one value; absent where inputs are not rounded
//! NAME.bits          f32, 16 or 32: a layer of a mixed plan whose weights are the network's own, in fp16 or fp32
//! ```

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use spark_quant::checkpoint::{Checkpoint, Entry, Inputs, Layout, Plain, Weight};
use spark_quant::packed::Scales;
use spark_quant::scalar::MiniFormat;
use spark_quant::{PackedFormat, PackedTensor};

use crate::plan::{CalibratedWeights, Plan, PlannedStep, Step, Weights};
use crate::{ModelError, Precision};

const WEIGHT: &str = ".weight";
const INPUT_SCALE: &str = ".input_scale";
const CHOSEN_FOR: &str = ".chosen_for";
const BITS: &str = ".bits";
/// Values that share a scale in four bits.
const BLOCK: usize = PackedFormat::Nvfp4.block();

/// Weights and input scales of the layers of one network, chosen on real inputs.
///
/// [`RunOptions::with_calibration`](crate::RunOptions::with_calibration) runs the network with it; it fits that network
/// only, with any batch size.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Calibration {
    layers: BTreeMap<String, Arc<CalibratedWeights>>,
    /// Formats of layers whose weights are the network's own.
    others: BTreeMap<String, Precision>,
}

// Scales and codes have no NaN: every way to make one refuses it.
impl Eq for Calibration {}

impl Calibration {
    /// Reads what [`Calibration::write`] wrote.
    ///
    /// # Errors
    ///
    /// [`ModelError::CalibrationFile`] if the file cannot be read as a checkpoint; [`ModelError::Calibration`] for a weight of
    /// another format, an input scale that is not above zero or belongs to no weight, and other tensors.
    pub fn read(path: &Path) -> Result<Self, ModelError> {
        let read = Checkpoint::read(path);
        let (checkpoint, _) = read.map_err(|source| of_file(path, source))?;
        Self::from_checkpoint(&checkpoint)
    }

    /// Writes a safetensors file: first under another name, then renamed.
    ///
    /// # Errors
    ///
    /// [`ModelError::CalibrationFile`] if writing fails.
    pub fn write(&self, path: &Path) -> Result<(), ModelError> {
        let refused = |source| of_file(path, source);
        let mut checkpoint = Checkpoint::default();
        for (name, layer) in &self.layers {
            let weight = Weight {
                packed: layer.packed.clone(),
                shape: layer.packed.shape().to_vec(),
                inputs: Inputs::Unquantized,
            };
            let entries = &mut checkpoint.entries;
            entries.insert(format!("{name}{WEIGHT}"), Entry::Quantized(weight));
            let parts = [48, 32, 16, 0].map(|shift| (layer.chosen_for >> shift & 0xFFFF) as f32);
            let digest = Plain::from_f32(&parts, &[4]).map_err(refused)?;
            entries.insert(format!("{name}{CHOSEN_FOR}"), Entry::Plain(digest));
            if let Some(scale) = layer.input_scale {
                let scale = Plain::from_f32(&[scale], &[1]).map_err(refused)?;
                entries.insert(format!("{name}{INPUT_SCALE}"), Entry::Plain(scale));
            }
        }
        for (name, precision) in &self.others {
            let bits = Plain::from_f32(&[precision.bits() as f32], &[1]).map_err(refused)?;
            let name = format!("{name}{BITS}");
            checkpoint.entries.insert(name, Entry::Plain(bits));
        }
        checkpoint.write(path, Layout::Native).map_err(refused)
    }

    /// Names of the layers, with the format of each.
    pub fn formats(&self) -> impl Iterator<Item = (&str, Precision)> {
        let layers = self.layers.iter();
        let layers =
            layers.filter_map(|(name, layer)| Some((name.as_str(), precision_of(&layer.packed)?)));
        let others = self.others.iter();
        layers.chain(others.map(|(name, precision)| (name.as_str(), *precision)))
    }

    /// Codes and scales of the weights of layer `name`, `[out][tap, in]`; in four bits the inputs of a tap are padded
    /// with zeros to a multiple of 16.
    pub fn weights(&self, name: &str) -> Option<&PackedTensor> {
        self.layers.get(name).map(|layer| &layer.packed)
    }

    /// What code 1.0 of an input of layer `name` stands for, in fp4 the scale of the tensor; `None` where inputs are not
    /// rounded.
    pub fn input_scale(&self, name: &str) -> Option<f32> {
        self.layers.get(name)?.input_scale
    }

    /// What was chosen for layer `name`.
    pub(super) fn layer(&self, name: &str) -> Option<Arc<CalibratedWeights>> {
        self.layers.get(name).cloned()
    }

    /// Bytes of codes and scales.
    pub fn size_bytes(&self) -> usize {
        let layers = self.layers.values();
        layers.map(|layer| layer.packed.size_bytes() + 4).sum()
    }

    /// Gives each layer's step of `plan` what was chosen for it.
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

    fn from_checkpoint(checkpoint: &Checkpoint) -> Result<Self, ModelError> {
        let (mut scales, mut digests) = (BTreeMap::new(), BTreeMap::new());
        let mut layers = BTreeMap::new();
        let mut chosen = Self::default();
        for (name, entry) in &checkpoint.entries {
            if let (Some(step), Entry::Plain(bits)) = (name.strip_suffix(BITS), entry) {
                let precision = match bits.to_f32().as_deref() {
                    Some([16.0]) => Precision::Fp16,
                    Some([32.0]) => Precision::Fp32,
                    _ => return Err(refused(step, "bits other than 16 and 32")),
                };
                chosen.leave(step.to_owned(), precision);
                continue;
            }
            if let (Some(step), Entry::Plain(parts)) = (name.strip_suffix(CHOSEN_FOR), entry) {
                let digest = digest(parts.to_f32().as_deref());
                let what = "a digest that is not four numbers of 16 bits";
                digests.insert(step.to_owned(), digest.ok_or_else(|| refused(step, what))?);
                continue;
            }
            match (
                name.strip_suffix(WEIGHT),
                name.strip_suffix(INPUT_SCALE),
                entry,
            ) {
                (Some(step), _, Entry::Quantized(weight)) => {
                    if precision_of(&weight.packed).is_none() {
                        let what = format!(
                            "weights of {}, where fp8 with a scale per row and nvfp4 can be run",
                            weight.packed.format()
                        );
                        return Err(refused(step, &what));
                    }
                    layers.insert(step.to_owned(), weight.packed.clone());
                }
                (_, Some(step), Entry::Plain(plain)) => match plain.to_f32().as_deref() {
                    Some(&[scale]) if scale > 0.0 && scale.is_finite() => {
                        scales.insert(step.to_owned(), scale);
                    }
                    _ => return Err(refused(step, "an input scale that is no number above zero")),
                },
                _ => return Err(refused(name, "a tensor that no calibration has")),
            }
        }
        for (name, packed) in layers {
            let chosen_for = digests.remove(&name);
            let missing = || refused(&name, "no digest of the weights that were rounded");
            let layer = CalibratedWeights {
                packed,
                chosen_for: chosen_for.ok_or_else(missing)?,
                input_scale: scales.remove(&name),
            };
            chosen.layers.insert(name, Arc::new(layer));
        }
        match scales.into_keys().chain(digests.into_keys()).next() {
            Some(name) => Err(refused(&name, "an input scale or a digest without weights")),
            None => Ok(chosen),
        }
    }
}

/// The digest of weights in four parts of 16 bits.
fn digest(parts: Option<&[f32]>) -> Option<u64> {
    let parts = parts.filter(|parts| parts.len() == 4)?;
    parts.iter().try_fold(0, |digest: u64, &part| {
        let is_whole = (0.0..=65535.0).contains(&part) && part.fract() == 0.0;
        is_whole.then_some(digest << 16 | part as u64)
    })
}

/// The format that runs such weights, if any does.
fn precision_of(packed: &PackedTensor) -> Option<Precision> {
    let is_per_row =
        matches!(packed.scales(), Scales::F32 { values, .. } if values.len() == packed.n_rows());
    let is_matrix = packed.shape().len() == 2 && packed.axis() == 1 && packed.rotation().is_none();
    match packed.format() {
        _ if !is_matrix => None,
        PackedFormat::Nvfp4 => Some(Precision::Fp4),
        PackedFormat::Fp8(MiniFormat::E4m3) if is_per_row => Some(Precision::Fp8),
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

fn of_file(path: &Path, source: spark_quant::QuantError) -> ModelError {
    ModelError::CalibrationFile {
        path: path.display().to_string(),
        source: source.into(),
    }
}

pub(super) fn refused(step: &str, reason: &str) -> ModelError {
    ModelError::Calibration {
        step: step.to_owned(),
        reason: reason.to_owned(),
    }
}
