//! Comparisons and runs as JSON, for the next program.
//!
//! Deliberately absent: numbers that are not finite, which JSON would turn into `null`.

use crate::SimError;
use crate::compare::{Comparison, MetricSummary, summarise};
use crate::run::{Latency, RunReport};
use serde::Serialize;

/// What the JSON of a run calls itself; another number where what was there means something else or is gone.
pub(super) const RUN_SCHEMA: &str = "spark-sim-run/1";
/// The same of a comparison.
const COMPARISON_SCHEMA: &str = "spark-sim-comparison/1";

/// One run, without its traces.
#[derive(Debug, Serialize)]
struct RunJson<'a> {
    schema: &'static str,
    algorithm: &'a str,
    device: &'a str,
    scenarios: Option<&'a str>,
    n_drives: usize,
    n_agent_steps: u64,
    n_on_gpu: usize,
    wall_s: Option<f64>,
    threads: Option<usize>,
    summary: Vec<MetricSummary>,
    latency_p50_ms: Option<f64>,
    latency_p99_ms: Option<f64>,
    latency: Option<&'a Latency>,
    drives: Vec<DriveJson<'a>>,
}

/// A comparison behind its schema's name.
#[derive(Serialize)]
struct ComparisonJson<'a> {
    schema: &'static str,
    #[serde(flatten)]
    comparison: &'a Comparison,
}

#[derive(Debug, Serialize)]
struct DriveJson<'a> {
    index: usize,
    name: &'a str,
    replicate: usize,
    family: Option<&'a str>,
    seed: u64,
    metrics: Option<&'a crate::metric::Metrics>,
    error: Option<String>,
}

/// A comparison as JSON, schema `spark-sim-comparison/1`. `null` stands for what there is none of: an interval that too few
/// families leave open, a change of a baseline of 0, an event's number of margins.
///
/// # Errors
///
/// [`SimError::NotFinite`] if a number in it is not finite, which `null` would hide;
/// [`SimError::Json`] if it cannot be expressed.
pub fn json(comparison: &Comparison) -> Result<String, SimError> {
    for m in &comparison.metrics {
        let optional = [m.change_percent, m.worse_by_at_most].into_iter().flatten();
        let numbers = [m.baseline, m.candidate, m.delta, m.margin];
        let ends = m.interval.into_iter().flatten();
        finite(m.metric, numbers.into_iter().chain(optional).chain(ends))?;
    }
    for r in &comparison.regressions {
        let numbers = [r.baseline, r.candidate].into_iter().chain(r.margins);
        finite(&format!("{} of {}", r.what, r.scenario), numbers)?;
    }
    let json = ComparisonJson {
        schema: COMPARISON_SCHEMA,
        comparison,
    };
    serde_json::to_string_pretty(&json).map_err(SimError::Json)
}

/// Refuses numbers that JSON would turn into `null`.
fn finite(what: &str, numbers: impl IntoIterator<Item = f64>) -> Result<(), SimError> {
    match numbers.into_iter().find(|number| !number.is_finite()) {
        None => Ok(()),
        Some(got) => Err(SimError::NotFinite {
            what: what.to_owned(),
            got,
        }),
    }
}

/// A run as JSON, schema `spark-sim-run/1`: summary and every drive's metrics or error. [`read_run_json`](super::read_run_json) makes a report
/// of it again, with the same numbers; `null` stands for a time to collision, gap or headway that there was none of,
/// and for the times of a run that several processes drove.
///
/// # Errors
///
/// [`SimError::NotFinite`] if a number in it is not finite, which `null` would hide;
/// [`SimError::Json`] if it cannot be expressed.
pub fn run_json(report: &RunReport) -> Result<String, SimError> {
    for result in &report.results {
        if let Ok(metrics) = &result.outcome
            && let Some((metric, got)) = metrics.not_finite()
        {
            let what = format!("{metric} of {}", result.name);
            return Err(SimError::NotFinite { what, got });
        }
    }
    let summary = summarise(report);
    for m in &summary {
        finite(m.metric, [m.mean, m.std])?;
    }
    finite("wall_s", report.wall_s)?;
    let drives = report.results.iter().map(|result| DriveJson {
        index: result.index,
        name: &result.name,
        replicate: result.replicate,
        family: result.family.as_deref(),
        seed: result.seed,
        metrics: result.outcome.as_ref().ok(),
        error: result.outcome.as_ref().err().map(ToString::to_string),
    });
    let json = RunJson {
        schema: RUN_SCHEMA,
        algorithm: &report.algorithm,
        device: &report.device,
        scenarios: report.scenarios.as_deref(),
        n_drives: report.results.len(),
        n_agent_steps: report.n_agent_steps,
        n_on_gpu: report.n_on_gpu,
        wall_s: report.wall_s,
        threads: report.n_threads,
        summary,
        latency_p50_ms: report.latency.percentile_ms(50.0),
        latency_p99_ms: report.latency.percentile_ms(99.0),
        latency: (report.latency.n_updates() > 0).then_some(&report.latency),
        drives: drives.collect(),
    };
    serde_json::to_string_pretty(&json).map_err(SimError::Json)
}
