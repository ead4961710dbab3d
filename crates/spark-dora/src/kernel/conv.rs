//! Convolutions whose output channels all read the same input channels.
//!
//! ```text
//! x  [batch, channels, height, width]      y  [batch, out, out_height, out_width]
//!
//! unfold   block[k, p] = x[n(p), c(k), oy(p) * stride + ky(k) * dilation - padding, ...]   64 p at a time
//! forward  tile = W block (+ B H),  scattered to y with gain and bias
//! backward tile = W^T G (+ A^T Q),  folded: added to dx where the block was read from
//! ```
//!
//! Any kernel, stride, padding and dilation per axis. Columns run over all pictures of the batch, so
//! small pictures fill a block together. A pointwise convolution is treated as pictures of one row.

use super::block::{Block, panels, transpose};
use super::magnitude::RowSums;
use super::{Gradients, LowRank, ROWS_AT_ONCE, Real, Rows};

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
    fn flattened(self) -> Self {
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
    fn runs(&self, first: usize, count: usize) -> Vec<Run> {
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

    /// Elements of one input channel.
    fn plane(&self) -> usize {
        self.extent[0] * self.extent[1]
    }
}

/// Consecutive columns within one output row.
#[derive(Debug, Clone, Copy)]
struct Run {
    /// Within the block.
    column: usize,
    len: usize,
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

/// Fills `block` with the inputs of the columns of `runs`.
fn unfold<T: Real>(
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
                if stride == 1 {
                    to[start..end].copy_from_slice(&source[..end - start]);
                } else {
                    let picked = source.iter().step_by(stride);
                    for (to, &from) in to[start..end].iter_mut().zip(picked) {
                        *to = from;
                    }
                }
            }
        }
    }
}

/// Adds rows `first_tap..` of the gradient of a block to the inputs they were read from.
fn fold<T: Real>(
    window: &Window,
    tile: &Block<T>,
    (first_tap, n_taps): (usize, usize),
    runs: &[Run],
    dx: &mut [T],
    from: Channels,
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
            let plane = (run.picture * from.total + from.first + c) * window.plane();
            let gradient = &row[run.column + start..run.column + end];
            let to = &mut dx[plane + first..];
            if stride == 1 {
                for (to, &g) in to.iter_mut().zip(gradient) {
                    *to += g;
                }
            } else {
                for (to, &g) in to.iter_mut().step_by(stride).zip(gradient) {
                    *to += g;
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

/// The operands of one group.
#[derive(Clone, Copy)]
pub(crate) struct Group<'a, T> {
    /// Input channels.
    pub(crate) input: Channels,
    /// Output channels.
    pub(crate) output: Channels,
    /// `[out, depth]`.
    pub(crate) weight: &'a [T],
    /// Rows of `weight`.
    pub(crate) outputs: usize,
}

/// Writes the group's part of `y`; gives `h = s A x`, `[rank, columns]`.
pub(crate) fn forward<T: Real>(
    window: Window,
    x: &[T],
    group: Group<'_, T>,
    low: LowRank<'_, T>,
    rows: Rows<'_, T>,
    y: &mut [T],
) -> Vec<T> {
    let window = window.flattened();
    let (depth, columns, rank) = (window.depth(), window.columns(), low.rank);
    let mut h = vec![T::zero(); rank * columns];
    let (mut block, mut mid, mut tile) = (Block::new(), Block::new(), Block::new());
    for (first, count) in panels::<T>(columns) {
        let runs = window.runs(first, count);
        unfold(&window, x, group.input, &runs, &mut block, count);
        if rank > 0 {
            mid.reset(rank, count);
            let width = mid.width();
            block.multiply((low.a, depth), (mid.as_mut_slice(), width), rank, false);
            for l in 0..rank {
                let row = mid.row_mut(l);
                row.iter_mut().for_each(|h| *h *= low.scaling);
                h[l * columns + first..][..count].copy_from_slice(row);
            }
        }
        for row in (0..group.outputs).step_by(ROWS_AT_ONCE) {
            let here = ROWS_AT_ONCE.min(group.outputs - row);
            tile.reset(here, count);
            let width = tile.width();
            let w = (&group.weight[row * depth..], depth);
            block.multiply(w, (tile.as_mut_slice(), width), here, false);
            if rank > 0 {
                let b = (&low.b[row * rank..], rank);
                mid.multiply(b, (tile.as_mut_slice(), width), here, true);
            }
            for r in 0..here {
                let (gain, bias) = rows.at(row + r);
                let results = tile.row(r);
                for run in &runs {
                    let to = &mut y[covered(&window, run, group.output, row + r)];
                    for (to, &v) in to.iter_mut().zip(&results[run.column..]) {
                        *to = v * gain + bias;
                    }
                }
            }
        }
    }
    h
}

/// Adds the group's gradients; `h` is from [`forward`]. Of `gradients`, `x` covers all groups.
pub(crate) fn backward<T: Real>(
    window: Window,
    (x, dy, h): (&[T], &[T], &[T]),
    group: Group<'_, T>,
    low: LowRank<'_, T>,
    gain: Option<&[T]>,
    gradients: &mut Gradients<T>,
) {
    let window = window.flattened();
    let (depth, columns, rank) = (window.depth(), window.columns(), low.rank);
    let outputs = group.outputs;
    let flipped = |from: &[T], rows: usize, columns: usize| {
        let mut to = vec![T::zero(); rows * columns];
        transpose((rows, columns), from, columns, &mut to, rows, |_, v| v);
        to
    };
    let wants_x = gradients.x.is_some();
    let w_columns = match wants_x {
        true => flipped(group.weight, outputs, depth),
        false => Vec::new(),
    };
    let a_columns = flipped(low.a, rank, depth);
    let b_columns = flipped(low.b, outputs, rank);
    let mut da_columns = vec![T::zero(); depth * rank];
    let (mut block, mut g, mut q, mut tile) =
        (Block::new(), Block::new(), Block::new(), Block::new());
    let mut right = Block::new();
    for (first, count) in panels::<T>(columns) {
        let runs = window.runs(first, count);
        gather(&window, dy, group, gain, &runs, &mut g, count);
        if rank > 0 {
            q.reset(rank, count);
            let width = q.width();
            g.multiply(
                (&b_columns, outputs),
                (q.as_mut_slice(), width),
                rank,
                false,
            );
            let scaling = low.scaling;
            q.as_mut_slice().iter_mut().for_each(|q| *q *= scaling);
        }
        if let Some(dx) = &mut gradients.x {
            for tap in (0..depth).step_by(ROWS_AT_ONCE) {
                let here = ROWS_AT_ONCE.min(depth - tap);
                tile.reset(here, count);
                let width = tile.width();
                let w = (&w_columns[tap * outputs..], outputs);
                g.multiply(w, (tile.as_mut_slice(), width), here, false);
                if rank > 0 {
                    let a = (&a_columns[tap * rank..], rank);
                    q.multiply(a, (tile.as_mut_slice(), width), here, true);
                }
                fold(&window, &tile, (tap, here), &runs, dx, group.input);
            }
        }
        if rank > 0 {
            // The blocks lie with columns along a row, which is what a left operand needs.
            for (l, n) in panels::<T>(rank) {
                right.fill_columns(count, n, &h[l * columns + first..], columns);
                let left = (g.as_slice(), g.width());
                right.multiply(left, (&mut gradients.b[l..], rank), outputs, true);
            }
            unfold(&window, x, group.input, &runs, &mut block, count);
            for (l, n) in panels::<T>(rank) {
                let width = q.width();
                right.fill_columns(count, n, &q.as_slice()[l * width..], width);
                let left = (block.as_slice(), block.width());
                right.multiply(left, (&mut da_columns[l..], rank), depth, true);
            }
        }
    }
    transpose(
        (depth, rank),
        &da_columns,
        rank,
        &mut gradients.a,
        depth,
        |_, v| v,
    );
}

/// The gradient of the group's weight, `[out, depth]`.
pub(crate) fn weight_gradient<T: Real>(
    window: Window,
    x: &[T],
    dy: &[T],
    group: Group<'_, T>,
) -> Vec<T> {
    let window = window.flattened();
    let (depth, columns, outputs) = (window.depth(), window.columns(), group.outputs);
    let mut dw = vec![T::zero(); outputs * depth];
    let (mut block, mut g, mut right) = (Block::new(), Block::new(), Block::new());
    for (first, count) in panels::<T>(columns) {
        let runs = window.runs(first, count);
        gather(&window, dy, group, None, &runs, &mut g, count);
        unfold(&window, x, group.input, &runs, &mut block, count);
        for (k, n) in panels::<T>(depth) {
            let width = block.width();
            right.fill_columns(count, n, &block.as_slice()[k * width..], width);
            let left = (g.as_slice(), g.width());
            right.multiply(left, (&mut dw[k..], depth), outputs, true);
        }
    }
    dw
}

/// Fills `block` with `gain * dy` of the columns of `runs`, one row per output channel.
fn gather<T: Real>(
    window: &Window,
    dy: &[T],
    group: Group<'_, T>,
    gain: Option<&[T]>,
    runs: &[Run],
    block: &mut Block<T>,
    count: usize,
) {
    block.reset(group.outputs, count);
    for o in 0..group.outputs {
        let gain = gain.map_or(T::one(), |g| g[o]);
        let row = block.row_mut(o);
        for run in runs {
            let from = &dy[covered(window, run, group.output, o)];
            for (to, &v) in row[run.column..].iter_mut().zip(from) {
                *to = v * gain;
            }
        }
    }
}

/// Sums over the results of every output channel of `[batch, out, pixels]`.
pub(crate) fn channel_sums<T: Real>(
    y: &[T],
    dy: &[T],
    bias: Option<&[T]>,
    (outputs, pixels): (usize, usize),
) -> Vec<RowSums> {
    let mut sums = vec![RowSums::default(); outputs];
    let planes = y.chunks(pixels.max(1)).zip(dy.chunks(pixels.max(1)));
    for (i, (y, dy)) in planes.enumerate() {
        let o = i % outputs;
        sums[o].add(y, dy, bias.map_or(T::zero(), |b| b[o]));
    }
    sums
}

/// `U = W X + B H` of one output channel, for all columns: before gain and bias.
pub(crate) fn unscaled<T: Real>(
    window: Window,
    x: &[T],
    input: Channels,
    weight: &[T],
    (b, h): (&[T], &[T]),
) -> Vec<T> {
    let window = window.flattened();
    let columns = window.columns();
    let mut u = vec![T::zero(); columns];
    let mut block = Block::new();
    for (first, count) in panels::<T>(columns) {
        let runs = window.runs(first, count);
        unfold(&window, x, input, &runs, &mut block, count);
        let to = &mut u[first..first + count];
        block.multiply((weight, window.depth()), (to, count), 1, false);
        for (l, &b) in b.iter().enumerate() {
            let h = &h[l * columns + first..][..count];
            for (u, &h) in u[first..].iter_mut().zip(h) {
                *u += b * h;
            }
        }
    }
    u
}
