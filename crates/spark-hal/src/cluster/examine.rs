//! Runs every check of a cluster: on facts that are in memory, so without limits of time.

use crate::doctor::{Check, Examination, Outcome, Report};

use super::checks::ALL;
use super::facts::Cluster;

/// Every check of a cluster, in the order of the report.
#[must_use]
pub fn checks() -> Vec<&'static Check> {
    all().map(|examination| &examination.check).collect()
}

fn all() -> impl Iterator<Item = &'static Examination<Cluster>> {
    ALL.iter().copied().flatten()
}

/// Examines machines that were read before.
///
/// # Examples
///
/// ```
/// use spark_hal::cluster::{Cluster, Host, examine};
/// use spark_hal::{Machine, Root, Sources};
///
/// let host = |name| {
///     let root = Root::at("a-folder-without-files");
///     Host::read(name, &root, Machine::read(&Sources::files(root.clone())))
/// };
/// let cluster = Cluster { hosts: vec![host("a"), host("b")], measurements: Vec::new() };
/// let report = examine(&cluster);
/// assert!(report.worst().is_none()); // nothing was found, as nothing could be looked at
/// assert!(report.to_text().contains("not examined"));
/// ```
#[must_use]
pub fn examine(cluster: &Cluster) -> Report {
    let outcomes = all().map(|examination| Outcome {
        check: &examination.check,
        verdict: (examination.run)(cluster),
    });
    let hosts = cluster
        .hosts
        .iter()
        .map(|host| format!("{}: {}", host.name, host.machine.summary()));
    Report {
        machine: hosts.collect::<Vec<_>>().join("\n"),
        outcomes: outcomes.collect(),
        load: None,
    }
}
