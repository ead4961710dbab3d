//! A panel of f32 weights whose last vector is at most half full, by AVX-512.
//!
//! ```text
//! 24 columns, a vector and a half:   acc[i][0] zmm,  acc[i][1] ymm       FULL = 1
//! ```
//!
//! A processor that takes wide registers in two steps, as Zen 4 does, spends one on the half; where both cost the
//! same nothing is lost. The products and their order are those of `panel_f32`.

use std::arch::x86_64::*;

use spark_simd::{Avx512, Simd};

use super::panel_f32::{F32, PanelRows};
use crate::epilogue::apply_epilogue_and_store;
use crate::panel::next_rows;

const LANES: usize = Avx512::LANES;

/// Whether half of the panel's last vector has no columns.
pub(super) fn has_half(p: &PanelRows<'_>, vectors: usize) -> bool {
    p.columns + LANES / 2 <= LANES * vectors
}

/// `x` in all lanes of a register of which the compiler knows nothing more: it makes half of a value that it has
/// seen broadcast by a second instruction, which takes a turn of the units that multiply.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn broadcast(x: f32) -> __m512 {
    let mut v = _mm512_set1_ps(x);
    // SAFETY: no instruction at all.
    unsafe {
        std::arch::asm!("/* {0} */", inlateout(zmm_reg) v, options(pure, nomem, nostack, preserves_flags));
    }
    v
}

spark_simd::features! { compile Avx512
    /// All rows of a panel of `FULL` whole vectors and a half, which are `NV`.
    pub(super) unsafe fn panel_f32_half<const FULL: usize, const NV: usize, const TAPS: bool>(p: &PanelRows<'_>) {
        let (mut m, mut index) = (0, 0);
        while m < p.rows {
            // A vector and a half leave registers for as many rows as one.
            let n = next_rows(if NV == 2 { 1 } else { NV }, p.rows - m);
            // SAFETY: rows `m..m + n` exist; this function has the features.
            unsafe {
                match n {
                    8 => tile::<FULL, NV, 8, TAPS>(p, m, index),
                    6 => tile::<FULL, NV, 6, TAPS>(p, m, index),
                    4 => tile::<FULL, NV, 4, TAPS>(p, m, index),
                    _ => tile::<FULL, NV, 1, TAPS>(p, m, index),
                }
            }
            m += n;
            index += 1;
        }
    }
}

/// Rows `m..m + MR`, tile `index`.
#[inline(always)]
#[allow(
    clippy::needless_range_loop,
    reason = "constant bounds unroll, iterators may not"
)]
unsafe fn tile<const FULL: usize, const NV: usize, const MR: usize, const TAPS: bool>(
    p: &PanelRows<'_>,
    m: usize,
    index: usize,
) {
    // SAFETY: every pointer is moved only to rows and columns that exist; the caller has the features.
    unsafe {
        let bias = p.epilogue.bias;
        let (whole, half) = match bias.is_null() {
            true => ([_mm512_setzero_ps(); FULL], _mm256_setzero_ps()),
            false => (
                std::array::from_fn(|v| _mm512_loadu_ps(bias.add(LANES * v))),
                _mm256_loadu_ps(bias.add(LANES * FULL)),
            ),
        };
        let mut acc = [whole; MR];
        let mut acc_half = [half; MR];
        let mut w = p.w;
        let prefetch = p.prefetch::<MR, TAPS>(m, index, F32);
        let mut ahead = prefetch.start;
        for &offset in p.taps::<TAPS>() {
            let x: [*const f32; MR] = p.x_rows(m, offset, F32);
            for k in 0..p.k {
                let b: [__m512; FULL] = std::array::from_fn(|v| _mm512_loadu_ps(w.add(LANES * v)));
                let b_half = _mm256_loadu_ps(w.add(LANES * FULL));
                w = w.add(NV * LANES);
                prefetch.issue::<Avx512, NV, MR>(w, &mut ahead);
                for i in 0..MR {
                    let a = broadcast(*x[i].add(k));
                    for v in 0..FULL {
                        acc[i][v] = _mm512_fmadd_ps(a, b[v], acc[i][v]);
                    }
                    acc_half[i] = _mm256_fmadd_ps(_mm512_castps512_ps256(a), b_half, acc_half[i]);
                }
            }
        }
        let acc: [[__m512; NV]; MR] = std::array::from_fn(|i| {
            std::array::from_fn(|v| match v < FULL {
                true => acc[i][v],
                false => _mm512_castps256_ps512(acc_half[i]),
            })
        });
        apply_epilogue_and_store::<Avx512, NV, MR>(&p.output::<MR>(m, F32, F32), acc);
    }
}
