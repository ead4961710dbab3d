//! Looks for the cut-in that a planner handles worst, and draws it.
//!
//! Run: `cargo run --release --example worst_case -- [OUT.svg]`

#![allow(clippy::print_stdout, reason = "an example's output is its product")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use spark_program::{output, place};
use sparkpilot::sim::control::{PerfectTracking, named};
use sparkpilot::sim::report::replay_svg;
use sparkpilot::sim::run::{RunOptions, Simulator};
use sparkpilot::sim::scenario::alks::{CutIn, VEHICLES};
use sparkpilot::sim::scenario::{Parameter, Search};

/// Look for the cut-in that a planner handles worst, and draw it
#[derive(Parser)]
#[command(
    name = "worst_case",
    after_help = "Examples:\n  \
        worst_case\n  \
        worst_case cut_in.svg"
)]
struct Arguments {
    /// Where the drawing goes
    #[arg(default_value = "target/worst_case.svg", value_name = "OUT.svg")]
    out: PathBuf,
}

fn main() -> ExitCode {
    spark_program::run(|arguments: Arguments| search(&arguments.out))
}

fn search(out: &Path) -> Result<(), Box<dyn std::error::Error>> {
    // Asked before sixteen hundred drives, not after them; the folder is made as elsewhere.
    if let Some(folder) = out.parent() {
        output::folder(folder)?;
    }
    place::file(out)?;
    let cut_in = CutIn {
        ego_kph: 60.0,
        relative_kph: -20.0,
        gap: 30.0,
        lateral_speed: 1.0,
        acceleration: 0.0,
        from_left: true,
    };
    let search = Search {
        base: cut_in.scenario(VEHICLES[0]),
        bounds: vec![
            (Parameter::Speed, [8.0, 20.0]),
            (Parameter::ActorDistance, [-30.0, 30.0]),
            (Parameter::Friction, [0.4, 1.0]),
            (Parameter::AccelerationDelay, [0.0, 0.5]),
        ],
        population: 200,
        n_rounds: 8,
        seed: 1,
    };
    let driver = named("planner", || PerfectTracking);
    let simulator = Simulator::new(RunOptions::default().with_record_interval_s(0.05))?;
    // Hitting hard is worst; short of that, a short time to collision.
    let found = search.run(&simulator, &driver, |metrics| match metrics.collision {
        Some(collision) => 100.0 + collision.closing_speed,
        None => 10.0 - metrics.ttc_min.unwrap_or(10.0),
    })?;
    let report = simulator.run(std::slice::from_ref(&found.scenario), &driver);
    let trace = report.results[0].trace.as_ref();
    // The drawing before the words, which nobody may read.
    if let Some(trace) = trace {
        output::write(out, replay_svg(&found.scenario, trace))?;
    }
    println!("{}", found.scenario.name);
    println!(
        "score per round: {:.3?}, {} runs",
        found.rounds, found.n_runs
    );
    if trace.is_none() {
        return Err("the worst drive left nothing to draw".into());
    }
    println!("drawn in {}", out.display());
    Ok(())
}
