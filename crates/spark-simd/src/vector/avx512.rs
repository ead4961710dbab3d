//! AVX-512: 16 lanes, partial loads and stores by mask.

#![allow(
    unsafe_code,
    reason = "intrinsics, which need the instruction set that the token stands for"
)]

use std::arch::x86_64::*;

use super::sealed::Sealed;
use super::simd::Simd;
use crate::token::Avx512;

impl Sealed for Avx512 {}

/// The mask of the first `n` lanes.
#[inline(always)]
fn first(n: usize) -> __mmask16 {
    ((1u32 << n) - 1) as u16
}

/// bf16 as f32.
#[inline(always)]
unsafe fn widened_bf16(v: __m256i) -> __m512 {
    // SAFETY: as for the implementation below.
    unsafe { _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(v))) }
}

/// Words whose high halves are the nearest bf16, ties to even; NaN stays NaN.
#[inline(always)]
unsafe fn rounded_bf16(v: __m512) -> __m512i {
    // SAFETY: as for the implementation below.
    unsafe {
        let bits = _mm512_castps_si512(v);
        let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
        let up = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
        // The quiet bit shows in the high half.
        let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(v, v);
        _mm512_mask_or_epi32(up, nan, bits, _mm512_set1_epi32(0x0040_0000))
    }
}

/// The nearest bf16, ties to even; NaN stays NaN.
#[inline(always)]
unsafe fn narrowed_bf16(v: __m512) -> __m256i {
    /// The high half of every word.
    static HIGH: [u16; 32] = {
        let mut high = [0; 32];
        let mut i = 0;
        while i < 16 {
            high[i] = 2 * i as u16 + 1;
            i += 1;
        }
        high
    };
    // SAFETY: as for the implementation below; the positions are 64 bytes.
    unsafe {
        let high = _mm512_loadu_si512(HIGH.as_ptr().cast());
        _mm512_castsi512_si256(_mm512_permutexvar_epi16(high, rounded_bf16(v)))
    }
}

// SAFETY: for the implementation and every block in it: the trait's callers run on a processor with these
// features and pass pointers valid for the lanes touched; masked-out lanes are not
// accessed by the hardware.
unsafe impl Simd for Avx512 {
    type V = __m512;
    type Mask = __mmask16;
    const LANES: usize = 16;
    const REGISTERS: usize = 32;

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
    unsafe fn load_columns(p: *const f32, stride: isize) -> [__m512; 4] {
        // Rows i, i + 4, i + 8 and i + 12 in the quarters of one register, then 4 by 4 in each.
        // SAFETY: see above.
        unsafe {
            let mut rows = [_mm512_setzero_ps(); 4];
            for (i, row) in (0isize..4).zip(&mut rows) {
                let first = _mm512_castps128_ps512(_mm_loadu_ps(p.offset(i * stride)));
                let two = _mm512_insertf32x4::<1>(first, _mm_loadu_ps(p.offset((i + 4) * stride)));
                let three = _mm512_insertf32x4::<2>(two, _mm_loadu_ps(p.offset((i + 8) * stride)));
                *row = _mm512_insertf32x4::<3>(three, _mm_loadu_ps(p.offset((i + 12) * stride)));
            }
            let (a, b) = (
                _mm512_unpacklo_ps(rows[0], rows[1]),
                _mm512_unpacklo_ps(rows[2], rows[3]),
            );
            let (c, d) = (
                _mm512_unpackhi_ps(rows[0], rows[1]),
                _mm512_unpackhi_ps(rows[2], rows[3]),
            );
            [
                _mm512_shuffle_ps::<0x44>(a, b),
                _mm512_shuffle_ps::<0xee>(a, b),
                _mm512_shuffle_ps::<0x44>(c, d),
                _mm512_shuffle_ps::<0xee>(c, d),
            ]
        }
    }
    #[inline(always)]
    unsafe fn load_first(p: *const f32, n: usize) -> __m512 {
        // SAFETY: see above.
        unsafe { _mm512_maskz_loadu_ps(first(n), p) }
    }
    #[inline(always)]
    unsafe fn store(p: *mut f32, v: __m512) {
        // SAFETY: see above.
        unsafe { _mm512_storeu_ps(p, v) }
    }
    #[inline(always)]
    unsafe fn store_first(p: *mut f32, v: __m512, n: usize) {
        // SAFETY: see above.
        unsafe { _mm512_mask_storeu_ps(p, first(n), v) }
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
    unsafe fn sub(a: __m512, b: __m512) -> __m512 {
        // SAFETY: see above.
        unsafe { _mm512_sub_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn mul(a: __m512, b: __m512) -> __m512 {
        // SAFETY: see above.
        unsafe { _mm512_mul_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn div(a: __m512, b: __m512) -> __m512 {
        // SAFETY: see above.
        unsafe { _mm512_div_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn sqrt(v: __m512) -> __m512 {
        // SAFETY: see above.
        unsafe { _mm512_sqrt_ps(v) }
    }
    #[inline(always)]
    unsafe fn abs(v: __m512) -> __m512 {
        // SAFETY: see above.
        unsafe { _mm512_abs_ps(v) }
    }
    #[inline(always)]
    unsafe fn neg(v: __m512) -> __m512 {
        // SAFETY: see above.
        unsafe { _mm512_xor_ps(v, _mm512_set1_ps(-0.0)) }
    }
    #[inline(always)]
    unsafe fn less(a: __m512, b: __m512) -> __mmask16 {
        // SAFETY: see above.
        unsafe { _mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b) }
    }
    #[inline(always)]
    unsafe fn less_or_equal(a: __m512, b: __m512) -> __mmask16 {
        // SAFETY: see above.
        unsafe { _mm512_cmp_ps_mask::<_CMP_LE_OQ>(a, b) }
    }
    #[inline(always)]
    unsafe fn select(mask: __mmask16, x: __m512, y: __m512) -> __m512 {
        // SAFETY: see above.
        unsafe { _mm512_mask_blend_ps(mask, y, x) }
    }
    #[inline(always)]
    unsafe fn and(a: __mmask16, b: __mmask16) -> __mmask16 {
        a & b
    }
    #[inline(always)]
    unsafe fn or(a: __mmask16, b: __mmask16) -> __mmask16 {
        a | b
    }
    #[inline(always)]
    unsafe fn not(mask: __mmask16) -> __mmask16 {
        !mask
    }
    #[inline(always)]
    unsafe fn any(mask: __mmask16) -> bool {
        mask != 0
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
    unsafe fn reciprocal(v: __m512) -> __m512 {
        // 14 bits, then one Newton step: a division takes as long as sixteen products.
        // SAFETY: see above.
        unsafe {
            let r = _mm512_rcp14_ps(v);
            let error = _mm512_fnmadd_ps(v, r, _mm512_set1_ps(1.0));
            _mm512_fmadd_ps(r, error, r)
        }
    }
    #[inline(always)]
    unsafe fn scale(v: __m512, n: __m512) -> __m512 {
        // SAFETY: see above.
        unsafe { _mm512_scalef_ps(v, n) }
    }
    #[inline(always)]
    unsafe fn zero_below(v: __m512, bound: __m512, x: __m512) -> __m512 {
        // SAFETY: see above.
        unsafe { _mm512_maskz_mov_ps(_mm512_cmp_ps_mask::<_CMP_NLT_UQ>(v, bound), x) }
    }
    #[inline(always)]
    unsafe fn power_of_two(n: __m512) -> __m512 {
        // SAFETY: see above.
        unsafe {
            let biased = _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127));
            _mm512_castsi512_ps(_mm512_slli_epi32::<23>(biased))
        }
    }
    #[inline(always)]
    unsafe fn rotate_quarter_turns(q: __m512, sin: __m512, cos: __m512) -> (__m512, __m512) {
        // Odd quarters exchange the two; bit 1 of `q` is the sign of one, of `q + 1` that of the other.
        // SAFETY: see above.
        unsafe {
            let (one, two) = (_mm512_set1_epi32(1), _mm512_set1_epi32(2));
            let q = _mm512_castps_si512(q);
            let odd = _mm512_test_epi32_mask(q, one);
            let signed = |v, q| {
                let sign = _mm512_slli_epi32::<30>(_mm512_and_si512(q, two));
                _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(v), sign))
            };
            (
                signed(_mm512_mask_blend_ps(odd, sin, cos), q),
                signed(
                    _mm512_mask_blend_ps(odd, cos, sin),
                    _mm512_add_epi32(q, one),
                ),
            )
        }
    }
    #[inline(always)]
    fn prefetch(p: *const f32) {
        // SAFETY: a hint, which never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(p.cast()) }
    }
    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> __m512 {
        // SAFETY: see above.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(p.cast())) }
    }
    #[inline(always)]
    unsafe fn load_low_bf16(p: *const f32) -> __m512 {
        // SAFETY: see above.
        unsafe { _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_loadu_si512(p.cast()))) }
    }
    #[inline(always)]
    unsafe fn load_high_bf16(p: *const f32) -> __m512 {
        // SAFETY: see above.
        unsafe {
            let high = _mm512_set1_epi32(0xffff_0000u32.cast_signed());
            _mm512_castsi512_ps(_mm512_and_si512(_mm512_loadu_si512(p.cast()), high))
        }
    }
    #[inline(always)]
    unsafe fn round_bf16(v: __m512) -> __m512 {
        // SAFETY: see above.
        unsafe {
            let high = _mm512_set1_epi32(0xffff_0000u32.cast_signed());
            _mm512_castsi512_ps(_mm512_and_si512(rounded_bf16(v), high))
        }
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> __m512 {
        // SAFETY: see above.
        unsafe { widened_bf16(_mm256_loadu_si256(p.cast())) }
    }
    #[inline(always)]
    unsafe fn load_first_bf16(p: *const u16, n: usize) -> __m512 {
        // SAFETY: see above; lanes that the mask leaves out are not touched.
        unsafe { widened_bf16(_mm256_maskz_loadu_epi16(first(n), p.cast())) }
    }
    #[inline(always)]
    unsafe fn store_bf16(p: *mut u16, v: __m512) {
        // SAFETY: see above.
        unsafe { _mm256_storeu_si256(p.cast(), narrowed_bf16(v)) }
    }
    #[inline(always)]
    unsafe fn store_first_bf16(p: *mut u16, v: __m512, n: usize) {
        // SAFETY: see above; lanes that the mask leaves out are not touched.
        unsafe { _mm256_mask_storeu_epi16(p.cast(), first(n), narrowed_bf16(v)) }
    }
    #[inline(always)]
    fn fma_one(a: f32, b: f32, c: f32) -> f32 {
        a.mul_add(b, c)
    }
}
