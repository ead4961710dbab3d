//! Registers that PTX gives a warp: `%tid.x`, `%laneid` and their like, as rows.
//!
//! A launch has no clusters: every block is one of its own.

use super::instruction::Clock;
use super::rows::{R32, R64, ROW_KIND_SHIFT, ROW_OF_WARP, Slot};

/// Rows of 32 bits in the order of `NAMES`, then the beginning of dynamic shared memory.
pub(crate) const DYNAMIC_SHARED: u32 = NAMES.len() as u32;
/// Rows of 32 bits of a warp.
pub(crate) const N_ROWS_32: usize = NAMES.len() + 1;
/// The beginning of dynamic shared memory, as 64 bits.
pub(crate) const DYNAMIC_SHARED_64: u32 = 0;
/// The number of the grid.
pub(crate) const GRID_ID_64: u32 = 1;
/// Rows of 64 bits of a warp.
pub(crate) const N_ROWS_64: usize = 2;

/// Names in the order of their rows.
pub(crate) const NAMES: [&str; 41] = [
    "%tid.x",
    "%tid.y",
    "%tid.z",
    "%ntid.x",
    "%ntid.y",
    "%ntid.z",
    "%ctaid.x",
    "%ctaid.y",
    "%ctaid.z",
    "%nctaid.x",
    "%nctaid.y",
    "%nctaid.z",
    "%laneid",
    "%warpid",
    "%nwarpid",
    "%smid",
    "%nsmid",
    "%gridid",
    "%lanemask_eq",
    "%lanemask_le",
    "%lanemask_lt",
    "%lanemask_ge",
    "%lanemask_gt",
    "%dynamic_smem_size",
    "%total_smem_size",
    "%clusterid.x",
    "%clusterid.y",
    "%clusterid.z",
    "%nclusterid.x",
    "%nclusterid.y",
    "%nclusterid.z",
    "%cluster_ctaid.x",
    "%cluster_ctaid.y",
    "%cluster_ctaid.z",
    "%cluster_nctaid.x",
    "%cluster_nctaid.y",
    "%cluster_nctaid.z",
    "%cluster_ctarank",
    "%cluster_nctarank",
    "%reserved_smem_offset_begin",
    "%aggr_smem_size",
];

/// The row of a special register, read as so many bits.
pub(crate) fn row(name: &str, bits: u32) -> Option<Slot> {
    if name == "%gridid" && bits == 64 {
        return Some(Slot::W64(R64(ROW_OF_WARP << ROW_KIND_SHIFT | GRID_ID_64)));
    }
    let idx = NAMES.iter().position(|known| *known == name)? as u32;
    Some(Slot::W32(R32(ROW_OF_WARP << ROW_KIND_SHIFT | idx)))
}

/// Whether only targets with clusters have it, from sm_90 on.
pub(crate) fn is_of_clusters(name: &str) -> bool {
    name.starts_with("%cluster") || name.starts_with("%ncluster") || name == "%aggr_smem_size"
}

/// The number of a row by its name.
pub(crate) fn row_number(name: &str) -> usize {
    NAMES.iter().position(|known| *known == name).unwrap_or(0)
}

/// A register whose value changes.
pub(crate) fn clock(name: &str) -> Option<Clock> {
    Some(match name {
        "%clock" | "%globaltimer_lo" => Clock::Low,
        "%clock_hi" | "%globaltimer_hi" => Clock::High,
        "%clock64" | "%globaltimer" => Clock::Whole,
        _ => return None,
    })
}
