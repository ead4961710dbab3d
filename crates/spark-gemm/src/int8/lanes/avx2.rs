//! Eight lanes.

#![allow(
    unsafe_code,
    reason = "intrinsics, which need the instruction set that the token stands for"
)]

use std::arch::x86_64::*;

use spark_simd::Avx2;

use super::IntegerLanes;

// SAFETY: for the implementation and every block in it: callers run on a processor with the set, and pass
// pointers valid for the lanes touched.
unsafe impl IntegerLanes for Avx2 {
    type I = __m256i;

    #[inline(always)]
    unsafe fn splat_i(x: i32) -> __m256i {
        // SAFETY: see above.
        unsafe { _mm256_set1_epi32(x) }
    }
    #[inline(always)]
    unsafe fn load_i(p: *const i32) -> __m256i {
        // SAFETY: see above.
        unsafe { _mm256_loadu_si256(p.cast()) }
    }
    #[inline(always)]
    unsafe fn store_i(p: *mut i32, v: __m256i) {
        // SAFETY: see above.
        unsafe { _mm256_storeu_si256(p.cast(), v) }
    }
    #[inline(always)]
    unsafe fn add_i(a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: see above.
        unsafe { _mm256_add_epi32(a, b) }
    }
    #[inline(always)]
    unsafe fn sub_product(a: __m256i, b: __m256i, c: __m256i) -> __m256i {
        // SAFETY: see above.
        unsafe { _mm256_sub_epi32(a, _mm256_mullo_epi32(b, c)) }
    }
    #[inline(always)]
    unsafe fn to_floats(v: __m256i) -> __m256 {
        // SAFETY: see above.
        unsafe { _mm256_cvtepi32_ps(v) }
    }
    #[inline(always)]
    unsafe fn round(v: __m256) -> __m256i {
        // SAFETY: see above. Rounded in f32 first, whatever the rounding mode is set to.
        unsafe {
            const MODE: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
            _mm256_cvttps_epi32(_mm256_round_ps::<MODE>(v))
        }
    }
    #[inline(always)]
    unsafe fn store_bytes(p: *mut u8, v: __m256i) {
        // SAFETY: see above.
        unsafe {
            // The low bytes of four lanes to the front of each half.
            let low = _mm_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
            let front = _mm256_shuffle_epi8(v, _mm256_broadcastsi128_si256(low));
            let halves = [
                _mm256_castsi256_si128(front),
                _mm256_extracti128_si256::<1>(front),
            ];
            _mm_storel_epi64(p.cast(), _mm_unpacklo_epi32(halves[0], halves[1]));
        }
    }
}
