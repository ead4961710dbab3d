//! Tiles of bytes by the instructions of Arm that take four of them a lane: `sdot`, and `smull` with `sadalp` where
//! that is missing.
//!
//! ```text
//! sdot     lane j += x0 w0j + x1 w1j + x2 w2j + x3 w3j                      FEAT_DotProd
//! smull    eight products in i16, each within 2^14, then pairs of them in i32
//! ```
//!
//! The dot product is spelled in assembly, as its intrinsic is not stable yet.

#![allow(
    unsafe_code,
    reason = "intrinsics and an instruction, in functions compiled for the features of a token"
)]

use std::arch::aarch64::*;
use std::arch::asm;

use spark_simd::{Neon, features};

use crate::int8::kernel::{Dot, FLIPPED, tile};
use crate::int8::tile::Int8Tile;

/// `sdot`.
#[derive(Clone, Copy)]
struct Fours;

/// `smull` and `sadalp`.
#[derive(Clone, Copy)]
struct Pairs;

// SAFETY: for the implementation and every block in it: callers have FEAT_DotProd, and pass pointers to a vector.
unsafe impl Dot for Fours {
    type S = Neon;
    type X = int8x16_t;
    type W = int8x16_t;

    #[inline(always)]
    unsafe fn broadcast<const FLIP: bool>(bytes: u32) -> int8x16_t {
        // SAFETY: see above.
        unsafe {
            let bytes = vdupq_n_u32(bytes);
            vreinterpretq_s8_u32(match FLIP {
                true => veorq_u32(bytes, vdupq_n_u32(FLIPPED)),
                false => bytes,
            })
        }
    }
    #[inline(always)]
    unsafe fn load(words: *const f32) -> int8x16_t {
        // SAFETY: see above.
        unsafe { vld1q_s8(words.cast()) }
    }
    #[inline(always)]
    unsafe fn dot(sum: int32x4_t, x: int8x16_t, w: int8x16_t) -> int32x4_t {
        // SAFETY: see above.
        unsafe { sdot(sum, x, w) }
    }
}

features! { compile NeonDot
    /// Lane `j` of the result is that of `sum` and the dot product of four bytes of each side.
    #[inline]
    fn sdot(mut sum: int32x4_t, x: int8x16_t, w: int8x16_t) -> int32x4_t {
        // SAFETY: the processor has the instruction, which touches only its three registers.
        unsafe {
            asm!(
                "sdot {sum:v}.4s, {x:v}.16b, {w:v}.16b",
                sum = inout(vreg) sum,
                x = in(vreg) x,
                w = in(vreg) w,
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        sum
    }
}

// SAFETY: for the implementation and every block in it: NEON is part of the base architecture, and callers
// pass pointers to a vector.
unsafe impl Dot for Pairs {
    type S = Neon;
    type X = int8x16_t;
    type W = int8x16_t;

    #[inline(always)]
    unsafe fn broadcast<const FLIP: bool>(bytes: u32) -> int8x16_t {
        // SAFETY: see above.
        unsafe { Fours::broadcast::<FLIP>(bytes) }
    }
    #[inline(always)]
    unsafe fn load(words: *const f32) -> int8x16_t {
        // SAFETY: see above.
        unsafe { vld1q_s8(words.cast()) }
    }
    #[inline(always)]
    unsafe fn dot(sum: int32x4_t, x: int8x16_t, w: int8x16_t) -> int32x4_t {
        // SAFETY: see above.
        unsafe {
            let low = vpaddlq_s16(vmull_s8(vget_low_s8(x), vget_low_s8(w)));
            let high = vpaddlq_s16(vmull_high_s8(x, w));
            vaddq_s32(sum, vpaddq_s32(low, high))
        }
    }
}

features! { compile Neon
    /// A tile by `smull` and additions of pairs.
    ///
    /// # Safety
    ///
    /// As [`Int8Tile::run`].
    pub(super) unsafe fn tile_neon<const NV: usize, const MR: usize, const FLIP: bool>(
        t: &Int8Tile<'_>,
    ) {
        // SAFETY: forwarded; this function has the features.
        unsafe { tile::<Pairs, NV, MR, FLIP>(t) }
    }
}

features! { compile NeonDot
    /// A tile by `sdot`.
    ///
    /// # Safety
    ///
    /// As [`Int8Tile::run`], on a processor with FEAT_DotProd.
    pub(super) unsafe fn tile_neon_dot<const NV: usize, const MR: usize, const FLIP: bool>(
        t: &Int8Tile<'_>,
    ) {
        // SAFETY: forwarded; this function has the features.
        unsafe { tile::<Fours, NV, MR, FLIP>(t) }
    }
}
