//! A whole network: forth once, then back over what lies between wanted values and outputs.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use super::super::run::{Interpreter, Values, asker, last_reads};
use super::differentiate::{gradient, types_of, working_bytes};
use super::error::GradientError;
use super::kinds::GradientOptions;
use super::path::Path;
use crate::ModelError;
use crate::budget::{Asker, ModelBudget};
use crate::graph::{MAX_ITERATIONS, Node, OpError, StaticGraph, ValueId};
use crate::tensor::{DType, Tensor};

/// The gradients by `wanted` values of a network, in that order, with their names: of a loss `L` that has the gradients
/// `output_gradients` by the network's outputs, `dL / d value`.
///
/// A wanted value is an input, a constant that the bound network computes with, or what a node makes. Outputs without a
/// gradient have one of zeros. Nodes that are not between a wanted value and an output with a gradient are run, not
/// differentiated. A wanted value on which no output hangs, or only by ways that are zero by definition
/// ([`kind_of`](super::kind_of)), has a gradient of zeros.
///
/// # Shapes
///
/// Each gradient has the shape of its value, and elements of f64.
///
/// # Precision
///
/// The network is run as by [`run_wide`](crate::reference::run_wide): floats are carried as f64, so that the gradients are
/// those of the network without the error of its own arithmetic.
///
/// # Errors
///
/// Before anything is run: [`GradientError::NoGradient`] for a node that has none on the way; one of
/// [`GradientError::ValueUnknown`], [`GradientError::NotFloat`], [`GradientError::Folded`] and [`GradientError::Unread`]
/// for a wanted value, of [`GradientError::OutputUnknown`] and [`GradientError::OutputGradient`] for the gradient of an
/// output. [`GradientError::Model`] with the errors of [`run`](crate::reference::run), and where a node's gradients and
/// the values held beside them take more than the graph's budget.
///
/// # Examples
///
/// ```
/// use spark_onnx_graph::graph::{Dim, Graph, MatMul, Op, Unary, bind};
/// use spark_onnx_graph::reference::gradient::{GradientOptions, gradients};
/// use spark_onnx_graph::{DType, Tensor};
///
/// // y = relu(x W)
/// let mut graph = Graph::default();
/// let x = graph.add_input("x", DType::F32, vec![Dim::Known(1), Dim::Known(2)]);
/// let w = graph.add_constant("w", Tensor::from_f32([2, 2], vec![1.0, -1.0, 2.0, -2.0])?);
/// let product = graph.add_node("product", Op::MatMul(MatMul), &[Some(x), Some(w)]);
/// let y = graph.add_node("y", Op::Unary(Unary::Relu), &[Some(product)]);
/// graph.outputs.push(y);
/// let graph = bind(&graph, &[])?;
///
/// let x = Tensor::from_f32([1, 2], vec![1.0, 10.0])?; // y is [21, 0]
/// let dy = Tensor::from_f32([1, 2], vec![1.0, 1.0])?;
/// let found = gradients(&graph, &[("x", &x)], &[("y", &dy)], &["w", "x"], GradientOptions::default())?;
/// assert_eq!(found[0].1.to_f64(), [1.0, 0.0, 10.0, 0.0]); // of w
/// assert_eq!(found[1].1.to_f64(), [1.0, 2.0]); // of x
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn gradients(
    graph: &StaticGraph,
    inputs: &[(&str, &Tensor)],
    output_gradients: &[(&str, &Tensor)],
    wanted: &[&str],
    options: GradientOptions,
) -> Result<Vec<(String, Tensor)>, GradientError> {
    let wanted = wanted_values(graph, wanted)?;
    let outputs = output_values(graph, output_gradients)?;
    let output_ids: Vec<ValueId> = outputs.iter().map(|(id, _)| *id).collect();
    let path = Path::new(graph, &wanted, &output_ids, &[], options)?;

    let mut budget = ModelBudget::new(graph.budget_bytes());
    let mut values = Values::new(graph.values().len(), MAX_ITERATIONS, &mut budget);
    let interpreter = Interpreter { graph, wide: true };
    interpreter.set_inputs(inputs, &mut values)?;
    let n_run = (0..graph.nodes().len()).rfind(|&index| path.holds(index));
    let n_run = n_run.map_or(0, |last| last + 1);
    let kept = kept_until(graph, &path);
    for index in 0..n_run {
        interpreter.step(index, &kept, &mut values)?;
    }

    let mut backward = Backward {
        interpreter,
        values,
        so_far: vec![None; graph.values().len()],
        is_wanted: vec![false; graph.values().len()],
    };
    wanted.iter().for_each(|id| backward.is_wanted[id.0] = true);
    for (id, gradient) in outputs {
        let name = &graph.value(id).name;
        backward.add(id, gradient.to_f64(), of_value(name, "output"))?;
    }
    for index in (0..n_run).rev().filter(|&index| path.holds(index)) {
        let node = &graph.nodes()[index];
        backward.node(node, &path.operands(graph, node))?;
    }
    wanted.into_iter().map(|id| backward.found(id)).collect()
}

fn of_value<'n>(name: &'n str, op: &'n str) -> Asker<'n> {
    Asker {
        node: name,
        op,
        what: "its gradient",
    }
}

/// The node that reads a value last; what is differentiated needs its operands until the end.
fn kept_until(graph: &StaticGraph, path: &Path) -> Vec<usize> {
    let mut kept = last_reads(graph);
    for (index, node) in graph.nodes().iter().enumerate() {
        if path.holds(index) {
            let operands = node.inputs.iter().flatten();
            operands.for_each(|id| kept[id.0] = usize::MAX);
        }
    }
    kept
}

/// The values of these names, which have to be floats that nodes of the bound network make or read.
pub(crate) fn wanted_values(
    graph: &StaticGraph,
    wanted: &[&str],
) -> Result<Vec<ValueId>, GradientError> {
    let by_name: HashMap<&str, ValueId> = graph
        .values()
        .iter()
        .enumerate()
        .map(|(id, value)| (value.name.as_str(), ValueId(id)))
        .collect();
    let mut is_used = vec![false; graph.values().len()];
    for node in graph.nodes() {
        let values = node.inputs.iter().chain(&node.outputs).flatten();
        values.for_each(|id| is_used[id.0] = true);
    }
    let ends = graph.inputs().iter().chain(graph.outputs());
    ends.for_each(|id| is_used[id.0] = true);
    let id_of = |&name: &&str| {
        let name = || name.to_owned();
        let Some(&id) = by_name.get(name().as_str()) else {
            return Err(GradientError::ValueUnknown { name: name() });
        };
        if graph.is_folded_from(id) {
            return Err(GradientError::Folded { name: name() });
        }
        if !is_used[id.0] {
            return Err(GradientError::Unread { name: name() });
        }
        match graph.value(id).ty.dtype {
            dtype if dtype.is_float() => Ok(id),
            dtype => Err(GradientError::NotFloat {
                name: name(),
                dtype,
            }),
        }
    };
    wanted.iter().map(id_of).collect()
}

fn output_values<'t>(
    graph: &StaticGraph,
    gradients: &[(&str, &'t Tensor)],
) -> Result<Vec<(ValueId, &'t Tensor)>, GradientError> {
    let mut found: Vec<(ValueId, &Tensor)> = Vec::with_capacity(gradients.len());
    for &(name, gradient) in gradients {
        let id = graph.outputs().iter().copied();
        let mut id = id.filter(|&id| graph.value(id).name == name);
        let id = id
            .next()
            .filter(|id| !found.iter().any(|(other, _)| other == id));
        let id = id.ok_or_else(|| GradientError::OutputUnknown {
            name: name.to_owned(),
        })?;
        let want_shape = &graph.value(id).ty.shape;
        if gradient.shape() != want_shape || !gradient.dtype().is_float() {
            return Err(GradientError::OutputGradient {
                name: name.to_owned(),
                got: gradient.dtype(),
                got_shape: gradient.shape().to_vec(),
                want_shape: want_shape.clone(),
            });
        }
        found.push((id, gradient));
    }
    Ok(found)
}

/// The way back: values of the way forth, and the gradients that are known so far.
struct Backward<'g, 'h> {
    interpreter: Interpreter<'g, StaticGraph>,
    values: Values<'h>,
    so_far: Vec<Option<Vec<f64>>>,
    is_wanted: Vec<bool>,
}

impl Backward<'_, '_> {
    /// Adds `gradient` to what is known of a value's.
    fn add(
        &mut self,
        id: ValueId,
        gradient: Vec<f64>,
        asker: Asker<'_>,
    ) -> Result<(), GradientError> {
        match &mut self.so_far[id.0] {
            Some(so_far) => so_far
                .iter_mut()
                .zip(gradient)
                .for_each(|(so_far, gradient)| *so_far += gradient),
            none => {
                let bytes = gradient.len().saturating_mul(size_of::<f64>());
                self.values.host.take(asker, bytes)?;
                *none = Some(gradient);
            }
        }
        Ok(())
    }

    /// From the gradients of a node's results to those of `by`, of its operands.
    fn node(&mut self, node: &Node, by: &[(usize, ValueId)]) -> Result<(), GradientError> {
        let asked = asker(node, "its gradient");
        let results: Vec<Option<Vec<f64>>> = node
            .outputs
            .iter()
            .map(|id| id.and_then(|id| self.so_far[id.0].take()))
            .collect();
        if results.iter().any(Option::is_some) {
            let operands = node.inputs.iter().map(|id| {
                let value = |id| self.interpreter.value(id, &mut self.values, asked);
                id.map(value).transpose()
            });
            let operands = operands.collect::<Result<Vec<Option<Arc<Tensor>>>, _>>()?;
            let operands: Vec<Option<&Tensor>> = operands.iter().map(Option::as_deref).collect();
            let refused = |OpError { reason }| ModelError::Operator {
                node: node.name.clone(),
                op: node.op.name().to_owned(),
                reason,
            };
            let types = types_of(&node.op, &operands, node.outputs.len()).map_err(refused)?;
            let bytes = working_bytes(&node.op, &operands, &types);
            let given: Vec<Option<Cow<'_, [f64]>>> = results
                .iter()
                .map(|gradient| gradient.as_deref().map(Cow::Borrowed))
                .collect();
            for &(operand, id) in by {
                self.values.host.take(asked, bytes)?;
                let found = gradient(&node.op, &operands, &types, &given, operand);
                self.values.host.give_back(bytes);
                self.add(id, found.map_err(refused)?, asked)?;
            }
        }
        for (id, gradient) in node.outputs.iter().zip(results) {
            let (Some(id), Some(gradient)) = (id, gradient) else {
                continue;
            };
            if self.is_wanted[id.0] {
                self.so_far[id.0] = Some(gradient);
            } else {
                let bytes = gradient.len().saturating_mul(size_of::<f64>());
                self.values.host.give_back(bytes);
            }
        }
        Ok(())
    }

    /// What was found of a wanted value, or zeros.
    fn found(&mut self, id: ValueId) -> Result<(String, Tensor), GradientError> {
        let value = self.interpreter.graph.value(id);
        let shape = value.ty.shape.clone();
        let n: usize = shape.iter().product();
        let bytes = n.saturating_mul(DType::F64.size_bytes());
        self.values
            .host
            .take(of_value(&value.name, "wanted"), bytes)?;
        let tensor = match &self.so_far[id.0] {
            Some(gradient) => Tensor::from_f64(DType::F64, shape, gradient.clone())?,
            None => Tensor::zeros(DType::F64, shape)?,
        };
        Ok((value.name.clone(), tensor))
    }
}
