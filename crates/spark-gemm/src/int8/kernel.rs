//! The micro-kernels over weights in fours, one instruction set per line of a table.
//!
//! ```text
//! tile:      MR rows x NV vectors of i32 accumulators stay in registers for all taps and depths;
//!            each step loads NV vectors of w, four bytes of LANES columns each, and broadcasts four bytes of
//!            MR rows; lane j of every accumulator gains x0 w0j + x1 w1j + x2 w2j + x3 w3j
//! ```
//!
//! 1. Sums are exact, so their order is free: no kernel differs from another by a bit.
//! 2. Activations that an instruction takes as the other kind of byte have their highest bit flipped as they are
//!    loaded; the accumulators begin with what that changes.
//! 3. Without dot products, even and odd bytes are widened to i16 by shifts, of weights once per step
//!    for all rows, and multiplied and added in pairs: a pair is at most 2 * 255 * 128, and adding is in i32.
//!
//! Sources: Intel 64 and IA-32 Architectures Software Developer's Manual, VPDPBUSD, PMADDWD; Arm
//! Architecture Reference Manual for A-profile, SDOT, SADALP.

#![allow(
    unsafe_code,
    reason = "micro-kernels move pointers through packed weights"
)]

use spark_simd::Simd;

use super::instructions::ByteKind;
use super::lanes::IntegerLanes;
use super::output;
use super::tile::Int8Tile;

/// How four bytes of a row and four of each column become a sum.
///
/// # Safety
///
/// Methods may only run on a processor that has the instructions; pointers must be readable for a vector.
pub(super) unsafe trait Dot: Copy {
    /// The lanes of the sums.
    type S: IntegerLanes;
    /// Four bytes of a row, in every lane.
    type X: Copy;
    /// Four bytes of each column.
    type W: Copy;

    /// Four bytes, the first lowest, in every lane, with the highest bit of each flipped where `FLIP`.
    unsafe fn broadcast<const FLIP: bool>(bytes: u32) -> Self::X;
    /// Words of as many columns as there are lanes.
    unsafe fn load(words: *const f32) -> Self::W;
    /// `sum + x . w`.
    unsafe fn dot(
        sum: <Self::S as IntegerLanes>::I,
        x: Self::X,
        w: Self::W,
    ) -> <Self::S as IntegerLanes>::I;
}

/// What flips the highest bit of four bytes.
pub(super) const FLIPPED: u32 = 0x8080_8080;

/// Accumulators as they begin.
///
/// # Safety
///
/// As [`Int8Tile::run`].
#[inline(always)]
pub(super) unsafe fn initial<S: IntegerLanes, const NV: usize>(t: &Int8Tile<'_>) -> [S::I; NV] {
    // SAFETY: the tile has `NV` vectors of initial values.
    std::array::from_fn(|v| unsafe { S::load_i(t.initial.add(v * S::LANES)) })
}

/// Subtracts the sum of each row times the zero points of the columns, if these have any.
///
/// # Safety
///
/// As [`Int8Tile::run`].
#[inline(always)]
#[allow(
    clippy::needless_range_loop,
    reason = "constant bounds unroll, iterators may not"
)]
pub(super) unsafe fn correct<S: IntegerLanes, const NV: usize, const MR: usize>(
    t: &Int8Tile<'_>,
    acc: &mut [[S::I; NV]; MR],
    as_signed: bool,
) {
    if t.zero_points.is_null() {
        return;
    }
    let mut sums = [0i32; MR];
    for tap in 0..t.panel.shape.taps {
        let rows = t.rows_at(tap);
        for i in 0..MR {
            // SAFETY: rows are readable for the depth, and lent by who runs the tile.
            let row = unsafe { std::slice::from_raw_parts(rows[i], t.panel.shape.depth) };
            sums[i] += match as_signed {
                true => row.iter().map(|&x| i32::from(x.cast_signed())).sum::<i32>(),
                false => row.iter().map(|&x| i32::from(x)).sum::<i32>(),
            };
        }
    }
    // What is multiplied may be shifted from what the bytes are.
    let shift = t.kind.shift_to(t.panel.instructions.multiplied_as(t.kind));
    let depth = (t.panel.shape.taps * t.panel.shape.depth) as i32;
    for i in 0..MR {
        // SAFETY: the tile has `NV` vectors of zero points.
        unsafe {
            let sum = S::splat_i(sums[i].wrapping_add(depth.wrapping_mul(shift)));
            for v in 0..NV {
                let zero_points = S::load_i(t.zero_points.add(v * S::LANES));
                acc[i][v] = S::sub_product(acc[i][v], sum, zero_points);
            }
        }
    }
}

/// The micro-kernel: `MR` rows by `NV` vectors.
///
/// # Safety
///
/// As [`Int8Tile::run`], on a processor with the instructions of `D`.
#[inline(always)]
#[allow(
    clippy::needless_range_loop,
    reason = "constant bounds unroll, iterators may not"
)]
pub(super) unsafe fn tile<D: Dot, const NV: usize, const MR: usize, const FLIP: bool>(
    t: &Int8Tile<'_>,
) {
    let lanes = <D::S as Simd>::LANES;
    let depth = t.panel.shape.depth;
    // SAFETY: every pointer is moved only within the ranges of `Int8Tile::run`'s contract; four bytes
    // are read where the row has as many.
    unsafe {
        let mut acc = [initial::<D::S, NV>(t); MR];
        let mut w = t.panel.words.as_ptr();
        let mut ahead = t.prefetch.start;
        for tap in 0..t.panel.shape.taps {
            let x = t.rows_at(tap);
            for k in (0..depth / 4 * 4).step_by(4) {
                let b: [D::W; NV] = std::array::from_fn(|v| D::load(w.add(v * lanes)));
                w = w.add(NV * lanes);
                t.prefetch.issue::<D::S, NV, MR>(w, &mut ahead);
                for i in 0..MR {
                    let a = D::broadcast::<FLIP>(x[i].add(k).cast::<u32>().read_unaligned());
                    for v in 0..NV {
                        acc[i][v] = D::dot(acc[i][v], a, b[v]);
                    }
                }
            }
            if !depth.is_multiple_of(4) {
                let k = depth / 4 * 4;
                let b: [D::W; NV] = std::array::from_fn(|v| D::load(w.add(v * lanes)));
                w = w.add(NV * lanes);
                for i in 0..MR {
                    let a = D::broadcast::<FLIP>(first_bytes(x[i].add(k), depth % 4));
                    for v in 0..NV {
                        acc[i][v] = D::dot(acc[i][v], a, b[v]);
                    }
                }
            }
        }
        correct::<D::S, NV, MR>(t, &mut acc, t.kind == ByteKind::Signed);
        output::store::<D::S, NV, MR>(&t.output, acc, t.last(lanes));
    }
}

/// One, two or three bytes at `p`, the first lowest, and zeros.
///
/// # Safety
///
/// They must be readable.
#[inline(always)]
unsafe fn first_bytes(p: *const u8, n: usize) -> u32 {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let first = u32::from(*p);
        let second = match n {
            1 => 0,
            _ => u32::from(*p.add(1)),
        };
        let third = match n {
            3 => u32::from(*p.add(2)),
            _ => 0,
        };
        first | second << 8 | third << 16
    }
}
