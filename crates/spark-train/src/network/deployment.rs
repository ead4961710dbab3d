//! In which format a network will be run, so that training sees its rounding.
//!
//! ```text
//! layers that the engine runs in eight or four bits:
//!     adapted      W' = g (W + s B A), rounded as the engine rounds weights when it packs them; gradients go straight through
//!     others       the weight rounded once
//! all others       as they are
//! ```
//!
//! The merged network, run in that format with activations as they are, is then the one that was trained. Activations are not
//! rounded in training: where the deployed network rounds them, that error is not seen.
//!
//! Source of the gradient: Y. Bengio et al., "Estimating or Propagating Gradients Through Stochastic Neurons for Conditional
//! Computation", arXiv 1308.3432, section 2.3.

use std::collections::BTreeSet;

use spark_onnx::precision::Activations;
use spark_onnx::{Model, Precision, RunOptions};
use spark_onnx_graph::graph::{Binary, Graph, Op, StaticGraph, ValueId, bind};
use spark_onnx_graph::{DType, ModelError, Tensor};
use spark_quant::block::Granularity;
use spark_quant::scalar::MiniFormat;
use spark_quant::{ExecutionPolicy, Quantizer, Recipe};

use super::constant::{Operand, give};
use super::layers::{Form, Layer};
use crate::error::{Result, TrainError};
use crate::exact::in_f32;

/// Outputs of the network with rounded weights may differ by this from the engine's, for a largest value of 1: other kernels add up
/// in another order.
const MOST_OFF: f32 = 1e-3;

/// In which format the weights of a network will be run.
#[derive(Debug, Clone, Default)]
pub struct Deployment {
    /// Format, and nodes that the engine runs in it.
    rounded: Option<(Precision, BTreeSet<String>)>,
}

impl Deployment {
    /// As they are.
    pub fn exact() -> Self {
        Self::default()
    }

    /// In `precision`, fp8 or fp4, as far as the engine has its layers in it: planned for inputs of these shapes.
    ///
    /// # Errors
    ///
    /// [`TrainError::NoRounding`] for another precision, or if no layer is run in it; [`TrainError::FoldedBehind`] and
    /// [`TrainError::OtherRounding`] if the engine rounds other weights than training would; [`TrainError::Model`] if the network
    /// cannot be planned.
    pub fn new(
        graph: &Graph,
        precision: Precision,
        input_shapes: &[(&str, Vec<usize>)],
        options: &RunOptions,
    ) -> Result<Self> {
        if !matches!(precision, Precision::Fp8 | Precision::Fp4) {
            return Err(TrainError::NoRounding { precision });
        }
        let options = options.clone().with_precision(precision);
        let options = options.with_activations(Activations::Exact);
        let apart = layers_apart(graph);
        let bound = bind(&apart, input_shapes)?;
        let inputs = made_up(&bound)?;
        let inputs = lent(&inputs);
        let mut session = Model::from_graph(apart, &options)?.session();
        session.run(&inputs)?;
        let steps = session.steps().into_iter();
        let steps = steps.filter(|step| step.precision == precision);
        let nodes: BTreeSet<String> = steps.map(|step| step.name).collect();
        if nodes.is_empty() {
            return Err(TrainError::NoRounding { precision });
        }
        let deployment = Self {
            rounded: Some((precision, nodes)),
        };
        deployment.hold_against_engine(graph, precision, &inputs, &options)?;
        Ok(deployment)
    }

    /// Whether the network with the weights rounded here gives what the engine gives in that precision: that sees weights which no
    /// layer has, and folds what stands behind products.
    fn hold_against_engine(
        &self,
        graph: &Graph,
        precision: Precision,
        inputs: &[(&str, &Tensor)],
        options: &RunOptions,
    ) -> Result<()> {
        let mut rounded = graph.clone();
        for layer in super::layers::layers(graph) {
            if let Some(rounding) = self.rounding(graph, &layer)? {
                rounding.round_constant(&mut rounded, &layer)?;
            }
        }
        let want = Model::from_graph(graph.clone(), options)?
            .session()
            .run(inputs)?;
        let exact = Model::from_graph(rounded, &in_f32(options))?;
        let got = exact.session().run(inputs)?;
        for ((output, got), (_, want)) in got.iter().zip(&want) {
            let (got, want) = (got.to_f32(), want.to_f32());
            let scale = want.iter().fold(0.0, |m: f32, v| m.max(v.abs()));
            let pairs = got.iter().zip(&want);
            let off = pairs.fold(0.0, |m: f32, (g, w)| m.max((g - w).abs()));
            let off = if scale > 0.0 { off / scale } else { off };
            if off > MOST_OFF {
                return Err(TrainError::OtherRounding {
                    precision,
                    output: output.clone(),
                    off,
                });
            }
        }
        Ok(())
    }

    /// The format; nothing if weights stay as they are.
    pub fn precision(&self) -> Option<Precision> {
        self.rounded.as_ref().map(|(precision, _)| *precision)
    }

    /// What rounds the weight of a layer, if it is rounded.
    ///
    /// # Errors
    ///
    /// [`TrainError::FoldedBehind`] if the engine folds what stands behind the layer into its weight, and rounds that.
    pub(super) fn rounding(&self, graph: &Graph, layer: &Layer) -> Result<Option<Rounding>> {
        let Some((precision, nodes)) = &self.rounded else {
            return Ok(None);
        };
        let named = |&node: &usize| nodes.contains(&graph.nodes[node].name);
        if !layer.nodes.iter().any(named) {
            return Ok(None);
        }
        for &node in &layer.nodes {
            let results = &graph.nodes[node].outputs;
            let behind = graph.nodes.iter().find(|other| {
                let mut operands = other.inputs.iter().flatten();
                let is_constant = |id: &ValueId| graph.value(*id).constant.is_some();
                let is_folded = match &other.op {
                    Op::BatchNormalization(_) => true,
                    Op::Binary(Binary::Mul | Binary::Div) => operands.any(is_constant),
                    _ => false,
                };
                is_folded
                    && other
                        .inputs
                        .iter()
                        .any(|x| x.is_some() && results.contains(x))
            });
            if let Some(behind) = behind {
                return Err(TrainError::FoldedBehind {
                    layer: layer.name.clone(),
                    node: behind.name.clone(),
                });
            }
        }
        Ok(Some(Rounding::new(*precision)))
    }
}

/// The network with what its layers give as further outputs: each is then a step of its own, under its own name.
pub(super) fn layers_apart(graph: &Graph) -> Graph {
    let mut apart = graph.clone();
    for layer in super::layers::layers(graph) {
        let results = layer.nodes.iter().map(|&node| graph.nodes[node].outputs[0]);
        for result in results.flatten() {
            if !apart.outputs.contains(&result) {
                apart.outputs.push(result);
            }
        }
    }
    apart
}

/// Inputs of the bound shapes: floats within 1 of zero, zeros of other types.
fn made_up(bound: &StaticGraph) -> std::result::Result<Vec<(String, Tensor)>, ModelError> {
    let mut made = Vec::new();
    for &id in bound.inputs() {
        let value = bound.value(id);
        let (dtype, shape) = (value.ty.dtype, value.ty.shape.clone());
        let is_float = matches!(dtype, DType::F32 | DType::F64 | DType::F16 | DType::BF16);
        let n = shape.iter().product();
        let numbers = (0..n).map(|i: usize| (i.wrapping_mul(7919) % 2003) as f64 / 1001.0 - 1.0);
        let tensor = match is_float {
            true => Tensor::from_f64(dtype, shape, numbers.collect())?,
            false => Tensor::zeros(dtype, shape)?,
        };
        made.push((value.name.clone(), tensor));
    }
    Ok(made)
}

pub(super) fn lent(tensors: &[(String, Tensor)]) -> Vec<(&str, &Tensor)> {
    let tensors = tensors.iter();
    tensors
        .map(|(name, tensor)| (name.as_str(), tensor))
        .collect()
}

/// How weights are rounded.
#[derive(Debug, Clone)]
pub(super) struct Rounding {
    quantizer: Quantizer,
    /// Whether each tap's input channels are rounded alone.
    is_by_tap: bool,
}

impl Rounding {
    /// Gives a layer that is not trained its rounded weight.
    pub(super) fn round_constant(&self, graph: &mut Graph, layer: &Layer) -> Result<()> {
        let Some((shape, values)) = layer.weight(graph) else {
            return Ok(());
        };
        let rounded = self.round(&layer.form, &shape, &values)?;
        let (shape, rounded) = layer.turned(&shape, rounded);
        let tensor = Tensor::from_f32(shape, rounded)?;
        give(graph, layer, Operand::Weight, tensor);
        Ok(())
    }

    fn new(precision: Precision) -> Self {
        let recipe = match precision {
            Precision::Fp4 => Recipe::NVFP4_SWEEP,
            _ => Recipe::Fp8 {
                format: MiniFormat::E4m3,
                granularity: Granularity::Row,
            },
        };
        Self {
            quantizer: Quantizer::new(recipe),
            is_by_tap: precision == Precision::Fp4,
        }
    }

    /// `[out, in, k..]` rounded as the engine rounds it.
    pub(super) fn round(&self, form: &Form, shape: &[usize], values: &[f32]) -> Result<Vec<f32>> {
        let taps: usize = shape[2..].iter().product();
        let (out, depth) = (shape[0], shape[1]);
        let policy = ExecutionPolicy::detect();
        let is_one_tap = taps == 1 || matches!(form, Form::Linear { .. });
        if is_one_tap || !self.is_by_tap {
            let rows = [out, depth * taps];
            return Ok(self.quantizer.round_trip(policy, values, &rows, 1)?);
        }
        let by_tap = moved(values, [out, depth, taps]);
        let rounded = self
            .quantizer
            .round_trip(policy, &by_tap, &[out * taps, depth], 1)?;
        Ok(moved(&rounded, [out, taps, depth]))
    }
}

/// `[a, b, c]` as `[a, c, b]`.
fn moved(values: &[f32], [a, b, c]: [usize; 3]) -> Vec<f32> {
    let mut moved = Vec::with_capacity(values.len());
    for i in 0..a {
        let part = &values[i * b * c..(i + 1) * b * c];
        moved.extend(super::layers::transposed(part, c));
    }
    moved
}
