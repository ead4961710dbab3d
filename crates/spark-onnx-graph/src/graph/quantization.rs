//! Parameters of quantisation, and the floats of 8 bits and fewer that it knows.
//!
//! Tensors have no such floats, nor integers below 8 bits: those of files are held as f16, i8 and u8, which have all
//! of their numbers, and rounded where a file's operator rounds to them.

/// A float of 8 bits or fewer, whose numbers are held as f16.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SmallFloat {
    /// float8e4m3fn: 4 bits of exponent, 3 of fraction, largest 448, no infinities.
    E4M3FN,
    /// float8e4m3fnuz: the same with an exponent one lower, largest 240, one zero.
    E4M3FNUZ,
    /// float8e5m2: 5 bits of exponent, 2 of fraction, largest finite value 57344.
    E5M2,
    /// float8e5m2fnuz: the same with an exponent one lower, one zero, no infinities.
    E5M2FNUZ,
    /// float4e2m1: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives.
    E2M1,
}

/// Parameters of [`Op::RoundFloat`](crate::graph::Op::RoundFloat).
///
/// # Rounding
///
/// To the nearest number of the format, ties to the one whose last bit is even, also below its least normal number.
/// What rounds beyond its largest number, and infinities, become that number with `saturate`; without, the format's
/// infinity, or NaN where it has none; always that number in [`SmallFloat::E2M1`], which has neither. NaN stays, and
/// is the largest number in [`SmallFloat::E2M1`]. A format with one zero has no negative one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundFloat {
    /// Whose numbers are left.
    pub format: SmallFloat,
    /// Whether what is too large becomes the largest number.
    pub saturate: bool,
}

/// Parameters of [`Op::QuantizeLinear`](crate::graph::Op::QuantizeLinear), whose scale and zero point are operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuantizeLinear {
    /// Axis of `scale` where it has one, or along which its blocks lie.
    pub axis: i64,
    /// How many neighbours along the axis share a scale; 0 where scales are per tensor or axis.
    pub block_size: usize,
    /// The format of a result of floats, which is f16 then.
    pub float: Option<RoundFloat>,
}

/// Parameters of [`Op::DequantizeLinear`](crate::graph::Op::DequantizeLinear), whose scale and zero point are operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DequantizeLinear {
    /// Axis of `scale` where it has one, or along which its blocks lie.
    pub axis: i64,
    /// How many neighbours along the axis share a scale; 0 where scales are per tensor or axis.
    pub block_size: usize,
    /// The format of an operand of floats, which is f16 then.
    pub float: Option<SmallFloat>,
}

impl QuantizeLinear {
    /// To integers, by one scale or one per position of `axis`.
    pub fn along(axis: i64) -> Self {
        Self {
            axis,
            block_size: 0,
            float: None,
        }
    }
}

impl DequantizeLinear {
    /// From integers, by one scale or one per position of `axis`.
    pub fn along(axis: i64) -> Self {
        Self {
            axis,
            block_size: 0,
            float: None,
        }
    }
}
