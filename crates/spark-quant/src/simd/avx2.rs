//! The sixteen lanes as two 256-bit registers, low half first.

use std::arch::x86_64::*;

use spark_simd::Avx2;

use super::lanes::{E2M1_TIMES_2_PLUS_12, Simd};

/// Instructions of this level, inside a method of a value that proves they exist.
macro_rules! simd {
    ($($body:tt)*) => {
        // SAFETY: `self` is a token of detection that proves every feature these instructions need; every
        // pointer comes from a reference to an array of at least the width that is read or written.
        unsafe { $($body)* }
    };
}

impl Simd for Avx2 {
    type F = [__m256; 2];
    type U = [__m256i; 2];
    type M = [__m256i; 2];
    type B = [__m256i; 2];

    #[inline(always)]
    fn splat(self, value: f32) -> Self::F {
        simd!([_mm256_set1_ps(value); 2])
    }
    #[inline(always)]
    fn load(self, src: &[f32; 16]) -> Self::F {
        simd!([
            _mm256_loadu_ps(src.as_ptr()),
            _mm256_loadu_ps(src.as_ptr().add(8))
        ])
    }
    #[inline(always)]
    fn store(self, value: Self::F, dst: &mut [f32; 16]) {
        simd! {
            _mm256_storeu_ps(dst.as_mut_ptr(), value[0]);
            _mm256_storeu_ps(dst.as_mut_ptr().add(8), value[1]);
        }
    }
    #[inline(always)]
    fn stream(self, value: Self::F, dst: &mut [f32; 16]) {
        // Ordinary stores: joining unaligned halves costs more than the saved read.
        self.store(value, dst);
    }
    #[inline(always)]
    fn fence(self) {}
    #[inline(always)]
    fn prefetch<T>(self, from: &T, bytes: isize) {
        let there = std::ptr::from_ref(from).cast::<i8>().wrapping_offset(bytes);
        simd!(_mm_prefetch::<_MM_HINT_T0>(there))
    }

    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        simd!([_mm256_add_ps(a[0], b[0]), _mm256_add_ps(a[1], b[1])])
    }
    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        simd!([_mm256_sub_ps(a[0], b[0]), _mm256_sub_ps(a[1], b[1])])
    }
    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        simd!([_mm256_mul_ps(a[0], b[0]), _mm256_mul_ps(a[1], b[1])])
    }
    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        simd!([_mm256_div_ps(a[0], b[0]), _mm256_div_ps(a[1], b[1])])
    }
    #[inline(always)]
    fn mul_add(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        simd!([
            _mm256_fmadd_ps(a[0], b[0], c[0]),
            _mm256_fmadd_ps(a[1], b[1], c[1])
        ])
    }
    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        simd!([_mm256_max_ps(a[0], b[0]), _mm256_max_ps(a[1], b[1])])
    }
    #[inline(always)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        simd!([_mm256_min_ps(a[0], b[0]), _mm256_min_ps(a[1], b[1])])
    }
    #[inline(always)]
    fn sum(self, a: Self::F) -> f32 {
        simd! {
            let eight = _mm256_add_ps(a[0], a[1]);
            let four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
        }
    }
    #[inline(always)]
    fn row_max_abs(self, rows: &[Self::F; 16]) -> Self::F {
        // Each step halves the lanes per row and doubles the rows per register.
        simd! {
            let zero = _mm256_setzero_ps();
            let sign = _mm256_set1_ps(-0.0);
            let eights = array!([zero; 16], i => {
                let [low, high] = rows[i];
                _mm256_max_ps(_mm256_andnot_ps(sign, low), _mm256_andnot_ps(sign, high))
            });
            let pairs = array!([zero; 8], i => {
                let (a, b) = (eights[2 * i], eights[2 * i + 1]);
                _mm256_max_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b))
            });
            let quads = array!([zero; 4], i => {
                let (a, b) = (_mm256_castps_pd(pairs[2 * i]), _mm256_castps_pd(pairs[2 * i + 1]));
                let (low, high) = (_mm256_unpacklo_pd(a, b), _mm256_unpackhi_pd(a, b));
                _mm256_max_ps(_mm256_castpd_ps(low), _mm256_castpd_ps(high))
            });
            array!([zero; 2], i => {
                let (a, b) = (quads[2 * i], quads[2 * i + 1]);
                _mm256_max_ps(_mm256_permute2f128_ps::<0x20>(a, b), _mm256_permute2f128_ps::<0x31>(a, b))
            })
        }
    }
    #[inline(always)]
    fn transpose(self, rows: &[Self::F; 16]) -> [Self::F; 16] {
        simd! {
            let mut out = [[_mm256_setzero_ps(); 2]; 16];
            for row_half in 0..2 {
                for column_half in 0..2 {
                    let r = array!([_mm256_setzero_ps(); 8], i => rows[8 * row_half + i][column_half]);
                    let mut pairs = [_mm256_setzero_ps(); 8];
                    for i in 0..4 {
                        pairs[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
                        pairs[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
                    }
                    let mut quads = [_mm256_setzero_ps(); 8];
                    for group in 0..2 {
                        for half in 0..2 {
                            let a = pairs[4 * group + half];
                            let b = pairs[4 * group + 2 + half];
                            quads[4 * group + 2 * half] = _mm256_shuffle_ps::<0x44>(a, b);
                            quads[4 * group + 2 * half + 1] = _mm256_shuffle_ps::<0xEE>(a, b);
                        }
                    }
                    for column in 0..4 {
                        let (low, high) = (quads[column], quads[4 + column]);
                        out[8 * column_half + column][row_half] = _mm256_permute2f128_ps::<0x20>(low, high);
                        out[8 * column_half + 4 + column][row_half] = _mm256_permute2f128_ps::<0x31>(low, high);
                    }
                }
            }
            out
        }
    }

    #[inline(always)]
    fn to_bits(self, a: Self::F) -> Self::U {
        simd!([_mm256_castps_si256(a[0]), _mm256_castps_si256(a[1])])
    }
    #[inline(always)]
    fn bits_to_f32(self, a: Self::U) -> Self::F {
        simd!([_mm256_castsi256_ps(a[0]), _mm256_castsi256_ps(a[1])])
    }
    #[inline(always)]
    fn splat_u(self, value: u32) -> Self::U {
        simd!([_mm256_set1_epi32(value as i32); 2])
    }
    #[inline(always)]
    fn and(self, a: Self::U, b: Self::U) -> Self::U {
        simd!([_mm256_and_si256(a[0], b[0]), _mm256_and_si256(a[1], b[1])])
    }
    #[inline(always)]
    fn or(self, a: Self::U, b: Self::U) -> Self::U {
        simd!([_mm256_or_si256(a[0], b[0]), _mm256_or_si256(a[1], b[1])])
    }
    #[inline(always)]
    fn add_u(self, a: Self::U, b: Self::U) -> Self::U {
        simd!([_mm256_add_epi32(a[0], b[0]), _mm256_add_epi32(a[1], b[1])])
    }
    #[inline(always)]
    fn sub_u(self, a: Self::U, b: Self::U) -> Self::U {
        simd!([_mm256_sub_epi32(a[0], b[0]), _mm256_sub_epi32(a[1], b[1])])
    }
    #[inline(always)]
    fn shl(self, a: Self::U, n: u32) -> Self::U {
        simd! {
            let count = _mm256_set1_epi32(n as i32);
            [_mm256_sllv_epi32(a[0], count), _mm256_sllv_epi32(a[1], count)]
        }
    }
    #[inline(always)]
    fn shr(self, a: Self::U, n: u32) -> Self::U {
        simd! {
            let count = _mm256_set1_epi32(n as i32);
            [_mm256_srlv_epi32(a[0], count), _mm256_srlv_epi32(a[1], count)]
        }
    }
    #[inline(always)]
    fn min_i(self, a: Self::U, b: Self::U) -> Self::U {
        simd!([_mm256_min_epi32(a[0], b[0]), _mm256_min_epi32(a[1], b[1])])
    }
    #[inline(always)]
    fn max_i(self, a: Self::U, b: Self::U) -> Self::U {
        simd!([_mm256_max_epi32(a[0], b[0]), _mm256_max_epi32(a[1], b[1])])
    }
    #[inline(always)]
    fn gt_i(self, a: Self::U, b: Self::U) -> Self::M {
        simd!([
            _mm256_cmpgt_epi32(a[0], b[0]),
            _mm256_cmpgt_epi32(a[1], b[1])
        ])
    }
    #[inline(always)]
    fn lt_f(self, a: Self::F, b: Self::F) -> Self::M {
        simd! {
            let low = _mm256_cmp_ps::<_CMP_LT_OQ>(a[0], b[0]);
            let high = _mm256_cmp_ps::<_CMP_LT_OQ>(a[1], b[1]);
            [_mm256_castps_si256(low), _mm256_castps_si256(high)]
        }
    }
    #[inline(always)]
    fn any(self, mask: Self::M) -> bool {
        simd!(_mm256_movemask_epi8(_mm256_or_si256(mask[0], mask[1])) != 0)
    }
    #[inline(always)]
    fn select(self, mask: Self::M, a: Self::U, b: Self::U) -> Self::U {
        simd!([
            _mm256_blendv_epi8(b[0], a[0], mask[0]),
            _mm256_blendv_epi8(b[1], a[1], mask[1])
        ])
    }

    #[inline(always)]
    fn i32_to_f32(self, a: Self::U) -> Self::F {
        simd!([_mm256_cvtepi32_ps(a[0]), _mm256_cvtepi32_ps(a[1])])
    }
    #[inline(always)]
    fn f32_to_i32(self, a: Self::F) -> Self::U {
        simd!([_mm256_cvtps_epi32(a[0]), _mm256_cvtps_epi32(a[1])])
    }
    #[inline(always)]
    fn f16_to_f32(self, a: Self::U) -> Self::F {
        simd! {
            let mask = _mm256_set1_epi32(0xFFFF);
            let packed = _mm256_packus_epi32(_mm256_and_si256(a[0], mask), _mm256_and_si256(a[1], mask));
            let words = _mm256_permute4x64_epi64::<0xD8>(packed);
            [_mm256_cvtph_ps(_mm256_castsi256_si128(words)), _mm256_cvtph_ps(_mm256_extracti128_si256::<1>(words))]
        }
    }
    #[inline(always)]
    fn f32_to_f16(self, a: Self::F) -> Self::U {
        simd! {
            [
                _mm256_cvtepu16_epi32(_mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(a[0])),
                _mm256_cvtepu16_epi32(_mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(a[1])),
            ]
        }
    }

    #[inline(always)]
    fn load_u8(self, src: &[u8; 16]) -> Self::U {
        simd! {
            let bytes = _mm_loadu_si128(src.as_ptr().cast());
            [_mm256_cvtepu8_epi32(bytes), _mm256_cvtepu8_epi32(_mm_srli_si128::<8>(bytes))]
        }
    }
    #[inline(always)]
    fn store_u8(self, a: Self::U, dst: &mut [u8; 16]) {
        simd! {
            let mask = _mm256_set1_epi32(0xFF);
            let words = _mm256_packus_epi32(_mm256_and_si256(a[0], mask), _mm256_and_si256(a[1], mask));
            let words = _mm256_permute4x64_epi64::<0xD8>(words);
            let bytes = _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256::<1>(words));
            _mm_storeu_si128(dst.as_mut_ptr().cast(), bytes);
        }
    }
    #[inline(always)]
    fn load_u16(self, src: &[u16; 16]) -> Self::U {
        simd! {
            let words = _mm256_loadu_si256(src.as_ptr().cast());
            [
                _mm256_cvtepu16_epi32(_mm256_castsi256_si128(words)),
                _mm256_cvtepu16_epi32(_mm256_extracti128_si256::<1>(words)),
            ]
        }
    }
    #[inline(always)]
    fn store_u16(self, a: Self::U, dst: &mut [u16; 16]) {
        simd! {
            let words = _mm256_permute4x64_epi64::<0xD8>(_mm256_packus_epi32(a[0], a[1]));
            _mm256_storeu_si256(dst.as_mut_ptr().cast(), words);
        }
    }
    #[inline(always)]
    fn load_nibbles(self, src: &[u8; 8]) -> Self::U {
        // Byte i in quadword i: its low nibble tops lane 2i, its high nibble shifts into lane 2i+1.
        simd! {
            let bytes = _mm_loadl_epi64(src.as_ptr().cast());
            let low = _mm256_cvtepu8_epi64(bytes);
            let high = _mm256_cvtepu8_epi64(_mm_srli_si128::<4>(bytes));
            [
                _mm256_or_si256(low, _mm256_slli_epi64::<28>(low)),
                _mm256_or_si256(high, _mm256_slli_epi64::<28>(high)),
            ]
        }
    }
    #[inline(always)]
    fn store_nibbles(self, a: Self::U, dst: &mut [u8; 8]) {
        simd! {
            // Lanes as bytes, then byte pairs: low + 16 * high in one multiply-add.
            let mask = _mm256_set1_epi32(15);
            let packed = _mm256_packus_epi32(_mm256_and_si256(a[0], mask), _mm256_and_si256(a[1], mask));
            let words = _mm256_permute4x64_epi64::<0xD8>(packed);
            let codes = _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256::<1>(words));
            let pairs = _mm_maddubs_epi16(codes, _mm_set1_epi16(0x1001));
            _mm_storel_epi64(dst.as_mut_ptr().cast(), _mm_packus_epi16(pairs, pairs));
        }
    }
    #[inline(always)]
    fn load_u(self, src: &[u32; 16]) -> Self::U {
        simd!([
            _mm256_loadu_si256(src.as_ptr().cast()),
            _mm256_loadu_si256(src.as_ptr().add(8).cast())
        ])
    }
    #[inline(always)]
    fn load_u32_le(self, src: &[u8; 64]) -> Self::U {
        simd!([
            _mm256_loadu_si256(src.as_ptr().cast()),
            _mm256_loadu_si256(src.as_ptr().add(32).cast())
        ])
    }
    #[inline(always)]
    fn spread_4(self, src: &[u8; 4]) -> Self::U {
        simd! {
            let bytes = _mm_cvtsi32_si128(i32::from_le_bytes(*src));
            let low = _mm_setr_epi8(0, 0, 0, 0, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1, -1);
            let high = _mm_setr_epi8(2, 2, 2, 2, 3, 3, 3, 3, -1, -1, -1, -1, -1, -1, -1, -1);
            [
                _mm256_cvtepu8_epi32(_mm_shuffle_epi8(bytes, low)),
                _mm256_cvtepu8_epi32(_mm_shuffle_epi8(bytes, high)),
            ]
        }
    }
    #[inline(always)]
    fn e4m3_pairs(self, src: &[u8; 8]) -> Self::F {
        simd! {
            let bytes = _mm_loadl_epi64(src.as_ptr().cast());
            let zero = _mm_setzero_si128();
            // Byte i into the high half of word i, then down one bit: the f16 exponent position.
            let words = _mm_srli_epi16::<1>(_mm_unpacklo_epi8(zero, bytes));
            let low = _mm256_cvtph_ps(_mm_unpacklo_epi16(words, words));
            let high = _mm256_cvtph_ps(_mm_unpackhi_epi16(words, words));
            [low, high]
        }
    }
    #[inline(always)]
    fn lookup(self, table: &[f32; 16], index: Self::U) -> Self::F {
        simd! {
            let (low, high) = (_mm256_loadu_ps(table.as_ptr()), _mm256_loadu_ps(table.as_ptr().add(8)));
            array!([low; 2], i => {
                let choose_high = _mm256_castsi256_ps(_mm256_slli_epi32::<28>(index[i]));
                let a = _mm256_permutevar8x32_ps(low, index[i]);
                let b = _mm256_permutevar8x32_ps(high, index[i]);
                _mm256_blendv_ps(a, b, choose_high)
            })
        }
    }

    #[inline(always)]
    fn load_b(self, src: &[u8; 64]) -> Self::B {
        simd!([
            _mm256_loadu_si256(src.as_ptr().cast()),
            _mm256_loadu_si256(src.as_ptr().add(32).cast())
        ])
    }
    #[inline(always)]
    fn e2m1_bytes(self, packed: Self::B) -> (Self::B, Self::B) {
        simd! {
            let table = _mm256_broadcastsi128_si256(_mm_loadu_si128(E2M1_TIMES_2_PLUS_12.as_ptr().cast()));
            let mask = _mm256_set1_epi8(15);
            let low = array!([mask; 2], i => _mm256_shuffle_epi8(table, _mm256_and_si256(packed[i], mask)));
            let high = array!([mask; 2], i => {
                let codes = _mm256_and_si256(_mm256_srli_epi16::<4>(packed[i]), mask);
                _mm256_shuffle_epi8(table, codes)
            });
            (low, high)
        }
    }
    #[inline(always)]
    fn dot_u7(self, acc: Self::U, u: Self::B, s: Self::B) -> Self::U {
        simd! {
            // 127 * 128 * 2 stays below the i16 limit, so the pairwise sums do not saturate.
            let ones = _mm256_set1_epi16(1);
            array!([ones; 2], i => {
                let pairs = _mm256_maddubs_epi16(u[i], s[i]);
                _mm256_add_epi32(acc[i], _mm256_madd_epi16(pairs, ones))
            })
        }
    }
    #[inline(always)]
    fn dot_i8(self, acc: Self::U, a: Self::B, b: Self::B) -> Self::U {
        simd! {
            let abs = [_mm256_sign_epi8(a[0], a[0]), _mm256_sign_epi8(a[1], a[1])];
            self.dot_u7(acc, abs, [_mm256_sign_epi8(b[0], a[0]), _mm256_sign_epi8(b[1], a[1])])
        }
    }
}
