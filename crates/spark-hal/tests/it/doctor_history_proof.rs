//! Logs that contradict each other, lie about the time, or do not prove what they seem to.

use spark_hal::doctor::{Facts, Severity, Verdict, examine_facts};
use spark_hal::{Machine, Sources};

use crate::doctor::{Patient, has};
use crate::doctor_history::at_noon;

const ID: &str = "history.xid";
const LOST: &str = "NVRM: Xid (PCI:000f:01:00): 79, GPU has fallen off the bus.";
const BEGIN: &str = "2026-02-01T00:00:00+00:00 h kernel: Linux version 6.14.0\n";
const BOOTED: &str = "2026-03-08T02:00:03+00:00 h kernel: [    3.000001] Linux version 6.14.0\n";

fn kern_log(lines: &str) -> Patient {
    at_noon().with(&format!("== /var/log/kern.log\n{lines}"))
}

#[test]
fn a_log_that_reaches_over_a_time_hides_no_event_of_another() {
    let syslog = kern_log(&format!(
        "{BEGIN}{BOOTED}2026-03-08T11:00:00+00:00 h kernel: x\n"
    ));
    syslog.passes(ID);
    // At 04:00, as the ring buffer alone tells.
    syslog
        .with(&format!(
            "== /dev/kmsg\n6,0,0,-;x\n4,9,7200000000,-;{LOST}\n"
        ))
        .has(ID, Severity::Error, "Xid 79 once");
}

#[test]
fn a_line_of_2036_dates_nothing() {
    let future = "2036-01-01T00:00:00+00:00 h kernel: ";
    kern_log(&format!("{BEGIN}{future}x\n")).is_not_examined(ID, "ends before it");
    kern_log(&format!("{BEGIN}{BOOTED}{future}x\n")).passes(ID);
    kern_log(&format!("{BEGIN}{BOOTED}{future}{LOST}\n")).has(ID, Severity::Warning, "no dates");
}

#[test]
fn the_ring_buffer_knows_when_a_clock_did_not() {
    let early = "2026-01-01T00:00:09+00:00 h kernel: [    9.123456] ";
    let patient = kern_log(&format!("{BEGIN}{early}{LOST}\n{BOOTED}"));
    patient.has(ID, Severity::Note, "not since 2026-01-01");
    patient
        .with(&format!("== /dev/kmsg\n6,0,0,-;x\n4,9,9123456,-;{LOST}\n"))
        .has(ID, Severity::Error, "Xid 79 once");
}

#[test]
fn a_log_that_begins_later_does_not_reach_back() {
    let begins = |day: &str| kern_log(&format!("{day}T10:00:00+00:00 h kernel: x\n{BOOTED}"));
    begins("2026-03-01").passes(ID);
    begins("2026-03-02").is_not_examined(ID, "last seven days");
    // What lies between is in a file of another name.
    begins("2026-03-01")
        .with("== /var/log/kern.log-20260307\nx\n")
        .is_not_examined(ID, "last seven days");
}

#[test]
fn of_lines_that_are_not_known_nothing_is_known() {
    let foreign =
        "2026-02-01T00:00:00+00:00 h x\n<4>1 2026-03-08T04:00:00Z h kernel - - - NVRM: x\n";
    kern_log(foreign).is_not_examined(ID, "known as the kernel's");
    let caller = format!("2026-03-08T09:59:57+00:00 h kernel: [28797.100000][ T1234] {LOST}\n");
    kern_log(&format!("{BEGIN}{BOOTED}{caller}")).has(ID, Severity::Error, "Xid 79 once");
    let bare = kern_log(&format!("{BEGIN}{BOOTED}[28797.1][ T1234] {LOST}\n"));
    bare.has(ID, Severity::Error, "Xid 79 once");
}

#[test]
fn a_log_whose_writer_died_does_not_reach_now() {
    // Booted on 2026-02-20, three weeks ago.
    let lines = "2026-02-19T00:00:00+00:00 h kernel: x\n2026-02-20T12:00:03+00:00 h kernel: x\n";
    let clock = "== /proc/stat\nbtime 1771588800\n== /proc/uptime\n1382400.00 1.00\n";
    let patient = || kern_log(lines).with(clock);
    patient().is_not_examined(ID, "to now");
    patient()
        .with("== /var/log/syslog\n2026-03-08T11:00:00+00:00 h app[1]: x\n")
        .passes(ID);
    patient().with("== /dev/kmsg\n6,0,0,-;x\n").passes(ID);
    // The buffer was overwritten, and begins yesterday.
    patient()
        .with("== /dev/kmsg\n6,9000,1300000000000,-;x\n")
        .is_not_examined(ID, "to now");
}

#[test]
fn other_words_for_a_lost_gpu() {
    let says = |words: &str| {
        kern_log(&format!(
            "{BEGIN}{BOOTED}2026-03-08T10:00:00+00:00 h kernel: {words}\n"
        ))
    };
    says("NVRM: GPU 000f:01:00.0: RmInitAdapter failed! (0x23:0x65:1426)").has(
        ID,
        Severity::Error,
        "cannot reach or start",
    );
    says("NVRM: GPU 000f:01:00.0: GPU has fallen off the bus.").has(ID, Severity::Error, "power");
    says("NVRM: loading NVIDIA UNIX Open Kernel Module").passes(ID);
}

#[test]
fn a_stamp_without_a_zone_near_the_boot_does_not_say_which_boot() {
    let log = |stamp: &str, counted: &str| {
        kern_log(&format!(
            "{BEGIN}{stamp} h kernel: {counted}{LOST}\n{BOOTED}"
        ))
    };
    log("Mar  8 04:00:00", "").has(ID, Severity::Warning, "no dates");
    log("2026-03-07T20:00:00", "").has(ID, Severity::Warning, "no dates");
    // Two hours after the boot, on a clock that is seven hours behind UTC.
    log("Mar  7 21:00:00", "[ 7200.000000] ").has(ID, Severity::Error, "2026-03-08 04:00 UTC");
    log("Mar  5 21:00:00", "[ 7200.000000] ").has(ID, Severity::Warning, "before the machine");
}

#[test]
fn a_spark_without_its_gpu_on_the_bus_is_ill() {
    let gone = kern_log(&format!(
        "{BEGIN}{BOOTED}2026-03-08T10:00:00+00:00 h kernel: {LOST}\n"
    ));
    let gpu = gone.tree.path("/sys/bus/pci/devices/000f:01:00.0");
    let healthy = gone.examine();
    assert!(!healthy.to_json().contains("gone from the PCI bus"));
    std::fs::remove_dir_all(gpu).expect("the GPU's folder");
    let machine = Machine::read(&Sources::files(gone.tree.root()));
    let report = examine_facts(Facts::of(gone.tree.root(), machine));
    for id in ["gpu.usable", ID] {
        let verdict = report.verdict(id);
        let is_error =
            matches!(verdict, Some(Verdict::Found(found)) if found.severity == Severity::Error);
        assert!(is_error, "{id}: {verdict:?}");
    }
}

/// The module stays loaded when the GPU falls off the bus: `driver.loaded` is right that it is, and `gpu.usable` says what is wrong.
#[test]
fn a_driver_that_is_loaded_has_no_gpu_on_the_bus() {
    let examined = |is_loaded: bool, is_gone: bool| {
        let patient = at_noon();
        if !is_loaded {
            let _ = std::fs::remove_file(patient.tree.path("/proc/driver/nvidia/version"));
            let _ = std::fs::remove_file(patient.tree.path("/sys/module/nvidia/version"));
        }
        if is_gone {
            let gpu = patient.tree.path("/sys/bus/pci/devices/000f:01:00.0");
            std::fs::remove_dir_all(gpu).expect("the GPU's folder");
        }
        let machine = Machine::read(&Sources::files(patient.tree.root()));
        assert_eq!(machine.stack.driver.is_value(), is_loaded);
        examine_facts(Facts::of(patient.tree.root(), machine))
    };
    let gone = "gone from the PCI bus";
    let report = examined(true, true);
    assert_eq!(report.verdict("driver.loaded"), Some(&Verdict::Passed));
    has(&report, "gpu.usable", Severity::Error, "GPU");
    let both = examined(false, true);
    has(&both, "driver.loaded", Severity::Error, gone);
    // The healthy twin: the device is there.
    let there = examined(true, false);
    assert_eq!(there.verdict("driver.loaded"), Some(&Verdict::Passed));
    assert!(!there.to_json().contains(gone));
    has(
        &examined(false, false),
        "driver.loaded",
        Severity::Error,
        "no driver for it is loaded",
    );
}
