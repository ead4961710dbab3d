//! `sparkpilot sim bench`: how many steps this machine drives in a second.

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Value, json};
use spark_program::output::Words;
use spark_program::{count, output, place};
use sparkpilot::bench::Latency;
use sparkpilot::sim::run::Simulator;

use super::controllers::Controller;
use super::run::{run_options, say_threads};
use super::suites::Scenarios;
use super::words::name_of;

/// Measure how many steps of scenarios this machine drives in a second
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    sparkpilot sim bench --suite random --scenarios 2000 --controller pid\n  \
    sparkpilot sim bench --suite ncap-braking --controller torque --threads 1 --runs 20 --json bench.json\n\n\
    Inside the clock: building controllers, driving, metrics. Outside: making the scenarios. One run before the first\n\
    is not timed. The exit code is 1 if a drive failed, whose steps do not count.")]
pub(crate) struct Arguments {
    #[command(flatten)]
    scenarios: Scenarios,
    /// Who drives; `sim list` names them
    #[arg(long, value_enum, value_name = "CONTROLLER")]
    controller: Controller,
    /// Threads; as many as there are by default, and at most
    #[arg(long, value_name = "N", value_parser = count(1, 1024))]
    threads: Option<usize>,
    /// Timed runs over all scenarios
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = count(1, 100_000))]
    runs: usize,
    /// Write the figures as JSON (schema spark-sim-bench/1), here or with `-` to stdout
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Drives, times, prints.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    let read = arguments.scenarios.file().map(PathBuf::as_path);
    output::keep_apart(read, arguments.json.as_deref())?;
    if let Some(path) = &arguments.json {
        place::file(path)?;
    }
    let scenarios = arguments.scenarios.load()?;
    let simulator = Simulator::new(run_options(arguments.threads))?;
    say_threads(arguments.threads, &simulator);
    let factory = arguments.controller.factory();
    let bar = spark_program::progress(Some(1 + arguments.runs as u64)).with_message("runs");
    let pulse = spark_program::Pulse::of(&bar);
    let first = simulator.run(&scenarios, &factory);
    bar.inc(1);
    let mut samples = Vec::new();
    for _ in 0..arguments.runs {
        let begin = std::time::Instant::now();
        std::hint::black_box(simulator.run(&scenarios, &factory));
        samples.push(begin.elapsed());
        bar.inc(1);
    }
    drop(pulse);
    bar.finish_and_clear();
    let latency = Latency::of(&samples).ok_or("no run was timed")?;
    let n_failed = first
        .results
        .iter()
        .filter(|it| it.outcome.is_err())
        .count();
    let finished = first
        .results
        .iter()
        .filter_map(|it| it.outcome.as_ref().ok());
    let driven_s: f64 = finished.map(|it| it.duration_s).sum();
    let measured = Measured {
        controller: name_of(arguments.controller),
        device: simulator.device(),
        threads: simulator.n_threads(),
        drives: scenarios.len(),
        failed: n_failed,
        steps: first.n_agent_steps,
        driven_s,
        runs: samples.len(),
        s: [latency.min_ms, latency.p50_ms, latency.max_ms].map(|ms| ms / 1e3),
    };
    if let Some(path) = &arguments.json {
        output::write(path, format!("{:#}\n", measured.as_json()))?;
    }
    Words::beside(arguments.json.as_deref()).say(&measured.as_text())?;
    Ok(ExitCode::from(u8::from(n_failed > 0)))
}

/// What the runs came to.
struct Measured {
    controller: String,
    device: String,
    threads: usize,
    drives: usize,
    failed: usize,
    /// Of one run.
    steps: u64,
    /// Time that passed in the scenarios of one run.
    driven_s: f64,
    runs: usize,
    /// Shortest, median and longest run.
    s: [f64; 3],
}

impl Measured {
    fn as_text(&self) -> String {
        let per_s = self.s.map(|s| self.steps as f64 / s);
        format!(
            "{} on {}, threads: {}, {} drives, {} failed, {} steps a run\n\
             {:.0} steps a second in the median of {} runs ({:.0} to {:.0})\n\
             {:.1} drives a second, {:.0} times as fast as the clock\n",
            self.controller,
            self.device,
            self.threads,
            self.drives,
            self.failed,
            self.steps,
            per_s[1],
            self.runs,
            per_s[2],
            per_s[0],
            self.drives as f64 / self.s[1],
            self.driven_s / self.s[1],
        )
    }

    fn as_json(&self) -> Value {
        let [min, median, max] = self.s;
        json!({
            "schema": "spark-sim-bench/1",
            "controller": self.controller,
            "device": self.device,
            "threads": self.threads,
            "drives": self.drives,
            "failed": self.failed,
            "steps": self.steps,
            "driven_s": self.driven_s,
            "runs": self.runs,
            "wall_s": { "min": min, "median": median, "max": max },
            "steps_per_s": self.steps as f64 / median,
            "drives_per_s": self.drives as f64 / median,
        })
    }
}
