//! `/proc/meminfo`.
//!
//! ```text
//! MemTotal:       125513944 kB
//! HugePages_Total:       0          a count, without unit
//! ```
//!
//! "kB" means 1024 bytes (Linux `Documentation/filesystems/proc.rst`). Lines in other
//! units, negative or overlong numbers give failed readings.

use crate::reading::{Failure, Reading};
use crate::root::Root;

const PATH: &str = "/proc/meminfo";

/// The figures used here. Sizes in bytes; a line that is absent is "not supported".
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Meminfo {
    /// `MemTotal`: all memory the kernel manages.
    pub total_bytes: Reading<u64>,
    /// `MemFree`: pages nobody uses, cache not counted.
    pub free_bytes: Reading<u64>,
    /// `MemAvailable`: the kernel's estimate of what can be allocated without swapping.
    pub available_bytes: Reading<u64>,
    /// `Cached`: file cache, shared memory included.
    pub cached_bytes: Reading<u64>,
    /// `Shmem`: tmpfs (such as `/dev/shm`) and shared memory.
    pub shared_bytes: Reading<u64>,
    /// `SwapTotal`: size of all swap areas.
    pub swap_total_bytes: Reading<u64>,
    /// `SwapFree`: the unused part of them.
    pub swap_free_bytes: Reading<u64>,
    /// `HugePages_Total`: number of pages in the pool, not bytes.
    pub huge_pages_total: Reading<u64>,
    /// `HugePages_Free`: number of unused pages in the pool, not bytes.
    pub huge_pages_free: Reading<u64>,
    /// `Hugepagesize`: bytes of one page of the pool.
    pub huge_page_bytes: Reading<u64>,
    /// `CmaTotal`: memory the kernel keeps for contiguous allocations.
    pub cma_total_bytes: Reading<u64>,
    /// `CmaFree`: the unused part of that memory.
    pub cma_free_bytes: Reading<u64>,
}

impl Meminfo {
    /// Reads `/proc/meminfo` below `root`.
    #[must_use]
    pub fn read(root: &Root) -> Self {
        Self::from_text(&root.text(PATH))
    }

    /// Reads the text of the file.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        Self::from_text(&Reading::Value(text.to_owned()))
    }

    fn from_text(text: &Reading<String>) -> Self {
        let bytes = |key| {
            text.as_ref()
                .and_then(|text| field(text, key, Unit::Kibibytes))
        };
        let count = |key| text.as_ref().and_then(|text| field(text, key, Unit::Count));
        Self {
            total_bytes: bytes("MemTotal"),
            free_bytes: bytes("MemFree"),
            available_bytes: bytes("MemAvailable"),
            cached_bytes: bytes("Cached"),
            shared_bytes: bytes("Shmem"),
            swap_total_bytes: bytes("SwapTotal"),
            swap_free_bytes: bytes("SwapFree"),
            huge_pages_total: count("HugePages_Total"),
            huge_pages_free: count("HugePages_Free"),
            huge_page_bytes: bytes("Hugepagesize"),
            cma_total_bytes: bytes("CmaTotal"),
            cma_free_bytes: bytes("CmaFree"),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Kibibytes,
    Count,
}

fn field(text: &str, key: &str, unit: Unit) -> Reading<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    let Some(value) = line else {
        return Reading::NotSupported;
    };
    match parse_value(value, unit) {
        Some(number) => Reading::Value(number),
        None => {
            let wanted = match unit {
                Unit::Kibibytes => "a number of kB below 2^54",
                Unit::Count => "a count",
            };
            Reading::Failed(Failure::malformed(
                format!("{PATH} {key}"),
                value.trim(),
                wanted,
            ))
        }
    }
}

fn parse_value(value: &str, unit: Unit) -> Option<u64> {
    let mut words = value.split_whitespace();
    let number: u64 = words.next()?.parse().ok()?;
    let scaled = match (unit, words.next()) {
        (Unit::Kibibytes, Some("kB")) => number.checked_mul(1024)?,
        (Unit::Count, None) => number,
        _ => return None,
    };
    words.next().is_none().then_some(scaled)
}
