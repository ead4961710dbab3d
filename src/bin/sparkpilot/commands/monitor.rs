//! `sparkpilot monitor`: the GPUs while they work, as lines; every sample is written when it is taken.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use spark_program::{about, postponed, tell};
use sparkpilot::hal::monitor::{Recording, Sample, Sampler};

use crate::exit_code;

/// Watch the GPUs: utilisation, clocks, temperature, power and memory
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    sparkpilot monitor\n  \
    sparkpilot monitor --duration 10 --form csv > samples.csv\n  \
    sparkpilot monitor --duration 3600 --form json --output samples.jsonl --interval-ms 100\n  \
    sparkpilot monitor --status")]
pub(crate) struct Arguments {
    /// How long to watch; until Ctrl-C by default
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    duration: Option<u64>,
    /// Look once and end
    #[arg(long, conflicts_with_all = ["duration", "interval_ms"])]
    status: bool,
    /// Lines for people with a summary at the end, or one row or object per sample
    #[arg(long, value_enum, value_name = "FORM", default_value_t = Form::Text)]
    form: Form,
    /// Time between two looks
    #[arg(long, default_value_t = 500, value_name = "N", value_parser = clap::value_parser!(u64).range(10..=3_600_000))]
    interval_ms: u64,
    /// Write samples here and not to stdout
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Form {
    Text,
    Csv,
    Json,
}

/// The summary is of the newest samples, this many or up to twice as many.
const KEPT: usize = 36_000;

/// Watches until the time is over or the program is told to end.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    let mut sampler = match Sampler::open(&[]) {
        Ok(sampler) => sampler,
        Err(why) => {
            tell(format_args!("There is no GPU to watch here: {why}."));
            return Ok(ExitCode::from(exit_code::REFUSED));
        }
    };
    let mut out: Box<dyn Write> = match &arguments.output {
        Some(path) => Box::new(File::create(path).map_err(about(path))?),
        None => Box::new(io::stdout()),
    };
    let place = arguments.output.clone().unwrap_or_else(|| "stdout".into());
    if arguments.form == Form::Csv {
        writeln!(out, "{}", Sample::CSV_HEADER).map_err(about(&place))?;
    }
    let interval = Duration::from_millis(arguments.interval_ms);
    let started = Instant::now();
    let end = arguments
        .duration
        .map(|seconds| started + Duration::from_secs(seconds));
    let mut recording = Recording::default();
    let mut exit_code = None;
    while exit_code.is_none() && end.is_none_or(|end| Instant::now() < end) {
        let next = Instant::now() + interval;
        // Whole lines, in one write each; nothing of this program holds them back.
        let samples = postponed(|| -> io::Result<Vec<Sample>> {
            let samples = sampler.look();
            for sample in &samples {
                let mut line = match arguments.form {
                    Form::Text => line(sample),
                    Form::Csv => sample.to_csv_row(),
                    Form::Json => sample.to_json(),
                };
                line.push('\n');
                out.write_all(line.as_bytes())?;
            }
            out.flush()?;
            Ok(samples)
        });
        let samples = samples.map_err(about(&place))?;
        if arguments.form == Form::Text {
            recording.samples.extend(samples);
            if recording.samples.len() > 2 * KEPT {
                recording.samples.drain(..KEPT);
            }
        }
        if arguments.status {
            return Ok(ExitCode::SUCCESS);
        }
        let next = end.map_or(next, |end| next.min(end));
        exit_code = spark_program::sleep(next.saturating_duration_since(Instant::now()));
    }
    let gpus: BTreeSet<u32> = recording.samples.iter().map(|sample| sample.gpu).collect();
    for gpu in gpus {
        print!("GPU {gpu} in short:\n{}", recording.summary(gpu));
    }
    Ok(exit_code.map_or(ExitCode::SUCCESS, ExitCode::from))
}

fn line(sample: &Sample) -> String {
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
