//! GEMM against its definition, bit for bit, and against f64.

use half::bf16;
use proptest::prelude::*;

use super::*;
use crate::block::{Granularity, Quantizer, Recipe, Rotation, stochastic::philox};
use crate::reference;
use crate::scalar::MiniFormat;

const MODES: [InputMode; 3] = [InputMode::Exact, InputMode::Int8, InputMode::WeightFormat];

fn recipes() -> Vec<Recipe> {
    let mx = |format| Recipe::Mx {
        format,
        scale: crate::block::MxScale::RoundUp,
    };
    let mut recipes = vec![Recipe::NVFP4, Recipe::INT8, Recipe::FP8];
    recipes.extend(MiniFormat::ALL.map(mx));
    for granularity in [
        Granularity::Tensor,
        Granularity::Block { rows: 2, depth: 24 },
    ] {
        recipes.push(Recipe::Int8 { granularity });
        recipes.push(Recipe::Fp8 {
            format: MiniFormat::E5m2,
            granularity,
        });
    }
    recipes
}

fn values(n: usize, seed: u64) -> Vec<f32> {
    (0..n)
        .map(|i| philox(seed, i as u64)[0] as f32 / 2f32.powi(31) - 1.0)
        .collect()
}

fn exists(weights: &PackedTensor, mode: InputMode) -> bool {
    let byte_kind = weights.format().code_bits() == 4 || weights.format() == PackedFormat::Int8;
    let whole_rows =
        !matches!(weights.scales(), Scales::F32 { block, .. } if block[1] < weights.depth());
    match (mode, weights.format()) {
        (InputMode::Exact, _) => true,
        (_, PackedFormat::Int8) => whole_rows,
        (InputMode::Int8, _) => byte_kind,
        (InputMode::WeightFormat, _) => true,
    }
}

#[track_caller]
fn check(recipe: Recipe, n_rows: usize, depth: usize, n_inputs: usize, mode: InputMode) {
    let policy = ExecutionPolicy::one_thread();
    let original = values(n_rows * depth, 3);
    let weights = Quantizer::new(recipe)
        .quantize(policy, &original, &[n_rows, depth], 1)
        .expect("finite");
    let x = values(n_inputs * depth, 4);
    let mut out = vec![0.0; n_inputs * n_rows];
    if !exists(&weights, mode) {
        let result = weights.gemm(
            policy,
            Input::F32(&x),
            n_inputs,
            mode,
            Epilogue::default(),
            &mut out,
        );
        assert!(
            matches!(result, Err(QuantError::Unsupported { .. })),
            "{recipe:?} {mode:?}"
        );
        return;
    }
    let want = reference::gemm(&weights, &x, n_inputs, mode);
    for policy in ExecutionPolicy::every_level() {
        weights
            .gemm(
                policy,
                Input::F32(&x),
                n_inputs,
                mode,
                Epilogue::default(),
                &mut out,
            )
            .expect("supported");
        for (i, (got, want)) in out.iter().zip(&want).enumerate() {
            let what = format!(
                "{recipe:?} {mode:?} {n_rows}x{depth} x{n_inputs} on {}",
                policy.level().name()
            );
            assert_eq!(
                got.to_bits(),
                want.to_bits(),
                "{what}, output {i}: {got} {want}"
            );
        }
    }
    // The definition itself against plain f64 sums: six standard deviations of the rounding
    // error, which is a tenth of a term for one bit of mantissa and a twentieth for two.
    let dequantized = weights.dequantize(policy).expect("whole");
    let tolerance = match (mode, recipe.format().code_bits()) {
        (InputMode::Exact, _) => 1e-5,
        (InputMode::WeightFormat, 4) => 0.6,
        (InputMode::WeightFormat, _) => 0.3,
        (InputMode::Int8, _) => 0.03,
    };
    for (i, got) in want.iter().enumerate() {
        let (input, row) = (
            &x[i / n_rows * depth..][..depth],
            &dequantized[i % n_rows * depth..][..depth],
        );
        let terms = || {
            input
                .iter()
                .zip(row)
                .map(|(x, w)| f64::from(*x) * f64::from(*w))
        };
        let (sum, size) = (
            terms().sum::<f64>(),
            terms().map(|t| t * t).sum::<f64>().sqrt(),
        );
        let error = (f64::from(*got) - sum).abs();
        assert!(
            error <= tolerance * size.max(1e-3),
            "{recipe:?} {mode:?} {n_rows}x{depth}: {got} {sum}"
        );
    }
}

#[test]
fn products_equal_the_definition_for_every_format_and_mode() {
    for recipe in recipes() {
        for mode in MODES {
            check(recipe, 9, 384, 1, mode);
            check(recipe, 3, 272, 6, mode);
            check(recipe, 5, 37, 2, mode);
            check(recipe, 2, 0, 5, mode);
        }
    }
}

#[test]
fn integer_sums_longer_than_one_run_are_exact() {
    check(
        Recipe::INT8,
        5,
        bytes::INTEGER_RUN + 100,
        1,
        InputMode::Int8,
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_size_equals_the_definition(
        n_rows in 1usize..12, depth in 1usize..300, n_inputs in 1usize..7, which in 0usize..1000, mode in 0usize..3,
    ) {
        let recipes = recipes();
        check(recipes[which % recipes.len()], n_rows, depth, n_inputs, MODES[mode]);
    }
}

#[test]
fn threads_and_row_ranges_change_nothing() {
    let (n_rows, depth) = (1030, 1024);
    let many =
        ExecutionPolicy::detect().with_threads(std::num::NonZeroUsize::new(3).expect("not zero"));
    let weights = Quantizer::new(Recipe::NVFP4)
        .quantize(many, &values(n_rows * depth, 1), &[n_rows, depth], 1)
        .expect("finite");
    let x = values(2 * depth, 2);
    for mode in MODES {
        let mut one = vec![0.0; 2 * n_rows];
        weights
            .gemm(
                ExecutionPolicy::one_thread(),
                Input::F32(&x),
                2,
                mode,
                Epilogue::default(),
                &mut one,
            )
            .expect("supported");
        let mut three = vec![0.0; 2 * n_rows];
        weights
            .gemm(
                many,
                Input::F32(&x),
                2,
                mode,
                Epilogue::default(),
                &mut three,
            )
            .expect("supported");
        assert_eq!(one, three);
        let prepared = weights
            .prepare(many, Input::F32(&x), 2, mode)
            .expect("supported");
        let mut part = vec![0.0; 2 * 7];
        weights
            .gemm_rows(many, &prepared, 500, Epilogue::default(), &mut part)
            .expect("inside");
        for row in 0..7 {
            assert_eq!(
                part[2 * row..][..2],
                [one[500 + row], one[n_rows + 500 + row]]
            );
        }
        let mut beyond = vec![0.0; 2 * 31];
        assert!(
            weights
                .gemm_rows(many, &prepared, 1000, Epilogue::default(), &mut beyond)
                .is_err()
        );
    }
}

#[test]
fn bias_and_activation_follow_the_sum() {
    let policy = ExecutionPolicy::detect();
    let weights = Quantizer::new(Recipe::INT8)
        .quantize(policy, &values(6 * 40, 1), &[6, 40], 1)
        .expect("finite");
    let x = values(2 * 40, 2);
    let plain = reference::gemm(&weights, &x, 2, InputMode::Exact);
    let bias = values(6, 3);
    for activation in [
        Activation::None,
        Activation::Relu,
        Activation::Silu,
        Activation::Elu,
        Activation::GeluTanh,
    ] {
        let mut out = vec![0.0; 12];
        let epilogue = Epilogue {
            bias: Some(&bias),
            activation,
        };
        weights
            .gemm(
                policy,
                Input::F32(&x),
                2,
                InputMode::Exact,
                epilogue,
                &mut out,
            )
            .expect("supported");
        for (i, got) in out.iter().enumerate() {
            assert_eq!(
                got.to_bits(),
                activation.apply(plain[i] + bias[i % 6]).to_bits(),
                "{activation:?}"
            );
        }
    }
    assert!((Activation::GeluTanh.apply(1.0) - 0.841_192).abs() < 1e-5);
    assert!((Activation::Elu.apply(-1.0) + 0.632_120_5).abs() < 1e-6);
    assert!((Activation::Silu.apply(1.0) - 0.731_058_6).abs() < 1e-6);
}

#[test]
fn bf16_inputs_are_widened_exactly() {
    let policy = ExecutionPolicy::detect();
    let weights = Quantizer::new(Recipe::MXFP8)
        .quantize(policy, &values(4 * 64, 1), &[4, 64], 1)
        .expect("finite");
    let narrow: Vec<bf16> = values(64, 2).into_iter().map(bf16::from_f32).collect();
    let wide: Vec<f32> = narrow.iter().map(|x| x.to_f32()).collect();
    let (mut from_narrow, mut from_wide) = (vec![0.0; 4], vec![0.0; 4]);
    weights
        .gemm(
            policy,
            Input::Bf16(&narrow),
            1,
            InputMode::Exact,
            Epilogue::default(),
            &mut from_narrow,
        )
        .expect("supported");
    weights
        .gemm(
            policy,
            Input::F32(&wide),
            1,
            InputMode::Exact,
            Epilogue::default(),
            &mut from_wide,
        )
        .expect("supported");
    assert_eq!(from_narrow, from_wide);
}

#[test]
fn rotated_weights_meet_rotated_inputs() {
    let policy = ExecutionPolicy::detect();
    let original = values(8 * 256, 1);
    let rotation = Some(Rotation::new(64, 5).expect("a size"));
    let quantizer = Quantizer {
        rotation,
        ..Quantizer::new(Recipe::INT8)
    };
    let weights = quantizer
        .quantize(policy, &original, &[8, 256], 1)
        .expect("finite");
    let x = values(256, 2);
    let mut out = vec![0.0; 8];
    weights
        .gemv(policy, &x, InputMode::Exact, Epilogue::default(), &mut out)
        .expect("supported");
    for (row, got) in out.iter().enumerate() {
        let want: f64 = (0..256)
            .map(|k| f64::from(original[row * 256 + k]) * f64::from(x[k]))
            .sum();
        assert!((f64::from(*got) - want).abs() < 0.1, "{got} {want}");
    }
}

#[test]
fn inputs_prepared_for_other_weights_are_refused() {
    let policy = ExecutionPolicy::detect();
    let pack = |recipe| {
        Quantizer::new(recipe)
            .quantize(policy, &values(2 * 64, 1), &[2, 64], 1)
            .expect("finite")
    };
    let (nvfp4, int8) = (pack(Recipe::NVFP4), pack(Recipe::INT8));
    let x = values(64, 2);
    let prepared = nvfp4
        .prepare(policy, Input::F32(&x), 1, InputMode::Exact)
        .expect("supported");
    let mut out = [7.0; 2];
    let error = int8
        .gemm_prepared(policy, &prepared, Epilogue::default(), &mut out)
        .expect_err("another layout");
    assert!(error.to_string().contains("int8"), "{error}");
    let bytes = nvfp4
        .prepare(policy, Input::F32(&x), 1, InputMode::Int8)
        .expect("supported");
    assert!(
        pack(Recipe::MXFP4)
            .gemm_prepared(policy, &bytes, Epilogue::default(), &mut out)
            .is_err()
    );
    assert!(
        nvfp4
            .prepare(policy, Input::F32(&x[..63]), 1, InputMode::Exact)
            .is_err()
    );
    let infinite = vec![f32::INFINITY; 64];
    assert!(matches!(
        nvfp4.prepare(policy, Input::F32(&infinite), 1, InputMode::Int8),
        Err(QuantError::NotFinite { index: 0, .. })
    ));
    assert_eq!(out, [7.0; 2]);
}

#[test]
fn a_poisoned_scale_stops_the_product() {
    let policy = ExecutionPolicy::detect();
    let mut original = values(2 * 64, 1);
    original[100] = f32::NAN;
    for recipe in [Recipe::NVFP4, Recipe::MXFP8, Recipe::FP8] {
        let quantizer = Quantizer {
            non_finite: crate::block::NonFinite::Pass,
            ..Quantizer::new(recipe)
        };
        let weights = quantizer
            .quantize(policy, &original, &[2, 64], 1)
            .expect("passed");
        let result = weights.gemv(
            policy,
            &[1.0; 64],
            InputMode::Exact,
            Epilogue::default(),
            &mut [0.0; 2],
        );
        assert!(
            matches!(result, Err(QuantError::Scale { .. })),
            "{recipe:?}"
        );
    }
}
