//! Static scales for activations, from what was seen of them.

mod columns;
mod exact;
mod histogram;
mod observer;

pub use histogram::Histogram;
pub use observer::{Observer, Statistics};
