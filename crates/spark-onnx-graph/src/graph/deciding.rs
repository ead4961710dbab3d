//! Inputs whose elements must be known before a network can be planned: shapes, axes, counts that the
//! caller gives.
//!
//! ```text
//! input "shape" --> Cast --> Concat --> Reshape's operand 1      decides a shape
//! input "cached" (bool) --> If's operand 0                       decides a branch
//! input "x" --> Shape --> Reshape's operand 1                    does not: its shape does, and that is known
//! ```
//!
//! Whoever plans networks by the shapes of their inputs can plan them by these elements too
//! ([`super::bind_with_values`]); a plan is then for one value. So only small inputs count, and for a
//! branch only booleans: anything else may differ from run to run. A list of open length is small if it is a shape, as it
//! has an element for each axis; if what reads it takes any number, a run may bring more than count.
//!
//! Deliberately absent: values that a body carries from one iteration to the next.

use std::collections::HashMap;
use std::sync::Arc;

use super::check::check_graph;
use super::control::MAX_BODY_DEPTH;
use super::definition::{Dim, Graph, Node, Value, ValueId};
use super::op::Op;
use crate::operators::deciding_operands;
use crate::tensor::DType;

/// Elements that an input may have, along at most one axis, to count among those that decide.
pub const MAX_DECIDING_ELEMENTS: usize = 64;

/// What a value is needed for before a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Need {
    shape: bool,
    branch: bool,
    /// For a shape, and nothing bounds how many elements it has.
    many: bool,
}

impl Need {
    const SHAPE: Self = Self {
        shape: true,
        branch: false,
        many: false,
    };
    const BRANCH: Self = Self {
        shape: false,
        branch: true,
        many: false,
    };

    fn add(&mut self, other: Self) {
        self.shape |= other.shape;
        self.branch |= other.branch;
        self.many |= other.many;
    }

    /// The same of any number of elements.
    fn of_many(self) -> Self {
        Self {
            many: self.many || self.shape,
            ..self
        }
    }
}

/// Positions among the inputs of `graph` of those whose elements decide shapes, or which branch is taken.
///
/// An input that is not listed, or has other elements than few along one axis, leaves what it decides
/// unknown, which [`bind`](super::bind) then refuses.
///
/// # Examples
///
/// ```
/// use spark_onnx_graph::DType;
/// use spark_onnx_graph::graph::{Dim, Graph, Op, Reshape, deciding_inputs};
///
/// let mut graph = Graph::default();
/// let x = graph.add_input("x", DType::F32, vec![Dim::Known(6)]);
/// let shape = graph.add_input("shape", DType::I64, vec![Dim::Known(2)]);
/// let reshape = Op::Reshape(Reshape { allow_zero: false });
/// let y = graph.add_node("y", reshape, &[Some(x), Some(shape)]);
/// graph.outputs.push(y);
/// assert_eq!(deciding_inputs(&graph), [1]);
/// ```
pub fn deciding_inputs(graph: &Graph) -> Vec<usize> {
    let needs = needs_of_inputs(graph, 0, &mut Known::new());
    let listed = graph.inputs.iter().zip(needs).enumerate();
    listed
        .filter(|(_, (id, need))| {
            let value = graph.values.get(id.0);
            value.is_some_and(|value| may_decide(value, *need))
        })
        .map(|(index, _)| index)
        .collect()
}

/// Whether every run brings few enough elements, so that they are known to whoever plans.
fn is_sure_to_decide(value: &Value, need: Need) -> bool {
    let is_bounded = value.shape.as_deref().is_some_and(|dims| {
        let mut dims = dims.iter();
        dims.all(|dim| matches!(dim, Dim::Known(_)))
    });
    may_decide(value, need) && (is_bounded || !need.many)
}

fn may_decide(value: &Value, need: Need) -> bool {
    let is_bool = value.dtype == Some(DType::Bool);
    let is_small = value.shape.as_deref().is_none_or(|dims| match dims {
        [] | [Dim::Symbol(_) | Dim::Unknown] => true,
        [Dim::Known(extent)] => *extent <= MAX_DECIDING_ELEMENTS,
        _ => false,
    });
    is_small && (need.shape || (need.branch && is_bool))
}

/// What the inputs of bodies are needed for, by address: bodies may be shared.
type Known = HashMap<*const Graph, Vec<Need>>;

/// What the inputs of `graph` are needed for, in their order; nothing where it is no graph.
fn needs_of_inputs(graph: &Graph, depth: usize, known: &mut Known) -> Vec<Need> {
    let mut needs = vec![Need::default(); graph.values.len()];
    if depth == MAX_BODY_DEPTH || check_graph(graph).is_err() {
        return vec![Need::default(); graph.inputs.len()];
    }
    for node in graph.nodes.iter().rev() {
        let mut wanted = Need::default();
        for id in node.outputs.iter().flatten() {
            wanted.add(needs[id.0]);
        }
        let operands = node.inputs.iter().enumerate();
        for (index, id) in operands.filter_map(|(index, id)| Some((index, (*id)?))) {
            if makes_results(&node.op, index) {
                needs[id.0].add(match keeps_elements(&node.op, index) {
                    true => wanted,
                    false => wanted.of_many(),
                });
            }
            if deciding_operands(&node.op).contains(&index) {
                needs[id.0].add(match &node.op {
                    Op::NonZero(_) | Op::Unique(_) | Op::Custom(_) => Need::SHAPE.of_many(),
                    _ => Need::SHAPE,
                });
            }
        }
        within_bodies(graph, node, depth, known, |index, wanted| {
            if let Some(&Some(ValueId(id))) = node.inputs.get(index) {
                needs[id].add(wanted);
            }
        });
    }
    let inputs = graph.inputs.iter();
    inputs.map(|id| needs[id.0]).collect()
}

/// What is known before a run of the elements of a graph's values, node by node in their order.
pub(crate) struct Elements {
    /// By value, whether a run computes them. What an embedder's own operator makes is such, even of constants: nothing
    /// folds it.
    is_computed: Vec<bool>,
    bodies: Bodies,
}

/// What hangs on elements that are not known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hanging {
    /// The shapes of a node's results, or of what its bodies make.
    pub(crate) shapes: bool,
    /// The elements of its results.
    pub(crate) elements: bool,
}

impl Elements {
    /// Known are constants, and inputs that decide in every run.
    pub(crate) fn of_inputs(graph: &Graph) -> Self {
        let mut bodies = Bodies::default();
        let needs = needs_of_inputs(graph, 0, &mut bodies.needs);
        let mut is_computed = vec![false; graph.values.len()];
        for (id, need) in graph.inputs.iter().zip(needs) {
            is_computed[id.0] = !is_sure_to_decide(graph.value(*id), need);
        }
        Self {
            is_computed,
            bodies,
        }
    }

    /// Whether a run computes those of this value.
    pub(crate) fn is_computed(&self, id: ValueId) -> bool {
        self.is_computed[id.0]
    }

    /// What hangs on elements that a run computes, or that are unknown to whoever plans `node`, as `is_unknown` says.
    pub(crate) fn hanging(
        &mut self,
        graph: &Graph,
        node: &Node,
        is_unknown: impl Fn(ValueId) -> bool,
    ) -> Hanging {
        let is_computed = &self.is_computed;
        let is_computed = |id: ValueId| is_computed[id.0] || is_unknown(id);
        hanging(graph, node, is_computed, 0, &mut self.bodies)
    }

    /// Notes of what `node` makes whether a run computes it.
    pub(crate) fn note(&mut self, node: &Node, hanging: Hanging) {
        for id in node.outputs.iter().flatten() {
            self.is_computed[id.0] = hanging.elements;
        }
    }
}

/// What is known of bodies, by address: they may be shared.
#[derive(Debug, Default)]
struct Bodies {
    needs: Known,
    own: HashMap<*const Graph, Own>,
}

/// What a body does by its own operators, whatever it is given.
#[derive(Debug, Clone, Copy, Default)]
struct Own {
    /// An embedder's own operator is in it.
    computes: bool,
    /// Shapes in it hang on what such operators make.
    hangs: bool,
}

/// What of `node`, at level `depth`, hangs on elements that `is_computed` names.
fn hanging(
    graph: &Graph,
    node: &Node,
    is_computed: impl Fn(ValueId) -> bool,
    depth: usize,
    bodies: &mut Bodies,
) -> Hanging {
    let operands = node.inputs.iter().enumerate();
    let computed = operands
        .filter(|(_, id)| id.is_some_and(&is_computed))
        .map(|(index, _)| index);
    let computed: Vec<usize> = computed.collect();
    let own = own_of(graph, node, depth, bodies);
    let makes = computed.iter().any(|&index| makes_results(&node.op, index));
    let mut decides = deciding_operands(&node.op).to_vec();
    within_bodies(graph, node, depth, &mut bodies.needs, |index, wanted| {
        if wanted.shape {
            decides.push(index);
        }
    });
    Hanging {
        shapes: own.hangs || computed.iter().any(|index| decides.contains(index)),
        elements: makes || own.computes,
    }
}

/// Whether shapes hang on what is computed within `body`, at level `depth`, whatever it is given.
fn hangs_within(body: &Graph, depth: usize, bodies: &mut Bodies) -> bool {
    let mut is_computed = vec![false; body.values.len()];
    let mut hangs = false;
    for node in &body.nodes {
        let hanging = hanging(body, node, |id| is_computed[id.0], depth, bodies);
        for id in node.outputs.iter().flatten() {
            is_computed[id.0] = hanging.elements;
        }
        hangs |= hanging.shapes;
    }
    hangs
}

/// What `node` does of its own, at level `depth`, and its bodies.
fn own_of(graph: &Graph, node: &Node, depth: usize, bodies: &mut Bodies) -> Own {
    let mut all = Own {
        computes: matches!(node.op, Op::Custom(_)),
        hangs: false,
    };
    for body in node.op.bodies() {
        let Some(body) = graph.bodies.get(body.0) else {
            continue;
        };
        let address = Arc::as_ptr(body);
        let own = match bodies.own.get(&address) {
            Some(&own) => own,
            None if depth == MAX_BODY_DEPTH || check_graph(body).is_err() => Own::default(),
            None => {
                let hangs = hangs_within(body, depth + 1, bodies);
                let mut nodes = body.nodes.iter();
                let computes = nodes.any(|node| own_of(body, node, depth + 1, bodies).computes);
                Own { computes, hangs }
            }
        };
        bodies.own.insert(address, own);
        all.computes |= own.computes;
        all.hangs |= own.hangs;
    }
    all
}

/// Whether the elements of the results hang on those of operand `index`.
fn makes_results(op: &Op, index: usize) -> bool {
    match op {
        Op::Shape(_) | Op::Size(_) | Op::EyeLike(_) | Op::RandomLike(_) => false,
        Op::CastLike(_) => index == 0,
        _ => true,
    }
}

/// Whether the result of `op` has an element for each of operand `index`, if that has one axis.
fn keeps_elements(op: &Op, index: usize) -> bool {
    match op {
        Op::Unary(_)
        | Op::Binary(_)
        | Op::Variadic(_)
        | Op::Where(_)
        | Op::Cast(_)
        | Op::RoundFloat(_)
        | Op::Concat(_)
        | Op::Transpose(_) => true,
        Op::Clip(_)
        | Op::CastLike(_)
        | Op::Reshape(_)
        | Op::Flatten(_)
        | Op::Squeeze(_)
        | Op::Unsqueeze(_)
        | Op::ScatterElements(_)
        | Op::ScatterNd(_) => index == 0,
        Op::Gather(_) => index == 1,
        _ => false,
    }
}

/// Calls `need` with the number of each operand of `node` and what its bodies need it for, or which of them runs, and how
/// often.
fn within_bodies(
    graph: &Graph,
    node: &Node,
    depth: usize,
    known: &mut Known,
    mut need: impl FnMut(usize, Need),
) {
    let first = match &node.op {
        Op::If(_) => {
            need(0, Need::BRANCH);
            1
        }
        Op::Loop(op) => {
            let body = graph.bodies.get(op.body.0);
            // How many there are is the shape of what is stacked.
            if body.is_some_and(|body| body.outputs.len() > op.carried.saturating_add(1)) {
                need(0, Need::SHAPE);
            }
            need(1, Need::BRANCH);
            0
        }
        _ => 0,
    };
    for body in node.op.bodies() {
        let Some(body) = graph.bodies.get(body.0) else {
            continue;
        };
        let address = Arc::as_ptr(body);
        if !known.contains_key(&address) {
            let inner = needs_of_inputs(body, depth + 1, known);
            known.insert(address, inner);
        }
        for (index, wanted) in known[&address].iter().enumerate() {
            need(
                first + index,
                match &node.op {
                    // Of what is scanned a body sees one slice.
                    Op::Scan(_) => wanted.of_many(),
                    _ => *wanted,
                },
            );
        }
        // What goes from iteration to iteration is known in all of them only if it is known how many there are.
        if let Op::Loop(op) = &node.op
            && let Some(carried) = known[&address].get(2..op.carried.saturating_add(2))
            && carried.iter().any(|wanted| wanted.shape)
        {
            need(0, Need::SHAPE);
            need(1, Need::SHAPE);
        }
    }
}
