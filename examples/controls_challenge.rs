//! The controls challenge: its PID controller on its segments, through its network or a stand-in.
//!
//! Run: `cargo run --release --example controls_challenge -- [MODEL.onnx] [SEGMENT.csv | FOLDER ...]`
//!
//! Without segments, drives synthetic ones. Without a network, cars follow with a first-order
//! lag; costs of that stand-in say nothing about the challenge's leaderboard. A segment's first seed is
//! the challenge's own, of `data/` and the file's name, wherever the file lies; two more follow. A file
//! that cannot be driven is reported and left out; the program then ends with 1.

#![allow(clippy::print_stdout, reason = "an example's output is its product")]

use std::collections::BTreeSet;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use spark_program::{Usage, about, tell, with_causes};
use sparkpilot::onnx::RunOptions;
use sparkpilot::sim::learned::{
    CONTEXT, Challenge, ChallengeCost, ChallengePid, LearnedDynamics, ModelDynamics, N_BINS,
    STATE_SIZE, Segment, SegmentRow, decode, read_segment,
};

/// Drive segments of the controls challenge with its PID controller, and say what that costs
#[derive(Parser)]
#[command(
    name = "controls_challenge",
    after_help = "Examples:\n  \
        controls_challenge                             synthetic segments, a stand-in for the car\n  \
        controls_challenge tinyphysics.onnx data       every .csv of a folder\n  \
        controls_challenge tinyphysics.onnx data/00000.csv"
)]
struct Arguments {
    /// The challenge's network, segments as CSV, and folders of them
    #[arg(value_name = "MODEL.onnx | SEGMENT.csv | FOLDER")]
    files: Vec<PathBuf>,
}

/// Lateral acceleration that follows twice the steering within a quarter of a second.
struct Lag;

impl LearnedDynamics for Lag {
    fn predict(
        &mut self,
        n: usize,
        states: &[f32],
        tokens: &[i64],
        logits: &mut [f32],
    ) -> Result<(), String> {
        for i in 0..n {
            let newest = i * CONTEXT + CONTEXT - 1;
            let state = &states[newest * STATE_SIZE..(newest + 1) * STATE_SIZE];
            let last = decode(usize::try_from(tokens[newest]).map_err(|e| e.to_string())?);
            let next = last + 0.35 * (2.0 * f64::from(state[0]) + f64::from(state[1]) - last);
            for (bin, logit) in logits[i * N_BINS..(i + 1) * N_BINS].iter_mut().enumerate() {
                let distance = (decode(bin) - next) / 0.03;
                *logit = (-0.5 * distance * distance).max(-1e4) as f32;
            }
        }
        Ok(())
    }
}

fn synthetic(number: usize) -> Segment {
    let wave =
        |i: usize| ((i + 37 * number) as f64 * 0.06).sin() * (0.5 + 0.1 * (number % 7) as f64);
    let rows = (0..580).map(|i| SegmentRow {
        roll_lataccel: 0.1,
        v_ego: 25.0,
        a_ego: 0.0,
        target_lataccel: wave(i),
        steer: 0.5 * wave(i),
    });
    Segment {
        name: format!("synthetic/{number:05}"),
        rows: rows.collect(),
    }
}

fn main() -> ExitCode {
    spark_program::run(|arguments: Arguments| drive(arguments.files))
}

fn drive(files: Vec<PathBuf>) -> Result<ExitCode, Box<dyn Error>> {
    let (networks, files): (Vec<PathBuf>, Vec<PathBuf>) = files
        .into_iter()
        .partition(|file| file.extension().is_some_and(|ending| ending == "onnx"));
    let mut model: Box<dyn LearnedDynamics> = match &networks[..] {
        [] => Box::new(Lag),
        [file] => Box::new(ModelDynamics::load(file, &RunOptions::new()).map_err(about(file))?),
        _ => return Err(Usage("more than one network".to_owned()).into()),
    };
    let (segments, n_bad) = if files.is_empty() {
        ((0..100).map(synthetic).collect(), 0)
    } else {
        read(&csv_files(&files)?)
    };
    if segments.is_empty() {
        return Err("no segment is left to drive".into());
    }
    // Several seeds: a controller may not profit from knowing one.
    for offset in [0, 1, 2] {
        let rollouts = Challenge::new(model.as_mut())
            .with_seed_offset(offset)
            .run(&segments, ChallengePid::default)?;
        let n = rollouts.len() as f64;
        let mean = |pick: fn(&ChallengeCost) -> f64| {
            rollouts.iter().map(|r| pick(&r.cost)).sum::<f64>() / n
        };
        println!(
            "seed offset {offset}: {} segments, lataccel cost {:.3}, jerk cost {:.2}, total {:.2}",
            rollouts.len(),
            mean(|c| c.lataccel),
            mean(|c| c.jerk),
            mean(|c| c.total)
        );
    }
    if n_bad > 0 {
        return Err(
            format!("{n_bad} files could not be driven and are not in these figures").into(),
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// The files, and of folders every file that ends in `.csv`, in the order of their names.
fn csv_files(given: &[PathBuf]) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut files = Vec::new();
    for path in given {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let mut inside = Vec::new();
        for entry in std::fs::read_dir(path).map_err(about(path))? {
            let file = entry.map_err(about(path))?.path();
            if file.extension().is_some_and(|ending| ending == "csv") {
                inside.push(file);
            }
        }
        if inside.is_empty() {
            return Err(format!("`{}` holds no file that ends in .csv", path.display()).into());
        }
        inside.sort();
        files.extend(inside);
    }
    let mut seen = BTreeSet::new();
    files.retain(|file| {
        // What cannot be found is reported when it is read.
        let place = file.canonicalize().unwrap_or_else(|_| file.clone());
        let is_new = seen.insert(place);
        if !is_new {
            tell(format!(
                "`{}` is given more than once and counts once",
                file.display()
            ));
        }
        is_new
    });
    Ok(files)
}

/// The segments that can be driven, and how many cannot; each of those is reported.
fn read(files: &[PathBuf]) -> (Vec<Segment>, usize) {
    let mut segments = Vec::new();
    for file in files {
        let segment = read_segment(file, &seed_name(file)).and_then(|segment| {
            segment.check()?;
            Ok(segment)
        });
        match segment {
            Ok(segment) => segments.push(segment),
            Err(error) => tell(format_args!("error: {}", with_causes(&about(file)(error)))),
        }
    }
    let n_bad = files.len() - segments.len();
    (segments, n_bad)
}

/// What the challenge takes the seed from: the path as its evaluation gives it, `data/00000.csv`.
fn seed_name(file: &Path) -> String {
    let name = file.file_name().unwrap_or_default();
    format!("data/{}", name.to_string_lossy())
}
