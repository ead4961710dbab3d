//! Tiles whose columns are held in 16 bits.
//!
//! ```text
//! f16    widen one row of columns, then as f32; perhaps store it for the tiles that follow
//! bf16   words -> even values (shift left) and odd values (mask), then as f32, twice
//! dot    acc += x[k + 1] w[k + 1] + x[k] w[k]      one instruction per pair; x is bf16 already
//! ```
//!
//! What Arm has instead is in `arm`.
//!
//! 1. The left operand stays in f32 words. Where it must be bf16 its producer rounded it
//!    (`rounding`), so that the high halves of two neighbours are a pair.
//! 2. Widening costs one instruction per vector of bf16 columns and tile, which pays while the
//!    columns come from far: few rows. An f16 takes two, so the first of several tiles leaves f32
//!    for the others, in a cache of its core, while the lines of the next panel come.

#[cfg(target_arch = "aarch64")]
mod arm;

use super::gemm::{Tile, ask, by_size, finish, start};
#[cfg(target_arch = "x86_64")]
use super::simd::Avx512;
use super::simd::{Isa, Simd, dispatch, max_panel_of};

/// A tile over f16 columns.
///
/// # Safety
///
/// As [`Tile::run`].
pub(crate) unsafe fn run_f16(t: &Tile<'_>, isa: Isa, vectors: usize, rows: usize) {
    // SAFETY: forwarded; `isa` names a set this processor has.
    unsafe { by_size!((vectors, rows), isa, tile_f16, t) }
}

/// A tile over f16 columns that also writes them to `widened`.
///
/// # Safety
///
/// As [`Tile::run`]; `widened` must not be null.
pub(crate) unsafe fn run_f16_widening(t: &Tile<'_>, isa: Isa, vectors: usize, rows: usize) {
    // SAFETY: forwarded; `isa` names a set this processor has.
    unsafe { by_size!((vectors, rows), isa, tile_f16_widening, t) }
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
unsafe fn tile_f16<S: Simd, const NV: usize, const MR: usize>(t: &Tile<'_>) {
    // SAFETY: forwarded.
    unsafe { f16_columns::<S, NV, MR, false>(t) }
}

#[inline(always)]
unsafe fn tile_f16_widening<S: Simd, const NV: usize, const MR: usize>(t: &Tile<'_>) {
    // SAFETY: forwarded.
    unsafe { f16_columns::<S, NV, MR, true>(t) }
}

/// Both of the above: whether f32 is left at `widened` is `KEEPS`.
#[inline(always)]
#[allow(
    clippy::needless_range_loop,
    reason = "constant bounds unroll, iterators may not"
)]
unsafe fn f16_columns<S: Simd, const NV: usize, const MR: usize, const KEEPS: bool>(t: &Tile<'_>) {
    if NV > max_panel_of::<S>() {
        return;
    }
    // SAFETY: every pointer is moved only within the ranges of `Tile::run`'s contract.
    unsafe {
        let mut acc = start::<S, NV, MR>(t.results.epilogue);
        let mut w = t.w.cast::<u16>();
        let mut widened = t.widened;
        let mut ahead = t.ahead.start;
        for tap in 0..t.shape.taps {
            let x = t.rows_at(tap);
            for k in 0..t.shape.depth {
                let b: [S::V; NV] = std::array::from_fn(|v| S::load_f16(w.add(v * S::LANES)));
                w = w.add(NV * S::LANES);
                if KEEPS {
                    for v in 0..NV {
                        S::store(widened.add(v * S::LANES), b[v]);
                    }
                    widened = widened.add(NV * S::LANES);
                }
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
    if NV > max_panel_of::<S>() {
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

/// `by_rows!(size, kernel, tile)` calls an unsafe kernel that needs no dispatch for a tile of
/// `(vectors, rows)`, as [`next_rows`](super::gemm::next_rows) gives them.
macro_rules! by_rows {
    ($size:expr, $kernel:ident, $tile:expr) => {
        match $size {
            (1, 8) => $kernel::<1, 8>($tile),
            (1, 4) => $kernel::<1, 4>($tile),
            (1, _) => $kernel::<1, 1>($tile),
            (2, 6) => $kernel::<2, 6>($tile),
            (2, 4) => $kernel::<2, 4>($tile),
            (2, _) => $kernel::<2, 1>($tile),
            (3, 8) => $kernel::<3, 8>($tile),
            (3, 4) => $kernel::<3, 4>($tile),
            (3, _) => $kernel::<3, 1>($tile),
            (_, 6) => $kernel::<4, 6>($tile),
            (_, 4) => $kernel::<4, 4>($tile),
            _ => $kernel::<4, 1>($tile),
        }
    };
}

/// A tile over bf16 columns by dot products of pairs.
///
/// # Safety
///
/// As [`Tile::run`], on a processor of which [`dot_columns`](super::columns::dot_columns) says
/// [`Bf16Dot`](super::columns::Columns::Bf16Dot).
#[cfg(target_arch = "x86_64")]
pub(crate) unsafe fn run_bf16_dot(t: &Tile<'_>, vectors: usize, rows: usize) {
    // SAFETY: forwarded.
    unsafe { by_rows!((vectors, rows), tile_dot, t) }
}

/// A tile over f16 columns, the left side as f16 and sums in f32.
///
/// # Safety
///
/// As [`Tile::run`], on a processor of which
/// [`has_f16_products`](super::columns::has_f16_products) holds.
#[cfg(target_arch = "aarch64")]
pub(crate) unsafe fn run_f16_long(t: &Tile<'_>, vectors: usize, rows: usize) {
    use arm::tile_f16_long;
    // SAFETY: forwarded.
    unsafe { by_rows!((vectors, rows), tile_f16_long, t) }
}

/// A tile over bf16 columns by dot products of four, two rows and two columns at a time.
///
/// # Safety
///
/// As [`Tile::run`], on a processor of which [`dot_columns`](super::columns::dot_columns) says
/// [`Bf16Blocks`](super::columns::Columns::Bf16Blocks).
#[cfg(target_arch = "aarch64")]
pub(crate) unsafe fn run_bf16_blocks(t: &Tile<'_>, vectors: usize, rows: usize) {
    use arm::tile_bf16_blocks;
    // SAFETY: forwarded.
    unsafe { by_rows!((vectors, rows), tile_bf16_blocks, t) }
}

/// No such instruction on this processor.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) unsafe fn run_bf16_dot(_: &Tile<'_>, _: usize, _: usize) {
    unreachable!("columns for dot products are packed where the processor has them");
}

/// No such instruction on this processor.
#[cfg(not(target_arch = "aarch64"))]
pub(crate) unsafe fn run_f16_long(_: &Tile<'_>, _: usize, _: usize) {
    unreachable!("columns for products of f16 are packed where the processor has them");
}

/// No such instruction on this processor.
#[cfg(not(target_arch = "aarch64"))]
pub(crate) unsafe fn run_bf16_blocks(_: &Tile<'_>, _: usize, _: usize) {
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
