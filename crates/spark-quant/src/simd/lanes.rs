//! The operations of a level, and the work that is written over them.

use crate::scalar::minifloat::{E2m1, MiniFloat};

/// What [`Simd::stream_codes`] copies: integers, which have no padding.
pub(crate) trait Code: Copy + Default + Send {}
impl Code for u8 {}
impl Code for u16 {}

/// Vector operations over sixteen lanes. Methods are lane-wise unless they say otherwise.
///
/// `max` and `min` on floats are only used on operands without NaN, where all processors agree.
pub(crate) trait Simd: Copy + Send + Sync + 'static {
    /// A vector of sixteen f32.
    type F: Copy;
    /// Sixteen u32; comparisons, minimum and maximum read the lanes as i32.
    type U: Copy;
    /// A boolean per lane.
    type M: Copy;
    /// A vector of sixty-four bytes.
    type B: Copy;

    /// Whether [`Simd::stream`] is more than a plain store.
    const STREAMS: bool = false;

    fn splat(self, value: f32) -> Self::F;
    fn load(self, src: &[f32; 16]) -> Self::F;
    fn store(self, value: Self::F, dst: &mut [f32; 16]);
    /// Stores past the caches; `dst` must be aligned to 64 bytes, or the store is a plain one.
    fn stream(self, value: Self::F, dst: &mut [f32; 16]);
    /// Stores codes past the caches; `dst` must be aligned to 64 bytes, or the stores are plain ones.
    #[inline(always)]
    fn stream_codes<C: Code, const N: usize>(self, src: &[C; N], dst: &mut [C; N]) {
        *dst = *src;
    }
    /// Sixteen values of `low` followed by `high`, from position `start` below 16.
    #[inline(always)]
    fn join(self, low: Self::F, high: Self::F, start: usize) -> Self::F {
        let mut both = [0.0; 32];
        let (first, second) = both.split_at_mut(16);
        self.store(low, first.first_chunk_mut().expect("sixteen values"));
        self.store(high, second.first_chunk_mut().expect("sixteen values"));
        self.load(both[start..].first_chunk().expect("start below 16"))
    }
    /// Orders streamed stores before everything that follows.
    fn fence(self);
    /// Prefetches the cache line `bytes` after the start of `from` (before it, if negative); never faults.
    fn prefetch<T>(self, from: &T, bytes: isize);
    /// The same into L2 only, where lines may wait longer; a level may ignore it.
    #[inline(always)]
    fn prefetch_far<T>(self, _from: &T, _bytes: isize) {}

    fn add(self, a: Self::F, b: Self::F) -> Self::F;
    fn sub(self, a: Self::F, b: Self::F) -> Self::F;
    fn mul(self, a: Self::F, b: Self::F) -> Self::F;
    fn div(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a * b + c` with one rounding.
    fn mul_add(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    fn max(self, a: Self::F, b: Self::F) -> Self::F;
    fn min(self, a: Self::F, b: Self::F) -> Self::F;
    /// Sum as the tree `i + (i+8)`, `i + (i+4)`, `i + (i+2)`, `0 + 1`.
    fn sum(self, a: Self::F) -> f32;
    /// Lane `i` is the largest magnitude in `rows[i]`; no lane may be NaN.
    fn row_max_abs(self, rows: &[Self::F; 16]) -> Self::F;
    /// `out[i]` lane `j` is `rows[j]` lane `i`.
    fn transpose(self, rows: &[Self::F; 16]) -> [Self::F; 16];

    fn to_bits(self, a: Self::F) -> Self::U;
    fn bits_to_f32(self, a: Self::U) -> Self::F;
    fn splat_u(self, value: u32) -> Self::U;
    fn and(self, a: Self::U, b: Self::U) -> Self::U;
    fn or(self, a: Self::U, b: Self::U) -> Self::U;
    fn add_u(self, a: Self::U, b: Self::U) -> Self::U;
    fn sub_u(self, a: Self::U, b: Self::U) -> Self::U;
    fn shl(self, a: Self::U, n: u32) -> Self::U;
    fn shr(self, a: Self::U, n: u32) -> Self::U;
    fn min_i(self, a: Self::U, b: Self::U) -> Self::U;
    fn max_i(self, a: Self::U, b: Self::U) -> Self::U;
    fn gt_i(self, a: Self::U, b: Self::U) -> Self::M;
    fn lt_f(self, a: Self::F, b: Self::F) -> Self::M;
    /// Whether any lane is true.
    fn any(self, mask: Self::M) -> bool;
    /// `if mask { a } else { b }`.
    fn select(self, mask: Self::M, a: Self::U, b: Self::U) -> Self::U;

    /// Lanes as i32, to the nearest f32.
    fn i32_to_f32(self, a: Self::U) -> Self::F;
    /// To the nearest integer, ties to even; operands lie within the i32 range.
    fn f32_to_i32(self, a: Self::F) -> Self::U;
    /// Low 16 bits of each lane as IEEE binary16; exact, NaN becomes quiet.
    fn f16_to_f32(self, a: Self::U) -> Self::F;
    /// IEEE binary16, nearest even, in the low 16 bits; the rest is zero.
    fn f32_to_f16(self, a: Self::F) -> Self::U;

    fn load_u8(self, src: &[u8; 16]) -> Self::U;
    /// Stores the low byte of each lane; the rest is ignored.
    fn store_u8(self, a: Self::U, dst: &mut [u8; 16]);
    fn load_u16(self, src: &[u16; 16]) -> Self::U;
    /// Stores the low half of each lane; the rest must be zero.
    fn store_u16(self, a: Self::U, dst: &mut [u16; 16]);
    /// Lane `2i` is in the low nibble of byte `i`, lane `2i+1` in the high one. Only the low four
    /// bits of a lane are defined.
    fn load_nibbles(self, src: &[u8; 8]) -> Self::U;
    /// Inverse of [`Simd::load_nibbles`]; only the low four bits of a lane count.
    fn store_nibbles(self, a: Self::U, dst: &mut [u8; 8]);
    fn load_u(self, src: &[u32; 16]) -> Self::U;
    /// Loads sixteen u32 stored little-endian.
    fn load_u32_le(self, src: &[u8; 64]) -> Self::U;
    /// Byte `i` to lanes `4i .. 4i+4`.
    fn spread_4(self, src: &[u8; 4]) -> Self::U;
    /// E4M3 byte `i` (sign clear, not NaN) to lanes `2i` and `2i+1`, times `2^-8`.
    fn e4m3_pairs(self, src: &[u8; 8]) -> Self::F;
    /// Lane-wise `table[lane & 15]` of `index`.
    fn lookup(self, table: &[f32; 16], index: Self::U) -> Self::F;

    /// Codes (without sign) of magnitudes given as f32 bits, none above the format's largest value.
    #[inline(always)]
    fn encode_magnitude<F: MiniFloat>(self, magnitude: Self::U) -> Self::U {
        let spec = const { F::SPEC };
        let min_normal = ((spec.min_exponent() + 127) as u32) << 23;
        let octave = self.and(
            self.max_i(magnitude, self.splat_u(min_normal)),
            self.splat_u(f32::INFINITY.to_bits()),
        );
        let rounder =
            self.bits_to_f32(self.add_u(octave, self.splat_u((23 - spec.mantissa_bits) << 23)));
        let sum = self.to_bits(self.add(self.bits_to_f32(magnitude), rounder));
        let field = self.sub_u(
            self.shr(sum, 23 - spec.mantissa_bits),
            self.splat_u(spec.code_offset()),
        );
        self.and(self.add_u(sum, field), self.splat_u(spec.magnitude_mask()))
    }
    /// The nearest value of the format to a finite magnitude, ties to even, saturating.
    #[inline(always)]
    fn round_magnitude<F: MiniFloat>(self, magnitude: Self::F) -> Self::F {
        let spec = const { F::SPEC };
        let clamped = self.min(magnitude, self.splat(spec.max()));
        let min_normal = ((spec.min_exponent() + 127) as u32) << 23;
        let octave = self.and(
            self.max_i(self.to_bits(clamped), self.splat_u(min_normal)),
            self.splat_u(f32::INFINITY.to_bits()),
        );
        let rounder =
            self.bits_to_f32(self.add_u(octave, self.splat_u((23 - spec.mantissa_bits) << 23)));
        self.sub(self.add(clamped, rounder), rounder)
    }
    /// Codes of finite values in the low four bits, nearest even, saturating; the rest is undefined.
    /// Signs come from `signs`.
    #[inline(always)]
    fn encode_e2m1(self, value: Self::F, signs: Self::F) -> Self::U {
        let bits = self.and(self.to_bits(value), self.splat_u(0x7FFF_FFFF));
        let magnitude = self.min_i(bits, self.splat_u(6f32.to_bits()));
        let sign = self.and(self.shr(self.to_bits(signs), 28), self.splat_u(8));
        self.or(self.encode_magnitude::<E2m1>(magnitude), sign)
    }
    /// Codes of eight times sixteen values below sixteen in magnitude, two per byte; as
    /// [`Simd::encode_e2m1`] and [`Simd::store_nibbles`] give them.
    #[inline(always)]
    fn encode_e2m1_line(self, values: &[Self::F; 8], signs: &[Self::F; 8], codes: &mut [u8; 64]) {
        let (codes, _) = codes.as_chunks_mut::<8>();
        for i in 0..8 {
            self.store_nibbles(self.encode_e2m1(values[i], signs[i]), &mut codes[i]);
        }
    }
    /// Nearest E2M1 value to a finite magnitude, ties to even, saturating.
    #[inline(always)]
    fn round_e2m1(self, magnitude: Self::F) -> Self::F {
        self.round_magnitude::<E2m1>(magnitude)
    }
    /// E4M3 codes, none of them NaN, times `2^-8`.
    #[inline(always)]
    fn load_e4m3(self, src: &[u8; 16]) -> Self::F {
        let code = self.load_u8(src);
        let magnitude = self.shl(self.and(code, self.splat_u(0x7F)), 7);
        let sign = self.shl(self.and(code, self.splat_u(0x80)), 8);
        self.f16_to_f32(self.or(magnitude, sign))
    }

    fn load_b(self, src: &[u8; 64]) -> Self::B;
    /// E2M1 codes in the low and the high nibbles, each as the unsigned byte `2 * value + 12`.
    fn e2m1_bytes(self, packed: Self::B) -> (Self::B, Self::B);
    /// Lane `i` plus the products of bytes `4i..4i+4`: `u` unsigned below 128, `s` signed.
    fn dot_u7(self, acc: Self::U, u: Self::B, s: Self::B) -> Self::U;
    /// The same with both sides signed and `b` above -128.
    fn dot_i8(self, acc: Self::U, a: Self::B, b: Self::B) -> Self::U;
}

/// E2M1 values doubled, which makes them integers, plus 12, which makes them unsigned.
pub(crate) const E2M1_TIMES_2_PLUS_12: [u8; 16] =
    [12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0];

/// Work that is compiled once per level.
pub(crate) trait Kernel {
    /// What the work returns.
    type Output;
    /// Does the work. Implementations are `#[inline(always)]`, or the lanes do not vectorize.
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}
