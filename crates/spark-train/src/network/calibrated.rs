//! A network with weights that a calibration rounded.
//!
//! ```text
//! network, samples ──calibrate──> codes and scales [out][tap][in, padded] ──> numbers [out, in, k..] ──> the file's constants
//! ```
//!
//! A calibration rounds each weight for the inputs that it meets (`spark_onnx::calibration`). Training that begins with its weights begins
//! where calibrating ends: rounding leaves what is on its grid where it is, but for blocks whose scale is found otherwise of them, and
//! adapters move it from there.
//!
//! Deliberately absent: scales of inputs, which are a calibration's own; weights in int8, whose network has other nodes.

use std::collections::BTreeSet;

use spark_onnx::calibration::{Calibration, CalibrationOptions, calibrate};
use spark_onnx::precision::Activations;
use spark_onnx::{Precision, RunOptions};
use spark_onnx_graph::Tensor;
use spark_onnx_graph::graph::Graph;
use spark_quant::ExecutionPolicy;

use super::constant::{Operand, replace};
use super::deployment::layers_apart;
use super::inputs::lent;
use super::layers::{Form, layers};
use crate::error::{Result, TrainError};
use crate::trainer::{Samples, evenly_spread};

/// The network with weights rounded to `precision`, fp8 or fp4, for the inputs that they meet on `n` of these samples, evenly spread, with activations as
/// they are; each is rounded to the type of its constant again. Layers that the engine does not run in that precision, and those that a calibration
/// leaves alone (weights that several nodes read, nodes of one name), stay as they are.
/// `progress` gets layers done and layers in all.
///
/// # Errors
///
/// [`TrainError::NoRounding`] for another precision; [`TrainError::TooFewSamples`] without samples, [`TrainError::Sample`] for one that
/// cannot be read; [`TrainError::Model`] as of [`calibrate`]; [`TrainError::NotReplaced`] for weights of a type other than f32 that nothing casts, and
/// those used in two ways.
pub fn with_calibrated_weights(
    graph: Graph,
    samples: &dyn Samples,
    n: usize,
    precision: Precision,
    options: &RunOptions,
    progress: impl FnMut(usize, usize),
) -> Result<Graph> {
    if !matches!(precision, Precision::Fp8 | Precision::Fp4) {
        return Err(TrainError::NoRounding { precision });
    }
    let n = n.min(samples.len());
    if n == 0 {
        return Err(TrainError::TooFewSamples { got: 0, want: 1 });
    }
    let read = |index: usize| {
        let sample = samples.sample(index);
        let sample = sample.map_err(|source| TrainError::Sample { index, source })?;
        Ok(sample.inputs)
    };
    let inputs = evenly_spread(n, samples.len()).map(read);
    let inputs: Vec<Vec<(String, Tensor)>> = inputs.collect::<Result<_>>()?;
    let batches: Vec<Vec<(&str, &Tensor)>> = inputs.iter().map(|of| lent(of)).collect();
    let options = options.clone().with_precision(precision);
    let options = options.with_activations(Activations::Exact);
    let wanted = CalibrationOptions::new(precision);
    let calibration = calibrate(&layers_apart(&graph), &batches, &options, &wanted, progress)?;
    with_weights(graph, &calibration)
}

/// The network with the weights that were chosen for its nodes.
fn with_weights(mut graph: Graph, calibration: &Calibration) -> Result<Graph> {
    let policy = ExecutionPolicy::detect();
    let mut left: BTreeSet<&str> = calibration.formats().map(|(name, _)| name).collect();
    for layer in layers(&graph) {
        for &node in &layer.nodes {
            left.remove(graph.nodes[node].name.as_str());
        }
        let mut names = layer.nodes.iter().map(|&node| &graph.nodes[node].name);
        let packed = names.find_map(|name| calibration.weights(name));
        let (Some(packed), Some((shape, _))) = (packed, layer.weight(&graph)) else {
            continue;
        };
        let rows = packed.dequantize(policy)?;
        let (out, depth) = (shape[0], shape[1]);
        let taps = match layer.form {
            Form::Linear { .. } => 1,
            Form::Conv(_) => shape[2..].iter().product::<usize>(),
        };
        let padded = rows.len() / (out * taps).max(1);
        let mut values = Vec::with_capacity(out * depth * taps);
        for row in rows.chunks((taps * padded).max(1)) {
            for input in 0..depth {
                values.extend((0..taps).filter_map(|tap| row.get(tap * padded + input)));
            }
        }
        let (shape, values) = layer.turned(&shape, values);
        replace(&mut graph, &layer, Operand::Weight, (shape, &values))?;
    }
    match left.is_empty() {
        true => Ok(graph),
        false => Err(TrainError::NotReplaced {
            names: left.into_iter().map(str::to_owned).collect(),
        }),
    }
}
