//! Scalar conversions against the CUDA headers' host code and ml_dtypes.

use half::{bf16, f16};
use spark_quant::ExecutionPolicy;
use spark_quant::scalar::{MiniFormat, NanCode, Overflow, e8m0, slice};

use crate::data::{truth, truth_bytes};

/// File name part, format, overflow of each recorded mode.
pub(crate) const MODES: [(&str, MiniFormat, Overflow); 7] = [
    ("e4m3_sat", MiniFormat::E4m3, Overflow::Saturate),
    ("e4m3_nosat", MiniFormat::E4m3, Overflow::NonFinite),
    ("e5m2_sat", MiniFormat::E5m2, Overflow::Saturate),
    ("e5m2_nosat", MiniFormat::E5m2, Overflow::NonFinite),
    ("e2m1", MiniFormat::E2m1, Overflow::Saturate),
    ("e2m3", MiniFormat::E2m3, Overflow::Saturate),
    ("e3m2", MiniFormat::E3m2, Overflow::Saturate),
];

/// The two recorded roundings of E8M0.
pub(crate) const E8M0_MODES: [(&str, e8m0::Rounding); 2] = [
    ("e8m0_rp_sat", e8m0::Rounding::Up),
    ("e8m0_rz_sat", e8m0::Rounding::Down),
];

fn all_inputs() -> [(&'static str, Vec<f32>); 2] {
    [
        (
            "bf16",
            (0..=u16::MAX)
                .map(|bits| bf16::from_bits(bits).to_f32())
                .collect(),
        ),
        (
            "f16",
            (0..=u16::MAX)
                .map(|bits| f16::from_bits(bits).to_f32())
                .collect(),
        ),
    ]
}

#[track_caller]
fn check(got: &[u8], want: &[u8], inputs: &[f32], what: &str) {
    let wrong: Vec<_> = (0..want.len()).filter(|&i| got[i] != want[i]).collect();
    if let Some(&i) = wrong.first() {
        panic!(
            "{what}: {} of {} differ, first {} -> {:#x}, expected {:#x}",
            wrong.len(),
            want.len(),
            inputs[i],
            got[i],
            want[i]
        );
    }
}

#[test]
fn every_16_bit_input_converts_as_the_gpu_does() {
    for (source, inputs) in all_inputs() {
        for (mode, format, overflow) in MODES {
            let Some(want) = truth_bytes(&format!("{source}_to_{mode}.bin")) else {
                return;
            };
            for policy in ExecutionPolicy::every_level() {
                let mut got = vec![0; inputs.len()];
                slice::encode(
                    policy,
                    format,
                    overflow,
                    NanCode::default(),
                    &inputs,
                    &mut got,
                )
                .expect("equal lengths");
                check(
                    &got,
                    &want,
                    &inputs,
                    &format!("{source} to {mode} on {}", policy.level().name()),
                );
            }
        }
        for (mode, rounding) in E8M0_MODES {
            let Some(want) = truth_bytes(&format!("{source}_to_{mode}.bin")) else {
                return;
            };
            let got: Vec<u8> = inputs.iter().map(|&x| e8m0::encode(x, rounding)).collect();
            check(&got, &want, &inputs, &format!("{source} to {mode}"));
        }
    }
}

#[test]
fn every_code_decodes_as_ml_dtypes_does() {
    let Some(path) = truth("decode.json") else {
        return;
    };
    let text = std::fs::read_to_string(path).expect("readable truth file");
    let file: serde_json::Value = serde_json::from_str(&text).expect("a JSON file");
    let tables = file["tables"].as_object().expect("an object of tables");
    assert_eq!(tables.len(), 6);
    for (name, values) in tables {
        let format = MiniFormat::ALL
            .into_iter()
            .find(|f| name.to_lowercase().contains(&f.spec().name.to_lowercase()));
        let values = values.as_array().expect("a list of values");
        for (code, want) in values.iter().enumerate() {
            let code = u8::try_from(code).expect("at most 256 codes");
            let got = match format {
                Some(format) => format.decode(code),
                None => e8m0::decode(code),
            };
            let want = parse_hex_float(want.as_str().expect("a string"));
            assert!(
                got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(),
                "{name} {code}: {got} {want}"
            );
        }
    }
}

/// Reads `-0x1.8p+3`, `nan`, `inf`.
fn parse_hex_float(text: &str) -> f32 {
    let (sign, body) = text
        .strip_prefix('-')
        .map_or((1.0, text), |rest| (-1.0, rest));
    let Some(hex) = body.strip_prefix("0x") else {
        return sign * body.parse::<f32>().expect("nan or inf");
    };
    let (mantissa, exponent) = hex.split_once('p').expect("a binary exponent");
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits =
        u64::from_str_radix(&format!("{whole}{fraction}"), 16).expect("hexadecimal digits");
    let exponent: i32 = exponent.parse().expect("an exponent");
    let n_fraction_bits = 4 * i32::try_from(fraction.len()).expect("few digits");
    (f64::from(sign) * digits as f64 * 2f64.powi(exponent - n_fraction_bits)) as f32
}
