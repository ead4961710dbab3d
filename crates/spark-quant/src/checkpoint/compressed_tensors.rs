//! The compressed-tensors layout of vLLM's tools.
//!
//! ```text
//! NVFP4   X.weight_packed U8 [N, K/2]    X.weight_scale F8_E4M3 [N, K/16]   X.weight_global_scale F32 [1]
//! MXFP4   X.weight_packed U8 [N, K/2]    X.weight_scale U8 (E8M0) [N, K/32]
//! MXFP6   X.weight_packed U8 [N, 3K/4]   X.weight_scale U8 (E8M0) [N, K/32]
//! MXFP8   X.weight F8_E4M3 [N, K]        X.weight_scale U8 (E8M0) [N, K/32]
//! FP8     X.weight F8_E4M3 [N, K]        X.weight_scale F32 [1], [N, 1], [N, K/g] or per block
//! INT8    X.weight I8 [N, K]             X.weight_scale F32, the same
//! inputs  X.input_global_scale F32 [1], a divisor, for FP4 and FP6; X.input_scale F32 [1], a multiplier, for others
//! ```
//!
//! `weight_global_scale` is `2688 / amax`, a divisor. The reciprocal of a reciprocal is not always the
//! number one started from, so files written here also carry the exact tensor scale in the metadata; it
//! is only believed if its reciprocal is the stored divisor.

use std::collections::BTreeMap;

use safetensors::Dtype;

use super::container::{File, Metadata, Outgoing};
use super::parts::{
    Convention, Names, Reader, matrix_of, refuse_rotation, scale_values, unsupported,
};
use super::scheme::{Expected, Grid, InputRule, Scheme};
use super::{Entry, Inputs, Layout, Weight};
use crate::error::{QuantError, wrong_tensor};
use crate::packed::{PackedFormat, Scales};
use crate::scalar::MiniFormat;

/// Whether codes of a format lie in `weight_packed`.
fn is_packed(format: PackedFormat) -> bool {
    format.code_bits() < 8
}

fn names(base: &str, format: PackedFormat, is_own: bool) -> Names {
    let part = |part: &str| format!("{base}.{part}");
    let multiplier = (part("input_scale"), Convention::Multiplier);
    let divisor = (part("input_global_scale"), Convention::Divisor);
    let inputs = match (is_packed(format), is_own) {
        (true, _) => vec![divisor],
        (false, false) => vec![multiplier],
        // Files written by earlier versions of this crate have the divisor everywhere.
        (false, true) => vec![multiplier, divisor],
    };
    Names {
        weight: part("weight"),
        codes: part(if is_packed(format) {
            "weight_packed"
        } else {
            "weight"
        }),
        scale: part("weight_scale"),
        tensor_scale: Some((part("weight_global_scale"), Convention::Divisor)),
        inputs,
    }
}

/// What a weight is by the types of its tensors, for files without a configuration.
fn suggested(file: &File<'_>, codes: &str, scale: &str) -> Result<Expected, QuantError> {
    let Some((scale_stored, scale_shape)) = file.tensors.get(scale) else {
        return Err(QuantError::MissingTensor {
            name: scale.to_owned(),
            needed_by: codes.to_owned(),
        });
    };
    let (stored, shape) = &file.tensors[codes];
    let is_e8m0 = matches!(scale_stored.dtype, Dtype::U8 | Dtype::F8_E8M0);
    let in_nibbles = codes.ends_with("_packed");
    let format = match (in_nibbles, stored.dtype, scale_stored.dtype) {
        (true, Dtype::U8, Dtype::F8_E4M3) => PackedFormat::Nvfp4,
        // 32 values of 6 bits are 24 bytes, of 4 bits 16.
        (true, Dtype::U8, _) if is_e8m0 => match (shape.last(), scale_shape.last()) {
            (Some(&columns), Some(&blocks)) if blocks.checked_mul(24) == Some(columns) => {
                PackedFormat::Mx(MiniFormat::E2m3)
            }
            _ => PackedFormat::Mx(MiniFormat::E2m1),
        },
        (false, Dtype::F8_E4M3, _) if is_e8m0 => PackedFormat::Mx(MiniFormat::E4m3),
        (false, Dtype::F8_E4M3, _) => PackedFormat::Fp8(MiniFormat::E4m3),
        (false, Dtype::I8, _) => PackedFormat::Int8,
        (_, code_type, scale_type) => {
            let got = format!("{code_type:?} with {scale_type:?} scales");
            let want = "a combination of the compressed-tensors layout";
            return Err(wrong_tensor(codes, "type", got, want));
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
    let is_own = file.is_own;
    for stored_name in file.tensors.keys() {
        let packed = stored_name.strip_suffix(".weight_packed");
        let Some(base) = packed.or_else(|| stored_name.strip_suffix(".weight")) else {
            continue;
        };
        let scale_name = format!("{base}.weight_scale");
        if packed.is_none() && !file.tensors.contains_key(&scale_name) {
            continue;
        }
        reader.weight_of(
            scheme,
            |format| names(base, format, is_own),
            || suggested(file, stored_name, &scale_name),
        )?;
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
    metadata.layout = Some(Layout::CompressedTensors.name().to_owned());
    let [rows, depth] = matrix_of(name, weight, metadata)?;
    let format = weight.packed.format();
    let names = names(base, format, false);
    let (dtype, columns) = match format {
        PackedFormat::Nvfp4 | PackedFormat::Mx(MiniFormat::E2m1) => (Dtype::U8, depth / 2),
        PackedFormat::Mx(MiniFormat::E2m3) => (Dtype::U8, depth / 4 * 3),
        PackedFormat::Mx(MiniFormat::E4m3) | PackedFormat::Fp8(MiniFormat::E4m3) => {
            (Dtype::F8_E4M3, depth)
        }
        PackedFormat::Int8 => (Dtype::I8, depth),
        _ => {
            let operation = "writing in the compressed-tensors layout";
            return Err(unsupported(operation, weight));
        }
    };
    let codes = weight.packed.codes();
    out.push(Outgoing::new(
        names.codes,
        dtype,
        vec![rows, columns],
        codes,
    ));
    match weight.packed.scales() {
        Scales::Nvfp4 { block, tensor } => {
            let divisor = 1.0 / tensor;
            if (1.0 / divisor).to_bits() != tensor.to_bits() {
                let bits = tensor.to_bits();
                metadata.tensor_scales.insert(name.to_owned(), bits);
            }
            let shape = vec![rows, depth / 16];
            let block = block.as_slice();
            out.push(Outgoing::new(names.scale, Dtype::F8_E4M3, shape, block));
            let name = format!("{base}.weight_global_scale");
            out.push(Outgoing::f32(name, vec![1], &[divisor]));
        }
        Scales::Mx(scales) => {
            let shape = vec![rows, depth / 32];
            let scales = scales.as_slice();
            out.push(Outgoing::new(names.scale, Dtype::U8, shape, scales));
        }
        scales @ Scales::F32 { .. } => {
            let values = scale_values(scales).unwrap_or_default();
            let shape = match Grid::of(weight) {
                Grid::Row => vec![rows, 1],
                Grid::Group(group) => vec![rows, depth.div_ceil(group)],
                Grid::Block(block) => vec![rows.div_ceil(block[0]), depth.div_ceil(block[1])],
                Grid::Tensor | Grid::OfFormat | Grid::ByShape => vec![1],
            };
            out.push(Outgoing::f32(names.scale, shape, values));
        }
    }
    match (weight.inputs, names.inputs.into_iter().next()) {
        (Inputs::Calibrated(scale), Some((name, convention))) => {
            // A reciprocal is its own inverse.
            let stored = convention.multiplier(scale);
            out.push(Outgoing::f32(name, vec![1], &[stored]));
        }
        (Inputs::Dynamic, _) => {
            metadata.dynamic_inputs.insert(name.to_owned());
        }
        _ => {}
    }
    Ok(())
}
