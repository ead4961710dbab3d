//! The DoRA scale `g = m / |V|` of every row, and the gradient of the magnitude `m`.
//!
//! ```text
//! dm_j = sum over p of dY_jp U_jp / |V_j|          U = W X + B H, before scale and bias
//!      = sum over p of dY_jp (Y_jp - b_j) / m_j    so U need not be saved for backward
//! ```
//!
//! The second line fails where `m_j = 0` and loses digits where the bias dwarfs the rest; such rows
//! are listed, and their `U` is computed again.
//!
//! A row of length zero has no direction: its scale is 1 and its magnitude gets no gradient, so that
//! the layer stays finite and the row can leave zero through A and B.

use std::ops::Range;

use super::{Real, threads};

/// DoRA scale of every row, from magnitudes and norms.
pub(crate) fn dora_scales<T: Real>(magnitude: &[T], norms: &[f64]) -> Vec<T> {
    let rows = magnitude.iter().zip(norms);
    rows.map(|(&m, &norm)| dora_scale(m, norm)).collect()
}

/// DoRA scale of one row.
pub(crate) fn dora_scale<T: Real>(magnitude: T, norm: f64) -> T {
    // In `T`, so that a magnitude that was set to the norm gives exactly 1.
    let norm = T::from_f64(norm);
    if norm == T::zero() {
        T::one()
    } else {
        magnitude / norm
    }
}

/// A bias this many times larger than what it was added to hides its digits.
const HIDDEN: f64 = 16.0;

/// Running sums over the results of one row.
#[derive(Clone, Copy, Default)]
pub(crate) struct RowSums {
    /// Of `dY (Y - b)`.
    product: f64,
    /// Of `|Y - b|`.
    size: f64,
    /// Of `dY`: the gradient of a bias.
    pub(crate) bias: f64,
    count: usize,
}

impl RowSums {
    /// Of one row, whose results come in pieces.
    pub(crate) fn of<'a, T: Real>(
        pieces: impl Iterator<Item = (&'a [T], &'a [T])>,
        bias: T,
    ) -> Self {
        let mut sums = Self::default();
        let mut lanes = Lanes::default();
        for (y, dy) in pieces {
            sums.count += y.len();
            let (whole_y, rest_y) = y.as_chunks();
            let (whole_dy, rest_dy) = dy.as_chunks();
            for (y, dy) in whole_y.iter().zip(whole_dy) {
                lanes.add(y, dy, bias);
                if lanes.terms == Lanes::<T>::MOST {
                    sums.take(&mut lanes);
                }
            }
            if !rest_y.is_empty() {
                // What is missing adds nothing.
                let (mut last_y, mut last_dy) = ([bias; LANES], [T::zero(); LANES]);
                last_y[..rest_y.len()].copy_from_slice(rest_y);
                last_dy[..rest_dy.len()].copy_from_slice(rest_dy);
                lanes.add(&last_y, &last_dy, bias);
                if lanes.terms == Lanes::<T>::MOST {
                    sums.take(&mut lanes);
                }
            }
        }
        sums.take(&mut lanes);
        sums
    }

    fn take<T: Real>(&mut self, lanes: &mut Lanes<T>) {
        let total = |lanes: &[T; LANES]| lanes.iter().map(|v| v.to_f64()).sum::<f64>();
        self.product += total(&lanes.product);
        self.size += total(&lanes.size);
        self.bias += total(&lanes.sum);
        *lanes = Lanes::default();
    }

    /// `dm`, unless it must be computed from `U`.
    pub(crate) fn magnitude_gradient<T: Real>(&self, m: T, norm: f64, bias: T) -> Option<f64> {
        if norm == 0.0 {
            return Some(0.0);
        }
        let hidden = bias.to_f64().abs() * self.count as f64 > HIDDEN * self.size;
        (m != T::zero() && !hidden).then(|| self.product / m.to_f64())
    }
}

/// Sums side by side, so that they become vectors.
const LANES: usize = 16;

/// Sums in `T`, before they go to f64.
struct Lanes<T> {
    product: [T; LANES],
    size: [T; LANES],
    sum: [T; LANES],
    /// Terms added to each lane since the last one went to f64.
    terms: usize,
}

impl<T: Real> Default for Lanes<T> {
    fn default() -> Self {
        let zero = [T::zero(); LANES];
        Self {
            product: zero,
            size: zero,
            sum: zero,
            terms: 0,
        }
    }
}

impl<T: Real> Lanes<T> {
    /// Terms of one lane that are summed in `T`.
    const MOST: usize = 32;

    #[inline(always)]
    fn add(&mut self, y: &[T; LANES], dy: &[T; LANES], bias: T) {
        for i in 0..LANES {
            let u = y[i] - bias;
            self.product[i] += dy[i] * u;
            self.size[i] += u.abs();
            self.sum[i] += dy[i];
        }
        self.terms += 1;
    }
}

/// Sums over the columns of `[tokens, outputs]` matrices.
pub(crate) fn column_sums<T: Real>(
    y: &[T],
    dy: &[T],
    bias: Option<&[T]>,
    outputs: usize,
) -> Vec<RowSums> {
    let threads = threads::worth(4 * y.len());
    let zeros = vec![T::zero(); outputs];
    let bias = bias.unwrap_or(&zeros);
    let runs = threads::runs(outputs, LANES, threads);
    threads::map(threads, runs, |columns| {
        some_sums(y, dy, bias, outputs, columns)
    })
    .concat()
}

/// The sums of some columns.
fn some_sums<T: Real>(
    y: &[T],
    dy: &[T],
    bias: &[T],
    outputs: usize,
    columns: Range<usize>,
) -> Vec<RowSums> {
    /// Tokens summed in `T` before the sums go to f64.
    const RUN: usize = 32;
    let mut sums = vec![RowSums::default(); columns.len()];
    let zeros = vec![T::zero(); columns.len()];
    let bias = &bias[columns.clone()];
    let mut product = zeros.clone();
    let mut size = zeros.clone();
    let mut total = zeros.clone();
    let run = RUN * outputs.max(1);
    for (y, dy) in y.chunks(run).zip(dy.chunks(run)) {
        for column in [&mut product, &mut size, &mut total] {
            column.fill(T::zero());
        }
        for (y, dy) in y.chunks(outputs).zip(dy.chunks(outputs)) {
            let values = y[columns.clone()]
                .iter()
                .zip(&dy[columns.clone()])
                .zip(bias);
            let totals = product.iter_mut().zip(&mut size).zip(&mut total);
            for (((&y, &dy), &bias), ((product, size), total)) in values.zip(totals) {
                let u = y - bias;
                *product += dy * u;
                *size += u.abs();
                *total += dy;
            }
        }
        for (j, sums) in sums.iter_mut().enumerate() {
            sums.product += product[j].to_f64();
            sums.size += size[j].to_f64();
            sums.bias += total[j].to_f64();
            sums.count += y.len() / outputs;
        }
    }
    sums
}
