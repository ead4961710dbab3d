//! What was seen, where, and what it proves.

use std::fmt;

/// A kind of observation that says something about the platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Signal {
    /// DMI `product_family` of the firmware.
    DmiFamily,
    /// Another DMI string (vendor, product, board).
    DmiName,
    /// A PCI vendor and device number.
    PciDevice,
    /// Number of the chip in `/sys/devices/soc0/soc_id`.
    SocId,
    /// What DGX OS writes into `/etc/dgx-release`.
    DgxRelease,
    /// Name and compute capability from NVML.
    Nvml,
    /// Name and compute capability from the CUDA driver.
    Cuda,
    /// The kinds of CPU cores.
    CpuCores,
    /// The device tree's model (comma devices, Jetson).
    DeviceTree,
    /// A file that a vendor's system image carries.
    MarkerFile,
}

/// One observation that speaks for a kind of machine.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Evidence {
    /// What kind of observation.
    pub signal: Signal,
    /// The file or call.
    pub source: String,
    /// What was read there or answered.
    pub said: String,
    /// What follows from it.
    pub proves: &'static str,
    /// Whether it is enough by itself; otherwise it only supports.
    pub decides: bool,
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            source,
            said,
            proves,
            decides,
            ..
        } = self;
        let weight = if *decides { "" } else { " (supports only)" };
        write!(f, "{source} = `{said}`: {proves}{weight}")
    }
}
