//! Netplan: what the rails have now they have after the next start too.

use std::net::Ipv4Addr;

use crate::doctor::{Check, Examination, Severity, Verdict, not_examined, seen};
use crate::reading::{Failure, Reading};

use super::super::facts::{Cluster, knows_addresses, unsettled};
use super::super::host::{Host, Rail};
use super::super::netplan::{Declared, NetplanError};
use super::concluded::concluded;

pub(super) const CHECKS: &[Examination<Cluster>] = &[Examination {
    check: Check {
        id: "cluster.netplan",
        title: "addresses and MTU of the rails outlive a restart",
        source: "NVIDIA/dgx-spark-playbooks, nvidia/connect-two-sparks, option 2; tonyd2wild DeepSeek-v4-Flash-Vision-Exp issue #38",
    },
    run: netplan,
}];

fn netplan(cluster: &Cluster) -> Verdict {
    let used = match cluster.used() {
        Ok(used) => used,
        Err(verdict) => return verdict,
    };
    let (mut lost, mut unseen) = (Vec::new(), None);
    let mut severity = Severity::Note;
    for (host, rails) in &used {
        let netplan = match (&host.netplan, knows_addresses(host)) {
            (Reading::Value(netplan), Ok(())) => netplan,
            (_, Err(verdict)) => {
                unseen = unseen.or(Some(verdict));
                continue;
            }
            (why, Ok(())) => {
                unseen = unseen.or(Some(needs_netplan(host, why.failure())));
                continue;
            }
        };
        for rail in rails {
            if !rail.has_carrier() {
                unseen = unseen.or_else(|| {
                    Some(not_examined(format!(
                        "needs a link of {} on {} (cluster.links)",
                        rail.name(),
                        host.name
                    )))
                });
                continue;
            }
            let declared = match netplan.of(&rail.name()) {
                Ok(declared) => declared,
                Err(why) => {
                    unseen = unseen.or_else(|| Some(not_understood(host, why)));
                    continue;
                }
            };
            // An address of a network that both halves are in is kept by either.
            let siblings = rails.iter().filter(|other| other.shares_network(rail));
            let of_siblings: Vec<Declared> = siblings
                .filter_map(|other| netplan.of(&other.name()).ok())
                .collect();
            let is_kept = |address: Ipv4Addr| {
                declared.keeps(address) || of_siblings.iter().any(|other| other.keeps(address))
            };
            if rail
                .possible_ipv4()
                .iter()
                .any(|address| !is_kept(*address))
            {
                unseen = unseen.or_else(|| Some(unsettled(host, rail)));
            }
            for (of, said) in losses(rail, &declared, is_kept) {
                severity = severity.max(of);
                let place = format!("{}: /etc/netplan: {}", host.name, rail.name());
                lost.push(seen(place, said));
            }
        }
    }
    concluded(
        severity,
        "netplan and what a rail has now differ: after the next start it may be otherwise",
        lost,
        "write addresses and mtu: 9000 of both interfaces into /etc/netplan/40-cx7.yaml, as NVIDIA's connect-two-sparks playbook does, and sudo netplan apply; \
         addresses of `ip addr add` are gone after a restart, and one owner found profiles of nmcli gone too",
        unseen,
    )
}

/// What the next start takes from a rail.
fn losses(
    rail: &Rail,
    declared: &Declared,
    is_kept: impl Fn(Ipv4Addr) -> bool,
) -> Vec<(Severity, String)> {
    let mut lost = Vec::new();
    for address in rail.ipv4() {
        let is_link_local = address.is_link_local();
        if is_link_local && declared.takes_link_local {
            let said = format!("{address} is link-local: another one may be taken");
            lost.push((Severity::Note, said));
            continue;
        }
        let is_of_dhcp = declared.takes_dhcp && !is_link_local;
        if !is_kept(address) && !is_of_dhcp {
            let said = format!("{address} is not there, and was given by hand");
            lost.push((Severity::Warning, said));
        }
    }
    if let Reading::Value(mtu) = rail.function.mtu {
        const USUAL: u32 = 1500;
        let next = declared.mtu.unwrap_or(USUAL);
        if mtu > next {
            let said = format!("mtu {mtu} is not there");
            lost.push((Severity::Warning, said));
        } else if mtu < next {
            let said = format!("mtu {next} is there, and {mtu} is used: netplan apply was not run");
            lost.push((Severity::Note, said));
        }
    }
    lost
}

fn not_understood(host: &Host, why: &NetplanError) -> Verdict {
    let key = match why.key.as_str() {
        "" => String::new(),
        key => format!(" (`{key}`)"),
    };
    not_examined(format!(
        "needs a netplan of {} that is understood: line {}{key} of its files, one after the other, is not",
        host.name, why.line
    ))
}

fn needs_netplan(host: &Host, why: Option<&Failure>) -> Verdict {
    if let Some(why @ Failure::Malformed { .. }) = why {
        let name = &host.name;
        return not_examined(format!(
            "needs a netplan of {name} that is understood: {why}"
        ));
    }
    not_examined(format!(
        "needs /etc/netplan/*.yaml of {}, which root alone may read: sudo awk 1 /etc/netplan/*.yaml | sparkpilot cluster record --netplan - FILE",
        host.name
    ))
}
