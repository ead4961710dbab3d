//! Addresses of the interfaces, and the networks that they are in.
//!
//! ```text
//! /proc/net/fib_trie   the machine's IPv4 addresses, without their interface
//! /proc/net/route      the IPv4 networks of each interface          both joined: addresses by interface
//! /proc/net/if_inet6   IPv6 addresses by interface
//! ```
//!
//! Where two interfaces are in one network these files do not say which of them holds an address. The table of an RDMA device has an entry
//! for every address of its interface, and settles it; where no table can be read, either interface may hold it, which is said.

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
    /// Addresses that one of several interfaces holds.
    pub(super) disputed: Vec<Disputed>,
}

/// An address of which the network does not say who holds it.
#[derive(Debug)]
pub(super) struct Disputed {
    pub(super) address: Ipv4Addr,
    /// The interfaces in its network.
    pub(super) interfaces: Vec<String>,
}

impl Addresses {
    pub(super) fn read(root: &Root) -> Self {
        let [routes, trie] =
            ["/proc/net/route", "/proc/net/fib_trie"].map(|path| root.text(path).value());
        let mut read = Self {
            are_known: routes.is_some() && trie.is_some(),
            ..Self::default()
        };
        let routes = parse_routes(&routes.unwrap_or_default());
        let networks = interfaces_by_network(&routes);
        for address in parse_local_addresses(&trie.unwrap_or_default()) {
            match holders(&networks, address) {
                [] => {}
                [interface] => read.add(interface, IpAddr::V4(address)),
                several => read.disputed.push(Disputed {
                    address,
                    interfaces: several.to_vec(),
                }),
            }
        }
        let inet6 = root.text("/proc/net/if_inet6").value().unwrap_or_default();
        for (interface, address) in parse_inet6(&inet6) {
            read.add(&interface, IpAddr::V6(address));
        }
        for (interface, network) in routes {
            let of_interface = read.networks.entry(interface).or_default();
            if of_interface.len() < MOST_NETWORKS {
                of_interface.push(network);
            }
        }
        read
    }

    fn add(&mut self, interface: &str, address: IpAddr) {
        let of_interface = self.by_interface.entry(interface.to_owned()).or_default();
        of_interface.push(address);
    }

    /// Other interfaces than these in networks of these.
    pub(super) fn shared_with_others(&self, own: &BTreeSet<&str>) -> Vec<(String, Ipv4Network)> {
        let of_own = own.iter().filter_map(|name| self.networks.get(*name));
        let of_own: BTreeSet<Ipv4Network> = of_own.flatten().copied().collect();
        let others = self.networks.iter();
        let others = others.filter(|(interface, _)| !own.contains(interface.as_str()));
        let shared = others.flat_map(|(interface, networks)| {
            let shared = networks.iter().filter(|network| of_own.contains(network));
            shared.map(|network| (interface.clone(), *network))
        });
        shared.take(MOST_NETWORKS).collect()
    }
}

/// Interfaces by prefix length and network.
type Networks = BTreeMap<(u8, Ipv4Addr), Vec<String>>;

fn interfaces_by_network(routes: &[(String, Ipv4Network)]) -> Networks {
    let mut networks = Networks::new();
    for (interface, network) in routes {
        let key = (network.prefix, network.address);
        let interfaces = networks.entry(key).or_default();
        if interfaces.len() < MOST_NETWORKS && !interfaces.contains(interface) {
            interfaces.push(interface.clone());
        }
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

/// The interfaces of the narrowest network that holds an address.
fn holders(networks: &Networks, address: Ipv4Addr) -> &[String] {
    let holds = |prefix| {
        let network = Ipv4Network::of(address, prefix)?;
        networks.get(&(prefix, network.address))
    };
    let narrowest = (1..=32).rev().find_map(holds);
    narrowest.map(Vec::as_slice).unwrap_or_default()
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
        let networks = interfaces_by_network(&parse_routes(ROUTES));
        assert_eq!(networks.len(), 1);
        assert_eq!(holders(&networks, Ipv4Addr::new(192, 0, 2, 2)), ["eth0"]);
        assert!(holders(&networks, Ipv4Addr::new(192, 0, 3, 2)).is_empty());
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
