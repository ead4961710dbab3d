//! Rates: what both rails carry together, and each alone.

use crate::doctor::{Check, Examination, Seen, Verdict, not_examined, seen};

use super::super::facts::{Cluster, Link, has_card};
use super::super::host::{Host, Rail};
use super::super::measurement::Spread;
use super::causes::Slow;
use super::concluded::concluded;
use super::way::Way;

const SOURCE: &str = "NVIDIA/dgx-spark-playbooks, performance_benchmarking_guide.md: 92.57 + 97.28 = 189.85 Gb/s; spark_cluster_setup.py warns below 175";

pub(super) const CHECKS: &[Examination<Cluster>] = &[
    Examination {
        check: Check {
            id: "cluster.bandwidth",
            title: "both rails of a port carry 190 Gb/s together",
            source: SOURCE,
        },
        run: together,
    },
    Examination {
        check: Check {
            id: "cluster.rails",
            title: "each rail alone carries half of that",
            source: SOURCE,
        },
        run: each,
    },
];

/// What is expected of rails.
struct Expected {
    gbps: f64,
    /// Below it a link is slow.
    enough_gbps: f64,
    /// Above it something else was measured.
    most_gbps: f64,
}

const TOGETHER: Expected = Expected {
    gbps: 190.0,
    enough_gbps: 175.0,
    most_gbps: 240.0,
};
const ALONE: Expected = Expected {
    gbps: 95.0,
    enough_gbps: 87.5,
    most_gbps: 120.0,
};

fn together(cluster: &Cluster) -> Verdict {
    let links = match links(cluster) {
        Ok(links) => links,
        Err(verdict) => return verdict,
    };
    let mut slow = Vec::new();
    let mut unseen = None;
    for [a, b] in cluster.pairs_of_hosts() {
        let of_pair = links.iter().filter(|link| link.is_between(a, b));
        let mut n_measured = 0;
        for link in of_pair.filter(|link| link.measurement.rail.is_none()) {
            n_measured += 1;
            if let Err(verdict) = judge(link, None, &TOGETHER, &mut slow) {
                unseen = unseen.or(Some(verdict));
            }
        }
        if n_measured == 0 {
            unseen = unseen.or_else(|| {
                Some(not_examined(format!(
                    "needs a measurement between {} and {} without --rail",
                    a.name, b.name
                )))
            });
        }
    }
    verdict(&slow, &TOGETHER, unseen)
}

fn each(cluster: &Cluster) -> Verdict {
    let links = match links(cluster) {
        Ok(links) => links,
        Err(verdict) => return verdict,
    };
    let mut slow = Vec::new();
    let mut unseen = None;
    let mut measured: Vec<(&Link<'_>, String)> = Vec::new();
    for link in &links {
        let Some(label) = link.measurement.rail.as_deref() else {
            continue;
        };
        match labelled(link, label).and_then(|name| {
            judge(link, Some(label), &ALONE, &mut slow)?;
            Ok(name)
        }) {
            Ok(name) => measured.push((link, name)),
            Err(verdict) => unseen = unseen.or(Some(verdict)),
        }
    }
    let pairs = cluster.pairs_of_hosts().into_iter();
    let untried = pairs.filter_map(|pair| untried(pair, &measured)).next();
    let unseen = unseen.or_else(|| untried.map(not_examined));
    verdict(&slow, &ALONE, unseen)
}

/// What it would take to have measured every rail that leads from one host to another.
fn untried([a, b]: [&Host; 2], measured: &[(&Link<'_>, String)]) -> Option<String> {
    let there = b.used_rails();
    let leads_there = |rail: &&Rail| {
        let networks = &rail.function.networks;
        let is_shared = |other: &&Rail| {
            let mut of_other = other.function.networks.iter();
            of_other.any(|network| networks.contains(network))
        };
        // In a ring a rail leads to one of the others alone; one without a known network may lead anywhere.
        networks.is_empty() || there.iter().any(is_shared)
    };
    let rails: Vec<&Rail> = a.used_rails().into_iter().filter(leads_there).collect();
    if rails.is_empty() {
        return Some(format!("needs a rail from {} to {}", a.name, b.name));
    }
    let is_measured = |rail: &Rail| {
        let mut measured = measured.iter();
        measured.any(|(link, name)| link.is_between(a, b) && *name == rail.name())
    };
    let missing = rails.into_iter().find(|rail| !is_measured(rail))?;
    let device = &missing.function.rdma_device;
    Some(format!(
        "needs a measurement of {device} alone between {} and {}: mpirun -x UCX_NET_DEVICES={device}:1 … sparkpilot-mpi measure --rail {device}",
        a.name, b.name
    ))
}

/// What was measured, between hosts that all have a card.
fn links(cluster: &Cluster) -> Result<Vec<Link<'_>>, Verdict> {
    let links = cluster.links()?;
    cluster.hosts.iter().try_for_each(has_card)?;
    Ok(links)
}

/// The rail that a label names, if MPI was limited to it and to nothing else.
fn labelled(link: &Link<'_>, label: &str) -> Result<String, Verdict> {
    let [a, b] = link.ends;
    let rail = a.rail(label).or_else(|| b.rail(label));
    let Some(rail) = rail else {
        return Err(not_examined(format!(
            "needs a rail's name: `{label}` of {} is none of {} or {}",
            link.file, a.name, b.name
        )));
    };
    let ways = Way::of(link);
    if ways.iter().any(Way::is_untold) {
        return Err(not_examined(format!(
            "needs a measurement of which MPI was told the way, as {} was not: add --mca pml ucx, or for TCP --mca pml ob1",
            link.file
        )));
    }
    let is_alone = ways
        .iter()
        .all(|way| way.is_of_rails() && way.rails.len() == 1);
    let is_it = ways.iter().any(|way| way.rails.contains(&rail.name()));
    match is_alone && is_it {
        true => Ok(rail.name()),
        false => Err(not_examined(format!(
            "needs MPI limited to {label}, as {} calls itself: mpirun -x UCX_NET_DEVICES={}:1, or for TCP --mca pml ob1 --mca btl_tcp_if_include {}",
            link.file,
            rail.function.rdma_device,
            rail.name()
        ))),
    }
}

/// Adds a link to the slow ones if it is one.
fn judge<'a, 'b>(
    link: &'b Link<'a>,
    rail: Option<&'a str>,
    expected: &Expected,
    slow: &mut Vec<Slow<'a, 'b>>,
) -> Result<(), Verdict> {
    let gbps = slower(link);
    let fastest = link.pair.from_a_gbps.max.max(link.pair.from_b_gbps.max);
    if fastest > expected.most_gbps {
        return Err(not_examined(format!(
            "needs a measurement of a cable: {fastest:.0} Gb/s in {} are more than one carries",
            link.file
        )));
    }
    if gbps < expected.enough_gbps {
        slow.push(Slow {
            link,
            ways: Way::of(link),
            rail,
            gbps,
        });
    }
    Ok(())
}

/// Median of the slower direction.
fn slower(link: &Link<'_>) -> f64 {
    link.pair
        .from_a_gbps
        .median
        .min(link.pair.from_b_gbps.median)
}

fn verdict(slow: &[Slow<'_, '_>], expected: &Expected, unseen: Option<Verdict>) -> Verdict {
    let slowest = slow
        .iter()
        .min_by(|one, other| one.gbps.total_cmp(&other.gbps));
    let Some(slowest) = slowest else {
        return unseen.unwrap_or(Verdict::Passed);
    };
    let mut evidence: Vec<Seen> = slow.iter().flat_map(figures).collect();
    let cause = slowest.cause();
    evidence.extend(cause.evidence);
    let [a, b]: [&Host; 2] = slowest.link.ends;
    let by = slowest
        .rail
        .map(|rail| format!(" by {rail}"))
        .unwrap_or_default();
    let message = format!(
        "{} and {} move {:.1} of {:.0} Gb/s{by}: {}",
        a.name, b.name, slowest.gbps, expected.gbps, cause.what
    );
    concluded(cause.severity, message, evidence, cause.fix, None)
}

/// Both directions of a slow link.
fn figures(slow: &Slow<'_, '_>) -> [Seen; 2] {
    let [a, b] = slow.link.ends;
    let pair = slow.link.pair;
    let of = |from: &Host, to: &Host, rate: &Spread| {
        seen(
            format!("{}: {} to {}", slow.link.file, from.name, to.name),
            format!(
                "{:.2} Gb/s ({:.2} to {:.2}, {} times)",
                rate.median, rate.min, rate.max, rate.n
            ),
        )
    };
    [of(a, b, &pair.from_a_gbps), of(b, a, &pair.from_b_gbps)]
}
