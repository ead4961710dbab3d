//! A network as stages: cut wherever shapes begin to depend on values, and again where work begins that is worth a plan.
//!
//! ```text
//! stage 0  planned      image -> Conv ... -> boxes, scores                  shapes follow from those of the inputs
//! stage 1  interpreted  NonMaxSuppression -> Gather -> regions              how many there are, only a run knows
//! stage 2  planned      RoiAlign -> Gemm ... -> classes, boxes              shapes follow from those of its inputs
//! stage 3  interpreted  NonZero -> Gather -> detections
//!
//! stage of a node = the last stage that it reads of
//!     + 1 if that is planned and the shapes of its results hang on values
//!     + 1 if that is interpreted, they do not, and the node is worth a plan
//! ```
//!
//! A planned stage knows the elements of what it makes of shapes, and those of short lists that others hand over.
//! All else that others made hangs on values there, also a matrix of ones that an interpreted stage made of a shape.
//!
//! What only follows from an interpreted stage (a Gather of a hundred rows, their sums) stays in it: making a plan for so
//! little takes longer than interpreting it. Stages with odd numbers are interpreted.
//!
//! Deliberately absent: which nodes are worth a plan, which the engine says, and cuts within the graphs of control flow, whose
//! nodes go where they go as a whole.

use std::collections::HashMap;
use std::sync::Arc;

use crate::ModelError;
use crate::graph::{BodyId, Elements, Graph, Node, Value, ValueId, check_graph};
use crate::reference::check_unbound;
use lists::Lists;

/// One part of a network.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Stage {
    /// Its nodes. Values have their names, but numbers of their own, except in the first stage. Of inputs that are no inputs of
    /// the network no shape is declared.
    pub graph: Graph,
    /// By input of `graph`, what it is in the network: one of its inputs, or an output of an earlier stage.
    pub inputs: Vec<ValueId>,
    /// By output of `graph`, what it is in the network.
    pub outputs: Vec<ValueId>,
    /// Whether shapes in it hang on values, so that it is run as it is ([`reference::Unbound`](crate::reference::Unbound));
    /// of other stages they follow from the shapes of its inputs, and of elements of
    /// [`deciding_inputs`](crate::graph::deciding_inputs).
    pub is_interpreted: bool,
}

/// Cuts a network into stages; the first is always a planned one, with all inputs of the network, and may have no nodes. A
/// network no shape of which hangs on values is one stage.
///
/// `is_worth_a_plan` is asked for nodes behind an interpreted stage.
///
/// # Errors
///
/// [`ModelError::Graph`] for a graph that breaks an invariant of [`Graph`], or whose bodies do.
///
/// # Examples
///
/// ```
/// use spark_onnx_graph::graph::{Dim, Gather, Graph, MatMul, NonZero, Op};
/// use spark_onnx_graph::{DType, Tensor, stages_at_values};
///
/// // The rows of x at which `scores` is not 0, times w.
/// let mut graph = Graph::default();
/// let x = graph.add_input("x", DType::F32, vec![Dim::Known(100), Dim::Known(2)]);
/// let scores = graph.add_input("scores", DType::F32, vec![Dim::Known(100)]);
/// let at = graph.add_node("at", Op::NonZero(NonZero), &[Some(scores)]);
/// let rows = graph.add_node("rows", Op::Gather(Gather { axis: 0 }), &[Some(x), Some(at)]);
/// let w = graph.add_constant("w", Tensor::from_f32([2, 1], vec![1.0, 2.0])?);
/// let y = graph.add_node("y", Op::MatMul(MatMul), &[Some(rows), Some(w)]);
/// graph.outputs.push(y);
///
/// let stages = stages_at_values(graph, |_, node| matches!(node.op, Op::MatMul(_)))?;
/// let nodes: Vec<usize> = stages.iter().map(|stage| stage.graph.nodes.len()).collect();
/// assert_eq!(nodes, [0, 2, 1]);
/// assert!(!stages[2].is_interpreted);
/// # Ok::<(), spark_onnx_graph::ModelError>(())
/// ```
pub fn stages_at_values(
    mut graph: Graph,
    is_worth_a_plan: impl Fn(&Graph, &Node) -> bool,
) -> Result<Vec<Stage>, ModelError> {
    check_graph(&graph)?;
    let mut elements = Elements::of_inputs(&graph);
    let mut lists = Lists::of_inputs(&graph, &elements);
    let is_live = live(&graph);
    let mut stage_of = vec![0; graph.values.len()];
    let mut stages = Vec::with_capacity(graph.nodes.len());
    for node in &graph.nodes {
        let read = node.inputs.iter().flatten().map(|id| stage_of[id.0]);
        let from: usize = read.max().unwrap_or(0);
        // The planned stage that it may go to.
        let planned = from + usize::from(is_interpreted(from));
        let is_unknown = |id: ValueId| {
            let is_own = stage_of[id.0] == planned || graph.value(id).constant.is_some();
            !is_own && !lists.has(id)
        };
        let in_plan = elements.hanging(&graph, node, is_unknown);
        let is_planned = !in_plan.shapes && (planned == from || is_worth_a_plan(&graph, node));
        let (stage, hanging) = match is_planned {
            true => (planned, in_plan),
            false => (
                from + usize::from(!is_interpreted(from)),
                elements.hanging(&graph, node, |_| false),
            ),
        };
        elements.note(node, hanging);
        lists.note(&graph, node);
        for id in node.outputs.iter().flatten() {
            stage_of[id.0] = stage;
        }
        stages.push(stage);
    }
    if stages.iter().any(|&stage| stage > 0) {
        check_unbound(&graph)?;
    }
    let mut nodes_of: Vec<Vec<Node>> = vec![Vec::new()];
    let all = std::mem::take(&mut graph.nodes);
    for (node, stage) in all.into_iter().zip(stages) {
        // What leads to no output is not worth a stage.
        let mut results = node.outputs.iter().flatten();
        if stage > 0 && !results.any(|id| is_live[id.0]) {
            continue;
        }
        if nodes_of.len() <= stage {
            nodes_of.resize(stage + 1, Vec::new());
        }
        nodes_of[stage].push(node);
    }
    let mut nodes_of = nodes_of.into_iter();
    let first = nodes_of.next().unwrap_or_default();
    let behind: Vec<Vec<Node>> = nodes_of.collect();
    if behind.is_empty() {
        graph.nodes = first;
        return Ok(vec![Stage {
            inputs: graph.inputs.clone(),
            outputs: graph.outputs.clone(),
            graph,
            is_interpreted: false,
        }]);
    }
    // What later stages read, once each, by the stage that makes it.
    let mut crossing: Vec<Vec<ValueId>> = vec![Vec::new(); behind.len() + 1];
    let mut is_handed_out = vec![false; graph.values.len()];
    for &id in &graph.outputs {
        if stage_of[id.0] > 0 {
            crossing[stage_of[id.0]].push(id);
        }
        is_handed_out[id.0] = true;
    }
    // The head hands inputs and constants out too, where the network does; none goes on from there.
    for &id in &graph.inputs {
        is_handed_out[id.0] = true;
    }
    for (number, nodes) in behind.iter().enumerate() {
        for &id in nodes.iter().flat_map(|node| node.inputs.iter().flatten()) {
            let is_other = stage_of[id.0] <= number && graph.value(id).constant.is_none();
            if is_other && !std::mem::replace(&mut is_handed_out[id.0], true) {
                crossing[stage_of[id.0]].push(id);
            }
        }
    }
    let mut stages = Vec::with_capacity(behind.len() + 1);
    let mut made = crossing.into_iter();
    let of_head = made.next().unwrap_or_default();
    let mut rest = Vec::with_capacity(behind.len());
    for (number, (nodes, mut outputs)) in behind.into_iter().zip(made).enumerate() {
        outputs.sort_unstable();
        outputs.dedup();
        rest.push(Part::new(&graph).stage(nodes, outputs, is_interpreted(number + 1)));
    }
    stages.push(head(graph, first, &stage_of, of_head));
    stages.extend(rest);
    Ok(stages)
}

fn is_interpreted(stage: usize) -> bool {
    stage % 2 == 1
}

/// By value, whether an output of `graph` follows from it.
fn live(graph: &Graph) -> Vec<bool> {
    let mut is_live = vec![false; graph.values.len()];
    for id in &graph.outputs {
        is_live[id.0] = true;
    }
    for node in graph.nodes.iter().rev() {
        if node.outputs.iter().flatten().any(|id| is_live[id.0]) {
            for id in node.inputs.iter().flatten() {
                is_live[id.0] = true;
            }
        }
    }
    is_live
}

/// The first stage, in the numbers of the network; `crossing` is what it makes for others besides the network's outputs.
fn head(mut graph: Graph, nodes: Vec<Node>, stage_of: &[usize], crossing: Vec<ValueId>) -> Stage {
    graph.nodes = nodes;
    graph.outputs.retain(|id| stage_of[id.0] == 0);
    for &id in &crossing {
        // What is declared of values in between is not held against them.
        graph.values[id.0].shape = None;
    }
    graph.outputs.extend(crossing);
    let mut is_read = vec![false; graph.values.len()];
    let operands = graph.nodes.iter().flat_map(|node| &node.inputs);
    for id in operands.flatten().chain(&graph.outputs) {
        is_read[id.0] = true;
    }
    for (value, is_read) in graph.values.iter_mut().zip(is_read) {
        if !is_read {
            value.constant = None;
        }
    }
    Stage {
        inputs: graph.inputs.clone(),
        outputs: graph.outputs.clone(),
        graph,
        is_interpreted: false,
    }
}

/// A later stage that is put together.
struct Part<'g> {
    whole: &'g Graph,
    graph: Graph,
    /// By value of the network.
    values: HashMap<ValueId, ValueId>,
    bodies: HashMap<BodyId, BodyId>,
    inputs: Vec<ValueId>,
}

impl<'g> Part<'g> {
    fn new(whole: &'g Graph) -> Self {
        let graph = Graph {
            name: whole.name.clone(),
            ..Graph::default()
        };
        Self {
            whole,
            graph,
            values: HashMap::new(),
            bodies: HashMap::new(),
            inputs: Vec::new(),
        }
    }

    fn stage(mut self, nodes: Vec<Node>, outputs: Vec<ValueId>, is_interpreted: bool) -> Stage {
        for mut node in nodes {
            for id in node.inputs.iter_mut().flatten() {
                *id = self.read(*id);
            }
            for id in node.outputs.iter_mut().flatten() {
                *id = self.made(*id, outputs.binary_search(id).is_ok());
            }
            for id in node.op.bodies_mut() {
                *id = self.body(*id);
            }
            self.graph.nodes.push(node);
        }
        let made = outputs.iter().map(|id| self.values[id]);
        self.graph.outputs = made.collect();
        Stage {
            graph: self.graph,
            inputs: self.inputs,
            outputs,
            is_interpreted,
        }
    }

    /// A value that a node reads: a constant, one that is made here, or else an input.
    fn read(&mut self, id: ValueId) -> ValueId {
        if let Some(&own) = self.values.get(&id) {
            return own;
        }
        let value = self.whole.value(id);
        let is_constant = value.constant.is_some();
        let own = self.graph.add_value(Value {
            shape: value.shape.clone().filter(|_| is_constant),
            ..value.clone()
        });
        if !is_constant {
            self.graph.inputs.push(own);
            self.inputs.push(id);
        }
        self.values.insert(id, own);
        own
    }

    /// A value that a node makes; what is declared of one in between is not held against it.
    fn made(&mut self, id: ValueId, is_output: bool) -> ValueId {
        let value = self.whole.value(id);
        let is_declared = is_output && self.whole.outputs.contains(&id);
        let own = self.graph.add_value(Value {
            shape: value.shape.clone().filter(|_| is_declared),
            ..value.clone()
        });
        self.values.insert(id, own);
        own
    }

    fn body(&mut self, id: BodyId) -> BodyId {
        if let Some(&own) = self.bodies.get(&id) {
            return own;
        }
        let own = BodyId(self.graph.bodies.len());
        self.graph.bodies.push(Arc::clone(&self.whole.bodies[id.0]));
        self.bodies.insert(id, own);
        own
    }
}

mod lists;
#[cfg(test)]
mod tests;
