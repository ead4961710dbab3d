//! The compressed-tensors layout of vLLM's tools.
//!
//! ```text
//! NVFP4   X.weight_packed U8 [N, K/2]   X.weight_scale F8_E4M3 [N, K/16]   X.weight_global_scale F32 [1]
//! MXFP4   X.weight_packed U8 [N, K/2]   X.weight_scale U8 (E8M0) [N, K/32]
//! MXFP8   X.weight F8_E4M3 [N, K]       X.weight_scale U8 (E8M0) [N, K/32]
//! FP8     X.weight F8_E4M3 [N, K]       X.weight_scale F32 [1], [N, 1] or per 128 by 128
//! INT8    X.weight I8 [N, K]            X.weight_scale F32 [1] or [N, 1]
//! any     X.input_global_scale F32 [1], the reciprocal of the input scale
//! ```
//!
//! `weight_global_scale` is `2688 / amax`, a divisor. The reciprocal of a reciprocal is not always the
//! number one started from, so files written here also carry the exact tensor scale in the metadata; it
//! is only believed if its reciprocal is the stored divisor.

use std::collections::BTreeMap;

use safetensors::Dtype;

use super::container::{File, Metadata, Outgoing};
use super::parts::{
    Reader, matrix_of, rectangles, refuse_rotation, scale_tensor, unsupported, wrong,
};
use super::{Entry, Layout, Weight};
use crate::error::QuantError;
use crate::packed::{PackedFormat, Scales};
use crate::scalar::MiniFormat;

/// The tensor scale for a stored divisor.
fn tensor_scale(file: &File<'_>, name: &str, divisor: f32) -> f32 {
    let exact = file
        .metadata
        .tensor_scales
        .get(name)
        .map(|&bits| f32::from_bits(bits));
    exact
        .filter(|scale| (1.0 / scale).to_bits() == divisor.to_bits())
        .unwrap_or(1.0 / divisor)
}

pub(super) fn read(file: &File<'_>) -> Result<BTreeMap<String, Entry>, QuantError> {
    let mut reader = Reader::new(file);
    for stored_name in file.tensors.keys() {
        let packed = stored_name.strip_suffix(".weight_packed");
        let Some(base) = packed.or_else(|| stored_name.strip_suffix(".weight")) else {
            continue;
        };
        let (name, scale_name) = (format!("{base}.weight"), format!("{base}.weight_scale"));
        if packed.is_none() && !file.tensors.contains_key(&scale_name) {
            continue;
        }
        let (scale, scale_shape) = reader.need(&scale_name, stored_name)?;
        let codes = reader.matrix(
            stored_name,
            stored_name,
            &[Dtype::U8, Dtype::F8_E4M3, Dtype::I8],
        )?;
        let code_type = file.tensors[stored_name].0.dtype;
        let reciprocal = |scale: f32| 1.0 / scale;
        let input_scale = reader.input_scale(&format!("{base}.input_global_scale"), reciprocal)?;
        let depth = if packed.is_some() {
            codes.columns.saturating_mul(2)
        } else {
            codes.columns
        };
        let expect_columns = |block: usize| {
            let want = [codes.rows, depth / block];
            if depth.is_multiple_of(block) && scale_shape == want {
                Ok(())
            } else {
                Err(wrong(
                    &scale_name,
                    "shape",
                    scale_shape,
                    format!("{want:?} for {} by {depth} weights", codes.rows),
                ))
            }
        };
        let (format, scales) = match (packed.is_some(), code_type, scale.dtype) {
            (true, Dtype::U8, Dtype::F8_E4M3) => {
                expect_columns(16)?;
                let divisor = reader.scale(&format!("{base}.weight_global_scale"), stored_name)?;
                let tensor = tensor_scale(file, &name, divisor);
                (
                    PackedFormat::Nvfp4,
                    Scales::Nvfp4 {
                        block: scale.data.to_vec(),
                        tensor,
                    },
                )
            }
            (true, Dtype::U8, Dtype::U8 | Dtype::F8_E8M0) => {
                expect_columns(32)?;
                (
                    PackedFormat::Mx(MiniFormat::E2m1),
                    Scales::Mx(scale.data.to_vec()),
                )
            }
            (false, Dtype::F8_E4M3, Dtype::U8 | Dtype::F8_E8M0) => {
                expect_columns(32)?;
                (
                    PackedFormat::Mx(MiniFormat::E4m3),
                    Scales::Mx(scale.data.to_vec()),
                )
            }
            (false, Dtype::F8_E4M3 | Dtype::I8, _) => {
                let (values, shape) = reader.floats(&scale_name, stored_name)?;
                let block = rectangles(&scale_name, values.len(), shape, [codes.rows, depth])?;
                let format = if code_type == Dtype::I8 {
                    PackedFormat::Int8
                } else {
                    PackedFormat::Fp8(MiniFormat::E4m3)
                };
                (format, Scales::F32 { values, block })
            }
            (_, code_type, scale_type) => {
                let got = format!("{code_type:?} with {scale_type:?} scales");
                return Err(wrong(
                    stored_name,
                    "type",
                    got,
                    "a combination of the compressed-tensors layout",
                ));
            }
        };
        reader.add(
            &name,
            [codes.rows, depth],
            format,
            codes.data,
            scales,
            input_scale,
        )?;
    }
    reader.finish()
}

pub(super) fn write<'a>(
    name: &str,
    weight: &'a Weight,
    out: &mut Vec<Outgoing<'a>>,
    metadata: &mut Metadata,
) -> Result<(), QuantError> {
    refuse_rotation(weight)?;
    let Some(base) = name.strip_suffix(".weight") else {
        return Err(wrong(name, "name", name, "a name that ends in `.weight`"));
    };
    metadata.layout = Some(Layout::CompressedTensors.name().to_owned());
    let [rows, depth] = matrix_of(name, weight, metadata)?;
    let codes = weight.packed.codes();
    let (packed_name, scale_name) = (
        format!("{base}.weight_packed"),
        format!("{base}.weight_scale"),
    );
    match (weight.packed.format(), weight.packed.scales()) {
        (PackedFormat::Nvfp4, Scales::Nvfp4 { block, tensor }) => {
            let divisor = 1.0 / tensor;
            if (1.0 / divisor).to_bits() != tensor.to_bits() {
                metadata
                    .tensor_scales
                    .insert(name.to_owned(), tensor.to_bits());
            }
            out.push(Outgoing::new(
                packed_name,
                Dtype::U8,
                vec![rows, depth / 2],
                codes,
            ));
            out.push(Outgoing::new(
                scale_name,
                Dtype::F8_E4M3,
                vec![rows, depth / 16],
                block.as_slice(),
            ));
            out.push(Outgoing::f32(
                format!("{base}.weight_global_scale"),
                vec![1],
                &[divisor],
            ));
        }
        (PackedFormat::Mx(MiniFormat::E2m1), Scales::Mx(scales)) => {
            out.push(Outgoing::new(
                packed_name,
                Dtype::U8,
                vec![rows, depth / 2],
                codes,
            ));
            out.push(Outgoing::new(
                scale_name,
                Dtype::U8,
                vec![rows, depth / 32],
                scales.as_slice(),
            ));
        }
        (PackedFormat::Mx(MiniFormat::E4m3), Scales::Mx(scales)) => {
            out.push(Outgoing::new(
                name.to_owned(),
                Dtype::F8_E4M3,
                vec![rows, depth],
                codes,
            ));
            out.push(Outgoing::new(
                scale_name,
                Dtype::U8,
                vec![rows, depth / 32],
                scales.as_slice(),
            ));
        }
        (format @ (PackedFormat::Fp8(MiniFormat::E4m3) | PackedFormat::Int8), scales) => {
            let Some((values, shape)) = scale_tensor(scales, [rows, depth]) else {
                return Err(unsupported(
                    "writing scales of these rectangles in the compressed-tensors layout",
                    weight,
                ));
            };
            let shape = if shape.is_empty() { vec![1] } else { shape };
            let dtype = if format == PackedFormat::Int8 {
                Dtype::I8
            } else {
                Dtype::F8_E4M3
            };
            out.push(Outgoing::new(
                name.to_owned(),
                dtype,
                vec![rows, depth],
                codes,
            ));
            out.push(Outgoing::f32(scale_name, shape, values));
        }
        _ => {
            return Err(unsupported(
                "writing in the compressed-tensors layout",
                weight,
            ));
        }
    }
    if let Some(scale) = weight.input_scale {
        out.push(Outgoing::f32(
            format!("{base}.input_global_scale"),
            vec![1],
            &[1.0 / scale],
        ));
    }
    Ok(())
}
