//! How long does a step of training take beside a forward pass, and in which kernels?
//!
//! Run: `cargo run --release -p spark-train --example step_speed -- MODEL.onnx [--batch 8] [--rank 4] [--threads 2]`
//!
//! Adapts every layer that is not in groups and holds the rank, teaches the network its own outputs, moved by 0.1, and tells
//! medians of eleven turns of both. Inputs are made up.

#![allow(clippy::print_stdout, reason = "an example's output is its product")]

use std::collections::BTreeMap;
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use spark_onnx::{Model, Precision, RunOptions};
use spark_onnx_graph::file;
use spark_program::{about, count};
use spark_train::{AdaptedNetwork, TrainingStep, with_free_batch};

mod material;

const TURNS: usize = 11;

/// Time of a training step beside that of a forward pass
#[derive(Parser)]
#[command(name = "step_speed", arg_required_else_help = true)]
struct Arguments {
    /// ONNX file
    #[arg(value_name = "FILE.onnx")]
    model: PathBuf,
    /// Samples of a step
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = count(1, 4096))]
    batch: usize,
    /// Rank of the adapters
    #[arg(long, value_name = "R", default_value_t = 4, value_parser = count(1, 4096))]
    rank: usize,
    /// Threads
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = count(1, 1024))]
    threads: usize,
}

fn main() -> ExitCode {
    spark_program::run(|arguments: Arguments| -> Result<ExitCode, Box<dyn Error>> {
        measure(&arguments)?;
        Ok(ExitCode::SUCCESS)
    })
}

fn measure(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let options = RunOptions::new()
        .with_precision(Precision::Fp32)
        .with_threads(arguments.threads);
    let graph = file::load(&arguments.model).map_err(about(&arguments.model))?;
    let made = material::made_up(&graph, (arguments.batch, 0), &options)?;
    let lent: Vec<_> = made
        .inputs
        .iter()
        .map(|(name, t)| (name.as_str(), t))
        .collect();
    let mut base = Model::from_graph(with_free_batch(graph.clone()), &options)?.session();
    base.run(&lent)?;
    let config = material::adapter(&graph, arguments.rank)?;
    let network = AdaptedNetwork::new(graph, config)?;
    let shapes: Vec<_> = lent
        .iter()
        .map(|(name, t)| (*name, t.shape().to_vec()))
        .collect();
    let mut step = TrainingStep::new(&network, &made.heads, &shapes, &options)?;
    let targets: Vec<_> = made
        .targets
        .iter()
        .map(|(name, t)| (name.as_str(), t))
        .collect();
    step.run(&network, &lent, &targets)?;

    let (mut forward, mut whole) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        let began = Instant::now();
        base.run(&lent)?;
        forward.push(began.elapsed());
        let began = Instant::now();
        step.run(&network, &lent, &targets)?;
        whole.push(began.elapsed());
    }
    let [forward, whole] = [forward, whole].map(median);
    println!("{}", network.adapter().size());
    println!(
        "forward {:.1} ms, step {:.1} ms: {:.2} times; memory {} and {} MB",
        1e3 * forward.as_secs_f64(),
        1e3 * whole.as_secs_f64(),
        whole.as_secs_f64() / forward.as_secs_f64(),
        base.arena_bytes() / 1_000_000,
        step.session().arena_bytes() / 1_000_000
    );
    let mut kernels: BTreeMap<(&str, String), (Duration, usize)> = BTreeMap::new();
    for step in step.profile(&network, &lent, &targets, 3)? {
        let entry = kernels.entry((step.kind, step.kernel)).or_default();
        entry.0 += step.mean.unwrap_or_default();
        entry.1 += 1;
    }
    let mut kernels: Vec<_> = kernels.into_iter().collect();
    kernels.sort_by_key(|(_, (time, _))| std::cmp::Reverse(*time));
    for ((kind, kernel), (time, steps)) in kernels {
        let time = 1e3 * time.as_secs_f64();
        println!("{time:9.2} ms in {steps:4} steps  {kind}, {kernel}");
    }
    Ok(())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
