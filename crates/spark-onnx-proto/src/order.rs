//! Who makes which value, and an order in which every value is made before it is used.
//!
//! ```text
//! producers   value name -> node        each at most once, and no input or constant again
//! in order already?  keep it  :  take the first node whose operands are all made (Kahn)
//! ```
//!
//! Source: A. B. Kahn, "Topological sorting of large networks" (1962); always the
//! earliest ready node is taken, so the order follows the file as far as it can.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use crate::error::ProtoError;
use crate::functions::FlatNode;

/// Nodes named in the message about a cycle.
const NAMED_IN_CYCLE: usize = 8;

/// Positions of `nodes` in execution order. `is_given` tells inputs and constants.
///
/// # Errors
///
/// [`ProtoError::Duplicate`] for a value that is made twice or given as well,
/// [`ProtoError::Dangling`] for one that nobody makes, [`ProtoError::Cycle`] where nodes need each
/// other's results.
pub fn execution_order(
    nodes: &[FlatNode<'_>],
    is_given: impl Fn(&str) -> bool,
) -> Result<Vec<usize>, ProtoError> {
    let mut producers: HashMap<&str, usize> = HashMap::new();
    for (index, node) in nodes.iter().enumerate() {
        for output in node.outputs.iter().filter(|o| !o.is_empty()) {
            if is_given(output) || producers.insert(output, index).is_some() {
                return Err(ProtoError::Duplicate {
                    what: "value",
                    name: output.to_string(),
                });
            }
        }
    }
    let mut needs: Vec<Vec<usize>> = Vec::with_capacity(nodes.len());
    let mut in_order = true;
    for (index, node) in nodes.iter().enumerate() {
        let mut own = Vec::new();
        // What its graphs read must be there as well as its own operands.
        let read = node.inputs.iter().chain(node.captures());
        for input in read.filter(|i| !i.is_empty()) {
            match producers.get(input.as_ref()) {
                Some(&producer) => {
                    in_order &= producer < index;
                    own.push(producer);
                }
                None if is_given(input) => {}
                None => {
                    return Err(ProtoError::Dangling {
                        user: format!("node `{}` ({})", node.name, node.qualified()),
                        name: input.to_string(),
                    });
                }
            }
        }
        needs.push(own);
    }
    if in_order {
        return Ok((0..nodes.len()).collect());
    }
    sort(nodes, &needs)
}

fn sort(nodes: &[FlatNode<'_>], needs: &[Vec<usize>]) -> Result<Vec<usize>, ProtoError> {
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    let mut n_missing: Vec<usize> = Vec::with_capacity(nodes.len());
    for (index, own) in needs.iter().enumerate() {
        n_missing.push(own.len());
        for &producer in own {
            users[producer].push(index);
        }
    }
    let mut ready: BinaryHeap<Reverse<usize>> = (0..nodes.len())
        .filter(|&i| n_missing[i] == 0)
        .map(Reverse)
        .collect();
    let mut order = Vec::with_capacity(nodes.len());
    while let Some(Reverse(index)) = ready.pop() {
        order.push(index);
        for &user in &users[index] {
            n_missing[user] -= 1;
            if n_missing[user] == 0 {
                ready.push(Reverse(user));
            }
        }
    }
    if order.len() == nodes.len() {
        return Ok(order);
    }
    Err(cycle(nodes, needs, &n_missing))
}

/// Walks from a stuck node to one it waits for until a node comes round again.
fn cycle(nodes: &[FlatNode<'_>], needs: &[Vec<usize>], n_missing: &[usize]) -> ProtoError {
    let stuck = |index: &usize| n_missing[*index] > 0;
    let mut path = Vec::new();
    let mut seen = vec![false; nodes.len()];
    let mut current = (0..nodes.len()).find(|i| stuck(i));
    while let Some(index) = current.filter(|&i| !seen[i]) {
        seen[index] = true;
        path.push(index);
        current = needs[index].iter().copied().find(|i| stuck(i));
    }
    let start = path.iter().position(|&i| Some(i) == current).unwrap_or(0);
    let around = path[start..].iter().rev().take(NAMED_IN_CYCLE);
    ProtoError::Cycle {
        nodes: around.map(|&i| nodes[i].name.clone()).collect(),
    }
}
