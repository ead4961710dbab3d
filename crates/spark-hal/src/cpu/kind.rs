//! Core designs, from the main identification register (MIDR) or `/proc/cpuinfo`.
//!
//! ```text
//! MIDR_EL1   bits 31..24 implementer   23..20 variant   15..4 part   3..0 revision
//! ```
//!
//! Numbers: Linux `arch/arm64/include/asm/cputype.h`; the two of GB10 also in
//! hrw/arm-socs-table issue #133.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::list::HIGHEST_CPU;

/// The design of a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum CoreKind {
    /// Arm Cortex-X925: the fast cores of GB10.
    CortexX925,
    /// Arm Cortex-A725: the efficient cores of GB10.
    CortexA725,
    /// Arm Neoverse V2: NVIDIA Grace.
    NeoverseV2,
    /// Arm Cortex-A78AE: Jetson Orin.
    CortexA78ae,
    /// Qualcomm Kryo 385 Gold: the fast cores of the comma three.
    Kryo385Gold,
    /// Qualcomm Kryo 385 Silver: the efficient cores of the comma three.
    Kryo385Silver,
    /// Another Arm design, by its numbers in `MIDR_EL1`.
    Arm {
        /// Bits 24 to 31: who designed it, 0x41 for Arm.
        implementer: u8,
        /// Bits 4 to 15: which of the implementer's designs.
        part: u16,
    },
    /// An Intel processor, of whatever model.
    Intel,
    /// An AMD processor, of whatever model.
    Amd,
    /// Neither a vendor nor an Arm part number was told.
    Unknown,
}

impl CoreKind {
    /// From the value of the register `MIDR_EL1`, as `/sys` has it.
    #[must_use]
    pub fn from_midr(midr: u64) -> Self {
        let implementer = (midr >> 24 & 0xff) as u8;
        let part = (midr >> 4 & 0xfff) as u16;
        Self::from_parts(implementer, part)
    }

    fn from_parts(implementer: u8, part: u16) -> Self {
        match (implementer, part) {
            (0x41, 0xd85) => Self::CortexX925,
            (0x41, 0xd87) => Self::CortexA725,
            (0x41, 0xd4f) => Self::NeoverseV2,
            (0x41, 0xd42) => Self::CortexA78ae,
            (0x51, 0x802) => Self::Kryo385Gold,
            (0x51, 0x803) => Self::Kryo385Silver,
            _ => Self::Arm { implementer, part },
        }
    }

    /// Higher is stronger, where two designs are known to share a chip.
    pub(super) fn rank(self) -> u32 {
        match self {
            Self::CortexX925 | Self::Kryo385Gold => 1,
            _ => 0,
        }
    }
}

impl fmt::Display for CoreKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CortexX925 => "Cortex-X925",
            Self::CortexA725 => "Cortex-A725",
            Self::NeoverseV2 => "Neoverse V2",
            Self::CortexA78ae => "Cortex-A78AE",
            Self::Kryo385Gold => "Kryo 385 Gold",
            Self::Kryo385Silver => "Kryo 385 Silver",
            Self::Arm { implementer, part } => {
                return write!(f, "Arm design {implementer:#04x}/{part:#05x}");
            }
            Self::Intel => "Intel",
            Self::Amd => "AMD",
            Self::Unknown => "unknown design",
        })
    }
}

/// What `/proc/cpuinfo` says of one CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CpuinfoEntry {
    pub(super) kind: CoreKind,
    pub(super) model_name: Option<String>,
    pub(super) features: BTreeSet<String>,
}

/// Reads `/proc/cpuinfo`; the key is the CPU's number.
pub(super) fn parse_cpuinfo(text: &str) -> BTreeMap<u32, CpuinfoEntry> {
    let mut entries = BTreeMap::new();
    for block in text.split("\n\n") {
        let fields: BTreeMap<&str, &str> = block
            .lines()
            .filter_map(|line| line.split_once(':'))
            .map(|(key, value)| (key.trim(), value.trim()))
            .collect();
        let Some(id) = fields
            .get("processor")
            .and_then(|id| id.parse::<u32>().ok())
            .filter(|id| *id <= HIGHEST_CPU)
        else {
            continue;
        };
        // The first CPU's features stand for all; keeping one copy per CPU is waste.
        let words = fields.get("flags").or(fields.get("Features"));
        let features = match words {
            Some(words) if entries.is_empty() => {
                words.split_whitespace().map(str::to_owned).collect()
            }
            _ => BTreeSet::new(),
        };
        entries.insert(
            id,
            CpuinfoEntry {
                kind: entry_kind(&fields),
                model_name: fields
                    .get("model name")
                    .map(|name| crate::reading::quote(name)),
                features,
            },
        );
    }
    entries
}

fn entry_kind(fields: &BTreeMap<&str, &str>) -> CoreKind {
    let hexadecimal = |key: &str| {
        let digits = fields.get(key)?.strip_prefix("0x")?;
        u16::from_str_radix(digits, 16).ok()
    };
    if let (Some(implementer), Some(part)) =
        (hexadecimal("CPU implementer"), hexadecimal("CPU part"))
        && let Ok(implementer) = u8::try_from(implementer)
    {
        return CoreKind::from_parts(implementer, part);
    }
    match fields.get("vendor_id") {
        Some(&"GenuineIntel") => CoreKind::Intel,
        Some(&"AuthenticAMD") => CoreKind::Amd,
        _ => CoreKind::Unknown,
    }
}
