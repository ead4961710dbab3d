//! Files of strangers: measurements and netplans of any content are read or refused with their place, and records tell no more than they should.

use proptest::prelude::*;
use spark_hal::cluster::{Cluster, Host, Measurement, MeasurementError, Netplan, examine, record};
use spark_hal::{Machine, Sources};

use super::pair::{Patients, measurement, netplan, parsed};
use crate::recorded::Tree;

fn text() -> String {
    measurement(Some("rocep1s0f0"), Some("rocep1s0f0:1"), 92.57).to_json()
}

#[test]
fn a_measurement_survives_its_file() {
    for rail in [None, Some("a \"rail\"")] {
        let measured = measurement(rail, Some("x:1"), 92.5);
        let read = Measurement::parse(&measured.to_json()).unwrap();
        assert_eq!(read.to_json(), measured.to_json());
        assert_eq!((&read.rail, &read.ranks), (&measured.rail, &measured.ranks));
        assert_eq!(read.pairs[0].clock, measured.pairs[0].clock);
        assert_eq!(read.pairs[0].from_a_gbps.median, 92.5);
    }
}

#[test]
fn what_is_wrong_with_a_measurement_is_said_with_its_place() {
    for (from, to, at) in [
        ("measurement/1", "measurement/2", "`schema` is"),
        (
            "\"a\":0",
            "\"a\":2",
            "`pairs[0].a` is 2, expected the number of a rank",
        ),
        ("\"a\":0", "\"a\":-1", "`pairs[0].a`"),
        ("\"b\":1", "\"b\":0", "another rank"),
        ("\"in_flight\":16", "\"in_flight\":0", "`in_flight` is 0"),
        ("\"n\":3", "\"n\":1.5", "`pairs[0].round_trip_us.n` is 1.5"),
        (
            "\"ahead_us\":-120.0000",
            "\"ahead_us\":\"-120\"",
            "`pairs[0].clock.ahead_us`",
        ),
        (
            "\"within_us\":2.2000",
            "\"within_us\":-2.2",
            "`pairs[0].clock.within_us` is -2.2",
        ),
        (
            "\"median\":92.5700",
            "\"median\":-1",
            "`pairs[0].from_a_gbps.median`",
        ),
        (
            "\"median\":92.5700",
            "\"median\":1e300",
            "`pairs[0].from_a_gbps.median`",
        ),
        ("\"median\":92.5700", "\"median\":12", "between min and max"),
        (
            "\"host\":\"spark-1\"",
            "\"host\":\"\"",
            "`ranks[0].host` is \"\"",
        ),
        (
            "\"host\":\"spark-1\"",
            "\"host\":null",
            "`ranks[0].host` is null",
        ),
        (
            "\"environment\":{",
            "\"surroundings\":{",
            "`ranks[0].environment` is null",
        ),
        (
            "\"pairs\":[{",
            "\"pairs\":[7,{",
            "`pairs[0]` is 7, expected an object",
        ),
        ("\"ranks\":[", "\"ranks\":7,\"others\":[", "`ranks` is 7"),
        ("\"rail\":\"rocep1s0f0\"", "\"rail\":7", "`rail` is 7"),
    ] {
        let before = text();
        let damaged = before.replacen(from, to, 1);
        assert_ne!(damaged, before, "{from}");
        let refused = Measurement::parse(&damaged).unwrap_err();
        assert!(refused.to_string().contains(at), "{from}: {refused}");
    }
    for no_json in ["", "null", "[]", "7", "nonsense", "{\"schema\":", "\u{0}"] {
        assert!(Measurement::parse(no_json).is_err(), "{no_json}");
    }
}

#[test]
fn measurements_without_end_are_refused() {
    let nested = "[".repeat(100_000);
    assert!(matches!(
        Measurement::parse(&nested),
        Err(MeasurementError::NotJson { .. })
    ));
    let long = " ".repeat(5 << 20);
    assert!(matches!(
        Measurement::parse(&long),
        Err(MeasurementError::TooLong)
    ));
    let rank = "{\"host\":\"a\",\"mpi\":\"b\",\"build\":\"c\",\"environment\":{}},";
    let many = text().replacen(
        "\"ranks\":[",
        &format!("\"ranks\":[{}", rank.repeat(10_000)),
        1,
    );
    let refused = Measurement::parse(&many).unwrap_err().to_string();
    assert!(
        refused.contains("`ranks` is") && refused.len() < 300,
        "{refused}"
    );
    // Texts are shortened, and nothing that a terminal obeys is left in them.
    let loud = text().replacen("spark-1", &format!("\\u001b[2J{}", "x".repeat(100_000)), 1);
    let host = &Measurement::parse(&loud).unwrap().ranks[0].host;
    assert!(
        host.chars().count() <= 101 && !host.contains('\u{1b}'),
        "{host}"
    );
}

#[test]
fn every_cut_of_a_measurement_is_refused() {
    let whole = text();
    for end in 0..whole.len() {
        assert!(Measurement::parse(&whole[..end]).is_err(), "{end}");
    }
}

#[test]
fn a_record_holds_no_hardware_addresses_and_no_other_networks() {
    let twins = Patients::twins();
    let tree = &twins.trees[0];
    tree.add(
        "== /proc/net/if_inet6\nfe800000000000003e6d66fffeccb3b7 02 40 20 80 enp1s0f0np0\n\
         == /etc/netplan/90-wifi.yaml\nnetwork:\n  wifis:\n    wlan0:\n      access-points:\n        home: {password: MUST-NOT-APPEAR}\n  \
         ethernets:\n    enP7s7:\n      addresses: [10.77.66.55/24]\n",
    );
    let table = std::fs::read_to_string(tree.path("/proc/net/route")).unwrap();
    tree.add(&format!(
        "== /proc/net/route\n{table}enP7s7\t00424D0A\t00000000\t0001\t0\t0\t0\t00FFFFFF\n"
    ));
    let trie = std::fs::read_to_string(tree.path("/proc/net/fib_trie")).unwrap();
    tree.add(&format!(
        "== /proc/net/fib_trie\n{trie}  |-- 10.77.66.55\n     /32 host LOCAL\n"
    ));
    let text = record(&tree.root(), None);
    for secret in [
        "3e6d",
        "fecc",
        "10.77.66",
        "424D0A",
        "MUST-NOT-APPEAR",
        "wlan0",
    ] {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
    assert!(text.contains("192.168.100.10"), "{text}");
    // What may be published tells none of it.
    let published = spark_hal::record(&tree.root());
    for private in ["192.168", "spark-1", "netplan", "Uid:", "gids"] {
        assert!(!published.contains(private), "{private}: {published}");
    }
}

#[test]
fn a_netplan_that_root_has_copied_is_kept() {
    let twins = Patients::twins().without("/etc/netplan/40-cx7.yaml");
    let copied = parsed(&netplan(11));
    let text = record(&twins.trees[1].root(), Some(&copied));
    let copy = Tree::empty();
    copy.add(&text);
    let hosts = [&twins.trees[0], &copy].map(|tree| {
        let root = tree.root();
        Host::read(
            "record",
            &root,
            Machine::read(&Sources::files(root.clone())),
        )
    });
    let report = examine(&Cluster {
        hosts: hosts.into(),
        measurements: Vec::new(),
    });
    let verdict = report.verdict("cluster.netplan");
    assert_eq!(verdict, Some(&spark_hal::doctor::Verdict::Passed));
}

/// A stranger's record: thousands of cards in thousands of networks, and a netplan to match.
#[test]
fn records_of_thousands_of_rails_and_networks_are_examined_in_time() {
    let twins = Patients::twins();
    for tree in &twins.trees {
        let mut routes = String::from("Iface\n");
        let mut trie = String::new();
        for number in 0..30_000_u32 {
            let [a, b, c, d] = ((10 << 24) + (number << 8) + 1).to_be_bytes();
            routes +=
                &format!("enp1s0f0np0\t00{c:02X}{b:02X}{a:02X}\t00000000\t1\t0\t0\t0\t00FFFFFF\n");
            trie += &format!("|-- {a}.{b}.{c}.{d}\n/32 host LOCAL\n");
        }
        let device = "== /sys/bus/pci/devices/{10-999}:01:00.0";
        tree.add(&format!(
            "== /proc/net/route\n{routes}== /proc/net/fib_trie\n{trie}\
             {device}/vendor\n0x15b3\n{device}/device\n0x1021\n{device}/class\n0x020000\n{device}/net/enp1s0f0np0/ifindex\n1\n"
        ));
    }
    let quickest = (0..3).map(|_| {
        let began = std::time::Instant::now();
        let report = twins.examine_live();
        assert!(report.to_text().len() < 100_000);
        began.elapsed()
    });
    let quickest = quickest.min().unwrap();
    assert!(
        quickest < std::time::Duration::from_secs(3),
        "took {quickest:?}"
    );
    let endless = format!("{}{}", netplan(11), "        - 10.0.0.1/8\n".repeat(10_000));
    let netplan = Netplan::parse(&endless).unwrap();
    let refused = netplan.refused(&["enP2p1s0f0np0"]).unwrap();
    assert!(refused.to_string().contains("at most 256"), "{refused}");
    for nested in [
        "[".repeat(1 << 20),
        "{a: ".repeat(1 << 18),
        "- ".repeat(1 << 19),
    ] {
        let text =
            format!("network:\n  ethernets:\n    e0:\n      x: {nested}\n    e1: {nested}\n");
        let netplan = Netplan::parse(&text).unwrap();
        assert!(netplan.refused(&["e9"]).is_none() && text.len() > 1 << 20);
    }
    let mut deep = String::from("network:\n  ethernets:\n    e0:\n");
    for depth in 0..1000 {
        deep += &format!("{}x:\n", " ".repeat(6 + depth));
    }
    assert!(Netplan::parse(&deep).unwrap().refused(&["e0"]).is_some());
}

proptest! {
    #[test]
    fn netplans_of_any_content_are_read_or_refused(text in "[ \t\na-e:#'\"\\[\\]{},.0-9/-]{0,200}", at in 0_usize..400) {
        let _ = Netplan::parse(&text);
        let mut damaged = netplan(11);
        let at = at.min(damaged.len());
        damaged.insert_str(at, &text);
        if let Err(refused) = Netplan::parse(&damaged) {
            prop_assert!(refused.line >= 1 && refused.to_string().len() < 200);
        }
    }

    #[test]
    fn measurements_of_any_content_are_read_or_refused(at in 0_usize..2000, len in 0_usize..40, by in "[-0-9eE.{}\\[\\]\",:a-z]{0,20}") {
        let mut damaged = text();
        let at = at.min(damaged.len());
        let end = (at + len).min(damaged.len());
        damaged.replace_range(at..end, &by);
        if let Ok(measured) = Measurement::parse(&damaged) {
            let patients = Patients::measured().together(measured);
            let _ = patients.examine().to_json();
        }
    }
}
