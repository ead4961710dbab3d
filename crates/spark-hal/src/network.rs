//! The ports that join two or more DGX Sparks: ConnectX-7 functions and their pairs.
//!
//! ```text
//! one QSFP port = two 100 Gb/s functions on two PCIe links
//! port 0   enp1s0f0np0 + enP2p1s0f0np0     rocep1s0f0 + roceP2p1s0f0
//! port 1   enp1s0f1np1 + enP2p1s0f1np1     rocep1s0f1 + roceP2p1s0f1
//! ```
//!
//! Both functions of a port need an address, each in a network of its own, to reach
//! 200 Gb/s (NVIDIA/dgx-spark-playbooks `connect-two-sparks`, graham33/nixos-dgx-spark).
//! Functions are paired by their PCI device and function number on different domains;
//! names are read from sysfs and never guessed. Linux only.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::pci::{self, PciAddress, PciDevice};
use crate::reading::{Failure, Reading, quote};
use crate::root::Root;

/// PCI device number of a ConnectX-7 (canonical/inference-snaps issue #143).
const DEVICE_CONNECTX7: u16 = 0x1021;

/// The fast network of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Network {
    /// Every ConnectX-7 function, by PCI address.
    pub functions: Vec<Function>,
    /// The functions that share a QSFP port: indices into `functions`.
    pub ports: Vec<Vec<usize>>,
    /// Hard limit of locked memory in bytes; `u64::MAX` for unlimited.
    pub memlock_limit_bytes: Reading<u64>,
}

/// One network function of a ConnectX-7 card.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Function {
    /// Its PCI function, with link speed and width.
    pub pci: PciDevice,
    /// Network interface, such as `enp1s0f0np0`.
    pub interface: Reading<String>,
    /// RDMA device, such as `rocep1s0f0`.
    pub rdma_device: Reading<String>,
    /// Whether a cable with a live partner is plugged in.
    pub has_carrier: Reading<bool>,
    /// Link rate in Mb/s.
    pub speed_mbps: Reading<u64>,
    /// Largest packet in bytes.
    pub mtu: Reading<u32>,
    /// Its addresses. Left out of serialised forms: reports get published.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub addresses: Vec<IpAddr>,
}

impl Network {
    /// Reads the network side of these PCI devices from `/sys` and `/proc/net`.
    #[must_use]
    pub fn read(root: &Root, pci: &[PciDevice]) -> Self {
        let cards: Vec<&PciDevice> = pci.iter().filter(|device| is_connectx7(device)).collect();
        let addresses = if cards.is_empty() {
            BTreeMap::new()
        } else {
            addresses(root)
        };
        let functions: Vec<Function> = cards
            .into_iter()
            .map(|device| function(root, device.clone(), &addresses))
            .collect();
        Self {
            ports: pair(&functions),
            functions,
            memlock_limit_bytes: memlock_limit(root),
        }
    }

    /// The RDMA devices of one port, for `NCCL_IB_HCA`.
    #[must_use]
    pub fn rdma_devices(&self, port: usize) -> Vec<&str> {
        let members = self.ports.get(port).map(Vec::as_slice).unwrap_or_default();
        members
            .iter()
            .filter_map(|idx| {
                self.functions[*idx]
                    .rdma_device
                    .as_value()
                    .map(String::as_str)
            })
            .collect()
    }
}

fn is_connectx7(device: &PciDevice) -> bool {
    (device.vendor, device.device) == (pci::VENDOR_MELLANOX, DEVICE_CONNECTX7)
}

fn function(root: &Root, pci: PciDevice, addresses: &BTreeMap<String, Vec<IpAddr>>) -> Function {
    let only = |kind: &str| {
        root.entries(&format!("{}/{kind}", pci.path()))
            .and_then(|names| match names.into_iter().next() {
                Some(name) => Reading::Value(quote(&name)),
                None => Reading::NotSupported,
            })
    };
    let interface = only("net");
    let rdma_device = only("infiniband");
    let entry = |leaf: &str| {
        let interface = interface.as_value()?;
        Some(format!("/sys/class/net/{interface}/{leaf}"))
    };
    let carrier = entry("carrier").map_or(Reading::NotSupported, |path| root.line(&path));
    Function {
        has_carrier: match carrier {
            Reading::Value(text) => Reading::Value(text == "1"),
            // The kernel answers EINVAL while the interface is down.
            Reading::Failed(_) => Reading::Value(false),
            Reading::NotSupported => Reading::NotSupported,
        },
        // -1 (no link) is no number in range and becomes "not supported".
        speed_mbps: match entry("speed").map(|path| root.number::<i64>(&path)) {
            Some(Reading::Value(speed)) => match u64::try_from(speed) {
                Ok(speed) => Reading::Value(speed),
                Err(_) => Reading::NotSupported,
            },
            _ => Reading::NotSupported,
        },
        mtu: entry("mtu").map_or(Reading::NotSupported, |path| root.number(&path)),
        addresses: interface
            .as_value()
            .and_then(|name| addresses.get(name).cloned())
            .unwrap_or_default(),
        interface,
        rdma_device,
        pci,
    }
}

/// Functions with the same device and function number on different PCI domains or buses.
fn pair(functions: &[Function]) -> Vec<Vec<usize>> {
    let mut ports: BTreeMap<(u8, u8), Vec<usize>> = BTreeMap::new();
    for (idx, function) in functions.iter().enumerate() {
        let PciAddress {
            device, function, ..
        } = function.pci.address;
        ports.entry((device, function)).or_default().push(idx);
    }
    ports.into_values().collect()
}

/// `Max locked memory         8388608              unlimited            bytes`
fn memlock_limit(root: &Root) -> Reading<u64> {
    const PATH: &str = "/proc/self/limits";
    root.text(PATH).and_then(|text| {
        let Some(line) = text
            .lines()
            .find_map(|line| line.strip_prefix("Max locked memory"))
        else {
            return Reading::NotSupported;
        };
        match line.split_whitespace().nth(1) {
            Some("unlimited") => Reading::Value(u64::MAX),
            Some(word) => match word.parse() {
                Ok(bytes) => Reading::Value(bytes),
                Err(_) => Reading::Failed(Failure::malformed(PATH, line, "a limit in bytes")),
            },
            None => Reading::Failed(Failure::malformed(PATH, line, "soft and hard limit")),
        }
    })
}

/// The machine's addresses by interface.
///
/// IPv4 addresses are in `fib_trie` without their interface and the networks of each
/// interface in `route`; the two are joined here. IPv6: `if_inet6`.
fn addresses(root: &Root) -> BTreeMap<String, Vec<IpAddr>> {
    let text = |path: &str| root.text(path).value().unwrap_or_default();
    let mut found: BTreeMap<String, Vec<IpAddr>> = BTreeMap::new();
    let networks = parse_routes(&text("/proc/net/route"));
    for address in parse_local_addresses(&text("/proc/net/fib_trie")) {
        if let Some(interface) = holder(&networks, address) {
            found
                .entry(interface.to_owned())
                .or_default()
                .push(IpAddr::V4(address));
        }
    }
    for (interface, address) in parse_inet6(&text("/proc/net/if_inet6")) {
        found
            .entry(interface)
            .or_default()
            .push(IpAddr::V6(address));
    }
    found
}

/// Interfaces by prefix length and network.
type Networks = BTreeMap<(u32, u32), String>;

/// `eth0  000200C0  00000000  0001  0 0 0  00FFFFFF ...`: numbers in host byte order of
/// a little-endian machine, gateways and the default route left out.
fn parse_routes(text: &str) -> Networks {
    let mut networks = Networks::new();
    for line in text.lines().skip(1) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |idx: usize| {
            let digits = words.get(idx)?;
            Some(u32::from_str_radix(digits, 16).ok()?.swap_bytes())
        };
        let (Some(network), Some(0), Some(mask)) = (number(1), number(2), number(7)) else {
            continue;
        };
        let length = mask.leading_ones();
        if length > 0 && prefix_mask(length) == mask {
            let interface = || quote(words[0]);
            networks.entry((length, network)).or_insert_with(interface);
        }
    }
    networks
}

/// The interface of the narrowest network that holds an address.
fn holder(networks: &Networks, address: Ipv4Addr) -> Option<&str> {
    let holds = |length| networks.get(&(length, u32::from(address) & prefix_mask(length)));
    (1..=32).rev().find_map(holds).map(String::as_str)
}

/// `length`, from 1 to 32, ones followed by zeros.
fn prefix_mask(length: u32) -> u32 {
    u32::MAX << (32 - length)
}

/// Lines `|-- 192.0.2.2` that are followed by `/32 host LOCAL`.
fn parse_local_addresses(text: &str) -> BTreeSet<Ipv4Addr> {
    let mut last = None;
    let mut found = BTreeSet::new();
    for line in text.lines().map(str::trim) {
        if let Some(word) = line.strip_prefix("|-- ") {
            last = word.parse::<Ipv4Addr>().ok();
        } else if line == "/32 host LOCAL" {
            found.extend(last.filter(|address| !address.is_loopback()));
        }
    }
    found
}

/// `fe800000000000000000000000000001 02 40 20 80 eth0`
fn parse_inet6(text: &str) -> Vec<(String, Ipv6Addr)> {
    let entry = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let digits = words.first().filter(|digits| digits.len() == 32)?;
        let address = Ipv6Addr::from(u128::from_str_radix(digits, 16).ok()?);
        Some((quote(words.get(5)?), address))
    };
    text.lines().filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTES: &str = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n\
        eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\n\
        eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\n";

    #[test]
    fn addresses_find_their_interface() {
        let networks = parse_routes(ROUTES);
        assert_eq!(networks.len(), 1);
        assert_eq!(holder(&networks, Ipv4Addr::new(192, 0, 2, 2)), Some("eth0"));
        assert_eq!(holder(&networks, Ipv4Addr::new(192, 0, 3, 2)), None);
        let trie = "Main:\n  |-- 192.0.2.0\n     /24 link UNICAST\n  |-- 192.0.2.2\n     /32 host LOCAL\n  |-- 127.0.0.1\n /32 host LOCAL\n";
        let local: Vec<_> = parse_local_addresses(trie).into_iter().collect();
        assert_eq!(local, [Ipv4Addr::new(192, 0, 2, 2)]);
        let inet6 =
            "fe800000000000000000000000000001 02 40 20 80     eth0\nshort 02 40 20 80 eth0\n";
        assert_eq!(
            parse_inet6(inet6),
            [("eth0".to_owned(), "fe80::1".parse().unwrap())]
        );
    }
}
