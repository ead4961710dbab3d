//! Operators that slide a window over spatial axes: convolution and pooling.
//!
//! ```text
//! window o covers taps k = 0..kernel at input positions o * stride + k * dilation - pad_begin
//! extent = dilation * (kernel - 1) + 1
//! explicit, valid:  output = floor((input + pads - extent) / stride) + 1
//! ceil mode:        output = ceil(...) + 1, less one if the last window would start
//!                   beyond input + pad_begin
//! same:             output = ceil(input / stride), pads = what that needs, the odd one
//!                   at the end (upper) or the beginning (lower)
//! ```
//!
//! Source: ONNX Conv, ConvTranspose, MaxPool and AveragePool; the clipping in
//! ceil mode is that of the newest versions (and of onnxruntime and PyTorch).

use super::op_error;
use crate::graph::{Conv, ConvTranspose, OpError, Padding, Pool};
use crate::tensor::MAX_ELEMENTS;

/// The windows along one spatial axis, padding resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowAxis {
    /// Extent of the operator's operand.
    pub input: usize,
    /// Extent of the operator's result.
    pub output: usize,
    /// Taps of the window.
    pub kernel: usize,
    /// Step of the window.
    pub stride: usize,
    /// Elements from one tap to the next; 1 for adjacent ones.
    pub dilation: usize,
    /// Padding before the first element.
    pub pad_begin: usize,
    /// Padding after the last element; the last window may end before or, in
    /// ceil mode, behind it.
    pub pad_end: usize,
}

impl WindowAxis {
    /// Elements from the first tap to the last.
    pub fn extent(&self) -> usize {
        self.dilation * (self.kernel - 1) + 1
    }

    /// The windows of a transposed convolution as those of the one whose gradient it is, and the other way.
    pub(crate) fn reversed(&self) -> Self {
        Self {
            input: self.output,
            output: self.input,
            ..*self
        }
    }
}

/// The windows of a convolution over an input of spatial extents `input` with a
/// weight of spatial extents `kernel`.
///
/// # Errors
///
/// [`OpError`] if a list has the wrong length, a value is zero that must not be,
/// or the window is larger than the padded input.
pub fn conv_windows(
    conv: &Conv,
    input: &[usize],
    kernel: &[usize],
) -> Result<Vec<WindowAxis>, OpError> {
    let bare = bare_windows(input, kernel, &conv.strides, &conv.dilations)?;
    pad_windows(bare, &conv.padding, false)
}

/// The windows of a pooling operator over an input of spatial extents `input`.
///
/// # Errors
///
/// As [`conv_windows`]; also if a whole window would fit into the padding.
pub fn pool_windows(pool: &Pool, input: &[usize]) -> Result<Vec<WindowAxis>, OpError> {
    let bare = bare_windows(input, &pool.kernel, &pool.strides, &pool.dilations)?;
    let windows = pad_windows(bare, &pool.padding, pool.ceil_mode)?;
    for w in &windows {
        if w.pad_begin.max(w.pad_end) >= w.extent() {
            return Err(op_error!(
                "padding {} or {} holds a whole window of {}",
                w.pad_begin,
                w.pad_end,
                w.extent()
            ));
        }
    }
    Ok(windows)
}

/// The windows of a transposed convolution: tap `k` of input element `i` adds to
/// output element `i * stride + k * dilation - pad_begin`, if there is one.
///
/// # Errors
///
/// As [`conv_windows`]; also if the result would be empty.
pub fn conv_transpose_windows(
    transpose: &ConvTranspose,
    input: &[usize],
    kernel: &[usize],
) -> Result<Vec<WindowAxis>, OpError> {
    let conv = &transpose.conv;
    let rank = input.len();
    let mut windows = bare_windows(input, kernel, &conv.strides, &conv.dilations)?;
    let extra = list_or("output_padding", &transpose.output_padding, rank, 0)?;
    let output_shape = match transpose.output_shape.as_deref() {
        // A list of none is none, as everywhere.
        None | Some([]) => None,
        Some(shape) => Some(list_or("output_shape", shape, rank, 0)?),
    };
    let pads = explicit_pads(&conv.padding, rank)?;
    for (axis, w) in windows.iter_mut().enumerate() {
        if w.input == 0 {
            return Err(op_error!("spatial axis {axis} is empty"));
        }
        let full = w.stride * (w.input - 1) + w.extent() + extra[axis];
        let wanted = match (&output_shape, &conv.padding) {
            (Some(shape), _) => Some(shape[axis]),
            (None, Padding::SameUpper | Padding::SameLower) => Some(w.input * w.stride),
            (None, _) => None,
        };
        if let Some(output) = wanted {
            // A result larger than everything the taps reach ends in bias alone.
            let total = full.saturating_sub(output);
            w.pad_begin = match conv.padding {
                Padding::SameUpper => total / 2,
                _ => total - total / 2,
            };
            w.pad_end = total - w.pad_begin;
            w.output = output;
        } else {
            (w.pad_begin, w.pad_end) = pads[axis];
            w.output = full.saturating_sub(w.pad_begin + w.pad_end);
        }
        if w.output == 0 {
            return Err(op_error!("spatial axis {axis} of the result is empty"));
        }
    }
    Ok(windows)
}

/// Windows with their parameters checked; padding and output still zero.
fn bare_windows(
    input: &[usize],
    kernel: &[usize],
    strides: &[usize],
    dilations: &[usize],
) -> Result<Vec<WindowAxis>, OpError> {
    let rank = input.len();
    if kernel.len() != rank {
        return Err(op_error!(
            "kernel {kernel:?} does not fit {rank} spatial axes"
        ));
    }
    let strides = list_or("strides", strides, rank, 1)?;
    let dilations = list_or("dilations", dilations, rank, 1)?;
    let mut windows = Vec::with_capacity(rank);
    for axis in 0..rank {
        let w = WindowAxis {
            input: input[axis],
            output: 0,
            kernel: kernel[axis],
            stride: strides[axis],
            dilation: dilations[axis],
            pad_begin: 0,
            pad_end: 0,
        };
        if w.kernel == 0 || w.stride == 0 || w.dilation == 0 {
            return Err(op_error!(
                "kernel {kernel:?}, strides {strides:?} and dilations {dilations:?} must be positive"
            ));
        }
        // Below 2^31 each, sums of two products of them fit 64 bits.
        if [w.input, w.kernel, w.stride, w.dilation]
            .iter()
            .any(|&v| v > MAX_ELEMENTS)
        {
            return Err(op_error!("window parameters beyond {MAX_ELEMENTS}: {w:?}"));
        }
        windows.push(w);
    }
    Ok(windows)
}

fn pad_windows(
    mut windows: Vec<WindowAxis>,
    padding: &Padding,
    ceil_mode: bool,
) -> Result<Vec<WindowAxis>, OpError> {
    let pads = explicit_pads(padding, windows.len())?;
    for (axis, w) in windows.iter_mut().enumerate() {
        if matches!(padding, Padding::SameUpper | Padding::SameLower) {
            w.output = w.input.div_ceil(w.stride);
            let needed = w.output.saturating_sub(1) * w.stride + w.extent();
            let total = needed.saturating_sub(w.input);
            w.pad_begin = match padding {
                Padding::SameUpper => total / 2,
                _ => total - total / 2,
            };
            w.pad_end = total - w.pad_begin;
            continue;
        }
        (w.pad_begin, w.pad_end) = pads[axis];
        let padded = w.input + w.pad_begin + w.pad_end;
        let Some(room) = padded.checked_sub(w.extent()) else {
            return Err(op_error!(
                "window of {} is larger than the padded input of {padded} on spatial axis {axis}",
                w.extent()
            ));
        };
        w.output = room / w.stride + 1;
        if ceil_mode && *padding != Padding::Valid {
            w.output = room.div_ceil(w.stride) + 1;
            if (w.output - 1) * w.stride >= w.input + w.pad_begin {
                w.output -= 1;
            }
        }
    }
    Ok(windows)
}

/// Begin and end of every axis; zeros unless the padding is explicit.
fn explicit_pads(padding: &Padding, rank: usize) -> Result<Vec<(usize, usize)>, OpError> {
    let Padding::Explicit(pads) = padding else {
        return Ok(vec![(0, 0); rank]);
    };
    let pads = list_or("pads", pads, 2 * rank, 0)?;
    if pads.iter().any(|&p| p > MAX_ELEMENTS) {
        return Err(op_error!("pads {pads:?} beyond {MAX_ELEMENTS}"));
    }
    Ok((0..rank)
        .map(|axis| (pads[axis], pads[rank + axis]))
        .collect())
}

/// `list`, or `default` for every axis if it is empty.
fn list_or(what: &str, list: &[usize], len: usize, default: usize) -> Result<Vec<usize>, OpError> {
    match list.len() {
        0 => Ok(vec![default; len]),
        n if n == len && list.iter().all(|&v| v <= MAX_ELEMENTS) => Ok(list.to_vec()),
        n if n == len => Err(op_error!("`{what}` {list:?} is beyond {MAX_ELEMENTS}")),
        n => Err(op_error!("`{what}` has {n} values, wanted {len}")),
    }
}
