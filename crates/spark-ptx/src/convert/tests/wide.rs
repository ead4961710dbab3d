//! Conversions between f16, bf16, tf32, f32 and f64.

use super::{check, f32_code, form};
use crate::float::Rounding;
use crate::oracle::{BF16, F16, F32, Random, Widths, decode, encode, to_whole};

const ROUNDINGS: [(&str, Rounding); 4] = [
    ("rn", Rounding::NearestEven),
    ("rz", Rounding::TowardZero),
    ("rm", Rounding::Down),
    ("rp", Rounding::Up),
];

/// f32 codes, many at a tie of a format with so many mantissa bits, many near its ends.
fn draw(random: &mut Random, mantissa_bits: u32) -> u64 {
    let bits = random.next() & 0xFFFF_FFFF;
    let below = (1 << (23 - mantissa_bits)) - 1;
    let bits = match random.below(4) {
        0 => bits & !below | (below / 2 + 1),
        1 => bits & !below | (below / 2 + random.below(3)),
        _ => bits,
    };
    match random.below(3) {
        0 => bits & !(0xFF << 23) | (100 + random.below(50)) << 23,
        1 => bits & !(0xFF << 23) | random.below(30) << 23,
        _ => bits,
    }
}

fn check_from_f32(name: &str, widths: Widths) {
    let mut random = Random(21);
    for (rounding_name, rounding) in ROUNDINGS {
        let plain = form(&format!("{rounding_name}.{name}.f32"));
        for _ in 0..200_000 {
            let code = draw(&mut random, widths.1);
            let value = f64::from(f32::from_bits(code as u32));
            let want = if value.is_nan() {
                0x7FFF
            } else {
                encode(widths, value, rounding)
            };
            assert_eq!(
                plain.apply(&[code]),
                want,
                "{rounding_name} {name} {code:X}"
            );
        }
    }
    let infinity = encode(widths, f64::INFINITY, Rounding::NearestEven);
    for (rounding_name, rounding) in &ROUNDINGS[..2] {
        let saturated = form(&format!("{rounding_name}.satfinite.{name}.f32"));
        let relu = form(&format!("{rounding_name}.relu.{name}.f32"));
        let both = form(&format!("{rounding_name}.relu.satfinite.{name}x2.f32"));
        for _ in 0..50_000 {
            let code = draw(&mut random, widths.1);
            let value = f64::from(f32::from_bits(code as u32));
            if value.is_nan() {
                for form in [saturated, relu] {
                    assert_eq!(form.apply(&[code]), 0x7FFF);
                }
                continue;
            }
            let rounded = encode(widths, value, *rounding);
            let finite = (rounded & 0x7FFF).min(infinity - 1);
            assert_eq!(
                saturated.apply(&[code]),
                rounded & 0x8000 | finite,
                "{code:X}"
            );
            let positive = rounded & 0x8000 == 0;
            assert_eq!(
                relu.apply(&[code]),
                if positive { rounded } else { 0 },
                "{code:X}"
            );
            let clamped = if positive { finite } else { 0 };
            assert_eq!(both.apply(&[code, 0]), clamped << 16, "{code:X}");
            assert_eq!(both.apply(&[0, code]), clamped, "{code:X}");
        }
    }
}

#[test]
fn f32_to_halves_rounds_by_definition() {
    check_from_f32("f16", F16);
    check_from_f32("bf16", BF16);
}

#[test]
fn every_half_widens_exactly() {
    for (name, widths) in [("f16", F16), ("bf16", BF16)] {
        let (to_f32, to_f64) = (form(&format!("f32.{name}")), form(&format!("f64.{name}")));
        for code in 0..1_u64 << 16 {
            let value = decode(widths, code);
            let single = f32::from_bits(to_f32.apply(&[code]) as u32);
            let double = f64::from_bits(to_f64.apply(&[code]));
            if value.is_nan() {
                assert!(single.is_nan() && double.is_nan());
            } else {
                assert_eq!(
                    single.to_bits(),
                    (value as f32).to_bits(),
                    "{name} {code:X}"
                );
                assert_eq!(double.to_bits(), value.to_bits(), "{name} {code:X}");
            }
        }
    }
}

#[test]
fn halves_become_each_other_rounded_once() {
    for (rounding_name, rounding) in ROUNDINGS {
        let to_bf16 = form(&format!("{rounding_name}.bf16.f16"));
        let to_f16 = form(&format!("{rounding_name}.f16.bf16"));
        for code in 0..1_u64 << 16 {
            for (form, from, to) in [(to_bf16, F16, BF16), (to_f16, BF16, F16)] {
                let value = decode(from, code);
                let want = if value.is_nan() {
                    0x7FFF
                } else {
                    encode(to, value, rounding)
                };
                assert_eq!(form.apply(&[code]), want, "{rounding_name} {code:X}");
            }
        }
    }
}

#[test]
fn f64_to_narrower_formats_rounds_once() {
    let mut random = Random(22);
    for (rounding_name, rounding) in ROUNDINGS {
        for (name, widths) in [("f16", F16), ("bf16", BF16), ("f32", F32)] {
            let form = form(&format!("{rounding_name}.{name}.f64"));
            for _ in 0..50_000 {
                let field = 1023 - 160 + random.below(300);
                let code = random.next() & 0x800F_FFFF_FFFF_FFFF | field << 52;
                let want = encode(widths, f64::from_bits(code), rounding);
                assert_eq!(form.apply(&[code]), want, "{rounding_name} {name} {code:X}");
            }
        }
    }
    // Just above a tie of f16, lost on the way through f32.
    check(
        "rn.f16.f64",
        &[(1.0 + 2.0_f64.powi(-11) + 2.0_f64.powi(-40)).to_bits()],
        0x3C01,
    );
    check("f64.f32", &[1], 2.0_f64.powi(-149).to_bits());
    check("ftz.f64.f32", &[0x8000_0001], (-0.0_f64).to_bits());
    check("rn.ftz.f32.f64", &[2.0_f64.powi(-140).to_bits()], 0);
    check("rn.f32.f64", &[2.0_f64.powi(-140).to_bits()], 1 << 9);
}

#[test]
fn tf32_keeps_ten_bits() {
    check("rna.tf32.f32", &[0x3F80_1000], 0x3F80_2000);
    check("rna.tf32.f32", &[0x3F80_0FFF], 0x3F80_0000);
    check("rn.tf32.f32", &[0x3F80_1000], 0x3F80_0000);
    check("rn.tf32.f32", &[0x3F80_3000], 0x3F80_4000);
    check("rz.tf32.f32", &[0xBF80_1FFF], 0xBF80_0000);
    check("rna.tf32.f32", &[0x7F7F_FFFF], 0x7F80_0000);
    check("rna.satfinite.tf32.f32", &[0x7F80_0000], 0x7F7F_E000);
    check("rn.satfinite.tf32.f32", &[0xFF80_0000], 0xFF7F_E000);
    check("rn.relu.tf32.f32", &[f32_code(-1.0)], 0);
    // As an H100 answers, which the manual leaves open.
    check("rn.relu.tf32.f32", &[0xFFC0_0000], 0x7FFF_E000);
    check("rna.tf32.f32", &[0x7F80_0001], 0x7F80_0000);
    let mut random = Random(23);
    for (name, rounding) in [
        ("rn", Rounding::NearestEven),
        ("rna", Rounding::NearestAway),
        ("rz", Rounding::TowardZero),
    ] {
        let form = form(&format!("{name}.tf32.f32"));
        for _ in 0..100_000 {
            let code = draw(&mut random, 10);
            let value = f64::from(f32::from_bits(code as u32));
            if !value.is_nan() {
                let want = encode((8, 10), value, rounding) << 13;
                assert_eq!(form.apply(&[code]), want, "{name} {code:X}");
            }
        }
    }
}

#[test]
fn floats_become_whole_numbers_of_their_format() {
    let mut random = Random(24);
    for (name, rounding) in [
        ("rni", Rounding::NearestEven),
        ("rzi", Rounding::TowardZero),
        ("rmi", Rounding::Down),
        ("rpi", Rounding::Up),
    ] {
        let [single, double] = ["f32", "f64"].map(|kind| form(&format!("{name}.{kind}.{kind}")));
        for _ in 0..100_000 {
            let code = random.next() & 0x807F_FFFF | (110 + random.below(50)) << 23;
            let value = f64::from(f32::from_bits(code as u32));
            let want = to_whole(value, rounding);
            assert_eq!(
                single.apply(&[code]),
                f32_code(want as f32),
                "{name} {code:X}"
            );
            assert_eq!(
                double.apply(&[value.to_bits()]),
                want.to_bits(),
                "{name} {code:X}"
            );
        }
        for (half, widths) in [("f16", F16), ("bf16", BF16)] {
            let form = form(&format!("{name}.{half}.{half}"));
            for code in 0..1_u64 << 16 {
                let value = decode(widths, code);
                let want = if value.is_nan() {
                    0x7FFF
                } else {
                    encode(widths, to_whole(value, rounding), Rounding::TowardZero)
                };
                assert_eq!(form.apply(&[code]), want, "{name} {half} {code:X}");
            }
        }
    }
    check("rni.f32.f32", &[f32_code(2.5)], f32_code(2.0));
    check("rni.f32.f32", &[f32_code(9.5)], f32_code(10.0));
    check("rni.f32.f32", &[f32_code(10.5)], f32_code(10.0));
    check("rzi.f32.f32", &[f32_code(-0.5)], f32_code(-0.0));
}

#[test]
fn saturation_limits_floats_to_one() {
    check("sat.f32.f32", &[f32_code(2.0)], f32_code(1.0));
    check("sat.f32.f32", &[f32_code(-2.0)], 0);
    check("sat.f32.f32", &[f32_code(-0.0)], 0);
    check("sat.f32.f32", &[0xFFC0_0000], 0);
    check("sat.f32.f32", &[f32_code(0.25)], f32_code(0.25));
    check("rn.sat.f16.f32", &[f32_code(f32::INFINITY)], 0x3C00);
    check("rn.sat.f32.s32", &[5], f32_code(1.0));
    check("sat.f64.f64", &[7.0_f64.to_bits()], 1.0_f64.to_bits());
}

#[test]
fn published_pairs_of_halves() {
    check("rn.f16x2.f32", &[f32_code(1.0), f32_code(2.0)], 0x3C00_4000);
    check(
        "rn.bf16x2.f32",
        &[f32_code(0.40625), f32_code(12.9)],
        0x3ED0_414E,
    );
    check("rn.f16.f32", &[f32_code(65520.0)], 0x7C00);
    check("rn.f16.f32", &[f32_code(65519.0)], 0x7BFF);
}
