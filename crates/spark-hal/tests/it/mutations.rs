//! Recorded machines with damaged files: no damage makes detection or the doctor panic,
//! and neither takes longer than a second.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use spark_hal::doctor::{Facts, Verdict, examine_facts};
use spark_hal::{Machine, Sources};

use crate::recorded::{Tree, machine_names};

/// One damage to one file.
#[derive(Debug, Clone)]
enum Damage {
    FlipBits { at: usize, mask: u8 },
    CutAt { at: usize },
    Repeat { times: usize },
    Insert { at: usize, bytes: Vec<u8> },
    Replace { bytes: Vec<u8> },
    ReplaceNumbers { with: &'static str },
    Remove,
    BecomeDirectory,
    LinkTo { target: &'static str },
    LinkToItself,
    BecomePipe,
    BecomeTerabyteOfHoles,
}

fn damage() -> impl Strategy<Value = Damage> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..64);
    let numbers = [
        "-1",
        "0",
        "18446744073709551615",
        "99999999999999999999999",
        "1e9",
        "٣",
        "",
    ];
    let targets = [
        "/dev/zero",
        "/dev/tty",
        "/nowhere",
        "/proc",
        ".",
        "/proc/self/mem",
    ];
    prop_oneof![
        (any::<usize>(), any::<u8>()).prop_map(|(at, mask)| Damage::FlipBits { at, mask }),
        any::<usize>().prop_map(|at| Damage::CutAt { at }),
        (2_usize..2000).prop_map(|times| Damage::Repeat { times }),
        (any::<usize>(), bytes()).prop_map(|(at, bytes)| Damage::Insert { at, bytes }),
        bytes().prop_map(|bytes| Damage::Replace { bytes }),
        proptest::sample::select(numbers.to_vec()).prop_map(|with| Damage::ReplaceNumbers { with }),
        Just(Damage::Remove),
        Just(Damage::BecomeDirectory),
        proptest::sample::select(targets.to_vec()).prop_map(|target| Damage::LinkTo { target }),
        Just(Damage::LinkToItself),
        Just(Damage::BecomePipe),
        Just(Damage::BecomeTerabyteOfHoles),
    ]
}

fn apply(place: &Path, damage: &Damage) {
    if is_replacement(damage) {
        fs::remove_file(place).unwrap();
    }
    match damage {
        Damage::Remove => {}
        Damage::BecomeDirectory => fs::create_dir(place).unwrap(),
        Damage::LinkTo { target } => symlink(target, place).unwrap(),
        Damage::LinkToItself => symlink(place.file_name().unwrap(), place).unwrap(),
        Damage::BecomePipe => make_pipe(place),
        Damage::BecomeTerabyteOfHoles => {
            fs::File::create(place).unwrap().set_len(1 << 40).unwrap();
        }
        change => fs::write(place, changed(fs::read(place).unwrap(), change)).unwrap(),
    }
}

/// Whether the file is gone afterwards, with something else in its place.
fn is_replacement(damage: &Damage) -> bool {
    matches!(
        damage,
        Damage::Remove
            | Damage::BecomeDirectory
            | Damage::LinkTo { .. }
            | Damage::LinkToItself
            | Damage::BecomePipe
            | Damage::BecomeTerabyteOfHoles
    )
}

/// A pipe that nobody writes to: opening it to read waits for ever.
fn make_pipe(place: &Path) {
    let made = Command::new("mkfifo").arg(place).status().unwrap();
    assert!(made.success());
}

fn changed(mut content: Vec<u8>, change: &Damage) -> Vec<u8> {
    let position = |at: usize| at % (content.len() + 1);
    match change {
        Damage::FlipBits { at, mask } => {
            let at = position(*at);
            if let Some(byte) = content.get_mut(at) {
                *byte ^= mask;
            }
        }
        Damage::CutAt { at } => {
            let at = position(*at);
            content.truncate(at);
        }
        Damage::Repeat { times } => {
            // Twice the longest table that is read; more would only fill the disk.
            const LONGEST: usize = 8 << 20;
            let most = LONGEST / content.len().max(1);
            content = content.repeat((*times).min(most));
        }
        Damage::Insert { at, bytes } => {
            let at = position(*at);
            content.splice(at..at, bytes.iter().copied());
        }
        Damage::Replace { bytes } => content.clone_from(bytes),
        Damage::ReplaceNumbers { with } => {
            let text = String::from_utf8_lossy(&content).into_owned();
            let words = text
                .split_inclusive(|c: char| !c.is_ascii_digit())
                .map(|word| {
                    let digits = word.trim_end_matches(|c: char| !c.is_ascii_digit());
                    if digits.is_empty() {
                        word.to_owned()
                    } else {
                        word.replacen(digits, with, 1)
                    }
                });
            content = words.collect::<String>().into_bytes();
        }
        other => unreachable!("{other:?} replaces the file"),
    }
    content
}

/// Every file of a tree, in a fixed order.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut entries: Vec<PathBuf> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    entries.sort();
    for path in entries {
        if path.is_symlink() {
            continue;
        } else if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found
}

/// Files that only the doctor reads, so that they get damaged too.
const DOCTOR_FILES: &str = "\
== /lib/modules/6.14.0-1013-nvidia/modules.dep
kernel/nvidia-580-open/nvidia.ko: kernel/x.ko
== /proc/stat
btime 1772935200
== /proc/uptime
36000.12 700000.00
== /var/log/kern.log
2026-03-07T10:00:00+00:00 h kernel: [ 1.5] NVRM: Out of memory [NV_ERR_NO_MEMORY] @ mem_desc.c:1359
Mar  8 02:00:03 h kernel: NVRM: Xid (PCI:000f:01:00): 79, GPU has fallen off the bus.
== /var/log/kern.log.1
EXT4-fs (nvme0n1p2): recovery complete
== /var/log/dmesg
[    0.000000] kernel: Linux version 6.14.0
== /var/log/journal/0123456789abcdef0123456789abcdef/system.journal
LPKSHHRH
== /var/log/journal/0123456789abcdef0123456789abcdef/system@00064c6de8bb5005-94dae81dda9bbd50.journal~
LPKSHHRH
== /etc/sparkpilot/known-bad.json
{\"schema\": \"spark-known-bad/1\", \"updated\": \"2026-12-01\", \"rows\": []}
== /proc/cmdline
quiet kho=off
== /sys/class/dmi/id/bios_date
08/20/2025
== /dev/kmsg
4,900,7200000000,-;NVRM: Xid (PCI:000f:01:00): 31, x
== /proc/pressure/memory
some avg10=0.00 avg60=0.00 avg300=0.00 total=0
full avg10=0.00 avg60=0.00 avg300=0.00 total=0
== /proc/net/route
Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask
enp1s0f0np0\t0064A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF
== /proc/net/fib_trie
  |-- 192.168.100.7
     /32 host LOCAL
== /proc/net/if_inet6
fe800000000000000000000000000001 02 40 20 80 enp1s0f0np0
== /home/user/.local/lib/python3.12/site-packages/torch/version.py
__version__ = '2.9.0+cu130'
cuda: Optional[str] = '13.0'
== /home/user/.local/lib/python3.12/site-packages/triton/backends/nvidia/bin/ptxas
Cuda compilation tools, release 12.8, V12.8.93
== /home/user/.local/lib/python3.12/site-packages/x/_C.so
ELF
== /usr/bin/docker
ELF
== /etc/group
docker:x:998:other
== /etc/modules-load.d/x.conf
nvidia-peermem
";

proptest! {
    // A fifth of what PROPTEST_CASES says (256): each case unpacks a whole machine.
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 5))]

    #[test]
    fn damaged_machines_are_still_described(
        machine in proptest::sample::select(machine_names()),
        damages in proptest::collection::vec((any::<usize>(), damage()), 1..24),
    ) {
        let tree = Tree::of(&machine);
        tree.add(DOCTOR_FILES);
        let files = files(&tree.path("/"));
        for (which, damage) in &damages {
            let place = &files[which % files.len()];
            // What an earlier damage made is not damaged again: links lead out of the tree.
            let is_intact = fs::symlink_metadata(place)
                .is_ok_and(|found| found.is_file() && found.len() < 1 << 30);
            if is_intact {
                apply(place, damage);
            }
        }
        check(&tree);
    }
}

/// Describes and examines a tree: in time, without a panic, without secrets.
#[track_caller]
fn check(tree: &Tree) {
    let begin = Instant::now();
    let found = Machine::read(&Sources::files(tree.root()));
    let elapsed = begin.elapsed();
    assert!(
        elapsed < Duration::from_secs(1),
        "detection took {elapsed:?}"
    );
    assert!(found.cpu.plan().n_threads >= 1);
    assert!(found.summary().len() < 500);

    let mut facts = Facts::of(tree.root(), found);
    facts
        .environment
        .insert("HOME".to_owned(), "/home/user".to_owned());
    let report = examine_facts(facts);
    for outcome in &report.outcomes {
        assert!(outcome.verdict != Verdict::TimedOut, "{}", outcome.check.id);
    }
    assert!(!report.to_json().contains("MUST-NOT-APPEAR"));
}

/// Every file a Spark's description and examination read, damaged in the same way.
#[track_caller]
fn check_all_damaged(damage: &Damage) {
    let tree = Tree::of("nvidia-dgx-spark");
    tree.add(DOCTOR_FILES);
    for place in files(&tree.path("/")) {
        apply(&place, damage);
    }
    check(&tree);
}

#[test]
fn every_file_a_pipe() {
    check_all_damaged(&Damage::BecomePipe);
}

/// With the others whole: the checks of a Spark stop early on a machine that is none.
#[test]
fn each_file_alone_a_pipe() {
    let tree = Tree::of("nvidia-dgx-spark");
    tree.add(DOCTOR_FILES);
    for place in files(&tree.path("/")) {
        let content = fs::read(&place).unwrap();
        apply(&place, &Damage::BecomePipe);
        check(&tree);
        fs::remove_file(&place).unwrap();
        fs::write(&place, content).unwrap();
    }
}

#[test]
fn every_file_a_terabyte_of_holes() {
    check_all_damaged(&Damage::BecomeTerabyteOfHoles);
}

#[test]
fn every_file_a_link_to_itself() {
    check_all_damaged(&Damage::LinkToItself);
}

#[test]
fn every_file_a_directory() {
    check_all_damaged(&Damage::BecomeDirectory);
}

#[test]
fn every_file_endless_zeros() {
    check_all_damaged(&Damage::LinkTo {
        target: "/dev/zero",
    });
}

#[test]
fn every_file_repeated_to_megabytes() {
    check_all_damaged(&Damage::Repeat { times: usize::MAX });
}
