//! Adapters as kohya's scripts and LyCORIS write them.
//!
//! ```text
//! <prefix>_<module with _ for .>.lora_down.weight    A
//! <prefix>_<module with _ for .>.lora_up.weight      B
//! <prefix>_<module with _ for .>.alpha               a number; the rank if absent
//! <prefix>_<module with _ for .>.dora_scale          magnitude, [out, 1, ..]; absent for LoRA
//! ```
//!
//! Deliberately absent: LoHa, LoKr, Tucker factors (`lora_mid`), and magnitudes of inputs.

use std::collections::BTreeMap;
use std::path::Path;

use candle_core::{DType, Tensor};

use super::files;
use crate::error::{DoraError, Result};

/// Prefixes in use, longest first; the last is for files without one.
const PREFIXES: [&str; 7] = [
    "lora_transformer_",
    "lora_unet_",
    "lora_te1_",
    "lora_te2_",
    "lora_te_",
    "lycoris_",
    "",
];

/// One layer of such a file.
#[derive(Debug, Default)]
pub(crate) struct KohyaLayer {
    pub(crate) down: Option<Tensor>,
    pub(crate) up: Option<Tensor>,
    pub(crate) alpha: Option<f64>,
    pub(crate) dora_scale: Option<Tensor>,
}

/// Layers by the name in the file.
pub(crate) fn read(
    path: &Path,
    dtype: impl Into<Option<DType>>,
) -> Result<BTreeMap<String, KohyaLayer>> {
    let mut layers: BTreeMap<String, KohyaLayer> = BTreeMap::new();
    let mut unexpected = Vec::new();
    for (key, tensor) in files::read_tensors(path, dtype)?.tensors {
        let Some((name, what)) = key.split_once('.') else {
            unexpected.push(key);
            continue;
        };
        let layer = layers.entry(name.to_owned()).or_default();
        match what {
            "lora_down.weight" => layer.down = Some(tensor),
            "lora_up.weight" => layer.up = Some(tensor),
            "dora_scale" => layer.dora_scale = Some(tensor),
            "alpha" if tensor.elem_count() == 1 => {
                let value = tensor.to_dtype(DType::F64)?.flatten_all()?;
                layer.alpha = Some(value.get(0)?.to_scalar()?);
            }
            _ => unexpected.push(key),
        }
    }
    let incomplete = layers
        .iter()
        .filter(|(_, l)| l.down.is_none() || l.up.is_none());
    let missing: Vec<String> = incomplete
        .map(|(name, _)| format!("{name}.lora_down.weight or .lora_up.weight"))
        .collect();
    match missing.is_empty() && unexpected.is_empty() {
        true => Ok(layers),
        false => Err(DoraError::Tensors {
            missing,
            unexpected,
        }),
    }
}

/// A module's name in such files. Two modules may have the same one.
pub(crate) fn flat(name: &str) -> String {
    name.replace('.', "_")
}

/// Whether there is a layer that is meant by a module of this flat name.
pub(crate) fn has(layers: &BTreeMap<String, KohyaLayer>, flat: &str) -> bool {
    let mut names = PREFIXES.iter().map(|prefix| format!("{prefix}{flat}"));
    names.any(|name| layers.contains_key(&name))
}

/// Takes the layer that is meant by a module of this flat name.
pub(crate) fn take(layers: &mut BTreeMap<String, KohyaLayer>, flat: &str) -> Option<KohyaLayer> {
    PREFIXES
        .iter()
        .find_map(|prefix| layers.remove(&format!("{prefix}{flat}")))
}
