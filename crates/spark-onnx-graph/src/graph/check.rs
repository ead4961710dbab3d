//! Whether a graph is one: what everything behind binding takes for granted.
//!
//! ```text
//! known = inputs and constants, each once
//! for each node:  operands are known;  results are new, then known
//! outputs are known
//! ```
//!
//! Graphs are open to editing, so this runs whenever one is bound.
//!
//! Deliberately absent: types and shapes, which [`super::infer`] checks node by node.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::control::{BodyId, MAX_BODY_DEPTH};
use super::op::Op;
use super::{Graph, Node, ValueId};
use crate::ModelError;

/// Checks that `graph` is one: numbers of values in range, nodes in order, every value made once, names of
/// inputs unique, outputs made. Types, shapes and parameters are [`bind`](super::bind)'s, which begins with
/// this.
///
/// # Errors
///
/// [`ModelError::Graph`] that names what is wrong.
pub fn check_graph(graph: &Graph) -> Result<(), ModelError> {
    let is_constant = graph.values.iter().map(|value| value.constant.is_some());
    check(graph, &is_constant.collect::<Vec<bool>>())
}

/// Checks `graph`, whose constant values are those of which `is_constant` is true.
///
/// # Errors
///
/// [`ModelError::Graph`] that names what is wrong.
pub(super) fn check(graph: &Graph, is_constant: &[bool]) -> Result<(), ModelError> {
    let mut known = is_constant.to_vec();
    let mut names = BTreeSet::new();
    for &id in &graph.inputs {
        let name = name_of(graph, id, "the inputs")?;
        if std::mem::replace(&mut known[id.0], true) {
            return refuse(format!("input `{name}` is a constant or an input already"));
        }
        if !names.insert(name) {
            return refuse(format!("two inputs are named `{name}`"));
        }
    }
    for node in &graph.nodes {
        check_node(graph, node, &mut known)?;
    }
    for &id in &graph.outputs {
        let name = name_of(graph, id, "the outputs")?;
        if !known[id.0] {
            return refuse(format!("nothing makes the output `{name}`"));
        }
    }
    Ok(())
}

/// Checks what `graph` runs in its nodes of control flow, and what that runs, as far as a run of it takes for granted: the
/// bodies are graphs, they take what the nodes give and make what these want.
///
/// # Errors
///
/// [`ModelError::Graph`] that names what is wrong.
pub(crate) fn check_bodies(graph: &Graph) -> Result<(), ModelError> {
    within(graph, 0, &mut HashMap::new()).map(drop)
}

/// What is within a graph.
#[derive(Debug, Clone, Copy, Default)]
struct Within {
    /// Levels of bodies.
    levels: usize,
    draws: bool,
}

/// Looks into `graph`, itself at level `depth`; bodies may be shared, so each is looked into once.
fn within(
    graph: &Graph,
    depth: usize,
    known: &mut HashMap<*const Graph, Within>,
) -> Result<Within, ModelError> {
    let too_deep = || refuse(format!("graphs are nested more than {MAX_BODY_DEPTH} deep"));
    let mut all = Within::default();
    for node in &graph.nodes {
        all.draws |= matches!(node.op, Op::RandomLike(_));
        for id in node.op.bodies() {
            let BodyId(at) = id;
            let Some(body) = graph.bodies.get(at) else {
                return refuse(format!(
                    "node `{}`: its body is {at}, there are {}",
                    node.name,
                    graph.bodies.len()
                ));
            };
            if depth == MAX_BODY_DEPTH {
                return too_deep();
            }
            let inner = match known.get(&Arc::as_ptr(body)) {
                Some(&inner) => inner,
                None => {
                    check_graph(body)?;
                    within(body, depth + 1, known)?
                }
            };
            known.insert(Arc::as_ptr(body), inner);
            if depth + 1 + inner.levels > MAX_BODY_DEPTH {
                return too_deep();
            }
            check_counts(node, body)?;
            if inner.draws && !matches!(node.op, Op::If(_)) {
                return refuse(format!(
                    "node `{}`: random numbers that each iteration draws anew are not supported",
                    node.name
                ));
            }
            all.levels = all.levels.max(1 + inner.levels);
            all.draws |= inner.draws;
        }
    }
    Ok(all)
}

/// Holds what a node of control flow gives and wants against what its body takes and makes.
fn check_counts(node: &Node, body: &Graph) -> Result<(), ModelError> {
    let given = node.inputs.len();
    // Operands at least; what the body takes, makes at least, and what becomes of that.
    let (operands, takes, makes, results) = match &node.op {
        Op::If(_) => (1, given.saturating_sub(1), 0, body.outputs.len()),
        Op::Loop(op) => (
            op.carried.saturating_add(2),
            given,
            op.carried.saturating_add(1),
            body.outputs.len().saturating_sub(1),
        ),
        Op::Scan(op) => {
            let made = op.carried.saturating_add(op.outputs.len());
            let operands = op.carried.saturating_add(op.inputs.len().max(1));
            (operands, given, made, made)
        }
        _ => return Ok(()),
    };
    let name = &node.name;
    if given < operands {
        return refuse(format!(
            "node `{name}`: {given} operands, {operands} wanted"
        ));
    }
    if body.inputs.len() != takes {
        let wanted = body.inputs.len();
        return refuse(format!(
            "node `{name}`: its body takes {wanted} values, {takes} are given"
        ));
    }
    let (got, wanted) = (body.outputs.len(), makes.max(node.outputs.len()));
    match got >= makes && results >= node.outputs.len() {
        true => Ok(()),
        false => refuse(format!(
            "node `{name}`: its body makes {got} values, {wanted} are wanted"
        )),
    }
}

fn check_node(graph: &Graph, node: &Node, known: &mut [bool]) -> Result<(), ModelError> {
    let user = || format!("node `{}`", node.name);
    for &id in node.inputs.iter().flatten() {
        let name = name_of(graph, id, &user())?;
        if !known[id.0] {
            return refuse(format!("{} reads `{name}` before it is made", user()));
        }
    }
    for &id in node.outputs.iter().flatten() {
        let name = name_of(graph, id, &user())?;
        if std::mem::replace(&mut known[id.0], true) {
            return refuse(format!("{} makes `{name}`, which exists already", user()));
        }
    }
    Ok(())
}

/// The name of a value that `user` has the number of.
fn name_of<'g>(graph: &'g Graph, ValueId(id): ValueId, user: &str) -> Result<&'g str, ModelError> {
    match graph.values.get(id) {
        Some(value) => Ok(&value.name),
        None => refuse(format!(
            "{user} name value {id}, there are {}",
            graph.values.len()
        )),
    }
}

fn refuse<T>(reason: String) -> Result<T, ModelError> {
    Err(ModelError::Graph { reason })
}
