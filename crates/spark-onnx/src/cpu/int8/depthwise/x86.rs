//! Blocks of a row with AVX-512 VNNI, AVX-VNNI and AVX2.
//!
//! ```text
//! VNNI    a b c d, a vector of bytes of each of four taps
//!         ab = interleave(a, b)   cd = interleave(c, d)   abcd = interleave words of both
//!         sums of a channel += its four bytes times its four weights, in one instruction
//! words   as much with two taps and words
//! narrow  words of 32 bits -> 16 -> 8, which puts channels in order again
//! ```

use std::arch::x86_64::*;

use super::packing::{PackedTaps, Row};

/// A kernel of four taps a step on vectors of one width; those of three steps, windows of 3 x 3, hold their
/// weights in registers.
macro_rules! vnni {
    ($token:ident, $name:ident, $row:ident, $block:literal,
     $load:ident, $store:ident, $floats:ident, $set_ps:ident, $set_words:ident, $set_bytes:ident,
     $lo8:ident, $hi8:ident, $lo16:ident, $hi16:ident, $dot:ident,
     $to_ps:ident, $mul:ident, $max:ident, $min:ident, $round:ident,
     $pack32:ident, $add16:ident, $pack16:ident, $xor:ident) => {
        /// # Safety
        ///
        /// As [`super::run::run`]; the processor must have the instructions.
        pub(super) unsafe fn $name(row: &Row<'_>) {
            // SAFETY: guaranteed by the caller.
            unsafe {
                match row.numbers.steps {
                    3 => $row::<3>(row),
                    _ => $row::<0>(row),
                }
            }
        }

        spark_simd::features! { compile $token
            unsafe fn $row<const STEPS: usize>(row: &Row<'_>) {
                const QUARTER: usize = $block / 4;
                let numbers = row.numbers;
                let PackedTaps::Bytes(weights) = &numbers.weights else {
                    unreachable!("weights are packed for the kernel that reads them")
                };
                let steps = if STEPS == 0 { numbers.steps } else { STEPS };
                // SAFETY: numbers have whole blocks for every part of the period, and taps whole steps; the rest is
                // guaranteed by the caller.
                unsafe {
                    let low = $set_ps(numbers.low);
                    let high = $set_ps(numbers.high);
                    let zero = $set_words(numbers.zero);
                    let flip = $set_bytes(numbers.flip as i8);
                    for from in row.first..row.last.min(row.first + numbers.period) {
                        let part = from % numbers.period;
                        let weights = weights.as_ptr().add(part * steps * 4 * $block);
                        let weight = |step: usize, vector: usize| {
                            $load(weights.add((4 * step + vector) * $block).cast())
                        };
                        let none = $set_bytes(0);
                        let mut held = [[none; 4]; STEPS];
                        for step in 0..STEPS {
                            for vector in 0..4 {
                                held[step][vector] = weight(step, vector);
                            }
                        }
                        let initial = numbers.initial.as_ptr().add(part * $block);
                        let multipliers = numbers.multipliers.as_ptr().add(part * $block);
                        for block in (from..row.last).step_by(numbers.period) {
                            let at = block * $block;
                            let mut sums = [none; 4];
                            for vector in 0..4 {
                                sums[vector] = $load(initial.add(vector * QUARTER).cast());
                            }
                            for step in 0..steps {
                                let tap = |tap: usize| {
                                    let from = *row.taps.as_ptr().add(4 * step + tap);
                                    $load(from.add(at).cast())
                                };
                                let (a, b, c, d) = (tap(0), tap(1), tap(2), tap(3));
                                let (ab, cd) = ($lo8(a, b), $lo8(c, d));
                                let (ef, gh) = ($hi8(a, b), $hi8(c, d));
                                let fours = [
                                    $lo16(ab, cd),
                                    $hi16(ab, cd),
                                    $lo16(ef, gh),
                                    $hi16(ef, gh),
                                ];
                                for vector in 0..4 {
                                    let weights = match STEPS {
                                        0 => weight(step, vector),
                                        _ => held[step][vector],
                                    };
                                    sums[vector] = $dot(sums[vector], fours[vector], weights);
                                }
                            }
                            let mut words = [none; 4];
                            for vector in 0..4 {
                                let multiplier = $floats(multipliers.add(vector * QUARTER));
                                let value = $mul($to_ps(sums[vector]), multiplier);
                                // The bound second: what is no number becomes the least.
                                words[vector] = $round($min($max(value, low), high));
                            }
                            let near = $add16($pack32(words[0], words[1]), zero);
                            let far = $add16($pack32(words[2], words[3]), zero);
                            let bytes = $xor($pack16(near, far), flip);
                            $store(row.y.add((block - row.first) * $block).cast(), bytes);
                        }
                    }
                }
            }
        }
    };
}

vnni!(
    Avx512Vnni,
    vnni512,
    vnni512_row,
    64,
    _mm512_loadu_si512,
    _mm512_storeu_si512,
    _mm512_loadu_ps,
    _mm512_set1_ps,
    _mm512_set1_epi16,
    _mm512_set1_epi8,
    _mm512_unpacklo_epi8,
    _mm512_unpackhi_epi8,
    _mm512_unpacklo_epi16,
    _mm512_unpackhi_epi16,
    _mm512_dpbusd_epi32,
    _mm512_cvtepi32_ps,
    _mm512_mul_ps,
    _mm512_max_ps,
    _mm512_min_ps,
    _mm512_cvtps_epi32,
    _mm512_packs_epi32,
    _mm512_add_epi16,
    _mm512_packus_epi16,
    _mm512_xor_si512
);
vnni!(
    AvxVnni,
    vnni256,
    vnni256_row,
    32,
    _mm256_loadu_si256,
    _mm256_storeu_si256,
    _mm256_loadu_ps,
    _mm256_set1_ps,
    _mm256_set1_epi16,
    _mm256_set1_epi8,
    _mm256_unpacklo_epi8,
    _mm256_unpackhi_epi8,
    _mm256_unpacklo_epi16,
    _mm256_unpackhi_epi16,
    _mm256_dpbusd_avx_epi32,
    _mm256_cvtepi32_ps,
    _mm256_mul_ps,
    _mm256_max_ps,
    _mm256_min_ps,
    _mm256_cvtps_epi32,
    _mm256_packs_epi32,
    _mm256_add_epi16,
    _mm256_packus_epi16,
    _mm256_xor_si256
);

spark_simd::features! { compile Avx2
    /// # Safety
    ///
    /// As [`super::run::run`]; the processor must have AVX2.
    pub(super) unsafe fn words256(row: &Row<'_>) {
        const BLOCK: usize = 16;
        let numbers = row.numbers;
        let PackedTaps::Words(weights) = &numbers.weights else {
            unreachable!("weights are packed for the kernel that reads them")
        };
        // SAFETY: numbers have whole blocks for every part of the period, and taps whole steps; the rest is
        // guaranteed by the caller.
        unsafe {
            let low = _mm256_set1_ps(numbers.low);
            let high = _mm256_set1_ps(numbers.high);
            let zero = _mm256_set1_epi16(numbers.zero);
            let flip = _mm_set1_epi8(numbers.flip as i8);
            for block in row.first..row.last {
                let (part, at) = (block % numbers.period, block * BLOCK);
                let initial = numbers.initial.as_ptr().add(part * BLOCK);
                let mut near = _mm256_loadu_si256(initial.cast());
                let mut far = _mm256_loadu_si256(initial.add(8).cast());
                let mut weights = weights.as_ptr().add(part * numbers.steps * 2 * BLOCK);
                for step in 0..numbers.steps {
                    let tap = |tap: usize| {
                        let from = *row.taps.as_ptr().add(2 * step + tap);
                        _mm256_cvtepu8_epi16(_mm_loadu_si128(from.add(at).cast()))
                    };
                    let (a, b) = (tap(0), tap(1));
                    let w = _mm256_loadu_si256(weights.cast());
                    let v = _mm256_loadu_si256(weights.add(BLOCK).cast());
                    near = _mm256_add_epi32(near, _mm256_madd_epi16(_mm256_unpacklo_epi16(a, b), w));
                    far = _mm256_add_epi32(far, _mm256_madd_epi16(_mm256_unpackhi_epi16(a, b), v));
                    weights = weights.add(2 * BLOCK);
                }
                let multipliers = numbers.multipliers.as_ptr().add(part * BLOCK);
                let whole = |sums: __m256i, multipliers: *const f32| {
                    let value = _mm256_mul_ps(_mm256_cvtepi32_ps(sums), _mm256_loadu_ps(multipliers));
                    // The bound second: what is no number becomes the least.
                    _mm256_cvtps_epi32(_mm256_min_ps(_mm256_max_ps(value, low), high))
                };
                let words = _mm256_packs_epi32(whole(near, multipliers), whole(far, multipliers.add(8)));
                let words = _mm256_add_epi16(words, zero);
                let bytes = _mm256_permute4x64_epi64::<0b1000>(_mm256_packus_epi16(words, words));
                let bytes = _mm_xor_si128(_mm256_castsi256_si128(bytes), flip);
                _mm_storeu_si128(row.y.add((block - row.first) * BLOCK).cast(), bytes);
            }
        }
    }
}
