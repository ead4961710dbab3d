//! What was measured beside rates: the MPI of every rank, and how far clocks are apart.

use std::collections::{BTreeMap, BTreeSet};

use crate::doctor::{Check, Examination, Severity, Verdict, not_examined, seen};

use super::super::facts::{Cluster, Link};
use super::concluded::concluded;

pub(super) const CHECKS: &[Examination<Cluster>] = &[
    Examination {
        check: Check {
            id: "cluster.mpi",
            title: "all machines have the same build of MPI",
            source: "docs/mpi.md: builds of different MPI libraries do not go together",
        },
        run: mpi,
    },
    Examination {
        check: Check {
            id: "cluster.clocks",
            title: "clocks are less than 0.1 s apart",
            source: "this crate's choice: logs of several machines are read side by side",
        },
        run: clocks,
    },
];

const MOST_APART_US: f64 = 100_000.0;

fn mpi(cluster: &Cluster) -> Verdict {
    let links = match cluster.links() {
        Ok(links) => links,
        Err(verdict) => return verdict,
    };
    let mut builds: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for link in &links {
        for (rank, host) in std::iter::zip([link.pair.a, link.pair.b], link.ends) {
            let rank = &link.measurement.ranks[rank];
            let build = format!("{} ({})", rank.mpi, rank.build);
            builds.entry(&host.name).or_default().insert(build);
        }
    }
    let all: BTreeSet<&String> = builds.values().flatten().collect();
    let evidence = match all.len() {
        0 | 1 => Vec::new(),
        _ => builds
            .iter()
            .flat_map(|(host, builds)| {
                builds
                    .iter()
                    .map(move |build| seen(format!("{host}: MPI_Get_library_version"), build))
            })
            .collect(),
    };
    let missing = cluster
        .hosts
        .iter()
        .find(|host| !builds.contains_key(host.name.as_str()));
    concluded(
        Severity::Warning,
        "the machines have different builds of MPI",
        evidence,
        "install the same packages on all machines, and build sparkpilot-mpi on each",
        missing
            .map(|host| not_examined(format!("needs a measurement with a rank on {}", host.name))),
    )
}

fn clocks(cluster: &Cluster) -> Verdict {
    let links = match cluster.links() {
        Ok(links) => links,
        Err(verdict) => return verdict,
    };
    let (mut apart, mut unseen) = (Vec::new(), unmeasured(cluster, &links));
    for link in &links {
        let clock = link.pair.clock;
        let [a, b] = link.ends.map(|host| &host.name);
        let said = format!(
            "{:+.6} s, within {:.6} s",
            clock.ahead_us / 1e6,
            clock.within_us / 1e6
        );
        if clock.ahead_us.abs() - clock.within_us > MOST_APART_US {
            apart.push(seen(
                format!("{}: clock of {b} ahead of that of {a}", link.file),
                said,
            ));
        } else if clock.ahead_us.abs() + clock.within_us > MOST_APART_US {
            unseen = unseen.or(Some(not_examined(format!(
                "needs quicker messages between {a} and {b}: clocks are apart by {said}"
            ))));
        }
    }
    concluded(
        Severity::Note,
        "clocks of two machines are more than 0.1 s apart",
        apart,
        "sudo timedatectl set-ntp true   # on every machine",
        unseen,
    )
}

/// Two hosts between which nothing was measured.
fn unmeasured(cluster: &Cluster, links: &[Link<'_>]) -> Option<Verdict> {
    let pairs = cluster.pairs_of_hosts();
    let missing = pairs
        .into_iter()
        .find(|[a, b]| !links.iter().any(|link| link.is_between(a, b)));
    missing.map(|[a, b]| {
        not_examined(format!(
            "needs a measurement between {} and {}",
            a.name, b.name
        ))
    })
}
