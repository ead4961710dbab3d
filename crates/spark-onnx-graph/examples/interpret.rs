//! What a network means: an ONNX file run by the reference interpreter, slowly and plainly.
//!
//! Run: `cargo run --release -p spark-onnx-graph --features safetensors --example interpret -- NET.onnx IN.safetensors OUT.safetensors`
//!
//! Inputs and outputs by their names in the network. Products between dequantisation and quantisation are of integers, as
//! `join_quantised` makes them and engines compute them; with `--spelled-out` they stay products of floats.

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use safetensors::{SafeTensors, serialize};
use spark_onnx_graph::graph::bind;
use spark_onnx_graph::{Tensor, file, join_quantised, reference};
use spark_program::{about, input, output, place};

/// Run a network by the reference interpreter
#[derive(Parser)]
#[command(
    name = "interpret",
    after_help = "Examples:\n  \
        interpret net.onnx in.safetensors out.safetensors\n  \
        interpret net.int8.onnx in.safetensors out.safetensors --spelled-out"
)]
struct Arguments {
    /// The network
    network: PathBuf,
    /// A tensor for each of its inputs, by name
    inputs: PathBuf,
    /// Where its outputs are written
    outputs: PathBuf,
    /// Leave products between dequantisation and quantisation in floats
    #[arg(long)]
    spelled_out: bool,
}

fn main() -> ExitCode {
    spark_program::run(|arguments: Arguments| interpret(&arguments))
}

fn interpret(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let Arguments {
        network,
        inputs,
        outputs,
        spelled_out,
    } = arguments;
    output::keep_apart([network.as_path(), inputs], [outputs.as_path()])?;
    place::file(outputs)?;
    let mut graph = file::load(network).map_err(about(network))?;
    if !spelled_out {
        join_quantised(&mut graph);
    }
    let bytes = input::read(inputs)?;
    let tensors = SafeTensors::deserialize(&bytes).map_err(about(inputs))?;
    let fed: Vec<(String, Tensor)> = tensors
        .tensors()
        .iter()
        .map(|(name, tensor)| Ok((name.clone(), Tensor::try_from(tensor)?)))
        .collect::<Result<_, Box<dyn Error>>>()?;
    let shapes: Vec<(&str, Vec<usize>)> = fed
        .iter()
        .map(|(name, tensor)| (name.as_str(), tensor.shape().to_vec()))
        .collect();
    let lent: Vec<(&str, &Tensor)> = fed
        .iter()
        .map(|(name, tensor)| (name.as_str(), tensor))
        .collect();
    let results = reference::run(&bind(&graph, &shapes)?, &lent)?;
    let results = results.iter().map(|(name, tensor)| (name, tensor));
    output::write(outputs, serialize(results, None)?)?;
    Ok(())
}
