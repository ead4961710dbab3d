//! The micro-kernel over weights held as bf16, converted to f32 on the way.
//!
//! ```text
//! words -> even values (shift left) and odd values (mask), then as f32, twice
//! ```
//!
//! A conversion costs one instruction per vector of weights and tile, which is profitable while the weights come
//! from far: few rows.

use spark_simd::Simd;

use crate::epilogue::{apply_epilogue_and_store, init_accumulators};
use crate::panel::max_panel_of;
use crate::tile::Tile;

/// A tile over bf16 weights.
#[inline(always)]
#[allow(
    clippy::needless_range_loop,
    reason = "constant bounds unroll, iterators may not"
)]
pub(super) unsafe fn tile_bf16<S: Simd, const NV: usize, const MR: usize>(t: &Tile<'_>) {
    if NV > max_panel_of::<S>() {
        return;
    }
    // SAFETY: every pointer is moved only within the ranges of `Tile::run`'s contract.
    unsafe {
        let mut acc = init_accumulators::<S, NV, MR>(t.output.epilogue);
        let mut w = t.w;
        let mut ahead = t.prefetch.start;
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
                t.prefetch.issue::<S, NV, MR>(w, &mut ahead);
            }
        }
        apply_epilogue_and_store::<S, NV, MR>(&t.output, acc);
    }
}
