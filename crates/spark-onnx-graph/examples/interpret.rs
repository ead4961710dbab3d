//! What a network means: an ONNX file run by the reference interpreter, slowly and plainly.
//!
//! ```text
//! cargo run --release -p spark-onnx-graph --features safetensors --example interpret -- NET.onnx IN.safetensors OUT.safetensors
//! ```
//!
//! Inputs and outputs by their names in the network. Products between dequantisation and quantisation are of integers, as
//! `join_quantised` makes them and engines compute them; with `--spelled-out` at the end they stay products of floats.

use std::error::Error;
use std::path::Path;

use safetensors::{SafeTensors, serialize};
use spark_onnx_graph::graph::bind;
use spark_onnx_graph::{Tensor, file, join_quantised, reference};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (network, inputs, outputs, is_spelled_out) = match &arguments[..] {
        [network, inputs, outputs] => (network, inputs, outputs, false),
        [network, inputs, outputs, last] if last == "--spelled-out" => {
            (network, inputs, outputs, true)
        }
        _ => return Err("wanted: NET.onnx IN.safetensors OUT.safetensors [--spelled-out]".into()),
    };
    let mut graph = file::load(Path::new(network))?;
    if !is_spelled_out {
        join_quantised(&mut graph);
    }
    let bytes = std::fs::read(inputs)?;
    let tensors = SafeTensors::deserialize(&bytes)?.tensors();
    let fed: Vec<(&str, Tensor)> = tensors
        .iter()
        .map(|(name, tensor)| Ok((name.as_str(), Tensor::try_from(tensor)?)))
        .collect::<Result<_, Box<dyn Error>>>()?;
    let shapes: Vec<(&str, Vec<usize>)> = fed
        .iter()
        .map(|(name, tensor)| (*name, tensor.shape().to_vec()))
        .collect();
    let lent: Vec<(&str, &Tensor)> = fed.iter().map(|(name, tensor)| (*name, tensor)).collect();
    let results = reference::run(&bind(&graph, &shapes)?, &lent)?;
    let results = results.iter().map(|(name, tensor)| (name, tensor));
    std::fs::write(outputs, serialize(results, None)?)?;
    Ok(())
}
