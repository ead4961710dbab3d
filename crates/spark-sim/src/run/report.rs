//! All that a run came to.
//!
//! A report is what one process drove, or is put together from drives that several processes wrote down:
//! then nobody knows how long the run took, on how many threads.

use super::latency::Latency;
use super::outcome::{ScenarioError, ScenarioResult};
use crate::metric::Metrics;

/// All results of a run.
#[derive(Debug)]
pub struct RunReport {
    /// Name of the algorithm.
    pub algorithm: String,
    /// Which scenarios they were, in words of whoever drove them: equal words are equal scenarios. Absent if nobody
    /// says; names need not tell scenarios apart.
    pub scenarios: Option<String>,
    /// In the order of the scenarios.
    pub results: Vec<ScenarioResult>,
    /// Update times, if they were measured.
    pub latency: Latency,
    /// Wall-clock time of the whole run, s; absent if several processes drove.
    pub wall_s: Option<f64>,
    /// Steps of all scenarios together.
    pub n_agent_steps: u64,
    /// What it ran on.
    pub device: String,
    /// Threads at most that drove, beside a GPU; absent if several processes drove.
    pub n_threads: Option<usize>,
    /// Scenarios that ran on the GPU; the others ran on the CPU or not at all.
    pub n_on_gpu: usize,
}

impl RunReport {
    /// The report of drives that several processes ran on the CPU, in the order of the scenarios: that of one process
    /// but for the times. A drive with a figure that is not finite is a failed one, as it is where drives end.
    pub fn of_drives(
        algorithm: impl Into<String>,
        device: impl Into<String>,
        mut results: Vec<ScenarioResult>,
    ) -> Self {
        for result in &mut results {
            let figures = result.outcome.as_ref().ok();
            if let Some((metric, got)) = figures.and_then(Metrics::not_finite) {
                result.outcome = Err(ScenarioError::MetricNotFinite { metric, got });
            }
        }
        let finished = results.iter().filter_map(|it| it.outcome.as_ref().ok());
        Self {
            algorithm: algorithm.into(),
            scenarios: None,
            // Bounded: drives may come from a file that states any numbers.
            n_agent_steps: finished.fold(0, |sum, it| sum.saturating_add(it.n_steps)),
            results,
            latency: Latency::default(),
            wall_s: None,
            device: device.into(),
            n_threads: None,
            n_on_gpu: 0,
        }
    }
}
