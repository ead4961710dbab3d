//! Memory for time: what the way back needs of the way forth is computed again where it is needed.
//!
//! ```text
//! kept      forth 1  forth 2  forth 3  back 3  back 2  back 1           all that the way back reads, until then
//! again     forth 1  forth 2  forth 3  back 3  forth 2  back 2  forth 1  back 1
//!                  ▲        ▲  what crosses a cut is kept
//! ```
//!
//! The network's nodes are cut into blocks where little crosses, and before the way back through a block it is run again from what crosses
//! into it: one more way forth at most, without the last block. The same nodes compute the same numbers, but for what an engine fuses in one pass alone.
//! Chen, Xu, Zhang and Guestrin, "Training Deep Nets with Sublinear Memory Cost", arXiv 1604.06174 (2016).
//!
//! Deliberately absent: blocks within blocks, which would take less memory for more time; gradients in the estimate, of which a value that many nodes
//! read has many.

use std::collections::{BTreeMap, BTreeSet};

use super::network::WithGradients;
use crate::graph::{Graph, Node, Op, ValueId};

/// Cuts and limits that are tried: each limit is this part of the one before.
const STEP: f64 = 0.8;

impl WithGradients {
    /// The same gradients with results of the network's nodes computed a second time where that is estimated to save memory: the estimate of what is held
    /// at once is the sum of what crosses cuts and of what the way back reads of the largest block. What control flow makes is
    /// kept.
    #[must_use]
    pub fn recomputed(mut self) -> Self {
        let nodes = std::mem::take(&mut self.graph.nodes);
        let (forward, backward) = nodes.split_at(self.n_forward.min(nodes.len()));
        let mut saved = Saved::new(&self, forward, backward);
        let ends = saved.best_ends(forward.len());
        saved.keep_crossing(&ends);
        let mut writer = Again {
            graph: std::mem::take(&mut self.graph),
            forward,
            saved,
            renamed: BTreeMap::new(),
            nodes: forward.to_vec(),
        };
        let mut is_done = vec![false; ends.len()];
        for node in backward {
            for id in node.inputs.iter().flatten() {
                let Some(block) = writer.block_of(*id, &ends) else {
                    continue;
                };
                // The last block has just been run.
                if block + 1 < ends.len() && !std::mem::replace(&mut is_done[block], true) {
                    let start = block.checked_sub(1).map_or(0, |before| ends[before]);
                    writer.block(start..ends[block]);
                }
            }
            let read = |id: &ValueId| *writer.renamed.get(id).unwrap_or(id);
            let inputs = node.inputs.iter().map(|id| id.as_ref().map(read));
            let inputs = inputs.collect();
            writer.nodes.push(Node {
                inputs,
                ..node.clone()
            });
        }
        self.graph = writer.graph;
        self.graph.nodes = writer.nodes;
        self
    }
}

/// What the way back reads of the way forth.
struct Saved {
    /// The node that makes each value of the way forth.
    maker: BTreeMap<ValueId, usize>,
    /// The last node of the way forth that reads each.
    last_reader: BTreeMap<ValueId, usize>,
    /// Values that the way back reads and that may be made again.
    again: BTreeSet<ValueId>,
    bytes: Vec<usize>,
}

impl Saved {
    fn new(trained: &WithGradients, forward: &[Node], backward: &[Node]) -> Self {
        let mut maker = BTreeMap::new();
        let mut last_reader = BTreeMap::new();
        for (position, node) in forward.iter().enumerate() {
            for id in node.inputs.iter().flatten() {
                last_reader.insert(*id, position);
            }
            for id in node.outputs.iter().flatten() {
                maker.insert(*id, position);
            }
        }
        let read: BTreeSet<ValueId> = operands(backward).collect();
        let may = |id: &ValueId| {
            let maker = maker.get(id).map(|&position| &forward[position].op);
            maker.is_some_and(is_repeatable) && !trained.graph.outputs.contains(id)
        };
        let again = read.into_iter().filter(may).collect();
        Self {
            maker,
            last_reader,
            again,
            bytes: trained.value_bytes.clone(),
        }
    }

    fn bytes(&self, id: ValueId) -> usize {
        self.bytes.get(id.0).copied().unwrap_or(0)
    }

    /// Where blocks end, the last one at the end, so that the estimate is least.
    fn best_ends(&self, n_nodes: usize) -> Vec<usize> {
        let mut inside = vec![0; n_nodes];
        for id in &self.again {
            inside[self.maker[id]] += self.bytes(*id);
        }
        // What crosses a cut before a node.
        let mut crossing = vec![0; n_nodes + 1];
        for (id, &made) in &self.maker {
            if let Some(&last) = self.last_reader.get(id) {
                for cost in &mut crossing[made + 1..=last] {
                    *cost += self.bytes(*id);
                }
            }
        }
        let whole: usize = inside.iter().sum();
        let mut best = (whole, vec![n_nodes]);
        let mut limit = whole as f64 * STEP;
        while limit >= 1.0
            && let Some(ends) = cheapest(&inside, &crossing, limit as usize)
        {
            let cuts: usize = ends[..ends.len() - 1]
                .iter()
                .map(|&end| crossing[end])
                .sum();
            let mut start = 0;
            let mut largest = 0;
            for &end in &ends {
                largest = largest.max(inside[start..end].iter().sum());
                start = end;
            }
            if cuts + largest < best.0 {
                best = (cuts + largest, ends);
            }
            limit *= STEP;
        }
        best.1
    }

    /// What later blocks read of earlier ones is not made again.
    fn keep_crossing(&mut self, ends: &[usize]) {
        let (maker, last_reader) = (&self.maker, &self.last_reader);
        self.again.retain(|id| {
            let last = last_reader.get(id);
            last.is_none_or(|&last| block_of(maker[id], ends) == block_of(last, ends))
        });
    }
}

/// Ends of blocks that hold at most `limit` each, with the least sum of what crosses; `None` if one node holds more.
fn cheapest(inside: &[usize], crossing: &[usize], limit: usize) -> Option<Vec<usize>> {
    let n = inside.len();
    // Of the nodes before each: the least cost, and where the last block begins.
    let mut best: Vec<Option<(usize, usize)>> = vec![None; n + 1];
    best[0] = Some((0, 0));
    for end in 1..=n {
        let mut held = 0;
        for start in (0..end).rev() {
            held += inside[start];
            if held > limit {
                break;
            }
            let Some((before, _)) = best[start] else {
                continue;
            };
            let cost = before + if start > 0 { crossing[start] } else { 0 };
            if best[end].is_none_or(|(least, _)| cost < least) {
                best[end] = Some((cost, start));
            }
        }
    }
    let mut ends = vec![n];
    let mut end = n;
    while let (_, start @ 1..) = best[end]? {
        ends.push(start);
        end = start;
    }
    ends.reverse();
    Some(ends)
}

fn block_of(node: usize, ends: &[usize]) -> usize {
    ends.partition_point(|&end| end <= node)
}

/// Writes blocks a second time.
struct Again<'n> {
    graph: Graph,
    forward: &'n [Node],
    saved: Saved,
    /// What stands for values of blocks that were run again.
    renamed: BTreeMap<ValueId, ValueId>,
    nodes: Vec<Node>,
}

impl Again<'_> {
    /// The block whose nodes make the value, if it is to be made again.
    fn block_of(&self, id: ValueId, ends: &[usize]) -> Option<usize> {
        let is_again = self.saved.again.contains(&id);
        is_again.then(|| block_of(self.saved.maker[&id], ends))
    }

    /// Runs nodes again, as far as something that the way back reads hangs on them.
    fn block(&mut self, range: std::ops::Range<usize>) {
        let mut wanted: BTreeSet<ValueId> = {
            let again = self.saved.again.iter().copied();
            again
                .filter(|id| range.contains(&self.saved.maker[id]))
                .collect()
        };
        let mut again = Vec::new();
        for position in range.clone().rev() {
            let node = &self.forward[position];
            if !node.outputs.iter().flatten().any(|id| wanted.contains(id)) {
                continue;
            }
            again.push(position);
            for id in node.inputs.iter().flatten() {
                // What crosses into the block or is kept is there.
                let is_made_here = self
                    .saved
                    .maker
                    .get(id)
                    .is_some_and(|at| range.contains(at));
                if is_made_here && !self.is_kept(*id, &range) {
                    wanted.insert(*id);
                }
            }
        }
        for position in again.into_iter().rev() {
            self.node(position, &wanted);
        }
    }

    /// Whether a value of the block is held anyway.
    fn is_kept(&self, id: ValueId, block: &std::ops::Range<usize>) -> bool {
        let is_read_later = self
            .saved
            .last_reader
            .get(&id)
            .is_some_and(|last| *last >= block.end);
        let made = &self.forward[self.saved.maker[&id]].op;
        is_read_later || self.graph.outputs.contains(&id) || !is_repeatable(made)
    }

    fn node(&mut self, position: usize, wanted: &BTreeSet<ValueId>) {
        let node = &self.forward[position];
        let inputs = node.inputs.iter();
        let inputs = inputs.map(|id| id.map(|id| *self.renamed.get(&id).unwrap_or(&id)));
        let inputs = inputs.collect();
        let mut outputs = Vec::with_capacity(node.outputs.len());
        for id in &node.outputs {
            let id = id.filter(|id| wanted.contains(id));
            outputs.push(id.map(|id| {
                let mut value = self.graph.values[id.0].clone();
                value.name = self.free(format!("{}.again", value.name));
                let again = self.graph.add_value(value);
                self.renamed.insert(id, again);
                again
            }));
        }
        let name = format!("{}.again", node.name);
        self.nodes.push(Node {
            name,
            op: node.op.clone(),
            inputs,
            outputs,
        });
    }

    /// The name, or one like it that no value has.
    fn free(&self, wish: String) -> String {
        let is_taken = |name: &str| self.graph.values.iter().any(|value| value.name == name);
        let mut name = wish.clone();
        let mut count = 1;
        while is_taken(&name) {
            count += 1;
            name = format!("{wish}.{count}");
        }
        name
    }
}

fn is_repeatable(op: &Op) -> bool {
    !op.is_control_flow()
}

fn operands(nodes: &[Node]) -> impl Iterator<Item = ValueId> {
    nodes
        .iter()
        .flat_map(|node| node.inputs.iter().flatten().copied())
}
