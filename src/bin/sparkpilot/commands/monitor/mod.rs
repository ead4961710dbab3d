//! `sparkpilot monitor`: the machine while it works, on a screen or line by line.
//!
//! ```text
//! Looker (spark-hal) ──> screen   on a terminal
//!                    ──> lines    text, CSV, JSON
//!                    ──> recorder of anomalies, metrics for Prometheus: companions of both
//! ```

mod companions;
mod lines;
mod metrics;
#[cfg(test)]
mod posed;
mod recorder;
mod screen;
mod span;
mod words;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use spark_program::tell;

use companions::Companions;
use lines::{Form, Lines};
use span::span;

const A_YEAR: Duration = Duration::from_secs(31_536_000);

/// Watch the machine on a screen, or line by line
///
/// On a terminal: GPUs, processors, memory, networks, disks, temperatures and processes, with what was before.
/// Into a pipe or a file, on a terminal that moves no cursor (TERM=dumb), or with --form, --output or --status: the
/// same in lines, for people, as CSV with a row for each GPU, or as JSON with an object for each look (schema
/// sparkpilot-monitor/1, times in UTC). It works without a GPU, and changes nothing.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    sparkpilot monitor\n  \
    sparkpilot monitor --interval 250ms\n  \
    sparkpilot monitor --duration 10s --form csv > looks.csv\n  \
    sparkpilot monitor --duration 1h --output looks.jsonl --interval 100ms\n  \
    sparkpilot monitor --record-anomalies anomalies --prometheus 9400\n  \
    sparkpilot monitor --status")]
pub(crate) struct Arguments {
    /// How long to watch, as in 90, 90s, 5m or 1h; until Ctrl-C by default
    #[arg(long, value_name = "TIME", value_parser = span(Duration::from_secs(1), A_YEAR))]
    duration: Option<Duration>,
    /// Look once and end
    #[arg(long, conflicts_with_all = ["duration", "interval", "interval_ms", "record_anomalies", "prometheus"])]
    status: bool,
    /// Lines, also on a terminal: for people with a summary of GPUs at the end, or as CSV or JSON; by default as the name
    /// of --output ends, in .csv, .json or .jsonl
    #[arg(long, value_enum, value_name = "FORM")]
    form: Option<Form>,
    /// Time between two looks, as in 500ms or 2s; 1s on a screen and 500ms for lines by default
    #[arg(long, value_name = "TIME", value_parser = span(Duration::from_millis(10), Duration::from_secs(3600)))]
    interval: Option<Duration>,
    /// The same in milliseconds
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(10..=3_600_000), conflicts_with = "interval")]
    interval_ms: Option<u64>,
    /// Write lines here, or with `-` to stdout
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Keep the last five minutes, and write them into this folder when the machine comes into trouble: little memory,
    /// everything waiting for it, growing swap, a GPU that is hot, held back, stuck at a low clock or silent (schema sparkpilot-anomaly/1)
    #[arg(long, value_name = "FOLDER")]
    record_anomalies: Option<PathBuf>,
    /// Offer the newest look to Prometheus, at /metrics of this port of the loopback address; 0 is any free port
    #[arg(long, value_name = "PORT")]
    prometheus: Option<u16>,
}

/// Watches until the time is over, a key or a signal ends it.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    let interval = arguments.interval;
    let interval = interval.or(arguments.interval_ms.map(Duration::from_millis));
    let wants_lines = arguments.status || arguments.form.is_some() || arguments.output.is_some();
    let companions =
        Companions::start(arguments.record_anomalies.as_deref(), arguments.prometheus)?;
    let companions = Arc::new(companions);
    let code = if !wants_lines && screen::is_possible() {
        let interval = interval.unwrap_or(Duration::from_secs(1));
        let code = screen::run(interval, arguments.duration, &companions);
        // The screen is gone with what it said.
        if let Some(words) = companions.recorded() {
            tell(words);
        }
        code
    } else {
        let of_name = arguments.output.as_deref().and_then(Form::of_name);
        let lines = Lines {
            duration: arguments.duration,
            interval: interval.unwrap_or(Duration::from_millis(500)),
            is_single: arguments.status,
            form: arguments.form.unwrap_or(of_name.unwrap_or(Form::Text)),
            output: arguments.output.clone(),
        };
        lines.run(&companions)
    };
    companions.finish();
    Ok(code?.map_or(ExitCode::SUCCESS, ExitCode::from))
}
