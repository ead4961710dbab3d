//! Signal to noise of whole formats on Gaussian weights.

use spark_quant::analysis::ErrorMeasure;
use spark_quant::block::stochastic::philox;
use spark_quant::block::{Granularity, Quantizer, Recipe, ScaleSearch};
use spark_quant::scalar::MiniFormat;
use spark_quant::{ExecutionPolicy, block};

/// Independent normal values by Box and Muller.
fn gaussian(n: usize, std: f64) -> Vec<f32> {
    let unit = |word: u32| (f64::from(word) + 0.5) / 4_294_967_296.0;
    (0..n.div_ceil(2) as u64)
        .flat_map(|i| {
            let [a, b, ..] = philox(2026, i);
            let (radius, angle) = (
                (-2.0 * unit(a).ln()).sqrt() * std,
                std::f64::consts::TAU * unit(b),
            );
            [(radius * angle.cos()) as f32, (radius * angle.sin()) as f32]
        })
        .take(n)
        .collect()
}

fn sqnr_db(recipe: Recipe, values: &[f32]) -> f64 {
    let shape = [values.len() / 1024, 1024];
    let back = Quantizer::new(recipe)
        .round_trip(ExecutionPolicy::detect(), values, &shape, 1)
        .expect("finite values");
    ErrorMeasure::between(values, &back)
        .expect("equal lengths")
        .sqnr_db()
}

#[test]
fn nvfp4_keeps_its_accuracy_at_every_weight_scale() {
    for std in [1.0, 0.02, 0.002, 1e-6, 1e-20, 1e20] {
        let values = gaussian(1 << 18, std);
        let amax = sqnr_db(Recipe::NVFP4, &values);
        let sweep = sqnr_db(Recipe::NVFP4_SWEEP, &values);
        let formula = block::Nvfp4Formula::ModelOpt;
        let four_over_six = sqnr_db(
            Recipe::Nvfp4 {
                formula,
                search: ScaleSearch::FourOverSix,
            },
            &values,
        );
        eprintln!(
            "std {std:e}: amax {amax:.2} dB, four-over-six {four_over_six:.2} dB, sweep {sweep:.2} dB"
        );
        assert!(amax >= 20.4, "std {std}: amax {amax}");
        assert!(
            four_over_six >= 21.1,
            "std {std}: four over six {four_over_six}"
        );
        assert!(sweep >= 21.7, "std {std}: sweep {sweep}");
    }
}

#[test]
fn other_formats_reach_the_figures_of_reference_implementations_on_gaussian_weights() {
    let values = gaussian(1 << 18, 0.02);
    let mx = |format, scale| Recipe::Mx { format, scale };
    let figures = [
        (mx(MiniFormat::E4m3, block::MxScale::Floor), 30.6),
        (mx(MiniFormat::E4m3, block::MxScale::RoundUp), 31.5),
        (mx(MiniFormat::E2m3, block::MxScale::Floor), 30.9),
        (mx(MiniFormat::E3m2, block::MxScale::Floor), 25.4),
        (mx(MiniFormat::E2m1, block::MxScale::Floor), 18.77),
        (mx(MiniFormat::E2m1, block::MxScale::RoundUp), 18.73),
        (mx(MiniFormat::E2m1, block::MxScale::Even), 19.01),
        (mx(MiniFormat::E2m1, block::MxScale::Mse), 19.03),
        (Recipe::INT8, 42.1),
        (
            Recipe::Fp8 {
                format: MiniFormat::E4m3,
                granularity: Granularity::Tensor,
            },
            31.6,
        ),
        (
            Recipe::Fp8 {
                format: MiniFormat::E5m2,
                granularity: Granularity::Tensor,
            },
            25.6,
        ),
    ];
    for (recipe, reference) in figures {
        let got = sqnr_db(recipe, &values);
        assert!(
            (got - reference).abs() <= 0.2,
            "{recipe:?}: {got:.2} dB, reference {reference}"
        );
    }
}
