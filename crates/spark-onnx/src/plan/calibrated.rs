//! What a calibration chose for the product of one step.

use spark_quant::PackedTensor;

/// Weights rounded to fewer bits, and the scale that inputs are rounded with.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CalibratedWeights {
    /// `[out][tap, in]`; of four bits, the inputs of a tap are padded with zeros to whole blocks.
    pub(crate) packed: PackedTensor,
    /// [`Weights::digest`](super::Weights::digest) of the weights that were rounded.
    pub(crate) chosen_for: u64,
    /// What code 1.0 of an input stands for (of four bits, the scale of the tensor); `None` where inputs
    /// are not rounded.
    pub(crate) input_scale: Option<f32>,
}
