//! Matmul with tokens as rows: `x` is `[P, K]`, `y` is `[P, out]`.
//!
//! ```text
//! forward    per 64 tokens: x^T becomes a block, weight rows stream past it once
//! backward   per 64 inputs and some rows of W: they become a block, gradient rows stream past it
//! ```
//!
//! Few tokens therefore cost one reading of the weight per pass and no transposed copy of it; after a
//! change of A or B the same reading serves the norms.

use super::block::{Block, panels, transpose};
use super::magnitude::dora_scale;
use super::norm::row_norm;
use super::{Gradients, LowRank, ROWS_AT_ONCE, Real, Rows};
use crate::base::WeightRows;

/// Rows of W that become a block together.
const PIECE_ROWS: usize = 128;
/// Bytes of results of the backward pass that stay in L2.
const NEAR_BYTES: usize = 512 << 10;

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
    let half = low.scaling * T::from_f64(0.5);
    let (mut block, mut mid, mut tile) = (Block::new(), Block::new(), Block::new());
    weight.for_each(&mut |first_row, n_rows, w| {
        for (first, count) in panels::<T>(tokens) {
            block.reset(inputs, count + extra);
            block.set_columns((0, count), &x[first * inputs..], inputs);
            block.set_columns((count, extra), low.a, inputs);
            if rank > 0 && first_row == 0 {
                // [H | A A^T], of which the second half counts half in the norms.
                mid.reset(rank, count + extra);
                let width = mid.width();
                block.multiply((low.a, inputs), (mid.as_mut_slice(), width), rank, false);
                for l in 0..rank {
                    let (of_tokens, of_a) = mid.row_mut(l).split_at_mut(count);
                    of_tokens.iter_mut().for_each(|h| *h *= low.scaling);
                    of_a.iter_mut().for_each(|g| *g *= half);
                    h[l * tokens + first..][..count].copy_from_slice(of_tokens);
                }
            } else if rank > 0 && extra == 0 {
                mid.fill_rows(rank, count, &h[first..], tokens, None);
            }
            for row in (0..n_rows).step_by(ROWS_AT_ONCE) {
                let here = ROWS_AT_ONCE.min(n_rows - row);
                let output = first_row + row;
                tile.reset(here, count + extra);
                let width = tile.width();
                let y_tile = tile.as_mut_slice();
                block.multiply((&w[row * inputs..], inputs), (y_tile, width), here, false);
                if rank > 0 {
                    let b = &low.b[output * rank..];
                    mid.multiply((b, rank), (y_tile, width), here, true);
                }
                if let DoraScales::Found(find) = &mut dora_scales {
                    for r in 0..here {
                        let j = output + r;
                        let w = &w[(row + r) * inputs..][..inputs];
                        let sums = &tile.row(r)[count..];
                        let norm = row_norm((j, find.squares[j]), w, sums, low);
                        find.norms.push(norm);
                        find.dora_scales.push(dora_scale(find.magnitude[j], norm));
                    }
                }
                let dora_scales = match &dora_scales {
                    DoraScales::None => None,
                    DoraScales::Known(dora_scales) => Some(*dora_scales),
                    DoraScales::Found(find) => Some(find.dora_scales.as_slice()),
                };
                let rows = Rows {
                    dora_scale: dora_scales,
                    bias,
                };
                for r in 0..here {
                    let (dora_scale, bias) = rows.at(output + r);
                    tile.row_mut(r)[..count]
                        .iter_mut()
                        .for_each(|v| *v = *v * dora_scale + bias);
                }
                let to = &mut y[first * outputs + output..];
                let from = tile.as_slice();
                transpose((here, count), from, width, to, outputs, |_, v| v);
            }
        }
    });
    (y, h)
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
    let Shape {
        tokens,
        inputs,
        outputs,
    } = shape;
    let rank = low.rank;
    let mut block = Block::new();
    let q = low_gradient(shape, dy, low, dora_scale);
    let mut dx = wants_x.then(|| vec![T::zero(); tokens * inputs]);
    if let Some(dx) = &mut dx {
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
        let mut scaled = Vec::new();
        weight.for_each(&mut |first_row, n_rows, w| {
            for group_first in (0..inputs).step_by(group) {
                let in_group = group.min(inputs - group_first);
                for row in (0..n_rows).step_by(PIECE_ROWS) {
                    let here = PIECE_ROWS.min(n_rows - row);
                    let output = first_row + row;
                    let dy = match of_results {
                        None => (&dy[output..], outputs),
                        Some(dora_scale) => {
                            scaled.clear();
                            for dy in dy.chunks(outputs) {
                                let dy = dy[output..][..here].iter();
                                scaled.extend(dy.zip(&dora_scale[output..]).map(|(&d, &g)| d * g));
                            }
                            (scaled.as_slice(), here)
                        }
                    };
                    let dora_scale = of_weight.map(|g| &g[output..]);
                    for (column, count) in panels::<T>(in_group) {
                        let first = group_first + column;
                        let from = &w[row * inputs + first..];
                        block.fill_rows(here, count, from, inputs, dora_scale);
                        let to = (&mut dx[first..], inputs);
                        block.multiply(dy, to, tokens, output > 0);
                    }
                }
            }
        });
        if rank > 0 {
            for (first, count) in panels::<T>(inputs) {
                block.fill_rows(rank, count, &low.a[first..], inputs, None);
                block.multiply((&q, rank), (&mut dx[first..], inputs), tokens, true);
            }
        }
    }
    let mut da = vec![T::zero(); rank * inputs];
    let mut db = vec![T::zero(); outputs * rank];
    if rank > 0 {
        let mut q_rows = vec![T::zero(); rank * tokens];
        transpose((tokens, rank), &q, rank, &mut q_rows, tokens, |_, v| v);
        for (first, count) in panels::<T>(inputs) {
            block.fill_rows(tokens, count, &x[first..], inputs, None);
            block.multiply((&q_rows, tokens), (&mut da[first..], inputs), rank, false);
        }
        let mut tile = Block::new();
        for (first, count) in panels::<T>(outputs) {
            block.fill_rows(tokens, count, &dy[first..], outputs, None);
            tile.reset(rank, count);
            let width = tile.width();
            block.multiply((h, tokens), (tile.as_mut_slice(), width), rank, false);
            for l in 0..rank {
                for (j, &value) in tile.row(l).iter().enumerate() {
                    let dora_scale = dora_scale.map_or(T::one(), |g| g[first + j]);
                    db[(first + j) * rank + l] = value * dora_scale;
                }
            }
        }
    }
    Gradients {
        x: dx,
        a: da,
        b: db,
    }
}

/// `q = s (g dy) B`, `[tokens, rank]`.
fn low_gradient<T: Real>(
    shape: Shape,
    dy: &[T],
    low: LowRank<'_, T>,
    dora_scale: Option<&[T]>,
) -> Vec<T> {
    let (tokens, outputs, rank) = (shape.tokens, shape.outputs, low.rank);
    let mut q = vec![T::zero(); tokens * rank];
    let mut block = Block::new();
    for (first, count) in panels::<T>(rank) {
        block.fill_rows(outputs, count, &low.b[first..], rank, dora_scale);
        let scaling = low.scaling;
        block.as_mut_slice().iter_mut().for_each(|b| *b *= scaling);
        block.multiply((dy, outputs), (&mut q[first..], rank), tokens, false);
    }
    q
}
