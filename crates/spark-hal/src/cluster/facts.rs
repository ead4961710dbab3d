//! What the checks of a cluster look at: its machines, and what was measured between them.

use std::collections::BTreeSet;

use crate::doctor::{Verdict, not_applicable, not_examined};
use crate::reading::Reading;

use super::host::{Host, Rail};
use super::measurement::{Measurement, Pair};

/// The command that records a machine for these checks.
pub(super) const RECORD: &str = "sparkpilot cluster record FILE";

/// Several machines, and measurements with the names of their files.
#[derive(Debug, Clone)]
pub struct Cluster {
    /// The machines.
    pub hosts: Vec<Host>,
    /// What was measured, by name.
    pub measurements: Vec<(String, Measurement)>,
}

/// A host with those of its rails that have a port with a live cable.
pub(super) type Used<'a> = (&'a Host, Vec<&'a Rail>);

/// A pair of ranks on two hosts of the cluster.
pub(super) struct Link<'a> {
    /// Name of the measurement's file.
    pub(super) file: &'a str,
    pub(super) measurement: &'a Measurement,
    pub(super) pair: &'a Pair,
    /// Hosts of the ranks `a` and `b`.
    pub(super) ends: [&'a Host; 2],
}

impl Cluster {
    /// The rails in use, of two hosts or more that all have some; or why there is nothing to look at.
    pub(super) fn used(&self) -> Result<Vec<Used<'_>>, Verdict> {
        self.needs_two_hosts()?;
        let used = self.hosts.iter().map(|host| {
            has_card(host)?;
            let rails = host.used_rails();
            if !rails.is_empty() {
                return Ok((host, rails));
            }
            Err(not_examined(match unknown_carrier(host) {
                Some(why) => why,
                None => format!("needs a cable: no port of {} has a link", host.name),
            }))
        });
        used.collect()
    }

    pub(super) fn needs_two_hosts(&self) -> Result<(), Verdict> {
        match self.hosts.len() {
            0 | 1 => Err(not_examined(format!(
                "needs records of two machines: {RECORD}"
            ))),
            _ => Ok(()),
        }
    }

    /// The host that a rank's machine is, by the name that both say.
    pub(super) fn host_called(&self, name: &str) -> Option<&Host> {
        let mut named = self.hosts.iter().filter(|host| is_same(&host.name, name));
        let first = named.next();
        first.filter(|_| named.next().is_none())
    }

    /// Every two hosts.
    pub(super) fn pairs_of_hosts(&self) -> Vec<[&Host; 2]> {
        let with_later = |(idx, first)| {
            self.hosts[idx + 1..]
                .iter()
                .map(move |second| [first, second])
        };
        self.hosts.iter().enumerate().flat_map(with_later).collect()
    }

    /// What was measured between two of the hosts; or why nothing was. Ranks of one machine are no link.
    pub(super) fn links(&self) -> Result<Vec<Link<'_>>, Verdict> {
        self.needs_two_hosts()?;
        if self.measurements.is_empty() {
            return Err(not_examined(
                "needs a measurement: mpirun -np 2 --host SPARK_1,SPARK_2 --map-by node --mca pml ucx sparkpilot-mpi measure --output FILE",
            ));
        }
        let mut links = Vec::new();
        let mut unknown = BTreeSet::new();
        let mut is_lone = false;
        for (file, measurement) in &self.measurements {
            for pair in &measurement.pairs {
                let names = [pair.a, pair.b].map(|rank| &measurement.ranks[rank].host);
                if is_same(names[0], names[1]) {
                    is_lone = true;
                    continue;
                }
                let ends = names.map(|name| self.host_called(name));
                match ends {
                    [Some(a), Some(b)] => links.push(Link {
                        file,
                        measurement,
                        pair,
                        ends: [a, b],
                    }),
                    _ => unknown.extend(
                        std::iter::zip(names, ends)
                            .filter(|(_, host)| host.is_none())
                            .map(|(name, _)| name.as_str()),
                    ),
                }
            }
        }
        if !links.is_empty() {
            return Ok(links);
        }
        let unknown: Vec<&str> = unknown.into_iter().collect();
        Err(not_examined(match (unknown.is_empty(), is_lone) {
            (false, _) => format!(
                "needs one record each of {}, which the measurement is of: {RECORD}",
                unknown.join(", ")
            ),
            (true, true) => {
                "needs ranks on two machines: those of the measurement were on one host, which is not a link".to_owned()
            }
            (true, false) => "needs a measurement of two ranks or more".to_owned(),
        }))
    }
}

impl Link<'_> {
    /// Whether it joins these two.
    pub(super) fn is_between(&self, one: &Host, other: &Host) -> bool {
        let is_end = |host: &Host| self.ends.iter().any(|end| std::ptr::eq(*end, host));
        is_end(one) && is_end(other)
    }
}

/// The rails in use of a host that may lead to another: those in a network of it, and those whose network is not known. In a ring of three a rail
/// leads to one of the others alone.
pub(super) fn leading<'a>(host: &'a Host, other: &Host) -> Vec<&'a Rail> {
    let there = other.used_rails();
    let leads_there = |rail: &&Rail| {
        rail.function.networks.is_empty() || there.iter().any(|other| rail.shares_network(other))
    };
    let rails = host.used_rails().into_iter();
    rails.filter(leads_there).collect()
}

/// Whether a host has a ConnectX-7; if not, what that says.
pub(super) fn has_card(host: &Host) -> Result<(), Verdict> {
    if !host.rails.is_empty() {
        Ok(())
    } else if host.lost_card() {
        Err(not_examined(format!(
            "needs the ConnectX-7 of {} (cluster.links)",
            host.name
        )))
    } else if host.lists_devices {
        Err(not_applicable(&format!("{} has no ConnectX-7", host.name)))
    } else {
        Err(not_examined(format!(
            "needs /sys/bus/pci/devices of {}",
            host.name
        )))
    }
}

/// A rail of which it cannot be said whether it has a link.
pub(super) fn unknown_carrier(host: &Host) -> Option<String> {
    let unknown = host
        .rails
        .iter()
        .find(|rail| !rail.function.has_carrier.is_value());
    unknown.map(|rail| {
        format!(
            "needs /sys/class/net/{}/carrier of {}",
            rail.name(),
            host.name
        )
    })
}

/// The two names of one machine, of which one may lack the domain.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    let first = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    let (short, long) = match one.contains('.') {
        true => (other, one),
        false => (one, other),
    };
    match short.contains('.') {
        true => short.eq_ignore_ascii_case(long),
        false => short.eq_ignore_ascii_case(&first(long)),
    }
}

/// `spark-1: /sys/class/net/enp1s0f0np0/mtu`
pub(super) fn of_rail(host: &Host, rail: &Rail, leaf: &str) -> String {
    format!("{}: /sys/class/net/{}/{leaf}", host.name, rail.name())
}

/// Whether addresses of a host are known; if not, what that would take.
pub(super) fn knows_addresses(host: &Host) -> Result<(), Verdict> {
    match host.machine.network.tells_addresses {
        true => Ok(()),
        false => Err(not_examined(format!(
            "needs addresses of {}, which records for publication leave out: {RECORD}",
            host.name
        ))),
    }
}

/// What it takes to know who holds an address of a network that two interfaces are in.
pub(super) fn unsettled(host: &Host, rail: &Rail) -> Verdict {
    not_examined(format!(
        "needs the identifiers of {} on {}: another interface is in its network, and /proc/net does not say which of them has an address: {RECORD}",
        rail.function.rdma_device, host.name
    ))
}

/// The value of each, or what is missing.
pub(super) fn known<T>(
    reading: &Reading<T>,
    place: impl FnOnce() -> String,
) -> Result<&T, Verdict> {
    match reading {
        Reading::Value(value) => Ok(value),
        Reading::NotSupported => Err(not_examined(format!("needs {}", place()))),
        Reading::Failed(why) => Err(not_examined(format!("needs {}: {why}", place()))),
    }
}
