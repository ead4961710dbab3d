//! How fast and how exact driving models are on this machine: `sparkpilot bench`, and the example
//! `bench_supercombo`, which is built of this file.
//!
//! Without a model the networks of the zoo, with random weights, are measured. All the work is in `spark_bench`.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use spark_program::output::Words;
use spark_program::{Pulse, Usage, count, number, output, place, postponed, printable, tell};
use sparkpilot::bench::{self, BenchError, BenchOptions, BenchReport, PrecisionList, Progress};
use sparkpilot::hal::config::DeviceChoice;
use sparkpilot::onnx::cpu::Isa;
use sparkpilot::onnx::precision::{Activations, Bf16Products, Fp16Products};

/// Synthetic pictures driven for the page: three seconds.
const PICTURES: usize = 60;
/// More runs than these tell nothing new.
const MOST_RUNS: u64 = 10_000_000;
/// Runs that are not timed, and runs that are, of `--quick`.
const QUICK: (usize, usize) = (1, 3);
/// More threads than any machine of this kind has.
const MOST_THREADS: u64 = 1024;

// What is written on it here would stand on every command that takes these options in.
#[derive(clap::Args)]
#[group(skip)] // the group that clap would make has the name of the example's own
pub(crate) struct Arguments {
    /// ONNX file to measure; may be repeated
    #[arg(long, value_name = "FILE")]
    model: Vec<PathBuf>,
    /// Folder with driving_vision, driving_policy, dmonitoring_model or supercombo (.onnx)
    #[arg(long, value_name = "DIR")]
    models_dir: Option<PathBuf>,
    /// Number formats: fp32, fp16, bf16, fp8, fp4, joined by commas, or all; int8 with a --calibration of it, or for a
    /// file that quantises itself; what OPENPILOT_DGX_PRECISION says by default, or else fp32
    #[arg(long, value_name = "LIST")]
    precision: Option<PrecisionList>,
    /// Also a mix of formats per layer with at least this signal-to-error ratio at the outputs
    #[arg(long, value_name = "DB", value_parser = number(0.001, 1000.0))]
    mix: Option<f64>,
    /// Also with the scales and weights that calibrate_model chose; needs exactly one --model
    #[arg(long, value_name = "FILE.safetensors")]
    calibration: Option<PathBuf>,
    /// Leave activations of fp8 and fp4 as they are; they are quantised by default
    #[arg(long)]
    exact_activations: bool,
    /// Convolutions and matmuls in bf16: fastest, dot (the processor's instruction), weights (activations stay
    /// f32), both (both sides rounded, as a bf16 unit has them)
    #[arg(long, default_value = "fastest", value_name = "HOW")]
    bf16: Bf16Products,
    /// Convolutions and matmuls in fp16: fastest, both (the processor's instruction, both sides rounded), weights
    /// (activations stay f32)
    #[arg(long, default_value = "fastest", value_name = "HOW")]
    fp16: Fp16Products,
    /// List every layer with its format, what computes it and why
    #[arg(long)]
    explain: bool,
    /// Time every layer and compare it with what this machine can do
    #[arg(long)]
    profile: bool,
    /// Write a timeline of a few runs, for chrome://tracing or Perfetto
    #[arg(long, value_name = "FILE.json")]
    trace: Option<PathBuf>,
    /// Write a page with plots that compares the precisions; drives a sequence of synthetic
    /// pictures through vision and policy in each of them
    #[arg(long, value_name = "FILE.html")]
    html: Option<PathBuf>,
    /// Where to run: auto, cpu, cuda, cuda:N; SPARK_DEVICE by default
    #[arg(long, value_name = "DEVICE")]
    device: Option<DeviceChoice>,
    /// Three timed runs of each model after one that is not: whether it works here, not how fast it is
    #[arg(long, conflicts_with_all = ["runs", "warmup"])]
    quick: bool,
    /// Timed runs per model
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = count(1, MOST_RUNS))]
    runs: usize,
    /// Runs before them that are not timed
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = count(0, MOST_RUNS))]
    warmup: usize,
    /// Threads; as many as pay off by default
    #[arg(long, value_name = "N", value_parser = count(1, MOST_THREADS))]
    threads: Option<usize>,
    /// Instruction set: avx512, avx2, neon or scalar; the best one of this processor by default
    #[arg(long, value_name = "NAME", value_parser = Isa::named)]
    isa: Option<Isa>,
    /// Inputs by name; made up from the seed by default
    #[arg(long, value_name = "FILE.safetensors")]
    inputs: Option<PathBuf>,
    /// Write inputs and outputs of one run per model
    #[arg(long, value_name = "FILE.safetensors")]
    dump_outputs: Option<PathBuf>,
    /// Run the cases of a golden file (caseN/in/X, caseN/out/X, or in.X, out.X) and report the error;
    /// needs exactly one --model
    #[arg(long, value_name = "FILE.safetensors")]
    compare: Option<PathBuf>,
    /// Write the report as JSON (schema spark-bench/1), here or with `-` to stdout
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Seed of random weights and inputs
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,
    /// Write the built-in networks as ONNX files and stop; only --seed goes with it
    #[arg(long, value_name = "DIR", conflicts_with_all = [
        "model", "models_dir", "precision", "mix", "calibration", "exact_activations", "bf16", "fp16", "explain",
        "profile", "trace", "html", "device", "quick", "runs", "warmup", "threads", "isa", "inputs", "dump_outputs",
        "compare", "json",
    ])]
    write_zoo: Option<PathBuf>,
}

/// Measures, writes the files that were asked for, and prints the table.
pub(crate) fn run(arguments: Arguments) -> Result<ExitCode, Box<dyn Error>> {
    spark_program::check_devices(spark_program::Devices::AsOpened)?;
    if let Some(folder) = &arguments.write_zoo {
        return write_zoo(folder, arguments.seed);
    }
    let inputs = [
        &arguments.inputs,
        &arguments.compare,
        &arguments.calibration,
    ];
    let inputs = arguments.model.iter().chain(inputs.into_iter().flatten());
    let outputs = [
        &arguments.json,
        &arguments.html,
        &arguments.trace,
        &arguments.dump_outputs,
    ];
    let outputs = outputs.into_iter().flatten().map(PathBuf::as_path);
    output::keep_apart(inputs.map(PathBuf::as_path), outputs)?;
    let (json, html) = (arguments.json.clone(), arguments.html.clone());
    // Asked before the measurements, not after them.
    let files = [&json, &html, &arguments.trace, &arguments.dump_outputs];
    for file in files.into_iter().flatten() {
        place::file(file)?;
    }
    let bar = spark_program::progress(None);
    let pulse = Pulse::of(&bar);
    let measured = bench::measure(&arguments.into_options(), &mut |progress: Progress<'_>| {
        bar.set_length(progress.total as u64);
        bar.set_position(progress.done as u64);
        bar.set_message(progress.label.to_owned());
    });
    drop(pulse);
    bar.finish_and_clear();
    let measured = measured.map_err(|error| -> Box<dyn Error> {
        match error {
            BenchError::Usage { .. } => Usage(error.to_string()).into(),
            error => error.into(),
        }
    })?;
    let mut report = postponed(|| measured.write());
    // Files before the table: whoever reads only its first lines closes the pipe. A file that cannot be
    // written keeps no figure back, and one of no figures takes no other's place.
    if !report.runs.is_empty() {
        let json = json.as_ref().map(|path| write_json(&report, path));
        let html = html.map(|path| {
            postponed(|| bench::html::write(&report, &path)).map_err(|error| error.to_string())
        });
        let unwritten = [json, html].into_iter().flatten().filter_map(Result::err);
        let unwritten: Vec<String> = unwritten.collect();
        report.unwritten.extend(unwritten);
    }
    let table = printable(&bench::table::render(&report));
    Words::beside(json.as_deref()).say(&format!("{table}\n"))?;
    let mut wrong = report.missing();
    wrong.extend(report.non_finite_results());
    for sentence in &wrong {
        tell(format_args!("error: {}", printable(sentence)));
    }
    let is_sound = wrong.is_empty() && !report.runs.is_empty();
    Ok(if is_sound {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Writes the report as JSON to a file or stdout.
fn write_json(report: &BenchReport, path: &Path) -> Result<(), String> {
    if output::is_stdout(path) {
        let text = serde_json::to_string_pretty(report).map_err(|error| error.to_string())?;
        return output::write(path, text + "\n").map_err(|error| error.to_string());
    }
    postponed(|| bench::write_json(report, path)).map_err(|error| error.to_string())
}

fn write_zoo(folder: &Path, seed: u64) -> Result<ExitCode, Box<dyn Error>> {
    output::folder(folder)?;
    for file in postponed(|| bench::write_zoo(folder, seed))? {
        println!("wrote {} (random weights)", file.display());
    }
    Ok(ExitCode::SUCCESS)
}

impl Arguments {
    fn into_options(self) -> BenchOptions {
        let mut options = BenchOptions::default();
        options.models = self.model;
        options.models_dir = self.models_dir;
        options.precisions = self.precision.map_or_else(Vec::new, |list| list.0);
        options.mix = self.mix;
        options.calibration = self.calibration;
        options.activations = match self.exact_activations {
            true => Activations::Exact,
            false => Activations::Quantised,
        };
        options.bf16_products = self.bf16;
        options.fp16_products = self.fp16;
        options.explain = self.explain;
        options.profile = self.profile;
        options.trace = self.trace;
        options.drive_frames = if self.html.is_some() { PICTURES } else { 0 };
        options.device = self.device;
        (options.warmup, options.runs) = match self.quick {
            true => QUICK,
            false => (self.warmup, self.runs),
        };
        options.threads = self.threads;
        options.isa = self.isa;
        options.inputs = self.inputs;
        options.dump_outputs = self.dump_outputs;
        options.compare = self.compare;
        options.seed = self.seed;
        options
    }
}
