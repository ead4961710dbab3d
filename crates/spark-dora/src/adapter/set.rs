//! Several adapters over one network that is built once: added, exchanged, switched off, removed.
//!
//! ```text
//! let mut set = AdapterSet::new()
//! let fc = set.linear("trunk.fc", &linear)?    a candle module, to build the network of
//! set.add("night", Adapter::open(folder, ..)?)?    the network stays as it is built
//! set.activate("night")?                       from here on `fc` computes with that adapter
//! set.disable()                                and from here on with none: the base's bits
//! ```
//!
//! All layers of a set read one name, so an exchange is one write, whatever the network's size. Bases are shared
//! by all adapters. Deliberately absent: several adapters active at once, one per row of a batch, packed bases.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use candle_core::{Result as CandleResult, Tensor};
use candle_nn::{Conv1d, Conv2d, Embedding, Linear, Module};

use super::{Adapter, Offered};
use crate::error::{DoraError, Result};
use crate::layer::{
    DoraConv1d, DoraConv2d, DoraEmbedding, DoraLinear, SavedTensors, TrainModule, WholeLayer,
};

/// Name of the active adapter; nothing while adapters are switched off.
type Active = Arc<RwLock<Option<Arc<str>>>>;

/// What each adapter makes of one layer; those that leave it as it is are not listed.
type ByAdapter<T> = Arc<RwLock<BTreeMap<Arc<str>, Arc<T>>>>;

/// The value of the active adapter.
fn current<T>(active: &Active, values: &ByAdapter<T>) -> Option<Arc<T>> {
    let active = active.read().unwrap_or_else(PoisonError::into_inner);
    let values = values.read().unwrap_or_else(PoisonError::into_inner);
    values.get(active.as_ref()?).cloned()
}

fn put<T>(values: &ByAdapter<T>, adapter: &Arc<str>, value: T) {
    let mut values = values.write().unwrap_or_else(PoisonError::into_inner);
    values.insert(adapter.clone(), Arc::new(value));
}

fn take<T>(values: &ByAdapter<T>, adapter: &str) {
    let mut values = values.write().unwrap_or_else(PoisonError::into_inner);
    values.remove(adapter);
}

/// A layer of an [`AdapterSet`]: plain, or under whichever adapter is active. Copies follow the same set.
#[derive(Clone, Debug)]
pub struct Switched<P, D> {
    plain: P,
    active: Active,
    layers: ByAdapter<Offered<P, D>>,
}

impl<P, D> Switched<P, D> {
    /// The layer as it was offered, frozen.
    pub fn plain(&self) -> &P {
        &self.plain
    }

    /// The layer under the active adapter; nothing if none is, or if that one leaves the layer as it is.
    pub fn current(&self) -> Option<Arc<Offered<P, D>>> {
        current(&self.active, &self.layers)
    }
}

impl<P: Module + WholeLayer, D: Module> Module for Switched<P, D> {
    fn forward(&self, x: &Tensor) -> CandleResult<Tensor> {
        match self.current() {
            Some(layer) => layer.forward(x),
            None => self.plain.forward(x),
        }
    }
}

impl<P: TrainModule + WholeLayer, D: TrainModule> TrainModule for Switched<P, D> {
    fn forward_train(&self, x: &Tensor, step: u64) -> CandleResult<Tensor> {
        match self.current() {
            Some(layer) => layer.forward_train(x, step),
            None => self.plain.forward_train(x, step),
        }
    }
}

/// The tensors of a module of an [`AdapterSet`]: its own, or those that the active adapter trains in their place.
#[derive(Clone, Debug)]
pub struct SwitchedTensors {
    plain: BTreeMap<String, Tensor>,
    active: Active,
    saved: ByAdapter<SavedTensors>,
}

impl SwitchedTensors {
    /// The present values of a tensor; see [`SavedTensors::get`].
    ///
    /// # Errors
    ///
    /// [`DoraError::UnknownLayer`] for a name the module was not offered with.
    pub fn get(&self, name: &str) -> Result<Tensor> {
        if let Some(saved) = current(&self.active, &self.saved) {
            return saved.get(name);
        }
        let tensor = self.plain.get(name);
        tensor.cloned().ok_or_else(|| DoraError::UnknownLayer {
            name: name.to_owned(),
        })
    }
}

/// A layer of a network, of any kind.
enum Slot {
    Linear(Switched<Linear, DoraLinear>),
    Conv1d(Switched<Conv1d, DoraConv1d>),
    Conv2d(Switched<Conv2d, DoraConv2d>),
    Embedding(Switched<Embedding, DoraEmbedding>),
    Module(SwitchedTensors),
}

/// What a new adapter made of a layer, before it is known that all layers take it.
enum Made {
    Linear(Offered<Linear, DoraLinear>),
    Conv1d(Offered<Conv1d, DoraConv1d>),
    Conv2d(Offered<Conv2d, DoraConv2d>),
    Embedding(Offered<Embedding, DoraEmbedding>),
    Module(Option<SavedTensors>),
}

impl Slot {
    fn offer(&self, adapter: &mut Adapter, name: &str) -> Result<Made> {
        Ok(match self {
            Self::Linear(slot) => Made::Linear(adapter.linear(name, &slot.plain)?),
            Self::Conv1d(slot) => Made::Conv1d(adapter.conv1d(name, &slot.plain)?),
            Self::Conv2d(slot) => Made::Conv2d(adapter.conv2d(name, &slot.plain)?),
            Self::Embedding(slot) => Made::Embedding(adapter.embedding(name, &slot.plain)?),
            Self::Module(slot) => {
                let tensors = slot.plain.iter().map(|(name, t)| (name.as_str(), t));
                Made::Module(adapter.module(name, &tensors.collect::<Vec<_>>())?)
            }
        })
    }

    fn put(&self, adapter: &Arc<str>, made: Made) {
        fn keep<P, D>(slot: &Switched<P, D>, adapter: &Arc<str>, layer: Offered<P, D>) {
            if !matches!(layer, Offered::Plain(_)) {
                put(&slot.layers, adapter, layer);
            }
        }
        match (self, made) {
            (Self::Linear(slot), Made::Linear(layer)) => keep(slot, adapter, layer),
            (Self::Conv1d(slot), Made::Conv1d(layer)) => keep(slot, adapter, layer),
            (Self::Conv2d(slot), Made::Conv2d(layer)) => keep(slot, adapter, layer),
            (Self::Embedding(slot), Made::Embedding(layer)) => keep(slot, adapter, layer),
            (Self::Module(slot), Made::Module(Some(saved))) => put(&slot.saved, adapter, saved),
            (Self::Module(_), Made::Module(None)) => {}
            _ => unreachable!("a slot makes its own kind"),
        }
    }

    fn take(&self, adapter: &str) {
        match self {
            Self::Linear(slot) => take(&slot.layers, adapter),
            Self::Conv1d(slot) => take(&slot.layers, adapter),
            Self::Conv2d(slot) => take(&slot.layers, adapter),
            Self::Embedding(slot) => take(&slot.layers, adapter),
            Self::Module(slot) => take(&slot.saved, adapter),
        }
    }
}

/// The layers of one network, and adapters for them by name, at most one of them active.
///
/// A forward pass that runs on another thread while adapters are exchanged may find each of its layers under
/// either one.
///
/// # Examples
///
/// ```
/// use candle_core::{DType, Device, Tensor};
/// use candle_nn::{Linear, Module};
/// use spark_dora::{Adapter, AdapterSet, DoraConfig, Init};
///
/// let linear = Linear::new(Tensor::randn(0f32, 1.0, (6, 4), &Device::Cpu)?, None);
/// let mut set = AdapterSet::new();
/// let fc = set.linear("fc", &linear)?;
/// let x = Tensor::randn(0f32, 1.0, (2, 4), &Device::Cpu)?;
/// let y = |fc: &dyn Module| fc.forward(&x)?.flatten_all()?.to_vec1::<f32>();
///
/// for (seed, name) in ["day", "night"].into_iter().enumerate() {
///     let config = DoraConfig::builder(2).init(Init::Random).seed(seed as u64).build()?;
///     set.add(name, Adapter::new(config, DType::F32, &Device::Cpu)?)?;
/// }
/// assert_eq!(y(&fc)?, y(&linear)?); // none is active yet
/// set.activate("day")?;
/// let day = y(&fc)?;
/// set.activate("night")?;
/// assert_ne!(y(&fc)?, day);
/// set.disable();
/// assert_eq!(y(&fc)?, y(&linear)?);
/// # Ok::<(), spark_dora::DoraError>(())
/// ```
#[derive(Default)]
pub struct AdapterSet {
    slots: BTreeMap<String, Slot>,
    adapters: BTreeMap<Arc<str>, Adapter>,
    active: Active,
}

impl AdapterSet {
    /// No layers and no adapters.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a linear layer in.
    ///
    /// # Errors
    ///
    /// [`DoraError::Duplicate`] for a name used before; [`DoraError::LateLayer`] if there are adapters, which
    /// were never offered this layer.
    pub fn linear(&mut self, name: &str, layer: &Linear) -> Result<Switched<Linear, DoraLinear>> {
        self.layer(name, layer, Slot::Linear)
    }

    /// Takes a one-dimensional convolution in.
    ///
    /// # Errors
    ///
    /// As [`AdapterSet::linear`].
    pub fn conv1d(&mut self, name: &str, layer: &Conv1d) -> Result<Switched<Conv1d, DoraConv1d>> {
        self.layer(name, layer, Slot::Conv1d)
    }

    /// Takes a two-dimensional convolution in.
    ///
    /// # Errors
    ///
    /// As [`AdapterSet::linear`].
    pub fn conv2d(&mut self, name: &str, layer: &Conv2d) -> Result<Switched<Conv2d, DoraConv2d>> {
        self.layer(name, layer, Slot::Conv2d)
    }

    /// Takes an embedding in.
    ///
    /// # Errors
    ///
    /// As [`AdapterSet::linear`].
    pub fn embedding(
        &mut self,
        name: &str,
        layer: &Embedding,
    ) -> Result<Switched<Embedding, DoraEmbedding>> {
        self.layer(name, layer, Slot::Embedding)
    }

    /// Takes a module of another kind in, by its tensors; see [`Adapter::module`].
    ///
    /// # Errors
    ///
    /// As [`AdapterSet::linear`]; [`DoraError::Duplicate`] for a tensor given twice too.
    pub fn module(&mut self, name: &str, tensors: &[(&str, &Tensor)]) -> Result<SwitchedTensors> {
        self.check_new(name)?;
        let mut plain = BTreeMap::new();
        for &(tensor_name, tensor) in tensors {
            let known = plain.insert(tensor_name.to_owned(), tensor.detach());
            if known.is_some() {
                let name = format!("{name}.{tensor_name}");
                return Err(DoraError::Duplicate { name });
            }
        }
        let module = SwitchedTensors {
            plain,
            active: self.active.clone(),
            saved: Arc::default(),
        };
        self.slots
            .insert(name.to_owned(), Slot::Module(module.clone()));
        Ok(module)
    }

    /// Adds an adapter to the network: all layers are offered to it. It is not active yet.
    ///
    /// # Errors
    ///
    /// [`DoraError::DuplicateAdapter`] for a name in use; otherwise as [`Adapter::linear`] and
    /// [`Adapter::finish`], other bases among it. The set is then as it was.
    pub fn add(&mut self, name: &str, mut adapter: Adapter) -> Result<&Adapter> {
        if self.adapters.contains_key(name) {
            return Err(DoraError::DuplicateAdapter {
                name: name.to_owned(),
            });
        }
        if adapter.trains_biases() {
            return Err(DoraError::Unsupported {
                name: "bias",
                value: name.to_owned(),
                reason: "the adapters of a set share the layers' biases",
            });
        }
        let made = self
            .slots
            .iter()
            .map(|(layer, slot)| slot.offer(&mut adapter, layer));
        let made = made.collect::<Result<Vec<_>>>()?;
        adapter.finish()?;
        let name: Arc<str> = name.into();
        for (slot, made) in self.slots.values().zip(made) {
            slot.put(&name, made);
        }
        Ok(self.adapters.entry(name).or_insert(adapter))
    }

    /// Takes an adapter off the network again, and gives it back. Adapters are switched off if it was active.
    ///
    /// # Errors
    ///
    /// [`DoraError::UnknownAdapter`] if there is none of that name.
    pub fn remove(&mut self, name: &str) -> Result<Adapter> {
        let Some(adapter) = self.adapters.remove(name) else {
            return Err(unknown(name));
        };
        if self.active().as_deref() == Some(name) {
            self.disable();
        }
        self.slots.values().for_each(|slot| slot.take(name));
        Ok(adapter)
    }

    /// Makes one adapter the active one, in place of any other.
    ///
    /// # Errors
    ///
    /// [`DoraError::UnknownAdapter`] if there is none of that name; the active one stays.
    pub fn activate(&self, name: &str) -> Result<()> {
        let Some((name, _)) = self.adapters.get_key_value(name) else {
            return Err(unknown(name));
        };
        self.set_active(Some(name.clone()));
        Ok(())
    }

    /// Switches adapters off: every layer is as it was offered.
    pub fn disable(&self) {
        self.set_active(None);
    }

    /// Name of the active adapter, if any is.
    pub fn active(&self) -> Option<Arc<str>> {
        let active = self.active.read().unwrap_or_else(PoisonError::into_inner);
        active.clone()
    }

    /// An adapter, to train and to save.
    pub fn adapter(&self, name: &str) -> Option<&Adapter> {
        self.adapters.get(name)
    }

    /// Names of the adapters, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.adapters.keys().map(|name| &**name)
    }

    fn set_active(&self, name: Option<Arc<str>>) {
        let mut active = self.active.write().unwrap_or_else(PoisonError::into_inner);
        *active = name;
    }

    fn layer<P: WholeLayer + Clone, D: Clone>(
        &mut self,
        name: &str,
        layer: &P,
        slot: impl FnOnce(Switched<P, D>) -> Slot,
    ) -> Result<Switched<P, D>> {
        self.check_new(name)?;
        let (weight, bias) = layer.tensors();
        let plain = layer.with_tensors(weight.detach(), bias.map(|b| b.detach()))?;
        let switched = Switched {
            plain,
            active: self.active.clone(),
            layers: Arc::default(),
        };
        self.slots.insert(name.to_owned(), slot(switched.clone()));
        Ok(switched)
    }

    fn check_new(&self, name: &str) -> Result<()> {
        if self.slots.contains_key(name) {
            return Err(DoraError::Duplicate {
                name: name.to_owned(),
            });
        }
        match self.adapters.is_empty() {
            true => Ok(()),
            false => Err(DoraError::LateLayer {
                name: name.to_owned(),
            }),
        }
    }
}

fn unknown(name: &str) -> DoraError {
    DoraError::UnknownAdapter {
        name: name.to_owned(),
    }
}
