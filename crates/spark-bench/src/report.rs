//! What was measured: a table's and a JSON file's content.
//!
//! ```text
//! { "schema": "spark-bench/1", "machine": {...}, "settings": {...},
//!   "runs": [ one per model and precision ], "refused": [...],
//!   "combined": {...} or null, "combined_all": [...], "notes": [...] }
//! ```
//!
//! Numbers that JSON cannot hold (an infinite signal-to-noise ratio of exact results, or
//! an infinite error) are `null`; `non_finite` tells the two apart. `combined` is the first
//! of `combined_all`, which has one entry per precision.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::accuracy::Accuracy;
use crate::driving::DrivingReport;
use crate::statistics::Latency;

/// Name and version of the JSON layout.
pub const SCHEMA: &str = "spark-bench/1";

/// Everything one benchmark found.
#[derive(Debug, Clone, Serialize)]
pub struct BenchReport {
    /// Name and version of the layout: [`SCHEMA`].
    pub schema: &'static str,
    /// The machine on which all of it was measured.
    pub machine: MachineReport,
    /// What was asked for.
    pub settings: SettingsReport,
    /// What layers are compared with, where they were profiled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peaks: Option<PeaksReport>,
    /// One entry per model and precision that ran.
    pub runs: Vec<RunReport>,
    /// What was asked for and cannot be had here.
    pub refused: Vec<Refusal>,
    /// What was asked for and went wrong, while something else was measured.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<Refusal>,
    /// Files that were asked for and could not be written, a sentence each.
    #[serde(skip)]
    pub unwritten: Vec<String>,
    /// Vision and policy as openpilot chains them, in the first precision that ran.
    pub combined: Option<CombinedReport>,
    /// The same in every precision that ran.
    pub combined_all: Vec<CombinedReport>,
    /// What each precision does to driving, where asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub driving: Vec<DrivingReport>,
    /// Sentences the reader should not miss.
    pub notes: Vec<String>,
}

impl BenchReport {
    /// What was asked for and is not in this report or its files, a sentence each.
    pub fn missing(&self) -> Vec<String> {
        let sentences = |refusals, what| {
            let groups = grouped(refusals).into_iter();
            groups.map(move |(precision, reason, models)| {
                format!("{precision} of {models} {what}: {reason}")
            })
        };
        let mut missing: Vec<String> = sentences(&self.refused, "was refused").collect();
        missing.extend(sentences(&self.failed, "failed"));
        missing.extend(self.unwritten.iter().cloned());
        missing
    }

    /// A sentence on each model that gave NaN or infinities: its figures are then not those of a working model.
    pub fn non_finite_results(&self) -> Vec<String> {
        let accuracy = |run: &RunReport| run.accuracy.as_ref().map_or(0, |a| a.non_finite);
        let golden = |run: &RunReport| run.golden.as_ref().map_or(0, |g| g.non_finite);
        let runs = self.runs.iter();
        let counts = runs.map(|run| {
            let count = run.non_finite_outputs.max(accuracy(run)).max(golden(run));
            (run, count)
        });
        let found = counts.filter(|(_, count)| *count > 0);
        let sentences = found.map(|(run, count)| {
            format!(
                "{} of {} gave {count} results that are not finite",
                run.precision, run.model
            )
        });
        sentences.collect()
    }
}

/// The machine on which a benchmark ran.
#[derive(Debug, Clone, Serialize)]
pub struct MachineReport {
    /// Operating system, as Rust names it: `linux`.
    pub os: &'static str,
    /// Instruction set, as Rust names it: `x86_64`, `aarch64`.
    pub arch: &'static str,
    /// Platform, processor, memory and GPU in one line.
    pub summary: String,
    /// Cores this process may use.
    pub usable_cores: usize,
}

/// What was asked for.
#[derive(Debug, Clone, Serialize)]
pub struct SettingsReport {
    /// Timed runs per model.
    pub runs: usize,
    /// Runs before them, which are not timed.
    pub warmup: usize,
    /// Seed of weights and inputs.
    pub seed: u64,
    /// Whether layers are to be listed for people.
    #[serde(skip)]
    pub explain: bool,
}

/// One model in one precision.
#[derive(Debug, Clone, Serialize)]
pub struct RunReport {
    /// Name of the model: its file's without extension, or the zoo's.
    pub model: String,
    /// Where the weights come from: `random` or `file`.
    pub weights: &'static str,
    /// Number format asked for and used.
    pub precision: &'static str,
    /// What it ran on.
    pub device: String,
    /// Number of threads the runner has.
    pub threads: usize,
    /// File or graph to runner, planned where all shapes are fixed.
    pub load_ms: f64,
    /// The first run; it includes planning where the model leaves shapes open.
    pub first_ms: f64,
    /// Latencies of the timed runs, in milliseconds.
    #[serde(flatten)]
    pub latency: LatencyReport,
    /// Memory of the process and of the model after the timed runs.
    pub memory: MemoryReport,
    /// Utilisation of the GPU during the timed runs; absent without a GPU.
    pub gpu_utilisation_percent: Option<f64>,
    /// Distance from fp32 on the same inputs; absent for fp32 itself.
    pub accuracy: Option<AccuracyReport>,
    /// Distance from a golden file.
    pub golden: Option<GoldenReport>,
    /// Steps of the plan by device, precision and kernel: what really ran where.
    pub steps: BTreeMap<String, usize>,
    /// Latency of every timed run, for plots.
    #[serde(skip)]
    pub samples_ms: Vec<f64>,
    /// Distance from fp32 of every slice of the outputs; empty for fp32 itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub slices: Vec<SliceReport>,
    /// Every layer, where asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<LayerReport>,
    /// Values of the outputs that are NaN or infinite.
    pub non_finite_outputs: usize,
}

/// One slice of an output, or a whole output without slices.
#[derive(Debug, Clone, Serialize)]
pub struct SliceReport {
    /// Name of the slice or output.
    pub name: String,
    /// Its distance from fp32.
    #[serde(flatten)]
    pub accuracy: AccuracyReport,
}

/// One step of a plan.
#[derive(Debug, Clone, Serialize)]
pub struct LayerReport {
    /// Name of the node it came from.
    pub name: String,
    /// Kind of the step, such as `conv` or `linear`.
    pub kind: &'static str,
    /// Shapes, geometry and what was fused into it.
    pub detail: String,
    /// Format of the operands of its convolution or matmul.
    pub precision: &'static str,
    /// The kernel that computes it, by a stable name.
    pub kernel: String,
    /// Why in this format.
    pub reason: &'static str,
    /// Bytes of its weights as they are held.
    pub weight_bytes: usize,
    /// Multiply-accumulate operations of its convolution or matmul.
    pub macs: u64,
    /// Bytes it reads and writes, weights included.
    pub bytes: u64,
    /// Mean time of one run in microseconds, if it was profiled.
    pub mean_us: Option<f64>,
}

/// What the processor can do at most, measured on the threads in use.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct PeaksReport {
    /// 10^9 floating-point operations per second, f32.
    pub gflops: f64,
    /// 10^9 bytes read from memory per second.
    pub gigabytes_per_s: f64,
}

/// Latency figures in milliseconds; percentiles as [`Latency`] defines them.
#[derive(Debug, Clone, Copy, Serialize)]
#[allow(missing_docs, reason = "each is the figure it is named after")]
pub struct LatencyReport {
    pub mean_ms: f64,
    pub p50_ms: f64,
    pub p95_ms: f64,
    pub p99_ms: f64,
    pub min_ms: f64,
    pub max_ms: f64,
    pub throughput_per_s: f64,
}

impl From<Latency> for LatencyReport {
    fn from(latency: Latency) -> Self {
        let Latency {
            mean_ms,
            p50_ms,
            p95_ms,
            p99_ms,
            min_ms,
            max_ms,
        } = latency;
        let throughput_per_s = latency.throughput_per_s();
        Self {
            mean_ms,
            p50_ms,
            p95_ms,
            p99_ms,
            min_ms,
            max_ms,
            throughput_per_s,
        }
    }
}

/// Memory figures in bytes.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct MemoryReport {
    /// Resident memory of the whole process after the timed runs, where the system tells.
    pub rss_bytes: Option<u64>,
    /// The most it has been since the process began, other models and precisions included.
    pub peak_rss_bytes: Option<u64>,
    /// Planned memory for everything between inputs and outputs.
    pub arena_bytes: u64,
    /// Weights as packed for running.
    pub weight_bytes: u64,
    /// Memory taken on a GPU.
    pub device_bytes: Option<u64>,
}

/// Distance from a reference run.
#[derive(Debug, Clone, Copy, Serialize)]
#[allow(
    missing_docs,
    reason = "each is the figure of `Accuracy` it is named after"
)]
pub struct AccuracyReport {
    pub reference: &'static str,
    pub max_abs: f64,
    pub max_rel: f64,
    pub cosine: f64,
    pub sqnr_db: f64,
    pub non_finite: usize,
}

impl AccuracyReport {
    pub(crate) fn new(reference: &'static str, accuracy: Accuracy) -> Self {
        let Accuracy {
            max_abs,
            max_rel,
            cosine,
            sqnr_db,
            non_finite,
        } = accuracy;
        Self {
            reference,
            max_abs,
            max_rel,
            cosine,
            sqnr_db,
            non_finite,
        }
    }
}

/// Distance from a golden file.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct GoldenReport {
    /// Cases of the file that were run.
    pub cases: usize,
    /// Largest absolute difference over all cases and outputs.
    pub max_abs: f64,
    /// Largest absolute difference over the scale of that output.
    pub max_rel: f64,
    /// Values that are NaN or infinite.
    pub non_finite: usize,
}

/// Vision, hidden state, history and policy: one step of openpilot's model process.
#[derive(Debug, Clone, Serialize)]
pub struct CombinedReport {
    /// Names of the networks in the chain, vision first.
    pub models: Vec<String>,
    /// `random` if any of them has random weights, else `file`.
    pub weights: &'static str,
    /// Number format of both networks.
    pub precision: &'static str,
    /// What it ran on.
    pub device: String,
    /// Number of threads each runner has.
    pub threads: usize,
    /// Latencies of whole steps.
    #[serde(flatten)]
    pub latency: LatencyReport,
    /// Memory of both networks.
    pub memory: MemoryReport,
}

/// Precision, reason and models, joined by commas, for each precision and reason.
pub(crate) fn grouped(refusals: &[Refusal]) -> Vec<(&str, &str, String)> {
    let mut groups: Vec<(&str, &str, String)> = Vec::new();
    for refused in refusals {
        let Refusal {
            model,
            precision,
            reason,
        } = refused;
        let same = |group: &&mut (&str, &str, String)| (group.0, group.1) == (*precision, reason);
        match groups.iter_mut().find(same) {
            Some((.., models)) => {
                models.push_str(", ");
                models.push_str(model);
            }
            None => groups.push((precision, reason, model.clone())),
        }
    }
    groups
}

/// Something asked for that cannot be had, or that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// Name of the model.
    pub model: String,
    /// Number format asked for.
    pub precision: &'static str,
    /// Why it was refused or how it failed, for people.
    pub reason: String,
}
