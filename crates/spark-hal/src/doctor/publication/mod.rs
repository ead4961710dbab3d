//! Text that may be published: what names the machine, its owner or its place in a network is taken out.
//!
//! ```text
//! known of this machine      host name, user, home folder, serial numbers, machine id, hardware addresses
//! known by its shape         UUIDs, 32 or 64 hexadecimal digits, MAC addresses and GUIDs, IPv6 addresses, public IPv4 addresses,
//!                            accounts (user@host), folders of users, what follows the word serial, keys of services and
//!                            long runs of digits and letters, addresses in names of interfaces, processes of Xid and OOM lines
//! ```
//!
//! Every kind becomes a word in brackets that says what stood there. Private IPv4 addresses stay, as they are everybody's and
//! findings of networks mean nothing without them; so do four numbers that are the version of an installed library. A name that
//! thousands of machines have (`ubuntu`, `spark`) stays too: it names nobody, and is part of other words.
//!
//! What it cannot know: names of other people, machines and projects in text that files of this machine hold. Whoever publishes
//! a report reads it first.

mod secrets;
mod shapes;

use std::collections::BTreeSet;

use crate::reading::Reading;

use super::facts::Facts;
use shapes::{is_of_token, replaced};

const HOST: &str = "[host]";
const USER: &str = "[user]";
const SERIAL: &str = "[serial]";
const IDENTIFIER: &str = "[id]";
const HARDWARE_ADDRESS: &str = "[mac]";
const ADDRESS: &str = "[address]";
const ACCOUNT: &str = "[account]";
const PROCESS: &str = "[process]";
const KEY: &str = "[key]";

/// Names that name nobody.
const COMMON: [&str; 20] = [
    "admin",
    "arch",
    "comma",
    "container",
    "debian",
    "dgx",
    "docker",
    "fedora",
    "gpu",
    "home",
    "host",
    "linux",
    "localhost",
    "nixos",
    "nvidia",
    "root",
    "server",
    "spark",
    "ubuntu",
    "user",
];
/// Shorter names are parts of any text.
const SHORTEST_NAME: usize = 3;
/// Files of one value that tell one machine from another, root's among them.
const SERIALS: [&str; 8] = [
    "/sys/class/dmi/id/product_serial",
    "/sys/class/dmi/id/board_serial",
    "/sys/class/dmi/id/chassis_serial",
    "/sys/class/dmi/id/product_uuid",
    "/proc/device-tree/serial-number",
    "/sys/devices/soc0/serial_number",
    "/etc/machine-id",
    "/proc/sys/kernel/random/boot_id",
];
/// Folders with a file for each device that tells it from others.
const OF_DEVICES: [(&str, &str, &str); 3] = [
    ("/sys/class/nvme", "serial", SERIAL),
    ("/sys/class/net", "address", HARDWARE_ADDRESS),
    ("/sys/class/infiniband", "node_guid", HARDWARE_ADDRESS),
];
/// Folders whose next part is a user's name.
const OF_USERS: [&str; 5] = ["/home/", "/Users/", "/media/", "\\Users\\", "\\users\\"];
/// Most devices of a folder.
const DEVICES_LIMIT: usize = 64;

/// What is to be taken out of text about one machine.
#[derive(Debug, Clone, Default)]
pub struct Publication {
    home: Option<String>,
    /// Words, the longest first, and what stands in their place.
    secrets: Vec<(String, &'static str)>,
    /// Versions that look like addresses.
    versions: BTreeSet<String>,
}

impl Publication {
    /// Gathers what names the machine of these facts, and the user of this process.
    #[must_use]
    pub fn of(facts: &Facts) -> Self {
        let own = |name: &str| std::env::var(name).ok();
        let told = |name: &str| {
            facts
                .variable(name)
                .map(str::to_owned)
                .or_else(|| own(name))
        };
        let home = told("HOME").filter(|home| home.len() > 1);
        let mut publication = Self {
            home: home.clone(),
            ..Self::default()
        };
        let of_home = home
            .as_deref()
            .and_then(|home| home.rsplit('/').next())
            .map(str::to_owned);
        let users = [of_home, told("USER"), told("LOGNAME"), told("SUDO_USER")];
        for user in users.into_iter().flatten() {
            publication.hide_name(&user, USER);
        }
        if let Reading::Value(host) = facts.root.line("/proc/sys/kernel/hostname") {
            publication.hide_name(host.split('.').next().unwrap_or_default(), HOST);
            publication.hide_name(&host, HOST);
        }
        for path in SERIALS {
            if let Reading::Value(serial) = facts.root.line(path) {
                publication.hide_number(&serial, SERIAL);
            }
        }
        for (folder, leaf, shown) in OF_DEVICES {
            let devices = facts.root.entries(folder).value().unwrap_or_default();
            for device in devices.iter().take(DEVICES_LIMIT) {
                let number = facts.root.line(&format!("{folder}/{device}/{leaf}"));
                let number = number.value().unwrap_or_default();
                publication.hide_number(&number, shown);
                let pairs: Vec<&str> = number.split(':').collect();
                if pairs.len() == 6 {
                    let dotted: Vec<String> = pairs.chunks(2).map(<[&str]>::concat).collect();
                    for written in [pairs.join("-"), pairs.concat(), dotted.join(".")] {
                        publication.hide_number(&written, shown);
                    }
                }
            }
        }
        for gpu in &facts.machine.gpus {
            publication.hide_number(gpu.uuid.as_value().map_or("", String::as_str), IDENTIFIER);
        }
        publication
            .secrets
            .sort_by_key(|(word, _)| std::cmp::Reverse(word.len()));
        let libraries = facts.machine.stack.libraries.iter();
        publication.versions = libraries
            .map(|library| library.version.to_string())
            .collect();
        publication
    }

    fn hide_name(&mut self, name: &str, shown: &'static str) {
        let is_common = COMMON
            .iter()
            .any(|common| name.eq_ignore_ascii_case(common));
        if name.len() >= SHORTEST_NAME && !is_common {
            self.secrets.push((name.to_owned(), shown));
        }
    }

    /// Placeholders such as `Default string` and `0000` are everybody's.
    fn hide_number(&mut self, number: &str, shown: &'static str) {
        let has_digit = number.bytes().any(|byte| matches!(byte, b'1'..=b'9'));
        let is_long = number.len() >= 8 && !number.contains([' ', ':']);
        if number.len() > SHORTEST_NAME && (has_digit || is_long) {
            self.secrets.push((number.to_owned(), shown));
        }
    }

    /// The text without all of that.
    #[must_use]
    pub fn redacted(&self, text: &str) -> String {
        let mut text = text.to_owned();
        if let Some(home) = &self.home {
            text = replaced(&text, home, "~", false);
        }
        for (word, shown) in &self.secrets {
            text = replaced(&text, word, shown, *shown != USER);
        }
        let lines: Vec<String> = text.split('\n').map(|line| self.line(line)).collect();
        lines.join("\n")
    }

    fn line(&self, line: &str) -> String {
        let line = shapes::without_words(line, &OF_USERS, USER);
        let line = shapes::without_serial(&line, SERIAL);
        let line = secrets::without_short_serial(&line, SERIAL);
        let line = secrets::without_processes(&line, PROCESS, USER);
        let line = secrets::without_interfaces(&line, HARDWARE_ADDRESS);
        let mut shown = String::with_capacity(line.len());
        let mut rest = line.as_str();
        while let Some(first) = rest.chars().next() {
            let end = rest.find(|c: char| !is_of_token(c)).unwrap_or(rest.len());
            let (part, behind) = rest.split_at(if end == 0 { first.len_utf8() } else { end });
            let bare = part.trim_end_matches(['.', ':', '-']);
            match self.meaning(bare) {
                Some(word) => {
                    shown.push_str(word);
                    shown.push_str(&part[bare.len()..]);
                }
                None => shown.push_str(part),
            }
            rest = behind;
        }
        shown
    }

    /// What stands in the place of a token, if it may not be shown.
    fn meaning(&self, token: &str) -> Option<&'static str> {
        if shapes::is_identifier(token) {
            Some(IDENTIFIER)
        } else if shapes::is_account(token) {
            Some(ACCOUNT)
        } else if shapes::is_hardware_address(token) {
            Some(HARDWARE_ADDRESS)
        } else if secrets::is_key(token) {
            Some(KEY)
        } else if secrets::names_public_address(token) {
            Some(ADDRESS)
        } else {
            let addresses = shapes::public_addresses(token);
            let is_hidden = |part: &&str| !self.versions.contains(*part);
            addresses.iter().any(is_hidden).then_some(ADDRESS)
        }
    }
}
