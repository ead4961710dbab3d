//! One machine of a cluster, as far as its fast links to the others go.
//!
//! ```text
//! Root, Machine ──> Host { name, rails, other links, netplan, who looked }
//! rail = one ConnectX-7 function: an interface, its RDMA device, its addresses
//! ```

use std::net::{IpAddr, Ipv4Addr};

use crate::machine::Machine;
use crate::network::{Function, Gid};
use crate::reading::{Reading, quote};
use crate::root::Root;

use super::netplan::Netplan;

/// Longest list of interfaces that is looked through.
const MOST_LINKS: usize = 256;
/// More ConnectX-7 functions than a machine has, and more addresses than one of them has: records come from strangers.
const MOST_RAILS: usize = 64;
const MOST_ADDRESSES: usize = 64;

/// A machine of the cluster.
#[derive(Debug, Clone)]
pub struct Host {
    /// What it calls itself, or what it was called by whoever read it.
    pub name: String,
    /// Whether the name is the machine's own word.
    pub(super) names_itself: bool,
    /// The machine as detection sees it.
    pub(super) machine: Machine,
    pub(super) rails: Vec<Rail>,
    /// Other physical links of Ethernet, the management network among them.
    pub(super) other_links: Vec<OtherLink>,
    pub(super) netplan: Reading<Netplan>,
    /// Whether the record was made by root, whose limits are not those of others.
    pub(super) is_of_root: bool,
    /// Whether the PCI devices could be listed.
    pub(super) lists_devices: bool,
}

/// One ConnectX-7 function.
#[derive(Debug, Clone)]
pub(super) struct Rail {
    /// Which QSFP port it belongs to.
    pub(super) port: usize,
    pub(super) function: Function,
    pub(super) gids: Reading<Vec<Gid>>,
    pub(super) firmware: Reading<String>,
}

/// A physical link that is no ConnectX-7.
#[derive(Debug, Clone)]
pub(super) struct OtherLink {
    pub(super) interface: String,
    pub(super) speed_mbps: u64,
}

impl Host {
    /// What a root says of its machine. `name` is for machines that do not name themselves: those of records that may be published.
    #[must_use]
    pub fn read(name: &str, root: &Root, machine: Machine) -> Self {
        let own = root.line("/proc/sys/kernel/hostname").value();
        let own = own.filter(|own| !own.is_empty());
        let network = &machine.network;
        let port_of = |idx| network.ports.iter().position(|port| port.contains(&idx));
        let functions = network.functions.iter().enumerate().take(MOST_RAILS);
        let rails = functions.map(|(idx, function)| Rail {
            port: port_of(idx).unwrap_or_default(),
            function: function.clone(),
            gids: function.gids(root),
            firmware: function.firmware(root),
        });
        Self {
            names_itself: own.is_some(),
            name: own.map_or_else(|| quote(name), |own| quote(&own)),
            rails: rails.collect(),
            other_links: other_links(root, &machine),
            netplan: Netplan::read(root),
            is_of_root: is_of_root(root),
            lists_devices: root.entries("/sys/bus").is_value(),
            machine,
        }
    }

    /// The ports that have a live cable, each with its rails.
    pub(super) fn used_ports(&self) -> Vec<Vec<&Rail>> {
        let ports = 0..self.machine.network.ports.len();
        let of_port = |port| self.rails.iter().filter(move |rail| rail.port == port);
        ports
            .filter(|port| of_port(*port).any(Rail::has_carrier))
            .map(|port| of_port(port).collect())
            .collect()
    }

    /// Whether it is a machine that is sold with a ConnectX-7, and has none.
    pub(super) fn lost_card(&self) -> bool {
        self.lists_devices && self.rails.is_empty() && self.machine.is_dgx_spark()
    }

    /// The rails of those ports.
    pub(super) fn used_rails(&self) -> Vec<&Rail> {
        self.used_ports().into_iter().flatten().collect()
    }

    /// The rail of this interface or RDMA device.
    pub(super) fn rail(&self, name: &str) -> Option<&Rail> {
        self.rails.iter().find(|rail| rail.is_called(name))
    }
}

impl Rail {
    pub(super) fn has_carrier(&self) -> bool {
        self.function.has_carrier == Reading::Value(true)
    }

    pub(super) fn name(&self) -> String {
        self.function.name()
    }

    pub(super) fn is_called(&self, name: &str) -> bool {
        let Function {
            interface,
            rdma_device,
            ..
        } = &self.function;
        [interface, rdma_device]
            .iter()
            .any(|own| own.as_value().is_some_and(|own| own == name))
    }

    /// Addresses that it or another interface in its network has.
    pub(super) fn possible_ipv4(&self) -> &[Ipv4Addr] {
        let all = &self.function.possible_addresses;
        &all[..all.len().min(MOST_ADDRESSES)]
    }

    /// Whether it is in a network of another.
    pub(super) fn shares_network(&self, other: &Self) -> bool {
        let mut of_other = other.function.networks.iter();
        of_other.any(|network| self.function.networks.contains(network))
    }

    pub(super) fn ipv4(&self) -> Vec<Ipv4Addr> {
        let addresses = self.function.addresses.iter();
        let only_v4 = |address: &IpAddr| match address {
            IpAddr::V4(address) => Some(*address),
            IpAddr::V6(_) => None,
        };
        addresses.filter_map(only_v4).take(MOST_ADDRESSES).collect()
    }
}

/// Interfaces with a device of their own and a speed, but for those of ConnectX-7.
fn other_links(root: &Root, machine: &Machine) -> Vec<OtherLink> {
    let names = root.entries("/sys/class/net").value().unwrap_or_default();
    let fast: Vec<String> = machine
        .network
        .functions
        .iter()
        .map(Function::name)
        .collect();
    let links = names
        .into_iter()
        .take(MOST_LINKS)
        .filter(|name| !fast.contains(name));
    links
        .filter_map(|interface| {
            let entry = |leaf: &str| format!("/sys/class/net/{interface}/{leaf}");
            let is_physical = root.line(&entry("device/vendor")).is_value();
            let is_up = root
                .line(&entry("carrier"))
                .value()
                .is_some_and(|word| word == "1");
            let speed_mbps = root.number::<u64>(&entry("speed")).value()?;
            (is_physical && is_up && speed_mbps > 0).then_some(OtherLink {
                interface: quote(&interface),
                speed_mbps,
            })
        })
        .collect()
}

fn is_of_root(root: &Root) -> bool {
    let status = root.text("/proc/self/status").value().unwrap_or_default();
    let user = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    user.is_some_and(|numbers| numbers.split_whitespace().nth(1) == Some("0"))
}
