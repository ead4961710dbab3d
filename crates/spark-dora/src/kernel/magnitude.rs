//! The gain `g = m / |V|` of every row, and the gradient of the magnitude `m`.
//!
//! ```text
//! dm_j = sum over p of dY_jp U_jp / |V_j|          U = W X + B H, before gain and bias
//!      = sum over p of dY_jp (Y_jp - b_j) / m_j    so U need not be kept
//! ```
//!
//! The second line fails where `m_j = 0` and loses digits where the bias dwarfs the rest; such rows
//! are listed, and their `U` is computed again.
//!
//! A row of length zero has no direction: its gain is 1 and its magnitude gets no gradient, so that
//! the layer stays finite and the row can leave zero through A and B.

use super::Real;

/// Gains from magnitudes and norms.
pub(crate) fn gains<T: Real>(magnitude: &[T], norms: &[f64]) -> Vec<T> {
    let gain = |(&m, &norm): (&T, &f64)| {
        // In `T`, so that a magnitude that was set to the norm gives exactly 1.
        let norm = T::from_f64(norm);
        if norm == T::zero() {
            T::one()
        } else {
            m / norm
        }
    };
    magnitude.iter().zip(norms).map(gain).collect()
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
    /// Of `dY`.
    pub(crate) bias: f64,
    count: usize,
}

impl RowSums {
    /// Adds a run of results of one row.
    pub(crate) fn add<T: Real>(&mut self, y: &[T], dy: &[T], bias: T) {
        // Short runs in `T`, their sums in f64.
        for (y, dy) in y.chunks(64).zip(dy.chunks(64)) {
            // Eight sums side by side, so that they become one vector.
            let (mut product, mut size, mut sum) = ([T::zero(); 8], [T::zero(); 8], [T::zero(); 8]);
            for (y, dy) in y.chunks(8).zip(dy.chunks(8)) {
                for (i, (&y, &dy)) in y.iter().zip(dy).enumerate() {
                    let u = y - bias;
                    product[i] += dy * u;
                    size[i] += if u < T::zero() { T::zero() - u } else { u };
                    sum[i] += dy;
                }
            }
            let total = |sums: [T; 8]| sums.iter().map(|s| s.to_f64()).sum::<f64>();
            self.product += total(product);
            self.size += total(size);
            self.bias += total(sum);
        }
        self.count += y.len();
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

/// Sums over the columns of `[tokens, outputs]` matrices.
pub(crate) fn column_sums<T: Real>(
    y: &[T],
    dy: &[T],
    bias: Option<&[T]>,
    outputs: usize,
) -> Vec<RowSums> {
    /// Tokens summed in `T` before the sums go to f64.
    const RUN: usize = 32;
    let mut sums = vec![RowSums::default(); outputs];
    let zeros = vec![T::zero(); outputs];
    let bias = bias.unwrap_or(&zeros);
    let mut product = zeros.clone();
    let mut size = zeros.clone();
    let mut total = zeros.clone();
    let run = RUN * outputs.max(1);
    for (y, dy) in y.chunks(run).zip(dy.chunks(run)) {
        for column in [&mut product, &mut size, &mut total] {
            column.fill(T::zero());
        }
        for (y, dy) in y.chunks(outputs).zip(dy.chunks(outputs)) {
            let values = y.iter().zip(dy).zip(bias);
            let totals = product.iter_mut().zip(&mut size).zip(&mut total);
            for (((&y, &dy), &bias), ((product, size), total)) in values.zip(totals) {
                let u = y - bias;
                *product += dy * u;
                *size += if u < T::zero() { T::zero() - u } else { u };
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
