//! Operators that move elements without computing, and those that make tensors.

use super::Translator;
use super::call::{Call, Translated};
use super::elementwise::stated_dtype;
use crate::file::functions::is_graph;
use crate::file::tensors::read_sparse_tensor;
use crate::graph::{
    Concat, ConstantOfShape, DepthToSpace, Expand, EyeLike, Flatten, Op, Pad, PadMode, Range,
    Reshape, Shape, Size, Slice, SpaceToDepth, Split, Squeeze, Tile, Transpose, Trilu, Unsqueeze,
};
use crate::tensor::{DType, Tensor};

pub(super) const OPERATORS: &[Translator] = &[
    ("Constant", constant),
    ("ConstantOfShape", constant_of_shape),
    ("Reshape", reshape),
    ("Flatten", flatten),
    ("Squeeze", squeeze),
    ("Unsqueeze", unsqueeze),
    ("Transpose", transpose),
    ("Concat", concat),
    ("Split", split),
    ("Slice", slice),
    ("Expand", expand),
    ("Tile", tile),
    ("Pad", pad),
    ("Shape", shape),
    ("Size", size),
    ("Range", range),
    ("EyeLike", eye_like),
    ("Trilu", triangle),
    ("DepthToSpace", depth_to_space),
    ("SpaceToDepth", space_to_depth),
];

/// One of the parameters holds the value; there is no node left.
fn constant(call: &mut Call<'_, '_>) -> Translated {
    call.operands(0, 0)?;
    let [(name, attribute)] = call.node.attributes[..] else {
        return Err(call.error("it must have one attribute"));
    };
    if is_graph(attribute) {
        return Err(call.error(format!("attribute `{name}` is a graph")));
    }
    let tensor = match name {
        "value" => call.tensor(name)?,
        "value_float" => match call.float(name)? {
            Some(value) => Some(Tensor::from_f32([], vec![value])?),
            None => None,
        },
        "value_floats" => match call.floats(name)? {
            Some(values) => Some(Tensor::from_f32([values.len()], values.to_vec())?),
            None => None,
        },
        "value_int" => match call.int(name)? {
            Some(value) => Some(Tensor::from_i64([], vec![value])?),
            None => None,
        },
        "value_ints" => match call.ints(name)? {
            Some(values) => Some(Tensor::from_i64([values.len()], values.to_vec())?),
            None => None,
        },
        "sparse_value" => {
            call.ignore(&[name]);
            match attribute.sparse_tensor.as_deref() {
                Some(sparse) => Some(read_sparse_tensor(sparse.clone(), call.source)?),
                None => None,
            }
        }
        "value_string" | "value_strings" => {
            return Err(call.error("texts are not supported"));
        }
        other => return Err(call.error(format!("attribute `{other}` is not known"))),
    };
    let Some(tensor) = tensor else {
        return Err(call.error(format!("attribute `{name}` holds no value")));
    };
    match call.node.outputs[..] {
        [ref output] if !output.is_empty() => {
            call.builder.named_constant(output, tensor);
            Ok(())
        }
        _ => Err(call.error("it must have one result")),
    }
}

fn constant_of_shape(call: &mut Call<'_, '_>) -> Translated {
    call.operands(1, 1)?;
    let value = match call.tensor("value")? {
        Some(value) if value.len() == 1 => value.reshaped([1])?,
        Some(value) => {
            let n = value.len();
            return Err(call.error(format!("attribute `value` has {n} elements, 1 wanted")));
        }
        None => Tensor::zeros(DType::F32, [1])?,
    };
    call.finish_as_is(Op::ConstantOfShape(ConstantOfShape { value }))
}

fn reshape(call: &mut Call<'_, '_>) -> Translated {
    call.operands(2, 2)?;
    let allow_zero = call.flag("allowzero", false)?;
    call.finish_as_is(Op::Reshape(Reshape { allow_zero }))
}

fn flatten(call: &mut Call<'_, '_>) -> Translated {
    call.operands(1, 1)?;
    let axis = call.int_or("axis", 1)?;
    call.finish_as_is(Op::Flatten(Flatten { axis }))
}

/// Axes are a parameter before operator set 13.
fn squeeze(call: &mut Call<'_, '_>) -> Translated {
    if call.opset() >= 13 {
        call.operands(1, 2)?;
        return call.finish_as_is(Op::Squeeze(Squeeze));
    }
    call.operands(1, 1)?;
    let mut inputs = call.inputs();
    if let Some(axes) = call.ints("axes")? {
        inputs.push(Some(call.new_ints("axes", axes)?));
    }
    call.finish(Op::Squeeze(Squeeze), inputs)
}

/// Axes are a parameter before operator set 13.
fn unsqueeze(call: &mut Call<'_, '_>) -> Translated {
    if call.opset() >= 13 {
        call.operands(2, 2)?;
        return call.finish_as_is(Op::Unsqueeze(Unsqueeze));
    }
    call.operands(1, 1)?;
    let Some(axes) = call.ints("axes")? else {
        return Err(call.error("attribute `axes` is missing"));
    };
    let mut inputs = call.inputs();
    inputs.push(Some(call.new_ints("axes", axes)?));
    call.finish(Op::Unsqueeze(Unsqueeze), inputs)
}

fn transpose(call: &mut Call<'_, '_>) -> Translated {
    call.operands(1, 1)?;
    let perm = call.extents("perm")?;
    if let Some(perm) = &perm {
        let mut sorted = perm.clone();
        sorted.sort_unstable();
        if !sorted.iter().copied().eq(0..perm.len()) {
            return Err(call.error(format!("attribute `perm` {perm:?} is no permutation")));
        }
    }
    call.finish_as_is(Op::Transpose(Transpose { perm }))
}

fn concat(call: &mut Call<'_, '_>) -> Translated {
    let count = call.inputs().len();
    call.operands(count.max(1), usize::MAX)?;
    let Some(axis) = call.int("axis")? else {
        return Err(call.error("attribute `axis` is missing"));
    };
    call.finish_as_is(Op::Concat(Concat { axis }))
}

/// The parts' extents are a parameter before operator set 13; from 18 on the number
/// of equal parts is stated too, and must be the number of results.
fn split(call: &mut Call<'_, '_>) -> Translated {
    let op = Op::Split(Split {
        axis: call.int_or("axis", 0)?,
    });
    let n_results = call.node.outputs.len();
    if let Some(n) = call.int("num_outputs")? {
        if n != n_results as i64 {
            return Err(call.error(format!("{n_results} results, `num_outputs` is {n}")));
        }
        if call.input(1).is_some() {
            return Err(call.error("both `split` and `num_outputs` are given"));
        }
    }
    if call.opset() >= 13 {
        call.operands(1, 2)?;
        return call.finish_as_is(op);
    }
    call.operands(1, 1)?;
    let mut inputs = call.inputs();
    if let Some(parts) = call.ints("split")? {
        inputs.push(Some(call.new_ints("split", parts)?));
    }
    call.finish(op, inputs)
}

/// Bounds are parameters before operator set 10.
fn slice(call: &mut Call<'_, '_>) -> Translated {
    if call.opset() >= 10 {
        call.operands(3, 5)?;
        return call.finish_as_is(Op::Slice(Slice));
    }
    call.operands(1, 1)?;
    let mut inputs = call.inputs();
    for name in ["starts", "ends"] {
        let Some(bounds) = call.ints(name)? else {
            return Err(call.error(format!("attribute `{name}` is missing")));
        };
        inputs.push(Some(call.new_ints(name, bounds)?));
    }
    if let Some(axes) = call.ints("axes")? {
        inputs.push(Some(call.new_ints("axes", axes)?));
    }
    call.finish(Op::Slice(Slice), inputs)
}

fn expand(call: &mut Call<'_, '_>) -> Translated {
    call.operands(2, 2)?;
    call.finish_as_is(Op::Expand(Expand))
}

fn tile(call: &mut Call<'_, '_>) -> Translated {
    call.operands(2, 2)?;
    call.finish_as_is(Op::Tile(Tile))
}

/// Widths and value are parameters before operator set 11.
fn pad(call: &mut Call<'_, '_>) -> Translated {
    let mode = call.choice(
        "mode",
        PadMode::Constant,
        &[
            ("constant", PadMode::Constant),
            ("reflect", PadMode::Reflect),
            ("edge", PadMode::Edge),
            ("wrap", PadMode::Wrap),
        ],
    )?;
    if call.opset() >= 11 {
        call.operands(2, 4)?;
        return call.finish_as_is(Op::Pad(Pad { mode }));
    }
    call.operands(1, 1)?;
    let x = call.required(0)?;
    let Some(pads) = call.ints("pads")? else {
        return Err(call.error("attribute `pads` is missing"));
    };
    let value = call.float_or("value", 0.0)?;
    let mut inputs = vec![Some(x), Some(call.new_ints("pads", pads)?)];
    if value != 0.0 {
        inputs.push(Some(call.scalar_like("value", f64::from(value), x)?));
    }
    call.finish(Op::Pad(Pad { mode }), inputs)
}

fn shape(call: &mut Call<'_, '_>) -> Translated {
    call.operands(1, 1)?;
    let op = Op::Shape(Shape {
        start: call.int_or("start", 0)?,
        end: call.int("end")?,
    });
    call.finish_as_is(op)
}

fn size(call: &mut Call<'_, '_>) -> Translated {
    call.operands(1, 1)?;
    call.finish_as_is(Op::Size(Size))
}

fn range(call: &mut Call<'_, '_>) -> Translated {
    call.operands(3, 3)?;
    call.finish_as_is(Op::Range(Range))
}

fn eye_like(call: &mut Call<'_, '_>) -> Translated {
    call.operands(1, 1)?;
    let dtype = stated_dtype(call, "dtype")?;
    let k = call.int_or("k", 0)?;
    call.finish_as_is(Op::EyeLike(EyeLike { dtype, k }))
}

fn triangle(call: &mut Call<'_, '_>) -> Translated {
    call.operands(1, 2)?;
    let upper = call.flag("upper", true)?;
    call.finish_as_is(Op::Trilu(Trilu { upper }))
}

fn depth_to_space(call: &mut Call<'_, '_>) -> Translated {
    call.operands(1, 1)?;
    let block = call.count("blocksize", 0)?;
    if block == 0 {
        return Err(call.error("attribute `blocksize` is missing"));
    }
    let crd = call.choice("mode", false, &[("DCR", false), ("CRD", true)])?;
    call.finish_as_is(Op::DepthToSpace(DepthToSpace { block, crd }))
}

fn space_to_depth(call: &mut Call<'_, '_>) -> Translated {
    call.operands(1, 1)?;
    let block = call.count("blocksize", 0)?;
    if block == 0 {
        return Err(call.error("attribute `blocksize` is missing"));
    }
    call.choice("mode", (), &[("DCR", ())])?;
    call.finish_as_is(Op::SpaceToDepth(SpaceToDepth { block }))
}
