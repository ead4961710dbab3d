//! Rounds the weights of one layer: for its inputs, as far as that holds on inputs it was not rounded for (`fit`).

use spark_quant::{ExecutionPolicy, PackedTensor, QuantError, Recipe};

use super::fit::{ERROR_ROWS, EVERY, Fit, best_way};
use super::sample::{Sample, padded};
use super::settings::WeightRounding;
use crate::Precision;
use crate::plan::Weights;
use crate::precision::decibels;

/// The weights of one layer, and the format they get.
pub(super) struct Rounder<'a> {
    pub(super) policy: ExecutionPolicy,
    pub(super) weights: &'a Weights,
    pub(super) precision: Precision,
    pub(super) recipe: Recipe,
}

impl Rounder<'_> {
    /// Rounds them for samples of `n_batches`: what the layer gets in f32, and what enters it.
    pub(super) fn round(
        &self,
        rounding: WeightRounding,
        samples: (&Sample, &Sample),
        n_batches: usize,
    ) -> Result<PackedTensor, QuantError> {
        let fit = match rounding {
            WeightRounding::Nearest => Fit::Nearest,
            // A single batch is judged by some of its own rows.
            WeightRounding::Compensated if n_batches < 2 => self.best(samples, EVERY)?,
            WeightRounding::Compensated => self.best(samples, n_batches)?,
        };
        self.by(fit, samples)
    }

    /// Asks some of the batches what is the best for them.
    fn best(
        &self,
        (exact, rounded): (&Sample, &Sample),
        n_batches: usize,
    ) -> Result<Fit, QuantError> {
        let (exact, exact_judge) = exact.split(n_batches, EVERY);
        let (rounded, rounded_judge) = rounded.split(n_batches, EVERY);
        best_way(Fit::ALL, Fit::Nearest, |fit| {
            let packed = self.by(fit, (&exact, &rounded))?;
            let judges = (&exact_judge, &rounded_judge);
            Ok(-output_db(self.weights, judges, &packed, self.policy)?)
        })
    }

    fn by(
        &self,
        fit: Fit,
        (exact, rounded): (&Sample, &Sample),
    ) -> Result<PackedTensor, QuantError> {
        let rows = padded_rows(self.weights, self.precision);
        let n_out = self.weights.out_per_group;
        let shape = [n_out, rows.len() / n_out.max(1)];
        let (exact, rounded) = (exact.padded(self.precision), rounded.padded(self.precision));
        fit.round(self.policy, &rows, shape, (&exact, &rounded), self.recipe)
    }
}

/// `[out][tap, in]`; in four bits, a tap is padded to whole blocks.
fn padded_rows(weights: &Weights, precision: Precision) -> Vec<f32> {
    let (n, depth) = (weights.out_per_group, weights.taps * weights.in_per_group);
    let values = weights.values();
    let mut rows = vec![0.0; values.len()];
    for (out, row) in rows.chunks_exact_mut(depth.max(1)).enumerate() {
        for (k, to) in row.iter_mut().enumerate() {
            *to = values[k * n + out];
        }
    }
    match precision {
        Precision::Fp4 => padded(&rows, weights.in_per_group),
        _ => rows,
    }
}

/// Signal to error of a layer's outputs, on a part of the rows.
pub(super) fn output_db(
    weights: &Weights,
    (exact, rounded): (&Sample, &Sample),
    packed: &PackedTensor,
    policy: ExecutionPolicy,
) -> Result<f64, QuantError> {
    let depth = exact.depth.max(1);
    let n_rows = exact.rows.len() / depth;
    let every = n_rows.div_ceil(ERROR_ROWS).max(1);
    let wanted = padded_rows(weights, Precision::Fp32);
    let values = packed.dequantize(policy)?;
    let (taps, channels) = (weights.taps, weights.in_per_group);
    let padded = values.len() / (weights.out_per_group * taps).max(1);
    let (mut signal, mut noise) = (0.0, 0.0);
    for row in (0..n_rows).step_by(every) {
        let x = &exact.rows[row * depth..][..depth];
        let rounded = &rounded.rows[row * depth..][..depth];
        for out in 0..weights.out_per_group {
            let want = dot(x, &wanted[out * depth..][..depth]);
            let got: f64 = (0..taps)
                .map(|tap| {
                    let values = &values[(out * taps + tap) * padded..][..channels];
                    dot(&rounded[tap * channels..][..channels], values)
                })
                .sum();
            signal += want * want;
            noise += (want - got) * (want - got);
        }
    }
    Ok(match noise > 0.0 {
        true => decibels(noise / signal),
        false => f64::INFINITY,
    })
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    let products = a.iter().zip(b).map(|(a, b)| f64::from(a * b));
    products.sum()
}
