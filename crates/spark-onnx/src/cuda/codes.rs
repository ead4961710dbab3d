//! Element functions and instructions by the numbers that `kernels/plan_math.cuh` and `plan_elements.cu` know.

use super::refused::Refused;
use super::structures;
use crate::graph::Unary;
use crate::plan::{Activation, Instruction, PointOp, RegisterKind};

/// Registers of a program at most.
pub(super) const MOST_REGISTERS: usize = 24;

const CLAMP: u32 = 1;
const IDENTITY: u32 = 2;
const LOAD: u32 = 64;

/// A function and its parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Function {
    pub(super) code: u32,
    pub(super) a: f32,
    pub(super) b: f32,
}

impl Function {
    const fn plain(code: u32) -> Self {
        Self::of(code, 0.0, 0.0)
    }

    const fn of(code: u32, a: f32, b: f32) -> Self {
        Self { code, a, b }
    }
}

/// What stands behind a product.
pub(super) fn activation(activation: Activation) -> Result<Function, Refused> {
    match activation {
        Activation::None => Ok(Function::plain(0)),
        Activation::Clamp { low, high } => Ok(Function::of(CLAMP, low, high)),
        Activation::Function(op) => unary(op),
    }
}

fn unary(op: Unary) -> Result<Function, Refused> {
    let plain = |code| Ok(Function::plain(code));
    match op {
        Unary::Identity => plain(IDENTITY),
        Unary::Abs => plain(3),
        Unary::Neg => plain(4),
        Unary::Sign => plain(5),
        Unary::Floor => plain(6),
        Unary::Ceil => plain(7),
        Unary::Round => plain(8),
        Unary::Reciprocal => plain(9),
        Unary::Sqrt => plain(10),
        Unary::Exp => plain(11),
        Unary::Log => plain(12),
        Unary::Erf => plain(13),
        Unary::Not => plain(14),
        Unary::IsNaN => plain(15),
        Unary::IsInf => plain(16),
        Unary::Relu => plain(17),
        Unary::LeakyRelu { alpha } => Ok(Function::of(18, alpha, 0.0)),
        Unary::ThresholdedRelu { alpha } => Ok(Function::of(19, alpha, 0.0)),
        Unary::Elu { alpha } => Ok(Function::of(20, alpha, 0.0)),
        Unary::Selu { alpha, gamma } => Ok(Function::of(21, alpha, gamma)),
        Unary::Celu { alpha } => Ok(Function::of(22, alpha, 0.0)),
        Unary::Sigmoid => plain(23),
        Unary::HardSigmoid { alpha, beta } => Ok(Function::of(24, alpha, beta)),
        Unary::HardSwish => plain(25),
        Unary::Tanh => plain(26),
        Unary::Softplus => plain(27),
        Unary::Softsign => plain(28),
        Unary::Mish => plain(29),
        Unary::Gelu { tanh: false } => plain(30),
        Unary::Gelu { tanh: true } => plain(31),
        Unary::Swish { alpha } => Ok(Function::of(32, alpha, 0.0)),
        Unary::Shrink { lambda, bias } => Ok(Function::of(33, lambda, bias)),
        Unary::BitwiseNot => plain(34),
        Unary::Sin
        | Unary::Cos
        | Unary::Tan
        | Unary::Asin
        | Unary::Acos
        | Unary::Atan
        | Unary::Sinh
        | Unary::Cosh
        | Unary::Asinh
        | Unary::Acosh
        | Unary::Atanh => Refused::because(format!("no {op:?}")),
    }
}

/// Functions of integers among those of [`unary`].
fn is_of_integers(op: Unary) -> bool {
    matches!(
        op,
        Unary::Identity | Unary::Abs | Unary::Neg | Unary::Sign | Unary::Relu | Unary::BitwiseNot
    )
}

/// One instruction of a program of `n_registers` registers and `n_operands` operands.
pub(super) fn instruction(
    from: &Instruction,
    n_registers: usize,
    n_operands: usize,
) -> Result<structures::Instruction, Refused> {
    let is_integer = from.kind == RegisterKind::I64;
    let mut named = from.args.iter().chain([&from.to]);
    if !named.all(|&register| usize::from(register) < n_registers) {
        return Refused::because("a register that the program does not have");
    }
    let mut value = 0;
    let function = match from.op {
        PointOp::Load(operand) if usize::from(operand) < n_operands => {
            value = i64::from(operand);
            Function::plain(LOAD)
        }
        PointOp::Load(_) => return Refused::because("an operand that the step does not have"),
        PointOp::ConstantI64(constant) => {
            value = constant;
            Function::plain(66)
        }
        PointOp::Wrap { bits, signed } => {
            value = i64::from(bits) | i64::from(signed) << 8;
            Function::plain(93)
        }
        PointOp::Unary(op) if is_integer && !is_of_integers(op) => {
            return Refused::because(format!("no {op:?} of integers"));
        }
        PointOp::Unary(op) => unary(op)?,
        op => plain(op, is_integer)?,
    };
    Ok(structures::Instruction {
        code: function.code,
        is_integer: u32::from(is_integer),
        to: u32::from(from.to),
        args: from.args.map(u32::from),
        a: function.a,
        b: function.b,
        value,
    })
}

/// Operations whose numbers, at most, are two of f32.
fn plain(op: PointOp, is_integer: bool) -> Result<Function, Refused> {
    let code = match op {
        PointOp::ConstantF32(value) => return Ok(Function::of(65, value, 0.0)),
        PointOp::Clamp { low, high } if !is_integer => return Ok(Function::of(CLAMP, low, high)),
        PointOp::ToByte { low, high } if !is_integer => return Ok(Function::of(86, low, high)),
        PointOp::Add => 67,
        PointOp::Sub => 68,
        PointOp::Mul => 69,
        PointOp::Div => 70,
        PointOp::Pow if !is_integer => 71,
        PointOp::RemainderTruncated => 72,
        PointOp::RemainderFloored => 73,
        PointOp::PRelu if !is_integer => 74,
        PointOp::And if !is_integer => 75,
        PointOp::Or if !is_integer => 76,
        PointOp::Xor if !is_integer => 77,
        PointOp::BitAnd if is_integer => 78,
        PointOp::BitOr if is_integer => 79,
        PointOp::BitXor if is_integer => 80,
        PointOp::Equal => 81,
        PointOp::Less => 82,
        PointOp::LessOrEqual => 83,
        PointOp::Max => 84,
        PointOp::Min => 85,
        PointOp::Select => 87,
        PointOp::ToF32 if is_integer => 88,
        PointOp::ToI64 if !is_integer => 89,
        PointOp::ToBool => 90,
        PointOp::RoundF16 if !is_integer => 91,
        PointOp::RoundBf16 if !is_integer => 92,
        _ => {
            let kind = if is_integer { "integers" } else { "f32" };
            return Refused::because(format!("no {op:?} of {kind}"));
        }
    };
    Ok(Function::plain(code))
}
