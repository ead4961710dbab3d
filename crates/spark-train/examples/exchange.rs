//! What does training give, number by number, for another program to compare?
//!
//! Run: `cargo run --release -p spark-train --example exchange -- MODEL.onnx FOLDER [--batch 2] [--rank 4] [--steps 20] [--seed 0]`
//!
//! Adapts every layer that is not in groups and holds the rank, with made-up factors, and teaches the network its own outputs, moved
//! by 0.1. Writes what it was given (`given.safetensors`: inputs, targets), the adapter as it begins (`adapter`), the gradients of
//! the first step by layer and variable (`gradients.safetensors`), the losses of all steps (`losses.json`) and the adapter as it
//! ends (`trained`). `benches/rivals/peft/networks_exact.py` does the same with PEFT and compares.

#![allow(clippy::print_stdout, reason = "an example's output is its product")]

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use candle_core::Tensor as Candle;
use clap::Parser;
use safetensors::tensor::{Dtype, TensorView};
use spark_dora::optim::{AdamW, LoraPlus};
use spark_onnx::{Precision, RunOptions};
use spark_onnx_graph::{Tensor, file};
use spark_program::{about, count, output, postponed};
use spark_train::{AdaptedNetwork, TrainingStep};

mod material;

/// Trains an adapter on made-up numbers and writes all of them
#[derive(Parser)]
#[command(name = "exchange", arg_required_else_help = true)]
struct Arguments {
    /// ONNX file
    #[arg(value_name = "FILE.onnx")]
    model: PathBuf,
    /// Folder to write to
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// Samples of a step
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = count(1, 4096))]
    batch: usize,
    /// Rank of the adapters
    #[arg(long, value_name = "R", default_value_t = 4, value_parser = count(1, 4096))]
    rank: usize,
    /// Steps of AdamW, at a rate of 0.001 without decay
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = count(1, 10_000))]
    steps: usize,
    /// Of the made-up numbers
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..1 << 32))]
    seed: u64,
}

fn main() -> ExitCode {
    spark_program::run(|arguments: Arguments| -> Result<ExitCode, Box<dyn Error>> {
        postponed(|| exchange(&arguments))?;
        Ok(ExitCode::SUCCESS)
    })
}

fn exchange(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let graph = file::load(&arguments.model).map_err(about(&arguments.model))?;
    let options = RunOptions::new().with_precision(Precision::Fp32);
    let made = material::made_up(&graph, (arguments.batch, arguments.seed), &options)?;
    let config = material::adapter(&graph, arguments.rank, &[])?;
    let network = AdaptedNetwork::new(graph, config)?;
    // Factors that begin at zero would have no gradients on the other side.
    for (at, b) in network.adapter().variables().b.iter().enumerate() {
        let numbers = material::numbers(b.elem_count(), arguments.seed + 100 + at as u64);
        let numbers: Vec<f32> = numbers.iter().map(|v| v * 0.1).collect();
        b.set(&Candle::from_vec(numbers, b.dims(), b.device())?)?;
    }
    output::folder(&arguments.folder)?;
    network.adapter().save(&arguments.folder.join("adapter"))?;
    let inputs = made
        .inputs
        .iter()
        .map(|(name, t)| (format!("in/{name}"), t));
    let targets = made
        .targets
        .iter()
        .map(|(name, t)| (format!("target/{name}"), t));
    let given: Vec<_> = inputs.chain(targets).collect();
    let given: Vec<_> = given
        .into_iter()
        .map(|(name, t)| (name, t.shape().to_vec(), t.to_f32()))
        .collect();
    write(&arguments.folder.join("given.safetensors"), &given)?;

    let (inputs, targets) = (lent(&made.inputs), lent(&made.targets));
    let shapes = inputs.iter().map(|(name, t)| (*name, t.shape().to_vec()));
    let shapes: Vec<_> = shapes.collect();
    let mut step = TrainingStep::new(&network, &made.heads, &shapes, &options)?;
    let variables = network.adapter().variables();
    let rates = LoraPlus {
        rate: 1e-3,
        ..LoraPlus::default()
    };
    let mut optimiser = AdamW::new(variables.optimiser_groups(rates))?;
    let mut losses = Vec::new();
    for at in 0..arguments.steps {
        let result = step.run(&network, &inputs, &targets)?;
        losses.push(result.loss);
        if at == 0 {
            let mut gradients = Vec::new();
            for layer in network.adapter().adapted() {
                let factors = network.adapter().factors(layer);
                for (name, factor) in factors.into_iter().flat_map(|factors| factors.named()) {
                    let var = variables.all().find(|var| var.id() == factor.id());
                    let gradient = var.and_then(|var| result.gradients.get(var));
                    let gradient =
                        gradient.ok_or_else(|| format!("{layer}.{name} has no gradient"))?;
                    let numbers = gradient.flatten_all()?.to_vec1()?;
                    gradients.push((format!("{layer}.{name}"), gradient.dims().to_vec(), numbers));
                }
            }
            write(&arguments.folder.join("gradients.safetensors"), &gradients)?;
        }
        optimiser.step(&result.gradients, 1.0)?;
    }
    network.adapter().save(&arguments.folder.join("trained"))?;
    output::write(
        &arguments.folder.join("losses.json"),
        serde_json::to_string(&losses)? + "\n",
    )?;
    println!(
        "{} layers, {} steps: loss {:.6e} to {:.6e}",
        network.adapter().adapted().count(),
        losses.len(),
        losses[0],
        losses[losses.len() - 1]
    );
    Ok(())
}

fn lent(tensors: &[(String, Tensor)]) -> Vec<(&str, &Tensor)> {
    let tensors = tensors.iter();
    tensors.map(|(name, t)| (name.as_str(), t)).collect()
}

fn write(
    path: &std::path::Path,
    tensors: &[(String, Vec<usize>, Vec<f32>)],
) -> Result<(), Box<dyn Error>> {
    let tensors = tensors.iter();
    let bytes: Vec<_> = tensors
        .map(|(name, shape, numbers)| {
            let bytes: Vec<u8> = numbers.iter().flat_map(|v| v.to_le_bytes()).collect();
            (name, shape, bytes)
        })
        .collect();
    let mut views = Vec::new();
    for (name, shape, bytes) in &bytes {
        views.push((
            name.as_str(),
            TensorView::new(Dtype::F32, shape.to_vec(), bytes)?,
        ));
    }
    output::write(path, safetensors::serialize(views, None)?)?;
    Ok(())
}
