//! Rates: what both rails carry together, and each alone.

use crate::doctor::{Check, Examination, Seen, Verdict, not_examined, seen};

use super::super::facts::{Cluster, Link, has_card, leading};
use super::super::host::{Host, Rail};
use super::causes::{Cause, Slow};
use super::command::{device, measure};
use super::concluded::concluded;
use super::way::Way;
use crate::spread::Spread;

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
    let mut measured: Vec<(&Link<'_>, [Way; 2])> = Vec::new();
    for link in &links {
        let Some(label) = link.measurement.rail.as_deref() else {
            continue;
        };
        match labelled(link, label).and_then(|ways| {
            judge(link, Some(label), &ALONE, &mut slow)?;
            Ok(ways)
        }) {
            Ok(ways) => measured.push((link, ways)),
            Err(verdict) => unseen = unseen.or(Some(verdict)),
        }
    }
    let pairs = cluster.pairs_of_hosts().into_iter();
    let untried = pairs.filter_map(|pair| untried(pair, &measured)).next();
    let unseen = unseen.or_else(|| untried.map(not_examined));
    verdict(&slow, &ALONE, unseen)
}

/// What it would take to have measured every rail that leads from one host to another.
fn untried([a, b]: [&Host; 2], measured: &[(&Link<'_>, [Way; 2])]) -> Option<String> {
    let rails = leading(a, b);
    if rails.is_empty() {
        return Some(format!("needs a rail from {} to {}", a.name, b.name));
    }
    let is_measured = |rail: &Rail| {
        let mut measured = measured.iter();
        measured.any(|(link, ways)| {
            let mut ends = std::iter::zip(link.ends, ways);
            let own = ends.find(|(end, _)| std::ptr::eq(*end, a));
            link.is_between(a, b) && own.is_some_and(|(_, way)| way.rails.contains(&rail.name()))
        })
    };
    let missing = rails.into_iter().find(|rail| !is_measured(rail))?;
    // What it is joined to has a name of its own there.
    let there = leading(b, a);
    let joined = there.iter().find(|other| other.shares_network(missing));
    let namesake = || there.iter().find(|other| other.name() == missing.name());
    let joined = joined.or_else(namesake).or(there.first())?;
    let name = device(missing);
    Some(format!(
        "needs a measurement of {name} alone between {} and {}: {}",
        a.name,
        b.name,
        measure(&[(a, vec![missing]), (b, vec![joined])], Some(&name))
    ))
}

/// What was measured, between hosts that all have a card.
fn links(cluster: &Cluster) -> Result<Vec<Link<'_>>, Verdict> {
    let links = cluster.links()?;
    cluster.hosts.iter().try_for_each(has_card)?;
    Ok(links)
}

/// What MPI was limited to, if that is the rail that a label names, and nothing else.
fn labelled(link: &Link<'_>, label: &str) -> Result<[Way; 2], Verdict> {
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
    if !is_alone || !is_it {
        let there = |host| {
            let all = leading(host, if std::ptr::eq(host, a) { b } else { a });
            let joined = |other: &&&Rail| other.shares_network(rail) || other.is_called(label);
            all.iter()
                .copied()
                .filter(|other| joined(&other))
                .take(1)
                .collect()
        };
        return Err(not_examined(format!(
            "needs MPI limited to {label}, as {} calls itself: {}; or for TCP --mca pml ob1 --mca btl_tcp_if_include {}",
            link.file,
            measure(&[(a, there(a)), (b, there(b))], Some(label)),
            rail.name()
        )));
    }
    let [of_a, of_b] = [(a, &ways[0]), (b, &ways[1])].map(|(host, way)| {
        let mut named = host
            .rails
            .iter()
            .filter(|rail| way.rails.contains(&rail.name()));
        named.next()
    });
    if let (Some(of_a), Some(of_b)) = (of_a, of_b) {
        let are_known = [of_a, of_b]
            .iter()
            .all(|rail| !rail.function.networks.is_empty());
        if are_known && !of_a.shares_network(of_b) {
            return Err(not_examined(format!(
                "needs rails that lead to each other: {} of {} and {} of {}, which {} is of, are in no network together",
                of_a.name(),
                a.name,
                of_b.name(),
                b.name,
                link.file
            )));
        }
    }
    Ok(ways)
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

/// Every slow pair with its own cause; the severest counts.
fn verdict(slow: &[Slow<'_, '_>], expected: &Expected, unseen: Option<Verdict>) -> Verdict {
    // The slowest measurement of each pair and rail speaks for it.
    let mut slowest: Vec<&Slow<'_, '_>> = Vec::new();
    for one in slow {
        let [a, b] = one.link.ends;
        let of_same =
            |other: &&mut &Slow<'_, '_>| other.link.is_between(a, b) && other.rail == one.rail;
        match slowest.iter_mut().find(of_same) {
            Some(other) if one.gbps < other.gbps => *other = one,
            Some(_) => {}
            None => slowest.push(one),
        }
    }
    let mut causes: Vec<(&Slow<'_, '_>, Cause)> =
        slowest.iter().map(|slow| (*slow, slow.cause())).collect();
    causes.sort_by(|(one, of_one), (other, of_other)| {
        let by_severity = of_other.severity.cmp(&of_one.severity);
        by_severity.then(one.gbps.total_cmp(&other.gbps))
    });
    let Some((_, worst)) = causes.first() else {
        return unseen.unwrap_or(Verdict::Passed);
    };
    let severity = worst.severity;
    let n_more = causes.len().saturating_sub(MOST_SAID);
    let (mut messages, mut fixes, mut evidence) = (Vec::new(), Vec::new(), Vec::new());
    for (slow, cause) in causes.into_iter().take(MOST_SAID) {
        let [a, b]: [&Host; 2] = slow.link.ends;
        let by = slow.rail.map(|rail| format!(" by {rail}"));
        messages.push(format!(
            "{} and {} move {:.1} of {:.0} Gb/s{}: {}",
            a.name,
            b.name,
            slow.gbps,
            expected.gbps,
            by.unwrap_or_default(),
            cause.what
        ));
        evidence.extend(figures(slow));
        evidence.extend(cause.evidence);
        if !fixes.contains(&cause.fix) {
            fixes.push(cause.fix);
        }
    }
    let others = slow
        .iter()
        .filter(|slow| !slowest.iter().any(|said| std::ptr::eq(*said, *slow)));
    evidence.extend(others.flat_map(figures));
    if n_more > 0 {
        messages.push(format!("and {n_more} more pairs are slow"));
    }
    concluded(
        severity,
        messages.join("; "),
        evidence,
        fixes.join("; "),
        None,
    )
}

/// Slow pairs of which the cause is said.
const MOST_SAID: usize = 8;

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
