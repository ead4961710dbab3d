//! AVX-512: 16 lanes, partial loads and stores by mask.

use std::arch::x86_64::*;

use super::Simd;

/// AVX-512 F, BW, DQ and VL with FMA.
#[derive(Clone, Copy)]
pub(crate) struct Avx512;

// SAFETY: for the implementation and every block in it: the trait's callers run on a processor with these
// features and pass pointers valid for the lanes touched; masked-out lanes are not
// accessed by the hardware.
unsafe impl Simd for Avx512 {
    type V = __m512;
    const LANES: usize = 16;
    const MAX_PANEL: usize = 4;

    #[inline(always)]
    unsafe fn splat(x: f32) -> __m512 {
        // SAFETY: see above.
        unsafe { _mm512_set1_ps(x) }
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> __m512 {
        // SAFETY: see above.
        unsafe { _mm512_loadu_ps(p) }
    }
    #[inline(always)]
    unsafe fn load_first(p: *const f32, n: usize) -> __m512 {
        // SAFETY: see above.
        unsafe { _mm512_maskz_loadu_ps(((1u32 << n) - 1) as u16, p) }
    }
    #[inline(always)]
    unsafe fn store(p: *mut f32, v: __m512) {
        // SAFETY: see above.
        unsafe { _mm512_storeu_ps(p, v) }
    }
    #[inline(always)]
    unsafe fn store_first(p: *mut f32, v: __m512, n: usize) {
        // SAFETY: see above.
        unsafe { _mm512_mask_storeu_ps(p, ((1u32 << n) - 1) as u16, v) }
    }
    #[inline(always)]
    unsafe fn fma(a: __m512, b: __m512, c: __m512) -> __m512 {
        // SAFETY: see above.
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    unsafe fn add(a: __m512, b: __m512) -> __m512 {
        // SAFETY: see above.
        unsafe { _mm512_add_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn mul(a: __m512, b: __m512) -> __m512 {
        // SAFETY: see above.
        unsafe { _mm512_mul_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn max(a: __m512, b: __m512) -> __m512 {
        // SAFETY: see above.
        unsafe { _mm512_max_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn min(a: __m512, b: __m512) -> __m512 {
        // SAFETY: see above.
        unsafe { _mm512_min_ps(a, b) }
    }
    #[inline(always)]
    fn fma_one(a: f32, b: f32, c: f32) -> f32 {
        a.mul_add(b, c)
    }
}
