//! How large an adapter is beside its network.

use candle_core::Tensor;
use serde::Serialize;

/// Adapters of more than this fraction of their base are warned about.
pub const GOOD_FRACTION: f64 = 0.01;

/// Sizes of one layer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LayerSize {
    /// Bytes of the base weight and bias.
    pub(crate) base_bytes: usize,
    /// Numbers of the base weight and bias.
    pub(crate) base_parameters: usize,
    /// Bytes of the variables.
    pub(crate) adapter_bytes: usize,
    /// Numbers in the variables.
    pub(crate) adapter_parameters: usize,
    pub(crate) rank: usize,
    /// Variable bytes that do not depend on the rank.
    pub(crate) fixed_bytes: usize,
}

impl LayerSize {
    /// Of a layer whose tensors stay as they are.
    pub(crate) fn frozen<'t>(tensors: impl Iterator<Item = &'t Tensor>) -> Self {
        let (mut base_bytes, mut base_parameters) = (0, 0);
        for tensor in tensors {
            base_bytes += tensor.elem_count() * tensor.dtype().size_in_bytes();
            base_parameters += tensor.elem_count();
        }
        Self {
            base_bytes,
            base_parameters,
            adapter_bytes: 0,
            adapter_parameters: 0,
            rank: 0,
            fixed_bytes: 0,
        }
    }
}

/// An adapter beside its network: every layer that was offered to it, adapted or not.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SizeReport {
    /// Numbers that are trained.
    pub trainable: usize,
    /// Numbers that are frozen.
    pub frozen: usize,
    /// Bytes of the variables.
    pub adapter_bytes: usize,
    /// Bytes of the base weights and biases.
    pub base_bytes: usize,
    /// The former over the latter.
    pub fraction: f64,
    /// Where the fraction is above [`GOOD_FRACTION`]: the largest rank that would be below, if any.
    pub rank_that_fits: Option<usize>,
}

impl SizeReport {
    /// The report of all these layers together.
    pub(crate) fn of(layers: impl Iterator<Item = LayerSize> + Clone) -> Self {
        let total = |size: fn(&LayerSize) -> usize| layers.clone().map(|l| size(&l)).sum::<usize>();
        let adapter_bytes = total(|l| l.adapter_bytes);
        let base_bytes = total(|l| l.base_bytes);
        let fraction = adapter_bytes as f64 / base_bytes.max(1) as f64;
        let budget = GOOD_FRACTION * base_bytes as f64;
        let largest = layers.clone().map(|l| l.rank).max().unwrap_or(0);
        // With every rank cut to at most `rank`.
        let bytes_at = |rank: usize| -> f64 {
            let of_layer = |l: LayerSize| {
                let variable = l.adapter_bytes - l.fixed_bytes;
                let share = l.rank.min(rank) as f64 / l.rank.max(1) as f64;
                l.fixed_bytes as f64 + variable as f64 * share
            };
            layers.clone().map(of_layer).sum()
        };
        let fits = (1..largest).rev().find(|&rank| bytes_at(rank) <= budget);
        Self {
            trainable: total(|l| l.adapter_parameters),
            frozen: total(|l| l.base_parameters),
            adapter_bytes,
            base_bytes,
            fraction,
            rank_that_fits: if fraction > GOOD_FRACTION { fits } else { None },
        }
    }
}

impl std::fmt::Display for SizeReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} trainable, {} frozen parameters; adapter {} of {} bytes ({:.2} %)",
            self.trainable,
            self.frozen,
            self.adapter_bytes,
            self.base_bytes,
            100.0 * self.fraction
        )
    }
}
