//! `sparkpilot monitor`: the GPUs while they work, as lines.

mod watch;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use spark_program::tell;

use crate::exit_code;
use watch::{Form, Watch, Watched};

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

/// Watches until the time is over or the program is told to end.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    let watch = Watch {
        duration: arguments.duration.map(Duration::from_secs),
        interval: Duration::from_millis(arguments.interval_ms),
        is_single: arguments.status,
        form: arguments.form,
        output: arguments.output.clone(),
    };
    Ok(match watch.run()? {
        Watched::Over(code) => code.map_or(ExitCode::SUCCESS, ExitCode::from),
        Watched::NoGpu(why) => {
            tell(format_args!("There is no GPU to watch here: {why}."));
            ExitCode::from(exit_code::REFUSED)
        }
    })
}
