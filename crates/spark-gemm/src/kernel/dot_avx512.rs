//! The micro-kernel by AVX-512's dot products of bf16.
//!
//! ```text
//! acc += x[k + 1] w[k + 1] + x[k] w[k]      one instruction per pair; x is bf16 already
//! ```
//!
//! The left operand is held as bf16, of which two neighbours are a pair that one load broadcasts; or in f32 words, which
//! its producer rounded, so that the high halves of two neighbours are one.

use spark_simd::{Avx512, Simd};

use crate::epilogue::{apply_epilogue_and_store, init_accumulators};
use crate::tile::Tile;

/// A left operand, pair by pair.
pub(super) trait Pairs {
    /// Elements `2 * pair` and `2 * pair + 1` of the row at `x` as one word; the second is zero unless the pair is
    /// whole, and is not touched then.
    ///
    /// # Safety
    ///
    /// The elements must be readable.
    unsafe fn pair<const WHOLE: bool>(x: *const f32, pair: usize) -> i32;
}

/// Held as f32 whose low halves are zero.
pub(super) struct RoundedF32;

impl Pairs for RoundedF32 {
    #[inline(always)]
    unsafe fn pair<const WHOLE: bool>(x: *const f32, pair: usize) -> i32 {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let low = (*x.add(2 * pair)).to_bits() >> 16;
            let high = match WHOLE {
                true => (*x.add(2 * pair + 1)).to_bits() & 0xffff_0000,
                false => 0,
            };
            (low | high).cast_signed()
        }
    }
}

/// Held as bf16.
pub(super) struct Bf16;

impl Pairs for Bf16 {
    #[inline(always)]
    unsafe fn pair<const WHOLE: bool>(x: *const f32, pair: usize) -> i32 {
        // SAFETY: guaranteed by the caller.
        unsafe {
            match WHOLE {
                true => x.cast::<i32>().add(pair).read_unaligned(),
                false => i32::from(*x.cast::<u16>().add(2 * pair)),
            }
        }
    }
}

/// A tile over [`Bf16Dot`](crate::PackedLayout::Bf16Dot) weights.
///
/// # Safety
///
/// As [`Tile::run`], on a processor with AVX512_BF16.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")]
#[allow(
    clippy::needless_range_loop,
    reason = "constant bounds unroll, iterators may not"
)]
pub(super) unsafe fn tile_bf16_dot<X: Pairs, const NV: usize, const MR: usize>(t: &Tile<'_>) {
    use std::arch::x86_64::{
        __m512bh, __m512i, _mm512_dpbf16_ps, _mm512_loadu_si512, _mm512_set1_epi32,
    };
    const LANES: usize = Avx512::LANES;
    let bits = |v: __m512i| -> __m512bh {
        // SAFETY: both are 64 bytes of which every pattern is valid.
        unsafe { std::mem::transmute(v) }
    };
    // SAFETY: every pointer is moved only within the ranges of `Tile::run`'s contract; the
    // processor has the instructions.
    unsafe {
        let mut acc = init_accumulators::<Avx512, NV, MR>(t.output.epilogue);
        let mut w = t.w;
        let mut ahead = t.prefetch.start;
        macro_rules! step {
            ($x:ident, $pair:expr, $whole:literal) => {
                let b: [__m512bh; NV] =
                    std::array::from_fn(|v| bits(_mm512_loadu_si512(w.add(v * LANES).cast())));
                w = w.add(NV * LANES);
                t.prefetch.issue::<Avx512, NV, MR>(w, &mut ahead);
                for i in 0..MR {
                    let a = bits(_mm512_set1_epi32(X::pair::<$whole>($x[i], $pair)));
                    for v in 0..NV {
                        // The broadcast operand last: that one may be in memory.
                        acc[i][v] = _mm512_dpbf16_ps(acc[i][v], b[v], a);
                    }
                }
            };
        }
        for tap in 0..t.shape.taps {
            let x = t.rows_at(tap);
            for pair in 0..t.shape.depth / 2 {
                step!(x, pair, true);
            }
            if t.shape.depth % 2 == 1 {
                step!(x, t.shape.depth / 2, false);
            }
        }
        apply_epilogue_and_store::<Avx512, NV, MR>(&t.output, acc);
    }
}
