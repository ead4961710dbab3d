//! What is found out about every recorded machine.

use std::fmt::Write as _;
use std::fs;

use spark_hal::cpu::format_cpu_list;
use spark_hal::platform::SparkVendor;
use spark_hal::stack::LibraryName;
use spark_hal::{Machine, PlatformKind, Reading, Sources};
use spark_testing::settings::bless;

use crate::recorded::{Tree, machine_file, machine_names};

fn read(machine: &str) -> Machine {
    Machine::read(&Sources::files(Tree::of(machine).root()))
}

#[track_caller]
fn check_spark(machine: &str, vendor: SparkVendor, model: Option<&str>) {
    let found = read(machine);
    let wanted = PlatformKind::DgxSpark {
        vendor,
        model: model.map(str::to_owned),
    };
    assert_eq!(found.platform.kind, wanted, "{machine}");
    assert!(found.is_dgx_spark(), "{machine}");
    assert!(
        found.platform.is_dgx_spark_family && found.platform.has_gb10,
        "{machine}"
    );
    assert_eq!(found.platform.doubts, Vec::<String>::new(), "{machine}");
    assert_eq!(
        found.platform.is_founders_edition,
        vendor == SparkVendor::Nvidia,
        "{machine}"
    );
}

#[test]
fn every_vendors_spark_is_named() {
    check_spark(
        "nvidia-dgx-spark",
        SparkVendor::Nvidia,
        Some("NVIDIA DGX Spark"),
    );
    check_spark(
        "gigabyte-ai-top-atom",
        SparkVendor::Gigabyte,
        Some("AI TOP ATOM"),
    );
    check_spark("asus-ascent-gx10", SparkVendor::Asus, Some("GX10"));
    check_spark(
        "dell-pro-max-gb10",
        SparkVendor::Dell,
        Some("Dell Pro Max with GB10 FCM1253"),
    );
    check_spark(
        "hp-zgx-nano",
        SparkVendor::Hp,
        Some("HP ZGX Nano G1n AI Station"),
    );
    check_spark(
        "lenovo-thinkstation-pgx",
        SparkVendor::Lenovo,
        Some("ThinkStation PGX"),
    );
    check_spark(
        "msi-edgexpert",
        SparkVendor::Msi,
        Some("EdgeXpert (MS-C931)"),
    );
    check_spark("acer-look-alike", SparkVendor::Acer, Some("Veriton GN100"));
    check_spark(
        "spark-prototype",
        SparkVendor::Nvidia,
        Some("NVIDIA DGX Spark"),
    );
    check_spark(
        "spark-with-nixos",
        SparkVendor::Nvidia,
        Some("NVIDIA DGX Spark"),
    );
    check_spark(
        "spark-docker-container",
        SparkVendor::Nvidia,
        Some("NVIDIA DGX Spark"),
    );
}

#[track_caller]
fn check_other(machine: &str, shown: &str) {
    let found = read(machine);
    assert_eq!(found.platform.kind.to_string(), shown, "{machine}");
    assert!(
        !found.is_dgx_spark(),
        "{machine}: {:?}",
        found.platform.evidence
    );
    assert!(!found.platform.has_gb10, "{machine}");
}

#[test]
fn no_other_machine_is_taken_for_a_spark() {
    check_other("n1x-look-alike", "unnamed machine");
    check_other("dgx-os-image-on-pc", "ASUS");
    check_other("rtx-pro-6000-blackwell", "LENOVO 30GA");
    check_other("rtx-5090-pc", "Micro-Star International Co., Ltd. MS-7E12");
    check_other(
        "rtx-4090-pc",
        "Gigabyte Technology Co., Ltd. X670E AORUS MASTER",
    );
    check_other("h100-server", "Dell Inc. PowerEdge XE9680");
    check_other("h200-dgx-server", "NVIDIA DGXH200");
    check_other("gh200-look-alike", "Supermicro ARS-111GL-NHR");
    check_other("dgx-station-gb300", "NVIDIA DGX_Station");
    check_other("plain-pc", "ASUS TUF GAMING B650-PLUS");
    check_other("container-without-dmi", "unnamed machine");
    check_other("wsl", "unnamed machine");
    check_other("jetson-orin", "NVIDIA Jetson AGX Orin Developer Kit");
    check_other("comma-three", "comma tici");
    check_other("comma-3x", "comma tizi");
    check_other("comma-without-device-tree", "comma device");
}

/// The image runs on other hardware with the same die: its GPU tells them apart.
#[test]
fn dgx_os_on_an_n1x_is_no_spark() {
    let tree = Tree::of("n1x-look-alike");
    tree.add("@include dgx-os\n");
    let found = Machine::read(&Sources::files(tree.root()));
    assert!(!found.is_dgx_spark(), "{:?}", found.platform.evidence);
    assert!(found.platform.is_dgx_os);
    tree.remove("/sys/bus/pci");
    let hidden = Machine::read(&Sources::files(tree.root()));
    assert!(hidden.is_dgx_spark(), "DGX OS and the die, with PCI hidden");
}

/// Files alone do not prove it, but they are told as evidence.
#[test]
fn the_cores_alone_only_support() {
    let found = read("spark-container-without-sysfs");
    assert!(!found.is_dgx_spark());
    assert!(found.platform.evidence.iter().all(|seen| !seen.decides));
    assert_eq!(found.platform.evidence.len(), 1);
}

#[test]
fn a_gpu_without_driver_has_no_invented_capability() {
    let found = read("nvidia-dgx-spark");
    let gpu = found.best_gpu().expect("PCI shows it");
    assert_eq!(gpu.name, Reading::Value("NVIDIA GB10".to_owned()));
    assert!(matches!(gpu.compute_capability, Reading::Failed(_)));
    assert!(gpu.is_unified(), "by its PCI numbers");
    assert!(!gpu.is_usable());
    assert_eq!(gpu.recommended.precision, spark_hal::Precision::Fp32);
    let other = read("rtx-4090-pc");
    let gpu = other.best_gpu().expect("PCI shows it");
    assert!(matches!(gpu.name, Reading::Failed(_)));
    assert!(matches!(gpu.memory, Reading::Failed(_)), "{:?}", gpu.memory);
}

#[test]
fn cores_are_told_apart_one_by_one() {
    let cpu = read("dell-pro-max-gb10").cpu;
    assert_eq!(cpu.summary(), "10 x Cortex-X925 + 10 x Cortex-A725");
    assert_eq!(format_cpu_list(&cpu.fast_cpus()), "5-9,15-19");
    assert_eq!(cpu.clusters.len(), 2);
    assert_eq!(cpu.n_physical(), 20);
    let plan = cpu.plan();
    assert_eq!((plan.n_threads, plan.n_fast), (20, 10));
    assert_eq!(format_cpu_list(&plan.order[..10]), "5-9,15-19");
    assert!(cpu.has_feature("sve2") && !cpu.has_feature("sme"));
}

#[test]
fn threads_follow_siblings_affinity_and_quota() {
    let smt = read("plain-pc").cpu;
    assert_eq!((smt.n_physical(), smt.plan().n_threads), (4, 4));
    assert_eq!(smt.plan().order, [0, 1, 2, 3, 4, 5, 6, 7]);
    let quota = read("spark-docker-container").cpu;
    assert_eq!(quota.limits.quota_cpus, Reading::Value(8500));
    assert_eq!(quota.plan().n_threads, 9);
    let tree = Tree::of("plain-pc");
    tree.add("== /proc/self/status\nCpus_allowed_list:\t2,6-7\n");
    let plan = Machine::read(&Sources::files(tree.root())).cpu.plan();
    assert_eq!((plan.n_threads, plan.order), (2, vec![2, 7, 6]));
}

#[test]
fn container_limits_bind_the_cpu_only() {
    let memory = read("spark-docker-container").memory;
    // 40 GiB limit, 10 GiB used of which 4 GiB is cache that can go.
    assert_eq!(
        memory.cgroup_headroom_bytes,
        Reading::Value((40 - 10 + 4) << 30)
    );
    assert_eq!(memory.available_to_cpu_bytes(), Reading::Value(34 << 30));
    assert_eq!(
        memory.available_to_gpu_bytes(),
        Reading::Value(118_000_000 * 1024)
    );
    let version_1 = read("container-without-dmi").memory;
    assert_eq!(version_1.cgroup_limit_bytes, Reading::Value(8 << 30));
    assert_eq!(version_1.cgroup_headroom_bytes, Reading::Value(4 << 30));
    let free = read("plain-pc").memory;
    assert_eq!(free.cgroup_headroom_bytes, Reading::NotSupported);
}

#[test]
fn the_last_update_is_the_version() {
    let release = read("nvidia-dgx-spark")
        .platform
        .dgx_release
        .value()
        .expect("there");
    assert_eq!(release.version(), Some("7.4.0"));
    let stack = read("nvidia-dgx-spark").stack;
    assert_eq!(stack.driver.to_string(), "580.95.05");
    assert_eq!(stack.toolkit.to_string(), "13.0.2");
}

#[test]
fn llvm_is_in_the_inventory_whatever_its_file_is_called() {
    let found = |entries: &str| {
        let tree = Tree::of("nvidia-dgx-spark");
        tree.add(entries);
        let stack = Machine::read(&Sources::files(tree.root())).stack;
        let of_llvm = stack
            .libraries
            .iter()
            .filter(|it| it.name == LibraryName::Llvm);
        let versions = of_llvm.map(|it| format!("{} {:?}", it.version, it.for_gb10));
        versions.collect::<Vec<_>>().join(", ")
    };
    const AT: &str = "/usr/lib/aarch64-linux-gnu";
    // Ubuntu since 18: the old name is a link.
    let ubuntu = format!(
        "== {AT}/libLLVM.so.20.1\nELF\n== {AT}/libLLVM-20.so.1 -> libLLVM.so.20.1\n== {AT}/libLLVM-17.so.1\nELF\n"
    );
    assert_eq!(found(&ubuntu), "20.1 Unknown, 17 Unknown");
    assert_eq!(found("== /usr/lib64/libLLVM-17.so\nELF\n"), "17 Unknown");
    let others = [
        "libLLVM.so",
        "libLLVM-x.so.1",
        "libLLVM-17.so.2",
        "libLLVMSupport.so.20",
        "libLLVM-20.a",
        "libLLVM-.so",
    ];
    for other in others {
        assert_eq!(found(&format!("== {AT}/{other}\nELF\n")), "", "{other}");
    }
    assert_eq!(found(""), "");
}

/// Everything found out, as text, against a committed file that people read.
#[test]
fn findings_are_as_recorded() {
    let mut wrong = Vec::new();
    for machine in machine_names() {
        let got = findings(&read(&machine));
        let file = machine_file(&machine, "expected.txt");
        if bless() {
            fs::write(&file, &got).expect("writable");
        }
        if fs::read_to_string(&file).unwrap_or_default() != got {
            wrong.push(machine);
        }
    }
    assert!(
        wrong.is_empty(),
        "differ: {wrong:?}; see SPARK_BLESS in docs/environment.md"
    );
}

#[test]
fn there_are_at_least_twenty_machines() {
    assert!(machine_names().len() >= 20);
}

fn findings(machine: &Machine) -> String {
    let mut text = String::new();
    let mut line = |words: String| writeln!(text, "{words}").expect("a String");
    line(machine.summary());
    for seen in &machine.platform.evidence {
        line(format!("evidence  {seen}"));
    }
    for doubt in &machine.platform.doubts {
        line(format!("doubt     {doubt}"));
    }
    let platform = &machine.platform;
    line(format!(
        "facts     family {}, GB10 {}, DGX OS {}, Founders Edition {}, container {}",
        platform.is_dgx_spark_family,
        platform.has_gb10,
        platform.is_dgx_os,
        platform.is_founders_edition,
        platform.is_container
    ));
    for (kind, ids) in machine.cpu.kinds() {
        line(format!("cores     {kind}: {}", format_cpu_list(&ids)));
    }
    for gpu in &machine.gpus {
        let address = gpu
            .address
            .map_or_else(|| "no address".to_owned(), |at| at.to_string());
        line(format!(
            "gpu       {address} {}, memory {:?}",
            gpu.name,
            gpu.memory.as_value()
        ));
    }
    line(format!("stack     {}", machine.stack));
    for library in &machine.stack.libraries {
        line(format!(
            "library   {} {}: {:?}",
            library.name, library.version, library.for_gb10
        ));
    }
    text
}

#[test]
fn both_halves_of_a_port_are_found() {
    let network = read("nvidia-dgx-spark").network;
    assert_eq!(network.functions.len(), 4);
    assert_eq!(network.rdma_devices(0), ["rocep1s0f0", "roceP2p1s0f0"]);
    assert_eq!(network.rdma_devices(1), ["rocep1s0f1", "roceP2p1s0f1"]);
    assert_eq!(network.functions[0].has_carrier, Reading::Value(false));
    assert_eq!(network.functions[0].speed_mbps, Reading::NotSupported);
    assert_eq!(network.memlock_limit_bytes, Reading::Value(u64::MAX));
    assert!(read("plain-pc").network.ports.is_empty());
}

#[test]
fn a_port_with_a_cable_tells_rate_and_addresses() {
    let tree = Tree::of("nvidia-dgx-spark");
    tree.add(
        "== /sys/class/net/enP2p1s0f0np0/carrier\n1\n\
         == /sys/class/net/enP2p1s0f0np0/speed\n200000\n\
         == /sys/class/net/enP2p1s0f0np0/mtu\n9000\n\
         == /proc/net/route\nIface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n\
         enP2p1s0f0np0\t0065A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\n\
         == /proc/net/fib_trie\n  |-- 192.168.101.7\n     /32 host LOCAL\n",
    );
    let network = Machine::read(&Sources::files(tree.root())).network;
    let function = &network.functions[network.ports[0][1]];
    assert_eq!(function.interface.to_string(), "enP2p1s0f0np0");
    assert_eq!(function.speed_mbps, Reading::Value(200_000));
    assert_eq!(function.mtu, Reading::Value(9000));
    assert_eq!(
        function.addresses,
        ["192.168.101.7".parse::<std::net::IpAddr>().unwrap()]
    );
}

#[test]
fn a_recorded_container_of_podman_is_one() {
    let tree = Tree::of("nvidia-dgx-spark");
    tree.add("== /run/.containerenv\nname=\"MUST-NOT-APPEAR\"\n");
    let record = spark_hal::record(&tree.root());
    assert!(!record.contains("MUST-NOT-APPEAR"), "{record}");
    let copy = Tree::empty();
    copy.add(&record);
    let machine = Machine::read(&Sources::files(copy.root()));
    assert!(machine.platform.is_container);
}

/// Recording a machine and reading the record finds the same machine, and no secret.
#[test]
fn a_recorded_machine_reads_the_same() {
    for machine in machine_names() {
        let original = Tree::of(&machine);
        let record = spark_hal::record(&original.root());
        assert!(!record.contains("MUST-NOT-APPEAR"), "{machine}");
        let copy = Tree::empty();
        copy.add(&record);
        let read = |tree: &Tree| Machine::read(&Sources::files(tree.root()));
        let (a, b) = (read(&original), read(&copy));
        assert_eq!(findings(&a), findings(&b), "{machine}");
        assert_eq!(a.cpu, b.cpu, "{machine}");
        assert_eq!(a.memory, b.memory, "{machine}");
        assert_eq!(a.network, b.network, "{machine}");
    }
}
