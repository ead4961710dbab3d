//! Networks under adapters: what the engine computes against candle's layers and gradients.

mod deployment;
mod driver_monitoring;
mod driving;
mod layers;
mod losses;
mod shared;
mod trainer;
