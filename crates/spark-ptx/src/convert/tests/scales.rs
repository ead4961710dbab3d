//! `ue8m0`: powers of two.

use super::{check, f32_code, form};

/// The scale at or below (`.rz`), at or above (`.rp`) a positive number, by comparing with all.
fn scale_of(value: f64, up: bool) -> u64 {
    let scale = |code: u64| 2.0_f64.powi(code as i32 - 127);
    if up {
        (0..255).find(|code| scale(*code) >= value).unwrap_or(255)
    } else {
        (0..255)
            .rev()
            .find(|code| scale(*code) <= value)
            .unwrap_or(0)
    }
}

#[test]
fn every_exponent_of_f32_and_every_bf16_gives_the_power_below_or_above() {
    for (name, up) in [("rz", false), ("rp", true)] {
        for satfinite in [false, true] {
            let suffix = if satfinite { ".satfinite" } else { "" };
            let from_f32 = form(&format!("{name}{suffix}.ue8m0x2.f32"));
            let from_bf16 = form(&format!("{name}{suffix}.ue8m0x2.bf16x2"));
            let want = |value: f64| match scale_of(value, up) {
                255 if satfinite => 254,
                code => code,
            };
            for field in 0..255_u32 {
                for mantissa in [0, 1, 0x3F_FFFF, 0x40_0000, 0x40_0001, 0x7F_FFFF] {
                    let bits = field << 23 | mantissa;
                    let code = want(f64::from(f32::from_bits(bits)));
                    let got = from_f32.apply(&[u64::from(bits), u64::from(bits | 1 << 31)]);
                    assert_eq!(got, code << 8 | code, "{name} {bits:X}");
                }
            }
            for bits in 0..0x7F80_u32 {
                let code = want(f64::from(f32::from_bits(bits << 16)));
                let got = from_bf16.apply(&[u64::from(bits << 16 | bits | 0x8000)]);
                assert_eq!(got, code << 8 | code, "{name} {bits:X}");
            }
        }
    }
}

#[test]
fn nan_infinity_and_small_numbers() {
    let (infinity, nan) = (f32_code(f32::INFINITY), f32_code(f32::NAN));
    check("rz.ue8m0x2.f32", &[infinity, nan], 0xFFFF);
    check("rz.satfinite.ue8m0x2.f32", &[infinity, nan], 0xFEFF);
    check(
        "rp.satfinite.ue8m0x2.f32",
        &[f32_code(f32::MIN), infinity | 1 << 31],
        0xFEFE,
    );
    check("rp.ue8m0x2.f32", &[f32_code(f32::MAX), 0], 0xFF00);
    // 2^-127 and less; a little more with .rp is the next.
    check("rp.satfinite.ue8m0x2.f32", &[0x0040_0000, 1], 0);
    check(
        "rp.satfinite.ue8m0x2.f32",
        &[0x0040_0001, 0x0080_0000],
        0x0101,
    );
    check(
        "rz.satfinite.ue8m0x2.f32",
        &[0x0040_0001, 0x0080_0000],
        0x0001,
    );
}

#[test]
fn every_scale_widens_to_its_power() {
    let form = form("rn.bf16x2.ue8m0x2");
    assert_eq!(
        (
            form.n_sources(),
            form.source_bits(),
            form.destination_bits()
        ),
        (1, 16, 32)
    );
    for code in 0..255_u64 {
        let value = 2.0_f64.powi(code as i32 - 127) as f32;
        let want = u64::from(value.to_bits() >> 16);
        assert_eq!(form.apply(&[code << 8]), want << 16 | 0x0040, "{code:X}");
    }
    assert_eq!(form.apply(&[0xFF7F]), 0x7FFF_3F80);
}
