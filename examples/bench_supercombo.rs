//! How fast and how exact are driving models on this machine, in each number format?
//!
//! Run: `cargo run --release --example bench_supercombo`
//!
//! The same as `sparkpilot bench`: without arguments openpilot-shaped networks with random weights; with
//! `--model FILE.onnx` or `--models-dir DIR` real ones.

#![allow(clippy::print_stdout, reason = "the report is this program's output")]

#[path = "../src/bin/sparkpilot/commands/bench.rs"]
mod bench;

use std::process::ExitCode;

use clap::Parser;
use spark_program::{Devices, Manners};

/// Measure driving models: latency, memory and accuracy. Without a model, the built-in
/// openpilot-shaped networks with random weights are measured.
#[derive(Parser)]
#[command(
    name = "bench_supercombo",
    after_help = "Examples:\n  \
        bench_supercombo                                     the built-in networks\n  \
        bench_supercombo --model driving_vision.onnx --runs 200\n  \
        bench_supercombo --models-dir openpilot/selfdrive/modeld/models\n  \
        bench_supercombo --precision all --html report.html  formats compared"
)]
struct Arguments {
    #[command(flatten)]
    bench: bench::Arguments,
}

fn main() -> ExitCode {
    let manners = Manners {
        devices: Devices::AsOpened,
        ..Manners::default()
    };
    spark_program::run_with(manners, |arguments: Arguments| bench::run(arguments.bench))
}
