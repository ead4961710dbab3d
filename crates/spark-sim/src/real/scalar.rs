//! One lane: f64 (the oracle) and f32.

use super::number::{Lanes, Real};
use super::polynomial;

macro_rules! scalar_basics {
    ($float:ty) => {
        type Mask = bool;

        #[inline(always)]
        fn splat(value: f64) -> Self {
            value as $float
        }
        #[inline(always)]
        fn lt(self, other: Self) -> bool {
            self < other
        }
        #[inline(always)]
        fn le(self, other: Self) -> bool {
            self <= other
        }
        #[inline(always)]
        fn select(mask: bool, if_true: Self, if_false: Self) -> Self {
            if mask { if_true } else { if_false }
        }
        #[inline(always)]
        fn any(mask: bool) -> bool {
            mask
        }
        #[inline(always)]
        fn sqrt(self) -> Self {
            <$float>::sqrt(self)
        }
        #[inline(always)]
        fn abs(self) -> Self {
            <$float>::abs(self)
        }
    };
}

macro_rules! scalar_lanes {
    ($float:ty) => {
        impl Lanes for $float {
            type Elem = $float;
            const N: usize = 1;

            #[inline(always)]
            fn load(column: &[$float], first: usize) -> Self {
                column[first]
            }
            #[inline(always)]
            fn store(self, column: &mut [$float], first: usize) {
                column[first] = self;
            }
        }
    };
}

impl Real for f64 {
    scalar_basics!(f64);

    #[inline(always)]
    fn round(self) -> Self {
        self.round_ties_even()
    }
    #[inline(always)]
    fn sin_cos(self) -> (Self, Self) {
        f64::sin_cos(self)
    }
    #[inline(always)]
    fn atan(self) -> Self {
        f64::atan(self)
    }
    #[inline(always)]
    fn exp(self) -> Self {
        f64::exp(self)
    }
    #[inline(always)]
    fn tan(self) -> Self {
        f64::tan(self)
    }
    #[inline(always)]
    fn tanh(self) -> Self {
        f64::tanh(self)
    }
}

impl Real for f32 {
    scalar_basics!(f32);

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

impl polynomial::FloatBits for f32 {
    #[inline(always)]
    fn power_of_two(self) -> Self {
        f32::from_bits(((self as i32 + 127) as u32) << 23)
    }
    #[inline(always)]
    fn rotate_quarter_turns(self, sin: Self, cos: Self) -> (Self, Self) {
        let q = self.to_bits();
        let (s, c) = if q & 1 != 0 { (cos, sin) } else { (sin, cos) };
        (
            f32::from_bits(s.to_bits() ^ ((q & 2) << 30)),
            f32::from_bits(c.to_bits() ^ ((q.wrapping_add(1) & 2) << 30)),
        )
    }
}

scalar_lanes!(f64);
scalar_lanes!(f32);
