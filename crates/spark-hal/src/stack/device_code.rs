//! Which GPUs the CUDA code inside a shared library was built for.
//!
//! ```text
//! ELF file -> section .nv_fatbin -> containers, one after another
//! container  u32 0xba55ed50, u16 version, u16 header bytes, u64 content bytes
//!   entry    u16 kind (1 PTX, 2 machine code), u16, u32 header bytes, u64 content bytes,
//!            12 bytes, u32 architecture at 28, 8 bytes, u64 flags at 40
//!   flags    bit 20 = architecture-specific (sm_121a), bit 21 = family (sm_120f)
//! ```
//!
//! Nothing is loaded: only headers are read. The layout is not documented by NVIDIA; it
//! was read off files that `fatbinary` of CUDA 13.0.88 made for sm_90, sm_120f, sm_121a
//! and PTX of compute_120. Contents may be compressed; headers are not.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::str::FromStr;

use crate::capability::ComputeCapability;
use crate::reading::Failure;

/// Machine code or intermediate code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub enum CodeKind {
    /// PTX: compiled by the driver for newer GPUs.
    Ptx,
    /// A cubin: runs as it is.
    Machine,
}

/// How far code reaches beyond the architecture it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub enum Reach {
    /// No suffix: machine code for the same major number and newer minor ones, PTX for all that
    /// is newer.
    Ordinary,
    /// `f`: the family, with its special instructions.
    Family,
    /// `a`: exactly this architecture, with its special instructions.
    Exact,
}

/// What one piece of code was built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct CodeTarget {
    /// Compute capability without the dot: 121 for sm_121.
    pub sm: u32,
    /// How far it reaches.
    pub reach: Reach,
    /// Machine code or PTX.
    pub kind: CodeKind,
}

/// Architectures of Tegra that share their major number with others: Jetson TX1, TX2, Xavier and Orin
/// (NVIDIA's list of CUDA GPUs and their compute capabilities).
const TEGRA: [u32; 4] = [53, 62, 72, 87];

impl CodeTarget {
    /// Whether a GPU of this capability can run it.
    ///
    /// # Source
    ///
    /// NVIDIA's blog on family-specific architecture features (CUDA 12.9): machine code
    /// runs on its own and higher minor versions of the same major one, family code on
    /// its family, `a` code on its architecture only; PTX also on later ones. CUDA C++ Programming
    /// Guide, "Binary Compatibility": Tegra, the GPU of a Jetson, runs its own machine code alone, and
    /// nothing else runs that.
    #[must_use]
    pub fn runs_on(&self, compute: ComputeCapability) -> bool {
        let gpu = compute.sm();
        if self.kind == CodeKind::Machine && (TEGRA.contains(&self.sm) || TEGRA.contains(&gpu)) {
            return self.sm == gpu;
        }
        let same_major = self.sm / 10 == gpu / 10;
        match (self.reach, self.kind) {
            (Reach::Exact, _) => self.sm == gpu,
            (Reach::Family, _) | (Reach::Ordinary, CodeKind::Machine) => {
                same_major && self.sm <= gpu
            }
            (Reach::Ordinary, CodeKind::Ptx) => self.sm <= gpu,
        }
    }
}

/// As it is displayed: `sm_121a`, `sm_120f`, `compute_90`.
impl FromStr for CodeTarget {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        let malformed = || {
            Failure::malformed(
                "a code target",
                text,
                "a text such as sm_121a or compute_90",
            )
        };
        let (kind, rest) = match (text.strip_prefix("sm_"), text.strip_prefix("compute_")) {
            (Some(rest), _) => (CodeKind::Machine, rest),
            (_, Some(rest)) => (CodeKind::Ptx, rest),
            (None, None) => return Err(malformed()),
        };
        let (reach, digits) = match (rest.strip_suffix('a'), rest.strip_suffix('f')) {
            (Some(digits), _) => (Reach::Exact, digits),
            (_, Some(digits)) => (Reach::Family, digits),
            (None, None) => (Reach::Ordinary, rest),
        };
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let sm = digits.parse().ok().filter(|_| is_number);
        let sm = sm.ok_or_else(malformed)?;
        Ok(Self { sm, reach, kind })
    }
}

impl fmt::Display for CodeTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = match self.kind {
            CodeKind::Ptx => "compute",
            CodeKind::Machine => "sm",
        };
        let suffix = match self.reach {
            Reach::Ordinary => "",
            Reach::Family => "f",
            Reach::Exact => "a",
        };
        write!(f, "{prefix}_{}{suffix}", self.sm)
    }
}

/// The CUDA code of a library.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct DeviceCode {
    /// What its pieces were built for.
    pub targets: BTreeSet<CodeTarget>,
}

/// Most sections and pieces of code that are looked at in one file.
const SECTIONS_LIMIT: u16 = 1024;
const PIECES_LIMIT: usize = 100_000;

impl DeviceCode {
    /// Reads the headers of a file; `None` if it is no 64-bit little-endian ELF file or
    /// holds no CUDA code.
    #[must_use]
    pub fn of_file(path: &Path) -> Option<Self> {
        // Asked before opening: to open a pipe is to wait for somebody who writes.
        if !std::fs::metadata(path).ok()?.is_file() {
            return None;
        }
        let file = File::open(path).ok()?;
        let (begin, end) = fatbin_section(&file)?;
        let mut code = Self::default();
        let mut at = begin;
        let mut n_pieces = 0;
        while at < end && n_pieces < PIECES_LIMIT {
            let header: [u8; 16] = read(&file, at)?;
            if u32_at(&header, 0) != 0xba55_ed50 {
                break;
            }
            let content = at.checked_add(u64::from(u16_at(&header, 6)))?;
            let next = content.checked_add(u64_at(&header, 8))?.min(end);
            n_pieces += code.read_container(&file, content, next)?;
            // Containers are aligned to eight bytes.
            at = next.checked_next_multiple_of(8)?.max(content);
        }
        (!code.targets.is_empty()).then_some(code)
    }

    /// Whether any piece runs on a GPU of this capability.
    #[must_use]
    pub fn runs_on(&self, compute: ComputeCapability) -> bool {
        self.targets.iter().any(|target| target.runs_on(compute))
    }

    fn read_container(&mut self, file: &File, begin: u64, end: u64) -> Option<usize> {
        let mut at = begin;
        let mut n_pieces = 1;
        while at.checked_add(48)? <= end && n_pieces < PIECES_LIMIT {
            let header: [u8; 48] = read(file, at)?;
            let kind = match u16_at(&header, 0) {
                1 => Some(CodeKind::Ptx),
                2 => Some(CodeKind::Machine),
                _ => None,
            };
            let flags = u64_at(&header, 40);
            let reach = match (flags >> 20 & 1, flags >> 21 & 1) {
                (1, _) => Reach::Exact,
                (_, 1) => Reach::Family,
                _ => Reach::Ordinary,
            };
            if let Some(kind) = kind {
                self.targets.insert(CodeTarget {
                    sm: u32_at(&header, 28),
                    reach,
                    kind,
                });
            }
            let header_bytes = u64::from(u32_at(&header, 4));
            // A header shorter than what was just read would never end.
            let length = header_bytes.max(48).checked_add(u64_at(&header, 8))?;
            at = at.checked_add(length)?;
            n_pieces += 1;
        }
        Some(n_pieces)
    }
}

impl fmt::Display for DeviceCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.targets.iter().map(CodeTarget::to_string).collect();
        f.write_str(&names.join(" "))
    }
}

/// Begin and end of the section with CUDA code.
fn fatbin_section(file: &File) -> Option<(u64, u64)> {
    const NAME: &[u8] = b".nv_fatbin\0";
    let header: [u8; 64] = read(file, 0)?;
    // Magic, 64 bits, little-endian.
    if header[..6] != *b"\x7fELF\x02\x01" {
        return None;
    }
    let (table, entry_bytes) = (u64_at(&header, 40), u64::from(u16_at(&header, 58)));
    let n_sections = u16_at(&header, 60).min(SECTIONS_LIMIT);
    let section = |idx: u16| -> Option<[u8; 64]> {
        read(
            file,
            table.checked_add(entry_bytes.checked_mul(u64::from(idx))?)?,
        )
    };
    let names = u64_at(&section(u16_at(&header, 62))?, 24);
    for idx in 0..n_sections {
        let section = section(idx)?;
        let name: Option<[u8; NAME.len()]> = names
            .checked_add(u64::from(u32_at(&section, 0)))
            .and_then(|at| read(file, at));
        if name.is_some_and(|name| name == NAME) {
            let begin = u64_at(&section, 24);
            return Some((begin, begin.checked_add(u64_at(&section, 32))?));
        }
    }
    None
}

fn read<const N: usize>(file: &File, at: u64) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    file.read_exact_at(&mut bytes, at).ok()?;
    Some(bytes)
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(text: &str) -> CodeTarget {
        text.parse().unwrap()
    }

    #[test]
    fn texts_that_are_no_targets_are_refused() {
        for text in [
            "",
            "sm_",
            "sm_a",
            "121a",
            "sm_12 1",
            "sm_+90",
            "compute_90b",
            "lto_90",
        ] {
            assert!(text.parse::<CodeTarget>().is_err(), "{text}");
        }
    }

    /// The table of what loads where: NVIDIA's CUDA 12.9 blog, ThunderKittens#203,
    /// unsloth's test matrix.
    #[test]
    fn what_loads_on_a_gb10() {
        let loads = [
            "sm_120",
            "sm_120f",
            "sm_121",
            "sm_121a",
            "sm_121f",
            "compute_90",
            "compute_120",
        ];
        let does_not = [
            "sm_90",
            "sm_90a",
            "sm_100f",
            "sm_120a",
            "sm_122",
            "compute_90a",
            "compute_120a",
        ];
        for text in loads {
            assert!(target(text).runs_on(ComputeCapability::GB10), "{text}");
            assert_eq!(target(text).to_string(), text);
        }
        for text in does_not {
            assert!(!target(text).runs_on(ComputeCapability::GB10), "{text}");
        }
    }

    #[test]
    fn a_jetson_runs_no_machine_code_of_cards_nor_they_its() {
        let orin = ComputeCapability { major: 8, minor: 7 };
        let ada = ComputeCapability { major: 8, minor: 9 };
        for text in ["sm_87", "compute_80", "compute_87"] {
            assert!(target(text).runs_on(orin), "{text}");
        }
        for text in ["sm_80", "sm_86", "sm_89", "compute_89"] {
            assert!(!target(text).runs_on(orin), "{text}");
        }
        for text in ["sm_80", "sm_86", "sm_89", "compute_87"] {
            assert!(target(text).runs_on(ada), "{text}");
        }
        assert!(!target("sm_87").runs_on(ada));
    }
}
