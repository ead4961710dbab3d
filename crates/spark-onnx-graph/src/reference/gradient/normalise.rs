//! Gradients of normalisations and softmax.
//!
//! ```text
//! z = (x - mean) / deviation,  g = dy * scale      over a set of n elements
//! dx = (g - mean(g) - z * mean(g * z)) / deviation          without mean(g) where no mean is subtracted
//! dscale += dy * z,  dbias += dy
//! softmax      dx = y * (dy - sum(dy * y))
//! its log      dx = dy - softmax(x) * sum(dy)
//! ```

use super::super::index::{Lines, broadcast_strides, for_each_position, offset};
use super::super::normalise::softmax_lines;
use super::kinds::{Asked, GradientKind};
use super::operator::{At, Differentiate, Differentiated};
use crate::graph::{
    BatchNormalization, GroupNormalization, InstanceNormalization, LayerNormalization,
    LpNormalization, Lrn, MaskedSoftmax, OpError, RmsNormalization, Softmax, resolve_axis,
};

impl Differentiate for BatchNormalization {
    fn kind(&self, _: Asked) -> GradientKind {
        GradientKind::Computed
    }

    /// In its inference form mean and variance are operands like all others.
    fn gradient(&self, at: &At<'_>, operand: usize) -> Differentiated {
        let (x, dy) = (at.floats(0)?, at.dy()?);
        let (scale, mean, variance) = (at.floats(1)?, at.floats(3)?, at.floats(4)?);
        let channels = at.y_shape()[1];
        let inner: usize = at.y_shape()[2..].iter().product();
        let mut gradient = at.zeros(operand)?;
        for (i, (x, dy)) in x.iter().zip(dy).enumerate() {
            let c = i / inner % channels;
            let deviation = (variance[c] + f64::from(self.epsilon)).sqrt();
            let centred = x - mean[c];
            let (place, slope) = match operand {
                0 => (i, scale[c] / deviation),
                1 => (c, centred / deviation),
                2 => (c, 1.0),
                3 => (c, -scale[c] / deviation),
                _ => (
                    c,
                    -0.5 * centred * scale[c] / (deviation * deviation * deviation),
                ),
            };
            gradient[place] += slope * dy;
        }
        Ok(gradient)
    }
}

impl Differentiate for LayerNormalization {
    fn kind(&self, _: Asked) -> GradientKind {
        GradientKind::Computed
    }

    fn gradient(&self, at: &At<'_>, operand: usize) -> Differentiated {
        let normal = Normal::along(self.axis, at)?;
        normal.gradient(true, self.epsilon, at, operand)
    }
}

impl Differentiate for RmsNormalization {
    fn kind(&self, _: Asked) -> GradientKind {
        GradientKind::Computed
    }

    fn gradient(&self, at: &At<'_>, operand: usize) -> Differentiated {
        let normal = Normal::along(self.axis, at)?;
        normal.gradient(false, self.epsilon, at, operand)
    }
}

impl Differentiate for InstanceNormalization {
    fn kind(&self, _: Asked) -> GradientKind {
        GradientKind::Computed
    }

    fn gradient(&self, at: &At<'_>, operand: usize) -> Differentiated {
        let normal = Normal::of_channels(at.y_shape()[1].max(1), at);
        normal.gradient(true, self.epsilon, at, operand)
    }
}

impl Differentiate for GroupNormalization {
    fn kind(&self, _: Asked) -> GradientKind {
        GradientKind::Computed
    }

    fn gradient(&self, at: &At<'_>, operand: usize) -> Differentiated {
        let normal = Normal::of_channels(self.groups, at);
        normal.gradient(true, self.epsilon, at, operand)
    }
}

/// What is normalised together, and with which scale and bias.
struct Normal {
    /// Elements of a set, which lie one behind the other.
    set_len: usize,
    /// Where the scale of each element lies, and its bias.
    scale_at: Vec<usize>,
    bias_at: Vec<usize>,
}

impl Normal {
    /// Sets of all axes from one on; scale and bias broadcast.
    fn along(axis: i64, at: &At<'_>) -> Result<Self, OpError> {
        let shape = at.y_shape();
        let places = |operand| {
            let Some(operand) = at.inputs.optional(operand) else {
                return Vec::new();
            };
            let strides = broadcast_strides(operand.shape(), shape);
            let mut places = Vec::with_capacity(shape.iter().product());
            for_each_position(shape, |at| places.push(offset(at, &strides)));
            places
        };
        Ok(Self {
            set_len: shape[resolve_axis(axis, shape.len())?..].iter().product(),
            scale_at: places(1),
            bias_at: places(2),
        })
    }

    /// Sets of spatial axes and a group of channels; scale and bias for each channel.
    fn of_channels(groups: usize, at: &At<'_>) -> Self {
        let shape = at.y_shape();
        let inner: usize = shape[2..].iter().product();
        let n: usize = shape.iter().product();
        let channels: Vec<usize> = (0..n).map(|i| i / inner % shape[1]).collect();
        Self {
            set_len: shape[1] / groups * inner,
            bias_at: channels.clone(),
            scale_at: channels,
        }
    }

    fn gradient(&self, centred: bool, epsilon: f32, at: &At<'_>, operand: usize) -> Differentiated {
        let (x, scale, dy) = (at.floats(0)?, at.floats(1)?, at.dy()?);
        let mut gradient = at.zeros(operand)?;
        if operand == 2 {
            for (&place, dy) in self.bias_at.iter().zip(dy) {
                gradient[place] += dy;
            }
            return Ok(gradient);
        }
        let n = self.set_len as f64;
        for first in (0..x.len()).step_by(self.set_len.max(1)) {
            let set = first..first + self.set_len;
            let mean = match centred {
                true => x[set.clone()].iter().sum::<f64>() / n,
                false => 0.0,
            };
            let squares = x[set.clone()].iter().map(|x| (x - mean) * (x - mean));
            let deviation = (squares.sum::<f64>() / n + f64::from(epsilon)).sqrt();
            let z = |i: usize| (x[i] - mean) / deviation;
            if operand == 1 {
                set.for_each(|i| gradient[self.scale_at[i]] += dy[i] * z(i));
                continue;
            }
            let scaled = |i: usize| dy[i] * scale[self.scale_at[i]];
            let mean_scaled = match centred {
                true => set.clone().map(scaled).sum::<f64>() / n,
                false => 0.0,
            };
            let mean_along = set.clone().map(|i| scaled(i) * z(i)).sum::<f64>() / n;
            set.for_each(|i| {
                gradient[i] = (scaled(i) - mean_scaled - z(i) * mean_along) / deviation;
            });
        }
        Ok(gradient)
    }
}

/// A line of zeros, which stays what it is, hands nothing on.
impl Differentiate for LpNormalization {
    fn kind(&self, _: Asked) -> GradientKind {
        GradientKind::Computed
    }

    fn gradient(&self, at: &At<'_>, _: usize) -> Differentiated {
        let (x, dy) = (at.floats(0)?, at.dy()?);
        let axis = resolve_axis(self.axis, at.y_shape().len())?;
        let mut gradient = at.zeros(0)?;
        Lines::new(at.y_shape(), axis).for_each(|line| {
            let (norm, slope): (f64, Box<dyn Fn(f64) -> f64>) = match self.p {
                1 => {
                    let norm: f64 = line.iter().map(|&i| x[i].abs()).sum();
                    (norm, Box::new(|x| if x == 0.0 { 0.0 } else { x.signum() }))
                }
                _ => {
                    let norm = line.iter().map(|&i| x[i] * x[i]).sum::<f64>().sqrt();
                    (norm, Box::new(move |x| x / norm))
                }
            };
            if norm == 0.0 {
                return;
            }
            let along: f64 = line.iter().map(|&i| dy[i] * x[i]).sum();
            for &i in line {
                gradient[i] = dy[i] / norm - slope(x[i]) * along / (norm * norm);
            }
        });
        Ok(gradient)
    }
}

impl Differentiate for Lrn {
    fn kind(&self, _: Asked) -> GradientKind {
        GradientKind::Computed
    }

    fn gradient(&self, at: &At<'_>, _: usize) -> Differentiated {
        let (x, dy) = (at.floats(0)?, at.dy()?);
        let [alpha, beta, bias] = [self.alpha, self.beta, self.bias].map(f64::from);
        let alpha = alpha / self.size as f64;
        let mut gradient = at.zeros(0)?;
        Lines::new(at.y_shape(), 1).for_each(|line| {
            for (c, &i) in line.iter().enumerate() {
                let first = c.saturating_sub((self.size - 1) / 2);
                let end = line.len().min(c.saturating_add(self.size / 2 + 1));
                let around = &line[first..end];
                let base = bias + alpha * around.iter().map(|&j| x[j] * x[j]).sum::<f64>();
                gradient[i] += dy[i] * base.powf(-beta);
                let by_base = -beta * x[i] * base.powf(-beta - 1.0) * dy[i];
                for &j in around {
                    gradient[j] += by_base * alpha * 2.0 * x[j];
                }
            }
        });
        Ok(gradient)
    }
}

impl Differentiate for Softmax {
    fn kind(&self, _: Asked) -> GradientKind {
        GradientKind::Computed
    }

    fn gradient(&self, at: &At<'_>, _: usize) -> Differentiated {
        let lines = softmax_lines(self, at.y_shape())?;
        let weights = Softmax {
            log: false,
            ..*self
        };
        let (y, dy) = (at.result(&weights)?, at.dy()?);
        if !self.log {
            return by_weights(lines, &y, at);
        }
        let mut gradient = at.zeros(0)?;
        lines.for_each(|line| {
            let sum: f64 = line.iter().map(|&i| dy[i]).sum();
            line.iter().for_each(|&i| gradient[i] = dy[i] - y[i] * sum);
        });
        Ok(gradient)
    }
}

/// A row of nothing but minus infinity has weights of zero, and a gradient of zero.
impl Differentiate for MaskedSoftmax {
    fn kind(&self, _: Asked) -> GradientKind {
        GradientKind::Computed
    }

    fn gradient(&self, at: &At<'_>, _: usize) -> Differentiated {
        let axis = resolve_axis(-1, at.y_shape().len())?;
        by_weights(Lines::new(at.y_shape(), axis), &at.result(self)?, at)
    }
}

/// Of weights `y`, each line of which is a softmax.
fn by_weights(lines: Lines, y: &[f64], at: &At<'_>) -> Differentiated {
    let dy = at.dy()?;
    let mut gradient = at.zeros(0)?;
    lines.for_each(|line| {
        let along: f64 = line.iter().map(|&i| dy[i] * y[i]).sum();
        line.iter()
            .for_each(|&i| gradient[i] = y[i] * (dy[i] - along));
    });
    Ok(gradient)
}
