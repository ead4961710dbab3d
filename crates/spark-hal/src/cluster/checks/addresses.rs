//! Addresses: every rail has one, in a network of its own that another machine is in too, and nobody has it twice. MTU.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use crate::doctor::{Check, Examination, Severity, Verdict, not_examined, seen};
use crate::network::Ipv4Network;

use super::super::facts::{Cluster, Used, known, knows_addresses, of_rail, unsettled};
use super::super::host::{Host, Rail};
use super::concluded::{PLAYBOOK, concluded};

pub(super) const CHECKS: &[Examination<Cluster>] = &[
    Examination {
        check: Check {
            id: "cluster.addresses",
            title: "both halves of each port in use have an IPv4 address that no other machine has",
            source: PLAYBOOK,
        },
        run: addresses,
    },
    Examination {
        check: Check {
            id: "cluster.networks",
            title: "each rail is in a network of its own, which another machine is in too",
            source: "NVIDIA/dgx-spark-playbooks, nvidia/multi-sparks-through-switch: different subnets are required",
        },
        run: networks,
    },
    Examination {
        check: Check {
            id: "cluster.mtu",
            title: "all rails use packets of 9000 bytes",
            source: "NVIDIA/dgx-spark-playbooks issue #25, PR #103; tonyd2wild DeepSeek-v4-Flash-Vision-Exp issue #38",
        },
        run: mtu,
    },
];

const LARGE_MTU: u32 = 9000;

/// The rails in use on hosts whose addresses are known.
fn with_addresses(cluster: &Cluster) -> Result<Vec<Used<'_>>, Verdict> {
    let used = cluster.used()?;
    used.iter()
        .try_for_each(|(host, _)| knows_addresses(host))?;
    Ok(used)
}

fn addresses(cluster: &Cluster) -> Verdict {
    let used = match with_addresses(cluster) {
        Ok(used) => used,
        Err(verdict) => return verdict,
    };
    // By the machine's place in the cluster: two of them may have one name.
    let mut holders: BTreeMap<Ipv4Addr, Vec<(usize, &Host, &Rail)>> = BTreeMap::new();
    let (mut without, mut unseen) = (Vec::new(), None);
    for (number, (host, rails)) in used.iter().enumerate() {
        for rail in rails {
            let possible = rail.possible_ipv4();
            match (rail.ipv4().is_empty(), possible.is_empty()) {
                (true, true) => without.push(seen(
                    format!("{}: /proc/net: {}", host.name, rail.name()),
                    "no IPv4 address",
                )),
                (true, false) => unseen = unseen.or_else(|| Some(unsettled(host, rail))),
                (false, _) => {}
            }
            for address in rail.ipv4().iter().chain(possible) {
                let of_address = holders.entry(*address).or_default();
                of_address.push((number, host, rail));
            }
        }
    }
    let twice = holders.iter().filter(|(_, holders)| {
        let first = holders[0].0;
        holders.iter().any(|(number, ..)| *number != first)
    });
    let twice: Vec<_> = twice
        .flat_map(|(address, holders)| {
            holders.iter().map(move |(_, host, rail)| {
                seen(
                    format!("{}: /proc/net: {}", host.name, rail.name()),
                    address,
                )
            })
        })
        .collect();
    if !twice.is_empty() {
        return concluded(
            Severity::Error,
            "two machines have the same address",
            twice,
            "give each machine an address of its own in netplan: 192.168.100.10/24 here, 192.168.100.11/24 there",
            None,
        );
    }
    concluded(
        Severity::Warning,
        "half of a port in use has no IPv4 address: 100 instead of 200 Gb/s",
        without,
        "give both interfaces of the port an address, each in a network of its own: /etc/netplan/40-cx7.yaml of NVIDIA's connect-two-sparks playbook",
        unseen,
    )
}

fn networks(cluster: &Cluster) -> Verdict {
    let used = match with_addresses(cluster) {
        Ok(used) => used,
        Err(verdict) => return verdict,
    };
    let (mut shared, mut lonely) = (Vec::new(), Vec::new());
    for (host, rails) in &used {
        for rail in rails {
            let of_others = || {
                used.iter()
                    .filter(|(other, _)| !std::ptr::eq(*other, *host))
            };
            let mut others = of_others().flat_map(|(_, rails)| rails);
            let own = &rail.function.networks;
            let is_in = |other: &Rail| rail.shares_network(other);
            let place = format!("{}: /proc/net/route: {}", host.name, rail.name());
            let names: Vec<String> = own.iter().map(ToString::to_string).collect();
            let siblings = rails.iter().filter(|other| other.name() != rail.name());
            let of_others = host.machine.network.shared_networks.iter();
            let other = of_others.filter(|(_, network)| own.contains(network));
            let other: Vec<&str> = other.map(|(interface, _)| interface.as_str()).collect();
            if !other.is_empty() {
                let said = format!("{}, and {} too", names.join(", "), other.join(", "));
                shared.push(seen(place, said));
            } else if siblings.into_iter().any(|other| is_in(other)) {
                shared.push(seen(place, names.join(", ")));
            } else if !own.is_empty() && !others.any(|other| is_in(other)) {
                lonely.push(seen(place, names.join(", ")));
            }
        }
    }
    if !shared.is_empty() {
        return concluded(
            Severity::Warning,
            "two interfaces of a machine are in one network, and TCP leaves by one of them alone (NVIDIA's spark_cluster_setup.py puts both halves of a port \
             into one; its playbook for a switch asks for different ones)",
            shared,
            "give each interface a network of its own in netplan: 192.168.100.0/24 and 192.168.101.0/24, and neither that of another interface",
            None,
        );
    }
    let has_networks = |rail: &&Rail| !rail.function.networks.is_empty();
    let bare = used.iter().find_map(|(host, rails)| {
        let rail = rails.iter().find(|rail| !has_networks(rail))?;
        Some(Verdict::NotExamined(format!(
            "needs an address of {} on {} (cluster.addresses)",
            rail.name(),
            host.name
        )))
    });
    if let Some(verdict) = bare {
        return verdict;
    }
    concluded(
        Severity::Error,
        "an interface is in a network that no other machine is in: nobody is reached by it",
        lonely,
        "give the interfaces at both ends of a cable addresses of the same network, with the same length of prefix",
        None,
    )
}

fn mtu(cluster: &Cluster) -> Verdict {
    let used = match cluster.used() {
        Ok(used) => used,
        Err(verdict) => return verdict,
    };
    // Those that reach each other, which are in one network. Of rails in none that is known, every one of two machines may be joined to every other.
    let mut groups: BTreeMap<Option<Ipv4Network>, Vec<(u32, String)>> = BTreeMap::new();
    let mut unseen = None;
    for (host, rails) in &used {
        for rail in rails.iter().filter(|rail| rail.has_carrier()) {
            let place = of_rail(host, rail, "mtu");
            let mtu = match known(&rail.function.mtu, || place.clone()) {
                Ok(mtu) => *mtu,
                Err(verdict) => {
                    unseen = unseen.or(Some(verdict));
                    continue;
                }
            };
            let networks = rail.function.networks.iter().map(|network| Some(*network));
            let networks: Vec<_> = networks.collect();
            let networks = if networks.is_empty() {
                vec![None]
            } else {
                networks
            };
            for network in networks {
                groups
                    .entry(network)
                    .or_default()
                    .push((mtu, place.clone()));
            }
        }
    }
    let differs = |group: &Vec<(u32, String)>| group.iter().any(|(mtu, _)| *mtu != group[0].0);
    let unknown = groups.get(&None).is_some_and(differs);
    if unknown && used.len() > 2 {
        groups.remove(&None);
        unseen = unseen.or_else(|| Some(not_examined("needs an address of every rail (cluster.addresses): which of them reach each other is not known")));
    }
    let differ = groups.values().any(differs);
    let mut all: Vec<(u32, String)> = Vec::new();
    for group in groups.into_values() {
        if !differ || differs(&group) {
            all.extend(group);
        }
    }
    all.dedup();
    let shown = all.iter().filter(|(mtu, _)| differ || *mtu < LARGE_MTU);
    let evidence = shown.map(|(mtu, place)| seen(place, mtu)).collect();
    let fix = format!(
        "mtu: {LARGE_MTU} for all of these interfaces in netplan; until the next start sudo ip link set INTERFACE mtu {LARGE_MTU}"
    );
    match differ {
        true => concluded(
            Severity::Warning,
            "rails use packets of different lengths: large messages of RDMA fail between them (IBV_WC_RETRY_EXC_ERR)",
            evidence,
            fix,
            unseen,
        ),
        false => concluded(
            Severity::Note,
            "rails use small packets: NCCL measured 19 to 21 GB/s with them, and 23 with large ones",
            evidence,
            fix,
            unseen,
        ),
    }
}
