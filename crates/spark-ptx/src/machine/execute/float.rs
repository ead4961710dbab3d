//! Float arithmetic and conversions, 32 lanes at a time.

use crate::machine::launch::Launch;
use crate::machine::warp::{Warp, lanes_of};
use crate::program::{FloatOp, List, QuickConversion, R32, R64, Slot};

/// What NVIDIA's hardware gives where a result is no number.
const NAN_32: u32 = 0x7fff_ffff;

/// The bits of a result; a NaN has those of every NaN, whatever the machine here makes.
pub(super) fn canonical(value: f32) -> u32 {
    if value.is_nan() {
        NAN_32
    } else {
        value.to_bits()
    }
}

/// The smaller one; -0 is smaller than +0, and a number is preferred to NaN.
fn min_32(a: f32, b: f32) -> u32 {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => NAN_32,
        (true, _) => b.to_bits(),
        (_, true) => a.to_bits(),
        _ if a == b => a.to_bits() | b.to_bits(),
        _ => (if a < b { a } else { b }).to_bits(),
    }
}

fn max_32(a: f32, b: f32) -> u32 {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => NAN_32,
        (true, _) => b.to_bits(),
        (_, true) => a.to_bits(),
        _ if a == b => a.to_bits() & b.to_bits(),
        _ => (if a > b { a } else { b }).to_bits(),
    }
}

/// What NVIDIA's hardware gives in f64 where a result is no number.
const NAN_64: u64 = 0xfff8_0000_0000_0000;

/// The same in f64.
pub(super) fn canonical_64(value: f64) -> u64 {
    if value.is_nan() {
        NAN_64
    } else {
        value.to_bits()
    }
}

fn min_64(a: f64, b: f64) -> u64 {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => NAN_64,
        (true, _) => b.to_bits(),
        (_, true) => a.to_bits(),
        _ if a == b => a.to_bits() | b.to_bits(),
        _ => (if a < b { a } else { b }).to_bits(),
    }
}

fn max_64(a: f64, b: f64) -> u64 {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => NAN_64,
        (true, _) => b.to_bits(),
        (_, true) => a.to_bits(),
        _ if a == b => a.to_bits() & b.to_bits(),
        _ => (if a > b { a } else { b }).to_bits(),
    }
}

macro_rules! lanes {
    ($f:expr) => {{
        let f = $f;
        let mut d = [Default::default(); 32];
        for lane in 0..32 {
            d[lane] = f(lane);
        }
        d
    }};
}

impl Warp {
    #[inline]
    pub(crate) fn float_32(
        &mut self,
        launch: &Launch<'_>,
        op: FloatOp,
        d: R32,
        [a, b, c]: [R32; 3],
        mask: u32,
    ) {
        let a = self.row_32(launch, a);
        let b = self.row_32(launch, b);
        let c = self.row_32(launch, c);
        let f = f32::from_bits;
        let values: [u32; 32] = match op {
            FloatOp::Add => lanes!(|i: usize| canonical(f(a[i]) + f(b[i]))),
            FloatOp::Sub => lanes!(|i: usize| canonical(f(a[i]) - f(b[i]))),
            FloatOp::Mul => lanes!(|i: usize| canonical(f(a[i]) * f(b[i]))),
            FloatOp::Fma => lanes!(|i: usize| canonical(fused_32(f(a[i]), f(b[i]), f(c[i])))),
            FloatOp::Div => lanes!(|i: usize| canonical(f(a[i]) / f(b[i]))),
            FloatOp::Sqrt => lanes!(|i: usize| canonical(f(a[i]).sqrt())),
            FloatOp::Rcp => lanes!(|i: usize| canonical(1.0 / f(a[i]))),
            FloatOp::Min => lanes!(|i: usize| min_32(f(a[i]), f(b[i]))),
            FloatOp::Max => lanes!(|i: usize| max_32(f(a[i]), f(b[i]))),
            FloatOp::Abs => lanes!(|i: usize| a[i] & 0x7fff_ffff),
            FloatOp::Neg => lanes!(|i: usize| a[i] ^ 0x8000_0000),
        };
        self.write_32(d, &values, mask);
    }

    #[inline]
    pub(crate) fn float_64(
        &mut self,
        launch: &Launch<'_>,
        op: FloatOp,
        d: R64,
        [a, b, c]: [R64; 3],
        mask: u32,
    ) {
        let a = self.row_64(launch, a);
        let b = self.row_64(launch, b);
        let c = self.row_64(launch, c);
        let f = f64::from_bits;
        let values: [u64; 32] = match op {
            FloatOp::Add => lanes!(|i: usize| canonical_64(f(a[i]) + f(b[i]))),
            FloatOp::Sub => lanes!(|i: usize| canonical_64(f(a[i]) - f(b[i]))),
            FloatOp::Mul => lanes!(|i: usize| canonical_64(f(a[i]) * f(b[i]))),
            FloatOp::Fma => lanes!(|i: usize| canonical_64(f(a[i]).mul_add(f(b[i]), f(c[i])))),
            FloatOp::Div => lanes!(|i: usize| canonical_64(f(a[i]) / f(b[i]))),
            FloatOp::Sqrt => lanes!(|i: usize| canonical_64(f(a[i]).sqrt())),
            FloatOp::Rcp => lanes!(|i: usize| canonical_64(1.0 / f(a[i]))),
            FloatOp::Min => lanes!(|i: usize| min_64(f(a[i]), f(b[i]))),
            FloatOp::Max => lanes!(|i: usize| max_64(f(a[i]), f(b[i]))),
            FloatOp::Abs => lanes!(|i: usize| a[i] & (u64::MAX >> 1)),
            FloatOp::Neg => lanes!(|i: usize| a[i] ^ (1 << 63)),
        };
        self.write_64(d, &values, mask);
    }

    /// Arithmetic by its form, lane by lane.
    pub(crate) fn float_form(&mut self, launch: &Launch<'_>, form: u32, list: List, mask: u32) {
        let form = &launch.program.forms.float[form as usize];
        let Some((d, sources)) = launch.program.list(list).split_first() else {
            return;
        };
        let mut values = [0u64; 3];
        for lane in lanes_of(mask) {
            for (value, source) in values.iter_mut().zip(sources) {
                *value = self.lane_value(launch, *source, lane);
            }
            let result = form.apply(&values[..sources.len().min(3)]);
            self.write_lane(*d, lane, result);
        }
    }

    pub(crate) fn convert_form(&mut self, launch: &Launch<'_>, form: u32, list: List, mask: u32) {
        let form = &launch.program.forms.convert[form as usize];
        let Some((d, sources)) = launch.program.list(list).split_first() else {
            return;
        };
        let mut values = [0u64; 4];
        for lane in lanes_of(mask) {
            for (value, source) in values.iter_mut().zip(sources) {
                *value = self.lane_value(launch, *source, lane);
            }
            let result = form.conversion.apply(&values[..sources.len().min(4)]);
            let unused = 64 - form.bits;
            let extended = match form.signed {
                true => ((result << unused) as i64 >> unused) as u64,
                false => result << unused >> unused,
            };
            self.write_lane(*d, lane, extended & (u64::MAX >> (64 - form.width)));
        }
    }

    #[inline]
    pub(crate) fn quick_convert(
        &mut self,
        launch: &Launch<'_>,
        conversion: QuickConversion,
        d: Slot,
        a: Slot,
        mask: u32,
    ) {
        match (d, a) {
            (Slot::W64(d), Slot::W32(a)) => {
                let a = self.row_32(launch, a);
                let values: [u64; 32] = match conversion {
                    QuickConversion::S32ToS64 => lanes!(|i: usize| a[i] as i32 as i64 as u64),
                    QuickConversion::F32ToF64 => {
                        lanes!(|i: usize| canonical_64(f64::from(f32::from_bits(a[i]))))
                    }
                    _ => lanes!(|i: usize| u64::from(a[i])),
                };
                self.write_64(d, &values, mask);
            }
            (Slot::W32(d), Slot::W64(a)) => {
                let a = self.row_64(launch, a);
                let values: [u32; 32] = match conversion {
                    QuickConversion::F64ToF32 => {
                        lanes!(|i: usize| narrowed(a[i]))
                    }
                    _ => lanes!(|i: usize| a[i] as u32),
                };
                self.write_32(d, &values, mask);
            }
            (Slot::W32(d), Slot::W32(a)) => {
                let a = self.row_32(launch, a);
                let values: [u32; 32] = match conversion {
                    QuickConversion::S32ToF32 => {
                        lanes!(|i: usize| (a[i] as i32 as f32).to_bits())
                    }
                    QuickConversion::U32ToF32 => lanes!(|i: usize| (a[i] as f32).to_bits()),
                    QuickConversion::F32ToS32 => {
                        lanes!(|i: usize| f32::from_bits(a[i]) as i32 as u32)
                    }
                    _ => lanes!(|i: usize| a[i] & 0xffff),
                };
                self.write_32(d, &values, mask);
            }
            _ => {}
        }
    }
}

/// a * b + c, rounded once, from f64: the product is exact there, and a sum that was rounded to
/// odd rounds to f32 as the exact one does (Boldo and Melquiond, 2008).
#[inline(always)]
fn fused_32(a: f32, b: f32, c: f32) -> f32 {
    let product = f64::from(a) * f64::from(b);
    let addend = f64::from(c);
    let sum = product + addend;
    let back = sum - product;
    let error = (product - (sum - back)) + (addend - back);
    let bits = sum.to_bits();
    // Towards the error, if the sum is not exact and even. Infinite sums and NaN have no error.
    let is_away = (error > 0.0) == (sum > 0.0);
    let odd = if is_away {
        bits | 1
    } else {
        bits.wrapping_sub(1) | 1
    };
    let is_inexact = error != 0.0 && error.abs() < f64::INFINITY && bits & 1 == 0;
    f64::from_bits(if is_inexact { odd } else { bits }) as f32
}

/// f32 of an f64, to nearest; a NaN keeps the highest bits of what it holds and becomes quiet, as an
/// H100 has it.
fn narrowed(bits: u64) -> u32 {
    let value = f64::from_bits(bits);
    if value.is_nan() {
        return (bits >> 32) as u32 & 0x8000_0000 | 0x7FC0_0000 | (bits >> 29) as u32 & 0x3F_FFFF;
    }
    (value as f32).to_bits()
}

#[cfg(test)]
mod tests {
    use super::fused_32;

    #[test]
    fn sums_from_f64_are_rounded_once() {
        let mut state = 1u64;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 32) as u32
        };
        for round in 0..2_000_000 {
            let mut draw = || f32::from_bits(next());
            let (a, b) = (draw(), draw());
            // Half of the addends lie close to the product, where bits cancel.
            let near = f32::from_bits((a * b).to_bits() ^ (next() & 0x8000_000f));
            let c = if round % 2 == 0 {
                f32::from_bits(next())
            } else {
                near
            };
            let (got, want) = (fused_32(a, b, c), a.mul_add(b, c));
            let same = got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan();
            assert!(same, "fma({a:e}, {b:e}, {c:e}) = {want:e}, not {got:e}");
        }
    }
}
