//! Element-wise functions of one operand: `dx = dy * f'(x)`, with the result where it is of use.
//!
//! Where a slope jumps, the value there is the reference's (`reference/gradient/unary.rs`).

use std::f64::consts::{FRAC_1_SQRT_2, PI};

use super::operator::{At, Backward};
use crate::building::{Builder, Built};
use crate::graph::infer::op_error;
use crate::graph::{Binary, Unary, ValueId};

impl Backward for Unary {
    fn backward(&self, at: &mut At<'_>, _: usize) -> Built {
        let (x, y, dy) = (at.operand(0)?, at.result()?, at.dy()?);
        gradient(*self, at.builder, x, y, dy)
    }
}

fn gradient(f: Unary, b: &mut Builder, x: ValueId, y: ValueId, dy: ValueId) -> Built {
    match f {
        Unary::Identity => Ok(dy),
        Unary::Neg => b.unary(Unary::Neg, dy),
        Unary::Abs => {
            let sign = b.unary(Unary::Sign, x)?;
            b.mul(dy, sign)
        }
        Unary::Reciprocal => {
            let square = b.square(y)?;
            let slope = b.unary(Unary::Neg, square)?;
            b.mul(dy, slope)
        }
        Unary::Sqrt => {
            let half = b.times(dy, 0.5)?;
            b.div(half, y)
        }
        Unary::Exp => b.mul(dy, y),
        Unary::Log => b.div(dy, x),
        // By its result, which is there anyway: where it is above zero, so is the operand.
        Unary::Relu => {
            let is_off = b.compare(Binary::LessOrEqual, y, 0.0)?;
            b.keep_unless(is_off, dy, 0.0)
        }
        Unary::LeakyRelu { alpha } => {
            let is_off = b.compare(Binary::LessOrEqual, x, 0.0)?;
            let leaked = b.times(dy, alpha.into())?;
            b.select(is_off, leaked, dy)
        }
        Unary::ThresholdedRelu { alpha } => {
            let is_off = b.compare(Binary::LessOrEqual, x, alpha.into())?;
            b.keep_unless(is_off, dy, 0.0)
        }
        Unary::HardSigmoid { alpha, beta } => {
            let line = b.times(x, alpha.into())?;
            let line = b.add_number(line, beta.into())?;
            let slope = b.times(dy, alpha.into())?;
            within(b, line, (0.0, 1.0), slope)
        }
        Unary::HardSwish => {
            let slope = b.times(x, 1.0 / 3.0)?;
            let slope = b.add_number(slope, 0.5)?;
            let is_on = b.compare(Binary::GreaterOrEqual, x, 3.0)?;
            let slope = b.keep_unless(is_on, slope, 1.0)?;
            let is_off = b.compare(Binary::LessOrEqual, x, -3.0)?;
            let slope = b.keep_unless(is_off, slope, 0.0)?;
            b.mul(dy, slope)
        }
        Unary::Shrink { lambda, .. } => {
            let size = b.unary(Unary::Abs, x)?;
            let is_off = b.compare(Binary::LessOrEqual, size, lambda.into())?;
            b.keep_unless(is_off, dy, 0.0)
        }
        Unary::Sign | Unary::Floor | Unary::Ceil | Unary::Round => Err(no_slope()),
        Unary::Not | Unary::BitwiseNot | Unary::IsNaN | Unary::IsInf => Err(no_slope()),
        smooth => {
            let slope = slope(smooth, b, x, y)?;
            b.mul(dy, slope)
        }
    }
}

fn no_slope() -> crate::graph::OpError {
    op_error!("its slope is zero wherever it has one")
}

/// `dy` where `low < x < high`, 0 elsewhere.
fn within(b: &mut Builder, x: ValueId, (low, high): (f64, f64), dy: ValueId) -> Built {
    let is_low = b.compare(Binary::LessOrEqual, x, low)?;
    let is_high = b.compare(Binary::GreaterOrEqual, x, high)?;
    let is_out = b.binary(Binary::Or, is_low, is_high)?;
    b.keep_unless(is_out, dy, 0.0)
}

/// `d f(x) / d x` of functions that need more than the gradient that comes in.
fn slope(f: Unary, b: &mut Builder, x: ValueId, y: ValueId) -> Built {
    match f {
        Unary::Sin => b.unary(Unary::Cos, x),
        Unary::Cos => {
            let sin = b.unary(Unary::Sin, x)?;
            b.unary(Unary::Neg, sin)
        }
        Unary::Tan => {
            let square = b.square(y)?;
            b.add_number(square, 1.0)
        }
        Unary::Tanh => {
            let square = b.square(y)?;
            b.number_less(1.0, square)
        }
        Unary::Asin | Unary::Acos => {
            let square = b.square(x)?;
            let rest = b.number_less(1.0, square)?;
            let root = b.unary(Unary::Sqrt, rest)?;
            let sign = if matches!(f, Unary::Asin) { 1.0 } else { -1.0 };
            let sign = b.number(sign, x)?;
            b.div(sign, root)
        }
        Unary::Atan | Unary::Atanh => {
            let square = b.square(x)?;
            let divisor = match f {
                Unary::Atan => b.add_number(square, 1.0)?,
                _ => b.number_less(1.0, square)?,
            };
            b.unary(Unary::Reciprocal, divisor)
        }
        Unary::Sinh => b.unary(Unary::Cosh, x),
        Unary::Cosh => b.unary(Unary::Sinh, x),
        Unary::Asinh | Unary::Acosh => {
            let square = b.square(x)?;
            let one = if matches!(f, Unary::Asinh) { 1.0 } else { -1.0 };
            let sum = b.add_number(square, one)?;
            let root = b.unary(Unary::Sqrt, sum)?;
            b.unary(Unary::Reciprocal, root)
        }
        Unary::Erf => {
            let density = bell(b, x, 1.0)?;
            b.times(density, 2.0 / PI.sqrt())
        }
        // By the result, where its sign says that of the operand.
        Unary::Elu { alpha } if alpha > 0.0 => line_below(b, y, (1.0, alpha.into()), 1.0),
        Unary::Selu { alpha, gamma } if alpha > 0.0 && gamma > 0.0 => {
            let below = f64::from(alpha) * f64::from(gamma);
            line_below(b, y, (1.0, below), gamma.into())
        }
        Unary::Celu { alpha } if alpha > 0.0 => {
            line_below(b, y, (1.0 / f64::from(alpha), 1.0), 1.0)
        }
        Unary::Elu { alpha } => exponential_below(b, x, alpha.into(), 1.0, 1.0),
        Unary::Selu { alpha, gamma } => {
            exponential_below(b, x, f64::from(alpha) * f64::from(gamma), 1.0, gamma.into())
        }
        Unary::Celu { alpha } => exponential_below(b, x, 1.0, alpha.into(), 1.0),
        Unary::Sigmoid => bump(b, y),
        Unary::Softplus => b.unary(Unary::Sigmoid, x),
        Unary::Softsign => {
            let size = b.unary(Unary::Abs, x)?;
            let size = b.add_number(size, 1.0)?;
            let square = b.square(size)?;
            b.unary(Unary::Reciprocal, square)
        }
        Unary::Mish => {
            let softplus = b.unary(Unary::Softplus, x)?;
            let tanh = b.unary(Unary::Tanh, softplus)?;
            let square = b.square(tanh)?;
            let rest = b.number_less(1.0, square)?;
            let sigmoid = b.unary(Unary::Sigmoid, x)?;
            let rest = b.mul(rest, sigmoid)?;
            let rest = b.mul(rest, x)?;
            b.add(tanh, rest)
        }
        Unary::Gelu { tanh: false } => {
            let scaled = b.times(x, FRAC_1_SQRT_2)?;
            let erf = b.unary(Unary::Erf, scaled)?;
            let share = b.add_number(erf, 1.0)?;
            let share = b.times(share, 0.5)?;
            let density = bell(b, x, 0.5)?;
            let density = b.times(density, 1.0 / (2.0 * PI).sqrt())?;
            let rest = b.mul(x, density)?;
            b.add(share, rest)
        }
        Unary::Gelu { tanh: true } => {
            let (scale, cubic) = ((2.0 / PI).sqrt(), 0.044715);
            let square = b.square(x)?;
            let inner = b.times(square, scale * cubic)?;
            let inner = b.add_number(inner, scale)?;
            let inner = b.mul(inner, x)?;
            let tanh = b.unary(Unary::Tanh, inner)?;
            let by_inner = b.times(square, 3.0 * scale * cubic)?;
            let by_inner = b.add_number(by_inner, scale)?;
            let steepness = b.square(tanh)?;
            let steepness = b.number_less(1.0, steepness)?;
            let rest = b.mul(x, steepness)?;
            let rest = b.mul(rest, by_inner)?;
            let share = b.add_number(tanh, 1.0)?;
            let sum = b.add(share, rest)?;
            b.times(sum, 0.5)
        }
        Unary::Swish { alpha } => {
            let scaled = b.times(x, alpha.into())?;
            let sigmoid = b.unary(Unary::Sigmoid, scaled)?;
            let rest = bump(b, sigmoid)?;
            let rest = b.mul(rest, scaled)?;
            b.add(sigmoid, rest)
        }
        _ => Err(no_slope()),
    }
}

/// `s * (1 - s)`.
fn bump(b: &mut Builder, s: ValueId) -> Built {
    let rest = b.number_less(1.0, s)?;
    b.mul(s, rest)
}

/// `exp(-factor * x^2)`.
fn bell(b: &mut Builder, x: ValueId, factor: f64) -> Built {
    let square = b.square(x)?;
    let exponent = b.times(square, -factor)?;
    b.unary(Unary::Exp, exponent)
}

/// `factor * y + shift` up to 0, `above` beyond.
fn line_below(b: &mut Builder, y: ValueId, (factor, shift): (f64, f64), above: f64) -> Built {
    let is_below = b.compare(Binary::LessOrEqual, y, 0.0)?;
    let slope = b.times(y, factor)?;
    let slope = b.add_number(slope, shift)?;
    b.keep_where(is_below, slope, above)
}

/// `factor * exp(x / width)` up to 0, `above` beyond.
fn exponential_below(b: &mut Builder, x: ValueId, factor: f64, width: f64, above: f64) -> Built {
    // What lies above is not exponentiated: it could overflow, though nothing hangs on it.
    let is_below = b.compare(Binary::LessOrEqual, x, 0.0)?;
    let below = b.keep_where(is_below, x, 0.0)?;
    let exponent = b.times(below, 1.0 / width)?;
    let power = b.unary(Unary::Exp, exponent)?;
    let slope = b.times(power, factor)?;
    b.keep_where(is_below, slope, above)
}
