//! Software and firmware: the same on all machines, and names that tell them apart.

use std::collections::BTreeSet;

use crate::doctor::{Check, Examination, Seen, Severity, Verdict, not_examined, seen};

use super::super::facts::{Cluster, RECORD, is_same, known};
use super::concluded::concluded;

pub(super) const CHECKS: &[Examination<Cluster>] = &[
    Examination {
        check: Check {
            id: "cluster.names",
            title: "every machine has a name of its own, and is here once",
            source: "this crate: measurements tell machines apart by their names",
        },
        run: names,
    },
    Examination {
        check: Check {
            id: "cluster.software",
            title: "kernel, NVIDIA driver and ConnectX firmware are the same on all machines",
            source: "this crate: where two ends do not agree, what differs between them is the first place to look",
        },
        run: software,
    },
];

fn names(cluster: &Cluster) -> Verdict {
    if let Err(verdict) = cluster.needs_two_hosts() {
        return verdict;
    }
    let hosts = cluster.hosts.iter().enumerate();
    let twice = hosts.filter(|(number, host)| {
        let mut others = cluster.hosts.iter().enumerate();
        others.any(|(other, named)| other != *number && is_same(&named.name, &host.name))
    });
    let twice = twice.map(|(_, host)| host);
    let unnamed = cluster.hosts.iter().find(|host| !host.names_itself);
    concluded(
        Severity::Warning,
        "two machines have the same name, or one is here twice: measurements do not tell them apart",
        twice
            .map(|host| seen("/proc/sys/kernel/hostname", &host.name))
            .collect(),
        "sudo hostnamectl set-hostname spark-2   # then record the machine again",
        unnamed.map(|host| {
            not_examined(format!(
                "needs the name of the machine {}, which records for publication leave out: {RECORD}",
                host.name
            ))
        }),
    )
}

/// What each host says, if not all say the same.
fn differing(said: &[(String, String)]) -> Vec<Seen> {
    let values: BTreeSet<&String> = said.iter().map(|(_, value)| value).collect();
    if values.len() < 2 {
        return Vec::new();
    }
    said.iter()
        .map(|(place, value)| seen(place, value))
        .collect()
}

fn software(cluster: &Cluster) -> Verdict {
    if let Err(verdict) = cluster.needs_two_hosts() {
        return verdict;
    }
    let (mut kernels, mut drivers, mut firmware) = (Vec::new(), Vec::new(), Vec::new());
    let mut unseen = None;
    let mut add = |of: &mut Vec<(String, String)>,
                   value: Result<String, Verdict>,
                   place: String| match value {
        Ok(value) => of.push((place, value)),
        Err(verdict) => unseen = unseen.take().or(Some(verdict)),
    };
    for host in &cluster.hosts {
        let place = |what: &str| format!("{}: {what}", host.name);
        let kernel = place("/proc/sys/kernel/osrelease");
        let value = known(&host.machine.kernel, || kernel.clone());
        add(&mut kernels, value.cloned(), kernel.clone());
        let driver = place("/proc/driver/nvidia/version");
        let value = known(&host.machine.stack.driver, || driver.clone());
        add(&mut drivers, value.map(ToString::to_string), driver.clone());
        for rail in &host.rails {
            let version = place(&format!("firmware of {}", rail.name()));
            let value = known(&rail.firmware, || version.clone());
            add(&mut firmware, value.cloned(), version.clone());
        }
    }
    let evidence = [kernels, drivers, firmware]
        .into_iter()
        .flat_map(|said| differing(&said));
    concluded(
        Severity::Note,
        "the machines do not have the same software",
        evidence.collect(),
        "sudo apt update && sudo apt dist-upgrade, sudo fwupdmgr upgrade, and a restart, on all of them",
        unseen,
    )
}
