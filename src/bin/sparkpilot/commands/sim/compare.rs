//! `sparkpilot sim compare`: is the new controller better?

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use spark_program::{count, output, place, printable};
use sparkpilot::sim::compare::{CompareOptions, Comparison, compare};
use sparkpilot::sim::control::AlgorithmFactory;
use sparkpilot::sim::report::{Replay, html, json, markdown};
use sparkpilot::sim::run::{RunReport, Simulator};
use sparkpilot::sim::scenario::Scenario;

use super::controllers::Controller;
use super::run::run_options;
use super::suites::Scenarios;

/// Compare two controllers, scenario by scenario
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    sparkpilot sim compare --suite random --scenarios 10000 --baseline pid --candidate torque --folder out\n  \
    sparkpilot sim compare --file my-scenarios.toml --baseline pid --candidate lqr --replicates 8\n\n\
    The exit code is 0 if the candidate passes, and 1 if it fails or nothing is shown.")]
pub(crate) struct Arguments {
    #[command(flatten)]
    scenarios: Scenarios,
    /// What is driven today
    #[arg(long, value_enum, value_name = "CONTROLLER")]
    baseline: Controller,
    /// What is to be driven
    #[arg(long, value_enum, value_name = "CONTROLLER")]
    candidate: Controller,
    /// Drives of each scenario, each with other noise
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = count(1, 10_000))]
    replicates: usize,
    /// Threads; as many as there are by default
    #[arg(long, value_name = "N", value_parser = count(1, 1024))]
    threads: Option<usize>,
    /// Write report.html, report.md and report.json here, the worst regressions replayed
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
}

/// Drives both, writes the reports, prints the verdict.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    if let Some(folder) = &arguments.folder {
        let reports = ["report.html", "report.md", "report.json"].map(|name| folder.join(name));
        let read = arguments.scenarios.file().map(PathBuf::as_path);
        output::keep_apart(read, reports.iter().map(PathBuf::as_path))?;
        output::folder(folder)?;
        place::file(&folder.join("report.html"))?;
    }
    let scenarios = arguments.scenarios.load()?;
    let simulator = Simulator::new(run_options(arguments.threads))?;
    let n_drives = scenarios.len() * arguments.replicates;
    let bar = spark_program::progress(Some(2 * n_drives as u64));
    let drive = |controller: &dyn AlgorithmFactory, begin: usize| {
        simulator.run_replicates_with_progress(&scenarios, arguments.replicates, controller, |n| {
            bar.set_position((begin + n) as u64);
        })
    };
    let (old, new) = (arguments.baseline.factory(), arguments.candidate.factory());
    let (baseline, candidate) = (drive(&old, 0), drive(&new, n_drives));
    bar.finish_and_clear();
    let comparison = compare(&baseline, &candidate, &CompareOptions::default())?;
    if let Some(folder) = &arguments.folder {
        let page = page(arguments, &scenarios, &comparison, [&baseline, &candidate])?;
        output::write(&folder.join("report.html"), page)?;
        output::write(&folder.join("report.md"), markdown(&comparison))?;
        output::write(&folder.join("report.json"), json(&comparison)?)?;
    }
    print!("{}", printable(&markdown(&comparison)));
    Ok(ExitCode::from(u8::from(!comparison.passes())))
}

/// The page, with the two worst regressions driven once more and recorded.
fn page(
    arguments: &Arguments,
    scenarios: &[Scenario],
    comparison: &Comparison,
    [baseline, candidate]: [&RunReport; 2],
) -> Result<String, Box<dyn Error>> {
    let mut worst: Vec<usize> = Vec::new();
    for regression in &comparison.regressions {
        if !worst.contains(&regression.index) && worst.len() < 2 {
            worst.push(regression.index);
        }
    }
    let again: Vec<Scenario> = worst.iter().map(|&idx| scenarios[idx].clone()).collect();
    let recorder = Simulator::new(run_options(arguments.threads).with_record_interval_s(0.05))?;
    let before = recorder.run(&again, &arguments.baseline.factory());
    let after = recorder.run(&again, &arguments.candidate.factory());
    let replays: Vec<Replay<'_>> = again
        .iter()
        .zip(before.results.iter().zip(&after.results))
        .filter_map(|(scenario, (before, after))| {
            Some(Replay {
                scenario,
                baseline: before.trace.as_ref(),
                candidate: after.trace.as_ref()?,
            })
        })
        .collect();
    Ok(html(comparison, baseline, candidate, &replays)?)
}
