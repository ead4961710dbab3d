//! Graphs put together by the crate itself, out of operators.

mod builder;
mod taps;

pub(crate) use builder::{Builder, Built};
pub(crate) use taps::{MOST_TAPS, images, padded, reaching, rows, sum_to_channels, under_tap};
