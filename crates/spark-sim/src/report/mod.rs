//! Reports of a comparison or a run: HTML with plots in one file, Markdown, JSON; pictures of drives.
//!
//! ```text
//! Comparison --> html      one self-contained file: tables, interval plot, scatter, regressions, replays
//!            --> markdown  for a pull request
//!            --> json      for the next program
//! Trace      --> replay    the road from above with cars over time, and traces of the signals (SVG)
//!            --> picture   a moment as PNG, the drive as an animated GIF (feature `pictures`)
//! ```

mod html;
mod markdown;
mod number;
#[cfg(feature = "pictures")]
mod picture;
mod plot;
mod replay;
mod svg;
#[cfg(test)]
mod tests;

pub use html::{Replay, html};
pub use markdown::{markdown, run_markdown};
#[cfg(feature = "pictures")]
pub use picture::{PictureOptions, replay_gif, replay_png};
pub use replay::replay_svg;

use crate::SimError;
use crate::compare::{Comparison, MetricSummary, summarise};
use crate::run::RunReport;
use serde::Serialize;

/// One run, without its traces.
#[derive(Debug, Serialize)]
struct RunJson<'a> {
    algorithm: &'a str,
    device: &'a str,
    n_scenarios: usize,
    n_agent_steps: u64,
    wall_s: f64,
    summary: Vec<MetricSummary>,
    latency_p50_ms: Option<f64>,
    latency_p99_ms: Option<f64>,
    scenarios: Vec<ScenarioJson<'a>>,
}

#[derive(Debug, Serialize)]
struct ScenarioJson<'a> {
    name: &'a str,
    metrics: Option<&'a crate::metric::Metrics>,
    error: Option<String>,
}

/// A comparison as JSON.
///
/// # Errors
///
/// [`SimError::Json`] if a number in it is not finite.
pub fn json(comparison: &Comparison) -> Result<String, SimError> {
    serde_json::to_string_pretty(comparison).map_err(SimError::Json)
}

/// A run as JSON: summary and every scenario's metrics or error.
///
/// # Errors
///
/// [`SimError::Json`] if it cannot be expressed.
pub fn run_json(report: &RunReport) -> Result<String, SimError> {
    let scenarios = report.results.iter().map(|result| ScenarioJson {
        name: &result.name,
        metrics: result.outcome.as_ref().ok(),
        error: result.outcome.as_ref().err().map(ToString::to_string),
    });
    let json = RunJson {
        algorithm: &report.algorithm,
        device: &report.device,
        n_scenarios: report.results.len(),
        n_agent_steps: report.n_agent_steps,
        wall_s: report.wall_s,
        summary: summarise(report),
        latency_p50_ms: report.latency.percentile_ms(50.0),
        latency_p99_ms: report.latency.percentile_ms(99.0),
        scenarios: scenarios.collect(),
    };
    serde_json::to_string_pretty(&json).map_err(SimError::Json)
}
