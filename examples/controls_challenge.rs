//! The controls challenge: its PID controller on its segments, through its network or a stand-in.
//!
//! Run: `cargo run --release --example controls_challenge -- [MODEL.onnx] [SEGMENT.csv ...]`
//!
//! Without segments, drives synthetic ones. Without a network, cars follow with a first-order
//! lag; costs of that stand-in say nothing about the challenge's leaderboard.

#![allow(clippy::print_stdout, reason = "an example's output is its product")]

use spark::model::RunOptions;
use spark::sim::learned::{
    CONTEXT, Challenge, ChallengePid, LearnedDynamics, ModelDynamics, N_BINS, STATE_SIZE, Segment,
    SegmentRow, decode, read_segment,
};
use std::path::Path;

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

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (networks, files): (Vec<String>, Vec<String>) = std::env::args()
        .skip(1)
        .partition(|file| file.ends_with(".onnx"));
    let mut model: Box<dyn LearnedDynamics> = match networks.first() {
        Some(file) => Box::new(ModelDynamics::load(Path::new(file), &RunOptions::new())?),
        None => Box::new(Lag),
    };
    let segments = if files.is_empty() {
        (0..100).map(synthetic).collect()
    } else {
        let read = files.iter().map(|file| read_segment(Path::new(file), file));
        read.collect::<Result<Vec<Segment>, _>>()?
    };
    // Several seeds: a controller may not profit from knowing one.
    for offset in [0, 1, 2] {
        let rollouts = Challenge::new(model.as_mut())
            .with_seed_offset(offset)
            .run(&segments, ChallengePid::default)?;
        let n = rollouts.len() as f64;
        let mean = |pick: fn(&spark::sim::learned::ChallengeCost) -> f64| {
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
    Ok(())
}
