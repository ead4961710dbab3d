//! An adapter's files by themselves, without the network that they belong to.
//!
//! ```text
//! folder or file ──open──> AdapterFiles ──modules──> how each module is adapted, and the weight's shape
//!                                       ──save_as──> the same adapter in another element type, or scaled otherwise
//!                            two of them ──difference──> tensor by tensor
//! ```
//!
//! Settings and tensors must agree, as they must where layers are offered. Read are PEFT's folders, this crate's, and
//! files of kohya's kind, whose names have `_` in the place of `.`.
//!
//! Deliberately absent: writing kohya's files, and PEFT's of them: which `_` was a `.`, the network alone knows.

use std::collections::BTreeMap;
use std::path::Path;

use candle_core::{DType, Tensor};

use super::files::{self, TensorFile};
use super::folder::{CONFIG_FILE, TENSOR_FILE};
use super::stored::{PREFIX, module_and_variable};
use super::{folder, kohya, written};
use crate::config::{DoraConfig, LayerConfig, Method, Patterns};
use crate::error::{DoraError, Result};
use crate::finite;
use crate::layer::{A_NAME, B_NAME, MAGNITUDE_NAME, embedding};

/// Element types that adapters are stored in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StorageType {
    /// 32 bits.
    F32,
    /// 16 bits, 11 of them significant.
    F16,
    /// 16 bits, 8 of them significant, the range of f32.
    Bf16,
}

impl StorageType {
    const fn dtype(self) -> DType {
        match self {
            Self::F32 => DType::F32,
            Self::F16 => DType::F16,
            Self::Bf16 => DType::BF16,
        }
    }
}

/// What becomes of an adapter that is written anew; by default nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Change {
    /// Element type of all tensors; rounded to the nearest, ties to even.
    pub storage: Option<StorageType>,
    /// Whether scales are `alpha / sqrt(rank)`; alphas are chosen so that every scale stays what it is.
    pub rslora: Option<bool>,
}

/// What rounding did to one tensor.
#[derive(Debug, Clone, PartialEq)]
pub struct Rounding {
    /// Name of the tensor, without PEFT's prefix.
    pub tensor: String,
    /// Largest change of an element.
    pub max_abs: f64,
    /// The same as a part of the largest element before.
    pub relative: f64,
}

/// How one module is adapted.
#[derive(Debug, Clone, PartialEq)]
pub struct ModuleReport {
    /// Its name in the file.
    pub name: String,
    /// Which variables it has.
    pub method: Method,
    /// Rows of A; 0 where the magnitude alone is trained.
    pub rank: usize,
    /// As the settings have it.
    pub alpha: f64,
    /// Factor of `B A`.
    pub scaling: f64,
    /// Shape of the weight that it adapts; `None` where the magnitude alone is trained, which does not say.
    pub weight: Option<Vec<usize>>,
    /// Element types of its tensors, each once.
    pub storage: Vec<&'static str>,
    /// Numbers in its tensors.
    pub parameters: usize,
    /// Bytes of its tensors.
    pub bytes: usize,
}

/// How two adapters differ.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AdapterDifference {
    /// Settings that act and differ.
    pub settings: Vec<&'static str>,
    /// Tensors that the first alone has.
    pub only_in_first: Vec<String>,
    /// Tensors that the second alone has.
    pub only_in_second: Vec<String>,
    /// Tensors of other shapes.
    pub other_shapes: Vec<String>,
    /// Every tensor that both have in one shape: the largest difference, and that as a part of the first's largest element.
    pub tensors: Vec<Rounding>,
}

impl AdapterDifference {
    /// Whether settings, names and shapes are the same, and no element differs by more than this part of its tensor's
    /// largest.
    pub fn is_within(&self, relative: f64) -> bool {
        let is_alike = self.settings.is_empty()
            && self.only_in_first.is_empty()
            && self.only_in_second.is_empty()
            && self.other_shapes.is_empty();
        is_alike && self.tensors.iter().all(|it| it.relative <= relative)
    }
}

/// An adapter as it lies on the disk.
pub struct AdapterFiles {
    config: DoraConfig,
    file: TensorFile,
    /// Of a file of kohya's kind, whose names have lost their dots: rank and alpha of each layer. As patterns, names could mean
    /// one another's layers.
    of_kohya: Option<BTreeMap<String, (usize, f64)>>,
}

impl AdapterFiles {
    /// Opens a folder of PEFT's or this crate's, the tensor file in one, or a file of kohya's kind.
    ///
    /// # Errors
    ///
    /// As [`Adapter::open`](super::Adapter::open) and [`Adapter::open_kohya`](super::Adapter::open_kohya).
    pub fn open(path: &Path) -> Result<Self> {
        let is_tensor_file = path.file_name().is_some_and(|name| name == TENSOR_FILE);
        let folder = match path.is_dir() {
            true => Some(path),
            false if is_tensor_file => path.parent(),
            false => None,
        };
        let Some(folder) = folder else {
            return Self::of_kohya(path);
        };
        // The parent of a name alone is the folder that the process is in.
        let folder = if folder.as_os_str().is_empty() {
            Path::new(".")
        } else {
            folder
        };
        let (config, mut file) = files::read_folder(folder, None)?;
        config.check()?;
        let mut tensors = BTreeMap::new();
        for (key, tensor) in std::mem::take(&mut file.tensors) {
            let name = match module_and_variable(&key) {
                Some((module, variable)) => format!("{module}.{variable}"),
                None => key.strip_prefix(PREFIX).unwrap_or(&key).to_owned(),
            };
            if tensors.insert(name.clone(), tensor).is_some() {
                return Err(DoraError::Duplicate { name });
            }
        }
        file.tensors = tensors;
        Ok(Self {
            config,
            file,
            of_kohya: None,
        })
    }

    fn of_kohya(path: &Path) -> Result<Self> {
        // Once for the layers, once for what else the file says.
        let mut file = files::read_tensors(path, None)?;
        let layers = kohya::read(path, None)?;
        let names: Vec<String> = layers.keys().cloned().collect();
        let mut config = DoraConfig::builder(1).targets(names).build()?;
        config.use_dora = layers.values().any(|layer| layer.dora_scale.is_some());
        file.tensors.clear();
        let mut of_kohya = BTreeMap::new();
        for (name, layer) in layers {
            let (Some(down), Some(up)) = (layer.down, layer.up) else {
                continue;
            };
            let rank = down.dims().first().copied().unwrap_or(0);
            let alpha = layer.alpha.unwrap_or(rank as f64);
            of_kohya.insert(name.clone(), (rank, alpha));
            file.tensors.insert(format!("{name}.{A_NAME}"), down);
            file.tensors.insert(format!("{name}.{B_NAME}"), up);
            if let Some(scale) = layer.dora_scale {
                file.tensors
                    .insert(format!("{name}.{MAGNITUDE_NAME}"), scale);
            }
        }
        Ok(Self {
            config,
            file,
            of_kohya: Some(of_kohya),
        })
    }

    /// The settings.
    pub fn config(&self) -> &DoraConfig {
        &self.config
    }

    /// How every module is adapted, by name.
    ///
    /// # Errors
    ///
    /// [`DoraError::Tensors`] for a module without one of its tensors, [`DoraError::Rank`] and
    /// [`DoraError::MagnitudeWithoutDora`] where settings and tensors differ.
    pub fn modules(&self) -> Result<Vec<ModuleReport>> {
        let mut modules: BTreeMap<&str, BTreeMap<&'static str, &Tensor>> = BTreeMap::new();
        for (name, tensor) in &self.file.tensors {
            if let Some((module, variable)) = module_and_variable(name) {
                modules.entry(module).or_default().insert(variable, tensor);
            }
        }
        let modules = modules.into_iter();
        modules
            .map(|(name, tensors)| self.module(name, &tensors))
            .collect()
    }

    fn module(
        &self,
        name: &str,
        tensors: &BTreeMap<&'static str, &Tensor>,
    ) -> Result<ModuleReport> {
        let [embedding_a, embedding_b, _] = embedding::NAMES;
        let (a, b) = (tensors.get(A_NAME), tensors.get(B_NAME));
        let (words_a, words_b) = (tensors.get(embedding_a), tensors.get(embedding_b));
        let has_magnitude = tensors.contains_key(MAGNITUDE_NAME);
        let (method, weight) = match (a.zip(b), words_a.zip(words_b)) {
            (Some((a, b)), None) => {
                // Of A the axes behind the rank, of B the first one.
                let rows = b.dims().first().copied();
                let shape = rows.into_iter().chain(a.dims().iter().skip(1).copied());
                (
                    if has_magnitude {
                        Method::Dora
                    } else {
                        Method::Lora
                    },
                    Some(shape.collect()),
                )
            }
            (None, Some((a, b))) => {
                let words = a.dims().get(1).copied();
                let width = b.dims().first().copied();
                let shape = words.into_iter().chain(width);
                (
                    if has_magnitude {
                        Method::Dora
                    } else {
                        Method::Lora
                    },
                    Some(shape.collect()),
                )
            }
            (None, None) if has_magnitude && tensors.len() == 1 => (Method::MagnitudeOnly, None),
            _ => {
                let missing = vec![format!("{name}: its A, B or magnitude")];
                return Err(DoraError::Tensors {
                    missing,
                    unexpected: Vec::new(),
                });
            }
        };
        if method == Method::Dora && !self.config.use_dora {
            let layer = name.to_owned();
            return Err(DoraError::MagnitudeWithoutDora { layer });
        }
        let of_kohya = self.of_kohya.as_ref().and_then(|all| all.get(name));
        let layer = match of_kohya {
            Some(&(rank, alpha)) => LayerConfig {
                rank,
                alpha,
                ..self.config.of_method("", method)?
            },
            None => self.config.of_method(name, method)?,
        };
        let first = a.or(words_a).and_then(|a| a.dims().first().copied());
        if let Some(rank) = first.filter(|&rank| rank != layer.rank) {
            return Err(DoraError::Rank {
                layer: name.to_owned(),
                tensors: rank,
                settings: layer.rank,
            });
        }
        // Of convolutions in groups the layer itself knows what fits.
        let (first_factor, second_factor) = (a.or(words_a), b.or(words_b));
        if let Some((a, b)) = first_factor.zip(second_factor) {
            let (rows, rank) = (b.dims().first(), a.dims().first());
            let (Some(&rows), Some(&rank)) = (rows, rank) else {
                return Err(misshapen(name, a, b));
            };
            if b.dims().len() == 2 && b.dims()[1] != rank {
                return Err(misshapen(name, a, b));
            }
            let magnitude = tensors.get(MAGNITUDE_NAME).filter(|_| a.dims().len() == 2);
            let magnitude = magnitude.filter(|_| words_a.is_none());
            if let Some(it) = magnitude.filter(|it| it.elem_count() != rows) {
                return Err(DoraError::Shape {
                    name: format!("{name}.{MAGNITUDE_NAME}"),
                    got: it.dims().to_vec(),
                    want: vec![rows],
                });
            }
        }
        let mut storage: Vec<&'static str> =
            tensors.values().map(|it| it.dtype().as_str()).collect();
        storage.sort_unstable();
        storage.dedup();
        let layer = LayerConfig {
            rank: first.unwrap_or(0),
            ..layer
        };
        Ok(ModuleReport {
            name: name.to_owned(),
            method,
            rank: layer.rank,
            alpha: layer.alpha,
            scaling: layer.scaling(),
            weight,
            storage,
            parameters: tensors.values().map(|it| it.elem_count()).sum(),
            bytes: tensors.values().map(|it| bytes_of(it)).sum(),
        })
    }

    /// Names, shapes and bytes of tensors of modules that were trained whole.
    pub fn whole(&self) -> impl Iterator<Item = (&str, &[usize], usize)> {
        let tensors = self.file.tensors.iter();
        let whole = tensors.filter(|(name, _)| module_and_variable(name).is_none());
        whole.map(|(name, tensor)| (name.as_str(), tensor.dims(), bytes_of(tensor)))
    }

    /// Writes the adapter to `folder` as PEFT reads it, changed as asked; what rounding did to each tensor.
    ///
    /// # Errors
    ///
    /// [`DoraError::InexactScale`] where no alpha gives a scale once more, [`DoraError::BeyondType`] for an element that the
    /// type cannot hold, both before anything is written; [`DoraError::Unsupported`] for a file of kohya's kind;
    /// [`DoraError::Io`] if a file cannot be written.
    pub fn save_as(&self, folder: &Path, change: Change) -> Result<Vec<Rounding>> {
        if self.of_kohya.is_some() {
            return Err(DoraError::Unsupported {
                name: "layout",
                value: "kohya".to_owned(),
                reason: "its names have _ for every dot, and the network alone knows which _ was one",
            });
        }
        let config = match change.rslora {
            Some(rslora) if rslora != self.config.use_rslora => self.scaled_otherwise(rslora)?,
            _ => self.config.clone(),
        };
        let (mut tensors, mut roundings) = (BTreeMap::new(), Vec::new());
        for (name, tensor) in &self.file.tensors {
            let dtype = change.storage.map_or(tensor.dtype(), StorageType::dtype);
            let stored = tensor.to_dtype(dtype)?;
            // The element is finite where it comes from.
            finite::check(name, &stored).map_err(|error| match error {
                DoraError::NotFinite { name, index } => DoraError::BeyondType {
                    name,
                    index,
                    storage: dtype.as_str(),
                },
                other => other,
            })?;
            roundings.push(difference(name, tensor, &stored)?);
            tensors.insert(name.clone(), stored);
        }
        let own = (self.file.seed.unwrap_or(config.seed), self.file.initial);
        let text = written::json(config);
        let path = folder.join(TENSOR_FILE);
        let bytes = files::tensor_bytes(&path, &text, own, &tensors, &self.file.bases)?;
        folder::write(folder, &text, &bytes)?;
        Ok(roundings)
    }

    /// The settings with the same scales, computed the other way.
    fn scaled_otherwise(&self, rslora: bool) -> Result<DoraConfig> {
        let modules = self.modules()?;
        let low_rank = modules.iter().filter(|module| module.rank > 0);
        let alphas = low_rank.map(|module| {
            let rank = module.rank as f64;
            let divisor = if rslora { rank.sqrt() } else { rank };
            let alpha = module.scaling * divisor;
            match alpha / divisor == module.scaling {
                true => Ok((module.name.as_str(), alpha)),
                false => Err(DoraError::InexactScale {
                    layer: module.name.clone(),
                    rank: module.rank,
                    scaling: module.scaling,
                }),
            }
        });
        let alphas: Vec<(&str, f64)> = alphas.collect::<Result<_>>()?;
        let mut config = self.config.clone();
        config.use_rslora = rslora;
        config.alpha_pattern = Patterns::default();
        let names: Vec<&str> = alphas.iter().map(|(name, _)| *name).collect();
        if let Some(&(_, first)) = alphas.first() {
            config.lora_alpha = first;
            for (name, alpha) in alphas.iter().filter(|(_, alpha)| *alpha != first) {
                config
                    .alpha_pattern
                    .insert(written::pattern(name, &names), *alpha);
            }
        }
        Ok(config)
    }

    /// How another adapter differs from this one.
    ///
    /// # Errors
    ///
    /// [`DoraError::Candle`] where tensors cannot be read.
    pub fn difference(&self, other: &Self) -> Result<AdapterDifference> {
        let mut settings = self.config.differences(&other.config);
        if self.of_kohya != other.of_kohya {
            settings.push("alpha");
        }
        let mut found = AdapterDifference {
            settings,
            ..AdapterDifference::default()
        };
        for (name, tensor) in &self.file.tensors {
            match other.file.tensors.get(name) {
                None => found.only_in_first.push(name.clone()),
                Some(it) if it.dims() != tensor.dims() => found.other_shapes.push(name.clone()),
                Some(it) => found.tensors.push(difference(name, tensor, it)?),
            }
        }
        let others = other.file.tensors.keys();
        let others = others.filter(|name| !self.file.tensors.contains_key(*name));
        found.only_in_second = others.cloned().collect();
        Ok(found)
    }
}

impl std::fmt::Debug for AdapterFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.file.tensors.keys().collect::<Vec<_>>();
        f.debug_struct("AdapterFiles")
            .field(CONFIG_FILE, &self.config)
            .field("tensors", &names)
            .finish()
    }
}

/// Two factors that have no product.
fn misshapen(module: &str, a: &Tensor, b: &Tensor) -> DoraError {
    let rows = b.dims().first().copied().unwrap_or(0);
    let rank = a.dims().first().copied().unwrap_or(0);
    DoraError::Shape {
        name: format!("{module}.{B_NAME}"),
        got: b.dims().to_vec(),
        want: vec![rows, rank],
    }
}

fn bytes_of(tensor: &Tensor) -> usize {
    tensor.elem_count() * tensor.dtype().size_in_bytes()
}

/// Of two tensors of one shape. Both are finite.
fn difference(name: &str, first: &Tensor, second: &Tensor) -> Result<Rounding> {
    let values = |tensor: &Tensor| -> Result<Vec<f64>> {
        Ok(tensor.to_dtype(DType::F64)?.flatten_all()?.to_vec1()?)
    };
    let (first, second) = (values(first)?, values(second)?);
    let apart = first.iter().zip(&second).map(|(a, b)| (a - b).abs());
    let max_abs = apart.fold(0.0, f64::max);
    let largest = first
        .iter()
        .fold(0.0, |most: f64, value| most.max(value.abs()));
    // Of a tensor of zeros every difference is as large as can be.
    let relative = match (max_abs == 0.0, largest == 0.0) {
        (true, _) => 0.0,
        (false, true) => f64::INFINITY,
        (false, false) => max_abs / largest,
    };
    Ok(Rounding {
        tensor: name.to_owned(),
        max_abs,
        relative,
    })
}
