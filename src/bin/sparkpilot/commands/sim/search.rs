//! `sparkpilot sim search`: the worst case that a controller can be put into.

use std::cell::Cell;
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Value, json};
use spark_program::output::Words;
use spark_program::{Usage, count, file_ending_in, output, place, postponed, printable, tell};
use sparkpilot::sim::SimError;
use sparkpilot::sim::metric::{CATALOGUE, Direction, MetricInfo, Metrics};
use sparkpilot::sim::report::replay_svg;
use sparkpilot::sim::run::Simulator;
use sparkpilot::sim::scenario::file::ScenarioFile;
use sparkpilot::sim::scenario::{Parameter, Scenario, Search, SearchOutcome, badness, danger};

use super::controllers::Controller;
use super::run::{run_options, say_threads};
use super::suites::{Scenarios, Which};

/// Look for the scenario that a controller handles worst, by varying one within bounds
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    sparkpilot sim search --suite alks-cut-in --index 3 --controller careful --vary speed=8..20 --vary friction=0.4..1\n  \
    sparkpilot sim search --file cut-in.toml --controller pid --vary actor-distance=-30..30 --worst ttc_min \\\n    \
        --scenario worst.toml --svg worst.svg\n  \
    sparkpilot sim replay --file worst.toml --controller pid --output worst.svg\n\n\
    What is found is bad, with no promise that it is the worst: the cross-entropy method. Parameters:\n\
    speed, start-offset, start-heading, curvature-scale, grade, bank, friction, headwind, crosswind, mass-scale,\n\
    stiffness-scale, steer-delay, acceleration-delay, actor-distance, actor-speed-scale, offset-noise, speed-noise,\n\
    noise-level, preset. The exit code is 1 if the worst drive ends in a collision or fails.")]
pub(crate) struct Arguments {
    #[command(flatten)]
    scenarios: Scenarios,
    #[command(flatten)]
    which: Which,
    /// Who drives; `sim list` names them
    #[arg(long, value_enum, value_name = "CONTROLLER")]
    controller: Controller,
    /// What varies, from one value to another; may be repeated for other parameters
    #[arg(long, required = true, value_name = "PARAMETER=LOW..HIGH", value_parser = bounds, allow_hyphen_values = true)]
    vary: Vec<(Parameter, [f64; 2])>,
    /// What makes a drive bad: danger (a collision by its speed, else a short time to collision), or a metric of `sim run`
    #[arg(long, default_value = "danger", value_name = "danger|METRIC", value_parser = Worst::named)]
    worst: Worst,
    /// Scenarios of a round
    #[arg(long, default_value_t = 200, value_name = "N", value_parser = count(5, 100_000))]
    population: usize,
    /// Rounds, each around the worst fifth of the round before
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = count(1, 1000))]
    rounds: usize,
    /// Seed of what is drawn
    #[arg(long, default_value_t = 1, value_name = "N")]
    search_seed: u64,
    /// Threads; as many as there are by default, and at most
    #[arg(long, value_name = "N", value_parser = count(1, 1024))]
    threads: Option<usize>,
    /// Write the worst scenario here, for `sim run --file` and `sim replay --file`
    #[arg(long, value_name = "FILE.toml|FILE.json")]
    scenario: Option<PathBuf>,
    /// Draw the worst drive, here or with `-` to stdout
    #[arg(long, value_name = "FILE.svg", value_parser = file_ending_in(&["svg"]))]
    svg: Option<PathBuf>,
    /// Write what was found as JSON (schema spark-sim-search/1), here or with `-` to stdout
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What a drive is judged by.
#[derive(Clone, Copy)]
enum Worst {
    Danger,
    Metric(&'static MetricInfo),
}

impl Worst {
    fn named(name: &str) -> Result<Self, String> {
        if name == "danger" {
            return Ok(Self::Danger);
        }
        let known = CATALOGUE.iter().find(|info| info.name == name);
        let names = || CATALOGUE.iter().map(|info| info.name).collect::<Vec<_>>();
        known
            .map(Self::Metric)
            .ok_or_else(|| format!("danger or a metric: {}", names().join(", ")))
    }

    fn name(self) -> &'static str {
        match self {
            Self::Danger => "danger",
            Self::Metric(info) => info.name,
        }
    }

    fn score(self, metrics: &Metrics) -> f64 {
        match self {
            Self::Danger => danger(metrics),
            Self::Metric(info) => badness(info, metrics),
        }
    }

    /// The figure of a score: of a metric its own, of which the least may be the worst.
    fn figure(self, score: f64) -> f64 {
        match self {
            Self::Metric(info) if matches!(info.direction, Direction::Higher) => 0.0 - score,
            _ => score,
        }
    }
}

/// What the command line calls a parameter: as files of scenarios do, with strokes between the words.
fn name_of(parameter: Parameter) -> String {
    parameter.name().replace('_', "-")
}

/// Refuses a search in which no drive would differ from another: by what varies, or in what makes a drive bad.
fn check_in(base: &Scenario, arguments: &Arguments) -> Result<(), Usage> {
    for &(parameter, _) in &arguments.vary {
        if let Err(SimError::NothingToVary { lacks, .. }) = parameter.check_in(base) {
            let (varied, name) = (name_of(parameter), printable(&base.name));
            return Err(Usage(format!(
                "--vary {varied} changes nothing: in `{name}` there is {lacks}"
            )));
        }
    }
    if matches!(arguments.worst, Worst::Danger) && base.actors.is_empty() {
        return Err(Usage(format!(
            "--worst danger: in `{}` there is no other road user to collide with; --worst takes a metric, such as lateral_error_max",
            printable(&base.name)
        )));
    }
    Ok(())
}

fn bounds(text: &str) -> Result<(Parameter, [f64; 2]), String> {
    let wanted = "PARAMETER=LOW..HIGH is wanted, as in speed=8..20";
    let (name, range) = text.split_once('=').ok_or(wanted)?;
    let (low, high) = range.split_once("..").ok_or(wanted)?;
    let known = Parameter::ALL.into_iter().find(|&it| name_of(it) == name);
    let names = || Parameter::ALL.map(name_of).join(", ");
    let parameter = known.ok_or_else(|| format!("no parameter `{name}`; there are {}", names()))?;
    let number = |text: &str| match text.trim().parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        _ => Err(format!("`{text}` is no finite number")),
    };
    let (low, high) = (number(low)?, number(high)?);
    match low <= high {
        true => Ok((parameter, [low, high])),
        false => Err(format!("{low} is above {high}")),
    }
}

/// Searches, writes what was asked for, and prints what was found.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    let written = [&arguments.scenario, &arguments.svg, &arguments.json];
    let written = || written.into_iter().filter_map(Option::as_deref);
    let read = arguments.scenarios.file().map(PathBuf::as_path);
    output::keep_apart(read, written())?;
    written().try_for_each(place::file)?;
    if let Some(path) = &arguments.scenario {
        let ending = path.extension().and_then(|ending| ending.to_str());
        if !matches!(ending, Some("toml" | "json")) {
            let why = "--scenario: files of scenarios end in .toml or .json";
            return Err(Usage(why.to_owned()).into());
        }
    }
    let varied = arguments.vary.iter().enumerate();
    for (at, (parameter, _)) in varied {
        if arguments.vary[..at].iter().any(|(it, _)| it == parameter) {
            let name = name_of(*parameter);
            return Err(Usage(format!("--vary {name} is given twice")).into());
        }
    }
    let scenarios = arguments.scenarios.load()?;
    let base = arguments.which.of(&scenarios)?;
    check_in(base, arguments)?;
    let search = Search {
        base: base.clone(),
        bounds: arguments.vary.clone(),
        population: arguments.population,
        n_rounds: arguments.rounds,
        seed: arguments.search_seed,
    };
    let simulator = Simulator::new(run_options(arguments.threads).with_record_interval_s(0.05))?;
    say_threads(arguments.threads, &simulator);
    let factory = arguments.controller.factory();
    let n_drives = arguments.population * arguments.rounds;
    let bar = spark_program::progress(Some(n_drives as u64)).with_message("search");
    let pulse = spark_program::Pulse::of(&bar);
    let range = Cell::new([f64::INFINITY, f64::NEG_INFINITY]);
    let score = |metrics: &Metrics| {
        let (score, [low, high]) = (arguments.worst.score(metrics), range.get());
        range.set([low.min(score), high.max(score)]);
        score
    };
    let progress = |n: usize| bar.set_position(n as u64);
    let found = search.run_with_progress(&simulator, &factory, score, progress)?;
    drop(pulse);
    bar.finish_and_clear();
    if found.score == f64::NEG_INFINITY {
        return Err(format!("no drive has `{}`", arguments.worst.name()).into());
    }
    let [low, high] = range.get();
    if low == high {
        tell(format!(
            "warning: all drives are equally bad by {}: what varies makes no difference to it",
            arguments.worst.name()
        ));
    }
    let mut report = simulator.run(std::slice::from_ref(&found.scenario), &factory);
    let drive = report
        .results
        .pop()
        .ok_or("the worst scenario gave no drive")?;
    let collides = drive
        .outcome
        .as_ref()
        .map_or(true, |it| it.collision.is_some());
    // Files before the words, which nobody may read.
    if let Some(path) = &arguments.scenario {
        let file = ScenarioFile {
            scenarios: vec![found.scenario.clone()],
            sweeps: Vec::new(),
        };
        postponed(|| file.write(path))?;
    }
    if let Some(path) = &arguments.svg {
        let trace = drive.trace.as_ref();
        let trace = trace.ok_or("the worst drive left nothing to draw")?;
        output::write(path, replay_svg(&found.scenario, trace))?;
    }
    if let Some(path) = &arguments.json {
        let told = as_json(arguments, base, &found, collides);
        output::write(path, format!("{told:#}\n"))?;
    }
    let ended = match &drive.outcome {
        Err(why) => why.to_string(),
        Ok(metrics) => metrics.collision.map_or("no collision".to_owned(), |it| {
            let (after, by) = (it.time_s, it.closing_speed);
            format!(
                "a collision after {after:.2} s at {by:.2} m/s, with road user {}",
                it.actor_idx
            )
        }),
    };
    let text = format!(
        "{}{}: {ended}\n",
        as_text(arguments, &found),
        found.scenario.name
    );
    Words::beside(written()).say(&printable(&text))?;
    Ok(ExitCode::from(u8::from(collides)))
}

fn as_text(arguments: &Arguments, found: &SearchOutcome) -> String {
    let rounds: Vec<String> = found
        .rounds
        .iter()
        .map(|&score| format!("{:.3}", arguments.worst.figure(score)))
        .collect();
    let values = found
        .values
        .iter()
        .map(|&(it, value)| format!("{} {value:.4}", name_of(it)));
    let passed_over = match (found.n_invalid, &found.first_invalid) {
        (n, Some(why)) => format!(
            "{n} draws were no valid scenarios and count for nothing, the first because {why}\n"
        ),
        _ => String::new(),
    };
    format!(
        "{} by {} in {} drives; worst of each round {}\nat {}\n{passed_over}",
        format_args!("{:.3}", arguments.worst.figure(found.score)),
        arguments.worst.name(),
        found.n_runs - found.n_invalid,
        rounds.join(", "),
        values.collect::<Vec<_>>().join(", ")
    )
}

/// Scores that are not finite, those of drives that failed, are null.
fn as_json(arguments: &Arguments, base: &Scenario, found: &SearchOutcome, collides: bool) -> Value {
    let figures = found.rounds.iter();
    let rounds: Vec<f64> = figures.map(|&it| arguments.worst.figure(it)).collect();
    let varied = arguments.vary.iter().zip(&found.values);
    let varied = varied.map(|(&(parameter, [low, high]), &(_, value))| {
        json!({ "parameter": name_of(parameter), "low": low, "high": high, "value": value })
    });
    json!({
        "schema": "spark-sim-search/1",
        "base": base.name,
        "controller": super::words::name_of(arguments.controller),
        "worst_by": arguments.worst.name(),
        "varied": varied.collect::<Vec<_>>(),
        "score": arguments.worst.figure(found.score),
        "rounds": rounds,
        "drives": found.n_runs - found.n_invalid,
        "invalid": found.n_invalid,
        "collides_or_fails": collides,
        "scenario": found.scenario,
    })
}
