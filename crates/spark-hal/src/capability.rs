//! Compute capability, and which number formats its tensor cores take.
//!
//! | precision | from | first GPU | source |
//! |---|---|---|---|
//! | fp16 | 5.3; tensor cores 7.0 | Volta | CUDA C++ Programming Guide, arithmetic throughput |
//! | bf16 | 8.0 | Ampere | same |
//! | int8 | 7.2 | Xavier | PTX ISA, `wmma` with `.s8` (sm_72), `mma` with `.s8` (sm_75) |
//! | fp8 | 8.9 | Ada | PTX ISA, `mma` with `.e4m3` (sm_89) |
//! | fp4 | 10.0 | Blackwell | PTX ISA, `.kind::mxf4nvf4` (sm_100a, sm_120a and up) |

use std::fmt;
use std::str::FromStr;

use crate::precision::Precision;
use crate::reading::Failure;

/// A GPU's compute capability, as the driver tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ComputeCapability {
    /// Generation of the architecture: 12 in 12.1.
    pub major: u32,
    /// Variant within the generation: 1 in 12.1.
    pub minor: u32,
}

impl ComputeCapability {
    /// What a GB10 answers: 12.1.
    pub const GB10: Self = Self {
        major: 12,
        minor: 1,
    };

    /// The number after `sm_`: 121 for 12.1.
    #[must_use]
    pub fn sm(self) -> u32 {
        self.major.saturating_mul(10).saturating_add(self.minor)
    }

    /// Whether the tensor cores (for fp32: the ordinary cores) take this format.
    #[must_use]
    pub fn supports(self, precision: Precision) -> bool {
        let since = match precision {
            Precision::Fp32 => 0,
            Precision::Fp16 => 53,
            Precision::Bf16 => 80,
            Precision::Int8 => 72,
            Precision::Fp8 => 89,
            Precision::Fp4 => 100,
        };
        self.sm() >= since
    }

    /// The formats it supports, widest first.
    #[must_use]
    pub fn supported(self) -> Vec<Precision> {
        Precision::ALL
            .into_iter()
            .filter(|precision| self.supports(*precision))
            .collect()
    }

    /// The format of floats with the most operations per second, whatever software can use it. Integers are asked
    /// for by name, with the scales of a model ([`Precision::needs_calibration`]).
    ///
    /// fp16 before tensor cores (5.3 to 6.2) is slower than fp32 on most cards
    /// (6.1 has 1/64 of the rate), so it starts at 7.0 here.
    #[must_use]
    pub fn fastest(self) -> Precision {
        match self.sm() {
            100.. => Precision::Fp4,
            89.. => Precision::Fp8,
            80.. => Precision::Bf16,
            70.. => Precision::Fp16,
            _ => Precision::Fp32,
        }
    }
}

impl fmt::Display for ComputeCapability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl FromStr for ComputeCapability {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        let parsed = text.split_once('.').and_then(|(major, minor)| {
            Some(Self {
                major: major.parse().ok()?,
                minor: minor.parse().ok()?,
            })
        });
        parsed.ok_or_else(|| Failure::malformed("compute capability", text, "major.minor"))
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for ComputeCapability {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(compute: &str, fastest: Precision, supported: &[Precision]) {
        let compute: ComputeCapability = compute.parse().unwrap();
        assert_eq!(compute.fastest(), fastest);
        assert_eq!(compute.supported(), supported);
    }

    #[test]
    fn formats_follow_the_generations() {
        use Precision::{Bf16, Fp4, Fp8, Fp16, Fp32, Int8};
        check("5.2", Fp32, &[Fp32]);
        check("6.1", Fp32, &[Fp32, Fp16]);
        check("7.0", Fp16, &[Fp32, Fp16]);
        check("7.5", Fp16, &[Fp32, Fp16, Int8]);
        check("8.0", Bf16, &[Fp32, Fp16, Bf16, Int8]);
        check("8.6", Bf16, &[Fp32, Fp16, Bf16, Int8]);
        check("8.9", Fp8, &[Fp32, Fp16, Bf16, Fp8, Int8]);
        check("9.0", Fp8, &[Fp32, Fp16, Bf16, Fp8, Int8]);
        for blackwell in ["10.0", "12.0", "12.1"] {
            check(blackwell, Fp4, &Precision::ALL);
        }
    }
}
