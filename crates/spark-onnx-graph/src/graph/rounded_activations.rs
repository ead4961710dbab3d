//! Parameters of what tensor cores of few bits are given: an operand rounded to their format and back.

/// A format that operands of GEMM and convolutions are rounded to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ActivationFormat {
    /// E4M3 with one scale.
    E4m3,
    /// NVFP4: E2M1 in blocks of 16 channels with a scale of E4M3 each, and one scale for all of them.
    Nvfp4,
}

impl ActivationFormat {
    /// Channels that share a scale of their own; nothing where there are no blocks.
    pub fn block(self) -> Option<usize> {
        match self {
            Self::E4m3 => None,
            Self::Nvfp4 => Some(16),
        }
    }

    /// The largest magnitude that there is with a scale of 1.
    pub fn largest(self) -> f32 {
        match self {
            Self::E4m3 => 448.0,
            Self::Nvfp4 => 6.0 * 448.0,
        }
    }

    /// The smallest scale that there is.
    pub fn least_scale(self) -> f32 {
        match self {
            Self::E4m3 => f32::MIN_POSITIVE,
            Self::Nvfp4 => 2f32.powi(-112),
        }
    }

    /// The scale of elements whose largest magnitude this is.
    pub fn scale(self, magnitude: f32) -> f32 {
        match magnitude == 0.0 {
            true => 1.0,
            false => (magnitude / self.largest()).max(self.least_scale()),
        }
    }
}

/// Parameters of [`Op::RoundedActivations`](crate::graph::Op::RoundedActivations). It is no operator of ONNX, and no file has it.
///
/// ```text
/// part     `together` positions of the first axis, the last part maybe fewer; all of them, if `axis` is the first
/// s        the scale given, or that of the largest magnitude of the part: it over 448, or over 6 * 448 = 2688
/// E4M3     y = e4m3(x / s) * s
/// NVFP4    c = e4m3(largest magnitude of 16 channels / (6 s))   2^-9 at least, 1 where all are zero
///          y = e2m1(x / (c s)) * (c s)
/// ```
///
/// in f32, rounded to nearest, ties to even; what is beyond the largest number of a format becomes it. Blocks are of neighbours along
/// `axis`, from its start. What is not finite is refused, and where `len` is given another number of elements.
///
/// # Gradient
///
/// It goes straight through, always: as if nothing were rounded. With a scale that is given an element beyond
/// [`ActivationFormat::largest`] times it is clipped, and has none, for nothing changes where it moves; a scale that follows the largest magnitude
/// clips nothing, and itself counts as a constant.
///
/// # Source
///
/// The formats: NVIDIA's ModelOpt. The gradient: Y. Bengio et al., "Estimating or Propagating Gradients Through Stochastic Neurons for
/// Conditional Computation" (2013), section 2.3; where it ends: Esser et al., "Learned Step Size Quantization" (2020), section 2.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RoundedActivations {
    /// What elements are rounded to.
    pub format: ActivationFormat,
    /// The axis of channels, from the end where negative.
    pub axis: i64,
    /// Positions of the first axis that share a scale: those of one run of the deployed network.
    pub together: usize,
    /// The scale that a calibration fixed.
    pub scale: Option<f32>,
    /// Elements that there must be, if any number of them will not do: those of one run, where those of another do not lie behind them.
    pub len: Option<usize>,
}

impl RoundedActivations {
    /// The magnitude beyond which elements are clipped, if any is.
    pub fn clips_beyond(&self) -> Option<f32> {
        self.scale.map(|scale| scale * self.format.largest())
    }
}
