//! Is the torque controller better than the PID? Ten thousand random scenarios, paired.
//!
//! Run: `cargo run --release --example simulate_batch -- [N_SCENARIOS] [OUT_FOLDER]`
//!
//! Writes `report.html` (tables, plots, the worst regressions replayed), `report.md` and
//! `report.json`. The same number of scenarios gives the same report, but for run times.

#![allow(clippy::print_stdout, reason = "an example's output is its product")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use spark_program::{output, place};
use sparkpilot::sim::compare::{CompareOptions, compare};
use sparkpilot::sim::control::{
    Combined, LateralPid, LateralPidConfig, LateralTorque, LateralTorqueConfig, Longitudinal,
    LongitudinalConfig, named,
};
use sparkpilot::sim::report::{Replay, html, json, markdown};
use sparkpilot::sim::run::{RunOptions, Simulator};
use sparkpilot::sim::scenario::{Fuzzer, Scenario};

/// Compare the torque controller with the PID on random scenarios
#[derive(Parser)]
#[command(
    name = "simulate_batch",
    after_help = "Examples:\n  \
        simulate_batch\n  \
        simulate_batch 500 out"
)]
struct Arguments {
    /// How many scenarios
    #[arg(default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    n_scenarios: u64,
    /// Folder for report.html, report.md and report.json
    #[arg(default_value = "target/compare", value_name = "OUT_FOLDER")]
    folder: PathBuf,
}

fn main() -> ExitCode {
    spark_program::run(|arguments: Arguments| simulate(arguments.n_scenarios, &arguments.folder))
}

fn simulate(n_scenarios: u64, folder: &Path) -> Result<(), Box<dyn std::error::Error>> {
    output::folder(folder)?;
    place::file(&folder.join("report.html"))?;

    let long = || Longitudinal::new(LongitudinalConfig::default());
    let pid = named("pid", || {
        Combined::new(LateralPid::new(LateralPidConfig::default()), long())
    });
    let torque = named("torque", || {
        Combined::new(LateralTorque::new(LateralTorqueConfig::default()), long())
    });

    let scenarios: Vec<Scenario> = Fuzzer::new(1).iter(n_scenarios).collect();
    let simulator = Simulator::new(RunOptions::default().with_chunk_size(512))?;
    let bar = spark_program::progress(Some(2 * n_scenarios));
    let progress = |n: usize| bar.set_position(n as u64);
    let baseline = simulator.run_with_progress(&scenarios, &pid, progress);
    let candidate =
        simulator.run_with_progress(&scenarios, &torque, |n| progress(n + scenarios.len()));
    bar.finish_and_clear();
    let comparison = compare(&baseline, &candidate, &CompareOptions::default())?;

    // The two scenarios with the worst regressions once more, recorded.
    let mut worst: Vec<usize> = Vec::new();
    for regression in &comparison.regressions {
        if !worst.contains(&regression.index) && worst.len() < 2 {
            worst.push(regression.index);
        }
    }
    let again: Vec<Scenario> = worst.iter().map(|&i| scenarios[i].clone()).collect();
    let recorder = Simulator::new(RunOptions::default().with_record_interval_s(0.05))?;
    let (before, after) = (recorder.run(&again, &pid), recorder.run(&again, &torque));
    let replays: Vec<Replay<'_>> = again
        .iter()
        .enumerate()
        .filter_map(|(i, scenario)| {
            Some(Replay {
                scenario,
                baseline: before.results[i].trace.as_ref(),
                candidate: after.results[i].trace.as_ref()?,
            })
        })
        .collect();

    let page = html(&comparison, &baseline, &candidate, &replays)?;
    output::write(&folder.join("report.html"), page)?;
    output::write(&folder.join("report.md"), markdown(&comparison))?;
    output::write(&folder.join("report.json"), json(&comparison)?)?;

    println!("{}", markdown(&comparison));
    for run in [&baseline, &candidate] {
        let Some(wall_s) = run.wall_s else {
            continue; // not of a run of one process
        };
        println!(
            "{}: {} scenarios, {:.3e} steps in {:.2} s = {:.2e} steps/s on {}",
            run.algorithm,
            run.results.len(),
            run.n_agent_steps as f64,
            wall_s,
            run.n_agent_steps as f64 / wall_s,
            run.device
        );
    }
    println!("reports in {}", folder.display());
    Ok(())
}
