//! The machine: warps, blocks, grids.

mod barriers;
mod block;
mod block_state;
mod convergence;
mod execute;
mod global_races;
mod grid;
mod launch;
mod random;
mod step;
mod warp;

pub(crate) use global_races::GlobalRaces;
pub(crate) use grid::run;
pub(crate) use launch::Launch;
