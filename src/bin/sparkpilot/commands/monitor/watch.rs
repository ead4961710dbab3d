//! A watch over the GPUs: every sample is written when it is taken, and a summary follows.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use spark_program::{about, postponed};
use sparkpilot::hal::monitor::{Recording, Sample, Sampler};

/// How to watch.
pub(crate) struct Watch {
    /// For so long; until Ctrl-C where it is `None`.
    pub(crate) duration: Option<Duration>,
    /// Time between two looks.
    pub(crate) interval: Duration,
    /// One look alone.
    pub(crate) is_single: bool,
    /// What samples are written as.
    pub(crate) form: Form,
    /// Where to; stdout where it is `None`.
    pub(crate) output: Option<PathBuf>,
}

/// What a sample is written as.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub(crate) enum Form {
    Text,
    Csv,
    Json,
}

/// How a watch ended.
pub(crate) enum Watched {
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
    pub(crate) fn run(&self) -> Result<Watched, Box<dyn Error>> {
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
            let samples = postponed(|| -> io::Result<Vec<Sample>> {
                let samples = sampler.look();
                for sample in &samples {
                    out.write_all(self.form.line(sample).as_bytes())?;
                }
                out.flush()?;
                Ok(samples)
            });
            let samples = samples.map_err(about(&place))?;
            if self.is_single {
                return Ok(Watched::Over(None));
            }
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
