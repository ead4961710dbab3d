//! How exact can a network be in eight or four bits, if scales and weights are chosen on real inputs?
//!
//! Run: `cargo run --release --example calibrate_model -- MODEL.onnx --batches FILE.safetensors [OPTIONS]`
//!
//! Chooses input scales and rounds weights layer by layer on some of the batches, judges the result on others that
//! were held back, beside what the same formats give without calibration, and writes the choice for
//! `RunOptions::with_calibration` and `bench_supercombo --calibration`. `--mix DB` chooses the format of each layer
//! as well. A network whose lengths hang on values, such as a detector, is judged by what it makes before these. With
//! `--precision int8` the choice may also be written as a network of its own, in ONNX. Tables and drawing
//! are `calibrate_model/report.rs`.

#![allow(clippy::print_stdout, reason = "an example's output is its product")]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, ValueEnum};
use spark_program::{Usage, about, count, number, output, place, postponed};
use sparkpilot::bench::{Inputs, read_batches};
use sparkpilot::onnx::calibration::{
    Calibration, CalibrationOptions, IntegerOptions, WeightRounding, calibrate, calibrate_mixed,
    layer_errors, quantise,
};
use sparkpilot::onnx::graph::Graph;
use sparkpilot::onnx::precision::{Activations, OutputErrors, OutputParts};
use sparkpilot::onnx::{Model, ModelError, Precision, RunOptions, Tensor, file};
use sparkpilot::onnx_graph::split_at_values;
use sparkpilot::openpilot::slices::OutputLayout;
use sparkpilot::quant::calibration::ScaleMethod;

use report::{Judged, Layer, Mix, Report};

#[path = "calibrate_model/report.rs"]
mod report;

/// More threads than any machine of this kind has.
const MOST_THREADS: u64 = 1024;

/// Choose scales and round weights of a network for eight or four bits, on real inputs
#[derive(Parser)]
#[command(
    name = "calibrate_model",
    after_help = "Examples:\n  \
        calibrate_model model.onnx --batches frames.safetensors --precision fp4 --output model.fp4.safetensors\n  \
        calibrate_model model.onnx --batches frames.safetensors --mix 30 --plot layers.svg\n  \
        calibrate_model model.onnx --batches frames.safetensors --precision int8 --output model.int8.safetensors\n  \
        calibrate_model model.onnx --batches frames.safetensors --precision int8 --output model.int8.onnx\n  \
        bench_supercombo --model model.onnx --calibration model.fp4.safetensors\n  \
        bench_supercombo --model model.onnx --calibration model.int8.safetensors --precision fp32,int8"
)]
struct Arguments {
    /// ONNX file
    model: PathBuf,
    /// Inputs of many frames, caseN/in/<input>; without --held-back every second one is held back
    #[arg(long, value_name = "FILE.safetensors")]
    batches: PathBuf,
    /// Inputs to judge by, in the same form
    #[arg(long, value_name = "FILE.safetensors")]
    held_back: Option<PathBuf>,
    /// Format of every layer that can have it
    #[arg(long, value_enum, default_value_t = Format::Fp8, conflicts_with = "mix")]
    precision: Format,
    /// A format per layer: the fewest bytes with at least this ratio of signal to error at the outputs, averaged over
    /// their parts, on a third of the batches that are not held back, which calibrates nothing
    #[arg(long, value_name = "DB", value_parser = number(0.001, 1000.0))]
    mix: Option<f64>,
    /// How input scales are chosen
    #[arg(long, value_enum, default_value_t = Scales::Mse)]
    scales: Scales,
    /// Percent of the magnitudes that --scales percentile does not clip; for int8 half of the others at either end
    #[arg(long, value_name = "P", default_value_t = 99.99, value_parser = number(1.0, 100.0))]
    percentile: f64,
    /// Round weights to the nearest, not for their inputs
    #[arg(long)]
    nearest: bool,
    /// Leave activations as they are
    #[arg(long)]
    exact_activations: bool,
    /// Threads; as many as pay off by default
    #[arg(long, value_name = "N", value_parser = count(1, MOST_THREADS))]
    threads: Option<usize>,
    /// Write what was chosen: .safetensors; of int8 the network itself, .onnx, if the name ends so
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write tables and figures as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw the error of every layer
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Format {
    Fp8,
    Fp4,
    /// Integers; --output writes a calibration or a network
    Int8,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Scales {
    /// The least squared error
    Mse,
    /// Nothing is clipped
    Max,
    /// --percentile
    Percentile,
    /// TensorRT's choice for eight-bit integers
    Entropy,
}

fn main() -> ExitCode {
    spark_program::run(|arguments: Arguments| run(&arguments))
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let outputs = [&arguments.output, &arguments.json, &arguments.plot];
    let outputs: Vec<&PathBuf> = outputs.into_iter().flatten().collect();
    let inputs = [&arguments.model, &arguments.batches];
    let inputs = inputs.into_iter().chain(&arguments.held_back);
    output::keep_apart(
        inputs.map(PathBuf::as_path),
        outputs.iter().map(|path| path.as_path()),
    )?;
    // Asked before the work, not after it.
    for path in outputs {
        place::file(path)?;
    }
    check(arguments)?;
    let graph = file::load(&arguments.model).map_err(about(&arguments.model))?;
    let (batches, held_back) = batches(arguments, &graph)?;
    let layout = OutputLayout::of(&graph)?;
    let work = Work {
        arguments,
        parts: layout.as_ref().map(OutputLayout::output_parts),
        graph,
        batches: &batches,
        held_back: &held_back,
        options: options(arguments),
    };
    let (report, chosen) = match arguments.precision {
        Format::Int8 => work.integers()?,
        Format::Fp8 => work.floats(Precision::Fp8)?,
        Format::Fp4 => work.floats(Precision::Fp4)?,
    };
    // Files before the table: whoever reads only its first lines closes the pipe.
    if let Some(path) = &arguments.output {
        postponed(|| chosen.write(path))?;
    }
    if let Some(path) = &arguments.json {
        output::write(path, format!("{:#}\n", report.json()))?;
    }
    if let Some(path) = &arguments.plot {
        output::write(path, report.drawing())?;
    }
    print!("{}", report.text());
    Ok(())
}

/// Refuses arguments that contradict each other.
fn check(arguments: &Arguments) -> Result<(), Usage> {
    let refused = |why: &str| Err(Usage(why.to_owned()));
    if arguments.percentile != 99.99 && arguments.scales != Scales::Percentile {
        return refused(
            "--percentile is for --scales percentile; the other choices have no use for it",
        );
    }
    let is_same = |path: &PathBuf| {
        output::keep_apart([arguments.batches.as_path()], [path.as_path()]).is_err()
    };
    if arguments.held_back.as_ref().is_some_and(is_same) {
        return refused("--held-back is the file of --batches; what calibrates cannot judge");
    }
    let is_int8 = arguments.precision == Format::Int8;
    if is_int8 && arguments.exact_activations {
        return refused("--exact-activations: products of integers have no other activations");
    }
    match &arguments.output {
        Some(path) if !is_int8 && is_onnx(path) => refused(
            "--output: what is chosen for fp8 and fp4 is no network; its file is .safetensors",
        ),
        _ => Ok(()),
    }
}

/// Whether a file is asked for by name as a network.
fn is_onnx(path: &Path) -> bool {
    path.extension()
        .is_some_and(|end| end.eq_ignore_ascii_case("onnx"))
}

/// What was chosen.
struct Chosen {
    calibration: Calibration,
    /// What it makes of the network, if it is of integers.
    network: Option<Graph>,
}

impl Chosen {
    fn write(&self, path: &Path) -> Result<(), ModelError> {
        match &self.network {
            Some(graph) if is_onnx(path) => file::save(graph, path),
            _ => self.calibration.write(path),
        }
    }
}

/// A network, and what it is calibrated on and judged by.
struct Work<'a> {
    arguments: &'a Arguments,
    graph: Graph,
    batches: &'a [Inputs],
    held_back: &'a [Inputs],
    /// In f32.
    options: RunOptions,
    parts: Option<&'a OutputParts>,
}

impl Work<'_> {
    /// Layers in fp8 and fp4.
    fn floats(&self, precision: Precision) -> Result<(Report, Chosen), ModelError> {
        let settings = CalibrationOptions::new(precision)
            .with_scales(scales(self.arguments))
            .with_weights(weights(self.arguments));
        let (graph, options) = (&self.graph, &self.options);
        let (calibration, mix, layers) = with_bar(|progress| {
            let batches = borrowed(self.batches);
            let (calibration, mix) = match self.arguments.mix {
                None => (
                    calibrate(graph, &batches, options, &settings, progress)?,
                    None,
                ),
                Some(db) => {
                    let parts = self.parts;
                    let mix =
                        calibrate_mixed(graph, &batches, parts, options, &settings, db, progress)?;
                    (mix.calibration.clone(), Some(mix))
                }
            };
            let fresh = borrowed(self.held_back);
            let layers = layer_errors(graph, &fresh, options, &calibration, progress)?;
            Ok::<_, ModelError>((calibration, mix, layers))
        })?;
        let uncalibrated = match &mix {
            None => options.clone().with_precision(settings.precision),
            Some(_) => options.clone().with_by_step(formats(&calibration)),
        };
        let chosen = Arc::new(calibration.clone());
        let layers = layers.into_iter().map(|layer| Layer {
            name: layer.name,
            format: layer.precision.name(),
            input_db: layer.input_db,
            output_db: layer.output_db,
        });
        let report = Report {
            uncalibrated: Some(self.judge(graph, &uncalibrated)?),
            mix: mix.map(|mix| Mix {
                layers: mix.n_layers(),
                sqnr_db: mix.sqnr_db,
                stored_bytes: mix.stored_bytes,
            }),
            ..self.report(
                graph,
                &options.clone().with_calibration(chosen),
                layers.collect(),
            )?
        };
        let chosen = Chosen {
            calibration,
            network: None,
        };
        Ok((report, chosen))
    }

    /// Products of integers.
    fn integers(&self) -> Result<(Report, Chosen), ModelError> {
        let wanted = IntegerOptions::default()
            .with_scales(scales(self.arguments))
            .with_weights(weights(self.arguments));
        let batches = borrowed(self.batches);
        let made =
            with_bar(|progress| quantise(&self.graph, &batches, &self.options, &wanted, progress))?;
        let errors = made.errors(&borrowed(self.held_back), &self.options)?;
        let calibration = made.calibration();
        let layers = errors.into_iter().map(|product| Layer {
            name: product.name,
            format: Precision::Int8.name(),
            input_db: product.input_db,
            output_db: product.output_db,
        });
        let report = Report {
            left: made.kept,
            ..self.report(&made.graph, &self.options, layers.collect())?
        };
        let chosen = Chosen {
            calibration,
            network: Some(made.graph),
        };
        Ok((report, chosen))
    }

    /// What is known of every kind: `graph` under `options` is what was made.
    fn report(
        &self,
        graph: &Graph,
        options: &RunOptions,
        layers: Vec<Layer>,
    ) -> Result<Report, ModelError> {
        Ok(Report {
            model: self.arguments.model.display().to_string(),
            n_batches: self.batches.len(),
            n_held_back: self.held_back.len(),
            exact: self.judge(&self.graph, &self.options)?,
            uncalibrated: None,
            calibrated: self.judge(graph, options)?,
            layers,
            mix: None,
            left: Vec::new(),
        })
    }

    /// `graph` under `options`, against the network in f32, by what both make before lengths hang on values.
    fn judge(&self, graph: &Graph, options: &RunOptions) -> Result<Judged, ModelError> {
        let (head, _) = split_at_values(graph.clone())?;
        let (exact_head, _) = split_at_values(self.graph.clone())?;
        let model = Model::from_graph(head, options)?;
        let reference = Model::from_graph(exact_head, &self.options)?;
        let (mut session, mut exact) = (model.session(), reference.session());
        let mut errors: Option<OutputErrors> = None;
        for batch in borrowed(self.held_back) {
            let got = session.run(&batch)?;
            let want = exact.run(&batch)?;
            let lengths = want.iter().map(|(name, t)| (name.as_str(), t.len()));
            let errors = errors.get_or_insert_with(|| OutputErrors::new(lengths, self.parts));
            let flat = |outputs: &[(String, Tensor)]| -> Vec<Vec<f32>> {
                outputs.iter().map(|(_, tensor)| tensor.to_f32()).collect()
            };
            errors.add(&flat(&got), &flat(&want));
        }
        let weight_bytes = model.memory().weight_bytes;
        let steps = session.steps();
        let narrow = steps.iter().filter(|step| step.precision.bits() <= 8);
        Ok(Judged {
            errors: errors.ok_or(ModelError::Cancelled)?,
            weight_bytes,
            narrow: narrow.map(|step| step.name.clone()).collect(),
        })
    }
}

/// Does `work`, which tells a bar how much of how much is done.
fn with_bar<T>(work: impl FnOnce(&dyn Fn(usize, usize)) -> T) -> T {
    let bar = spark_program::progress(None);
    let result = work(&|done, total| {
        bar.set_length(total as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    result
}

fn options(arguments: &Arguments) -> RunOptions {
    let activations = match arguments.exact_activations {
        true => Activations::Exact,
        false => Activations::Quantised,
    };
    let mut options = RunOptions::new()
        .with_precision(Precision::Fp32)
        .with_activations(activations);
    options.threads = arguments.threads;
    options
}

fn scales(arguments: &Arguments) -> ScaleMethod {
    match arguments.scales {
        Scales::Mse => ScaleMethod::MeanSquaredError,
        Scales::Max => ScaleMethod::MaxAbs,
        Scales::Percentile => ScaleMethod::Percentile(arguments.percentile),
        Scales::Entropy => ScaleMethod::Entropy,
    }
}

fn weights(arguments: &Arguments) -> WeightRounding {
    match arguments.nearest {
        true => WeightRounding::Nearest,
        false => WeightRounding::Compensated,
    }
}

/// Formats of all layers by name.
fn formats(calibration: &Calibration) -> std::collections::BTreeMap<String, Precision> {
    let formats = calibration.formats();
    formats
        .map(|(name, precision)| (name.to_owned(), precision))
        .collect()
}

/// What is calibrated on, and what is judged by.
fn batches(
    arguments: &Arguments,
    graph: &Graph,
) -> Result<(Vec<Inputs>, Vec<Inputs>), Box<dyn Error>> {
    let model = arguments.model.display().to_string();
    let all = read_batches(&arguments.batches, &model, graph)?;
    if let Some(path) = &arguments.held_back {
        return Ok((all, read_batches(path, &model, graph)?));
    }
    if all.len() < 2 {
        let why = "one case cannot both calibrate and judge; give more, or --held-back";
        return Err(Usage(format!("--batches {}: {why}", arguments.batches.display())).into());
    }
    let (mut calibrating, mut held_back) = (Vec::new(), Vec::new());
    for (number, batch) in all.into_iter().enumerate() {
        match number % 2 {
            0 => calibrating.push(batch),
            _ => held_back.push(batch),
        }
    }
    Ok((calibrating, held_back))
}

fn borrowed(batches: &[Inputs]) -> Vec<Vec<(&str, &Tensor)>> {
    let batches = batches.iter();
    batches
        .map(|batch| batch.iter().map(|(name, t)| (name.as_str(), t)).collect())
        .collect()
}
