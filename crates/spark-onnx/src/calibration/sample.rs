//! Rows of a layer's inputs, of all batches: as many as fit a bound, evenly over each batch.

use spark_quant::PackedFormat;

use crate::Precision;
use crate::cpu::ProductInputs;
use crate::plan::Weights;

/// Values that share a scale in four bits.
const BLOCK: usize = PackedFormat::Nvfp4.block();
/// Values that are kept of one layer.
const MAX_VALUES: usize = 8 << 20;
/// Rows that are kept of one layer; more would not change what they say.
const MAX_ROWS: usize = 16_384;

/// Rows of inputs, `[row][tap][channels]`.
#[derive(Clone)]
pub(super) struct Sample {
    /// Values of a row.
    pub(super) depth: usize,
    /// All rows.
    pub(super) rows: Vec<f32>,
    channels: usize,
    rows_per_batch: usize,
}

impl Sample {
    /// None yet of `n_batches`, for a step with `weights`.
    pub(super) fn new(weights: &Weights, n_batches: usize) -> Self {
        let depth = weights.taps * weights.in_per_group;
        let most = MAX_ROWS.min(MAX_VALUES / depth.max(1));
        Self {
            depth,
            rows: Vec::new(),
            channels: weights.in_per_group,
            rows_per_batch: (most / n_batches.max(1)).max(1),
        }
    }

    /// Adds rows of one batch.
    pub(super) fn add(&mut self, inputs: &ProductInputs<'_>) {
        let n_rows = inputs.n_rows();
        let taken = n_rows.min(self.rows_per_batch);
        let start = self.rows.len();
        self.rows.resize(start + taken * self.depth, 0.0);
        let rows = self.rows[start..].chunks_exact_mut(self.depth.max(1));
        for (i, row) in rows.enumerate() {
            inputs.write_row(i * n_rows / taken, row);
        }
    }

    /// The rows of all but every `every`-th of `n_batches`, and those of the others; of each at least one batch's.
    pub(super) fn split(&self, n_batches: usize, every: usize) -> (Self, Self) {
        let parts = || Self {
            rows: Vec::new(),
            ..*self
        };
        let (mut kept, mut held_back) = (parts(), parts());
        let n_rows = self.rows.len() / self.depth.max(1);
        let batch_len = n_rows.div_ceil(n_batches.max(1)).max(1) * self.depth.max(1);
        for (number, rows) in self.rows.chunks(batch_len).enumerate() {
            let to = match number % every == 1 {
                true => &mut held_back,
                false => &mut kept,
            };
            to.rows.extend_from_slice(rows);
        }
        (kept, held_back)
    }

    /// Rows as packed weights in `precision` take them: in four bits, a tap padded to whole blocks.
    pub(super) fn padded(&self, precision: Precision) -> Vec<f32> {
        if precision != Precision::Fp4 || self.channels.is_multiple_of(BLOCK) {
            return self.rows.clone();
        }
        padded(&self.rows, self.channels)
    }
}

/// Runs of `len` values, each padded with zeros to whole blocks.
pub(super) fn padded(values: &[f32], len: usize) -> Vec<f32> {
    let to = len.next_multiple_of(BLOCK);
    let mut padded = vec![0.0; values.len() / len.max(1) * to];
    let runs = values.chunks_exact(len.max(1));
    for (to, run) in padded.chunks_exact_mut(to.max(1)).zip(runs) {
        to[..len].copy_from_slice(run);
    }
    padded
}
