//! Number formats a model can be asked to run in.
//!
//! ```text
//! name  bits  what it is
//! fp32    32  IEEE 754 binary32
//! fp16    16  IEEE 754 binary16
//! bf16    16  bfloat16: the upper half of binary32
//! fp8      8  E4M3 with scales
//! int8     8  integers with scales, one of an activation and one per output channel of weights
//! fp4      4  E2M1, one E4M3 scale per 16 values (NVFP4)
//! ```
//!
//! The rounding rules of each format are not here: this crate only names them.

use std::fmt;
use std::str::FromStr;

/// The format of weights (and, where the step allows, activations).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum Precision {
    /// IEEE 754 binary32: 8 bits of exponent, 23 of fraction.
    Fp32,
    /// IEEE 754 binary16: 5 bits of exponent, 10 of fraction.
    Fp16,
    /// bfloat16: the upper half of binary32, 7 bits of fraction.
    Bf16,
    /// FP8 E4M3 with scales.
    Fp8,
    /// Integers of eight bits with scales: activations as unsigned bytes with one scale and zero point, weights as
    /// signed ones with a scale per output channel.
    Int8,
    /// NVFP4: E2M1 with E4M3 block scales.
    Fp4,
}

impl Precision {
    /// Every precision, widest first.
    pub const ALL: [Self; 6] = [
        Self::Fp32,
        Self::Fp16,
        Self::Bf16,
        Self::Fp8,
        Self::Int8,
        Self::Fp4,
    ];

    /// The lower-case name used on command lines, in files and in logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fp32 => "fp32",
            Self::Fp16 => "fp16",
            Self::Bf16 => "bf16",
            Self::Fp8 => "fp8",
            Self::Int8 => "int8",
            Self::Fp4 => "fp4",
        }
    }

    /// Bits of one stored value, scales not counted.
    #[must_use]
    pub const fn bits(self) -> u32 {
        match self {
            Self::Fp32 => 32,
            Self::Fp16 | Self::Bf16 => 16,
            Self::Fp8 | Self::Int8 => 8,
            Self::Fp4 => 4,
        }
    }

    /// Whether results in this precision still need checking model by model.
    #[must_use]
    pub const fn is_experimental(self) -> bool {
        matches!(self, Self::Fp4)
    }

    /// Whether a model can run in it only with scales that were chosen on real inputs, or that its file brings.
    /// Nothing chooses such a precision by itself: it is asked for by name.
    #[must_use]
    pub const fn needs_calibration(self) -> bool {
        matches!(self, Self::Int8)
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A word that names no precision.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown precision `{got}`, expected one of fp32, fp16, bf16, fp8, int8, fp4 (or nvfp4)")]
pub struct UnknownPrecision {
    /// The word as given.
    pub got: String,
}

impl FromStr for Precision {
    type Err = UnknownPrecision;

    /// Accepts the names of [`Precision::name`] in any case, with surrounding
    /// blanks, and `nvfp4` for [`Precision::Fp4`].
    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let lower = word.trim().to_ascii_lowercase();
        if lower == "nvfp4" {
            return Ok(Self::Fp4);
        }
        Self::ALL
            .into_iter()
            .find(|precision| precision.name() == lower)
            .ok_or_else(|| UnknownPrecision {
                got: word.to_owned(),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_parses_back() {
        for precision in Precision::ALL {
            assert_eq!(precision.to_string().parse(), Ok(precision));
            assert_eq!(precision.name().to_uppercase().parse(), Ok(precision));
        }
    }

    #[test]
    fn nvfp4_is_fp4() {
        assert_eq!(" NVFP4 ".parse(), Ok(Precision::Fp4));
        assert!(Precision::Fp4.is_experimental());
    }

    #[test]
    fn int8_alone_needs_a_calibration() {
        assert_eq!("Int8".parse(), Ok(Precision::Int8));
        let needing = Precision::ALL.into_iter().filter(|p| p.needs_calibration());
        assert_eq!(needing.collect::<Vec<_>>(), [Precision::Int8]);
        assert!(Precision::ALL.is_sorted_by_key(|p| std::cmp::Reverse(p.bits())));
    }

    #[test]
    fn other_words_are_refused_with_the_word() {
        for word in ["", "int4", "auto", "fp 4", "fp4\0"] {
            assert_eq!(
                word.parse::<Precision>(),
                Err(UnknownPrecision {
                    got: word.to_owned()
                })
            );
        }
    }

    #[test]
    fn display_honours_width() {
        assert_eq!(format!("[{:>6}]", Precision::Fp8), "[   fp8]");
    }
}
