//! Normalisations and softmax, by the formulas of the reference (`reference/gradient/normalise.rs`).

use super::operator::{At, Backward};
use crate::building::{Builder, Built, sum_to_channels};
use crate::graph::infer::op_error;
use crate::graph::{
    BatchNormalization, Binary, GroupNormalization, InstanceNormalization, LayerNormalization,
    LpNormalization, Lrn, MaskedSoftmax, MatMul, OpError, ReduceKind, RmsNormalization, Softmax,
    Unary, ValueId, resolve_axis,
};

impl Backward for BatchNormalization {
    fn backward(&self, at: &mut At<'_>, operand: usize) -> Built {
        let operands = [
            at.operand(0)?,
            at.operand(1)?,
            at.operand(3)?,
            at.operand(4)?,
        ];
        let (dy, shape) = (at.dy()?, at.result_shape()?);
        let b = &mut *at.builder;
        let of_channels = per_channel(&shape);
        let [x, scale, mean, variance] = operands;
        let scale = b.reshape(scale, &of_channels)?;
        let mean = b.reshape(mean, &of_channels)?;
        let variance = b.reshape(variance, &of_channels)?;
        let shifted = b.add_number(variance, self.epsilon.into())?;
        let deviation = b.unary(Unary::Sqrt, shifted)?;
        let slope = match operand {
            0 | 3 => b.div(scale, deviation)?,
            1 | 4 => {
                let centred = b.sub(x, mean)?;
                b.div(centred, deviation)?
            }
            _ => return sum_to_channels(b, dy),
        };
        let gradient = b.mul(dy, slope)?;
        match operand {
            0 => Ok(gradient),
            1 => sum_to_channels(b, gradient),
            3 => {
                let gradient = sum_to_channels(b, gradient)?;
                b.unary(Unary::Neg, gradient)
            }
            _ => {
                let by_deviation = b.mul(gradient, scale)?;
                let by_variance = b.div(by_deviation, shifted)?;
                let gradient = sum_to_channels(b, by_variance)?;
                b.times(gradient, -0.5)
            }
        }
    }
}

/// The shape of a list with a number for each channel, as an operand that broadcasts.
fn per_channel(shape: &[usize]) -> Vec<usize> {
    let mut of_channels = vec![1; shape.len()];
    of_channels[1] = shape[1];
    of_channels
}

impl Backward for LayerNormalization {
    fn backward(&self, at: &mut At<'_>, operand: usize) -> Built {
        along(at, operand, self.axis, true, self.epsilon)
    }
}

impl Backward for RmsNormalization {
    fn backward(&self, at: &mut At<'_>, operand: usize) -> Built {
        along(at, operand, self.axis, false, self.epsilon)
    }
}

impl Backward for InstanceNormalization {
    fn backward(&self, at: &mut At<'_>, operand: usize) -> Built {
        let channels = at.result_shape()?[1];
        of_groups(at, operand, channels, self.epsilon)
    }
}

impl Backward for GroupNormalization {
    fn backward(&self, at: &mut At<'_>, operand: usize) -> Built {
        of_groups(at, operand, self.groups, self.epsilon)
    }
}

/// Sets of all axes from one on; scale and bias broadcast.
fn along(at: &mut At<'_>, operand: usize, axis: i64, centred: bool, epsilon: f32) -> Built {
    let (x, scale, dy) = (at.operand(0)?, at.operand(1)?, at.dy()?);
    let (shape, rank) = (at.shape(operand)?, at.result_shape()?.len());
    let b = &mut *at.builder;
    if operand == 2 {
        return b.sum_to(dy, &shape);
    }
    let axes: Vec<usize> = (resolve_axis(axis, rank)?..rank).collect();
    let normal = Normal::of(b, x, &axes, centred, epsilon)?;
    if operand == 1 {
        let gradient = b.mul(dy, normal.z)?;
        return b.sum_to(gradient, &shape);
    }
    let scaled = b.mul(dy, scale)?;
    normal.gradient(b, scaled, &axes, centred)
}

/// Sets of spatial axes and a group of channels; scale and bias for each channel.
fn of_groups(at: &mut At<'_>, operand: usize, groups: usize, epsilon: f32) -> Built {
    let (x, scale, dy) = (at.operand(0)?, at.operand(1)?, at.dy()?);
    let shape = at.result_shape()?;
    let b = &mut *at.builder;
    if operand == 2 {
        return sum_to_channels(b, dy);
    }
    let n: usize = shape.iter().product();
    let sets = [shape[0], groups, n / (shape[0] * groups).max(1)];
    let x = b.reshape(x, &sets)?;
    let normal = Normal::of(b, x, &[2], true, epsilon)?;
    if operand == 1 {
        let z = b.reshape(normal.z, &shape)?;
        let gradient = b.mul(dy, z)?;
        return sum_to_channels(b, gradient);
    }
    let scale = b.reshape(scale, &per_channel(&shape))?;
    let scaled = b.mul(dy, scale)?;
    let scaled = b.reshape(scaled, &sets)?;
    let gradient = normal.gradient(b, scaled, &[2], true)?;
    b.reshape(gradient, &shape)
}

/// Elements less their mean, divided by their deviation.
struct Normal {
    z: ValueId,
    deviation: ValueId,
}

impl Normal {
    fn of(
        b: &mut Builder,
        x: ValueId,
        axes: &[usize],
        centred: bool,
        epsilon: f32,
    ) -> Result<Self, OpError> {
        let x = match centred {
            true => {
                let mean = b.reduce(ReduceKind::Mean, x, axes)?;
                b.sub(x, mean)?
            }
            false => x,
        };
        let squares = b.square(x)?;
        let variance = b.reduce(ReduceKind::Mean, squares, axes)?;
        let shifted = b.add_number(variance, epsilon.into())?;
        let deviation = b.unary(Unary::Sqrt, shifted)?;
        let z = b.div(x, deviation)?;
        Ok(Self { z, deviation })
    }

    /// `(g - mean(g) - z * mean(g * z)) / deviation`, without `mean(g)` where no mean is subtracted.
    fn gradient(&self, b: &mut Builder, g: ValueId, axes: &[usize], centred: bool) -> Built {
        let along = b.mul(g, self.z)?;
        let along = b.reduce(ReduceKind::Mean, along, axes)?;
        let along = b.mul(self.z, along)?;
        let mut rest = g;
        if centred {
            let mean = b.reduce(ReduceKind::Mean, g, axes)?;
            rest = b.sub(rest, mean)?;
        }
        rest = b.sub(rest, along)?;
        b.div(rest, self.deviation)
    }
}

/// A line of zeros, which stays what it is, hands nothing on.
impl Backward for LpNormalization {
    fn backward(&self, at: &mut At<'_>, _: usize) -> Built {
        let (x, dy) = (at.operand(0)?, at.dy()?);
        let axes = [resolve_axis(self.axis, at.result_shape()?.len())?];
        let b = &mut *at.builder;
        let kind = if self.p == 1 {
            ReduceKind::L1
        } else {
            ReduceKind::L2
        };
        let norm = b.reduce(kind, x, &axes)?;
        let is_zero = b.compare(Binary::Equal, norm, 0.0)?;
        let divisor = b.keep_unless(is_zero, norm, 1.0)?;
        let slope = match self.p {
            1 => b.unary(Unary::Sign, x)?,
            _ => b.div(x, divisor)?,
        };
        let along = b.mul(dy, x)?;
        let along = b.reduce(ReduceKind::Sum, along, &axes)?;
        let square = b.square(divisor)?;
        let along = b.div(along, square)?;
        let along = b.mul(slope, along)?;
        let gradient = b.div(dy, divisor)?;
        let gradient = b.sub(gradient, along)?;
        b.keep_unless(is_zero, gradient, 0.0)
    }
}

/// Sums over neighbouring channels are products with a band of ones.
impl Backward for Lrn {
    fn backward(&self, at: &mut At<'_>, _: usize) -> Built {
        let (x, dy, shape) = (at.operand(0)?, at.dy()?, at.result_shape()?);
        let b = &mut *at.builder;
        let channels = shape[1];
        b.take(&[channels, channels, 2])?;
        let mut band = vec![0.0; channels * channels];
        for c in 0..channels {
            let first = c.saturating_sub((self.size - 1) / 2);
            let end = channels.min(c.saturating_add(self.size / 2 + 1));
            band[c * channels..][first..end].fill(1.0);
        }
        let turned = (0..channels * channels).map(|i| band[i % channels * channels + i / channels]);
        let turned: Vec<f64> = turned.collect();
        let dtype = b.dtype(x);
        let band = b.floats(dtype, &[channels, channels], band)?;
        let turned = b.floats(dtype, &[channels, channels], turned)?;
        let planes = [shape[0], channels, shape[2..].iter().product()];
        let x = b.reshape(x, &planes)?;
        let dy = b.reshape(dy, &planes)?;
        let alpha = f64::from(self.alpha) / self.size as f64;
        let squares = b.square(x)?;
        let sums = b.op(MatMul, &[band, squares])?;
        let base = b.times(sums, alpha)?;
        let base = b.add_number(base, self.bias.into())?;
        let exponent = b.number(-f64::from(self.beta), x)?;
        let power = b.binary(Binary::Pow, base, exponent)?;
        let direct = b.mul(dy, power)?;
        let by_base = b.mul(direct, x)?;
        let by_base = b.div(by_base, base)?;
        let spread = b.op(MatMul, &[turned, by_base])?;
        let spread = b.mul(spread, x)?;
        let spread = b.times(spread, -2.0 * alpha * f64::from(self.beta))?;
        let gradient = b.add(direct, spread)?;
        b.reshape(gradient, &shape)
    }
}

impl Backward for Softmax {
    fn backward(&self, at: &mut At<'_>, _: usize) -> Built {
        let (y, dy, rank) = (at.result()?, at.dy()?, at.result_shape()?.len());
        let first = resolve_axis(self.axis, rank)?;
        let axes: Vec<usize> = match self.flatten {
            true => (first..rank).collect(),
            false => vec![first],
        };
        let b = &mut *at.builder;
        if !self.log {
            return by_weights(b, y, dy, &axes);
        }
        let weights = b.unary(Unary::Exp, y)?;
        let sum = b.reduce(ReduceKind::Sum, dy, &axes)?;
        let share = b.mul(weights, sum)?;
        b.sub(dy, share)
    }
}

/// A row of nothing but minus infinity has weights of zero, and a gradient of zero.
impl Backward for MaskedSoftmax {
    fn backward(&self, at: &mut At<'_>, _: usize) -> Built {
        let (y, dy, rank) = (at.result()?, at.dy()?, at.result_shape()?.len());
        let last = rank.checked_sub(1).ok_or_else(|| op_error!("no axis"))?;
        by_weights(at.builder, y, dy, &[last])
    }
}

/// `y * (dy - sum(dy * y))`.
fn by_weights(b: &mut Builder, y: ValueId, dy: ValueId, axes: &[usize]) -> Built {
    let along = b.mul(dy, y)?;
    let along = b.reduce(ReduceKind::Sum, along, axes)?;
    let rest = b.sub(dy, along)?;
    b.mul(y, rest)
}
