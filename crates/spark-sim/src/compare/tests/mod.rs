//! The gate: what it decides at the edges, and how often it is wrong.

mod coverage;
mod decisions;
mod documented;
mod rates;

use super::*;
use crate::SimError;
use crate::metric::{Collision, Metrics};
use crate::random::Philox;
use crate::run::{Latency, RunReport, ScenarioError, ScenarioResult};

type Outcome = Result<Metrics, ScenarioError>;

/// A run whose scenario `i` is called "s<i>" and had the noise of `seed`.
fn run(seed: u64, outcomes: impl IntoIterator<Item = Outcome>) -> RunReport {
    let results = outcomes.into_iter().enumerate();
    RunReport {
        algorithm: format!("run {seed}"),
        scenarios: None,
        results: results
            .map(|(index, outcome)| ScenarioResult {
                index,
                replicate: 0,
                name: format!("s{index}"),
                family: None,
                seed,
                outcome,
                trace: None,
            })
            .collect(),
        latency: Latency::default(),
        wall_s: Some(1.0),
        n_threads: Some(1),
        n_agent_steps: 0,
        n_on_gpu: 0,
        device: "test".to_owned(),
    }
}

fn rmse(lateral_error_rmse: f64) -> Outcome {
    Ok(Metrics {
        lateral_error_rmse,
        ..Metrics::default()
    })
}

fn rmses(seed: u64, values: &[f64]) -> RunReport {
    run(seed, values.iter().map(|&x| rmse(x)))
}

fn failure() -> Outcome {
    Err(ScenarioError::StateNotFinite { step_idx: 1 })
}

fn collision() -> Outcome {
    Ok(Metrics {
        collision: Some(Collision {
            time_s: 1.0,
            closing_speed: 2.0,
            actor_idx: 0,
        }),
        ..Metrics::default()
    })
}

fn with(options: &CompareOptions, baseline: &RunReport, candidate: &RunReport) -> Comparison {
    compare(baseline, candidate, options).expect("comparable")
}

fn default(baseline: &RunReport, candidate: &RunReport) -> Comparison {
    with(&CompareOptions::default(), baseline, candidate)
}

fn is_fail(comparison: &Comparison) -> bool {
    matches!(comparison.decision, Decision::Fail { .. })
}

/// Families that an undecided comparison asks for.
fn needed(comparison: &Comparison) -> Option<usize> {
    match comparison.decision {
        Decision::Undecided {
            families_needed, ..
        } => families_needed,
        ref other => panic!("decided: {other:?}"),
    }
}

/// The doubts of an undecided comparison.
fn doubts(comparison: &Comparison) -> &[Doubt] {
    match &comparison.decision {
        Decision::Undecided { because, .. } => because,
        other => panic!("decided: {other:?}"),
    }
}

fn lateral(comparison: &Comparison) -> &MetricComparison {
    comparison.metric("lateral_error_rmse").expect("measured")
}
