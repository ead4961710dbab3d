//! The micro-kernel by AVX-512's dot products of bf16.
//!
//! ```text
//! acc += x[k + 1] w[k + 1] + x[k] w[k]      one instruction per pair; x is bf16 already
//! ```
//!
//! The left operand stays in f32 words, which its producer rounded, so that the high halves of two
//! neighbours are a pair.

use spark_simd::{Avx512, Simd};

use crate::epilogue::{apply_epilogue_and_store, init_accumulators};
use crate::tile::Tile;

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
pub(super) unsafe fn tile_bf16_dot<const NV: usize, const MR: usize>(t: &Tile<'_>) {
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
        for tap in 0..t.shape.taps {
            let x = t.rows_at(tap);
            for pair in 0..t.shape.depth.div_ceil(2) {
                let b: [__m512bh; NV] =
                    std::array::from_fn(|v| bits(_mm512_loadu_si512(w.add(v * LANES).cast())));
                w = w.add(NV * LANES);
                t.prefetch.issue::<Avx512, NV, MR>(w, &mut ahead);
                let whole = 2 * pair + 1 < t.shape.depth;
                for i in 0..MR {
                    let low = (*x[i].add(2 * pair)).to_bits() >> 16;
                    let high = match whole {
                        true => (*x[i].add(2 * pair + 1)).to_bits() & 0xffff_0000,
                        false => 0,
                    };
                    let a = bits(_mm512_set1_epi32((low | high).cast_signed()));
                    for v in 0..NV {
                        acc[i][v] = _mm512_dpbf16_ps(acc[i][v], a, b[v]);
                    }
                }
            }
        }
        apply_epilogue_and_store::<Avx512, NV, MR>(&t.output, acc);
    }
}
