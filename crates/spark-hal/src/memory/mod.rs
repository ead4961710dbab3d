//! Main memory, which on a DGX Spark is the GPU's memory too.
//!
//! ```text
//! ordinary   MemAvailable: free pages plus cache the kernel would drop
//! hugetlb    HugePages_Free x Hugepagesize: set aside, invisible to ordinary allocation
//! swap       SwapFree: no place for data a GPU works on
//! cgroup     what the container may still take (does not bind GPU allocations)
//! ```
//!
//! The four stay apart. [`Memory::nvidia_rule`] merges the first three as NVIDIA's
//! "DGX Spark known issues" page does; with a few huge pages reserved that rule
//! reports only those pages, so it is one figure among others, not the truth.
//!
//! Linux only: `/proc/meminfo`, `/proc/pressure` and control groups.

mod budget;
mod meminfo;
mod pressure;
mod state;

pub use budget::{Bound, BudgetPolicy, MemoryBudget, Purpose};
pub use meminfo::Meminfo;
pub use pressure::{Pressure, Stall};
pub use state::{Memory, NvidiaEstimate};

#[cfg(test)]
mod tests;
