//! A benchmark from its options to its report.
//!
//! ```text
//! for each precision, for each model:   load -> measure -> compare -> keep
//! a pair of vision and policy           -> chained, as soon as both are there
//! ```
//!
//! What goes wrong with one model takes nothing from the others.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use spark_hal::Precision;
use spark_onnx::calibration::Calibration;
use spark_onnx::cpu::Peaks;
use spark_onnx::precision::mixed;
use spark_onnx::tensor::Tensor;
use spark_onnx::{ModelError, RunOptions};
use spark_openpilot::DrivingOutput;
use spark_openpilot::slices::OutputLayout;

use crate::error::BenchError;
use crate::machine::machine;
use crate::models::{self, Candidate};
use crate::one_model::{self, Loaded, MeasureOptions};
use crate::options::{self, BenchOptions, Setting};
use crate::progress::Progress;
use crate::report::{BenchReport, PeaksReport, Refusal, RunReport, SCHEMA, SettingsReport};
use crate::tensor_file::{self, TensorMap};
use crate::trace::Trace;
use crate::{combined, driving, inputs};

/// Measures what `options` ask for, calling `progress` after every run.
///
/// # Errors
///
/// [`BenchError::Usage`] for contradicting options; [`BenchError::Unwritten`] for a place where a file that
/// is asked for cannot be, before anything is measured; the other variants if a file or model is
/// not usable and nothing else could be measured. What is merely not available here is no error but in
/// [`BenchReport::refused`], what failed while something else was measured in
/// [`BenchReport::failed`], and a file that could not be written after all in
/// [`BenchReport::unwritten`].
pub fn run(
    options: &BenchOptions,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<BenchReport, BenchError> {
    measure(options, progress).map(Measured::write)
}

/// As [`run`], up to the files: for programs that guard their writing, say against signals.
///
/// # Errors
///
/// As [`run`].
pub fn measure(
    options: &BenchOptions,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Measured, BenchError> {
    options.validate()?;
    for path in options.trace.iter().chain(&options.dump_outputs) {
        spark_files::check(path).map_err(|source| BenchError::Unwritten {
            path: path.clone(),
            source,
        })?;
    }
    let candidates = models::candidates(options)?;
    refuse_clashes(options, &candidates)?;
    let input_file = match &options.inputs {
        Some(path) => Some((path.clone(), tensor_file::read(path)?)),
        None => None,
    };
    let calibration = options.calibration.as_ref().map(|path| {
        Calibration::read(path)
            .map(Arc::new)
            .map_err(|source| BenchError::Model {
                model: path.display().to_string(),
                source,
            })
    });
    let calibration = calibration.transpose()?;
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
        calibration,
        references: BTreeMap::new(),
        dumps: Vec::new(),
        trace: Trace::default(),
        driven_in_fp32: Vec::new(),
        first_failure: None,
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
            failed: Vec::new(),
            unwritten: Vec::new(),
            combined: None,
            combined_all: Vec::new(),
            driving: Vec::new(),
            notes: Vec::new(),
        },
    };
    let settings = options::settings(options);
    let n_asked = settings.len() * candidates.len();
    for setting in settings {
        bench.one_setting(setting, progress);
    }
    bench.finish(n_asked)
}

/// What was measured; the files that were asked for are not written yet.
#[must_use = "the files that were asked for are not written yet"]
pub struct Measured {
    report: BenchReport,
    trace: Option<(PathBuf, Trace)>,
    dump: Option<(PathBuf, TensorMap)>,
}

impl Measured {
    /// Writes the trace and the outputs, where they were asked for; what could not be is in
    /// [`BenchReport::unwritten`].
    pub fn write(self) -> BenchReport {
        let Self {
            mut report,
            trace,
            dump,
        } = self;
        let written = [
            trace.map(|(path, trace)| trace.write(&path)),
            dump.map(|(path, tensors)| tensor_file::write(&path, &tensors)),
        ];
        let unwritten = written.into_iter().flatten().filter_map(Result::err);
        report.unwritten = unwritten.map(|error| error.to_string()).collect();
        report
    }
}

/// Refuses to write over what is read, and one file over the other.
fn refuse_clashes(options: &BenchOptions, candidates: &[Candidate]) -> Result<(), BenchError> {
    let models = candidates.iter().filter_map(Candidate::path);
    let given = [&options.inputs, &options.compare, &options.calibration];
    let given = given.into_iter().flatten();
    let outputs = [&options.trace, &options.dump_outputs]
        .into_iter()
        .flatten();
    let clash = spark_files::clash(
        models.chain(given.map(PathBuf::as_path)),
        outputs.map(PathBuf::as_path),
    );
    let Some(clash) = clash else { return Ok(()) };
    Err(BenchError::Usage {
        option: match options.trace.as_deref() == Some(clash.output) {
            true => "--trace",
            false => "--dump-outputs",
        },
        reason: format!(
            "`{}` is `{}`, which is {}",
            clash.output.display(),
            clash.other.display(),
            if clash.is_written {
                "written too"
            } else {
                "read"
            }
        ),
    })
}

/// A benchmark under way.
struct Bench<'a> {
    options: &'a BenchOptions,
    measure_options: MeasureOptions,
    candidates: &'a [Candidate],
    calibration: Option<Arc<Calibration>>,
    /// fp32 outputs by model.
    references: BTreeMap<String, Vec<(String, Tensor)>>,
    /// Model, precision and tensors of every run.
    dumps: Vec<(String, Setting, TensorMap)>,
    trace: Trace,
    driven_in_fp32: Vec<DrivingOutput>,
    /// What went wrong first; the answer if nothing could be measured.
    first_failure: Option<BenchError>,
    report: BenchReport,
}

impl Bench<'_> {
    fn run_options(&self, precision: Precision) -> RunOptions {
        let mut options = RunOptions::new()
            .with_precision(precision)
            .with_activations(self.options.activations)
            .with_bf16_products(self.options.bf16_products)
            .with_fp16_products(self.options.fp16_products);
        options.device = self.options.device;
        options.threads = self.options.threads;
        options.isa = self.options.isa;
        options
    }

    fn calibrated_options(&self) -> RunOptions {
        let mut options = self.run_options(Precision::Fp32);
        options.calibration = self.calibration.clone();
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
            Setting::Calibrated => return Ok(self.calibrated_options()),
        };
        let options = self.run_options(Precision::Fp32);
        let failed = |source| BenchError::Model {
            model: candidate.name.clone(),
            source,
        };
        let graph = candidate.graph().map_err(failed)?;
        let (inputs, _) = one_model::inputs_for(candidate, &graph, &self.measure_options)?;
        let label = format!("{} choosing a mix", candidate.name);
        let report = |done, total| {
            progress(Progress {
                label: &label,
                done,
                total,
            });
        };
        let borrowed = inputs::borrowed(&inputs);
        // A layout that is wrong is reported where outputs are parsed; here one part will do.
        let layout = OutputLayout::of(&graph).ok().flatten();
        let parts = layout.as_ref().map(OutputLayout::output_parts);
        let mixed =
            mixed::choose(&graph, &borrowed, parts, &options, db, report).map_err(failed)?;
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
        Ok(options.with_by_step(mixed.by_step))
    }

    fn one_setting(&mut self, setting: Setting, progress: &mut dyn FnMut(Progress<'_>)) {
        let (mut vision, mut policy) = (None, None);
        for candidate in self.candidates {
            match self.one_candidate(candidate, setting, progress) {
                Ok(loaded) if candidate.name == "driving_vision" => vision = loaded,
                Ok(loaded) if candidate.name == "driving_policy" => policy = loaded,
                Ok(_) => {}
                Err(error) => self.failed(&candidate.name, setting, error),
            }
            // As soon as both are there, so that their memory is free again for the next model.
            match (vision.take(), policy.take()) {
                (Some(vision), Some(policy)) => {
                    let options = &self.measure_options;
                    match combined::measure(vision, policy, setting, options, progress) {
                        Ok((combined, driven)) => {
                            self.report.combined_all.push(combined);
                            self.drove(setting, driven);
                        }
                        Err(error) => self.failed("vision + policy", setting, error),
                    }
                }
                waiting => (vision, policy) = waiting,
            }
        }
    }

    /// Measures one model; nothing if it is refused.
    fn one_candidate(
        &mut self,
        candidate: &Candidate,
        setting: Setting,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Option<Loaded>, BenchError> {
        let run_options = self.options_for(candidate, setting, progress)?;
        let runner = match candidate.load(&run_options) {
            Ok(runner) => runner,
            Err(source) if is_refusal(&source) => {
                self.report.refused.push(Refusal {
                    model: candidate.name.clone(),
                    precision: setting.name(),
                    reason: source.to_string(),
                });
                return Ok(None);
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
        Ok(Some(loaded))
    }

    fn failed(&mut self, model: &str, setting: Setting, error: BenchError) {
        self.report.failed.push(Refusal {
            model: model.to_owned(),
            precision: setting.name(),
            reason: error.to_string(),
        });
        self.first_failure.get_or_insert(error);
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
            let outputs = one_model::reference(candidate, &options, loaded)?;
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
        } else if !driven.is_empty() && !self.driven_in_fp32.is_empty() {
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

    /// `n_asked` is how many measurements were asked for.
    fn finish(mut self, n_asked: usize) -> Result<Measured, BenchError> {
        if self.report.runs.is_empty()
            && let Some(error) = self.first_failure
        {
            return Err(error);
        }
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
        // A file without anything in it would take the place of one with something.
        let is_any = !self.report.runs.is_empty();
        let trace = self.options.trace.clone().filter(|_| is_any);
        let dump = self.options.dump_outputs.clone().filter(|_| is_any);
        let dumps = self.dumps;
        Ok(Measured {
            report: self.report,
            trace: trace.map(|path| (path, self.trace)),
            dump: dump.map(|path| (path, named_dumps(dumps, n_asked))),
        })
    }
}

/// Tensors of the one run that was asked for keep the names of a golden file, so that the file can
/// serve as one; where several were asked for, `MODEL/PRECISION/` is in front, also if the others were
/// refused.
fn named_dumps(mut dumps: Vec<(String, Setting, TensorMap)>, n_asked: usize) -> TensorMap {
    if n_asked == 1 && dumps.len() == 1 {
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

/// Whether the model is sound and only the precision or device asked for is not to be had.
fn is_refusal(error: &ModelError) -> bool {
    matches!(
        error,
        ModelError::DeviceUnavailable { .. } | ModelError::PrecisionUnavailable { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dumped_of_several_is_named_after_its_run_also_alone() {
        let run = |model: &str, precision| {
            let tensor = Tensor::from_f32([1], vec![1.0]).expect("fills its shape");
            let tensors = TensorMap::from([("case0/out/y".to_owned(), tensor)]);
            (model.to_owned(), Setting::Uniform(precision), tensors)
        };
        let names = |dumps, n_asked| -> Vec<String> {
            let named = named_dumps(dumps, n_asked);
            named.into_keys().collect()
        };
        let one = || vec![run("m", Precision::Fp32)];
        assert_eq!(names(one(), 1), ["case0/out/y"]);
        // fp16 was asked for too, and refused.
        assert_eq!(names(one(), 2), ["m/fp32/case0/out/y"]);
        let three = vec![
            run("m", Precision::Fp32),
            run("m_2", Precision::Fp32),
            run("m_3", Precision::Fp32),
        ];
        assert_eq!(names(three, 3).len(), 3);
    }
}
