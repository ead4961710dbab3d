//! Products with tokens as rows: `x` is `[P, K]`, `y` is `[P, out]`.
//!
//! ```text
//! forward    per 64 tokens: x^T becomes a block, weight rows stream past it once
//! backward   per 64 inputs: a panel of W becomes a block, gradient rows stream past it
//! ```
//!
//! Few tokens therefore cost one reading of the weight per pass and no transposed copy of it.

use super::block::{Block, panels, transpose};
use super::{Gradients, LowRank, ROWS_AT_ONCE, Real, Rows};
use crate::base::WeightRows;

/// Shape of a layer and its input.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    /// Tokens.
    pub(crate) tokens: usize,
    /// Inputs per token.
    pub(crate) inputs: usize,
    /// Outputs per token.
    pub(crate) outputs: usize,
}

/// `y` and `h = s A x`, the latter `[rank, tokens]`.
pub(crate) fn forward<T: Real>(
    shape: Shape,
    x: &[T],
    weight: &dyn WeightRows<T>,
    low: LowRank<'_, T>,
    rows: Rows<'_, T>,
) -> (Vec<T>, Vec<T>) {
    let Shape {
        tokens,
        inputs,
        outputs,
    } = shape;
    let rank = low.rank;
    let mut y = vec![T::zero(); tokens * outputs];
    let mut h = vec![T::zero(); rank * tokens];
    let (mut block, mut mid, mut tile) = (Block::new(), Block::new(), Block::new());
    weight.for_each(&mut |first_row, n_rows, w| {
        for (first, count) in panels::<T>(tokens) {
            block.fill_columns(inputs, count, &x[first * inputs..], inputs);
            if first_row == 0 && rank > 0 {
                let to = &mut h[first..];
                block.multiply((low.a, inputs), (&mut *to, tokens), rank, false);
                for row in to.chunks_mut(tokens) {
                    let len = count.min(row.len());
                    row[..len].iter_mut().for_each(|h| *h *= low.scaling);
                }
            }
            if rank > 0 {
                mid.fill_rows(rank, count, &h[first..], tokens, None);
            }
            for row in (0..n_rows).step_by(ROWS_AT_ONCE) {
                let here = ROWS_AT_ONCE.min(n_rows - row);
                let output = first_row + row;
                tile.reset(here, count);
                let width = tile.width();
                let y_tile = tile.as_mut_slice();
                block.multiply((&w[row * inputs..], inputs), (y_tile, width), here, false);
                if rank > 0 {
                    let b = &low.b[output * rank..];
                    mid.multiply((b, rank), (y_tile, width), here, true);
                }
                let to = &mut y[first * outputs + output..];
                transpose((here, count), y_tile, width, to, outputs, |r, value| {
                    let (gain, bias) = rows.at(output + r);
                    value * gain + bias
                });
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
    gain: Option<&[T]>,
    wants_x: bool,
) -> Gradients<T> {
    let Shape {
        tokens,
        inputs,
        outputs,
    } = shape;
    let rank = low.rank;
    let mut block = Block::new();
    // The gain goes to whichever is smaller: the results' gradient, or the weight as it is copied.
    let scaled = gain
        .filter(|_| tokens < inputs)
        .map(|gain| scale_rows(dy, gain));
    let (dy, gain) = match &scaled {
        Some(scaled) => (scaled.as_slice(), None),
        None => (dy, gain),
    };
    let q = low_gradient(shape, dy, low, gain);
    let mut dx = wants_x.then(|| vec![T::zero(); tokens * inputs]);
    if let Some(dx) = &mut dx {
        weight.for_each(&mut |first_row, n_rows, w| {
            let gain = gain.map(|g| &g[first_row..]);
            for (first, count) in panels::<T>(inputs) {
                block.fill_rows(n_rows, count, &w[first..], inputs, gain);
                let to = (&mut dx[first..], inputs);
                block.multiply((&dy[first_row..], outputs), to, tokens, first_row > 0);
                if first_row == 0 && rank > 0 {
                    block.fill_rows(rank, count, &low.a[first..], inputs, None);
                    block.multiply((&q, rank), (&mut dx[first..], inputs), tokens, true);
                }
            }
        });
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
                    let gain = gain.map_or(T::one(), |g| g[first + j]);
                    db[(first + j) * rank + l] = value * gain;
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

/// `g dy`, `[tokens, outputs]`.
fn scale_rows<T: Real>(dy: &[T], gain: &[T]) -> Vec<T> {
    let rows = dy.chunks(gain.len().max(1));
    rows.flat_map(|row| row.iter().zip(gain).map(|(&d, &g)| d * g))
        .collect()
}

/// `q = s (g dy) B`, `[tokens, rank]`.
fn low_gradient<T: Real>(
    shape: Shape,
    dy: &[T],
    low: LowRank<'_, T>,
    gain: Option<&[T]>,
) -> Vec<T> {
    let (tokens, outputs, rank) = (shape.tokens, shape.outputs, low.rank);
    let mut q = vec![T::zero(); tokens * rank];
    let mut block = Block::new();
    for (first, count) in panels::<T>(rank) {
        block.fill_rows(outputs, count, &low.b[first..], rank, gain);
        let scaling = low.scaling;
        block.as_mut_slice().iter_mut().for_each(|b| *b *= scaling);
        block.multiply((dy, outputs), (&mut q[first..], rank), tokens, false);
    }
    q
}
