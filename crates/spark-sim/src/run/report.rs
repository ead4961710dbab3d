//! All that a run came to.
//!
//! A report is what one process drove, or is put together from drives that several processes wrote down:
//! then nobody knows how long the run took, on how many threads.

use super::latency::Latency;
use super::outcome::ScenarioResult;

/// All results of a run.
#[derive(Debug)]
pub struct RunReport {
    /// Name of the algorithm.
    pub algorithm: String,
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
    /// but for the times.
    pub fn of_drives(
        algorithm: impl Into<String>,
        device: impl Into<String>,
        results: Vec<ScenarioResult>,
    ) -> Self {
        let finished = results.iter().filter_map(|it| it.outcome.as_ref().ok());
        Self {
            algorithm: algorithm.into(),
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
