//! Addresses of the interfaces, and the networks that they are in.
//!
//! ```text
//! /proc/net/fib_trie   the machine's IPv4 addresses, without their interface
//! /proc/net/route      the IPv4 networks of each interface          both joined: addresses by interface
//! /proc/net/if_inet6   IPv6 addresses by interface
//! ```
//!
//! Where two interfaces are in one network the kernel's files do not say which of them holds an address: it counts
//! for the first.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::reading::quote;
use crate::root::Root;

/// More networks than an interface is in; others are left out.
const MOST_NETWORKS: usize = 64;

/// An IPv4 network, such as `192.168.100.0/24`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ipv4Network {
    /// Its first address.
    pub address: Ipv4Addr,
    /// How many bits all of its addresses share, 1 to 32.
    pub prefix: u8,
}

impl Ipv4Network {
    /// The network of an address; `None` for a prefix that is none.
    #[must_use]
    pub fn of(address: Ipv4Addr, prefix: u8) -> Option<Self> {
        (1..=32).contains(&prefix).then(|| Self {
            address: Ipv4Addr::from(u32::from(address) & prefix_mask(prefix.into())),
            prefix,
        })
    }

    /// Whether an address is in it.
    #[must_use]
    pub fn holds(&self, address: Ipv4Addr) -> bool {
        Self::of(address, self.prefix) == Some(*self)
    }
}

impl fmt::Display for Ipv4Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

/// What is known of the machine's addresses.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    /// Whether the files of IPv4 could be read.
    pub(super) are_known: bool,
    pub(super) by_interface: BTreeMap<String, Vec<IpAddr>>,
    pub(super) networks: BTreeMap<String, Vec<Ipv4Network>>,
}

impl Addresses {
    pub(super) fn read(root: &Root) -> Self {
        let [routes, trie] =
            ["/proc/net/route", "/proc/net/fib_trie"].map(|path| root.text(path).value());
        let are_known = routes.is_some() && trie.is_some();
        let routes = parse_routes(&routes.unwrap_or_default());
        let networks: Networks = first_interfaces(&routes);
        let mut by_interface: BTreeMap<String, Vec<IpAddr>> = BTreeMap::new();
        for address in parse_local_addresses(&trie.unwrap_or_default()) {
            if let Some(interface) = holder(&networks, address) {
                let of_interface = by_interface.entry(interface.to_owned()).or_default();
                of_interface.push(IpAddr::V4(address));
            }
        }
        let inet6 = root.text("/proc/net/if_inet6").value().unwrap_or_default();
        for (interface, address) in parse_inet6(&inet6) {
            by_interface
                .entry(interface)
                .or_default()
                .push(IpAddr::V6(address));
        }
        let mut networks: BTreeMap<String, Vec<Ipv4Network>> = BTreeMap::new();
        for (interface, network) in routes {
            let of_interface = networks.entry(interface).or_default();
            if of_interface.len() < MOST_NETWORKS {
                of_interface.push(network);
            }
        }
        Self {
            are_known,
            by_interface,
            networks,
        }
    }
}

/// Interfaces by prefix length and network.
type Networks = BTreeMap<(u8, Ipv4Addr), String>;

fn first_interfaces(routes: &[(String, Ipv4Network)]) -> Networks {
    let mut networks = Networks::new();
    for (interface, network) in routes {
        networks
            .entry((network.prefix, network.address))
            .or_insert_with(|| interface.clone());
    }
    networks
}

/// `eth0  000200C0  00000000  0001  0 0 0  00FFFFFF ...`: numbers in host byte order of
/// a little-endian machine, gateways and the default route left out.
fn parse_routes(text: &str) -> Vec<(String, Ipv4Network)> {
    let mut networks = Vec::new();
    for line in text.lines().skip(1) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |idx: usize| {
            let digits = words.get(idx)?;
            Some(u32::from_str_radix(digits, 16).ok()?.swap_bytes())
        };
        let (Some(network), Some(0), Some(mask)) = (number(1), number(2), number(7)) else {
            continue;
        };
        let prefix = mask.leading_ones();
        if prefix > 0 && prefix_mask(prefix) == mask {
            let network = Ipv4Network {
                address: Ipv4Addr::from(network),
                prefix: prefix as u8, // 32 at most
            };
            networks.push((quote(words[0]), network));
        }
    }
    networks
}

/// The interface of the narrowest network that holds an address.
fn holder(networks: &Networks, address: Ipv4Addr) -> Option<&str> {
    let holds = |prefix| {
        let network = Ipv4Network::of(address, prefix)?;
        networks.get(&(prefix, network.address))
    };
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
        let networks = first_interfaces(&parse_routes(ROUTES));
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
