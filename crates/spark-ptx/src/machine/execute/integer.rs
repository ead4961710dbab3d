//! Integer instructions, 32 lanes at a time.
//!
//! One `match` chooses the loop; the loop has no branch, so that the compiler makes vectors of it.
//! Lanes that are switched off are computed and dropped: nothing here can fail.

use crate::machine::launch::Launch;
use crate::machine::warp::{Warp, lanes_where};
use crate::program::{ByteOp, CarryOp, Condition, IntOp, List, Logic, P, Permute, R32, R64, Slot};

#[inline(always)]
fn map1<T: Copy, U: Copy + Default>(a: &[T; 32], f: impl Fn(T) -> U) -> [U; 32] {
    let mut d = [U::default(); 32];
    for lane in 0..32 {
        d[lane] = f(a[lane]);
    }
    d
}

#[inline(always)]
fn map2<T: Copy, U: Copy + Default>(a: &[T; 32], b: &[T; 32], f: impl Fn(T, T) -> U) -> [U; 32] {
    let mut d = [U::default(); 32];
    for lane in 0..32 {
        d[lane] = f(a[lane], b[lane]);
    }
    d
}

#[inline(always)]
fn map3<T: Copy, U: Copy + Default>(
    a: &[T; 32],
    b: &[T; 32],
    c: &[T; 32],
    f: impl Fn(T, T, T) -> U,
) -> [U; 32] {
    let mut d = [U::default(); 32];
    for lane in 0..32 {
        d[lane] = f(a[lane], b[lane], c[lane]);
    }
    d
}

/// The operations on one width: `$t` unsigned, `$s` signed, `$w` twice as wide, and its signed.
macro_rules! operations {
    ($name:ident, $t:ty, $s:ty, $w:ty, $sw:ty) => {
        fn $name(op: IntOp, a: &[$t; 32], b: &[$t; 32], c: &[$t; 32]) -> [$t; 32] {
            const BITS: u32 = <$t>::BITS;
            let high_u = |a: $t, b: $t| ((a as $w * b as $w) >> BITS) as $t;
            let high_s = |a: $t, b: $t| ((a as $s as $sw * b as $s as $sw) >> BITS) as $t;
            match op {
                IntOp::Add => map2(a, b, |a, b| a.wrapping_add(b)),
                IntOp::Sub => map2(a, b, |a, b| a.wrapping_sub(b)),
                IntOp::MulLo => map2(a, b, |a, b| a.wrapping_mul(b)),
                IntOp::MulHiU => map2(a, b, high_u),
                IntOp::MulHiS => map2(a, b, high_s),
                IntOp::MadLo => map3(a, b, c, |a, b, c| a.wrapping_mul(b).wrapping_add(c)),
                IntOp::MadHiU => map3(a, b, c, |a, b, c| high_u(a, b).wrapping_add(c)),
                IntOp::MadHiS => map3(a, b, c, |a, b, c| high_s(a, b).wrapping_add(c)),
                IntOp::MadHiSatS => map3(a, b, c, |a, b, c| {
                    (high_s(a, b) as $s).saturating_add(c as $s) as $t
                }),
                // What a division by zero gives is nowhere written; ptxas folds it to all ones.
                IntOp::DivU => map2(a, b, |a, b| a.checked_div(b).unwrap_or(<$t>::MAX)),
                IntOp::RemU => map2(a, b, |a, b| a.checked_rem(b).unwrap_or(<$t>::MAX)),
                IntOp::DivS => map2(a, b, |a, b| match b {
                    0 => <$t>::MAX,
                    _ => (a as $s).wrapping_div(b as $s) as $t,
                }),
                IntOp::RemS => map2(a, b, |a, b| match b {
                    0 => <$t>::MAX,
                    _ => (a as $s).wrapping_rem(b as $s) as $t,
                }),
                IntOp::MinU => map2(a, b, |a, b| a.min(b)),
                IntOp::MaxU => map2(a, b, |a, b| a.max(b)),
                IntOp::MinS => map2(a, b, |a, b| (a as $s).min(b as $s) as $t),
                IntOp::MaxS => map2(a, b, |a, b| (a as $s).max(b as $s) as $t),
                IntOp::MinSRelu => map2(a, b, |a, b| (a as $s).min(b as $s).max(0) as $t),
                IntOp::MaxSRelu => map2(a, b, |a, b| (a as $s).max(b as $s).max(0) as $t),
                IntOp::Abs => map1(a, |a| (a as $s).wrapping_abs() as $t),
                IntOp::Neg => map1(a, |a| a.wrapping_neg()),
                IntOp::And => map2(a, b, |a, b| a & b),
                IntOp::Or => map2(a, b, |a, b| a | b),
                IntOp::Xor => map2(a, b, |a, b| a ^ b),
                IntOp::Not => map1(a, |a| !a),
                IntOp::Cnot => map1(a, |a| <$t>::from(a == 0)),
                IntOp::SadU => map3(a, b, c, |a, b, c| a.abs_diff(b).wrapping_add(c)),
                IntOp::SadS => map3(a, b, c, |a, b, c| {
                    (a as $s).abs_diff(b as $s).wrapping_add(c)
                }),
                IntOp::Brev => map1(a, <$t>::reverse_bits),
                IntOp::Popc => map1(a, |a| a.count_ones() as $t),
                IntOp::Clz => map1(a, |a| a.leading_zeros() as $t),
                IntOp::AddSatS => map2(a, b, |a, b| (a as $s).saturating_add(b as $s) as $t),
                IntOp::SubSatS => map2(a, b, |a, b| (a as $s).saturating_sub(b as $s) as $t),
                IntOp::BfindU | IntOp::BfindS | IntOp::BfindShiftU | IntOp::BfindShiftS => {
                    let signed = matches!(op, IntOp::BfindS | IntOp::BfindShiftS);
                    let shift = matches!(op, IntOp::BfindShiftU | IntOp::BfindShiftS);
                    map1(a, |a| {
                        let negative = signed && (a as $s) < 0;
                        let zeros = (if negative { !a } else { a }).leading_zeros();
                        match zeros {
                            BITS => <$t>::from(0u8).wrapping_sub(1),
                            _ if shift => zeros as $t,
                            _ => (BITS - 1 - zeros) as $t,
                        }
                    })
                }
                _ => *a,
            }
        }
    };
}

operations!(on_32, u32, i32, u64, i64);
operations!(on_64, u64, i64, u128, i128);

/// Operations that 32 bits alone have, and shifts, whose amounts always have 32 bits.
fn only_32(op: IntOp, a: &[u32; 32], b: &[u32; 32], c: &[u32; 32]) -> Option<[u32; 32]> {
    let cut = |a: u32| u64::from(a & 0xff_ffff);
    let sign = |a: u32| i64::from((a << 8) as i32 >> 8);
    let low_u = |a, b| (cut(a) * cut(b)) as u32;
    let low_s = |a, b| (sign(a) * sign(b)) as u32;
    let high_u = |a, b| ((cut(a) * cut(b)) >> 16) as u32;
    let high_s = |a, b| ((sign(a) * sign(b)) >> 16) as u32;
    Some(match op {
        IntOp::Shl => map2(a, b, |a, b| if b < 32 { a << b } else { 0 }),
        IntOp::ShrU => map2(a, b, |a, b| if b < 32 { a >> b } else { 0 }),
        IntOp::ShrS => map2(a, b, |a, b| ((a as i32) >> b.min(31)) as u32),
        IntOp::Mul24LoU => map2(a, b, low_u),
        IntOp::Mul24LoS => map2(a, b, low_s),
        IntOp::Mul24HiU => map2(a, b, high_u),
        IntOp::Mul24HiS => map2(a, b, high_s),
        IntOp::Mad24LoU => map3(a, b, c, |a, b, c| low_u(a, b).wrapping_add(c)),
        IntOp::Mad24LoS => map3(a, b, c, |a, b, c| low_s(a, b).wrapping_add(c)),
        IntOp::Mad24HiU => map3(a, b, c, |a, b, c| high_u(a, b).wrapping_add(c)),
        IntOp::Mad24HiS => map3(a, b, c, |a, b, c| high_s(a, b).wrapping_add(c)),
        IntOp::BfeU | IntOp::BfeS => map3(a, b, c, |a, pos, len| {
            let value = u64::from(a);
            field(value, pos & 255, len & 255, 32, op == IntOp::BfeS) as u32
        }),
        IntOp::BmskClamp => map2(a, b, |a, b| bit_mask(a.min(32), b.min(32))),
        IntOp::BmskWrap => map2(a, b, |a, b| bit_mask(a & 31, b & 31)),
        IntOp::SzextClampS => map2(a, b, |a, b| extended(a, b, true)),
        IntOp::SzextClampU => map2(a, b, |a, b| extended(a, b, false)),
        IntOp::SzextWrapS => map2(a, b, |a, b| extended(a, b & 31, true)),
        IntOp::SzextWrapU => map2(a, b, |a, b| extended(a, b & 31, false)),
        _ => return None,
    })
}

/// `len` bits from `position` on; a signed field that leaves the value repeats its top bit.
fn field(value: u64, position: u32, len: u32, bits: u32, signed: bool) -> u64 {
    let top = (u64::from(position) + u64::from(len))
        .saturating_sub(1)
        .min(u64::from(bits) - 1);
    let is_negative = signed && len != 0 && value >> top & 1 != 0;
    let shifted = if position < bits {
        value >> position
    } else {
        0
    };
    let n = len.min(bits.saturating_sub(position));
    let mask = if n >= 64 { u64::MAX } else { (1 << n) - 1 };
    let low = shifted & mask;
    if is_negative { low | !mask } else { low }
}

fn bit_mask(position: u32, len: u32) -> u32 {
    let ones = if len >= 32 {
        u64::from(u32::MAX)
    } else {
        (1u64 << len) - 1
    };
    (ones << position.min(32)) as u32
}

fn extended(a: u32, len: u32, signed: bool) -> u32 {
    match len {
        0 => 0,
        32.. => a,
        _ if signed => ((a << (32 - len)) as i32 >> (32 - len)) as u32,
        _ => a & ((1 << len) - 1),
    }
}

impl Warp {
    #[inline]
    pub(crate) fn int_32(
        &mut self,
        launch: &Launch<'_>,
        op: IntOp,
        d: R32,
        [a, b, c]: [R32; 3],
        mask: u32,
    ) {
        let a = self.row_32(launch, a);
        let b = self.row_32(launch, b);
        let c = self.row_32(launch, c);
        let values = match op {
            IntOp::Add => map2(a, b, u32::wrapping_add),
            IntOp::MadLo => map3(a, b, c, |a, b, c| a.wrapping_mul(b).wrapping_add(c)),
            _ => only_32(op, a, b, c).unwrap_or_else(|| on_32(op, a, b, c)),
        };
        self.write_32(d, &values, mask);
    }

    pub(crate) fn int_16(
        &mut self,
        launch: &Launch<'_>,
        op: IntOp,
        signed: bool,
        d: R32,
        sources: [R32; 3],
        mask: u32,
    ) {
        let is_shift = matches!(op, IntOp::Shl | IntOp::ShrS | IntOp::ShrU);
        let mut idx = 0;
        let rows = sources.map(|source| {
            let is_amount = is_shift && idx == 1;
            idx += 1;
            let row = self.row_32(launch, source);
            match (is_amount, signed) {
                (true, _) => *row,
                (_, true) => map1(row, |a| a as u16 as i16 as u32),
                _ => map1(row, |a| a & 0xffff),
            }
        });
        let values = sixteen(op, signed, &rows);
        self.write_32(d, &map1(&values, |value| value & 0xffff), mask);
    }

    pub(crate) fn int_16x2(
        &mut self,
        launch: &Launch<'_>,
        op: IntOp,
        signed: bool,
        d: R32,
        [a, b]: [R32; 2],
        mask: u32,
    ) {
        let rows = [*self.row_32(launch, a), *self.row_32(launch, b)];
        let mut values = [0u32; 32];
        for shift in [0, 16] {
            let [a, b] = rows.map(|row| {
                map1(&row, |a| {
                    let half = (a >> shift) as u16;
                    if signed {
                        half as i16 as u32
                    } else {
                        u32::from(half)
                    }
                })
            });
            let half = sixteen(op, signed, &[a, b, b]);
            for lane in 0..32 {
                values[lane] |= (half[lane] & 0xffff) << shift;
            }
        }
        self.write_32(d, &values, mask);
    }

    #[inline]
    pub(crate) fn int_64(
        &mut self,
        launch: &Launch<'_>,
        op: IntOp,
        d: R64,
        [a, b, c]: [R64; 3],
        mask: u32,
    ) {
        let a = self.row_64(launch, a);
        let b = self.row_64(launch, b);
        let c = self.row_64(launch, c);
        let values = match op {
            IntOp::Add => map2(a, b, u64::wrapping_add),
            _ => on_64(op, a, b, c),
        };
        self.write_64(d, &values, mask);
    }

    pub(crate) fn shift_64(
        &mut self,
        launch: &Launch<'_>,
        op: IntOp,
        d: R64,
        a: R64,
        [b, c]: [R32; 2],
        mask: u32,
    ) {
        let a = *self.row_64(launch, a);
        let b = *self.row_32(launch, b);
        let c = *self.row_32(launch, c);
        let mut values = [0u64; 32];
        for lane in 0..32 {
            let (a, b, c) = (a[lane], b[lane], c[lane]);
            values[lane] = match op {
                IntOp::Shl => {
                    if b < 64 {
                        a << b
                    } else {
                        0
                    }
                }
                IntOp::ShrU => {
                    if b < 64 {
                        a >> b
                    } else {
                        0
                    }
                }
                IntOp::ShrS => ((a as i64) >> b.min(63)) as u64,
                // Unlike 32 bits, where the low byte counts, the whole position does.
                _ => field(a, b, c, 64, op == IntOp::BfeS),
            };
        }
        self.write_64(d, &values, mask);
    }

    pub(crate) fn count_64(&mut self, launch: &Launch<'_>, op: IntOp, d: R32, a: R64, mask: u32) {
        let a = *self.row_64(launch, a);
        let values = map1(&on_64(op, &a, &a, &a), |value| value as u32);
        self.write_32(d, &values, mask);
    }

    #[inline]
    pub(crate) fn mul_wide(
        &mut self,
        launch: &Launch<'_>,
        signed: bool,
        d: R64,
        [a, b]: [R32; 2],
        c: R64,
        mask: u32,
    ) {
        let (a, b) = (self.row_32(launch, a), self.row_32(launch, b));
        let c = self.row_64(launch, c);
        let mut values = [0u64; 32];
        if signed {
            for lane in 0..32 {
                let product = i64::from(a[lane] as i32) * i64::from(b[lane] as i32);
                values[lane] = (product as u64).wrapping_add(c[lane]);
            }
        } else {
            for lane in 0..32 {
                values[lane] = (u64::from(a[lane]) * u64::from(b[lane])).wrapping_add(c[lane]);
            }
        }
        self.write_64(d, &values, mask);
    }

    pub(crate) fn mul_wide_16(
        &mut self,
        launch: &Launch<'_>,
        signed: bool,
        d: R32,
        [a, b, c]: [R32; 3],
        mask: u32,
    ) {
        let (a, b) = (self.row_32(launch, a), self.row_32(launch, b));
        let c = self.row_32(launch, c);
        let values = map3(a, b, c, |a, b, c| {
            let product = match signed {
                true => (i32::from(a as u16 as i16) * i32::from(b as u16 as i16)) as u32,
                false => (a & 0xffff).wrapping_mul(b & 0xffff),
            };
            product.wrapping_add(c)
        });
        self.write_32(d, &values, mask);
    }

    pub(crate) fn insert_field(
        &mut self,
        launch: &Launch<'_>,
        d: R32,
        [a, b, position, len]: [R32; 4],
        mask: u32,
    ) {
        let [a, b, position, len] = [a, b, position, len].map(|r| *self.row_32(launch, r));
        let mut values = [0u32; 32];
        for lane in 0..32 {
            let (position, len) = (position[lane] & 255, len[lane] & 255);
            values[lane] = inserted(a[lane].into(), b[lane].into(), position, len, 32) as u32;
        }
        self.write_32(d, &values, mask);
    }

    pub(crate) fn insert_field_64(
        &mut self,
        launch: &Launch<'_>,
        d: R64,
        [a, b]: [R64; 2],
        [position, len]: [R32; 2],
        mask: u32,
    ) {
        let [a, b] = [a, b].map(|r| *self.row_64(launch, r));
        let [position, len] = [position, len].map(|r| *self.row_32(launch, r));
        let mut values = [0u64; 32];
        for lane in 0..32 {
            values[lane] = inserted(a[lane], b[lane], position[lane], len[lane], 64);
        }
        self.write_64(d, &values, mask);
    }

    pub(crate) fn lop3(
        &mut self,
        launch: &Launch<'_>,
        d: R32,
        [a, b, c]: [R32; 3],
        table: u8,
        mask: u32,
    ) {
        let values = self.table_of_bits(launch, [a, b, c], table);
        self.write_32(d, &values, mask);
    }

    pub(crate) fn lop3_test(
        &mut self,
        launch: &Launch<'_>,
        (d, p): (Slot, P),
        (sources, table): (List, u8),
        (logic, condition): (Logic, Condition),
        mask: u32,
    ) {
        let [Slot::W32(a), Slot::W32(b), Slot::W32(c)] = *launch.program.list(sources) else {
            return;
        };
        let values = self.table_of_bits(launch, [a, b, c], table);
        let has_bits = lanes_where(u32::MAX, |lane| values[lane] != 0);
        let condition = self.condition(condition);
        let holds = match logic {
            Logic::And => has_bits & condition,
            _ => has_bits | condition,
        };
        self.write_slot(d, &values.map(u64::from), mask);
        self.write_predicate(p, holds, mask);
    }

    /// Each bit by a table of the bits of three rows.
    fn table_of_bits(&self, launch: &Launch<'_>, [a, b, c]: [R32; 3], table: u8) -> [u32; 32] {
        let (a, b) = (self.row_32(launch, a), self.row_32(launch, b));
        let c = self.row_32(launch, c);
        map3(a, b, c, |a, b, c| {
            let mut result = 0;
            for entry in 0..8 {
                if table >> entry & 1 != 0 {
                    let a = if entry & 4 != 0 { a } else { !a };
                    let b = if entry & 2 != 0 { b } else { !b };
                    let c = if entry & 1 != 0 { c } else { !c };
                    result |= a & b & c;
                }
            }
            result
        })
    }

    pub(crate) fn permute(
        &mut self,
        launch: &Launch<'_>,
        mode: Permute,
        d: R32,
        [a, b, c]: [R32; 3],
        mask: u32,
    ) {
        let (a, b) = (self.row_32(launch, a), self.row_32(launch, b));
        let c = self.row_32(launch, c);
        let values = map3(a, b, c, |a, b, c| permuted(mode, a, b, c));
        self.write_32(d, &values, mask);
    }

    pub(crate) fn funnel(
        &mut self,
        launch: &Launch<'_>,
        (left, wrap): (bool, bool),
        d: R32,
        [a, b, c]: [R32; 3],
        mask: u32,
    ) {
        let (a, b) = (self.row_32(launch, a), self.row_32(launch, b));
        let c = self.row_32(launch, c);
        let values = map3(a, b, c, |a, b, c| {
            let value = u64::from(b) << 32 | u64::from(a);
            let n = if wrap { c & 31 } else { c.min(32) };
            match left {
                true => ((value << n) >> 32) as u32,
                false => (value >> n) as u32,
            }
        });
        self.write_32(d, &values, mask);
    }

    pub(crate) fn carry_32(
        &mut self,
        launch: &Launch<'_>,
        op: CarryOp,
        (reads, writes): (bool, bool),
        d: R32,
        sources: [R32; 3],
        mask: u32,
    ) {
        let [a, b, c] = sources.map(|r| *self.row_32(launch, r));
        let mut values = [0u32; 32];
        let mut carries = 0u32;
        for lane in 0..32 {
            let (a, b, c) = (u64::from(a[lane]), u64::from(b[lane]), u64::from(c[lane]));
            let carry = u64::from(reads && self.carry >> lane & 1 != 0);
            let (low, high) = match op {
                CarryOp::Add => (a, b),
                CarryOp::Sub => (a, b),
                CarryOp::MadLo => ((a * b) & 0xffff_ffff, c),
                CarryOp::MadHiU => ((a * b) >> 32, c),
                CarryOp::MadHiS => {
                    let product = i64::from(a as u32 as i32) * i64::from(b as u32 as i32);
                    (product as u64 >> 32, c)
                }
            };
            let result = match op {
                CarryOp::Sub => low.wrapping_sub(high).wrapping_sub(carry),
                _ => low + high + carry,
            };
            values[lane] = result as u32;
            carries |= ((result >> 32 & 1) as u32) << lane;
        }
        if writes {
            self.carry = self.carry & !mask | carries & mask;
        }
        self.write_32(d, &values, mask);
    }

    pub(crate) fn carry_64(
        &mut self,
        launch: &Launch<'_>,
        op: CarryOp,
        (reads, writes): (bool, bool),
        d: R64,
        sources: [R64; 3],
        mask: u32,
    ) {
        let [a, b, c] = sources.map(|r| *self.row_64(launch, r));
        let mut values = [0u64; 32];
        let mut carries = 0u32;
        for lane in 0..32 {
            let (a, b, c) = (
                u128::from(a[lane]),
                u128::from(b[lane]),
                u128::from(c[lane]),
            );
            let carry = u128::from(reads && self.carry >> lane & 1 != 0);
            let (low, high) = match op {
                CarryOp::Add | CarryOp::Sub => (a, b),
                CarryOp::MadLo => ((a * b) & u128::from(u64::MAX), c),
                CarryOp::MadHiU => ((a * b) >> 64, c),
                CarryOp::MadHiS => {
                    let product = i128::from(a as u64 as i64) * i128::from(b as u64 as i64);
                    (product as u128 >> 64, c)
                }
            };
            let result = match op {
                CarryOp::Sub => low.wrapping_sub(high).wrapping_sub(carry),
                _ => low + high + carry,
            };
            values[lane] = result as u64;
            carries |= ((result >> 64 & 1) as u32) << lane;
        }
        if writes {
            self.carry = self.carry & !mask | carries & mask;
        }
        self.write_64(d, &values, mask);
    }

    pub(crate) fn bytes(
        &mut self,
        launch: &Launch<'_>,
        op: ByteOp,
        d: R32,
        [a, b, c]: [R32; 3],
        mask: u32,
    ) {
        let (a, b) = (self.row_32(launch, a), self.row_32(launch, b));
        let c = self.row_32(launch, c);
        let values = map3(a, b, c, |a, b, c| of_bytes(op, a, b, c));
        self.write_32(d, &values, mask);
    }
}

fn sixteen(op: IntOp, signed: bool, rows: &[[u32; 32]; 3]) -> [u32; 32] {
    let [a, b, c] = rows;
    let high_halves = || {
        let products = on_32(IntOp::MulLo, a, b, c);
        match signed {
            true => map1(&products, |product| ((product as i32) >> 16) as u32),
            false => map1(&products, |product| product >> 16),
        }
    };
    match op {
        IntOp::MulHiS | IntOp::MulHiU => high_halves(),
        IntOp::MadHiS | IntOp::MadHiU => on_32(IntOp::Add, &high_halves(), c, c),
        IntOp::Brev => map1(a, |a| a.reverse_bits() >> 16),
        IntOp::Popc => map1(a, |a| (a & 0xffff).count_ones()),
        _ => only_32(op, a, b, c).unwrap_or_else(|| on_32(op, a, b, c)),
    }
}

fn inserted(a: u64, b: u64, position: u32, len: u32, bits: u32) -> u64 {
    if position >= bits || len == 0 {
        return b;
    }
    let n = len.min(bits - position);
    let ones = if n >= 64 { u64::MAX } else { (1 << n) - 1 };
    b & !(ones << position) | (a & ones) << position
}

fn permuted(mode: Permute, a: u32, b: u32, c: u32) -> u32 {
    let n = c & 3;
    let rows = |rows: [u32; 4]| rows[n as usize];
    let selector = match mode {
        Permute::Selector => c,
        Permute::Forward4 => (n + 3) << 12 | (n + 2) << 8 | (n + 1) << 4 | n,
        Permute::Backward4 => rows([0x5670, 0x6701, 0x7012, 0x0123]),
        Permute::Replicate8 => n * 0x1111,
        Permute::EdgeLeft => rows([0x3210, 0x3211, 0x3222, 0x3333]),
        Permute::EdgeRight => rows([0x0000, 0x1110, 0x2210, 0x3210]),
        Permute::Replicate16 => rows([0x1010, 0x3232, 0x1010, 0x3232]),
    };
    let value = u64::from(b) << 32 | u64::from(a);
    let mut result = 0;
    for idx in 0..4 {
        let choice = selector >> (4 * idx) & 15;
        let byte = (value >> (8 * (choice & 7))) as u8;
        let byte = match choice & 8 {
            0 => byte,
            _ => ((byte as i8) >> 7) as u8,
        };
        result |= u32::from(byte) << (8 * idx);
    }
    result
}

fn of_bytes(op: ByteOp, a: u32, b: u32, c: u32) -> u32 {
    let byte = |value: u32, idx: usize, signed: bool| {
        let byte = value.to_le_bytes()[idx];
        if signed {
            i32::from(byte as i8)
        } else {
            i32::from(byte)
        }
    };
    let joined = |f: &dyn Fn(i32, i32) -> i32, signed: bool| {
        let bytes = std::array::from_fn(|i| f(byte(a, i, signed), byte(b, i, signed)) as u8);
        u32::from_le_bytes(bytes)
    };
    match op {
        ByteOp::Dp4a(a_signed, b_signed) => (0..4).fold(c, |sum, i| {
            let product = byte(a, i, a_signed) * byte(b, i, b_signed);
            sum.wrapping_add(product as u32)
        }),
        ByteOp::Dp2a(a_signed, b_signed, high) => (0..2).fold(c, |sum, i| {
            let half = (a >> (16 * i)) as u16;
            let half = if a_signed {
                i32::from(half as i16)
            } else {
                i32::from(half)
            };
            let product = half * byte(b, i + 2 * usize::from(high), b_signed);
            sum.wrapping_add(product as u32)
        }),
        ByteOp::AbsDiff4 {
            signed,
            accumulate: false,
        } => joined(&|a, b| (a - b).abs(), signed),
        ByteOp::AbsDiff4 {
            signed,
            accumulate: true,
        } => (0..4).fold(c, |sum, i| {
            let difference = (byte(a, i, signed) - byte(b, i, signed)).abs();
            sum.wrapping_add(difference as u32)
        }),
        ByteOp::AddBytes { signed } => joined(&|a, b| a + b, signed),
        ByteOp::SubBytes { signed } => joined(&|a, b| a - b, signed),
        ByteOp::MinBytes { signed } => joined(&|a, b| a.min(b), signed),
        ByteOp::MaxBytes { signed } => joined(&|a, b| a.max(b), signed),
    }
}
