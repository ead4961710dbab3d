//! Watch the GPUs for a while: live lines, then a summary.
//!
//! Run: `cargo run --example gpu_monitor`, or with seconds and a form:
//! `cargo run --example gpu_monitor -- 10 csv` (or `json`). Every sample is written when it is
//! taken, to a pipe and to a file too; Ctrl-C ends the watch, and the summary follows.

#![allow(clippy::print_stdout, reason = "an example shows what it found")]

use std::collections::BTreeSet;
use std::error::Error;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use spark_program::{Manners, about, postponed, tell};
use sparkpilot::hal::monitor::{Recording, Sample, Sampler};

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

/// How to watch.
struct Watch {
    /// For so long; until Ctrl-C where it is `None`.
    duration: Option<Duration>,
    /// Time between two looks.
    interval: Duration,
    /// What samples are written as.
    form: Form,
    /// Where to; stdout where it is `None`.
    output: Option<PathBuf>,
}

/// What a sample is written as.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Form {
    Text,
    Csv,
    Json,
}

/// How a watch ended.
enum Watched {
    /// It is over; the exit code if a signal ended it.
    Over(Option<u8>),
    /// There is nothing to watch, and why.
    NoGpu(String),
}

/// The summary is of the newest samples, this many or up to twice as many.
const KEPT: usize = 36_000;

impl Watch {
    /// Watches until the time is over or the program is told to end.
    ///
    /// # Errors
    ///
    /// Samples that cannot be written.
    fn run(&self) -> Result<Watched, Box<dyn Error>> {
        // Ctrl-C waits for the line under way; the watch ends where it sleeps.
        postponed(|| self.watch())
    }

    fn watch(&self) -> Result<Watched, Box<dyn Error>> {
        let mut sampler = match Sampler::open(&[]) {
            Ok(sampler) => sampler,
            Err(why) => return Ok(Watched::NoGpu(why.to_string())),
        };
        let mut out: Box<dyn Write> = match &self.output {
            Some(path) => Box::new(File::create(path).map_err(about(path))?),
            None => Box::new(io::stdout()),
        };
        let place = self.output.clone().unwrap_or_else(|| "stdout".into());
        if self.form == Form::Csv {
            writeln!(out, "{}", Sample::CSV_HEADER).map_err(about(&place))?;
        }
        let end = self.duration.map(|duration| Instant::now() + duration);
        let mut recording = Recording::default();
        let mut exit_code = None;
        while exit_code.is_none() && end.is_none_or(|end| Instant::now() < end) {
            let next = Instant::now() + self.interval;
            // Whole lines, in one write each; nothing of this program holds them back.
            let samples = sampler.look();
            let lines = samples.iter().map(|sample| self.form.line(sample));
            let written = lines.map(|line| out.write_all(line.as_bytes()));
            let written = written.collect::<io::Result<()>>();
            written.and_then(|()| out.flush()).map_err(about(&place))?;
            if self.form == Form::Text {
                recording.samples.extend(samples);
                if recording.samples.len() > 2 * KEPT {
                    recording.samples.drain(..KEPT);
                }
            }
            let next = end.map_or(next, |end| next.min(end));
            exit_code = spark_program::sleep(next.saturating_duration_since(Instant::now()));
        }
        let gpus: BTreeSet<u32> = recording.samples.iter().map(|sample| sample.gpu).collect();
        for gpu in gpus {
            print!("GPU {gpu} in short:\n{}", recording.summary(gpu));
        }
        Ok(Watched::Over(exit_code))
    }
}

impl Form {
    fn line(self, sample: &Sample) -> String {
        let mut line = match self {
            Self::Text => sentence(sample),
            Self::Csv => sample.to_csv_row(),
            Self::Json => sample.to_json(),
        };
        line.push('\n');
        line
    }
}

fn sentence(sample: &Sample) -> String {
    let Sample { gpu, readings, .. } = sample;
    match readings {
        Ok(now) => format!(
            "GPU {gpu}: busy {} %, {} MHz, {} C, {} W, {} MiB in use",
            now.utilization_percent,
            now.sm_clock_mhz,
            now.temperature_c,
            now.power_mw
                .as_ref()
                .map(|milliwatts| f64::from(*milliwatts) / 1e3),
            sample.memory_used_bytes().map(|bytes| bytes >> 20)
        ),
        Err(why) => format!("GPU {gpu}: {why}"),
    }
}
