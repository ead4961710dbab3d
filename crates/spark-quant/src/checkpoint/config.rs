//! The JSON that goes with a checkpoint: `quantization_config` and ModelOpt's `hf_quant_config.json`.
//!
//! ```text
//! config.json            { ..., "quantization_config": { "quant_method": ..., "config_groups": ... } }
//! hf_quant_config.json   { "producer": ..., "quantization": { "quant_algo": ..., "exclude_modules": ... } }
//! ```
//!
//! Module names are tensor names without `.weight`. Plain tensors that end in `.weight` are what the
//! configuration calls ignored modules.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use super::container::{read_file, write_file};
use super::{Checkpoint, Entry, Layout, Weight};
use crate::error::QuantError;
use crate::packed::{PackedFormat, Scales};
use crate::scalar::MiniFormat;

/// ModelOpt's name of what was done to a weight.
fn modelopt_algorithm(weight: &Weight) -> &'static str {
    match (weight.packed.format(), weight.input_scale.is_some()) {
        (PackedFormat::Nvfp4, true) => "NVFP4",
        (PackedFormat::Nvfp4, false) => "W4A16_NVFP4",
        (PackedFormat::Mx(MiniFormat::E2m1), _) => "W4A16_MXFP4",
        (PackedFormat::Mx(_), _) => "MXFP8",
        (PackedFormat::Fp8(_), _) => "FP8",
        (PackedFormat::Int8, _) => "INT8",
    }
}

/// compressed-tensors' format name and weight arguments.
fn compressed_format(weight: &Weight) -> (&'static str, Value) {
    let arguments = |num_bits: u32, kind: &str, strategy: &str, group_size: Option<usize>| {
        json!({
            "num_bits": num_bits, "type": kind, "strategy": strategy, "group_size": group_size,
            "symmetric": true, "dynamic": false,
        })
    };
    let strategy = match weight.packed.scales() {
        Scales::F32 { block, .. } if block[1] < weight.packed.depth() => "block",
        Scales::F32 { block, .. } if block[0] == 1 && weight.packed.n_rows() > 1 => "channel",
        _ => "tensor",
    };
    match weight.packed.format() {
        PackedFormat::Nvfp4 => (
            "nvfp4-pack-quantized",
            arguments(4, "float", "tensor_group", Some(16)),
        ),
        PackedFormat::Mx(MiniFormat::E2m1) => (
            "mxfp4-pack-quantized",
            arguments(4, "float", "group", Some(32)),
        ),
        PackedFormat::Mx(_) => ("mxfp8-quantized", arguments(8, "float", "group", Some(32))),
        PackedFormat::Fp8(_) => ("float-quantized", arguments(8, "float", strategy, None)),
        PackedFormat::Int8 => ("int-quantized", arguments(8, "int", strategy, None)),
    }
}

fn module(name: &str) -> &str {
    name.strip_suffix(".weight").unwrap_or(name)
}

impl Checkpoint {
    fn quantized(&self) -> impl Iterator<Item = (&str, &Weight)> {
        self.entries.iter().filter_map(|(name, entry)| match entry {
            Entry::Quantized(weight) => Some((module(name), weight)),
            Entry::Plain(_) => None,
        })
    }

    /// Modules with a weight that is not quantized.
    fn ignored(&self) -> Vec<&str> {
        let plain = self
            .entries
            .iter()
            .filter(|(name, entry)| name.ends_with(".weight") && matches!(entry, Entry::Plain(_)));
        plain.map(|(name, _)| module(name)).collect()
    }

    /// The object for `config.json`'s `quantization_config`; nothing for the native layout.
    pub fn quantization_config(&self, layout: Layout) -> Option<Value> {
        match layout {
            Layout::ModelOpt => Some(self.modelopt_config()),
            Layout::CompressedTensors => Some(self.compressed_config()),
            Layout::Native => None,
        }
    }

    fn modelopt_config(&self) -> Value {
        let quantization = self.hf_quant_config();
        let groups = self.groups(|weight| modelopt_algorithm(weight).to_owned());
        let group = |weight: &Weight, modules: &[&str], only: bool| {
            let bits = weight.packed.format().code_bits();
            let size = if weight.packed.format().block() > 1 {
                json!(weight.packed.format().block())
            } else {
                Value::Null
            };
            let side =
                json!({ "dynamic": false, "num_bits": bits, "type": "float", "group_size": size });
            let targets = if only {
                json!(["Linear"])
            } else {
                json!(modules)
            };
            let inputs = if weight.input_scale.is_some() {
                side.clone()
            } else {
                Value::Null
            };
            json!({ "weights": side, "input_activations": inputs, "targets": targets })
        };
        let only = groups.len() == 1;
        let config_groups: serde_json::Map<String, Value> = groups
            .values()
            .enumerate()
            .map(|(i, (weight, modules))| (format!("group_{i}"), group(weight, modules, only)))
            .collect();
        json!({
            "config_groups": config_groups,
            "ignore": self.ignored(),
            "quant_algo": quantization["quantization"]["quant_algo"],
            "producer": quantization["producer"],
            "quant_method": "modelopt",
        })
    }

    /// Weights by what was done to them: one example and the modules of each group.
    fn groups(&self, key: impl Fn(&Weight) -> String) -> BTreeMap<String, (&Weight, Vec<&str>)> {
        let mut groups: BTreeMap<String, (&Weight, Vec<&str>)> = BTreeMap::new();
        for (module, weight) in self.quantized() {
            groups
                .entry(key(weight))
                .or_insert_with(|| (weight, Vec::new()))
                .1
                .push(module);
        }
        groups
    }

    /// ModelOpt's `hf_quant_config.json`.
    pub fn hf_quant_config(&self) -> Value {
        let groups = self.groups(|weight| modelopt_algorithm(weight).to_owned());
        let algorithm = match groups.len() {
            0 => Value::Null,
            1 => json!(groups.keys().next()),
            _ => json!("MIXED_PRECISION"),
        };
        let layers: serde_json::Map<String, Value> = self
            .quantized()
            .map(|(module, weight)| {
                let size = weight.packed.format().block();
                let size = if size > 1 { json!(size) } else { Value::Null };
                (
                    module.to_owned(),
                    json!({ "quant_algo": modelopt_algorithm(weight), "group_size": size }),
                )
            })
            .collect();
        let mut quantization = json!({
            "quant_algo": algorithm, "kv_cache_quant_algo": null, "exclude_modules": self.ignored(),
        });
        if groups.len() > 1 {
            quantization["quantized_layers"] = Value::Object(layers);
        } else if let Some((weight, _)) = groups.values().next()
            && weight.packed.format().block() > 1
        {
            quantization["group_size"] = json!(weight.packed.format().block());
        }
        let producer =
            json!({ "name": env!("CARGO_PKG_NAME"), "version": env!("CARGO_PKG_VERSION") });
        json!({ "producer": producer, "quantization": quantization })
    }

    fn compressed_config(&self) -> Value {
        let key = |weight: &Weight| {
            let (format, arguments) = compressed_format(weight);
            format!("{format} {}", arguments["strategy"])
        };
        let groups = self.groups(key);
        let formats: std::collections::BTreeSet<&str> = groups
            .values()
            .map(|(weight, _)| compressed_format(weight).0)
            .collect();
        let only = groups.len() == 1;
        let config_groups: serde_json::Map<String, Value> = groups
            .values()
            .enumerate()
            .map(|(i, (weight, modules))| {
                let (format, arguments) = compressed_format(weight);
                let targets = if only {
                    json!(["Linear"])
                } else {
                    json!(modules)
                };
                let group = json!({
                    "format": format, "targets": targets, "weights": arguments,
                    "input_activations": null, "output_activations": null,
                });
                (format!("group_{i}"), group)
            })
            .collect();
        json!({
            "quant_method": "compressed-tensors",
            "quantization_status": "compressed",
            "format": if formats.len() == 1 { json!(formats.first()) } else { json!("mixed-precision") },
            "config_groups": config_groups,
            "ignore": self.ignored(),
        })
    }

    /// Whether a `quantization_config` agrees with the tensors.
    ///
    /// # Errors
    ///
    /// [`QuantError::TensorLayout`] naming the field that says something else than the tensors do.
    pub fn check_config(&self, layout: Layout, config: &Value) -> Result<(), QuantError> {
        let Some(own) = self.quantization_config(layout) else {
            return Ok(());
        };
        let (field, got, want) = match layout {
            Layout::ModelOpt => ("quant_algo", &config["quant_algo"], &own["quant_algo"]),
            _ => ("format", &config["format"], &own["format"]),
        };
        let method = (&config["quant_method"], &own["quant_method"]);
        for (field, got, want) in [("quant_method", method.0, method.1), (field, got, want)] {
            // Calibrated inputs that are dropped leave NVFP4 weights as they are.
            let same_weights = |value: &Value| {
                value
                    .as_str()
                    .map(|text| text.trim_start_matches("W4A16_").to_owned())
            };
            if same_weights(got) != same_weights(want) {
                let (got, want) = (got.to_string(), want.to_string());
                return Err(QuantError::TensorLayout {
                    name: field.to_owned(),
                    what: "configuration",
                    got,
                    want,
                });
            }
        }
        Ok(())
    }

    /// Writes `model.safetensors` and the configuration files into an existing folder. `base` is the
    /// model's own `config.json`; its other fields are kept.
    ///
    /// # Errors
    ///
    /// As [`Checkpoint::write`].
    pub fn write_folder(
        &self,
        folder: &Path,
        layout: Layout,
        base: Option<&Value>,
    ) -> Result<(), QuantError> {
        self.write(&folder.join("model.safetensors"), layout)?;
        let write_json = |name: &str, value: &Value| {
            let text = format!("{value:#}\n");
            write_file(&folder.join(name), |file| file.write_all(text.as_bytes()))
        };
        if let Some(quantization) = self.quantization_config(layout) {
            let mut config = base
                .cloned()
                .filter(Value::is_object)
                .unwrap_or_else(|| json!({}));
            config["quantization_config"] = quantization;
            write_json("config.json", &config)?;
        }
        if layout == Layout::ModelOpt {
            write_json("hf_quant_config.json", &self.hf_quant_config())?;
        }
        Ok(())
    }

    /// Reads what [`Checkpoint::write_folder`] or another program wrote; where there is a
    /// `config.json` with a `quantization_config`, it must agree with the tensors.
    ///
    /// # Errors
    ///
    /// As [`Checkpoint::read`] and [`Checkpoint::check_config`]; [`QuantError::Json`] for a damaged
    /// configuration.
    pub fn read_folder(folder: &Path) -> Result<(Self, Layout), QuantError> {
        let (checkpoint, layout) = Self::read(&folder.join("model.safetensors"))?;
        let path = folder.join("config.json");
        if path.exists() {
            let text = read_file(&path)?;
            let config: Value =
                serde_json::from_slice(&text).map_err(|source| QuantError::Json {
                    what: "config.json",
                    source,
                })?;
            if let Some(quantization) = config.get("quantization_config") {
                checkpoint.check_config(layout, quantization)?;
            }
        }
        Ok((checkpoint, layout))
    }
}
