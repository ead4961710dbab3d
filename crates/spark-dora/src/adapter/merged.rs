//! A whole network merged at once: weights by name, or a file of them.
//!
//! ```text
//! <layer>.weight      of adapted layers: g (W + s B A), formed in f64, rounded once to the weight's type
//! <module>.<tensor>   of modules trained whole: the trained values, in the type of the base's
//! <layer>.bias        of biases trained beside the adapters: the trained values
//! everything else     as it was
//! ```
//!
//! A weight that is not the one the adapter was trained on is refused by its fingerprint, and so is a dense
//! weight where the adapter was trained on a packed one.

use std::borrow::Cow;
use std::collections::BTreeMap;

use candle_core::{DType, Device, Tensor};
use candle_nn::{Conv1d, Conv2d, Embedding, Linear};
use safetensors::{Dtype, SafeTensors, View};

use super::entry::Kind;
use super::{Adapter, Source, fingerprint};
use crate::base::{Base, check_shape};
use crate::error::{DoraError, Result};
use crate::finite;
use crate::layer::embedding;
use crate::layer::factors::{Factors, named};
use crate::merge::{self, MergeReport};

/// What merging a network did.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize)]
pub struct NetworkReport {
    /// The adapted layers, by name.
    pub layers: BTreeMap<String, MergeReport>,
    /// Names of the tensors that modules trained whole, and trained biases, replaced.
    pub replaced: Vec<String>,
    /// Largest change of an element of those.
    pub replaced_max_change: f64,
}

impl NetworkReport {
    /// Largest change of an element of any tensor.
    pub fn max_change(&self) -> f64 {
        let of_layers = self.layers.values().map(|layer| layer.max_change);
        of_layers.fold(self.replaced_max_change, f64::max)
    }

    /// Puts what was trained in the place of what was there.
    fn replace(
        &mut self,
        weights: &mut BTreeMap<String, Tensor>,
        name: String,
        value: Tensor,
    ) -> Result<()> {
        finite::check(&name, &value)?;
        if let Some(before) = weights.get(&name) {
            let change = largest_difference(&value, before)?;
            self.replaced_max_change = self.replaced_max_change.max(change);
        }
        weights.insert(name.clone(), value);
        self.replaced.push(name);
        Ok(())
    }
}

fn largest_difference(one: &Tensor, other: &Tensor) -> Result<f64> {
    let values = |tensor: &Tensor| -> Result<Vec<f64>> {
        let tensor = tensor.to_device(&Device::Cpu)?.to_dtype(DType::F64)?;
        Ok(tensor.flatten_all()?.to_vec1()?)
    };
    let (one, other) = (values(one)?, values(other)?);
    let differences = one.iter().zip(&other).map(|(a, b)| (a - b).abs());
    Ok(differences.fold(0.0, f64::max))
}

/// A merged network as the bytes of a safetensors file.
#[derive(Debug, Clone)]
pub struct MergedFile {
    /// The file: the base's tensors, names, types and metadata, with merged values.
    pub bytes: Vec<u8>,
    /// What was changed.
    pub report: NetworkReport,
}

impl Adapter {
    /// The weights of the network under this adapter, merged: `weights` by `<module>.<tensor>`, the adapted
    /// layers' as they were offered. Tensors the adapter does not mean are given back as they are.
    ///
    /// # Errors
    ///
    /// As [`Adapter::finish`]; [`DoraError::Tensors`] if `weights` lacks some; [`DoraError::Base`] naming
    /// layers whose weight here is another than the one under the adapter; [`DoraError::NotFinite`] if a
    /// merged weight is not a finite number.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::collections::BTreeMap;
    /// use candle_core::{DType, Device, Tensor};
    /// use candle_nn::{Linear, Module};
    /// use spark_dora::{Adapter, DoraConfig, Init};
    ///
    /// let weight = Tensor::randn(0f32, 1.0, (6, 4), &Device::Cpu)?;
    /// let config = DoraConfig::builder(2).init(Init::Random).build()?;
    /// let mut adapter = Adapter::new(config, DType::F32, &Device::Cpu)?;
    /// let layer = adapter.linear("fc", &Linear::new(weight.clone(), None))?;
    /// let weights = BTreeMap::from([("fc.weight".to_owned(), weight)]);
    /// let (merged, report) = adapter.merge(weights)?;
    /// assert!(report.layers["fc"].max_change > 0.0);
    /// let merged = Linear::new(merged["fc.weight"].clone(), None);
    /// let x = Tensor::ones((1, 4), DType::F32, &Device::Cpu)?;
    /// assert!(spark_dora::equivalence(&layer, &merged, &x)?.relative < 1e-5);
    /// # Ok::<(), spark_dora::DoraError>(())
    /// ```
    pub fn merge(
        &self,
        mut weights: BTreeMap<String, Tensor>,
    ) -> Result<(BTreeMap<String, Tensor>, NetworkReport)> {
        self.finish()?;
        self.check_bases(&weights)?;
        let mut report = NetworkReport::default();
        for (layer, entry) in &self.layers {
            match &entry.kind {
                Kind::Plain => {}
                Kind::Adapted { factors, .. } => {
                    let Some(weight) = weights.get_mut(&named(layer, "weight")) else {
                        continue;
                    };
                    let (merged, of_layer) = merged(layer, weight, factors)?;
                    *weight = merged;
                    report.layers.insert(layer.clone(), of_layer);
                }
                Kind::Whole(saved) => {
                    for (tensor, _) in saved.variables() {
                        let value = saved.get(tensor)?.detach();
                        report.replace(&mut weights, named(layer, tensor), value)?;
                    }
                }
            }
            if let Some(bias) = &entry.bias {
                report.replace(&mut weights, named(layer, "bias"), bias.detach())?;
            }
        }
        Ok((weights, report))
    }

    /// The same for a safetensors file of a network, given as its bytes.
    ///
    /// Of an adapter that was opened and to which nothing was offered yet, every weight of the file is
    /// offered: those of two axes as linear layers, or as embeddings where the adapter's tensors are an
    /// embedding's, of three and four axes as convolutions (merging does not depend on strides, padding or
    /// groups).
    ///
    /// # Errors
    ///
    /// As [`Adapter::merge`] and [`Adapter::linear`]; [`DoraError::Safetensors`] for bytes that are no such
    /// file; [`DoraError::ElementType`] if an adapted weight has a type that an update is lost in.
    pub fn merge_safetensors(&mut self, base: &[u8]) -> Result<MergedFile> {
        let (_, metadata) = SafeTensors::read_metadata(base)?;
        let file = SafeTensors::deserialize(base)?;
        let views: BTreeMap<&str, _> = file.iter().collect();
        if self.layers.is_empty() {
            self.offer_all(&views)?;
        }
        let mut weights = BTreeMap::new();
        for (&name, view) in &views {
            let of = |(layer, tensor): (&str, &str)| {
                let entry = self.layers.get(layer)?;
                let is_bias = tensor == "bias" && entry.bias.is_some();
                let is_meant = match &entry.kind {
                    Kind::Plain => is_bias,
                    Kind::Adapted { .. } => is_bias || tensor == "weight",
                    Kind::Whole(_) => true,
                };
                is_meant.then_some(())
            };
            if parts(name).and_then(of).is_some() {
                weights.insert(name.to_owned(), tensor(name, view)?);
            }
        }
        let (merged, report) = self.merge(weights)?;
        let pieces = views.iter().map(|(&name, view)| {
            let piece = match merged.get(name) {
                Some(tensor) => Piece {
                    dtype: View::dtype(tensor),
                    shape: tensor.dims(),
                    data: View::data(tensor),
                },
                None => Piece {
                    dtype: view.dtype(),
                    shape: view.shape(),
                    data: Cow::Borrowed(view.data()),
                },
            };
            (name, piece)
        });
        let bytes = safetensors::serialize(pieces, metadata.metadata().clone())?;
        Ok(MergedFile { bytes, report })
    }

    /// Refuses weights that are missing, shaped otherwise, or other than those under the adapter.
    fn check_bases(&self, weights: &BTreeMap<String, Tensor>) -> Result<()> {
        let (mut missing, mut others) = (Vec::new(), Vec::new());
        for (layer, entry) in &self.layers {
            if let Some(bias) = &entry.bias {
                let name = named(layer, "bias");
                match weights.get(&name) {
                    None => missing.push(name),
                    Some(base) => check_shape(&name, base.dims(), bias.dims())?,
                }
            }
            match &entry.kind {
                Kind::Plain => {}
                Kind::Adapted {
                    fingerprint: known, ..
                } => match weights.get(&named(layer, "weight")) {
                    None => missing.push(named(layer, "weight")),
                    Some(weight) if fingerprint::of_tensor(weight)? != *known => {
                        others.push(layer.clone());
                    }
                    Some(_) => {}
                },
                Kind::Whole(saved) => {
                    for (tensor, value) in saved.variables() {
                        let name = named(layer, tensor);
                        match weights.get(&name) {
                            None => missing.push(name),
                            Some(base) => check_shape(&name, base.dims(), value.dims())?,
                        }
                    }
                }
            }
        }
        if !missing.is_empty() {
            return Err(DoraError::Tensors {
                missing,
                unexpected: Vec::new(),
            });
        }
        match others.is_empty() {
            true => Ok(()),
            false => Err(DoraError::Base { layers: others }),
        }
    }

    /// Offers every weight of a file as a layer of the kind it looks like.
    fn offer_all(
        &mut self,
        views: &BTreeMap<&str, safetensors::tensor::TensorView<'_>>,
    ) -> Result<()> {
        let mut whole: BTreeMap<&str, Vec<(&str, Tensor)>> = BTreeMap::new();
        for (&name, view) in views {
            let Some((layer, of_layer)) = parts(name) else {
                continue;
            };
            if self.config.saves(layer) {
                whole
                    .entry(layer)
                    .or_default()
                    .push((of_layer, tensor(name, view)?));
                continue;
            }
            if of_layer != "weight" || !(2..=4).contains(&view.shape().len()) {
                continue;
            }
            // Integers that the adapter does not mean are copied like anything else.
            if !is_float(view.dtype()) && !self.has_tensors_of(layer) {
                continue;
            }
            let weight = tensor(name, view)?;
            let of_bias = named(layer, "bias");
            let bias = views
                .get(of_bias.as_str())
                .filter(|_| self.trains_biases())
                .map(|view| tensor(&of_bias, view))
                .transpose()?;
            match weight.dims() {
                &[_, width] if self.is_embedding(layer) => {
                    self.embedding(layer, &Embedding::new(weight, width))?;
                }
                [_, _] => drop(self.linear(layer, &Linear::new(weight, bias))?),
                [_, _, _] => {
                    let conv = Conv1d::new(weight, bias, Default::default());
                    self.conv1d(layer, &conv)?;
                }
                _ => {
                    let conv = Conv2d::new(weight, bias, Default::default());
                    self.conv2d(layer, &conv)?;
                }
            }
        }
        for (module, tensors) in &whole {
            let tensors: Vec<_> = tensors
                .iter()
                .map(|(name, tensor)| (*name, tensor))
                .collect();
            self.module(module, &tensors)?;
        }
        Ok(())
    }

    /// Whether the file has tensors for the layer `name`.
    fn has_tensors_of(&self, name: &str) -> bool {
        match &self.source {
            Source::New => false,
            Source::Peft { stored, .. } => stored.has(name),
            Source::Kohya(layers) => super::kohya::has(layers, &super::kohya::flat(name)),
        }
    }
}

/// The merged weight of one layer, in the base's type and shape.
fn merged(layer: &str, weight: &Tensor, factors: &Factors) -> Result<(Tensor, MergeReport)> {
    let name = named(layer, "weight");
    let is_embedding = factors.is_of(&embedding::NAMES);
    let base = match is_embedding {
        true => Base::finite(&name, &weight.t()?)?,
        false => Base::finite(&name, weight)?,
    };
    let base = match factors.initial() {
        Some(initial) => Base::dense(&initial.residual(weight, factors.scaling())?)?,
        None => base,
    };
    let effective = merge::effective(&base, factors);
    let (merged, report) = effective.map_err(|error| match error {
        DoraError::NotFinite { index, .. } => finite::not_finite(&name, index),
        other => other,
    })?;
    match is_embedding {
        true => Ok((merged.t()?.contiguous()?, report)),
        false => Ok((merged, report)),
    }
}

/// The module and the tensor that a name means.
fn parts(name: &str) -> Option<(&str, &str)> {
    name.rsplit_once('.')
}

fn is_float(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::F16 | Dtype::BF16 | Dtype::F32 | Dtype::F64)
}

/// A tensor of a file, on the CPU.
fn tensor(name: &str, view: &safetensors::tensor::TensorView<'_>) -> Result<Tensor> {
    let dtype = DType::try_from(view.dtype()).map_err(|_| DoraError::ElementType {
        name: name.to_owned(),
        got: "of a type that candle has not",
    })?;
    let data = view.data();
    Ok(Tensor::from_raw_buffer(
        data,
        dtype,
        view.shape(),
        &Device::Cpu,
    )?)
}

/// A tensor to be written: the base's bytes, or merged ones.
struct Piece<'a> {
    dtype: Dtype,
    shape: &'a [usize],
    data: Cow<'a, [u8]>,
}

impl View for Piece<'_> {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.data)
    }

    fn data_len(&self) -> usize {
        self.data.len()
    }
}
