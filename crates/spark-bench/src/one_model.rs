//! One model in one precision: loaded, run, timed, compared.
//!
//! ```text
//! load            clock: file or graph -> runner, planned where all shapes are fixed
//! first run       clock: planning where they are not, then the run
//! warm-up         not timed
//! timed runs      one clock reading each side of every run; inputs in, outputs out
//! golden cases    not timed
//! ```
//!
//! Every run is complete when its clock stops: a runner returns outputs the caller can
//! read, so nothing is still in flight on a device.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use spark_hal::Precision;
use spark_onnx::ModelError;
use spark_onnx::graph::Graph;
use spark_onnx::precision::INTERPRETED;
use spark_onnx::tensor::Tensor;
use spark_onnx::{ModelRunner, RunOptions, Span};
use spark_openpilot::slices::OutputLayout;
use spark_openpilot::zoo;

use crate::accuracy::Accuracy;
use crate::error::{BenchError, no_runs};
use crate::inputs::{self, Inputs};
use crate::machine::resident_bytes;
use crate::models::Candidate;
use crate::options::Setting;
use crate::progress::Progress;
use crate::report::{
    AccuracyReport, GoldenReport, LayerReport, MemoryReport, RunReport, SliceReport,
};
use crate::statistics::{Latency, milliseconds};
use crate::tensor_file::{self, TensorMap};
use crate::{golden, layers};

/// Runs in a timeline.
const TRACED_RUNS: usize = 3;

/// What all measurements of one benchmark share.
#[derive(Debug, Clone)]
pub(crate) struct MeasureOptions {
    pub(crate) runs: usize,
    pub(crate) warmup: usize,
    pub(crate) seed: u64,
    pub(crate) input_file: Option<(PathBuf, TensorMap)>,
    pub(crate) golden_file: Option<PathBuf>,
    /// Whether layers are listed.
    pub(crate) explain: bool,
    /// Whether layers are timed.
    pub(crate) profile: bool,
    /// Pictures that are driven through both networks.
    pub(crate) drive_frames: usize,
}

/// A model that is ready to run.
pub(crate) struct Loaded {
    pub(crate) name: String,
    pub(crate) weights: &'static str,
    pub(crate) runner: ModelRunner,
    load_ms: f64,
    inputs: Inputs,
    cases: Vec<golden::GoldenCase>,
}

impl Loaded {
    /// Wraps a runner that `candidate` gave, with the inputs it will be measured on.
    ///
    /// # Errors
    ///
    /// As [`inputs::made_up`], [`inputs::from_file`] and [`golden::read`].
    pub(crate) fn new(
        candidate: &Candidate,
        (runner, load_time): (ModelRunner, std::time::Duration),
        options: &MeasureOptions,
    ) -> Result<(Self, Vec<String>), BenchError> {
        let (name, graph) = (&candidate.name, runner.graph());
        let cases = cases_for(candidate, graph, options)?;
        let (inputs, notes) = inputs_for(candidate, graph, options)?;
        let weights = if zoo::has_random_weights(graph) {
            "random"
        } else {
            "file"
        };
        let loaded = Self {
            name: name.clone(),
            weights,
            runner,
            load_ms: milliseconds(load_time),
            inputs,
            cases,
        };
        Ok((loaded, notes))
    }

    /// The inputs and outputs of one run, named like a golden file's.
    pub(crate) fn tensors(&self, outputs: &[(String, Tensor)]) -> TensorMap {
        let inputs = self
            .inputs
            .iter()
            .map(|(name, t)| (format!("case0/in/{name}"), t.clone()));
        let outputs = outputs
            .iter()
            .map(|(name, t)| (format!("case0/out/{name}"), t.clone()));
        inputs.chain(outputs).collect()
    }

    /// One run on the measured inputs; outputs by name.
    pub(crate) fn run(&mut self) -> Result<Vec<(String, Tensor)>, BenchError> {
        let inputs = inputs::borrowed(&self.inputs);
        self.runner
            .run(&inputs)
            .map_err(|source| BenchError::Model {
                model: self.name.clone(),
                source,
            })
    }

    /// Runs, times and compares. `reference` holds what fp32 gave on the same inputs.
    ///
    /// # Errors
    ///
    /// [`BenchError::Model`] if a run fails, [`BenchError::Misfit`] if the golden file's
    /// outputs have other shapes.
    pub(crate) fn measure(
        &mut self,
        setting: Setting,
        reference: Option<&[(String, Tensor)]>,
        options: &MeasureOptions,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(RunReport, Vec<(String, Tensor)>), BenchError> {
        let label = format!("{} {}", self.name, setting.name());
        let total = options
            .warmup
            .saturating_add(options.runs)
            .saturating_add(1);
        let start = Instant::now();
        let outputs = self.run()?;
        let first_ms = milliseconds(start.elapsed());
        progress(Progress {
            label: &label,
            done: 1,
            total,
        });

        let mut samples = Vec::new();
        for run in 0..total - 1 {
            let inputs = inputs::borrowed(&self.inputs);
            let start = Instant::now();
            let result = self.runner.run(&inputs);
            let elapsed = start.elapsed();
            std::hint::black_box(&result);
            result.map_err(|source| self.failed(source))?;
            if run >= options.warmup {
                samples.push(elapsed);
            }
            progress(Progress {
                label: &label,
                done: run + 2,
                total,
            });
        }
        let latency = Latency::of(&samples).ok_or_else(no_runs)?;
        let memory = self.runner.memory();
        let (rss_bytes, peak_rss_bytes) = resident_bytes();
        let report = RunReport {
            model: self.name.clone(),
            weights: self.weights,
            precision: setting.name(),
            device: self.runner.device().to_owned(),
            threads: self.runner.threads(),
            load_ms: self.load_ms,
            first_ms,
            latency: latency.into(),
            memory: MemoryReport {
                rss_bytes,
                peak_rss_bytes,
                arena_bytes: memory.arena_bytes as u64,
                weight_bytes: memory.weight_bytes as u64,
                device_bytes: memory.device_bytes.map(|bytes| bytes as u64),
            },
            gpu_utilisation_percent: None,
            accuracy: reference.map(|reference| distance(&outputs, reference)),
            golden: self.compare_golden(options)?,
            steps: self.steps(),
            samples_ms: samples.iter().map(|&d| milliseconds(d)).collect(),
            slices: reference.map_or_else(Vec::new, |reference| {
                slice_distances(self.runner.graph(), &outputs, reference)
            }),
            layers: self.layers(options)?,
            non_finite_outputs: outputs
                .iter()
                .map(|(_, t)| tensor_file::count_non_finite(t))
                .sum(),
        };
        Ok((report, outputs))
    }

    /// The layers, timed if asked for.
    fn layers(&mut self, options: &MeasureOptions) -> Result<Vec<LayerReport>, BenchError> {
        let steps = match (options.profile, options.explain) {
            (true, _) => {
                let runs = options.runs.try_into().unwrap_or(u32::MAX);
                let inputs = inputs::borrowed(&self.inputs);
                let timed = self.runner.profile(&inputs, runs);
                timed.map_err(|source| self.failed(source))?
            }
            (false, true) => self.runner.steps(),
            (false, false) => Vec::new(),
        };
        Ok(layers::of(&steps))
    }

    /// When every step of a few runs ran.
    pub(crate) fn spans(&mut self) -> Result<Vec<Span>, BenchError> {
        let inputs = inputs::borrowed(&self.inputs);
        let spans = self.runner.spans(&inputs, TRACED_RUNS);
        spans.map_err(|source| self.failed(source))
    }

    fn failed(&self, source: ModelError) -> BenchError {
        BenchError::Model {
            model: self.name.clone(),
            source,
        }
    }

    fn compare_golden(
        &mut self,
        options: &MeasureOptions,
    ) -> Result<Option<GoldenReport>, BenchError> {
        let Some(path) = &options.golden_file else {
            return Ok(None);
        };
        let accuracy = golden::compare(path, &self.name, &self.cases, &mut self.runner)?;
        Ok(Some(GoldenReport {
            cases: self.cases.len(),
            max_abs: accuracy.max_abs,
            max_rel: accuracy.max_rel,
            non_finite: accuracy.non_finite,
        }))
    }

    /// Steps of the plan by where they run, in which format, and by which kernel.
    fn steps(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for step in self.runner.steps() {
            let what = match step.precision {
                _ if step.reason == INTERPRETED => format!("{} interpreted", step.device),
                Precision::Fp32 => format!("{} in fp32", step.device),
                precision => format!("{} in {precision} ({})", step.device, step.kernel),
            };
            *counts.entry(what).or_default() += 1;
        }
        counts
    }
}

/// The golden cases of a model; none without a golden file.
fn cases_for(
    candidate: &Candidate,
    graph: &Graph,
    options: &MeasureOptions,
) -> Result<Vec<golden::GoldenCase>, BenchError> {
    match &options.golden_file {
        Some(path) => golden::read(path, &candidate.name, graph),
        None => Ok(Vec::new()),
    }
}

/// What a model is measured on, and what the user should know about it.
///
/// # Errors
///
/// As [`golden::read`], [`inputs::made_up`] and [`inputs::from_file`].
pub(crate) fn inputs_for(
    candidate: &Candidate,
    graph: &Graph,
    options: &MeasureOptions,
) -> Result<(Inputs, Vec<String>), BenchError> {
    let name = &candidate.name;
    match (
        cases_for(candidate, graph, options)?.first(),
        &options.input_file,
    ) {
        (Some(case), _) => Ok((case.inputs.clone(), Vec::new())),
        (None, Some((path, tensors))) => inputs::from_file(path, tensors, name, graph),
        (None, None) => inputs::made_up(name, graph, options.seed),
    }
}

/// What fp32 gives for the inputs of `loaded`, from a runner of its own.
///
/// # Errors
///
/// [`BenchError::Model`] if fp32 cannot be loaded or run.
pub(crate) fn reference(
    candidate: &Candidate,
    options: &RunOptions,
    loaded: &Loaded,
) -> Result<Vec<(String, Tensor)>, BenchError> {
    let (mut runner, _) = candidate
        .load(options)
        .map_err(|source| loaded.failed(source))?;
    runner
        .run(&inputs::borrowed(&loaded.inputs))
        .map_err(|source| loaded.failed(source))
}

fn distance(outputs: &[(String, Tensor)], reference: &[(String, Tensor)]) -> AccuracyReport {
    let worst = outputs
        .iter()
        .zip(reference)
        .fold(Accuracy::EXACT, |worst, ((_, got), (_, want))| {
            worst.worst(Accuracy::of(&got.to_f64(), &want.to_f64()))
        });
    AccuracyReport::new("fp32", worst)
}

/// The distance of every slice of the outputs, by the layout of the network where it is known.
fn slice_distances(
    graph: &Graph,
    outputs: &[(String, Tensor)],
    reference: &[(String, Tensor)],
) -> Vec<SliceReport> {
    // A layout that is wrong is reported where outputs are parsed; here whole outputs will do.
    let layout = OutputLayout::of(graph).ok().flatten();
    let mut slices = Vec::new();
    for ((name, got), (_, want)) in outputs.iter().zip(reference) {
        let (got, want) = (got.to_f64(), want.to_f64());
        let whole = [(name.clone(), 0..want.len())];
        let parts = match &layout {
            Some(layout) if layout.output_len() == want.len() => layout.parts(),
            _ => &whole[..],
        };
        for (name, range) in parts {
            // Where values decide how long outputs are, the reference may have others.
            let accuracy = match got.len() == want.len() {
                true => Accuracy::of(&got[range.clone()], &want[range.clone()]),
                false => Accuracy::of(&got, &want),
            };
            slices.push(SliceReport {
                name: name.clone(),
                accuracy: AccuracyReport::new("fp32", accuracy),
            });
        }
    }
    slices
}
