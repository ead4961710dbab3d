//! From exact sums to what is stored: the sums themselves, bytes, or floats.
//!
//! ```text
//! sums       y = s                                                                  i32
//! bytes      y = round(clamp(f32(s) * multiplier[n], low - zero, high - zero)) + zero   i8 or u8
//! floats     y = activation(f32(s) * multiplier[n] + bias[n] + residual)             f32
//! ```
//!
//! `f32(s)` rounds sums beyond 2^24 to nearest even, the product is rounded once, to nearest even, and so is
//! what becomes a byte. Those are the roundings of onnxruntime's kernels too, and the same on every instruction
//! set: nothing is fused. The bounds are whole numbers, so that clamping before rounding gives what
//! clamping after it would.

#![allow(
    unsafe_code,
    reason = "stores where a tile points, with the vectors of an instruction set"
)]

use super::lanes::IntegerLanes;
use crate::epilogue::{TileOutput, apply_epilogue_and_store};
use crate::panel::MAX_ROWS;

/// How sums become bytes.
#[derive(Debug, Clone, Copy)]
pub struct Requantise {
    /// Per column, from the panel's first on, padded to whole vectors: the scale of the sums divided by that of
    /// the result.
    pub multipliers: *const f32,
    /// What stands for zero in the result.
    pub zero_point: i32,
    /// Least result, not below that of its bytes; not above `high`.
    pub low: i32,
    /// Greatest result, not above that of its bytes.
    pub high: i32,
}

/// Where the results of a tile go, each row from the panel's first column on; rows beyond the tile's own are
/// ignored.
#[derive(Debug)]
pub enum Int8Output<'a> {
    /// The sums.
    Sums([*mut i32; MAX_ROWS]),
    /// Bytes: of i8 or u8, as the bounds are.
    Bytes {
        /// Start of every row.
        y: [*mut u8; MAX_ROWS],
        /// How sums become bytes.
        requantise: Requantise,
    },
    /// Floats.
    Floats {
        /// Rows, residual, and what happens before they are stored; the bias is added to floats.
        output: TileOutput<'a>,
        /// Per column, from the panel's first on, padded to whole vectors: the scale of the sums.
        multipliers: *const f32,
    },
}

/// Stores the sums of a tile, of whose last vector `last` columns exist.
///
/// # Safety
///
/// As [`Int8Tile::run`](super::Int8Tile::run).
#[inline(always)]
#[allow(
    clippy::needless_range_loop,
    reason = "constant bounds unroll, iterators may not"
)]
pub(super) unsafe fn store<S: IntegerLanes, const NV: usize, const MR: usize>(
    output: &Int8Output<'_>,
    acc: [[S::I; NV]; MR],
    last: usize,
) {
    // SAFETY: every pointer is moved only within the ranges of `Int8Tile::run`'s contract.
    unsafe {
        match output {
            Int8Output::Sums(y) => {
                for i in 0..MR {
                    for v in 0..NV {
                        let to = y[i].add(v * S::LANES);
                        match v + 1 < NV || last == S::LANES {
                            true => S::store_i(to, acc[i][v]),
                            false => store_first_sums::<S>(to, acc[i][v], last),
                        }
                    }
                }
            }
            Int8Output::Bytes { y, requantise } => {
                let zero = S::splat_i(requantise.zero_point);
                let bound = |bound: i32| S::splat((bound - requantise.zero_point) as f32);
                let (low, high) = (bound(requantise.low), bound(requantise.high));
                for v in 0..NV {
                    let multiplier = S::load(requantise.multipliers.add(v * S::LANES));
                    for i in 0..MR {
                        let value = S::mul(S::to_floats(acc[i][v]), multiplier);
                        // The bound second: where a multiplier is no number, it is the result.
                        let value = S::min(S::max(value, low), high);
                        let bytes = S::add_i(S::round(value), zero);
                        let to = y[i].add(v * S::LANES);
                        match v + 1 < NV || last == S::LANES {
                            true => S::store_bytes(to, bytes),
                            false => store_first_bytes::<S>(to, bytes, last),
                        }
                    }
                }
            }
            Int8Output::Floats {
                output,
                multipliers,
            } => {
                let bias = output.epilogue.bias;
                let mut floats = [[S::splat(0.0); NV]; MR];
                for v in 0..NV {
                    let multiplier = S::load(multipliers.add(v * S::LANES));
                    let bias = match bias.is_null() {
                        true => S::splat(0.0),
                        false => S::load(bias.add(v * S::LANES)),
                    };
                    for i in 0..MR {
                        let value = S::mul(S::to_floats(acc[i][v]), multiplier);
                        floats[i][v] = S::add(value, bias);
                    }
                }
                apply_epilogue_and_store::<S, NV, MR>(output, floats);
            }
        }
    }
}

/// The first `n` sums of a vector.
///
/// # Safety
///
/// They must be writable at `to`; as for [`IntegerLanes`].
#[inline(always)]
unsafe fn store_first_sums<S: IntegerLanes>(to: *mut i32, sums: S::I, n: usize) {
    let mut all = [0; 16];
    // SAFETY: no vector has more than 16 lanes; the rest is guaranteed by the caller.
    unsafe {
        S::store_i(all.as_mut_ptr(), sums);
        std::ptr::copy_nonoverlapping(all.as_ptr(), to, n);
    }
}

/// The low bytes of the first `n` lanes.
///
/// # Safety
///
/// They must be writable at `to`; as for [`IntegerLanes`].
#[inline(always)]
unsafe fn store_first_bytes<S: IntegerLanes>(to: *mut u8, bytes: S::I, n: usize) {
    let mut all = [0; 16];
    // SAFETY: no vector has more than 16 lanes; the rest is guaranteed by the caller.
    unsafe {
        S::store_bytes(all.as_mut_ptr(), bytes);
        std::ptr::copy_nonoverlapping(all.as_ptr(), to, n);
    }
}
