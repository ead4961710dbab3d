//! PCI addresses and the devices of `/sys/bus/pci/devices`.
//!
//! The domain of an address has up to eight hexadecimal digits: the GPU of a GB10
//! sits at `000f:01:00.0`, which NVML writes as `0000000F:01:00.0`
//! (lablup/all-smi issue #147). Devices are found on Linux only.

use std::fmt;
use std::str::FromStr;

use crate::reading::{Failure, Reading, quote};
use crate::root::Root;

/// NVIDIA's PCI vendor number (pci.ids).
pub const VENDOR_NVIDIA: u16 = 0x10de;
/// Mellanox's PCI vendor number, used by NVIDIA's ConnectX cards (pci.ids).
pub const VENDOR_MELLANOX: u16 = 0x15b3;

/// Where a device sits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PciAddress {
    /// PCI domain, also called segment; 0 on most machines.
    pub domain: u32,
    /// Number of the bus within the domain.
    pub bus: u8,
    /// Device, 0 to 31.
    pub device: u8,
    /// Function, 0 to 7.
    pub function: u8,
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            domain,
            bus,
            device,
            function,
        } = self;
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}.{function:x}")
    }
}

impl FromStr for PciAddress {
    type Err = Failure;

    /// Accepts `domain:bus:device.function`; the domain may have 1 to 8 digits or be absent.
    fn from_str(text: &str) -> Result<Self, Failure> {
        parse_address(text.trim()).ok_or_else(|| {
            Failure::malformed(
                "PCI address",
                text,
                "domain:bus:device.function in hexadecimal",
            )
        })
    }
}

fn parse_address(text: &str) -> Option<PciAddress> {
    let (path, function) = text.rsplit_once('.')?;
    let mut fields = path.rsplit(':');
    let (device, bus) = (fields.next()?, fields.next()?);
    let domain = fields.next().unwrap_or("0");
    if fields.next().is_some() {
        return None;
    }
    let field = |digits: &str, longest: usize| {
        let plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let fits = plain && (1..=longest).contains(&digits.len());
        fits.then(|| u32::from_str_radix(digits, 16).ok())?
    };
    Some(PciAddress {
        domain: field(domain, 8)?,
        bus: u8::try_from(field(bus, 2)?).ok()?,
        device: u8::try_from(field(device, 2)?)
            .ok()
            .filter(|device| *device < 32)?,
        function: u8::try_from(field(function, 1)?)
            .ok()
            .filter(|function| *function < 8)?,
    })
}

#[cfg(feature = "serde")]
impl serde::Serialize for PciAddress {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// One PCI function, as `/sys/bus/pci/devices` describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct PciDevice {
    /// Domain, bus, device and function.
    pub address: PciAddress,
    /// Vendor number of pci.ids, such as 0x10de for NVIDIA.
    pub vendor: u16,
    /// Device number, which the vendor gives.
    pub device: u16,
    /// Class code: base class, subclass, programming interface in the low three bytes.
    pub class: u32,
    /// The kernel driver bound to it.
    pub driver: Reading<String>,
    /// Link speed as the kernel words it, such as `32.0 GT/s PCIe`.
    pub link_speed: Reading<String>,
    /// Link width in lanes.
    pub link_width: Reading<u8>,
}

impl PciDevice {
    /// Whether it is a VGA (03.00) or 3D (03.02) controller.
    #[must_use]
    pub fn is_display(&self) -> bool {
        matches!(self.class >> 8, 0x0300 | 0x0302)
    }

    /// `vendor:device`, as `lspci -n` writes it.
    #[must_use]
    pub fn id(&self) -> String {
        format!("{:04x}:{:04x}", self.vendor, self.device)
    }

    /// Its sysfs directory, below `/sys/bus/pci/devices`.
    #[must_use]
    pub fn path(&self) -> String {
        format!("{DEVICES}/{}", self.address)
    }
}

const DEVICES: &str = "/sys/bus/pci/devices";

/// The devices of one vendor out of `wanted`; entries that cannot be read are left out.
///
/// # Errors
///
/// [`Reading::NotSupported`] without PCI; [`Reading::Failed`] if the directory is closed.
#[must_use]
pub fn devices(root: &Root, wanted: &[u16]) -> Reading<Vec<PciDevice>> {
    root.entries(DEVICES).map(|names| {
        names
            .iter()
            .filter_map(|name| device(root, name, wanted))
            .collect()
    })
}

fn device(root: &Root, name: &str, wanted: &[u16]) -> Option<PciDevice> {
    let address: PciAddress = name.parse().ok()?;
    let entry = |leaf: &str| format!("{DEVICES}/{name}/{leaf}");
    let number16 = |leaf: &str| u16::try_from(root.hexadecimal(&entry(leaf)).value()?).ok();
    let vendor = number16("vendor").filter(|vendor| wanted.contains(vendor))?;
    let found = PciDevice {
        address,
        vendor,
        device: number16("device")?,
        class: u32::try_from(root.hexadecimal(&entry("class")).value()?).ok()?,
        driver: root.link_name(&entry("driver")),
        link_speed: root
            .line(&entry("current_link_speed"))
            .map(|speed| quote(&speed)),
        link_width: root.number(&entry("current_link_width")),
    };
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_and_short_domains_are_the_same_address() {
        let spark: PciAddress = "000f:01:00.0".parse().unwrap();
        assert_eq!("0000000F:01:00.0".parse(), Ok(spark));
        assert_eq!(spark.to_string(), "000f:01:00.0");
        assert_eq!(spark.domain, 15);
        let wide: PciAddress = "ffff0001:a0:1f.7".parse().unwrap();
        assert_eq!(wide.to_string(), "ffff0001:a0:1f.7");
        assert_eq!("65:00.0".parse::<PciAddress>().unwrap().domain, 0);
    }

    #[test]
    fn other_text_is_no_address() {
        for text in [
            "",
            ":",
            "1.2",
            "0000:01:00",
            "123456789:01:00.0",
            "0000:1ff:00.0",
            "0:0:20.0",
            "0:0:0.8",
            "0:0:0:0.0",
            "+1:00:00.0",
            "é:00:00.0",
        ] {
            assert!(text.parse::<PciAddress>().is_err(), "{text}");
        }
    }
}
