//! What the fuzz targets share: a machine with files made of the fuzzer's bytes.
//!
//! ```text
//! bytes --> <memory>/proc/meminfo --> Machine::read, doctor
//! ```

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use spark_hal::doctor::{Facts, Verdict, examine_facts};
use spark_hal::{Machine, Root, Sources};

/// A Spark with just enough around it that every reader is reached.
const AROUND: [(&str, &str); 13] = [
    ("sys/class/dmi/id/product_family", "DGX Spark"),
    ("sys/bus/pci/devices/000f:01:00.0/vendor", "0x10de"),
    ("sys/bus/pci/devices/000f:01:00.0/device", "0x2e12"),
    ("sys/bus/pci/devices/000f:01:00.0/class", "0x030000"),
    ("sys/bus/pci/devices/0000:01:00.0/vendor", "0x15b3"),
    ("sys/bus/pci/devices/0000:01:00.0/device", "0x1021"),
    ("sys/bus/pci/devices/0000:01:00.0/class", "0x020000"),
    ("sys/bus/pci/devices/0000:01:00.0/net/eth9/ifindex", "1"),
    ("sys/devices/system/cpu/online", "0-1"),
    ("usr/bin/docker", "ELF"),
    ("proc/stat", "btime 1772935200\n"),
    ("proc/uptime", "36000.12 700000.00\n"),
    ("proc/self/status", "Uid:\t1000\t1000\nGroups:\t4 24\n"),
];

fn tree() -> &'static PathBuf {
    static TREE: OnceLock<PathBuf> = OnceLock::new();
    TREE.get_or_init(|| {
        let places = [PathBuf::from("/dev/shm"), std::env::temp_dir()];
        let place = places.into_iter().find(|place| place.is_dir()).expect("a place for files");
        let tree = place.join(format!("spark-hal-fuzz-{}", std::process::id()));
        for (path, text) in AROUND {
            write(&tree, path, text.as_bytes());
        }
        tree
    })
}

fn write(tree: &std::path::Path, path: &str, bytes: &[u8]) {
    let place = tree.join(path);
    fs::create_dir_all(place.parent().expect("a path with a directory")).expect("writable");
    fs::write(place, bytes).expect("writable");
}

/// Describes and examines a machine whose file `path` holds `bytes`.
pub fn machine_with(path: &str, bytes: &[u8]) {
    machine_with_files(&[(path, bytes)]);
}

/// Describes and examines a machine with these files.
pub fn machine_with_files(files: &[(&str, &[u8])]) {
    let tree = tree();
    for (path, bytes) in files {
        write(tree, path, bytes);
    }
    let root = Root::at(tree);
    let machine = Machine::read(&Sources::files(root.clone()));
    assert!(machine.summary().len() < 1000);
    let mut facts = Facts::of(root, machine);
    facts.environment.insert("HOME".to_owned(), "/home/user".to_owned());
    let report = examine_facts(facts);
    for outcome in &report.outcomes {
        assert_ne!(outcome.verdict, Verdict::TimedOut, "{}", outcome.check.id);
    }
}
