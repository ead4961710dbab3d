//! Networks that end in results whose length values say: cut where that begins, for an engine that has plans alone.
//!
//! ```text
//! head   what has fixed shapes: an engine plans and runs it
//! tail   NonMaxSuppression, NonZero, Unique, a Reshape, Slice or Range of what a run computes, and all that reads
//!        their results: interpreted
//!
//! image -> Conv ... -> boxes, scores │ -> NonMaxSuppression -> Gather -> detections
//!                               head │ tail
//! ```
//!
//! Detectors end so: a few hundred boxes are left, which an interpreter sorts out in less time than the network takes
//! for its picture. A tail that computes much is slow, for it is the reference that computes it; [`stages_at_values`] cuts
//! again where such work begins.
//!
//! Deliberately absent: results that an engine would need to go on with.

use std::sync::Arc;

use crate::ModelError;
use crate::budget::ModelBudget;
use crate::graph::{Graph, check_graph};
use crate::reference::Unbound;
use crate::stages::stages_at_values;
use crate::tensor::Tensor;

/// The part of a network behind [`split_at_values`], for the tensors that the part before it gives.
#[derive(Debug, Clone)]
pub struct Tail {
    graph: Graph,
    /// Names of the whole network's outputs, in its order.
    outputs: Vec<String>,
}

/// Cuts a network in two where shapes begin to depend on values that a run computes.
///
/// The first graph has the inputs of `graph`, and no such shape; its outputs are those of
/// `graph` that it makes, and what the tail reads. Without such a shape it is `graph`, and there is no tail.
///
/// Values are taken for computed that follow from an input's elements, unless it is one of
/// [`deciding_inputs`](crate::graph::deciding_inputs).
///
/// # Errors
///
/// [`ModelError::Graph`] for a graph that breaks an invariant of [`Graph`], or whose bodies do.
///
/// # Examples
///
/// ```
/// use spark_onnx_graph::graph::{Dim, Graph, NonZero, Op, Unary, bind};
/// use spark_onnx_graph::{DType, Tensor, reference, split_at_values};
///
/// let mut graph = Graph::default();
/// let x = graph.add_input("x", DType::F32, vec![Dim::Known(1), Dim::Known(4)]);
/// let y = graph.add_node("y", Op::Unary(Unary::Relu), &[Some(x)]);
/// let z = graph.add_node("z", Op::NonZero(NonZero), &[Some(y)]);
/// graph.outputs.push(z);
/// assert!(bind(&graph, &[]).is_err()); // how many there are, only a run knows
///
/// let (head, tail) = split_at_values(graph)?;
/// let x = Tensor::from_f32([1, 4], vec![-1.0, 2.0, 0.0, 3.0])?;
/// let made = reference::run(&bind(&head, &[])?, &[("x", &x)])?; // an engine, as a rule
/// let outputs = tail.expect("a tail").run(made, &[("x", &x)], 1 << 20)?;
/// assert_eq!(outputs, [("z".to_owned(), Tensor::from_i64([2, 2], vec![0, 0, 1, 3])?)]);
/// # Ok::<(), spark_onnx_graph::ModelError>(())
/// ```
pub fn split_at_values(graph: Graph) -> Result<(Graph, Option<Tail>), ModelError> {
    check_graph(&graph)?;
    let names = graph.outputs.iter().map(|&id| graph.value(id).name.clone());
    let outputs = names.collect();
    let mut stages = stages_at_values(graph, |_, _| false)?.into_iter();
    let head = stages.next().map(|stage| stage.graph).unwrap_or_default();
    let tail = stages.next().map(|stage| Tail {
        graph: stage.graph,
        outputs,
    });
    Ok((head, tail))
}

impl Tail {
    /// The outputs of the whole network, in its order, from those of the head and from the network's inputs.
    ///
    /// `budget_bytes` bound what this takes beside what it is given.
    ///
    /// # Errors
    ///
    /// [`ModelError::InputMissing`] if a tensor that is needed is neither among `made` nor among `inputs`; otherwise
    /// those of [`Unbound`].
    pub fn run(
        &self,
        made: Vec<(String, Tensor)>,
        inputs: &[(&str, &Tensor)],
        budget_bytes: usize,
    ) -> Result<Vec<(String, Tensor)>, ModelError> {
        let mut made: Vec<_> = made.into_iter().map(|(n, t)| (n, Arc::new(t))).collect();
        let mut given = Vec::with_capacity(self.graph.inputs.len());
        for &id in &self.graph.inputs {
            let name = &self.graph.value(id).name;
            let of_head = made.iter().find(|(known, _)| known == name);
            let of_caller = || inputs.iter().find(|(known, _)| known == name);
            let tensor = match of_head {
                Some((_, tensor)) => Some(Arc::clone(tensor)),
                None => of_caller().map(|(_, tensor)| Arc::new((*tensor).clone())),
            };
            given.push(tensor.ok_or_else(|| ModelError::InputMissing { name: name.clone() })?);
        }
        let mut budget = ModelBudget::new(budget_bytes);
        let mut run = Unbound::start(&self.graph, given, &mut budget)?;
        for index in 0..self.graph.nodes.len() {
            run.step(index)?;
        }
        for (&id, output) in self.graph.outputs.iter().zip(run.finish()?) {
            made.push((self.graph.value(id).name.clone(), output.tensor));
        }
        let mut outputs = Vec::with_capacity(self.outputs.len());
        for name in &self.outputs {
            if let Some((_, tensor)) = made.iter().find(|(known, _)| known == name) {
                outputs.push((name.clone(), Tensor::clone(tensor)));
            }
        }
        Ok(outputs)
    }
}

#[cfg(test)]
mod tests;
