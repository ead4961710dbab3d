//! A network run as it is, a node at a time: shapes are those of the tensors that come, so that they may hang on values.
//!
//! ```text
//! start(graph, inputs)     step(0), step(1), ...     finish() -> outputs
//! ```
//!
//! Whoever has something to do between two nodes, such as timing them, steps; [`run_unbound`] does not.
//!
//! Deliberately absent: folding, and checks of what is declared in between.

use std::sync::Arc;

use super::host::Host;
use super::network::Network;
use super::run::{Interpreter, Values, last_reads};
use crate::ModelError;
use crate::budget::{Asker, ModelBudget};
use crate::graph::{
    Dim, Graph, MAX_ITERATIONS, ValueId, check_bodies, check_graph, describe_dims, may_be,
};
use crate::tensor::Tensor;

/// A run of a network that is not bound.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use spark_onnx_graph::budget::ModelBudget;
/// use spark_onnx_graph::graph::{Dim, Graph, NonZero, Op};
/// use spark_onnx_graph::{DType, Tensor, reference};
///
/// let mut graph = Graph::default();
/// let x = graph.add_input("x", DType::F32, vec![Dim::Unknown]);
/// let y = graph.add_node("y", Op::NonZero(NonZero), &[Some(x)]);
/// graph.outputs.push(y);
///
/// let mut budget = ModelBudget::new(1 << 20);
/// let x = Tensor::from_f32([4], vec![0.0, 2.0, 0.0, 3.0])?;
/// let mut run = reference::Unbound::start(&graph, vec![Arc::new(x)], &mut budget)?;
/// for node in 0..graph.nodes.len() {
///     run.step(node)?;
/// }
/// let outputs = run.finish()?;
/// assert_eq!(*outputs[0].tensor, Tensor::from_i64([1, 2], vec![1, 3])?);
/// # Ok::<(), spark_onnx_graph::ModelError>(())
/// ```
pub struct Unbound<'g, 'h> {
    interpreter: Interpreter<'g, Graph>,
    last_reads: Vec<usize>,
    values: Values<'h>,
}

/// An output of a run, in so many bytes of the host's, which are not given back yet.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Made {
    /// What came out.
    pub tensor: Arc<Tensor>,
    /// Bytes that it was taken for; none for an input that is an output as well.
    pub bytes: usize,
}

impl<'g, 'h> Unbound<'g, 'h> {
    /// A run of `graph` on `inputs`, one for each of its own, in memory of `host`, for which inputs are not counted. `graph`
    /// must have passed [`check_unbound`].
    ///
    /// # Errors
    ///
    /// [`ModelError::InputMissing`] for too few inputs, [`ModelError::InputType`] or [`ModelError::InputShape`] for one that
    /// is declared otherwise.
    pub fn start(
        graph: &'g Graph,
        inputs: Vec<Arc<Tensor>>,
        host: &'h mut dyn Host,
    ) -> Result<Self, ModelError> {
        let mut values = Values::new(graph.values.len(), MAX_ITERATIONS, host);
        let mut inputs = inputs.into_iter();
        for &id in &graph.inputs {
            let value = graph.value(id);
            let name = || value.name.clone();
            let Some(tensor) = inputs.next() else {
                return Err(ModelError::InputMissing { name: name() });
            };
            if let Some(want) = value.dtype.filter(|&want| want != tensor.dtype()) {
                return Err(ModelError::InputType {
                    name: name(),
                    got: tensor.dtype(),
                    want,
                });
            }
            if let Some(dims) = value.shape.as_deref()
                && !may_be(dims, tensor.shape())
            {
                return Err(ModelError::InputShape {
                    name: name(),
                    got: tensor.shape().to_vec(),
                    want: describe_dims(dims),
                });
            }
            values.lend(id, tensor);
        }
        Ok(Self {
            last_reads: last_reads(graph),
            interpreter: Interpreter { graph, wide: false },
            values,
        })
    }

    /// Runs node `index`; all before it must have run.
    ///
    /// # Panics
    ///
    /// If the graph has no such node.
    ///
    /// # Errors
    ///
    /// [`ModelError::Operator`] where [`evaluate`](super::evaluate) refuses it, [`ModelError::InputMissing`] where a node
    /// before it has not run, and those of the host.
    pub fn step(&mut self, index: usize) -> Result<(), ModelError> {
        self.interpreter
            .step(index, &self.last_reads, &mut self.values)
    }

    /// The outputs, in the order of the graph's.
    ///
    /// # Errors
    ///
    /// [`ModelError::Declaration`] for one that is declared otherwise, [`ModelError::InputMissing`] where a node has not run,
    /// and those of the host.
    pub fn finish(mut self) -> Result<Vec<Made>, ModelError> {
        let graph = self.interpreter.graph;
        let mut outputs: Vec<Made> = Vec::with_capacity(graph.outputs.len());
        for (at, &id) in graph.outputs.iter().enumerate() {
            // Taken already, if it is listed twice.
            let twice = graph.outputs[..at].iter().position(|&before| before == id);
            let made = match twice {
                Some(before) => Made {
                    tensor: Arc::clone(&outputs[before].tensor),
                    bytes: 0,
                },
                None => self.output(id)?,
            };
            check_declared(graph, id, &made.tensor)?;
            outputs.push(made);
        }
        Ok(outputs)
    }

    fn output(&mut self, id: ValueId) -> Result<Made, ModelError> {
        let name = self.interpreter.graph.name_of(id);
        let asker = Asker {
            node: name,
            op: "output",
            what: "the value",
        };
        let tensor = self.interpreter.value(id, &mut self.values, asker)?;
        let bytes = self.values.take(id).map_or(0, |(_, bytes)| bytes);
        Ok(Made { tensor, bytes })
    }
}

/// Holds what is declared of an output against what it is.
fn check_declared(graph: &Graph, id: ValueId, tensor: &Tensor) -> Result<(), ModelError> {
    let value = graph.value(id);
    let dims = value.shape.as_deref();
    let fits = value.dtype.is_none_or(|dtype| dtype == tensor.dtype())
        && dims.is_none_or(|dims| may_be(dims, tensor.shape()));
    if fits {
        return Ok(());
    }
    let inferred: Vec<Dim> = tensor.shape().iter().map(|&n| Dim::Known(n)).collect();
    let dtype = value.dtype.unwrap_or(tensor.dtype());
    Err(ModelError::Declaration {
        what: "output",
        name: value.name.clone(),
        declared: match dims {
            Some(dims) => format!("{dtype} {}", describe_dims(dims)),
            None => dtype.to_string(),
        },
        inferred: format!("{} {}", tensor.dtype(), describe_dims(&inferred)),
    })
}

/// Checks that a run can take `graph` as it is, its bodies too: numbers of values in range, nodes in order, every value made
/// once, bodies that take and make what their nodes give and want. Types and shapes are the run's.
///
/// # Errors
///
/// [`ModelError::Graph`].
pub fn check_unbound(graph: &Graph) -> Result<(), ModelError> {
    check_graph(graph)?;
    check_bodies(graph)
}

/// The outputs of `graph` with their names, as it is, in at most `budget_bytes` beside the inputs.
///
/// # Errors
///
/// Those of [`check_unbound`] and [`Unbound`]; [`ModelError::InputUnknown`] and [`ModelError::InputTwice`] for an input that
/// is not one of the graph's once.
///
/// # Examples
///
/// ```
/// use spark_onnx_graph::graph::{Dim, Graph, Op, Unique};
/// use spark_onnx_graph::{DType, Tensor, reference};
///
/// let mut graph = Graph::default();
/// let x = graph.add_input("x", DType::I64, vec![Dim::Unknown]);
/// let unique = Unique { axis: None, sorted: true };
/// let y = graph.add_node("y", Op::Unique(unique), &[Some(x)]);
/// graph.outputs.push(y);
///
/// let x = Tensor::from_i64([5], vec![2, 1, 2, 2, 1])?;
/// let outputs = reference::run_unbound(&graph, &[("x", &x)], 1 << 20)?;
/// assert_eq!(outputs[0].1, Tensor::from_i64([2], vec![1, 2])?);
/// # Ok::<(), spark_onnx_graph::ModelError>(())
/// ```
pub fn run_unbound(
    graph: &Graph,
    inputs: &[(&str, &Tensor)],
    budget_bytes: usize,
) -> Result<Vec<(String, Tensor)>, ModelError> {
    check_unbound(graph)?;
    for (index, (name, _)) in inputs.iter().enumerate() {
        let name = (*name).to_owned();
        if !graph.inputs.iter().any(|&id| graph.value(id).name == name) {
            return Err(ModelError::InputUnknown { name });
        }
        if inputs[..index].iter().any(|(before, _)| *before == name) {
            return Err(ModelError::InputTwice { name });
        }
    }
    let mut given = Vec::with_capacity(graph.inputs.len());
    for &id in &graph.inputs {
        let name = &graph.value(id).name;
        let found = inputs.iter().find(|(known, _)| known == name);
        let missing = || ModelError::InputMissing { name: name.clone() };
        let (_, tensor) = found.ok_or_else(missing)?;
        given.push(Arc::new((*tensor).clone()));
    }
    let mut budget = ModelBudget::new(budget_bytes);
    let mut run = Unbound::start(graph, given, &mut budget)?;
    for index in 0..graph.nodes.len() {
        run.step(index)?;
    }
    let names = graph.outputs.iter().map(|&id| graph.value(id).name.clone());
    let made = run.finish()?;
    Ok(names
        .zip(made)
        .map(|(name, made)| (name, Arc::unwrap_or_clone(made.tensor)))
        .collect())
}

#[cfg(test)]
mod tests;
