//! `sparkpilot sim replay`: one drive as a picture.

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use spark_program::{output, place, printable};
use sparkpilot::sim::report::replay_svg;
use sparkpilot::sim::run::Simulator;
use sparkpilot::sim::scenario::Scenario;

use super::controllers::Controller;
use super::run::run_options;
use super::suites::Scenarios;

/// Draw one drive: the road from above, and the signals over time
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    sparkpilot sim replay --suite alks-cut-in --index 3 --controller careful --output drive.svg\n  \
    sparkpilot sim replay --file my-scenarios.toml --name bend --controller pid --output drive.svg")]
pub(crate) struct Arguments {
    #[command(flatten)]
    scenarios: Scenarios,
    /// Which scenario, by its place from 0; the first by default
    #[arg(long, value_name = "N", conflicts_with = "name")]
    index: Option<usize>,
    /// Which scenario, by its name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Who drives; `sim list` names them
    #[arg(long, value_enum, value_name = "CONTROLLER")]
    controller: Controller,
    /// Write the drawing here
    #[arg(long, value_name = "FILE.svg")]
    output: PathBuf,
}

/// Drives the scenario and draws it.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    let read = arguments.scenarios.file().map(PathBuf::as_path);
    output::keep_apart(read, [arguments.output.as_path()])?;
    place::file(&arguments.output)?;
    let scenarios = arguments.scenarios.load()?;
    let scenario = chosen(arguments, &scenarios)?;
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
    println!("{}: {}", printable(&scenario.name), printable(&ended));
    Ok(ExitCode::SUCCESS)
}

fn chosen<'a>(arguments: &Arguments, scenarios: &'a [Scenario]) -> Result<&'a Scenario, String> {
    if let Some(name) = &arguments.name {
        let found = scenarios.iter().find(|scenario| scenario.name == *name);
        return found
            .ok_or_else(|| format!("none of {} scenarios is named `{name}`", scenarios.len()));
    }
    let index = arguments.index.unwrap_or(0);
    let beyond = || {
        format!(
            "there are {} scenarios, counted from 0; none is number {index}",
            scenarios.len()
        )
    };
    scenarios.get(index).ok_or_else(beyond)
}
