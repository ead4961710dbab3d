//! The fast ports between two machines.

use std::net::IpAddr;

use crate::bytes::gibibytes;
use crate::doctor::check::{Check, Examination};
use crate::doctor::facts::Facts;
use crate::doctor::verdict::{Severity, Verdict, found, not_applicable, not_examined, seen};
use crate::network::{ENOUGH_LOCKED_BYTES, Function};
use crate::reading::Reading;

const PLAYBOOK: &str = "NVIDIA/dgx-spark-playbooks, nvidia/connect-two-sparks; issue #102, PR #103";

pub(super) const CHECKS: &[Examination<Facts>] = &[
    Examination {
        check: Check {
            id: "network.port",
            title: "both halves of a connected port are up and have addresses",
            source: PLAYBOOK,
        },
        run: port,
    },
    Examination {
        check: Check {
            id: "network.mtu",
            title: "connected ports use large packets",
            source: PLAYBOOK,
        },
        run: mtu,
    },
    Examination {
        check: Check {
            id: "network.pcie",
            title: "ConnectX functions have their four PCIe lanes",
            source: "firmware before 2026-04 wires the second controller with two lanes \
                 (tonyd2wild PR #35)",
        },
        run: pcie,
    },
    Examination {
        check: Check {
            id: "network.memlock",
            title: "enough memory may be locked for RDMA",
            source: "graham33/nixos-dgx-spark: ibv_reg_mr fails with `Cannot allocate memory`",
        },
        run: memlock,
    },
];

const LARGE_MTU: u32 = 9000;
const PCIE_LANES: u8 = 4;

/// The functions of every port of which at least one half has a live cable.
pub(super) fn connected(facts: &Facts) -> Vec<Vec<&Function>> {
    let network = &facts.machine.network;
    let members = |port: &Vec<usize>| port.iter().map(|idx| &network.functions[*idx]).collect();
    let ports = network.ports.iter().map(members);
    ports
        .filter(|port: &Vec<&Function>| port.iter().any(|half| has_carrier(half)))
        .collect()
}

/// Why a check of ConnectX functions does not run here, if there is none.
fn no_card(facts: &Facts) -> Option<Verdict> {
    if !facts.machine.network.functions.is_empty() {
        None
    } else if facts.root.entries("/sys/bus").is_value() {
        Some(not_applicable("no ConnectX-7 card"))
    } else {
        Some(not_examined("needs /sys/bus/pci/devices"))
    }
}

/// Why a check of connected ports does not run here, if none has a live cable.
pub(super) fn no_port(facts: &Facts) -> Verdict {
    if let Some(verdict) = no_card(facts) {
        return verdict;
    }
    let functions = &facts.machine.network.functions;
    match functions.iter().find(|half| !half.has_carrier.is_value()) {
        Some(half) => not_examined(format!(
            "needs /sys/class/net/{0}/carrier, which an interface only has while it is up: sudo ip \
             link set {0} up",
            half.name()
        )),
        None => not_applicable("no ConnectX-7 port is connected"),
    }
}

pub(super) fn has_carrier(function: &Function) -> bool {
    function.has_carrier == Reading::Value(true)
}

/// Whether somebody gave it: every interface that is up has one of IPv6 by itself.
fn is_given(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(_) => true,
        IpAddr::V6(address) => !address.is_unicast_link_local(),
    }
}

fn port(facts: &Facts) -> Verdict {
    let ports = connected(facts);
    if ports.is_empty() {
        return no_port(facts);
    }
    let mut evidence = Vec::new();
    for half in ports.iter().flatten() {
        if !has_carrier(half) {
            evidence.push(seen(
                format!("/sys/class/net/{}/carrier", half.name()),
                match half.has_carrier {
                    Reading::Value(_) => "no link".to_owned(),
                    _ => format!("not up ({})", half.has_carrier),
                },
            ));
        } else if !half.addresses.iter().any(is_given) && half.possible_addresses.is_empty() {
            evidence.push(seen(format!("/proc/net: {}", half.name()), "no address"));
        }
    }
    if evidence.is_empty() {
        let has_none =
            |half: &&&Function| has_carrier(half) && !half.addresses.iter().any(is_given);
        return match ports.iter().flatten().find(has_none) {
            None => Verdict::Passed,
            Some(half) => not_examined(format!(
                "needs the RDMA table of {0}, as another interface is in its network: which of them has an address /proc/net does not say",
                half.name()
            )),
        };
    }
    found(
        Severity::Warning,
        "half of a connected port is unused: 100 instead of 200 Gb/s",
        evidence,
        "give both interfaces of the port an address, each in a network of its own (see netplan \
         in NVIDIA's connect-two-sparks playbook)",
    )
}

fn mtu(facts: &Facts) -> Verdict {
    let ports = connected(facts);
    let small = |half: &&&Function| half.mtu.as_value().is_some_and(|mtu| *mtu < LARGE_MTU);
    let small: Vec<&&Function> = ports
        .iter()
        .flatten()
        .filter(|half| has_carrier(half))
        .filter(small)
        .collect();
    match small.first() {
        None if ports.is_empty() => no_port(facts),
        None => match ports.iter().flatten().find(|half| !half.mtu.is_value()) {
            Some(half) => not_examined(format!("needs /sys/class/net/{}/mtu", half.name())),
            None => Verdict::Passed,
        },
        Some(first) => found(
            Severity::Note,
            "a connected port uses small packets: NCCL measured 19-21 instead of 23 GB/s",
            small
                .iter()
                .map(|half| seen(format!("/sys/class/net/{}/mtu", half.name()), &half.mtu))
                .collect(),
            format!(
                "sudo ip link set {} mtu {LARGE_MTU}   # on both machines",
                first.name()
            ),
        ),
    }
}

fn pcie(facts: &Facts) -> Verdict {
    let functions = &facts.machine.network.functions;
    if let Some(verdict) = no_card(facts) {
        return verdict;
    }
    let narrow = functions.iter().filter(|function| {
        function
            .pci
            .link_width
            .as_value()
            .is_some_and(|width| *width < PCIE_LANES)
    });
    let evidence: Vec<_> = narrow
        .map(|function| {
            let path = format!("{}/current_link_width", function.pci.path());
            seen(path, &function.pci.link_width)
        })
        .collect();
    if evidence.is_empty() {
        let unknown = functions.iter().find(|f| !f.pci.link_width.is_value());
        return match unknown {
            Some(function) => {
                not_examined(format!("needs {}/current_link_width", function.pci.path()))
            }
            None => Verdict::Passed,
        };
    }
    found(
        Severity::Warning,
        "a ConnectX function has fewer than four PCIe lanes",
        evidence,
        "update the firmware: sudo fwupdmgr update",
    )
}

/// A limit of locked memory, in words.
fn locked(limit: &Reading<u64>) -> String {
    match limit {
        Reading::Value(u64::MAX) => "any amount".to_owned(),
        other => format!("{other} bytes"),
    }
}

fn memlock(facts: &Facts) -> Verdict {
    let network = &facts.machine.network;
    if let Some(verdict) = no_card(facts) {
        return verdict;
    }
    match network.memlock_limit_bytes {
        Reading::Value(limit) if limit < ENOUGH_LOCKED_BYTES => found(
            Severity::Warning,
            format!(
                "only {} may be locked: registering memory for RDMA fails",
                gibibytes(limit)
            ),
            vec![seen(
                "/proc/self/limits Max locked memory, soft limit",
                format!(
                    "{limit}; {} may be asked for",
                    locked(&network.memlock_most_bytes)
                ),
            )],
            "add `* hard memlock unlimited` and `* soft memlock unlimited` to \
             /etc/security/limits.conf and log in again",
        ),
        Reading::Value(_) => Verdict::Passed,
        _ => not_examined("needs /proc/self/limits"),
    }
}
