//! Minimum and maximum, signs, tests, comparisons; what `.ftz`, `.sat` and `.relu` do.

use super::{check, form};
use crate::float::{Comparison, FloatKind};

const NAN: u64 = 0x7FFF_FFFF;
const ONE: u64 = 0x3F80_0000;
const TWO: u64 = 0x4000_0000;
const MINUS: u64 = 0x8000_0000;

#[test]
fn minimum_and_maximum_order_zeros_and_pass_nan_by() {
    check("min.f32", &[0, MINUS], MINUS);
    check("min.f32", &[MINUS, 0], MINUS);
    check("max.f32", &[MINUS, 0], 0);
    check("max.f32", &[0, MINUS], 0);
    check("min.f32", &[ONE, MINUS | TWO], MINUS | TWO);
    check("max.f32", &[MINUS | ONE, MINUS | TWO], MINUS | ONE);
    for operation in ["min", "max"] {
        check(&format!("{operation}.f32"), &[0x7FC0_1234, TWO], TWO);
        check(&format!("{operation}.f32"), &[TWO, 0xFFC0_1234], TWO);
        check(
            &format!("{operation}.f32"),
            &[0xFFC0_1234, 0x7F80_0001],
            NAN,
        );
        check(&format!("{operation}.NaN.f32"), &[TWO, 0xFFC0_1234], NAN);
        check(&format!("{operation}.NaN.f16"), &[0xFC01, 0x3C00], 0x7FFF);
        check(&format!("{operation}.bf16"), &[0x7FC1, 0x3F80], 0x3F80);
        check(
            &format!("{operation}.f64"),
            &[1.0_f64.to_bits(), f64::NAN.to_bits()],
            1.0_f64.to_bits(),
        );
    }
}

#[test]
fn signs_are_combined_after_the_magnitudes_are_compared() {
    check("min.xorsign.abs.f32", &[MINUS | ONE, TWO], MINUS | ONE);
    check("min.xorsign.abs.f32", &[MINUS | ONE, MINUS | TWO], ONE);
    check("max.xorsign.abs.f32", &[ONE, MINUS | TWO], MINUS | TWO);
    check("max.xorsign.abs.f32", &[NAN, MINUS | TWO], TWO | MINUS);
    check("max.NaN.xorsign.abs.f32", &[NAN, MINUS | TWO], NAN);
    check(
        "min.xorsign.abs.f16x2",
        &[0xBC00_3C00, 0x4000_C000],
        0xBC00_BC00,
    );
}

#[test]
fn three_operands_are_compared_in_turn() {
    check("max.f32", &[ONE, NAN, TWO], TWO);
    check("min.f32", &[ONE, MINUS | TWO, TWO], MINUS | TWO);
    check("max.NaN.f32", &[ONE, TWO, NAN], NAN);
    check("max.abs.f32", &[ONE, MINUS | TWO, ONE], TWO);
    assert_eq!(form("max.f32").n_sources(), 2);
    assert_eq!(form("max.f32").n_sources_max(), 3);
    assert_eq!(form("max.abs.f32").n_sources(), 3);
    assert_eq!(form("max.xorsign.abs.f32").n_sources_max(), 2);
    assert_eq!(form("max.f64").n_sources_max(), 2);
}

#[test]
fn subnormal_operands_and_results_are_flushed_with_their_sign() {
    check("add.ftz.f32", &[1, 0], 0);
    check("add.ftz.f32", &[MINUS | 1, MINUS], MINUS);
    check("add.f32", &[1, 0], 1);
    check("mul.ftz.f32", &[0x0080_0000, 0x3F00_0000], 0);
    check("mul.ftz.f32", &[0x0080_0000, 0xBF00_0000], MINUS);
    check("fma.rn.ftz.f32", &[1, 0x7F00_0000, 0], 0);
    check("neg.ftz.f32", &[1], MINUS);
    check("abs.ftz.f32", &[MINUS | 1], 0);
    check("rcp.approx.ftz.f32", &[1], 0x7F80_0000);
    check("add.ftz.f16", &[0x0001, 0x0001], 0);
    check("add.f16", &[0x0001, 0x0001], 2);
    check("max.ftz.f32", &[1, MINUS | 1], 0);
    check(
        "mul.rn.ftz.f32x2",
        &[0x3F80_0000_0000_0001, 0x3F80_0000_3F80_0000],
        0x3F80_0000_0000_0000,
    );
}

#[test]
fn results_are_limited_as_the_modifiers_say() {
    check("add.sat.f32", &[ONE, ONE], ONE);
    check("add.sat.f32", &[MINUS | ONE, 0], 0);
    check("add.sat.f32", &[MINUS, MINUS], 0);
    check("mul.sat.f32", &[0x7F80_0000, 0], 0);
    check("add.sat.f16", &[0x7C00, 0x3C00], 0x3C00);
    check("add.sat.f16x2", &[0x7C00_BC00, 0x3C00_3800], 0x3C00_0000);
    check("fma.rn.relu.f16", &[0xBC00, 0x3C00, 0], 0);
    check("fma.rn.relu.f16", &[0x3C00, 0x3C00, 0x3C00], 0x4000);
    check("fma.rn.relu.f16", &[0x7C00, 0, 0], 0x7FFF);
    check("fma.rn.relu.f16", &[0x8000, 0x3C00, 0x8000], 0);
    check(
        "fma.rn.relu.bf16x2",
        &[0xBF80_3F80, 0x3F80_3F80, 0],
        0x0000_3F80,
    );
}

#[test]
fn fused_sums_of_halves_are_rounded_once() {
    // 2050 (1 + 2^-10) + 1 is above the tie 2053; a rounded product, 2052, would make it one.
    check("fma.rn.f16", &[0x3C01, 0x6801, 0x3C00], 0x6803);
    // 2050 / 2 + 1024 is the tie 2049, which goes to 2048.
    check("fma.rn.f16", &[0x6801, 0x3800, 0x6400], 0x6800);
    check("add.rn.bf16", &[0x4380, 0x3F80], 0x4380);
    check("add.rn.bf16", &[0x4381, 0x3F80], 0x4382);
}

#[test]
fn signs_are_copied_reversed_and_dropped() {
    check("copysign.f32", &[MINUS, ONE], MINUS | ONE);
    check("copysign.f32", &[ONE, MINUS | TWO], TWO);
    check("neg.f64", &[1.0_f64.to_bits()], (-1.0_f64).to_bits());
    check("neg.f16x2", &[0x3C00_BC00], 0xBC00_3C00);
    check("abs.bf16x2", &[0xBF80_8000], 0x3F80_0000);
    check("abs.f64", &[(-0.0_f64).to_bits()], 0);
}

#[test]
fn properties_are_those_of_the_manual() {
    for (code, holds) in [
        (0, ["finite", "number", "normal"].as_slice()),
        (MINUS, &["finite", "number", "normal"]),
        (1, &["finite", "number", "subnormal"]),
        (ONE, &["finite", "number", "normal"]),
        (0xFF80_0000, &["infinite", "number"]),
        (0xFFC0_0000, &["notanumber"]),
    ] {
        for property in [
            "finite",
            "infinite",
            "number",
            "notanumber",
            "normal",
            "subnormal",
        ] {
            let want = u64::from(holds.contains(&property));
            check(&format!("testp.{property}.f32"), &[code], want);
        }
    }
    check("testp.subnormal.f64", &[1], 1);
    check("testp.infinite.f64", &[f64::INFINITY.to_bits()], 1);
}

#[test]
fn comparisons_are_ordered_or_not() {
    // Which relations hold of less, equal, greater and unordered operands.
    for (name, want) in [
        ("eq", [false, true, false, false]),
        ("ne", [true, false, true, false]),
        ("lt", [true, false, false, false]),
        ("le", [true, true, false, false]),
        ("gt", [false, false, true, false]),
        ("ge", [false, true, true, false]),
        ("equ", [false, true, false, true]),
        ("neu", [true, false, true, true]),
        ("ltu", [true, false, false, true]),
        ("leu", [true, true, false, true]),
        ("gtu", [false, false, true, true]),
        ("geu", [false, true, true, true]),
        ("num", [true, true, true, false]),
        ("nan", [false, false, false, true]),
    ] {
        let relation = Comparison::parse(name).unwrap();
        for (kind, one, two, nan) in [
            (FloatKind::F16, 0x3C00, 0x4000, 0xFE00),
            (FloatKind::Bf16, 0x3F80, 0x4000, 0x7F81),
            (FloatKind::F32, ONE, TWO, 0xFFC0_0000),
            (
                FloatKind::F64,
                1.0_f64.to_bits(),
                2.0_f64.to_bits(),
                f64::NAN.to_bits(),
            ),
        ] {
            let got = [(one, two), (one, one), (two, one), (one, nan)]
                .map(|(a, b)| relation.holds(kind, a, b, false));
            assert_eq!(got, want, "{name} {kind:?}");
        }
        assert_eq!(
            relation.holds(FloatKind::F32, 0, MINUS, false),
            want[1],
            "{name}"
        );
        assert_eq!(
            relation.holds(FloatKind::F32, 0, 1, true),
            want[1],
            "{name}"
        );
        assert_eq!(
            relation.holds(FloatKind::F32, 0, 1, false),
            want[0],
            "{name}"
        );
        assert_eq!(
            relation.holds(FloatKind::F16, 2, 1, false),
            want[2],
            "{name}"
        );
    }
    assert_eq!(Comparison::parse("lo"), None);
}
