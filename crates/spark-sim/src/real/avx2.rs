//! Eight f32 lanes in one AVX register.

use super::number::{Lanes, Real};
use super::polynomial::{self, FloatBits};
use std::arch::x86_64::*;
use std::ops::{Add, BitAnd, BitOr, Div, Mul, Neg, Not, Sub};

/// Eight f32 values. Values of this type exist only inside functions of `dispatch`
/// that a token of a CPU with AVX2 leads to; every SAFETY comment below rests on that.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(super) struct F32x8(__m256);

/// All bits of a lane set, or none.
#[derive(Clone, Copy)]
pub(super) struct Mask8(__m256);

macro_rules! binary {
    ($type:ident, $trait:ident, $method:ident, $intrinsic:ident) => {
        impl $trait for $type {
            type Output = Self;
            #[inline(always)]
            fn $method(self, other: Self) -> Self {
                // SAFETY: AVX2 is present (see the type).
                Self(unsafe { $intrinsic(self.0, other.0) })
            }
        }
    };
}
binary!(F32x8, Add, add, _mm256_add_ps);
binary!(F32x8, Sub, sub, _mm256_sub_ps);
binary!(F32x8, Mul, mul, _mm256_mul_ps);
binary!(F32x8, Div, div, _mm256_div_ps);
binary!(Mask8, BitAnd, bitand, _mm256_and_ps);
binary!(Mask8, BitOr, bitor, _mm256_or_ps);

impl Neg for F32x8 {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        // SAFETY: AVX2 is present (see the type).
        Self(unsafe { _mm256_xor_ps(self.0, _mm256_set1_ps(-0.0)) })
    }
}

impl Not for Mask8 {
    type Output = Self;
    #[inline(always)]
    fn not(self) -> Self {
        // SAFETY: AVX2 is present (see the type).
        Self(unsafe {
            let ones = _mm256_castsi256_ps(_mm256_set1_epi32(-1));
            _mm256_xor_ps(self.0, ones)
        })
    }
}

impl Real for F32x8 {
    type Mask = Mask8;

    #[inline(always)]
    fn splat(value: f64) -> Self {
        // SAFETY: AVX2 is present (see the type).
        Self(unsafe { _mm256_set1_ps(value as f32) })
    }
    #[inline(always)]
    fn lt(self, other: Self) -> Mask8 {
        // SAFETY: AVX2 is present (see the type).
        Mask8(unsafe { _mm256_cmp_ps::<_CMP_LT_OQ>(self.0, other.0) })
    }
    #[inline(always)]
    fn le(self, other: Self) -> Mask8 {
        // SAFETY: AVX2 is present (see the type).
        Mask8(unsafe { _mm256_cmp_ps::<_CMP_LE_OQ>(self.0, other.0) })
    }
    #[inline(always)]
    fn select(mask: Mask8, if_true: Self, if_false: Self) -> Self {
        // SAFETY: AVX2 is present (see the type).
        Self(unsafe { _mm256_blendv_ps(if_false.0, if_true.0, mask.0) })
    }
    #[inline(always)]
    fn minimum(self, other: Self) -> Self {
        // SAFETY: AVX2 is present (see the type). The instruction is
        // `self < other ? self : other`, as the trait asks.
        Self(unsafe { _mm256_min_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn maximum(self, other: Self) -> Self {
        // SAFETY: AVX2 is present (see the type). The instruction is
        // `self > other ? self : other`, as the trait asks.
        Self(unsafe { _mm256_max_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn any(mask: Mask8) -> bool {
        // SAFETY: AVX2 is present (see the type).
        unsafe { _mm256_movemask_ps(mask.0) != 0 }
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        // SAFETY: AVX2 is present (see the type).
        Self(unsafe { _mm256_sqrt_ps(self.0) })
    }
    #[inline(always)]
    fn abs(self) -> Self {
        // SAFETY: AVX2 is present (see the type).
        Self(unsafe { _mm256_andnot_ps(_mm256_set1_ps(-0.0), self.0) })
    }
    #[inline(always)]
    fn round(self) -> Self {
        polynomial::round(self)
    }
    #[inline(always)]
    fn sin_cos(self) -> (Self, Self) {
        polynomial::sin_cos(self)
    }
    #[inline(always)]
    fn atan(self) -> Self {
        polynomial::atan(self)
    }
    #[inline(always)]
    fn exp(self) -> Self {
        polynomial::exp(self)
    }
}

impl FloatBits for F32x8 {
    #[inline(always)]
    fn power_of_two(self) -> Self {
        // SAFETY: AVX2 is present (see the type).
        Self(unsafe {
            let biased = _mm256_add_epi32(_mm256_cvtps_epi32(self.0), _mm256_set1_epi32(127));
            _mm256_castsi256_ps(_mm256_slli_epi32::<23>(biased))
        })
    }
    #[inline(always)]
    fn turned(self, sin: Self, cos: Self) -> (Self, Self) {
        // SAFETY: AVX2 is present (see the type).
        unsafe {
            let (one, two) = (_mm256_set1_epi32(1), _mm256_set1_epi32(2));
            let q = _mm256_castps_si256(self.0);
            let odd = _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_and_si256(q, one), one));
            let sign = |q| _mm256_slli_epi32::<30>(_mm256_and_si256(q, two));
            let turn = |x, q| Self(_mm256_xor_ps(x, _mm256_castsi256_ps(sign(q))));
            (
                turn(_mm256_blendv_ps(sin.0, cos.0, odd), q),
                turn(
                    _mm256_blendv_ps(cos.0, sin.0, odd),
                    _mm256_add_epi32(q, one),
                ),
            )
        }
    }
}

impl Lanes for F32x8 {
    type Elem = f32;
    const N: usize = 8;

    #[inline(always)]
    fn load(column: &[f32], first: usize) -> Self {
        let lanes = &column[first..first + Self::N];
        // SAFETY: AVX2 is present (see the type); `lanes` holds eight
        // initialised floats and the load has no alignment requirement.
        Self(unsafe { _mm256_loadu_ps(lanes.as_ptr()) })
    }
    #[inline(always)]
    fn store(self, column: &mut [f32], first: usize) {
        let lanes = &mut column[first..first + Self::N];
        // SAFETY: AVX2 is present (see the type); `lanes` holds eight floats
        // borrowed mutably and the store has no alignment requirement.
        unsafe { _mm256_storeu_ps(lanes.as_mut_ptr(), self.0) }
    }
}
