//! How fast and how exact are driving models on this machine, in each number format?
//!
//! Run: `cargo run --release --example bench_supercombo`
//!
//! Without arguments it builds openpilot-shaped networks with random weights; with
//! `--model FILE.onnx` or `--models-dir DIR` it runs real ones. All the work is in
//! `spark_model::bench`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use spark::hal::config::DeviceChoice;
use spark::model::bench::{self, BenchError, BenchOptions, PrecisionList, Progress};
use spark::model::precision::{Activations, Bf16Products, Fp16Products};
use spark::model::zoo;

/// Synthetic pictures driven for the page: three seconds.
const PICTURES: usize = 60;

/// Measure driving models: latency, memory and accuracy. Without a model, the built-in
/// openpilot-shaped networks with random weights are measured.
#[derive(Parser)]
#[command(name = "bench_supercombo")]
struct Arguments {
    /// ONNX file to measure; may be repeated
    #[arg(long, value_name = "FILE")]
    model: Vec<PathBuf>,
    /// Folder with driving_vision, driving_policy, dmonitoring_model or supercombo (.onnx)
    #[arg(long, value_name = "DIR")]
    models_dir: Option<PathBuf>,
    /// Number formats: fp32, fp16, bf16, fp8, fp4, joined by commas, or all; fp32 by default
    #[arg(long, value_name = "LIST")]
    precision: Option<PrecisionList>,
    /// Also a mix of formats per layer with at least this signal-to-error ratio at the outputs
    #[arg(long, value_name = "DB")]
    mix: Option<f64>,
    /// Leave activations of fp8 and fp4 products as they are; they are quantised by default
    #[arg(long)]
    exact_activations: bool,
    /// Products of bf16: fastest, dot (the processor's instruction), weights (activations stay
    /// f32), both (both sides rounded, as a bf16 unit has them)
    #[arg(long, default_value = "fastest", value_name = "HOW")]
    bf16: Bf16Products,
    /// Products of fp16: fastest, both (the processor's instruction, both sides rounded), weights
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
    #[arg(long, value_parser = spark::model::parse_device)]
    device: Option<DeviceChoice>,
    /// Timed runs per model
    #[arg(long, default_value_t = 100, value_name = "N")]
    runs: usize,
    /// Runs before them that are not timed
    #[arg(long, default_value_t = 20, value_name = "N")]
    warmup: usize,
    /// Threads; as many as pay off by default
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Inputs by name; made up from the seed by default
    #[arg(long, value_name = "FILE.safetensors")]
    inputs: Option<PathBuf>,
    /// Write inputs and outputs of one run per model
    #[arg(long, value_name = "FILE.safetensors")]
    dump_outputs: Option<PathBuf>,
    /// Run the cases of a golden file and report the error; needs exactly one --model
    #[arg(long, value_name = "FILE.safetensors")]
    compare: Option<PathBuf>,
    /// Write the report as JSON (schema spark-bench/1)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Seed of random weights and inputs
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,
    /// Write the built-in networks as ONNX files and stop
    #[arg(long, value_name = "DIR")]
    write_zoo: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {}", bench::with_causes(error.as_ref()));
            let code = error
                .downcast_ref::<BenchError>()
                .map_or(1, BenchError::exit_code);
            ExitCode::from(code)
        }
    }
}

#[expect(clippy::print_stdout, reason = "the report is this program's output")]
fn run(arguments: Arguments) -> Result<ExitCode, Box<dyn std::error::Error>> {
    if let Some(dir) = &arguments.write_zoo {
        for path in zoo::write_all(dir, arguments.seed)? {
            println!("wrote {} (random weights)", path.display());
        }
        return Ok(ExitCode::SUCCESS);
    }
    let (json, html) = (arguments.json.clone(), arguments.html.clone());
    let style = ProgressStyle::with_template("{msg:32} {wide_bar} {pos}/{len} {eta}")?;
    let bar = ProgressBar::no_length().with_style(style);
    let report = bench::run(&arguments.into_options(), &mut |progress: Progress<'_>| {
        bar.set_length(progress.total as u64);
        bar.set_position(progress.done as u64);
        bar.set_message(progress.label.to_owned());
    });
    bar.finish_and_clear();
    let report = report?;
    println!("{}", bench::table::render(&report));
    if let Some(path) = &json {
        bench::write_json(&report, path)?;
    }
    if let Some(path) = &html {
        bench::html::write(&report, path)?;
    }
    let is_sound = !report.runs.is_empty() && !report.has_non_finite_results();
    Ok(if is_sound {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

impl Arguments {
    fn into_options(self) -> BenchOptions {
        BenchOptions {
            models: self.model,
            models_dir: self.models_dir,
            precisions: self.precision.map_or_else(Vec::new, |list| list.0),
            mix: self.mix,
            activations: match self.exact_activations {
                true => Activations::Exact,
                false => Activations::Quantised,
            },
            bf16_products: self.bf16,
            fp16_products: self.fp16,
            explain: self.explain,
            profile: self.profile,
            trace: self.trace,
            drive_frames: if self.html.is_some() { PICTURES } else { 0 },
            device: self.device,
            runs: self.runs,
            warmup: self.warmup,
            threads: self.threads,
            inputs: self.inputs,
            dump_outputs: self.dump_outputs,
            compare: self.compare,
            seed: self.seed,
        }
    }
}
