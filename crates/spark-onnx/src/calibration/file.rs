//! The file of a calibration: safetensors, in spark-quant's own layout.
//!
//! ```text
//! NAME.weight             codes and scales: fp8 and nvfp4 [out][tap, in], int8 [out][in, tap]
//! NAME.chosen_for         f32, four values of 16 bits: a digest of the weights (int8: and the bias) that were rounded
//! NAME.input_scale        f32, one value; absent where inputs are not rounded
//! NAME.bits               f32, 16 or 32: a layer of a mixed plan whose weights are the network's own, in fp16 or fp32
//!
//! int8 besides
//! NAME.input_zero_point   f32, one whole value of 0 to 255
//! NAME.output_scale       f32, one value
//! NAME.output_zero_point  f32, one whole value of 0 to 255
//! NAME.bias               f32, [out]; absent where there is none
//! ```
//!
//! A file of int8 has no layers in other formats. Files from before int8 have the first four alone and are read as they were;
//! a program from before refuses one of int8 by the name of a tensor.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use spark_quant::checkpoint::{Checkpoint, Entry, Inputs, Layout, Plain, Weight};
use spark_quant::{PackedTensor, QuantError};

use super::chosen::{Calibration, precision_of, refused};
use super::integer_layer::{ByteScale, IntegerLayer};
use crate::plan::CalibratedWeights;
use crate::{ModelError, Precision};

const WEIGHT: &str = ".weight";
const CHOSEN_FOR: &str = ".chosen_for";
const INPUT_SCALE: &str = ".input_scale";
const INPUT_ZERO_POINT: &str = ".input_zero_point";
const OUTPUT_SCALE: &str = ".output_scale";
const OUTPUT_ZERO_POINT: &str = ".output_zero_point";
const BIAS: &str = ".bias";
const BITS: &str = ".bits";
/// What a layer has besides its weights.
const PLAIN: [&str; 7] = [
    CHOSEN_FOR,
    INPUT_SCALE,
    INPUT_ZERO_POINT,
    OUTPUT_SCALE,
    OUTPUT_ZERO_POINT,
    BIAS,
    BITS,
];

impl Calibration {
    /// Reads what [`Calibration::write`] wrote.
    ///
    /// # Errors
    ///
    /// [`ModelError::CalibrationFile`] if the file cannot be read as a checkpoint or holds no layer; [`ModelError::Calibration`] for a weight of
    /// another format, a scale that is not above zero or belongs to no weight, int8 beside other formats, and other tensors.
    pub fn read(path: &Path) -> Result<Self, ModelError> {
        let read = Checkpoint::read(path);
        let (checkpoint, _) = read.map_err(|source| of_file(path, source))?;
        let mut layers: BTreeMap<String, Parts> = BTreeMap::new();
        for (name, entry) in checkpoint.entries {
            match entry {
                Entry::Quantized(weight) => {
                    let stranger = || refused(&name, "a tensor that no calibration has");
                    let step = name.strip_suffix(WEIGHT).ok_or_else(stranger)?;
                    layers.entry(step.to_owned()).or_default().weight = Some(weight.packed);
                }
                Entry::Plain(plain) => {
                    let part = PLAIN.iter().find(|part| name.ends_with(**part));
                    let stranger = || refused(&name, "a tensor that no calibration has");
                    let part = part.ok_or_else(stranger)?;
                    let step = &name[..name.len() - part.len()];
                    let parts = layers.entry(step.to_owned()).or_default();
                    parts
                        .take(part, plain.to_f32())
                        .map_err(|what| refused(step, what))?;
                }
            }
        }
        let mut chosen = Self::default();
        for (name, parts) in layers {
            parts
                .put(&name, &mut chosen)
                .map_err(|what| refused(&name, &what))?;
        }
        if chosen == Self::default() {
            return Err(of_file(path, "it holds no layer"));
        }
        let mut floats = chosen.layers.keys().chain(chosen.others.keys());
        match floats.next() {
            Some(name) if chosen.is_of_integers() => {
                Err(refused(name, "another format than int8, which others have"))
            }
            _ => Ok(chosen),
        }
    }

    /// Writes a safetensors file: first under another name, then renamed.
    ///
    /// # Errors
    ///
    /// [`ModelError::CalibrationFile`] if writing fails.
    pub fn write(&self, path: &Path) -> Result<(), ModelError> {
        let mut out = Outgoing::default();
        let written = self.put_into(&mut out);
        let written = written.and_then(|()| out.0.write(path, Layout::Native));
        written.map_err(|source| of_file(path, source))
    }

    fn put_into(&self, out: &mut Outgoing) -> Result<(), QuantError> {
        for (name, layer) in &self.layers {
            out.weight(name, &layer.packed, layer.chosen_for)?;
            if let Some(scale) = layer.input_scale {
                out.values(name, INPUT_SCALE, &[scale])?;
            }
        }
        for (name, precision) in &self.others {
            out.values(name, BITS, &[precision.bits() as f32])?;
        }
        for (name, layer) in &self.integers {
            out.weight(name, &layer.weights, layer.chosen_for)?;
            let (input, output) = (layer.input, layer.output);
            for (part, value) in [
                (INPUT_SCALE, input.scale),
                (INPUT_ZERO_POINT, f32::from(input.zero_point)),
                (OUTPUT_SCALE, output.scale),
                (OUTPUT_ZERO_POINT, f32::from(output.zero_point)),
            ] {
                out.values(name, part, &[value])?;
            }
            if let Some(bias) = &layer.bias {
                out.values(name, BIAS, bias)?;
            }
        }
        Ok(())
    }
}

/// Tensors of a file to be.
#[derive(Default)]
struct Outgoing(Checkpoint);

impl Outgoing {
    fn weight(&mut self, name: &str, packed: &PackedTensor, digest: u64) -> Result<(), QuantError> {
        let weight = Weight {
            packed: packed.clone(),
            shape: packed.shape().to_vec(),
            inputs: Inputs::Unquantized,
        };
        let entries = &mut self.0.entries;
        entries.insert(format!("{name}{WEIGHT}"), Entry::Quantized(weight));
        let parts = [48, 32, 16, 0].map(|shift| (digest >> shift & 0xFFFF) as f32);
        self.values(name, CHOSEN_FOR, &parts)
    }

    fn values(&mut self, name: &str, part: &str, values: &[f32]) -> Result<(), QuantError> {
        let values = Plain::from_f32(values, &[values.len()])?;
        let entries = &mut self.0.entries;
        entries.insert(format!("{name}{part}"), Entry::Plain(values));
        Ok(())
    }
}

/// What a file has of one layer.
#[derive(Default)]
struct Parts {
    weight: Option<PackedTensor>,
    chosen_for: Option<u64>,
    input_scale: Option<f32>,
    input_zero_point: Option<f32>,
    output_scale: Option<f32>,
    output_zero_point: Option<f32>,
    bias: Option<Vec<f32>>,
    precision: Option<Precision>,
}

impl Parts {
    /// Takes the values of a tensor; they are `None` if it has others than floats.
    fn take(&mut self, part: &str, values: Option<Vec<f32>>) -> Result<(), &'static str> {
        let values = values.as_deref();
        let one = values.and_then(|values| match values {
            &[value] => Some(value),
            _ => None,
        });
        let scale = one.filter(|scale| *scale > 0.0 && scale.is_finite());
        let byte = one.filter(|zero| (0.0..=255.0).contains(zero) && zero.fract() == 0.0);
        match part {
            CHOSEN_FOR => {
                let what = "a digest that is not four numbers of 16 bits";
                self.chosen_for = Some(digest(values).ok_or(what)?);
            }
            INPUT_SCALE => {
                let what = "an input scale that is no number above zero";
                self.input_scale = Some(scale.ok_or(what)?);
            }
            OUTPUT_SCALE => {
                let what = "an output scale that is no number above zero";
                self.output_scale = Some(scale.ok_or(what)?);
            }
            INPUT_ZERO_POINT => {
                let what = "an input zero point that is no byte";
                self.input_zero_point = Some(byte.ok_or(what)?);
            }
            OUTPUT_ZERO_POINT => {
                let what = "an output zero point that is no byte";
                self.output_zero_point = Some(byte.ok_or(what)?);
            }
            BIAS => {
                let bias = values.filter(|bias| bias.iter().all(|b| b.is_finite()));
                let what = "a bias that is not of finite numbers";
                self.bias = Some(bias.ok_or(what)?.to_vec());
            }
            _ => {
                self.precision = match one {
                    Some(16.0) => Some(Precision::Fp16),
                    Some(32.0) => Some(Precision::Fp32),
                    _ => return Err("bits other than 16 and 32"),
                }
            }
        }
        Ok(())
    }

    /// Puts the layer where it belongs.
    fn put(self, name: &str, chosen: &mut Calibration) -> Result<(), String> {
        let has_integers = self.has_integers();
        let has_others = self.chosen_for.is_some() || self.input_scale.is_some() || has_integers;
        let packed = match (self.weight, self.precision) {
            (None, Some(precision)) if !has_others => {
                chosen.others.insert(name.to_owned(), precision);
                return Ok(());
            }
            (Some(packed), None) => packed,
            (Some(_), Some(_)) => return Err("bits and weights at once".to_owned()),
            (None, _) => return Err("scales, a bias or a digest without weights".to_owned()),
        };
        let missing = "no digest of the weights that were rounded";
        let chosen_for = self.chosen_for.ok_or(missing)?;
        match precision_of(&packed) {
            Some(Precision::Int8) => {
                let bytes = |scale: Option<f32>, zero: Option<f32>| ByteScale::new(scale?, zero?);
                let missing = "int8 without scale and zero point on both sides";
                let layer = IntegerLayer {
                    input: bytes(self.input_scale, self.input_zero_point).ok_or(missing)?,
                    output: bytes(self.output_scale, self.output_zero_point).ok_or(missing)?,
                    weights: packed,
                    bias: self.bias,
                    chosen_for,
                };
                chosen.integers.insert(name.to_owned(), Arc::new(layer));
            }
            Some(_) if has_integers => {
                return Err(
                    "zero points, an output scale or a bias, which only int8 has".to_owned(),
                );
            }
            Some(_) => {
                let layer = CalibratedWeights {
                    packed,
                    chosen_for,
                    input_scale: self.input_scale,
                };
                chosen.layers.insert(name.to_owned(), Arc::new(layer));
            }
            None => {
                return Err(format!(
                    "weights of {}, where fp8 and int8 with a scale per row, and nvfp4, can be run",
                    packed.format()
                ));
            }
        }
        Ok(())
    }

    /// Whether it has what only int8 has.
    fn has_integers(&self) -> bool {
        let values = [
            self.input_zero_point,
            self.output_scale,
            self.output_zero_point,
        ];
        values.iter().any(Option::is_some) || self.bias.is_some()
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

fn of_file(path: &Path, source: impl Into<Box<dyn Error + Send + Sync>>) -> ModelError {
    ModelError::CalibrationFile {
        path: path.display().to_string(),
        source: source.into(),
    }
}
