//! Plain code.

#![allow(unsafe_code, reason = "reads where a tile points")]

use spark_simd::Scalar;

use crate::int8::kernel::{Dot, FLIPPED, tile};
use crate::int8::tile::Int8Tile;

#[derive(Clone, Copy)]
struct Portable;

// SAFETY: for the implementation and the block in it: plain code, and callers pass pointers to a vector.
unsafe impl Dot for Portable {
    type S = Scalar;
    type X = [u8; 4];
    type W = [[i8; 4]; 4];

    #[inline(always)]
    unsafe fn broadcast<const FLIP: bool>(bytes: u32) -> [u8; 4] {
        let flip = if FLIP { FLIPPED } else { 0 };
        (bytes ^ flip).to_le_bytes()
    }
    #[inline(always)]
    unsafe fn load(words: *const f32) -> [[i8; 4]; 4] {
        // SAFETY: see above.
        unsafe { words.cast::<[[i8; 4]; 4]>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn dot(sum: [i32; 4], x: [u8; 4], w: [[i8; 4]; 4]) -> [i32; 4] {
        let product = |w: [i8; 4], k: usize| i32::from(x[k]) * i32::from(w[k]);
        let dot = |w| product(w, 0) + product(w, 1) + product(w, 2) + product(w, 3);
        [
            sum[0].wrapping_add(dot(w[0])),
            sum[1].wrapping_add(dot(w[1])),
            sum[2].wrapping_add(dot(w[2])),
            sum[3].wrapping_add(dot(w[3])),
        ]
    }
}

/// A tile by plain code.
///
/// # Safety
///
/// As [`Int8Tile::run`].
pub(super) unsafe fn tile_portable<const NV: usize, const MR: usize, const FLIP: bool>(
    t: &Int8Tile<'_>,
) {
    // SAFETY: forwarded.
    unsafe { tile::<Portable, NV, MR, FLIP>(t) }
}
