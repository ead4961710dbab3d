//! NVFP4 and MX tensors against torchao, NVFP4 also against ModelOpt's formula.

use safetensors::SafeTensors;
use spark_quant::block::{MxScale, Nvfp4Formula, Quantizer, Recipe, ScaleSearch};
use spark_quant::packed::{Scales, swizzle};
use spark_quant::scalar::MiniFormat;
use spark_quant::{ExecutionPolicy, PackedTensor};

use crate::data::{truth_bytes, truth_f32};

const SHAPE: [usize; 2] = [130, 80];

fn nvfp4(formula: Nvfp4Formula, policy: ExecutionPolicy, values: &[f32]) -> PackedTensor {
    let quantizer = Quantizer::new(Recipe::Nvfp4 {
        formula,
        search: ScaleSearch::Amax,
    });
    quantizer
        .quantize(policy, values, &SHAPE, 1)
        .expect("finite values")
}

fn block_scales(tensor: &PackedTensor) -> (&[u8], f32) {
    match tensor.scales() {
        Scales::Nvfp4 { block, tensor } => (block, *tensor),
        other => panic!("not NVFP4: {other:?}"),
    }
}

#[test]
fn nvfp4_equals_torchao_byte_for_byte() {
    let Some(values) = truth_f32("nvfp4_in_130x80_f32.bin") else {
        return;
    };
    let (Some(codes), Some(scales), Some(swizzled)) = (
        truth_bytes("nvfp4_codes_130x40_u8.bin"),
        truth_bytes("nvfp4_scale_130x5_e4m3.bin"),
        truth_bytes("nvfp4_scale_swizzled.bin"),
    ) else {
        return;
    };
    for policy in ExecutionPolicy::every_level() {
        let packed = nvfp4(Nvfp4Formula::TorchAo, policy, &values);
        let (block, tensor) = block_scales(&packed);
        assert_eq!(tensor.to_bits(), (3.0f32 / 2688.0).to_bits());
        assert_eq!(block, scales, "{}", policy.level().name());
        assert_eq!(packed.codes(), codes, "{}", policy.level().name());
        assert_eq!(packed.swizzled_scales().expect("block scales"), swizzled);
    }
    assert_eq!(
        swizzle::unswizzle(&swizzled, 130, 5).expect("padded size"),
        scales
    );
}

#[test]
fn modelopt_differs_from_torchao_only_in_the_zero_and_the_tiny_block() {
    let Some(values) = truth_f32("nvfp4_in_130x80_f32.bin") else {
        return;
    };
    let Some(scales) = truth_bytes("nvfp4_scale_130x5_e4m3.bin") else {
        return;
    };
    for policy in ExecutionPolicy::every_level() {
        let packed = nvfp4(Nvfp4Formula::ModelOpt, policy, &values);
        let (block, _) = block_scales(&packed);
        let different: Vec<_> = (0..scales.len())
            .filter(|&i| block[i] != scales[i])
            .map(|i| (i, block[i]))
            .collect();
        assert_eq!(different, [(0, 0x38), (6, 0x01)]);
    }
}

#[test]
fn mx_equals_torchao_for_every_format_and_rule() {
    let Some(file) = truth_bytes("mx_40x96.safetensors") else {
        return;
    };
    let tensors = SafeTensors::deserialize(&file).expect("a safetensors file");
    let tensor = |name: &str| tensors.tensor(name).expect("a recorded tensor");
    let words = tensor("in").data().as_chunks::<4>().0;
    let values: Vec<f32> = words.iter().map(|&word| f32::from_le_bytes(word)).collect();
    let mut n_checked = 0;
    for format in MiniFormat::ALL {
        for (name, scale) in [
            ("floor", MxScale::Floor),
            ("rceil", MxScale::RoundUp),
            ("even", MxScale::Even),
        ] {
            let folder = format!("{}/{name}", format.spec().name.to_lowercase());
            let (want_scale, want_code) = (
                tensor(&format!("{folder}/scale")),
                tensor(&format!("{folder}/code")),
            );
            for policy in ExecutionPolicy::every_level() {
                let quantizer = Quantizer::new(Recipe::Mx { format, scale });
                let packed = quantizer
                    .quantize(policy, &values, &[40, 96], 1)
                    .expect("finite values");
                let Scales::Mx(scales) = packed.scales() else {
                    panic!("MX scales")
                };
                assert_eq!(
                    scales,
                    want_scale.data(),
                    "{folder} on {}",
                    policy.level().name()
                );
                for (row, want) in want_code.data().chunks_exact(96).enumerate() {
                    assert_eq!(
                        &*packed.row_codes(row),
                        want,
                        "{folder} row {row} on {}",
                        policy.level().name()
                    );
                }
                n_checked += 1;
            }
        }
    }
    assert_eq!(n_checked, 15 * ExecutionPolicy::every_level().len());
}
