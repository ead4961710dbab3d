//! Block quantizers against their naive definitions.

use proptest::prelude::*;

use super::*;
use crate::error::QuantError;
use crate::packed::{PackedTensor, Scales};
use crate::reference;
use crate::scalar::MiniFormat;
use crate::simd::ExecutionPolicy;

/// Every recipe with every choice.
fn all_recipes() -> Vec<Recipe> {
    let mut recipes = Vec::new();
    for formula in [Nvfp4Formula::ModelOpt, Nvfp4Formula::TorchAo] {
        for search in [
            ScaleSearch::Amax,
            ScaleSearch::FourOverSix,
            ScaleSearch::Sweep,
        ] {
            recipes.push(Recipe::Nvfp4 { formula, search });
        }
    }
    for format in MiniFormat::ALL {
        for scale in [
            MxScale::Floor,
            MxScale::Ceil,
            MxScale::RoundUp,
            MxScale::Even,
            MxScale::Mse,
        ] {
            recipes.push(Recipe::Mx { format, scale });
        }
    }
    let granularities = [
        Granularity::Tensor,
        Granularity::Row,
        Granularity::Block { rows: 2, depth: 24 },
    ];
    for granularity in granularities {
        recipes.push(Recipe::Int8 { granularity });
        recipes.push(Recipe::Fp8 {
            format: MiniFormat::E4m3,
            granularity,
        });
        recipes.push(Recipe::Fp8 {
            format: MiniFormat::E5m2,
            granularity,
        });
    }
    recipes
}

/// Packs with the naive definition into a tensor of one axis per row.
fn naive(recipe: Recipe, values: &[f32], extent: &rows::Extent) -> (Vec<u8>, Scales) {
    let padded = extent.depth.next_multiple_of(recipe.format().block());
    let rows = rows::gather(values, extent, padded).expect("small");
    reference::quantize(recipe, &rows, extent.n_rows(), padded)
}

#[track_caller]
fn check(recipe: Recipe, values: &[f32], shape: &[usize], axis: usize) {
    let extent = rows::Extent::new(shape, axis).expect("small");
    let padded = extent.depth.next_multiple_of(recipe.format().block());
    let (codes, scales) = naive(recipe, values, &extent);
    for policy in ExecutionPolicy::every_level() {
        let packed = Quantizer::new(recipe)
            .quantize(policy, values, shape, axis)
            .expect("finite values");
        let name = policy.level().name();
        assert_eq!(packed.scales(), &scales, "scales of {recipe:?} on {name}");
        for row in 0..packed.n_rows() {
            let want = &codes[row * padded..row * padded + extent.depth];
            assert_eq!(
                &*packed.row_codes(row),
                want,
                "row {row} of {recipe:?} on {name}"
            );
        }
        let values = packed.dequantize(policy).expect("whole tensor");
        let got = rows::gather(&values, &extent, extent.depth).expect("small");
        let want = reference::dequantize(&packed);
        assert!(
            got.iter()
                .zip(&want)
                .all(|(a, b)| a.to_bits() == b.to_bits()),
            "values of {recipe:?} on {name}"
        );
    }
}

/// Values over many magnitudes, with zeros, whole blocks of zeros, ties and one outlier.
fn mixed_values(n: usize, seed: u64) -> Vec<f32> {
    let word = |i: usize| stochastic::philox(seed, i as u64);
    let mut values: Vec<f32> = (0..n)
        .map(|i| {
            let [a, b, c, d] = word(i);
            let unit = a as f32 / 2f32.powi(31) - 1.0;
            match b % 8 {
                0 => 0.0,
                1 => -0.0,
                2 => (c % 13) as f32 * 0.25 - 1.5,
                3 => unit * 2f32.powi((d % 40) as i32 - 30),
                _ => unit,
            }
        })
        .collect();
    values.iter_mut().skip(40).take(64).for_each(|x| *x = 0.0);
    if let Some(x) = values.get_mut(7) {
        *x = -300.0;
    }
    values
}

#[test]
fn every_recipe_equals_its_definition_on_every_level() {
    for recipe in all_recipes() {
        check(recipe, &mixed_values(3 * 352, 1), &[3, 352], 1);
        check(recipe, &mixed_values(37 * 5, 2), &[5, 37], 1);
        check(recipe, &mixed_values(4 * 50 * 3, 3), &[4, 50, 3], 1);
    }
}

#[test]
fn extreme_magnitudes_equal_the_definition() {
    for recipe in all_recipes() {
        for scale in [f32::MIN_POSITIVE, 1e-42, 1e-30, 1e30, 3e38] {
            let values: Vec<f32> = mixed_values(128, 4)
                .iter()
                .map(|x| x.clamp(-1.0, 1.0) * scale)
                .collect();
            check(recipe, &values, &[2, 64], 1);
        }
        check(recipe, &[0.0; 64], &[1, 64], 1);
        check(recipe, &[-0.0; 16], &[16], 0);
    }
}

#[test]
fn empty_tensors_pack_to_nothing() {
    for recipe in all_recipes() {
        check(recipe, &[], &[0, 16], 1);
        check(recipe, &[], &[3, 0], 1);
        check(recipe, &[], &[2, 0, 4], 1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_shape_and_axis_equals_the_definition(
        shape in prop::collection::vec(1usize..40, 1..4),
        axis_seed in 0usize..3,
        value_seed in any::<u64>(),
        which in 0usize..1000,
    ) {
        let recipes = all_recipes();
        let n: usize = shape.iter().product();
        check(recipes[which % recipes.len()], &mixed_values(n, value_seed), &shape, axis_seed % shape.len());
    }

    #[test]
    fn packing_dequantized_values_again_changes_nothing(value_seed in any::<u64>(), which in 0usize..1000) {
        // FP6, FP8 and INT8 keep the largest value of a block exactly, so they are stable.
        let recipes: Vec<Recipe> = all_recipes()
            .into_iter()
            .filter(|recipe| matches!(recipe, Recipe::Mx { scale: MxScale::Floor | MxScale::RoundUp, .. }))
            .collect();
        let quantizer = Quantizer::new(recipes[which % recipes.len()]);
        let policy = ExecutionPolicy::one_thread();
        let once = quantizer.round_trip(policy, &mixed_values(320, value_seed), &[5, 64], 1).expect("finite");
        let twice = quantizer.round_trip(policy, &once, &[5, 64], 1).expect("finite");
        prop_assert_eq!(once, twice);
    }
}

#[test]
fn threads_change_nothing() {
    let values = mixed_values(640 * 1030, 5);
    let many =
        ExecutionPolicy::detect().with_threads(std::num::NonZeroUsize::new(5).expect("not zero"));
    for recipe in [
        Recipe::NVFP4,
        Recipe::MXFP4,
        Recipe::MXFP6,
        Recipe::INT8,
        Recipe::FP8,
    ] {
        let quantizer = Quantizer::new(recipe);
        let one = quantizer
            .quantize(ExecutionPolicy::one_thread(), &values, &[1030, 640], 1)
            .expect("finite");
        let five = quantizer
            .quantize(many, &values, &[1030, 640], 1)
            .expect("finite");
        assert_eq!(one, five, "{recipe:?}");
        assert_eq!(
            one.dequantize(ExecutionPolicy::one_thread())
                .expect("whole"),
            one.dequantize(many).expect("whole")
        );
    }
}

#[test]
fn memory_of_another_tensor_is_overwritten_completely() {
    let policy = ExecutionPolicy::detect();
    let (first, second) = (mixed_values(8 * 96, 12), mixed_values(5 * 64, 13));
    for old in all_recipes() {
        for recipe in [Recipe::NVFP4, Recipe::MXFP6, Recipe::INT8] {
            let old = Quantizer::new(old)
                .quantize(policy, &first, &[8, 96], 1)
                .expect("finite");
            let quantizer = Quantizer::new(recipe);
            let reused = quantizer
                .quantize_reusing(policy, &second, &[5, 64], 1, old)
                .expect("finite");
            assert_eq!(
                reused,
                quantizer
                    .quantize(policy, &second, &[5, 64], 1)
                    .expect("finite")
            );
        }
    }
}

#[test]
fn a_round_trip_in_place_is_the_same_and_all_or_nothing() {
    let (policy, shape) = (ExecutionPolicy::detect(), [3, 40, 2]);
    let mut values = mixed_values(240, 14);
    let quantizer = Quantizer::new(Recipe::NVFP4);
    let want = quantizer
        .round_trip(policy, &values, &shape, 1)
        .expect("finite");
    quantizer
        .round_trip_in_place(policy, &mut values, &shape, 1)
        .expect("finite");
    assert_eq!(values, want);
    values[100] = f32::INFINITY;
    let before = values.clone();
    assert!(
        quantizer
            .round_trip_in_place(policy, &mut values, &shape, 1)
            .is_err()
    );
    assert_eq!(values, before);
}

#[test]
fn nan_and_infinity_are_refused_where_they_stand() {
    for recipe in all_recipes() {
        for (bad, at) in [(f32::NAN, 77), (f32::INFINITY, 3), (f32::NEG_INFINITY, 119)] {
            let mut values = mixed_values(120, 6);
            values[at] = bad;
            let error = Quantizer::new(recipe)
                .quantize(ExecutionPolicy::detect(), &values, &[4, 30], 0)
                .expect_err("not finite");
            assert!(
                matches!(error, QuantError::NotFinite { index, value } if index == at && value.to_bits() == bad.to_bits()),
                "{error}"
            );
        }
    }
}

#[test]
fn passed_nan_poisons_its_block_and_no_other() {
    for recipe in [Recipe::NVFP4, Recipe::MXFP4, Recipe::INT8] {
        let mut values = mixed_values(128, 7);
        values[70] = f32::NAN;
        let quantizer = Quantizer {
            non_finite: NonFinite::Pass,
            ..Quantizer::new(recipe)
        };
        let back = quantizer
            .round_trip(ExecutionPolicy::detect(), &values, &[2, 64], 1)
            .expect("passed");
        let block = recipe
            .format()
            .block()
            .max(if recipe == Recipe::INT8 { 64 } else { 1 });
        for (i, x) in back.iter().enumerate() {
            assert_eq!(
                x.is_nan(),
                i / block == 70 / block,
                "{recipe:?} element {i}"
            );
        }
    }
}

#[test]
fn clamped_infinity_becomes_the_largest_finite_value() {
    let values = [1.0, f32::INFINITY, f32::NAN, -3.0, f32::NEG_INFINITY, 0.0];
    let quantizer = Quantizer {
        non_finite: NonFinite::Clamp,
        ..Quantizer::new(Recipe::INT8)
    };
    let back = quantizer
        .round_trip(ExecutionPolicy::detect(), &values, &[6], 0)
        .expect("clamped");
    assert_eq!(
        [back[1], back[2], back[4]],
        [127.0 * (3.0 / 127.0), 0.0, -127.0 * (3.0 / 127.0)]
    );
}

#[test]
fn impossible_requests_are_named() {
    let quantizer = Quantizer::new(Recipe::NVFP4);
    let policy = ExecutionPolicy::detect();
    let error = |result: Result<PackedTensor, QuantError>| result.expect_err("refused").to_string();
    assert_eq!(
        error(quantizer.quantize(policy, &[0.0; 4], &[4], 1)),
        "axis 1 of a tensor with 1 dimensions"
    );
    assert_eq!(
        error(quantizer.quantize(policy, &[0.0; 4], &[5], 0)),
        "`values` holds 4 elements, expected 5"
    );
    let huge = error(quantizer.quantize(policy, &[], &[usize::MAX, 2, 0], 2));
    assert!(
        huge.contains("more elements than this machine can address"),
        "{huge}"
    );
    let rotated = Quantizer {
        rotation: Some(Rotation::new(64, 1).expect("a size")),
        ..quantizer
    };
    assert_eq!(
        error(rotated.quantize(policy, &[0.0; 48], &[48], 0)),
        "`axis length` is 48, expected a multiple of 64"
    );
    let fp8 = Quantizer::new(Recipe::Fp8 {
        format: MiniFormat::E2m1,
        granularity: Granularity::Row,
    });
    assert!(error(fp8.quantize(policy, &[0.0; 4], &[4], 0)).contains("E2M1"));
    assert!(Rotation::new(48, 0).is_err());
}

#[test]
fn stochastic_codes_bracket_the_value_and_repeat_with_the_seed() {
    let values = mixed_values(4 * 96, 8);
    for recipe in [
        Recipe::NVFP4,
        Recipe::MXFP8,
        Recipe::MXFP6,
        Recipe::MXFP4,
        Recipe::INT8,
        Recipe::FP8,
    ] {
        let with = |seed| Quantizer {
            rounding: Rounding::Stochastic { seed },
            ..Quantizer::new(recipe)
        };
        let pack = |seed, policy| {
            with(seed)
                .quantize(policy, &values, &[4, 96], 1)
                .expect("finite")
        };
        let first = pack(1, ExecutionPolicy::one_thread());
        for policy in ExecutionPolicy::every_level() {
            assert_eq!(first, pack(1, policy), "{recipe:?}");
        }
        assert_ne!(
            first.codes(),
            pack(2, ExecutionPolicy::one_thread()).codes(),
            "{recipe:?}"
        );
        let nearest = Quantizer::new(recipe)
            .quantize(ExecutionPolicy::one_thread(), &values, &[4, 96], 1)
            .expect("finite");
        assert_eq!(first.scales(), nearest.scales());
        let n = 600;
        let mut mean = vec![0f64; values.len()];
        for seed in 0..n {
            let back = with(seed)
                .round_trip(ExecutionPolicy::one_thread(), &values, &[4, 96], 1)
                .expect("finite");
            mean.iter_mut()
                .zip(back)
                .for_each(|(mean, x)| *mean += f64::from(x) / n as f64);
        }
        // The mean beats nearest rounding over the values that saturation does not touch.
        let rms = |got: &dyn Fn(usize) -> f64| {
            let sum: f64 = (96..values.len())
                .map(|i| (got(i) - f64::from(values[i])).powi(2))
                .sum();
            sum.sqrt()
        };
        let nearest = nearest
            .dequantize(ExecutionPolicy::one_thread())
            .expect("whole");
        if !matches!(
            recipe,
            Recipe::Mx {
                format: MiniFormat::E2m1,
                ..
            }
        ) {
            assert!(
                rms(&|i| mean[i]) < 0.3 * rms(&|i| f64::from(nearest[i])),
                "{recipe:?}"
            );
        }
    }
}

#[test]
fn a_rotation_comes_back_and_keeps_dot_products() {
    for size in [16, 32, 64, 128] {
        let rotation = Rotation::new(size, 9).expect("a size");
        let original = mixed_values(256, 10);
        let other = mixed_values(256, 11);
        let mut bits = Vec::new();
        for policy in ExecutionPolicy::every_level() {
            let (mut a, mut b) = (original.clone(), other.clone());
            rotation.apply(policy, &mut a);
            rotation.apply(policy, &mut b);
            let dot = |a: &[f32], b: &[f32]| {
                a.iter()
                    .zip(b)
                    .map(|(a, b)| f64::from(*a) * f64::from(*b))
                    .sum::<f64>()
            };
            let (want, norm) = (
                dot(&original, &other),
                (dot(&original, &original) * dot(&other, &other)).sqrt(),
            );
            assert!((dot(&a, &b) - want).abs() <= 1e-5 * norm, "size {size}");
            bits.push(a.iter().map(|x| x.to_bits()).collect::<Vec<_>>());
            rotation.undo(policy, &mut a);
            let error = a
                .iter()
                .zip(&original)
                .fold(0f32, |worst, (a, b)| worst.max((a - b).abs()));
            assert!(error <= 1e-4, "size {size}: {error}");
        }
        assert!(
            bits.windows(2).all(|pair| pair[0] == pair[1]),
            "size {size} depends on the level"
        );
    }
}

/// Codes that go past the caches, at every alignment of theirs, are those that do not.
#[test]
fn streamed_codes_are_the_same() {
    const N: usize = 64 * 160;
    let values: Vec<f32> = (0..N).map(|i| (i as f32 * 0.37).sin() * 0.05).collect();
    for policy in ExecutionPolicy::every_level() {
        for (offset, n) in (0..80).step_by(4).zip([0, 32, 96, 4096, N].repeat(4)) {
            let values = &values[..n];
            let nvfp4 = |stream| {
                let (mut codes, mut scales) = (vec![0xA5; offset + n / 2 + 9], vec![0; n / 16]);
                policy.run(nvfp4::Quantize {
                    values,
                    codes: &mut codes[offset..][..n / 2],
                    scales: &mut scales,
                    tensor: 2e-5,
                    formula: Nvfp4Formula::ModelOpt,
                    search: ScaleSearch::Amax,
                    stream,
                });
                (codes, scales)
            };
            assert_eq!(nvfp4(true), nvfp4(false), "{n} values at {offset}");
            let mx = |stream| {
                let (mut codes, mut scales) = (vec![0xA5; offset + n + 9], vec![0; n / 32]);
                let largest = policy.run(mx::Quantize::<crate::scalar::E4m3> {
                    values,
                    codes: &mut codes[offset..][..n],
                    scales: &mut scales,
                    rule: MxScale::RoundUp,
                    stream,
                    format: std::marker::PhantomData,
                });
                (codes, scales, largest)
            };
            assert_eq!(mx(true), mx(false), "{n} values at {offset}");
        }
    }
}
