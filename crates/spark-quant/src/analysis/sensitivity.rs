//! Every weight in every candidate format: bytes and error.
//!
//! ```text
//! for each weight, for each candidate:  bytes, SQNR, cosine, largest error, cost
//! cost = squared error / squared weights      by default; or whatever the caller computes
//! ```
//!
//! With the default cost every layer counts the same, whatever its size: it is the noise a layer adds to
//! its output relative to that output, for inputs without structure. A caller who can run the network
//! passes a function that gets the weight as the format would have it and returns the network's error.

use std::convert::Infallible;

use half::{bf16, f16, slice::HalfFloatSliceExt};
use safetensors::Dtype;

use super::ErrorMeasure;
use crate::block::Quantizer;
use crate::checkpoint::{Entry, Inputs, Plain, Weight};
use crate::error::QuantError;
use crate::scalar::slice;
use crate::simd::ExecutionPolicy;

/// A weight to be quantized: `shape[0]` rows, the other axes flattened are the depth.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedWeight {
    /// Name in the checkpoint, `X.weight` by convention.
    pub name: String,
    /// Extents; the product of them is the number of values.
    pub shape: Vec<usize>,
    /// The values, row-major, as they are before quantizing.
    pub values: Vec<f32>,
}

impl NamedWeight {
    /// Rows and depth; a depth beyond `usize` is its largest value, which no values fill.
    pub fn matrix(&self) -> [usize; 2] {
        let inner = self.shape.iter().skip(1);
        [
            self.shape.first().copied().unwrap_or(1),
            inner.fold(1, |depth, &n| depth.saturating_mul(n)),
        ]
    }
}

/// A format that is not quantized.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kept {
    /// f32, the values as they are.
    F32,
    /// IEEE half precision, rounded to nearest even.
    F16,
    /// bfloat16, rounded to nearest even.
    Bf16,
}

/// What can be done to a weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Candidate {
    /// Stays in floats of 16 or 32 bits.
    Keep(Kept),
    /// Quantized to blocks and packed, as this quantizer does it.
    Quantize(Quantizer),
}

impl Candidate {
    /// Name that tables and plans show, such as `f16` or the label of the recipe.
    pub fn label(&self) -> String {
        match self {
            Self::Keep(Kept::F32) => "f32".to_owned(),
            Self::Keep(Kept::F16) => "f16".to_owned(),
            Self::Keep(Kept::Bf16) => "bf16".to_owned(),
            Self::Quantize(quantizer) => quantizer.recipe.label(),
        }
    }

    /// Whether a weight of this depth can be stored: block formats need whole blocks.
    pub fn fits(&self, depth: usize) -> bool {
        match self {
            Self::Keep(_) => true,
            Self::Quantize(quantizer) => {
                let rotated = quantizer
                    .rotation
                    .is_none_or(|rotation| depth.is_multiple_of(rotation.size()));
                depth > 0 && depth.is_multiple_of(quantizer.recipe.format().block()) && rotated
            }
        }
    }

    /// The weight as this candidate stores it, and the values that reads back as.
    ///
    /// # Errors
    ///
    /// As [`Quantizer::quantize`].
    pub fn store(
        &self,
        policy: ExecutionPolicy,
        weight: &NamedWeight,
    ) -> Result<(Entry, Vec<f32>), QuantError> {
        let (values, shape) = (&weight.values, &weight.shape);
        let plain = |dtype, data| {
            Entry::Plain(Plain {
                dtype,
                shape: shape.clone(),
                data,
            })
        };
        let bytes = |bits: &[u16]| bits.iter().flat_map(|bits| bits.to_le_bytes()).collect();
        match self {
            Self::Keep(Kept::F32) => {
                let plain = Plain::from_f32(values, shape)?;
                Ok((Entry::Plain(plain), values.clone()))
            }
            Self::Keep(Kept::F16) => {
                let mut narrow = vec![f16::ZERO; values.len()];
                slice::f32_to_f16(policy, values, &mut narrow)?;
                Ok((
                    plain(Dtype::F16, bytes(narrow.reinterpret_cast())),
                    narrow.to_f32_vec(),
                ))
            }
            Self::Keep(Kept::Bf16) => {
                let mut narrow = vec![bf16::ZERO; values.len()];
                slice::f32_to_bf16(policy, values, &mut narrow)?;
                Ok((
                    plain(Dtype::BF16, bytes(narrow.reinterpret_cast())),
                    narrow.to_f32_vec(),
                ))
            }
            Self::Quantize(quantizer) => {
                let packed = quantizer.quantize(policy, values, &weight.matrix(), 1)?;
                let back = packed.dequantize(policy)?;
                Ok((
                    Entry::Quantized(Weight {
                        packed,
                        shape: shape.clone(),
                        inputs: Inputs::Unquantized,
                    }),
                    back,
                ))
            }
        }
    }
}

/// One candidate tried on one weight.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Choice {
    /// Which of the candidates.
    pub candidate: usize,
    /// Name of the candidate, as [`Candidate::label`] gives it.
    pub label: String,
    /// Bytes of codes and scales.
    pub bytes: usize,
    /// Difference from the original values.
    pub measure: ErrorMeasure,
    /// What plans minimise the sum of: the relative squared error in [`Sensitivity::of_weights`], the
    /// caller's own figure in [`Sensitivity::with`].
    pub cost: f64,
}

/// One weight with all its choices.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Layer {
    /// Name of the weight.
    pub name: String,
    /// Number of values in the weight.
    pub n_values: usize,
    /// Candidates that fit and read back as finite values, in the caller's order.
    pub choices: Vec<Choice>,
}

/// All weights with all their choices.
///
/// # Examples
///
/// ```
/// use spark_quant::analysis::{Candidate, Kept, NamedWeight, PlanBudget, Sensitivity};
/// use spark_quant::{ExecutionPolicy, Quantizer, Recipe};
///
/// let values = (0..64).map(|i| (i as f32 * 0.7).sin()).collect();
/// let weights = [NamedWeight { name: "fc.weight".to_owned(), shape: vec![2, 32], values }];
/// let candidates = [Candidate::Keep(Kept::F16), Candidate::Quantize(Quantizer::new(Recipe::NVFP4))];
/// let sensitivity = Sensitivity::of_weights(ExecutionPolicy::detect(), &weights, &candidates, |_done| {})?;
/// let plan = sensitivity.plan(PlanBudget::Bytes(64))?; // f16 would take 128
/// assert_eq!((plan.picks[0].candidate, plan.bytes), (1, 40));
/// # Ok::<(), spark_quant::QuantError>(())
/// ```
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Sensitivity {
    /// In the caller's order.
    pub layers: Vec<Layer>,
}

impl Sensitivity {
    /// Tries every candidate on every weight; cost is the relative squared error. `progress` gets the
    /// number of weights done.
    ///
    /// # Errors
    ///
    /// As [`Quantizer::quantize`], with the name of the weight.
    pub fn of_weights(
        policy: ExecutionPolicy,
        weights: &[NamedWeight],
        candidates: &[Candidate],
        progress: impl FnMut(usize),
    ) -> Result<Self, QuantError> {
        let cost = |_: &NamedWeight, _: &[f32], measure: &ErrorMeasure| {
            Ok::<f64, Infallible>(if measure.signal == 0.0 {
                0.0
            } else {
                measure.noise / measure.signal
            })
        };
        match Self::with(policy, weights, candidates, cost, progress)? {
            Ok(sensitivity) => Ok(sensitivity),
            Err(never) => match never {},
        }
    }

    /// The same with the caller's cost: a function of the weight, the values it would have, and their
    /// difference. It may run the network; the first error it returns ends the work.
    ///
    /// # Errors
    ///
    /// Outer: as [`Quantizer::quantize`], with the name of the weight. Inner: the caller's own.
    pub fn with<E>(
        policy: ExecutionPolicy,
        weights: &[NamedWeight],
        candidates: &[Candidate],
        mut cost: impl FnMut(&NamedWeight, &[f32], &ErrorMeasure) -> Result<f64, E>,
        mut progress: impl FnMut(usize),
    ) -> Result<Result<Self, E>, QuantError> {
        let mut layers = Vec::new();
        for weight in weights {
            let mut choices = Vec::new();
            for (index, candidate) in candidates.iter().enumerate() {
                if !candidate.fits(weight.matrix()[1]) {
                    continue;
                }
                let (entry, back) = candidate
                    .store(policy, weight)
                    .map_err(|error| error.in_tensor(&weight.name))?;
                let measure = ErrorMeasure::between(&weight.values, &back)?;
                // Codes of values near the top of f32 may stand for more than f32 holds.
                if measure.signal.is_finite() && !measure.noise.is_finite() {
                    continue;
                }
                let bytes = match &entry {
                    Entry::Quantized(weight) => weight.packed.size_bytes(),
                    Entry::Plain(plain) => plain.data.len(),
                };
                match cost(weight, &back, &measure) {
                    Ok(cost) => choices.push(Choice {
                        candidate: index,
                        label: candidate.label(),
                        bytes,
                        measure,
                        cost,
                    }),
                    Err(error) => return Ok(Err(error)),
                }
            }
            layers.push(Layer {
                name: weight.name.clone(),
                n_values: weight.values.len(),
                choices,
            });
            progress(layers.len());
        }
        Ok(Ok(Self { layers }))
    }
}
