//! Tiles whose products are of 16 bits on both sides, by the instructions that Arm has for them.
//!
//! ```text
//! f16   fmlal     acc[4] += x[i, k] w[k, 4]                       FEAT_FHM
//! bf16  bfmmla    acc[2, 2] += x[2, 4] w[4, 2]                    FEAT_BF16
//!
//! rows 2p and 2p + 1 of a vector's four columns are two blocks of 2x2:
//!     columns 0 and 1   [r0c0 r0c1 r1c0 r1c1]
//!     columns 2 and 3   [r0c2 r0c3 r1c2 r1c3]        rows and blocks: the same exchange of halves
//! ```
//!
//! 1. Sums are f32 in both. `fmlal` rounds once per product, to nearest even: results are the bits
//!    that f32 gives on operands rounded to f16. `bfmmla` adds two pairs of products, each pair
//!    and each sum rounded to odd, and takes subnormals for zeros.
//! 2. The left operand stays in f32 words. For f16 it is rounded here, to nearest even, four values
//!    of two rows at a time; what is beyond 65504 becomes infinite. For bf16 its producer rounded
//!    it, so that the odd halves of two rows are one operand.
//! 3. With one row, the other one of its block repeats it.
//!
//! Which of them is profitable is measured where it runs (`select`): a processor may have either
//! at the rate of f32. Deliberately absent: sums in f16, which have three digits.
//!
//! Source: Arm Architecture Reference Manual for A-profile, FMLAL, FMLAL2, BFMMLA.

use std::arch::aarch64::*;
use std::arch::asm;

use spark_simd::{Neon, Simd};

use crate::epilogue::{apply_epilogue_and_store, init_accumulators};
use crate::tile::Tile;

const LANES: usize = Neon::LANES;
/// Values of a row that enter at a time.
const DEPTH: usize = 4;

/// A tile over [`F16Fmlal`](crate::PackedLayout::F16Fmlal) columns.
///
/// # Safety
///
/// As [`Tile::run`], on a processor with FEAT_FP16 and FEAT_FHM.
#[target_feature(enable = "neon,fp16,fhm")]
#[allow(
    clippy::needless_range_loop,
    reason = "constant bounds unroll, iterators may not"
)]
pub(super) unsafe fn tile_f16_fmlal<const NV: usize, const MR: usize>(t: &Tile<'_>) {
    // SAFETY: every pointer is moved only within the ranges of `Tile::run`'s contract; the
    // processor has the instructions.
    unsafe {
        let mut acc = init_accumulators::<Neon, NV, MR>(t.output.epilogue);
        let mut w = t.w.cast::<u16>();
        let mut ahead = t.prefetch.start;
        // Adds value `$k` of the four in `$a` times the next row of columns.
        macro_rules! add_products {
            ($a:ident, $k:literal, $next:literal) => {
                let mut b = [zeros(); NV];
                for v in (0..NV).step_by(2) {
                    let from = w.add(v * LANES);
                    // Two vectors of columns in one register, as long as there are two.
                    b[v] = match v + 1 < NV {
                        true => vreinterpretq_f16_u16(vld1q_u16(from)),
                        false => vreinterpretq_f16_u16(vcombine_u16(vld1_u16(from), vdup_n_u16(0))),
                    };
                }
                w = w.add(NV * LANES);
                for i in 0..MR {
                    for v in 0..NV {
                        let (sum, b, a) = (acc[i][v], b[v & !1], $a[i / 2]);
                        acc[i][v] = match (i % 2, v % 2) {
                            (0, 0) => vfmlalq_laneq_low_f16::<$k>(sum, b, a),
                            (0, _) => vfmlalq_laneq_high_f16::<$k>(sum, b, a),
                            (_, 0) => vfmlalq_laneq_low_f16::<$next>(sum, b, a),
                            (_, _) => vfmlalq_laneq_high_f16::<$next>(sum, b, a),
                        };
                    }
                }
            };
        }
        let whole = t.shape.depth / DEPTH * DEPTH;
        for tap in 0..t.shape.taps {
            let x = t.rows_at(tap);
            for k in (0..whole).step_by(DEPTH) {
                let a = halves::<MR>(|i| Neon::load(x[i].add(k)));
                t.prefetch.issue::<Neon, NV, MR>(w.cast(), &mut ahead);
                add_products!(a, 0, 4);
                add_products!(a, 1, 5);
                t.prefetch.issue::<Neon, NV, MR>(w.cast(), &mut ahead);
                add_products!(a, 2, 6);
                add_products!(a, 3, 7);
            }
            let left = t.shape.depth - whole;
            if left > 0 {
                let a = halves::<MR>(|i| Neon::load_first(x[i].add(whole), left));
                add_products!(a, 0, 4);
                if left > 1 {
                    add_products!(a, 1, 5);
                }
                if left > 2 {
                    add_products!(a, 2, 6);
                }
            }
            if t.shape.depth % 2 == 1 {
                w = w.add(NV * LANES);
            }
        }
        apply_epilogue_and_store::<Neon, NV, MR>(&t.output, acc);
    }
}

/// A tile over [`Bf16Mmla`](crate::PackedLayout::Bf16Mmla) columns.
///
/// # Safety
///
/// As [`Tile::run`], on a processor with FEAT_BF16.
#[target_feature(enable = "neon,bf16")]
pub(super) unsafe fn tile_bf16_mmla<const NV: usize, const MR: usize>(t: &Tile<'_>) {
    // SAFETY: forwarded.
    unsafe {
        match MR {
            1 => {
                let acc = blocks::<NV, 2, 1>(t);
                apply_epilogue_and_store::<Neon, NV, 1>(&t.output, [acc[0]]);
            }
            _ => {
                let acc = blocks::<NV, MR, MR>(t);
                apply_epilogue_and_store::<Neon, NV, MR>(&t.output, acc);
            }
        }
    }
}

/// The sums of [`tile_bf16_mmla`] for an even number `MR` of rows, of which those beyond `ROWS`
/// repeat its last one.
///
/// # Safety
///
/// As there.
#[target_feature(enable = "neon,bf16")]
#[allow(
    clippy::needless_range_loop,
    reason = "constant bounds unroll, iterators may not"
)]
unsafe fn blocks<const NV: usize, const MR: usize, const ROWS: usize>(
    t: &Tile<'_>,
) -> [[float32x4_t; NV]; MR] {
    // SAFETY: every pointer is of the tile's own rows and moved only within the ranges of
    // `Tile::run`'s contract; the processor has the instructions.
    unsafe {
        let mut acc = exchanged(init_accumulators::<Neon, NV, MR>(t.output.epilogue));
        let mut w = t.w.cast::<u16>();
        let mut ahead = t.prefetch.start;
        let whole = t.shape.depth / DEPTH * DEPTH;
        for tap in 0..t.shape.taps {
            let rows = t.rows_at(tap);
            let x = |i: usize, k: usize| rows[i.min(ROWS - 1)].add(k);
            for k in (0..whole).step_by(DEPTH) {
                t.prefetch.issue::<Neon, NV, ROWS>(w.cast(), &mut ahead);
                add_four(&mut acc, |i| Neon::load(x(i, k)), w);
                w = w.add(DEPTH * NV * LANES);
            }
            let left = t.shape.depth - whole;
            if left > 0 {
                add_four(&mut acc, |i| Neon::load_first(x(i, whole), left), w);
                w = w.add(DEPTH * NV * LANES);
            }
        }
        exchanged(acc)
    }
}

/// Adds four values of every row, as `x` gives them, times the columns at `w`.
///
/// # Safety
///
/// As [`blocks`].
#[inline(always)]
#[allow(
    clippy::needless_range_loop,
    reason = "constant bounds unroll, iterators may not"
)]
unsafe fn add_four<const NV: usize, const MR: usize>(
    acc: &mut [[float32x4_t; NV]; MR],
    x: impl Fn(usize) -> float32x4_t,
    w: *const u16,
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        // Rows 2p and 2p + 1.
        let mut a = [vdupq_n_u16(0); MR];
        for p in 0..MR / 2 {
            let [even, odd] = [x(2 * p), x(2 * p + 1)].map(|row| vreinterpretq_u16_f32(row));
            a[p] = vuzp2q_u16(even, odd);
        }
        for v in 0..NV {
            for half in 0..2 {
                let columns = vld1q_u16(w.add((4 * v + 2 * half) * LANES));
                for p in 0..MR / 2 {
                    let sum = &mut acc[2 * p + half][v];
                    *sum = add_block(*sum, a[p], columns);
                }
            }
        }
    }
}

/// `sum + a b` of 2x2, 2x4 and 4x2.
#[inline]
#[target_feature(enable = "neon,bf16")]
fn add_block(mut sum: float32x4_t, a: uint16x8_t, b: uint16x8_t) -> float32x4_t {
    // SAFETY: the processor has the instruction, which touches only its three registers.
    unsafe {
        asm!(
            "bfmmla {sum:v}.4s, {a:v}.8h, {b:v}.8h",
            sum = inout(vreg) sum,
            a = in(vreg) a,
            b = in(vreg) b,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sum
}

/// Two rows of four columns as two blocks of 2x2, and back: the second half of the first and the
/// first half of the second change places.
#[inline(always)]
#[allow(
    clippy::needless_range_loop,
    reason = "constant bounds unroll, iterators may not"
)]
fn exchanged<const NV: usize, const MR: usize>(
    mut acc: [[float32x4_t; NV]; MR],
) -> [[float32x4_t; NV]; MR] {
    for p in 0..MR / 2 {
        for v in 0..NV {
            // SAFETY: NEON is part of the base architecture; registers only.
            unsafe {
                let [first, second] =
                    [acc[2 * p][v], acc[2 * p + 1][v]].map(|row| vreinterpretq_f64_f32(row));
                acc[2 * p][v] = vreinterpretq_f32_f64(vzip1q_f64(first, second));
                acc[2 * p + 1][v] = vreinterpretq_f32_f64(vzip2q_f64(first, second));
            }
        }
    }
    acc
}

/// Four values of rows 2p and 2p + 1, as `x` gives them, rounded to f16.
///
/// # Safety
///
/// As [`tile_f16_fmlal`].
#[inline(always)]
#[allow(
    clippy::needless_range_loop,
    reason = "constant bounds unroll, iterators may not"
)]
unsafe fn halves<const MR: usize>(x: impl Fn(usize) -> float32x4_t) -> [float16x8_t; MR] {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let mut a = [zeros(); MR];
        for p in 0..MR.div_ceil(2) {
            let low = vcvt_f16_f32(x(2 * p));
            a[p] = match 2 * p + 1 < MR {
                true => vcvt_high_f16_f32(low, x(2 * p + 1)),
                false => vcombine_f16(low, low),
            };
        }
        a
    }
}

#[inline]
#[target_feature(enable = "neon,fp16")]
fn zeros() -> float16x8_t {
    vreinterpretq_f16_u16(vdupq_n_u16(0))
}
