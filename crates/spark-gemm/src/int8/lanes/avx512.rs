//! Sixteen lanes.

#![allow(
    unsafe_code,
    reason = "intrinsics, which need the instruction set that the token stands for"
)]

use std::arch::x86_64::*;

use spark_simd::Avx512;

use super::IntegerLanes;

// SAFETY: for the implementation and every block in it: callers run on a processor with the set, and pass
// pointers valid for the lanes touched.
unsafe impl IntegerLanes for Avx512 {
    type I = __m512i;

    #[inline(always)]
    unsafe fn splat_i(x: i32) -> __m512i {
        // SAFETY: see above.
        unsafe { _mm512_set1_epi32(x) }
    }
    #[inline(always)]
    unsafe fn load_i(p: *const i32) -> __m512i {
        // SAFETY: see above.
        unsafe { _mm512_loadu_si512(p.cast()) }
    }
    #[inline(always)]
    unsafe fn store_i(p: *mut i32, v: __m512i) {
        // SAFETY: see above.
        unsafe { _mm512_storeu_si512(p.cast(), v) }
    }
    #[inline(always)]
    unsafe fn add_i(a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: see above.
        unsafe { _mm512_add_epi32(a, b) }
    }
    #[inline(always)]
    unsafe fn sub_product(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
        // SAFETY: see above.
        unsafe { _mm512_sub_epi32(a, _mm512_mullo_epi32(b, c)) }
    }
    #[inline(always)]
    unsafe fn to_floats(v: __m512i) -> __m512 {
        // SAFETY: see above.
        unsafe { _mm512_cvtepi32_ps(v) }
    }
    #[inline(always)]
    unsafe fn round(v: __m512) -> __m512i {
        // SAFETY: see above.
        unsafe { _mm512_cvt_roundps_epi32::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(v) }
    }
    #[inline(always)]
    unsafe fn store_bytes(p: *mut u8, v: __m512i) {
        // SAFETY: see above.
        unsafe { _mm_storeu_si128(p.cast(), _mm512_cvtepi32_epi8(v)) }
    }
}
