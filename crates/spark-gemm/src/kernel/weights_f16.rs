//! Micro-kernels over weights held as f16, converted to f32 on the way.
//!
//! ```text
//! convert one row of weights, then as f32; perhaps store it for the tiles that follow
//! ```
//!
//! A conversion takes two instructions per vector, so the first of several tiles leaves f32 for the
//! others, in a cache of its core, while the lines of the next panel come.

use spark_simd::Simd;

use crate::epilogue::{apply_epilogue_and_store, init_accumulators};
use crate::panel::max_panel_of;
use crate::tile::Tile;

/// A tile over f16 weights.
#[inline(always)]
pub(super) unsafe fn tile_f16<S: Simd, const NV: usize, const MR: usize>(t: &Tile<'_>) {
    // SAFETY: forwarded.
    unsafe { f16_columns::<S, NV, MR, false>(t) }
}

/// A tile over f16 weights that also writes them to `converted` as f32, which must not be null.
#[inline(always)]
pub(super) unsafe fn tile_f16_converting<S: Simd, const NV: usize, const MR: usize>(t: &Tile<'_>) {
    // SAFETY: forwarded.
    unsafe { f16_columns::<S, NV, MR, true>(t) }
}

/// Both of the above: whether f32 is left at `converted` is `KEEPS`.
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
        let mut acc = init_accumulators::<S, NV, MR>(t.output.epilogue);
        let mut w = t.w.cast::<u16>();
        let mut converted = t.converted;
        let mut ahead = t.prefetch.start;
        for tap in 0..t.shape.taps {
            let x = t.rows_at(tap);
            for k in 0..t.shape.depth {
                let b: [S::V; NV] = std::array::from_fn(|v| S::load_f16(w.add(v * S::LANES)));
                w = w.add(NV * S::LANES);
                if KEEPS {
                    for v in 0..NV {
                        S::store(converted.add(v * S::LANES), b[v]);
                    }
                    converted = converted.add(NV * S::LANES);
                }
                if k % 2 == 0 {
                    t.prefetch.issue::<S, NV, MR>(w.cast(), &mut ahead);
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
        apply_epilogue_and_store::<S, NV, MR>(&t.output, acc);
    }
}
