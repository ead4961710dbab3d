//! Netplan: what the rails have now they have after the next start too.

use std::net::Ipv4Addr;

use crate::doctor::{Check, Examination, Severity, Verdict, not_examined, seen};
use crate::reading::{Failure, Reading};

use super::super::facts::{Cluster, knows_addresses, unsettled};
use super::super::host::{Host, Rail};
use super::super::netplan::Declared;
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
        for rail in rails.iter().filter(|rail| rail.has_carrier()) {
            // Who has such an address is not known, and so neither who keeps it.
            let is_declared = |address: &&Ipv4Addr| {
                let mut rails = rails.iter();
                rails.any(|rail| {
                    let declared = netplan.interfaces.get(&rail.name());
                    declared.is_some_and(|declared| declared.keeps(**address))
                })
            };
            let possible = rail.possible_ipv4();
            if possible.iter().filter(is_declared).count() < possible.len() {
                unseen = unseen.or_else(|| Some(unsettled(host, rail)));
            }
            let nothing = Declared::default();
            let declared = netplan.interfaces.get(&rail.name()).unwrap_or(&nothing);
            for (of, said) in losses(rail, declared) {
                severity = severity.max(of);
                let place = format!("{}: /etc/netplan: {}", host.name, rail.name());
                lost.push(seen(place, said));
            }
        }
    }
    concluded(
        severity,
        "what a rail has now it may not have after the next start",
        lost,
        "write addresses and mtu: 9000 of both interfaces into /etc/netplan/40-cx7.yaml, as NVIDIA's connect-two-sparks playbook does, and sudo netplan apply; \
         profiles of nmcli and addresses of `ip addr add` are gone after a restart",
        unseen,
    )
}

/// What the next start takes from a rail.
fn losses(rail: &Rail, declared: &Declared) -> Vec<(Severity, String)> {
    let mut lost = Vec::new();
    for address in rail.ipv4() {
        let is_link_local = address.is_link_local();
        if is_link_local && declared.takes_link_local {
            let said = format!("{address} is link-local: another one may be taken");
            lost.push((Severity::Note, said));
            continue;
        }
        let is_of_dhcp = declared.takes_dhcp && !is_link_local;
        if !declared.keeps(address) && !is_of_dhcp {
            let said = format!("{address} is not there, and was given by hand");
            lost.push((Severity::Warning, said));
        }
    }
    if let Reading::Value(mtu) = rail.function.mtu {
        const USUAL: u32 = 1500;
        if mtu != declared.mtu.unwrap_or(USUAL) {
            let said = format!("mtu {mtu} is not there");
            lost.push((Severity::Warning, said));
        }
    }
    lost
}

fn needs_netplan(host: &Host, why: Option<&Failure>) -> Verdict {
    if let Some(why @ Failure::Malformed { .. }) = why {
        let name = &host.name;
        return not_examined(format!(
            "needs a netplan of {name} that is understood: {why}"
        ));
    }
    not_examined(format!(
        "needs /etc/netplan/*.yaml of {}, which root alone may read: sudo cat /etc/netplan/*.yaml > netplan.txt, then sparkpilot cluster record \
         --netplan netplan.txt FILE",
        host.name
    ))
}
