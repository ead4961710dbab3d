//! Is the torque controller better than the PID? Ten thousand random scenarios, paired.
//!
//! Run: `cargo run --release --example simulate_batch -- [N_SCENARIOS] [OUT_FOLDER]`
//!
//! Writes `report.html` (tables, plots, the worst regressions replayed), `report.md` and
//! `report.json`. The same number of scenarios gives the same report, but for run times.

#![allow(clippy::print_stdout, reason = "an example's output is its product")]

use indicatif::ProgressBar;
use spark::sim::compare::{CompareOptions, compare};
use spark::sim::control::{
    Combined, LateralPid, LateralPidConfig, LateralTorque, LateralTorqueConfig, Longitudinal,
    LongitudinalConfig, named,
};
use spark::sim::report::{Replay, html, json, markdown};
use spark::sim::run::{RunOptions, Simulator};
use spark::sim::scenario::file::write_atomically;
use spark::sim::scenario::{Fuzzer, Scenario};
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let n_scenarios: u64 = arguments.next().map_or(Ok(10_000), |n| n.parse())?;
    let folder = PathBuf::from(
        arguments
            .next()
            .unwrap_or_else(|| "target/compare".to_owned()),
    );
    std::fs::create_dir_all(&folder)?;

    let long = || Longitudinal::new(LongitudinalConfig::default());
    let pid = named("pid", || {
        Combined::new(LateralPid::new(LateralPidConfig::default()), long())
    });
    let torque = named("torque", || {
        Combined::new(LateralTorque::new(LateralTorqueConfig::default()), long())
    });

    let scenarios: Vec<Scenario> = Fuzzer::new(1).iter(n_scenarios).collect();
    let simulator = Simulator::new(RunOptions {
        chunk_size: 512,
        ..RunOptions::default()
    })?;
    let bar = ProgressBar::new(2 * n_scenarios);
    let progress = |n: usize| bar.set_position(n as u64);
    let baseline = simulator.run_with_progress(&scenarios, &pid, progress);
    let candidate =
        simulator.run_with_progress(&scenarios, &torque, |n| progress(n + scenarios.len()));
    bar.finish_and_clear();
    let comparison = compare(&baseline, &candidate, &CompareOptions::default())?;

    // The two worst regressions once more, recorded.
    let mut worst: Vec<usize> = comparison.regressions.iter().map(|r| r.index).collect();
    worst.dedup();
    worst.truncate(2);
    let again: Vec<Scenario> = worst.iter().map(|&i| scenarios[i].clone()).collect();
    let recorder = Simulator::new(RunOptions {
        record_interval_s: Some(0.05),
        ..RunOptions::default()
    })?;
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
    write_atomically(&folder.join("report.html"), page.as_bytes())?;
    write_atomically(&folder.join("report.md"), markdown(&comparison).as_bytes())?;
    write_atomically(&folder.join("report.json"), json(&comparison)?.as_bytes())?;

    println!("{}", markdown(&comparison));
    for run in [&baseline, &candidate] {
        println!(
            "{}: {} scenarios, {:.3e} steps in {:.2} s = {:.2e} steps/s on {}",
            run.algorithm,
            run.results.len(),
            run.n_agent_steps as f64,
            run.wall_s,
            run.n_agent_steps as f64 / run.wall_s,
            run.device
        );
    }
    println!("reports in {}", folder.display());
    Ok(())
}
