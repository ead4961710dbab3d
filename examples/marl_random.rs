//! Many agents per world drive at random on highways: the loop every learner needs.
//!
//! Run: `cargo run --release --example marl_random -- [N_STEPS]`

#![allow(clippy::print_stdout, reason = "an example's output is its product")]

use sparkpilot::sim::env::{HighwayEnv, HighwayEnvConfig, StepBuffers, VectorEnv};
use sparkpilot::sim::random::Philox;
use std::process::ExitCode;
use std::time::Instant;

/// Drive many agents per world at random on highways, and count
#[derive(clap::Parser)]
#[command(
    name = "marl_random",
    after_help = "Examples:\n  \
        marl_random\n  \
        marl_random 500"
)]
struct Arguments {
    /// Steps of every world
    #[arg(default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    n_steps: u64,
}

fn main() -> ExitCode {
    spark_program::run(|arguments: Arguments| drive(arguments.n_steps))
}

fn drive(n_steps: u64) -> Result<(), Box<dyn std::error::Error>> {
    let mut env = HighwayEnv::new(HighwayEnvConfig::default())?;
    let shape = env.shape();
    let mut buffers = StepBuffers::new(shape);
    env.reset(1, &mut buffers.observations)?;

    let (mut reward, mut n_collisions, mut n_ends) = (0.0, 0, 0);
    let mut actions = vec![0.0; shape.n_rows() * shape.action_size];
    let start = Instant::now();
    for step in 0..n_steps {
        let mut random = Philox::new(2, step);
        for action in &mut actions {
            *action = random.next_in(-1.0, 1.0) as f32;
        }
        env.step(&actions, &mut buffers)?;
        reward += buffers.rewards.iter().map(|&r| f64::from(r)).sum::<f64>();
        n_collisions += buffers.terminated.iter().filter(|&&t| t).count();
        let over = |row: usize| buffers.terminated[row] || buffers.truncated[row];
        n_ends += (0..shape.n_worlds)
            .filter(|w| over(w * shape.n_agents))
            .count();
    }
    let n_agent_steps = n_steps as f64 * shape.n_rows() as f64;
    println!("{} worlds, {} agents each", shape.n_worlds, shape.n_agents);
    println!("mean reward per agent-step: {:.3}", reward / n_agent_steps);
    println!("collisions: {n_collisions}, episodes: {n_ends}");
    println!(
        "{:.3e} agent-steps/s, {:.3e} world-steps/s",
        n_agent_steps / start.elapsed().as_secs_f64(),
        n_steps as f64 * shape.n_worlds as f64 / start.elapsed().as_secs_f64()
    );
    Ok(())
}
