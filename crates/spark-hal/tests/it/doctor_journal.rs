//! systemd's journal, read from files that systemd wrote (`tests/journals`), whole and damaged.

use std::fs::{self, File};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use spark_hal::doctor::{Facts, Severity, Verdict, examine_facts};
use spark_hal::{Machine, Sources};

use crate::doctor::{Patient, has};
use crate::doctor_history::{HISTORY, at_noon};

const MACHINE: &str = "0123456789abcdef0123456789abcdef";
const FORMATS: [&str; 2] = ["compact", "regular"];

/// Bytes of a file that systemd wrote, by offset; the rest of it is zero.
struct Recorded {
    length: u64,
    parts: Vec<(u64, Vec<u8>)>,
}

impl Recorded {
    fn of(format: &str) -> Self {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/journals/{format}.txt"));
        let text = fs::read_to_string(path).expect("recorded");
        let mut recorded = Self {
            length: 0,
            parts: Vec::new(),
        };
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (offset, bytes) = line.split_once(' ').expect("two words");
            if offset == "length" {
                recorded.length = bytes.parse().expect("a number");
                continue;
            }
            let pairs = bytes.as_bytes().chunks(2);
            let bytes = pairs.map(|pair| {
                let pair = std::str::from_utf8(pair).expect("text");
                u8::from_str_radix(pair, 16).expect("hexadecimal")
            });
            let offset = u64::from_str_radix(offset, 16).expect("hexadecimal");
            recorded.parts.push((offset, bytes.collect()));
        }
        recorded
    }

    fn write(&self, path: &Path) {
        fs::create_dir_all(path.parent().expect("absolute")).expect("writable");
        let mut file = File::create(path).expect("writable");
        file.set_len(self.length).expect("writable");
        for (offset, bytes) in &self.parts {
            file.seek(SeekFrom::Start(*offset)).expect("seekable");
            file.write_all(bytes).expect("writable");
        }
    }
}

fn journal_path(patient: &Patient) -> std::path::PathBuf {
    patient
        .tree
        .path(&format!("/var/log/journal/{MACHINE}/system.journal"))
}

/// A Spark whose journal is this file.
fn with_journal(recorded: &Recorded) -> Patient {
    let patient = at_noon();
    recorded.write(&journal_path(&patient));
    patient
}

#[test]
fn both_formats_are_read() {
    for format in FORMATS {
        let report = with_journal(&Recorded::of(format)).examine();
        let is = |id, severity, words| has(&report, id, severity, words);
        is("history.xid", Severity::Warning, "Xid 79 once");
        is("history.xid", Severity::Warning, "(2026-03-07 10:00 UTC)");
        is("history.oom", Severity::Note, "2026-01-07 12:00 UTC");
        is("history.oom", Severity::Note, "python3");
        is("history.pcie-errors", Severity::Note, "0000:01:00.0");
        for id in [
            "memory.kernel-log",
            "history.thermal",
            "history.unclean-boot",
        ] {
            assert_eq!(report.verdict(id), Some(&Verdict::Passed), "{format}: {id}");
        }
        let text = report.to_json();
        // A program wrote this one.
        assert!(!text.contains("Xid 48"), "{format}");
        // This one has 3000 characters, which the compact journal holds compressed.
        assert_eq!(text.contains("Xid 31"), format == "regular");
        assert!(
            !text.contains(MACHINE) && !text.contains("spark-1234"),
            "{text}"
        );
    }
}

#[test]
fn what_the_journal_tells_is_not_told_again_by_other_logs() {
    let patient = with_journal(&Recorded::of("compact")).with(
        "== /var/log/kern.log\n\
         2026-03-07T10:00:00+00:00 h kernel: NVRM: Xid (PCI:000f:01:00): 79, x\n\
         2026-03-08T11:00:00+00:00 h kernel: NVRM: Xid (PCI:000f:01:00): 119, x\n",
    );
    assert_eq!(patient.examine().to_json().matches("Xid 79 ").count(), 0);
    assert_eq!(patient.examine().to_json().matches(": 79, ").count(), 1);
    // What came after the journal's last line.
    patient.has("history.xid", Severity::Error, "Xid 119 once");
}

#[test]
fn a_journal_that_nobody_closed_tells_by_its_name() {
    // 2026-03-08 02:00:05 UTC, and 2026-01-08 02:00:05 UTC.
    let recent = 1_772_935_205_000_000_u64;
    let old = 1_767_837_605_000_000_u64;
    let with = |microseconds: u64| {
        with_journal(&Recorded::of("compact")).with(&format!(
            "== /var/log/journal/{MACHINE}/system@{microseconds:016x}-94dae81dda9bbd50.journal~\n\n"
        ))
    };
    let id = "history.unclean-boot";
    with(recent).has(id, Severity::Warning, "2026-03-08 02:00 UTC");
    with(old).has(id, Severity::Note, "2026-01-08 02:00 UTC");
    // The disk's recovery and the journal's name are one stop.
    let both = with(recent)
        .with("== /dev/kmsg\n6,1,2000000,-;EXT4-fs (nvme0n1p2): recovery complete\n")
        .examine();
    let Some(Verdict::Found(finding)) = both.verdict(id) else {
        panic!("{:?}", both.verdict(id));
    };
    assert_eq!(finding.evidence.len(), 1, "{finding:?}");
    assert!(!finding.evidence[0].source.contains("twice"), "{finding:?}");
}

/// Puts these bytes in the place of those, wherever they are; they have one length.
fn patched(mut recorded: Recorded, from: &[u8], to: &[u8]) -> Recorded {
    assert_eq!(from.len(), to.len());
    let mut whole: Vec<(u64, Vec<u8>)> = Vec::new();
    for (offset, bytes) in recorded.parts {
        match whole.last_mut() {
            Some((begin, before)) if *begin + before.len() as u64 == offset => before.extend(bytes),
            _ => whole.push((offset, bytes)),
        }
    }
    recorded.parts = whole;
    let mut n_found = 0;
    for (_, bytes) in &mut recorded.parts {
        for at in 0..bytes.len().saturating_sub(from.len() - 1) {
            if bytes[at..].starts_with(from) {
                bytes[at..at + from.len()].copy_from_slice(to);
                n_found += 1;
            }
        }
    }
    assert!(n_found > 0, "nothing to replace");
    recorded
}

/// With what was stamped at this second stamped at another one.
fn stamped(recorded: Recorded, from: u64, to: u64) -> Recorded {
    let bytes = |seconds: u64| (seconds * 1_000_000).to_le_bytes();
    patched(recorded, &bytes(from), &bytes(to))
}

/// 2026-03-07 10:00 UTC, four hours after that boot.
const XID_79: u64 = 1_772_877_600;

#[test]
fn entries_of_a_clock_that_was_not_set_yet_have_the_time_that_the_boot_counted() {
    for format in FORMATS {
        // In 1970, three hours early, and nine hours ahead (a clock of local time).
        for wrong in [240, XID_79 - 3 * 3600, XID_79 + 9 * 3600] {
            let patient = with_journal(&stamped(Recorded::of(format), XID_79, wrong));
            let ten = "(2026-03-07 10:00 UTC)";
            patient.has("history.xid", Severity::Warning, ten);
            patient.passes("history.thermal");
        }
        // A stamp of 1970 does not make the journal reach back to it: here nothing else does.
        let of_january = patched(
            Recorded::of(format),
            &1_767_787_200_000_000_u64.to_le_bytes(),
            &1_772_863_200_000_000_u64.to_le_bytes(),
        );
        let of_january = patched(
            of_january,
            &1_767_787_200_000_005_u64.to_le_bytes(),
            &1_772_863_200_000_005_u64.to_le_bytes(),
        );
        with_journal(&stamped(of_january, XID_79, 240))
            .is_not_examined("history.thermal", "last seven days");
    }
}

/// The boot's count stands still while the machine sleeps.
#[test]
fn entries_before_a_sleep_keep_their_time() {
    // At eight, and its neighbour at nine; after two hours of sleep the next one is of noon.
    let early = |recorded| {
        let recorded = stamped(recorded, XID_79, XID_79 - 7200);
        stamped(recorded, XID_79 + 3600, XID_79 - 3600)
    };
    let recorded = early(Recorded::of("regular"));
    with_journal(&recorded).has("history.xid", Severity::Warning, "2026-03-07 10:00 UTC");
    let slept = patched(recorded, b"=usb 1-1: new device", b"=PM: suspend entry (");
    with_journal(&slept).has("history.xid", Severity::Warning, "2026-03-07 08:00 UTC");
}

#[test]
fn a_journal_that_nobody_closed_is_read_too() {
    for format in FORMATS {
        let patient = at_noon();
        // Found open at the boot of 2026-03-08 02:00:05 UTC.
        let name = format!(
            "system@{:016x}-94dae81dda9bbd50.journal~",
            1_772_935_205_000_000_u64
        );
        let path = format!("/var/log/journal/{MACHINE}/{name}");
        Recorded::of(format).write(&patient.tree.path(&path));
        patient.has("history.xid", Severity::Warning, "Xid 79 once");
        patient.has(
            "history.unclean-boot",
            Severity::Warning,
            "2026-03-08 02:00",
        );
        // Beside the one that is being written, which has no word of it.
        let other = stamped(Recorded::of(format), XID_79, 1_772_935_300);
        let other = patched(other, b": 79, pid=7", b": 31, pid=7");
        other.write(&journal_path(&patient));
        patient.has("history.xid", Severity::Warning, "Xid 79 once");
    }
}

/// A regular journal whose words of the kernel lie in other arrays, written behind its end.
fn with_arrays(arrays: impl FnOnce(u64) -> Vec<u8>, length: u64) -> Recorded {
    let mut recorded = Recorded::of("regular");
    let end = recorded.length;
    // The object of `_TRANSPORT=kernel`, and in it the first array.
    let (data, array) = (0x38_fa18_u64, 3_735_624_u64);
    for (offset, bytes) in &mut recorded.parts {
        let at = (data + 48).checked_sub(*offset);
        let at = at.and_then(|at| usize::try_from(at).ok());
        if let Some(place) = at.and_then(|at| bytes.get_mut(at..at + 8)) {
            assert_eq!(place, array.to_le_bytes());
            place.copy_from_slice(&end.to_le_bytes());
        }
    }
    recorded.parts.push((end, arrays(end)));
    recorded.length = length;
    recorded
}

fn array_of(next: u64, items: &[u64]) -> Vec<u8> {
    let length = 24 + 8 * items.len() as u64;
    let words = [6, length, next];
    let words = words.iter().chain(items);
    words.flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn a_chain_of_more_arrays_than_any_journal_has_ends() {
    const ARRAYS: u64 = 200_000;
    let chain = |end: u64| {
        let arrays = (1..=ARRAYS).flat_map(|number| {
            let next = if number < ARRAYS {
                end + number * 32
            } else {
                0
            };
            array_of(next, &[0x39_0458])
        });
        arrays.collect::<Vec<u8>>()
    };
    let recorded = with_arrays(chain, (8 << 20) + ARRAYS * 32);
    check_damaged(&recorded);
    with_journal(&recorded)
        .with("== /dev/kmsg\n6,1,2000000,-;Linux version 6.14.0\n")
        .is_not_examined("history.thermal", "without damage");
    // Twelve are none too many.
    let few = |end: u64| {
        let arrays = (1..=12_u64).flat_map(|number| {
            let next = if number < 12 { end + number * 32 } else { 0 };
            let entries = [0x38_fd90, 0x38_ff60, 0x39_0458, 0x39_2da8];
            let entry = entries[usize::try_from(number / 4).expect("small")];
            array_of(next, &[entry])
        });
        arrays.collect::<Vec<u8>>()
    };
    let recorded = with_arrays(few, (8 << 20) + 12 * 32);
    with_journal(&recorded).has("history.xid", Severity::Warning, "Xid 79");
    with_journal(&recorded).passes("history.thermal");
}

/// Every word of each entry lies far from the one before, so that reading them all takes minutes.
#[test]
fn a_journal_that_takes_too_long_says_how_much_was_read() {
    let slow = |end: u64| {
        let array = array_of(0, &vec![end + (1 << 20); 50_000]);
        let mut bytes = array;
        bytes.resize(1 << 20, 0);
        let length = 64 + 16 * 256_u64;
        let head = [3, length, 1, 1_772_938_800_000_000, 3_600_000_000, 7, 7, 0];
        bytes.extend(head.iter().flat_map(|word| word.to_le_bytes()));
        for number in 0..256_u64 {
            let far = (12 << 20) + (number % 2) * (2 << 20);
            bytes.extend([far, 0].iter().flat_map(|word| word.to_le_bytes()));
        }
        bytes
    };
    let recorded = with_arrays(slow, 16 << 20);
    check_damaged(&recorded);
    let said = "only the newest 0 messages of the kernel were read, in 0.8 s";
    with_journal(&recorded).is_not_examined("history.xid", said);
    // The ring buffer's finding stands, with what it does not say.
    with_journal(&recorded)
        .with("== /dev/kmsg\n4,9,7200000000,-;NVRM: Xid (PCI:000f:01:00): 79, x\n")
        .has("history.xid", Severity::Error, said);
}

#[test]
fn a_journal_of_another_machine_is_left_alone() {
    let patient = with_journal(&Recorded::of("compact"))
        .with("== /etc/machine-id\nffffffffffffffffffffffffffffffff\n");
    patient.is_not_examined("history.xid", "/var/log/kern.log");
}

#[test]
fn journals_with_unknown_flags_are_not_read() {
    let mut recorded = Recorded::of("compact");
    recorded.parts[0].1[12] |= 0x40;
    with_journal(&recorded).is_not_examined("history.xid", "0x5c");
}

/// Examines a damaged journal, without drivers: no panic, and in time.
#[track_caller]
fn check_damaged(recorded: &Recorded) {
    let patient = with_journal(recorded);
    let machine = Machine::read(&Sources::files(patient.tree.root()));
    let facts = Facts::of(patient.tree.root(), machine);
    let begin = Instant::now();
    let report = examine_facts(facts);
    assert!(
        begin.elapsed() < Duration::from_secs(4),
        "{:?}",
        begin.elapsed()
    );
    for id in HISTORY {
        assert_ne!(report.verdict(id), Some(&Verdict::TimedOut), "{id}");
    }
}

/// The file up to its last object, with every array of entries as its own successor.
fn arrays_that_lead_to_themselves(recorded: &Recorded) -> Vec<u8> {
    let end = recorded
        .parts
        .last()
        .map_or(0, |(offset, bytes)| offset + bytes.len() as u64 + 64);
    let mut file = vec![0; usize::try_from(end).expect("megabytes")];
    for (offset, bytes) in &recorded.parts {
        let offset = usize::try_from(*offset).expect("megabytes");
        file[offset..offset + bytes.len()].copy_from_slice(bytes);
    }
    let number = |file: &[u8], at: usize| {
        u64::from_le_bytes(file[at..at + 8].try_into().expect("eight bytes"))
    };
    let mut at = usize::try_from(number(&file, 88)).expect("a header");
    let mut n_arrays = 0;
    while at + 24 <= file.len() && file[at] != 0 {
        let length = usize::try_from(number(&file, at + 8)).expect("an object");
        if file[at] == 6 {
            n_arrays += 1;
            file[at + 16..at + 24].copy_from_slice(&(at as u64).to_le_bytes());
        }
        at += length.next_multiple_of(8);
    }
    assert!(n_arrays > 1, "{n_arrays}");
    file
}

/// Every reference of eight or four bytes made to lead to itself, to an earlier place, far away and nowhere.
#[test]
fn chains_that_lead_in_circles_end() {
    for format in FORMATS {
        let original = Recorded::of(format);
        for target in [0_u64, 8, 0x118, u64::MAX, 1 << 40] {
            let mut recorded = Recorded::of(format);
            for (offset, bytes) in &mut recorded.parts {
                if *offset < 0x100 {
                    continue;
                }
                for word in bytes.chunks_exact_mut(8) {
                    word.copy_from_slice(&target.to_le_bytes());
                }
            }
            check_damaged(&recorded);
        }
        // Each array of entries leads to itself: what came after the first one is not known to be well.
        let recorded = Recorded {
            length: original.length,
            parts: vec![(0, arrays_that_lead_to_themselves(&original))],
        };
        check_damaged(&recorded);
        with_journal(&recorded)
            .with("== /dev/kmsg\n6,1,2000000,-;Linux version 6.14.0\n")
            .is_not_examined("history.thermal", "without damage");
        // It ends in the middle.
        for cut in [0, 7, 8, 100, 208, 300, 4096] {
            let patient = with_journal(&original);
            let file = File::options().write(true).open(journal_path(&patient));
            file.expect("there").set_len(cut).expect("writable");
            patient.is_not_examined("history.xid", "needs");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 4))]

    #[test]
    fn damaged_journals_are_survived(
        is_compact in any::<bool>(),
        damages in proptest::collection::vec((any::<usize>(), any::<usize>(), any::<u8>()), 1..40),
    ) {
        let mut recorded = Recorded::of(FORMATS[usize::from(is_compact)]);
        let n_parts = recorded.parts.len();
        for (part, at, byte) in damages {
            let bytes = &mut recorded.parts[part % n_parts].1;
            let n_bytes = bytes.len();
            bytes[at % n_bytes] = byte;
        }
        check_damaged(&recorded);
    }
}
