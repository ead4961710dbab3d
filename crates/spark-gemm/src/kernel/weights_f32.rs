//! The micro-kernel over f32 weights.

use spark_simd::Simd;

use crate::epilogue::{apply_epilogue_and_store, init_accumulators};
use crate::panel::max_panel_of;
use crate::tile::Tile;

/// The micro-kernel: `MR` rows by `NV` vectors.
#[inline(always)]
#[allow(
    clippy::needless_range_loop,
    reason = "constant bounds unroll, iterators may not"
)]
pub(super) unsafe fn tile_f32<S: Simd, const NV: usize, const MR: usize>(t: &Tile<'_>) {
    if NV > max_panel_of::<S>() {
        // `panels` never makes one so wide; saying so keeps its code from being generated.
        return;
    }
    // SAFETY: every pointer is moved only within the ranges of `Tile::run`'s contract.
    unsafe {
        let mut acc = init_accumulators::<S, NV, MR>(t.output.epilogue);
        let mut w = t.w;
        let mut ahead = t.prefetch.start;
        for tap in 0..t.shape.taps {
            let x = t.rows_at(tap);
            for k in 0..t.shape.depth {
                let b: [S::V; NV] = std::array::from_fn(|v| S::load(w.add(v * S::LANES)));
                w = w.add(NV * S::LANES);
                t.prefetch.issue::<S, NV, MR>(w, &mut ahead);
                for i in 0..MR {
                    let a = S::splat(*x[i].add(k));
                    for v in 0..NV {
                        acc[i][v] = S::fma(a, b[v], acc[i][v]);
                    }
                }
            }
        }
        apply_epilogue_and_store::<S, NV, MR>(&t.output, acc);
    }
}
