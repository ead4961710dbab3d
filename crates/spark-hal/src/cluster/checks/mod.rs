//! The checks of a cluster, by subject. Each says what it found or what it lacks; a finding comes before what could not be looked at.
//!
//! Limits that are not in a check's source (0.1 s between two clocks) are this crate's choice.

mod addresses;
mod bandwidth;
mod causes;
mod command;
mod concluded;
mod links;
mod measured;
mod persistence;
mod rdma;
mod software;
mod way;

use crate::doctor::Examination;

use super::facts::Cluster;

/// Every check, in the order of the report.
pub(super) static ALL: &[&[Examination<Cluster>]] = &[
    links::CHECKS,
    addresses::CHECKS,
    rdma::CHECKS,
    software::CHECKS,
    persistence::CHECKS,
    measured::CHECKS,
    bandwidth::CHECKS,
];
