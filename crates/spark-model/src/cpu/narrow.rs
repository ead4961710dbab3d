//! Tiles whose columns are held in 16 bits.
//!
//! ```text
//! f16    widen one row of columns, then as f32
//! bf16   words -> even values (shift left) and odd values (mask), then as f32, twice
//! dot    acc += x[k + 1] w[k + 1] + x[k] w[k]      one instruction per pair; x is bf16 already
//! ```
//!
//! 1. The left operand stays in f32 words. Where it must be bf16 its producer rounded it
//!    (`rounding`), so that the high halves of two neighbours are a pair.
//! 2. Widening costs one instruction per vector of columns and tile, which pays while the
//!    columns come from far: few rows. Where rows are many, columns are better held as f32.

use super::gemm::{Tile, ask, by_size, finish, start};
#[cfg(target_arch = "x86_64")]
use super::simd::Avx512;
use super::simd::{Isa, Simd, dispatch};

/// A tile over f16 columns.
///
/// # Safety
///
/// As [`Tile::run`].
pub(crate) unsafe fn run_f16(t: &Tile<'_>, isa: Isa, vectors: usize, rows: usize) {
    // SAFETY: forwarded; `isa` names a set this processor has.
    unsafe { by_size!((vectors, rows), isa, tile_f16, t) }
}

/// A tile over bf16 columns.
///
/// # Safety
///
/// As [`Tile::run`].
pub(crate) unsafe fn run_bf16(t: &Tile<'_>, isa: Isa, vectors: usize, rows: usize) {
    // SAFETY: forwarded; `isa` names a set this processor has.
    unsafe { by_size!((vectors, rows), isa, tile_bf16, t) }
}

#[inline(always)]
#[allow(
    clippy::needless_range_loop,
    reason = "constant bounds unroll, iterators may not"
)]
unsafe fn tile_f16<S: Simd, const NV: usize, const MR: usize>(t: &Tile<'_>) {
    if NV > S::MAX_PANEL {
        return;
    }
    // SAFETY: every pointer is moved only within the ranges of `Tile::run`'s contract.
    unsafe {
        let mut acc = start::<S, NV, MR>(t.results.epilogue);
        let mut w = t.w.cast::<u16>();
        let mut ahead = t.ahead.start;
        for tap in 0..t.shape.taps {
            let x = t.rows_at(tap);
            for k in 0..t.shape.depth {
                let b: [S::V; NV] = std::array::from_fn(|v| S::load_f16(w.add(v * S::LANES)));
                w = w.add(NV * S::LANES);
                if k % 2 == 0 {
                    ask::<S, NV, MR>(t, w.cast(), &mut ahead);
                }
                for i in 0..MR {
                    let a = S::splat(*x[i].add(k));
                    for v in 0..NV {
                        acc[i][v] = S::fma(a, b[v], acc[i][v]);
                    }
                }
            }
            if t.shape.depth % 2 == 1 {
                w = w.add(NV * S::LANES);
            }
        }
        finish::<S, NV, MR>(&t.results, acc);
    }
}

#[inline(always)]
#[allow(
    clippy::needless_range_loop,
    reason = "constant bounds unroll, iterators may not"
)]
unsafe fn tile_bf16<S: Simd, const NV: usize, const MR: usize>(t: &Tile<'_>) {
    if NV > S::MAX_PANEL {
        return;
    }
    // SAFETY: every pointer is moved only within the ranges of `Tile::run`'s contract.
    unsafe {
        let mut acc = start::<S, NV, MR>(t.results.epilogue);
        let mut w = t.w;
        let mut ahead = t.ahead.start;
        for tap in 0..t.shape.taps {
            let x = t.rows_at(tap);
            for pair in 0..t.shape.depth.div_ceil(2) {
                let even: [S::V; NV] =
                    std::array::from_fn(|v| S::load_low_bf16(w.add(v * S::LANES)));
                for i in 0..MR {
                    let a = S::splat(*x[i].add(2 * pair));
                    for v in 0..NV {
                        acc[i][v] = S::fma(a, even[v], acc[i][v]);
                    }
                }
                // The row ends here where its depth is odd.
                if 2 * pair + 1 < t.shape.depth {
                    let odd: [S::V; NV] =
                        std::array::from_fn(|v| S::load_high_bf16(w.add(v * S::LANES)));
                    for i in 0..MR {
                        let a = S::splat(*x[i].add(2 * pair + 1));
                        for v in 0..NV {
                            acc[i][v] = S::fma(a, odd[v], acc[i][v]);
                        }
                    }
                }
                w = w.add(NV * S::LANES);
                ask::<S, NV, MR>(t, w, &mut ahead);
            }
        }
        finish::<S, NV, MR>(&t.results, acc);
    }
}

/// A tile over bf16 columns by dot products of pairs.
///
/// # Safety
///
/// As [`Tile::run`], on a processor of which [`has_dot`](super::columns::has_dot) holds.
#[cfg(target_arch = "x86_64")]
pub(crate) unsafe fn run_bf16_dot(t: &Tile<'_>, vectors: usize, rows: usize) {
    // SAFETY: forwarded.
    unsafe {
        match (vectors, rows) {
            (1, 8) => tile_dot::<1, 8>(t),
            (1, 4) => tile_dot::<1, 4>(t),
            (1, _) => tile_dot::<1, 1>(t),
            (2, 6) => tile_dot::<2, 6>(t),
            (2, 4) => tile_dot::<2, 4>(t),
            (2, _) => tile_dot::<2, 1>(t),
            (3, 8) => tile_dot::<3, 8>(t),
            (3, 4) => tile_dot::<3, 4>(t),
            (3, _) => tile_dot::<3, 1>(t),
            (_, 6) => tile_dot::<4, 6>(t),
            (_, 4) => tile_dot::<4, 4>(t),
            _ => tile_dot::<4, 1>(t),
        }
    }
}

/// No such instruction on this processor.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) unsafe fn run_bf16_dot(_: &Tile<'_>, _: usize, _: usize) {
    unreachable!("columns for dot products are packed where the processor has them");
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")]
#[allow(
    clippy::needless_range_loop,
    reason = "constant bounds unroll, iterators may not"
)]
unsafe fn tile_dot<const NV: usize, const MR: usize>(t: &Tile<'_>) {
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
        let mut acc = start::<Avx512, NV, MR>(t.results.epilogue);
        let mut w = t.w;
        let mut ahead = t.ahead.start;
        for tap in 0..t.shape.taps {
            let x = t.rows_at(tap);
            for pair in 0..t.shape.depth.div_ceil(2) {
                let b: [__m512bh; NV] =
                    std::array::from_fn(|v| bits(_mm512_loadu_si512(w.add(v * LANES).cast())));
                w = w.add(NV * LANES);
                ask::<Avx512, NV, MR>(t, w, &mut ahead);
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
        finish::<Avx512, NV, MR>(&t.results, acc);
    }
}

#[cfg(test)]
mod tests;
