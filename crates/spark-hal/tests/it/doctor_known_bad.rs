//! Planted kernels, drivers and firmware that are known to be bad, and tables of administrators.

use spark_hal::doctor::{Severity, Verdict};

use crate::doctor::Patient;
use crate::recorded::machine_names;

fn running(kernel: &str, cmdline: &str) -> Patient {
    Patient::spark().with(&format!(
        "== /proc/sys/kernel/osrelease\n{kernel}\n== /proc/cmdline\nroot=UUID=0123 ro {cmdline}\n"
    ))
}

#[test]
fn platform_kernel() {
    let id = "platform.kernel";
    // The recorded machine's 6.14.0-1013-nvidia: nobody has said anything of that series.
    Patient::spark().is_not_applicable(id, "no row of the table");
    for kernel in ["6.17.0-14-generic", "6.18.3", "7.1.0-1001-nvidia"] {
        running(kernel, "quiet").is_not_applicable(id, kernel);
    }
    running("7.0.0-1019-nvidia", "quiet").has("platform.kernel", Severity::Warning, "#590");
    running("7.0.0-1019-nvidia", "quiet kho=off").passes(id);
    running("7.0.0-1020-nvidia", "quiet").passes(id);
    running("6.17.0-1008-nvidia", "quiet").has(id, Severity::Warning, "forum 366026, 2026-03");
    running("6.17.0-1014-nvidia", "quiet").passes(id);
    Patient::of("plain-pc")
        .with("== /proc/sys/kernel/osrelease\n7.0.0-1019-nvidia\n")
        .is_not_applicable(id, "DGX Spark");
    Patient::spark()
        .without("/proc/sys/kernel/osrelease")
        .is_not_examined(id, "osrelease");
}

#[test]
fn platform_cma() {
    let id = "platform.cma";
    Patient::spark().passes(id);
    let counted = |total: u64, free: u64, kernel: &str, cmdline: &str| {
        running(kernel, cmdline).with(&format!(
            "== /proc/meminfo\nMemTotal: 125513944 kB\nMemAvailable: 118000000 kB\nCmaTotal: {total} kB\n\
             CmaFree: {free} kB\n"
        ))
    };
    let kernel = "7.0.0-1020-nvidia";
    counted(32768, 32768, kernel, "quiet").passes(id);
    // Each of 20 processors may keep 125 pages of the count to itself.
    let most = 20 * 125 * 4;
    for more in [4, 64, most] {
        counted(32768, 32768 + more, kernel, "quiet").passes(id);
    }
    counted(32768, 32768 + most + 4, kernel, "quiet").has(id, Severity::Warning, "CmaFree");
    counted(32768, 32768 + 16 * most, "7.0.0-1020-nvidia-64k", "quiet").passes(id);
    // As two owners counted it: with and without an area of its own.
    counted(0, 9_700_000, kernel, "quiet").has("platform.cma", Severity::Warning, "CmaFree");
    counted(32768, 9_800_000, kernel, "quiet").has(id, Severity::Warning, "add `kho=off`");
    counted(0, 9_700_000, kernel, "kho=on").has(id, Severity::Warning, "take `kho=...` out");
    counted(0, 9_700_000, kernel, "kho=off").has(
        id,
        Severity::Warning,
        "though Kexec HandOver is off",
    );
    let unread = counted(0, 9_700_000, kernel, "").without("/proc/cmdline");
    unread.has(id, Severity::Warning, "cannot be read");
    let text = counted(0, 9_700_000, kernel, "quiet").examine().to_text();
    assert!(!text.contains("UUID"), "{text}");
    Patient::spark()
        .without("/proc/meminfo")
        .is_not_examined(id, "/proc/meminfo");
}

#[test]
fn platform_firmware() {
    let id = "platform.firmware";
    let bios = |version: &str, date: &str| {
        Patient::spark().with(&format!(
            "== /sys/class/dmi/id/bios_version\n{version}\n== /sys/class/dmi/id/bios_date\n{date}\n"
        ))
    };
    bios("5.36_0ACUM018", "08/20/2025").has(
        "platform.firmware",
        Severity::Note,
        "5.36_0ACUM018 of 2025-08-20",
    );
    bios("5.36_0ACUM023", "12/10/2025").passes(id);
    // Older than the one that the row names, as it says "up to".
    bios("5.36_0ACUM009", "06/01/2025").has(id, Severity::Note, "or older");
    // Of firmware of other names and of other vendors nobody has said anything.
    bios("S0QKTOAA", "12/10/2025").is_not_applicable(id, "no row of the table");
    for machine in [
        "gigabyte-ai-top-atom",
        "dell-pro-max-gb10",
        "lenovo-thinkstation-pgx",
    ] {
        Patient::of(machine).is_not_applicable(id, "no row of the table");
    }
    // A row that names one version is of that one alone.
    let exact = own("\"part\": \"bios\", \"vendor\": \"NVIDIA\", \"begins\": \"5.36_0ACUM018\"");
    let with = |version: &str| bios(version, "08/20/2025").with(&exact);
    with("5.36_0ACUM018").has(id, Severity::Error, "it burns");
    with("5.36_0ACUM009").passes(id);
    let asus = |date: &str| {
        Patient::of("asus-ascent-gx10").with(&format!("== /sys/class/dmi/id/bios_date\n{date}\n"))
    };
    asus("01/15/2026").has(id, Severity::Note, "two lanes");
    asus("05/05/2026").passes(id);
    asus("May 2026").is_not_examined(id, "bios_date");
    Patient::spark()
        .without("/sys/class/dmi/id/bios_version")
        .is_not_examined(id, "bios_version");
}

/// An administrator's table of one row.
fn own(row: &str) -> String {
    format!(
        "== /etc/sparkpilot/known-bad.json\n{{\"schema\": \"spark-known-bad/1\", \"updated\": \"2026-12-01\", \
         \"rows\": [{{{row}, \"severity\": \"error\", \"does\": \"it burns\", \"fix\": \"run\", \
         \"source\": \"the owner\", \"date\": \"2026-12-01\"}}]}}\n"
    )
}

#[test]
fn driver_known_bad() {
    let id = "driver.known-bad";
    // No driver stands in the table of this program: nothing is passed that nobody has looked up.
    Patient::spark().is_not_applicable(id, "no row");
    let with = |row: &str| Patient::spark().with(&own(row));
    with("\"part\": \"driver\", \"from\": \"580\", \"before\": \"580.126\"").has(
        "driver.known-bad",
        Severity::Error,
        "it burns",
    );
    with("\"part\": \"driver\", \"before\": \"580.95.05\"").passes(id);
    // The administrator's table stands in place of the other.
    with("\"part\": \"driver\", \"from\": \"900\"")
        .is_not_applicable("platform.kernel", "2026-12-01");
}

#[test]
fn network_firmware() {
    let id = "network.firmware";
    let adapters = |version: &str| {
        let mut patient = Patient::spark();
        for (function, device) in [
            ("0000:01:00.0", "rocep1s0f0"),
            ("0000:01:00.1", "rocep1s0f1"),
            ("0002:01:00.0", "roceP2p1s0f0"),
            ("0002:01:00.1", "roceP2p1s0f1"),
        ] {
            patient = patient.with(&format!(
                "== /sys/bus/pci/devices/{function}/infiniband/{device}/fw_ver\n{version}\n"
            ));
        }
        patient
    };
    adapters("28.45.4028").passes(id);
    adapters("22.39.1002").is_not_applicable(id, "22.39.1002");
    adapters("28.38.1002").has("network.firmware", Severity::Warning, "28.38.1002");
    adapters("28.45.4028")
        .with("== /sys/bus/pci/devices/0002:01:00.1/infiniband/roceP2p1s0f1/fw_ver\n28.39.1002\n")
        .has(id, Severity::Warning, "0002:01:00.1");
    Patient::spark().is_not_examined(id, "fw_ver");
}

#[test]
fn embedded_controllers_are_held_against_the_table() {
    let row = own("\"part\": \"ec\", \"before\": \"2.4\"");
    let with = |version: &str| {
        Patient::spark().with(&row).with(&format!(
            "== /sys/class/dmi/id/ec_firmware_release\n{version}\n"
        ))
    };
    with("2.3").has("platform.firmware", Severity::Error, "ec_firmware_release");
    with("2.4").passes("platform.firmware");
}

#[test]
fn platform_known_bad_table() {
    let id = "platform.known-bad-table";
    Patient::spark().is_not_applicable(id, "/etc/sparkpilot/known-bad.json");
    let patient = Patient::spark().with(&own("\"part\": \"bios\", \"begins\": \"9\""));
    patient.passes(id);
    for content in [
        "",
        "{",
        "{\"schema\": \"spark-known-bad/9\"}",
        "\u{1}\u{0}x",
    ] {
        let patient =
            Patient::spark().with(&format!("== /etc/sparkpilot/known-bad.json\n{content}\n"));
        patient.has("platform.known-bad-table", Severity::Error, "mend");
        // No other table is taken in silence.
        for other in [
            "platform.kernel",
            "platform.firmware",
            "driver.known-bad",
            "network.firmware",
        ] {
            patient.is_not_examined(other, "platform.known-bad-table");
        }
    }
    let folder = Patient::spark().with("== /etc/sparkpilot/known-bad.json/x\n\n");
    folder.has(id, Severity::Error, "not a regular file");
}

#[test]
fn driver_open_module() {
    let id = "driver.open-module";
    Patient::spark().passes(id);
    let banner = |words: &str| {
        Patient::spark().with(&format!(
            "== /proc/driver/nvidia/version\nNVRM version: NVIDIA UNIX {words}  580.173.02  Wed\nGCC version: x\n"
        ))
    };
    banner("Open Kernel Module for aarch64").passes(id);
    banner("aarch64 Kernel Module").has(id, Severity::Warning, "works here and now");
    banner("aarch64 Kernel Module").silent().has(
        "driver.open-module",
        Severity::Error,
        "nvidia-driver-580-open",
    );
    banner("something").is_not_examined(id, "which module");
    Patient::spark()
        .without("/proc/driver/nvidia/version")
        .is_not_examined(id, "loaded driver");
    Patient::of("rtx-4090-pc")
        .with("== /proc/driver/nvidia/version\nNVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  x\n")
        .is_not_applicable(id, "DGX Spark");
}

/// The firmware of a virtual machine says whatever its maker likes.
#[test]
fn a_qemu_on_x86_that_says_dgx_spark_is_in_doubt() {
    Patient::of("plain-pc")
        .with(
            "== /sys/class/dmi/id/product_family\nDGX Spark\n== /sys/class/dmi/id/sys_vendor\nQEMU\n\
             == /sys/class/dmi/id/product_name\nStandard PC (Q35 + ICH9, 2009)\n",
        )
        .has("platform.identity", Severity::Warning, "none of Arm");
    Patient::spark().passes("platform.identity");
}

#[test]
fn no_recorded_machine_has_more_than_a_note() {
    for machine in machine_names() {
        let report = Patient::of(&machine).examine();
        for id in [
            "platform.known-bad-table",
            "platform.kernel",
            "platform.firmware",
            "platform.cma",
            "driver.known-bad",
            "driver.open-module",
            "driver.next-kernel",
            "network.firmware",
        ] {
            if let Some(Verdict::Found(finding)) = report.verdict(id) {
                assert_eq!(
                    finding.severity,
                    Severity::Note,
                    "{machine}: {id}: {finding:?}"
                );
            }
        }
    }
}
