//! What model code is written over, and what a vector of it must have besides.

use std::fmt::Debug;
use std::ops::{Add, BitAnd, BitOr, Div, Mul, Neg, Not, Sub};

/// Arrays are padded to a multiple of this many elements, so that no kernel has a tail.
pub const LANE_PADDING: usize = 32;

/// `n` rounded up to a multiple of [`LANE_PADDING`].
pub const fn padded_len(n: usize) -> usize {
    n.div_ceil(LANE_PADDING) * LANE_PADDING
}

/// A real number, or several side by side.
///
/// Angles are in rad. `minimum(a, b)` is `b` when either is NaN; comparisons
/// with NaN are false.
pub trait Real:
    Copy
    + Debug
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + 'static
{
    /// The answer of a comparison, one per lane.
    type Mask: Copy
        + BitAnd<Output = Self::Mask>
        + BitOr<Output = Self::Mask>
        + Not<Output = Self::Mask>;

    /// The same value in every lane, rounded to nearest.
    fn splat(value: f64) -> Self;
    /// `self < other`.
    fn lt(self, other: Self) -> Self::Mask;
    /// `self <= other`.
    fn le(self, other: Self) -> Self::Mask;
    /// `if_true` where the mask holds, else `if_false`. Both are evaluated.
    fn select(mask: Self::Mask, if_true: Self, if_false: Self) -> Self;
    /// Whether the mask holds in any lane. For skipping work that no lane needs.
    fn any(mask: Self::Mask) -> bool;
    /// Square root, correctly rounded.
    fn sqrt(self) -> Self;
    /// Absolute value.
    fn abs(self) -> Self;
    /// Nearest integer, ties to even. Exact for magnitudes below 2^22.
    fn round(self) -> Self;
    /// Sine and cosine. The f32 types are within 2e-7 for magnitudes up to 1000.
    fn sin_cos(self) -> (Self, Self);
    /// Arc tangent. The f32 types are within 2 units in the last place.
    fn atan(self) -> Self;
    /// Exponential. The f32 types clamp the argument to [-87, 88].
    fn exp(self) -> Self;

    /// `self > other`.
    #[inline(always)]
    fn gt(self, other: Self) -> Self::Mask {
        other.lt(self)
    }
    /// `self >= other`.
    #[inline(always)]
    fn ge(self, other: Self) -> Self::Mask {
        other.le(self)
    }
    /// Zero in every lane.
    #[inline(always)]
    fn zero() -> Self {
        Self::splat(0.0)
    }
    /// One in every lane.
    #[inline(always)]
    fn one() -> Self {
        Self::splat(1.0)
    }
    /// The smaller value.
    #[inline(always)]
    fn minimum(self, other: Self) -> Self {
        Self::select(self.lt(other), self, other)
    }
    /// The larger value.
    #[inline(always)]
    fn maximum(self, other: Self) -> Self {
        Self::select(other.lt(self), self, other)
    }
    /// `self` limited to `[low, high]`; NaN becomes `low`.
    #[inline(always)]
    fn clamp(self, low: Self, high: Self) -> Self {
        self.maximum(low).minimum(high)
    }
    /// Tangent.
    #[inline(always)]
    fn tan(self) -> Self {
        let (sin, cos) = self.sin_cos();
        sin / cos
    }
    /// Hyperbolic tangent.
    #[inline(always)]
    fn tanh(self) -> Self {
        let e = (Self::splat(-2.0) * self.abs()).exp();
        let t = (Self::one() - e) / (Self::one() + e);
        Self::select(self.lt(Self::zero()), -t, t)
    }
    /// The square.
    #[inline(always)]
    fn squared(self) -> Self {
        self * self
    }
}

/// A [`Real`] that is loaded from and stored to arrays.
pub trait Lanes: Real {
    /// The array's element type.
    type Elem: Copy;
    /// How many lanes.
    const N: usize;

    /// Reads `N` elements from `column[first..]`.
    fn load(column: &[Self::Elem], first: usize) -> Self;
    /// Writes `N` elements to `column[first..]`.
    fn store(self, column: &mut [Self::Elem], first: usize);
}
