//! Four f32 lanes in one NEON register; every aarch64 CPU has them.

use super::number::{Lanes, Real};
use super::polynomial::{self, FloatBits};
use std::arch::aarch64::*;
use std::ops::{Add, BitAnd, BitOr, Div, Mul, Neg, Not, Sub};

/// Four f32 values.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(super) struct F32x4(float32x4_t);

/// All bits of a lane set, or none.
#[derive(Clone, Copy)]
pub(super) struct Mask4(uint32x4_t);

macro_rules! binary {
    ($type:ident, $trait:ident, $method:ident, $intrinsic:ident) => {
        impl $trait for $type {
            type Output = Self;
            #[inline(always)]
            fn $method(self, other: Self) -> Self {
                // SAFETY: NEON is part of every aarch64 target.
                Self(unsafe { $intrinsic(self.0, other.0) })
            }
        }
    };
}
binary!(F32x4, Add, add, vaddq_f32);
binary!(F32x4, Sub, sub, vsubq_f32);
binary!(F32x4, Mul, mul, vmulq_f32);
binary!(F32x4, Div, div, vdivq_f32);
binary!(Mask4, BitAnd, bitand, vandq_u32);
binary!(Mask4, BitOr, bitor, vorrq_u32);

impl Neg for F32x4 {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        // SAFETY: NEON is part of every aarch64 target.
        Self(unsafe { vnegq_f32(self.0) })
    }
}

impl Not for Mask4 {
    type Output = Self;
    #[inline(always)]
    fn not(self) -> Self {
        // SAFETY: NEON is part of every aarch64 target.
        Self(unsafe { vmvnq_u32(self.0) })
    }
}

impl Real for F32x4 {
    type Mask = Mask4;

    #[inline(always)]
    fn splat(value: f64) -> Self {
        // SAFETY: NEON is part of every aarch64 target.
        Self(unsafe { vdupq_n_f32(value as f32) })
    }
    #[inline(always)]
    fn lt(self, other: Self) -> Mask4 {
        // SAFETY: NEON is part of every aarch64 target.
        Mask4(unsafe { vcltq_f32(self.0, other.0) })
    }
    #[inline(always)]
    fn le(self, other: Self) -> Mask4 {
        // SAFETY: NEON is part of every aarch64 target.
        Mask4(unsafe { vcleq_f32(self.0, other.0) })
    }
    #[inline(always)]
    fn select(mask: Mask4, if_true: Self, if_false: Self) -> Self {
        // SAFETY: NEON is part of every aarch64 target.
        Self(unsafe { vbslq_f32(mask.0, if_true.0, if_false.0) })
    }
    #[inline(always)]
    fn any(mask: Mask4) -> bool {
        // SAFETY: NEON is part of every aarch64 target.
        unsafe { vmaxvq_u32(mask.0) != 0 }
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        // SAFETY: NEON is part of every aarch64 target.
        Self(unsafe { vsqrtq_f32(self.0) })
    }
    #[inline(always)]
    fn abs(self) -> Self {
        // SAFETY: NEON is part of every aarch64 target.
        Self(unsafe { vabsq_f32(self.0) })
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

impl FloatBits for F32x4 {
    #[inline(always)]
    fn power_of_two(self) -> Self {
        // SAFETY: NEON is part of every aarch64 target.
        Self(unsafe {
            let biased = vaddq_s32(vcvtnq_s32_f32(self.0), vdupq_n_s32(127));
            vreinterpretq_f32_s32(vshlq_n_s32::<23>(biased))
        })
    }
    #[inline(always)]
    fn turned(self, sin: Self, cos: Self) -> (Self, Self) {
        // SAFETY: NEON is part of every aarch64 target.
        unsafe {
            let (one, two) = (vdupq_n_u32(1), vdupq_n_u32(2));
            let q = vreinterpretq_u32_f32(self.0);
            let odd = vtstq_u32(q, one);
            let sign = |q| vshlq_n_u32::<30>(vandq_u32(q, two));
            let turn = |x, q| {
                let bits = veorq_u32(vreinterpretq_u32_f32(x), sign(q));
                Self(vreinterpretq_f32_u32(bits))
            };
            (
                turn(vbslq_f32(odd, cos.0, sin.0), q),
                turn(vbslq_f32(odd, sin.0, cos.0), vaddq_u32(q, one)),
            )
        }
    }
}

impl Lanes for F32x4 {
    type Elem = f32;
    const N: usize = 4;

    #[inline(always)]
    fn load(column: &[f32], first: usize) -> Self {
        let lanes = &column[first..first + Self::N];
        // SAFETY: NEON is part of every aarch64 target; `lanes` holds four
        // initialised floats and the load needs no more than their alignment.
        Self(unsafe { vld1q_f32(lanes.as_ptr()) })
    }
    #[inline(always)]
    fn store(self, column: &mut [f32], first: usize) {
        let lanes = &mut column[first..first + Self::N];
        // SAFETY: NEON is part of every aarch64 target; `lanes` holds four
        // floats borrowed mutably and the store needs no more than their alignment.
        unsafe { vst1q_f32(lanes.as_mut_ptr(), self.0) }
    }
}
