//! Slopes of element-wise functions of several operands, summed where an operand was broadcast.
//!
//! Where a slope jumps, the value there is PyTorch's: equal extremes share the gradient evenly, Clip hands it on at
//! its bounds, and a negative slope of PRelu counts at 0. An exponent of Pow has none where the base is 0, the base
//! none where the exponent is.

use super::kinds::{Asked, GradientKind};
use super::movement::by_positions;
use super::operator::{At, Differentiate, Differentiated};
use crate::graph::{Binary, Cast, CastLike, Clip, Variadic, Where};

impl Differentiate for Binary {
    fn kind(&self, _: Asked) -> GradientKind {
        match self {
            Self::Add | Self::Sub | Self::Mul | Self::Div => GradientKind::Computed,
            Self::Pow | Self::Mod { .. } | Self::PRelu => GradientKind::Computed,
            Self::And | Self::Or | Self::Xor | Self::Equal => GradientKind::Zero,
            Self::Less | Self::LessOrEqual => GradientKind::Zero,
            Self::Greater | Self::GreaterOrEqual => GradientKind::Zero,
            Self::BitwiseAnd | Self::BitwiseOr | Self::BitwiseXor | Self::BitShift { .. } => {
                GradientKind::Refused("it computes with bits of integers")
            }
        }
    }

    fn gradient(&self, at: &At<'_>, operand: usize) -> Differentiated {
        let (a, b, dy) = (at.floats(0)?, at.floats(1)?, at.dy()?);
        let mut gradient = at.zeros(operand)?;
        at.for_each_broadcast(&[0, 1], |i, places| {
            let slopes = slopes(*self, a[places[0]], b[places[1]]);
            gradient[places[operand]] += slopes[operand] * dy[i];
        })?;
        Ok(gradient)
    }
}

/// By `a` and by `b`.
fn slopes(f: Binary, a: f64, b: f64) -> [f64; 2] {
    match f {
        Binary::Add => [1.0, 1.0],
        Binary::Sub => [1.0, -1.0],
        Binary::Mul => [b, a],
        Binary::Div => [1.0 / b, -a / (b * b)],
        Binary::Pow => {
            let by_base = if b == 0.0 { 0.0 } else { b * a.powf(b - 1.0) };
            let by_exponent = if a == 0.0 && b >= 0.0 {
                0.0
            } else {
                a.powf(b) * a.ln()
            };
            [by_base, by_exponent]
        }
        Binary::Mod { fmod: true } => [1.0, -(a / b).trunc()],
        Binary::Mod { fmod: false } => [1.0, -(a / b).floor()],
        Binary::PRelu if a <= 0.0 => [b, a],
        Binary::PRelu => [1.0, 0.0],
        Binary::And | Binary::Or | Binary::Xor | Binary::Equal => [0.0; 2],
        Binary::Less | Binary::LessOrEqual | Binary::Greater | Binary::GreaterOrEqual => [0.0; 2],
        Binary::BitwiseAnd | Binary::BitwiseOr | Binary::BitwiseXor | Binary::BitShift { .. } => {
            [0.0; 2]
        }
    }
}

impl Differentiate for Variadic {
    fn kind(&self, _: Asked) -> GradientKind {
        GradientKind::Computed
    }

    fn gradient(&self, at: &At<'_>, operand: usize) -> Differentiated {
        let dy = at.dy()?;
        let all: Vec<usize> = (0..at.inputs.0.len()).collect();
        let values = all.iter().map(|&i| at.floats(i));
        let values = values.collect::<Result<Vec<_>, _>>()?;
        let mut gradient = at.zeros(operand)?;
        at.for_each_broadcast(&all, |i, places| {
            let value = |which: usize| values[which][places[which]];
            let share = match self {
                Self::Sum => 1.0,
                Self::Mean => 1.0 / all.len() as f64,
                Self::Max | Self::Min => {
                    let own = value(operand);
                    let beaten = all.iter().any(|&other| match self {
                        Self::Max => value(other) > own,
                        _ => value(other) < own,
                    });
                    let equal = all.iter().filter(|&&other| value(other) == own);
                    if beaten {
                        0.0
                    } else {
                        1.0 / equal.count() as f64
                    }
                }
            };
            gradient[places[operand]] += share * dy[i];
        })?;
        Ok(gradient)
    }
}

impl Differentiate for Where {
    fn kind(&self, asked: Asked) -> GradientKind {
        match asked.operand {
            0 => GradientKind::Zero,
            _ => GradientKind::Computed,
        }
    }

    fn gradient(&self, at: &At<'_>, operand: usize) -> Differentiated {
        by_positions(self, at, operand, &[1, 2])
    }
}

impl Differentiate for Clip {
    fn kind(&self, _: Asked) -> GradientKind {
        GradientKind::Computed
    }

    /// A bound has the gradient of what it replaces; where the bounds cross, the upper one replaces everything.
    fn gradient(&self, at: &At<'_>, operand: usize) -> Differentiated {
        let bound = |operand, otherwise| {
            at.optional_floats(operand)
                .map_or(otherwise, |bound| bound[0])
        };
        let (low, high) = (bound(1, f64::NEG_INFINITY), bound(2, f64::INFINITY));
        let counts = |x: f64| match operand {
            0 => low <= x && x <= high,
            1 => low < high && x < low,
            _ => x > high || high < low,
        };
        let (x, dy) = (at.floats(0)?, at.dy()?);
        let mut gradient = at.zeros(operand)?;
        for (i, (&x, dy)) in x.iter().zip(dy).enumerate() {
            if counts(x) {
                gradient[if operand == 0 { i } else { 0 }] += dy;
            }
        }
        Ok(gradient)
    }
}

/// A change of the number of digits is no rounding to its gradient, as in PyTorch.
impl Differentiate for Cast {
    fn kind(&self, asked: Asked) -> GradientKind {
        cast_kind(asked)
    }

    fn gradient(&self, at: &At<'_>, _: usize) -> Differentiated {
        Ok(at.dy()?.to_vec())
    }
}

impl Differentiate for CastLike {
    fn kind(&self, asked: Asked) -> GradientKind {
        cast_kind(asked)
    }

    fn gradient(&self, at: &At<'_>, _: usize) -> Differentiated {
        Ok(at.dy()?.to_vec())
    }
}

fn cast_kind(asked: Asked) -> GradientKind {
    match asked.operand == 0 && asked.result.is_float() {
        true => GradientKind::Computed,
        false => GradientKind::Zero,
    }
}
