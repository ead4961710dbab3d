//! What the doctor reads in logs: planted events with dates, healthy twins without, and logs that say nothing.

use std::fs;
use std::time::{Duration, Instant};

use spark_hal::doctor::{Severity, Verdict};

use crate::doctor::{Patient, has};

/// 2026-03-08 12:00 UTC.
const NOW: i64 = 1_772_971_200;
/// 2026-03-08 02:00 UTC: the machine has run for ten hours.
const BOOT: i64 = NOW - 36_000;

pub(crate) const HISTORY: [&str; 6] = [
    "memory.kernel-log",
    "history.xid",
    "history.oom",
    "history.pcie-errors",
    "history.thermal",
    "history.unclean-boot",
];

/// A Spark at this time, that has run for ten hours.
pub(crate) fn at_noon() -> Patient {
    Patient::spark().with(&format!(
        "== /proc/stat\ncpu  1 2 3\nbtime {BOOT}\n== /proc/uptime\n36000.12 700000.00\n"
    ))
}

/// With a kern.log of these lines, and one of the running boot.
fn logged(lines: &str) -> Patient {
    at_noon().with(&format!(
        "== /var/log/kern.log\n2026-02-01T00:00:00+00:00 spark-1234 kernel: Linux version 6.14.0\n{lines}\
         2026-03-08T02:00:03.000001+00:00 spark-1234 kernel: [    3.000001] Linux version 6.14.0\n"
    ))
}

/// A line of this day and these words.
fn line(day: &str, words: &str) -> String {
    format!("{day}T10:00:00.123456+00:00 spark-1234 kernel: [ 1234.567890] {words}\n")
}

const TODAY: &str = "2026-03-08";
/// Before the machine was booted.
const RECENT: &str = "2026-03-07";
const OLD: &str = "2026-01-05";

/// The words are a finding of this severity in the running boot, a warning at most in the days before it, and a
/// note with their date later.
#[track_caller]
fn check(id: &str, severity: Severity, words: &str, shown: &str) {
    let ages = [
        (TODAY, severity, "2026-03-08 10:00 UTC"),
        (
            RECENT,
            severity.min(Severity::Warning),
            "before the machine was booted",
        ),
        (
            RECENT,
            severity.min(Severity::Warning),
            "2026-03-07 10:00 UTC",
        ),
        (OLD, Severity::Note, "not since 2026-01-05 10:00 UTC"),
    ];
    for (day, severity, date) in ages {
        let report = logged(&line(day, words)).examine();
        has(&report, id, severity, shown);
        has(&report, id, severity, date);
        assert!(
            !report.to_text().contains("spark-1234"),
            "host names are left out"
        );
        for other in HISTORY.iter().filter(|other| **other != id) {
            assert_eq!(report.verdict(other), Some(&Verdict::Passed), "{other}");
        }
    }
}

#[test]
fn healthy_logs_pass() {
    let quiet = line(RECENT, "nothing to see").repeat(100_000);
    let report = logged(&quiet).examine();
    for id in HISTORY {
        assert_eq!(report.verdict(id), Some(&Verdict::Passed), "{id}");
    }
}

#[test]
fn memory_kernel_log() {
    has(
        &logged(&line(
            TODAY,
            "NVRM: nvAssertOkFailedNoLog: Assertion failed: Out of memory [NV_ERR_NO_MEMORY] (0x51) \
             returned from _memdescAllocInternal(pMemDesc) @ mem_desc.c:1359",
        ))
        .examine(),
        "memory.kernel-log",
        Severity::Error,
        "NV_ERR_NO_MEMORY",
    );
    check(
        "memory.kernel-log",
        Severity::Error,
        "NVRM: Check failed: Out of memory [NV_ERR_NO_MEMORY] (0x51) @ mem_desc.c:1359",
        "ran out of memory once",
    );
}

#[test]
fn history_xid() {
    let xid = |number: u32| format!("NVRM: Xid (PCI:000f:01:00): {number}, pid=7, name=python3, x");
    check(
        "history.xid",
        Severity::Warning,
        &xid(31),
        "a program's fault",
    );
    check("history.xid", Severity::Error, &xid(79), "unplug the power");
    check("history.xid", Severity::Error, &xid(119), "GSP RPC timeout");
    check("history.xid", Severity::Error, &xid(48), "a memory fault");
    check(
        "history.xid",
        Severity::Warning,
        &xid(999),
        "look the number up",
    );
    let both =
        line(TODAY, &xid(31)).repeat(3) + &line(TODAY, &xid(79)) + &line(OLD, &xid(95)).repeat(2);
    let report = logged(&both).examine();
    has(&report, "history.xid", Severity::Error, "Xid 79 once");
    has(&report, "history.xid", Severity::Error, "Xid 31 3 times");
    // What the driver itself asks for.
    for (wanted, severity, shown) in [
        ("0x0 (None)", Severity::Note, "nothing to mend"),
        ("0x1 (GPU Reset Required)", Severity::Error, "reboot"),
        ("0x2 (Node Reboot Required)", Severity::Error, "reboot"),
    ] {
        let words = format!(
            "NVRM: Xid (PCI:000f:01:00): 154, GPU recovery action changed from 0x0 (None) to {wanted}"
        );
        let report = logged(&line(TODAY, &words)).examine();
        has(&report, "history.xid", severity, shown);
    }
    // What is worse comes first, though it was before the boot.
    let both = line(TODAY, &xid(43)) + &line(RECENT, &xid(79));
    let report = logged(&both).examine();
    has(
        &report,
        "history.xid",
        Severity::Warning,
        "unplug the power",
    );
}

#[test]
fn history_oom() {
    check(
        "history.oom",
        Severity::Warning,
        "Out of memory: Killed process 4242 (python3) total-vm:130000000kB, anon-rss:120000000kB",
        "the machine had no memory left: python3",
    );
    check(
        "history.oom",
        Severity::Warning,
        "Memory cgroup out of memory: Killed process 4242 (VLLM::Worker) total-vm:1kB",
        "MemoryMax",
    );
}

#[test]
fn history_pcie_errors() {
    let error = |severity: &str| {
        format!(
            "mlx5_core 0000:01:00.0: AER: PCIe Bus Error: severity={severity}, type=Transaction Layer"
        )
    };
    check(
        "history.pcie-errors",
        Severity::Error,
        &error("Uncorrectable (Fatal)"),
        "0000:01:00.0",
    );
    check(
        "history.pcie-errors",
        Severity::Warning,
        &error("Uncorrected (Non-Fatal)"),
        "0000:01:00.0",
    );
    check(
        "history.pcie-errors",
        Severity::Note,
        &error("Corrected"),
        "0000:01:00.0",
    );
}

#[test]
fn history_thermal() {
    check(
        "history.thermal",
        Severity::Error,
        "thermal thermal_zone0: acpitz: critical temperature reached",
        "switched the machine off",
    );
    check(
        "history.thermal",
        Severity::Warning,
        "mlx5_core 0000:01:00.0: temp_warn:250:(pid 0): High temperature on sensors with bit set 0 1",
        "ran slower or warned",
    );
}

#[test]
fn history_unclean_boot() {
    let id = "history.unclean-boot";
    let at = |stamp: &str, counted: &str, words: &str| {
        logged(&format!(
            "{stamp}+00:00 spark-1234 kernel: [{counted}] {words}\n"
        ))
    };
    let disk = "EXT4-fs (nvme0n1p2): recovery complete";
    for (stamp, severity) in [
        ("2026-03-08T02:00:02", Severity::Warning),
        ("2026-03-07T10:00:02", Severity::Warning),
        ("2026-01-05T10:00:02", Severity::Note),
    ] {
        let patient = at(stamp, "    2.000001", disk);
        patient.has(id, severity, "stopped without shutting down");
        // Hours after a boot it is a disk that somebody mounted.
        at(stamp, "28800.000001", disk).passes(id);
    }
    at("2026-03-08T10:00:00", "28800.000001", disk).passes(id);
    let machine = "0123456789abcdef0123456789abcdef";
    let words = format!(
        "systemd-journald[312]: File /var/log/journal/{machine}/system.journal corrupted or uncleanly shut down, renaming"
    );
    let patient = at("2026-03-07T10:00:02", "    2.000001", &words);
    patient.has(
        "history.unclean-boot",
        Severity::Warning,
        "uncleanly shut down",
    );
    let report = patient.examine();
    assert!(
        !report.to_json().contains(machine),
        "the machine's number is left out"
    );
}

/// January's line is not today's error, whatever the year says.
#[test]
fn dates_without_a_year_are_of_the_last_one_that_fits() {
    let words =
        "spark-1234 kernel: [ 1.5] NVRM: Xid (PCI:000f:01:00): 79, GPU has fallen off the bus.";
    let log = |stamp: &str| {
        at_noon().with(&format!(
            "== /var/log/kern.log\n{stamp} {words}\nMar  8 02:00:03 spark-1234 kernel: [ 3.0] Linux version\n"
        ))
    };
    let id = "history.xid";
    has(
        &log("Mar  6 10:00:00").examine(),
        id,
        Severity::Warning,
        "2026-03-06",
    );
    has(
        &log("Jan  6 10:00:00").examine(),
        id,
        Severity::Note,
        "2026-01-06",
    );
    has(
        &log("Mar 20 10:00:00").examine(),
        id,
        Severity::Note,
        "2025-03-20",
    );
    // No time at all: it may be of today.
    let undated = at_noon().with(&format!("== /var/log/kern.log\n{words}\n"));
    has(&undated.examine(), id, Severity::Warning, "no dates");
}

#[test]
fn the_log_before_its_rotation_is_read_too() {
    let words = line(
        RECENT,
        "NVRM: Xid (PCI:000f:01:00): 79, GPU has fallen off the bus.",
    );
    let patient = logged("").with(&format!("== /var/log/kern.log.1\n{words}"));
    patient.has("history.xid", Severity::Warning, "2026-03-07");
}

#[test]
fn of_syslog_only_the_kernel_is_believed() {
    let words = "NVRM: Xid (PCI:000f:01:00): 79, GPU has fallen off the bus.";
    let boot = "2026-02-01T02:00:03+00:00 h kernel: [ 3.0] x\n2026-03-08T02:00:03+00:00 h kernel: [ 3.0] x\n";
    let log = |tag: &str| {
        at_noon().with(&format!(
            "== /var/log/syslog\n{RECENT}T10:00:00+00:00 h {tag}: {words}\n{boot}"
        ))
    };
    log("kernel").has("history.xid", Severity::Warning, "79");
    log("app[7]").passes("history.xid");
}

#[test]
fn the_ring_buffer_tells_of_the_running_boot_alone() {
    let ring = |words: &str| {
        at_noon().with(&format!(
            "== /dev/kmsg\n6,0,0,-;Linux version 6.14.0\n SUBSYSTEM=x\n4,900,7200000000,-;{words}\n"
        ))
    };
    ring("NVRM: Xid (PCI:000f:01:00): 79, x").has(
        "history.xid",
        Severity::Error,
        "2026-03-08 04:00 UTC",
    );
    // A freeze of yesterday would be in a log of yesterday.
    ring("nothing").is_not_examined("history.xid", "last seven days");
}

#[test]
fn one_event_in_two_logs_is_one() {
    let words = "NVRM: Xid (PCI:000f:01:00): 79, GPU has fallen off the bus.";
    let patient = at_noon().with(&format!(
        "== /var/log/kern.log\n2026-03-01T04:00:00+00:00 h kernel: x\n2026-03-08T04:00:00+00:00 h kernel: {words}\n\
         == /dev/kmsg\n6,0,0,-;Linux version 6.14.0\n4,900,7200900000,-;{words}\n"
    ));
    patient.has("history.xid", Severity::Error, "Xid 79 once");
    // What the log on the disk does not reach is in the buffer.
    let patient =
        patient.with("== /dev/kmsg\n4,901,18000000000,-;NVRM: Xid (PCI:000f:01:00): 119, x\n");
    patient.has("history.xid", Severity::Error, "Xid 119 once");
}

#[test]
fn logs_that_do_not_tell_of_today_prove_nothing() {
    let id = "history.xid";
    at_noon().is_not_examined(id, "/var/log/kern.log");
    at_noon()
        .with("== /var/log/kern.log\n\n")
        .is_not_examined(id, "empty");
    let january = line(OLD, "nothing to see");
    at_noon()
        .with(&format!("== /var/log/kern.log\n{january}"))
        .is_not_examined(id, "ends before it");
    // Without a time of the boot nobody knows what is recent.
    Patient::spark()
        .with(&format!("== /var/log/kern.log\n{january}"))
        .is_not_examined(id, "btime");
    // What dmesg left at boot ends there.
    at_noon()
        .with("== /var/log/dmesg\n[    0.000000] kernel: Linux version 6.14.0\n")
        .is_not_examined(id, "running boot");
    // Eight megabytes of today hide yesterday.
    let today = line("2026-03-08", "nothing to see").repeat(120_000);
    at_noon()
        .with(&format!("== /var/log/kern.log\n{today}"))
        .is_not_examined(id, "last seven days");
    let container = logged("").with("== /.dockerenv\n");
    container.is_not_examined(id, "container");
}

/// An adapter that repeats itself ten thousand times hides no other event.
#[test]
fn what_is_said_over_and_over_hides_nothing() {
    let noise = "pcieport 0000:00:00.0: AER: Correctable error message received from 0000:01:00.0";
    let xid = line(
        TODAY,
        "NVRM: Xid (PCI:000f:01:00): 79, GPU has fallen off the bus.",
    );
    let report = logged(&(xid + &line(TODAY, noise).repeat(40_000))).examine();
    has(&report, "history.xid", Severity::Error, "Xid 79 once");
    has(
        &report,
        "history.pcie-errors",
        Severity::Note,
        "2000 times or more",
    );
    // Of more processes than are kept, nothing else is said to be well.
    let killed = (0..600).map(|number| {
        let words = format!("Out of memory: Killed process 1 (p{number}) total-vm:1kB");
        line(TODAY, &words)
    });
    let report = logged(&killed.collect::<String>()).examine();
    has(&report, "history.oom", Severity::Warning, "512 times");
    assert!(matches!(
        report.verdict("history.xid"),
        Some(Verdict::NotExamined(_))
    ));
}

/// Lines of ten megabytes, a gigabyte of holes, and bytes that are no text.
#[test]
fn logs_that_are_no_logs_are_survived_in_time() {
    let xid = line(
        TODAY,
        "NVRM: Xid (PCI:000f:01:00): 79, GPU has fallen off the bus.",
    );
    let place = |patient: &Patient| patient.tree.path("/var/log/kern.log");
    let id = "history.xid";
    let examined = |patient: &Patient| {
        let begin = Instant::now();
        let report = patient.examine();
        assert!(
            begin.elapsed() < Duration::from_secs(4),
            "{:?}",
            begin.elapsed()
        );
        report
    };
    // The end of the long line is in the part that is read, and the line after it whole.
    let long = logged(&format!("{}\n{xid}", "x".repeat(10 << 20)));
    has(&examined(&long), id, Severity::Error, "Xid 79 once");
    let long = logged(&line(
        TODAY,
        &format!("NVRM: Xid (PCI:000f:01:00): 31, {}", "y".repeat(7 << 20)),
    ));
    has(&examined(&long), id, Severity::Warning, "Xid 31 once");
    let holes = logged(&xid);
    let file = fs::OpenOptions::new()
        .write(true)
        .open(place(&holes))
        .unwrap();
    file.set_len(1 << 30).unwrap();
    let report = examined(&holes);
    assert!(
        matches!(report.verdict(id), Some(Verdict::NotExamined(_))),
        "{:?}",
        report.verdict(id)
    );
    let garbage = logged("");
    let mut bytes: Vec<u8> = (0..3_000_000_u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    bytes.push(b'\n');
    bytes.extend(xid.as_bytes());
    fs::write(place(&garbage), bytes).unwrap();
    has(&examined(&garbage), id, Severity::Error, "Xid 79 once");
}

#[test]
fn a_record_holds_no_log() {
    let words = "NVRM: Xid (PCI:000f:01:00): 79, GPU has fallen off the bus.";
    let record = spark_hal::record(&logged(&line(TODAY, words)).tree.root());
    assert!(
        !record.contains("Xid") && !record.contains("/var/log"),
        "{record}"
    );
    let copy = crate::recorded::Tree::empty();
    copy.add(&record);
    let machine = spark_hal::Machine::read(&spark_hal::Sources::files(copy.root()));
    let facts = spark_hal::doctor::Facts::of(copy.root(), machine);
    let report = spark_hal::doctor::examine_facts(facts);
    for id in HISTORY {
        let verdict = report.verdict(id);
        assert!(
            matches!(verdict, Some(Verdict::NotExamined(_))),
            "{id}: {verdict:?}"
        );
    }
}
