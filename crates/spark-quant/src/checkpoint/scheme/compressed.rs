//! compressed-tensors: `config_groups` of weights and activations.
//!
//! ```text
//! format of the group, else of the whole   num_bits type  strategy      weight is
//! nvfp4-pack-quantized                     4 float        tensor_group  NVFP4, blocks of 16
//! mxfp4-pack-quantized                     4 float        group 32      MXFP4
//! mxfp6-pack-quantized                     6 float        group 32      MXFP6, E2M3
//! mxfp8-quantized                          8 float        group 32      MXFP8, E4M3
//! float-quantized, naive-quantized         8 float        any           FP8 with f32 scales
//! int-quantized, naive-quantized           8 int          any           INT8 with f32 scales
//! ```

use serde_json::{Map, Value, json};

use super::fields::Fields;
use super::pattern::Pattern;
use super::rules::{Expected, Grid, Group, InputRule, Scheme};
use crate::checkpoint::entry::{Inputs, Layout};
use crate::error::QuantError;
use crate::packed::PackedFormat;
use crate::scalar::MiniFormat;

const METHOD: &str = "compressed-tensors";

/// Format of a whole whose groups differ.
const MIXED: &str = "mixed-precision";

/// Fields of a whole configuration. Those that are not read say nothing of the weights' bytes.
const FIELDS: &[&str] = &[
    "quant_method",
    "config_groups",
    "format",
    "ignore",
    "quantization_status",
    "kv_cache_scheme",
    "global_compression_ratio",
    "sparsity_config",
    "transform_config",
    "moe_sparsity_config",
    "run_compressed",
    "dequantize",
    "version",
];

/// Fields of weights or activations.
const ARGUMENTS: &[&str] = &[
    "num_bits",
    "type",
    "symmetric",
    "group_size",
    "strategy",
    "block_structure",
    "dynamic",
    "actorder",
    "scale_dtype",
    "zp_dtype",
    "observer",
    "observer_kwargs",
];

pub(super) fn parse(config: &Value) -> Result<Scheme, QuantError> {
    let fields = Fields::new(METHOD, "", config)?;
    fields.only(FIELDS)?;
    if let Some(status) = fields.text("quantization_status")?
        && !matches!(status, "compressed" | "frozen")
    {
        return Err(fields.refuse("quantization_status", "`compressed` or `frozen`"));
    }
    for name in ["sparsity_config", "transform_config"] {
        let Some(object) = fields.object(name)? else {
            continue;
        };
        let dense = object.get("format").and_then(Value::as_str) == Some("dense");
        let says_nothing = object.is_empty() || (name == "sparsity_config" && dense);
        if !says_nothing {
            return Err(fields.refuse(name, "none: sparse or transformed weights are not read"));
        }
    }
    let whole_format = fields.text("format")?;
    let empty = Map::new();
    let config_groups = fields.object("config_groups")?.unwrap_or(&empty);
    let mut groups = Vec::new();
    for (name, value) in config_groups {
        let path = format!("config_groups.{name}");
        // A list of targets stands for a scheme with the name of the group.
        let written_out;
        let value = match value.as_array() {
            Some(_) => {
                written_out = preset(name, value).ok_or_else(|| QuantError::Setting {
                    method: METHOD.to_owned(),
                    field: path.clone(),
                    value: "the name of a scheme".to_owned(),
                    want: "a scheme written out, or one whose weights are read".to_owned(),
                })?;
                &written_out
            }
            None => value,
        };
        groups.push(group(&path, value, whole_format)?);
    }
    let ignore = fields.texts("ignore")?;
    let ignore = ignore
        .into_iter()
        .map(|text| Pattern::compressed(METHOD, "ignore", text))
        .collect::<Result<_, _>>()?;
    Ok(Scheme {
        layout: Layout::CompressedTensors,
        method: METHOD.to_owned(),
        groups,
        ignore_path: "ignore",
        ignore,
    })
}

fn group(path: &str, value: &Value, whole_format: Option<&str>) -> Result<Group, QuantError> {
    let fields = Fields::new(METHOD, path, value)?;
    fields.only(&[
        "targets",
        "weights",
        "input_activations",
        "output_activations",
        "format",
    ])?;
    let targets_path = fields.path("targets");
    let targets = fields
        .texts("targets")?
        .into_iter()
        .map(|text| Pattern::compressed(METHOD, &targets_path, text))
        .collect::<Result<Vec<_>, _>>()?;
    if targets.is_empty() {
        return Err(fields.refuse("targets", "a list with at least one module"));
    }
    let Some(weights) = fields.get("weights") else {
        let path = path.to_owned();
        return Ok(Group {
            path,
            targets,
            weights: None,
        });
    };
    if fields.get("output_activations").is_some() {
        return Err(fields.refuse("output_activations", "null beside quantized weights"));
    }
    let format = fields.text("format")?.or(whole_format);
    let weights_path = fields.path("weights");
    let weights = Fields::new(METHOD, &weights_path, weights)?;
    let (format, grid) = weight_format(&weights, format)?;
    if let (Some(own), Some(whole)) = (fields.text("format")?, whole_format)
        && own != whole
        && whole != MIXED
    {
        let want = format!("`{whole}`, the format of the whole, or {MIXED} there");
        return Err(fields.refuse("format", want));
    }
    let inputs = match fields.get("input_activations") {
        None => InputRule::Unquantized,
        Some(inputs) => {
            let path = fields.path("input_activations");
            input_rule(&Fields::new(METHOD, &path, inputs)?)?
        }
    };
    Ok(Group {
        path: path.to_owned(),
        targets,
        weights: Some(Expected {
            format,
            grid,
            inputs,
        }),
    })
}

fn weight_format(
    weights: &Fields<'_>,
    format: Option<&str>,
) -> Result<(PackedFormat, Grid), QuantError> {
    weights.only(ARGUMENTS)?;
    if weights.flag("symmetric")? == Some(false) {
        return Err(weights.refuse("symmetric", "true: zero points are not read"));
    }
    if weights.get("dynamic").is_some_and(|v| *v != json!(false)) {
        return Err(weights.refuse("dynamic", "false for weights"));
    }
    let order = weights.get("actorder");
    if order.is_some_and(|v| !["weight", "static"].iter().any(|o| v == o) && *v != json!(false)) {
        return Err(weights.refuse("actorder", "null, `weight` or `static`"));
    }
    let bits = weights.number("num_bits")?.unwrap_or(8);
    let kind = weights.text("type")?.unwrap_or("int").to_lowercase();
    let size = weights.number("group_size")?;
    let strategy = match (weights.text("strategy")?.map(str::to_lowercase), size) {
        (Some(strategy), _) => strategy,
        (None, None) => "tensor".to_owned(),
        (None, Some(-1)) => "channel".to_owned(),
        (None, Some(_)) => "group".to_owned(),
    };
    let grid = match strategy.as_str() {
        "tensor" => Grid::Tensor,
        "channel" => Grid::Row,
        "group" | "tensor_group" => match size.and_then(|size| usize::try_from(size).ok()) {
            Some(size @ 1..) => Grid::Group(size),
            _ => return Err(weights.refuse("group_size", "a number above zero")),
        },
        "block" => Grid::Block(block_structure(weights)?),
        _ => {
            let want = "`tensor`, `channel`, `group`, `block` or `tensor_group`";
            return Err(weights.refuse("strategy", want));
        }
    };
    if size.is_some_and(|size| size > 0) && !matches!(grid, Grid::Group(_)) {
        return Err(weights.refuse("group_size", format!("null beside strategy `{strategy}`")));
    }
    if weights.get("block_structure").is_some() && !matches!(grid, Grid::Block(_)) {
        let want = format!("null beside strategy `{strategy}`");
        return Err(weights.refuse("block_structure", want));
    }
    let blocks = |packed: PackedFormat, want_bits: i64, want_strategy: &str| {
        let want_grid = Grid::Group(packed.block());
        if (bits, kind.as_str()) != (want_bits, "float") {
            let (field, want) = if bits == want_bits {
                ("type", "`float`".to_owned())
            } else {
                ("num_bits", want_bits.to_string())
            };
            return Err(weights.refuse(field, format!("{want} in this format")));
        }
        if grid != want_grid {
            return Err(weights.refuse("group_size", format!("{} in this format", packed.block())));
        }
        if strategy != want_strategy {
            return Err(weights.refuse("strategy", format!("`{want_strategy}` in this format")));
        }
        Ok((packed, Grid::OfFormat))
    };
    let is_e8m0 = weights.text("scale_dtype")? == Some("torch.uint8");
    match (format, bits, kind.as_str()) {
        (Some("nvfp4-pack-quantized"), _, _) => blocks(PackedFormat::Nvfp4, 4, "tensor_group"),
        (Some("mxfp4-pack-quantized"), _, _) => {
            blocks(PackedFormat::Mx(MiniFormat::E2m1), 4, "group")
        }
        (Some("mxfp6-pack-quantized"), _, _) => {
            blocks(PackedFormat::Mx(MiniFormat::E2m3), 6, "group")
        }
        (Some("mxfp8-quantized"), _, _) => blocks(PackedFormat::Mx(MiniFormat::E4m3), 8, "group"),
        (Some("float-quantized" | "int-quantized" | "naive-quantized"), _, _)
            if is_e8m0 || strategy == "tensor_group" =>
        {
            let (field, want) = if is_e8m0 {
                ("scale_dtype", "a float in this format")
            } else {
                ("strategy", "another one in this format")
            };
            Err(weights.refuse(field, want))
        }
        (Some("float-quantized" | "naive-quantized"), 8, "float") => {
            Ok((PackedFormat::Fp8(MiniFormat::E4m3), grid))
        }
        (Some("int-quantized" | "naive-quantized"), 8, "int") => Ok((PackedFormat::Int8, grid)),
        (Some("float-quantized" | "int-quantized" | "naive-quantized"), 8, _) => {
            Err(weights.refuse("type", "the one of the format"))
        }
        (Some("float-quantized" | "int-quantized" | "naive-quantized"), _, _) => {
            Err(weights.refuse("num_bits", "8 in this format"))
        }
        (format, _, _) => Err(QuantError::Setting {
            method: METHOD.to_owned(),
            field: "format".to_owned(),
            value: format.map_or_else(|| "null".to_owned(), |format| format!("{format:?}")),
            want: "nvfp4-pack-quantized, mxfp4-pack-quantized, mxfp6-pack-quantized, \
                   mxfp8-quantized, float-quantized, int-quantized or naive-quantized"
                .to_owned(),
        }),
    }
}

/// `[rows, columns]`, or the older `"128x128"`.
fn block_structure(weights: &Fields<'_>) -> Result<[usize; 2], QuantError> {
    let numbers: Option<Vec<usize>> = match weights.get("block_structure") {
        Some(Value::String(text)) => text.split('x').map(|n| n.trim().parse().ok()).collect(),
        Some(Value::Array(list)) => list
            .iter()
            .map(|n| n.as_u64().and_then(|n| usize::try_from(n).ok()))
            .collect(),
        _ => None,
    };
    match numbers.as_deref() {
        Some(&[rows @ 1..=usize::MAX, depth @ 1..=usize::MAX]) => Ok([rows, depth]),
        _ => Err(weights.refuse("block_structure", "two numbers above zero")),
    }
}

fn input_rule(inputs: &Fields<'_>) -> Result<InputRule, QuantError> {
    inputs.only(ARGUMENTS)?;
    let dynamic = inputs.get("dynamic");
    let is_dynamic = dynamic == Some(&json!(true));
    if !is_dynamic && inputs.flag("symmetric")? == Some(false) {
        return Err(inputs.refuse("symmetric", "true: zero points are not read"));
    }
    match dynamic {
        None | Some(Value::Bool(false)) => Ok(InputRule::Calibrated),
        Some(Value::Bool(true)) => Ok(InputRule::Dynamic),
        // Scales of blocks are found while running, the scale of the tensor is calibrated.
        Some(Value::String(text)) if text == "local" => Ok(InputRule::Otherwise(Inputs::Dynamic)),
        _ => Err(inputs.refuse("dynamic", "true, false or `local`")),
    }
}

/// A configuration under the name of one of the package's schemes, for those with weights read here.
fn preset(name: &str, targets: &Value) -> Option<Value> {
    let weights = |bits: u8, kind: &str, strategy: &str, group: Option<u8>| json!({ "num_bits": bits, "type": kind, "strategy": strategy, "group_size": group });
    let mx = |bits| weights(bits, "float", "group", Some(32));
    let nvfp4 = weights(4, "float", "tensor_group", Some(16));
    let (format, weights, inputs) = match name.to_uppercase().as_str() {
        "FP8" => (
            "float-quantized",
            weights(8, "float", "tensor", None),
            json!({ "dynamic": false }),
        ),
        "FP8_DYNAMIC" => (
            "float-quantized",
            weights(8, "float", "channel", None),
            json!({ "dynamic": true }),
        ),
        "FP8_BLOCK" => {
            let mut block = weights(8, "float", "block", None);
            block["block_structure"] = json!([128, 128]);
            ("float-quantized", block, json!({ "dynamic": true }))
        }
        "W8A8" | "INT8" => (
            "int-quantized",
            weights(8, "int", "channel", None),
            json!({ "dynamic": true }),
        ),
        "NVFP4" => ("nvfp4-pack-quantized", nvfp4, json!({ "dynamic": "local" })),
        "NVFP4A16" => ("nvfp4-pack-quantized", nvfp4, Value::Null),
        "MXFP4" | "MXFP4XFP8" => ("mxfp4-pack-quantized", mx(4), json!({ "dynamic": true })),
        "MXFP4A16" => ("mxfp4-pack-quantized", mx(4), Value::Null),
        "MXFP6A8" => ("mxfp6-pack-quantized", mx(6), json!({ "dynamic": true })),
        "MXFP6A16" => ("mxfp6-pack-quantized", mx(6), Value::Null),
        "MXFP8" => ("mxfp8-quantized", mx(8), json!({ "dynamic": true })),
        "MXFP8A16" => ("mxfp8-quantized", mx(8), Value::Null),
        _ => return None,
    };
    Some(json!({
        "targets": targets, "weights": weights, "input_activations": inputs, "format": format,
    }))
}
