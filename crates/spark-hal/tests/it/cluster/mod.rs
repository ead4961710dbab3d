//! One planted trap per check of a cluster: it is named, and two healthy machines are left alone. Not yet compared with two real Sparks.

mod files;
mod pair;
mod rates;

use spark_hal::cluster::checks;
use spark_hal::doctor::{Severity, Verdict};

use pair::{Patients, RAILS, addresses, gids, netplan};

#[test]
fn healthy_twins_pass_every_check() {
    let report = Patients::measured().examine();
    for outcome in &report.outcomes {
        assert_eq!(outcome.verdict, Verdict::Passed, "{}", outcome.check.id);
    }
    assert_eq!(report.outcomes.len(), checks().len());
    assert!(
        report.to_text().contains("spark-2: DGX Spark"),
        "{}",
        report.to_text()
    );
}

#[test]
fn every_check_names_its_source() {
    let mut ids: Vec<&str> = checks().iter().map(|check| check.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), checks().len());
    for check in checks() {
        assert!(check.id.starts_with("cluster."), "{}", check.id);
        assert!(!check.title.is_empty() && !check.source.is_empty());
    }
}

#[test]
fn links() {
    let down = "== /sys/class/net/enP2p1s0f0np0/carrier\n0\n";
    Patients::twins().with(down).has(
        "cluster.links",
        Severity::Warning,
        "spark-2: /sys/class/net/enP2p1s0f0np0/carrier",
    );
    Patients::twins()
        .with(&format!("{down}== /sys/class/net/enp1s0f0np0/carrier\n0\n"))
        .has("cluster.links", Severity::Error, "no link");
    let unknown = Patients::twins()
        .with("== /sys/class/net/enP2p1s0f0np0/carrier\n0\n== /sys/class/net/enp1s0f0np0/carrier\n0\n")
        .without("/sys/class/net/enp1s0f1np1/carrier");
    unknown.is_not_examined("cluster.links", "enp1s0f1np1/carrier of spark-2");
    // What needs a link is not passed without one.
    for id in [
        "cluster.mtu",
        "cluster.gid",
        "cluster.addresses",
        "cluster.netplan",
    ] {
        let lone = Patients::twins().with("== /sys/class/net/enP2p1s0f0np0/carrier\n0\n== /sys/class/net/enp1s0f0np0/carrier\n0\n");
        lone.is_not_examined(id, "needs a cable");
    }
    let half = Patients::twins().without("/sys/bus/pci/devices/0002:01:00.0");
    half.has(
        "cluster.links",
        Severity::Warning,
        "the other half of its port is not there",
    );
}

#[test]
fn a_spark_whose_card_is_gone_is_no_machine_without_one() {
    let gone = [0, 1].iter().fold(Patients::twins(), |twins, function| {
        twins
            .without(&format!("/sys/bus/pci/devices/0000:01:00.{function}"))
            .without(&format!("/sys/bus/pci/devices/0002:01:00.{function}"))
    });
    gone.has(
        "cluster.links",
        Severity::Error,
        "spark-2: /sys/bus/pci/devices",
    );
    for id in ["cluster.mtu", "cluster.gid", "cluster.memlock"] {
        gone.is_not_examined(id, "needs the ConnectX-7 of spark-2");
    }
}

#[test]
fn machines_without_a_card_are_none_of_a_cluster() {
    let mut mixed = Patients::twins();
    mixed.trees[1] = crate::recorded::Tree::of("rtx-4090-pc");
    let report = mixed.examine();
    for id in [
        "cluster.links",
        "cluster.mtu",
        "cluster.gid",
        "cluster.networks",
    ] {
        let verdict = report.verdict(id).unwrap();
        assert!(
            matches!(verdict, Verdict::NotApplicable(_)),
            "{id}: {verdict:?}"
        );
    }
    let mut lone = Patients::measured();
    lone.trees.pop();
    for outcome in lone.examine().outcomes {
        let id = outcome.check.id;
        assert!(
            matches!(outcome.verdict, Verdict::NotExamined(_)),
            "{id}: {:?}",
            outcome.verdict
        );
    }
}

#[test]
fn speed() {
    Patients::twins()
        .with("== /sys/class/net/enp1s0f0np0/speed\n100000\n")
        .has("cluster.speed", Severity::Warning, "100000 Mb/s");
    Patients::twins()
        .with("== /sys/class/net/enp1s0f0np0/speed\n-1\n")
        .is_not_examined("cluster.speed", "enp1s0f0np0/speed");
}

#[test]
fn ports() {
    let mut moved = String::new();
    for (interface, carrier) in [
        ("enp1s0f0np0", 0),
        ("enP2p1s0f0np0", 0),
        ("enp1s0f1np1", 1),
        ("enP2p1s0f1np1", 1),
    ] {
        moved += &format!("== /sys/class/net/{interface}/carrier\n{carrier}\n");
    }
    Patients::twins()
        .with(&moved)
        .has("cluster.ports", Severity::Warning, "enp1s0f1np1");
    let mut three = Patients::twins();
    three.trees.extend(Patients::twins().trees.pop());
    let report = three.examine();
    assert!(matches!(
        report.verdict("cluster.ports"),
        Some(Verdict::NotApplicable(_))
    ));
}

#[test]
fn addresses_and_networks() {
    let [(first, ..), (second, ..)] = RAILS;
    let half = addresses(&[(first, [192, 168, 100, 11])]);
    Patients::twins()
        .with(&half)
        .has("cluster.addresses", Severity::Warning, "enP2p1s0f0np0");
    Patients::twins()
        .with(&half)
        .is_not_examined("cluster.networks", "enP2p1s0f0np0");
    let taken = addresses(&[(first, [192, 168, 100, 10]), (second, [192, 168, 101, 11])]);
    Patients::twins()
        .with(&taken)
        .has("cluster.addresses", Severity::Error, "192.168.100.10");
    let one_network = addresses(&[(first, [192, 168, 100, 11]), (second, [192, 168, 100, 12])]);
    let shared = Patients::twins().with(&one_network);
    shared.has("cluster.networks", Severity::Warning, "192.168.100.0/24");
    // Which of the two has the second address its table says, and nothing else does.
    shared.is_not_examined("cluster.addresses", "identifiers of roceP2p1s0f0");
    Patients::twins()
        .with(&one_network)
        .with(&gids(1, 3, [192, 168, 100, 12]))
        .passes("cluster.addresses");
    let elsewhere = addresses(&[(first, [192, 168, 100, 11]), (second, [192, 168, 102, 11])]);
    Patients::twins()
        .with(&elsewhere)
        .has("cluster.networks", Severity::Error, "192.168.102.0/24");
    let published = Patients::twins().without("/proc/net/fib_trie");
    for id in [
        "cluster.addresses",
        "cluster.networks",
        "cluster.gid",
        "cluster.netplan",
    ] {
        published.is_not_examined(id, "sparkpilot cluster record");
    }
}

/// A management network with the numbers of a rail's, whose interface stands first in the kernel's table.
#[test]
fn an_address_goes_to_the_rail_whose_table_has_it() {
    let [(first, ..), (second, ..)] = RAILS;
    let shared = addresses(&[
        ("enP7s7", [192, 168, 100, 61]),
        (first, [192, 168, 100, 11]),
        (second, [192, 168, 101, 11]),
    ]);
    let twins = Patients::twins().with(&shared);
    for id in ["cluster.addresses", "cluster.gid", "cluster.netplan"] {
        twins.passes(id);
    }
    twins.has(
        "cluster.networks",
        Severity::Warning,
        "192.168.100.0/24, and enP7s7 too",
    );
    let (_, device, function) = RAILS[0];
    let table = format!("/sys/bus/pci/devices/{function}/infiniband/{device}/ports/1/gids");
    let unread = Patients::twins().with(&shared).without(&table);
    for id in ["cluster.addresses", "cluster.netplan", "cluster.gid"] {
        unread.is_not_examined(id, "");
    }
    // Its table has none: the address is the other interface's.
    Patients::twins()
        .with(&addresses(&[
            ("enP7s7", [192, 168, 100, 61]),
            (first, [192, 168, 100, 61]),
            (second, [192, 168, 101, 11]),
        ]))
        .has("cluster.addresses", Severity::Warning, "enp1s0f0np0");
}

#[test]
fn mtu() {
    let small = "== /sys/class/net/enP2p1s0f0np0/mtu\n1500\n";
    Patients::twins().with(small).has(
        "cluster.mtu",
        Severity::Warning,
        "spark-2: /sys/class/net/enP2p1s0f0np0/mtu",
    );
    Patients::twins()
        .with_both(&format!("{small}== /sys/class/net/enp1s0f0np0/mtu\n1500\n"))
        .has("cluster.mtu", Severity::Note, "23");
    Patients::twins()
        .without("/sys/class/net/enp1s0f0np0/mtu")
        .is_not_examined("cluster.mtu", "spark-2: /sys/class/net/enp1s0f0np0/mtu");
}

#[test]
fn gid() {
    let table = |rail: usize| {
        let (_, device, function) = RAILS[rail];
        format!("/sys/bus/pci/devices/{function}/infiniband/{device}/ports/1")
    };
    Patients::twins()
        .without(&format!("{}/gids", table(1)))
        .with(&gids(1, 4, [192, 168, 101, 11]))
        .has(
            "cluster.gid",
            Severity::Note,
            "RoCE v2 of its IPv4 address is 4",
        );
    Patients::twins()
        .without(&format!("{}/gids/3", table(1)))
        .has("cluster.gid", Severity::Error, "roceP2p1s0f0");
    // One of an address that the machine does not have is left over.
    Patients::twins()
        .with(&gids(1, 3, [192, 168, 101, 99]))
        .has("cluster.gid", Severity::Error, "roceP2p1s0f0");
    // One of the other half's address is not its own.
    Patients::twins()
        .with(&gids(1, 3, [192, 168, 100, 11]))
        .has("cluster.gid", Severity::Error, "roceP2p1s0f0");
    // The same identifier for the first version of RoCE is another one.
    Patients::twins()
        .with(&format!("== {}/gid_attrs/types/3\nIB/RoCE v1\n", table(0)))
        .has("cluster.gid", Severity::Error, "rocep1s0f0");
    Patients::twins()
        .without(&format!("{}/gids", table(0)))
        .is_not_examined("cluster.gid", "rocep1s0f0 on spark-2");
}

#[test]
fn a_machine_without_rdma_devices_lacks_a_driver() {
    let bare = [
        "0000:01:00.0",
        "0000:01:00.1",
        "0002:01:00.0",
        "0002:01:00.1",
    ]
    .iter()
    .fold(Patients::twins(), |twins, function| {
        twins.without(&format!("/sys/bus/pci/devices/{function}/infiniband"))
    });
    bare.has("cluster.gid", Severity::Error, "modprobe mlx5_ib");
}

#[test]
fn memlock() {
    let limit = "== /proc/self/limits\nMax locked memory         8388608              8388608            bytes\n";
    Patients::twins().with(limit).has(
        "cluster.memlock",
        Severity::Warning,
        "spark-2: /proc/self/limits",
    );
    // The kernel enforces the soft limit; the hard one says what it may be raised to.
    let limit = "== /proc/self/limits\nMax locked memory         8388608              unlimited            bytes\n";
    Patients::twins()
        .with(limit)
        .has("cluster.memlock", Severity::Warning, "ulimit -l");
    Patients::twins()
        .without("/proc/self/limits")
        .is_not_examined("cluster.memlock", "spark-2: /proc/self/limits");
    Patients::twins()
        .with("== /proc/self/status\nUid:\t0\t0\t0\t0\n")
        .is_not_examined("cluster.memlock", "root has other limits");
}

#[test]
fn names() {
    Patients::twins()
        .with("== /proc/sys/kernel/hostname\nSpark-1\n")
        .has("cluster.names", Severity::Warning, "hostname");
    // With and without its domain it is one machine; in two domains there are two.
    let named = |first: &str, second: &str| {
        let twins = Patients::twins();
        for (tree, name) in twins.trees.iter().zip([first, second]) {
            tree.add(&format!("== /proc/sys/kernel/hostname\n{name}\n"));
        }
        twins
    };
    named("spark-1.lab.local", "spark-1").has("cluster.names", Severity::Warning, "lab.local");
    named("spark-1.lab", "spark-1.den").passes("cluster.names");
    // Two machines of one name that have the same address are two machines.
    let [(first, ..), (second, ..)] = RAILS;
    named("spark", "spark")
        .with(&addresses(&[
            (first, [192, 168, 100, 10]),
            (second, [192, 168, 101, 11]),
        ]))
        .has("cluster.addresses", Severity::Error, "192.168.100.10");
    Patients::twins()
        .without("/proc/sys/kernel/hostname")
        .is_not_examined("cluster.names", "record");
}

#[test]
fn software() {
    Patients::twins()
        .with("== /proc/sys/kernel/osrelease\n6.17.0-1029-nvidia\n")
        .has(
            "cluster.software",
            Severity::Note,
            "spark-2: /proc/sys/kernel/osrelease",
        );
    Patients::twins()
        .with("== /sys/bus/pci/devices/0002:01:00.0/infiniband/roceP2p1s0f0/fw_ver\n28.45.1020\n")
        .has("cluster.software", Severity::Note, "28.45.1020");
    Patients::twins()
        .without("/sys/bus/pci/devices/0002:01:00.0/infiniband/roceP2p1s0f0/fw_ver")
        .is_not_examined("cluster.software", "firmware of enP2p1s0f0np0");
}

#[test]
fn what_a_restart_takes_away() {
    let entry = |text: &str| format!("== /etc/netplan/40-cx7.yaml\n{text}");
    let without_second = netplan(11)
        .split("    enP2p1s0f0np0")
        .next()
        .unwrap()
        .to_owned();
    Patients::twins().with(&entry(&without_second)).has(
        "cluster.netplan",
        Severity::Warning,
        "192.168.101.11 is not there",
    );
    let plain = netplan(11).replace("      mtu: 9000\n", "");
    Patients::twins().with(&entry(&plain)).has(
        "cluster.netplan",
        Severity::Warning,
        "mtu 9000 is not there",
    );
    let [(first, ..), (second, ..)] = RAILS;
    let link_local = netplan(11).replace(
        "      addresses:\n        - 192.168.101.11/24\n",
        "      link-local: [ ipv4 ]\n",
    );
    let taken = addresses(&[(first, [192, 168, 100, 11]), (second, [169, 254, 7, 9])]);
    Patients::twins()
        .with(&entry(&link_local))
        .with(&taken)
        .has(
            "cluster.netplan",
            Severity::Note,
            "169.254.7.9 is link-local",
        );
    // An address of DHCP is taken again.
    let dhcp = netplan(11)
        .replace("dhcp4: no", "dhcp4: true")
        .replace("      addresses:\n        - 192.168.101.11/24\n", "");
    Patients::twins()
        .with(&entry(&dhcp))
        .passes("cluster.netplan");
    Patients::twins()
        .without("/etc/netplan/40-cx7.yaml")
        .is_not_examined("cluster.netplan", "root alone may read");
    // What is not understood is said in the record as in the files, and for the interface that it is about.
    let twins = |text: &str| Patients::twins().with(&entry(text));
    let by_address = netplan(11) + "    fast:\n      match: {macaddress: MUST-NOT-APPEAR}\n";
    twins(&by_address).is_not_examined(
        "cluster.netplan",
        "spark-2 that is understood: line 15 (`macaddress`)",
    );
    let of_another = netplan(11)
        + "    lan:\n      match: {macaddress: MUST-NOT-APPEAR}\n      set-name: enP7s7\n";
    twins(&of_another).passes("cluster.netplan");
    let by_name = netplan(11).replace(
        "    enp1s0f0np0:\n",
        "    NM-1:\n      match: {name: \"enp1s0f0*\"}\n",
    );
    twins(&by_name).passes("cluster.netplan");
    let flow = "network: {ethernets: {enp1s0f0np0: {addresses: [192.168.100.11/24], mtu: 9000}}}\n";
    twins(flow).has(
        "cluster.netplan",
        Severity::Warning,
        "192.168.101.11 is not there",
    );
    let joined = netplan(11).replace("192.168.101.11/24", "192.168.101.11/24network:");
    twins(&joined).is_not_examined("cluster.netplan", "line 13 (`addresses`)");
    // Packets that are shorter than netplan has them.
    let shorter = "== /sys/class/net/enp1s0f0np0/mtu\n1500\n";
    Patients::twins().with(shorter).has(
        "cluster.netplan",
        Severity::Note,
        "netplan apply was not run",
    );
    // A half without a link is not passed.
    Patients::twins()
        .with("== /sys/class/net/enP2p1s0f0np0/carrier\n0\n")
        .is_not_examined("cluster.netplan", "a link of enP2p1s0f0np0 on spark-2");
    // NVIDIA's script puts both halves into one network: either may declare an address.
    let one_network = addresses(&[(first, [192, 168, 100, 11]), (second, [192, 168, 100, 12])]);
    let declared = netplan(11)
        .replace("192.168.100.11/24", "192.168.100.12/24")
        .replace("192.168.101.11/24", "192.168.100.11/24");
    let both = twins(&declared)
        .with(&one_network)
        .with(&gids(1, 3, [192, 168, 100, 12]));
    both.passes("cluster.netplan");
    both.has(
        "cluster.networks",
        Severity::Warning,
        "spark_cluster_setup.py",
    );
}
