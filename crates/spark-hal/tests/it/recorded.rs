//! Recorded machines: one text file per machine, unpacked into a directory.
//!
//! ```text
//! # comment, up to the first entry           where the strings come from
//! @include gb10                              machines/parts/gb10.txt
//! == /sys/class/dmi/id/product_family        a file and its content
//! DGX Spark
//! == /sys/devices/system/cpu/cpu{0-3}/x      one file per number; {#} inside is the number
//! == /usr/lib/libx.so.1 -> libx.so.1.2       a symbolic link
//! ```
//!
//! A later entry replaces an earlier one; `{NUL}` ends a file with a NUL byte instead of a
//! line feed, as the device tree's files end.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use spark_hal::Root;
use spark_hal::cpu::parse_cpu_list;

/// A directory that goes away with the value.
pub(crate) struct Tree {
    directory: PathBuf,
}

impl Tree {
    /// A directory without files: a machine of which nothing can be read.
    pub(crate) fn empty() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("machine-{}-{number}", std::process::id());
        // Thousands of small files are made: in memory where that is possible.
        let places = ["/dev/shm", env!("CARGO_TARGET_TMPDIR")];
        let made = places.iter().map(|place| Path::new(place).join(&name));
        let directory = made
            .into_iter()
            .find(|place| fs::create_dir_all(place).is_ok());
        Self {
            directory: directory.expect("the build directory is writable"),
        }
    }

    /// A copy of a recorded machine, made from its `tree.txt`.
    pub(crate) fn of(machine: &str) -> Self {
        let tree = Self::empty();
        tree.add(&fs::read_to_string(machine_file(machine, "tree.txt")).expect("recorded"));
        tree
    }

    /// Adds entries to what is there.
    pub(crate) fn add(&self, text: &str) {
        let mut entries = BTreeMap::new();
        parse(text, &mut entries);
        for (path, entry) in entries {
            let place = self.path(&path);
            fs::create_dir_all(place.parent().expect("absolute")).expect("writable");
            let _ = fs::remove_file(&place);
            match entry {
                Entry::File(content) => fs::write(place, content).expect("writable"),
                Entry::Link(target) => {
                    std::os::unix::fs::symlink(target, place).expect("writable");
                }
            }
        }
    }

    /// Removes a file or directory.
    pub(crate) fn remove(&self, path: &str) {
        let place = self.path(path);
        if place.is_dir() {
            fs::remove_dir_all(place).expect("removable");
        } else {
            fs::remove_file(place).expect("there");
        }
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.directory.join(path.trim_start_matches('/'))
    }

    pub(crate) fn root(&self) -> Root {
        Root::at(&self.directory)
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

enum Entry {
    File(Vec<u8>),
    Link(String),
}

/// A file of a recorded machine.
pub(crate) fn machine_file(machine: &str, file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/machines")
        .join(machine)
        .join(file)
}

/// Names of all recorded machines, sorted.
pub(crate) fn machine_names() -> Vec<String> {
    let directory = machine_file("", "");
    let entries = fs::read_dir(directory).expect("tests/machines");
    let mut names: Vec<String> = entries
        .map(|entry| {
            entry
                .expect("readable")
                .file_name()
                .into_string()
                .expect("text")
        })
        .filter(|name| machine_file(name, "tree.txt").exists())
        .collect();
    names.sort();
    names
}

fn parse(text: &str, entries: &mut BTreeMap<String, Entry>) {
    let mut header: Option<&str> = None;
    let mut body = String::new();
    for line in text.lines() {
        if let Some(part) = line.strip_prefix("@include ") {
            store(header.take(), &body, entries);
            let included = machine_file("parts", &format!("{}.txt", part.trim()));
            parse(&fs::read_to_string(included).expect("part"), entries);
        } else if let Some(path) = line.strip_prefix("== ") {
            store(header.replace(path), &body, entries);
            body.clear();
        } else if header.is_some() {
            body.push_str(line);
            body.push('\n');
        }
    }
    store(header, &body, entries);
}

fn store(header: Option<&str>, body: &str, entries: &mut BTreeMap<String, Entry>) {
    let Some(header) = header else { return };
    if let Some((path, target)) = header.split_once(" -> ") {
        entries.insert(path.to_owned(), Entry::Link(target.to_owned()));
        return;
    }
    let text = body.replace("{NUL}\n", "\0");
    let Some((before, rest)) = header.split_once('{') else {
        entries.insert(header.to_owned(), Entry::File(text.into_bytes()));
        return;
    };
    let (numbers, after) = rest.split_once('}').expect("closing brace");
    for number in parse_cpu_list(numbers).expect("a list of numbers") {
        let path = format!("{before}{number}{after}");
        let content = text.replace("{#}", &number.to_string());
        entries.insert(path, Entry::File(content.into_bytes()));
    }
}
