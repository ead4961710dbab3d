//! AVX2: 8 lanes, partial loads and stores by mask.

#![allow(
    unsafe_code,
    reason = "intrinsics, which need the instruction set that the token stands for"
)]

use std::arch::x86_64::*;

use super::sealed::Sealed;
use super::simd::Simd;
use crate::token::Avx2;

/// All ones in the first `n` lanes.
#[inline(always)]
unsafe fn mask(n: usize) -> __m256i {
    const TABLE: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];
    debug_assert!(n <= 8);
    // SAFETY: 8 - n is in 0..=8, so eight elements from there lie inside the table.
    unsafe { _mm256_loadu_si256(TABLE.as_ptr().add(8 - n).cast()) }
}

impl Sealed for Avx2 {}

// SAFETY: for the implementation and every block in it: the trait's callers run on a processor with these
// features and pass pointers valid for the lanes touched; masked-out lanes are not
// accessed by the hardware.
unsafe impl Simd for Avx2 {
    type V = __m256;
    type Mask = __m256;
    const LANES: usize = 8;
    const REGISTERS: usize = 16;

    #[inline(always)]
    unsafe fn splat(x: f32) -> __m256 {
        // SAFETY: see above.
        unsafe { _mm256_set1_ps(x) }
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> __m256 {
        // SAFETY: see above.
        unsafe { _mm256_loadu_ps(p) }
    }
    #[inline(always)]
    unsafe fn load_columns(p: *const f32, stride: isize) -> [__m256; 4] {
        // Rows i and i + 4 in the halves of one register, then 4 by 4 in each.
        // SAFETY: see above.
        unsafe {
            let mut rows = [_mm256_setzero_ps(); 4];
            for (i, row) in (0isize..4).zip(&mut rows) {
                let first = _mm256_castps128_ps256(_mm_loadu_ps(p.offset(i * stride)));
                *row = _mm256_insertf128_ps::<1>(first, _mm_loadu_ps(p.offset((i + 4) * stride)));
            }
            let (a, b) = (
                _mm256_unpacklo_ps(rows[0], rows[1]),
                _mm256_unpacklo_ps(rows[2], rows[3]),
            );
            let (c, d) = (
                _mm256_unpackhi_ps(rows[0], rows[1]),
                _mm256_unpackhi_ps(rows[2], rows[3]),
            );
            [
                _mm256_shuffle_ps::<0x44>(a, b),
                _mm256_shuffle_ps::<0xee>(a, b),
                _mm256_shuffle_ps::<0x44>(c, d),
                _mm256_shuffle_ps::<0xee>(c, d),
            ]
        }
    }
    #[inline(always)]
    unsafe fn load_first(p: *const f32, n: usize) -> __m256 {
        // SAFETY: see above.
        unsafe { _mm256_maskload_ps(p, mask(n)) }
    }
    #[inline(always)]
    unsafe fn store(p: *mut f32, v: __m256) {
        // SAFETY: see above.
        unsafe { _mm256_storeu_ps(p, v) }
    }
    #[inline(always)]
    unsafe fn store_first(p: *mut f32, v: __m256, n: usize) {
        // SAFETY: see above.
        unsafe { _mm256_maskstore_ps(p, mask(n), v) }
    }
    #[inline(always)]
    unsafe fn fma(a: __m256, b: __m256, c: __m256) -> __m256 {
        // SAFETY: see above.
        unsafe { _mm256_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    unsafe fn add(a: __m256, b: __m256) -> __m256 {
        // SAFETY: see above.
        unsafe { _mm256_add_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn sub(a: __m256, b: __m256) -> __m256 {
        // SAFETY: see above.
        unsafe { _mm256_sub_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn mul(a: __m256, b: __m256) -> __m256 {
        // SAFETY: see above.
        unsafe { _mm256_mul_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn div(a: __m256, b: __m256) -> __m256 {
        // SAFETY: see above.
        unsafe { _mm256_div_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn sqrt(v: __m256) -> __m256 {
        // SAFETY: see above.
        unsafe { _mm256_sqrt_ps(v) }
    }
    #[inline(always)]
    unsafe fn abs(v: __m256) -> __m256 {
        // SAFETY: see above.
        unsafe { _mm256_andnot_ps(_mm256_set1_ps(-0.0), v) }
    }
    #[inline(always)]
    unsafe fn neg(v: __m256) -> __m256 {
        // SAFETY: see above.
        unsafe { _mm256_xor_ps(v, _mm256_set1_ps(-0.0)) }
    }
    #[inline(always)]
    unsafe fn less(a: __m256, b: __m256) -> __m256 {
        // SAFETY: see above.
        unsafe { _mm256_cmp_ps::<_CMP_LT_OQ>(a, b) }
    }
    #[inline(always)]
    unsafe fn less_or_equal(a: __m256, b: __m256) -> __m256 {
        // SAFETY: see above.
        unsafe { _mm256_cmp_ps::<_CMP_LE_OQ>(a, b) }
    }
    #[inline(always)]
    unsafe fn select(mask: __m256, x: __m256, y: __m256) -> __m256 {
        // SAFETY: see above.
        unsafe { _mm256_blendv_ps(y, x, mask) }
    }
    #[inline(always)]
    unsafe fn and(a: __m256, b: __m256) -> __m256 {
        // SAFETY: see above.
        unsafe { _mm256_and_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn or(a: __m256, b: __m256) -> __m256 {
        // SAFETY: see above.
        unsafe { _mm256_or_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn not(mask: __m256) -> __m256 {
        // SAFETY: see above.
        unsafe { _mm256_xor_ps(mask, _mm256_castsi256_ps(_mm256_set1_epi32(-1))) }
    }
    #[inline(always)]
    unsafe fn any(mask: __m256) -> bool {
        // SAFETY: see above.
        unsafe { _mm256_movemask_ps(mask) != 0 }
    }
    #[inline(always)]
    unsafe fn max(a: __m256, b: __m256) -> __m256 {
        // SAFETY: see above.
        unsafe { _mm256_max_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn min(a: __m256, b: __m256) -> __m256 {
        // SAFETY: see above.
        unsafe { _mm256_min_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn reciprocal(v: __m256) -> __m256 {
        // SAFETY: see above.
        unsafe { _mm256_div_ps(_mm256_set1_ps(1.0), v) }
    }
    #[inline(always)]
    unsafe fn scale(v: __m256, n: __m256) -> __m256 {
        // Two factors, so that results below the normal range round once, at the end. All ones
        // are a NaN, for lanes whose `n` is none.
        // SAFETY: see above.
        unsafe {
            let bias = _mm256_set1_epi32(127);
            let whole = _mm256_cvtps_epi32(n);
            let half = _mm256_srai_epi32::<1>(whole);
            let rest = _mm256_sub_epi32(whole, half);
            let power = |e| _mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_add_epi32(e, bias)));
            let scaled = _mm256_mul_ps(_mm256_mul_ps(v, power(half)), power(rest));
            let nan = _mm256_cmp_ps::<_CMP_UNORD_Q>(n, n);
            _mm256_or_ps(scaled, nan)
        }
    }
    #[inline(always)]
    unsafe fn zero_below(v: __m256, bound: __m256, x: __m256) -> __m256 {
        // A blend takes three operations where this takes one.
        // SAFETY: see above.
        unsafe { _mm256_and_ps(_mm256_cmp_ps::<_CMP_NLT_UQ>(v, bound), x) }
    }
    #[inline(always)]
    unsafe fn power_of_two(n: __m256) -> __m256 {
        // SAFETY: see above.
        unsafe {
            let biased = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
            _mm256_castsi256_ps(_mm256_slli_epi32::<23>(biased))
        }
    }
    #[inline(always)]
    unsafe fn rotate_quarter_turns(q: __m256, sin: __m256, cos: __m256) -> (__m256, __m256) {
        // Odd quarters exchange the two; bit 1 of `q` is the sign of one, of `q + 1` that of the other.
        // SAFETY: see above.
        unsafe {
            let (one, two) = (_mm256_set1_epi32(1), _mm256_set1_epi32(2));
            let q = _mm256_castps_si256(q);
            let odd = _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_and_si256(q, one), one));
            let signed = |v, q| {
                let sign = _mm256_slli_epi32::<30>(_mm256_and_si256(q, two));
                _mm256_xor_ps(v, _mm256_castsi256_ps(sign))
            };
            (
                signed(_mm256_blendv_ps(sin, cos, odd), q),
                signed(_mm256_blendv_ps(cos, sin, odd), _mm256_add_epi32(q, one)),
            )
        }
    }
    #[inline(always)]
    fn prefetch(p: *const f32) {
        // SAFETY: a hint, which never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(p.cast()) }
    }
    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> __m256 {
        // SAFETY: see above.
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(p.cast())) }
    }
    #[inline(always)]
    unsafe fn load_low_bf16(p: *const f32) -> __m256 {
        // SAFETY: see above.
        unsafe { _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_loadu_si256(p.cast()))) }
    }
    #[inline(always)]
    unsafe fn load_high_bf16(p: *const f32) -> __m256 {
        // SAFETY: see above.
        unsafe {
            let high = _mm256_set1_epi32(0xffff_0000u32.cast_signed());
            _mm256_castsi256_ps(_mm256_and_si256(_mm256_loadu_si256(p.cast()), high))
        }
    }
    #[inline(always)]
    unsafe fn round_bf16(v: __m256) -> __m256 {
        // SAFETY: see above.
        unsafe {
            let bits = _mm256_castps_si256(v);
            let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
            let up = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
            let high = _mm256_set1_epi32(0xffff_0000u32.cast_signed());
            let rounded = _mm256_castsi256_ps(_mm256_and_si256(up, high));
            // A sum makes NaN quiet, which shows in the high half.
            let nan = _mm256_cmp_ps::<_CMP_UNORD_Q>(v, v);
            _mm256_blendv_ps(rounded, _mm256_add_ps(v, v), nan)
        }
    }
    #[inline(always)]
    fn fma_one(a: f32, b: f32, c: f32) -> f32 {
        a.mul_add(b, c)
    }
}
