//! What may be asked for, and the words for it. Settings and options of programs go through
//! the same parsers.

use std::str::FromStr;

use crate::precision::{Precision, UnknownPrecision};

/// The precision that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrecisionChoice {
    /// None in particular: whoever runs something chooses. Models on the CPU take fp32; what suits a
    /// GPU, [`Machine::recommended_precision`](crate::Machine::recommended_precision) says.
    Auto,
    /// This one, or an error if it cannot be had.
    Fixed(Precision),
}

/// Whether CUDA may or must be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CudaUse {
    /// If it is there.
    Auto,
    /// Never, even where a GPU is there (`CUDA=0`).
    Never,
    /// An error if it cannot be had.
    Require,
}

/// Where work shall run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The best GPU, else the CPU.
    Auto,
    /// The CPU, even where a GPU is there.
    Cpu,
    /// A CUDA device: the one with this number, or the best one.
    Cuda(Option<u32>),
}

/// Where memory lies that CPU and GPU both use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryKindChoice {
    /// What a measurement, or the hardware's attributes, say.
    Auto,
    /// Plain memory of the system, which the GPU reads through the CPU's page tables.
    System,
    /// Managed memory, whose pages the driver may move.
    Unified,
    /// Memory that the driver keeps in its place.
    Pinned,
}

/// A word that names no kind of memory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown kind of memory `{got}`, expected auto, system, unified or pinned")]
pub struct UnknownMemoryKind {
    /// The word as given.
    pub got: String,
}

/// A word that names no device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown device `{got}`, expected auto, cpu, cuda or cuda:N")]
pub struct UnknownDevice {
    /// The word as given.
    pub got: String,
}

impl FromStr for PrecisionChoice {
    type Err = UnknownPrecision;

    /// Accepts `auto` and the names of [`Precision`], in any case, with surrounding blanks.
    fn from_str(word: &str) -> Result<Self, Self::Err> {
        if word.trim().eq_ignore_ascii_case("auto") {
            return Ok(Self::Auto);
        }
        word.parse().map(Self::Fixed)
    }
}

impl FromStr for DeviceChoice {
    type Err = UnknownDevice;

    /// Accepts `auto`, `cpu`, `cuda` and `cuda:N`, in any case, with surrounding blanks.
    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let lower = word.trim().to_ascii_lowercase();
        let numbered = |digits: &str| {
            // The standard library's parser takes a sign too.
            let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
            digits.parse().ok().filter(|_| plain)
        };
        match lower.as_str() {
            "auto" => Some(Self::Auto),
            "cpu" => Some(Self::Cpu),
            "cuda" => Some(Self::Cuda(None)),
            other => other
                .strip_prefix("cuda:")
                .and_then(numbered)
                .map(|number| Self::Cuda(Some(number))),
        }
        .ok_or_else(|| UnknownDevice {
            got: word.to_owned(),
        })
    }
}

impl FromStr for MemoryKindChoice {
    type Err = UnknownMemoryKind;

    /// Accepts `auto`, `system`, `unified` and `pinned`, in any case, with surrounding blanks.
    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word.trim().to_ascii_lowercase().as_str() {
            "auto" => Ok(Self::Auto),
            "system" => Ok(Self::System),
            "unified" => Ok(Self::Unified),
            "pinned" => Ok(Self::Pinned),
            _ => Err(UnknownMemoryKind {
                got: word.to_owned(),
            }),
        }
    }
}

impl CudaUse {
    /// `0` and `1`; nothing where the variable is not set.
    pub(super) fn parse(text: &str) -> Option<Self> {
        match text {
            "" => Some(Self::Auto),
            "0" => Some(Self::Never),
            "1" => Some(Self::Require),
            _ => None,
        }
    }
}
