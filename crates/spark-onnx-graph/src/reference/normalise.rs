//! Normalisations and softmax.
//!
//! ```text
//! normalise(x) = (x - mean) / sqrt(variance + epsilon) * scale + bias
//! ```
//!
//! over a set of elements that depends on the operator; the variance is that of
//! the set itself (divided by its size).

use super::index::{Lines, broadcast_strides, for_each_position, offset};
use super::numbers::from_floats;
use super::operator::{Evaluate, Evaluated, Inputs, Working, one};
use crate::graph::{
    BatchNormalization, GroupNormalization, InstanceNormalization, LayerNormalization,
    LpNormalization, Lrn, MaskedSoftmax, OpError, RmsNormalization, Softmax, TensorType,
    resolve_axis,
};
use crate::tensor::Tensor;

impl Evaluate for BatchNormalization {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| batch(self.epsilon, inputs, ty))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.computed()
    }
}

fn batch(epsilon: f32, inputs: Inputs<'_>, ty: &TensorType) -> Result<Tensor, OpError> {
    let mut x = inputs.get(0)?.to_f64();
    let scale = inputs.get(1)?.to_f64();
    let bias = inputs.get(2)?.to_f64();
    let mean = inputs.get(3)?.to_f64();
    let variance = inputs.get(4)?.to_f64();
    let channels = ty.shape[1];
    let inner: usize = ty.shape[2..].iter().product();
    for (i, x) in x.iter_mut().enumerate() {
        let c = i / inner % channels;
        *x = (*x - mean[c]) / (variance[c] + f64::from(epsilon)).sqrt() * scale[c] + bias[c];
    }
    from_floats(ty, x)
}

/// Sets mean 0 and variance 1, epsilon aside.
fn standardise(set: &mut [f64], epsilon: f32) {
    let n = set.len() as f64;
    let mean = set.iter().sum::<f64>() / n;
    let variance = set.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n;
    let deviation = (variance + f64::from(epsilon)).sqrt();
    set.iter_mut().for_each(|x| *x = (*x - mean) / deviation);
}

impl Evaluate for LayerNormalization {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| layer(self.axis, self.epsilon, inputs, ty))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.computed()
    }
}

fn layer(axis: i64, epsilon: f32, inputs: Inputs<'_>, ty: &TensorType) -> Result<Tensor, OpError> {
    let mut x = inputs.get(0)?.to_f64();
    let axis = resolve_axis(axis, ty.shape.len())?;
    for set in sets(&mut x, &ty.shape[axis..]) {
        standardise(set, epsilon);
    }
    scale_and_shift(x, inputs, ty)
}

impl Evaluate for RmsNormalization {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| rms(self.axis, self.epsilon, inputs, ty))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.computed()
    }
}

fn rms(axis: i64, epsilon: f32, inputs: Inputs<'_>, ty: &TensorType) -> Result<Tensor, OpError> {
    let mut x = inputs.get(0)?.to_f64();
    let axis = resolve_axis(axis, ty.shape.len())?;
    for set in sets(&mut x, &ty.shape[axis..]) {
        let mean_square = set.iter().map(|x| x * x).sum::<f64>() / set.len() as f64;
        let root = (mean_square + f64::from(epsilon)).sqrt();
        set.iter_mut().for_each(|x| *x /= root);
    }
    scale_and_shift(x, inputs, ty)
}

/// `x` cut into consecutive sets of the given shape.
fn sets<'x>(x: &'x mut [f64], shape: &[usize]) -> std::slice::ChunksMut<'x, f64> {
    x.chunks_mut(shape.iter().product::<usize>().max(1))
}

/// Operand 1 times `x` plus operand 2, both broadcast.
fn scale_and_shift(
    mut x: Vec<f64>,
    inputs: Inputs<'_>,
    ty: &TensorType,
) -> Result<Tensor, OpError> {
    let scale = inputs.get(1)?;
    let scale_strides = broadcast_strides(scale.shape(), &ty.shape);
    let scale = scale.to_f64();
    let bias = inputs
        .optional(2)
        .map(|bias| (broadcast_strides(bias.shape(), &ty.shape), bias.to_f64()));
    let mut elements = x.iter_mut();
    for_each_position(&ty.shape, |at| {
        if let Some(x) = elements.next() {
            *x *= scale[offset(at, &scale_strides)];
            if let Some((strides, bias)) = &bias {
                *x += bias[offset(at, strides)];
            }
        }
    });
    from_floats(ty, x)
}

impl Evaluate for InstanceNormalization {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| instance(self.epsilon, inputs, ty))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.computed()
    }
}

fn instance(epsilon: f32, inputs: Inputs<'_>, ty: &TensorType) -> Result<Tensor, OpError> {
    group(ty.shape[1].max(1), epsilon, inputs, ty)
}

impl Evaluate for GroupNormalization {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| group(self.groups, self.epsilon, inputs, ty))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.computed()
    }
}

fn group(
    groups: usize,
    epsilon: f32,
    inputs: Inputs<'_>,
    ty: &TensorType,
) -> Result<Tensor, OpError> {
    let mut x = inputs.get(0)?.to_f64();
    let (scale, bias) = (inputs.get(1)?.to_f64(), inputs.get(2)?.to_f64());
    let channels = ty.shape[1];
    let inner: usize = ty.shape[2..].iter().product();
    for set in sets(&mut x, &[channels / groups, inner]) {
        standardise(set, epsilon);
    }
    for (i, x) in x.iter_mut().enumerate() {
        let c = i / inner % channels;
        *x = *x * scale[c] + bias[c];
    }
    from_floats(ty, x)
}

impl Evaluate for LpNormalization {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| lp(self.axis, self.p, inputs, ty))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.computed()
    }
}

/// A line of zeros stays zero.
fn lp(axis: i64, p: u8, inputs: Inputs<'_>, ty: &TensorType) -> Result<Tensor, OpError> {
    let mut x = inputs.get(0)?.to_f64();
    let axis = resolve_axis(axis, ty.shape.len())?;
    Lines::new(&ty.shape, axis).for_each(|line| {
        let norm = match p {
            1 => line.iter().map(|&i| x[i].abs()).sum::<f64>(),
            _ => line.iter().map(|&i| x[i] * x[i]).sum::<f64>().sqrt(),
        };
        if norm != 0.0 {
            line.iter().for_each(|&i| x[i] /= norm);
        }
    });
    from_floats(ty, x)
}

impl Evaluate for Lrn {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| {
            lrn([self.alpha, self.beta, self.bias], self.size, inputs, ty)
        })
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.computed()
    }

    fn reads_per_result(&self, _: &Working<'_>) -> usize {
        self.size
    }
}

/// `x / (bias + alpha / size * sum of squares over size channels around)^beta`; of an
/// even number of channels the odd one lies behind.
fn lrn(
    [alpha, beta, bias]: [f32; 3],
    size: usize,
    inputs: Inputs<'_>,
    ty: &TensorType,
) -> Result<Tensor, OpError> {
    let x = inputs.get(0)?.to_f64();
    let mut y = x.clone();
    Lines::new(&ty.shape, 1).for_each(|line| {
        for (c, &i) in line.iter().enumerate() {
            let first = c.saturating_sub((size - 1) / 2);
            let end = line.len().min(c.saturating_add(size / 2 + 1));
            let squares = line[first..end].iter().map(|&j| x[j] * x[j]).sum::<f64>();
            let base = f64::from(bias) + f64::from(alpha) / size as f64 * squares;
            y[i] = x[i] / base.powf(f64::from(beta));
        }
    });
    from_floats(ty, y)
}

impl Evaluate for Softmax {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| softmax(self, inputs, ty))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.computed()
    }
}

fn softmax(softmax: &Softmax, inputs: Inputs<'_>, ty: &TensorType) -> Result<Tensor, OpError> {
    let mut x = inputs.get(0)?.to_f64();
    let lines = softmax_lines(softmax, &ty.shape)?;
    lines.for_each(|line| softmax_line(line, softmax.log, &mut x));
    from_floats(ty, x)
}

/// Which elements are normalised together.
pub(super) fn softmax_lines(softmax: &Softmax, shape: &[usize]) -> Result<Lines, OpError> {
    let axis = resolve_axis(softmax.axis, shape.len())?;
    if !softmax.flatten {
        return Ok(Lines::new(shape, axis));
    }
    let (outer, together) = shape.split_at(axis);
    Ok(Lines {
        outer: outer.iter().product(),
        extent: together.iter().product(),
        inner: 1,
    })
}

impl Evaluate for MaskedSoftmax {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| masked_softmax(inputs, ty))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.computed()
    }
}

/// A softmax along the last axis; a row of nothing but minus infinity gives zeros.
fn masked_softmax(inputs: Inputs<'_>, ty: &TensorType) -> Result<Tensor, OpError> {
    let mut x = inputs.get(0)?.to_f64();
    let axis = resolve_axis(-1, ty.shape.len())?;
    Lines::new(&ty.shape, axis).for_each(|line| {
        if line.iter().all(|&i| x[i] == f64::NEG_INFINITY) {
            line.iter().for_each(|&i| x[i] = 0.0);
        } else {
            softmax_line(line, false, &mut x);
        }
    });
    from_floats(ty, x)
}

fn softmax_line(line: &[usize], log: bool, x: &mut [f64]) {
    let largest = line.iter().map(|&i| x[i]).fold(f64::NEG_INFINITY, f64::max);
    let sum = line.iter().map(|&i| (x[i] - largest).exp()).sum::<f64>();
    for &i in line {
        x[i] = match log {
            true => x[i] - largest - sum.ln(),
            false => (x[i] - largest).exp() / sum,
        };
    }
}
