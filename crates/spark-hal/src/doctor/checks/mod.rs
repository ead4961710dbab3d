//! The checks, by area.
//!
//! Limits that are not in a check's source (8 GiB available, 85 degrees, 16 GiB of
//! locked memory, 90 % busy) are this crate's choice.

mod applies;
mod container;
mod driver;
mod gpu;
mod load;
mod memory;
mod network;
mod platform;
mod python;
mod storage;

use super::check::Examination;
use super::facts::Facts;

/// Every check, in the order of the report.
pub(super) static ALL: &[&[Examination<Facts>]] = &[
    platform::CHECKS,
    driver::CHECKS,
    gpu::CHECKS,
    load::CHECKS,
    memory::CHECKS,
    network::CHECKS,
    storage::CHECKS,
    container::CHECKS,
    python::CHECKS,
];
