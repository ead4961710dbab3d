//! Convolutions whose output channels all read the same input channels.
//!
//! ```text
//! per 64 columns (output pixels of all pictures):
//!   forward    tile = W block (+ B H),  scattered to y with scale and bias
//!   backward   tile = W^T G (+ A^T Q),  folded: added to dx where the block was read from
//! ```
//!
//! A layer with many pixels for its weight goes through the effective weight `W' = g (W + s B A)`
//! instead, formed once per pass: then H and Q are needed for the gradients of A and B alone.

use std::ops::Range;

use super::block::{Block, panels, transpose, transposed};
use super::magnitude::RowSums;
pub(crate) use super::window::{Channels, Window};
use super::window::{Run, fold, gather, unfold};
use super::{Gradients, LowRank, ROWS_AT_ONCE, Real, Rows, threads};

/// Whether forming the effective weight in both passes costs less than carrying the update along.
///
/// ```text
/// 2 * out * depth * rank   <   columns * (out + depth) * rank
/// ```
pub(crate) fn prefers_effective(window: &Window, outputs: usize) -> bool {
    let depth = window.depth();
    2 * outputs * depth < window.columns() * (outputs + depth)
}

/// The operands of one group.
#[derive(Clone, Copy)]
pub(crate) struct Group<'a, T> {
    /// Input channels of the group.
    pub(crate) input: Channels,
    /// Output channels of the group.
    pub(crate) output: Channels,
    /// The group's rows of the weight, `[out, depth]`.
    pub(crate) weight: &'a [T],
    /// Rows of `weight`, which are output channels of the group.
    pub(crate) outputs: usize,
}

impl<T> Group<'_, T> {
    /// Output channels, and how many.
    fn results(&self) -> (Channels, usize) {
        (self.output, self.outputs)
    }
}

/// Writes the group's part of `y`; gives `h = s A x`, `[rank, columns]`. Threads take runs of columns.
pub(crate) fn forward<T: Real>(
    window: Window,
    x: &[T],
    group: Group<'_, T>,
    low: LowRank<'_, T>,
    rows: Rows<'_, T>,
    y: &mut [T],
) -> Vec<T> {
    let window = window.flattened();
    let (columns, rank) = (window.columns(), low.rank);
    let threads = threads::worth(columns * window.depth() * group.outputs);
    // More runs than threads, so that one that is slow keeps none waiting.
    let parts = if threads == 1 { 1 } else { 4 * threads };
    let runs = threads::runs(columns, T::widest(), parts);
    let planes = planes_of(&window, y, group.results(), &runs);
    let items = runs.iter().cloned().zip(planes).collect();
    let parts = threads::map(threads, items, |(run, mut planes)| {
        some_columns(&window, x, group, low, rows, run, &mut planes)
    });
    let mut h = vec![T::zero(); rank * columns];
    threads::join_columns(&runs, &parts, &mut h, columns);
    h
}

/// The results of a run of columns: for every picture it touches, each output channel's part.
struct Planes<'a, T> {
    first_picture: usize,
    /// First pixel within the first picture; runs begin the others at 0.
    first_pixel: usize,
    outputs: usize,
    parts: Vec<&'a mut [T]>,
}

impl<T> Planes<'_, T> {
    /// `len` results of a channel of the group, from a pixel of a picture on.
    fn at(&mut self, (picture, pixel): (usize, usize), channel: usize, len: usize) -> &mut [T] {
        let picture = picture - self.first_picture;
        let start = if picture == 0 { self.first_pixel } else { 0 };
        &mut self.parts[picture * self.outputs + channel][pixel - start..][..len]
    }
}

/// Cuts the group's results at the ends of `runs`, which cover all columns.
fn planes_of<'a, T: Real>(
    window: &Window,
    y: &'a mut [T],
    (to, outputs): (Channels, usize),
    runs: &[Range<usize>],
) -> Vec<Planes<'a, T>> {
    let pixels = (window.out[0] * window.out[1]).max(1);
    let planes = runs.iter().map(|run| Planes {
        first_picture: run.start / pixels,
        first_pixel: run.start % pixels,
        outputs,
        parts: Vec::new(),
    });
    let mut planes: Vec<_> = planes.collect();
    let pictures = y.chunks_mut((to.total * pixels).max(1));
    for (picture, y) in pictures.take(window.batch).enumerate() {
        let here = picture * pixels..(picture + 1) * pixels;
        let channels = y.chunks_mut(pixels).skip(to.first).take(outputs);
        for mut channel in channels {
            for (run, planes) in runs.iter().zip(&mut planes) {
                let len = run
                    .end
                    .min(here.end)
                    .saturating_sub(run.start.max(here.start));
                if len > 0 {
                    let (part, rest) = channel.split_at_mut(len);
                    planes.parts.push(part);
                    channel = rest;
                }
            }
        }
    }
    planes
}

/// Writes the results of a run of columns; gives their `h`, `[rank, len]`.
fn some_columns<T: Real>(
    window: &Window,
    x: &[T],
    group: Group<'_, T>,
    low: LowRank<'_, T>,
    rows: Rows<'_, T>,
    columns: Range<usize>,
    y: &mut Planes<'_, T>,
) -> Vec<T> {
    let (depth, rank) = (window.depth(), low.rank);
    let mut h = vec![T::zero(); rank * columns.len()];
    let (mut block, mut mid, mut tile) = (Block::new(), Block::new(), Block::new());
    for (offset, count) in panels::<T>(columns.len()) {
        let runs = window.runs(columns.start + offset, count);
        unfold(window, x, group.input, &runs, &mut block, count);
        if rank > 0 {
            mid.reset(rank, count);
            let width = mid.width();
            block.multiply((low.a, depth), (mid.as_mut_slice(), width), rank, false);
            for l in 0..rank {
                let row = mid.row_mut(l);
                row.iter_mut().for_each(|h| *h *= low.scaling);
                h[l * columns.len() + offset..][..count].copy_from_slice(row);
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
                let (dora_scale, bias) = rows.at(row + r);
                let results = tile.row(r);
                for run in &runs {
                    let to = y.at(window.place(run), row + r, run.len);
                    for (to, &v) in to.iter_mut().zip(&results[run.column..]) {
                        *to = v * dora_scale + bias;
                    }
                }
            }
        }
    }
    h
}

/// What one thread writes of the gradients: of some input channels, and of some rows of B.
struct Part<'a, T> {
    /// Input channels of the group.
    channels: Range<usize>,
    /// For each picture, these channels' planes; absent if they are not wanted.
    dx: Option<Vec<&'a mut [T]>>,
    /// These channels' taps, `[taps, rank]`.
    da_columns: &'a mut [T],
    /// Rows of B.
    outputs: Range<usize>,
    /// `[outputs, rank]`.
    db: &'a mut [T],
}

/// Deals the gradients of a group out among `threads` threads.
fn parts_of<'a, T: Real>(
    window: &Window,
    group: &Group<'_, T>,
    rank: usize,
    (dx, da_columns, db): (Option<&'a mut Vec<T>>, &'a mut [T], &'a mut [T]),
    threads: usize,
) -> Vec<Part<'a, T>> {
    let taps = window.kernel[0] * window.kernel[1];
    let channels = threads::runs(window.channels, 1, threads);
    let mut outputs = threads::runs(group.outputs, 1, channels.len());
    outputs.resize(channels.len(), group.outputs..group.outputs);
    let mut planes: Vec<Option<Vec<&mut [T]>>> = Vec::new();
    planes.resize_with(channels.len(), || dx.as_ref().map(|_| Vec::new()));
    if let Some(dx) = dx {
        let plane = window.plane();
        for picture in dx.chunks_mut((group.input.total * plane).max(1)) {
            let of_group = &mut picture[group.input.first * plane..][..window.channels * plane];
            let of_parts = threads::cut(of_group, &channels, plane);
            for (planes, part) in planes.iter_mut().zip(of_parts) {
                if let Some(planes) = planes {
                    planes.push(part);
                }
            }
        }
    }
    let da_columns = threads::cut(da_columns, &channels, taps * rank);
    let db = threads::cut(db, &outputs, rank);
    let ranges = channels.into_iter().zip(outputs).zip(planes);
    let gradients = da_columns.into_iter().zip(db);
    let parts = ranges.zip(gradients);
    let part = |(((channels, outputs), dx), (da_columns, db))| Part {
        channels,
        dx,
        da_columns,
        outputs,
        db,
    };
    parts.map(part).collect()
}

/// Adds the group's gradients; `h` is from [`forward`]. Of `gradients`, `x` covers all groups. Threads take input
/// channels and rows of B.
pub(crate) fn backward<T: Real>(
    window: Window,
    (x, dy, h): (&[T], &[T], &[T]),
    group: Group<'_, T>,
    low: LowRank<'_, T>,
    dora_scale: Option<&[T]>,
    gradients: &mut Gradients<T>,
) {
    let window = window.flattened();
    let (depth, columns, rank) = (window.depth(), window.columns(), low.rank);
    let taps = window.kernel[0] * window.kernel[1];
    let outputs = group.outputs;
    let w_columns = match gradients.x.is_some() {
        true => transposed(group.weight, (outputs, depth)),
        false => Vec::new(),
    };
    let a_columns = transposed(low.a, (rank, depth));
    let b_columns = transposed(low.b, (outputs, rank));
    let mut da_columns = vec![T::zero(); depth * rank];
    let threads = threads::worth(columns * depth * outputs);
    let written = (
        gradients.x.as_mut(),
        da_columns.as_mut_slice(),
        gradients.b.as_mut_slice(),
    );
    let parts = parts_of(&window, &group, rank, written, threads);
    threads::for_each(threads, parts, |mut part| {
        let own = window.of_channels(part.channels.len());
        let input = group.input.from(part.channels.start);
        let first_tap = part.channels.start * taps;
        let (mut block, mut g, mut q, mut tile) =
            (Block::new(), Block::new(), Block::new(), Block::new());
        let mut right = Block::new();
        for (first, count) in panels::<T>(columns) {
            let runs = window.runs(first, count);
            gather(
                &window,
                dy,
                group.results(),
                dora_scale,
                &runs,
                &mut g,
                count,
            );
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
            if let Some(dx) = &mut part.dx {
                let w = (&g, &w_columns[first_tap * outputs..], outputs);
                let a = (rank > 0).then(|| (&q, &a_columns[first_tap * rank..], rank));
                input_gradient(&own, w, a, &runs, (&mut tile, count), dx);
            }
            if rank > 0 {
                // The blocks lie with columns along a row, which is what a left operand needs.
                for (l, n) in panels::<T>(rank) {
                    right.fill_columns(count, n, &h[l * columns + first..], columns);
                    let left = (&g.as_slice()[part.outputs.start * g.width()..], g.width());
                    let to = (&mut part.db[l..], rank);
                    right.multiply(left, to, part.outputs.len(), true);
                }
                unfold(&own, x, input, &runs, &mut block, count);
                for (l, n) in panels::<T>(rank) {
                    let width = q.width();
                    right.fill_columns(count, n, &q.as_slice()[l * width..], width);
                    let left = (block.as_slice(), block.width());
                    let to = (&mut part.da_columns[l..], rank);
                    right.multiply(left, to, own.depth(), true);
                }
            }
        }
    });
    let a = &mut gradients.a;
    transpose((depth, rank), &da_columns, rank, a, depth, |_, v| v);
}

/// As [`backward`] where `group.weight` is the effective weight `g (W + s B A)`: cheaper with many columns.
///
/// ```text
/// dX = W'^T dY      dB = s g dY (A X)^T      dA = s (g B)^T dY X^T
/// ```
///
/// Threads take input channels and rows of B; `A X`, which needs all channels, is computed before, by columns.
pub(crate) fn backward_effective<T: Real>(
    window: Window,
    (x, dy): (&[T], &[T]),
    group: Group<'_, T>,
    low: LowRank<'_, T>,
    dora_scale: Option<&[T]>,
    gradients: &mut Gradients<T>,
) {
    let window = window.flattened();
    let (depth, columns, rank) = (window.depth(), window.columns(), low.rank);
    let taps = window.kernel[0] * window.kernel[1];
    let outputs = group.outputs;
    let w_columns = match gradients.x.is_some() {
        true => transposed(group.weight, (outputs, depth)),
        false => Vec::new(),
    };
    let row_factor = |j: usize| low.scaling * dora_scale.map_or(T::one(), |g| g[j]);
    let mut b_columns = transposed(low.b, (outputs, rank));
    for row in b_columns.chunks_mut(outputs.max(1)) {
        for (j, b) in row.iter_mut().enumerate() {
            *b *= row_factor(j);
        }
    }
    let mut da_columns = vec![T::zero(); depth * rank];
    let threads = threads::worth(columns * depth * outputs).min(window.channels.max(1));
    // One thread has all channels in its block, and multiplies A with it there.
    let ax = match threads > 1 && rank > 0 {
        true => Some(narrow(&window, x, group.input, low, threads)),
        false => None,
    };
    let written = (
        gradients.x.as_mut(),
        da_columns.as_mut_slice(),
        gradients.b.as_mut_slice(),
    );
    let parts = parts_of(&window, &group, rank, written, threads);
    threads::for_each(threads, parts, |mut part| {
        let own = window.of_channels(part.channels.len());
        let input = group.input.from(part.channels.start);
        let first_tap = part.channels.start * taps;
        let (mut block, mut g, mut of_a, mut of_b) =
            (Block::new(), Block::new(), Block::new(), Block::new());
        let (mut tile, mut right) = (Block::new(), Block::new());
        for (first, count) in panels::<T>(columns) {
            let runs = window.runs(first, count);
            gather(&window, dy, group.results(), None, &runs, &mut g, count);
            if let Some(dx) = &mut part.dx {
                let w = (&g, &w_columns[first_tap * outputs..], outputs);
                input_gradient(&own, w, None, &runs, (&mut tile, count), dx);
            }
            if rank == 0 {
                continue;
            }
            unfold(&own, x, input, &runs, &mut block, count);
            // A X of these columns: its rows, and elements from one to the next.
            let (ax, ax_stride) = match &ax {
                Some(ax) => (&ax[first..], columns),
                None => {
                    of_a.reset(rank, count);
                    let width = of_a.width();
                    block.multiply((low.a, depth), (of_a.as_mut_slice(), width), rank, false);
                    (of_a.as_slice(), width)
                }
            };
            of_b.reset(rank, count);
            let width = of_b.width();
            g.multiply(
                (&b_columns, outputs),
                (of_b.as_mut_slice(), width),
                rank,
                false,
            );
            // The blocks lie with columns along a row, which is what a left operand needs.
            for (l, n) in panels::<T>(rank) {
                right.fill_columns(count, n, &ax[l * ax_stride..], ax_stride);
                let left = (&g.as_slice()[part.outputs.start * g.width()..], g.width());
                let to = (&mut part.db[l..], rank);
                right.multiply(left, to, part.outputs.len(), true);
            }
            for (l, n) in panels::<T>(rank) {
                right.fill_columns(count, n, &of_b.as_slice()[l * width..], width);
                let left = (block.as_slice(), block.width());
                let to = (&mut part.da_columns[l..], rank);
                right.multiply(left, to, own.depth(), true);
            }
        }
    });
    if rank > 0 {
        for (j, row) in gradients.b.chunks_mut(rank).enumerate() {
            row.iter_mut().for_each(|b| *b *= row_factor(j));
        }
        let a = &mut gradients.a;
        transpose((depth, rank), &da_columns, rank, a, depth, |_, v| v);
    }
}

/// `A X`, `[rank, columns]`; threads take runs of columns.
fn narrow<T: Real>(
    window: &Window,
    x: &[T],
    input: Channels,
    low: LowRank<'_, T>,
    threads: usize,
) -> Vec<T> {
    let (depth, columns, rank) = (window.depth(), window.columns(), low.rank);
    let runs = threads::runs(columns, T::widest(), 4 * threads);
    let parts = threads::map(threads, runs.clone(), |run| {
        let mut part = vec![T::zero(); rank * run.len()];
        let mut block = Block::new();
        for (offset, count) in panels::<T>(run.len()) {
            let here = window.runs(run.start + offset, count);
            unfold(window, x, input, &here, &mut block, count);
            let to = (&mut part[offset..], run.len());
            block.multiply((low.a, depth), to, rank, false);
        }
        part
    });
    let mut ax = vec![T::zero(); rank * columns];
    threads::join_columns(&runs, &parts, &mut ax, columns);
    ax
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
        gather(&window, dy, group.results(), None, &runs, &mut g, count);
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

/// Sums over the results of every output channel of `[batch, out, pixels]`.
pub(crate) fn channel_sums<T: Real>(
    y: &[T],
    dy: &[T],
    bias: Option<&[T]>,
    (outputs, pixels): (usize, usize),
) -> Vec<RowSums> {
    let planes = y.chunks(pixels.max(1)).zip(dy.chunks(pixels.max(1)));
    // Each number is read once and few times calculated with: four count as one multiplication of a GEMM each.
    let threads = threads::worth(4 * y.len());
    let of_channel = |o: usize| {
        let bias = bias.map_or(T::zero(), |b| b[o]);
        RowSums::of(planes.clone().skip(o).step_by(outputs), bias)
    };
    let of_run = |run: Range<usize>| run.map(of_channel).collect::<Vec<_>>();
    threads::map(threads, threads::runs(outputs, 1, threads), of_run).concat()
}

/// `U = V X` of one output channel, for all columns: before scale and bias.
pub(crate) fn unscaled<T: Real>(window: Window, x: &[T], input: Channels, v: &[T]) -> Vec<T> {
    let window = window.flattened();
    let columns = window.columns();
    let mut u = vec![T::zero(); columns];
    let mut block = Block::new();
    for (first, count) in panels::<T>(columns) {
        let runs = window.runs(first, count);
        unfold(&window, x, input, &runs, &mut block, count);
        let to = &mut u[first..first + count];
        block.multiply((v, window.depth()), (to, count), 1, false);
    }
    u
}

/// Adds to the input's gradient what a panel of columns gives it: the results' gradient by the weight's columns, and
/// by those of A what has come through B.
fn input_gradient<T: Real>(
    own: &Window,
    (g, w_columns, outputs): (&Block<T>, &[T], usize),
    through_b: Option<(&Block<T>, &[T], usize)>,
    runs: &[Run],
    (tile, count): (&mut Block<T>, usize),
    dx: &mut [&mut [T]],
) {
    for tap in (0..own.depth()).step_by(ROWS_AT_ONCE) {
        let here = ROWS_AT_ONCE.min(own.depth() - tap);
        tile.reset(here, count);
        let width = tile.width();
        let w = (&w_columns[tap * outputs..], outputs);
        g.multiply(w, (tile.as_mut_slice(), width), here, false);
        if let Some((q, a_columns, rank)) = through_b {
            let a = (&a_columns[tap * rank..], rank);
            q.multiply(a, (tile.as_mut_slice(), width), here, true);
        }
        fold(own, tile, (tap, here), runs, dx);
    }
}
