//! What a convolution reads for each of its outputs.
//!
//! ```text
//! x  [batch, channels, height, width]      y  [batch, out, out_height, out_width]
//!
//! unfold   block[k, p] = x[n(p), c(k), oy(p) * stride + ky(k) * dilation - padding, ...]
//! fold     the reverse: adds block[k, p] to where it was read from
//! gather   block[o, p] = y[n(p), o, oy(p), ox(p)]
//! ```
//!
//! Any kernel, stride, padding and dilation per axis. Columns run over all pictures of the batch, so
//! small pictures fill a block together. A pointwise convolution is treated as pictures of one row.

use super::Real;
use super::block::Block;

/// Sizes of a convolution; axes are height, width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) batch: usize,
    /// Input channels that one output reads.
    pub(crate) channels: usize,
    pub(crate) extent: [usize; 2],
    pub(crate) out: [usize; 2],
    pub(crate) kernel: [usize; 2],
    pub(crate) stride: [usize; 2],
    pub(crate) padding: [usize; 2],
    pub(crate) dilation: [usize; 2],
}

impl Window {
    /// Taps of one output channel: channels x kernel.
    pub(crate) fn depth(&self) -> usize {
        self.channels * self.kernel[0] * self.kernel[1]
    }

    /// Output pixels of all pictures.
    pub(crate) fn columns(&self) -> usize {
        self.batch * self.out[0] * self.out[1]
    }

    /// The same convolution over pictures of one row, if it looks at single pixels.
    pub(super) fn flattened(self) -> Self {
        let pointwise = self.kernel == [1, 1] && self.stride == [1, 1] && self.padding == [0, 0];
        if !pointwise {
            return self;
        }
        let pixels = [1, self.extent[0] * self.extent[1]];
        Self {
            extent: pixels,
            out: pixels,
            ..self
        }
    }

    /// Cuts columns `first..first + count` into runs within one output row.
    pub(super) fn runs(&self, first: usize, count: usize) -> Vec<Run> {
        let [height, width] = self.out;
        let mut runs = Vec::new();
        let mut column = first;
        while column < first + count {
            let (row, x) = (column / width, column % width);
            let len = (width - x).min(first + count - column);
            runs.push(Run {
                column: column - first,
                len,
                picture: row / height,
                y: row % height,
                x,
            });
            column += len;
        }
        runs
    }

    /// Where tap `at` of axis `axis` reads for output `o`: possibly outside.
    fn source(&self, axis: usize, o: usize, at: usize) -> isize {
        (o * self.stride[axis] + at * self.dilation[axis]) as isize - self.padding[axis] as isize
    }

    /// For a run and a tap: the first input element, and which part `start..end` of the run is inside.
    fn reach(&self, run: &Run, ky: usize, kx: usize) -> Option<(usize, usize, usize)> {
        let y = self.source(0, run.y, ky);
        if y < 0 || y >= self.extent[0] as isize {
            return None;
        }
        let x = self.source(1, run.x, kx);
        let stride = self.stride[1] as isize;
        let start = if x < 0 { (-x + stride - 1) / stride } else { 0 };
        let inside = self.extent[1] as isize - x;
        let end = ((inside + stride - 1).max(0) / stride).min(run.len as isize);
        let first = y * self.extent[1] as isize + x + start * stride;
        (start < end).then_some((first as usize, start as usize, end as usize))
    }

    /// The picture that a run lies in, and its first pixel there.
    pub(super) fn place(&self, run: &Run) -> (usize, usize) {
        (run.picture, run.y * self.out[1] + run.x)
    }

    /// The part of the convolution that reads `count` of the input channels.
    pub(super) fn of_channels(self, count: usize) -> Self {
        Self {
            channels: count,
            ..self
        }
    }

    /// Elements of one input channel.
    pub(super) fn plane(&self) -> usize {
        self.extent[0] * self.extent[1]
    }
}

/// Consecutive columns within one output row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    /// First column, counted within the block.
    pub(super) column: usize,
    pub(super) len: usize,
    picture: usize,
    y: usize,
    x: usize,
}

/// Where a layer's channels lie within a tensor that holds all groups.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Channels {
    /// Of the whole tensor.
    pub(crate) total: usize,
    /// First of this group.
    pub(crate) first: usize,
}

impl Channels {
    /// The same from `channel` of the group on.
    pub(super) fn from(self, channel: usize) -> Self {
        Self {
            first: self.first + channel,
            ..self
        }
    }
}

/// Fills `block` with the inputs of the columns of `runs`.
pub(super) fn unfold<T: Real>(
    window: &Window,
    x: &[T],
    from: Channels,
    runs: &[Run],
    block: &mut Block<T>,
    count: usize,
) {
    block.reset(window.depth(), count);
    let [taps_y, taps_x] = window.kernel;
    let stride = window.stride[1];
    for c in 0..window.channels {
        for tap in 0..taps_y * taps_x {
            let (ky, kx) = (tap / taps_x, tap % taps_x);
            let row = block.row_mut(c * taps_y * taps_x + tap);
            for run in runs {
                let to = &mut row[run.column..run.column + run.len];
                let Some((first, start, end)) = window.reach(run, ky, kx) else {
                    to.fill(T::zero());
                    continue;
                };
                let plane = (run.picture * from.total + from.first + c) * window.plane();
                let source = &x[plane + first..];
                to[..start].fill(T::zero());
                to[end..].fill(T::zero());
                let to = &mut to[start..end];
                match stride {
                    1 => to.copy_from_slice(&source[..to.len()]),
                    2 => {
                        // Whole pairs make a loop of vectors; the last column may have half of one.
                        let (pairs, last) = source.as_chunks();
                        let whole = to.len().min(pairs.len());
                        for (to, &[from, _]) in to.iter_mut().zip(pairs) {
                            *to = from;
                        }
                        for (to, &from) in to[whole..].iter_mut().zip(last) {
                            *to = from;
                        }
                    }
                    _ => {
                        let picked = source.iter().step_by(stride);
                        to.iter_mut().zip(picked).for_each(|(to, &from)| *to = from);
                    }
                }
            }
        }
    }
}

/// Adds rows `first_tap..` of the gradient of a block to the inputs they were read from: `dx` holds the channels
/// of `window` for each picture.
pub(super) fn fold<T: Real>(
    window: &Window,
    tile: &Block<T>,
    (first_tap, n_taps): (usize, usize),
    runs: &[Run],
    dx: &mut [&mut [T]],
) {
    let [taps_y, taps_x] = window.kernel;
    let stride = window.stride[1];
    for k in 0..n_taps {
        let (c, tap) = (
            (first_tap + k) / (taps_y * taps_x),
            (first_tap + k) % (taps_y * taps_x),
        );
        let row = tile.row(k);
        for run in runs {
            let Some((first, start, end)) = window.reach(run, tap / taps_x, tap % taps_x) else {
                continue;
            };
            let gradient = &row[run.column + start..run.column + end];
            let to = &mut dx[run.picture][c * window.plane() + first..];
            match stride {
                1 => to.iter_mut().zip(gradient).for_each(|(to, &g)| *to += g),
                2 => {
                    let (pairs, last) = to.as_chunks_mut();
                    let whole = gradient.len().min(pairs.len());
                    for ([to, _], &g) in pairs.iter_mut().zip(gradient) {
                        *to += g;
                    }
                    for (to, &g) in last.iter_mut().zip(&gradient[whole..]) {
                        *to += g;
                    }
                }
                _ => {
                    let picked = to.iter_mut().step_by(stride);
                    picked.zip(gradient).for_each(|(to, &g)| *to += g);
                }
            }
        }
    }
}

/// Elements of `y` that a run of output channel `channel` covers.
fn covered(window: &Window, run: &Run, to: Channels, channel: usize) -> std::ops::Range<usize> {
    let [height, width] = window.out;
    let start = ((run.picture * to.total + to.first + channel) * height + run.y) * width + run.x;
    start..start + run.len
}

/// Fills `block` with `dora_scale * dy` of the columns of `runs`, one row per output channel.
pub(super) fn gather<T: Real>(
    window: &Window,
    dy: &[T],
    (from, outputs): (Channels, usize),
    dora_scale: Option<&[T]>,
    runs: &[Run],
    block: &mut Block<T>,
    count: usize,
) {
    block.reset(outputs, count);
    for o in 0..outputs {
        let dora_scale = dora_scale.map_or(T::one(), |g| g[o]);
        let row = block.row_mut(o);
        for run in runs {
            let from = &dy[covered(window, run, from, o)];
            for (to, &v) in row[run.column..].iter_mut().zip(from) {
                *to = v * dora_scale;
            }
        }
    }
}
