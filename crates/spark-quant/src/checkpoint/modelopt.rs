//! NVIDIA ModelOpt's layout.
//!
//! ```text
//! NVFP4   X.weight U8 [N, K/2]      X.weight_scale F8_E4M3 [N, K/16]   X.weight_scale_2 F32 []
//! MXFP4   X.weight U8 [N, K/2]      X.weight_scale U8 (E8M0) [N, K/32]
//! MXFP8   X.weight F8_E4M3 [N, K]   X.weight_scale U8 (E8M0) [N, K/32]
//! FP8     X.weight F8_E4M3 [N, K]   X.weight_scale F32 []
//!         per row                   X.weight_scale F32 [N]
//!         per 128 by 128            X.weight_scale F32 [N/128, 1, K/128, 1], rounded up
//! INT8    X.weight I8 [N, K]        X.weight_scale F32 [N]             (read only)
//! any     X.input_scale F32 [], if inputs were calibrated
//! ```
//!
//! `weight_scale_2` is a multiplier, `amax / 2688` (`amax / 1536` after four-over-six). Source: ModelOpt 0.47, `torch/export/quant_utils.py`
//! and `torch/quantization/qtensor`. Deliberately absent: smoothed inputs (`pre_quant_scale`), low-rank
//! parts, stacked experts.

use std::collections::BTreeMap;

use safetensors::Dtype;

use super::container::{File, Metadata, Outgoing};
use super::parts::{
    Convention, Names, Reader, matrix_of, refuse_rotation, scale_values, unsupported,
};
use super::scheme::{Expected, Grid, InputRule, Scheme};
use super::{Entry, Inputs, Weight};
use crate::error::{QuantError, wrong_tensor};
use crate::packed::{PackedFormat, Scales};
use crate::scalar::MiniFormat;

fn names(base: &str) -> Names {
    let part = |part: &str| format!("{base}.{part}");
    Names {
        weight: part("weight"),
        codes: part("weight"),
        scale: part("weight_scale"),
        tensor_scale: Some((part("weight_scale_2"), Convention::Multiplier)),
        inputs: vec![(part("input_scale"), Convention::Multiplier)],
    }
}

/// What a weight is by the types of its tensors, for files without a configuration.
fn suggested(file: &File<'_>, codes: &str, scale: &str) -> Result<Expected, QuantError> {
    let (code_type, scale_type) = (file.tensors[codes].0.dtype, file.tensors[scale].0.dtype);
    let is_e8m0 = matches!(scale_type, Dtype::U8 | Dtype::F8_E8M0);
    let format = match (code_type, scale_type) {
        (Dtype::U8, Dtype::F8_E4M3) => PackedFormat::Nvfp4,
        (Dtype::U8, _) if is_e8m0 => PackedFormat::Mx(MiniFormat::E2m1),
        (Dtype::F8_E4M3, _) if is_e8m0 => PackedFormat::Mx(MiniFormat::E4m3),
        (Dtype::F8_E4M3, _) => PackedFormat::Fp8(MiniFormat::E4m3),
        (Dtype::U8, got) => {
            let want = "F8_E4M3 or U8 for packed weights";
            return Err(wrong_tensor(scale, "type", got, want));
        }
        (got, _) => {
            return Err(wrong_tensor(
                codes,
                "type",
                got,
                "U8 or F8_E4M3 beside scales",
            ));
        }
    };
    Ok(Expected {
        format,
        grid: Grid::ByShape,
        inputs: InputRule::Otherwise(Inputs::Unquantized),
    })
}

pub(super) fn read(
    file: &File<'_>,
    scheme: Option<&Scheme>,
) -> Result<BTreeMap<String, Entry>, QuantError> {
    let mut reader = Reader::new(file);
    for name in file.tensors.keys() {
        let Some(base) = name.strip_suffix(".weight") else {
            continue;
        };
        let scale_name = format!("{name}_scale");
        if !file.tensors.contains_key(&scale_name) {
            continue;
        }
        let suggested = || suggested(file, name, &scale_name);
        reader.weight_of(scheme, |_| names(base), suggested)?;
    }
    reader.finish(scheme)
}

pub(super) fn write<'a>(
    name: &str,
    weight: &'a Weight,
    out: &mut Vec<Outgoing<'a>>,
    metadata: &mut Metadata,
) -> Result<(), QuantError> {
    refuse_rotation(weight)?;
    let Some(base) = name.strip_suffix(".weight") else {
        return Err(wrong_tensor(
            name,
            "name",
            name,
            "a name that ends in `.weight`",
        ));
    };
    let [rows, depth] = matrix_of(name, weight, metadata)?;
    let (dtype, columns) = match weight.packed.format() {
        PackedFormat::Nvfp4 | PackedFormat::Mx(MiniFormat::E2m1) => (Dtype::U8, depth / 2),
        PackedFormat::Mx(MiniFormat::E4m3) | PackedFormat::Fp8(MiniFormat::E4m3) => {
            (Dtype::F8_E4M3, depth)
        }
        _ => return Err(unsupported("writing in the ModelOpt layout", weight)),
    };
    let names = names(base);
    let codes = weight.packed.codes();
    out.push(Outgoing::new(
        names.codes,
        dtype,
        vec![rows, columns],
        codes,
    ));
    match weight.packed.scales() {
        Scales::Nvfp4 { block, tensor } => {
            let shape = vec![rows, depth / 16];
            let block = block.as_slice();
            out.push(Outgoing::new(names.scale, Dtype::F8_E4M3, shape, block));
            out.push(Outgoing::f32(format!("{name}_scale_2"), vec![], &[*tensor]));
        }
        Scales::Mx(scales) => {
            let shape = vec![rows, depth / 32];
            let scales = scales.as_slice();
            out.push(Outgoing::new(names.scale, Dtype::U8, shape, scales));
        }
        scales @ Scales::F32 { .. } => {
            let values = scale_values(scales).unwrap_or_default();
            let shape = match Grid::of(weight) {
                Grid::Tensor => vec![],
                Grid::Row => vec![rows],
                _ if Grid::is_cut_from(weight, [128, 128]) => {
                    vec![rows.div_ceil(128), 1, depth.div_ceil(128), 1]
                }
                _ => {
                    let operation = "writing scales of these rectangles in the ModelOpt layout";
                    return Err(unsupported(operation, weight));
                }
            };
            out.push(Outgoing::f32(names.scale, shape, values));
        }
    }
    match (weight.inputs, names.inputs.into_iter().next()) {
        (Inputs::Calibrated(scale), Some((name, _))) => {
            out.push(Outgoing::f32(name, vec![], &[scale]));
        }
        (Inputs::Dynamic, _) => {
            metadata.dynamic_inputs.insert(name.to_owned());
        }
        _ => {}
    }
    Ok(())
}
