//! What netplan says of interfaces: which addresses they have after the next start of the machine.
//!
//! ```text
//! network:                                  /etc/netplan/*.yaml, which root alone may read
//!   version: 2
//!   ethernets:
//!     enp1s0f0np0:
//!       addresses: [192.168.100.10/24]      Declared { addresses, takes_dhcp, takes_link_local, mtu }
//!       mtu: 9000
//! ```
//!
//! Not YAML as a whole: keys and lists in lines, and lists of one line, which is how netplan's own documentation and NVIDIA's playbooks
//! write it. What stands elsewhere (Wi-Fi with its passwords) is passed over and not kept. Maps of one line, and interfaces that are found by
//! `match`, are refused below `ethernets`, rather than taken for something else.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::Ipv4Addr;

use crate::network::Ipv4Network;
use crate::reading::{Failure, Reading, quote};
use crate::root::Root;

const FOLDER: &str = "/etc/netplan";
/// More files than anybody has, and more addresses than any interface.
const MOST_FILES: usize = 64;
const MOST_ADDRESSES: usize = 256;
const FEWER: &str = "at most 256 addresses of an interface";

/// What netplan declares, by interface.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Netplan {
    pub(super) interfaces: BTreeMap<String, Declared>,
}

/// What is declared of one interface.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Declared {
    /// IPv4 addresses with the lengths of their networks' prefixes.
    pub(super) addresses: Vec<(Ipv4Addr, u8)>,
    pub(super) takes_dhcp: bool,
    /// Whether it takes an IPv4 address of 169.254.0.0/16.
    pub(super) takes_link_local: bool,
    pub(super) mtu: Option<u32>,
}

/// A line of netplan that is not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: `{text}` is not understood: {wanted}")]
pub struct NetplanError {
    /// Line of the text, from 1.
    pub line: usize,
    /// What stands there, shortened.
    pub text: String,
    /// What may stand there.
    pub wanted: &'static str,
}

impl Netplan {
    /// Reads one file, or several one after the other.
    ///
    /// # Errors
    ///
    /// [`NetplanError`], where something stands below `ethernets` that this reader does not know.
    pub fn parse(text: &str) -> Result<Self, NetplanError> {
        let mut netplan = Self::default();
        let mut above: Vec<(usize, String)> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let refused = |wanted| NetplanError {
                line: index + 1,
                text: quote(line.trim()),
                wanted,
            };
            let content = without_comment(line).trim_end();
            let bare = content.trim_start();
            if bare.is_empty() || bare == "---" {
                continue;
            }
            let indent = content.len() - bare.len();
            let item = bare.strip_prefix("- ").or((bare == "-").then_some(""));
            above.retain(|(of, _)| *of < indent || (*of == indent && item.is_some()));
            let path: Vec<&str> = above.iter().map(|(_, key)| key.as_str()).collect();
            if let Some(item) = item {
                if let ["network", "ethernets", interface, "addresses"] = path[..] {
                    let declared = netplan.declared(interface);
                    declared.addresses.extend(address(item));
                    if declared.addresses.len() > MOST_ADDRESSES {
                        return Err(refused(FEWER));
                    }
                }
                continue;
            }
            let Some((key, value)) = key_and_value(bare) else {
                if path.starts_with(&["network", "ethernets"]) {
                    return Err(refused("a key or an item of a list"));
                }
                continue;
            };
            if content.starts_with('\t') {
                return Err(refused("spaces before it"));
            }
            match path[..] {
                ["network"] if key == "ethernets" && !value.is_empty() => {
                    return Err(refused("interfaces in lines of their own"));
                }
                ["network", "ethernets"] => {
                    if !value.is_empty() {
                        return Err(refused("what is said of it in lines of their own"));
                    }
                    netplan.declared(&key);
                }
                ["network", "ethernets", interface] => {
                    if key == "match" {
                        return Err(refused("interfaces by their names"));
                    }
                    let declared = netplan.declared(interface);
                    declare(declared, &key, value).map_err(refused)?;
                }
                _ => {}
            }
            above.push((indent, key));
        }
        Ok(netplan)
    }

    fn declared(&mut self, interface: &str) -> &mut Declared {
        self.interfaces.entry(interface.to_owned()).or_default()
    }

    /// Reads all files of a machine; [`Reading::NotSupported`] where there is none.
    #[must_use]
    pub fn read(root: &Root) -> Reading<Self> {
        let names = root.entries_where(FOLDER, |name| name.ends_with(".yaml"));
        names.and_then(|names| {
            if names.is_empty() {
                return Reading::NotSupported;
            }
            let mut all = String::new();
            for name in names.iter().take(MOST_FILES) {
                let path = format!("{FOLDER}/{name}");
                match root.text(&path) {
                    Reading::Value(text) => {
                        all.push_str(&text);
                        all.push('\n');
                    }
                    Reading::NotSupported => {}
                    Reading::Failed(why) => return Reading::Failed(why),
                }
            }
            match Self::parse(&all) {
                Ok(netplan) => Reading::Value(netplan),
                Err(why) => Reading::Failed(Failure::malformed(FOLDER, &why.text, why.wanted)),
            }
        })
    }

    /// What it says of these interfaces, as netplan would have it written.
    pub(super) fn text_of(&self, interfaces: &[&str]) -> String {
        let mut text = String::from("network:\n  version: 2\n  ethernets:\n");
        for name in interfaces {
            let Some(declared) = self.interfaces.get(*name) else {
                continue;
            };
            let mut line = |line: String| {
                writeln!(text, "{line}").expect("writing to a String cannot fail");
            };
            line(format!("    {name}:"));
            line(format!("      dhcp4: {}", declared.takes_dhcp));
            if declared.takes_link_local {
                line("      link-local: [ipv4]".to_owned());
            }
            if let Some(mtu) = declared.mtu {
                line(format!("      mtu: {mtu}"));
            }
            if !declared.addresses.is_empty() {
                line("      addresses:".to_owned());
            }
            for (address, prefix) in &declared.addresses {
                line(format!("        - {address}/{prefix}"));
            }
        }
        text
    }
}

impl Declared {
    /// Whether an address is declared, as it stands or by its network.
    pub(super) fn keeps(&self, address: Ipv4Addr) -> bool {
        self.addresses.iter().any(|(kept, _)| *kept == address)
    }
}

/// One key below an interface; those that say nothing of addresses are passed over.
fn declare(declared: &mut Declared, key: &str, value: &str) -> Result<(), &'static str> {
    match key {
        "addresses" if !value.is_empty() => {
            let items = list(value).ok_or("a list")?;
            declared.addresses.extend(items.filter_map(address));
            if declared.addresses.len() > MOST_ADDRESSES {
                return Err(FEWER);
            }
        }
        "dhcp4" => declared.takes_dhcp = is_true(value).ok_or("true or false")?,
        "link-local" if !value.is_empty() => {
            let mut items = list(value).ok_or("a list")?;
            declared.takes_link_local = items.any(|item| unquoted(item) == "ipv4");
        }
        "mtu" => {
            let mtu = unquoted(value).parse().map_err(|_| "a number of bytes")?;
            declared.mtu = Some(mtu);
        }
        _ => {}
    }
    Ok(())
}

/// The items of `[a, b]`.
fn list(value: &str) -> Option<impl Iterator<Item = &str>> {
    let items = value.strip_prefix('[')?.strip_suffix(']')?;
    Some(items.split(',').map(str::trim))
}

/// `192.168.100.10/24`, with or without quotes and what may follow it; none of IPv6.
fn address(item: &str) -> Option<(Ipv4Addr, u8)> {
    let item = item.trim().trim_end_matches(':');
    let (address, prefix) = unquoted(item).split_once('/')?;
    let (address, prefix) = (address.parse().ok()?, prefix.parse().ok()?);
    Ipv4Network::of(address, prefix).map(|_| (address, prefix))
}

fn is_true(value: &str) -> Option<bool> {
    match unquoted(value).to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" => Some(true),
        "false" | "no" | "off" => Some(false),
        _ => None,
    }
}

fn key_and_value(line: &str) -> Option<(String, &str)> {
    let (key, value) = line.split_once(':')?;
    let is_key = value.is_empty() || value.starts_with(char::is_whitespace);
    is_key.then(|| (unquoted(key).to_owned(), value.trim()))
}

fn unquoted(word: &str) -> &str {
    let word = word.trim();
    let inside = |quote| word.strip_prefix(quote)?.strip_suffix(quote);
    inside('"').or(inside('\'')).unwrap_or(word)
}

/// What stands before a `#` that begins a word outside quotes.
fn without_comment(line: &str) -> &str {
    let mut quote = None;
    let mut before = ' ';
    for (at, c) in line.char_indices() {
        match (quote, c) {
            (None, '#') if before.is_whitespace() => return &line[..at],
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), _) if c == open => quote = None,
            _ => {}
        }
        before = c;
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAYBOOK: &str = "network:\n  version: 2\n  ethernets:\n    enp1s0f1np1:\n      addresses:\n        - 192.168.100.10/24\n      dhcp4: no\n    \
        enP2p1s0f1np1: # the other half\n      addresses: [\"192.168.101.10/24\", fe80::1/64]\n      mtu: 9000\n  wifis:\n    wlan0:\n      access-points:\n        \
        \"a # b\": {password: \"MUST-NOT-APPEAR\"}\n";

    #[test]
    fn nvidias_playbook_is_read_and_nothing_else_is_kept() {
        let netplan = Netplan::parse(PLAYBOOK).unwrap();
        let first = &netplan.interfaces["enp1s0f1np1"];
        assert!(first.keeps(Ipv4Addr::new(192, 168, 100, 10)) && !first.takes_dhcp);
        let second = &netplan.interfaces["enP2p1s0f1np1"];
        assert_eq!(second.addresses.len(), 1);
        assert_eq!(second.mtu, Some(9000));
        assert_eq!(netplan.interfaces.len(), 2);
        let text = netplan.text_of(&["enp1s0f1np1", "enP2p1s0f1np1", "other"]);
        assert_eq!(Netplan::parse(&text).unwrap(), netplan);
        assert!(!text.contains("MUST-NOT-APPEAR"));
        // Lists may stand as far left as their key.
        let flat = PLAYBOOK.replace("        - 192", "      - 192");
        assert_eq!(Netplan::parse(&flat).unwrap(), netplan);
        let twice = format!("{PLAYBOOK}---\n{PLAYBOOK}");
        assert_eq!(Netplan::parse(&twice).unwrap().interfaces.len(), 2);
    }

    #[test]
    fn link_local_addresses_are_told_apart() {
        let text = "network:\n  ethernets:\n    e0:\n      link-local: [ ipv4 ]\n    e1:\n      link-local: []\n      dhcp4: true\n";
        let netplan = Netplan::parse(text).unwrap();
        assert!(netplan.interfaces["e0"].takes_link_local);
        assert!(!netplan.interfaces["e1"].takes_link_local && netplan.interfaces["e1"].takes_dhcp);
    }

    #[test]
    fn what_is_not_understood_is_refused_with_its_line() {
        let below = "network:\n  ethernets:\n";
        for (text, line) in [
            ("    e0: {dhcp4: true}\n", 3),
            ("    e0:\n      match: {macaddress: x}\n", 4),
            ("    e0:\n      match:\n        name: x\n", 4),
            ("    e0:\n      dhcp4: perhaps\n", 4),
            ("    e0:\n      mtu: large\n", 4),
            ("    e0:\n      addresses: 10.0.0.1/24\n", 4),
            ("    e0:\n      <<: *defaults\n      nonsense\n", 5),
        ] {
            let refused = Netplan::parse(&format!("{below}{text}")).unwrap_err();
            assert_eq!(refused.line, line, "{text}: {refused}");
        }
        let refused = Netplan::parse("network:\n  ethernets: {e0: {dhcp4: true}}\n");
        assert_eq!(refused.unwrap_err().line, 2);
    }
}
