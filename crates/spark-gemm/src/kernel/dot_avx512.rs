//! The micro-kernel by AVX-512's dot products of bf16.
//!
//! ```text
//! acc += x[k + 1] w[k + 1] + x[k] w[k]      one instruction per pair; x is bf16 already
//! ```
//!
//! Evenly spaced rows are a panel, all its tiles in one function, as in `panel_f32`: with few columns of `x` a tile is a
//! few dozen instructions, and what is between two of them would cost as much. Others come tile by tile.
//!
//! The left operand is held as bf16, of which two neighbours are a pair that one load broadcasts; or in f32 words, which
//! its producer rounded, so that the high halves of two neighbours are one.

use std::arch::x86_64::{
    __m512, __m512bh, __m512i, _mm512_dpbf16_ps, _mm512_loadu_si512, _mm512_set1_epi32,
};

use spark_simd::{Avx512, Simd};

use super::panel_f32::PanelRows;
use crate::epilogue::{apply_epilogue_and_store, init_accumulators};
use crate::float_format::FloatFormat;
use crate::panel::next_rows;
use crate::tile::Tile;

/// A left operand, pair by pair.
pub(super) trait Pairs {
    /// How it is held.
    const FORMAT: FloatFormat;

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
    const FORMAT: FloatFormat = FloatFormat::F32;

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
    const FORMAT: FloatFormat = FloatFormat::Bf16;

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

const LANES: usize = Avx512::LANES;

/// `NV` vectors of packed pairs from `w` on.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn load_pairs<const NV: usize>(w: *const f32) -> [__m512bh; NV] {
    // SAFETY: the caller vouches for the vectors; both types are 64 bytes of which every pattern is valid.
    std::array::from_fn(|v| unsafe {
        std::mem::transmute::<__m512i, __m512bh>(_mm512_loadu_si512(w.add(v * LANES).cast()))
    })
}

/// Adds the products of one pair with the pairs of `b`.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
#[allow(
    clippy::needless_range_loop,
    reason = "constant bounds unroll, iterators may not"
)]
fn add_products<const NV: usize>(pair: i32, b: &[__m512bh; NV], acc: &mut [__m512; NV]) {
    // SAFETY: both types are 64 bytes of which every pattern is valid.
    let a = unsafe { std::mem::transmute::<__m512i, __m512bh>(_mm512_set1_epi32(pair)) };
    for v in 0..NV {
        // The broadcast operand last: that one may be in memory.
        acc[v] = _mm512_dpbf16_ps(acc[v], b[v], a);
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
    // SAFETY: every pointer is moved only within the ranges of `Tile::run`'s contract; the
    // processor has the instructions.
    unsafe {
        let mut acc = init_accumulators::<Avx512, NV, MR>(t.output.epilogue);
        let mut w = t.w;
        let mut ahead = t.prefetch.start;
        macro_rules! step {
            ($x:ident, $pair:expr, $whole:literal) => {
                let b = load_pairs::<NV>(w);
                w = w.add(NV * LANES);
                t.prefetch.issue::<Avx512, NV, MR>(w, &mut ahead);
                for i in 0..MR {
                    add_products(X::pair::<$whole>($x[i], $pair), &b, &mut acc[i]);
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

/// All rows of a panel of `NV` vectors.
///
/// # Safety
///
/// As [`PanelRows::run`], on a processor with AVX512_BF16; the left operand is held as `X` has it.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")]
pub(super) unsafe fn panel_bf16_dot<X: Pairs, const NV: usize, const TAPS: bool>(
    p: &PanelRows<'_>,
) {
    let (mut m, mut index) = (0, 0);
    while m < p.rows {
        let n = next_rows(NV, p.rows - m);
        // SAFETY: rows `m..m + n` exist; this function has the features.
        unsafe {
            match n {
                8 => panel_tile::<X, NV, 8, TAPS>(p, m, index),
                6 => panel_tile::<X, NV, 6, TAPS>(p, m, index),
                4 => panel_tile::<X, NV, 4, TAPS>(p, m, index),
                _ => panel_tile::<X, NV, 1, TAPS>(p, m, index),
            }
        }
        m += n;
        index += 1;
    }
}

/// Rows `m..m + MR`, tile `index`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")]
#[allow(
    clippy::needless_range_loop,
    reason = "constant bounds unroll, iterators may not"
)]
unsafe fn panel_tile<X: Pairs, const NV: usize, const MR: usize, const TAPS: bool>(
    p: &PanelRows<'_>,
    m: usize,
    index: usize,
) {
    // SAFETY: every pointer is moved only to rows and columns that exist; the processor has the instructions.
    unsafe {
        let mut acc = init_accumulators::<Avx512, NV, MR>(p.epilogue);
        let mut w = p.w;
        let prefetch = p.prefetch::<MR, TAPS>(m, index, X::FORMAT);
        let mut ahead = prefetch.start;
        for &offset in p.taps::<TAPS>() {
            let x: [*const f32; MR] = p.x_rows(m, offset, X::FORMAT);
            for pair in 0..p.k / 2 {
                let b = load_pairs::<NV>(w);
                w = w.add(NV * LANES);
                prefetch.issue::<Avx512, NV, MR>(w, &mut ahead);
                for i in 0..MR {
                    add_products(X::pair::<true>(x[i], pair), &b, &mut acc[i]);
                }
            }
            if p.k % 2 == 1 {
                let b = load_pairs::<NV>(w);
                w = w.add(NV * LANES);
                for i in 0..MR {
                    add_products(X::pair::<false>(x[i], p.k / 2), &b, &mut acc[i]);
                }
            }
        }
        let (y_format, residual_format) = (p.epilogue.y_format, p.epilogue.residual_format);
        let output = p.output::<MR>(m, y_format, residual_format);
        apply_epilogue_and_store::<Avx512, NV, MR>(&output, acc);
    }
}
