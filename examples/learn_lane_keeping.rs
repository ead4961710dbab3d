//! Learns to keep a lane from scratch, by an evolution strategy over a linear policy.
//!
//! Run: `cargo run --release --example learn_lane_keeping`
//!
//! Every generation, pairs of mirrored perturbations of the weights drive the same 256
//! worlds; the weights move along the perturbations, weighted by which of a pair did better.
//! (Salimans et al., *Evolution Strategies as a Scalable Alternative to RL*, 2017.)

#![allow(clippy::print_stdout, reason = "an example's output is its product")]

use std::process::ExitCode;

use sparkpilot::sim::env::{LaneKeepingConfig, LaneKeepingEnv, StepBuffers, VectorEnv};
use sparkpilot::sim::random::Philox;

const N_PAIRS: usize = 12;
const N_GENERATIONS: u64 = 30;
const SPREAD: f64 = 0.3;
const LEARNING_RATE: f64 = 0.5;

type Weights = [f64; 8];

/// Mean reward per step and world; worlds that leave the road start again and lose a step.
fn score(
    env: &mut LaneKeepingEnv,
    weights: &Weights,
    seed: u64,
) -> Result<f64, sparkpilot::sim::SimError> {
    let shape = env.shape();
    let mut buffers = StepBuffers::new(shape);
    env.reset(seed, &mut buffers.observations)?;
    let mut actions = vec![0.0; shape.n_rows()];
    let (mut total, n_steps) = (0.0, 200);
    for _ in 0..n_steps {
        for (action, o) in actions
            .iter_mut()
            .zip(buffers.observations.chunks_exact(shape.observation_size))
        {
            let products = o.iter().zip(weights).map(|(&x, w)| f64::from(x) * w);
            *action = (products.sum::<f64>() + weights[7]).tanh() as f32;
        }
        env.step(&actions, &mut buffers)?;
        let ended = buffers.terminated.iter().filter(|&&t| t).count() as f64;
        total += buffers.rewards.iter().map(|&r| f64::from(r)).sum::<f64>() - 20.0 * ended;
    }
    Ok(total / f64::from(n_steps) / shape.n_worlds as f64)
}

/// Learn to keep a lane from scratch, by an evolution strategy over a linear policy
#[derive(clap::Parser)]
#[command(
    name = "learn_lane_keeping",
    after_help = "Example:\n  \
        learn_lane_keeping"
)]
struct Arguments {}

fn main() -> ExitCode {
    spark_program::run(|_: Arguments| learn())
}

fn learn() -> Result<(), Box<dyn std::error::Error>> {
    let mut env = LaneKeepingEnv::new(LaneKeepingConfig::default())?;
    let mut weights: Weights = [0.0; 8];
    const HELD_OUT: u64 = 1_000_000;
    let before = score(&mut env, &weights, HELD_OUT)?;
    println!("untrained, on held-out roads: {before:.3} per step (1 is perfect)");
    for generation in 0..N_GENERATIONS {
        let mut step = [0.0; 8];
        for pair in 0..N_PAIRS {
            let mut random = Philox::new(7, generation * N_PAIRS as u64 + pair as u64);
            let noise: Weights = std::array::from_fn(|_| random.next_normal());
            let shifted =
                |sign: f64| std::array::from_fn(|i| weights[i] + sign * SPREAD * noise[i]);
            let gain = score(&mut env, &shifted(1.0), generation)?
                - score(&mut env, &shifted(-1.0), generation)?;
            for (s, n) in step.iter_mut().zip(noise) {
                *s += gain.clamp(-1.0, 1.0) * n / N_PAIRS as f64;
            }
        }
        for (w, s) in weights.iter_mut().zip(step) {
            *w += LEARNING_RATE * s;
        }
        if generation % 5 == 4 {
            println!(
                "generation {:2}: {:.3}",
                generation + 1,
                score(&mut env, &weights, HELD_OUT)?
            );
        }
    }
    println!("weights: {weights:.2?}");
    let after = score(&mut env, &weights, HELD_OUT)?;
    println!("trained, on held-out roads: {after:.3} per step");
    if after <= before {
        return Err(format!("the policy did not improve: {before:.3} to {after:.3}").into());
    }
    Ok(())
}
