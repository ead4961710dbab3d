//! One interface of netplan: whose it is, and what it declares.
//!
//! ```text
//! enp1s0f0np0: {mtu: 9000}                             by its name
//! fast: {match: {name: "enp*"}, mtu: 9000}             by a pattern: `*` and `?`
//! lan: {match: {macaddress: …}, set-name: enP7s7}      by its hardware address: whose that is, is not known, but for the name that it is given
//! any: {match: {driver: r8127}}                        by its driver: no ConnectX-7's but for `mlx5*`
//! ```
//!
//! Source: netplan's YAML reference, "Properties for physical device types". Addresses of IPv6 are passed over.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::network::Ipv4Network;

use super::yaml::{Entry, Node, Refused};

/// More addresses than any interface has.
const MOST_ADDRESSES: usize = 256;
/// In records: the line and the key of the machine's own files that are not understood.
pub(super) const REFUSED: &str = "not-understood";
/// The kernel's driver of ConnectX cards.
const DRIVER: &str = "mlx5_core";

/// A line of netplan that is not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}{} is not understood: {wanted}", in_words(key))]
pub struct NetplanError {
    /// Line of the text, from 1.
    pub line: usize,
    /// The key that it is about; empty where none is known.
    pub key: String,
    /// What may stand there.
    pub wanted: &'static str,
}

/// ` (`mtu`)`, of a key that is known.
pub(super) fn in_words(key: &str) -> String {
    match key {
        "" => String::new(),
        key => format!(" (`{key}`)"),
    }
}

impl From<Refused> for NetplanError {
    fn from(refused: Refused) -> Self {
        Self {
            line: refused.line,
            key: String::new(),
            wanted: refused.wanted,
        }
    }
}

/// What is declared of one interface.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in super::super) struct Declared {
    /// IPv4 addresses with the lengths of their networks' prefixes.
    pub(in super::super) addresses: Vec<(Ipv4Addr, u8)>,
    pub(in super::super) takes_dhcp: bool,
    /// Whether it takes an IPv4 address of 169.254.0.0/16.
    pub(in super::super) takes_link_local: bool,
    pub(in super::super) mtu: Option<u32>,
}

/// One entry of `ethernets`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stanza {
    pub(super) line: usize,
    /// Patterns of names, all of which fit.
    names: Vec<String>,
    declared: Result<Declared, NetplanError>,
}

impl Stanza {
    pub(super) fn of(id: &str, line: usize, value: Result<Node, Refused>) -> Self {
        let named = |declared| Self {
            line,
            names: vec![id.to_owned()],
            declared,
        };
        let entries = match value {
            Ok(Node::Map(entries)) => entries,
            Ok(Node::Nothing) => return named(Ok(Declared::default())),
            Ok(_) => return named(Err(refused(line, "", "keys with values"))),
            Err(why) => return named(Err(why.into())),
        };
        let mut matched = entries.iter().filter(|entry| entry.key == "match");
        match matched.next_back() {
            None => named(declared(&entries)),
            Some(matched) => {
                let own_name = entries.iter().find(|entry| entry.key == "set-name");
                let own_name = own_name.and_then(|entry| text(&entry.value));
                let mut stanza = Self {
                    line,
                    names: own_name.into_iter().map(str::to_owned).collect(),
                    declared: declared(&entries),
                };
                if let Err(why) = stanza.take_match(matched) {
                    stanza.declared = Err(why);
                }
                stanza
            }
        }
    }

    /// Any interface's, as far as can be told: keys that cannot be read may be a `match`.
    pub(super) fn of_anyone(mut self) -> Self {
        self.names.clear();
        self
    }

    /// What `match` says; an error where it may be of a ConnectX-7 and is not understood.
    fn take_match(&mut self, matched: &Entry) -> Result<(), NetplanError> {
        let not_understood = |key: &str| {
            refused(
                matched.line,
                key,
                "`match` by names, of ConnectX-7 interfaces",
            )
        };
        let entries = match &matched.value {
            Node::Map(entries) => entries.as_slice(),
            Node::Nothing => &[],
            _ => return Err(not_understood("match")),
        };
        let mut unknown = None;
        for entry in entries {
            match entry.key.as_str() {
                "name" => match text(&entry.value) {
                    Some(name) => self.names.push(name.to_owned()),
                    None => unknown = Some("name"),
                },
                "driver" => match texts(&entry.value) {
                    Some(drivers) if drivers.iter().all(|driver| !fits(driver, DRIVER)) => {
                        // No name of an interface is empty.
                        self.names.push(String::new());
                    }
                    Some(_) => {}
                    None => unknown = Some("driver"),
                },
                "macaddress" => unknown = Some("macaddress"),
                _ => unknown = Some("match"),
            }
        }
        match unknown {
            Some(key) => Err(not_understood(key)),
            None => Ok(()),
        }
    }

    pub(super) fn may_be_of(&self, interface: &str) -> bool {
        self.names.iter().all(|name| fits(name, interface))
    }

    pub(super) fn declared(&self) -> Result<&Declared, &NetplanError> {
        self.declared.as_ref()
    }
}

impl Declared {
    /// Whether an address is declared.
    pub(in super::super) fn keeps(&self, address: Ipv4Addr) -> bool {
        self.addresses.iter().any(|(kept, _)| *kept == address)
    }

    /// With what another stanza declares of the same interface; a later one's MTU counts.
    pub(super) fn add(&mut self, other: &Self) {
        self.addresses.extend(&other.addresses);
        self.addresses.truncate(MOST_ADDRESSES);
        self.takes_dhcp |= other.takes_dhcp;
        self.takes_link_local |= other.takes_link_local;
        self.mtu = other.mtu.or(self.mtu);
    }

    /// Its lines, as netplan would have them.
    pub(super) fn write(&self, mut line: impl FnMut(String)) {
        line(format!("      dhcp4: {}", self.takes_dhcp));
        if self.takes_link_local {
            line("      link-local: [ipv4]".to_owned());
        }
        if let Some(mtu) = self.mtu {
            line(format!("      mtu: {mtu}"));
        }
        if !self.addresses.is_empty() {
            line("      addresses:".to_owned());
        }
        for (address, prefix) in &self.addresses {
            line(format!("        - {address}/{prefix}"));
        }
    }
}

/// What the keys of an interface declare; those that say nothing of addresses are passed over.
fn declared(entries: &[Entry]) -> Result<Declared, NetplanError> {
    let mut declared = Declared::default();
    for entry in entries {
        let no = |wanted| Err(refused(entry.line, &entry.key, wanted));
        match (entry.key.as_str(), &entry.value) {
            ("addresses", Node::List(items)) => {
                for item in items {
                    match address(&item.value) {
                        Some(Address::V4(address, prefix)) => {
                            declared.addresses.push((address, prefix));
                        }
                        Some(Address::V6) => {}
                        None => {
                            return Err(refused(
                                item.line,
                                &entry.key,
                                "addresses with the lengths of their prefixes",
                            ));
                        }
                    }
                }
                if declared.addresses.len() > MOST_ADDRESSES {
                    return no("at most 256 addresses of an interface");
                }
            }
            ("link-local", Node::List(_)) => match texts(&entry.value) {
                Some(kinds) => declared.takes_link_local = kinds.contains(&"ipv4"),
                None => return no("a list of ipv4 and ipv6"),
            },
            ("addresses" | "link-local", Node::Nothing) => {}
            ("addresses" | "link-local", _) => return no("a list"),
            ("dhcp4", value) => match text(value).and_then(is_true) {
                Some(takes) => declared.takes_dhcp = takes,
                None => return no("true or false"),
            },
            ("mtu", value) => match text(value).and_then(|mtu| mtu.parse().ok()) {
                Some(mtu) => declared.mtu = Some(mtu),
                None => return no("a number of bytes"),
            },
            ("<<", _) => return no("what is said of an interface in its own lines"),
            (REFUSED, value) => {
                let (line, key) = text(value)
                    .map(|value| value.split_once(' ').unwrap_or((value, "")))
                    .unwrap_or_default();
                let line = line.parse().unwrap_or(entry.line);
                return Err(refused(line, key, "what is understood"));
            }
            _ => {}
        }
    }
    Ok(declared)
}

/// Keys that are said; others may be anything that was meant for somebody else.
const KEYS: [&str; 9] = [
    "<<",
    "addresses",
    "dhcp4",
    "driver",
    "link-local",
    "macaddress",
    "match",
    "mtu",
    "name",
];

fn refused(line: usize, key: &str, wanted: &'static str) -> NetplanError {
    let is_known = KEYS.contains(&key);
    NetplanError {
        line,
        key: if is_known {
            key.to_owned()
        } else {
            String::new()
        },
        wanted,
    }
}

enum Address {
    V4(Ipv4Addr, u8),
    V6,
}

/// `192.168.100.10/24`, or a map of it alone to what follows it.
fn address(item: &Node) -> Option<Address> {
    let text = match item {
        Node::Text(text) => text,
        Node::Map(entries) => match entries.as_slice() {
            [entry] => &entry.key,
            _ => return None,
        },
        _ => return None,
    };
    let (address, prefix) = text.trim().split_once('/')?;
    let prefix = prefix.parse().ok()?;
    if address.parse::<Ipv6Addr>().is_ok() {
        return (prefix <= 128).then_some(Address::V6);
    }
    let address = address.parse().ok()?;
    Ipv4Network::of(address, prefix).map(|_| Address::V4(address, prefix))
}

fn text(value: &Node) -> Option<&str> {
    match value {
        Node::Text(text) => Some(text),
        _ => None,
    }
}

/// One text, or a list of them.
fn texts(value: &Node) -> Option<Vec<&str>> {
    match value {
        Node::List(items) => items.iter().map(|item| text(&item.value)).collect(),
        other => text(other).map(|text| vec![text]),
    }
}

fn is_true(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "y" => Some(true),
        "false" | "no" | "off" | "n" => Some(false),
        _ => None,
    }
}

/// Whether a name is of a pattern of `*` and `?`; those with brackets are taken for everything.
fn fits(pattern: &str, name: &str) -> bool {
    if pattern.contains('[') {
        return true;
    }
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut of_name) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while of_name < name.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, of_name));
                at += 1;
            }
            Some(c) if *c == '?' || *c == name[of_name] => {
                at += 1;
                of_name += 1;
            }
            _ => match &mut star {
                Some((back, tried)) => {
                    *tried += 1;
                    at = *back + 1;
                    of_name = *tried;
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|c| *c == '*')
}
