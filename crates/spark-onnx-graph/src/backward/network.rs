//! A whole network: its own nodes, and behind them those of its gradients.

use super::operator::{At, Backward};
use crate::ModelError;
use crate::building::{Builder, Built};
use crate::graph::op::each_operator;
use crate::graph::{Graph, Node, OpError, StaticGraph, ValueId};
use crate::reference::gradient::{GradientError, GradientOptions, Path, wanted_values};

/// A network and its gradients in one graph.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct WithGradients {
    /// The graph. Its inputs are those of the network, then wanted constants under their own names, then gradients by
    /// outputs; its outputs are those of the network, then gradients by wanted values.
    pub graph: Graph,
    /// By output that has one, in the order asked for: the input that takes its gradient.
    pub output_gradients: Vec<String>,
    /// By wanted value, in the order asked for: the output that gives its gradient.
    pub gradients: Vec<String>,
    /// How many nodes are the network's own; they come first.
    pub(super) n_forward: usize,
    /// Bytes of each of the network's values.
    pub(super) value_bytes: Vec<usize>,
}

/// The graph that computes a network and, of a loss with given gradients by `outputs` of it, the gradients by `wanted`
/// values: inputs, constants that the bound network computes with, or what nodes make.
///
/// Wanted constants become inputs, so that what trains them can change them. What hangs on a value in `detached` is taken for
/// fixed: no gradient goes through it.
///
/// # Shapes
///
/// Those of the bound network; gradients have the shape and the element type of their values. In a network of f16 they are
/// f16, which is too coarse for most training: load it as f32.
///
/// # Errors
///
/// As of [`gradients`](crate::reference::gradient::gradients), but for those of running; also
/// [`GradientError::Model`] for an operator on the way whose gradient is not written in operators, or takes tables larger
/// than the network's budget of memory; it names the node.
///
/// # Examples
///
/// ```
/// use spark_onnx_graph::backward::with_gradients;
/// use spark_onnx_graph::graph::{Dim, Graph, MatMul, Op, Unary, bind};
/// use spark_onnx_graph::reference::{gradient::GradientOptions, run};
/// use spark_onnx_graph::{DType, Tensor};
///
/// // y = relu(x W)
/// let mut graph = Graph::default();
/// let x = graph.add_input("x", DType::F32, vec![Dim::Known(1), Dim::Known(2)]);
/// let w = graph.add_constant("w", Tensor::from_f32([2, 2], vec![1.0, -1.0, 2.0, -2.0])?);
/// let product = graph.add_node("product", Op::MatMul(MatMul), &[Some(x), Some(w)]);
/// let y = graph.add_node("y", Op::Unary(Unary::Relu), &[Some(product)]);
/// graph.outputs.push(y);
///
/// let trained = with_gradients(&bind(&graph, &[])?, &["w"], &["y"], &[], GradientOptions::default())?;
/// let x = Tensor::from_f32([1, 2], vec![1.0, 10.0])?;
/// let w = Tensor::from_f32([2, 2], vec![1.0, -1.0, 2.0, -2.0])?;
/// let dy = Tensor::from_f32([1, 2], vec![1.0, 1.0])?;
/// let inputs = [("x", &x), ("w", &w), (trained.output_gradients[0].as_str(), &dy)];
/// let results = run(&bind(&trained.graph, &[])?, &inputs)?;
/// assert_eq!(results[0].1.to_f64(), [21.0, 0.0]);
/// assert_eq!(results[1].1.to_f64(), [1.0, 0.0, 10.0, 0.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn with_gradients(
    network: &StaticGraph,
    wanted: &[&str],
    outputs: &[&str],
    detached: &[&str],
    options: GradientOptions,
) -> Result<WithGradients, GradientError> {
    let wanted = wanted_values(network, wanted)?;
    let outputs = output_values(network, outputs)?;
    let detached = wanted_values(network, detached)?;
    let path = Path::new(network, &wanted, &outputs, &detached, options)?;

    let mut graph = network.opened();
    for &id in &wanted {
        if graph.values[id.0].constant.take().is_some() {
            graph.inputs.push(id);
        }
    }
    let nodes = graph.nodes.clone();
    let value_bytes = network.values().iter().map(|value| value.ty.size_bytes());
    let value_bytes = value_bytes.collect();
    let types = network.values().iter().map(|value| value.ty.clone());
    let mut backward = Backwards {
        builder: Builder::new(graph, types.collect(), network.budget_bytes()),
        so_far: vec![Vec::new(); network.values().len()],
        found: vec![None; network.values().len()],
    };
    let mut output_gradients = Vec::with_capacity(outputs.len());
    for &id in &outputs {
        let value = network.value(id);
        let wish = format!("grad_output.{}", value.name);
        let given = backward.builder.input(&wish, value.ty.clone());
        output_gradients.push(backward.builder.graph_mut().value(given).name.clone());
        backward.so_far[id.0].push(given);
    }
    for (index, node) in nodes.iter().enumerate().rev() {
        if path.holds(index) {
            backward.node(node, &path.operands(network, node))?;
        }
    }
    let mut gradients = Vec::with_capacity(wanted.len());
    for id in wanted {
        gradients.push(backward.result(network, id)?);
    }
    Ok(WithGradients {
        graph: backward.builder.into_graph(),
        output_gradients,
        gradients,
        n_forward: nodes.len(),
        value_bytes,
    })
}

fn of_node(node: &Node, OpError { reason }: OpError) -> GradientError {
    let op = node.op.name();
    GradientError::Model(ModelError::Operator {
        node: node.name.clone(),
        op: op.to_owned(),
        reason: format!("no gradient: {reason}"),
    })
}

/// The outputs of these names, each once.
fn output_values(network: &StaticGraph, names: &[&str]) -> Result<Vec<ValueId>, GradientError> {
    let mut found = Vec::with_capacity(names.len());
    for &name in names {
        let mut all = network.outputs().iter().copied();
        let id = all.find(|&id| network.value(id).name == name);
        let id = id.filter(|id| !found.contains(id));
        found.push(id.ok_or_else(|| GradientError::OutputUnknown {
            name: name.to_owned(),
        })?);
    }
    Ok(found)
}

/// The way back, node by node.
struct Backwards {
    builder: Builder,
    /// Gradients of a value that nodes behind it have, to be added up.
    so_far: Vec<Vec<ValueId>>,
    /// Their sum, of values whose makers are differentiated.
    found: Vec<Option<ValueId>>,
}

impl Backwards {
    /// From the gradients of a node's results to those of `by`, of its operands.
    fn node(&mut self, node: &Node, by: &[(usize, ValueId)]) -> Result<(), GradientError> {
        self.builder.name_after(format!("{}.grad", node.name));
        let refused = |error| of_node(node, error);
        let mut gradients = Vec::with_capacity(node.outputs.len());
        for id in &node.outputs {
            let sum = id.map(|id| self.sum(id)).transpose().map_err(refused)?;
            gradients.push(sum.flatten());
        }
        if gradients.iter().all(Option::is_none) {
            return Ok(());
        }
        for &(operand, id) in by {
            let mut at = At {
                builder: &mut self.builder,
                node,
                gradients: &gradients,
            };
            let gradient = gradient(&mut at, operand).map_err(refused)?;
            self.so_far[id.0].push(gradient);
        }
        Ok(())
    }

    /// The gradient of a value whose readers are all behind.
    fn sum(&mut self, id: ValueId) -> Result<Option<ValueId>, OpError> {
        if self.found[id.0].is_none() && !self.so_far[id.0].is_empty() {
            let terms = std::mem::take(&mut self.so_far[id.0]);
            self.found[id.0] = Some(self.builder.sum(&terms)?);
        }
        Ok(self.found[id.0])
    }

    /// The gradient of a wanted value as an output, or zeros.
    fn result(&mut self, network: &StaticGraph, id: ValueId) -> Result<String, GradientError> {
        let value = network.value(id);
        self.builder.name_after(format!("{}.grad", value.name));
        let refused = |OpError { reason }| ModelError::Graph { reason };
        let sum = self.sum(id).map_err(refused)?;
        let sum = match sum {
            Some(sum) => sum,
            None => {
                let zeros = self.builder.zeros(value.ty.dtype, &value.ty.shape);
                zeros.map_err(refused)?
            }
        };
        let output = self.builder.output(&format!("grad.{}", value.name), sum);
        Ok(output.map_err(refused)?)
    }
}

fn gradient(at: &mut At<'_>, operand: usize) -> Built {
    let node = at.node;
    each_operator!(match &node.op, it => Backward::backward(it, at, operand))
}
