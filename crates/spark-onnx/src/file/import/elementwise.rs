//! Operators that work element by element.

use super::Translator;
use super::call::{Call, Translated};
use crate::ModelError;
use crate::file::tensors::dtype_of;
use crate::graph::{Binary, Cast, CastLike, Clip, Op, Unary, Variadic, Where};
use crate::tensor::DType;

pub(super) const OPERATORS: &[Translator] = &[
    ("Abs", unary),
    ("Acos", unary),
    ("Acosh", unary),
    ("Asin", unary),
    ("Asinh", unary),
    ("Atan", unary),
    ("Atanh", unary),
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
    ("Add", binary),
    ("And", binary),
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
    ("Max", variadic),
    ("Mean", variadic),
    ("Min", variadic),
    ("Sum", variadic),
    ("Where", select),
    ("Clip", clip),
    ("Cast", cast),
    ("CastLike", cast_like),
    ("Dropout", dropout),
];

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

/// Before operator set 7 a parameter said whether the second operand is broadcast, which follows
/// from the shapes; the one that said from which axis on is refused.
fn binary(call: &mut Call<'_, '_>) -> Translated {
    call.operands(2, 2)?;
    if call.opset() < 7 {
        call.ignore(&["broadcast"]);
    }
    let function = match call.op_type() {
        "Add" => Binary::Add,
        "And" => Binary::And,
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
            .and_then(dtype_of)
            .map(Some)
            .map_err(|reason| call.error(format!("attribute `{attribute}`: {reason}"))),
    }
}

fn cast(call: &mut Call<'_, '_>) -> Translated {
    call.operands(1, 1)?;
    // Both concern floats of 8 bits only.
    call.ignore(&["saturate", "round_mode"]);
    match stated_dtype(call, "to")? {
        Some(to) => call.finish_as_is(Op::Cast(Cast { to })),
        None => Err(call.error("attribute `to` is missing")),
    }
}

fn cast_like(call: &mut Call<'_, '_>) -> Translated {
    call.operands(2, 2)?;
    call.ignore(&["saturate", "round_mode"]);
    call.finish_as_is(Op::CastLike(CastLike))
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
        return Err(call.error("its mask is asked for, which is not supported"));
    }
    call.finish(Op::Unary(Unary::Identity), vec![Some(x)])
}
