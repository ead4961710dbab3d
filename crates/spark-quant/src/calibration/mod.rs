//! Static scales for activations, from what was seen of them.

mod columns;
mod entropy;
mod exact;
mod histogram;
mod noise;
mod observer;
mod scale;

pub use histogram::Histogram;
pub use observer::{Observer, Statistics};
pub use scale::{ScaleMethod, StaticFormat, StaticScale};
