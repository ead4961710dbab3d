//! Sensitivities and plans.

use super::*;
use crate::block::stochastic::philox;
use crate::block::{Quantizer, Recipe};
use crate::checkpoint::{Checkpoint, Entry, Layout};
use crate::error::QuantError;
use crate::simd::ExecutionPolicy;

fn weights() -> Vec<NamedWeight> {
    let shapes: [&[usize]; 5] = [&[8, 64], &[16, 32, 3, 3], &[4, 128], &[10, 30], &[32, 32]];
    shapes
        .iter()
        .enumerate()
        .map(|(i, shape)| {
            let n = shape.iter().product();
            // Products of random numbers: more outliers in later weights.
            let value = |k: usize| {
                let words =
                    philox(i as u64, k as u64).map(|word| word as f32 / 2f32.powi(31) - 1.0);
                words[..1 + i % 4].iter().product()
            };
            NamedWeight {
                name: format!("l{i}.weight"),
                shape: shape.to_vec(),
                values: (0..n).map(value).collect(),
            }
        })
        .collect()
}

fn candidates() -> Vec<Candidate> {
    let recipes = [
        Recipe::NVFP4,
        Recipe::MXFP4,
        Recipe::MXFP8,
        Recipe::INT8,
        Recipe::FP8,
    ];
    let packed = recipes.map(|recipe| Candidate::Quantize(Quantizer::new(recipe)));
    packed
        .into_iter()
        .chain([Candidate::Keep(Kept::Bf16)])
        .collect()
}

fn sensitivity() -> Sensitivity {
    Sensitivity::of_weights(ExecutionPolicy::detect(), &weights(), &candidates(), |_| ())
        .expect("finite weights")
}

/// The least cost of any plan within `limit` bytes, by trying all of them.
fn best_cost(sensitivity: &Sensitivity, limit: usize) -> Option<f64> {
    let mut states = vec![(0usize, 0f64)];
    for layer in &sensitivity.layers {
        states = states
            .iter()
            .flat_map(|&(bytes, cost)| {
                layer
                    .choices
                    .iter()
                    .map(move |c| (bytes + c.bytes, cost + c.cost))
            })
            .collect();
    }
    states
        .into_iter()
        .filter(|state| state.0 <= limit)
        .map(|state| state.1)
        .min_by(f64::total_cmp)
}

#[test]
fn short_rows_keep_a_wide_format() {
    let sensitivity = sensitivity();
    let labels = |layer: usize| {
        sensitivity.layers[layer]
            .choices
            .iter()
            .map(|c| c.label.as_str())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        labels(0),
        ["nvfp4", "mxfp4", "mxfp8_e4m3", "int8", "fp8_e4m3", "bf16"]
    );
    assert_eq!(
        labels(3),
        ["int8", "fp8_e4m3", "bf16"],
        "30 values are no whole blocks"
    );
}

#[test]
fn plans_along_the_hull_are_the_best_of_all() {
    let sensitivity = sensitivity();
    let points = sensitivity.pareto().expect("choices everywhere");
    assert!(
        points
            .windows(2)
            .all(|pair| pair[0].bytes < pair[1].bytes && pair[0].cost > pair[1].cost)
    );
    for point in points {
        let plan = sensitivity
            .plan(PlanBudget::Bytes(point.bytes))
            .expect("reachable");
        let best = best_cost(&sensitivity, point.bytes).expect("reachable");
        assert!(plan.bytes <= point.bytes);
        assert!(
            (plan.cost - best).abs() <= 1e-12 + 1e-9 * best,
            "{} bytes: {} {best}",
            point.bytes,
            plan.cost
        );
    }
}

#[test]
fn plans_between_corners_keep_to_the_budget() {
    let sensitivity = sensitivity();
    let points = sensitivity.pareto().expect("choices everywhere");
    let (least, most) = (points[0].bytes, points[points.len() - 1].bytes);
    for limit in (least..most + 100).step_by(37) {
        let plan = sensitivity
            .plan(PlanBudget::Bytes(limit))
            .expect("reachable");
        assert!(plan.bytes <= limit);
        let corner = points
            .iter()
            .rev()
            .find(|point| point.bytes <= limit)
            .expect("the cheapest fits");
        assert!(plan.cost <= corner.cost * (1.0 + 1e-9) + 1e-12);
        let by_cost = sensitivity
            .plan(PlanBudget::Cost(plan.cost * (1.0 + 1e-9) + 1e-12))
            .expect("just reached");
        assert!(by_cost.cost <= plan.cost * (1.0 + 1e-9) + 1e-12);
    }
    let error = sensitivity
        .plan(PlanBudget::Bytes(least - 1))
        .expect_err("too small");
    assert!(
        matches!(error, QuantError::Budget { best, .. } if best == least as f64),
        "{error}"
    );
    assert!(matches!(
        sensitivity.plan(PlanBudget::Cost(0.0)),
        Err(QuantError::Budget { unit: "cost", .. })
    ));
}

#[test]
fn a_plan_becomes_a_checkpoint_of_the_planned_size() {
    let (weights, candidates) = (weights(), candidates());
    let sensitivity = sensitivity();
    let plan = sensitivity
        .plan(PlanBudget::Bytes(8000))
        .expect("reachable");
    let checkpoint = plan
        .apply(ExecutionPolicy::detect(), &weights, &candidates)
        .expect("finite");
    assert_eq!(checkpoint.size_bytes(), plan.bytes);
    let bytes = checkpoint
        .to_bytes(Layout::CompressedTensors)
        .expect("representable");
    let (back, _) = Checkpoint::from_bytes(&bytes).expect("our own file");
    assert_eq!(back, checkpoint);
    let Entry::Quantized(conv) = &back.entries["l1.weight"] else {
        panic!("quantized")
    };
    assert_eq!(conv.shape, [16, 32, 3, 3]);
}

#[test]
fn the_callers_cost_decides_and_its_error_stops() {
    let (weights, candidates) = (weights(), candidates());
    // Only the third weight matters to this caller.
    let cost =
        |weight: &NamedWeight, values: &[f32], measure: &ErrorMeasure| -> Result<f64, String> {
            assert_eq!(values.len(), weight.values.len());
            Ok(if weight.name == "l2.weight" {
                measure.noise
            } else {
                0.0
            })
        };
    let mut done = Vec::new();
    let found = Sensitivity::with(
        ExecutionPolicy::detect(),
        &weights,
        &candidates,
        cost,
        |n| done.push(n),
    );
    let found = found
        .expect("finite weights")
        .expect("no error of the caller");
    assert_eq!(done, [1, 2, 3, 4, 5]);
    let least: usize = found
        .layers
        .iter()
        .filter_map(|l| l.choices.iter().map(|c| c.bytes).min())
        .sum();
    let plan = found
        .plan(PlanBudget::Bytes(least + 10_000))
        .expect("reachable");
    assert_eq!(plan.picks[2].label, "bf16");
    assert!(
        plan.picks
            .iter()
            .filter(|pick| pick.name != "l2.weight")
            .all(|pick| pick.bytes < 10_000)
    );
    let failed = Sensitivity::with(
        ExecutionPolicy::detect(),
        &weights,
        &candidates,
        |_, _, _| Err("no network"),
        |_| (),
    );
    assert_eq!(
        failed.expect("finite weights").expect_err("the caller's"),
        "no network"
    );
}

#[test]
fn uniform_plans_fall_back_where_a_format_does_not_fit() {
    let plan = sensitivity().uniform(0).expect("choices everywhere");
    let labels: Vec<&str> = plan.picks.iter().map(|pick| pick.label.as_str()).collect();
    assert_eq!(labels, ["nvfp4", "nvfp4", "nvfp4", "bf16", "nvfp4"]);
}

#[test]
fn plots_leave_out_what_is_infinite() {
    let dot = |label: &str, bytes, sqnr_db| plot::Dot {
        label: label.to_owned(),
        bytes,
        sqnr_db,
    };
    let dots = [dot("a<b", 1e6, 20.0), dot("exact", 4e6, f64::INFINITY)];
    let svg = plot::sqnr_against_bytes(
        "R & D",
        &dots,
        &[(1e6, 20.0), (2e6, 30.0), (4e6, f64::INFINITY)],
    );
    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
    assert!(
        svg.contains("a&lt;b")
            && svg.contains("R &amp; D")
            && !svg.contains("exact")
            && !svg.contains("inf")
            && !svg.contains("NaN")
    );
    assert_eq!(svg.matches("<circle").count(), 1);
}

#[test]
fn a_choice_that_reads_back_as_infinity_is_none() {
    let of = |value: f32| {
        let values = (0..64).map(|i| if i % 3 == 0 { value } else { -value });
        let weight = NamedWeight {
            name: "top.weight".to_owned(),
            shape: vec![2, 32],
            values: values.collect(),
        };
        Sensitivity::of_weights(ExecutionPolicy::detect(), &[weight], &candidates(), |_| ())
            .expect("finite weights")
    };
    let labels = |sensitivity: &Sensitivity| -> Vec<usize> {
        let choices = sensitivity.layers[0].choices.iter();
        choices.map(|choice| choice.candidate).collect()
    };
    // The better exponent of MXFP4 is 2^126, of which four are 2^128.
    let sensitivity = of(3e38);
    assert_eq!(labels(&sensitivity), [0, 2, 3, 4, 5]);
    let plan = sensitivity.uniform(1).expect("bf16 is left");
    assert_eq!(plan.picks[0].candidate, 5);
    assert!(
        plan.cost.is_finite() && plan.picks[0].sqnr_db > 40.0,
        "{plan:?}"
    );
    for point in sensitivity.pareto().expect("finite costs") {
        assert!(point.cost.is_finite(), "{point:?}");
    }
    // bf16 rounds the largest f32 up to infinity; what is left is finite.
    let sensitivity = of(f32::MAX);
    assert!(!labels(&sensitivity).contains(&5));
    let choices = &sensitivity.layers[0].choices;
    assert!(
        choices
            .iter()
            .all(|choice| choice.measure.noise.is_finite())
    );
    // A weight in the middle has every choice.
    assert_eq!(labels(&of(1.0)), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn shapes_that_no_values_fill_are_refused() {
    for shape in [
        vec![1, 1 << 33, 1 << 33],
        vec![0, usize::MAX, usize::MAX],
        vec![1, 3, 12_297_829_382_473_034_412],
    ] {
        let weight = NamedWeight {
            name: "w".to_owned(),
            shape,
            values: vec![1.0; 4],
        };
        let candidates = [Candidate::Quantize(Quantizer::new(Recipe::FP8))];
        let refused = Sensitivity::of_weights(
            ExecutionPolicy::one_thread(),
            &[weight],
            &candidates,
            |_| {},
        );
        assert!(refused.is_err() || refused.is_ok_and(|s| s.layers[0].choices.is_empty()));
    }
}
