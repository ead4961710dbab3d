//! f32 lanes in one register of any instruction set that `spark-simd` has.

use super::number::{Lanes, Real};
use super::polynomial::{self, FloatBits};
use spark_simd::Simd;
use std::ops::{Add, BitAnd, BitOr, Div, Mul, Neg, Not, Sub};

/// `S::LANES` f32 values. Values of this type exist only inside functions of `dispatch` that are
/// compiled for `S` and that its token leads to; every SAFETY comment below rests on that.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(super) struct Vector<S: Simd>(S::V);

/// One answer per lane.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Mask<S: Simd>(S::Mask);

/// Methods of [`Simd`] as those of an operator or of [`Real`].
macro_rules! by_simd {
    ($($(#[$doc:meta])* fn $method:ident(self $(, $other:ident)?) -> $result:ident = $simd:ident;)*) => {$(
        #[inline(always)]
        fn $method(self $(, $other: Self)?) -> $result<S> {
            // SAFETY: the instruction set is present (see the type).
            $result(unsafe { S::$simd(self.0 $(, $other.0)?) })
        }
    )*};
}
macro_rules! operators {
    ($($type:ident: $trait:ident $method:ident ($($other:ident)?) = $simd:ident;)*) => {$(
        impl<S: Simd + 'static> $trait for $type<S> {
            type Output = Self;
            by_simd! { fn $method(self $(, $other)?) -> $type = $simd; }
        }
    )*};
}
operators! {
    Vector: Add add (other) = add;
    Vector: Sub sub (other) = sub;
    Vector: Mul mul (other) = mul;
    Vector: Div div (other) = div;
    Vector: Neg neg () = neg;
    Mask: BitAnd bitand (other) = and;
    Mask: BitOr bitor (other) = or;
    Mask: Not not () = not;
}

impl<S: Simd + std::fmt::Debug + 'static> Real for Vector<S> {
    type Mask = Mask<S>;

    by_simd! {
        fn lt(self, other) -> Mask = less;
        fn le(self, other) -> Mask = less_or_equal;
        fn minimum(self, other) -> Vector = min;
        fn maximum(self, other) -> Vector = max;
        fn sqrt(self) -> Vector = sqrt;
        fn abs(self) -> Vector = abs;
    }
    #[inline(always)]
    fn splat(value: f64) -> Self {
        // SAFETY: the instruction set is present (see the type).
        Self(unsafe { S::splat(value as f32) })
    }
    #[inline(always)]
    fn select(mask: Mask<S>, if_true: Self, if_false: Self) -> Self {
        // SAFETY: the instruction set is present (see the type).
        Self(unsafe { S::select(mask.0, if_true.0, if_false.0) })
    }
    #[inline(always)]
    fn any(mask: Mask<S>) -> bool {
        // SAFETY: the instruction set is present (see the type).
        unsafe { S::any(mask.0) }
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

impl<S: Simd + std::fmt::Debug + 'static> FloatBits for Vector<S> {
    by_simd! {
        fn power_of_two(self) -> Vector = power_of_two;
    }
    #[inline(always)]
    fn rotate_quarter_turns(self, sin: Self, cos: Self) -> (Self, Self) {
        // SAFETY: the instruction set is present (see the type).
        let (sin, cos) = unsafe { S::rotate_quarter_turns(self.0, sin.0, cos.0) };
        (Self(sin), Self(cos))
    }
}

impl<S: Simd + std::fmt::Debug + 'static> Lanes for Vector<S> {
    type Elem = f32;
    const N: usize = S::LANES;

    #[inline(always)]
    fn load(column: &[f32], first: usize) -> Self {
        let lanes = &column[first..first + Self::N];
        // SAFETY: the instruction set is present (see the type); `lanes` holds a register's worth of
        // initialised floats and the load has no alignment requirement.
        Self(unsafe { S::load(lanes.as_ptr()) })
    }
    #[inline(always)]
    fn store(self, column: &mut [f32], first: usize) {
        let lanes = &mut column[first..first + Self::N];
        // SAFETY: the instruction set is present (see the type); `lanes` holds a register's worth of
        // floats borrowed mutably and the store has no alignment requirement.
        unsafe { S::store(lanes.as_mut_ptr(), self.0) }
    }
}
