//! Planted traps of NCCL's variables, with their healthy twins.

use spark_hal::doctor::{Facts, Severity, Verdict, examine_facts};
use spark_hal::{Machine, Sources};

use crate::doctor::{Patient, connected};
use crate::recorded::Tree;

const DEVICES: &str = "NCCL_IB_HCA";

#[test]
fn network_nccl() {
    const ID: &str = "network.nccl";
    connected().has(
        "network.nccl",
        Severity::Note,
        "NCCL_IB_HCA=rocep1s0f0,roceP2p1s0f0",
    );
    let told = |value: &'static str| connected().variable(DEVICES, value);
    for whole in [
        "rocep1s0f0,roceP2p1s0f0",
        "=rocep1s0f0,roceP2p1s0f0",
        "=rocep1s0f0:1,roceP2p1s0f0:1",
        "rocep1s0f0,roceP2p1s0f0,rocep1s0f1,roceP2p1s0f1",
        "roce",
        "^rocep1s0f1,roceP2p1s0f1",
        "^=mlx5_0",
    ] {
        told(whole).passes(ID);
    }
    for half in [
        "rocep1s0f0",
        "=rocep1s0f0",
        "^roceP2p1s0f0",
        "=rocep1s0f0:1,roceP2p1s0f0:2",
    ] {
        told(half).has(ID, Severity::Note, "both");
    }
    for none in ["mlx5_0", "rocep1s0f1,roceP2p1s0f1", "=roce", "^roce"] {
        told(none).has(ID, Severity::Warning, "sockets");
    }
    told("").has(ID, Severity::Note, "set to nothing");
}

#[test]
fn a_misspelt_list_is_found_whatever_is_connected() {
    const ID: &str = "network.nccl";
    for misspelt in [
        "rocep1s0f0, roceP2p1s0f0",
        "\"rocep1s0f0,roceP2p1s0f0\"",
        "=rocep1s0f0,=roceP2p1s0f0",
        "rocep1s0f0;roceP2p1s0f0",
        "rocep1s0f0:one",
        "^",
    ] {
        for patient in [connected(), Patient::spark(), Patient::of("h100-server")] {
            patient
                .variable(DEVICES, misspelt)
                .has(ID, Severity::Warning, "misspelt");
        }
    }
    // Spelt well, it says nothing of a machine without such a card.
    let server = Patient::of("h100-server")
        .variable(DEVICES, "mlx5_0")
        .examine();
    assert!(matches!(
        server.verdict(ID),
        Some(Verdict::NotApplicable(_))
    ));
}

#[test]
fn settings_files_of_nccl_count_after_the_environment() {
    const ID: &str = "network.nccl";
    const BOTH: &str = "rocep1s0f0,roceP2p1s0f0";
    let file = |path: &str, value: &str| {
        connected().with(&format!(
            "== {path}\n# for both\nNCCL_DEBUG=WARN\nNCCL_IB_HCA={value}\n"
        ))
    };
    file("/etc/nccl.conf", BOTH).passes(ID);
    file("/home/user/.nccl.conf", BOTH).passes(ID);
    file("/opt/nccl.conf", BOTH)
        .variable("NCCL_CONF_FILE", "/opt/nccl.conf")
        .passes(ID);
    file("/etc/nccl.conf", "rocep1s0f0").has(ID, Severity::Note, "/etc/nccl.conf");
    file("/etc/nccl.conf", "rocep1s0f0")
        .with(&format!("== /home/user/.nccl.conf\nNCCL_IB_HCA={BOTH}\n"))
        .passes(ID);
    file("/etc/nccl.conf", "rocep1s0f0")
        .variable(DEVICES, BOTH)
        .passes(ID);
    // The user is not named, neither in evidence nor where nothing can be read.
    let found = file("/home/user/.nccl.conf", "rocep1s0f0")
        .examine()
        .to_text();
    assert!(
        found.contains("~/.nccl.conf") && !found.contains("/home/user"),
        "{found}"
    );
    file("/home/user/.nccl.conf/x", BOTH).is_not_examined(ID, "~/.nccl.conf");
    file("/etc/nccl.conf", "rocep1s0f0, roceP2p1s0f0").has(ID, Severity::Warning, "misspelt");
}

/// No record holds what drivers say.
#[test]
fn of_a_recorded_machine_nobody_knows_whether_its_gpu_computes() {
    for (name, id) in [
        ("nvidia-dgx-spark", "gpu.usable"),
        ("spark-docker-container", "gpu.usable"),
        ("spark-docker-container", "container.gpu"),
    ] {
        let tree = Tree::of(name);
        let machine = Machine::read(&Sources::files(tree.root()));
        let report = examine_facts(Facts::of(tree.root(), machine));
        let Some(Verdict::NotExamined(why)) = report.verdict(id) else {
            panic!("{name} {id}: {:?}", report.verdict(id));
        };
        assert!(why.contains("not asked"), "{why}");
    }
}

/// No record holds an environment.
#[test]
fn of_a_recorded_machine_nobody_knows_what_nccl_is_told() {
    let patient = connected();
    let tree: &Tree = &patient.tree;
    let machine = Machine::read(&Sources::files(tree.root()));
    let report = examine_facts(Facts::of(tree.root(), machine));
    for id in ["network.nccl", "network.nccl-sockets", "network.gid"] {
        let Some(Verdict::NotExamined(why)) = report.verdict(id) else {
            panic!("{id}: {:?}", report.verdict(id));
        };
        assert!(why.contains("no record holds"), "{why}");
    }
}

#[test]
fn network_nccl_sockets() {
    const ID: &str = "network.nccl-sockets";
    let told = |value: &'static str| Patient::spark().variable("NCCL_SOCKET_IFNAME", value);
    for there in [
        "enp1s0f0np0",
        "=enp1s0f0np0",
        "en",
        "^docker,lo",
        "eth0,enp",
    ] {
        told(there).passes(ID);
    }
    told("eth0").has("network.nccl-sockets", Severity::Error, "enp1s0f0np0");
    told("=enp1s0f0").has(ID, Severity::Error, "does not start");
    told("^en").has(ID, Severity::Error, "does not start");
    told("enp1s0f0np0, enP2p1s0f0np0").has(ID, Severity::Warning, "misspelt");
    let report = Patient::spark().examine();
    assert!(matches!(
        report.verdict(ID),
        Some(Verdict::NotApplicable(_))
    ));
    told("eth0")
        .without("/sys/class/net")
        .is_not_examined(ID, "/sys/class/net");
}

/// The tables of both halves: link-local ones first, then those of their IPv4 addresses, RoCE v1 before v2.
fn with_tables(second: u32) -> Patient {
    let halves = [
        ("0000:01:00.0/infiniband/rocep1s0f0", 3, "c0a8:6407"),
        ("0002:01:00.0/infiniband/roceP2p1s0f0", second, "c0a8:6507"),
    ];
    let mut patient = connected();
    for (device, index, address) in halves {
        let port = format!("/sys/bus/pci/devices/{device}/ports/1");
        let link_local = "fe80:0000:0000:0000:4ebb:47ff:fe00:0001";
        let mapped = format!("0000:0000:0000:0000:0000:ffff:{address}");
        let empty = "0000:0000:0000:0000:0000:0000:0000:0000";
        let mut table = vec![(empty.to_owned(), "IB/RoCE v1"); 8];
        table[0] = (link_local.to_owned(), "IB/RoCE v1");
        table[1] = (link_local.to_owned(), "RoCE v2");
        table[index as usize - 1] = (mapped.clone(), "IB/RoCE v1");
        table[index as usize] = (mapped, "RoCE v2");
        for (number, (gid, kind)) in table.iter().enumerate() {
            patient = patient.with(&format!(
                "== {port}/gids/{number}\n{gid}\n== {port}/gid_attrs/types/{number}\n{kind}\n"
            ));
        }
    }
    patient
}

#[test]
fn network_gid() {
    const ID: &str = "network.gid";
    let pinned = |value: &'static str| with_tables(3).variable("NCCL_IB_GID_INDEX", value);
    with_tables(3).passes(ID);
    pinned("-1").passes(ID);
    // It fits on both halves, and is pinned all the same.
    pinned("3").has("network.gid", Severity::Note, "move");
    pinned("0x3").has(ID, Severity::Note, "move");
    pinned("0").has(ID, Severity::Warning, "no IPv4");
    pinned("1").has(ID, Severity::Warning, "no IPv4");
    pinned("2").has(ID, Severity::Warning, "RoCE v1");
    pinned("5").has(ID, Severity::Warning, "empty");
    pinned("three").has(ID, Severity::Warning, "reads 0");
    pinned("").has(ID, Severity::Note, "set to nothing");
    pinned("99999999999999999999").has(ID, Severity::Warning, "empty");
    // On the second half it has moved to 4.
    with_tables(4).variable("NCCL_IB_GID_INDEX", "3").has(
        ID,
        Severity::Warning,
        "roceP2p1s0f0/ports/1/gids/3",
    );
    with_tables(4)
        .with("== /etc/nccl.conf\nNCCL_IB_GID_INDEX=3\n")
        .has(ID, Severity::Warning, "/etc/nccl.conf");
    connected()
        .variable("NCCL_IB_GID_INDEX", "3")
        .is_not_examined(ID, "ports/1/gids");
    let report = Patient::spark()
        .variable("NCCL_IB_GID_INDEX", "3")
        .examine();
    assert!(matches!(
        report.verdict(ID),
        Some(Verdict::NotApplicable(_))
    ));
}
