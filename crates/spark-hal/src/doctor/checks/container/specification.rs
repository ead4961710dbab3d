//! Specifications of the Container Device Interface (CDI), by which engines give a container the GPU.
//!
//! ```text
//! /etc/cdi/nvidia.yaml, /var/run/cdi/nvidia.yaml (or .json)
//!   kind: nvidia.com/gpu                          other kinds are other devices
//!   - hostPath: …/libcuda.so.580.95.05            files of one driver, by their names
//! ```
//!
//! The kind and the driver's version are looked for in the text; no YAML is read. That one made for another driver does not work is
//! inferred from its being a list of files.
//!
//! Source: NVIDIA Container Toolkit, "Support for Container Device Interface" (read 2026-11-30).

use crate::doctor::facts::Facts;
use crate::reading::Reading;

/// Folders of specifications that every engine reads.
pub(super) const CDI: [&str; 2] = ["/etc/cdi", "/var/run/cdi"];
pub(super) const CDI_KIND: &str = "nvidia.com/gpu";
/// Most specifications of one folder that are read.
const FILES_LIMIT: usize = 64;

/// What is known of specifications of the GPU.
pub(super) enum Specification {
    Absent,
    /// A file that cannot be read, and why.
    Unread(String),
    /// A file in these folders that is none of the GPU's.
    Foreign(String),
    /// A file that lists libraries of another driver, and of which.
    Stale {
        path: String,
        made_for: String,
    },
    Good(String),
}

impl Specification {
    /// The best one there is.
    pub(super) fn read(facts: &Facts) -> Self {
        let mut worse = Self::Absent;
        for folder in CDI {
            let is_wanted = |name: &str| {
                name.contains("nvidia") && (name.ends_with(".yaml") || name.ends_with(".json"))
            };
            let names = match facts.root.entries_where(folder, is_wanted) {
                Reading::Value(names) => names,
                Reading::NotSupported => continue,
                Reading::Failed(why) => {
                    worse = Self::Unread(why.to_string());
                    continue;
                }
            };
            for name in names.iter().take(FILES_LIMIT) {
                match Self::of(facts, format!("{folder}/{name}")) {
                    Self::Good(path) => return Self::Good(path),
                    other => worse = other,
                }
            }
        }
        worse
    }

    fn of(facts: &Facts, path: String) -> Self {
        let text = match facts.root.text(&path) {
            Reading::Value(text) => text,
            Reading::NotSupported => return Self::Absent,
            Reading::Failed(why) => return Self::Unread(why.to_string()),
        };
        if kind_of(&text) != Some(CDI_KIND) {
            return Self::Foreign(path);
        }
        match (
            library_version(&text),
            facts.machine.stack.driver.as_value(),
        ) {
            (Some(made_for), Some(driver)) if made_for != driver.to_string() => Self::Stale {
                path,
                made_for: made_for.to_owned(),
            },
            _ => Self::Good(path),
        }
    }
}

/// The word behind the first `kind` of YAML or JSON.
fn kind_of(text: &str) -> Option<&str> {
    let quotes = |c: char| c == '"' || c == '\'';
    text.lines()
        .flat_map(|line| line.split(','))
        .find_map(|part| {
            let (key, value) = part.trim().trim_start_matches('{').split_once(':')?;
            (key.trim().trim_matches(quotes) == "kind").then(|| {
                value
                    .trim()
                    .trim_end_matches('}')
                    .trim()
                    .trim_matches(quotes)
            })
        })
}

/// `580.95.05` of the first `libcuda.so.580.95.05`; `.so.1` is the interface.
fn library_version(text: &str) -> Option<&str> {
    text.split("libcuda.so.").skip(1).find_map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.');
        let version = rest[..end.unwrap_or(rest.len())].trim_end_matches('.');
        // Drivers count from 100 on; on Jetson and WSL the library is called libcuda.so.1.1 whatever the driver.
        let is_driver = version
            .split_once('.')
            .is_some_and(|(major, _)| major.len() >= 3);
        is_driver.then_some(version)
    })
}
