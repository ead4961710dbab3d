//! How long does a step of training take beside a forward pass, and in which kernels?
//!
//! Run: `cargo run --release -p spark-train --example step_speed -- MODEL.onnx [--batch 8] [--rank 4] [--threads 2]`
//!
//! Adapts every layer that is not in groups and holds the rank (or those that `--targets` names), teaches the network its own outputs, moved by 0.1, and tells
//! medians of eleven turns of both. Inputs are made up.

#![allow(clippy::print_stdout, reason = "an example's output is its product")]

use std::collections::BTreeMap;
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use spark_onnx::{Model, Precision, RunOptions};
use spark_onnx_graph::{Tensor, file};
use spark_program::{about, count, number};
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
    /// Adapt only the layers whose names end so, with commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    targets: Vec<String>,
    /// How likely each number that adapters read is dropped
    #[arg(long, value_name = "P", default_value_t = 0.0, value_parser = number(0.0, 0.99))]
    dropout: f64,
    /// Compute results of the way forth a second time, rather than to keep them
    #[arg(long)]
    recompute: bool,
    /// Time steps of what is left of the network, too, behind what training cannot change
    #[arg(long)]
    cut: bool,
    /// Name so many steps of the plan, the slowest ones
    #[arg(long, value_name = "N", default_value_t = 0)]
    slowest: usize,
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
    let lent = lent(&made.inputs);
    let mut base = Model::from_graph(with_free_batch(graph.clone()), &options)?.session();
    base.run(&lent)?;
    let mut config = material::adapter(&graph, arguments.rank, &arguments.targets)?;
    config.lora_dropout = arguments.dropout;
    let network = AdaptedNetwork::new(graph, config)?;
    let shapes = shapes(&lent, arguments.batch);
    let planned = match arguments.recompute {
        true => TrainingStep::recomputing,
        false => TrainingStep::new,
    };
    let before = resident_since_now();
    let mut step = planned(&network, &made.heads, &shapes, &options)?;
    let targets = self::lent(&made.targets);
    step.run_pass(&network, 0, &lent, &targets)?;

    let (mut forward, mut whole) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        let began = Instant::now();
        base.run(&lent)?;
        forward.push(began.elapsed());
        let began = Instant::now();
        step.run_pass(&network, 0, &lent, &targets)?;
        whole.push(began.elapsed());
    }
    let [forward, whole] = [forward, whole].map(median);
    let grown = before
        .zip(most_resident())
        .map(|(before, most)| most.saturating_sub(before));
    println!("{}", network.adapter().size());
    println!(
        "forward {:.1} ms, step {:.1} ms: {:.2} times; memory {} and {} MB",
        1e3 * forward.as_secs_f64(),
        1e3 * whole.as_secs_f64(),
        whole.as_secs_f64() / forward.as_secs_f64(),
        base.arena_bytes() / 1_000_000,
        step.session().arena_bytes() / 1_000_000
    );
    if let Some(kib) = grown {
        println!("the process grew by {} MB at most", kib * 1024 / 1_000_000);
    }
    let mut kernels: BTreeMap<(&str, String), (Duration, usize)> = BTreeMap::new();
    let mut steps = step.profile(&network, &lent, &targets, 3)?;
    steps.sort_by_key(|step| std::cmp::Reverse(step.mean));
    for step in steps.iter().take(arguments.slowest) {
        let time = 1e3 * step.mean.unwrap_or_default().as_secs_f64();
        println!(
            "{time:9.2} ms  {}, {}, {}",
            step.name, step.kind, step.kernel
        );
    }
    for step in steps {
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
    if arguments.cut {
        behind_trunk(arguments, network, &made, whole)?;
    }
    Ok(())
}

/// Steps of what is left where the trunk's results are kept.
fn behind_trunk(
    arguments: &Arguments,
    network: AdaptedNetwork,
    made: &material::Material,
    whole: Duration,
) -> Result<(), Box<dyn Error>> {
    let options = RunOptions::new().with_threads(arguments.threads);
    let lent = lent(&made.inputs);
    let (trunk, network) = network.cut(&shapes(&lent, 1))?;
    let read = |name: &str| {
        let mut inputs = trunk.graph().inputs.iter();
        inputs.any(|&id| trunk.graph().value(id).name == name)
    };
    let given: Vec<_> = lent
        .iter()
        .copied()
        .filter(|(name, _)| read(name))
        .collect();
    let computed = Model::from_graph(trunk.graph().clone(), &options)?
        .session()
        .run(&given)?;
    let inputs = lent.into_iter().chain(self::lent(&computed));
    let of_rest = |name: &str| {
        let mut inputs = network.graph().inputs.iter();
        inputs.any(|&id| network.graph().value(id).name == name)
    };
    let inputs: Vec<_> = inputs.filter(|(name, _)| of_rest(name)).collect();
    let bytes: usize = inputs.iter().map(|(_, t)| t.size_bytes()).sum();
    let shapes = shapes(&inputs, arguments.batch);
    let mut step = TrainingStep::new(&network, &made.heads, &shapes, &options)?;
    let targets = self::lent(&made.targets);
    step.run(&network, &inputs, &targets)?;
    let mut times = Vec::new();
    for _ in 0..TURNS {
        let began = Instant::now();
        step.run(&network, &inputs, &targets)?;
        times.push(began.elapsed());
    }
    let time = median(times);
    println!(
        "behind a trunk of {} nodes, {} kept bytes a sample: step {:.2} ms, 1/{:.1} of the whole",
        trunk.graph().nodes.len(),
        bytes / arguments.batch,
        1e3 * time.as_secs_f64(),
        whole.as_secs_f64() / time.as_secs_f64()
    );
    Ok(())
}

fn lent(tensors: &[(String, Tensor)]) -> Vec<(&str, &Tensor)> {
    tensors.iter().map(|(name, t)| (name.as_str(), t)).collect()
}

/// Shapes of inputs where there are so many samples.
fn shapes<'n>(inputs: &[(&'n str, &Tensor)], samples: usize) -> Vec<(&'n str, Vec<usize>)> {
    let shape = |(name, tensor): &(&'n str, &Tensor)| {
        let mut shape = tensor.shape().to_vec();
        shape[0] = samples;
        (*name, shape)
    };
    inputs.iter().map(shape).collect()
}

/// KiB of the process in memory, and from here on the most is counted anew; Linux alone tells.
fn resident_since_now() -> Option<u64> {
    std::fs::write("/proc/self/clear_refs", "5").ok()?;
    of_status("VmRSS:")
}

/// The most KiB of the process in memory.
fn most_resident() -> Option<u64> {
    of_status("VmHWM:")
}

fn of_status(key: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
