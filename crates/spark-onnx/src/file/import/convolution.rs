//! Convolutions and pooling.

use super::Translator;
use super::call::{Call, Translated};
use crate::ModelError;
use crate::graph::{Conv, ConvTranspose, GlobalPool, Op, Padding, Pool, PoolKind};

pub(super) const OPERATORS: &[Translator] = &[
    ("Conv", conv),
    ("ConvTranspose", conv_transpose),
    ("AveragePool", pool),
    ("MaxPool", pool),
    ("GlobalAveragePool", global_pool),
    ("GlobalMaxPool", global_pool),
];

/// `auto_pad`, or `pads` where it is left out.
fn padding(call: &Call<'_, '_>) -> Result<Padding, ModelError> {
    let pads = call.extents("pads")?.unwrap_or_default();
    if pads.len() % 2 != 0 {
        return Err(call.error(format!("attribute `pads` holds {} numbers", pads.len())));
    }
    match call.text("auto_pad")? {
        None | Some("NOTSET" | "") => Ok(Padding::Explicit(pads)),
        Some("SAME_UPPER") => Ok(Padding::SameUpper),
        Some("SAME_LOWER") => Ok(Padding::SameLower),
        Some("VALID") => Ok(Padding::Valid),
        Some(other) => Err(call.error(format!("attribute `auto_pad` is `{other}`"))),
    }
}

/// Steps, none of them zero.
fn steps(call: &Call<'_, '_>, name: &str) -> Result<Vec<usize>, ModelError> {
    let steps = call.extents(name)?.unwrap_or_default();
    if steps.contains(&0) {
        return Err(call.error(format!("attribute `{name}` holds 0")));
    }
    Ok(steps)
}

/// Lists that speak of spatial axes must speak of the same number of them.
fn same_rank(call: &Call<'_, '_>, conv: &Conv, others: &[(&str, usize)]) -> Translated {
    let n_pads = match &conv.padding {
        Padding::Explicit(pads) => pads.len() / 2,
        _ => 0,
    };
    let lists = [
        ("strides", conv.strides.len()),
        ("dilations", conv.dilations.len()),
        ("pads", n_pads),
    ];
    let mut given = lists.iter().chain(others).filter(|(_, n)| *n > 0);
    let Some((first, rank)) = given.next() else {
        return Ok(());
    };
    match given.find(|(_, n)| n != rank) {
        Some((other, n)) => Err(call.error(format!(
            "attribute `{first}` is for {rank} axes, `{other}` for {n}"
        ))),
        None => Ok(()),
    }
}

fn parameters(call: &Call<'_, '_>) -> Result<Conv, ModelError> {
    Ok(Conv {
        strides: steps(call, "strides")?,
        dilations: steps(call, "dilations")?,
        padding: padding(call)?,
        groups: call.count("group", 1)?,
    })
}

/// The extent of the kernel follows from the weights; stated as well, it must agree.
fn check_kernel(call: &Call<'_, '_>) -> Result<usize, ModelError> {
    let stated = call.extents("kernel_shape")?.unwrap_or_default();
    if let Some(weights) = call.constant(1) {
        let real = weights.shape().get(2..).unwrap_or_default();
        if !stated.is_empty() && stated != real {
            return Err(call.error(format!(
                "attribute `kernel_shape` is {stated:?}, the weights are {:?}",
                weights.shape()
            )));
        }
    }
    Ok(stated.len())
}

/// The parameters of a convolution whose operands are `x, w, bias?`.
pub(super) fn conv_parameters(call: &Call<'_, '_>) -> Result<Conv, ModelError> {
    let conv = parameters(call)?;
    let rank = check_kernel(call)?;
    same_rank(call, &conv, &[("kernel_shape", rank)])?;
    Ok(conv)
}

fn conv(call: &mut Call<'_, '_>) -> Translated {
    call.operands(2, 3)?;
    let conv = conv_parameters(call)?;
    call.finish_as_is(Op::Conv(conv))
}

fn conv_transpose(call: &mut Call<'_, '_>) -> Translated {
    call.operands(2, 3)?;
    let conv = parameters(call)?;
    let output_padding = call.extents("output_padding")?.unwrap_or_default();
    let output_shape = call.extents("output_shape")?.filter(|s| !s.is_empty());
    let lists = [
        ("kernel_shape", check_kernel(call)?),
        ("output_padding", output_padding.len()),
    ];
    same_rank(call, &conv, &lists)?;
    call.finish_as_is(Op::ConvTranspose(ConvTranspose {
        conv,
        output_padding,
        output_shape,
    }))
}

fn pool(call: &mut Call<'_, '_>) -> Translated {
    call.operands(1, 1)?;
    call.only_results(1)?;
    // The order of indices, which are not made.
    call.ignore(&["storage_order"]);
    let conv = Conv {
        strides: steps(call, "strides")?,
        dilations: steps(call, "dilations")?,
        padding: padding(call)?,
        groups: 1,
    };
    let kernel = steps(call, "kernel_shape")?;
    if kernel.is_empty() {
        return Err(call.error("attribute `kernel_shape` is missing"));
    }
    same_rank(call, &conv, &[("kernel_shape", kernel.len())])?;
    let kind = match call.op_type() {
        "MaxPool" => PoolKind::Max,
        _ => PoolKind::Average,
    };
    let count_include_pad = kind == PoolKind::Average && call.flag("count_include_pad", false)?;
    let ceil_mode = call.flag("ceil_mode", false)?;
    call.finish_as_is(Op::Pool(Pool {
        kind,
        kernel,
        strides: conv.strides,
        dilations: conv.dilations,
        padding: conv.padding,
        count_include_pad,
        ceil_mode,
    }))
}

fn global_pool(call: &mut Call<'_, '_>) -> Translated {
    call.operands(1, 1)?;
    let kind = match call.op_type() {
        "GlobalMaxPool" => PoolKind::Max,
        _ => PoolKind::Average,
    };
    call.finish_as_is(Op::GlobalPool(GlobalPool { kind }))
}
