//! Graphs put together by the crate itself, out of operators.

mod builder;
mod taps;

pub(crate) use builder::{Builder, Built};
pub(crate) use taps::{
    MOST_TAPS, Products, channels_under_tap, images, reaching, rows, spread_under_tap,
    spread_under_taps, sum_to_channels, under_tap, under_taps,
};
