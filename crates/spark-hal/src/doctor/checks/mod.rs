//! The checks, by area.
//!
//! Limits that are not in a check's source (8 GiB available, 85 degrees, 16 GiB of
//! locked memory, 90 % busy) are this crate's choice.

mod applies;
mod container;
mod driver;
mod gpu;
mod history;
mod known_bad;
mod load;
mod memory;
mod module;
mod nccl;
mod network;
mod platform;
mod python;
mod storage;

use super::check::Examination;
use super::facts::Facts;

/// Every check, in the order of the report.
pub(super) static ALL: &[&[Examination<Facts>]] = &[
    platform::CHECKS,
    known_bad::CHECKS,
    driver::CHECKS,
    module::CHECKS,
    gpu::CHECKS,
    load::CHECKS,
    memory::CHECKS,
    history::CHECKS,
    network::CHECKS,
    nccl::CHECKS,
    storage::CHECKS,
    container::CHECKS,
    python::CHECKS,
];
