//! Every operation of the trait that computes lane by lane, against plain arithmetic, bit for bit.

#![allow(unsafe_code, reason = "the trait's methods are unsafe")]

use super::Simd;
use crate::{Isa, dispatch};

const N: usize = 16;

/// Ordinary values, zeros, infinities, NaN, and what is below the normal range.
fn values() -> Vec<f32> {
    let mut values = vec![
        0.0,
        -0.0,
        f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        1e-40,
        -1e-40,
        f32::MAX,
        f32::MIN_POSITIVE,
    ];
    let mut bits = 1_u32;
    values.extend((0..87).map(|i| {
        bits = bits.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
        ((bits >> 8) as f32 / 65536.0 - 128.0) * if i % 2 == 0 { 1.0 } else { 1e-3 }
    }));
    values
}

/// Every answer for one vector of `a` and one of `b`.
#[inline(always)]
unsafe fn answer<S: Simd>(a: &[f32; N], b: &[f32; N], out: &mut Vec<[f32; N]>) {
    // SAFETY: no vector has more than 16 lanes; the caller's processor has the instruction set.
    unsafe {
        let (a, b) = (S::load(a.as_ptr()), S::load(b.as_ptr()));
        let (less, less_or_equal) = (S::less(a, b), S::less_or_equal(a, b));
        let (zero, one) = (S::splat(0.0), S::splat(1.0));
        let flag = |mask| S::select(mask, one, zero);
        // Whole numbers in -126..=127, as the method asks.
        let magic = S::splat(12_582_912.0);
        let whole = S::min(S::max(a, S::splat(-126.0)), S::splat(127.0));
        let shifted = S::add(whole, magic);
        let (sin, cos) = S::rotate_quarter_turns(shifted, a, b);
        let answers = [
            S::add(a, b),
            S::sub(a, b),
            S::mul(a, b),
            S::div(a, b),
            S::sqrt(a),
            S::abs(a),
            S::neg(a),
            S::max(a, b),
            S::min(a, b),
            flag(less),
            flag(less_or_equal),
            flag(S::and(less, S::less(a, zero))),
            flag(S::or(less, S::less(a, zero))),
            flag(S::not(less)),
            S::splat(f32::from(u8::from(S::any(less)))),
            S::select_less(a, b, b, a),
            S::zero_below(a, b, a),
            S::power_of_two(S::sub(shifted, magic)),
            sin,
            cos,
        ];
        for answer in answers {
            let mut lanes = [0.0; N];
            S::store(lanes.as_mut_ptr(), answer);
            out.push(lanes);
        }
    }
}

/// The same for one lane.
fn expected(a: f32, b: f32, any: bool) -> [f32; 20] {
    let flag = |is: bool| f32::from(u8::from(is));
    let max = |a: f32, b: f32| if a > b { a } else { b };
    let min = |a: f32, b: f32| if a < b { a } else { b };
    let shifted = min(max(a, -126.0), 127.0) + 12_582_912.0;
    let quarter = (shifted - 12_582_912.0) as i32;
    let (sin, cos) = match quarter.rem_euclid(4) {
        0 => (a, b),
        1 => (b, -a),
        2 => (-a, -b),
        _ => (-b, a),
    };
    [
        a + b,
        a - b,
        a * b,
        a / b,
        a.sqrt(),
        a.abs(),
        -a,
        max(a, b),
        min(a, b),
        flag(a < b),
        flag(a <= b),
        flag(a < b && a < 0.0),
        flag(a < b || a < 0.0),
        flag(!matches!(a.partial_cmp(&b), Some(std::cmp::Ordering::Less))),
        flag(any),
        if a < b { b } else { a },
        if a < b { 0.0 } else { a },
        f32::powi(2.0, quarter),
        sin,
        cos,
    ]
}

#[test]
fn every_instruction_set_computes_as_plain_arithmetic_does() {
    let values = values();
    let n = values.len();
    for isa in Isa::available() {
        let lanes = isa.lanes();
        for shift in [0, 1, 7, 40] {
            for first in (0..n).step_by(lanes) {
                let at = |i: usize| values[i % n];
                let a: [f32; N] = std::array::from_fn(|i| at(first + i));
                let b: [f32; N] = std::array::from_fn(|i| at((first + i) * 5 + shift));
                let mut answers = Vec::new();
                // SAFETY: `isa` is what this processor has.
                unsafe {
                    dispatch!(isa, answer(a: &[f32; N], b: &[f32; N], out: &mut Vec<[f32; N]>)
                        => (&a, &b, &mut answers));
                }
                let any = (0..lanes).any(|i| a[i] < b[i]);
                for i in 0..lanes {
                    for (k, want) in expected(a[i], b[i], any).into_iter().enumerate() {
                        let got = answers[k][i];
                        assert!(
                            got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(),
                            "{isa}, operation {k} of {} and {}: {got} instead of {want}",
                            a[i],
                            b[i]
                        );
                    }
                }
            }
        }
    }
}

/// The first `n` elements as bf16 and back.
#[inline(always)]
unsafe fn through_bf16<S: Simd>(from: &[f32; N], halves: &mut [u16; N], n: usize) -> [f32; N] {
    let mut back = [f32::NAN; N];
    // SAFETY: no vector has more than 16 lanes, and `n` is no more than those; the caller's processor has the
    // instruction set.
    unsafe {
        let v = S::load(from.as_ptr());
        let widened = match n == S::LANES {
            true => {
                S::store_bf16(halves.as_mut_ptr(), v);
                S::load_bf16(halves.as_ptr())
            }
            false => {
                S::store_first_bf16(halves.as_mut_ptr(), v, n);
                S::load_first_bf16(halves.as_ptr(), n)
            }
        };
        S::store(back.as_mut_ptr(), widened);
    }
    back
}

#[test]
fn every_instruction_set_holds_bf16_as_half_rounds_it() {
    #[inline(always)]
    unsafe fn check<S: Simd>(values: &[f32; N]) {
        for n in 1..=S::LANES {
            let mut halves = [7; N];
            // SAFETY: as for the function.
            let back = unsafe { through_bf16::<S>(values, &mut halves, n) };
            for (i, &value) in values[..n].iter().enumerate() {
                let want = half::bf16::from_f32(value);
                let got = half::bf16::from_bits(halves[i]);
                assert!(
                    got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(),
                    "{value:e} of {n}"
                );
                assert_eq!(
                    back[i].to_bits(),
                    got.to_f32().to_bits(),
                    "{value:e} of {n}"
                );
            }
            assert!(halves[n..].iter().all(|&half| half == 7), "{n} elements");
            assert!(back[n..S::LANES].iter().all(|&v| v == 0.0), "{n} elements");
        }
    }
    let mut values = values();
    // Ties, NaN that is none in the high half, what rounds to infinity.
    let words = [
        0x3f80_8000,
        0x3f81_8000,
        0x7f80_0001,
        0xff80_0001,
        0x7f7f_ffff,
        0x0000_8001,
    ];
    values.extend(words.map(f32::from_bits));
    for isa in Isa::available() {
        for first in 0..values.len() {
            let at = |i: usize| values[(first + i) % values.len()];
            let values: [f32; N] = std::array::from_fn(at);
            // SAFETY: `isa` is what this processor has.
            unsafe { dispatch!(isa, check(values: &[f32; N]) => (&values)) };
        }
    }
}
