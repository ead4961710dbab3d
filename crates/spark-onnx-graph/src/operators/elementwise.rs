//! Operators that work element by element.

use super::narrow::cast_to;
use super::operator::{Exported, Inferred, KnownDType, OPERATOR_SET, Operator};
use crate::ModelError;
use crate::file::export::attributes::Attributes;
use crate::file::export::nodes::NodeExport;
use crate::file::import::call::{Call, Translated, Translator};
use crate::file::tensors::{dtype_of, number_of};
use crate::graph::infer::{
    DIVIDED_BY_ZERO, Operands, check_bool, check_broadcasts_to, check_float, check_numeric,
    check_same_dtype, check_scalar, check_whole, one, op_error,
};
use crate::graph::{
    Binary, Cast, CastLike, Clip, ConstantOfShape, Op, Shape, Unary, Variadic, Where,
    broadcast_shapes,
};
use crate::tensor::{DType, Tensor};
use spark_onnx_proto::NarrowType;

/// Operators of a file that are short for others, or for a constant.
pub(super) const SPELLED_OUT: &[Translator] = &[("Dropout", dropout)];

impl Operator for Unary {
    const IMPORTS: &'static [Translator] = &[
        ("Abs", unary),
        ("Acos", unary),
        ("Acosh", unary),
        ("Asin", unary),
        ("Asinh", unary),
        ("Atan", unary),
        ("Atanh", unary),
        ("BitwiseNot", unary),
        ("Ceil", unary),
        ("Cos", unary),
        ("Cosh", unary),
        ("Erf", unary),
        ("Exp", unary),
        ("Floor", unary),
        ("HardSwish", unary),
        ("Identity", unary),
        ("IsNaN", unary),
        ("Log", unary),
        ("Mish", unary),
        ("Neg", unary),
        ("Not", unary),
        ("Reciprocal", unary),
        ("Relu", unary),
        ("Round", unary),
        ("Sigmoid", unary),
        ("Sign", unary),
        ("Sin", unary),
        ("Sinh", unary),
        ("Softplus", unary),
        ("Softsign", unary),
        ("Sqrt", unary),
        ("Tan", unary),
        ("Tanh", unary),
        ("Celu", parametric),
        ("Elu", parametric),
        ("Gelu", parametric),
        ("HardSigmoid", parametric),
        ("LeakyRelu", parametric),
        ("Selu", parametric),
        ("Shrink", parametric),
        ("Swish", parametric),
        ("ThresholdedRelu", parametric),
        ("IsInf", is_inf),
    ];

    fn name(&self) -> &'static str {
        Self::name(self)
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(1, 1, 1)?;
        let x = operands.required(0, "x")?;
        match *self {
            Unary::Identity => {}
            Unary::Not => check_bool("x", &x)?,
            Unary::BitwiseNot => check_whole("x", &x)?,
            Unary::Abs | Unary::Sign | Unary::Relu => check_numeric("x", &x)?,
            Unary::Neg => {
                check_numeric("x", &x)?;
                if matches!(x.dtype, DType::U8 | DType::U16 | DType::U32 | DType::U64) {
                    return Err(op_error!("`x` is {}, wanted a signed type", x.dtype));
                }
            }
            _ => check_float("x", &x)?,
        }
        let dtype = match *self {
            Unary::IsNaN | Unary::IsInf => DType::Bool,
            _ => x.dtype,
        };
        one(dtype, x.shape)
    }

    fn result_dtype(&self, _: usize, operand: KnownDType<'_>) -> Option<DType> {
        match self {
            Self::IsNaN | Self::IsInf => Some(DType::Bool),
            _ => operand(0),
        }
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(unary_attributes(*self))
    }

    fn operator_set(&self) -> i64 {
        match self {
            Self::Swish { .. } => 24,
            _ => OPERATOR_SET,
        }
    }
}

impl Operator for Binary {
    const IMPORTS: &'static [Translator] = &[
        ("Add", binary),
        ("And", binary),
        ("BitShift", binary),
        ("BitwiseAnd", binary),
        ("BitwiseOr", binary),
        ("BitwiseXor", binary),
        ("Div", binary),
        ("Equal", binary),
        ("Greater", binary),
        ("GreaterOrEqual", binary),
        ("Less", binary),
        ("LessOrEqual", binary),
        ("Mod", binary),
        ("Mul", binary),
        ("Or", binary),
        ("PRelu", binary),
        ("Pow", binary),
        ("Sub", binary),
        ("Xor", binary),
    ];

    fn name(&self) -> &'static str {
        Self::name(self)
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(2, 2, 1)?;
        let a = operands.required(0, "a")?;
        let b = operands.required(1, "b")?;
        match *self {
            Binary::And | Binary::Or | Binary::Xor => check_bool("a", &a)?,
            Binary::Equal => {}
            Binary::BitwiseAnd
            | Binary::BitwiseOr
            | Binary::BitwiseXor
            | Binary::BitShift { .. } => check_whole("a", &a)?,
            _ => check_numeric("a", &a)?,
        }
        match *self {
            Binary::Pow => check_numeric("b", &b)?,
            _ => check_same_dtype("b", &b, a.dtype)?,
        }
        if *self == Binary::PRelu {
            check_broadcasts_to("slope", b.shape, a.shape)?;
        }
        let dtype = match *self {
            Binary::And
            | Binary::Or
            | Binary::Xor
            | Binary::Equal
            | Binary::Less
            | Binary::LessOrEqual
            | Binary::Greater
            | Binary::GreaterOrEqual => DType::Bool,
            _ => a.dtype,
        };
        let shape = broadcast_shapes(a.shape, b.shape)?;
        // Every element of the divisor meets one of the result.
        let divides = matches!(*self, Binary::Div | Binary::Mod { .. }) && !a.dtype.is_float();
        let has_zero = |t: &Tensor| t.to_f64().contains(&0.0);
        if divides && !shape.contains(&0) && b.constant.is_some_and(has_zero) {
            return Err(op_error!("{DIVIDED_BY_ZERO}"));
        }
        one(dtype, shape)
    }

    fn result_dtype(&self, _: usize, operand: KnownDType<'_>) -> Option<DType> {
        match self {
            Self::Equal | Self::Less | Self::LessOrEqual | Self::Greater | Self::GreaterOrEqual => {
                Some(DType::Bool)
            }
            _ => operand(0),
        }
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(match *self {
            Self::Mod { fmod } => Attributes::default().flag("fmod", fmod),
            Self::BitShift { right } => {
                let direction = if right { "RIGHT" } else { "LEFT" };
                Attributes::default().text("direction", direction)
            }
            _ => Attributes::default(),
        })
    }

    /// Floats have the divisor's sign from operator set 28 on only, which no file is written in.
    fn export<'g>(&'g self, node: &mut NodeExport<'_, 'g>) -> Result<(), String> {
        let floored = *self == Self::Mod { fmod: false };
        if floored && node.first_dtype.is_some_and(DType::is_float) {
            return Err("a floored remainder of floats needs operator set 28".to_owned());
        }
        node.finish(self.name(), self.attributes()?)
    }
}

impl Operator for Variadic {
    const IMPORTS: &'static [Translator] = &[
        ("Max", variadic),
        ("Mean", variadic),
        ("Min", variadic),
        ("Sum", variadic),
    ];

    fn name(&self) -> &'static str {
        Self::name(self)
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(1, usize::MAX, 1)?;
        let first = operands.required(0, "x0")?;
        match *self {
            Variadic::Sum | Variadic::Mean => check_float("x0", &first)?,
            Variadic::Max | Variadic::Min => check_numeric("x0", &first)?,
        }
        let mut shape = first.shape.to_vec();
        for index in 1..operands.list.len() {
            let x = operands.required(index, "x")?;
            check_same_dtype("x", &x, first.dtype)?;
            shape = broadcast_shapes(&shape, x.shape)?;
        }
        one(first.dtype, shape)
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(Attributes::default())
    }
}

impl Operator for Where {
    const IMPORTS: &'static [Translator] = &[("Where", select)];

    fn name(&self) -> &'static str {
        "Where"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(3, 3, 1)?;
        let condition = operands.required(0, "condition")?;
        let a = operands.required(1, "a")?;
        let b = operands.required(2, "b")?;
        check_bool("condition", &condition)?;
        if a.dtype != b.dtype {
            return Err(op_error!("`a` is {} but `b` is {}", a.dtype, b.dtype));
        }
        let values = broadcast_shapes(a.shape, b.shape)?;
        one(a.dtype, broadcast_shapes(condition.shape, &values)?)
    }

    fn result_dtype(&self, _: usize, operand: KnownDType<'_>) -> Option<DType> {
        operand(1)
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(Attributes::default())
    }
}

impl Operator for Clip {
    const IMPORTS: &'static [Translator] = &[("Clip", clip)];

    fn name(&self) -> &'static str {
        "Clip"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(1, 3, 1)?;
        let x = operands.required(0, "x")?;
        check_numeric("x", &x)?;
        for (index, what) in [(1, "min"), (2, "max")] {
            if let Some(bound) = operands.optional(index) {
                check_same_dtype(what, &bound, x.dtype)?;
                check_scalar(what, &bound)?;
            }
        }
        one(x.dtype, x.shape)
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(Attributes::default())
    }
}

impl Operator for Cast {
    const IMPORTS: &'static [Translator] = &[("Cast", cast)];

    fn name(&self) -> &'static str {
        "Cast"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(1, 1, 1)?;
        one(self.to, operands.required(0, "x")?.shape)
    }

    fn result_dtype(&self, _: usize, _: KnownDType<'_>) -> Option<DType> {
        Some(self.to)
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(Attributes::default().int("to", i64::from(number_of(self.to))))
    }
}

impl Operator for CastLike {
    const IMPORTS: &'static [Translator] = &[("CastLike", cast_like)];

    fn name(&self) -> &'static str {
        "CastLike"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(2, 2, 1)?;
        let like = operands.required(1, "like")?;
        one(like.dtype, operands.required(0, "x")?.shape)
    }

    fn result_dtype(&self, _: usize, operand: KnownDType<'_>) -> Option<DType> {
        operand(1)
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(Attributes::default())
    }
}

/// Functions of one operand without parameters, by name.
fn plain_unary(name: &str) -> Option<Unary> {
    Some(match name {
        "Abs" => Unary::Abs,
        "Acos" => Unary::Acos,
        "Acosh" => Unary::Acosh,
        "Asin" => Unary::Asin,
        "Asinh" => Unary::Asinh,
        "Atan" => Unary::Atan,
        "Atanh" => Unary::Atanh,
        "BitwiseNot" => Unary::BitwiseNot,
        "Ceil" => Unary::Ceil,
        "Cos" => Unary::Cos,
        "Cosh" => Unary::Cosh,
        "Erf" => Unary::Erf,
        "Exp" => Unary::Exp,
        "Floor" => Unary::Floor,
        "HardSwish" => Unary::HardSwish,
        "Identity" => Unary::Identity,
        "IsNaN" => Unary::IsNaN,
        "Log" => Unary::Log,
        "Mish" => Unary::Mish,
        "Neg" => Unary::Neg,
        "Not" => Unary::Not,
        "Reciprocal" => Unary::Reciprocal,
        "Relu" => Unary::Relu,
        "Round" => Unary::Round,
        "Sigmoid" => Unary::Sigmoid,
        "Sign" => Unary::Sign,
        "Sin" => Unary::Sin,
        "Sinh" => Unary::Sinh,
        "Softplus" => Unary::Softplus,
        "Softsign" => Unary::Softsign,
        "Sqrt" => Unary::Sqrt,
        "Tan" => Unary::Tan,
        "Tanh" => Unary::Tanh,
        _ => return None,
    })
}

fn unary(call: &mut Call<'_, '_>) -> Translated {
    call.operands(1, 1)?;
    match plain_unary(call.op_type()) {
        Some(function) => call.finish_as_is(Op::Unary(function)),
        None => Err(call.error("it is no function of one operand")),
    }
}

/// Functions of one operand with parameters, or their defaults.
fn parametric(call: &mut Call<'_, '_>) -> Translated {
    if call.op_type() == "Selu" {
        call.form_since(6)?;
    }
    call.operands(1, 1)?;
    let function = match call.op_type() {
        "Celu" => Unary::Celu {
            alpha: call.float_or("alpha", 1.0)?,
        },
        "Elu" => Unary::Elu {
            alpha: call.float_or("alpha", 1.0)?,
        },
        "Gelu" => Unary::Gelu {
            tanh: call.choice("approximate", false, &[("none", false), ("tanh", true)])?,
        },
        "HardSigmoid" => Unary::HardSigmoid {
            alpha: call.float_or("alpha", 0.2)?,
            beta: call.float_or("beta", 0.5)?,
        },
        "LeakyRelu" => Unary::LeakyRelu {
            alpha: call.float_or("alpha", 0.01)?,
        },
        "Selu" => Unary::Selu {
            alpha: call.float_or("alpha", 1.673_263_2)?,
            gamma: call.float_or("gamma", 1.050_701)?,
        },
        "Shrink" => Unary::Shrink {
            lambda: call.float_or("lambd", 0.5)?,
            bias: call.float_or("bias", 0.0)?,
        },
        "Swish" => Unary::Swish {
            alpha: call.float_or("alpha", 1.0)?,
        },
        "ThresholdedRelu" => Unary::ThresholdedRelu {
            alpha: call.float_or("alpha", 1.0)?,
        },
        _ => return Err(call.error("it is no function of one operand")),
    };
    call.finish_as_is(Op::Unary(function))
}

/// One sign only is a comparison with that infinity.
fn is_inf(call: &mut Call<'_, '_>) -> Translated {
    call.operands(1, 1)?;
    let x = call.required(0)?;
    let negative = call.flag("detect_negative", true)?;
    let positive = call.flag("detect_positive", true)?;
    let wanted = match (negative, positive) {
        (true, true) => return call.finish_as_is(Op::Unary(Unary::IsInf)),
        (true, false) => f64::NEG_INFINITY,
        (false, true) => f64::INFINITY,
        (false, false) => return Err(call.error("it detects neither infinity")),
    };
    let infinity = call.scalar_like("infinity", wanted, x)?;
    call.finish(Op::Binary(Binary::Equal), vec![Some(x), Some(infinity)])
}

/// Whether the bits of a shift go to the right.
const DIRECTIONS: &[(&str, Option<bool>)] = &[("LEFT", Some(false)), ("RIGHT", Some(true))];

/// Before operator set 7 a parameter said whether the second operand is broadcast, which follows
/// from the shapes; the one that said from which axis on is refused.
fn binary(call: &mut Call<'_, '_>) -> Translated {
    if call.op_type() == "PRelu" {
        call.form_since(7)?;
    }
    call.operands(2, 2)?;
    if call.opset() < 7 {
        call.ignore(&["broadcast"]);
    }
    let function = match call.op_type() {
        "Add" => Binary::Add,
        "And" => Binary::And,
        "BitShift" => match call.choice("direction", None, DIRECTIONS)? {
            Some(right) => Binary::BitShift { right },
            None => return Err(call.error("attribute `direction` is missing")),
        },
        "BitwiseAnd" => Binary::BitwiseAnd,
        "BitwiseOr" => Binary::BitwiseOr,
        "BitwiseXor" => Binary::BitwiseXor,
        "Div" => Binary::Div,
        "Equal" => Binary::Equal,
        "Greater" => Binary::Greater,
        "GreaterOrEqual" => Binary::GreaterOrEqual,
        "Less" => Binary::Less,
        "LessOrEqual" => Binary::LessOrEqual,
        "Mod" => Binary::Mod {
            fmod: call.flag("fmod", false)?,
        },
        "Mul" => Binary::Mul,
        "Or" => Binary::Or,
        "PRelu" => Binary::PRelu,
        "Pow" => Binary::Pow,
        "Sub" => Binary::Sub,
        "Xor" => Binary::Xor,
        _ => return Err(call.error("it is no function of two operands")),
    };
    let is_float = |id| call.builder.dtype(id).is_some_and(DType::is_float);
    let floored = function == Binary::Mod { fmod: false };
    if floored && call.opset() < 28 && call.input(0).is_some_and(is_float) {
        return Err(call.error("floats need attribute `fmod` before operator set 28"));
    }
    call.finish_as_is(Op::Binary(function))
}

fn variadic(call: &mut Call<'_, '_>) -> Translated {
    call.form_since(6)?;
    let count = call.inputs().len();
    call.operands(count.max(1), usize::MAX)?;
    let function = match call.op_type() {
        "Max" => Variadic::Max,
        "Mean" => Variadic::Mean,
        "Min" => Variadic::Min,
        "Sum" => Variadic::Sum,
        _ => return Err(call.error("it is no function of many operands")),
    };
    call.finish_as_is(Op::Variadic(function))
}

fn select(call: &mut Call<'_, '_>) -> Translated {
    call.operands(3, 3)?;
    call.finish_as_is(Op::Where(Where))
}

/// Bounds are parameters before operator set 11.
fn clip(call: &mut Call<'_, '_>) -> Translated {
    if call.opset() >= 11 {
        call.operands(1, 3)?;
        return call.finish_as_is(Op::Clip(Clip));
    }
    call.operands(1, 1)?;
    let x = call.required(0)?;
    let mut inputs = vec![Some(x)];
    for name in ["min", "max"] {
        let bound = call.float(name)?;
        inputs.push(match bound {
            Some(bound) => Some(call.scalar_like(name, f64::from(bound), x)?),
            None => None,
        });
    }
    while inputs.last() == Some(&None) {
        inputs.pop();
    }
    call.finish(Op::Clip(Clip), inputs)
}

/// The type a parameter states by its number in `onnx.proto`.
pub(super) fn stated_dtype(
    call: &Call<'_, '_>,
    attribute: &str,
) -> Result<Option<DType>, ModelError> {
    match call.int(attribute)? {
        None => Ok(None),
        Some(number) => i32::try_from(number)
            .map_err(|_| format!("element type {number} does not exist"))
            .and_then(|number| dtype_of(number).map_err(|problem| problem.to_string()))
            .map(Some)
            .map_err(|reason| call.error(format!("attribute `{attribute}`: {reason}"))),
    }
}

/// The type a parameter states, if that is one that is held as a wider one.
pub(super) fn stated_narrow(
    call: &Call<'_, '_>,
    attribute: &str,
) -> Result<Option<NarrowType>, ModelError> {
    let number = call.int(attribute)?;
    let number = number.and_then(|number| i32::try_from(number).ok());
    Ok(number.and_then(NarrowType::from_number))
}

fn cast(call: &mut Call<'_, '_>) -> Translated {
    call.form_since(6)?;
    call.operands(1, 1)?;
    call.ignore(&["round_mode"]);
    let saturate = call.flag("saturate", true)?;
    if let Some(narrow) = stated_narrow(call, "to")? {
        return cast_to(call, narrow, saturate);
    }
    match stated_dtype(call, "to")? {
        Some(to) => call.finish_as_is(Op::Cast(Cast { to })),
        None => Err(call.error("attribute `to` is missing")),
    }
}

fn cast_like(call: &mut Call<'_, '_>) -> Translated {
    call.operands(2, 2)?;
    call.ignore(&["round_mode"]);
    let saturate = call.flag("saturate", true)?;
    match call.narrow(1) {
        Some(narrow) => cast_to(call, narrow, saturate),
        None => call.finish_as_is(Op::CastLike(CastLike)),
    }
}

/// Inference drops nothing, so the mask, where asked for, is all true.
fn dropout(call: &mut Call<'_, '_>) -> Translated {
    call.operands(1, 3)?;
    call.ignore(&["ratio", "seed"]);
    if call.opset() < 7 && !call.flag("is_test", false)? {
        return Err(call.error("training mode is not supported"));
    }
    let x = call.required(0)?;
    if call.input(2).is_some() {
        let training = call
            .constant(2)
            .map(|t| t.to_f64().iter().any(|&v| v != 0.0));
        if training != Some(false) {
            return Err(call.error("training mode is not supported"));
        }
    }
    if call.wants(1) {
        let whole = Shape {
            start: 0,
            end: None,
        };
        let shape = call.step(Op::Shape(whole), &[Some(x)])?;
        let value = Tensor::from_f64(DType::Bool, [1], vec![1.0])?;
        let ones = Op::ConstantOfShape(ConstantOfShape { value });
        // Before operator set 10 the mask had the element type of the data.
        if call.opset() >= 10 {
            call.finish_result(1, ones, vec![Some(shape)])?;
        } else {
            let ones = call.step(ones, &[Some(shape)])?;
            call.finish_result(1, Op::CastLike(CastLike), vec![Some(ones), Some(x)])?;
        }
    }
    call.finish_value(0, x)
}

fn unary_attributes(function: Unary) -> Attributes<'static> {
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

impl Unary {
    /// The operator's name in the ONNX specification.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Identity => "Identity",
            Self::Abs => "Abs",
            Self::Neg => "Neg",
            Self::Sign => "Sign",
            Self::Floor => "Floor",
            Self::Ceil => "Ceil",
            Self::Round => "Round",
            Self::Reciprocal => "Reciprocal",
            Self::Sqrt => "Sqrt",
            Self::Exp => "Exp",
            Self::Log => "Log",
            Self::Sin => "Sin",
            Self::Cos => "Cos",
            Self::Tan => "Tan",
            Self::Asin => "Asin",
            Self::Acos => "Acos",
            Self::Atan => "Atan",
            Self::Sinh => "Sinh",
            Self::Cosh => "Cosh",
            Self::Asinh => "Asinh",
            Self::Acosh => "Acosh",
            Self::Atanh => "Atanh",
            Self::Erf => "Erf",
            Self::Not => "Not",
            Self::BitwiseNot => "BitwiseNot",
            Self::IsNaN => "IsNaN",
            Self::IsInf => "IsInf",
            Self::Relu => "Relu",
            Self::LeakyRelu { .. } => "LeakyRelu",
            Self::ThresholdedRelu { .. } => "ThresholdedRelu",
            Self::Elu { .. } => "Elu",
            Self::Selu { .. } => "Selu",
            Self::Celu { .. } => "Celu",
            Self::Sigmoid => "Sigmoid",
            Self::HardSigmoid { .. } => "HardSigmoid",
            Self::HardSwish => "HardSwish",
            Self::Tanh => "Tanh",
            Self::Softplus => "Softplus",
            Self::Softsign => "Softsign",
            Self::Mish => "Mish",
            Self::Gelu { .. } => "Gelu",
            Self::Swish { .. } => "Swish",
            Self::Shrink { .. } => "Shrink",
        }
    }
}

impl Binary {
    /// The operator's name in the ONNX specification.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Add => "Add",
            Self::Sub => "Sub",
            Self::Mul => "Mul",
            Self::Div => "Div",
            Self::Pow => "Pow",
            Self::Mod { .. } => "Mod",
            Self::PRelu => "PRelu",
            Self::And => "And",
            Self::Or => "Or",
            Self::Xor => "Xor",
            Self::BitwiseAnd => "BitwiseAnd",
            Self::BitwiseOr => "BitwiseOr",
            Self::BitwiseXor => "BitwiseXor",
            Self::BitShift { .. } => "BitShift",
            Self::Equal => "Equal",
            Self::Less => "Less",
            Self::LessOrEqual => "LessOrEqual",
            Self::Greater => "Greater",
            Self::GreaterOrEqual => "GreaterOrEqual",
        }
    }
}

impl Variadic {
    /// The operator's name in the ONNX specification.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Sum => "Sum",
            Self::Mean => "Mean",
            Self::Max => "Max",
            Self::Min => "Min",
        }
    }
}
