//! What is done, failed or left open, on machines from records.

use sparkpilot::hal::doctor::{Facts, examine_facts};
use sparkpilot::hal::{Machine, Sources, unpack_record};

use super::item::{Item, Part, State};
use super::{checklist, counts, to_json, to_text};

const SPARK: &str = "== /sys/class/dmi/id/product_family\nDGX Spark\n== /sys/class/dmi/id/sys_vendor\nNVIDIA\n\
    == /sys/class/dmi/id/product_name\nNVIDIA_DGX_Spark\n== /sys/bus/pci/devices/000f:01:00.0/vendor\n0x10de\n\
    == /sys/bus/pci/devices/000f:01:00.0/device\n0x2e12\n== /sys/bus/pci/devices/000f:01:00.0/class\n0x030000\n";
/// The driver that is loaded is not the one whose library is installed.
const MIXED: &str = "== /sys/module/nvidia/version\n580.95.05\n== /usr/lib/aarch64-linux-gnu/libcuda.so.580.126.09\n\n\
    == /usr/lib/aarch64-linux-gnu/libcuda.so.1 -> libcuda.so.580.126.09\n";

fn of(record: &str) -> (Facts, Vec<Item>) {
    let folder = tempfile::tempdir().expect("a folder");
    let root = unpack_record(record, folder.path()).expect("a record");
    let facts = Facts::of(root.clone(), Machine::read(&Sources::files(root)));
    let items = checklist(&facts, &examine_facts(facts.clone()));
    (facts, items)
}

#[track_caller]
fn state(items: &[Item], begin: &str) -> State {
    let mut found = items.iter().filter(|item| item.what.starts_with(begin));
    let first = found.next().unwrap_or_else(|| panic!("no item {begin}"));
    assert!(found.next().is_none(), "two items {begin}");
    first.state
}

#[test]
fn what_no_driver_said_is_not_done() {
    let (_, items) = of(SPARK);
    assert_eq!(state(&items, "it is known for what it is"), State::Done);
    for begin in [
        "the driver tells its name",
        "its hardware has",
        "temperature, power and clock",
        "the GPU is not too hot",
        "a GPU at work",
        "what CUDA says",
        "capacity of each kind",
        "what a container sees",
    ] {
        assert_eq!(state(&items, begin), State::NotHere, "{begin}");
    }
    assert!(
        items
            .iter()
            .all(|item| !item.what.is_empty() && !item.said.is_empty())
    );
    assert!(
        Part::ALL
            .iter()
            .all(|part| items.iter().any(|item| item.part == *part))
    );
}

#[test]
fn a_driver_that_is_not_the_installed_one_fails_the_item() {
    let (_, items) = of(&[SPARK, MIXED].concat());
    assert_eq!(state(&items, "driver and libraries fit"), State::Failed);
    assert!(items.iter().any(Item::has_failed));
}

#[test]
fn a_machine_without_a_gpu_has_no_item_of_one_done() {
    let (_, items) = of(
        "== /sys/bus/pci/devices/0000:00:00.0/vendor\n0x8086\n== /proc/meminfo\nMemTotal: 9 kB\n",
    );
    for begin in [
        "a GPU is there",
        "the driver tells its name",
        "its hardware has",
        "memory is told",
        "containers can",
    ] {
        assert_eq!(state(&items, begin), State::NotHere, "{begin}");
    }
    assert!(!items.iter().any(Item::has_failed));
}

#[test]
fn text_and_json_count_the_same_items() {
    let (facts, items) = of(&[SPARK, MIXED].concat());
    let (text, json) = (to_text(&facts, &items), to_json(&facts, &items));
    assert!(text.ends_with(&format!("\n{}\n", counts(&items))), "{text}");
    let listed = json["items"].as_array().expect("items");
    assert_eq!(listed.len(), items.len());
    for (state, word) in [
        ("done", "done"),
        ("failed", "failed"),
        ("by_hand", "by hand"),
        ("not_here", "not here"),
    ] {
        let n = listed.iter().filter(|item| item["state"] == state).count();
        assert_eq!(json["counts"][state], n);
        assert!(text.contains(&format!("{n} {word}")), "{text}");
    }
    // What another command shows is never ticked here.
    let left = listed.iter().filter(|item| {
        let said = item["said"].as_str().unwrap_or_default();
        said.contains("doctor --verify") || said.contains("doctor --load")
    });
    assert!(left.clone().count() >= 2 && left.clone().all(|item| item["state"] == "by_hand"));
}
