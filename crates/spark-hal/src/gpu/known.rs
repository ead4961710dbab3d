//! What is known by number or name about NVIDIA's unified-memory GPUs.
//!
//! | PCI | what | source |
//! |---|---|---|
//! | `10de:2e12` | GB10 (pci.ids: `GB20B [GB10]`) | canonical/inference-snaps issue #143, sbc-bench |
//! | `10de:2e03`, `10de:2e06` | N1X ("RTX Spark", 6144 and 5120 cores) | three first-hand dumps |
//! | `10de:2e13` | "Desktop Device", unknown | pci.ids |
//!
//! Compute capability is never derived from a name or number.

use crate::capability::ComputeCapability;
use crate::pci::VENDOR_NVIDIA;

const DEVICE_GB10: u16 = 0x2e12;
const DEVICES_N1X: [u16; 2] = [0x2e03, 0x2e06];

/// Whether these numbers are a GB10's.
#[must_use]
pub fn is_gb10_pci(vendor: u16, device: u16) -> bool {
    (vendor, device) == (VENDOR_NVIDIA, DEVICE_GB10)
}

/// Whether these numbers are an N1X's.
#[must_use]
pub fn is_n1x_pci(vendor: u16, device: u16) -> bool {
    vendor == VENDOR_NVIDIA && DEVICES_N1X.contains(&device)
}

/// What these numbers say about the platform, if anything.
#[must_use]
pub fn pci_meaning(vendor: u16, device: u16) -> Option<&'static str> {
    if is_gb10_pci(vendor, device) {
        Some("a GB10 GPU")
    } else if is_n1x_pci(vendor, device) {
        Some("an N1X (RTX Spark) GPU, not a GB10")
    } else {
        None
    }
}

/// Whether a driver's device name is a GB10's.
///
/// `GB10` counts as a whole word only, because `GB100`, `GB102`, `GB200` and others
/// exist. NVIDIA's xr-ai also accepts `NVIDIA B10` (its `test_launcher_gpu.py`), here
/// only together with compute capability 12.1.
#[must_use]
pub fn is_gb10_name(name: &str, compute: ComputeCapability) -> bool {
    let has_word = |wanted: &str| {
        name.split(|c: char| !c.is_ascii_alphanumeric())
            .any(|word| word == wanted)
    };
    has_word("GB10") || (has_word("B10") && compute == ComputeCapability::GB10)
}

/// Whether a driver's device name is one of a GPU that works in the machine's memory: GB10, N1X, and
/// the GPUs of Jetson, whose names are those of their chips.
///
/// Full words count only; the names of the Jetson GPUs are those of NVIDIA's `nvgpu` driver and of its
/// CUDA samples (`Orin`, `Xavier`, `NVIDIA Thor`).
#[must_use]
pub fn is_unified_name(name: &str) -> bool {
    name.split(|c: char| !c.is_ascii_alphanumeric())
        .any(|word| ["GB10", "N1X", "Orin", "Xavier", "Thor", "nvgpu"].contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_unified_gpus_are_whole_words() {
        for name in ["NVIDIA GB10", "Orin (nvgpu)", "NVIDIA Thor", "NVIDIA N1X"] {
            assert!(is_unified_name(name), "{name}");
        }
        for name in [
            "NVIDIA GH200 480GB",
            "NVIDIA GB100",
            "NVIDIA GeForce RTX 5090",
            "Authority",
        ] {
            assert!(!is_unified_name(name), "{name}");
        }
    }

    #[test]
    fn only_the_whole_word_is_gb10() {
        let other = ComputeCapability {
            major: 10,
            minor: 0,
        };
        assert!(is_gb10_name("NVIDIA GB10", ComputeCapability::GB10));
        assert!(is_gb10_name("NVIDIA GB10 [Spark]", ComputeCapability::GB10));
        assert!(is_gb10_name("NVIDIA B10", ComputeCapability::GB10));
        assert!(!is_gb10_name("NVIDIA B10", other));
        for name in [
            "NVIDIA GB100",
            "NVIDIA GB102",
            "NVIDIA GB200",
            "NVIDIA GB300",
            "RTX PRO 6000 Blackwell",
            "NVIDIA GB10B",
            "",
        ] {
            assert!(!is_gb10_name(name, ComputeCapability::GB10), "{name}");
        }
    }
}
