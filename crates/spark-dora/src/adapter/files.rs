//! Files: PEFT's folder of `adapter_config.json` and `adapter_model.safetensors`.
//!
//! ```text
//! adapter_config.json          settings, keys sorted
//! adapter_model.safetensors    tensors by PEFT's names, and in its metadata, which PEFT does not read:
//!   spark.config               the settings saved with these tensors, as text
//!   spark.seed                 of the dropout
//!   spark.base.<module>        a fingerprint of each layer's base weight
//!   spark.initial              how A and B began, if that was as parts of the weights: half of each layer's ranks
//!                              are then those they began with, B negated
//! ```
//!
//! Layout as PEFT 0.21.2 writes it. The settings inside the tensor file make it a unit: others beside it are
//! refused, and without any these are taken. A folder without them is PEFT's and read as it is.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use candle_core::{DType, Device, Tensor};
use safetensors::{Dtype, SafeTensors};

use super::folder::{CONFIG_FILE, Locked, TENSOR_FILE, failed};
use super::stored::PREFIX;
use crate::config::{DoraConfig, Init};
use crate::error::{DoraError, Result};
use crate::finite;

/// What this crate puts before a module's name in metadata.
const BASE_PREFIX: &str = "spark.base.";
/// Where metadata holds the settings.
const CONFIG_KEY: &str = "spark.config";
/// Where metadata holds the seed.
const SEED_KEY: &str = "spark.seed";

/// Where metadata holds how A and B began.
const INITIAL_KEY: &str = "spark.initial";

/// More than any adapter's settings.
const CONFIG_LIMIT: u64 = 4 << 20;
/// More than any adapter's tensors.
const TENSOR_LIMIT: u64 = 8 << 30;

/// A tensor file: tensors by key, and what metadata says.
pub(crate) struct TensorFile {
    pub(crate) tensors: BTreeMap<String, Tensor>,
    /// Fingerprints of bases, by module.
    pub(crate) bases: BTreeMap<String, u64>,
    pub(super) seed: Option<u64>,
    pub(super) initial: Option<Init>,
    config: Option<DoraConfig>,
}

/// The bytes of a regular file of at most `limit`.
fn read(path: &Path, limit: u64) -> Result<Vec<u8>> {
    let metadata = fs::metadata(path).map_err(failed(path))?;
    if !metadata.is_file() {
        let error = io::Error::new(io::ErrorKind::InvalidInput, "not a regular file");
        return Err(failed(path)(error));
    }
    if metadata.len() > limit {
        return Err(DoraError::FileTooLarge {
            path: path.to_owned(),
            size: metadata.len(),
            limit,
        });
    }
    fs::read(path).map_err(failed(path))
}

fn parse_config(path: &Path, bytes: &[u8]) -> Result<DoraConfig> {
    serde_json::from_slice(bytes).map_err(|source| DoraError::Json {
        path: path.to_owned(),
        source,
    })
}

/// The settings in a file; nothing if there is no such file.
fn read_config(path: &Path) -> Result<Option<DoraConfig>> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        _ => parse_config(path, &read(path, CONFIG_LIMIT)?).map(Some),
    }
}

/// The settings and tensors of one save; tensors in their own types without `dtype`.
pub(crate) fn read_folder(
    folder: &Path,
    dtype: impl Into<Option<DType>>,
) -> Result<(DoraConfig, TensorFile)> {
    let locked = Locked::shared(folder)?;
    let config_path = folder.join(CONFIG_FILE);
    let beside = read_config(&config_path)?;
    let mut file = read_tensors(&folder.join(TENSOR_FILE), dtype)?;
    let mut config = match (beside, file.config.take()) {
        (Some(beside), Some(inside)) => {
            if let Some(&setting) = beside.differences(&inside).first() {
                return Err(DoraError::MixedSaves {
                    folder: folder.to_owned(),
                    setting,
                });
            }
            beside
        }
        (Some(beside), None) => beside,
        (None, Some(inside)) => {
            tracing::warn!(
                "{}: {CONFIG_FILE} is missing, as after a save that was cut off; the settings inside \
                 {TENSOR_FILE} are taken",
                folder.display()
            );
            inside
        }
        (None, None) => {
            let moved = locked.moved_settings();
            let path = moved.as_deref().unwrap_or(&config_path);
            let config = parse_config(path, &read(path, CONFIG_LIMIT)?)?;
            tracing::warn!(
                "{}: a save was cut off; the settings before it are taken",
                path.display()
            );
            config
        }
    };
    config.seed = file.seed.unwrap_or(config.seed);
    config.init = file.initial.unwrap_or(config.init);
    Ok((config, file))
}

/// The tensors of a file, converted to `dtype`, or in their own types.
pub(crate) fn read_tensors(path: &Path, dtype: impl Into<Option<DType>>) -> Result<TensorFile> {
    let dtype = dtype.into();
    let bytes = read(path, TENSOR_LIMIT)?;
    let failed = |source| DoraError::TensorFile {
        path: path.to_owned(),
        source,
    };
    let (_, metadata) = SafeTensors::read_metadata(&bytes).map_err(failed)?;
    let file = SafeTensors::deserialize(&bytes).map_err(failed)?;
    let mut tensors = BTreeMap::new();
    for (name, view) in file.iter() {
        let kind = match view.dtype() {
            Dtype::F16 => DType::F16,
            Dtype::BF16 => DType::BF16,
            Dtype::F32 => DType::F32,
            Dtype::F64 => DType::F64,
            other => {
                return Err(DoraError::Unsupported {
                    name: "element type",
                    value: format!("{other:?} of `{name}`"),
                    reason: "adapters hold floating-point tensors",
                });
            }
        };
        let tensor = Tensor::from_raw_buffer(view.data(), kind, view.shape(), &Device::Cpu)?;
        let tensor = tensor.to_dtype(dtype.unwrap_or(kind))?;
        finite::check(name, &tensor)?;
        tensors.insert(name.to_owned(), tensor);
    }
    let metadata = metadata.metadata().clone().unwrap_or_default();
    let bases = metadata.iter().filter_map(|(key, value)| {
        let module = key.strip_prefix(BASE_PREFIX)?;
        let print = u64::from_str_radix(value, 16).ok()?;
        Some((module.to_owned(), print))
    });
    let config = metadata.get(CONFIG_KEY);
    let initial = metadata.get(INITIAL_KEY).map(|name| {
        Init::of_name(name).ok_or_else(|| DoraError::Unsupported {
            name: INITIAL_KEY,
            value: name.clone(),
            reason: "A and B began in a way that is not known here",
        })
    });
    Ok(TensorFile {
        tensors,
        bases: bases.collect(),
        seed: metadata.get(SEED_KEY).and_then(|seed| seed.parse().ok()),
        initial: initial.transpose()?,
        config: config
            .map(|text| parse_config(path, text.as_bytes()))
            .transpose()?,
    })
}

/// The bytes of a tensor file.
pub(crate) fn tensor_bytes(
    path: &Path,
    config: &str,
    (seed, initial): (u64, Option<Init>),
    tensors: &BTreeMap<String, Tensor>,
    bases: &BTreeMap<String, u64>,
) -> Result<Vec<u8>> {
    let named = tensors
        .iter()
        .map(|(name, tensor)| (format!("{PREFIX}{name}"), tensor));
    let fingerprints = bases
        .iter()
        .map(|(module, print)| (format!("{BASE_PREFIX}{module}"), format!("{print:016x}")));
    let own = [
        ("format".to_owned(), "pt".to_owned()),
        (CONFIG_KEY.to_owned(), config.to_owned()),
        (SEED_KEY.to_owned(), seed.to_string()),
    ];
    let initial = initial.and_then(Init::name);
    let initial = initial.map(|name| (INITIAL_KEY.to_owned(), name));
    let metadata: BTreeMap<String, String> = fingerprints.chain(own).chain(initial).collect();
    let bytes = safetensors::serialize(named, None).map_err(|source| DoraError::TensorFile {
        path: path.to_owned(),
        source,
    })?;
    Ok(with_metadata(&bytes, &metadata))
}

/// A tensor file without metadata, with these. safetensors writes them in the order of a map, another one in each process; the same adapter is to be the same
/// bytes.
fn with_metadata(bytes: &[u8], metadata: &BTreeMap<String, String>) -> Vec<u8> {
    /// The header's length, and what the tensors behind it are aligned to.
    const WORD: usize = size_of::<u64>();
    let (length, rest) = bytes.split_at(WORD);
    let length = length
        .iter()
        .rev()
        .fold(0, |sum, &byte| sum << 8 | usize::from(byte));
    let (header, tensors) = rest.split_at(length);
    let named = header.trim_ascii().strip_prefix(b"{").unwrap_or_default();
    let mut text = b"{\"__metadata__\":".to_vec();
    text.extend(serde_json::json!(metadata).to_string().into_bytes());
    if named != b"}" {
        text.push(b',');
    }
    text.extend(named);
    text.resize(text.len().next_multiple_of(WORD), b' ');
    let mut whole = (text.len() as u64).to_le_bytes().to_vec();
    whole.extend(text);
    whole.extend(tensors);
    whole
}
