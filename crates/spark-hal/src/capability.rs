//! Compute capability, and which number formats its tensor cores take.
//!
//! | precision | from | first GPU | source |
//! |---|---|---|---|
//! | fp16 | 5.3; tensor cores 7.0 | Volta | CUDA C++ Programming Guide, arithmetic throughput |
//! | bf16 | 8.0 | Ampere | same |
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

    /// The format with the most operations per second, whatever software can use it.
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
    fn check(compute: &str, fastest: Precision, n_supported: usize) {
        let compute: ComputeCapability = compute.parse().unwrap();
        assert_eq!(compute.fastest(), fastest);
        assert_eq!(compute.supported(), Precision::ALL[..n_supported]);
    }

    #[test]
    fn formats_follow_the_generations() {
        check("5.2", Precision::Fp32, 1);
        check("6.1", Precision::Fp32, 2);
        check("7.5", Precision::Fp16, 2);
        check("8.0", Precision::Bf16, 3);
        check("8.6", Precision::Bf16, 3);
        check("8.9", Precision::Fp8, 4);
        check("9.0", Precision::Fp8, 4);
        check("10.0", Precision::Fp4, 5);
        check("12.0", Precision::Fp4, 5);
        check("12.1", Precision::Fp4, 5);
    }
}
