//! `quant_method: fp8`: FP8 weights with a scale per block, as DeepSeek-V3 has them, or per tensor.
//!
//! ```text
//! weight_block_size [128, 128]   X.weight F8_E4M3 [N, K]   X.weight_scale_inv F32 [N/128, K/128]
//! weight_block_size absent       X.weight F8_E4M3 [N, K]   X.weight_scale F32, one or one per row
//! activation_scheme static       X.input_scale F32
//! ```
//!
//! `weight_scale_inv` multiplies, whatever its name says. Source: the model card and inference code of
//! DeepSeek-V3; Transformers' fine-grained FP8.

use serde_json::Value;

use super::fields::Fields;
use super::pattern::Pattern;
use super::rules::{Expected, Grid, Group, InputRule, Scheme};
use crate::checkpoint::entry::{Inputs, Layout};
use crate::error::QuantError;
use crate::packed::PackedFormat;
use crate::scalar::MiniFormat;

const METHOD: &str = "fp8";

pub(super) fn parse(config: &Value) -> Result<Scheme, QuantError> {
    let fields = Fields::new(METHOD, "", config)?;
    fields.only(&[
        "quant_method",
        "activation_scheme",
        "weight_block_size",
        "fmt",
        "scale_fmt",
        "modules_to_not_convert",
        "ignored_layers",
        "kv_cache_scheme",
        "dequantize",
    ])?;
    if fields.text("fmt")?.is_some_and(|format| format != "e4m3") {
        return Err(fields.refuse("fmt", "`e4m3`"));
    }
    let scale_format = fields.text("scale_fmt")?;
    if scale_format.is_some_and(|format| !matches!(format, "float" | "ue8m0")) {
        return Err(fields.refuse("scale_fmt", "`float` or `ue8m0`"));
    }
    let inputs = match fields.text("activation_scheme")? {
        None | Some("dynamic") => InputRule::Otherwise(Inputs::Dynamic),
        Some("static") => InputRule::Calibrated,
        Some(_) => return Err(fields.refuse("activation_scheme", "`dynamic` or `static`")),
    };
    let grid = match fields.get("weight_block_size") {
        None => Grid::ByShape,
        Some(value) => {
            let numbers: Option<Vec<usize>> = value.as_array().and_then(|list| {
                list.iter()
                    .map(|n| n.as_u64().and_then(|n| usize::try_from(n).ok()))
                    .collect()
            });
            match numbers.as_deref() {
                Some(&[rows @ 1..=usize::MAX, depth @ 1..=usize::MAX]) => {
                    Grid::Block([rows, depth])
                }
                _ => return Err(fields.refuse("weight_block_size", "two numbers above zero")),
            }
        }
    };
    let mut ignore = fields.texts("modules_to_not_convert")?;
    ignore.extend(fields.texts("ignored_layers")?);
    Ok(Scheme {
        layout: Layout::Fp8,
        method: METHOD.to_owned(),
        groups: vec![Group {
            path: "weight_block_size".to_owned(),
            targets: vec![Pattern::all()],
            weights: Some(Expected {
                format: PackedFormat::Fp8(MiniFormat::E4m3),
                grid,
                inputs,
            }),
        }],
        ignore_path: "modules_to_not_convert",
        ignore: ignore.into_iter().map(Pattern::name).collect(),
    })
}
