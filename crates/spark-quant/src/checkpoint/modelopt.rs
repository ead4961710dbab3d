//! NVIDIA ModelOpt's layout.
//!
//! ```text
//! NVFP4   X.weight U8 [N, K/2]      X.weight_scale F8_E4M3 [N, K/16]   X.weight_scale_2 F32 []
//! MXFP4   X.weight U8 [N, K/2]      X.weight_scale U8 (E8M0) [N, K/32]
//! MXFP8   X.weight F8_E4M3 [N, K]   X.weight_scale U8 (E8M0) [N, K/32]
//! FP8     X.weight F8_E4M3 [N, K]   X.weight_scale F32 [], or [N, 1], or per 128 by 128
//! any     X.input_scale F32 [], if inputs were calibrated
//! ```
//!
//! `weight_scale_2` is `amax / 2688`, a multiplier. MXFP4 follows the same pattern by analogy: no file
//! written by ModelOpt was at hand to compare with.

use std::collections::BTreeMap;

use safetensors::Dtype;

use super::container::{File, Metadata, Outgoing};
use super::parts::{
    Reader, matrix_of, rectangles, refuse_rotation, scale_tensor, unsupported, wrong,
};
use super::{Entry, Weight};
use crate::error::QuantError;
use crate::packed::{PackedFormat, Scales};
use crate::scalar::MiniFormat;

pub(super) fn read(file: &File<'_>) -> Result<BTreeMap<String, Entry>, QuantError> {
    let mut reader = Reader::new(file);
    for name in file.tensors.keys() {
        let Some(base) = name.strip_suffix(".weight") else {
            continue;
        };
        let scale_name = format!("{name}_scale");
        let Some((scale, scale_shape)) = reader.find(&scale_name) else {
            continue;
        };
        let codes = reader.matrix(name, name, &[Dtype::U8, Dtype::F8_E4M3])?;
        let code_type = file.tensors[name].0.dtype;
        let input_scale = reader.input_scale(&format!("{base}.input_scale"), |scale| scale)?;
        let depth = if code_type == Dtype::U8 {
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
        let (format, scales) = match (code_type, scale.dtype) {
            (Dtype::U8, Dtype::F8_E4M3) => {
                expect_columns(16)?;
                let tensor = reader.scale(&format!("{name}_scale_2"), name)?;
                (
                    PackedFormat::Nvfp4,
                    Scales::Nvfp4 {
                        block: scale.data.to_vec(),
                        tensor,
                    },
                )
            }
            (Dtype::U8, Dtype::U8 | Dtype::F8_E8M0) => {
                expect_columns(32)?;
                (
                    PackedFormat::Mx(MiniFormat::E2m1),
                    Scales::Mx(scale.data.to_vec()),
                )
            }
            (Dtype::F8_E4M3, Dtype::U8 | Dtype::F8_E8M0) => {
                expect_columns(32)?;
                (
                    PackedFormat::Mx(MiniFormat::E4m3),
                    Scales::Mx(scale.data.to_vec()),
                )
            }
            (Dtype::F8_E4M3, _) => {
                let (values, shape) = reader.floats(&scale_name, name)?;
                let block = rectangles(&scale_name, values.len(), shape, [codes.rows, depth])?;
                (
                    PackedFormat::Fp8(MiniFormat::E4m3),
                    Scales::F32 { values, block },
                )
            }
            (_, got) => {
                return Err(wrong(
                    &scale_name,
                    "type",
                    got,
                    "F8_E4M3 or U8 for packed weights",
                ));
            }
        };
        reader.add(
            name,
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
    let [rows, depth] = matrix_of(name, weight, metadata)?;
    let codes = weight.packed.codes();
    let scale_name = format!("{name}_scale");
    match (weight.packed.format(), weight.packed.scales()) {
        (PackedFormat::Nvfp4, Scales::Nvfp4 { block, tensor }) => {
            out.push(Outgoing::new(
                name.to_owned(),
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
            out.push(Outgoing::f32(format!("{name}_scale_2"), vec![], &[*tensor]));
        }
        (PackedFormat::Mx(format @ (MiniFormat::E2m1 | MiniFormat::E4m3)), Scales::Mx(scales)) => {
            let (dtype, columns) = if format == MiniFormat::E2m1 {
                (Dtype::U8, depth / 2)
            } else {
                (Dtype::F8_E4M3, depth)
            };
            out.push(Outgoing::new(
                name.to_owned(),
                dtype,
                vec![rows, columns],
                codes,
            ));
            out.push(Outgoing::new(
                scale_name,
                Dtype::U8,
                vec![rows, depth / 32],
                scales.as_slice(),
            ));
        }
        (PackedFormat::Fp8(MiniFormat::E4m3), scales) => {
            let Some((values, shape)) = scale_tensor(scales, [rows, depth]) else {
                return Err(unsupported(
                    "writing scales of these rectangles in the ModelOpt layout",
                    weight,
                ));
            };
            out.push(Outgoing::new(
                name.to_owned(),
                Dtype::F8_E4M3,
                vec![rows, depth],
                codes,
            ));
            out.push(Outgoing::f32(scale_name, shape, values));
        }
        _ => return Err(unsupported("writing in the ModelOpt layout", weight)),
    }
    if let Some(scale) = weight.input_scale {
        out.push(Outgoing::f32(
            format!("{base}.input_scale"),
            vec![],
            &[scale],
        ));
    }
    Ok(())
}
