//! Element-wise functions of one operand.

use super::numbers::{Numbers, from_floats, from_whole};
use super::operator::{Evaluate, Evaluated, Inputs, Working, make, one};
use crate::graph::{OpError, TensorType, Unary};
use crate::tensor::Tensor;

impl Evaluate for Unary {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| unary(*self, inputs, ty))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.computed()
    }
}

fn unary(f: Unary, inputs: Inputs<'_>, ty: &TensorType) -> Result<Tensor, OpError> {
    let x = inputs.get(0)?;
    if f == Unary::Identity {
        return make(ty, x.data().clone());
    }
    match Numbers::of(x) {
        Numbers::Float(values) => {
            from_floats(ty, values.into_iter().map(|x| on_float(f, x)).collect())
        }
        Numbers::Whole(values) => {
            let values = values
                .into_iter()
                .map(|x| on_whole(f, x))
                .collect::<Result<_, _>>()?;
            from_whole(ty, values)
        }
    }
}

fn on_whole(f: Unary, x: i128) -> Result<i128, OpError> {
    match f {
        Unary::Abs => Ok(x.abs()),
        Unary::Neg => Ok(-x),
        Unary::Sign => Ok(x.signum()),
        Unary::Relu => Ok(x.max(0)),
        Unary::Not => Ok(i128::from(x == 0)),
        Unary::BitwiseNot => Ok(!x),
        _ => Err(OpError {
            reason: format!("{} has no integer form", f.name()),
        }),
    }
}

/// `f(x)` in f64; a NaN stays one, unless `f` compares it.
pub(super) fn on_float(f: Unary, x: f64) -> f64 {
    match f {
        Unary::Identity => x,
        Unary::Abs => x.abs(),
        Unary::Neg => -x,
        Unary::Sign if x == 0.0 || x.is_nan() => x,
        Unary::Sign => x.signum(),
        Unary::Floor => x.floor(),
        Unary::Ceil => x.ceil(),
        Unary::Round => x.round_ties_even(),
        Unary::Reciprocal => 1.0 / x,
        Unary::Sqrt => x.sqrt(),
        Unary::Exp => x.exp(),
        Unary::Log => x.ln(),
        Unary::Sin => x.sin(),
        Unary::Cos => x.cos(),
        Unary::Tan => x.tan(),
        Unary::Asin => x.asin(),
        Unary::Acos => x.acos(),
        Unary::Atan => x.atan(),
        Unary::Sinh => x.sinh(),
        Unary::Cosh => x.cosh(),
        Unary::Asinh => x.asinh(),
        Unary::Acosh => x.acosh(),
        Unary::Atanh => x.atanh(),
        Unary::Erf => libm::erf(x),
        Unary::Not => truth(x == 0.0),
        Unary::BitwiseNot => f64::NAN,
        Unary::IsNaN => truth(x.is_nan()),
        Unary::IsInf => truth(x.is_infinite()),
        Unary::Relu => larger(x, 0.0),
        Unary::LeakyRelu { alpha } if x < 0.0 => f64::from(alpha) * x,
        Unary::LeakyRelu { .. } => x,
        // ONNX defines it by `alpha < x`, which is false of NaN.
        Unary::ThresholdedRelu { alpha } if x > f64::from(alpha) => x,
        Unary::ThresholdedRelu { .. } => 0.0,
        Unary::Elu { alpha } => elu(x, f64::from(alpha)),
        Unary::Selu { alpha, gamma } => f64::from(gamma) * elu(x, f64::from(alpha)),
        Unary::Celu { alpha } => {
            let alpha = f64::from(alpha);
            larger(x, 0.0) + smaller(alpha * (x / alpha).exp_m1(), 0.0)
        }
        Unary::Sigmoid => sigmoid(x),
        Unary::HardSigmoid { alpha, beta } => hard_sigmoid(x, f64::from(alpha), f64::from(beta)),
        Unary::HardSwish => x * hard_sigmoid(x, 1.0 / 6.0, 0.5),
        Unary::Tanh => x.tanh(),
        Unary::Softplus => softplus(x),
        Unary::Softsign => x / (1.0 + x.abs()),
        Unary::Mish => x * softplus(x).tanh(),
        // erfc keeps its digits where 1 + erf cancels.
        Unary::Gelu { tanh: false } => 0.5 * x * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2),
        Unary::Gelu { tanh: true } => {
            let slope = (2.0 / std::f64::consts::PI).sqrt();
            0.5 * x * (1.0 + (slope * (x + 0.044715 * x * x * x)).tanh())
        }
        Unary::Swish { alpha } => x * sigmoid(f64::from(alpha) * x),
        Unary::Shrink { lambda, bias } => {
            let (lambda, bias) = (f64::from(lambda), f64::from(bias));
            if x < -lambda {
                x + bias
            } else if x > lambda {
                x - bias
            } else {
                0.0
            }
        }
    }
}

fn truth(condition: bool) -> f64 {
    f64::from(u8::from(condition))
}

/// The larger of two, or NaN if one is; `f64::max` would drop the NaN.
pub(super) fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || a > b { a } else { b }
}

/// The smaller of two, or NaN if one is.
pub(super) fn smaller(a: f64, b: f64) -> f64 {
    if a.is_nan() || a < b { a } else { b }
}

fn elu(x: f64, alpha: f64) -> f64 {
    if x < 0.0 { alpha * x.exp_m1() } else { x }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn hard_sigmoid(x: f64, alpha: f64, beta: f64) -> f64 {
    larger(smaller(alpha * x + beta, 1.0), 0.0)
}

/// `ln(1 + e^x)` without overflow.
fn softplus(x: f64) -> f64 {
    larger(x, 0.0) + (-x.abs()).exp().ln_1p()
}
