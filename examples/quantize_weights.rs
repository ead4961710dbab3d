//! Which number format should each weight of a network get, and what does that cost?
//!
//! Run: `cargo run --release --example quantize_weights -- [FILE.safetensors | FILE.onnx] [OPTIONS]`
//!
//! Reads f32, f16 or bf16 weights (without a file: a built-in network with random weights), tries the
//! candidate formats on each, prints a table, and writes a checkpoint that vLLM, TensorRT-LLM or this
//! workspace can read. `--format auto` mixes formats under `--bits`. Nothing of it needs a GPU.

#![allow(clippy::print_stdout, reason = "an example's output is its product")]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use spark::model::graph::{Graph, Op};
use spark::model::{onnx, zoo};
use spark::quant::analysis::{
    Budget, Candidate, Kept, NamedWeight, PrecisionPlan, Sensitivity, plot,
};
use spark::quant::checkpoint::{Checkpoint, Entry, Layout};
use spark::quant::{Cpu, Quantizer, Recipe};

/// Quantize the weights of a network and say what it costs
#[derive(Parser)]
#[command(name = "quantize_weights")]
struct Arguments {
    /// Weights: a safetensors or ONNX file; a built-in network by default
    input: Option<PathBuf>,
    /// Format of all weights, or auto for the best mix under --bits
    #[arg(long, value_enum, default_value_t = Format::Nvfp4Sweep)]
    format: Format,
    /// Bits per weight that auto may spend
    #[arg(long, default_value_t = 5.0, value_name = "N")]
    bits: f64,
    /// Keep weights whose name contains this text in bf16; may be repeated
    #[arg(long, value_name = "TEXT")]
    exclude: Vec<String>,
    /// Write a checkpoint: a folder with model.safetensors and its configuration
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Whose names and conventions the checkpoint follows
    #[arg(long, value_enum, default_value_t = Convention::Modelopt)]
    layout: Convention,
    /// Write the table and the trade-off as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Plot signal to noise against size
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Format {
    Auto,
    Nvfp4,
    Nvfp4Sweep,
    Mxfp4,
    Mxfp8,
    Fp8,
    Int8,
}

#[derive(Clone, Copy, ValueEnum)]
enum Convention {
    Modelopt,
    CompressedTensors,
    Native,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    if arguments.bits.is_nan() || arguments.bits <= 0.0 {
        return Err("--bits must be above zero".into());
    }
    let layout = match arguments.layout {
        Convention::Modelopt => Layout::ModelOpt,
        Convention::CompressedTensors => Layout::CompressedTensors,
        Convention::Native => Layout::Native,
    };
    let (weights, others) = read(arguments.input.as_deref())?;
    let recipes: Vec<(Format, Recipe)> = [
        (Format::Nvfp4, Recipe::NVFP4),
        (Format::Nvfp4Sweep, Recipe::NVFP4_SWEEP),
        (Format::Mxfp4, Recipe::MXFP4),
        (Format::Mxfp8, Recipe::MXFP8),
        (Format::Fp8, Recipe::FP8),
        (Format::Int8, Recipe::INT8),
    ]
    .into_iter()
    .filter(|(format, _)| *format != Format::Int8 || layout != Layout::ModelOpt)
    .collect();
    let quantizers = recipes
        .iter()
        .map(|(_, recipe)| Candidate::Quantize(Quantizer::new(*recipe)));
    let candidates: Vec<Candidate> = quantizers.chain([Candidate::Keep(Kept::Bf16)]).collect();

    let bar = ProgressBar::new(weights.len() as u64)
        .with_style(ProgressStyle::with_template("{bar:40} {pos}/{len} {eta}")?);
    let mut sensitivity = Sensitivity::of_weights(Cpu::detect(), &weights, &candidates, |n| {
        bar.set_position(n as u64)
    })?;
    bar.finish_and_clear();
    for layer in sensitivity.layers.iter_mut().filter(|layer| {
        arguments
            .exclude
            .iter()
            .any(|text| layer.name.contains(text))
    }) {
        layer
            .choices
            .retain(|choice| choice.candidate == candidates.len() - 1);
    }
    let n_values: usize = weights.iter().map(|weight| weight.values.len()).sum();
    let plan = match recipes
        .iter()
        .position(|(format, _)| *format == arguments.format)
    {
        Some(candidate) => sensitivity.uniform(candidate)?,
        None if arguments.format == Format::Auto => sensitivity.plan(Budget::Bytes(
            (n_values as f64 * arguments.bits / 8.0) as usize,
        ))?,
        None => {
            return Err("the ModelOpt layout has no INT8; use --layout compressed-tensors".into());
        }
    };
    print_table(&plan, &weights, n_values);

    if let Some(folder) = &arguments.output {
        let mut checkpoint = plan.apply(Cpu::detect(), &weights, &candidates)?;
        checkpoint.entries.extend(others);
        std::fs::create_dir_all(folder)?;
        checkpoint.write_folder(folder, layout, None)?;
        println!(
            "wrote {} ({})",
            folder.join("model.safetensors").display(),
            layout.name()
        );
    }
    let pareto = sensitivity.pareto()?;
    if let Some(path) = &arguments.json {
        let report =
            serde_json::json!({ "plan": plan, "weights": sensitivity.layers, "pareto": pareto });
        std::fs::write(path, format!("{report:#}\n"))?;
    }
    if let Some(path) = &arguments.plot {
        // The mean relative noise over weights, in decibels.
        let db = |cost: f64| -10.0 * (cost / weights.len() as f64).log10();
        let dots = (0..candidates.len())
            .map(|candidate| {
                let plan = sensitivity.uniform(candidate)?;
                Ok(plot::Dot {
                    label: candidates[candidate].label(),
                    bytes: plan.bytes as f64,
                    sqnr_db: db(plan.cost),
                })
            })
            .collect::<Result<Vec<_>, spark::quant::QuantError>>()?;
        let line: Vec<(f64, f64)> = pareto
            .iter()
            .map(|point| (point.bytes as f64, db(point.cost)))
            .collect();
        let title = format!(
            "{} weights, {:.1} M values: one format (dots), best mix (line)",
            weights.len(),
            n_values as f64 / 1e6
        );
        std::fs::write(path, plot::sqnr_against_bytes(&title, &dots, &line))?;
    }
    Ok(())
}

type Others = Vec<(String, Entry)>;

/// Weights of two axes and more, and everything else.
fn read(path: Option<&Path>) -> Result<(Vec<NamedWeight>, Others), Box<dyn Error>> {
    let Some(path) = path else {
        println!("no file given: the built-in driving policy, random weights");
        return Ok((of_graph(&zoo::driving_policy(0)), Vec::new()));
    };
    if path
        .extension()
        .is_some_and(|extension| extension == "onnx")
    {
        return Ok((of_graph(&onnx::load(path)?), Vec::new()));
    }
    let (mut weights, mut others) = (Vec::new(), Vec::new());
    for (name, entry) in Checkpoint::read(path)?.0.entries {
        match &entry {
            Entry::Plain(plain) if plain.shape.len() > 1 && name.ends_with(".weight") => {
                match plain.to_f32() {
                    Some(values) => weights.push(NamedWeight {
                        name,
                        shape: plain.shape.clone(),
                        values,
                    }),
                    None => others.push((name, entry)),
                }
            }
            _ => others.push((name, entry)),
        }
    }
    Ok((weights, others))
}

/// Constant weights of convolutions and matrix products; the latter as `[outputs, inputs]`.
fn of_graph(graph: &Graph) -> Vec<NamedWeight> {
    let mut weights: Vec<NamedWeight> = Vec::new();
    for node in &graph.nodes {
        let Some(value) = node
            .inputs
            .get(1)
            .copied()
            .flatten()
            .map(|id| graph.value(id))
        else {
            continue;
        };
        let (Some(tensor), false) = (
            &value.constant,
            weights
                .iter()
                .any(|weight| weight.name.starts_with(&value.name)),
        ) else {
            continue;
        };
        let (shape, values) = (tensor.shape().to_vec(), tensor.to_f32());
        let (shape, values) = match (&node.op, shape.as_slice()) {
            (Op::Conv(_), _) => (shape, values),
            (Op::Gemm(gemm), &[_, _]) if gemm.trans_b => (shape, values),
            (Op::Gemm(_) | Op::MatMul, &[depth, rows]) => {
                let transposed = (0..rows * depth)
                    .map(|i| values[i % depth * rows + i / depth])
                    .collect();
                (vec![rows, depth], transposed)
            }
            _ => continue,
        };
        let suffix = if value.name.ends_with(".weight") {
            ""
        } else {
            ".weight"
        };
        weights.push(NamedWeight {
            name: format!("{}{suffix}", value.name),
            shape,
            values,
        });
    }
    weights
}

fn print_table(plan: &PrecisionPlan, weights: &[NamedWeight], n_values: usize) {
    let width = plan
        .picks
        .iter()
        .map(|pick| pick.name.len())
        .max()
        .unwrap_or(0)
        .min(60);
    println!(
        "{:width$}  {:>18}  {:>12}  {:>10}  {:>8}",
        "weight", "shape", "format", "bytes", "SQNR dB"
    );
    for (pick, weight) in plan.picks.iter().zip(weights) {
        let shape = weight
            .shape
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("x");
        println!(
            "{:width$.60}  {shape:>18}  {:>12}  {:>10}  {:>8.2}",
            pick.name, pick.label, pick.bytes, pick.sqnr_db
        );
    }
    let db = -10.0 * (plan.cost / plan.picks.len().max(1) as f64).log10();
    let bits = 8.0 * plan.bytes as f64 / n_values.max(1) as f64;
    println!(
        "{} weights, {n_values} values, {} bytes, {bits:.3} bits per value, {db:.2} dB",
        plan.picks.len(),
        plan.bytes
    );
}
