//! State spaces of a launch: where each lies among generic addresses, and what is known of it.

mod global;
mod owned;
mod shared;
mod windows;
mod words;

pub use global::{Allocation, GlobalMemory, Shadow};
pub use owned::OwnedMemory;
pub(crate) use shared::{Actor, Conflict, Shared, TURN_BITS};
pub(crate) use windows::{
    KERNEL_PARAM_WINDOW, LOCAL_WINDOW, SHARED_BASE, SHARED_WINDOW, WINDOW_MASK,
};
pub(crate) use words::LaneWords;
