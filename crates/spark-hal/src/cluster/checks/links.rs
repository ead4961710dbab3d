//! Cables: both halves of each port in use have a link, at full speed, and the same port on both machines.

use std::collections::BTreeSet;

use crate::doctor::{Check, Examination, Severity, Verdict, seen};
use crate::pci::PciAddress;
use crate::reading::Reading;

use super::super::facts::{Cluster, has_card, known, of_rail, unknown_carrier};
use super::super::host::Host;
use super::concluded::{PLAYBOOK, concluded};

pub(super) const CHECKS: &[Examination<Cluster>] = &[
    Examination {
        check: Check {
            id: "cluster.links",
            title: "every machine has a port with a link, on both of its halves",
            source: "NVIDIA/dgx-spark-playbooks, nvidia/connect-two-sparks; NVIDIA/NV-Kernels PR #228, #271: devices go when the cable goes",
        },
        run: links,
    },
    Examination {
        check: Check {
            id: "cluster.speed",
            title: "links run at 200 Gb/s",
            source: "NVIDIA/dgx-spark-playbooks, spark_cluster_setup.py: check_interface_link_speed",
        },
        run: speed,
    },
    Examination {
        check: Check {
            id: "cluster.ports",
            title: "two machines are joined by the same port of each",
            source: PLAYBOOK,
        },
        run: ports,
    },
];

const FULL_SPEED_MBPS: u64 = 200_000;

fn links(cluster: &Cluster) -> Verdict {
    if let Err(verdict) = cluster.needs_two_hosts() {
        return verdict;
    }
    let mut unseen = None;
    let (mut lost, mut dead, mut halves) = (Vec::new(), Vec::new(), Vec::new());
    for host in &cluster.hosts {
        if host.lost_card() {
            let place = format!("{}: /sys/bus/pci/devices", host.name);
            lost.push(seen(place, "no ConnectX-7 (15b3:1021)"));
            continue;
        }
        if let Err(verdict) = has_card(host) {
            unseen.get_or_insert(verdict);
            continue;
        }
        let used = host.used_ports();
        if used.is_empty() {
            match unknown_carrier(host) {
                Some(why) => unseen = unseen.or(Some(Verdict::NotExamined(why))),
                None => {
                    let none = host.rails.iter();
                    dead.extend(none.map(|rail| seen(of_rail(host, rail, "carrier"), "no link")));
                }
            }
        }
        for rail in used.iter().flatten().filter(|rail| !rail.has_carrier()) {
            let said = match &rail.function.has_carrier {
                Reading::Value(_) => "no link".to_owned(),
                unknown => format!("not up ({unknown})"),
            };
            halves.push(seen(of_rail(host, rail, "carrier"), said));
        }
        let lone = used.iter().filter(|port| port.len() < 2).flatten();
        halves.extend(lone.map(|rail| {
            let place = format!("{}: {}", host.name, rail.function.pci.path());
            seen(place, "the other half of its port is not there")
        }));
    }
    if !lost.is_empty() {
        // DGX OS takes the card's devices away while no cable is in: NVIDIA/NV-Kernels PR #228, #271.
        return concluded(
            Severity::Error,
            "the ConnectX-7 of a DGX Spark is not there: no cable is plugged in, as DGX OS takes its devices away then (dgx-spark-mlnx-hotplug), or the \
             card is lost",
            lost,
            "plug the cable in at both ends, and restart the machine",
            None,
        );
    }
    if !dead.is_empty() {
        return concluded(
            Severity::Error,
            "a machine has no port with a link",
            dead,
            "put the cable into the same QSFP port of both machines; if it is there, restart them: an interface that is not up has no link \
             either, sudo ip link set INTERFACE up",
            None,
        );
    }
    concluded(
        Severity::Warning,
        "half of a port in use has no link: 100 instead of 200 Gb/s",
        halves,
        "sudo ip link set INTERFACE up, and both interfaces of the port into netplan",
        unseen,
    )
}

fn speed(cluster: &Cluster) -> Verdict {
    let used = match cluster.used() {
        Ok(used) => used,
        Err(verdict) => return verdict,
    };
    let (mut slow, mut unseen) = (Vec::new(), None);
    for (host, rails) in &used {
        for rail in rails.iter().filter(|rail| rail.has_carrier()) {
            let place = of_rail(host, rail, "speed");
            match known(&rail.function.speed_mbps, || place.clone()) {
                Ok(speed) if *speed < FULL_SPEED_MBPS => {
                    slow.push(seen(place, format!("{speed} Mb/s")))
                }
                Ok(_) => {}
                Err(verdict) => unseen = unseen.or(Some(verdict)),
            }
        }
    }
    concluded(
        Severity::Warning,
        "a link runs below 200 Gb/s",
        slow,
        "use a QSFP cable that is made for 200 Gb/s; behind a switch, set the speed of its ports by hand",
        unseen,
    )
}

/// Device and function on the card, which are the same for both halves of a port.
fn port_numbers(host: &Host) -> BTreeSet<(u8, u8)> {
    let rails = host.used_rails().into_iter();
    rails
        .map(|rail| {
            let PciAddress {
                device, function, ..
            } = rail.function.pci.address;
            (device, function)
        })
        .collect()
}

fn ports(cluster: &Cluster) -> Verdict {
    let used = match cluster.used() {
        Ok(used) => used,
        Err(verdict) => return verdict,
    };
    // In a ring of three a cable joins different ports.
    let [(first, _), (second, _)] = &used[..] else {
        return crate::doctor::not_applicable("these are more than two machines");
    };
    if port_numbers(first) == port_numbers(second) {
        return Verdict::Passed;
    }
    let evidence = [first, second].map(|host| {
        let names: Vec<String> = host.used_rails().iter().map(|rail| rail.name()).collect();
        seen(
            format!("{}: interfaces with a link", host.name),
            names.join(", "),
        )
    });
    concluded(
        Severity::Warning,
        "the cable is in different ports of the two machines",
        evidence.into(),
        "put it into the same QSFP port of both",
        None,
    )
}
