//! What the numbers of a chunk depend on, in lines that people can compare.
//!
//! ```text
//! work            sim run          two runs whose lines are equal compute the same numbers;
//! program         0.1.0, 5f2c…     of two that are not, the lines say why
//! controller      pid
//! scenarios       10000, 91ab…     large things by a hash
//! items           10000
//! items a chunk   64
//! ```
//!
//! Deliberately absent: any judgement of which difference would not matter.

use std::fs::File;
use std::io::{self, Read as _};

use sha2::{Digest as _, Sha256};

use crate::{Difference, Differences, Plan};

/// Named lines, in the order in which they were given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub(crate) lines: Vec<(String, String)>,
}

impl Identity {
    /// What kind of work it is, and nothing else yet. Programs read payloads of their own work alone.
    pub fn new(work: impl Into<String>) -> Self {
        Self {
            lines: vec![("work".to_owned(), work.into())],
        }
    }

    /// With one line more: something that the numbers depend on.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.lines.push((name.into(), value.into()));
        self
    }

    /// All lines, that of the work first.
    pub fn lines(&self) -> impl Iterator<Item = (&str, &str)> {
        let lines = self.lines.iter();
        lines.map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The value of the first line of a name.
    pub fn value(&self, name: &str) -> Option<&str> {
        let found = self.lines.iter().find(|(line, _)| line == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// A whole run, of which every chunk knows: what its numbers depend on, and how it was cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// What the numbers depend on.
    pub identity: Identity,
    /// How many items there are, and how many make a chunk.
    pub plan: Plan,
}

impl Run {
    /// How another run differs from this one; nothing if both are the same.
    pub fn differences(&self, other: &Self) -> Differences {
        let (here, there) = (self.all_lines(), other.all_lines());
        let names = |lines: &[(String, String)]| -> Vec<String> {
            lines.iter().map(|(name, _)| name.clone()).collect()
        };
        let of = |lines: &[(String, String)], name: &str| -> Vec<String> {
            let named = lines.iter().filter(|(line, _)| line == name);
            named.map(|(_, value)| value.clone()).collect()
        };
        let mut all = names(&here);
        all.extend(names(&there));
        let mut seen = std::collections::HashSet::new();
        all.retain(|name| seen.insert(name.clone()));
        let differing = all.into_iter().filter_map(|name| {
            let (here, there) = (of(&here, &name), of(&there, &name));
            (here != there).then_some(Difference { name, here, there })
        });
        let list: Vec<Difference> = differing.collect();
        // Equal lines in another order are other bytes, and so another run.
        let is_reordered = list.is_empty() && self != other;
        Differences { list, is_reordered }
    }

    fn all_lines(&self) -> Vec<(String, String)> {
        let mut lines = self.identity.lines.clone();
        let plan = [
            ("items", self.plan.n_items()),
            ("items a chunk", self.plan.chunk_len()),
        ];
        lines.extend(plan.map(|(name, n)| (name.to_owned(), n.to_string())));
        lines
    }
}

/// A SHA-256 of several things, none of which can pass for a part of its neighbour.
#[derive(Debug, Clone, Default)]
pub struct Fingerprint(Sha256);

impl Fingerprint {
    /// Of nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one thing, its length before it.
    pub fn add(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    /// 64 hexadecimal digits.
    pub fn hex(self) -> String {
        hex(&self.0.finalize())
    }
}

/// The SHA-256 of the file that this process runs, in hexadecimal digits: a version's number says less than
/// the program does, of which there may be several builds.
///
/// # Errors
///
/// What the operating system said.
pub fn hash_of_this_program() -> io::Result<String> {
    // Linux keeps the file that was started under this name, also when another one has taken its place.
    let started = std::path::Path::new("/proc/self/exe");
    let mut file = match File::open(started) {
        Ok(file) => file,
        Err(_) => File::open(std::env::current_exe()?)?,
    };
    let (mut hash, mut piece) = (Sha256::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Ok(hex(&hash.finalize())),
            Ok(n) => hash.update(&piece[..n]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
