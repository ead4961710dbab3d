//! Which layer each block stands in, and in which order.
//!
//! ```text
//! layer 0   a  b        layer(block) = 1 + the largest layer of those that it reads; what reads nothing stands
//! layer 1   c  |                       just above its first reader
//! layer 2      d        |  a place through which a long edge passes
//! ```

use super::blocks::Block;

/// Times that layers are ordered by their neighbours, downwards and upwards.
const N_SWEEPS: usize = 12;
/// Most places of long edges; beyond, they are drawn straight.
const MOST_PASSED: usize = 50_000;

/// One place in a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Item {
    Block(usize),
    /// Of an edge that goes on.
    Passed,
}

/// Places, and the edges between those of neighbouring layers.
#[derive(Debug, Default)]
pub(super) struct Layers {
    pub(super) items: Vec<Item>,
    /// Of each item its layer.
    pub(super) layer: Vec<usize>,
    /// Of each layer its items from left to right.
    pub(super) order: Vec<Vec<usize>>,
    /// Of each item those that it leads to, and those that lead to it.
    pub(super) below: Vec<Vec<usize>>,
    pub(super) above: Vec<Vec<usize>>,
    /// Each edge by the items that it passes, from its first block to its last.
    pub(super) edges: Vec<Vec<usize>>,
}

/// Layers in an order in which few edges cross.
pub(super) fn of(blocks: &[Block]) -> Layers {
    let mut layer = vec![0; blocks.len()];
    let mut is_read_from = vec![false; blocks.len()];
    for (block, it) in blocks.iter().enumerate() {
        for &reader in &it.readers {
            layer[reader] = layer[reader].max(layer[block] + 1);
            is_read_from[reader] = true;
        }
    }
    for (block, it) in blocks.iter().enumerate() {
        let first = it.readers.iter().map(|&reader| layer[reader]).min();
        if let (false, Some(first)) = (is_read_from[block], first) {
            layer[block] = first - 1;
        }
    }
    let n_layers = layer.iter().max().map_or(0, |last| last + 1);
    let mut layers = Layers {
        order: vec![Vec::new(); n_layers],
        ..Layers::default()
    };
    for (block, &layer) in layer.iter().enumerate() {
        layers.add(Item::Block(block), layer);
    }
    let lengths = blocks.iter().enumerate().flat_map(|(block, it)| {
        let (layer, from) = (&layer, layer[block]);
        it.readers
            .iter()
            .map(move |&reader| layer[reader] - from - 1)
    });
    let has_room = lengths.sum::<usize>() <= MOST_PASSED;
    for (block, it) in blocks.iter().enumerate() {
        for &reader in &it.readers {
            let mut edge = vec![block];
            if has_room {
                for passed in layer[block] + 1..layer[reader] {
                    edge.push(layers.add(Item::Passed, passed));
                }
            }
            edge.push(reader);
            for pair in edge.windows(2) {
                layers.below[pair[0]].push(pair[1]);
                layers.above[pair[1]].push(pair[0]);
            }
            layers.edges.push(edge);
        }
    }
    layers.sort();
    layers
}

impl Layers {
    fn add(&mut self, item: Item, layer: usize) -> usize {
        let idx = self.items.len();
        self.items.push(item);
        self.layer.push(layer);
        self.order[layer].push(idx);
        self.below.push(Vec::new());
        self.above.push(Vec::new());
        idx
    }

    /// By barycentres, alternately of those above and below; the order with the fewest crossings stays.
    fn sort(&mut self) {
        let mut position = vec![0.0; self.items.len()];
        let (mut best, mut fewest) = (self.order.clone(), self.n_crossings());
        for sweep in 0..N_SWEEPS {
            let is_downward = sweep % 2 == 0;
            let n_layers = self.order.len();
            for step in 0..n_layers {
                let layer = if is_downward {
                    step
                } else {
                    n_layers - 1 - step
                };
                let neighbours = if is_downward {
                    &self.above
                } else {
                    &self.below
                };
                for (at, &item) in self.order[layer].iter().enumerate() {
                    position[item] = at as f64;
                }
                let mean = |item: usize| match &neighbours[item][..] {
                    [] => position[item],
                    all => all.iter().map(|&it| position[it]).sum::<f64>() / all.len() as f64,
                };
                let mut keyed: Vec<(f64, usize)> = self.order[layer]
                    .iter()
                    .map(|&item| (mean(item), item))
                    .collect();
                keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
                for (at, &(_, item)) in keyed.iter().enumerate() {
                    position[item] = at as f64;
                    self.order[layer][at] = item;
                }
            }
            let n = self.n_crossings();
            if n < fewest {
                (best, fewest) = (self.order.clone(), n);
            }
        }
        self.order = best;
    }

    /// Pairs of edges between neighbouring layers that cross.
    pub(super) fn n_crossings(&self) -> u64 {
        let mut position = vec![0; self.items.len()];
        for order in &self.order {
            for (at, &item) in order.iter().enumerate() {
                position[item] = at;
            }
        }
        let of_layer = |order: &Vec<usize>| {
            let mut ends = Vec::new();
            for &item in order {
                let mut own: Vec<usize> = self.below[item].iter().map(|&it| position[it]).collect();
                own.sort_unstable();
                ends.extend(own);
            }
            inversions(&mut ends)
        };
        self.order.iter().map(of_layer).sum()
    }
}

/// Pairs in the wrong order, counted while they are merged into the right one.
fn inversions(values: &mut Vec<usize>) -> u64 {
    if values.len() < 2 {
        return 0;
    }
    let mut right = values.split_off(values.len() / 2);
    let mut n = inversions(values) + inversions(&mut right);
    let left = std::mem::take(values);
    let (mut i, mut j) = (0, 0);
    while i < left.len() || j < right.len() {
        if j == right.len() || (i < left.len() && left[i] <= right[j]) {
            values.push(left[i]);
            i += 1;
        } else {
            n += (left.len() - i) as u64;
            values.push(right[j]);
            j += 1;
        }
    }
    n
}
