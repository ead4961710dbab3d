//! Tiles of bytes by Arm's matrix products: two rows of eight bytes times two columns of eight.
//!
//! ```text
//! smmla, usmmla   acc[2, 2] += x[2, 8] w[8, 2]                                  FEAT_I8MM
//!
//! rows 2p and 2p + 1 of a vector's four columns are two blocks of 2x2:
//!     columns 0 and 1   [r0c0 r0c1 r1c0 r1c1]
//!     columns 2 and 3   [r0c2 r0c3 r1c2 r1c3]        rows and blocks: the same exchange of halves
//! ```
//!
//! Twice as many products per instruction as `sdot`. With one row, the other one of its block repeats it.
//! Activations of either kind are taken as they are.
//!
//! Source: Arm Architecture Reference Manual for A-profile, SMMLA, USMMLA (vector).

#![allow(
    unsafe_code,
    reason = "intrinsics and instructions, in functions compiled for the features of a token"
)]

use std::arch::aarch64::*;
use std::arch::asm;

use spark_simd::{Neon, Simd, features};

use crate::int8::kernel::{correct, initial};
use crate::int8::output;
use crate::int8::tile::Int8Tile;

const LANES: usize = Neon::LANES;
/// Values of a row that enter at a time.
const DEPTH: usize = 8;

features! { compile NeonI8mm
    /// A tile by matrix products, of i8 activations where `SIGNED`.
    ///
    /// # Safety
    ///
    /// As [`Int8Tile::run`], on a processor with FEAT_I8MM.
    pub(super) unsafe fn tile_neon_i8mm<const NV: usize, const MR: usize, const SIGNED: bool>(
        t: &Int8Tile<'_>,
    ) {
        // SAFETY: forwarded.
        unsafe {
            match MR {
                1 => {
                    let acc = blocks::<NV, 2, 1, SIGNED>(t);
                    finish::<NV, 1, SIGNED>(t, [acc[0]]);
                }
                _ => finish::<NV, MR, SIGNED>(t, blocks::<NV, MR, MR, SIGNED>(t)),
            }
        }
    }
}

/// Corrects the sums and stores them.
///
/// # Safety
///
/// As [`tile_neon_i8mm`].
#[inline(always)]
unsafe fn finish<const NV: usize, const MR: usize, const SIGNED: bool>(
    t: &Int8Tile<'_>,
    mut acc: [[int32x4_t; NV]; MR],
) {
    // SAFETY: forwarded.
    unsafe {
        correct::<Neon, NV, MR>(t, &mut acc, SIGNED);
        output::store::<Neon, NV, MR>(&t.output, acc, t.last(LANES));
    }
}

/// The sums of an even number `MR` of rows, of which those beyond `ROWS` repeat its last one.
///
/// # Safety
///
/// As [`tile_neon_i8mm`].
#[inline(always)]
unsafe fn blocks<const NV: usize, const MR: usize, const ROWS: usize, const SIGNED: bool>(
    t: &Int8Tile<'_>,
) -> [[int32x4_t; NV]; MR] {
    // SAFETY: every pointer is of the tile's own rows and moved only within the ranges of
    // `Int8Tile::run`'s contract; eight bytes are read where the row has as many.
    unsafe {
        let mut acc = exchanged([initial::<Neon, NV>(t); MR]);
        let mut w = t.panel.words.as_ptr();
        let mut ahead = t.prefetch.start;
        let whole = t.panel.shape.depth / DEPTH * DEPTH;
        let left = t.panel.shape.depth - whole;
        for tap in 0..t.panel.shape.taps {
            let rows = t.rows_at(tap);
            let x = |i: usize, k: usize| rows[i.min(ROWS - 1)].add(k);
            for k in (0..whole).step_by(DEPTH) {
                t.prefetch.issue::<Neon, NV, ROWS>(w, &mut ahead);
                add_eight::<NV, MR, SIGNED>(&mut acc, |i| vld1_u8(x(i, k)), w.cast());
                w = w.add(2 * NV * LANES);
            }
            if left > 0 {
                let first = |i| {
                    let mut bytes = [0; DEPTH];
                    std::ptr::copy_nonoverlapping(x(i, whole), bytes.as_mut_ptr(), left);
                    vld1_u8(bytes.as_ptr())
                };
                add_eight::<NV, MR, SIGNED>(&mut acc, first, w.cast());
                w = w.add(2 * NV * LANES);
            }
        }
        exchanged(acc)
    }
}

/// Adds eight bytes of every row, as `x` gives them, times the columns at `w`.
///
/// # Safety
///
/// As [`blocks`].
#[inline(always)]
#[allow(
    clippy::needless_range_loop,
    reason = "constant bounds unroll, iterators may not"
)]
unsafe fn add_eight<const NV: usize, const MR: usize, const SIGNED: bool>(
    acc: &mut [[int32x4_t; NV]; MR],
    x: impl Fn(usize) -> uint8x8_t,
    w: *const i8,
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        // Rows 2p and 2p + 1.
        let mut a = [vdupq_n_u8(0); MR];
        for p in 0..MR / 2 {
            a[p] = vcombine_u8(x(2 * p), x(2 * p + 1));
        }
        for v in 0..NV {
            for half in 0..2 {
                let columns = vld1q_s8(w.add(DEPTH * (LANES * v + 2 * half)));
                for p in 0..MR / 2 {
                    let sum = &mut acc[2 * p + half][v];
                    *sum = add_block::<SIGNED>(*sum, a[p], columns);
                }
            }
        }
    }
}

features! { compile NeonI8mm
    /// `sum + a b` of 2x2, 2x8 and 8x2.
    #[inline]
    fn add_block<const SIGNED: bool>(
        mut sum: int32x4_t,
        a: uint8x16_t,
        b: int8x16_t,
    ) -> int32x4_t {
        // SAFETY: the processor has the instructions, which touch only their three registers.
        unsafe {
            match SIGNED {
                true => asm!(
                    "smmla {sum:v}.4s, {a:v}.16b, {b:v}.16b",
                    sum = inout(vreg) sum,
                    a = in(vreg) a,
                    b = in(vreg) b,
                    options(pure, nomem, nostack, preserves_flags),
                ),
                false => asm!(
                    "usmmla {sum:v}.4s, {a:v}.16b, {b:v}.16b",
                    sum = inout(vreg) sum,
                    a = in(vreg) a,
                    b = in(vreg) b,
                    options(pure, nomem, nostack, preserves_flags),
                ),
            }
        }
        sum
    }
}

/// Two rows of four columns as two blocks of 2x2, and back: the second half of the first and the
/// first half of the second change places.
#[inline(always)]
#[allow(
    clippy::needless_range_loop,
    reason = "constant bounds unroll, iterators may not"
)]
fn exchanged<const NV: usize, const MR: usize>(
    mut acc: [[int32x4_t; NV]; MR],
) -> [[int32x4_t; NV]; MR] {
    for p in 0..MR / 2 {
        for v in 0..NV {
            // SAFETY: NEON is part of the base architecture; registers only.
            unsafe {
                let [first, second] =
                    [acc[2 * p][v], acc[2 * p + 1][v]].map(|row| vreinterpretq_s64_s32(row));
                acc[2 * p][v] = vreinterpretq_s32_s64(vzip1q_s64(first, second));
                acc[2 * p + 1][v] = vreinterpretq_s32_s64(vzip2q_s64(first, second));
            }
        }
    }
    acc
}
