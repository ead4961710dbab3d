//! The approximate instructions: the manual's tables of special operands, and its bounds.

use super::{check, form};
use crate::oracle::Random;

const INFINITY: u64 = 0x7F80_0000;
const MINUS: u64 = 0x8000_0000;
const ONE: u64 = 0x3F80_0000;

#[test]
fn special_operands_give_what_the_tables_say() {
    for (name, minus_infinity, minus_zero, zero, infinity) in [
        ("rcp", MINUS, MINUS | INFINITY, INFINITY, 0),
        ("sqrt", 0x7FFF_FFFF, MINUS, 0, INFINITY),
        ("rsqrt", 0x7FFF_FFFF, MINUS | INFINITY, INFINITY, 0),
        ("ex2", 0, ONE, ONE, INFINITY),
        (
            "lg2",
            0x7FFF_FFFF,
            MINUS | INFINITY,
            MINUS | INFINITY,
            INFINITY,
        ),
        ("sin", 0x7FFF_FFFF, MINUS, 0, 0x7FFF_FFFF),
        ("cos", 0x7FFF_FFFF, ONE, ONE, 0x7FFF_FFFF),
        ("tanh", MINUS | ONE, MINUS, 0, ONE),
    ] {
        let text = format!("{name}.approx.f32");
        check(&text, &[MINUS | INFINITY], minus_infinity);
        check(&text, &[MINUS], minus_zero);
        check(&text, &[0], zero);
        check(&text, &[INFINITY], infinity);
        check(&text, &[0xFFC0_0001], 0x7FFF_FFFF);
    }
    check("tanh.approx.f32", &[1], 1);
    check("lg2.approx.f32", &[MINUS | ONE], 0x7FFF_FFFF);
    check("lg2.approx.ftz.f32", &[1], MINUS | INFINITY);
    check("ex2.approx.ftz.bf16", &[0x8001], 0x3F80);
    check("ex2.approx.f16x2", &[0x7C00_FC00], 0x7C00_0000);
    check("tanh.approx.bf16x2", &[0x7F80_FF80], 0x3F80_BF80);
}

#[test]
fn divisors_beyond_two_to_the_126_give_zero_or_nan() {
    check("div.approx.f32", &[ONE, 0x7E80_0001], 0);
    check("div.approx.f32", &[MINUS | ONE, 0x7F00_0000], MINUS);
    check("div.approx.f32", &[INFINITY, 0x7F00_0000], 0x7FFF_FFFF);
    check("div.full.f32", &[0x7F00_0000, 0x7F00_0000], ONE);
}

#[test]
fn published_constants() {
    check("rcp.approx.ftz.f32", &[0x4040_0000], 0x3EAA_AAAB);
    check("ex2.approx.ftz.f32", &[0x3F00_0000], 0x3FB5_04F3);
    check("rsqrt.approx.f32", &[0x4000_0000], 0x3F35_04F3);
}

#[test]
fn seeds_of_f64_have_their_upper_half_alone() {
    for (text, want) in [
        ("rcp.approx.ftz.f64", 1.0 / 3.0),
        ("rsqrt.approx.ftz.f64", 1.0 / 3.0_f64.sqrt()),
    ] {
        // What stands in the lower half is not read.
        let got = form(text).apply(&[3.0_f64.to_bits() | 0xFFFF_FFFF]);
        assert_eq!(got & 0xFFFF_FFFF, 0);
        assert!(
            (f64::from_bits(got) / want - 1.0).abs() < 2.0_f64.powi(-20),
            "{text}"
        );
        check(text, &[0x7FF8_0000_0000_0001], 0x7FFF_FFFF_0000_0000);
        check(text, &[1 << 40], f64::INFINITY.to_bits());
    }
    check(
        "rcp.approx.ftz.f64",
        &[(-0.0_f64).to_bits()],
        f64::NEG_INFINITY.to_bits(),
    );
    check("rcp.approx.ftz.f64", &[f64::INFINITY.to_bits()], 0);
    check("rcp.approx.ftz.f64", &[2.0_f64.powi(1023).to_bits()], 0);
    let whole = form("rsqrt.approx.f64").apply(&[4.0_f64.to_bits()]);
    assert_eq!(f64::from_bits(whole), 0.5);
}

#[test]
fn results_keep_the_documented_bounds() {
    let mut random = Random(8);
    let two_pi = std::f64::consts::TAU;
    type Bound = fn(f64, f64) -> bool;
    let relative: Bound = |got, want| (got - want).abs() <= want.abs() * 2.0_f64.powi(-23);
    let absolute: Bound = |got, want| (got - want).abs() <= 2.0_f64.powi(-20) / 1.5;
    type Case = (&'static str, fn(f64) -> f64, (f64, f64), Bound);
    let cases: [Case; 8] = [
        ("rcp.approx.f32", |x| 1.0 / x, (1e-30, 1e30), relative),
        ("sqrt.approx.f32", f64::sqrt, (0.0, 1e30), relative),
        (
            "rsqrt.approx.f32",
            |x| 1.0 / x.sqrt(),
            (1e-30, 1e30),
            relative,
        ),
        ("ex2.approx.f32", f64::exp2, (-100.0, 100.0), relative),
        ("lg2.approx.f32", f64::log2, (2.0, 1e30), relative),
        ("sin.approx.f32", f64::sin, (-two_pi, two_pi), absolute),
        ("cos.approx.f32", f64::cos, (-two_pi, two_pi), absolute),
        ("tanh.approx.f32", f64::tanh, (-10.0, 10.0), relative),
    ];
    for (text, function, (low, high), is_within) in cases {
        let form = form(text);
        for _ in 0..20_000 {
            let share = random.below(1 << 40) as f64 / (1_u64 << 40) as f64;
            let x = (low + (high - low) * share) as f32;
            let got = f32::from_bits(form.apply(&[u64::from(x.to_bits())]) as u32);
            let want = function(f64::from(x));
            assert!(
                is_within(f64::from(got), want),
                "{text} {x}: {got}, not {want}"
            );
        }
    }
}
