//! Parameters of random numbers.

use crate::tensor::DType;

/// Parameters of [`Op::RandomLike`](crate::graph::Op::RandomLike), which takes no values of its operand.
///
/// # Determinism
///
/// The same seed gives the same numbers, in every run, in every node and on every machine; only a file that
/// states no seed gives every node a seed of its own, from the name of its result. Number `i` of a tensor, in
/// row-major order from 0, hangs on the seed and on `i` alone:
///
/// ```text
/// mix(z)   z ^= z >> 30;  z *= 0xbf58476d1ce4e5b9;  z ^= z >> 27;  z *= 0x94d049bb133111eb;  z ^= z >> 31
/// bits(i)  mix(mix(bits of the f32 seed) + (i + 1) * 0x9e3779b97f4a7c15)          64 bits, sums wrap
/// unit(i)  the p highest bits of bits(i), times 2^-p        p: 53 for f64, 24 for f32, 11 for f16, 8 for bf16
/// uniform  low + unit(i) * (high - low)
/// normal   mean + scale * sqrt(-2 ln a) cos(2 pi b)         a: (the 53 highest bits of bits(2 i) + 1) * 2^-53,
///                                                           b: the 53 highest bits of bits(2 i + 1), times 2^-53
/// ```
///
/// computed in f64 without any function of the system's, and rounded once to the type of the result.
///
/// # Source
///
/// `bits` is SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014). The normal
/// numbers are Box and Muller's (1958).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RandomLike {
    /// How the numbers are spread.
    pub distribution: Distribution,
    /// Result type, a float type; the operand's where left out.
    pub dtype: Option<DType>,
    /// What the numbers follow from.
    pub seed: f32,
}

/// How random numbers are spread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Distribution {
    /// Alike from `low` up to `high`, which rounding may reach where `low` is not 0.
    Uniform {
        /// The smallest number.
        low: f32,
        /// Where the numbers end, not below `low`.
        high: f32,
    },
    /// A normal distribution.
    Normal {
        /// Mean of the distribution.
        mean: f32,
        /// Standard deviation, not below 0.
        scale: f32,
    },
}
