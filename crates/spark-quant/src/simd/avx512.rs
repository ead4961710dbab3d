//! The sixteen lanes as one 512-bit register.

use std::arch::x86_64::*;

use spark_simd::Avx512Bytes;

use super::lanes::{Code, E2M1_TIMES_2_PLUS_12, Simd};

/// Instructions of this level, inside a method of a value that proves they exist.
macro_rules! simd {
    ($($body:tt)*) => {
        // SAFETY: `self` is a token of detection that proves every feature these instructions need; every
        // pointer comes from a reference to an array of at least the width that is read or written.
        unsafe { $($body)* }
    };
}

/// Bytes `i` of sixteen words: `i / 2` above a zero byte, for the E4M3 to f16 step.
const PAIRS_TO_HIGH_BYTES: [u8; 32] = {
    let mut index = [8; 32];
    let mut word = 0;
    while word < 16 {
        index[2 * word + 1] = word as u8 / 2;
        word += 1;
    }
    index
};

/// `2 * e2m1 + 12` for an index whose low nibble is the code.
const E2M1_LOW: [u8; 64] = {
    let mut table = [0; 64];
    let mut i = 0;
    while i < 64 {
        table[i] = E2M1_TIMES_2_PLUS_12[i % 16];
        i += 1;
    }
    table
};

/// The same for an index whose bits 2..6 are the code.
const E2M1_HIGH: [u8; 64] = {
    let mut table = [0; 64];
    let mut i = 0;
    while i < 64 {
        table[i] = E2M1_TIMES_2_PLUS_12[i / 4];
        i += 1;
    }
    table
};

/// The operand of larger magnitude, sign cleared.
const LARGER_MAGNITUDE: i32 = 0b1011;

/// Truth table of `if first { second } else { third }`, bit by bit.
const SELECT: i32 = 0xCA;

/// `2^(e + 22)` for the exponents 0, 1, 2 at the index of their low four bits. Other indices belong to
/// magnitudes below one, or to ones so small that any of the three rounds them to zero.
const E2M1_ROUNDERS: [f32; 16] = {
    let mut table = [4_194_304.0; 16];
    table[0] = 8_388_608.0;
    table[1] = 16_777_216.0;
    table
};

/// What to add to a value whose floor, from -16 to 15, has the index as its low five bits: the sum's
/// last bits are then the code without its sign. The power of two makes the sum round as the value's
/// octave does; its last bits are the code of the octave's first value, less what the value itself
/// brings. Beyond six the power is so large that nothing but the largest code stays.
const E2M1_CODE_ROUNDERS: [f32; 32] = {
    let mut table = [0.0; 32];
    let mut index = 0;
    while index < 32 {
        let negative = index >= 16;
        let whole = if negative { 31 - index } else { index };
        let (power, code) = match whole {
            0 | 1 => (4_194_304.0f32, 0),
            2 | 3 => (8_388_608.0, 2),
            4 | 5 => (16_777_216.0, 4),
            _ => (f32::from_bits((127 + 60) << 23), 7),
        };
        let magnitude = f32::from_bits(power.to_bits() + code);
        table[index as usize] = if negative { -magnitude } else { magnitude };
        index += 1;
    }
    table
};

/// Byte `8 b + w` of the result is byte `8 w + b`.
const TRANSPOSE_8_BY_8: [u8; 64] = {
    let mut index = [0; 64];
    let mut i = 0;
    while i < 64 {
        index[i] = (i % 8 * 8 + i / 8) as u8;
        i += 1;
    }
    index
};

impl Simd for Avx512Bytes {
    type F = __m512;
    type U = __m512i;
    type M = __mmask16;
    type B = __m512i;

    const STREAMS: bool = true;

    #[inline(always)]
    fn splat(self, value: f32) -> Self::F {
        simd!(_mm512_set1_ps(value))
    }
    #[inline(always)]
    fn load(self, src: &[f32; 16]) -> Self::F {
        simd!(_mm512_loadu_ps(src.as_ptr()))
    }
    #[inline(always)]
    fn store(self, value: Self::F, dst: &mut [f32; 16]) {
        simd!(_mm512_storeu_ps(dst.as_mut_ptr(), value))
    }
    #[inline(always)]
    fn stream(self, value: Self::F, dst: &mut [f32; 16]) {
        let dst = dst.as_mut_ptr();
        if dst.addr().is_multiple_of(64) {
            simd!(_mm512_stream_ps(dst, value))
        } else {
            simd!(_mm512_storeu_ps(dst, value))
        }
    }
    #[inline(always)]
    fn stream_codes<C: Code, const N: usize>(self, src: &[C; N], dst: &mut [C; N]) {
        let bytes = dst.as_mut_ptr().cast::<u8>();
        if !bytes.addr().is_multiple_of(64) || !size_of_val(src).is_multiple_of(64) {
            *dst = *src;
            return;
        }
        for at in (0..size_of_val(src)).step_by(64) {
            simd! {
                let line = _mm512_loadu_si512(src.as_ptr().cast::<u8>().add(at).cast());
                _mm512_stream_si512(bytes.add(at).cast(), line);
            }
        }
    }
    #[inline(always)]
    fn join(self, low: Self::F, high: Self::F, start: usize) -> Self::F {
        simd! {
            let lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
            let index = _mm512_add_epi32(lanes, _mm512_set1_epi32(start as i32));
            _mm512_permutex2var_ps(low, index, high)
        }
    }
    #[inline(always)]
    fn fence(self) {
        simd!(_mm_sfence())
    }
    #[inline(always)]
    fn prefetch<T>(self, from: &T, bytes: isize) {
        let there = std::ptr::from_ref(from).cast::<i8>().wrapping_offset(bytes);
        simd!(_mm_prefetch::<_MM_HINT_T0>(there))
    }

    #[inline(always)]
    fn prefetch_far<T>(self, from: &T, bytes: isize) {
        let there = std::ptr::from_ref(from).cast::<i8>().wrapping_offset(bytes);
        simd!(_mm_prefetch::<_MM_HINT_T1>(there))
    }
    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        simd!(_mm512_add_ps(a, b))
    }
    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        simd!(_mm512_sub_ps(a, b))
    }
    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        simd!(_mm512_mul_ps(a, b))
    }
    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        simd!(_mm512_div_ps(a, b))
    }
    #[inline(always)]
    fn mul_add(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        simd!(_mm512_fmadd_ps(a, b, c))
    }
    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        simd!(_mm512_max_ps(a, b))
    }
    #[inline(always)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        simd!(_mm512_min_ps(a, b))
    }
    #[inline(always)]
    fn sum(self, a: Self::F) -> f32 {
        simd! {
            let eight = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps::<1>(a));
            let four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
        }
    }
    #[inline(always)]
    fn row_max_abs(self, rows: &[Self::F; 16]) -> Self::F {
        // Each step halves the lanes per row and doubles the rows per register.
        simd! {
            let zero = _mm512_setzero_ps();
            let pairs = array!([zero; 8], i => {
                let (a, b) = (rows[2 * i], rows[2 * i + 1]);
                _mm512_range_ps::<LARGER_MAGNITUDE>(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b))
            });
            // Every 128-bit part of a quad holds four rows, each over a quarter of its lanes.
            let quads = array!([zero; 4], i => {
                let (a, b) = (_mm512_castps_pd(pairs[2 * i]), _mm512_castps_pd(pairs[2 * i + 1]));
                let (low, high) = (_mm512_unpacklo_pd(a, b), _mm512_unpackhi_pd(a, b));
                _mm512_max_ps(_mm512_castpd_ps(low), _mm512_castpd_ps(high))
            });
            let halves = array!([zero; 2], i => {
                let (a, b) = (quads[2 * i], quads[2 * i + 1]);
                _mm512_max_ps(_mm512_shuffle_f32x4::<0x44>(a, b), _mm512_shuffle_f32x4::<0xEE>(a, b))
            });
            let (low, high) = (halves[0], halves[1]);
            _mm512_max_ps(_mm512_shuffle_f32x4::<0x88>(low, high), _mm512_shuffle_f32x4::<0xDD>(low, high))
        }
    }
    #[inline(always)]
    fn transpose(self, rows: &[Self::F; 16]) -> [Self::F; 16] {
        simd! {
            let mut pairs = [_mm512_setzero_ps(); 16];
            for i in 0..8 {
                pairs[2 * i] = _mm512_unpacklo_ps(rows[2 * i], rows[2 * i + 1]);
                pairs[2 * i + 1] = _mm512_unpackhi_ps(rows[2 * i], rows[2 * i + 1]);
            }
            // quads[4g + c]: column c of each 128-bit part, rows 4g..4g+4.
            let mut quads = [_mm512_setzero_ps(); 16];
            for group in 0..4 {
                for half in 0..2 {
                    let a = _mm512_castps_pd(pairs[4 * group + half]);
                    let b = _mm512_castps_pd(pairs[4 * group + 2 + half]);
                    quads[4 * group + 2 * half] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
                    quads[4 * group + 2 * half + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
                }
            }
            let mut out = [_mm512_setzero_ps(); 16];
            for column in 0..4 {
                let a = _mm512_shuffle_f32x4::<0x88>(quads[column], quads[4 + column]);
                let b = _mm512_shuffle_f32x4::<0x88>(quads[8 + column], quads[12 + column]);
                let c = _mm512_shuffle_f32x4::<0xDD>(quads[column], quads[4 + column]);
                let d = _mm512_shuffle_f32x4::<0xDD>(quads[8 + column], quads[12 + column]);
                out[column] = _mm512_shuffle_f32x4::<0x88>(a, b);
                out[8 + column] = _mm512_shuffle_f32x4::<0xDD>(a, b);
                out[4 + column] = _mm512_shuffle_f32x4::<0x88>(c, d);
                out[12 + column] = _mm512_shuffle_f32x4::<0xDD>(c, d);
            }
            out
        }
    }

    #[inline(always)]
    fn to_bits(self, a: Self::F) -> Self::U {
        simd!(_mm512_castps_si512(a))
    }
    #[inline(always)]
    fn bits_to_f32(self, a: Self::U) -> Self::F {
        simd!(_mm512_castsi512_ps(a))
    }
    #[inline(always)]
    fn splat_u(self, value: u32) -> Self::U {
        simd!(_mm512_set1_epi32(value as i32))
    }
    #[inline(always)]
    fn and(self, a: Self::U, b: Self::U) -> Self::U {
        simd!(_mm512_and_si512(a, b))
    }
    #[inline(always)]
    fn or(self, a: Self::U, b: Self::U) -> Self::U {
        simd!(_mm512_or_si512(a, b))
    }
    #[inline(always)]
    fn add_u(self, a: Self::U, b: Self::U) -> Self::U {
        simd!(_mm512_add_epi32(a, b))
    }
    #[inline(always)]
    fn sub_u(self, a: Self::U, b: Self::U) -> Self::U {
        simd!(_mm512_sub_epi32(a, b))
    }
    #[inline(always)]
    fn shl(self, a: Self::U, n: u32) -> Self::U {
        simd!(_mm512_sllv_epi32(a, _mm512_set1_epi32(n as i32)))
    }
    #[inline(always)]
    fn shr(self, a: Self::U, n: u32) -> Self::U {
        simd!(_mm512_srlv_epi32(a, _mm512_set1_epi32(n as i32)))
    }
    #[inline(always)]
    fn min_i(self, a: Self::U, b: Self::U) -> Self::U {
        simd!(_mm512_min_epi32(a, b))
    }
    #[inline(always)]
    fn max_i(self, a: Self::U, b: Self::U) -> Self::U {
        simd!(_mm512_max_epi32(a, b))
    }
    #[inline(always)]
    fn gt_i(self, a: Self::U, b: Self::U) -> Self::M {
        simd!(_mm512_cmpgt_epi32_mask(a, b))
    }
    #[inline(always)]
    fn lt_f(self, a: Self::F, b: Self::F) -> Self::M {
        simd!(_mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b))
    }
    #[inline(always)]
    fn any(self, mask: Self::M) -> bool {
        mask != 0
    }
    #[inline(always)]
    fn select(self, mask: Self::M, a: Self::U, b: Self::U) -> Self::U {
        simd!(_mm512_mask_mov_epi32(b, mask, a))
    }

    #[inline(always)]
    fn i32_to_f32(self, a: Self::U) -> Self::F {
        simd!(_mm512_cvtepi32_ps(a))
    }
    #[inline(always)]
    fn f32_to_i32(self, a: Self::F) -> Self::U {
        simd!(_mm512_cvtps_epi32(a))
    }
    #[inline(always)]
    fn f16_to_f32(self, a: Self::U) -> Self::F {
        simd!(_mm512_cvtph_ps(_mm512_cvtepi32_epi16(a)))
    }
    #[inline(always)]
    fn f32_to_f16(self, a: Self::F) -> Self::U {
        simd!(_mm512_cvtepu16_epi32(_mm512_cvtps_ph::<
            _MM_FROUND_TO_NEAREST_INT,
        >(a)))
    }

    #[inline(always)]
    fn load_u8(self, src: &[u8; 16]) -> Self::U {
        simd!(_mm512_cvtepu8_epi32(_mm_loadu_si128(src.as_ptr().cast())))
    }
    #[inline(always)]
    fn store_u8(self, a: Self::U, dst: &mut [u8; 16]) {
        simd!(_mm_storeu_si128(
            dst.as_mut_ptr().cast(),
            _mm512_cvtepi32_epi8(a)
        ))
    }
    #[inline(always)]
    fn load_u16(self, src: &[u16; 16]) -> Self::U {
        simd!(_mm512_cvtepu16_epi32(_mm256_loadu_si256(
            src.as_ptr().cast()
        )))
    }
    #[inline(always)]
    fn store_u16(self, a: Self::U, dst: &mut [u16; 16]) {
        simd!(_mm256_storeu_si256(
            dst.as_mut_ptr().cast(),
            _mm512_cvtepi32_epi16(a)
        ))
    }
    #[inline(always)]
    fn load_nibbles(self, src: &[u8; 8]) -> Self::U {
        // Byte i in quadword i: its low nibble tops lane 2i, its high nibble shifts into lane 2i+1.
        simd! {
            let bytes = _mm512_cvtepu8_epi64(_mm_loadl_epi64(src.as_ptr().cast()));
            _mm512_or_si512(bytes, _mm512_slli_epi64::<28>(bytes))
        }
    }
    #[inline(always)]
    fn store_nibbles(self, a: Self::U, dst: &mut [u8; 8]) {
        simd! {
            // The low nibble from lane 2i, the high one from lane 2i+1, whatever surrounds them.
            let high = _mm512_srli_epi64::<28>(a);
            let bytes = _mm512_ternarylogic_epi64::<SELECT>(_mm512_set1_epi64(0xF0), high, a);
            _mm_storel_epi64(dst.as_mut_ptr().cast(), _mm512_cvtepi64_epi8(bytes));
        }
    }
    #[inline(always)]
    fn load_u(self, src: &[u32; 16]) -> Self::U {
        simd!(_mm512_loadu_si512(src.as_ptr().cast()))
    }
    #[inline(always)]
    fn load_u32_le(self, src: &[u8; 64]) -> Self::U {
        simd!(_mm512_loadu_si512(src.as_ptr().cast()))
    }
    #[inline(always)]
    fn spread_4(self, src: &[u8; 4]) -> Self::U {
        simd! {
            let lanes = _mm_cvtepu8_epi32(_mm_cvtsi32_si128(i32::from_le_bytes(*src)));
            let quad_of_lane = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
            _mm512_permutexvar_epi32(quad_of_lane, _mm512_castsi128_si512(lanes))
        }
    }
    #[inline(always)]
    fn e4m3_pairs(self, src: &[u8; 8]) -> Self::F {
        simd! {
            let bytes = _mm256_castsi128_si256(_mm_loadl_epi64(src.as_ptr().cast()));
            let index = _mm256_loadu_si256(PAIRS_TO_HIGH_BYTES.as_ptr().cast());
            let words = _mm256_permutexvar_epi8(index, bytes);
            _mm512_cvtph_ps(_mm256_srli_epi16::<1>(words))
        }
    }
    #[inline(always)]
    fn lookup(self, table: &[f32; 16], index: Self::U) -> Self::F {
        simd!(_mm512_permutexvar_ps(
            index,
            _mm512_loadu_ps(table.as_ptr())
        ))
    }

    #[inline(always)]
    fn encode_e2m1_line(self, values: &[Self::F; 8], signs: &[Self::F; 8], codes: &mut [u8; 64]) {
        simd! {
            let floor = _mm512_set1_ps(12_582_912.0);
            let (positive, negative) = E2M1_CODE_ROUNDERS.split_at(16);
            let positive = _mm512_loadu_ps(positive.as_ptr());
            let negative = _mm512_loadu_ps(negative.as_ptr());
            // A lane's code and, below it, its sign go to the top of even lanes and to the bottom of
            // odd ones: side by side, from bit 28 of their quadword.
            let places = _mm512_set1_epi64(1 << 32 | 29);
            let from_bit_28 = _mm512_set1_epi8(28);
            let nibbles = array!([places; 8], i => {
                // One and a half times 2^23, plus the value rounded down: the floor in the last bits.
                let whole = _mm512_add_round_ps::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>(values[i], floor);
                let rounder = _mm512_permutex2var_ps(positive, _mm512_castps_si512(whole), negative);
                let sum = _mm512_castps_si512(_mm512_add_ps(values[i], rounder));
                _mm512_shldv_epi32(sum, _mm512_castps_si512(signs[i]), places)
            });
            // Byte i of every quadword from vector i.
            let pairs = array!([places; 4], i => {
                let even = _mm512_multishift_epi64_epi8(from_bit_28, nibbles[2 * i]);
                _mm512_mask_multishift_epi64_epi8(even, 0xAAAA_AAAA_AAAA_AAAA, from_bit_28, nibbles[2 * i + 1])
            });
            let quads = array!([places; 2], i => _mm512_mask_mov_epi16(pairs[2 * i], 0xAAAA_AAAA, pairs[2 * i + 1]));
            let bytes = _mm512_mask_mov_epi32(quads[0], 0xAAAA, quads[1]);
            let bytes = _mm512_permutexvar_epi8(_mm512_loadu_si512(TRANSPOSE_8_BY_8.as_ptr().cast()), bytes);
            // From the bottom of each nibble the sign goes to its top.
            let (magnitudes, signs) = (_mm512_srli_epi16::<1>(bytes), _mm512_slli_epi16::<3>(bytes));
            let nibbles = _mm512_ternarylogic_epi32::<SELECT>(_mm512_set1_epi8(0x77), magnitudes, signs);
            _mm512_storeu_si512(codes.as_mut_ptr().cast(), nibbles);
        }
    }
    #[inline(always)]
    fn round_e2m1(self, magnitude: Self::F) -> Self::F {
        simd! {
            let clamped = _mm512_min_ps(magnitude, _mm512_set1_ps(6.0));
            let octave = _mm512_srli_epi32::<23>(_mm512_castps_si512(clamped));
            let rounder = _mm512_permutexvar_ps(octave, _mm512_loadu_ps(E2M1_ROUNDERS.as_ptr()));
            _mm512_sub_ps(_mm512_add_ps(clamped, rounder), rounder)
        }
    }
    #[inline(always)]
    fn load_e4m3(self, src: &[u8; 16]) -> Self::F {
        simd! {
            let words = _mm256_cvtepu8_epi16(_mm_loadu_si128(src.as_ptr().cast()));
            let (magnitude, sign) = (_mm256_slli_epi16::<7>(words), _mm256_slli_epi16::<8>(words));
            // Bit 7 of the code is both the top of the shifted magnitude field and the sign.
            let half = _mm256_ternarylogic_epi32::<SELECT>(_mm256_set1_epi16(0x3F80), magnitude, sign);
            _mm512_cvtph_ps(_mm256_and_si256(half, _mm256_set1_epi16(0xBF80_u16 as i16)))
        }
    }

    #[inline(always)]
    fn load_b(self, src: &[u8; 64]) -> Self::B {
        simd!(_mm512_loadu_si512(src.as_ptr().cast()))
    }
    #[inline(always)]
    fn e2m1_bytes(self, packed: Self::B) -> (Self::B, Self::B) {
        // The byte permute reads six index bits, so both tables repeat over the bits not wanted.
        simd! {
            let low = _mm512_permutexvar_epi8(packed, _mm512_loadu_si512(E2M1_LOW.as_ptr().cast()));
            let shifted = _mm512_srli_epi16::<2>(packed);
            let high = _mm512_permutexvar_epi8(shifted, _mm512_loadu_si512(E2M1_HIGH.as_ptr().cast()));
            (low, high)
        }
    }
    #[inline(always)]
    fn dot_u7(self, acc: Self::U, u: Self::B, s: Self::B) -> Self::U {
        simd!(_mm512_dpbusd_epi32(acc, u, s))
    }
    #[inline(always)]
    fn dot_i8(self, acc: Self::U, a: Self::B, b: Self::B) -> Self::U {
        simd! {
            let negative = _mm512_movepi8_mask(a);
            let b_signed = _mm512_mask_sub_epi8(b, negative, _mm512_setzero_si512(), b);
            _mm512_dpbusd_epi32(acc, _mm512_abs_epi8(a), b_signed)
        }
    }
}
