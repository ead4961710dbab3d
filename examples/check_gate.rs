//! How often is the gate wrong? One controller against itself and against known changes.
//!
//! Run: `cargo run --release --example check_gate -- --help`
//!
//! Prints the rates that `spark_sim::compare` states: how often it fails a controller compared with
//! itself under other noise, how often each metric then shows a difference, how often it fails a
//! change of one and a half margins, and what it says of a gain changed by one per cent.

#![allow(clippy::print_stdout, reason = "an example's output is its product")]

use clap::Parser;
use sparkpilot::hal::config::DeviceChoice;
use sparkpilot::sim::compare::{CompareOptions, Comparison, Decision, compare};
use sparkpilot::sim::control::{AlgorithmFactory, LateralPid, LateralPidConfig, Table, named};
use sparkpilot::sim::metric::{CATALOGUE, MetricInfo, Role};
use sparkpilot::sim::run::{RunOptions, RunReport, Simulator};
use sparkpilot::sim::scenario::{Fuzzer, Scenario};
use std::collections::BTreeMap;
use std::process::ExitCode;

/// How often is the gate wrong? One controller against itself and against known changes
#[derive(Parser)]
#[command(
    name = "check_gate",
    after_help = "Examples:\n  \
        check_gate\n  \
        check_gate --comparisons 200 --small 50 --changed 20"
)]
struct Arguments {
    /// Comparisons of the controller with itself.
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    comparisons: u64,
    /// Comparisons for each of the smallest suites, of 1 to 10 scenarios and at most --scenarios.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    small: u64,
    /// Comparisons with a change of one and a half margins.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    changed: u64,
    /// Scenarios of the suite.
    #[arg(long, default_value_t = 50, value_parser = spark_program::count(1, 100_000))]
    scenarios: usize,
    /// Length of a scenario, s.
    #[arg(long, default_value_t = 8.0, value_parser = spark_program::number(0.1, 1000.0))]
    duration: f64,
}

/// The suite with noise number `k`.
fn with_noise(suite: &[Scenario], k: u64) -> Vec<Scenario> {
    let mut suite = suite.to_vec();
    for scenario in &mut suite {
        scenario.seed ^= k.wrapping_mul(0xD1B5_4A32_D192_ED03);
    }
    suite
}

/// The controller with its default gains times `factor`.
fn pid(factor: f64) -> impl AlgorithmFactory {
    const KP: [(f64, f64); 4] = [(5.0, 0.001), (10.0, 0.004), (20.0, 0.017), (30.0, 0.04)];
    named("pid", move || {
        LateralPid::new(LateralPidConfig {
            kp: Table::new(KP.map(|(v, gain)| (v, gain * factor)).to_vec()),
            kf: 1.4e-4 * factor,
            ..LateralPidConfig::default()
        })
    })
}

fn fails(comparison: &Comparison) -> bool {
    matches!(comparison.decision, Decision::Fail { .. })
}

fn main() -> ExitCode {
    spark_program::run(|arguments: Arguments| check(&arguments))
}

fn check(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let suite: Vec<Scenario> = Fuzzer::new(42)
        .iter(arguments.scenarios as u64)
        .map(|mut scenario| {
            scenario.duration_s = arguments.duration;
            scenario
        })
        .collect();
    let simulator = Simulator::new(RunOptions::default().with_device(DeviceChoice::Cpu))?;
    let same = pid(1.0);
    let noisy = |n: usize, k: u64| simulator.run(&with_noise(&suite[..n], k), &same);
    let all = suite.len();
    let options = |seed: u64| CompareOptions::default().with_seed(seed);

    let n = arguments.comparisons;
    let mut decisions = BTreeMap::<&str, u64>::new();
    let mut different = BTreeMap::<&str, (u64, u64, usize)>::new();
    for t in 0..n {
        let (b, c) = (noisy(all, 2 * t + 1), noisy(all, 2 * t + 2));
        let found = compare(&b, &c, &options(t))?;
        *decisions.entry(found.decision.word()).or_default() += 1;
        for m in &found.metrics {
            let (n_different, n_shown, families) = different.entry(m.metric).or_default();
            *n_different += u64::from(m.p_difference <= found.alpha);
            *n_shown += u64::from(m.verdict.is_worse());
            *families = m.n_families;
        }
    }
    // No suite is larger than the one asked for, and of no comparisons there is no rate.
    let n_small = arguments.small;
    let mut small_failed = vec![0_u64; if n_small > 0 { all.min(10) } else { 0 }];
    for (i, n_failed) in small_failed.iter_mut().enumerate() {
        for t in 0..n_small {
            let n = i + 1;
            let (b, c) = (noisy(n, 2 * t + 1), noisy(n, 2 * t + 2));
            *n_failed += u64::from(fails(&compare(&b, &c, &options(t))?));
        }
    }
    let percent = |count: u64, of: u64| 100.0 * count as f64 / of as f64;
    println!(
        "{n} comparisons of a controller with itself, other noise, {} scenarios of {} s",
        suite.len(),
        arguments.duration
    );
    for (decision, count) in &decisions {
        println!("  {decision}: {:.2} %", percent(*count, n));
    }
    if n > 0 {
        println!("  metric: p below 5 % | called worse | families");
    }
    for (metric, (n_different, n_shown, families)) in &different {
        println!(
            "  {metric}: {:.2} % | {:.2} % | {families}",
            percent(*n_different, n),
            percent(*n_shown, n)
        );
    }
    for (i, count) in small_failed.iter().enumerate() {
        println!(
            "suite of {}: fails {:.2} % of {n_small}",
            i + 1,
            percent(*count, n_small)
        );
    }

    let primary: Vec<_> = CATALOGUE
        .iter()
        .filter(|info| info.role == Role::Primary)
        .collect();
    let mut n_failed = vec![0; primary.len()];
    for t in 0..arguments.changed {
        let b = noisy(all, 1_000_000 + 2 * t);
        let mut c = noisy(all, 1_000_001 + 2 * t);
        for (info, n_failed) in primary.iter().zip(&mut n_failed) {
            let by = 1.5 * info.margin.absolute;
            worsen(&mut c, info, by);
            *n_failed += u64::from(fails(&compare(&b, &c, &options(t))?));
            worsen(&mut c, info, -by);
        }
    }
    if arguments.changed > 0 {
        println!(
            "one metric worse by 1.5 margins, other noise, {} comparisons each",
            arguments.changed
        );
        for (info, count) in primary.iter().zip(n_failed) {
            println!(
                "  {}: fails {:.1} %",
                info.name,
                percent(count, arguments.changed)
            );
        }
    }

    for factor in [0.99, 0.9, 0.5] {
        let (b, c) = (
            noisy(all, 1),
            simulator.run(&with_noise(&suite, 1), &pid(factor)),
        );
        let found = compare(&b, &c, &options(0))?;
        println!("gains times {factor}: {}", found.decision.word());
        for m in &found.metrics {
            if m.role == Role::Primary {
                let interval = m.interval.map_or_else(
                    || "none".to_owned(),
                    |[low, high]| format!("{low:+.6} to {high:+.6}"),
                );
                println!(
                    "  {}: {:+.6}, interval {interval}, margin {} {}: {}",
                    m.metric,
                    m.delta,
                    m.margin,
                    m.unit,
                    m.verdict.words()
                );
            }
        }
    }
    Ok(())
}

/// Adds a worsening to one metric of every drive.
fn worsen(report: &mut RunReport, info: &MetricInfo, by: f64) {
    let outcomes = report.results.iter_mut().map(|r| &mut r.outcome);
    for metrics in outcomes.filter_map(|outcome| outcome.as_mut().ok()) {
        let capped = |value: Option<f64>, cap: f64| Some(value.unwrap_or(cap).min(cap) - by);
        match info.name {
            "lateral_error_rmse" => metrics.lateral_error_rmse += by,
            "lateral_error_max" => metrics.lateral_error_max += by,
            "lateral_jerk_rms" => metrics.lateral_jerk_rms += by,
            "progress_error" => {
                let error = metrics.progress_error().unwrap_or(0.0) + by;
                let requested = metrics.distance_requested_m.unwrap_or(0.0);
                metrics.distance_m = requested * (1.0 - error);
            }
            "jerk_rms" => metrics.jerk_rms += by,
            "discomfort_ratio" => metrics.discomfort_ratio += by,
            "off_lane_ratio" => metrics.off_lane_ratio += by,
            "ttc_min" => metrics.ttc_min = capped(metrics.ttc_min, 10.0),
            "headway_min" => metrics.headway_min = capped(metrics.headway_min, 5.0),
            other => unreachable!("not a primary metric: {other}"),
        }
    }
}
