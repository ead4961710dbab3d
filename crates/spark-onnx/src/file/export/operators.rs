//! The parameters of every operator as the attributes of the standard one of its name.
//!
//! All are written, defaults too, except empty lists, which stand for
//! defaults that depend on the rank.

use crate::file::proto::{AttributeProto, attribute_type as kind};
use crate::file::tensors::{number_of, write_tensor};
use crate::file::wire::{Bytes, Text};
use crate::graph::{
    AspectRatio, BatchNormalization, Binary, Cast, Cell, Concat, ConstantOfShape, Conv,
    CoordinateTransform, CumSum, DepthToSpace, DequantizeLinear, Direction, Einsum, EyeLike,
    Flatten, Gather, GatherElements, GatherNd, GridPadding, GridSample, GroupNormalization,
    InstanceNormalization, Interpolation, LayerNormalization, LpNormalization, Lrn, MaskedSoftmax,
    NearestRounding, OneHot, Op, Pad, PadMode, Padding, Pool, PoolKind, QuantizeLinear, Recurrent,
    Reshape, Resize, RmsNormalization, ScatterElements, ScatterNd, ScatterReduction, Shape,
    SpaceToDepth, Split, TopK, Transpose, Trilu, Unary,
};

/// Parameters as they stand in a file.
#[derive(Default)]
pub(super) struct Attributes<'g>(pub(super) Vec<AttributeProto<'g>>);

impl<'g> Attributes<'g> {
    fn with(mut self, name: &'static str, r#type: i32, value: AttributeProto<'g>) -> Self {
        self.0.push(AttributeProto {
            name: Some(Text::Borrowed(name)),
            r#type: Some(r#type),
            ..value
        });
        self
    }

    pub(super) fn int(self, name: &'static str, value: i64) -> Self {
        let value = AttributeProto {
            i: Some(value),
            ..AttributeProto::default()
        };
        self.with(name, kind::INT, value)
    }

    pub(super) fn flag(self, name: &'static str, value: bool) -> Self {
        self.int(name, i64::from(value))
    }

    pub(super) fn float(self, name: &'static str, value: f32) -> Self {
        let value = AttributeProto {
            f: Some(value),
            ..AttributeProto::default()
        };
        self.with(name, kind::FLOAT, value)
    }

    fn text(self, name: &'static str, value: &'g str) -> Self {
        let value = AttributeProto {
            s: Some(Bytes::Borrowed(value.as_bytes())),
            ..AttributeProto::default()
        };
        self.with(name, kind::STRING, value)
    }

    pub(super) fn ints(self, name: &'static str, values: Vec<i64>) -> Self {
        if values.is_empty() {
            return self;
        }
        let value = AttributeProto {
            ints: values,
            ..AttributeProto::default()
        };
        self.with(name, kind::INTS, value)
    }

    fn extents(self, name: &'static str, values: &[usize]) -> Self {
        self.ints(name, values.iter().map(|&v| v as i64).collect())
    }

    fn floats(self, name: &'static str, values: Vec<f32>) -> Self {
        if values.is_empty() {
            return self;
        }
        let value = AttributeProto {
            floats: values,
            ..AttributeProto::default()
        };
        self.with(name, kind::FLOATS, value)
    }

    fn texts(self, name: &'static str, values: Vec<&'static str>) -> Self {
        if values.is_empty() {
            return self;
        }
        let value = AttributeProto {
            strings: values
                .into_iter()
                .map(|v| Bytes::Borrowed(v.as_bytes()))
                .collect(),
            ..AttributeProto::default()
        };
        self.with(name, kind::STRINGS, value)
    }
}

/// The attributes of an operator, or why ONNX cannot express it.
pub(super) fn attributes_of(op: &Op) -> Result<Attributes<'_>, String> {
    let none = Attributes::default();
    Ok(match op {
        Op::Unary(function) => unary(*function),
        Op::Binary(Binary::Mod { fmod }) => none.flag("fmod", *fmod),
        Op::Cast(Cast { to }) => none.int("to", i64::from(number_of(*to))),
        Op::Conv(conv) => window(conv),
        Op::ConvTranspose(transpose) => window(&transpose.conv)
            .extents("output_padding", &transpose.output_padding)
            .extents(
                "output_shape",
                transpose.output_shape.as_deref().unwrap_or_default(),
            ),
        Op::Pool(parameters) => pool(parameters),
        Op::Gemm(gemm) => none
            .float("alpha", gemm.alpha)
            .float("beta", gemm.beta)
            .flag("transA", gemm.trans_a)
            .flag("transB", gemm.trans_b),
        Op::Einsum(Einsum { equation }) => none.text("equation", equation),
        Op::BatchNormalization(BatchNormalization { epsilon })
        | Op::InstanceNormalization(InstanceNormalization { epsilon }) => {
            none.float("epsilon", *epsilon)
        }
        Op::LayerNormalization(LayerNormalization { axis, epsilon })
        | Op::RmsNormalization(RmsNormalization { axis, epsilon }) => {
            none.int("axis", *axis).float("epsilon", *epsilon)
        }
        Op::GroupNormalization(GroupNormalization { epsilon, groups }) => none
            .float("epsilon", *epsilon)
            .int("num_groups", *groups as i64),
        Op::LpNormalization(LpNormalization { axis, p }) => {
            none.int("axis", *axis).int("p", i64::from(*p))
        }
        Op::Lrn(Lrn {
            alpha,
            beta,
            bias,
            size,
        }) => none
            .float("alpha", *alpha)
            .float("beta", *beta)
            .float("bias", *bias)
            .int("size", *size as i64),
        Op::Softmax(softmax) if softmax.flatten && softmax.axis != -1 => {
            return Err("a softmax over several axes is no single operator".to_owned());
        }
        Op::Softmax(softmax) => none.int("axis", softmax.axis),
        Op::MaskedSoftmax(MaskedSoftmax) => {
            return Err("a softmax with zeros for hidden rows is no single operator".to_owned());
        }
        Op::Recurrent(parameters) => recurrent(parameters)?,
        Op::Reduce(reduce) => none
            .flag("keepdims", reduce.keep_dims)
            .flag("noop_with_empty_axes", reduce.noop_with_empty_axes),
        Op::ArgReduce(reduce) => none
            .int("axis", reduce.axis)
            .flag("keepdims", reduce.keep_dims)
            .flag("select_last_index", reduce.select_last),
        Op::TopK(TopK {
            axis,
            largest,
            sorted,
        }) => none
            .int("axis", *axis)
            .flag("largest", *largest)
            .flag("sorted", *sorted),
        Op::CumSum(CumSum { exclusive, reverse }) => {
            none.flag("exclusive", *exclusive).flag("reverse", *reverse)
        }
        Op::Resize(parameters) => resize(parameters),
        Op::GridSample(GridSample {
            mode,
            padding,
            align_corners,
        }) => none
            .text("mode", interpolation(*mode))
            .text("padding_mode", grid_padding(*padding))
            .flag("align_corners", *align_corners),
        _ => movement(op),
    })
}

/// The attributes of operators that move elements or make tensors; those with none.
fn movement(op: &Op) -> Attributes<'_> {
    let none = Attributes::default();
    match op {
        Op::Reshape(Reshape { allow_zero }) => none.flag("allowzero", *allow_zero),
        Op::Transpose(Transpose { perm }) => {
            none.extents("perm", perm.as_deref().unwrap_or_default())
        }
        Op::Flatten(Flatten { axis })
        | Op::Concat(Concat { axis })
        | Op::Split(Split { axis })
        | Op::Gather(Gather { axis })
        | Op::GatherElements(GatherElements { axis })
        | Op::OneHot(OneHot { axis })
        | Op::QuantizeLinear(QuantizeLinear { axis })
        | Op::DequantizeLinear(DequantizeLinear { axis }) => none.int("axis", *axis),
        Op::GatherNd(GatherNd { batch_dims }) => none.int("batch_dims", *batch_dims as i64),
        Op::ScatterElements(ScatterElements { axis, reduction }) => none
            .int("axis", *axis)
            .text("reduction", scatter(*reduction)),
        Op::ScatterNd(ScatterNd { reduction }) => none.text("reduction", scatter(*reduction)),
        Op::Pad(Pad { mode }) => none.text(
            "mode",
            match mode {
                PadMode::Constant => "constant",
                PadMode::Reflect => "reflect",
                PadMode::Edge => "edge",
                PadMode::Wrap => "wrap",
            },
        ),
        Op::Shape(Shape { start, end }) => match end {
            Some(end) => none.int("start", *start).int("end", *end),
            None => none.int("start", *start),
        },
        Op::ConstantOfShape(ConstantOfShape { value }) => {
            let tensor = AttributeProto {
                t: Some(Box::new(write_tensor("", value))),
                ..AttributeProto::default()
            };
            none.with("value", kind::TENSOR, tensor)
        }
        Op::DepthToSpace(DepthToSpace { block, crd }) => none
            .int("blocksize", *block as i64)
            .text("mode", if *crd { "CRD" } else { "DCR" }),
        Op::SpaceToDepth(SpaceToDepth { block }) => none.int("blocksize", *block as i64),
        Op::Trilu(Trilu { upper }) => none.flag("upper", *upper),
        Op::EyeLike(EyeLike { dtype, k }) => match dtype {
            Some(dtype) => none.int("k", *k).int("dtype", i64::from(number_of(*dtype))),
            None => none.int("k", *k),
        },
        _ => none,
    }
}

fn unary(function: Unary) -> Attributes<'static> {
    let none = Attributes::default();
    match function {
        Unary::LeakyRelu { alpha }
        | Unary::ThresholdedRelu { alpha }
        | Unary::Elu { alpha }
        | Unary::Celu { alpha }
        | Unary::Swish { alpha } => none.float("alpha", alpha),
        Unary::Selu { alpha, gamma } => none.float("alpha", alpha).float("gamma", gamma),
        Unary::HardSigmoid { alpha, beta } => none.float("alpha", alpha).float("beta", beta),
        Unary::Gelu { tanh } => none.text("approximate", if tanh { "tanh" } else { "none" }),
        Unary::Shrink { lambda, bias } => none.float("lambd", lambda).float("bias", bias),
        _ => none,
    }
}

fn padding<'g>(attributes: Attributes<'g>, padding: &Padding) -> Attributes<'g> {
    match padding {
        Padding::Explicit(pads) => attributes.extents("pads", pads),
        Padding::SameUpper => attributes.text("auto_pad", "SAME_UPPER"),
        Padding::SameLower => attributes.text("auto_pad", "SAME_LOWER"),
        Padding::Valid => attributes.text("auto_pad", "VALID"),
    }
}

fn window(conv: &Conv) -> Attributes<'static> {
    let attributes = Attributes::default()
        .extents("strides", &conv.strides)
        .extents("dilations", &conv.dilations)
        .int("group", conv.groups as i64);
    padding(attributes, &conv.padding)
}

fn pool(pool: &Pool) -> Attributes<'static> {
    let attributes = Attributes::default()
        .extents("kernel_shape", &pool.kernel)
        .extents("strides", &pool.strides)
        .extents("dilations", &pool.dilations)
        .flag("ceil_mode", pool.ceil_mode);
    let attributes = match pool.kind {
        PoolKind::Max => attributes,
        PoolKind::Average => attributes.flag("count_include_pad", pool.count_include_pad),
    };
    padding(attributes, &pool.padding)
}

fn recurrent(parameters: &Recurrent) -> Result<Attributes<'static>, String> {
    let attributes = match parameters.cell {
        Cell::Gru {
            linear_before_reset,
        } => Attributes::default().flag("linear_before_reset", linear_before_reset),
        Cell::Rnn | Cell::Lstm => Attributes::default(),
    };
    let (mut names, mut alphas, mut betas) = (Vec::new(), Vec::new(), Vec::new());
    for activation in &parameters.activations {
        match *activation {
            Unary::Sigmoid | Unary::Tanh | Unary::Relu | Unary::Softsign | Unary::Softplus => {}
            Unary::Elu { alpha }
            | Unary::LeakyRelu { alpha }
            | Unary::ThresholdedRelu { alpha } => {
                alphas.push(alpha);
            }
            Unary::HardSigmoid { alpha, beta } => {
                alphas.push(alpha);
                betas.push(beta);
            }
            other => return Err(format!("{other:?} is no activation of a recurrent network")),
        }
        names.push(activation.name());
    }
    Ok(attributes
        .text(
            "direction",
            match parameters.direction {
                Direction::Forward => "forward",
                Direction::Reverse => "reverse",
                Direction::Bidirectional => "bidirectional",
            },
        )
        .int("hidden_size", parameters.hidden as i64)
        .flag("layout", parameters.batch_first)
        .texts("activations", names)
        .floats("activation_alpha", alphas)
        .floats("activation_beta", betas))
}

fn interpolation(mode: Interpolation) -> &'static str {
    match mode {
        Interpolation::Nearest => "nearest",
        Interpolation::Linear => "linear",
        Interpolation::Cubic => "cubic",
    }
}

fn grid_padding(padding: GridPadding) -> &'static str {
    match padding {
        GridPadding::Zeros => "zeros",
        GridPadding::Border => "border",
        GridPadding::Reflection => "reflection",
    }
}

fn resize(parameters: &Resize) -> Attributes<'static> {
    Attributes::default()
        .text("mode", interpolation(parameters.mode))
        .text(
            "coordinate_transformation_mode",
            match parameters.transform {
                CoordinateTransform::HalfPixel => "half_pixel",
                CoordinateTransform::HalfPixelSymmetric => "half_pixel_symmetric",
                CoordinateTransform::PytorchHalfPixel => "pytorch_half_pixel",
                CoordinateTransform::AlignCorners => "align_corners",
                CoordinateTransform::Asymmetric => "asymmetric",
                CoordinateTransform::TfCropAndResize => "tf_crop_and_resize",
            },
        )
        .text(
            "nearest_mode",
            match parameters.rounding {
                NearestRounding::RoundPreferFloor => "round_prefer_floor",
                NearestRounding::RoundPreferCeil => "round_prefer_ceil",
                NearestRounding::Floor => "floor",
                NearestRounding::Ceil => "ceil",
            },
        )
        .float("cubic_coeff_a", parameters.cubic_coeff)
        .flag("exclude_outside", parameters.exclude_outside)
        .float("extrapolation_value", parameters.extrapolation)
        .flag("antialias", parameters.antialias)
        .ints("axes", parameters.axes.clone().unwrap_or_default())
        .text(
            "keep_aspect_ratio_policy",
            match parameters.aspect {
                AspectRatio::Stretch => "stretch",
                AspectRatio::NotLarger => "not_larger",
                AspectRatio::NotSmaller => "not_smaller",
            },
        )
}

fn scatter(reduction: ScatterReduction) -> &'static str {
    match reduction {
        ScatterReduction::None => "none",
        ScatterReduction::Add => "add",
        ScatterReduction::Mul => "mul",
        ScatterReduction::Max => "max",
        ScatterReduction::Min => "min",
    }
}
