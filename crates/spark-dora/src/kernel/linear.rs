//! Matmul with tokens as rows: `x` is `[P, K]`, `y` is `[P, out]`.
//!
//! ```text
//! forward    per 64 tokens: x^T becomes a block, weight rows stream past it once
//! backward   per 64 inputs and some rows of W: they become a block, gradient rows stream past it
//! ```
//!
//! Few tokens therefore cost one reading of the weight per pass and no transposed copy of it; after a
//! change of A or B the same reading serves the norms.

use std::ops::Range;

use super::block::{Block, panels, transposed};
use super::norm::row_norm;
use super::{Gradients, LowRank, ROWS_AT_ONCE, Real, Rows, magnitude, threads};
use crate::base::WeightRows;

/// Rows of W that become a block together.
const PIECE_ROWS: usize = 128;
/// Bytes of results of the backward pass that stay in L2.
const NEAR_BYTES: usize = 512 << 10;
/// Fewest tokens per thread with which copying the weight once per thread costs little.
const TOKENS_PER_COPY: usize = 128;

/// Shape of a layer and its input.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    /// Tokens, over all leading axes of the input.
    pub(crate) tokens: usize,
    /// Inputs per token: the depth of the weight.
    pub(crate) inputs: usize,
    /// Outputs per token: the rows of the weight.
    pub(crate) outputs: usize,
}

/// DoRA scale of every row.
pub(crate) enum DoraScales<'a, T> {
    /// LoRA: the scale of every row is 1.
    None,
    /// Known before the pass, one per row.
    Known(&'a [T]),
    /// Found on the way: A's rows are multiplied along with the tokens. Only where [`finds_dora_scales`].
    Found(Finding<'a, T>),
}

/// What the DoRA scale is found from, and what is found.
pub(crate) struct Finding<'a, T> {
    pub(crate) magnitude: &'a [T],
    /// Squared norms of the rows of `W`.
    pub(crate) squares: &'a [f64],
    /// Norms of the rows of `W + s B A`.
    pub(crate) norms: &'a mut Vec<f64>,
    pub(crate) dora_scales: &'a mut Vec<T>,
}

/// Whether tokens and A's rows fit one block, so that one reading of the weight serves both.
pub(crate) fn finds_dora_scales<T: Real>(shape: Shape, rank: usize) -> bool {
    rank > 0 && shape.tokens > 0 && shape.tokens + rank <= T::widest()
}

/// `y` and `h = s A x`, the latter `[rank, tokens]`.
///
/// ```text
/// scale known   block [K, tokens]          tile = W x^T + B H
/// scale found   block [K, tokens + rank]   tile = [W x^T + B H | W A^T + (s / 2) B A A^T]
/// ```
///
/// Threads take panels of tokens, or rows of W where there are few panels.
pub(crate) fn forward<T: Real>(
    shape: Shape,
    x: &[T],
    weight: &dyn WeightRows<T>,
    low: LowRank<'_, T>,
    mut dora_scales: DoraScales<'_, T>,
    bias: Option<&[T]>,
) -> (Vec<T>, Vec<T>) {
    let Shape {
        tokens,
        inputs,
        outputs,
    } = shape;
    let rank = low.rank;
    let extra = match dora_scales {
        DoraScales::Found(_) => rank,
        _ => 0,
    };
    let mut y = vec![T::zero(); tokens * outputs];
    let mut h = vec![T::zero(); rank * tokens];
    weight.for_each(&mut |first_row, n_rows, w| {
        let threads = threads::worth((tokens + extra) * inputs * n_rows);
        let panels: Vec<_> = panels::<T>(tokens).collect();
        let by_panels = panels.len() >= 2 * threads;
        let mut operands = Vec::new();
        let mut rest = y.as_mut_slice();
        for &(first, count) in &panels {
            let (panel, after) = rest.split_at_mut(count * outputs);
            rest = after;
            operands.push(((first, count), panel));
        }
        let rows = Rows {
            dora_scale: None,
            bias,
        };
        let known = match &dora_scales {
            DoraScales::Known(dora_scales) => Some(*dora_scales),
            DoraScales::None | DoraScales::Found(_) => None,
        };
        let inner = match by_panels {
            true => 1,
            false => threads,
        };
        let find = match &dora_scales {
            DoraScales::Found(find) => Some((find.magnitude, find.squares)),
            DoraScales::None | DoraScales::Known(_) => None,
        };
        let h_before = &h;
        let of_panel = |((first, count), y): ((usize, usize), &mut [T])| {
            let mut block = Block::new();
            block.reset(inputs, count + extra);
            block.set_columns((0, count), &x[first * inputs..], inputs);
            block.set_columns((count, extra), low.a, inputs);
            let mut mid = Block::new();
            let mut h_panel = Vec::new();
            // `A A^T` is not kept from one piece of a weight to the next.
            if rank > 0 && (first_row == 0 || extra > 0) {
                h_panel = narrow(&block, low, count, extra, &mut mid);
            } else if rank > 0 {
                mid.fill_rows(rank, count, &h_before[first..], tokens, None);
            }
            let panel = Panel {
                block: &block,
                mid: &mid,
                low,
                count,
                rows: Rows {
                    dora_scale: known,
                    ..rows
                },
                find,
            };
            let found = panel.rows(w, (first_row, n_rows), y, outputs, inner);
            (h_panel, found)
        };
        let outer = if by_panels { threads } else { 1 };
        let results = threads::map(outer, operands, of_panel);
        for (&(first, count), (h_panel, found)) in panels.iter().zip(results) {
            for (l, row) in h_panel.chunks(count).enumerate() {
                h[l * tokens + first..][..count].copy_from_slice(row);
            }
            if let DoraScales::Found(find) = &mut dora_scales {
                for (norm, dora_scale) in found {
                    find.norms.push(norm);
                    find.dora_scales.push(dora_scale);
                }
            }
        }
    });
    (y, h)
}

/// Fills `mid` with `[H | (s / 2) A A^T]` of a block of tokens and A's rows; gives `H`, `[rank, count]`.
fn narrow<T: Real>(
    block: &Block<T>,
    low: LowRank<'_, T>,
    count: usize,
    extra: usize,
    mid: &mut Block<T>,
) -> Vec<T> {
    let half = low.scaling * T::from_f64(0.5);
    mid.reset(low.rank, count + extra);
    let width = mid.width();
    let a = (low.a, block.rows());
    block.multiply(a, (mid.as_mut_slice(), width), low.rank, false);
    let mut h = Vec::with_capacity(low.rank * count);
    for l in 0..low.rank {
        let (of_tokens, of_a) = mid.row_mut(l).split_at_mut(count);
        of_tokens.iter_mut().for_each(|h| *h *= low.scaling);
        of_a.iter_mut().for_each(|g| *g *= half);
        h.extend_from_slice(of_tokens);
    }
    h
}

/// One panel of tokens, transposed, with what its rows of results are made of.
struct Panel<'a, T> {
    /// `[K, count]`, or `[K, count + rank]`.
    block: &'a Block<T>,
    /// `[rank, count]`, or `[rank, count + rank]`.
    mid: &'a Block<T>,
    low: LowRank<'a, T>,
    count: usize,
    rows: Rows<'a, T>,
    /// Magnitudes, and squared norms of the rows of W, where norms are found.
    find: Option<(&'a [T], &'a [f64])>,
}

impl<T: Real> Panel<'_, T> {
    /// Writes the columns `first..first + n_rows` of `y`, `[count, outputs]`, and gives norms and DoRA scales
    /// of these rows where they are found.
    fn rows(
        &self,
        w: &[T],
        (first_row, n_rows): (usize, usize),
        y: &mut [T],
        outputs: usize,
        threads: usize,
    ) -> Vec<(f64, T)> {
        let parts = threads::runs(n_rows, ROWS_AT_ONCE, threads);
        let mut columns: Vec<Vec<&mut [T]>> = parts.iter().map(|_| Vec::new()).collect();
        for token in y.chunks_mut(outputs.max(1)) {
            let here = threads::cut(&mut token[first_row..][..n_rows], &parts, 1);
            for (column, part) in columns.iter_mut().zip(here) {
                column.push(part);
            }
        }
        let items = parts.into_iter().zip(columns).collect();
        let found = threads::map(threads, items, |(part, mut y)| {
            self.some_rows(w, first_row, part, &mut y)
        });
        found.concat()
    }

    fn some_rows(
        &self,
        w: &[T],
        first_row: usize,
        part: Range<usize>,
        y: &mut [&mut [T]],
    ) -> Vec<(f64, T)> {
        let (inputs, rank, count) = (self.block.rows(), self.low.rank, self.count);
        let extra = if self.find.is_some() { rank } else { 0 };
        let mut found = Vec::new();
        let mut tile = Block::new();
        for row in part.clone().step_by(ROWS_AT_ONCE) {
            let here = ROWS_AT_ONCE.min(part.end - row);
            let output = first_row + row;
            tile.reset(here, count + extra);
            let width = tile.width();
            let y_tile = tile.as_mut_slice();
            let w_tile = (&w[row * inputs..], inputs);
            self.block.multiply(w_tile, (y_tile, width), here, false);
            if rank > 0 {
                let b = &self.low.b[output * rank..];
                self.mid.multiply((b, rank), (y_tile, width), here, true);
            }
            for r in 0..here {
                let j = output + r;
                let (mut dora_scale, bias) = self.rows.at(j);
                if let Some((magnitude, squares)) = self.find {
                    let w = &w[(row + r) * inputs..][..inputs];
                    let norm = row_norm((j, squares[j]), w, &tile.row(r)[count..], self.low);
                    dora_scale = magnitude::dora_scale(magnitude[j], norm);
                    found.push((norm, dora_scale));
                }
                tile.row_mut(r)[..count]
                    .iter_mut()
                    .for_each(|v| *v = *v * dora_scale + bias);
            }
            transpose_to(&tile, (here, count), y, row - part.start);
        }
        found
    }
}

/// `to[c][at + r] = tile[r, c]`, in squares of which two fit L1.
fn transpose_to<T: Real>(
    tile: &Block<T>,
    (rows, columns): (usize, usize),
    to: &mut [&mut [T]],
    at: usize,
) {
    const SQUARE: usize = 16;
    let (from, width) = (tile.as_slice(), tile.width());
    for row in (0..rows).step_by(SQUARE) {
        let row_end = rows.min(row + SQUARE);
        for column in (0..columns).step_by(SQUARE) {
            for (c, to) in (column..columns).zip(&mut to[column..columns.min(column + SQUARE)]) {
                for (r, to) in (row..row_end).zip(&mut to[at + row..at + row_end]) {
                    *to = from[r * width + c];
                }
            }
        }
    }
}

/// Gradients of `sum(dy * y)`, with `h` from [`forward`].
pub(crate) fn backward<T: Real>(
    shape: Shape,
    (x, dy, h): (&[T], &[T], &[T]),
    weight: &dyn WeightRows<T>,
    low: LowRank<'_, T>,
    dora_scale: Option<&[T]>,
    wants_x: bool,
) -> Gradients<T> {
    let q = low_gradient(shape, dy, low, dora_scale);
    let dx = wants_x.then(|| input_gradient(shape, (dy, &q), weight, low, dora_scale));
    let (a, b) = match low.rank {
        0 => (Vec::new(), Vec::new()),
        _ => (
            a_gradient(shape, x, &q, low.rank),
            b_gradient(shape, dy, h, low.rank, dora_scale),
        ),
    };
    Gradients { x: dx, a, b }
}

/// Tokens and inputs of which a thread computes the gradient, and where it writes it.
type Item<'a, T> = (Range<usize>, Range<usize>, &'a mut [T]);

/// `dx = (g dy) W + q A`. Threads take tokens, or columns where there are few tokens: then every thread
/// has memory of its own, whose columns lie together.
fn input_gradient<T: Real>(
    shape: Shape,
    (dy, q): (&[T], &[T]),
    weight: &dyn WeightRows<T>,
    low: LowRank<'_, T>,
    dora_scale: Option<&[T]>,
) -> Vec<T> {
    let Shape {
        tokens,
        inputs,
        outputs,
    } = shape;
    let rank = low.rank;
    let mut dx = vec![T::zero(); tokens * inputs];
    // Pieces of W whose rows are few enough for their pages to be at hand, and results that stay
    // near while pieces are added to them.
    let group = (NEAR_BYTES / (tokens * size_of::<T>()).max(1)).max(1);
    let group = group.next_multiple_of(T::widest());
    // The DoRA scale goes to whichever is less to multiply, W or the results' gradient; copying with a
    // scale costs W about a quarter more.
    let scales_results = tokens * inputs.div_ceil(group) < inputs / 4;
    let (of_weight, of_results) = match scales_results {
        true => (None, dora_scale),
        false => (dora_scale, None),
    };
    let threads = threads::worth(tokens * inputs * outputs);
    // A thread that copies W should multiply it with many tokens.
    let by_tokens = threads == 1 || tokens >= TOKENS_PER_COPY * threads;
    let token_runs = match by_tokens {
        true => threads::runs(tokens, 1, threads),
        false => threads::runs(tokens, tokens.max(1), 1),
    };
    let column_runs = match by_tokens {
        true => threads::runs(inputs, inputs.max(1), 1),
        false => threads::runs(inputs, T::widest(), threads),
    };
    let mut own: Vec<Vec<T>> = Vec::new();
    if !by_tokens {
        own.extend(
            column_runs
                .iter()
                .map(|run| vec![T::zero(); tokens * run.len()]),
        );
    }
    let mut items: Vec<Item<'_, T>> = match by_tokens {
        true => {
            let parts = threads::cut(&mut dx, &token_runs, inputs);
            let columns = &column_runs[0];
            let parts = token_runs.iter().cloned().zip(parts);
            parts.map(|(run, dx)| (run, columns.clone(), dx)).collect()
        }
        false => {
            let parts = column_runs.iter().cloned().zip(&mut own);
            let parts = parts.map(|(run, dx)| (token_runs[0].clone(), run, dx.as_mut_slice()));
            parts.collect()
        }
    };
    weight.for_each(&mut |first_row, n_rows, w| {
        let items = items.iter_mut().collect();
        threads::for_each(
            threads,
            items,
            |(of_tokens, columns, dx): &mut Item<'_, T>| {
                let dy = &dy[of_tokens.start * outputs..of_tokens.end * outputs];
                let (mut block, mut scaled) = (Block::new(), Vec::new());
                for group_first in columns.clone().step_by(group) {
                    let in_group = group.min(columns.end - group_first);
                    for row in (0..n_rows).step_by(PIECE_ROWS) {
                        let here = PIECE_ROWS.min(n_rows - row);
                        let output = first_row + row;
                        let dy = match of_results {
                            None => (dy.get(output..).unwrap_or_default(), outputs),
                            Some(dora_scale) => {
                                scaled.clear();
                                for dy in dy.chunks(outputs) {
                                    let dy = dy[output..][..here].iter();
                                    scaled.extend(
                                        dy.zip(&dora_scale[output..]).map(|(&d, &g)| d * g),
                                    );
                                }
                                (scaled.as_slice(), here)
                            }
                        };
                        let dora_scale = of_weight.map(|g| &g[output..]);
                        for (column, count) in panels::<T>(in_group) {
                            let first = group_first + column;
                            let from = &w[row * inputs + first..];
                            block.fill_rows(here, count, from, inputs, dora_scale);
                            let to = (&mut dx[first - columns.start..], columns.len());
                            block.multiply(dy, to, of_tokens.len(), output > 0);
                        }
                    }
                }
            },
        );
    });
    if rank > 0 {
        let items = items.iter_mut().collect();
        threads::for_each(
            threads,
            items,
            |(of_tokens, columns, dx): &mut Item<'_, T>| {
                let q = &q[of_tokens.start * rank..of_tokens.end * rank];
                let mut block = Block::new();
                for (column, count) in panels::<T>(columns.len()) {
                    let from = &low.a[columns.start + column..];
                    block.fill_rows(rank, count, from, inputs, None);
                    let to = (&mut dx[column..], columns.len());
                    block.multiply((q, rank), to, of_tokens.len(), true);
                }
            },
        );
    }
    threads::join_columns(&column_runs, &own, &mut dx, inputs);
    dx
}

/// `dA = q^T x`, `[rank, inputs]`; threads take columns.
fn a_gradient<T: Real>(shape: Shape, x: &[T], q: &[T], rank: usize) -> Vec<T> {
    let Shape { tokens, inputs, .. } = shape;
    let q_rows = transposed(q, (tokens, rank));
    let threads = threads::worth(tokens * inputs * rank);
    let runs = threads::runs(inputs, T::widest(), threads);
    let parts = threads::map(threads, runs.clone(), |run| {
        let mut part = vec![T::zero(); rank * run.len()];
        let mut block = Block::new();
        for (column, count) in panels::<T>(run.len()) {
            block.fill_rows(tokens, count, &x[run.start + column..], inputs, None);
            let to = (&mut part[column..], run.len());
            block.multiply((&q_rows, tokens), to, rank, false);
        }
        part
    });
    let mut da = vec![T::zero(); rank * inputs];
    threads::join_columns(&runs, &parts, &mut da, inputs);
    da
}

/// `dB = (g dy)^T h^T`, `[outputs, rank]`; threads take rows.
fn b_gradient<T: Real>(
    shape: Shape,
    dy: &[T],
    h: &[T],
    rank: usize,
    dora_scale: Option<&[T]>,
) -> Vec<T> {
    let Shape {
        tokens, outputs, ..
    } = shape;
    let mut db = vec![T::zero(); outputs * rank];
    let threads = threads::worth(tokens * outputs * rank);
    let runs = threads::runs(outputs, T::widest(), threads);
    let items = runs.iter().cloned().zip(threads::cut(&mut db, &runs, rank));
    threads::for_each(threads, items.collect(), |(run, db)| {
        let (mut block, mut tile) = (Block::new(), Block::new());
        for (column, count) in panels::<T>(run.len()) {
            let first = run.start + column;
            block.fill_rows(tokens, count, &dy[first..], outputs, None);
            tile.reset(rank, count);
            let width = tile.width();
            block.multiply((h, tokens), (tile.as_mut_slice(), width), rank, false);
            for l in 0..rank {
                for (j, &value) in tile.row(l).iter().enumerate() {
                    let dora_scale = dora_scale.map_or(T::one(), |g| g[first + j]);
                    db[(column + j) * rank + l] = value * dora_scale;
                }
            }
        }
    });
    db
}

/// `q = s (g dy) B`, `[tokens, rank]`; threads take tokens.
fn low_gradient<T: Real>(
    shape: Shape,
    dy: &[T],
    low: LowRank<'_, T>,
    dora_scale: Option<&[T]>,
) -> Vec<T> {
    let (tokens, outputs, rank) = (shape.tokens, shape.outputs, low.rank);
    let mut q = vec![T::zero(); tokens * rank];
    let threads = threads::worth(tokens * outputs * rank).min(tokens.div_ceil(TOKENS_PER_COPY));
    let runs = threads::runs(tokens, 1, threads);
    let items = runs.iter().cloned().zip(threads::cut(&mut q, &runs, rank));
    threads::for_each(threads, items.collect(), |(run, q)| {
        let mut block = Block::new();
        for (first, count) in panels::<T>(rank) {
            block.fill_rows(outputs, count, &low.b[first..], rank, dora_scale);
            let scaling = low.scaling;
            block.as_mut_slice().iter_mut().for_each(|b| *b *= scaling);
            let dy = (&dy[run.start * outputs..], outputs);
            block.multiply(dy, (&mut q[first..], rank), run.len(), false);
        }
    });
    q
}
