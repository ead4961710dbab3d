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
//! name. Only adapter tensors are trained and stored, all tensors of the modules that `modules_to_save` means, and the
//! biases that `bias` means.

mod beginning;
mod biases;
mod entry;
mod files;
mod fingerprint;
mod folder;
mod kohya;
pub(crate) mod merged;
pub(crate) mod on_disk;
pub(crate) mod set;
mod size;
mod stored;
mod whole;
mod written;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use candle_core::{DType, Device, Tensor, Var};
use candle_nn::{Conv1d, Conv2d, Embedding, Linear, Module, VarBuilder, VarMap};
use spark_quant::PackedTensor;

pub use folder::{CONFIG_FILE, TENSOR_FILE};
pub use size::{GOOD_FRACTION, SizeReport};

use crate::base::{Base, check_shape};
use crate::config::{self, DoraConfig, LayerConfig, Method, Targets};
use crate::error::{DoraError, Result};
use crate::finite;
use crate::layer::factors::{FactorShapes, check_type};
use crate::layer::{
    DoraConv1d, DoraConv2d, DoraEmbedding, DoraLinear, Factors, SavedLayer, TrainModule,
    WholeLayer, embedding, initial,
};
use crate::optim::VariableGroups;
use entry::{Entry, Kind};
use kohya::KohyaLayer;
use size::LayerSize;
use stored::Stored;
pub(crate) use written::pattern;

/// A layer that was offered to an adapter.
#[derive(Clone, Debug)]
pub enum Offered<P, D> {
    /// Not meant: as it was.
    Plain(P),
    /// The layer under the adapter, trainable.
    Adapted(D),
    /// The layer trained whole, as `modules_to_save` says.
    Saved(SavedLayer<P>),
}

impl<P, D> Offered<P, D> {
    /// The adapted layer, if it is one.
    pub fn adapted(&self) -> Option<&D> {
        match self {
            Self::Plain(_) | Self::Saved(_) => None,
            Self::Adapted(layer) => Some(layer),
        }
    }

    /// The layer trained whole, if it is one.
    pub fn saved(&self) -> Option<&SavedLayer<P>> {
        match self {
            Self::Plain(_) | Self::Adapted(_) => None,
            Self::Saved(layer) => Some(layer),
        }
    }
}

impl<P: Module + WholeLayer, D: Module> Module for Offered<P, D> {
    fn forward(&self, x: &Tensor) -> candle_core::Result<Tensor> {
        match self {
            Self::Plain(layer) => layer.forward(x),
            Self::Adapted(layer) => layer.forward(x),
            Self::Saved(layer) => layer.forward(x),
        }
    }
}

impl<P: TrainModule + WholeLayer, D: TrainModule> TrainModule for Offered<P, D> {
    fn forward_train(&self, x: &Tensor, step: u64) -> candle_core::Result<Tensor> {
        match self {
            Self::Plain(layer) => layer.forward_train(x, step),
            Self::Adapted(layer) => layer.forward_train(x, step),
            Self::Saved(layer) => layer.forward_train(x, step),
        }
    }
}

/// Where values come from.
enum Source {
    /// Nowhere yet: layers begin as their settings say.
    New,
    /// PEFT's files, with fingerprints of the bases they were trained on.
    Peft {
        stored: Stored,
        bases: BTreeMap<String, u64>,
    },
    /// A file of kohya's kind.
    Kohya(BTreeMap<String, KohyaLayer>),
}

/// The adapter of one network.
///
/// # Examples
///
/// ```
/// use candle_core::{DType, Device, Tensor};
/// use candle_nn::Linear;
/// use spark_dora::{Adapter, DoraConfig};
///
/// let linear = |rows, columns| -> candle_core::Result<Linear> {
///     Ok(Linear::new(Tensor::randn(0f32, 1.0, (rows, columns), &Device::Cpu)?, None))
/// };
/// let config = DoraConfig::builder(2).targets(["fc1"]).build()?;
/// let mut adapter = Adapter::new(config, DType::F32, &Device::Cpu)?;
/// assert!(adapter.linear("trunk.fc1", &linear(16, 8)?)?.adapted().is_some());
/// assert!(adapter.linear("trunk.fc2", &linear(8, 16)?)?.adapted().is_none());
/// adapter.finish()?; // every target was found
/// assert_eq!(adapter.adapted().collect::<Vec<_>>(), ["trunk.fc1"]);
/// assert_eq!(adapter.size().trainable, 2 * 8 + 16 * 2 + 16); // A, B, magnitude
/// # Ok::<(), spark_dora::DoraError>(())
/// ```
pub struct Adapter {
    config: DoraConfig,
    store: VarMap,
    dtype: DType,
    device: Device,
    source: Source,
    layers: BTreeMap<String, Entry>,
    other_bases: Vec<String>,
    /// Whether its size has been warned of; runs save hundreds of times.
    is_warned: AtomicBool,
}

/// A and B that a layer began with, if a file holds them.
type Began = Option<(Tensor, Tensor)>;

impl Adapter {
    /// A new adapter whose variables have `dtype`, f32 or f64, whatever the type of the bases.
    ///
    /// # Errors
    ///
    /// As [`DoraConfig::check`]; [`DoraError::Unsupported`] for another type.
    pub fn new(config: DoraConfig, dtype: DType, device: &Device) -> Result<Self> {
        check_type(dtype)?;
        config.check()?;
        Ok(Self::of(config, dtype, device, Source::New))
    }

    /// The adapter in `folder`, as PEFT or [`Adapter::save`] wrote it. Layers offered afterwards take
    /// their values from it; those it has no tensors for stay plain. Variables have `dtype`, f32 or f64.
    ///
    /// A folder whose save was cut off gives the adapter that was saved, or the one before it.
    ///
    /// # Errors
    ///
    /// [`DoraError::Io`], [`DoraError::FileTooLarge`], [`DoraError::Json`] and [`DoraError::TensorFile`]
    /// for files that cannot be read; [`DoraError::MixedSaves`] for settings of another save than the
    /// tensors'; [`DoraError::NotFinite`] for NaN and infinities; [`DoraError::Duplicate`] for two tensors
    /// of one name; [`DoraError::Unsupported`] for settings that would make the layers compute something
    /// else, and for another type.
    pub fn open(folder: &Path, dtype: DType, device: &Device) -> Result<Self> {
        check_type(dtype)?;
        let (config, file) = files::read_folder(folder, dtype)?;
        config.check()?;
        let source = Source::Peft {
            stored: Stored::new(file.tensors)?,
            bases: file.bases,
        };
        Ok(Self::of(config, dtype, device, source))
    }

    /// An adapter written by kohya's scripts or LyCORIS, with `dora_scale` or without.
    ///
    /// # Errors
    ///
    /// As [`Adapter::open`]; [`DoraError::Tensors`] for files that hold other kinds of factors.
    pub fn open_kohya(file: &Path, dtype: DType, device: &Device) -> Result<Self> {
        check_type(dtype)?;
        let layers = kohya::read(file, dtype)?;
        let mut config = DoraConfig::builder(1).targets([""; 0]).build()?;
        config.use_dora = layers.values().any(|l| l.dora_scale.is_some());
        Ok(Self::of(config, dtype, device, Source::Kohya(layers)))
    }

    /// Before anything is offered.
    fn of(config: DoraConfig, dtype: DType, device: &Device, source: Source) -> Self {
        Self {
            config,
            store: VarMap::new(),
            dtype,
            device: device.clone(),
            source,
            layers: BTreeMap::new(),
            other_bases: Vec::new(),
            is_warned: AtomicBool::new(false),
        }
    }

    /// The adapter's settings, as given or as the files have them.
    pub fn config(&self) -> &DoraConfig {
        &self.config
    }

    /// Offers a linear layer.
    ///
    /// # Errors
    ///
    /// [`DoraError::Duplicate`] for a name used before; [`DoraError::Tensors`], [`DoraError::Shape`],
    /// [`DoraError::Rank`], [`DoraError::NotTargeted`] and [`DoraError::MagnitudeWithoutDora`] if the file's
    /// tensors do not fit the layer or the settings; [`DoraError::SavedAndAdapted`] if the settings mean it in
    /// both ways; otherwise as [`DoraLinear::from_linear`].
    pub fn linear(&mut self, name: &str, layer: &Linear) -> Result<Offered<Linear, DoraLinear>> {
        let frozen = Linear::new(layer.weight().detach(), layer.bias().map(Tensor::detach));
        let shapes = shapes_of(name, layer.weight().dims(), 2)?;
        if let Some(saved) = self.saved_layer(name, &frozen)? {
            return Ok(Offered::Saved(saved));
        }
        let Some((config, began)) = self.configuration(name, &shapes)? else {
            let bias = self.note_plain(name, layer.weight(), layer.bias())?;
            return Ok(Offered::Plain(Linear::new(frozen.weight().clone(), bias)));
        };
        let bias = self.bias_of_adapted(name, layer.bias())?;
        let offered = Linear::new(frozen.weight().clone(), bias);
        let vb = self.variables_of(name);
        let adapted = DoraLinear::from_initial(&offered, &config, vb, began)?;
        let core = adapted.core();
        self.note(name, config, &core.base, core.bias.as_ref(), &core.factors)?;
        Ok(Offered::Adapted(adapted))
    }

    /// Offers a linear layer whose weight is packed (QDoRA); see [`DoraLinear::from_packed`].
    ///
    /// # Errors
    ///
    /// As [`Adapter::linear`]; [`DoraError::UnknownLayer`] if the configuration does not mean this layer,
    /// because candle has no plain layer of packed weights; [`DoraError::Unsupported`] if it is to be trained
    /// whole.
    pub fn packed_linear(
        &mut self,
        name: &str,
        weight: &PackedTensor,
        bias: Option<&Tensor>,
    ) -> Result<DoraLinear> {
        let shapes = shapes_of(name, weight.shape(), 2)?;
        if self.config.saves(name) {
            return Err(DoraError::Unsupported {
                name: "modules_to_save",
                value: name.to_owned(),
                reason: "packed weights cannot be trained whole",
            });
        }
        let Some((config, _)) = self.configuration(name, &shapes)? else {
            return Err(DoraError::UnknownLayer {
                name: name.to_owned(),
            });
        };
        let bias = self.bias_of_adapted(name, bias)?;
        let vb = self.variables_of(name);
        let adapted = DoraLinear::from_packed(weight, bias, &config, vb)?;
        let core = adapted.core();
        self.note(name, config, &core.base, core.bias.as_ref(), &core.factors)?;
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
        let shapes = shapes_of(name, layer.weight().dims(), 4)?;
        if let Some(saved) = self.saved_layer(name, &frozen)? {
            return Ok(Offered::Saved(saved));
        }
        let Some((config, _)) = self.configuration(name, &shapes)? else {
            let bias = self.note_plain(name, layer.weight(), layer.bias())?;
            let plain = Conv2d::new(frozen.weight().clone(), bias, *layer.config());
            return Ok(Offered::Plain(plain));
        };
        let bias = self.bias_of_adapted(name, layer.bias())?;
        let offered = Conv2d::new(frozen.weight().clone(), bias, *layer.config());
        let vb = self.variables_of(name);
        let adapted = DoraConv2d::from_conv2d(&offered, &config, vb)?;
        let core = adapted.core();
        self.note(name, config, &core.base, core.bias.as_ref(), &core.factors)?;
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
        let shapes = shapes_of(name, layer.weight().dims(), 3)?;
        if let Some(saved) = self.saved_layer(name, &frozen)? {
            return Ok(Offered::Saved(saved));
        }
        let Some((config, _)) = self.configuration(name, &shapes)? else {
            let bias = self.note_plain(name, layer.weight(), layer.bias())?;
            let plain = Conv1d::new(frozen.weight().clone(), bias, *layer.config());
            return Ok(Offered::Plain(plain));
        };
        let bias = self.bias_of_adapted(name, layer.bias())?;
        let offered = Conv1d::new(frozen.weight().clone(), bias, *layer.config());
        let vb = self.variables_of(name);
        let adapted = DoraConv1d::from_conv1d(&offered, &config, vb)?;
        let core = adapted.core();
        self.note(name, config, &core.base, core.bias.as_ref(), &core.factors)?;
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
        let shapes = embedding::shapes(layer.embeddings())?;
        if let Some(saved) = self.saved_layer(name, &frozen)? {
            return Ok(Offered::Saved(saved));
        }
        let Some((config, _)) = self.configuration(name, &shapes)? else {
            self.note_plain(name, layer.embeddings(), None)?;
            return Ok(Offered::Plain(frozen));
        };
        let vb = self.variables_of(name);
        let adapted = DoraEmbedding::from_embedding(&frozen, &config, vb)?;
        let base = Base::dense(adapted.weight())?;
        self.note(name, config, &base, None, adapted.factors())?;
        Ok(Offered::Adapted(adapted))
    }

    /// Whether the file's tensors for the layer `name` are an embedding's, for programs that have weights
    /// only: those of embeddings and linear layers look alike. A layer that was offered already is none.
    pub fn is_embedding(&self, name: &str) -> bool {
        match &self.source {
            Source::Peft { stored, .. } => stored.is_embedding(name),
            Source::New | Source::Kohya(_) => false,
        }
    }

    /// To be called when all layers were offered: checks that nothing of a file is left over, that no layer
    /// the settings mean went without, and that the bases are those the adapter was trained on.
    ///
    /// # Errors
    ///
    /// [`DoraError::Tensors`] naming tensors no layer took, targets no layer has, or layers meant by the
    /// settings that the file has no tensors for; [`DoraError::Base`] naming layers whose base weights
    /// differ. The layers stay usable, so a caller who means another base may go on.
    pub fn finish(&self) -> Result<()> {
        self.check_complete()?;
        if !self.other_bases.is_empty() {
            return Err(DoraError::Base {
                layers: self.other_bases.clone(),
            });
        }
        self.warn_of_idle_patterns()
    }

    /// That layers, settings and the file's tensors go with each other.
    fn check_complete(&self) -> Result<()> {
        let unexpected: Vec<String> = match &self.source {
            Source::New => Vec::new(),
            Source::Peft { stored, .. } => stored.unexpected(),
            Source::Kohya(layers) => layers.keys().cloned().collect(),
        };
        let mut missing = match (&self.source, &self.config.target_modules) {
            (Source::Peft { stored, .. }, _) => stored.missing().to_vec(),
            (Source::New, Some(Targets::Names(names))) => {
                let unmet = |target: &&String| {
                    let mut layers = self.layers.keys();
                    !layers.any(|name| config::is_suffix(name, target))
                };
                names.iter().filter(unmet).cloned().collect()
            }
            (Source::New, Some(Targets::Text(text))) if self.adapted().next().is_none() => {
                vec![text.clone()]
            }
            _ => Vec::new(),
        };
        if let Source::New = self.source {
            let unmet = |end: &&String| {
                let mut whole = self.saved_modules();
                !whole.any(|name| config::is_within(name, end))
            };
            missing.extend(self.config.to_save().iter().filter(unmet).cloned());
        }
        match unexpected.is_empty() && missing.is_empty() {
            true => Ok(()),
            false => Err(DoraError::Tensors {
                missing,
                unexpected,
            }),
        }
    }

    /// A pattern may be meant for other networks, or be misspelt.
    fn warn_of_idle_patterns(&self) -> Result<()> {
        let ranks = self
            .config
            .rank_pattern
            .iter()
            .map(|(p, _)| ("rank_pattern", p));
        let alphas = self
            .config
            .alpha_pattern
            .iter()
            .map(|(p, _)| ("alpha_pattern", p));
        for (setting, pattern) in ranks.chain(alphas) {
            let mut acts = false;
            for name in self.adapted() {
                acts |= name == pattern || self.config.matches(setting, pattern, name)?;
            }
            if !acts {
                tracing::warn!("{setting} `{pattern}` matches no adapted layer");
            }
        }
        Ok(())
    }

    /// All variables, by kind, for optimisers.
    pub fn variables(&self) -> VariableGroups {
        let adapted = self.layers.values().filter_map(Entry::adapted);
        let mut groups = VariableGroups::of(adapted.map(|(_, factors)| factors));
        for entry in self.layers.values() {
            if let Kind::Whole(saved) = &entry.kind {
                groups.add_whole(saved);
            }
            groups.add_bias(entry.bias.as_ref());
        }
        groups
    }

    /// Names of the adapted layers.
    pub fn adapted(&self) -> impl Iterator<Item = &str> {
        let adapted = self.layers.iter().filter(|(_, e)| e.adapted().is_some());
        adapted.map(|(name, _)| name.as_str())
    }

    /// Names of the modules that are trained whole.
    pub fn saved_modules(&self) -> impl Iterator<Item = &str> {
        let whole = self.layers.iter();
        let whole = whole.filter(|(_, e)| matches!(e.kind, Kind::Whole(_)));
        whole.map(|(name, _)| name.as_str())
    }

    /// The variables of one layer.
    pub fn factors(&self, name: &str) -> Option<&Factors> {
        self.layers.get(name)?.adapted().map(|(_, factors)| factors)
    }

    /// Sizes, and how many parameters are trained and frozen.
    pub fn size(&self) -> SizeReport {
        SizeReport::of(self.layers.values().map(|e| e.size))
    }

    /// Writes `folder` as PEFT does, as one unit: a program that reads it, and one that dies while it saves,
    /// leaves and finds this adapter or the one before. Only the adapter's tensors are stored; other files
    /// of the folder stay. The first time that an adapter of more than 1 % of its base is saved, a warning is
    /// logged with the rank that would fit.
    ///
    /// # Errors
    ///
    /// [`DoraError::NotFinite`] if a variable is NaN or infinite, [`DoraError::Tensors`] if the file this
    /// adapter came from holds tensors that no layer took and that would be lost,
    /// [`DoraError::MixedMethods`] for layers with magnitudes beside layers without, all before anything is
    /// written; [`DoraError::Io`] if a file cannot be written, and an older adapter in the folder then stays
    /// whole.
    pub fn save(&self, folder: &Path) -> Result<SizeReport> {
        if !matches!(self.source, Source::New) {
            self.check_complete()?;
        }
        let mut tensors = BTreeMap::new();
        let mut bases = BTreeMap::new();
        for (module, entry) in &self.layers {
            let mut named: Vec<(&str, Tensor)> = match &entry.kind {
                Kind::Plain => Vec::new(),
                Kind::Whole(saved) => {
                    let variables = saved.variables();
                    variables.map(|(name, t)| (name, t.clone())).collect()
                }
                Kind::Adapted {
                    factors,
                    fingerprint,
                    ..
                } => {
                    bases.insert(module.clone(), *fingerprint);
                    factors.written()?
                }
            };
            let key = entry.key_of_bias();
            named.extend(entry.bias.iter().map(|bias| (key, bias.clone())));
            for (name, tensor) in named {
                let name = format!("{module}.{name}");
                let tensor = tensor.to_device(&Device::Cpu)?.detach();
                finite::check(&name, &tensor)?;
                tensors.insert(name, tensor);
            }
        }
        let config = written::json(written::settings(&self.config, &self.layers)?);
        let path = folder.join(TENSOR_FILE);
        let adapted = self.layers.values().filter_map(Entry::adapted);
        let mut began = adapted.filter(|(_, factors)| factors.initial().is_some());
        let initial = began.next().map(|(config, _)| config.init);
        let own = (self.config.seed, initial);
        let bytes = files::tensor_bytes(&path, &config, own, &tensors, &bases)?;
        folder::write(folder, &config, &bytes)?;
        let size = self.size();
        if size.fraction > GOOD_FRACTION && !self.is_warned.swap(true, Ordering::Relaxed) {
            match size.rank_that_fits {
                Some(rank) => tracing::warn!("{size}; rank {rank} would stay below 1 %"),
                // Biases and whole layers have no rank.
                None if self.adapted().next().is_none() => {}
                None => tracing::warn!("{size}; even rank 1 exceeds 1 %: adapt fewer layers"),
            }
        }
        Ok(size)
    }

    /// Where layer `name` finds its variables.
    fn variables_of(&self, name: &str) -> VarBuilder<'static> {
        VarBuilder::from_varmap(&self.store, self.dtype, &self.device).pp(name)
    }

    fn put(&self, name: &str, tensor: &Tensor) -> Result<Var> {
        let var = Var::from_tensor(&tensor.to_device(&self.device)?)?;
        let mut store = self.store.data().lock().unwrap_or_else(|e| e.into_inner());
        store.insert(name.to_owned(), var.clone());
        Ok(var)
    }

    fn refuse_known(&self, name: &str) -> Result<()> {
        match self.layers.contains_key(name) {
            false => Ok(()),
            true => Err(DoraError::Duplicate {
                name: name.to_owned(),
            }),
        }
    }

    /// How `name` is adapted, if at all; variables that come from a file are in the store afterwards.
    fn configuration(
        &mut self,
        name: &str,
        shapes: &FactorShapes,
    ) -> Result<Option<(LayerConfig, Began)>> {
        self.refuse_known(name)?;
        match &mut self.source {
            Source::New => Ok(self.config.layer(name)?.map(|config| (config, None))),
            Source::Peft { stored, .. } => {
                let Some((mut config, mut tensors)) = stored.claim(&self.config, name, shapes)?
                else {
                    return Ok(None);
                };
                let began = split(name, &mut config, &mut tensors, shapes)?;
                for (variable, tensor) in tensors {
                    self.put(&format!("{name}.{variable}"), &tensor)?;
                }
                Ok(Some((config, began)))
            }
            Source::Kohya(layers) => {
                let flat = kohya::flat(name);
                if self.layers.keys().any(|known| kohya::flat(known) == flat) {
                    return Err(DoraError::Duplicate { name: flat });
                }
                match kohya::take(layers, &flat) {
                    Some(layer) => Ok(Some((self.adopt(name, layer, shapes)?, None))),
                    None => Ok(None),
                }
            }
        }
    }

    /// Stores the tensors of a kohya layer under this crate's names and shapes.
    fn adopt(
        &mut self,
        name: &str,
        layer: KohyaLayer,
        shapes: &FactorShapes,
    ) -> Result<LayerConfig> {
        let (Some(down), Some(up)) = (layer.down, layer.up) else {
            return Err(DoraError::UnknownLayer {
                name: name.to_owned(),
            });
        };
        let rank = down.dim(0)?;
        let alpha = layer.alpha.unwrap_or(rank as f64);
        let [(a_name, a), (b_name, b), (magnitude_name, magnitude)] = shapes.named(rank);
        let mut tensors = vec![(a_name, down, a), (b_name, up, b)];
        let method = match layer.dora_scale {
            None => Method::Lora,
            Some(scale) => {
                let mut want = vec![1; shapes.ones + 2];
                want[0] = shapes.rows;
                check_shape(&format!("{name}.dora_scale"), scale.dims(), &want)?;
                let scale = scale.reshape(magnitude.as_slice())?;
                tensors.push((magnitude_name, scale, magnitude));
                Method::Dora
            }
        };
        for (variable, tensor, shape) in tensors {
            let key = format!("{name}.{variable}");
            check_shape(&key, tensor.dims(), &shape)?;
            self.put(&key, &tensor)?;
        }
        // Such files have no settings of their own; the first layer's are the adapter's.
        if self.adapted().next().is_none() {
            (self.config.r, self.config.lora_alpha) = (rank, alpha);
        }
        Ok(LayerConfig {
            method,
            alpha,
            ..LayerConfig::dora(rank)
        })
    }

    /// Gives the bias that the layer has from here on.
    fn note_plain(
        &mut self,
        name: &str,
        weight: &Tensor,
        bias: Option<&Tensor>,
    ) -> Result<Option<Tensor>> {
        finite::check(&format!("{name}.weight"), weight)?;
        if let Some(bias) = bias {
            finite::check(&format!("{name}.bias"), bias)?;
        }
        let size = LayerSize::frozen([weight].into_iter().chain(bias));
        let bias = self.bias_of_plain(name, bias)?;
        let entry = Entry::new(Kind::Plain, size, bias.as_ref(), self.dtype);
        self.layers.insert(name.to_owned(), entry);
        Ok(bias)
    }

    fn note(
        &mut self,
        name: &str,
        config: LayerConfig,
        base: &Base,
        bias: Option<&Tensor>,
        factors: &Factors,
    ) -> Result<()> {
        let offered = factors.initial().map_or(base, |initial| &initial.base);
        let fingerprint = fingerprint::of_base(offered)?;
        if let Source::Peft { bases, .. } = &self.source
            && bases.get(name).is_some_and(|&known| known != fingerprint)
        {
            self.other_bases.push(name.to_owned());
        }
        let bias_count = bias.map_or(0, Tensor::elem_count);
        let element = self.dtype.size_in_bytes();
        let count = factors.parameter_count();
        let fixed = factors.magnitude().map_or(0, Tensor::elem_count);
        let size = LayerSize {
            base_bytes: base.size_bytes() + bias_count * base.dtype().size_in_bytes(),
            base_parameters: base.dims().iter().product::<usize>() + bias_count,
            adapter_bytes: count * element,
            adapter_parameters: count,
            rank: factors.rank(),
            fixed_bytes: fixed * element,
        };
        let kind = Kind::Adapted {
            config,
            factors: factors.clone(),
            fingerprint,
        };
        let entry = Entry::new(kind, size, bias, self.dtype);
        self.layers.insert(name.to_owned(), entry);
        Ok(())
    }
}

/// Where a layer's A and B began as parts of its weight, the file holds those too: takes them off the tensors, and
/// leaves the layer's own rank and alpha.
fn split(
    name: &str,
    config: &mut LayerConfig,
    tensors: &mut BTreeMap<&'static str, Tensor>,
    shapes: &FactorShapes,
) -> Result<Began> {
    let [a_name, b_name, _] = shapes.names;
    if !config.init.is_of_weight() {
        return Ok(None);
    }
    let (Some(a), Some(b)) = (tensors.get(a_name), tensors.get(b_name)) else {
        return Ok(None);
    };
    if !config.rank.is_multiple_of(2) {
        return Err(DoraError::Rank {
            layer: name.to_owned(),
            tensors: config.rank,
            settings: config.rank + 1,
        });
    }
    let [(a, b), initial] = initial::halves(a, b)?;
    tensors.insert(a_name, a);
    tensors.insert(b_name, b);
    config.rank /= 2;
    config.alpha /= entry::alpha_of_twice_the_rank(config.rslora);
    Ok(Some(initial))
}

/// Shapes of the variables of a layer whose weight has `axes` axes.
fn shapes_of(name: &str, dims: &[usize], axes: usize) -> Result<FactorShapes> {
    if dims.len() != axes {
        check_shape(&format!("{name}.weight"), dims, &vec![0; axes])?;
    }
    Ok(FactorShapes::of_weight(dims))
}
