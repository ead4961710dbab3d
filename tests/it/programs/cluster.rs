//! `sparkpilot cluster`: records of two machines and measurements between them, as the program reads and makes them.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use ::sparkpilot::hal::cluster::{Clock, Measurement, Pair, Rank, Spread};
use serde_json::Value;

use super::{Folder, Outcome, Program};

const RAILS: [(&str, &str, &str, u8); 2] = [
    ("enp1s0f0np0", "rocep1s0f0", "0000:01:00.0", 100),
    ("enP2p1s0f0np0", "roceP2p1s0f0", "0002:01:00.0", 101),
];

/// A record of a healthy Spark with a cable, as `cluster record` writes it; invented, as no real one has been recorded.
fn spark(name: &str, last: u8) -> String {
    let mut text = format!(
        "# recorded by spark-hal\n== /sys/class/dmi/id/product_family\nDGX Spark\n== /proc/sys/kernel/osrelease\n6.17.0-1029-nvidia\n\
         == /proc/sys/kernel/hostname\n{name}\n== /proc/self/status\nUid:\t1000\t1000\t1000\t1000\n\
         == /proc/self/limits\nMax locked memory         unlimited            unlimited            bytes\n\
         == /proc/driver/nvidia/version\nNVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.95.05  Release Build\n"
    );
    let mut routes =
        "== /proc/net/route\nIface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n"
            .to_owned();
    let mut trie = "== /proc/net/fib_trie\n".to_owned();
    let mut netplan = "== /etc/netplan/recorded.yaml\nnetwork:\n  ethernets:\n".to_owned();
    for (interface, device, function, network) in RAILS {
        let pci = format!("== /sys/bus/pci/devices/{function}");
        text += &format!(
            "{pci}/class\n0x020000\n{pci}/current_link_width\n4\n{pci}/device\n0x1021\n{pci}/vendor\n0x15b3\n\
             {pci}/net/{interface}/ifindex\n{pci}/infiniband/{device}/node_type\n{pci}/infiniband/{device}/fw_ver\n28.45.4028\n\
             {pci}/infiniband/{device}/ports/1/gids/3\n0000:0000:0000:0000:0000:ffff:c0a8:{network:02x}{last:02x}\n\
             {pci}/infiniband/{device}/ports/1/gid_attrs/types/3\nRoCE v2\n\
             == /sys/class/net/{interface}/carrier\n1\n== /sys/class/net/{interface}/mtu\n9000\n== /sys/class/net/{interface}/speed\n200000\n"
        );
        routes += &format!("{interface}\t00{network:02X}A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\n");
        trie += &format!("  |-- 192.168.{network}.{last}\n     /32 host LOCAL\n");
        netplan += &format!(
            "    {interface}:\n      mtu: 9000\n      addresses:\n        - 192.168.{network}.{last}/24\n"
        );
    }
    text + &routes + &trie + &netplan
}

fn measurement(rail: Option<&str>, devices: &str, gbps: f64) -> String {
    let rank = |host: &str| Rank {
        host: host.to_owned(),
        mpi: "Open MPI v4.1.6".to_owned(),
        build: "Open MPI v4.1.6, package: Debian OpenMPI".to_owned(),
        environment: [("UCX_NET_DEVICES".to_owned(), devices.to_owned())].into(),
    };
    let spread = |value| Spread::of(&[value]).unwrap();
    let measured = Measurement {
        program: "sparkpilot-mpi 0.1.0".to_owned(),
        rail: rail.map(str::to_owned),
        message_bytes: 4 << 20,
        in_flight: 16,
        ranks: vec![rank("spark-1"), rank("spark-2")],
        pairs: vec![Pair {
            a: 0,
            b: 1,
            round_trip_us: spread(4.0),
            clock: Clock {
                ahead_us: 10.0,
                within_us: 2.0,
            },
            from_a_gbps: spread(gbps),
            from_b_gbps: spread(gbps),
        }],
    };
    measured.to_json()
}

/// Two healthy machines and measurements, in a folder.
fn patients() -> Folder {
    let folder = Folder::new();
    folder.write("one.txt", spark("spark-1", 10));
    folder.write("two.txt", spark("spark-2", 11));
    folder.write(
        "both.json",
        measurement(None, "rocep1s0f0:1,roceP2p1s0f0:1", 189.0),
    );
    for (_, device, ..) in RAILS {
        let of_rail = measurement(Some(device), &format!("{device}:1"), 95.0);
        folder.write(&format!("{device}.json"), of_rail);
    }
    folder
}

const DOCTOR: [&str; 4] = ["cluster", "doctor", "one.txt", "two.txt"];
const MEASURED: [&str; 6] = [
    "--measured",
    "both.json",
    "--measured",
    "rocep1s0f0.json",
    "--measured",
    "roceP2p1s0f0.json",
];

/// Starts the program with the folder's files for names of files.
fn run(folder: &Folder, args: &[&str]) -> Outcome {
    let is_file = |word: &&&str| word.ends_with(".txt") || word.ends_with(".json");
    let args = args.iter().map(|word| match Some(word).filter(is_file) {
        Some(name) => folder.path(name).into_os_string(),
        None => word.into(),
    });
    Program::at(Path::new(env!("CARGO_BIN_EXE_sparkpilot")))
        .args(args)
        .run()
}

#[track_caller]
fn json(folder: &Folder, more: &[&str]) -> Value {
    let outcome = run(folder, &[&DOCTOR[..], more, &["--json"]].concat());
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    serde_json::from_str(&outcome.stdout).expect("JSON and nothing else")
}

fn check<'a>(report: &'a Value, id: &str) -> &'a Value {
    let mut checks = report["checks"].as_array().unwrap().iter();
    checks.find(|check| check["id"] == id).expect("a check")
}

#[test]
fn healthy_machines_pass_and_what_is_not_there_is_not_examined() {
    let folder = patients();
    let report = json(&folder, &MEASURED);
    assert_eq!(report["schema"], "spark-doctor/2");
    for check in report["checks"].as_array().unwrap() {
        assert_eq!(check["outcome"], "passed", "{check}");
    }
    let strict = run(&folder, &[&DOCTOR[..], &MEASURED, &["--strict"]].concat());
    assert_eq!(strict.code, Some(0), "{}", strict.stdout);
    let bare = json(&folder, &[]);
    for id in [
        "cluster.bandwidth",
        "cluster.rails",
        "cluster.mpi",
        "cluster.clocks",
    ] {
        assert_eq!(check(&bare, id)["outcome"], "not_examined");
    }
    assert_eq!(check(&bare, "cluster.netplan")["outcome"], "passed");
}

#[test]
fn a_slow_link_is_found_with_its_cause() {
    let folder = patients();
    folder.write(
        "both.json",
        measurement(None, "rocep1s0f0:1,roceP2p1s0f0:1", 26.2),
    );
    let report = json(&folder, &MEASURED);
    let slow = check(&report, "cluster.bandwidth");
    assert_eq!(
        (&slow["outcome"], &slow["severity"]),
        (&"found".into(), &"error".into())
    );
    let message = slow["message"].as_str().unwrap();
    assert!(
        message.contains("spark-1 and spark-2 move 26.2 of 190 Gb/s"),
        "{message}"
    );
    let strict = run(&folder, &[&DOCTOR[..], &MEASURED, &["--strict"]].concat());
    assert_eq!(strict.code, Some(1));
    assert!(
        strict.stdout.contains("error    cluster.bandwidth: "),
        "{}",
        strict.stdout
    );
    assert!(
        strict
            .stdout
            .contains("both.json: spark-1 to spark-2: 26.20 Gb/s"),
        "{}",
        strict.stdout
    );
}

#[test]
fn wrong_usage_and_wrong_files_are_told_apart() {
    let folder = patients();
    folder.write("garbage.json", "{\"schema\":");
    folder.write("other.json", "{\"schema\":\"sparkpilot-info/1\"}");
    folder.write("none.txt", "no record\n");
    fs::write(folder.path("long.json"), vec![b' '; 5 << 20]).unwrap();
    let doctor = |more: &[&str]| run(&folder, &[&["cluster", "doctor"], more].concat());
    for (args, code, words) in [
        (&["one.txt"][..], 2, "2 values required"),
        (&[], 2, "RECORD"),
        (&["one.txt", "two.txt", "--measured"], 2, "--measured"),
        (&["one.txt", "two.txt", "--explain", "all"], 2, "--explain"),
        (
            &["--explain", "cluster.nothing"],
            2,
            "no check `cluster.nothing`",
        ),
        (&["one.txt", "missing.txt"], 5, "missing.txt"),
        (&["one.txt", "none.txt"], 3, "none.txt"),
        (
            &["one.txt", "two.txt", "--measured", "missing.json"],
            5,
            "missing.json",
        ),
        (
            &["one.txt", "two.txt", "--measured", "garbage.json"],
            3,
            "garbage.json",
        ),
        (
            &["one.txt", "two.txt", "--measured", "other.json"],
            3,
            "`schema` is \"sparkpilot-info/1\"",
        ),
        (
            &["one.txt", "two.txt", "--measured", "long.json"],
            3,
            "long.json",
        ),
        // Files in each other's places.
        (&["one.txt", "both.json"], 3, "both.json"),
        (
            &["one.txt", "two.txt", "--measured", "one.txt"],
            3,
            "one.txt",
        ),
    ] {
        let refused = doctor(args);
        assert_eq!(refused.code, Some(code), "{args:?}: {}", refused.stderr);
        assert!(
            refused.stderr.contains(words),
            "{args:?}: {}",
            refused.stderr
        );
        assert_eq!(refused.stdout, "", "{args:?}");
    }
    let all = doctor(&["--explain", "all"]).stdout;
    assert_eq!(all.lines().count(), 16, "{all}");
    let one = doctor(&["--explain", "cluster.bandwidth"]).stdout;
    assert!(one.contains("189.85"), "{one}");
}

#[test]
fn this_machine_is_recorded_with_a_copied_netplan_and_examined() {
    let folder = patients();
    folder.write(
        "netplan.txt",
        "network:\n  ethernets:\n    e0:\n      addresses: [10.0.0.1/24]\n",
    );
    folder.write("wrong.txt", "network:\n  ethernets: SECRET\n");
    folder.write("empty.txt", "\n");
    let record = |more: &[&str]| run(&folder, &[&["cluster", "record"], more].concat());
    let written = record(&["--netplan", "netplan.txt", "here.txt"]);
    assert_eq!(written.code, Some(0), "{}", written.stderr);
    let text = fs::read_to_string(folder.path("here.txt")).unwrap();
    assert!(text.starts_with("# recorded by spark-hal"), "{text}");
    assert!(!text.contains("10.0.0.1"), "e0 is no ConnectX-7: {text}");
    let printed = record(&["-"]).stdout;
    assert!(
        printed.contains("== /proc/sys/kernel/hostname"),
        "{printed}"
    );
    let refused = record(&["--netplan", "wrong.txt", "there.txt"]);
    assert_eq!(refused.code, Some(3), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("wrong.txt") && refused.stderr.contains("line 2"),
        "{}",
        refused.stderr
    );
    assert!(!refused.stderr.contains("SECRET"), "{}", refused.stderr);
    let empty = record(&["--netplan", "empty.txt", "there.txt"]);
    assert_eq!(empty.code, Some(3), "{}", empty.stderr);
    assert!(empty.stderr.contains("it is empty"), "{}", empty.stderr);
    assert!(!folder.path("there.txt").exists());
    let examined = run(
        &folder,
        &["cluster", "doctor", "this", "here.txt", "two.txt"],
    );
    assert_eq!(examined.code, Some(0), "{}", examined.stderr);
    // The machine is there twice.
    assert!(
        examined.stdout.contains("cluster.names"),
        "{}",
        examined.stdout
    );
}

/// As `sudo awk 1 /etc/netplan/*.yaml | sparkpilot cluster record --netplan - FILE` does it.
#[test]
fn a_netplan_is_read_from_a_pipe_and_its_content_never_shown() {
    let folder = patients();
    let record = |text: &[u8]| {
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        writer.write_all(text).expect("it fits the pipe");
        drop(writer);
        let file = folder.path("piped.txt").into_os_string();
        let mut program = Program::at(Path::new(env!("CARGO_BIN_EXE_sparkpilot")))
            .args(["cluster", "record", "--netplan", "-"].map(std::ffi::OsString::from))
            .args([file]);
        program.command.stdin(reader);
        program.run()
    };
    let written = record(b"network:\n  ethernets:\n    e0:\n      mtu: 9000\n");
    assert_eq!(written.code, Some(0), "{}", written.stderr);
    let text = fs::read_to_string(folder.path("piped.txt")).unwrap();
    assert!(text.contains("== /etc/netplan/recorded.yaml"), "{text}");
    for (wrong, words) in [
        (&b"network:\n  ethernets: SECRET\n"[..], "line 2"),
        (b"", "it is empty"),
    ] {
        let refused = record(wrong);
        assert_eq!(refused.code, Some(3), "{}", refused.stderr);
        assert!(
            refused.stderr.contains("`stdin`") && refused.stderr.contains(words),
            "{}",
            refused.stderr
        );
        assert!(!refused.stderr.contains("SECRET"), "{}", refused.stderr);
    }
}
