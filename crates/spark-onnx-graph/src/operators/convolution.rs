//! Convolutions and pooling.

use super::operator::{Exported, Inferred, Operator};
use crate::ModelError;
use crate::file::export::attributes::Attributes;
use crate::file::import::call::{Call, Translated, Translator};
use crate::graph::infer::{
    Operands, check_float, check_rank, check_rank_at_least, check_same_dtype, check_shape, one,
    op_error,
};
use crate::graph::{
    Binary, Concat, Conv, ConvTranspose, GlobalPool, Op, OpError, Operand, Padding, Pool, PoolKind,
    Reshape, Shape, Unary, WindowAxis, conv_transpose_windows, conv_windows, pool_windows,
};
use crate::tensor::{DType, MAX_ELEMENTS, Tensor, TensorData};

/// Operators of a file that are short for others, or for a constant.
pub(super) const SPELLED_OUT: &[Translator] = &[("Col2Im", columns_to_image), ("LpPool", lp_pool)];

impl Operator for Conv {
    const IMPORTS: &'static [Translator] = &[("Conv", conv)];

    fn name(&self) -> &'static str {
        "Conv"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        let (x, w) = conv_operands(operands)?;
        let shape = conv_shape(self, &x, &w)?;
        check_bias(operands, x.dtype, w.shape[0])?;
        one(x.dtype, shape)
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(window_attributes(self))
    }
}

impl Operator for ConvTranspose {
    const IMPORTS: &'static [Translator] = &[("ConvTranspose", conv_transpose)];

    fn name(&self) -> &'static str {
        "ConvTranspose"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        let (x, w) = conv_operands(operands)?;
        let groups = self.conv.groups;
        check_shape("w", &w.shape[..1], &x.shape[1..2])?;
        if groups == 0 || !x.shape[1].is_multiple_of(groups) {
            return Err(op_error!(
                "{} channels do not split into {groups} groups",
                x.shape[1]
            ));
        }
        let Some(channels_out) = w.shape[1].checked_mul(groups) else {
            return Err(op_error!(
                "{} channels in {groups} groups overflow",
                w.shape[1]
            ));
        };
        check_bias(operands, x.dtype, channels_out)?;
        let windows = conv_transpose_windows(self, &x.shape[2..], &w.shape[2..])?;
        one(x.dtype, with_spatial(x.shape[0], channels_out, &windows))
    }

    fn attributes(&self) -> Exported<'_> {
        let output_shape = self.output_shape.as_deref().unwrap_or_default();
        Ok(window_attributes(&self.conv)
            .extents("output_padding", &self.output_padding)
            .extents("output_shape", output_shape))
    }
}

impl Operator for Pool {
    const IMPORTS: &'static [Translator] = &[("AveragePool", pool), ("MaxPool", pool)];

    fn name(&self) -> &'static str {
        match self.kind {
            PoolKind::Max => "MaxPool",
            PoolKind::Average => "AveragePool",
        }
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(1, 1, 1)?;
        let x = operands.required(0, "x")?;
        check_pooled(self.kind, &x)?;
        let windows = pool_windows(self, &x.shape[2..])?;
        one(x.dtype, with_spatial(x.shape[0], x.shape[1], &windows))
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(pool_attributes(self))
    }
}

impl Operator for GlobalPool {
    const IMPORTS: &'static [Translator] = &[
        ("GlobalAveragePool", global_pool),
        ("GlobalMaxPool", global_pool),
    ];

    fn name(&self) -> &'static str {
        match self.kind {
            PoolKind::Max => "GlobalMaxPool",
            PoolKind::Average => "GlobalAveragePool",
        }
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(1, 1, 1)?;
        let x = operands.required(0, "x")?;
        check_pooled(self.kind, &x)?;
        if x.shape[2..].contains(&0) {
            return Err(op_error!(
                "`x` of shape {:?} has an empty spatial axis",
                x.shape
            ));
        }
        let mut shape = x.shape.to_vec();
        shape[2..].fill(1);
        one(x.dtype, shape)
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(Attributes::default())
    }
}

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

/// The extent of the kernel follows from the weights, which are operand `weights`; stated as well, it must
/// agree.
fn check_kernel(call: &Call<'_, '_>, weights: usize) -> Result<usize, ModelError> {
    let stated = call.extents("kernel_shape")?.unwrap_or_default();
    if let Some(weights) = call.constant(weights) {
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

/// The parameters of a convolution whose weights are operand `weights`.
pub(super) fn conv_parameters(call: &Call<'_, '_>, weights: usize) -> Result<Conv, ModelError> {
    let conv = parameters(call)?;
    let rank = check_kernel(call, weights)?;
    same_rank(call, &conv, &[("kernel_shape", rank)])?;
    Ok(conv)
}

fn conv(call: &mut Call<'_, '_>) -> Translated {
    call.operands(2, 3)?;
    let conv = conv_parameters(call, 1)?;
    call.finish_as_is(Op::Conv(conv))
}

fn conv_transpose(call: &mut Call<'_, '_>) -> Translated {
    call.operands(2, 3)?;
    let conv = parameters(call)?;
    let output_padding = call.extents("output_padding")?.unwrap_or_default();
    let output_shape = call.extents("output_shape")?.filter(|s| !s.is_empty());
    let lists = [
        ("kernel_shape", check_kernel(call, 1)?),
        ("output_padding", output_padding.len()),
    ];
    same_rank(call, &conv, &lists)?;
    call.finish_as_is(Op::ConvTranspose(ConvTranspose {
        conv,
        output_padding,
        output_shape,
    }))
}

/// How windows of a pooling move, and their extents, of which there must be some.
fn pooling_window(call: &Call<'_, '_>) -> Result<(Conv, Vec<usize>), ModelError> {
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
    Ok((conv, kernel))
}

fn pool(call: &mut Call<'_, '_>) -> Translated {
    call.operands(1, 1)?;
    call.only_results(1)?;
    // The order of indices, which are not made.
    call.ignore(&["storage_order"]);
    let (conv, kernel) = pooling_window(call)?;
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

/// Windows laid over one another and added up: a transposed convolution whose every filter has one tap.
fn columns_to_image(call: &mut Call<'_, '_>) -> Translated {
    /// A filter per tap, so that their weights are this number squared.
    const MAX_TAPS: usize = 1024;
    call.operands(3, 3)?;
    let x = call.required(0)?;
    let image = constant_extents(call, 1, "image_shape")?;
    let kernel = constant_extents(call, 2, "block_shape")?;
    let rank = image.len();
    let list = |call: &Call<'_, '_>, name, n: usize, default| {
        let given = call.extents(name)?.unwrap_or_default();
        match given.len() {
            0 => Ok(vec![default; n]),
            len if len == n => Ok(given),
            len => Err(call.error(format!("attribute `{name}` has {len} elements, {n} wanted"))),
        }
    };
    let strides = list(call, "strides", rank, 1)?;
    let dilations = list(call, "dilations", rank, 1)?;
    let pads = list(call, "pads", 2 * rank, 0)?;
    let n_taps = kernel.iter().fold(1, |n: usize, &k| n.saturating_mul(k));
    if rank == 0 || kernel.len() != rank || n_taps == 0 || n_taps > MAX_TAPS {
        let reason = format!("blocks of {kernel:?} for an image of {image:?}");
        return Err(call.error(reason));
    }
    let mut blocks = Vec::with_capacity(rank);
    let mut beyond = Vec::with_capacity(rank);
    for axis in 0..rank {
        let reach = (kernel[axis] - 1).checked_mul(dilations[axis]);
        let padded = pads[axis]
            .checked_add(pads[rank + axis])
            .and_then(|pads| pads.checked_add(image[axis]));
        let room = padded.and_then(|padded| padded.checked_sub(reach?)?.checked_sub(1));
        let room = room.filter(|_| strides[axis] > 0 && dilations[axis] > 0);
        let steps = room.and_then(|room| i64::try_from(room / strides[axis]).ok()?.checked_add(1));
        let (Some(room), Some(steps)) = (room, steps) else {
            let reason = format!("blocks of {kernel:?} do not fit an image of {image:?}");
            return Err(call.error(reason));
        };
        blocks.push(steps);
        beyond.push(room % strides[axis]);
    }
    let planes = [&[-1, n_taps as i64], &blocks[..]].concat();
    let planes = call.new_ints("planes", &planes)?;
    let reshape = Op::Reshape(Reshape { allow_zero: false });
    let columns = call.step(reshape.clone(), &[Some(x), Some(planes)])?;
    let mut taps = vec![0.0; n_taps * n_taps];
    taps.iter_mut().step_by(n_taps + 1).for_each(|w| *w = 1.0);
    let shape = [&[n_taps, 1], &kernel[..]].concat();
    // Weights have to be constant, so that their element type is that of `x` from the start.
    let Some(dtype) = call.builder.dtype(x) else {
        return Err(call.error("the element type of its operand is not known"));
    };
    let taps = call.new_constant("taps", Tensor::from_f64(dtype, shape, taps)?)?;
    let laid = Op::ConvTranspose(ConvTranspose {
        conv: Conv {
            strides,
            dilations,
            padding: Padding::Explicit(pads),
            groups: 1,
        },
        output_padding: beyond,
        output_shape: None,
    });
    let laid = call.step(laid, &[Some(columns), Some(taps)])?;
    let batch = Op::Shape(Shape {
        start: 0,
        end: Some(1),
    });
    let batch = call.step(batch, &[Some(x)])?;
    let rest: Vec<i64> = std::iter::once(-1)
        .chain(image.iter().map(|&d| d as i64))
        .collect();
    let rest = call.new_ints("image", &rest)?;
    let concat = Op::Concat(Concat { axis: 0 });
    let shape = call.step(concat, &[Some(batch), Some(rest)])?;
    call.finish(reshape, vec![Some(laid), Some(shape)])
}

/// An operand that is a constant list of extents.
fn constant_extents(
    call: &Call<'_, '_>,
    index: usize,
    what: &str,
) -> Result<Vec<usize>, ModelError> {
    let Some(TensorData::I64(values)) = call.constant(index).map(Tensor::data) else {
        return Err(call.error(format!("`{what}` is no constant list of i64")));
    };
    let extent = |&v: &i64| {
        let extent = usize::try_from(v).ok().filter(|&v| v <= MAX_ELEMENTS);
        extent.ok_or_else(|| call.error(format!("`{what}` holds {v}")))
    };
    values.iter().map(extent).collect()
}

/// `(sum |x|^p)^(1/p)` over windows: the average over elements and padding times their number.
fn lp_pool(call: &mut Call<'_, '_>) -> Translated {
    call.operands(1, 1)?;
    let x = call.required(0)?;
    let p = call.count("p", 2)?;
    let (conv, kernel) = pooling_window(call)?;
    // The last windows would lie outside the padding, and average over fewer elements.
    if call.flag("ceil_mode", false)? {
        return Err(call.error("attribute `ceil_mode` is not supported"));
    }
    let n_taps: f64 = kernel.iter().map(|&k| k as f64).product();
    let average = Op::Pool(Pool {
        kind: PoolKind::Average,
        kernel,
        strides: conv.strides,
        dilations: conv.dilations,
        padding: conv.padding,
        count_include_pad: true,
        ceil_mode: false,
    });
    let n_taps = call.scalar_like("taps", n_taps, x)?;
    let magnitude = call.step(Op::Unary(Unary::Abs), &[Some(x)])?;
    if p == 1 {
        let mean = call.step(average, &[Some(magnitude)])?;
        return call.finish(Op::Binary(Binary::Mul), vec![Some(mean), Some(n_taps)]);
    }
    let exponent = call.scalar_like("p", p as f64, x)?;
    let powers = call.binary_step(Binary::Pow, magnitude, exponent)?;
    let mean = call.step(average, &[Some(powers)])?;
    let sum = call.binary_step(Binary::Mul, mean, n_taps)?;
    if p == 2 {
        return call.finish(Op::Unary(Unary::Sqrt), vec![Some(sum)]);
    }
    let root = call.scalar_like("root", 1.0 / p as f64, x)?;
    call.finish(Op::Binary(Binary::Pow), vec![Some(sum), Some(root)])
}

fn global_pool(call: &mut Call<'_, '_>) -> Translated {
    call.operands(1, 1)?;
    let kind = match call.op_type() {
        "GlobalMaxPool" => PoolKind::Max,
        _ => PoolKind::Average,
    };
    call.finish_as_is(Op::GlobalPool(GlobalPool { kind }))
}

/// `x` and `w` of a convolution and the common checks on them and the bias.
fn conv_operands<'a>(operands: &Operands<'a>) -> Result<(Operand<'a>, Operand<'a>), OpError> {
    operands.expect(2, 3, 1)?;
    let x = operands.required(0, "x")?;
    let w = operands.required(1, "w")?;
    check_float("x", &x)?;
    check_same_dtype("w", &w, x.dtype)?;
    check_rank_at_least("x", &x, 3)?;
    check_rank("w", &w, x.rank())?;
    Ok((x, w))
}

/// The shape of a convolution's result; `x` and `w` have the same rank, at least 3.
pub(super) fn conv_shape(
    conv: &Conv,
    x: &Operand<'_>,
    w: &Operand<'_>,
) -> Result<Vec<usize>, OpError> {
    let (channels_in, channels_out) = (x.shape[1], w.shape[0]);
    if conv.groups == 0 || !channels_out.is_multiple_of(conv.groups) {
        return Err(op_error!(
            "{channels_out} output channels do not split into {} groups",
            conv.groups
        ));
    }
    if w.shape[1].checked_mul(conv.groups) != Some(channels_in) {
        return Err(op_error!(
            "`x` has {channels_in} channels, `w` of shape {:?} in {} groups wants another number",
            w.shape,
            conv.groups
        ));
    }
    let windows = conv_windows(conv, &x.shape[2..], &w.shape[2..])?;
    Ok(with_spatial(x.shape[0], channels_out, &windows))
}

fn check_bias(operands: &Operands<'_>, dtype: DType, channels: usize) -> Result<(), OpError> {
    let Some(bias) = operands.optional(2) else {
        return Ok(());
    };
    check_same_dtype("bias", &bias, dtype)?;
    check_shape("bias", bias.shape, &[channels])
}

fn check_pooled(kind: PoolKind, x: &Operand<'_>) -> Result<(), OpError> {
    let small_integer = matches!(x.dtype, DType::I8 | DType::U8);
    if !(kind == PoolKind::Max && small_integer) {
        check_float("x", x)?;
    }
    check_rank_at_least("x", x, 3)
}

fn with_spatial(batch: usize, channels: usize, windows: &[WindowAxis]) -> Vec<usize> {
    let mut shape = vec![batch, channels];
    shape.extend(windows.iter().map(|w| w.output));
    shape
}

pub(super) fn window_attributes(conv: &Conv) -> Attributes<'static> {
    let attributes = Attributes::default()
        .extents("strides", &conv.strides)
        .extents("dilations", &conv.dilations)
        .int("group", conv.groups as i64);
    padding_attributes(attributes, &conv.padding)
}

fn pool_attributes(pool: &Pool) -> Attributes<'static> {
    let attributes = Attributes::default()
        .extents("kernel_shape", &pool.kernel)
        .extents("strides", &pool.strides)
        .extents("dilations", &pool.dilations)
        .flag("ceil_mode", pool.ceil_mode);
    let attributes = match pool.kind {
        PoolKind::Max => attributes,
        PoolKind::Average => attributes.flag("count_include_pad", pool.count_include_pad),
    };
    padding_attributes(attributes, &pool.padding)
}

fn padding_attributes<'g>(attributes: Attributes<'g>, padding: &Padding) -> Attributes<'g> {
    match padding {
        Padding::Explicit(pads) => attributes.extents("pads", pads),
        Padding::SameUpper => attributes.text("auto_pad", "SAME_UPPER"),
        Padding::SameLower => attributes.text("auto_pad", "SAME_LOWER"),
        Padding::Valid => attributes.text("auto_pad", "VALID"),
    }
}
