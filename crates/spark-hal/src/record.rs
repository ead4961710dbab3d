//! Records a machine as one text file, to be sent to somebody or kept as a test.
//!
//! ```text
//! # recorded by spark-hal 0.1.0
//! == /sys/class/dmi/id/product_family
//! DGX Spark
//! == /usr/lib/aarch64-linux-gnu/libcuda.so.580.95.05
//! == /usr/lib/aarch64-linux-gnu/libcuda.so.1 -> libcuda.so.580.95.05
//! ```
//!
//! Files that detection reads are recorded, without the lines that speak of a serial number (in
//! `/etc/dgx-release`, and in `/proc/cpuinfo` of some Arm systems). Addresses of the network, logs and
//! Python packages are left out; library files are recorded by name. The paths of the process's control
//! groups, which may tell the names of its container or service, are in the record. Of PID 1's variables and of the mounts
//! stand those lines that tell a container and the size of `/dev/shm`. What the doctor of several machines needs besides,
//! [`cluster::record`](crate::cluster::record) adds.

use std::fmt::Write as _;

use crate::cgroup;
use crate::network::Network;
use crate::pci;
use crate::platform::container;
use crate::reading::{Failure, Reading};
use crate::root::Root;
use crate::stack::Stack;
use crate::version::Version;

/// Files that are copied by name, where they exist.
const FILES: [&str; 26] = [
    "/TICI",
    "/etc/dgx-release",
    "/etc/fastos-release",
    "/etc/nv_tegra_release",
    "/proc/cpuinfo",
    "/proc/device-tree/model",
    "/proc/driver/nvidia/version",
    "/proc/meminfo",
    "/proc/pressure/memory",
    "/proc/self/limits",
    "/proc/sys/kernel/osrelease",
    "/sys/class/dmi/id/bios_date",
    "/sys/class/dmi/id/bios_version",
    "/sys/class/dmi/id/board_name",
    "/sys/class/dmi/id/ec_firmware_release",
    "/sys/class/dmi/id/product_family",
    "/sys/class/dmi/id/product_name",
    "/sys/class/dmi/id/product_version",
    "/sys/class/dmi/id/sys_vendor",
    "/sys/devices/soc0/soc_id",
    "/sys/devices/system/cpu/online",
    "/sys/fs/cgroup/cgroup.controllers",
    "/sys/firmware/devicetree/base/model",
    "/sys/module/cppc_cpufreq/parameters/auto_sel_mode",
    "/sys/module/nvidia/version",
    "/usr/local/cuda/version.json",
];

/// Files of every CPU, under `/sys/devices/system/cpu/cpuN`.
const CPU_FILES: [&str; 6] = [
    "cache/index3/level",
    "cache/index3/shared_cpu_list",
    "cpu_capacity",
    "cpufreq/cpuinfo_max_freq",
    "regs/identification/midr_el1",
    "topology/thread_siblings_list",
];

/// Files of every NVIDIA and Mellanox function; where there is none, of one other device.
const PCI_FILES: [&str; 5] = [
    "class",
    "current_link_speed",
    "current_link_width",
    "device",
    "vendor",
];

/// The machine as text. Reads files only; what the drivers answer is not in it.
#[must_use]
pub fn record(root: &Root) -> String {
    record_with(root, &["Cpus_allowed_list:"])
}

/// The same, with these lines of the process's status.
pub(crate) fn record_with(root: &Root, of_status: &[&str]) -> String {
    let mut text = format!("# recorded by spark-hal {}\n", env!("CARGO_PKG_VERSION"));
    for path in FILES {
        write_file(&mut text, root, path);
    }
    for path in cgroup::files(root) {
        write_file(&mut text, root, &path);
    }
    if let Reading::Value(status) = root.text("/proc/self/status") {
        line(&mut text, "== /proc/self/status");
        let is_wanted = |content: &&str| of_status.iter().any(|begin| content.starts_with(begin));
        for content in status.lines().filter(is_wanted) {
            line(&mut text, content);
        }
    }
    for (path, told) in container::told(root) {
        line(&mut text, &format!("== {path}"));
        for content in told {
            line(&mut text, &content);
        }
    }
    let cpus = root
        .entries_where("/sys/devices/system/cpu", is_cpu)
        .value()
        .unwrap_or_default();
    for cpu in cpus {
        for leaf in CPU_FILES {
            write_file(
                &mut text,
                root,
                &format!("/sys/devices/system/cpu/{cpu}/{leaf}"),
            );
        }
    }
    write_pci(&mut text, root);
    let no_driver = Failure::NoSource {
        reason: "files only".to_owned(),
    };
    let stack = Stack::read(root, Reading::<Version>::Failed(no_driver));
    for library in &stack.libraries {
        line(&mut text, &format!("== {}", library.path));
    }
    text
}

fn write_pci(text: &mut String, root: &Root) {
    let devices = pci::devices(root, &[pci::VENDOR_NVIDIA, pci::VENDOR_MELLANOX]);
    let devices = devices.value().unwrap_or_default();
    if devices.is_empty() {
        // That the buses could be read and have neither is known by any other device.
        let others = root.entries_where("/sys/bus/pci/devices", |_| true);
        for name in others.value().iter().flat_map(|names| names.first()) {
            for leaf in ["class", "vendor"] {
                write_file(text, root, &format!("/sys/bus/pci/devices/{name}/{leaf}"));
            }
        }
        // A machine may have buses and none of PCI: every bus has this file, which can only be written to.
        let buses = root.entries_where("/sys/bus", |_| true);
        for name in buses.value().iter().flat_map(|names| names.first()) {
            line(text, &format!("== /sys/bus/{name}/drivers_probe"));
        }
    }
    for device in &devices {
        for leaf in PCI_FILES {
            write_file(text, root, &format!("{}/{leaf}", device.path()));
        }
        if let Reading::Value(driver) = &device.driver {
            line(
                text,
                &format!(
                    "== {}/driver -> ../../../../bus/pci/drivers/{driver}",
                    device.path()
                ),
            );
        }
    }
    for function in Network::read(root, &devices).functions {
        let path = function.pci.path();
        if let Reading::Value(interface) = &function.interface {
            line(text, &format!("== {path}/net/{interface}/ifindex"));
            for leaf in ["carrier", "mtu", "speed"] {
                write_file(text, root, &format!("/sys/class/net/{interface}/{leaf}"));
            }
        }
        if let Reading::Value(folder) = function.of_rdma_device() {
            line(text, &format!("== {folder}/node_type"));
            write_file(text, root, &format!("{folder}/fw_ver"));
        }
    }
}

fn is_cpu(name: &str) -> bool {
    name.strip_prefix("cpu")
        .is_some_and(|number| number.parse::<u16>().is_ok())
}

pub(crate) fn write_file(text: &mut String, root: &Root, path: &str) {
    if let Reading::Value(content) = root.text(path) {
        line(text, &format!("== {path}"));
        for content_line in content.lines().filter(|content| !is_secret(content)) {
            line(text, content_line);
        }
    }
}

/// Whether it may hold a serial number. `serialize` is an instruction, and stands in the one line of the features of a processor.
fn is_secret(line: &str) -> bool {
    let mut words = line.split_whitespace();
    words.any(|word| word != "serialize" && word.to_ascii_lowercase().contains("serial"))
}

pub(crate) fn line(text: &mut String, line: &str) {
    writeln!(text, "{line}").expect("writing to a String cannot fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_serial_numbers_are_secret_and_those_of_instructions_are_not() {
        let secret = [
            "Serial\t\t: 00000000a1b2",
            "BoardSerial=X",
            "DGX_SERIAL_NUMBER=\"1\"",
            "serial: 1",
        ];
        for line in secret {
            assert!(is_secret(line), "{line}");
        }
        for line in ["flags\t\t: avx512_vp2intersect serialize amx_bf16", ""] {
            assert!(!is_secret(line), "{line}");
        }
    }
}
