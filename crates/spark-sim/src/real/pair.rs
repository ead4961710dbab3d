//! Two registers side by side.
//!
//! ```text
//! one register   a -> a' -> a''                       each step waits for the one before
//! a pair         a -> a' -> a''
//!                b -> b' -> b''                       the second fills the waiting time
//! ```
//!
//! An addition takes four cycles and two can begin in each, so a chain of dependent operations
//! leaves most of a vector unit idle. A pair also shares loop control, bounds checks and
//! constants. Worth it where everything that is alive fits twice into the register file.

use super::number::{Lanes, Real};
use std::ops::{Add, BitAnd, BitOr, Div, Mul, Neg, Not, Sub};

/// Two registers of lanes; lanes of the second follow those of the first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair<L>(L, L);

/// Two answers of comparisons.
#[derive(Clone, Copy)]
pub(super) struct PairMask<M>(M, M);

macro_rules! elementwise {
    ($type:ident: $($trait:ident $method:ident),*) => {$(
        impl<T: $trait<Output = T>> $trait for $type<T> {
            type Output = Self;
            #[inline(always)]
            fn $method(self, other: Self) -> Self {
                Self(self.0.$method(other.0), self.1.$method(other.1))
            }
        }
    )*};
}
elementwise!(Pair: Add add, Sub sub, Mul mul, Div div);
elementwise!(PairMask: BitAnd bitand, BitOr bitor);

impl<L: Neg<Output = L>> Neg for Pair<L> {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        Self(-self.0, -self.1)
    }
}

impl<M: Not<Output = M>> Not for PairMask<M> {
    type Output = Self;
    #[inline(always)]
    fn not(self) -> Self {
        Self(!self.0, !self.1)
    }
}

macro_rules! both {
    ($($method:ident($($other:ident),*) -> $pair:ident;)*) => {$(
        #[inline(always)]
        fn $method(self $(, $other: Self)*) -> $pair!() {
            $pair!(self.0.$method($($other.0),*), self.1.$method($($other.1),*))
        }
    )*};
}
macro_rules! lanes {
    () => {
        Self
    };
    ($a:expr, $b:expr) => {
        Self($a, $b)
    };
}
macro_rules! mask {
    () => {
        Self::Mask
    };
    ($a:expr, $b:expr) => {
        PairMask($a, $b)
    };
}

impl<L: Lanes> Real for Pair<L> {
    type Mask = PairMask<L::Mask>;

    #[inline(always)]
    fn splat(value: f64) -> Self {
        Self(L::splat(value), L::splat(value))
    }
    #[inline(always)]
    fn select(mask: Self::Mask, if_true: Self, if_false: Self) -> Self {
        Self(
            L::select(mask.0, if_true.0, if_false.0),
            L::select(mask.1, if_true.1, if_false.1),
        )
    }
    #[inline(always)]
    fn any(mask: Self::Mask) -> bool {
        L::any(mask.0) | L::any(mask.1)
    }
    #[inline(always)]
    fn sin_cos(self) -> (Self, Self) {
        let ((sin0, cos0), (sin1, cos1)) = (self.0.sin_cos(), self.1.sin_cos());
        (Self(sin0, sin1), Self(cos0, cos1))
    }
    both! {
        lt(other) -> mask;
        le(other) -> mask;
        sqrt() -> lanes;
        abs() -> lanes;
        round() -> lanes;
        atan() -> lanes;
        exp() -> lanes;
        minimum(other) -> lanes;
        maximum(other) -> lanes;
    }
}

impl<L: Lanes> Lanes for Pair<L> {
    type Elem = L::Elem;
    const N: usize = 2 * L::N;

    #[inline(always)]
    fn load(column: &[L::Elem], first: usize) -> Self {
        let lanes = &column[first..first + Self::N];
        Self(L::load(lanes, 0), L::load(lanes, L::N))
    }
    #[inline(always)]
    fn store(self, column: &mut [L::Elem], first: usize) {
        let lanes = &mut column[first..first + Self::N];
        self.0.store(lanes, 0);
        self.1.store(lanes, L::N);
    }
}
