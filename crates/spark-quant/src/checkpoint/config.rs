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

use super::container::write_file;
use super::folder::{INDEX, read_json, remove_quantization};
use super::scheme::Grid;
use super::{Checkpoint, Entry, Inputs, Layout, Weight};
use crate::error::QuantError;
use crate::packed::{PackedFormat, Scales};
use crate::scalar::MiniFormat;

/// ModelOpt's name of what was done to a weight; those it has no capital letters for are as it writes
/// them.
fn modelopt_algorithm(weight: &Weight) -> &'static str {
    match (weight.packed.format(), weight.inputs) {
        (PackedFormat::Nvfp4, Inputs::Unquantized) => "W4A16_NVFP4",
        (PackedFormat::Nvfp4, _) => "NVFP4",
        (PackedFormat::Mx(MiniFormat::E2m1), Inputs::Calibrated(_)) => "W4A8_MXFP4_FP8",
        (PackedFormat::Mx(MiniFormat::E2m1), _) => "mxfp4",
        (PackedFormat::Mx(_), _) => "MXFP8",
        (PackedFormat::Fp8(_), _) => match Grid::of(weight) {
            Grid::Tensor => "FP8",
            Grid::Row => "FP8_PER_CHANNEL_PER_TOKEN",
            _ => "fp8_pb_wo",
        },
        (PackedFormat::Int8, _) => "W8A16",
    }
}

/// compressed-tensors' format name, weight arguments and input arguments.
fn compressed_scheme(weight: &Weight) -> (&'static str, Value, Value) {
    let arguments = |num_bits: u32, kind: &str, strategy: &str, group_size: Option<usize>| {
        json!({
            "num_bits": num_bits, "type": kind, "strategy": strategy, "group_size": group_size,
            "symmetric": true, "dynamic": false,
        })
    };
    let typed = |mut arguments: Value, scale_type: &str| {
        arguments["scale_dtype"] = json!(scale_type);
        arguments
    };
    let e8m0 = |bits| typed(arguments(bits, "float", "group", Some(32)), "torch.uint8");
    let nvfp4 = typed(
        arguments(4, "float", "tensor_group", Some(16)),
        "torch.float8_e4m3fn",
    );
    let plain = |kind: &str| match Grid::of(weight) {
        Grid::Row => arguments(8, kind, "channel", None),
        Grid::Group(size) => arguments(8, kind, "group", Some(size)),
        Grid::Block(block) => {
            let mut arguments = arguments(8, kind, "block", None);
            arguments["block_structure"] = json!(block);
            arguments
        }
        Grid::Tensor | Grid::OfFormat | Grid::ByShape => arguments(8, kind, "tensor", None),
    };
    // Inputs whose scales are found while running: per token, or in runs as long as the weight's.
    let plain_inputs = |kind: &str| match Grid::of(weight) {
        Grid::Group(size) | Grid::Block([_, size]) => arguments(8, kind, "group", Some(size)),
        _ => arguments(8, kind, "token", None),
    };
    let (format, weights, mut inputs) = match weight.packed.format() {
        PackedFormat::Nvfp4 => ("nvfp4-pack-quantized", nvfp4.clone(), nvfp4),
        PackedFormat::Mx(MiniFormat::E2m1) => ("mxfp4-pack-quantized", e8m0(4), e8m0(4)),
        PackedFormat::Mx(MiniFormat::E2m3) => ("mxfp6-pack-quantized", e8m0(6), e8m0(8)),
        PackedFormat::Mx(_) => ("mxfp8-quantized", e8m0(8), e8m0(8)),
        PackedFormat::Fp8(_) => ("float-quantized", plain("float"), plain_inputs("float")),
        PackedFormat::Int8 => ("int-quantized", plain("int"), plain_inputs("int")),
    };
    let inputs = match (weight.inputs, weight.packed.format()) {
        (Inputs::Unquantized, _) => Value::Null,
        (Inputs::Dynamic, _) => {
            inputs["dynamic"] = json!(true);
            inputs
        }
        (Inputs::Calibrated(_), PackedFormat::Nvfp4) => {
            inputs["dynamic"] = json!("local");
            inputs
        }
        (Inputs::Calibrated(_), PackedFormat::Int8) => arguments(8, "int", "tensor", None),
        (Inputs::Calibrated(_), _) => arguments(8, "float", "tensor", None),
    };
    (format, weights, inputs)
}

fn module(name: &str) -> &str {
    name.strip_suffix(".weight").unwrap_or(name)
}

impl Checkpoint {
    pub(super) fn quantized(&self) -> impl Iterator<Item = (&str, &Weight)> {
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

    /// The object for `config.json`'s `quantization_config`; nothing for the native layout, and for the fp8
    /// one without a quantized weight, where it would say that there are some.
    pub fn quantization_config(&self, layout: Layout) -> Option<Value> {
        match layout {
            Layout::ModelOpt => Some(self.modelopt_config()),
            Layout::CompressedTensors => Some(self.compressed_config()),
            Layout::Fp8 => self.quantized().next().map(|_| self.fp8_config()),
            Layout::Native => None,
        }
    }

    fn fp8_config(&self) -> Value {
        let is_static = self
            .quantized()
            .any(|(_, weight)| matches!(weight.inputs, Inputs::Calibrated(_)));
        let mut config = json!({
            "quant_method": "fp8",
            "fmt": "e4m3",
            "activation_scheme": if is_static { "static" } else { "dynamic" },
            "modules_to_not_convert": self.ignored(),
        });
        if let Ok(Some(block)) = self.fp8_block() {
            config["weight_block_size"] = json!(block);
        }
        config
    }

    /// Refuses weights of which some have calibrated inputs, which `quant_method: fp8` says once for all.
    pub(super) fn check_fp8_inputs(&self) -> Result<(), QuantError> {
        let is_calibrated = |weight: &Weight| matches!(weight.inputs, Inputs::Calibrated(_));
        let mut weights = self.quantized();
        let Some((first, first_weight)) = weights.next() else {
            return Ok(());
        };
        let wanted = is_calibrated(first_weight);
        match weights.find(|(_, weight)| is_calibrated(weight) != wanted) {
            None => Ok(()),
            Some((other, _)) => {
                let (with, without) = if wanted {
                    (first, other)
                } else {
                    (other, first)
                };
                Err(QuantError::Unsupported {
                    operation: "calibrated inputs of some weights in the fp8 layout",
                    format: format!("`{with}` beside `{without}` without them"),
                })
            }
        }
    }

    /// Rows and depth of the blocks of all weights, which `quant_method: fp8` says once for all;
    /// nothing if every weight has one scale.
    pub(super) fn fp8_block(&self) -> Result<Option<[usize; 2]>, QuantError> {
        let mut block: Option<[usize; 2]> = None;
        for (_, weight) in self.quantized() {
            if let (Scales::F32 { block: own, .. }, false) =
                (weight.packed.scales(), Grid::of(weight) == Grid::Tensor)
            {
                let [rows, depth] = block.unwrap_or_default();
                block = Some([rows.max(own[0]), depth.max(own[1])]);
            }
        }
        let Some(block) = block else {
            return Ok(None);
        };
        for (module, weight) in self.quantized() {
            if !Grid::is_cut_from(weight, block) {
                return Err(QuantError::Unsupported {
                    operation: "several sizes of blocks in the fp8 layout",
                    format: format!("`{module}` beside blocks of {block:?}"),
                });
            }
        }
        Ok(Some(block))
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
            let mut side =
                json!({ "dynamic": false, "num_bits": bits, "type": "float", "group_size": size });
            if Grid::of(weight) == Grid::Row {
                side["strategy"] = json!("channel");
            }
            let targets = if only {
                json!(["Linear"])
            } else {
                json!(modules)
            };
            let mut inputs = side.clone();
            match weight.inputs {
                Inputs::Unquantized => inputs = Value::Null,
                Inputs::Calibrated(_) => {}
                Inputs::Dynamic => inputs["dynamic"] = json!(true),
            }
            json!({ "weights": side, "input_activations": inputs, "targets": targets })
        };
        let only = groups.len() == 1;
        let config_groups: serde_json::Map<String, Value> = groups
            .values()
            .enumerate()
            .map(|(i, (weight, modules))| (format!("group_{i}"), group(weight, modules, only)))
            .collect();
        let mut config = json!({
            "config_groups": config_groups,
            "ignore": self.ignored(),
            "quant_algo": quantization["quantization"]["quant_algo"],
            "producer": quantization["producer"],
            "quant_method": "modelopt",
        });
        if let Some(layers) = quantization["quantization"].get("quantized_layers") {
            config["quantized_layers"] = layers.clone();
        }
        config
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

    /// Contents of the `hf_quant_config.json` that ModelOpt writes beside a checkpoint.
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
            let (format, arguments, inputs) = compressed_scheme(weight);
            format!("{format} {arguments} {inputs}")
        };
        let groups = self.groups(key);
        let formats: std::collections::BTreeSet<&str> = groups
            .values()
            .map(|(weight, _)| compressed_scheme(weight).0)
            .collect();
        let only = groups.len() == 1;
        let config_groups: serde_json::Map<String, Value> = groups
            .values()
            .enumerate()
            .map(|(i, (weight, modules))| {
                let (format, arguments, inputs) = compressed_scheme(weight);
                let targets = if only {
                    json!(["Linear"])
                } else {
                    json!(modules)
                };
                let group = json!({
                    "format": format, "targets": targets, "weights": arguments,
                    "input_activations": inputs, "output_activations": null,
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
    /// [`QuantError::Setting`] naming the setting that is not known, is for another layout, or says
    /// something else than the tensors do.
    pub fn check_config(&self, layout: Layout, config: &Value) -> Result<(), QuantError> {
        if layout == Layout::Native {
            return Ok(());
        }
        // What would be written is what is checked: a reader finds the same contradictions.
        let bytes = self.to_bytes(layout)?;
        Self::from_bytes_as(&bytes, config).map(|_| ())
    }

    /// Writes `model.safetensors` and the configuration files into an existing folder. `base` is the
    /// model's own `config.json`; without it, the one that lies there is taken. What it says of
    /// quantization is replaced, its other fields are kept.
    ///
    /// # Errors
    ///
    /// As [`Checkpoint::write`]; [`QuantError::Folder`] if the folder holds the index of a checkpoint in
    /// several files, which readers would take instead of the new one; [`QuantError::Json`] if a
    /// damaged `config.json` lies there and no `base` replaces it.
    pub fn write_folder(
        &self,
        folder: &Path,
        layout: Layout,
        base: Option<&Value>,
    ) -> Result<(), QuantError> {
        let index = folder.join(INDEX);
        if index.exists() {
            return Err(QuantError::Folder {
                folder: folder.display().to_string(),
                found: format!("`{INDEX}` of a checkpoint in several files"),
                want: "a folder without one",
            });
        }
        let quantization = self.quantization_config(layout);
        let file = match &quantization {
            Some(config) => self.outgoing_with(layout, config)?,
            None => self.outgoing(layout)?,
        };
        let mut config = match base {
            Some(base) if base.is_object() => Some(base.clone()),
            _ => read_json(&folder.join("config.json"))?.filter(Value::is_object),
        };
        // What an older configuration says of the tensors that are replaced is no longer true.
        if let Some(config) = &mut config {
            remove_quantization(config);
        }
        if let Some(quantization) = quantization {
            config.get_or_insert_with(|| json!({}))["quantization_config"] = quantization;
        }
        write_file(&folder.join("model.safetensors"), |out| file.write_to(out))?;
        let write_json = |name: &str, value: &Value| {
            let text = format!("{value:#}\n");
            write_file(&folder.join(name), |file| file.write_all(text.as_bytes()))
        };
        if let Some(config) = &config {
            write_json("config.json", config)?;
        }
        let path = folder.join("hf_quant_config.json");
        if layout == Layout::ModelOpt {
            write_json("hf_quant_config.json", &self.hf_quant_config())?;
        } else if path.exists() {
            std::fs::remove_file(&path).map_err(QuantError::io(&path))?;
        }
        Ok(())
    }
}
