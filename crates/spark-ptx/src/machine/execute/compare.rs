//! Comparisons and selections.

use crate::machine::launch::Launch;
use crate::machine::warp::{Warp, lanes_of};
use crate::program::{Comparison, Condition, Logic, P, R32, R64, Scalar, Slot};

#[inline(always)]
fn bits_where(test: impl Fn(usize) -> bool) -> u32 {
    let mut bits = 0;
    for lane in 0..32 {
        bits |= u32::from(test(lane)) << lane;
    }
    bits
}

#[inline(always)]
fn ordered<T: PartialOrd + Copy>(comparison: Comparison, a: &[T; 32], b: &[T; 32]) -> u32 {
    // Two values that cannot be ordered: one of them is NaN.
    let nan = || {
        let less_or_equal = bits_where(|i| a[i] <= b[i]);
        let greater = bits_where(|i| a[i] > b[i]);
        !(less_or_equal | greater)
    };
    match comparison {
        Comparison::Eq => bits_where(|i| a[i] == b[i]),
        Comparison::Ne => bits_where(|i| a[i] != b[i]) & !nan(),
        Comparison::Lt => bits_where(|i| a[i] < b[i]),
        Comparison::Le => bits_where(|i| a[i] <= b[i]),
        Comparison::Gt => bits_where(|i| a[i] > b[i]),
        Comparison::Ge => bits_where(|i| a[i] >= b[i]),
        Comparison::Equ => bits_where(|i| a[i] == b[i]) | nan(),
        Comparison::Neu => bits_where(|i| a[i] != b[i]),
        Comparison::Ltu => !bits_where(|i| a[i] >= b[i]),
        Comparison::Leu => !bits_where(|i| a[i] > b[i]),
        Comparison::Gtu => !bits_where(|i| a[i] <= b[i]),
        Comparison::Geu => !bits_where(|i| a[i] < b[i]),
        Comparison::Num => !nan(),
        Comparison::Nan => nan(),
    }
}

fn half(bits: u32) -> f32 {
    let (sign, exponent, fraction) = (bits >> 15 & 1, bits >> 10 & 31, bits & 1023);
    let magnitude = match exponent {
        0 => fraction as f32 * 2f32.powi(-24),
        31 => f32::from_bits(0x7f80_0000 | fraction << 13),
        _ => f32::from_bits((exponent + 112) << 23 | fraction << 13),
    };
    if sign != 0 { -magnitude } else { magnitude }
}

/// An f32 where subnormals are zeros of their sign.
fn flushed(bits: u32) -> f32 {
    let is_small = bits & 0x7f80_0000 == 0;
    f32::from_bits(if is_small { bits & 0x8000_0000 } else { bits })
}

fn as_float(scalar: Scalar, row: &[u32; 32], shift: u32) -> [f32; 32] {
    row.map(|bits| {
        let bits = bits >> shift & 0xffff;
        match scalar {
            Scalar::Bf16 => f32::from_bits(bits << 16),
            _ => half(bits),
        }
    })
}

fn joined(logic: Logic, holds: u32, condition: u32) -> u32 {
    match logic {
        Logic::And => holds & condition,
        Logic::Or => holds | condition,
        Logic::Xor => holds ^ condition,
        Logic::First => holds,
    }
}

/// What is compared with what its result is combined.
pub(crate) struct Test {
    pub(crate) comparison: Comparison,
    pub(crate) scalar: Scalar,
    pub(crate) logic: Logic,
    pub(crate) condition: Condition,
}

impl Warp {
    #[inline]
    fn holds(&self, launch: &Launch<'_>, test: &Test, a: Slot, b: Slot) -> u32 {
        let comparison = test.comparison;
        match (a, b) {
            (Slot::W32(a), Slot::W32(b)) => {
                let (a, b) = (self.row_32(launch, a), self.row_32(launch, b));
                match test.scalar {
                    Scalar::S32 => ordered(comparison, &a.map(|x| x as i32), &b.map(|x| x as i32)),
                    Scalar::F32 => {
                        ordered(comparison, &a.map(f32::from_bits), &b.map(f32::from_bits))
                    }
                    Scalar::F32Flushed => ordered(comparison, &a.map(flushed), &b.map(flushed)),
                    Scalar::S16 => ordered(comparison, &a.map(|x| x as i16), &b.map(|x| x as i16)),
                    Scalar::U16 => ordered(comparison, &a.map(|x| x as u16), &b.map(|x| x as u16)),
                    Scalar::F16 | Scalar::Bf16 => {
                        let a = as_float(test.scalar, a, 0);
                        ordered(comparison, &a, &as_float(test.scalar, b, 0))
                    }
                    _ => ordered(comparison, a, b),
                }
            }
            (Slot::W64(a), Slot::W64(b)) => {
                let (a, b) = (self.row_64(launch, a), self.row_64(launch, b));
                match test.scalar {
                    Scalar::S64 => ordered(comparison, &a.map(|x| x as i64), &b.map(|x| x as i64)),
                    Scalar::F64 => {
                        ordered(comparison, &a.map(f64::from_bits), &b.map(f64::from_bits))
                    }
                    _ => ordered(comparison, a, b),
                }
            }
            _ => 0,
        }
    }

    #[inline]
    pub(crate) fn compare(
        &mut self,
        launch: &Launch<'_>,
        test: &Test,
        [p, q]: [P; 2],
        [a, b]: [Slot; 2],
        mask: u32,
    ) {
        let holds = self.holds(launch, test, a, b);
        let condition = self.condition(test.condition);
        self.write_predicate(p, joined(test.logic, holds, condition), mask);
        self.write_predicate(q, joined(test.logic, !holds, condition), mask);
    }

    pub(crate) fn compare_halves(
        &mut self,
        launch: &Launch<'_>,
        test: &Test,
        [p, q]: [P; 2],
        [a, b]: [R32; 2],
        mask: u32,
    ) {
        let condition = self.condition(test.condition);
        for (p, shift) in [(p, 0), (q, 16)] {
            let a = as_float(test.scalar, self.row_32(launch, a), shift);
            let b = as_float(test.scalar, self.row_32(launch, b), shift);
            let holds = ordered(test.comparison, &a, &b);
            self.write_predicate(p, joined(test.logic, holds, condition), mask);
        }
    }

    pub(crate) fn set(
        &mut self,
        launch: &Launch<'_>,
        test: &Test,
        d: Slot,
        [a, b]: [Slot; 2],
        one: u32,
        mask: u32,
    ) {
        let condition = self.condition(test.condition);
        let holds = joined(test.logic, self.holds(launch, test, a, b), condition);
        for lane in lanes_of(mask) {
            let value = if holds >> lane & 1 != 0 { one } else { 0 };
            self.write_lane(d, lane, value.into());
        }
    }

    pub(crate) fn set_halves(
        &mut self,
        launch: &Launch<'_>,
        test: &Test,
        d: R32,
        [a, b]: [R32; 2],
        one: u16,
        mask: u32,
    ) {
        let condition = self.condition(test.condition);
        let mut values = [0u32; 32];
        for shift in [0, 16] {
            let a = as_float(test.scalar, self.row_32(launch, a), shift);
            let b = as_float(test.scalar, self.row_32(launch, b), shift);
            let holds = joined(test.logic, ordered(test.comparison, &a, &b), condition);
            for lane in lanes_of(holds) {
                values[lane] |= u32::from(one) << shift;
            }
        }
        self.write_32(d, &values, mask);
    }

    #[inline]
    pub(crate) fn select_32(
        &mut self,
        launch: &Launch<'_>,
        d: R32,
        [a, b]: [R32; 2],
        condition: Condition,
        mask: u32,
    ) {
        let condition = self.condition(condition);
        let (a, b) = (self.row_32(launch, a), self.row_32(launch, b));
        let mut values = [0u32; 32];
        for lane in 0..32 {
            values[lane] = if condition >> lane & 1 != 0 {
                a[lane]
            } else {
                b[lane]
            };
        }
        self.write_32(d, &values, mask);
    }

    #[inline]
    pub(crate) fn select_64(
        &mut self,
        launch: &Launch<'_>,
        d: R64,
        [a, b]: [R64; 2],
        condition: Condition,
        mask: u32,
    ) {
        let condition = self.condition(condition);
        let (a, b) = (self.row_64(launch, a), self.row_64(launch, b));
        let mut values = [0u64; 32];
        for lane in 0..32 {
            values[lane] = if condition >> lane & 1 != 0 {
                a[lane]
            } else {
                b[lane]
            };
        }
        self.write_64(d, &values, mask);
    }

    pub(crate) fn select_by_sign(
        &mut self,
        launch: &Launch<'_>,
        is_float: bool,
        d: Slot,
        [a, b]: [Slot; 2],
        c: R32,
        mask: u32,
    ) {
        for lane in lanes_of(mask) {
            let c = self.row_32(launch, c)[lane];
            let first = match is_float {
                true => f32::from_bits(c) >= 0.0,
                false => c as i32 >= 0,
            };
            let value = self.lane_value(launch, if first { a } else { b }, lane);
            self.write_lane(d, lane, value);
        }
    }

    pub(crate) fn logic(&mut self, op: Logic, d: P, [a, b]: [Condition; 2], mask: u32) {
        let (a, b) = (self.condition(a), self.condition(b));
        self.write_predicate(d, joined(op, a, b), mask);
    }
}
