//! All 2^32 f32 inputs against the SHA-256 of the CUDA headers' host code.

use sha2::{Digest, Sha256};
use spark_quant::ExecutionPolicy;
use spark_quant::scalar::{NanCode, e8m0, slice};

use crate::scalar_truth::{E8M0_MODES, MODES};

/// Inputs converted at a time.
const CHUNK: usize = 1 << 20;

/// Hashes of the 2^32 output bytes, inputs in order of their bits, as listed with the truth files.
const HASHES: [(&str, &str); 9] = [
    (
        "e4m3_sat",
        "9d7653f5afbe9034906208b15d2b1e9e21a762aeee82e64f569003902ccfb150",
    ),
    (
        "e4m3_nosat",
        "6497bc19b8fa5dd63da08ad2367d0de848b0dec8162df4e12c681d5d5538a84c",
    ),
    (
        "e5m2_sat",
        "4559d42906bb7b7f1348be07981abb3c3e206a7a2b4d8f7b29f450a2aafbb8fd",
    ),
    (
        "e5m2_nosat",
        "90cf5f0c927c22f532215b823afade32c59112ec7c80de2f5169efa46b5237af",
    ),
    (
        "e2m1",
        "ce1d60d1408cc7f99b9f2c1b0b8794629935442e1c6c51bb84ca6f468471b1bb",
    ),
    (
        "e2m3",
        "d3f456ffb89e412380ad8469185cfbe7ad01a668eaa536c72427b0d12b393ea0",
    ),
    (
        "e3m2",
        "ebe44503d8e09c5a31ed44728d1efddc578574f7dbdb1e90df6b94fa2995f196",
    ),
    (
        "e8m0_rp_sat",
        "bd36b8b533ce0f6e321cded1fc5900d209f8c158abfd5baf82e6648cf2f988d9",
    ),
    (
        "e8m0_rz_sat",
        "a2451126794de5e8a3eebb0c453600e7b29755f2be51133e73bce94e3fdbf09a",
    ),
];

fn hash_all_inputs(mut convert: impl FnMut(&[f32], &mut [u8])) -> String {
    let mut hash = Sha256::new();
    let mut inputs = vec![0.0; CHUNK];
    let mut codes = vec![0; CHUNK];
    for first in (0..=u32::MAX).step_by(CHUNK) {
        for (bits, input) in (first..).zip(&mut inputs) {
            *input = f32::from_bits(bits);
        }
        convert(&inputs, &mut codes);
        hash.update(&codes);
    }
    hash.finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn check_every_f32() {
    let policy = ExecutionPolicy::one_thread();
    for (mode, want) in HASHES {
        let got = if let Some((_, format, overflow)) =
            MODES.into_iter().find(|(name, ..)| *name == mode)
        {
            hash_all_inputs(|src, dst| {
                slice::encode(policy, format, overflow, NanCode::default(), src, dst)
                    .expect("equal lengths")
            })
        } else {
            let (_, rounding) = E8M0_MODES
                .into_iter()
                .find(|(name, _)| *name == mode)
                .expect("a known mode");
            hash_all_inputs(|src, dst| {
                for (x, code) in src.iter().zip(dst) {
                    *code = e8m0::encode(*x, rounding);
                }
            })
        };
        assert_eq!(got, want, "{mode}");
        eprintln!("{mode}: all 2^32 inputs as recorded");
    }
}

#[test]
#[ignore = "hashes nine streams of 4 GiB: a minute in release, ten in a debug build; SPARK_FULL_TESTS=1 runs it from the ordinary suite"]
fn every_f32_converts_as_the_gpu_does() {
    check_every_f32();
}

#[test]
fn every_f32_converts_as_the_gpu_does_when_full_tests_are_asked_for() {
    if spark_testing::settings::full_tests() {
        check_every_f32();
    } else {
        eprintln!("skipped: set SPARK_FULL_TESTS=1 to hash all 2^32 conversions of nine formats");
    }
}
