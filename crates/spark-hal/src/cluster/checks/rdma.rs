//! RDMA: identifiers of RoCE v2, and memory that may be locked.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use crate::bytes::gibibytes;
use crate::doctor::{Check, Examination, Severity, Verdict, not_examined, seen};
use crate::network::ENOUGH_LOCKED_BYTES;
use crate::reading::Reading;

use super::super::facts::{Cluster, RECORD, has_card, known, knows_addresses};
use super::super::host::Rail;
use super::concluded::concluded;

pub(super) const CHECKS: &[Examination<Cluster>] = &[
    Examination {
        check: Check {
            id: "cluster.gid",
            title: "every rail has an identifier of RoCE v2 for its IPv4 address",
            source: "tonyd2wild DeepSeek-v4-Flash-Vision-Exp issue #38, PR #40; MiaAI-Lab DeepSeek-v4-Flash PR #10",
        },
        run: gid,
    },
    Examination {
        check: Check {
            id: "cluster.memlock",
            title: "every machine lets enough memory be locked for RDMA",
            source: "graham33/nixos-dgx-spark: ibv_reg_mr fails with `Cannot allocate memory`",
        },
        run: memlock,
    },
];

fn gid(cluster: &Cluster) -> Verdict {
    let used = match cluster.used() {
        Ok(used) => used,
        Err(verdict) => return verdict,
    };
    let (mut indexes, mut evidence) = (BTreeSet::new(), Vec::new());
    let (mut missing, mut unseen) = (Vec::new(), None);
    let mut bare = Vec::new();
    for (host, rails) in &used {
        let has_device = |rail: &Rail| rail.function.rdma_device != Reading::NotSupported;
        if !host.rails.iter().any(has_device) {
            bare.extend(rails.iter().map(|rail| {
                let path = rail.function.pci.path();
                seen(format!("{}: {path}/infiniband", host.name), "not there")
            }));
            continue;
        }
        for rail in rails.iter().filter(|rail| rail.has_carrier()) {
            let device = rail.function.rdma_device.to_string();
            let place = || format!("gids of {device} on {}: {RECORD}", host.name);
            let looked = known(&rail.gids, place);
            let gids = match looked.and_then(|gids| knows_addresses(host).map(|()| gids)) {
                Ok(gids) => gids,
                Err(verdict) => {
                    unseen = unseen.or(Some(verdict));
                    continue;
                }
            };
            // Its own ones, where it is known which these are.
            let (own, possible) = (rail.ipv4(), rail.possible_ipv4());
            let addresses: BTreeSet<&Ipv4Addr> = own.iter().chain(possible).collect();
            let place = format!("{}: /sys/class/infiniband/{device}/ports/1/gids", host.name);
            let of_address = gids.iter().find(|gid| {
                gid.roce_v2_ipv4()
                    .is_some_and(|address| addresses.contains(&address))
            });
            match of_address {
                None => missing.push(seen(place, "none of RoCE v2 and IPv4")),
                Some(gid) => {
                    indexes.insert(gid.index);
                    evidence.push(seen(
                        place,
                        format!("RoCE v2 of its IPv4 address is {}", gid.index),
                    ));
                }
            }
        }
    }
    if !bare.is_empty() {
        return concluded(
            Severity::Error,
            "a machine has no RDMA device: the kernel's driver of them (mlx5_ib) is not loaded, and nothing goes by RDMA",
            bare,
            "sudo modprobe mlx5_ib   # and look for it in: lsmod; then record the machine again",
            None,
        );
    }
    if !missing.is_empty() {
        return concluded(
            Severity::Error,
            "a rail has no identifier of RoCE v2 for an IPv4 address: RDMA falls back to link-local ones, or fails",
            missing,
            "give the interface an IPv4 address (cluster.addresses) and look again",
            None,
        );
    }
    if indexes.len() < 2 {
        evidence.clear();
    }
    concluded(
        Severity::Note,
        "identifiers have different numbers: no one NCCL_IB_GID_INDEX or UCX_IB_GID_INDEX fits all rails",
        evidence,
        "leave NCCL_IB_GID_INDEX unset (set to nothing it counts as 0): newer NCCL finds the identifier of each rail, and numbers move when addresses come and go",
        unseen,
    )
}

fn memlock(cluster: &Cluster) -> Verdict {
    let have_cards = cluster
        .needs_two_hosts()
        .and_then(|()| cluster.hosts.iter().try_for_each(has_card));
    if let Err(verdict) = have_cards {
        return verdict;
    }
    let (mut small, mut unseen) = (Vec::new(), None);
    for host in &cluster.hosts {
        let limit = &host.machine.network.memlock_limit_bytes;
        let place = format!(
            "{}: /proc/self/limits Max locked memory, soft limit",
            host.name
        );
        match known(limit, || place.clone()) {
            Ok(_) if host.is_of_root => {
                unseen = unseen.or(Some(not_examined(format!(
                    "needs a record of {} that is made by who runs MPI: root has other limits",
                    host.name
                ))));
            }
            Ok(limit) if *limit < ENOUGH_LOCKED_BYTES => {
                let most = host.machine.network.memlock_most_bytes.as_value();
                let can_raise = most.is_some_and(|most| *most >= ENOUGH_LOCKED_BYTES);
                let said = match can_raise {
                    true => ", and `ulimit -l hard` raises it for one shell of bash",
                    false => "",
                };
                small.push(seen(place, format!("{}{said}", gibibytes(*limit))));
            }
            Ok(_) => {}
            Err(verdict) => unseen = unseen.or(Some(verdict)),
        }
    }
    concluded(
        Severity::Warning,
        "too little memory may be locked: registering memory for RDMA fails",
        small,
        "add `* hard memlock unlimited` and `* soft memlock unlimited` to /etc/security/limits.conf and log in again",
        unseen,
    )
}
