//! Networks under adapters: what the engine computes against candle's layers and gradients.

mod activations;
mod calibrated;
mod deployment;
mod driver_monitoring;
#[cfg(feature = "drives")]
mod drives;
mod driving;
mod dropout;
mod exchange;
mod heads;
mod layers;
mod losses;
mod normalized;
mod observed;
mod packed;
mod shared;
mod stored;
mod trainer;
mod trunk;
mod waiting;
