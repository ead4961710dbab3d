//! Rows of what a product gets: for each output pixel or row, the inputs of one output, group by group.
//!
//! Deliberately absent: all of them; a bounded number is spread evenly over each batch.

use super::products::{Kind, Product};
use crate::Tensor;
use crate::graph::{Conv, Padding};

/// Values that are kept of one product.
const MAX_VALUES: usize = 8 << 20;
/// Rows that are kept of one product; more would not change what they say.
const MAX_ROWS: usize = 16_384;

/// Rows, `[row][group][channel, tap]`.
#[derive(Debug, Clone)]
pub(super) struct Rows {
    groups: usize,
    depth: usize,
    rows_per_batch: usize,
    values: Vec<f32>,
    /// Where each batch begins, in rows.
    starts: Vec<usize>,
    walk: Walk,
}

/// How rows are read from a tensor.
#[derive(Debug, Clone)]
enum Walk {
    Matrix,
    Window { conv: Conv, kernel: [usize; 2] },
}

impl Rows {
    /// None yet of `n_batches`.
    pub(super) fn new(product: &Product, n_batches: usize) -> Self {
        let width = product.groups() * product.depth();
        let most = MAX_ROWS.min(MAX_VALUES / width.max(1));
        let walk = match &product.kind {
            Kind::Matrix | Kind::Transposed => Walk::Matrix,
            Kind::Conv(conv) => {
                let window = &product.weights.shape()[2..];
                let kernel = [
                    if window.len() == 2 { window[0] } else { 1 },
                    window[window.len() - 1],
                ];
                Walk::Window {
                    conv: conv.clone(),
                    kernel,
                }
            }
        };
        Self {
            groups: product.groups(),
            depth: product.depth(),
            rows_per_batch: (most / n_batches.max(1)).max(1),
            values: Vec::new(),
            starts: Vec::new(),
            walk,
        }
    }

    /// Adds rows of one batch; false if its shape does not fit the weights.
    pub(super) fn add(&mut self, tensor: &Tensor) -> bool {
        self.starts.push(self.n_rows());
        let values = tensor.to_f32();
        match &self.walk {
            Walk::Matrix => {
                if tensor.shape().last() != Some(&self.depth) {
                    return false;
                }
                let n_rows = values.len() / self.depth.max(1);
                let taken = n_rows.min(self.rows_per_batch);
                for i in 0..taken {
                    let row = i * n_rows / taken;
                    let row = &values[row * self.depth..][..self.depth];
                    self.values.extend_from_slice(row);
                }
                true
            }
            Walk::Window { conv, kernel } => {
                let Some(window) = Window::new(conv, *kernel, tensor.shape()) else {
                    return false;
                };
                let taps = kernel[0] * kernel[1];
                if window.channels * taps != self.groups * self.depth {
                    return false;
                }
                let n_rows = window.n_rows();
                let taken = n_rows.min(self.rows_per_batch);
                for i in 0..taken {
                    window.read(&values, i * n_rows / taken, &mut self.values);
                }
                true
            }
        }
    }

    pub(super) fn n_rows(&self) -> usize {
        self.values.len() / (self.groups * self.depth).max(1)
    }

    /// The rows of one group, `[row][channel, tap]`.
    pub(super) fn group(&self, group: usize) -> Vec<f32> {
        let rows = self.values.chunks_exact((self.groups * self.depth).max(1));
        let own = rows.flat_map(|row| &row[group * self.depth..][..self.depth]);
        own.copied().collect()
    }

    /// Which rows judge: those of every `every`-th batch, or of a single batch every `every`-th row.
    pub(super) fn judges(&self, every: usize) -> Vec<bool> {
        let is_single = self.starts.len() < 2;
        let batch = |row: usize| self.starts.partition_point(|&start| start <= row) - 1;
        let number = |row: usize| if is_single { row } else { batch(row) };
        (0..self.n_rows())
            .map(|row| number(row) % every == 1)
            .collect()
    }
}

/// A window over an image, or over a sequence as an image of one line.
struct Window {
    channels: usize,
    input: [usize; 2],
    output: [usize; 2],
    images: usize,
    kernel: [usize; 2],
    stride: [usize; 2],
    dilation: [usize; 2],
    begin: [usize; 2],
}

impl Window {
    fn new(conv: &Conv, kernel: [usize; 2], shape: &[usize]) -> Option<Self> {
        let (images, channels, space) = match shape {
            [images, channels, space @ ..] => (*images, *channels, space),
            _ => return None,
        };
        let rank = space.len();
        let input = match space {
            [width] => [1, *width],
            [height, width] => [*height, *width],
            _ => return None,
        };
        let both = |list: &[usize], default: usize| match list {
            [] => [default; 2],
            [x] => [default, *x],
            [y, x, ..] => [*y, *x],
        };
        let stride = both(&conv.strides, 1);
        let dilation = both(&conv.dilations, 1);
        let extent = [0, 1].map(|axis| (kernel[axis] - 1) * dilation[axis] + 1);
        let (mut begin, mut output) = ([0; 2], [0; 2]);
        for axis in 0..2 {
            let declared = (axis + rank).checked_sub(2);
            let (start, end) = match (&conv.padding, declared) {
                (Padding::Explicit(pads), Some(own)) if pads.len() == 2 * rank => {
                    (pads[own], pads[rank + own])
                }
                (Padding::SameUpper | Padding::SameLower, Some(_)) => {
                    let n = input[axis].div_ceil(stride[axis]);
                    let covered = n.saturating_sub(1) * stride[axis] + extent[axis];
                    let total = covered.saturating_sub(input[axis]);
                    match conv.padding {
                        Padding::SameUpper => (total / 2, total - total / 2),
                        _ => (total - total / 2, total / 2),
                    }
                }
                _ => (0, 0),
            };
            let room = (input[axis] + start + end).checked_sub(extent[axis])?;
            begin[axis] = start;
            output[axis] = room / stride[axis] + 1;
        }
        Some(Self {
            channels,
            input,
            output,
            images,
            kernel,
            stride,
            dilation,
            begin,
        })
    }

    fn n_rows(&self) -> usize {
        self.images * self.output[0] * self.output[1]
    }

    /// Adds what output pixel `row` reads: zero outside of the image.
    fn read(&self, image: &[f32], row: usize, to: &mut Vec<f32>) {
        let pixels = self.output[0] * self.output[1];
        let at = [row % pixels / self.output[1], row % self.output[1]];
        let (plane, first) = (self.input[0] * self.input[1], row / pixels * self.channels);
        let position = |axis: usize, tap: usize| {
            let position = at[axis] * self.stride[axis] + tap * self.dilation[axis];
            position
                .checked_sub(self.begin[axis])
                .filter(|&position| position < self.input[axis])
        };
        for channel in 0..self.channels {
            let plane = &image[(first + channel) * plane..][..plane];
            for y in 0..self.kernel[0] {
                for x in 0..self.kernel[1] {
                    let place = position(0, y).zip(position(1, x));
                    to.push(place.map_or(0.0, |(y, x)| plane[y * self.input[1] + x]));
                }
            }
        }
    }
}
