//! Networks that end in results whose length values say: cut where that begins.
//!
//! ```text
//! head   what has fixed shapes: an engine plans and runs it
//! tail   NonMaxSuppression, NonZero, Unique, a Reshape, Slice or Range of what a run computes, and all that reads
//!        their results: bound for the tensors of each run, and interpreted
//!
//! image -> Conv ... -> boxes, scores │ -> NonMaxSuppression -> Gather -> detections
//!                               head │ tail
//! ```
//!
//! Detectors end so: a few hundred boxes are left, which an interpreter sorts out in less time than the network takes
//! for its picture. A tail that computes much is slow, for it is the reference that computes it.
//!
//! Deliberately absent: results that an engine would need to go on with, and cuts within the graphs of control flow.

use std::collections::HashSet;
use std::sync::Arc;

use crate::ModelError;
use crate::graph::{Graph, Node, ValueId, bind_with_values, check_graph, computed_shapes};
use crate::reference;
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
/// The first graph has the inputs of `graph`, and no such shape but within control flow; its outputs are those of
/// `graph` that it makes, and what the tail reads. Without such a shape it is `graph`, and there is no tail.
///
/// Values are taken for computed that follow from an input's elements, unless it is one of
/// [`deciding_inputs`](crate::graph::deciding_inputs).
///
/// # Errors
///
/// [`ModelError::Graph`] for a graph that breaks an invariant of [`Graph`].
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
pub fn split_at_values(mut graph: Graph) -> Result<(Graph, Option<Tail>), ModelError> {
    check_graph(&graph)?;
    let is_computed = computed_shapes(&graph);
    let mut in_tail = vec![false; graph.values.len()];
    let (mut head_nodes, mut tail_nodes): (Vec<Node>, Vec<Node>) = (Vec::new(), Vec::new());
    for (node, is_computed) in std::mem::take(&mut graph.nodes)
        .into_iter()
        .zip(is_computed)
    {
        let mut operands = node.inputs.iter().flatten();
        if is_computed || operands.any(|id| in_tail[id.0]) {
            for id in node.outputs.iter().flatten() {
                in_tail[id.0] = true;
            }
            tail_nodes.push(node);
        } else {
            head_nodes.push(node);
        }
    }
    graph.nodes = head_nodes;
    if tail_nodes.is_empty() {
        return Ok((graph, None));
    }
    let outputs = std::mem::take(&mut graph.outputs);
    let names = outputs.iter().map(|&id| graph.value(id).name.clone());
    let names = names.collect();
    let (of_tail, of_head): (Vec<ValueId>, Vec<ValueId>) =
        outputs.into_iter().partition(|id| in_tail[id.0]);
    let mut tail = Graph {
        nodes: tail_nodes,
        outputs: of_tail,
        bodies: graph.bodies.clone(),
        ..Graph::default()
    };
    let read: HashSet<ValueId> = tail
        .nodes
        .iter()
        .flat_map(|node| node.inputs.iter().copied().flatten())
        .collect();
    for (index, value) in graph.values.iter().enumerate() {
        let mut value = value.clone();
        let id = ValueId(index);
        let crosses = read.contains(&id) && !in_tail[index] && value.constant.is_none();
        if crosses {
            tail.inputs.push(id);
        }
        if !read.contains(&id) {
            value.constant = None;
        }
        tail.values.push(value);
    }
    graph.outputs = of_head;
    for &id in &tail.inputs {
        if !graph.outputs.contains(&id) && !graph.inputs.contains(&id) {
            // What is declared of values in between is not held against them.
            graph.values[id.0].shape = None;
            graph.outputs.push(id);
        }
    }
    let tail = Tail {
        graph: tail,
        outputs: names,
    };
    Ok((graph, Some(tail)))
}

impl Tail {
    /// The outputs of the whole network, in its order, from those of the head and from the network's inputs.
    ///
    /// `budget_bytes` bound what this takes, as in [`bind_within`](crate::graph::bind_within).
    ///
    /// # Errors
    ///
    /// [`ModelError::InputMissing`] if a tensor that is needed is neither among `made` nor among `inputs`; otherwise
    /// those of binding and of [`reference::run`].
    pub fn run(
        &self,
        made: Vec<(String, Tensor)>,
        inputs: &[(&str, &Tensor)],
        budget_bytes: usize,
    ) -> Result<Vec<(String, Tensor)>, ModelError> {
        let mut graph = self.graph.clone();
        let given = |name: &str| {
            let of_head = made.iter().find(|(known, _)| known == name);
            let of_caller = || inputs.iter().find(|(known, _)| *known == name);
            of_head
                .map(|(_, tensor)| tensor)
                .or_else(|| of_caller().map(|(_, tensor)| *tensor))
                .ok_or_else(|| ModelError::InputMissing {
                    name: name.to_owned(),
                })
        };
        let mut tensors = Vec::with_capacity(graph.inputs.len());
        for &id in &self.graph.inputs {
            let value = &mut graph.values[id.0];
            let tensor = given(&value.name)?;
            // As it is in this run, whatever was declared.
            (value.dtype, value.shape) = (Some(tensor.dtype()), None);
            tensors.push((value.name.clone(), tensor));
        }
        let given: Vec<(&str, &Tensor)> = tensors.iter().map(|(n, t)| (n.as_str(), *t)).collect();
        let shapes: Vec<_> = given
            .iter()
            .map(|(n, t)| (*n, t.shape().to_vec()))
            .collect();
        let values: Vec<_> = given
            .iter()
            .map(|(n, t)| (*n, Arc::new((*t).clone())))
            .collect();
        let bound = bind_with_values(&graph, &shapes, &values, budget_bytes)?;
        let mut results = reference::run(&bound, &given)?;
        drop(given);
        drop(tensors);
        results.extend(made);
        let mut outputs = Vec::with_capacity(self.outputs.len());
        for name in &self.outputs {
            if let Some(at) = results.iter().position(|(known, _)| known == name) {
                outputs.push(results[at].clone());
            }
        }
        Ok(outputs)
    }
}

#[cfg(test)]
mod tests;
