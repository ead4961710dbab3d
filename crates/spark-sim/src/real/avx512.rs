//! Sixteen f32 lanes in one AVX-512 register.

use super::number::{Lanes, Real};
use super::polynomial::{self, FloatBits};
use std::arch::x86_64::*;
use std::ops::{Add, BitAnd, BitOr, Div, Mul, Neg, Not, Sub};

/// Sixteen f32 values. Values of this type exist only inside functions of `dispatch`
/// that a token of a CPU with AVX-512F leads to; every SAFETY comment below rests on that.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(super) struct F32x16(__m512);

/// One bit per lane.
#[derive(Clone, Copy)]
pub(super) struct Mask16(__mmask16);

macro_rules! binary {
    ($trait:ident, $method:ident, $intrinsic:ident) => {
        impl $trait for F32x16 {
            type Output = Self;
            #[inline(always)]
            fn $method(self, other: Self) -> Self {
                // SAFETY: AVX-512F is present (see the type).
                Self(unsafe { $intrinsic(self.0, other.0) })
            }
        }
    };
}
binary!(Add, add, _mm512_add_ps);
binary!(Sub, sub, _mm512_sub_ps);
binary!(Mul, mul, _mm512_mul_ps);
binary!(Div, div, _mm512_div_ps);

impl Neg for F32x16 {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        // SAFETY: AVX-512F is present (see the type).
        Self(unsafe {
            let sign = _mm512_set1_epi32(i32::MIN);
            _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(self.0), sign))
        })
    }
}

impl BitAnd for Mask16 {
    type Output = Self;
    #[inline(always)]
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}
impl BitOr for Mask16 {
    type Output = Self;
    #[inline(always)]
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
impl Not for Mask16 {
    type Output = Self;
    #[inline(always)]
    fn not(self) -> Self {
        Self(!self.0)
    }
}

impl Real for F32x16 {
    type Mask = Mask16;

    #[inline(always)]
    fn splat(value: f64) -> Self {
        // SAFETY: AVX-512F is present (see the type).
        Self(unsafe { _mm512_set1_ps(value as f32) })
    }
    #[inline(always)]
    fn lt(self, other: Self) -> Mask16 {
        // SAFETY: AVX-512F is present (see the type).
        Mask16(unsafe { _mm512_cmp_ps_mask::<_CMP_LT_OQ>(self.0, other.0) })
    }
    #[inline(always)]
    fn le(self, other: Self) -> Mask16 {
        // SAFETY: AVX-512F is present (see the type).
        Mask16(unsafe { _mm512_cmp_ps_mask::<_CMP_LE_OQ>(self.0, other.0) })
    }
    #[inline(always)]
    fn select(mask: Mask16, if_true: Self, if_false: Self) -> Self {
        // SAFETY: AVX-512F is present (see the type).
        Self(unsafe { _mm512_mask_blend_ps(mask.0, if_false.0, if_true.0) })
    }
    #[inline(always)]
    fn minimum(self, other: Self) -> Self {
        // SAFETY: AVX-512F is present (see the type). The instruction is
        // `self < other ? self : other`, as the trait asks.
        Self(unsafe { _mm512_min_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn maximum(self, other: Self) -> Self {
        // SAFETY: AVX-512F is present (see the type). The instruction is
        // `self > other ? self : other`, as the trait asks.
        Self(unsafe { _mm512_max_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn any(mask: Mask16) -> bool {
        mask.0 != 0
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        // SAFETY: AVX-512F is present (see the type).
        Self(unsafe { _mm512_sqrt_ps(self.0) })
    }
    #[inline(always)]
    fn abs(self) -> Self {
        // SAFETY: AVX-512F is present (see the type).
        Self(unsafe { _mm512_abs_ps(self.0) })
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

impl FloatBits for F32x16 {
    #[inline(always)]
    fn power_of_two(self) -> Self {
        // SAFETY: AVX-512F is present (see the type).
        Self(unsafe {
            let biased = _mm512_add_epi32(_mm512_cvtps_epi32(self.0), _mm512_set1_epi32(127));
            _mm512_castsi512_ps(_mm512_slli_epi32::<23>(biased))
        })
    }
    #[inline(always)]
    fn turned(self, sin: Self, cos: Self) -> (Self, Self) {
        // SAFETY: AVX-512F is present (see the type).
        unsafe {
            let (one, two) = (_mm512_set1_epi32(1), _mm512_set1_epi32(2));
            let q = _mm512_castps_si512(self.0);
            let odd = _mm512_test_epi32_mask(q, one);
            let sign = |q| _mm512_slli_epi32::<30>(_mm512_and_si512(q, two));
            let turn = |x, q| {
                let bits = _mm512_xor_si512(_mm512_castps_si512(x), sign(q));
                Self(_mm512_castsi512_ps(bits))
            };
            (
                turn(_mm512_mask_blend_ps(odd, sin.0, cos.0), q),
                turn(
                    _mm512_mask_blend_ps(odd, cos.0, sin.0),
                    _mm512_add_epi32(q, one),
                ),
            )
        }
    }
}

impl Lanes for F32x16 {
    type Elem = f32;
    const N: usize = 16;

    #[inline(always)]
    fn load(column: &[f32], first: usize) -> Self {
        let lanes = &column[first..first + Self::N];
        // SAFETY: AVX-512F is present (see the type); `lanes` holds sixteen
        // initialised floats and the load has no alignment requirement.
        Self(unsafe { _mm512_loadu_ps(lanes.as_ptr()) })
    }
    #[inline(always)]
    fn store(self, column: &mut [f32], first: usize) {
        let lanes = &mut column[first..first + Self::N];
        // SAFETY: AVX-512F is present (see the type); `lanes` holds sixteen
        // floats borrowed mutably and the store has no alignment requirement.
        unsafe { _mm512_storeu_ps(lanes.as_mut_ptr(), self.0) }
    }
}
