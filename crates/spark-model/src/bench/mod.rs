//! Measuring models: latency, memory and accuracy, as a table and as JSON.
//!
//! ```text
//! BenchOptions --run--> for each precision, for each model:
//!                         load, first run, warm-up, timed runs, distance from fp32, golden
//!                       vision + policy chained                       --> BenchReport
//! BenchReport --table::render--> text        --write_json--> spark-bench/1
//! ```
//!
//! A precision or device that cannot be had is listed as refused, with the reason the
//! runner gives; nothing is measured in its place. Inputs are fed anew in every run and
//! outputs are read back, so the figures are those a caller sees.
//!
//! Deliberately absent: comparing two reports (that is the record keeper's work), and
//! figures of a GPU's load, until there is an executor that uses one.

mod accuracy;
mod combined;
mod driving;
mod error;
mod golden;
pub mod html;
mod inputs;
mod layers;
mod measure;
mod models;
mod options;
mod profile;
mod report;
mod scene;
mod statistics;
pub mod table;
mod tensor_file;
mod trace;

use std::collections::BTreeMap;
use std::path::Path;

use spark_hal::{Precision, ProcessMemory};

pub use accuracy::Accuracy;
pub use driving::{Distance, DrivingReport};
pub use error::BenchError;
pub use inputs::{Inputs, made_up as made_up_inputs};
pub use options::{BenchOptions, PrecisionList};
pub use report::{
    AccuracyReport, BenchReport, CombinedReport, GoldenReport, LatencyReport, LayerReport,
    MachineReport, MemoryReport, PeaksReport, Refusal, RunReport, SCHEMA, SettingsReport,
    SliceReport,
};
pub use statistics::Latency;
pub use tensor_file::{TensorMap, read as read_tensors, write as write_tensors};

use crate::ModelError;
use crate::cpu::Peaks;
use crate::openpilot::DrivingOutput;
use crate::precision::mixed;
use crate::runner::RunOptions;
use crate::tensor::Tensor;
use measure::{Loaded, MeasureOptions};
use models::Candidate;
use options::Setting;
use trace::Trace;

/// How far one model's measurement is.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// Model and precision.
    pub label: &'a str,
    /// Runs done.
    pub done: usize,
    /// Runs to do.
    pub total: usize,
}

/// Measures what `options` ask for, calling `progress` after every run.
///
/// # Errors
///
/// [`BenchError::Usage`] for contradicting options; the other variants if a file or model is
/// not usable. What is merely not available here is no error but in
/// [`BenchReport::refused`].
pub fn run(
    options: &BenchOptions,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<BenchReport, BenchError> {
    options.validate()?;
    let candidates = models::candidates(options)?;
    let input_file = match &options.inputs {
        Some(path) => Some((path.clone(), tensor_file::read(path)?)),
        None => None,
    };
    let measure_options = MeasureOptions {
        runs: options.runs,
        warmup: options.warmup,
        seed: options.seed,
        input_file,
        golden_file: options.compare.clone(),
        explain: options.explain,
        profile: options.profile,
        drive_frames: options.drive_frames,
    };
    let mut bench = Bench {
        options,
        measure_options,
        candidates: &candidates,
        references: BTreeMap::new(),
        dumps: Vec::new(),
        trace: Trace::default(),
        driven_in_fp32: Vec::new(),
        report: BenchReport {
            schema: SCHEMA,
            machine: machine(),
            settings: SettingsReport {
                runs: options.runs,
                warmup: options.warmup,
                seed: options.seed,
                explain: options.explain,
            },
            peaks: None,
            runs: Vec::new(),
            refused: Vec::new(),
            combined: None,
            combined_all: Vec::new(),
            driving: Vec::new(),
            notes: Vec::new(),
        },
    };
    for setting in options::settings(options) {
        bench.one_setting(setting, progress)?;
    }
    bench.finish()
}

/// A benchmark under way.
struct Bench<'a> {
    options: &'a BenchOptions,
    measure_options: MeasureOptions,
    candidates: &'a [Candidate],
    /// fp32 outputs by model.
    references: BTreeMap<String, Vec<(String, Tensor)>>,
    /// Model, precision and tensors of every run.
    dumps: Vec<(String, Setting, TensorMap)>,
    trace: Trace,
    driven_in_fp32: Vec<DrivingOutput>,
    report: BenchReport,
}

impl Bench<'_> {
    fn run_options(&self, precision: Precision) -> RunOptions {
        let mut options = RunOptions::new()
            .precision(precision)
            .activations(self.options.activations)
            .bf16_products(self.options.bf16_products)
            .fp16_products(self.options.fp16_products);
        options.device = self.options.device;
        options.threads = self.options.threads;
        options
    }

    /// How `candidate` is loaded; a mix is chosen first, on the inputs it will be measured with.
    fn options_for(
        &mut self,
        candidate: &Candidate,
        setting: Setting,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<RunOptions, BenchError> {
        let db = match setting {
            Setting::Uniform(precision) => return Ok(self.run_options(precision)),
            Setting::Mixed(db) => db,
        };
        let options = self.run_options(Precision::Fp32);
        let failed = |source| BenchError::Model {
            model: candidate.name.clone(),
            source,
        };
        let graph = candidate.graph().map_err(failed)?;
        let (inputs, _) = measure::inputs_for(candidate, &graph, &self.measure_options)?;
        let label = format!("{} choosing a mix", candidate.name);
        let report = |done, total| {
            progress(Progress {
                label: &label,
                done,
                total,
            });
        };
        let borrowed = inputs::borrowed(&inputs);
        let mixed = mixed::choose(&graph, &borrowed, &options, db, report).map_err(failed)?;
        let kept = |p| mixed.by_step.values().filter(|&&q| q == p).count();
        self.note([format!(
            "{} mixed: layers in fp4 {}, fp8 {}, fp16 {}, fp32 {}; {:.1} dB on average over output slices",
            candidate.name,
            kept(Precision::Fp4),
            kept(Precision::Fp8),
            kept(Precision::Fp16),
            kept(Precision::Fp32),
            mixed.sqnr_db
        )]);
        Ok(options.by_step(mixed.by_step))
    }

    fn one_setting(
        &mut self,
        setting: Setting,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(), BenchError> {
        let (mut vision, mut policy) = (None, None);
        for candidate in self.candidates {
            let run_options = self.options_for(candidate, setting, progress)?;
            let runner = match candidate.load(&run_options) {
                Ok(runner) => runner,
                Err(source) if is_refusal(&source) => {
                    self.report.refused.push(Refusal {
                        model: candidate.name.clone(),
                        precision: setting.name(),
                        reason: with_causes(&source),
                    });
                    continue;
                }
                Err(source) => {
                    return Err(BenchError::Model {
                        model: candidate.name.clone(),
                        source,
                    });
                }
            };
            let (mut loaded, notes) = Loaded::new(candidate, runner, &self.measure_options)?;
            self.note(notes);
            self.measure_one(&mut loaded, candidate, setting, progress)?;
            match candidate.name.as_str() {
                "driving_vision" => vision = Some(loaded),
                "driving_policy" => policy = Some(loaded),
                _ => {}
            }
            // As soon as both are there, so that their memory is free again for the next model.
            match (vision.take(), policy.take()) {
                (Some(vision), Some(policy)) => {
                    let options = &self.measure_options;
                    let (combined, driven) =
                        combined::measure(vision, policy, setting, options, progress)?;
                    self.report.combined_all.push(combined);
                    self.drove(setting, driven);
                }
                waiting => (vision, policy) = waiting,
            }
        }
        Ok(())
    }

    fn measure_one(
        &mut self,
        loaded: &mut Loaded,
        candidate: &Candidate,
        setting: Setting,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(), BenchError> {
        let is_reference = setting.is_reference();
        if !is_reference && !self.references.contains_key(&loaded.name) {
            let options = self.run_options(Precision::Fp32);
            let outputs = measure::reference(candidate, &options, loaded)?;
            self.references.insert(loaded.name.clone(), outputs);
        }
        let reference = self.references.get(&loaded.name).map(Vec::as_slice);
        let (run, outputs) = loaded.measure(setting, reference, &self.measure_options, progress)?;
        if self.options.profile && self.report.peaks.is_none() {
            let Peaks {
                gflops,
                gigabytes_per_s,
            } = loaded.runner.peaks();
            self.report.peaks = Some(PeaksReport {
                gflops,
                gigabytes_per_s,
            });
        }
        if self.options.trace.is_some() {
            let process = format!("{} {}", loaded.name, setting.name());
            let spans = loaded.spans()?;
            self.trace.add(&process, &loaded.runner.steps(), &spans);
        }
        if self.options.dump_outputs.is_some() {
            self.dumps
                .push((loaded.name.clone(), setting, loaded.tensors(&outputs)));
        }
        if run.non_finite_outputs > 0 {
            let n = run.non_finite_outputs;
            self.note([format!(
                "{} {}: {n} output values are NaN or infinite",
                loaded.name,
                setting.name()
            )]);
        }
        if is_reference {
            self.references.insert(loaded.name.clone(), outputs);
        }
        self.report.runs.push(run);
        Ok(())
    }

    /// Keeps what fp32 drove, and compares the others with it.
    fn drove(&mut self, setting: Setting, driven: Vec<DrivingOutput>) {
        if setting.is_reference() {
            self.driven_in_fp32 = driven;
        } else if !driven.is_empty() {
            let report = driving::compare(setting.name(), &driven, &self.driven_in_fp32);
            self.report.driving.push(report);
        }
    }

    /// Keeps each sentence once.
    fn note(&mut self, notes: impl IntoIterator<Item = String>) {
        for note in notes {
            if !self.report.notes.contains(&note) {
                self.report.notes.push(note);
            }
        }
    }

    fn finish(mut self) -> Result<BenchReport, BenchError> {
        let position = |name: &str| self.candidates.iter().position(|c| c.name == name);
        self.report.runs.sort_by_key(|run| position(&run.model));
        self.report.combined = self.report.combined_all.first().cloned();
        let is_random = |run: &&RunReport| run.weights == "random";
        let mut random: Vec<&str> = self
            .report
            .runs
            .iter()
            .filter(is_random)
            .map(|run| run.model.as_str())
            .collect();
        random.dedup();
        if !random.is_empty() {
            let models = random.join(", ");
            self.report.notes.push(format!(
                "the weights of {models} are random, never trained: speed and number formats can be \
                 judged, the outputs mean nothing"
            ));
        }
        if let Some(path) = &self.options.trace {
            self.trace.write(path)?;
        }
        if let Some(path) = &self.options.dump_outputs {
            tensor_file::write(path, &named_dumps(self.dumps))?;
        }
        Ok(self.report)
    }
}

/// Tensors of one run keep the names of a golden file, so that the file can serve as one;
/// those of several get `MODEL/PRECISION/` in front.
fn named_dumps(mut dumps: Vec<(String, Setting, TensorMap)>) -> TensorMap {
    if dumps.len() == 1 {
        return dumps.remove(0).2;
    }
    let prefixed = dumps.into_iter().flat_map(|(model, setting, tensors)| {
        let prefix = format!("{model}/{}", setting.name());
        tensors
            .into_iter()
            .map(move |(name, tensor)| (format!("{prefix}/{name}"), tensor))
    });
    prefixed.collect()
}

/// Writes `report` to `path` as JSON, in one step.
///
/// # Errors
///
/// [`BenchError::Io`] if the file cannot be written; no partial file stays behind.
pub fn write_json(report: &BenchReport, path: &Path) -> Result<(), BenchError> {
    let mut text = serde_json::to_string_pretty(report).map_err(BenchError::Json)?;
    text.push('\n');
    write_atomically(path, text.as_bytes())
}

/// Writes a temporary file beside `path` and renames it: readers see the old or the new file.
fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), BenchError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    std::fs::write(&temporary, bytes)
        .and_then(|()| std::fs::rename(&temporary, path))
        .map_err(|source| {
            // The write failed; whether the cleanup works changes nothing about that.
            let _ = std::fs::remove_file(&temporary);
            BenchError::Io {
                path: path.to_owned(),
                source,
            }
        })
}

fn machine() -> MachineReport {
    MachineReport {
        os: std::env::consts::OS,
        arch: std::env::consts::ARCH,
        summary: spark_hal::machine().summary(),
        usable_cores: std::thread::available_parallelism().map_or(1, usize::from),
    }
}

/// Resident memory of this process now and at most, where the system tells.
fn resident_bytes() -> (Option<u64>, Option<u64>) {
    let memory = ProcessMemory::now();
    let memory = memory.value();
    (
        memory.map(|memory| memory.resident_bytes),
        memory.map(|memory| memory.peak_resident_bytes),
    )
}

fn no_runs() -> BenchError {
    BenchError::Usage {
        option: "--runs",
        reason: "0 runs cannot be timed, expected 1 or more".to_owned(),
    }
}

/// Whether the model is sound and only the precision or device asked for is not to be had.
fn is_refusal(error: &ModelError) -> bool {
    matches!(
        error,
        ModelError::DeviceUnavailable { .. } | ModelError::PrecisionUnavailable { .. }
    )
}

/// `error` and what caused it, in one line.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |e| e.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
