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

use super::block::{Block, panels, transpose};
use super::magnitude::RowSums;
pub(crate) use super::window::{Channels, Window};
use super::window::{covered, fold, gather, unfold};
use super::{Gradients, LowRank, ROWS_AT_ONCE, Real, Rows};

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
                let (dora_scale, bias) = rows.at(row + r);
                let results = tile.row(r);
                for run in &runs {
                    let to = &mut y[covered(&window, run, group.output, row + r)];
                    for (to, &v) in to.iter_mut().zip(&results[run.column..]) {
                        *to = v * dora_scale + bias;
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
    dora_scale: Option<&[T]>,
    gradients: &mut Gradients<T>,
) {
    let window = window.flattened();
    let (depth, columns, rank) = (window.depth(), window.columns(), low.rank);
    let outputs = group.outputs;
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

/// As [`backward`] where `group.weight` is the effective weight `g (W + s B A)`: cheaper with many columns.
///
/// ```text
/// dX = W'^T dY      dB = s g dY (A X)^T      dA = s (g B)^T dY X^T
/// ```
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
    let outputs = group.outputs;
    let w_columns = match gradients.x.is_some() {
        true => flipped(group.weight, outputs, depth),
        false => Vec::new(),
    };
    let row_factor = |j: usize| low.scaling * dora_scale.map_or(T::one(), |g| g[j]);
    let mut b_columns = flipped(low.b, outputs, rank);
    for row in b_columns.chunks_mut(outputs.max(1)) {
        for (j, b) in row.iter_mut().enumerate() {
            *b *= row_factor(j);
        }
    }
    let mut da_columns = vec![T::zero(); depth * rank];
    let (mut block, mut g, mut narrow) = (Block::new(), Block::new(), Block::new());
    let (mut tile, mut right) = (Block::new(), Block::new());
    for (first, count) in panels::<T>(columns) {
        let runs = window.runs(first, count);
        gather(&window, dy, group.results(), None, &runs, &mut g, count);
        if let Some(dx) = &mut gradients.x {
            for tap in (0..depth).step_by(ROWS_AT_ONCE) {
                let here = ROWS_AT_ONCE.min(depth - tap);
                tile.reset(here, count);
                let width = tile.width();
                let w = (&w_columns[tap * outputs..], outputs);
                g.multiply(w, (tile.as_mut_slice(), width), here, false);
                fold(&window, &tile, (tap, here), &runs, dx, group.input);
            }
        }
        if rank == 0 {
            continue;
        }
        unfold(&window, x, group.input, &runs, &mut block, count);
        for (left, from, into, sums) in [
            ((low.a, depth), &block, &g, &mut gradients.b),
            ((b_columns.as_slice(), outputs), &g, &block, &mut da_columns),
        ] {
            narrow.reset(rank, count);
            let width = narrow.width();
            from.multiply(left, (narrow.as_mut_slice(), width), rank, false);
            // The blocks lie with columns along a row, which is what a left operand needs.
            for (l, n) in panels::<T>(rank) {
                right.fill_columns(count, n, &narrow.as_slice()[l * width..], width);
                let left = (into.as_slice(), into.width());
                right.multiply(left, (&mut sums[l..], rank), into.rows(), true);
            }
        }
    }
    if rank > 0 {
        for (j, row) in gradients.b.chunks_mut(rank).enumerate() {
            row.iter_mut().for_each(|b| *b *= row_factor(j));
        }
        let a = &mut gradients.a;
        transpose((depth, rank), &da_columns, rank, a, depth, |_, v| v);
    }
}

/// `[columns, rows]` of `[rows, columns]`.
fn flipped<T: Real>(from: &[T], rows: usize, columns: usize) -> Vec<T> {
    let mut to = vec![T::zero(); rows * columns];
    transpose((rows, columns), from, columns, &mut to, rows, |_, v| v);
    to
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
    let of_channel = |o: usize| {
        let bias = bias.map_or(T::zero(), |b| b[o]);
        RowSums::of(planes.clone().skip(o).step_by(outputs), bias)
    };
    (0..outputs).map(of_channel).collect()
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
