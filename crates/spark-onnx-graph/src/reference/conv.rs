//! Convolution and its transpose, over any number of spatial axes.
//!
//! ```text
//! conv       y[n, m, o] = bias[m] + sum over c of m's group, tap k: w[m, c, k] * x[n, c, o * stride + k * dilation - pad]
//! transpose  y[n, m, i * stride + k * dilation - pad] += w[c, m, k] * x[n, c, i]
//! ```
//!
//! The loops over taps stand outside those over positions, so that an output
//! plane is summed up in memory order.

use std::ops::Range;

use super::index::{for_each_position, offset, strides};
use super::numbers::from_floats;
use super::operator::{Evaluate, Evaluated, Inputs, Working, one};
use crate::graph::{
    Conv, ConvTranspose, OpError, TensorType, WindowAxis, conv_transpose_windows, conv_windows,
};
use crate::tensor::Tensor;

impl Evaluate for Conv {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| conv(self, inputs, ty))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.computed()
    }

    fn reads_per_result(&self, work: &Working<'_>) -> usize {
        work.smaller_factor()
    }
}

fn conv(conv: &Conv, inputs: Inputs<'_>, ty: &TensorType) -> Result<Tensor, OpError> {
    let (x, w) = (inputs.get(0)?, inputs.get(1)?);
    let bias = inputs.optional(2).map(Tensor::to_f64);
    let (x_values, w_values) = (x.to_f64(), w.to_f64());
    let y = sums(
        conv,
        (x.shape(), &x_values),
        (w.shape(), &w_values),
        bias.as_deref(),
    )?;
    from_floats(ty, y)
}

/// The sums of a convolution, not yet rounded: `x` and `w` are shapes with their elements.
pub(super) fn sums(
    conv: &Conv,
    (x_shape, x): (&[usize], &[f64]),
    (w_shape, w): (&[usize], &[f64]),
    bias: Option<&[f64]>,
) -> Result<Vec<f64>, OpError> {
    let windows = conv_windows(conv, &x_shape[2..], &w_shape[2..])?;
    let (batch, channels_in) = (x_shape[0], x_shape[1]);
    let (channels_out, group_in) = (w_shape[0], w_shape[1]);
    let group_out = channels_out / conv.groups;
    let x_plane = windows.iter().map(|axis| axis.input).product();
    let y_plane: usize = windows.iter().map(|axis| axis.output).product();
    let mut y = Vec::with_capacity(batch * channels_out * y_plane);
    for n in 0..batch {
        for m in 0..channels_out {
            let first_in = m / group_out * group_in;
            let mut plane = vec![bias.map_or(0.0, |bias| bias[m]); y_plane];
            let mut taps = w[m * group_in * tap_count(w_shape)..].iter();
            for c in first_in..first_in + group_in {
                let x = &x[(n * channels_in + c) * x_plane..][..x_plane];
                for_each_position(&w_shape[2..], |tap| {
                    let weight = taps.next().copied().unwrap_or_default();
                    for_each_contact(&windows, tap, |o, i| plane[o] += weight * x[i]);
                });
            }
            y.extend(plane);
        }
    }
    Ok(y)
}

pub(super) fn tap_count(w_shape: &[usize]) -> usize {
    w_shape[2..].iter().product()
}

impl Evaluate for ConvTranspose {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| conv_transpose(self, inputs, ty))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.computed()
    }

    fn reads_per_result(&self, work: &Working<'_>) -> usize {
        work.smaller_factor()
    }
}

fn conv_transpose(
    transpose: &ConvTranspose,
    inputs: Inputs<'_>,
    ty: &TensorType,
) -> Result<Tensor, OpError> {
    let (x, w) = (inputs.get(0)?, inputs.get(1)?);
    let windows = conv_transpose_windows(transpose, &x.shape()[2..], &w.shape()[2..])?;
    let forward = from_result(&windows);
    let bias = inputs.optional(2).map(Tensor::to_f64);
    let (batch, channels_in) = (x.shape()[0], x.shape()[1]);
    let group_out = w.shape()[1];
    let group_in = channels_in / transpose.conv.groups;
    let (x, w_shape, w) = (x.to_f64(), w.shape(), w.to_f64());
    let x_plane = windows.iter().map(|axis| axis.input).product();
    let y_plane: usize = windows.iter().map(|axis| axis.output).product();
    let mut y = Vec::with_capacity(ty.shape.iter().product());
    for n in 0..batch {
        for m in 0..ty.shape[1] {
            let (group, m_in_group) = (m / group_out, m % group_out);
            let mut plane = vec![bias.as_ref().map_or(0.0, |bias| bias[m]); y_plane];
            for c in group * group_in..(group + 1) * group_in {
                let x = &x[(n * channels_in + c) * x_plane..][..x_plane];
                let mut taps = w[(c * group_out + m_in_group) * tap_count(w_shape)..].iter();
                for_each_position(&w_shape[2..], |tap| {
                    let weight = taps.next().copied().unwrap_or_default();
                    for_each_contact(&forward, tap, |i, o| plane[o] += weight * x[i]);
                });
            }
            y.extend(plane);
        }
    }
    from_floats(ty, y)
}

/// The windows of a transposed convolution seen from its result, where it is a convolution.
pub(super) fn from_result(windows: &[WindowAxis]) -> Vec<WindowAxis> {
    let turned = windows.iter().map(|w| WindowAxis {
        input: w.output,
        output: w.input,
        ..*w
    });
    turned.collect()
}

/// Calls `meet` with the offsets, within their planes, of every output position and
/// the input position that `tap` of its window lies on.
pub(super) fn for_each_contact(
    windows: &[WindowAxis],
    tap: &[usize],
    mut meet: impl FnMut(usize, usize),
) {
    let inside: Vec<Range<usize>> = windows
        .iter()
        .zip(tap)
        .map(|(window, &tap)| outputs_inside(window, tap))
        .collect();
    let extents: Vec<usize> = inside.iter().map(ExactSizeIterator::len).collect();
    let [rows @ .., row_len] = &extents[..] else {
        return;
    };
    let output_strides = strides(&windows.iter().map(|w| w.output).collect::<Vec<_>>());
    let input_strides = strides(&windows.iter().map(|w| w.input).collect::<Vec<_>>());
    let mut output = vec![0; windows.len()];
    let mut input = vec![0; windows.len()];
    let last = windows.len() - 1;
    if *row_len == 0 {
        return;
    }
    for_each_position(rows, |row| {
        for axis in 0..windows.len() {
            let window = &windows[axis];
            output[axis] = inside[axis].start + row.get(axis).copied().unwrap_or(0);
            input[axis] =
                output[axis] * window.stride + tap[axis] * window.dilation - window.pad_begin;
        }
        let (first_output, first_input) = (
            offset(&output, &output_strides),
            offset(&input, &input_strides),
        );
        for step in 0..*row_len {
            meet(
                first_output + step,
                first_input + step * windows[last].stride,
            );
        }
    });
}

/// The outputs whose window has `tap` inside the input: `0 <= o * stride + tap * dilation - pad < input`.
fn outputs_inside(window: &WindowAxis, tap: usize) -> Range<usize> {
    let at = tap * window.dilation;
    let first = window.pad_begin.saturating_sub(at).div_ceil(window.stride);
    let end = (window.input + window.pad_begin)
        .saturating_sub(at)
        .div_ceil(window.stride);
    first.min(window.output)..end.min(window.output).max(first.min(window.output))
}
