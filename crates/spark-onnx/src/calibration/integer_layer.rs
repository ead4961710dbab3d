//! One product on eight-bit integers, as a calibration chose it.
//!
//! ```text
//! x = (byte - input.zero_point) * input.scale          bytes 0..=255
//! w = code * scale of its row                          codes -127..=127, a row per output channel
//! y = sum of x w + bias, after the Relu or Clip that follows, as a byte of `output`
//! ```
//!
//! Deliberately absent: where in a graph it stands, which its name says to who applies it.

use spark_quant::PackedTensor;
use spark_quant::calibration::StaticScale;

/// What a byte without a sign stands for: `(byte - zero_point) * scale`.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct ByteScale {
    /// What a step of one byte is worth; finite and above zero.
    pub scale: f32,
    /// The byte that stands for zero.
    pub zero_point: u8,
}

impl ByteScale {
    /// None for a scale that is not finite and above zero, and for a zero point that is no byte.
    pub(super) fn new(scale: f32, zero_point: f32) -> Option<Self> {
        let is_byte = (0.0..=255.0).contains(&zero_point) && zero_point.fract() == 0.0;
        let is_scale = scale.is_finite() && scale > 0.0;
        (is_byte && is_scale).then_some(Self {
            scale,
            zero_point: zero_point as u8,
        })
    }

    /// None as for [`ByteScale::new`].
    pub(super) fn of(chosen: &StaticScale) -> Option<Self> {
        Self::new(chosen.scale, chosen.zero_point as f32)
    }

    /// `value` as the nearest byte stands for it, ties to the even byte; beyond the bytes the last one, NaN as zero.
    pub fn round_trip(self, value: f32) -> f32 {
        let zero = f32::from(self.zero_point);
        let byte = (value / self.scale).round_ties_even() + zero;
        match byte.is_nan() {
            true => 0.0,
            false => (byte.clamp(0.0, 255.0) - zero) * self.scale,
        }
    }
}

/// A product on eight-bit integers: Conv, Gemm or MatMul.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct IntegerLayer {
    /// Of what enters.
    pub input: ByteScale,
    /// Of what leaves, after the Relu or Clip that follows.
    pub output: ByteScale,
    /// INT8 with a scale per row, `[out][in]`; of a convolution a row is `[in / groups][window]`. Normalisation on
    /// constants that follows is part of it.
    pub weights: PackedTensor,
    /// A value per output channel, in the units of the network.
    pub bias: Option<Vec<f32>>,
    /// A number that other weights and biases hardly have, of those that were rounded.
    pub(super) chosen_for: u64,
}

impl IntegerLayer {
    /// Bytes of codes, scales, zero points and bias.
    pub(super) fn size_bytes(&self) -> usize {
        let bias = self.bias.as_ref().map_or(0, |bias| 4 * bias.len());
        self.weights.size_bytes() + 2 * (size_of::<f32>() + 1) + bias
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_round_to_the_nearest_and_end_at_both_ends() {
        let bytes = ByteScale::new(0.5, 10.0).expect("fits");
        for (value, want) in [
            (0.0, 0.0),
            (0.74, 0.5),
            (0.75, 1.0),
            (0.25, 0.0),
            (1e9, 122.5),
            (-1e9, -5.0),
            (f32::INFINITY, 122.5),
            (f32::NAN, 0.0),
        ] {
            assert_eq!(bytes.round_trip(value), want, "{value}");
        }
    }

    #[test]
    fn what_is_no_scale_or_no_byte_is_none() {
        for scale in [0.0, -1.0, f32::NAN, f32::INFINITY] {
            assert_eq!(ByteScale::new(scale, 0.0), None, "{scale}");
        }
        for zero_point in [-1.0, 0.5, 256.0, f32::NAN] {
            assert_eq!(ByteScale::new(1.0, zero_point), None, "{zero_point}");
        }
        assert!(ByteScale::new(f32::MIN_POSITIVE, 255.0).is_some());
    }
}
