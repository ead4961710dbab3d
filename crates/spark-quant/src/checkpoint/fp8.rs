//! The layout of `quant_method: fp8`: FP8 with a scale per block, as DeepSeek-V3 has it, or per tensor.
//!
//! ```text
//! block    X.weight F8_E4M3 [N, K]   X.weight_scale_inv F32 [N/128, K/128], rounded up; a multiplier
//! tensor   X.weight F8_E4M3 [N, K]   X.weight_scale F32 [1]
//! any      X.input_scale F32 [1], if inputs were calibrated
//! ```
//!
//! Other block sizes than 128 by 128 are read and written too: the configuration names one for all
//! weights. Source: the model card and inference code of DeepSeek-V3; Transformers' fine-grained FP8.

use std::collections::BTreeMap;

use safetensors::Dtype;

use super::container::{File, Metadata, Outgoing};
use super::parts::{
    Convention, Names, Reader, matrix_of, refuse_rotation, scale_values, unsupported,
};
use super::scheme::{Expected, Grid, InputRule, Scheme};
use super::{Entry, Inputs, Layout, Weight};
use crate::error::{QuantError, wrong_tensor};
use crate::packed::PackedFormat;
use crate::scalar::MiniFormat;

/// Ending of the scales of blocks.
pub(super) const INVERSE: &str = "weight_scale_inv";

fn names(base: &str, scale: &str) -> Names {
    let part = |part: &str| format!("{base}.{part}");
    Names {
        weight: part("weight"),
        codes: part("weight"),
        scale: part(scale),
        tensor_scale: None,
        inputs: vec![(part("input_scale"), Convention::Multiplier)],
    }
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
        let has = |part: &str| file.tensors.contains_key(&format!("{base}.{part}"));
        let scale = if has(INVERSE) {
            INVERSE
        } else if has("weight_scale") {
            "weight_scale"
        } else {
            continue;
        };
        let suggested = || {
            Ok(Expected {
                format: PackedFormat::Fp8(MiniFormat::E4m3),
                grid: Grid::ByShape,
                inputs: InputRule::Otherwise(Inputs::Dynamic),
            })
        };
        reader.weight_of(scheme, |_| names(base, scale), suggested)?;
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
    metadata.layout = Some(Layout::Fp8.name().to_owned());
    let [rows, depth] = matrix_of(name, weight, metadata)?;
    let values = scale_values(weight.packed.scales());
    let (PackedFormat::Fp8(MiniFormat::E4m3), Some(values)) = (weight.packed.format(), values)
    else {
        return Err(unsupported("writing in the fp8 layout", weight));
    };
    let (scale, shape) = match (Grid::of(weight), metadata.fp8_block) {
        (Grid::Tensor, None) => ("weight_scale", vec![1]),
        // A weight of at most one block is a tensor with one scale as well.
        (_, Some(block)) if Grid::is_cut_from(weight, block) => {
            let shape = vec![rows.div_ceil(block[0]), depth.div_ceil(block[1])];
            (INVERSE, shape)
        }
        _ => {
            let operation = "writing scales of these rectangles in the fp8 layout";
            return Err(unsupported(operation, weight));
        }
    };
    let names = names(base, scale);
    let codes = weight.packed.codes();
    let dtype = Dtype::F8_E4M3;
    out.push(Outgoing::new(names.codes, dtype, vec![rows, depth], codes));
    out.push(Outgoing::f32(names.scale, shape, values));
    match (weight.inputs, names.inputs.into_iter().next()) {
        (Inputs::Calibrated(scale), Some((name, _))) => {
            out.push(Outgoing::f32(name, vec![1], &[scale]));
        }
        (Inputs::Dynamic, _) => {
            metadata.dynamic_inputs.insert(name.to_owned());
        }
        _ => {}
    }
    Ok(())
}
