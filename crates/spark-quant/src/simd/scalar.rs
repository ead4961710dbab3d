//! The sixteen lanes as plain arrays: the fallback, and the easiest definition to read.

use super::lanes::{E2M1_TIMES_2_PLUS_12, Simd};
use crate::scalar::half::{f16_bits_to_f32, f32_to_f16_bits};

#[derive(Debug, Clone, Copy)]
pub(super) struct Scalar;

#[inline(always)]
fn map<A: Copy, R>(a: [A; 16], f: impl Fn(A) -> R) -> [R; 16] {
    std::array::from_fn(|i| f(a[i]))
}

#[inline(always)]
fn zip<A: Copy, R>(a: [A; 16], b: [A; 16], f: impl Fn(A, A) -> R) -> [R; 16] {
    std::array::from_fn(|i| f(a[i], b[i]))
}

impl Simd for Scalar {
    type F = [f32; 16];
    type U = [u32; 16];
    type M = [bool; 16];
    type B = [u8; 64];

    #[inline(always)]
    fn splat(self, value: f32) -> Self::F {
        [value; 16]
    }
    #[inline(always)]
    fn load(self, src: &[f32; 16]) -> Self::F {
        *src
    }
    #[inline(always)]
    fn store(self, value: Self::F, dst: &mut [f32; 16]) {
        *dst = value;
    }
    #[inline(always)]
    fn stream(self, value: Self::F, dst: &mut [f32; 16]) {
        *dst = value;
    }
    #[inline(always)]
    fn fence(self) {}
    #[inline(always)]
    fn prefetch<T>(self, _from: &T, _bytes: isize) {}

    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        zip(a, b, |a, b| a + b)
    }
    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        zip(a, b, |a, b| a - b)
    }
    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        zip(a, b, |a, b| a * b)
    }
    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        zip(a, b, |a, b| a / b)
    }
    #[inline(always)]
    fn mul_add(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        std::array::from_fn(|i| a[i].mul_add(b[i], c[i]))
    }
    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        zip(a, b, f32::max)
    }
    #[inline(always)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        zip(a, b, f32::min)
    }
    #[inline(always)]
    fn sum(self, a: Self::F) -> f32 {
        let mut lanes = a;
        for width in [8, 4, 2, 1] {
            for i in 0..width {
                lanes[i] += lanes[i + width];
            }
        }
        lanes[0]
    }
    #[inline(always)]
    fn row_max_abs(self, rows: &[Self::F; 16]) -> Self::F {
        map(*rows, |row| {
            row.into_iter().map(f32::abs).fold(0.0, f32::max)
        })
    }
    #[inline(always)]
    fn transpose(self, rows: &[Self::F; 16]) -> [Self::F; 16] {
        std::array::from_fn(|i| std::array::from_fn(|j| rows[j][i]))
    }

    #[inline(always)]
    fn to_bits(self, a: Self::F) -> Self::U {
        map(a, f32::to_bits)
    }
    #[inline(always)]
    fn bits_to_f32(self, a: Self::U) -> Self::F {
        map(a, f32::from_bits)
    }
    #[inline(always)]
    fn splat_u(self, value: u32) -> Self::U {
        [value; 16]
    }
    #[inline(always)]
    fn and(self, a: Self::U, b: Self::U) -> Self::U {
        zip(a, b, |a, b| a & b)
    }
    #[inline(always)]
    fn or(self, a: Self::U, b: Self::U) -> Self::U {
        zip(a, b, |a, b| a | b)
    }
    #[inline(always)]
    fn add_u(self, a: Self::U, b: Self::U) -> Self::U {
        zip(a, b, u32::wrapping_add)
    }
    #[inline(always)]
    fn sub_u(self, a: Self::U, b: Self::U) -> Self::U {
        zip(a, b, u32::wrapping_sub)
    }
    #[inline(always)]
    fn shl(self, a: Self::U, n: u32) -> Self::U {
        map(a, |a| a << n)
    }
    #[inline(always)]
    fn shr(self, a: Self::U, n: u32) -> Self::U {
        map(a, |a| a >> n)
    }
    #[inline(always)]
    fn min_i(self, a: Self::U, b: Self::U) -> Self::U {
        zip(a, b, |a, b| (a as i32).min(b as i32) as u32)
    }
    #[inline(always)]
    fn max_i(self, a: Self::U, b: Self::U) -> Self::U {
        zip(a, b, |a, b| (a as i32).max(b as i32) as u32)
    }
    #[inline(always)]
    fn gt_i(self, a: Self::U, b: Self::U) -> Self::M {
        zip(a, b, |a, b| a as i32 > b as i32)
    }
    #[inline(always)]
    fn lt_f(self, a: Self::F, b: Self::F) -> Self::M {
        zip(a, b, |a, b| a < b)
    }
    #[inline(always)]
    fn any(self, mask: Self::M) -> bool {
        mask.contains(&true)
    }
    #[inline(always)]
    fn select(self, mask: Self::M, a: Self::U, b: Self::U) -> Self::U {
        std::array::from_fn(|i| if mask[i] { a[i] } else { b[i] })
    }

    #[inline(always)]
    fn i32_to_f32(self, a: Self::U) -> Self::F {
        map(a, |a| a as i32 as f32)
    }
    #[inline(always)]
    fn f32_to_i32(self, a: Self::F) -> Self::U {
        map(a, |a| a.round_ties_even() as i32 as u32)
    }
    #[inline(always)]
    fn f16_to_f32(self, a: Self::U) -> Self::F {
        map(a, |a| f16_bits_to_f32(a as u16))
    }
    #[inline(always)]
    fn f32_to_f16(self, a: Self::F) -> Self::U {
        map(a, |a| u32::from(f32_to_f16_bits(a)))
    }

    #[inline(always)]
    fn load_u8(self, src: &[u8; 16]) -> Self::U {
        map(*src, u32::from)
    }
    #[inline(always)]
    fn store_u8(self, a: Self::U, dst: &mut [u8; 16]) {
        *dst = map(a, |a| a as u8);
    }
    #[inline(always)]
    fn load_u16(self, src: &[u16; 16]) -> Self::U {
        map(*src, u32::from)
    }
    #[inline(always)]
    fn store_u16(self, a: Self::U, dst: &mut [u16; 16]) {
        *dst = map(a, |a| a as u16);
    }
    #[inline(always)]
    fn load_nibbles(self, src: &[u8; 8]) -> Self::U {
        std::array::from_fn(|i| u32::from(src[i / 2] >> (4 * (i % 2)) & 15))
    }
    #[inline(always)]
    fn store_nibbles(self, a: Self::U, dst: &mut [u8; 8]) {
        *dst = std::array::from_fn(|i| (a[2 * i] & 15 | a[2 * i + 1] << 4) as u8);
    }
    #[inline(always)]
    fn load_u(self, src: &[u32; 16]) -> Self::U {
        *src
    }
    #[inline(always)]
    fn load_u32_le(self, src: &[u8; 64]) -> Self::U {
        std::array::from_fn(|i| {
            u32::from_le_bytes([src[4 * i], src[4 * i + 1], src[4 * i + 2], src[4 * i + 3]])
        })
    }
    #[inline(always)]
    fn spread_4(self, src: &[u8; 4]) -> Self::U {
        std::array::from_fn(|i| u32::from(src[i / 4]))
    }
    #[inline(always)]
    fn e4m3_pairs(self, src: &[u8; 8]) -> Self::F {
        std::array::from_fn(|i| f16_bits_to_f32(u16::from(src[i / 2]) << 7))
    }
    #[inline(always)]
    fn lookup(self, table: &[f32; 16], index: Self::U) -> Self::F {
        map(index, |i| table[i as usize & 15])
    }

    #[inline(always)]
    fn load_b(self, src: &[u8; 64]) -> Self::B {
        *src
    }
    #[inline(always)]
    fn e2m1_bytes(self, packed: Self::B) -> (Self::B, Self::B) {
        let doubled = |code: u8| E2M1_TIMES_2_PLUS_12[usize::from(code)];
        (
            std::array::from_fn(|i| doubled(packed[i] & 15)),
            std::array::from_fn(|i| doubled(packed[i] >> 4)),
        )
    }
    #[inline(always)]
    fn dot_u7(self, acc: Self::U, u: Self::B, s: Self::B) -> Self::U {
        std::array::from_fn(|i| {
            (4 * i..4 * i + 4).fold(acc[i], |sum, k| {
                sum.wrapping_add_signed(i32::from(u[k]) * i32::from(s[k] as i8))
            })
        })
    }
    #[inline(always)]
    fn dot_i8(self, acc: Self::U, a: Self::B, b: Self::B) -> Self::U {
        std::array::from_fn(|i| {
            (4 * i..4 * i + 4).fold(acc[i], |sum, k| {
                sum.wrapping_add_signed(i32::from(a[k] as i8) * i32::from(b[k] as i8))
            })
        })
    }
}
