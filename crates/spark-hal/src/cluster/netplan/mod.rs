//! What netplan says of interfaces: which addresses they have after the next start of the machine.
//!
//! ```text
//! network:                                  /etc/netplan/*.yaml, which root alone may read
//!   version: 2
//!   ethernets:
//!     enp1s0f0np0:                          Stanza { whose, Declared { addresses, takes_dhcp, takes_link_local, mtu } or what is not understood }
//!       addresses: [192.168.100.10/24]
//!       mtu: 9000
//! ```
//!
//! A stanza is an interface's by its name, or by `match`: names by their patterns, drivers and hardware addresses as far as they may be a ConnectX-7's. What
//! is not understood of an interface counts where that interface is asked for, and nowhere else. What stands elsewhere (Wi-Fi with its passwords) is
//! passed over and not kept, and no content of a line is ever shown: its number and its key are.

mod stanza;
mod yaml;

use std::fmt::Write as _;

use crate::reading::{Failure, Reading};
use crate::root::Root;

pub(super) use stanza::Declared;
pub use stanza::NetplanError;
use stanza::{Stanza, in_words};
use yaml::{Entry, Line, Node, Reader, lines, parts};

const FOLDER: &str = "/etc/netplan";
/// More files and stanzas than anybody has.
const MOST_FILES: usize = 64;
const MOST_STANZAS: usize = 4096;

/// What netplan declares, by interface.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Netplan {
    stanzas: Vec<Stanza>,
}

impl Netplan {
    /// Reads one file, or several one after the other.
    ///
    /// # Errors
    ///
    /// [`NetplanError`] where it cannot be told which lines are whose.
    pub fn parse(text: &str) -> Result<Self, NetplanError> {
        let mut netplan = Self::default();
        let mut reader = Reader::default();
        let all: Vec<Line<'_>> = lines(text);
        for document in all.split(|line| line.text == "---" || line.text == "...") {
            let mut left = document;
            while let Some(first) = left.first() {
                if first.text.starts_with(['{', '[']) {
                    let (node, n_taken) = reader.bracketed(left)?;
                    netplan.take_file(node, first.number)?;
                    left = &left[n_taken..];
                    continue;
                }
                // One file after another, of which each has its own indent.
                let rest = left.iter().skip(1);
                let n_of_file = rest
                    .take_while(|line| line.indent >= first.indent && !line.text.starts_with('{'))
                    .count();
                let (file, after) = left.split_at(n_of_file + 1);
                netplan.take_lines(&mut reader, file)?;
                left = after;
            }
        }
        Ok(netplan)
    }

    fn take_lines(&mut self, reader: &mut Reader, file: &[Line<'_>]) -> Result<(), NetplanError> {
        for top in parts(file)?.iter().filter(|top| top.key == "network") {
            if !top.is_block() {
                let node = reader.value(top)?;
                self.take_network(node, top.line)?;
                continue;
            }
            let kinds = parts(top.below())?;
            for kind in kinds.iter().filter(|kind| kind.key == "ethernets") {
                if !kind.is_block() {
                    let node = reader.value(kind)?;
                    self.take_ethernets(node, kind.line)?;
                    continue;
                }
                for stanza in parts(kind.below())? {
                    // What is wrong within one is wrong with that one alone.
                    let value = reader.value(&stanza);
                    let may_match = value.is_err() && stanza.speaks_of("match");
                    let read = Stanza::of(&stanza.key, stanza.line, value);
                    self.take(if may_match { read.of_anyone() } else { read })?;
                }
            }
        }
        Ok(())
    }

    fn take_file(&mut self, node: Node, line: usize) -> Result<(), NetplanError> {
        for entry in map(node, line)? {
            if entry.key == "network" {
                self.take_network(entry.value, entry.line)?;
            }
        }
        Ok(())
    }

    fn take_network(&mut self, node: Node, line: usize) -> Result<(), NetplanError> {
        for entry in map(node, line)? {
            if entry.key == "ethernets" {
                self.take_ethernets(entry.value, entry.line)?;
            }
        }
        Ok(())
    }

    fn take_ethernets(&mut self, node: Node, line: usize) -> Result<(), NetplanError> {
        for entry in map(node, line)? {
            self.take(Stanza::of(&entry.key, entry.line, Ok(entry.value)))?;
        }
        Ok(())
    }

    fn take(&mut self, stanza: Stanza) -> Result<(), NetplanError> {
        if self.stanzas.len() == MOST_STANZAS {
            return Err(NetplanError {
                line: stanza.line,
                key: String::new(),
                wanted: "fewer interfaces",
            });
        }
        self.stanzas.push(stanza);
        Ok(())
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
                Err(why) => Reading::Failed(Failure::malformed(
                    FOLDER,
                    &format!("line {}{}", why.line, in_words(&why.key)),
                    why.wanted,
                )),
            }
        })
    }

    /// What it says of an interface: of all stanzas that are its own, together.
    ///
    /// # Errors
    ///
    /// [`NetplanError`] where a stanza that may be its own is not understood.
    pub(super) fn of(&self, interface: &str) -> Result<Declared, &NetplanError> {
        let mut all = Declared::default();
        for stanza in &self.stanzas {
            if stanza.may_be_of(interface) {
                all.add(stanza.declared()?);
            }
        }
        Ok(all)
    }

    /// The first thing of these interfaces that is not understood.
    #[must_use]
    pub fn refused(&self, interfaces: &[&str]) -> Option<&NetplanError> {
        interfaces.iter().find_map(|name| self.of(name).err())
    }

    /// What it says of these interfaces, as netplan would have it written; or where it is not understood.
    pub(super) fn text_of(&self, interfaces: &[&str]) -> String {
        let mut text = String::from("network:\n  version: 2\n  ethernets:\n");
        for name in interfaces {
            let declared = self.of(name);
            if declared == Ok(Declared::default()) {
                continue;
            }
            let mut line = |line: String| {
                writeln!(text, "{line}").expect("writing to a String cannot fail");
            };
            line(format!("    {name}:"));
            match declared {
                Ok(declared) => declared.write(line),
                Err(why) => line(format!(
                    "      {}: {} {}",
                    stanza::REFUSED,
                    why.line,
                    why.key
                )),
            }
        }
        text
    }
}

/// What is in a map; nothing is an empty one.
fn map(node: Node, line: usize) -> Result<Vec<Entry>, NetplanError> {
    match node {
        Node::Map(entries) => Ok(entries),
        Node::Nothing => Ok(Vec::new()),
        _ => Err(NetplanError {
            line,
            key: String::new(),
            wanted: "keys with values",
        }),
    }
}

#[cfg(test)]
mod tests;
