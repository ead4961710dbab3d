//! The small float types of safetensors, shapes in logical elements; every format of this crate.
//!
//! ```text
//! X.weight         F4, F6_E2M3, F6_E3M2, F8_E4M3, F8_E5M2 or I8, [N, K]
//! X.weight_scale   F8_E4M3 [N, K/16], F8_E8M0 [N, K/32], or F32 of rectangles
//! X.weight_tensor_scale   F32 [], NVFP4 only, a multiplier
//! X.weight_block   I64 [2], rows and values per F32 scale
//! ```
//!
//! safetensors defines the types but not the order of codes inside bytes; it is the order of this
//! crate's packed tensors, low bits first. The marker in the metadata tells this layout from others.

use std::collections::BTreeMap;

use safetensors::Dtype;

use super::container::{File, Metadata, Outgoing};
use super::parts::{Reader, matrix_of};
use super::{Entry, Inputs, Layout, Weight};
use crate::error::{QuantError, wrong_tensor};
use crate::packed::{PackedFormat, Scales};
use crate::scalar::MiniFormat;

/// Element type of a safetensors type.
fn element(dtype: Dtype) -> Option<MiniFormat> {
    match dtype {
        Dtype::F4 => Some(MiniFormat::E2m1),
        Dtype::F6_E2M3 => Some(MiniFormat::E2m3),
        Dtype::F6_E3M2 => Some(MiniFormat::E3m2),
        Dtype::F8_E4M3 => Some(MiniFormat::E4m3),
        Dtype::F8_E5M2 => Some(MiniFormat::E5m2),
        _ => None,
    }
}

fn dtype(format: PackedFormat) -> Dtype {
    match format {
        PackedFormat::Int8 => Dtype::I8,
        PackedFormat::Nvfp4 | PackedFormat::Mx(MiniFormat::E2m1) => Dtype::F4,
        PackedFormat::Mx(MiniFormat::E2m3) => Dtype::F6_E2M3,
        PackedFormat::Mx(MiniFormat::E3m2) => Dtype::F6_E3M2,
        PackedFormat::Mx(MiniFormat::E5m2) | PackedFormat::Fp8(MiniFormat::E5m2) => Dtype::F8_E5M2,
        PackedFormat::Mx(MiniFormat::E4m3) | PackedFormat::Fp8(_) => Dtype::F8_E4M3,
    }
}

pub(super) fn read(file: &File<'_>) -> Result<BTreeMap<String, Entry>, QuantError> {
    let mut reader = Reader::new(file);
    let marked = file.metadata.layout.as_deref() == Some(Layout::Native.name());
    for name in file.tensors.keys().filter(|_| marked) {
        let scale_name = format!("{name}_scale");
        let Some((scale, _)) = reader.find(&scale_name) else {
            continue;
        };
        let types = [
            Dtype::F4,
            Dtype::F6_E2M3,
            Dtype::F6_E3M2,
            Dtype::F8_E4M3,
            Dtype::F8_E5M2,
            Dtype::I8,
        ];
        let codes = reader.matrix(name, name, &types)?;
        let code_type = file.tensors[name].0.dtype;
        let bytes = scale.data.to_vec();
        let (format, scales) = match (element(code_type), scale.dtype) {
            (Some(MiniFormat::E2m1), Dtype::F8_E4M3) => {
                let tensor = reader.scale(&format!("{name}_tensor_scale"), name)?;
                (
                    PackedFormat::Nvfp4,
                    Scales::Nvfp4 {
                        block: bytes,
                        tensor,
                    },
                )
            }
            (Some(format), Dtype::F8_E8M0) => (PackedFormat::Mx(format), Scales::Mx(bytes)),
            (element, Dtype::F32) => {
                let (values, _) = reader.floats(&scale_name, name)?;
                let block_name = format!("{name}_block");
                let (block, shape) = reader.need(&block_name, name)?;
                let (Dtype::I64, &[rows, depth]) = (block.dtype, block.data.as_chunks::<8>().0)
                else {
                    return Err(wrong_tensor(&block_name, "shape", shape, "two I64"));
                };
                let extent = |bytes| {
                    usize::try_from(i64::from_le_bytes(bytes))
                        .ok()
                        .filter(|&n| n > 0)
                };
                let (Some(rows), Some(depth)) = (extent(rows), extent(depth)) else {
                    return Err(wrong_tensor(
                        &block_name,
                        "value",
                        block.data,
                        "two positive numbers",
                    ));
                };
                let format = element.map_or(PackedFormat::Int8, PackedFormat::Fp8);
                (
                    format,
                    Scales::F32 {
                        values,
                        block: [rows, depth],
                    },
                )
            }
            (_, got) => {
                return Err(wrong_tensor(
                    &scale_name,
                    "type",
                    got,
                    "F8_E4M3, F8_E8M0 or F32",
                ));
            }
        };
        let depth = codes.columns;
        let whole = depth.is_multiple_of(format.block());
        if !whole {
            return Err(wrong_tensor(
                name,
                "shape",
                [codes.rows, depth],
                format!("rows of whole blocks of {}", format.block()),
            ));
        }
        reader.add(
            name,
            [codes.rows, depth],
            format,
            codes.data,
            scales,
            Inputs::Unquantized,
        )?;
    }
    reader.into_entries()
}

pub(super) fn write<'a>(
    name: &str,
    weight: &'a Weight,
    out: &mut Vec<Outgoing<'a>>,
    metadata: &mut Metadata,
) -> Result<(), QuantError> {
    metadata.layout = Some(Layout::Native.name().to_owned());
    let [rows, depth] = matrix_of(name, weight, metadata)?;
    let format = weight.packed.format();
    if let Some(rotation) = weight.packed.rotation() {
        metadata
            .rotations
            .insert(name.to_owned(), (rotation.size(), rotation.seed()));
    }
    out.push(Outgoing::new(
        name.to_owned(),
        dtype(format),
        vec![rows, depth],
        weight.packed.codes(),
    ));
    let scale_name = format!("{name}_scale");
    match weight.packed.scales() {
        Scales::Nvfp4 { block, tensor } => {
            out.push(Outgoing::new(
                scale_name,
                Dtype::F8_E4M3,
                vec![rows, depth / 16],
                block.as_slice(),
            ));
            out.push(Outgoing::f32(
                format!("{name}_tensor_scale"),
                vec![],
                &[*tensor],
            ));
        }
        Scales::Mx(scales) => {
            out.push(Outgoing::new(
                scale_name,
                Dtype::F8_E8M0,
                vec![rows, depth / 32],
                scales.as_slice(),
            ));
        }
        Scales::F32 { values, block } => {
            out.push(Outgoing::f32(scale_name, vec![values.len()], values));
            let extents: Vec<u8> = block
                .iter()
                .flat_map(|&extent| (extent as i64).to_le_bytes())
                .collect();
            out.push(Outgoing::new(
                format!("{name}_block"),
                Dtype::I64,
                vec![2],
                extents,
            ));
        }
    }
    Ok(())
}
