//! Maximum and average over windows.
//!
//! ```text
//! max      largest element of the window inside the input; NaN if one is
//! average  sum of those elements / number of them,
//!          or / number of taps inside input and padding (count_include_pad)
//! ```
//!
//! In ceil mode the last window may stick out of the padding; taps out there
//! never count, as in onnxruntime and PyTorch.

use std::ops::Range;

use super::index::{for_each_position, offset, strides};
use super::numbers::{Numbers, from_floats, from_whole};
use super::operator::{Evaluate, Evaluated, Inputs, Working, one, times};
use super::unary::larger;
use crate::graph::{GlobalPool, OpError, Pool, PoolKind, TensorType, WindowAxis, pool_windows};
use crate::tensor::Tensor;

impl Evaluate for Pool {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| pool(self, inputs, ty))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        let taps = taps(self).min(working.read());
        let each = times(taps, 8).saturating_add(128);
        working.computed_with(times(working.written(), each))
    }

    fn reads_per_result(&self, _: &Working<'_>) -> usize {
        taps(self)
    }
}

fn pool(pool: &Pool, inputs: Inputs<'_>, ty: &TensorType) -> Result<Tensor, OpError> {
    let x = inputs.get(0)?;
    let windows = pool_windows(pool, &x.shape()[2..])?;
    over_windows(pool.kind, pool.count_include_pad, &windows, x, ty)
}

impl Evaluate for GlobalPool {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| global_pool(self.kind, inputs, ty))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.computed_with(times(working.read(), 24))
    }
}

fn global_pool(kind: PoolKind, inputs: Inputs<'_>, ty: &TensorType) -> Result<Tensor, OpError> {
    let x = inputs.get(0)?;
    over_windows(kind, false, &global_windows(&x.shape()[2..]), x, ty)
}

/// One window over all of the spatial axes.
pub(super) fn global_windows(spatial: &[usize]) -> Vec<WindowAxis> {
    let window = |&extent: &usize| WindowAxis {
        input: extent,
        output: 1,
        kernel: extent,
        stride: 1,
        dilation: 1,
        pad_begin: 0,
        pad_end: 0,
    };
    spatial.iter().map(window).collect()
}

/// The elements that each window of a plane holds, and the number that their sum is divided by.
pub(crate) fn members(windows: &[WindowAxis], count_include_pad: bool) -> Vec<(Vec<usize>, f64)> {
    let input_shape: Vec<usize> = windows.iter().map(|w| w.input).collect();
    let output_shape: Vec<usize> = windows.iter().map(|w| w.output).collect();
    let input_strides = strides(&input_shape);
    let mut members = Vec::new();
    for_each_position(&output_shape, |output| {
        let taps: Vec<Range<usize>> = windows
            .iter()
            .zip(output)
            .map(|(w, &o)| taps_between(w, o, w.pad_begin, w.input))
            .collect();
        let extents: Vec<usize> = taps.iter().map(ExactSizeIterator::len).collect();
        let mut inside = Vec::with_capacity(extents.iter().product());
        for_each_position(&extents, |k| {
            let position: Vec<usize> = (0..windows.len())
                .map(|axis| {
                    let w = &windows[axis];
                    output[axis] * w.stride + (taps[axis].start + k[axis]) * w.dilation
                        - w.pad_begin
                })
                .collect();
            inside.push(offset(&position, &input_strides));
        });
        let counted = if count_include_pad {
            let padded = |(w, &o): (&WindowAxis, &usize)| {
                taps_between(w, o, 0, w.pad_begin + w.input + w.pad_end).len() as f64
            };
            // Of three axes there may be more than a whole number holds.
            windows.iter().zip(output).map(padded).product()
        } else {
            inside.len() as f64
        };
        members.push((inside, counted));
    });
    members
}

fn over_windows(
    kind: PoolKind,
    count_include_pad: bool,
    windows: &[WindowAxis],
    x: &Tensor,
    ty: &TensorType,
) -> Result<Tensor, OpError> {
    let plane: usize = windows.iter().map(|w| w.input).product();
    let n_planes: usize = x.shape()[..2].iter().product();
    let members = members(windows, count_include_pad);
    match Numbers::of(x) {
        Numbers::Float(x) => {
            let mut y = Vec::with_capacity(n_planes * members.len());
            for p in 0..n_planes {
                let x = &x[p * plane..][..plane];
                for (inside, counted) in &members {
                    let elements = inside.iter().map(|&i| x[i]);
                    y.push(match kind {
                        PoolKind::Max => elements.fold(f64::NEG_INFINITY, larger),
                        PoolKind::Average => elements.sum::<f64>() / *counted,
                    });
                }
            }
            from_floats(ty, y)
        }
        Numbers::Whole(x) => {
            let lowest = if ty.dtype == crate::DType::I8 {
                i128::from(i8::MIN)
            } else {
                0
            };
            let mut y = Vec::with_capacity(n_planes * members.len());
            for p in 0..n_planes {
                let x = &x[p * plane..][..plane];
                for (inside, _) in &members {
                    y.push(inside.iter().map(|&i| x[i]).max().unwrap_or(lowest));
                }
            }
            from_whole(ty, y)
        }
    }
}

/// The taps of window `o` at `begin <= o * stride + k * dilation < begin + len`, positions
/// counted from the first padded element.
fn taps_between(window: &WindowAxis, o: usize, begin: usize, len: usize) -> Range<usize> {
    let at = o * window.stride;
    let first = begin
        .saturating_sub(at)
        .div_ceil(window.dilation)
        .min(window.kernel);
    let end = (begin + len)
        .saturating_sub(at)
        .div_ceil(window.dilation)
        .min(window.kernel);
    first..end.max(first)
}

fn taps(pool: &Pool) -> usize {
    let extents = pool.kernel.iter();
    extents.fold(1, |n: usize, &k| n.saturating_mul(k))
}
