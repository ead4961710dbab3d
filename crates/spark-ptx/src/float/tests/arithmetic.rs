//! Sums, products, quotients and roots: the exact core against the processor in f32 and f64, and
//! every rounding of f16, bf16 and f32 against rounding by definition.

use super::{check, form};
use crate::float::arithmetic::{
    add_exactly, divide_exactly, fused_multiply_add_exactly, multiply_exactly, square_root_exactly,
};
use crate::float::{FloatKind, Rounding};
use crate::oracle::{BF16, F16, F32, Random, Widths, decode, encode};

const NEAREST: Rounding = Rounding::NearestEven;
const ROUNDINGS: [(&str, Rounding); 4] = [
    ("rn", Rounding::NearestEven),
    ("rz", Rounding::TowardZero),
    ("rm", Rounding::Down),
    ("rp", Rounding::Up),
];

/// Codes of which many are subnormal, near each other, or short.
fn draw(random: &mut Random, exponent_bits: u32, mantissa_bits: u32) -> u64 {
    let bits = random.next();
    let mantissa = match random.below(4) {
        0 => bits & ((1 << mantissa_bits) - 1) & (u64::MAX << (mantissa_bits - 3)),
        1 => bits & 7,
        _ => bits & ((1 << mantissa_bits) - 1),
    };
    let middle = 1_u64 << (exponent_bits - 1);
    let field = match random.below(6) {
        0 => random.below(3),
        1 => random.below(1 << exponent_bits),
        2 => random.below(u64::from(mantissa_bits) + 3),
        _ => middle - 2 + random.below(4),
    };
    (bits >> 63) << (exponent_bits + mantissa_bits) | field << mantissa_bits | mantissa
}

#[track_caller]
fn check_f32(operation: &str, codes: &[u64], got: u64, want: f32) {
    let want = if want.is_nan() {
        0x7FFF_FFFF
    } else {
        want.to_bits()
    };
    assert_eq!(got, u64::from(want), "{operation} {codes:X?}");
}

#[track_caller]
fn check_f64(operation: &str, codes: &[u64], got: u64, want: f64) {
    let got_value = f64::from_bits(got);
    assert!(
        got == want.to_bits() || got_value.is_nan() && want.is_nan(),
        "{operation} {codes:X?}: {got:X}, not {:X}",
        want.to_bits()
    );
}

#[test]
fn the_exact_core_rounds_as_the_processor_does_in_f32() {
    let mut random = Random(1);
    for _ in 0..1_000_000 {
        let codes: [u64; 3] = std::array::from_fn(|_| draw(&mut random, 8, 23));
        let [a, b, _] = codes;
        let [x, y, z] = codes.map(|code| f32::from_bits(code as u32));
        let kind = FloatKind::F32;
        check_f32("add", &codes, add_exactly(kind, a, b, NEAREST), x + y);
        check_f32("mul", &codes, multiply_exactly(kind, a, b, NEAREST), x * y);
        check_f32("div", &codes, divide_exactly(kind, a, b, NEAREST), x / y);
        let fused = fused_multiply_add_exactly(kind, codes, NEAREST);
        check_f32("fma", &codes, fused, x.mul_add(y, z));
        check_f32(
            "sqrt",
            &codes,
            square_root_exactly(kind, a, NEAREST),
            x.sqrt(),
        );
    }
}

#[test]
fn the_exact_core_rounds_as_the_processor_does_in_f64() {
    let mut random = Random(2);
    for _ in 0..1_000_000 {
        let mut codes: [u64; 3] = std::array::from_fn(|_| draw(&mut random, 11, 52));
        if random.below(4) == 0 {
            // Sums that cancel: c near the negative product.
            let product = f64::from_bits(codes[0]) * f64::from_bits(codes[1]);
            codes[2] = (-product).to_bits() ^ random.below(4);
        }
        let [a, b, c] = codes;
        let [x, y, z] = codes.map(f64::from_bits);
        let kind = FloatKind::F64;
        check_f64("add", &codes, add_exactly(kind, a, c, NEAREST), x + z);
        check_f64("mul", &codes, multiply_exactly(kind, a, b, NEAREST), x * y);
        check_f64("div", &codes, divide_exactly(kind, a, b, NEAREST), x / y);
        let fused = fused_multiply_add_exactly(kind, codes, NEAREST);
        check_f64("fma", &codes, fused, x.mul_add(y, z));
        check_f64(
            "sqrt",
            &codes,
            square_root_exactly(kind, a, NEAREST),
            x.sqrt(),
        );
    }
}

/// Whether the sum of two f64 is exact, by the rest that the addition leaves.
fn exact_sum(a: f64, b: f64) -> Option<f64> {
    let sum = a + b;
    let from_b = sum - a;
    let rest = (a - (sum - from_b)) + (b - from_b);
    (rest == 0.0).then_some(sum)
}

fn zero_sum(sum: f64, a: f64, b: f64, rounding: Rounding) -> f64 {
    let cancels = sum == 0.0 && a.is_sign_negative() != b.is_sign_negative();
    if cancels && rounding == Rounding::Down {
        -0.0
    } else {
        sum
    }
}

/// Sums, products and fused sums of a format whose products are exact in f64.
fn check_by_definition(kind: FloatKind, widths: Widths, n: usize, seed: u64) {
    let mut random = Random(seed);
    let mut n_fused = 0;
    for _ in 0..n {
        let codes: [u64; 3] = std::array::from_fn(|_| draw(&mut random, widths.0, widths.1));
        let values = codes.map(|code| decode(widths, code));
        if !values.iter().all(|value| value.is_finite()) {
            continue;
        }
        let ([a, b, _], [x, y, z]) = (codes, values);
        for (_, rounding) in ROUNDINGS {
            let got = multiply_exactly(kind, a, b, rounding);
            assert_eq!(
                got,
                encode(widths, x * y, rounding),
                "mul {a:X} {b:X} {rounding:?}"
            );
            if let Some(sum) = exact_sum(x, y) {
                let want = encode(widths, zero_sum(sum, x, y, rounding), rounding);
                let got = add_exactly(kind, a, b, rounding);
                assert_eq!(got, want, "add {a:X} {b:X} {rounding:?}");
            }
            if let Some(sum) = exact_sum(x * y, z) {
                n_fused += 1;
                let want = encode(widths, zero_sum(sum, x * y, z, rounding), rounding);
                let got = fused_multiply_add_exactly(kind, codes, rounding);
                assert_eq!(got, want, "fma {codes:X?} {rounding:?}");
            }
        }
    }
    assert!(
        n_fused > n,
        "{n_fused} of {n}: most fused sums were not exact in f64"
    );
}

#[test]
fn every_rounding_is_that_of_the_definition() {
    check_by_definition(FloatKind::F16, F16, 300_000, 3);
    check_by_definition(FloatKind::Bf16, BF16, 300_000, 4);
    check_by_definition(FloatKind::F32, F32, 300_000, 5);
}

/// A directed quotient times the divisor lies on the right side of the dividend, its neighbour
/// does not; products of two f32 are exact in f64. Roots likewise.
#[test]
fn directed_quotients_and_roots_are_neighbours_of_the_true_value() {
    let mut random = Random(6);
    let value = |code: u64| f64::from(f32::from_bits(code as u32));
    for _ in 0..200_000 {
        let mut draw = || random.below(1 << 23) | (random.below(60) + 97) << 23;
        let (a, b) = (draw(), draw());
        let down = divide_exactly(FloatKind::F32, a, b, Rounding::Down);
        let up = divide_exactly(FloatKind::F32, a, b, Rounding::Up);
        assert_eq!(
            down,
            divide_exactly(FloatKind::F32, a, b, Rounding::TowardZero)
        );
        assert!(value(down) * value(b) <= value(a) && value(a) <= value(up) * value(b));
        let exact = value(down) * value(b) == value(a);
        assert_eq!(up, if exact { down } else { down + 1 }, "{a:X} / {b:X}");

        let down = square_root_exactly(FloatKind::F32, a, Rounding::Down);
        let up = square_root_exactly(FloatKind::F32, a, Rounding::Up);
        assert!(value(down) * value(down) <= value(a) && value(a) <= value(up) * value(up));
        let exact = value(down) * value(down) == value(a);
        assert_eq!(up, if exact { down } else { down + 1 }, "sqrt {a:X}");
    }
}

#[test]
fn instructions_round_as_the_core_they_stand_on() {
    let mut random = Random(7);
    for (name, rounding) in ROUNDINGS {
        let forms =
            ["add", "mul", "fma", "div", "sqrt"].map(|op| form(&format!("{op}.{name}.f32")));
        for _ in 0..20_000 {
            let codes: [u64; 3] = std::array::from_fn(|_| draw(&mut random, 8, 23));
            let [a, b, _] = codes;
            let kind = FloatKind::F32;
            let want = [
                add_exactly(kind, a, b, rounding),
                multiply_exactly(kind, a, b, rounding),
                fused_multiply_add_exactly(kind, codes, rounding),
                divide_exactly(kind, a, b, rounding),
                square_root_exactly(kind, a, rounding),
            ];
            for (form, want) in forms.iter().zip(want) {
                assert_eq!(form.apply(&codes), want, "{form:?} {codes:X?}");
            }
        }
    }
}

#[test]
fn zeros_have_the_signs_of_ieee_754() {
    const ONE: u64 = 0x3F80_0000;
    const MINUS_ONE: u64 = 0xBF80_0000;
    const MINUS_ZERO: u64 = 0x8000_0000;
    check("add.rn.f32", &[ONE, MINUS_ONE], 0);
    check("add.rz.f32", &[ONE, MINUS_ONE], 0);
    check("add.rp.f32", &[ONE, MINUS_ONE], 0);
    check("add.rm.f32", &[ONE, MINUS_ONE], MINUS_ZERO);
    check("sub.rm.f32", &[ONE, ONE], MINUS_ZERO);
    check("add.rm.f32", &[0, MINUS_ZERO], MINUS_ZERO);
    check("add.rn.f32", &[0, MINUS_ZERO], 0);
    check("add.rp.f32", &[MINUS_ZERO, MINUS_ZERO], MINUS_ZERO);
    check("mul.rp.f32", &[0, MINUS_ONE], MINUS_ZERO);
    check("fma.rm.f32", &[ONE, ONE, MINUS_ONE], MINUS_ZERO);
    check("sqrt.rn.f32", &[MINUS_ZERO], MINUS_ZERO);
    // A fused sum of one half of the smallest number: rounded, not flushed.
    check("mul.rn.f32", &[1, 0x3F00_0000], 0);
    check("mul.rp.f32", &[1, 0x3F00_0000], 1);
    check("mul.rm.f32", &[1, 0xBF00_0000], 0x8000_0001);
}

#[test]
fn invalid_operations_give_the_canonical_nan() {
    const INFINITY: u64 = 0x7F80_0000;
    const MINUS_INFINITY: u64 = 0xFF80_0000;
    const NAN: u64 = 0x7FFF_FFFF;
    for rounding in ["rn", "rz", "rm", "rp"] {
        check(
            &format!("add.{rounding}.f32"),
            &[INFINITY, MINUS_INFINITY],
            NAN,
        );
        check(&format!("sub.{rounding}.f32"), &[INFINITY, INFINITY], NAN);
        check(&format!("mul.{rounding}.f32"), &[INFINITY, 0], NAN);
        check(&format!("fma.{rounding}.f32"), &[0, MINUS_INFINITY, 1], NAN);
        check(&format!("fma.{rounding}.f32"), &[0, 0, 0xFFC0_0001], NAN);
        check(&format!("div.{rounding}.f32"), &[0, 0], NAN);
        check(&format!("div.{rounding}.f32"), &[INFINITY, INFINITY], NAN);
        check(
            &format!("div.{rounding}.f32"),
            &[0x3F80_0000, 0x8000_0000],
            MINUS_INFINITY,
        );
        check(
            &format!("div.{rounding}.f32"),
            &[0x3F80_0000, MINUS_INFINITY],
            0x8000_0000,
        );
        check(&format!("rcp.{rounding}.f32"), &[0], INFINITY);
        check(&format!("sqrt.{rounding}.f32"), &[0xBF80_0000], NAN);
        check(&format!("sqrt.{rounding}.f32"), &[INFINITY], INFINITY);
    }
    check("add.rn.f16", &[0x7C00, 0xFC00], 0x7FFF);
    check("mul.rn.bf16", &[0x7F80, 0], 0x7FFF);
    // f64 keeps a payload, quiet.
    check(
        "add.rn.f64",
        &[0x7FF0_0000_0000_0123, 0],
        0x7FF8_0000_0000_0123,
    );
    assert!(f64::from_bits(form("sqrt.rn.f64").apply(&[(-1.0_f64).to_bits()])).is_nan());
}

#[test]
fn overflow_goes_where_the_rounding_goes() {
    const LARGEST: u64 = 0x7F7F_FFFF;
    const MINUS: u64 = 0x8000_0000;
    for (rounding, positive, negative) in [
        ("rn", LARGEST + 1, MINUS | (LARGEST + 1)),
        ("rz", LARGEST, MINUS | LARGEST),
        ("rm", LARGEST, MINUS | (LARGEST + 1)),
        ("rp", LARGEST + 1, MINUS | LARGEST),
    ] {
        check(
            &format!("add.{rounding}.f32"),
            &[LARGEST, LARGEST],
            positive,
        );
        check(
            &format!("mul.{rounding}.f32"),
            &[LARGEST, MINUS | LARGEST],
            negative,
        );
    }
}
