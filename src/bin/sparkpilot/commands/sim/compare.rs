//! `sparkpilot sim compare`: is the new controller better?
//!
//! Each side is driven now, or is a run that `sim run --json` or `sim merge --json` wrote. Replays need scenarios and both
//! controllers, so runs that were written have none.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use spark_program::{ProgressBar, Usage, about, count, output, place, printable};
use sparkpilot::sim::compare::{CompareOptions, Comparison, compare};
use sparkpilot::sim::report::{Replay, html, json, markdown};
use sparkpilot::sim::run::{RunReport, Simulator};
use sparkpilot::sim::scenario::Scenario;

use super::controllers::Controller;
use super::run::{run_options, say_threads};
use super::saved;
use super::suites::{Scenarios, check_replicates, words_of};

/// Compare two controllers, scenario by scenario
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    sparkpilot sim compare --suite random --scenarios 10000 --baseline pid --candidate torque --folder out\n  \
    sparkpilot sim compare --file my-scenarios.toml --baseline pid --candidate lqr --replicates 8\n  \
    sparkpilot sim compare --baseline-run pid.json --candidate-run torque.json\n\n\
    The exit code is 0 if the candidate passes, and 1 if it fails or nothing is shown.")]
pub(crate) struct Arguments {
    #[command(flatten)]
    scenarios: Scenarios,
    /// What is driven today
    #[arg(
        long,
        value_enum,
        value_name = "CONTROLLER",
        required_unless_present = "baseline_run"
    )]
    baseline: Option<Controller>,
    /// What is to be driven
    #[arg(
        long,
        value_enum,
        value_name = "CONTROLLER",
        required_unless_present = "candidate_run"
    )]
    candidate: Option<Controller>,
    /// The same, driven before: the JSON of `sim run` or `sim merge`
    #[arg(long, value_name = "FILE", conflicts_with = "baseline")]
    baseline_run: Option<PathBuf>,
    /// The same, driven before
    #[arg(long, value_name = "FILE", conflicts_with = "candidate")]
    candidate_run: Option<PathBuf>,
    /// Drives of each scenario, each with other noise; refused where no scenario has any
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = count(1, 10_000))]
    replicates: usize,
    /// Threads; as many as there are by default, and at most
    #[arg(long, value_name = "N", value_parser = count(1, 1024))]
    threads: Option<usize>,
    /// Write report.html, report.md and report.json (schema spark-sim-comparison/1) here, the worst regressions replayed
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
}

/// Drives or reads both, writes the reports, prints the verdict.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    let runs = [&arguments.baseline_run, &arguments.candidate_run];
    if let Some(folder) = &arguments.folder {
        let reports = ["report.html", "report.md", "report.json"].map(|name| folder.join(name));
        let runs = runs.into_iter().filter_map(Option::as_deref);
        let read = runs.chain(arguments.scenarios.file().map(PathBuf::as_path));
        output::keep_apart(read, reports.iter().map(PathBuf::as_path))?;
        output::folder(folder)?;
        place::file(&folder.join("report.html"))?;
    }
    let controllers = [arguments.baseline, arguments.candidate];
    let n_driven = controllers.iter().flatten().count();
    let scenarios = match n_driven {
        0 if arguments.scenarios.is_asked_for() || arguments.replicates > 1 => {
            let told = "two runs that were driven before have their scenarios; name none";
            return Err(Usage(told.to_owned()).into());
        }
        0 if arguments.threads.is_some() => {
            let told = "--threads does nothing for two runs that were driven before";
            return Err(Usage(told.to_owned()).into());
        }
        0 => Vec::new(),
        _ => arguments.scenarios.load()?,
    };
    check_replicates(&scenarios, arguments.replicates)?;
    let simulator = Simulator::new(run_options(arguments.threads))?;
    say_threads(arguments.threads, &simulator);
    let bar = spark_program::progress(Some(
        (n_driven * scenarios.len() * arguments.replicates) as u64,
    ))
    .with_message("drives");
    let pulse = spark_program::Pulse::of(&bar);
    // Files first: one that cannot be read takes no drive away.
    let [old, new] = runs.map(|run| run.as_deref().map(read).transpose());
    let (old, new) = (old?, new?);
    let words = match n_driven {
        1 => Some(words_of(&scenarios)?),
        _ => None,
    };
    let side = |saved: Option<RunReport>, controller: Option<Controller>| match (saved, controller)
    {
        (Some(run), _) => Ok(run),
        (None, Some(controller)) => Ok(RunReport {
            scenarios: words.clone(),
            ..drive(
                &simulator,
                &scenarios,
                arguments.replicates,
                controller,
                &bar,
            )
        }),
        (None, None) => Err(Usage("each side is a controller or a run".to_owned())),
    };
    let baseline = side(old, arguments.baseline)?;
    let candidate = side(new, arguments.candidate)?;
    drop(pulse);
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

fn drive(
    simulator: &Simulator,
    scenarios: &[Scenario],
    n_replicates: usize,
    controller: Controller,
    bar: &ProgressBar,
) -> RunReport {
    let (factory, begin) = (controller.factory(), bar.position());
    simulator.run_replicates_with_progress(scenarios, n_replicates, &factory, |n| {
        bar.set_position(begin + n as u64);
    })
}

/// A run that was written down. One that does not say which scenarios it is of is refused: names do not tell.
fn read(path: &Path) -> Result<RunReport, Box<dyn Error>> {
    let run = saved::read(path)?;
    match run.scenarios {
        Some(_) => Ok(run),
        None => Err(about(path)("it does not say which scenarios it is of; write it again").into()),
    }
}

/// The page, with the two worst regressions driven once more and recorded, if both sides were driven.
fn page(
    arguments: &Arguments,
    scenarios: &[Scenario],
    comparison: &Comparison,
    [baseline, candidate]: [&RunReport; 2],
) -> Result<String, Box<dyn Error>> {
    let (Some(old), Some(new)) = (arguments.baseline, arguments.candidate) else {
        return Ok(html(comparison, baseline, candidate, &[])?);
    };
    let mut worst: Vec<usize> = Vec::new();
    for regression in &comparison.regressions {
        if !worst.contains(&regression.index) && worst.len() < 2 {
            worst.push(regression.index);
        }
    }
    let again: Vec<Scenario> = worst.iter().map(|&idx| scenarios[idx].clone()).collect();
    let recorder = Simulator::new(run_options(arguments.threads).with_record_interval_s(0.05))?;
    let before = recorder.run(&again, &old.factory());
    let after = recorder.run(&again, &new.factory());
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
