//! Watch the GPUs for a while: live lines, then a summary.
//!
//! Run: `cargo run --example gpu_monitor`, or with seconds and a form:
//! `cargo run --example gpu_monitor -- 10 csv` (or `json`). Every sample is written when it is
//! taken, to a pipe and to a file too; Ctrl-C ends the watch, and the summary follows.

#![allow(clippy::print_stdout, reason = "an example shows what it found")]

#[path = "../src/bin/sparkpilot/commands/monitor/watch.rs"]
mod watch;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use spark_program::{Manners, tell};

use watch::{Form, Watch, Watched};

/// Watch the GPUs: utilisation, clocks, temperature, power and memory
#[derive(Parser)]
#[command(
    name = "gpu_monitor",
    after_help = "Examples:\n  \
        gpu_monitor\n  \
        gpu_monitor 10 csv > samples.csv\n  \
        gpu_monitor 3600 json --output samples.jsonl --interval-ms 100"
)]
struct Arguments {
    /// How long
    #[arg(default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    seconds: u64,
    /// Lines for people with a summary at the end, or one row or object per sample
    #[arg(value_enum, default_value_t = Form::Text)]
    form: Form,
    /// Time between two looks
    #[arg(long, default_value_t = 500, value_name = "N", value_parser = clap::value_parser!(u64).range(10..=3_600_000))]
    interval_ms: u64,
    /// Write samples here and not to stdout
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

fn main() -> ExitCode {
    let manners = Manners {
        keeps_promise_of_cuda: false,
        ..Manners::default()
    };
    spark_program::run_with(manners, |arguments: Arguments| watch(arguments))
}

fn watch(arguments: Arguments) -> Result<ExitCode, Box<dyn Error>> {
    let has_output = arguments.output.is_some();
    let watch = Watch {
        duration: Some(Duration::from_secs(arguments.seconds)),
        interval: Duration::from_millis(arguments.interval_ms),
        is_single: false,
        form: arguments.form,
        output: arguments.output,
    };
    match watch.run()? {
        Watched::Over(code) => Ok(code.map_or(ExitCode::SUCCESS, ExitCode::from)),
        Watched::NoGpu(why) if has_output => {
            Err(format!("there is no GPU to watch here, and no sample to write: {why}").into())
        }
        Watched::NoGpu(why) => {
            tell(format_args!("There is no GPU to watch here: {why}."));
            Ok(ExitCode::SUCCESS)
        }
    }
}
