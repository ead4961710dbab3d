//! What can be said of a gradient before it is computed, and how it is to be.

use crate::tensor::DType;

/// What is known of the gradient of an operator's results by one of its operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GradientKind {
    /// There is one, and it is computed.
    Computed,
    /// It is zero wherever it exists: results hang on the operand in steps (roundings, comparisons, positions), or on its
    /// shape alone.
    Zero,
    /// There is none, or none that is known, for this reason.
    Refused(&'static str),
}

/// How gradients are computed where there is a choice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GradientOptions {
    /// Whether roundings of QuantizeLinear and RoundFloat count as if they were not there: their slope is 1 within the range
    /// of the numbers rounded to, and 0 beyond, where the largest stands for all. Otherwise it is zero, as of any
    /// rounding.
    ///
    /// With DequantizeLinear behind it, the gradient by the scale is then that of learned step sizes: Esser et al.,
    /// "Learned Step Size Quantization" (2020), equation 3.
    pub straight_through: bool,
}

/// What the kind of a gradient hangs on, beside the operator.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    /// Which operand.
    pub(super) operand: usize,
    /// Element type of the first result, as the network states it.
    pub(super) result: DType,
    pub(super) options: GradientOptions,
}

impl Asked {
    /// Of an operator whose further operands say where, how many or along which axis.
    pub(super) fn first_alone(self) -> GradientKind {
        match self.operand {
            0 => GradientKind::Computed,
            _ => GradientKind::Zero,
        }
    }
}
