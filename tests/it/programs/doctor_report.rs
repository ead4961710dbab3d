//! `sparkpilot doctor --report` and `--hardware`: what people paste and tick, of planted machines and of this one.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{Folder, Outcome, Program};

fn doctor(args: &[&str]) -> Outcome {
    program(args).run()
}

fn program(args: &[&str]) -> Program {
    Program::at(Path::new(env!("CARGO_BIN_EXE_sparkpilot")))
        .args(["doctor"])
        .args(args)
        .env("HOME", "/home/mallory")
        .env("USER", "mallory")
}

/// A Spark whose log, names and serial numbers name it; the loaded driver is not the installed one.
const PLANTED: &str = "\
== /sys/class/dmi/id/product_family
DGX Spark
== /sys/class/dmi/id/sys_vendor
NVIDIA
== /sys/class/dmi/id/product_serial
PF0ABCDE
== /sys/bus/pci/devices/000f:01:00.0/vendor
0x10de
== /sys/bus/pci/devices/000f:01:00.0/device
0x2e12
== /sys/bus/pci/devices/000f:01:00.0/class
0x030000
== /sys/module/nvidia/version
580.95.05
== /usr/lib/aarch64-linux-gnu/libcuda.so.580.126.09
== /usr/lib/aarch64-linux-gnu/libcuda.so.1 -> libcuda.so.580.126.09
== /usr/lib/aarch64-linux-gnu/libcublas.so.13.1.0.3
== /proc/sys/kernel/hostname
hidden-host-77.example.org
== /etc/machine-id
0f1e2d3c4b5a69788796a5b4c3d2e1f0
== /sys/class/net/enP7s7/address
4c:bb:47:0a:0b:0c
== /var/log/kern.log
2026-03-01T10:00:00 hidden-host-77 kernel: NVRM: NV_ERR_NO_MEMORY mem_desc.c PF0ABCDE 4c:bb:47:0a:0b:0c 203.0.113.77 mallory ``` #1
";

/// What makes it a container of LXC with little shared memory.
const LXC: &str = "\
== /run/systemd/container
lxc
== /proc/self/mounts
shm /dev/shm tmpfs rw,size=65536k 0 0
";

const SECRETS: [&str; 7] = [
    "hidden-host-77",
    "example.org",
    "PF0ABCDE",
    "0f1e2d3c4b5a69788796a5b4c3d2e1f0",
    "4c:bb:47:0a:0b:0c",
    "203.0.113.77",
    "mallory",
];

fn planted() -> (Folder, String) {
    let folder = Folder::new();
    let path = folder.write("machine.txt", PLANTED);
    (folder, path.to_string_lossy().into_owned())
}

#[test]
fn a_report_has_all_that_others_need_and_nothing_that_names_the_machine() {
    let (folder, record) = planted();
    let outcome = doctor(&["--report", "--from", &record]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let report = &outcome.stdout;
    for wanted in [
        concat!("## sparkpilot doctor ", env!("CARGO_PKG_VERSION")),
        "DGX Spark",
        "source     a record",
        "NV_ERR_NO_MEMORY",
        "not examined",
        "passed          ",
        "580.126.09",
        "cuBLAS        13.1.0.3",
    ] {
        assert!(report.contains(wanted), "{wanted}: {report}");
    }
    for secret in SECRETS {
        assert!(!report.contains(secret), "{secret}: {report}");
    }
    let container = folder.write("lxc.txt", [PLANTED, LXC].concat());
    let container = doctor(&["--report", "--from", &container.to_string_lossy()]).stdout;
    assert!(
        container.contains("container  LXC: /run/systemd/container = lxc"),
        "{container}"
    );
    assert!(container.contains("container.shm: "), "{container}");
    // Every block is closed, and nothing of the machine stands outside of one.
    let fences: Vec<&str> = report
        .lines()
        .filter(|line| line.starts_with("```"))
        .collect();
    assert_eq!(fences.len(), 8, "{report}");
    let mut is_inside = false;
    for line in report.lines() {
        if line.starts_with("```") {
            is_inside = !is_inside;
        } else if !is_inside {
            assert!(line.is_empty() || line.starts_with('#'), "{line}");
        }
    }
    // In a file the same, and nothing on stdout.
    let file = folder.path("report.md");
    let path = file.to_string_lossy();
    let written = doctor(&["--report", "--from", &record, "--output", &path]);
    assert_eq!((written.code, &*written.stdout), (Some(0), ""));
    assert_eq!(fs::read_to_string(&file).unwrap(), *report);
    let strict = doctor(&["--report", "--strict", "--from", &record]);
    assert_eq!((strict.code, &strict.stdout), (Some(1), report));
}

#[test]
fn a_report_of_this_machine_names_neither_it_nor_its_user() {
    let outcome = doctor(&["--report"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(outcome.stdout.contains("source     the machine itself"));
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    if host.len() > 6 {
        assert!(!outcome.stdout.contains(host), "{}", outcome.stdout);
    }
    assert!(!outcome.stdout.contains("mallory"), "{}", outcome.stdout);
    assert!(outcome.files.is_empty());
}

#[test]
fn the_checklist_ends_with_1_if_something_has_failed() {
    let (folder, record) = planted();
    let failed = doctor(&["--hardware", "--from", &record]);
    assert_eq!(failed.code, Some(1), "{}", failed.stderr);
    let text = &failed.stdout;
    assert!(
        text.contains("  failed    driver and libraries fit"),
        "{text}"
    );
    assert!(
        text.contains("sparkpilot doctor --verify") && text.contains("sparkpilot doctor --load"),
        "{text}"
    );
    let json = doctor(&["--hardware", "--json", "--from", &record]);
    assert_eq!(json.code, Some(1), "{}", json.stderr);
    let value: Value = serde_json::from_str(&json.stdout).expect("JSON and nothing else");
    assert_eq!(value["schema"], "sparkpilot-hardware/1");
    assert_eq!(value["counts"]["failed"], 1, "{value:#}");
    // Its twin has one driver.
    let healthy = PLANTED.replace("580.126.09", "580.95.05");
    let healthy = folder.write("healthy.txt", healthy);
    let done = doctor(&["--hardware", "--from", &healthy.to_string_lossy()]);
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
    assert!(
        done.stdout.contains("  done      driver and libraries fit"),
        "{}",
        done.stdout
    );
    // Of this machine, whatever it is, the count at the end is that of the items.
    let here = doctor(&["--hardware"]);
    assert!(matches!(here.code, Some(0 | 1)), "{}", here.stderr);
    let n = |word: &str| {
        here.stdout
            .lines()
            .filter(|line| line.starts_with(&format!("  {word} ")))
            .count()
    };
    let last = here.stdout.lines().last().unwrap_or_default();
    let wanted = format!(
        "{} done, {} failed, {} by hand, {} not here",
        n("done"),
        n("failed"),
        n("by hand"),
        n("not here")
    );
    assert_eq!(last, wanted, "{}", here.stdout);
}

#[test]
fn options_that_would_do_nothing_together_are_wrong_usage() {
    for args in [
        &["--report", "--json"][..],
        &["--report", "--hardware"],
        &["--hardware", "--strict"],
        &["--explain", "all", "--report"],
        &["--explain", "all", "--hardware"],
    ] {
        let outcome = doctor(args);
        assert_eq!(outcome.code, Some(2), "{args:?}: {}", outcome.stderr);
        assert!(
            outcome.stdout.is_empty() && outcome.files.is_empty(),
            "{args:?}"
        );
    }
    let folder = Folder::new();
    let nowhere = folder.path("no/such/folder/report.md");
    let outcome = doctor(&["--report", "--output", &nowhere.to_string_lossy()]);
    assert_eq!(outcome.code, Some(5), "{}", outcome.stderr);
}

/// A container that this program runs in is one whatever its environment says, and a variable makes none.
#[test]
fn variables_of_the_user_make_no_container() {
    let container = |program: Program| {
        let outcome = program.run();
        let lines = outcome.stdout.lines();
        let found = lines.filter(|line| line.starts_with("container  "));
        found.map(str::to_owned).collect::<Vec<_>>()
    };
    let told = program(&["--report"])
        .env("KUBERNETES_SERVICE_HOST", "10.0.0.1")
        .env("container", "lxc");
    assert_eq!(container(told), container(program(&["--report"])));
}
