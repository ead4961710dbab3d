//! Trees that no kernel makes: detection goes on, in bounded time.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::time::{Duration, Instant};

use spark_hal::{Failure, Machine, Reading, Sources};

use crate::recorded::Tree;

const FAMILY: &str = "/sys/class/dmi/id/product_family";

/// Reads the machine and checks the time it took: the best of three, since what hangs or grows
/// with the square is slow each time, and other programs of a busy machine are not.
#[track_caller]
fn read(tree: &Tree) -> Machine {
    let mut quickest = Duration::MAX;
    for _ in 0..3 {
        let begin = Instant::now();
        let machine = Machine::read(&Sources::files(tree.root()));
        quickest = quickest.min(begin.elapsed());
        if quickest < Duration::from_secs(1) {
            return machine;
        }
    }
    panic!("took {quickest:?}")
}

/// A Spark whose family entry was made unfriendly is still known by its GPU.
#[track_caller]
fn check_family(tree: &Tree, is_expected: impl Fn(&Failure) -> bool) {
    let machine = read(tree);
    let family = &machine.platform.dmi.product_family;
    match family.failure() {
        Some(why) if is_expected(why) => {}
        _ => panic!("{family:?}"),
    }
    assert!(machine.is_dgx_spark() && !machine.platform.is_dgx_spark_family);
}

#[test]
fn binary_entry() {
    let tree = Tree::of("nvidia-dgx-spark");
    fs::write(tree.path(FAMILY), [0xff, 0xfe, 0x00, 0x44]).unwrap();
    check_family(&tree, |why| matches!(why, Failure::NotText { .. }));
}

#[test]
fn megabyte_long_entry() {
    let tree = Tree::of("nvidia-dgx-spark");
    fs::write(tree.path(FAMILY), vec![b'D'; 1 << 20]).unwrap();
    check_family(&tree, |why| {
        matches!(
            why,
            Failure::TooLong {
                limit_bytes: 4096,
                ..
            }
        )
    });
}

#[test]
fn looping_symlink() {
    let tree = Tree::of("nvidia-dgx-spark");
    tree.remove(FAMILY);
    symlink("product_family", tree.path(FAMILY)).unwrap();
    check_family(&tree, |why| matches!(why, Failure::Unreadable { .. }));
}

#[test]
fn dangling_symlink_is_an_absent_entry() {
    let tree = Tree::of("nvidia-dgx-spark");
    tree.remove(FAMILY);
    symlink("/nowhere/at/all", tree.path(FAMILY)).unwrap();
    let machine = read(&tree);
    assert_eq!(machine.platform.dmi.product_family, Reading::NotSupported);
    assert!(machine.is_dgx_spark());
}

#[test]
fn directory_where_a_file_should_be() {
    let tree = Tree::of("nvidia-dgx-spark");
    tree.remove(FAMILY);
    fs::create_dir(tree.path(FAMILY)).unwrap();
    check_family(&tree, |why| matches!(why, Failure::Unreadable { .. }));
}

#[test]
fn endless_device_where_a_file_should_be() {
    let tree = Tree::of("nvidia-dgx-spark");
    tree.remove(FAMILY);
    symlink("/dev/zero", tree.path(FAMILY)).unwrap();
    check_family(&tree, |why| matches!(why, Failure::Unreadable { .. }));
}

#[test]
fn unreadable_entry() {
    let tree = Tree::of("nvidia-dgx-spark");
    fs::set_permissions(tree.path(FAMILY), fs::Permissions::from_mode(0o000)).unwrap();
    if fs::read(tree.path(FAMILY)).is_ok() {
        // The administrator reads everything; `looping_symlink` covers refusal for all.
        assert!(read(&tree).platform.is_dgx_spark_family);
    } else {
        check_family(&tree, |why| matches!(why, Failure::Unreadable { .. }));
    }
}

#[test]
fn empty_machine() {
    let machine = read(&Tree::empty());
    assert!(!machine.is_dgx_spark());
    assert_eq!(machine.cpu.plan().n_threads, 1);
    assert_eq!(machine.memory.meminfo.total_bytes, Reading::NotSupported);
    assert_eq!(
        machine.summary(),
        "unnamed machine, unknown processor, unknown whether there is an NVIDIA GPU"
    );
}

#[test]
fn every_file_binary() {
    let tree = Tree::of("nvidia-dgx-spark");
    overwrite_all(&tree.path("/"), &[0xc3, 0x28, 0xff, 0x00, 0x80]);
    assert!(!read(&tree).is_dgx_spark());
}

#[test]
fn every_file_a_huge_negative_number() {
    let tree = Tree::of("nvidia-dgx-spark");
    overwrite_all(
        &tree.path("/"),
        "-99999999999999999999999999999\n".as_bytes(),
    );
    assert!(!read(&tree).is_dgx_spark());
}

#[test]
fn pci_tables_that_loop_into_themselves() {
    let tree = Tree::of("nvidia-dgx-spark");
    let devices = tree.path("/sys/bus/pci/devices");
    symlink(".", devices.join("0000:00:00.0")).unwrap();
    fs::create_dir(devices.join("not an address")).unwrap();
    fs::create_dir(devices.join("ffffffff:ff:1f.7")).unwrap();
    assert!(read(&tree).is_dgx_spark());
}

#[test]
fn thousands_of_devices_and_cpus() {
    let tree = Tree::empty();
    tree.add("== /sys/devices/system/cpu/online\n0-4095\n== /proc/self/cgroup\n");
    let devices = tree.path("/sys/bus/pci/devices");
    for number in 0..2000 {
        fs::create_dir_all(devices.join(format!("{number:04x}:00:00.0"))).unwrap();
    }
    let machine = read(&tree);
    assert_eq!(machine.cpu.cores.len(), 4096);
}

#[test]
fn control_groups_that_climb_out_or_nest_without_end() {
    let tree = Tree::of("plain-pc");
    let path = "/deep".repeat(10_000);
    tree.add(&format!(
        "== /proc/self/cgroup\n0::/../../../etc\n4:memory:{path}\nnonsense\n::\n"
    ));
    assert_eq!(read(&tree).memory.cgroup_limit_bytes, Reading::NotSupported);
}

#[test]
fn control_groups_by_the_hundred_thousand() {
    let tree = Tree::of("nvidia-dgx-spark");
    tree.add(&format!(
        "== /proc/self/cgroup\n{}",
        "0::/a/b\n4:memory,cpu:/a/b\n".repeat(100_000)
    ));
    assert!(read(&tree).is_dgx_spark());
}

#[test]
fn routes_and_addresses_by_the_hundred_thousand() {
    let tree = Tree::of("nvidia-dgx-spark");
    let mut routes = String::from("Iface\n");
    let mut addresses = String::new();
    for number in 0..60_000_u32 {
        routes += &format!(
            "e{number}\t{:08X}\t00000000\t1\t0\t0\t0\tFFFFFFFF\n",
            number
        );
        let ip = std::net::Ipv4Addr::from(number + (10 << 24));
        addresses += &format!("|-- {ip}\n/32 host LOCAL\n");
    }
    tree.add(&format!(
        "== /proc/net/route\n{routes}== /proc/net/fib_trie\n{addresses}"
    ));
    assert!(read(&tree).is_dgx_spark());
}

#[test]
fn cpus_that_all_claim_thousands_of_siblings() {
    let tree = Tree::of("nvidia-dgx-spark");
    let everything = "0-16383\n";
    tree.add(&format!(
        "== /sys/devices/system/cpu/online\n0-16383\n\
         == /sys/devices/system/cpu/cpu{{0-3999}}/topology/thread_siblings_list\n{everything}\
         == /sys/devices/system/cpu/cpu{{0-3999}}/cache/index3/level\n3\n\
         == /sys/devices/system/cpu/cpu{{0-3999}}/cache/index3/shared_cpu_list\n16383\n"
    ));
    assert!(read(&tree).is_dgx_spark());
}

#[test]
fn network_functions_by_the_thousand() {
    let tree = Tree::of("nvidia-dgx-spark");
    let device = "== /sys/bus/pci/devices/{0-1999}:01:00.0";
    tree.add(&format!(
        "{device}/vendor\n0x15b3\n{device}/device\n0x1021\n{device}/class\n0x020000\n\
         {device}/net/eth/ifindex\n1\n"
    ));
    assert!(read(&tree).is_dgx_spark());
}

#[test]
fn gpus_by_the_thousand() {
    let tree = Tree::of("nvidia-dgx-spark");
    let device = "== /sys/bus/pci/devices/{0-3999}:01:00.0";
    tree.add(&format!(
        "{device}/vendor\n0x10de\n{device}/device\n0x2e12\n{device}/class\n0x030000\n"
    ));
    assert!(read(&tree).is_dgx_spark());
}

fn overwrite_all(directory: &std::path::Path, content: &[u8]) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            overwrite_all(&path, content);
        } else {
            fs::write(&path, content).unwrap();
        }
    }
}

#[test]
fn records_of_files_deeper_than_any_are_refused_at_once() {
    let folder = std::env::temp_dir().join(format!("spark-deep-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let line = format!("== {}/f\n1\n", "/a".repeat(2040));
    let record = line.repeat(5000);
    let begin = std::time::Instant::now();
    let told = spark_hal::unpack_record(&record, &folder);
    assert!(matches!(
        told,
        Err(spark_hal::RecordError::Path { line: 1, .. })
    ));
    assert!(begin.elapsed().as_secs() < 20, "{:?}", begin.elapsed());
    std::fs::remove_dir_all(&folder).expect("as made");
}
