//! `sparkpilot sim run`: one controller in many scenarios.

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use spark_program::{count, output, place, printable};
use sparkpilot::hal::config::DeviceChoice;
use sparkpilot::sim::report::{run_json, run_markdown};
use sparkpilot::sim::run::{RunOptions, Simulator};

use super::controllers::Controller;
use super::suites::Scenarios;

/// Drive scenarios with one controller
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    sparkpilot sim run --suite alks-cut-in --controller careful\n  \
    sparkpilot sim run --suite random --scenarios 10000 --controller pid --json drives.json\n  \
    sparkpilot sim run --file my-scenarios.toml --controller torque --replicates 8\n\n\
    The exit code is 1 if a drive failed: its scenario could not be run, or its figures are not finite.")]
pub(crate) struct Arguments {
    #[command(flatten)]
    scenarios: Scenarios,
    /// Who drives; `sim list` names them
    #[arg(long, value_enum, value_name = "CONTROLLER")]
    controller: Controller,
    /// Drives of each scenario, each with other noise
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = count(1, 10_000))]
    replicates: usize,
    /// Threads; as many as there are by default
    #[arg(long, value_name = "N", value_parser = count(1, 1024))]
    threads: Option<usize>,
    /// Write every drive's figures as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Drives, writes, prints.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    let read = arguments.scenarios.file().map(PathBuf::as_path);
    output::keep_apart(read, arguments.json.as_deref())?;
    if let Some(path) = &arguments.json {
        place::file(path)?;
    }
    let scenarios = arguments.scenarios.load()?;
    let simulator = Simulator::new(run_options(arguments.threads))?;
    let n_drives = scenarios.len() * arguments.replicates;
    let bar = spark_program::progress(Some(n_drives as u64));
    let report = simulator.run_replicates_with_progress(
        &scenarios,
        arguments.replicates,
        &arguments.controller.factory(),
        |n| bar.set_position(n as u64),
    );
    bar.finish_and_clear();
    if let Some(path) = &arguments.json {
        output::write(path, run_json(&report)?)?;
    }
    print!("{}", printable(&run_markdown(&report)));
    let n_failed = report
        .results
        .iter()
        .filter(|it| it.outcome.is_err())
        .count();
    Ok(ExitCode::from(u8::from(n_failed > 0)))
}

/// On the CPU.
pub(super) fn run_options(threads: Option<usize>) -> RunOptions {
    let options = RunOptions::default()
        .with_device(DeviceChoice::Cpu)
        .with_chunk_size(512);
    match threads {
        Some(threads) => options.with_threads(threads),
        None => options,
    }
}
