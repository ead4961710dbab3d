//! Files: PEFT's folder of `adapter_config.json` and `adapter_model.safetensors`.
//!
//! ```text
//! base_model.model.<module>.lora_A.weight            .lora_embedding_A
//! base_model.model.<module>.lora_B.weight            .lora_embedding_B
//! base_model.model.<module>.lora_magnitude_vector    read with and without `.weight` behind it
//! ```
//!
//! Layout as PEFT 0.21.2 writes it. The tensor file's metadata also holds a fingerprint of each
//! layer's base, which PEFT ignores. Files are written to another name and renamed.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use candle_core::{DType, Device, Tensor};
use safetensors::{Dtype, SafeTensors};

use crate::error::{DoraError, Result};
use crate::layer::MAGNITUDE_NAME;

/// The settings' file.
pub const CONFIG_FILE: &str = "adapter_config.json";
/// The tensors' file.
pub const TENSOR_FILE: &str = "adapter_model.safetensors";

/// What PEFT puts before a module's name.
const PREFIX: &str = "base_model.model.";
/// What this crate puts before a module's name in metadata.
const BASE_PREFIX: &str = "spark.base.";

/// More than any adapter's settings.
const CONFIG_LIMIT: u64 = 4 << 20;
/// More than any adapter's tensors.
const TENSOR_LIMIT: u64 = 8 << 30;

/// Tensors by `<module>.<variable>`, and fingerprints by module.
pub(crate) struct TensorFile {
    pub(crate) tensors: BTreeMap<String, Tensor>,
    pub(crate) bases: BTreeMap<String, u64>,
}

/// The bytes of a regular file of at most `limit`.
pub(crate) fn read(path: &Path, limit: u64) -> Result<Vec<u8>> {
    let failed = |source| DoraError::Io {
        path: path.to_owned(),
        source,
    };
    let metadata = fs::metadata(path).map_err(failed)?;
    if !metadata.is_file() {
        let kind = std::io::ErrorKind::InvalidInput;
        return Err(failed(std::io::Error::new(kind, "not a regular file")));
    }
    if metadata.len() > limit {
        return Err(DoraError::FileTooLarge {
            path: path.to_owned(),
            size: metadata.len(),
            limit,
        });
    }
    fs::read(path).map_err(failed)
}

/// The settings in `folder`.
pub(crate) fn read_config(folder: &Path) -> Result<crate::DoraConfig> {
    let path = folder.join(CONFIG_FILE);
    let bytes = read(&path, CONFIG_LIMIT)?;
    serde_json::from_slice(&bytes).map_err(|source| DoraError::Json { path, source })
}

/// The tensors of a file, widened or narrowed to `dtype`.
pub(crate) fn read_tensors(path: &Path, dtype: DType) -> Result<TensorFile> {
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
        let tensor = tensor.to_dtype(dtype)?;
        check_finite(name, &tensor)?;
        tensors.insert(variable_name(name), tensor);
    }
    let mut bases = BTreeMap::new();
    for (key, value) in metadata.metadata().iter().flatten() {
        if let Some(module) = key.strip_prefix(BASE_PREFIX)
            && let Ok(fingerprint) = u64::from_str_radix(value, 16)
        {
            bases.insert(module.to_owned(), fingerprint);
        }
    }
    Ok(TensorFile { tensors, bases })
}

/// Refuses NaN and infinities.
pub(crate) fn check_finite(name: &str, tensor: &Tensor) -> Result<()> {
    let values = tensor
        .to_dtype(DType::F64)?
        .flatten_all()?
        .to_vec1::<f64>()?;
    match values.iter().position(|v| !v.is_finite()) {
        None => Ok(()),
        Some(index) => Err(DoraError::NotFinite {
            name: name.to_owned(),
            index,
        }),
    }
}

/// `<module>.<variable>` from a key as any version of PEFT wrote it.
fn variable_name(key: &str) -> String {
    let key = key.strip_prefix(PREFIX).unwrap_or(key);
    let key = key.replace(".default", "");
    match key.strip_suffix(".weight") {
        Some(short) if short.ends_with(MAGNITUDE_NAME) => short.to_owned(),
        _ => key,
    }
}

/// Writes both files into `folder`, which is made if it is not there.
pub(crate) fn write(
    folder: &Path,
    config: &str,
    tensors: &BTreeMap<String, Tensor>,
    bases: &BTreeMap<String, u64>,
) -> Result<u64> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| DoraError::Io { path, source }
    };
    fs::create_dir_all(folder).map_err(failed(folder))?;
    let named: Vec<(String, &Tensor)> = tensors
        .iter()
        .map(|(name, tensor)| (format!("{PREFIX}{name}"), tensor))
        .collect();
    let fingerprints = bases
        .iter()
        .map(|(module, print)| (format!("{BASE_PREFIX}{module}"), format!("{print:016x}")));
    let format = ("format".to_owned(), "pt".to_owned());
    let metadata: HashMap<String, String> = fingerprints.chain([format]).collect();
    let path = folder.join(TENSOR_FILE);
    let bytes =
        safetensors::serialize(named, Some(metadata)).map_err(|source| DoraError::TensorFile {
            path: path.clone(),
            source,
        })?;
    replace(&path, &bytes)?;
    replace(&folder.join(CONFIG_FILE), config.as_bytes())?;
    Ok(bytes.len() as u64)
}

/// Writes `bytes` beside `path`, then takes its place: whoever reads sees the old file or the new one.
fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let beside: PathBuf = path.with_file_name(name);
    let written = fs::File::create(&beside).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    written
        .and_then(|()| fs::rename(&beside, path))
        .map_err(|source| {
            let _ = fs::remove_file(&beside);
            DoraError::Io {
                path: path.to_owned(),
                source,
            }
        })
}
