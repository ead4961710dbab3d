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

use std::collections::BTreeSet;

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
