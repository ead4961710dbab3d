//! `sparkpilot sim replay`: one drive as a picture.

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use spark_program::output::Words;
use spark_program::{file_ending_in, output, place, printable};
use sparkpilot::sim::report::replay_svg;
use sparkpilot::sim::run::Simulator;

use super::controllers::Controller;
use super::run::run_options;
use super::suites::{Scenarios, Which};

/// Draw one drive: the road from above, and the signals over time
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    sparkpilot sim replay --suite alks-cut-in --index 3 --controller careful --output drive.svg\n  \
    sparkpilot sim replay --file my-scenarios.toml --name bend --controller pid --output drive.svg")]
pub(crate) struct Arguments {
    #[command(flatten)]
    scenarios: Scenarios,
    #[command(flatten)]
    which: Which,
    /// Who drives; `sim list` names them
    #[arg(long, value_enum, value_name = "CONTROLLER")]
    controller: Controller,
    /// Write the drawing here, or with `-` to stdout
    #[arg(long, value_name = "FILE.svg", value_parser = file_ending_in(&["svg"]))]
    output: PathBuf,
}

/// Drives the scenario and draws it.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    let read = arguments.scenarios.file().map(PathBuf::as_path);
    output::keep_apart(read, [arguments.output.as_path()])?;
    place::file(&arguments.output)?;
    let scenarios = arguments.scenarios.load()?;
    let scenario = arguments.which.of(&scenarios)?;
    let simulator = Simulator::new(run_options(None).with_record_interval_s(0.05))?;
    let mut report = simulator.run(
        std::slice::from_ref(scenario),
        &arguments.controller.factory(),
    );
    let result = report.results.pop().ok_or("the scenario gave no drive")?;
    let outcome = result.outcome?;
    let trace = result.trace.ok_or("nothing of the drive was recorded")?;
    output::write(&arguments.output, replay_svg(scenario, &trace))?;
    let ended = match &outcome.collision {
        Some(collision) => format!("a collision: {collision:?}"),
        None => "no collision".to_owned(),
    };
    let told = format!("{}: {}\n", printable(&scenario.name), printable(&ended));
    Words::beside([arguments.output.as_path()]).say(&told)?;
    Ok(ExitCode::SUCCESS)
}
