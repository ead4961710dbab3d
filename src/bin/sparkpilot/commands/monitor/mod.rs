//! `sparkpilot monitor`: the machine while it works, on a screen; its GPUs as lines.

mod screen;
mod watch;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use spark_program::tell;

use crate::exit_code;
use watch::{Form, Watch, Watched};

/// Watch the machine on a screen, or its GPUs line by line
///
/// On a terminal: GPUs, processors, memory, networks, disks, temperatures and the processes of GPUs,
/// with what was before. Into a pipe or a file, or with --form, --output or --status: utilisation, clocks, temperature,
/// power and memory of GPUs, a line for each look.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    sparkpilot monitor\n  \
    sparkpilot monitor --interval-ms 250\n  \
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
    /// Lines, also on a terminal: for people with a summary at the end, or one row or object per
    /// sample
    #[arg(long, value_enum, value_name = "FORM")]
    form: Option<Form>,
    /// Time between two looks; 1000 on a screen and 500 for lines by default
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(10..=3_600_000))]
    interval_ms: Option<u64>,
    /// Write samples here and not to stdout
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Watches until the time is over, a key or a signal ends it.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    let duration = arguments.duration.map(Duration::from_secs);
    let interval = |default| Duration::from_millis(arguments.interval_ms.unwrap_or(default));
    let wants_lines = arguments.status || arguments.form.is_some() || arguments.output.is_some();
    if !wants_lines && screen::is_possible() {
        let code = screen::run(interval(1000), duration)?;
        return Ok(code.map_or(ExitCode::SUCCESS, ExitCode::from));
    }
    let watch = Watch {
        duration,
        interval: interval(500),
        is_single: arguments.status,
        form: arguments.form.unwrap_or(Form::Text),
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
