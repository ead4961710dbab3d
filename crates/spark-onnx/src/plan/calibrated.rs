//! What a calibration chose for the product of one step, and how the weights it was chosen for are known again.

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

/// A number that other values hardly have: FNV-1a over the bits of all of them.
pub(crate) fn digest(values: impl IntoIterator<Item = f32>) -> u64 {
    let words = values.into_iter().map(f32::to_bits);
    words.fold(0xCBF2_9CE4_8422_2325, |sum, word| {
        (sum ^ u64::from(word)).wrapping_mul(0x0100_0000_01B3)
    })
}
