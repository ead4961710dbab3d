//! Which float instructions exist, and where.

use crate::Target;
use crate::float::FloatForm;
use crate::form::FormError;

fn parse(text: &str) -> Result<FloatForm, FormError> {
    let parts: Vec<&str> = text.split('.').collect();
    FloatForm::parse(parts[0], &parts[1..])
}

#[test]
fn instructions_of_the_manual_are_read() {
    for (text, n_sources, bits) in [
        ("add.f32", 2, 32),
        ("add.rz.ftz.sat.f32", 2, 32),
        ("sub.rn.f64", 2, 64),
        ("mul.rp.ftz.f32x2", 2, 64),
        ("fma.rn.f32x2", 3, 64),
        ("mad.rn.f64", 3, 64),
        ("add.rn.ftz.sat.f16x2", 2, 32),
        ("mul.bf16x2", 2, 32),
        ("fma.rn.ftz.relu.f16", 3, 16),
        ("fma.rn.relu.bf16x2", 3, 32),
        ("div.full.ftz.f32", 2, 32),
        ("div.rn.f64", 2, 64),
        ("rcp.rz.f64", 1, 64),
        ("rcp.approx.ftz.f64", 1, 64),
        ("sqrt.approx.ftz.f32", 1, 32),
        ("rsqrt.approx.ftz.f64", 1, 64),
        ("ex2.approx.f16x2", 1, 32),
        ("ex2.approx.ftz.bf16", 1, 16),
        ("tanh.approx.bf16x2", 1, 32),
        ("min.ftz.NaN.xorsign.abs.f32", 2, 32),
        ("max.NaN.bf16x2", 2, 32),
        ("neg.ftz.f16x2", 1, 32),
        ("abs.bf16", 1, 16),
        ("copysign.f64", 2, 64),
        ("testp.normal.f64", 1, 64),
    ] {
        let form = parse(text).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(
            (form.n_sources(), form.operand_bits()),
            (n_sources, bits),
            "{text}"
        );
    }
}

#[test]
fn instructions_that_do_not_exist_are_refused() {
    for text in [
        "add.s32",
        "add",
        "add.rna.f32",
        "add.rz.f16",
        "add.ftz.f64",
        "add.ftz.bf16",
        "add.sat.bf16",
        "add.sat.f64",
        "add.relu.f16",
        "add.sat.f32x2",
        "fma.f32",
        "fma.rn.sat.relu.f16",
        "fma.rn.relu.f32",
        "mad.rn.f16",
        "div.f32",
        "div.rn.approx.f32",
        "div.approx.f64",
        "div.rn.f16",
        "rcp.f32",
        "rcp.approx.f64",
        "sqrt.approx.f64",
        "rsqrt.rn.f32",
        "rsqrt.f32",
        "ex2.approx.bf16",
        "ex2.approx.ftz.f16",
        "ex2.approx.f64",
        "tanh.approx.ftz.f32",
        "sin.approx.f16",
        "min.rn.f32",
        "min.xorsign.f32",
        "min.NaN.f64",
        "min.abs.f16",
        "min.f32x2",
        "neg.sat.f32",
        "copysign.f16",
        "testp.f32",
        "testp.finite.f16",
        "abs.finite.f32",
        "cbrt.approx.f32",
        "add.full.f32",
    ] {
        assert!(parse(text).is_err(), "{text}");
    }
    for text in ["add.rn.f32.f16", "fma.rn.f32.bf16", "fma.rn.oob.f16"] {
        let error = parse(text).unwrap_err();
        assert!(matches!(error, FormError::NotInterpreted { .. }), "{error}");
    }
}

#[test]
fn targets_have_what_the_manual_says() {
    for (text, first) in [
        ("add.f16", 80),
        ("fma.rn.bf16", 80),
        ("min.NaN.bf16x2", 80),
        ("min.xorsign.abs.f32", 86),
        ("add.bf16", 90),
        ("mul.bf16x2", 90),
        ("tanh.approx.bf16", 90),
        ("ex2.approx.ftz.bf16", 90),
        ("add.f32x2", 100),
        ("max.abs.f32", 100),
    ] {
        let form = parse(text).unwrap();
        for target in Target::ALL {
            let has = form.check_target(target).is_ok();
            assert_eq!(has, target.capability() >= first, "{text} {target}");
        }
    }
}
