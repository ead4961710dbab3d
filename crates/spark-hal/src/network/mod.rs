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

mod addresses;
mod gids;
mod names;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use crate::pci::{self, PciAddress, PciDevice};
use crate::reading::{Failure, Reading, quote};
use crate::root::Root;

use addresses::Addresses;
pub use addresses::Ipv4Network;
pub use gids::{Gid, GidKind};
pub use names::{NameList, NameListError};

/// PCI device number of a ConnectX-7 (canonical/inference-snaps issue #143).
const DEVICE_CONNECTX7: u16 = 0x1021;

/// Locked memory from which on RDMA is taken to have enough; the figure is this crate's choice.
pub(crate) const ENOUGH_LOCKED_BYTES: u64 = 16 << 30;

/// The fast network of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Network {
    /// Every ConnectX-7 function, by PCI address.
    pub functions: Vec<Function>,
    /// The functions that share a QSFP port: indices into `functions`.
    pub ports: Vec<Vec<usize>>,
    /// Memory in bytes that a process may lock, which the soft limit says; `u64::MAX` for unlimited.
    pub memlock_limit_bytes: Reading<u64>,
    /// What a process may raise that to by itself: the hard limit.
    pub memlock_most_bytes: Reading<u64>,
    /// Whether the machine's IPv4 addresses could be read; records that may be published leave them out.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub tells_addresses: bool,
    /// Other interfaces that are in a network of a function, and that network.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub shared_networks: Vec<(String, Ipv4Network)>,
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
    /// IPv4 addresses that this or another interface of the same network holds, where nothing says which.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub possible_addresses: Vec<Ipv4Addr>,
    /// The IPv4 networks that are reached through its interface, without a gateway. Left out like the addresses.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub networks: Vec<Ipv4Network>,
}

impl Network {
    /// Reads the network side of these PCI devices from `/sys` and `/proc/net`.
    #[must_use]
    pub fn read(root: &Root, pci: &[PciDevice]) -> Self {
        let cards: Vec<&PciDevice> = pci.iter().filter(|device| is_connectx7(device)).collect();
        let addresses = if cards.is_empty() {
            Addresses::default()
        } else {
            Addresses::read(root)
        };
        let mut functions: Vec<Function> = cards
            .into_iter()
            .map(|device| function(root, device.clone()))
            .collect();
        give_addresses(root, &mut functions, &addresses);
        let names = functions.iter();
        let names = names.filter_map(|function| function.interface.as_value().map(String::as_str));
        let shared_networks = addresses.shared_with_others(&names.collect());
        Self {
            ports: pair(&functions),
            functions,
            memlock_limit_bytes: memlock_limit(root, 0),
            memlock_most_bytes: memlock_limit(root, 1),
            tells_addresses: addresses.are_known,
            shared_networks,
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

impl Function {
    /// Its interface's name, or its PCI address.
    #[must_use]
    pub fn name(&self) -> String {
        let interface = self.interface.as_value().cloned();
        interface.unwrap_or_else(|| self.pci.address.to_string())
    }

    /// The global identifiers that RDMA over its port may use, those in use of the table alone.
    #[must_use]
    pub fn gids(&self, root: &Root) -> Reading<Vec<Gid>> {
        self.of_rdma_device()
            .and_then(|folder| gids::read(root, &folder))
    }

    /// Version of its firmware, such as `28.45.4028`.
    #[must_use]
    pub fn firmware(&self, root: &Root) -> Reading<String> {
        self.of_rdma_device()
            .and_then(|folder| root.line(&format!("{folder}/fw_ver")))
            .map(|version| quote(&version))
    }

    /// Where its RDMA device is described.
    pub(crate) fn of_rdma_device(&self) -> Reading<String> {
        let device = self.rdma_device.as_ref();
        device.map(|device| format!("{}/infiniband/{device}", self.pci.path()))
    }
}

fn is_connectx7(device: &PciDevice) -> bool {
    (device.vendor, device.device) == (pci::VENDOR_MELLANOX, DEVICE_CONNECTX7)
}

fn function(root: &Root, pci: PciDevice) -> Function {
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
        addresses: Vec::new(),
        possible_addresses: Vec::new(),
        networks: Vec::new(),
        interface,
        rdma_device,
        pci,
    }
}

/// Says which function has which addresses and networks.
fn give_addresses(root: &Root, functions: &mut [Function], addresses: &Addresses) {
    for function in &mut *functions {
        let Reading::Value(name) = &function.interface else {
            continue;
        };
        let of_interface = addresses.by_interface.get(name);
        function.addresses = of_interface.cloned().unwrap_or_default();
        let networks = addresses.networks.get(name);
        function.networks = networks.cloned().unwrap_or_default();
    }
    if addresses.disputed.is_empty() {
        return;
    }
    let tables: Vec<Option<BTreeSet<Ipv4Addr>>> = functions
        .iter()
        .take(MOST_TABLES)
        .map(|function| {
            let gids = function.gids(root).value()?;
            (!gids.is_empty()).then(|| gids.iter().filter_map(Gid::ipv4).collect())
        })
        .collect();
    let number: BTreeMap<String, usize> = functions
        .iter()
        .take(MOST_TABLES)
        .enumerate()
        .filter_map(|(idx, function)| Some((function.interface.as_value()?.clone(), idx)))
        .collect();
    for disputed in &addresses.disputed {
        let rivals = disputed.interfaces.iter();
        let rivals: Vec<usize> = rivals
            .filter_map(|name| number.get(name).copied())
            .collect();
        let holds = |idx: &usize| {
            let table = tables[*idx].as_ref();
            table.is_some_and(|table| table.contains(&disputed.address))
        };
        if let Some(holder) = rivals.iter().copied().find(holds) {
            let own = &mut functions[holder].addresses;
            own.push(IpAddr::V4(disputed.address));
            continue;
        }
        // In a table that was read it would stand, unless no other interface is left to hold it.
        let has_others = rivals.len() < disputed.interfaces.len();
        for idx in rivals {
            if tables[idx].is_none() || !has_others {
                functions[idx].possible_addresses.push(disputed.address);
            }
        }
    }
}

/// More functions than a machine has.
const MOST_TABLES: usize = 64;

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

/// `Max locked memory         8388608              unlimited            bytes`: the soft limit, which is enforced, and the hard one.
fn memlock_limit(root: &Root, which: usize) -> Reading<u64> {
    const PATH: &str = "/proc/self/limits";
    root.text(PATH).and_then(|text| {
        let Some(line) = text
            .lines()
            .find_map(|line| line.strip_prefix("Max locked memory"))
        else {
            return Reading::NotSupported;
        };
        match line.split_whitespace().nth(which) {
            Some("unlimited") => Reading::Value(u64::MAX),
            Some(word) => match word.parse() {
                Ok(bytes) => Reading::Value(bytes),
                Err(_) => Reading::Failed(Failure::malformed(PATH, line, "a limit in bytes")),
            },
            None => Reading::Failed(Failure::malformed(PATH, line, "soft and hard limit")),
        }
    })
}
