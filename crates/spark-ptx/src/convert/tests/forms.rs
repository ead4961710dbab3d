//! Which conversions exist, and where: as ptxas 13.0.88 accepts them.

use crate::Target;
use crate::convert::Conversion;
use crate::form::FormError;

fn parse(text: &str) -> Result<Conversion, FormError> {
    Conversion::parse(&text.split('.').collect::<Vec<_>>())
}

/// First targets: a compute capability, or 120 of the family of 12.x alone.
#[test]
fn conversions_exist_on_the_targets_that_ptxas_accepts() {
    for (text, first) in [
        ("rm.f16.f32", 80),
        ("rm.bf16.f32", 80),
        ("f32.bf16", 80),
        ("ftz.f32.f32", 80),
        ("sat.f32.f32", 80),
        ("rn.relu.f16.f32", 80),
        ("rn.satfinite.f16.f32", 80),
        ("rn.sat.f16.f32", 80),
        ("rn.ftz.f16.f32", 80),
        ("rn.ftz.bf16.f32", 80),
        ("rz.satfinite.f16x2.f32", 80),
        ("rna.tf32.f32", 80),
        ("rna.satfinite.tf32.f32", 80),
        ("sat.s32.u32", 80),
        ("s8.s32", 80),
        ("rzi.sat.u8.f32", 80),
        ("ftz.rzi.s32.f32", 80),
        ("rn.sat.f32.s32", 80),
        ("rn.satfinite.relu.e4m3x2.f16x2", 89),
        ("rn.satfinite.e5m2x2.f32", 89),
        ("rn.relu.f16x2.e4m3x2", 89),
        ("rn.bf16.f16", 90),
        ("rn.f16.bf16", 90),
        ("rn.bf16.f64", 90),
        ("rn.bf16.s32", 90),
        ("rzi.s32.bf16", 90),
        ("f64.bf16", 90),
        ("rni.bf16.bf16", 90),
        ("rn.tf32.f32", 90),
        ("rn.relu.tf32.f32", 90),
        ("rn.satfinite.tf32.f32", 100),
        ("rn.satfinite.e2m1x2.f32", 120),
        ("rn.f16x2.e2m3x2", 120),
        ("rz.ue8m0x2.f32", 120),
        ("rp.satfinite.ue8m0x2.bf16x2", 120),
        ("rn.bf16x2.ue8m0x2", 120),
    ] {
        let form = parse(text).unwrap_or_else(|error| panic!("{error}"));
        for target in Target::ALL {
            let want = match first {
                120 => target.has_family_12_features(),
                first => target.capability() >= first,
            };
            assert_eq!(form.check_target(target).is_ok(), want, "{text} {target}");
        }
    }
}

#[test]
fn conversions_that_do_not_exist_are_refused() {
    for text in [
        "rn.f64.f32",
        "rn.f32.f32",
        "rn.f32.f16",
        "rn.bf16.bf16",
        "f32.s32",
        "u32.f32",
        "f16.f32",
        "bf16.f16",
        "rni.f16.f32",
        "rn.s32.f32",
        "rni.f32.s32",
        "rn.s32.s64",
        "rp.f16x2.f32",
        "rna.f16.f32",
        "rna.relu.tf32.f32",
        "rm.tf32.f32",
        "rn.tf32.f64",
        "rn.f32.tf32",
        "rn.sat.bf16.f32",
        "sat.s64.s32",
        "sat.relu.f32.f32",
        "rn.sat.satfinite.f16.f32",
        "rn.relu.f32.f64",
        "rn.satfinite.f16.f64",
        "ftz.f64.f64",
        "rn.ftz.f16x2.f32",
        "rn.e4m3x2.f32",
        "rz.satfinite.e4m3x2.f32",
        "rn.satfinite.e4m3x2.f64",
        "rn.bf16x2.e4m3x2",
        "rn.satfinite.e4m3x2.e5m2x2",
        "rn.f16x2.bf16x2",
        "rn.ue8m0x2.f32",
        "rz.ue8m0x2.f16x2",
        "rn.f16x2.ue8m0x2",
        "rz.relu.ue8m0x2.f32",
        "rn.f32x2.f32",
        "f32",
        "rn.rz.f16.f32",
        "rn.f16.f32.relu",
    ] {
        assert!(parse(text).is_err(), "{text}");
    }
    for text in [
        "rs.f16x2.f32",
        "rs.satfinite.e2m1x4.f32",
        "rn.satfinite.s2f6x2.f32",
        "pack.sat.u8.s32.b32",
    ] {
        let error = parse(text).unwrap_err();
        assert!(matches!(error, FormError::NotInterpreted { .. }), "{error}");
    }
}
