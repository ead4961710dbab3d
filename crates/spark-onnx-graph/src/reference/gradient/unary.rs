//! Slopes of element-wise functions of one operand.
//!
//! Where a slope jumps, the value there is PyTorch's: of Abs 0, of Relu 0, of LeakyRelu and PRelu the slope of negative
//! numbers, as of Elu and Selu, of HardSigmoid, HardSwish, ThresholdedRelu and Shrink the outer side's. (Of HardSwish older versions
//! of PyTorch have the inner side's.)

use std::f64::consts::{FRAC_1_SQRT_2, PI};

use super::super::unary::on_float;
use super::kinds::{Asked, GradientKind};
use super::operator::{At, Differentiate, Differentiated};
use crate::graph::Unary;

impl Differentiate for Unary {
    fn kind(&self, _: Asked) -> GradientKind {
        match self {
            Self::Sign | Self::Floor | Self::Ceil | Self::Round => GradientKind::Zero,
            Self::Not | Self::IsNaN | Self::IsInf => GradientKind::Zero,
            Self::BitwiseNot => GradientKind::Refused("it computes with bits of integers"),
            _ => GradientKind::Computed,
        }
    }

    fn gradient(&self, at: &At<'_>, _: usize) -> Differentiated {
        let x = at.floats(0)?;
        let slopes = x.iter().map(|&x| slope(*self, x));
        Ok(slopes.zip(at.dy()?).map(|(slope, dy)| slope * dy).collect())
    }
}

/// `d f(x) / d x`.
pub(super) fn slope(f: Unary, x: f64) -> f64 {
    match f {
        Unary::Identity => 1.0,
        Unary::Abs if x == 0.0 => 0.0,
        Unary::Abs => x.signum(),
        Unary::Neg => -1.0,
        Unary::Sign | Unary::Floor | Unary::Ceil | Unary::Round => 0.0,
        Unary::Not | Unary::BitwiseNot | Unary::IsNaN | Unary::IsInf => 0.0,
        Unary::Reciprocal => -1.0 / (x * x),
        Unary::Sqrt => 0.5 / x.sqrt(),
        Unary::Exp => x.exp(),
        Unary::Log => 1.0 / x,
        Unary::Sin => x.cos(),
        Unary::Cos => -x.sin(),
        Unary::Tan => 1.0 + x.tan() * x.tan(),
        Unary::Asin => 1.0 / (1.0 - x * x).sqrt(),
        Unary::Acos => -1.0 / (1.0 - x * x).sqrt(),
        Unary::Atan => 1.0 / (1.0 + x * x),
        Unary::Sinh => x.cosh(),
        Unary::Cosh => x.sinh(),
        Unary::Asinh => 1.0 / (x * x + 1.0).sqrt(),
        Unary::Acosh => 1.0 / (x * x - 1.0).sqrt(),
        Unary::Atanh => 1.0 / (1.0 - x * x),
        Unary::Erf => 2.0 / PI.sqrt() * (-x * x).exp(),
        Unary::Relu => step(x, 0.0),
        Unary::LeakyRelu { alpha } if x <= 0.0 => alpha.into(),
        Unary::LeakyRelu { .. } => 1.0,
        Unary::ThresholdedRelu { alpha } => step(x, alpha.into()),
        Unary::Elu { alpha } => elu(x, alpha.into()),
        Unary::Selu { alpha, gamma } => f64::from(gamma) * elu(x, alpha.into()),
        Unary::Celu { alpha } if x <= 0.0 => (x / f64::from(alpha)).exp(),
        Unary::Celu { .. } => 1.0,
        Unary::Sigmoid => sigmoid(x) * (1.0 - sigmoid(x)),
        Unary::HardSigmoid { alpha, beta } => {
            let (alpha, line) = (f64::from(alpha), f64::from(alpha) * x + f64::from(beta));
            if line <= 0.0 || line >= 1.0 {
                0.0
            } else {
                alpha
            }
        }
        Unary::HardSwish if x <= -3.0 => 0.0,
        Unary::HardSwish if x >= 3.0 => 1.0,
        Unary::HardSwish => x / 3.0 + 0.5,
        Unary::Tanh => 1.0 - x.tanh() * x.tanh(),
        Unary::Softplus => sigmoid(x),
        Unary::Softsign => 1.0 / ((1.0 + x.abs()) * (1.0 + x.abs())),
        Unary::Mish => {
            let tanh = on_float(Unary::Softplus, x).tanh();
            tanh + x * (1.0 - tanh * tanh) * sigmoid(x)
        }
        Unary::Gelu { tanh: false } => {
            let density = (-x * x / 2.0).exp() / (2.0 * PI).sqrt();
            0.5 * libm::erfc(-x * FRAC_1_SQRT_2) + x * density
        }
        Unary::Gelu { tanh: true } => {
            let scale = (2.0 / PI).sqrt();
            let tanh = (scale * (x + 0.044715 * x * x * x)).tanh();
            let inner = scale * (1.0 + 3.0 * 0.044715 * x * x);
            0.5 * (1.0 + tanh) + 0.5 * x * (1.0 - tanh * tanh) * inner
        }
        Unary::Swish { alpha } => {
            let alpha = f64::from(alpha);
            let sigmoid = sigmoid(alpha * x);
            sigmoid + alpha * x * sigmoid * (1.0 - sigmoid)
        }
        Unary::Shrink { lambda, .. } => step(x.abs(), lambda.into()),
    }
}

/// 1 beyond the threshold, 0 at it and below. NaN is beyond, so that its gradient is what comes in, as in PyTorch.
fn step(x: f64, threshold: f64) -> f64 {
    if x <= threshold { 0.0 } else { 1.0 }
}

fn elu(x: f64, alpha: f64) -> f64 {
    if x <= 0.0 { alpha * x.exp() } else { 1.0 }
}

fn sigmoid(x: f64) -> f64 {
    on_float(Unary::Sigmoid, x)
}
