//! What a PEFT folder holds: its tensors sorted by module, and how a module found there is adapted.
//!
//! ```text
//! base_model.model.<module>.lora_A[.default].weight          lora_embedding_A[.default]
//! base_model.model.<module>.lora_B[.default].weight          lora_embedding_B[.default]
//! base_model.model.<module>.lora_magnitude_vector[.default][.weight]
//! base_model.model.<module>.<tensor>              of modules trained whole (modules_to_save)
//! base_model.model.<module>[.base_layer].bias     biases trained beside the adapters (bias)
//! ```
//!
//! Which tensors a module has says how it is adapted, the shape of A its rank. The settings must agree:
//! where PEFT would leave tensors out or draw new ones, this is an error that names the module.

use std::collections::BTreeMap;

use candle_core::Tensor;

use crate::base::check_shape;
use crate::config::{DoraConfig, LayerConfig, Method, Targets};
use crate::error::{DoraError, Result};
use crate::layer::factors::{FactorShapes, named};
use crate::layer::{A_NAME, B_NAME, MAGNITUDE_NAME, embedding};

/// What PEFT puts before a module's name.
pub(crate) const PREFIX: &str = "base_model.model.";
/// The adapter's name in keys of files that were not written by PEFT's `save_pretrained`.
const ADAPTER: &str = ".default";

/// Tensors of a file, by module and by this crate's name for the variable.
#[derive(Debug, Default)]
pub(crate) struct Stored {
    modules: BTreeMap<String, BTreeMap<&'static str, Tensor>>,
    /// Tensors that are no variable of a module, by key without prefix, with the file's key: those of modules
    /// trained whole.
    others: BTreeMap<String, (String, Tensor)>,
    /// Modules offered that the settings mean and the file has nothing for.
    missing: Vec<String>,
}

impl Stored {
    /// Sorts tensors by their keys.
    pub(crate) fn new(tensors: BTreeMap<String, Tensor>) -> Result<Self> {
        let mut stored = Self::default();
        for (key, tensor) in tensors {
            let Some((module, variable)) = module_and_variable(&key) else {
                let name = key.strip_prefix(PREFIX).unwrap_or(&key).to_owned();
                if stored.others.contains_key(&name) {
                    return Err(DoraError::Duplicate { name });
                }
                stored.others.insert(name, (key, tensor));
                continue;
            };
            let variables = stored.modules.entry(module.to_owned()).or_default();
            if variables.insert(variable, tensor).is_some() {
                let name = format!("{module}.{variable}");
                return Err(DoraError::Duplicate { name });
            }
        }
        Ok(stored)
    }

    /// Whether the module `name` has variables.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.modules.contains_key(name)
    }

    /// Whether the module `name` has an embedding's tensors.
    pub(crate) fn is_embedding(&self, name: &str) -> bool {
        let [embedding_a, ..] = embedding::NAMES;
        let tensors = self.modules.get(name);
        tensors.is_some_and(|tensors| tensors.contains_key(embedding_a))
    }

    /// How the layer `name` is adapted, and its tensors by name; nothing if the file has none for it.
    pub(crate) fn claim(
        &mut self,
        config: &DoraConfig,
        name: &str,
        shapes: &FactorShapes,
    ) -> Result<Option<(LayerConfig, BTreeMap<&'static str, Tensor>)>> {
        let excluded = config.excludes(name)?;
        let Some(tensors) = self.modules.get(name) else {
            let listed = config.target_modules.as_ref().is_some_and(|t| !t.is_all());
            if listed && !excluded && config.targets(name)? {
                self.missing.push(name.to_owned());
            }
            return Ok(None);
        };
        let key = |variable: &str| format!("{name}.{variable}");
        let unexpected = tensors.keys().filter(|v| !shapes.names.contains(v));
        let unexpected: Vec<String> = unexpected.map(|v| key(v)).collect();
        let missing = |variables: &[&str]| {
            let missing = variables.iter().filter(|v| !tensors.contains_key(**v));
            DoraError::Tensors {
                missing: missing.map(|v| key(v)).collect(),
                unexpected: unexpected.clone(),
            }
        };
        let [a_name, b_name, magnitude_name] = shapes.names;
        let has_magnitude = tensors.contains_key(magnitude_name);
        let method = match (tensors.get(a_name), tensors.get(b_name)) {
            (Some(_), Some(_)) => match (config.use_dora, has_magnitude) {
                (true, true) => Method::Dora,
                (false, false) => Method::Lora,
                (true, false) => return Err(missing(&[magnitude_name])),
                (false, true) => {
                    return Err(DoraError::MagnitudeWithoutDora {
                        layer: name.to_owned(),
                    });
                }
            },
            (None, None) if has_magnitude && config.is_magnitude_only(name) => {
                Method::MagnitudeOnly
            }
            _ => return Err(missing(&[a_name, b_name])),
        };
        if !unexpected.is_empty() {
            return Err(missing(&[]));
        }
        let is_open = config.target_modules.as_ref().is_none_or(Targets::is_all);
        let is_meant = method == Method::MagnitudeOnly || is_open || config.targets(name)?;
        if excluded || !is_meant {
            return Err(DoraError::NotTargeted {
                layer: name.to_owned(),
            });
        }
        let mut layer = config.of_method(name, method)?;
        if let Some(a) = tensors.get(a_name) {
            let rank = a.dims().first().copied().unwrap_or(0);
            if rank != layer.rank {
                return Err(DoraError::Rank {
                    layer: name.to_owned(),
                    tensors: rank,
                    settings: layer.rank,
                });
            }
            layer.rank = rank;
        }
        for (variable, shape) in shapes.named(layer.rank) {
            if let Some(tensor) = tensors.get(variable) {
                check_shape(&key(variable), tensor.dims(), &shape)?;
            }
        }
        let tensors = self.modules.remove(name).unwrap_or_default();
        Ok(Some((layer, tensors)))
    }

    /// Replaces the values of a module that is trained whole by those of the file.
    pub(crate) fn claim_whole(
        &mut self,
        name: &str,
        values: &mut BTreeMap<String, Tensor>,
    ) -> Result<()> {
        let key = |tensor: &str| named(name, tensor);
        let missing = values.keys().map(|tensor| key(tensor));
        let missing: Vec<_> = missing.filter(|k| !self.others.contains_key(k)).collect();
        if !missing.is_empty() {
            return Err(DoraError::Tensors {
                missing,
                unexpected: Vec::new(),
            });
        }
        for (tensor, value) in &*values {
            let key = key(tensor);
            check_shape(&key, self.others[&key].1.dims(), value.dims())?;
        }
        for (tensor, value) in values {
            if let Some((_, stored)) = self.others.remove(&key(tensor)) {
                *value = stored;
            }
        }
        Ok(())
    }

    /// A bias that is trained beside the adapters, by its key without prefix.
    pub(crate) fn claim_bias(&mut self, key: &str, dims: &[usize]) -> Result<Tensor> {
        let Some((_, stored)) = self.others.get(key) else {
            return Err(DoraError::Tensors {
                missing: vec![key.to_owned()],
                unexpected: Vec::new(),
            });
        };
        check_shape(key, stored.dims(), dims)?;
        let stored = stored.clone();
        self.others.remove(key);
        Ok(stored)
    }

    /// Names of tensors no layer took.
    pub(crate) fn unexpected(&self) -> Vec<String> {
        let of_module = |(module, variables): (&String, &BTreeMap<&str, Tensor>)| {
            let names = variables.keys().map(|v| format!("{module}.{v}"));
            names.collect::<Vec<_>>()
        };
        let of_modules = self.modules.iter().flat_map(of_module);
        let others = self.others.values().map(|(key, _)| key.clone());
        of_modules.chain(others).collect()
    }

    /// Modules that were offered, are meant, and have no tensors.
    pub(crate) fn missing(&self) -> &[String] {
        &self.missing
    }
}

/// The module and the variable that a key of a file names. The adapter's name is dropped behind a variable
/// only, so a module may bear it.
pub(super) fn module_and_variable(key: &str) -> Option<(&str, &'static str)> {
    let key = key.strip_prefix(PREFIX).unwrap_or(key);
    let before = |suffix: &str| key.strip_suffix(suffix);
    for variable in [A_NAME, B_NAME] {
        let stem = variable.strip_suffix(".weight").unwrap_or(variable);
        let module = before(".weight").and_then(|key| {
            let key = key.strip_suffix(ADAPTER).unwrap_or(key);
            key.strip_suffix(stem)?.strip_suffix('.')
        });
        if let Some(module) = module {
            return Some((module, variable));
        }
    }
    let [embedding_a, embedding_b, magnitude] = embedding::NAMES;
    debug_assert_eq!(magnitude, MAGNITUDE_NAME);
    for (variable, key) in [
        (embedding_a, key),
        (embedding_b, key),
        (magnitude, before(".weight").unwrap_or(key)),
    ] {
        let key = key.strip_suffix(ADAPTER).unwrap_or(key);
        let module = key.strip_suffix(variable).and_then(|m| m.strip_suffix('.'));
        if let Some(module) = module {
            return Some((module, variable));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_adapters_name_is_dropped_behind_a_variable_only() {
        for (key, want) in [
            (
                "base_model.model.a.fc.lora_A.weight",
                Some(("a.fc", A_NAME)),
            ),
            (
                "base_model.model.a.fc.lora_B.default.weight",
                Some(("a.fc", B_NAME)),
            ),
            ("a.fc.lora_A.weight", Some(("a.fc", A_NAME))),
            (
                "base_model.model.my.default_layer.lora_A.weight",
                Some(("my.default_layer", A_NAME)),
            ),
            (
                "base_model.model.my.default.lora_A.default.weight",
                Some(("my.default", A_NAME)),
            ),
            (
                "base_model.model.default.lora_magnitude_vector",
                Some(("default", MAGNITUDE_NAME)),
            ),
            (
                "x.default.fc.lora_magnitude_vector.default.weight",
                Some(("x.default.fc", MAGNITUDE_NAME)),
            ),
            (
                "x.lora_magnitude_vector.weight",
                Some(("x", MAGNITUDE_NAME)),
            ),
            (
                "x.lora_magnitude_vector.default",
                Some(("x", MAGNITUDE_NAME)),
            ),
            ("e.lora_embedding_A", Some(("e", "lora_embedding_A"))),
            (
                "e.lora_embedding_B.default",
                Some(("e", "lora_embedding_B")),
            ),
            ("x.lora_A.other.weight", None),
            ("x.lora_B.bias", None),
            ("x.my_lora_A.weight", None),
            ("lora_A.weight", None),
            ("x.weight", None),
        ] {
            assert_eq!(module_and_variable(key), want, "{key}");
        }
    }
}
