//! In which format a network will be run, so that training sees its rounding.
//!
//! ```text
//! layers that the engine runs in eight or four bits:
//!     adapted      W' = g (W + s B A), rounded as the engine rounds weights when it packs them; gradients go straight through
//!     others       the weight rounded once
//!     all, if activations are rounded too:
//!                  x, rounded as the engine rounds what enters such a layer (`activations`); gradients go straight through
//! all others       as they are
//! ```
//!
//! The merged network, run in that format with activations as they are, or as the engine rounds them, is then the one that was trained. Layer for
//! layer that holds to the rounding of sums, with both. Of the whole network it does with activations as they are: where they are rounded, a sum that
//! another order of additions moves over the border between two numbers of the format moves by a step of it, and what is behind by more, as it
//! does between any two machines that run such a network.
//!
//! Source of the gradient: Y. Bengio et al., "Estimating or Propagating Gradients Through Stochastic Neurons for Conditional
//! Computation", arXiv 1308.3432, section 2.3.

use std::collections::{BTreeMap, BTreeSet};

use spark_onnx::precision::Activations;
use spark_onnx::{Model, Precision, RunOptions};
use spark_onnx_graph::Tensor;
use spark_onnx_graph::graph::{
    ActivationFormat, Binary, Graph, Op, RoundedActivations, Value, ValueId, bind,
};
use spark_quant::block::Granularity;
use spark_quant::scalar::MiniFormat;
use spark_quant::{ExecutionPolicy, Quantizer, Recipe};

use super::constant::{Operand, give};
use super::in_turn::{self, OneRun};
use super::inputs::{Named, lent, made_up};
use super::layers::{Form, Layer};
use crate::error::{Result, TrainError};
use crate::exact::in_f32;

/// Outputs of the network with rounded weights may differ by this from the engine's, for a largest value of 1: other kernels add up
/// in another order.
const MOST_OFF: f32 = 1e-3;

/// In which format the weights of a network will be run, and whether what they meet is rounded to it too.
#[derive(Debug, Clone, Default)]
pub struct Deployment {
    rounded: Option<Rounded>,
}

#[derive(Debug, Clone)]
struct Rounded {
    precision: Precision,
    /// Nodes that the engine runs in it, with what they read in one run.
    nodes: BTreeMap<String, OneRun>,
    activations: Activations,
    /// Those of one run, which it was planned for.
    inputs: Named,
    options: RunOptions,
}

impl Deployment {
    /// As they are.
    pub fn exact() -> Self {
        Self::default()
    }

    /// In `precision`, fp8 or fp4, as far as the engine has its layers in it: planned for inputs of these shapes, with activations as they
    /// are, whatever the options say: [`Deployment::with_activations`] says otherwise.
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
        let mut made = made_up(&bound, true)?;
        let mut session = Model::from_graph(apart, &options)?.session();
        if session.run(&lent(&made)).is_err() {
            made = made_up(&bound, false)?;
            session.run(&lent(&made))?;
        }
        let inputs = lent(&made);
        let steps = session.steps().into_iter();
        let steps = steps.filter(|step| step.precision == precision);
        let steps: BTreeSet<String> = steps.map(|step| step.name).collect();
        if steps.is_empty() {
            return Err(TrainError::NoRounding { precision });
        }
        let mut nodes = BTreeMap::new();
        for node in bound.nodes() {
            let x = node.inputs.first().copied().flatten();
            let (Some(x), true) = (x, steps.contains(&node.name)) else {
                continue;
            };
            let shape = &bound.value(x).ty.shape;
            let run = OneRun {
                first_extent: shape.first().copied().unwrap_or(1),
                len: shape.iter().product(),
            };
            nodes.insert(node.name.clone(), run);
        }
        let deployment = Self {
            rounded: Some(Rounded {
                precision,
                nodes,
                activations: Activations::Exact,
                inputs: made.clone(),
                options: options.clone(),
            }),
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

    /// The same network with activations that enter layers of that format as they are, or rounded as the engine rounds them in a run of inputs of
    /// the shapes that it was planned for: where a batch has more samples than those, each such run has a scale of its own. That takes what a layer
    /// reads of the runs one after the other, which adapting a network finds out by running it. Where it is not so, as behind a Transpose that
    /// puts another axis before the batch's, the network of training takes the shapes that it was planned for and no others: a batch is
    /// [`TrainError::Model`], and [`AdaptedNetwork::layers_without_batches`](super::AdaptedNetwork::layers_without_batches) names the layers.
    /// A network whose weights stay as they are has its activations so too.
    #[must_use]
    pub fn with_activations(mut self, activations: Activations) -> Self {
        if let Some(rounded) = &mut self.rounded {
            rounded.activations = activations;
        }
        self
    }

    /// The format; nothing if weights stay as they are.
    pub fn precision(&self) -> Option<Precision> {
        self.rounded.as_ref().map(|rounded| rounded.precision)
    }

    /// How activations enter layers of that format.
    pub fn activations(&self) -> Activations {
        let rounded = self.rounded.as_ref();
        rounded.map_or(Activations::Exact, |rounded| rounded.activations)
    }

    /// What nodes of that format read rounded, layers or not. The graph gets the values, and whoever writes its nodes anew the operators.
    pub(super) fn operands(&self, graph: &mut Graph) -> Operands {
        let mut operands = Operands::new();
        let Some(rounded) = &self.rounded else {
            return operands;
        };
        if rounded.activations == Activations::Exact {
            return operands;
        }
        let format = match rounded.precision {
            Precision::Fp4 => ActivationFormat::Nvfp4,
            _ => ActivationFormat::E4m3,
        };
        let read = graph.nodes.iter().filter_map(|node| {
            let run = rounded.nodes.get(&node.name)?;
            Some((node.inputs.first().copied().flatten()?, *run))
        });
        let across = in_turn::others(graph, read.collect(), &rounded.inputs, &rounded.options);
        let mut names: BTreeSet<String> = graph.values.iter().map(|v| v.name.clone()).collect();
        let mut made: BTreeMap<(ValueId, i64, usize), ValueId> = BTreeMap::new();
        for position in 0..graph.nodes.len() {
            let node = &graph.nodes[position];
            let x = node.inputs.first().copied().flatten();
            let (Some(&run), Some(x)) = (rounded.nodes.get(&node.name), x) else {
                continue;
            };
            let axis = match &node.op {
                Op::Conv(_) => 1,
                Op::Gemm(gemm) if gemm.trans_a => 0,
                _ => -1,
            };
            let together = run.first_extent.max(1);
            let to = *made.entry((x, axis, together)).or_insert_with(|| {
                let mut name = format!("{}.rounded", graph.value(x).name);
                while !names.insert(name.clone()) {
                    name.push('_');
                }
                graph.add_value(Value {
                    name,
                    dtype: None,
                    shape: None,
                    constant: None,
                })
            });
            let op = RoundedActivations {
                format,
                axis,
                together,
                scale: None,
                len: across.contains(&x).then_some(run.len),
            };
            operands.insert(position, RoundedOperand { op, x, to });
        }
        operands
    }

    /// What rounds the weight of a layer, if it is rounded.
    ///
    /// # Errors
    ///
    /// [`TrainError::FoldedBehind`] if the engine folds what stands behind the layer into its weight, and rounds that.
    pub(super) fn rounding(&self, graph: &Graph, layer: &Layer) -> Result<Option<Rounding>> {
        let Some(Rounded {
            precision, nodes, ..
        }) = &self.rounded
        else {
            return Ok(None);
        };
        let named = |&node: &usize| nodes.contains_key(&graph.nodes[node].name);
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

/// What nodes read rounded, by their positions.
pub(super) type Operands = BTreeMap<usize, RoundedOperand>;

/// An operand, and the value that is it rounded; several nodes may have the same.
#[derive(Debug, Clone, Copy)]
pub(super) struct RoundedOperand {
    pub(super) op: RoundedActivations,
    pub(super) x: ValueId,
    pub(super) to: ValueId,
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
