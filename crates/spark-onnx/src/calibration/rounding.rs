//! Rounds the weights of one layer: for its inputs, as far as that holds on inputs it was not rounded for.
//!
//! ```text
//! three ways   to the nearest
//!              for the inputs that enter:   Q x^ ~ W x^      makes up for the rounding of weights
//!              for the exact ones:          Q x^ ~ W x       and for that of inputs and of layers before
//! each on some of the batches ──> error of the outputs on the others ──> the best, on all batches
//! ```
//!
//! The last asks most of the batches. In four bits, where the errors are large, it gains most; in eight, where they
//! are small and the batches few, what it learns is often these batches alone.

use spark_quant::calibration::{InputMoments, compensate};
use spark_quant::{ExecutionPolicy, PackedTensor, QuantError, Quantizer, Recipe};

use super::sample::{Sample, padded};
use super::settings::WeightRounding;
use crate::Precision;
use crate::plan::Weights;
use crate::precision::decibels;

/// Of so many batches, one judges the ways to round.
const EVERY: usize = 4;
/// Rows of a layer's outputs on which its error is measured.
const ERROR_ROWS: usize = 512;

/// What weights are made up for.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    Nearest,
    /// The rounding of weights.
    Weights,
    /// That, and what has become of the inputs.
    WeightsAndInputs,
}

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
        let way = match rounding {
            WeightRounding::Nearest => Way::Nearest,
            // A single batch is judged by some of its own rows.
            WeightRounding::Compensated if n_batches < 2 => self.best_way(samples, EVERY)?,
            WeightRounding::Compensated => self.best_way(samples, n_batches)?,
        };
        self.by(way, samples)
    }

    /// Asks some of the batches which way is the best for them.
    fn best_way(
        &self,
        (exact, rounded): (&Sample, &Sample),
        n_batches: usize,
    ) -> Result<Way, QuantError> {
        let (exact, exact_judge) = exact.split(n_batches, EVERY);
        let (rounded, rounded_judge) = rounded.split(n_batches, EVERY);
        let mut best = (Way::Nearest, f64::NEG_INFINITY);
        for way in [Way::Nearest, Way::Weights, Way::WeightsAndInputs] {
            let packed = self.by(way, (&exact, &rounded))?;
            let judges = (&exact_judge, &rounded_judge);
            let db = output_db(self.weights, judges, &packed, self.policy)?;
            if db > best.1 {
                best = (way, db);
            }
        }
        Ok(best.0)
    }

    fn by(
        &self,
        way: Way,
        (exact, rounded): (&Sample, &Sample),
    ) -> Result<PackedTensor, QuantError> {
        let rows = padded_rows(self.weights, self.precision);
        let depth = rows.len() / self.weights.out_per_group.max(1);
        let exact = match way {
            Way::Nearest => {
                let shape = [self.weights.out_per_group, depth];
                return Quantizer::new(self.recipe).quantize(self.policy, &rows, &shape, 1);
            }
            Way::Weights => rounded,
            Way::WeightsAndInputs => exact,
        };
        let mut moments = InputMoments::new(depth);
        let (exact, rounded) = (exact.padded(self.precision), rounded.padded(self.precision));
        moments.observe(self.policy, &exact, &rounded)?;
        Ok(compensate(self.policy, &rows, &moments, self.recipe)?.packed)
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
