//! The adapter of a network: named layers, their variables, their files.
//!
//! ```text
//! let mut adapter = Adapter::new(config, ..)     or Adapter::open(folder, ..)
//! let fc = adapter.linear("trunk.fc", &linear)?  adapted if the configuration says so
//! adapter.finish()?                              everything found its layer
//! train(adapter.variables())
//! adapter.save(folder)?                          PEFT can read it
//! ```
//!
//! candle has no list of a network's modules, so the code that builds the network offers each layer by
//! name. Biases offered here are frozen: only adapter tensors are trained and stored.

mod files;
mod fingerprint;
mod kohya;
mod size;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use candle_core::{DType, Device, Tensor, Var};
use candle_nn::{Conv1d, Conv2d, Embedding, Linear, Module, VarBuilder, VarMap};
use serde_json::json;
use spark_quant::PackedTensor;

pub use files::{CONFIG_FILE, TENSOR_FILE};
pub use size::{GOOD_FRACTION, SizeReport};

use crate::base::{Base, check_shape};
use crate::config::{DoraConfig, LayerConfig, Method, Targets};
use crate::error::{DoraError, Result};
use crate::layer::factors::FactorShapes;
use crate::layer::{DoraConv1d, DoraConv2d, DoraEmbedding, DoraLinear, Factors, embedding};
use crate::optim::VariableGroups;
use kohya::KohyaLayer;
use size::LayerSize;

/// A layer that was offered to an adapter.
#[derive(Clone, Debug)]
pub enum Offered<P, D> {
    /// Not meant: as it was.
    Plain(P),
    /// Under the adapter.
    Adapted(D),
}

impl<P, D> Offered<P, D> {
    /// The adapted layer, if it is one.
    pub fn adapted(&self) -> Option<&D> {
        match self {
            Self::Plain(_) => None,
            Self::Adapted(layer) => Some(layer),
        }
    }
}

impl<P: Module, D: Module> Module for Offered<P, D> {
    fn forward(&self, x: &Tensor) -> candle_core::Result<Tensor> {
        match self {
            Self::Plain(layer) => layer.forward(x),
            Self::Adapted(layer) => layer.forward(x),
        }
    }
}

/// Where values come from.
enum Source {
    /// Initial values.
    New,
    /// PEFT's files: variables are in the store already; fingerprints of the bases they were trained on.
    Peft {
        unclaimed: BTreeSet<String>,
        bases: BTreeMap<String, u64>,
    },
    /// A file of kohya's kind.
    Kohya(BTreeMap<String, KohyaLayer>),
}

struct Entry {
    factors: Option<Factors>,
    fingerprint: Option<u64>,
    size: LayerSize,
}

/// The adapter of one network.
pub struct Adapter {
    config: DoraConfig,
    store: VarMap,
    dtype: DType,
    device: Device,
    source: Source,
    layers: BTreeMap<String, Entry>,
    other_bases: Vec<String>,
}

impl Adapter {
    /// A new adapter whose variables have `dtype`, f32 or f64.
    ///
    /// # Errors
    ///
    /// As [`DoraConfig::check`].
    pub fn new(config: DoraConfig, dtype: DType, device: &Device) -> Result<Self> {
        config.check()?;
        Ok(Self {
            config,
            store: VarMap::new(),
            dtype,
            device: device.clone(),
            source: Source::New,
            layers: BTreeMap::new(),
            other_bases: Vec::new(),
        })
    }

    /// The adapter in `folder`, as PEFT or [`Adapter::save`] wrote it. Layers offered afterwards take
    /// their values from it; those it has no tensors for stay plain.
    ///
    /// # Errors
    ///
    /// [`DoraError::Io`], [`DoraError::FileTooLarge`], [`DoraError::Json`] and [`DoraError::TensorFile`]
    /// for files that cannot be read; [`DoraError::NotFinite`] for NaN and infinities in them;
    /// [`DoraError::Unsupported`] for settings that would make the layers compute something else.
    pub fn open(folder: &Path, dtype: DType, device: &Device) -> Result<Self> {
        let config = files::read_config(folder)?;
        config.check_readable()?;
        let file = files::read_tensors(&folder.join(TENSOR_FILE), dtype)?;
        let adapter = Self {
            config,
            store: VarMap::new(),
            dtype,
            device: device.clone(),
            source: Source::Peft {
                unclaimed: file.tensors.keys().cloned().collect(),
                bases: file.bases,
            },
            layers: BTreeMap::new(),
            other_bases: Vec::new(),
        };
        for (name, tensor) in &file.tensors {
            adapter.put(name, tensor)?;
        }
        Ok(adapter)
    }

    /// An adapter written by kohya's scripts or LyCORIS, with `dora_scale` or without.
    ///
    /// # Errors
    ///
    /// As [`Adapter::open`]; [`DoraError::Tensors`] for files that hold other kinds of factors.
    pub fn open_kohya(file: &Path, dtype: DType, device: &Device) -> Result<Self> {
        let layers = kohya::read(file, dtype)?;
        let mut config = DoraConfig::builder(1).targets([""; 0]).build()?;
        config.use_dora = layers.values().any(|l| l.dora_scale.is_some());
        Ok(Self {
            config,
            store: VarMap::new(),
            dtype,
            device: device.clone(),
            source: Source::Kohya(layers),
            layers: BTreeMap::new(),
            other_bases: Vec::new(),
        })
    }

    /// The settings.
    pub fn config(&self) -> &DoraConfig {
        &self.config
    }

    /// Offers a linear layer.
    ///
    /// # Errors
    ///
    /// [`DoraError::Duplicate`] for a name used before; [`DoraError::Tensors`] and [`DoraError::Shape`] if
    /// the file's tensors do not fit; otherwise as [`DoraLinear::from_linear`].
    pub fn linear(&mut self, name: &str, layer: &Linear) -> Result<Offered<Linear, DoraLinear>> {
        let frozen = Linear::new(layer.weight().detach(), layer.bias().map(Tensor::detach));
        let Some(config) = self.configuration(name, &[0; 2])? else {
            self.note_plain(name, layer.weight(), layer.bias());
            return Ok(Offered::Plain(frozen));
        };
        let shapes = FactorShapes::of_weight(layer.weight().dims());
        let vb = self.variables_of(name, &shapes, &config)?;
        let adapted = DoraLinear::from_linear(&frozen, &config, vb)?;
        let core = adapted.core();
        self.note(name, &core.base, core.bias.as_ref(), &core.factors)?;
        Ok(Offered::Adapted(adapted))
    }

    /// Offers a linear layer whose weight is packed (QDoRA); see [`DoraLinear::from_packed`].
    ///
    /// # Errors
    ///
    /// As [`Adapter::linear`]; [`DoraError::UnknownLayer`] if the configuration does not mean this layer,
    /// because candle has no plain layer of packed weights.
    pub fn packed_linear(
        &mut self,
        name: &str,
        weight: &PackedTensor,
        bias: Option<&Tensor>,
    ) -> Result<DoraLinear> {
        let Some(config) = self.configuration(name, &[0; 2])? else {
            return Err(DoraError::UnknownLayer {
                name: name.to_owned(),
            });
        };
        let bias = bias.map(Tensor::detach);
        let shapes = FactorShapes::of_weight(weight.shape());
        let vb = self.variables_of(name, &shapes, &config)?;
        let adapted = DoraLinear::from_packed(weight, bias, &config, vb)?;
        let core = adapted.core();
        self.note(name, &core.base, core.bias.as_ref(), &core.factors)?;
        Ok(adapted)
    }

    /// Offers a two-dimensional convolution.
    ///
    /// # Errors
    ///
    /// As [`Adapter::linear`].
    pub fn conv2d(&mut self, name: &str, layer: &Conv2d) -> Result<Offered<Conv2d, DoraConv2d>> {
        let bias = layer.bias().map(Tensor::detach);
        let frozen = Conv2d::new(layer.weight().detach(), bias, *layer.config());
        let Some(config) = self.configuration(name, &[0; 4])? else {
            self.note_plain(name, layer.weight(), layer.bias());
            return Ok(Offered::Plain(frozen));
        };
        let shapes = FactorShapes::of_weight(layer.weight().dims());
        let vb = self.variables_of(name, &shapes, &config)?;
        let adapted = DoraConv2d::from_conv2d(&frozen, &config, vb)?;
        let core = adapted.core();
        self.note(name, &core.base, core.bias.as_ref(), &core.factors)?;
        Ok(Offered::Adapted(adapted))
    }

    /// Offers a one-dimensional convolution.
    ///
    /// # Errors
    ///
    /// As [`Adapter::linear`].
    pub fn conv1d(&mut self, name: &str, layer: &Conv1d) -> Result<Offered<Conv1d, DoraConv1d>> {
        let bias = layer.bias().map(Tensor::detach);
        let frozen = Conv1d::new(layer.weight().detach(), bias, *layer.config());
        let Some(config) = self.configuration(name, &[0; 3])? else {
            self.note_plain(name, layer.weight(), layer.bias());
            return Ok(Offered::Plain(frozen));
        };
        let shapes = FactorShapes::of_weight(layer.weight().dims());
        let vb = self.variables_of(name, &shapes, &config)?;
        let adapted = DoraConv1d::from_conv1d(&frozen, &config, vb)?;
        let core = adapted.core();
        self.note(name, &core.base, core.bias.as_ref(), &core.factors)?;
        Ok(Offered::Adapted(adapted))
    }

    /// Offers an embedding.
    ///
    /// # Errors
    ///
    /// As [`Adapter::linear`].
    pub fn embedding(
        &mut self,
        name: &str,
        layer: &Embedding,
    ) -> Result<Offered<Embedding, DoraEmbedding>> {
        let frozen = Embedding::new(layer.embeddings().detach(), layer.hidden_size());
        let Some(config) = self.configuration(name, &[0; 2])? else {
            self.note_plain(name, layer.embeddings(), None);
            return Ok(Offered::Plain(frozen));
        };
        let shapes = embedding::shapes(layer.embeddings())?;
        let vb = self.variables_of(name, &shapes, &config)?;
        let adapted = DoraEmbedding::from_embedding(&frozen, &config, vb)?;
        let base = Base::dense(adapted.weight())?;
        self.note(name, &base, None, adapted.factors())?;
        Ok(Offered::Adapted(adapted))
    }

    /// To be called when all layers were offered: checks that nothing of a file is left over and that the
    /// bases are those it was trained on.
    ///
    /// # Errors
    ///
    /// [`DoraError::Tensors`] naming tensors no layer took, or target names no layer has;
    /// [`DoraError::Base`] naming layers whose base weights differ. The layers stay usable, so a caller who
    /// means another base may go on.
    pub fn finish(&self) -> Result<()> {
        let unexpected: Vec<String> = match &self.source {
            Source::New => Vec::new(),
            Source::Peft { unclaimed, .. } => unclaimed.iter().cloned().collect(),
            Source::Kohya(layers) => layers.keys().cloned().collect(),
        };
        let missing = match (&self.source, &self.config.target_modules) {
            (Source::New, Some(Targets::Names(names))) => {
                let unmet = |target: &&String| {
                    let only = Targets::Names(vec![(*target).clone()]);
                    !self.layers.keys().any(|name| only.matches(name))
                };
                names.iter().filter(unmet).cloned().collect()
            }
            _ => Vec::new(),
        };
        if !unexpected.is_empty() || !missing.is_empty() {
            return Err(DoraError::Tensors {
                missing,
                unexpected,
            });
        }
        if !self.other_bases.is_empty() {
            return Err(DoraError::Base {
                layers: self.other_bases.clone(),
            });
        }
        Ok(())
    }

    /// All variables, by kind, for optimisers.
    pub fn variables(&self) -> VariableGroups {
        let adapted = self.layers.values().filter_map(|e| e.factors.as_ref());
        VariableGroups::of(adapted)
    }

    /// Names of the adapted layers.
    pub fn adapted(&self) -> impl Iterator<Item = &str> {
        let adapted = self.layers.iter().filter(|(_, e)| e.factors.is_some());
        adapted.map(|(name, _)| name.as_str())
    }

    /// The variables of one layer.
    pub fn factors(&self, name: &str) -> Option<&Factors> {
        self.layers.get(name)?.factors.as_ref()
    }

    /// Sizes, and how many parameters are trained and frozen.
    pub fn size(&self) -> SizeReport {
        SizeReport::of(self.layers.values().map(|e| e.size))
    }

    /// Writes `folder` as PEFT does. Only the adapter's tensors are stored. An adapter of more than 1 % of
    /// its base logs a warning with the rank that would fit.
    ///
    /// # Errors
    ///
    /// [`DoraError::NotFinite`] if a variable is NaN or infinite, before anything is written;
    /// [`DoraError::Io`] if a file cannot be written; an older adapter in the folder then stays whole, file
    /// by file.
    pub fn save(&self, folder: &Path) -> Result<SizeReport> {
        let mut tensors = BTreeMap::new();
        let mut bases = BTreeMap::new();
        for (module, entry) in &self.layers {
            let Some(factors) = &entry.factors else {
                continue;
            };
            for (name, tensor) in factors.named() {
                let name = format!("{module}.{name}");
                let tensor = tensor.to_device(&Device::Cpu)?.detach();
                files::check_finite(&name, &tensor)?;
                tensors.insert(name, tensor);
            }
            bases.extend(entry.fingerprint.map(|print| (module.clone(), print)));
        }
        files::write(folder, &self.config_json(), &tensors, &bases)?;
        let size = self.size();
        if size.fraction > GOOD_FRACTION {
            match size.rank_that_fits {
                Some(rank) => tracing::warn!("{size}; rank {rank} would stay below 1 %"),
                None => tracing::warn!("{size}; even rank 1 exceeds 1 %: adapt fewer layers"),
            }
        }
        Ok(size)
    }

    /// The settings as PEFT reads them, keys sorted.
    fn config_json(&self) -> String {
        let mut config = self.config.clone();
        config.target_modules = Some(match config.target_modules {
            Some(Targets::Names(mut names)) if !names.is_empty() => {
                names.sort();
                Targets::Names(names)
            }
            _ => {
                let low_rank = |(name, entry): (&String, &Entry)| {
                    let factors = entry.factors.as_ref()?;
                    (factors.method() != Method::MagnitudeOnly).then(|| name.clone())
                };
                Targets::Names(self.layers.iter().filter_map(low_rank).collect())
            }
        });
        let defaults = [
            ("peft_type", json!("LORA")),
            ("task_type", json!(null)),
            ("base_model_name_or_path", json!(null)),
            ("bias", json!("none")),
            ("fan_in_fan_out", json!(false)),
            ("inference_mode", json!(true)),
            ("init_lora_weights", json!(true)),
            ("modules_to_save", json!(null)),
        ];
        for (key, value) in defaults {
            config.other.entry(key.to_owned()).or_insert(value);
        }
        // A map of serde_json keeps its keys sorted.
        let value = serde_json::to_value(&config).unwrap_or_default();
        format!("{value:#}\n")
    }

    /// Where layer `name` finds its variables; those that came from a file must have its shapes.
    fn variables_of(
        &self,
        name: &str,
        shapes: &FactorShapes,
        config: &LayerConfig,
    ) -> Result<VarBuilder<'static>> {
        let store = self.store.data().lock().unwrap_or_else(|e| e.into_inner());
        for (what, shape) in shapes.named(config.rank) {
            let name = format!("{name}.{what}");
            if let Some(stored) = store.get(&name) {
                check_shape(&name, stored.dims(), &shape)?;
            }
        }
        drop(store);
        Ok(VarBuilder::from_varmap(&self.store, self.dtype, &self.device).pp(name))
    }

    fn put(&self, name: &str, tensor: &Tensor) -> Result<()> {
        let var = Var::from_tensor(&tensor.to_device(&self.device)?)?;
        let mut store = self.store.data().lock().unwrap_or_else(|e| e.into_inner());
        store.insert(name.to_owned(), var);
        Ok(())
    }

    /// How `name` is adapted, if at all; `axes` has as many entries as the weight.
    fn configuration(&mut self, name: &str, axes: &[usize]) -> Result<Option<LayerConfig>> {
        if self.layers.contains_key(name) {
            return Err(DoraError::Duplicate {
                name: name.to_owned(),
            });
        }
        match &mut self.source {
            Source::New => Ok(self.config.layer(name)),
            Source::Peft { unclaimed, .. } => {
                let prefix = format!("{name}.");
                let direct = |key: &&String| {
                    let rest = key.strip_prefix(&prefix);
                    rest.is_some_and(|r| r.starts_with("lora_"))
                };
                let mine: Vec<String> = unclaimed.iter().filter(direct).cloned().collect();
                if mine.is_empty() {
                    return Ok(None);
                }
                let any = Targets::Text("all-linear".to_owned());
                let every = DoraConfig {
                    target_modules: Some(any),
                    exclude_modules: None,
                    ..self.config.clone()
                };
                let config = every.layer(name);
                let count = match config.as_ref().map(|c| c.method) {
                    Some(Method::Dora) => 3,
                    Some(Method::Lora) => 2,
                    _ => 1,
                };
                for key in &mine {
                    unclaimed.remove(key);
                }
                if mine.len() != count {
                    let missing = vec![format!("{count} tensors of {name}, found {mine:?}")];
                    return Err(DoraError::Tensors {
                        missing,
                        unexpected: Vec::new(),
                    });
                }
                Ok(config)
            }
            Source::Kohya(layers) => match kohya::take(layers, name) {
                Some(layer) => self.adopt(name, layer, axes.len() - 2).map(Some),
                None => Ok(None),
            },
        }
    }

    /// Stores the tensors of a kohya layer under this crate's names and shapes.
    fn adopt(&mut self, name: &str, layer: KohyaLayer, ones: usize) -> Result<LayerConfig> {
        let (Some(down), Some(up)) = (layer.down, layer.up) else {
            return Err(DoraError::UnknownLayer {
                name: name.to_owned(),
            });
        };
        let rank = down.dim(0)?;
        let alpha = layer.alpha.unwrap_or(rank as f64);
        self.put(&format!("{name}.{}", crate::layer::A_NAME), &down)?;
        self.put(&format!("{name}.{}", crate::layer::B_NAME), &up)?;
        let method = match layer.dora_scale {
            None => Method::Lora,
            Some(scale) => {
                let out = up.dim(0)?;
                let mut want = vec![1; ones + 2];
                want[0] = out;
                check_shape(&format!("{name}.dora_scale"), scale.dims(), &want)?;
                let shape = match ones {
                    0 => vec![out],
                    ones => [&[1, out], vec![1; ones].as_slice()].concat(),
                };
                let magnitude = scale.reshape(shape)?;
                self.put(
                    &format!("{name}.{}", crate::layer::MAGNITUDE_NAME),
                    &magnitude,
                )?;
                Method::Dora
            }
        };
        if let Some(Targets::Names(names)) = &mut self.config.target_modules {
            names.push(name.to_owned());
        }
        self.config.rank_pattern.insert(name.to_owned(), rank);
        self.config.alpha_pattern.insert(name.to_owned(), alpha);
        Ok(LayerConfig {
            method,
            alpha,
            ..LayerConfig::dora(rank)
        })
    }

    fn note_plain(&mut self, name: &str, weight: &Tensor, bias: Option<&Tensor>) {
        let (bytes, parameters) = sizes(weight, bias);
        let entry = Entry {
            factors: None,
            fingerprint: None,
            size: LayerSize {
                base_bytes: bytes,
                base_parameters: parameters,
                adapter_bytes: 0,
                adapter_parameters: 0,
                rank: 0,
                fixed_bytes: 0,
            },
        };
        self.layers.insert(name.to_owned(), entry);
    }

    fn note(
        &mut self,
        name: &str,
        base: &Base,
        bias: Option<&Tensor>,
        factors: &Factors,
    ) -> Result<()> {
        let fingerprint = fingerprint::of_base(base)?;
        if let Source::Peft { bases, .. } = &self.source
            && bases.get(name).is_some_and(|&known| known != fingerprint)
        {
            self.other_bases.push(name.to_owned());
        }
        let bias_count = bias.map_or(0, Tensor::elem_count);
        let element = self.dtype.size_in_bytes();
        let count = factors.parameter_count();
        let fixed = factors.magnitude().map_or(0, Tensor::elem_count);
        let entry = Entry {
            factors: Some(factors.clone()),
            fingerprint: Some(fingerprint),
            size: LayerSize {
                base_bytes: base.size_bytes() + bias_count * base.dtype().size_in_bytes(),
                base_parameters: base.dims().iter().product::<usize>() + bias_count,
                adapter_bytes: count * element,
                adapter_parameters: count,
                rank: factors.rank(),
                fixed_bytes: fixed * element,
            },
        };
        self.layers.insert(name.to_owned(), entry);
        Ok(())
    }
}

/// Bytes and numbers of a plain layer.
fn sizes(weight: &Tensor, bias: Option<&Tensor>) -> (usize, usize) {
    let count = weight.elem_count() + bias.map_or(0, Tensor::elem_count);
    (count * weight.dtype().size_in_bytes(), count)
}
