//! ModelOpt: one algorithm for all modules, or one for each.
//!
//! ```text
//! quant_algo                              weight is
//! NVFP4, W4A16_NVFP4, W4A8_NVFP4_FP8      NVFP4
//! mxfp4, W4A16_MXFP4, W4A8_MXFP4_FP8      MXFP4
//! MXFP8                                   MXFP8, E4M3
//! FP8                                     FP8; scales as their shape says
//! FP8_PER_CHANNEL_PER_TOKEN, fp8_pc_pt    FP8, a scale per row
//! fp8_pb_wo, fp8_pb_real                  FP8, a scale per 128 by 128
//! W8A16, W8A8_SQ_PER_CHANNEL              INT8, a scale per row
//! MIXED_PRECISION                         as quantized_layers says
//! ```
//!
//! ModelOpt writes the names of algorithms it has no capital letters for as it calls them inside, so
//! letters are compared without their case. The package's algorithms with smoothed inputs, low-rank
//! parts and four-bit integers are refused.

use serde_json::Value;

use super::fields::{Fields, setting};
use super::pattern::Pattern;
use super::rules::{Expected, Grid, Group, InputRule, Scheme};
use crate::checkpoint::entry::{Inputs, Layout};
use crate::error::QuantError;
use crate::packed::PackedFormat;
use crate::scalar::MiniFormat;

const METHOD: &str = "modelopt";

/// What an algorithm does to a weight.
fn expected(fields: &Fields<'_>) -> Result<Expected, QuantError> {
    let algorithm = fields.text("quant_algo")?.unwrap_or_default();
    let e4m3 = PackedFormat::Fp8(MiniFormat::E4m3);
    let otherwise = InputRule::Otherwise;
    let (dynamic, unquantized) = (Inputs::Dynamic, Inputs::Unquantized);
    let (format, grid, inputs) = match algorithm.to_uppercase().as_str() {
        "NVFP4" | "W4A8_NVFP4_FP8" => (PackedFormat::Nvfp4, Grid::OfFormat, otherwise(dynamic)),
        "W4A16_NVFP4" => (PackedFormat::Nvfp4, Grid::OfFormat, InputRule::Unquantized),
        "MXFP4" | "W4A16_MXFP4" => (
            PackedFormat::Mx(MiniFormat::E2m1),
            Grid::OfFormat,
            otherwise(unquantized),
        ),
        "W4A8_MXFP4_FP8" => (
            PackedFormat::Mx(MiniFormat::E2m1),
            Grid::OfFormat,
            otherwise(dynamic),
        ),
        "MXFP8" => (
            PackedFormat::Mx(MiniFormat::E4m3),
            Grid::OfFormat,
            otherwise(dynamic),
        ),
        "FP8" => (e4m3, Grid::ByShape, otherwise(unquantized)),
        "FP8_PER_CHANNEL_PER_TOKEN" | "FP8_PC_PT" => (e4m3, Grid::Row, otherwise(dynamic)),
        "FP8_PB_WO" | "FP8_PB_REAL" => (e4m3, Grid::Block([128, 128]), otherwise(unquantized)),
        "W8A16" => (PackedFormat::Int8, Grid::Row, InputRule::Unquantized),
        "W8A8_SQ_PER_CHANNEL" => (PackedFormat::Int8, Grid::Row, otherwise(dynamic)),
        _ => {
            let want = "NVFP4, W4A16_NVFP4, W4A8_NVFP4_FP8, mxfp4, W4A16_MXFP4, W4A8_MXFP4_FP8, MXFP8, FP8, \
                        FP8_PER_CHANNEL_PER_TOKEN, fp8_pc_pt, fp8_pb_wo, fp8_pb_real, W8A16 or \
                        W8A8_SQ_PER_CHANNEL";
            return Err(fields.refuse("quant_algo", want));
        }
    };
    let block = i64::try_from(format.block()).unwrap_or(i64::MAX);
    if let Some(size) = fields.number("group_size")?
        && size != 0
        && grid == Grid::OfFormat
        && size != block
    {
        return Err(fields.refuse("group_size", format!("{block} for {format}")));
    }
    for name in ["has_zero_point", "pre_quant_scale"] {
        if fields.flag(name)? == Some(true) {
            return Err(fields.refuse(name, "false"));
        }
    }
    Ok(Expected {
        format,
        grid,
        inputs,
    })
}

/// Fields that both files have; `list` is the name of the excluded modules' list.
fn scheme(fields: &Fields<'_>, list: &'static str) -> Result<Scheme, QuantError> {
    let algorithm = fields.text("quant_algo")?;
    let mixed = algorithm.is_some_and(|name| name.eq_ignore_ascii_case("MIXED_PRECISION"));
    let layers = fields.object("quantized_layers")?;
    let groups = match (algorithm, mixed) {
        (None, _) => Vec::new(),
        (Some(_), false) => vec![Group {
            path: fields.path("quant_algo"),
            targets: vec![Pattern::all()],
            weights: Some(expected(fields)?),
        }],
        (Some(_), true) => {
            let Some(layers) = layers else {
                return Err(fields.refuse("quantized_layers", "an object beside MIXED_PRECISION"));
            };
            layers
                .iter()
                .map(|(name, layer)| {
                    let path = fields.path(&format!("quantized_layers.{name}"));
                    let layer = Fields::new(METHOD, &path, layer)?;
                    let weights = Some(expected(&layer)?);
                    let targets = vec![Pattern::modelopt(name)];
                    Ok(Group {
                        path: path.clone(),
                        targets,
                        weights,
                    })
                })
                .collect::<Result<_, QuantError>>()?
        }
    };
    let ignore = fields.texts(list)?.into_iter().map(Pattern::modelopt);
    Ok(Scheme {
        layout: Layout::ModelOpt,
        method: METHOD.to_owned(),
        groups,
        ignore_path: list,
        ignore: ignore.collect(),
    })
}

/// Reads the `quantization_config` of a config.json.
pub(super) fn parse(config: &Value) -> Result<Scheme, QuantError> {
    let fields = Fields::new(METHOD, "", config)?;
    fields.only(&[
        "quant_method",
        "quant_algo",
        "config_groups",
        "ignore",
        "producer",
        "kv_cache_scheme",
        "quantized_layers",
        "group_size",
        "has_zero_point",
        "pre_quant_scale",
        "lora_rank",
    ])?;
    let scheme = scheme(&fields, "ignore")?;
    check_groups(&fields, &scheme)?;
    Ok(scheme)
}

/// Refuses `config_groups` that say something else of the weights than `quant_algo`.
fn check_groups(fields: &Fields<'_>, scheme: &Scheme) -> Result<(), QuantError> {
    let [only] = scheme.groups.as_slice() else {
        return Ok(());
    };
    let Some(Expected { format, .. }) = only.weights else {
        return Ok(());
    };
    for (name, group) in fields.object("config_groups")?.into_iter().flatten() {
        let weights = &group["weights"];
        let (bits, kind) = (
            weights["num_bits"].as_u64(),
            weights["type"].as_str().unwrap_or_default(),
        );
        let want_kind = if format == PackedFormat::Int8 {
            "int"
        } else {
            "float"
        };
        let same = bits.is_none_or(|bits| bits == format.code_bits() as u64)
            && (kind.is_empty() || kind == want_kind);
        if !weights.is_null() && !same {
            return Err(setting(
                METHOD,
                &format!("config_groups.{name}.weights"),
                weights,
                format!("what quant_algo says, {format}"),
            ));
        }
    }
    Ok(())
}

/// Reads a whole `hf_quant_config.json`.
pub(super) fn parse_hf(config: &Value) -> Result<Scheme, QuantError> {
    let fields = Fields::new(METHOD, "", config)?;
    fields.only(&["producer", "quantization"])?;
    let empty = Value::Object(serde_json::Map::new());
    let fields = Fields::new(
        METHOD,
        "quantization",
        fields.get("quantization").unwrap_or(&empty),
    )?;
    fields.only(&[
        "quant_algo",
        "kv_cache_quant_algo",
        "group_size",
        "exclude_modules",
        "quantized_layers",
        "has_zero_point",
        "pre_quant_scale",
        "lora_rank",
    ])?;
    scheme(&fields, "exclude_modules")
}
