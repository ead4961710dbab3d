//! The products of a graph that can be of integers.
//!
//! Deliberately absent: whether the engine has a product of integers for each (`join_quantised` decides).

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::super::chosen::refused;
use super::readers::Readers;
use crate::graph::{Conv, Gemm, Graph, Node, Op, Unary, ValueId};
use crate::plan::digest;
use crate::stages::head_of;
use crate::{DType, ModelError, Tensor};

/// So many products of two bytes fit 32 bits whatever they are.
const MAX_DEPTH: usize = i32::MAX as usize / (255 * 255);

/// A product that stays in f32.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeptProduct {
    /// Name of the node, or of its result where several nodes share a name.
    pub name: String,
    /// Why it stays.
    pub reason: &'static str,
}

/// The reason of a product that is no part of the head.
const BEHIND_VALUES: &str = "how many rows it gets hangs on values";

/// The reason of a product whose weights come out of a DequantizeLinear.
pub(super) const QUANTISED: &str = "already quantised in the file";

/// The products of `graph` that no calibration reaches, as how many rows they get hangs on values: they stay in f32.
///
/// # Errors
///
/// [`ModelError::Graph`] for a graph that breaks an invariant of [`Graph`].
pub fn products_behind_values(graph: &Graph) -> Result<Vec<KeptProduct>, ModelError> {
    let of_head = made_in_head(graph)?;
    let mut names = ProductNames::of(graph);
    let products = graph.nodes.iter().filter(|node| kind(node).is_some());
    let named = products.map(|node| (node, names.of_node(graph, node)));
    let behind = named.filter(|(node, _)| !is_within(node, &of_head));
    let kept = behind.map(|(_, name)| KeptProduct {
        name,
        reason: BEHIND_VALUES,
    });
    Ok(kept.collect())
}

/// What stands before lengths that values say.
fn made_in_head(graph: &Graph) -> Result<BTreeSet<ValueId>, ModelError> {
    let head = head_of(graph.clone())?;
    let made = head.nodes.iter().flat_map(|node| &node.outputs);
    Ok(made.flatten().copied().collect())
}

fn is_within(node: &Node, made: &BTreeSet<ValueId>) -> bool {
    node.outputs.iter().flatten().all(|id| made.contains(id))
}

/// What kind of product it is.
#[derive(Debug, Clone)]
pub(super) enum Kind {
    /// Weights `[out, in / groups, window...]`.
    Conv(Conv),
    /// Weights `[in, out]`.
    Matrix,
    /// Weights `[out, in]`.
    Transposed,
}

/// One product, and what is around it.
#[derive(Debug, Clone)]
pub(super) struct Product {
    /// The name of the node, or of its result where several nodes share a name.
    pub(super) name: String,
    pub(super) kind: Kind,
    /// What enters.
    pub(super) x: ValueId,
    /// What the node gives.
    pub(super) result: ValueId,
    /// What leaves: after the Relu or Clip that follows.
    pub(super) y: ValueId,
    pub(super) weights: Arc<Tensor>,
    /// A value per output channel.
    pub(super) bias: Option<Arc<Tensor>>,
    /// Whether the operator has a third operand.
    pub(super) takes_bias: bool,
}

impl Product {
    /// Groups of channels.
    pub(super) fn groups(&self) -> usize {
        match &self.kind {
            Kind::Conv(conv) => conv.groups.max(1),
            Kind::Matrix | Kind::Transposed => 1,
        }
    }

    /// Output channels.
    pub(super) fn n_out(&self) -> usize {
        let shape = self.weights.shape();
        match self.kind {
            Kind::Matrix => shape[1],
            Kind::Conv(_) | Kind::Transposed => shape[0],
        }
    }

    /// Inputs of one output: those of its group, times the window.
    pub(super) fn depth(&self) -> usize {
        self.weights.len() / self.n_out().max(1)
    }

    /// The axis of the output channels.
    pub(super) fn axis(&self) -> i64 {
        match self.kind {
            Kind::Matrix => 1,
            Kind::Conv(_) | Kind::Transposed => 0,
        }
    }

    /// Weights as `[out][in]`.
    pub(super) fn rows(&self) -> Vec<f32> {
        self.transposed(&self.weights.to_f32())
    }

    /// A number that other weights or another bias hardly have.
    pub(super) fn digest(&self) -> u64 {
        let bias = self.bias.iter().flat_map(|bias| bias.to_f32());
        digest(self.rows().into_iter().chain(bias))
    }

    /// The order of the file as `[out][in]`; [`Product::as_in_file`] turns it back.
    fn transposed<T: Copy>(&self, values: &[T]) -> Vec<T> {
        let (n, depth) = (self.n_out(), self.depth());
        match self.kind {
            Kind::Matrix => (0..n * depth)
                .map(|at| values[at % depth * n + at / depth])
                .collect(),
            Kind::Conv(_) | Kind::Transposed => values.to_vec(),
        }
    }

    /// `[out][in]` in the order of the file.
    pub(super) fn as_in_file<T: Copy>(&self, rows: &[T]) -> Vec<T> {
        let (n, depth) = (self.n_out(), self.depth());
        match self.kind {
            Kind::Matrix => (0..n * depth)
                .map(|at| rows[at % n * depth + at / n])
                .collect(),
            Kind::Conv(_) | Kind::Transposed => rows.to_vec(),
        }
    }
}

/// The products of `graph` but those in `kept`, and those that stay in f32 with the reason.
pub(super) fn of(
    graph: &Graph,
    kept: &BTreeSet<String>,
) -> Result<(Vec<Product>, Vec<KeptProduct>), ModelError> {
    let is_there = |name: &&String| graph.nodes.iter().any(|node| node.name == **name);
    if let Some(name) = kept.iter().find(|name| !is_there(name)) {
        return Err(refused(name, "the network has no node of this name"));
    }
    let search = Search {
        graph,
        readers: Readers::of(graph),
        dequantised: dequantised(graph),
    };
    let of_head = made_in_head(graph)?;
    let mut names = ProductNames::of(graph);
    let (mut products, mut stay) = (Vec::new(), Vec::new());
    for (at, node) in graph.nodes.iter().enumerate() {
        let Some(kind) = kind(node) else { continue };
        let name = names.of_node(graph, node);
        let found = match kept.contains(&node.name) {
            true => Err("it was asked to"),
            false if !is_within(node, &of_head) => Err(BEHIND_VALUES),
            false => search.product(at, kind),
        };
        match found {
            Ok(product) => products.push(Product { name, ..product }),
            Err(reason) => stay.push(KeptProduct { name, reason }),
        }
    }
    Ok((products, stay))
}

/// Names that tell all products of a graph apart, the same whenever it is read.
struct ProductNames<'g> {
    /// How many products have each name.
    counts: HashMap<&'g str, usize>,
    taken: HashSet<String>,
}

impl<'g> ProductNames<'g> {
    fn of(graph: &'g Graph) -> Self {
        let mut counts = HashMap::new();
        for node in graph.nodes.iter().filter(|node| kind(node).is_some()) {
            *counts.entry(node.name.as_str()).or_default() += 1;
        }
        Self {
            taken: counts.keys().map(|&name| name.to_owned()).collect(),
            counts,
        }
    }

    /// The name of `node`, or of its result where others have that too.
    fn of_node(&mut self, graph: &Graph, node: &Node) -> String {
        let result = node.outputs.first().copied().flatten();
        let Some(result) = result.filter(|_| self.counts[node.name.as_str()] > 1) else {
            return node.name.clone();
        };
        let mut name = graph.value(result).name.clone();
        while !self.taken.insert(name.clone()) {
            name.push('_');
        }
        name
    }
}

fn kind(node: &Node) -> Option<Kind> {
    match &node.op {
        Op::Conv(conv) => Some(Kind::Conv(conv.clone())),
        Op::MatMul(_) => Some(Kind::Matrix),
        Op::Gemm(Gemm { trans_b, .. }) => Some(match trans_b {
            true => Kind::Transposed,
            false => Kind::Matrix,
        }),
        _ => None,
    }
}

/// A graph, and who reads each of its values.
struct Search<'g> {
    graph: &'g Graph,
    readers: Readers,
    /// What comes out of a DequantizeLinear, also transposed or in another shape.
    dequantised: HashSet<ValueId>,
}

fn dequantised(graph: &Graph) -> HashSet<ValueId> {
    let mut found = HashSet::new();
    for node in &graph.nodes {
        let is_of_one = || matches!(node.inputs.first(), Some(Some(x)) if found.contains(x));
        let is_found = match &node.op {
            Op::DequantizeLinear(_) => true,
            Op::Transpose(_) | Op::Reshape(_) | Op::Cast(_) | Op::Unary(Unary::Identity) => {
                is_of_one()
            }
            _ => false,
        };
        if is_found {
            found.extend(node.outputs.iter().flatten().copied());
        }
    }
    found
}

impl Search<'_> {
    fn product(&self, at: usize, kind: Kind) -> Result<Product, &'static str> {
        let node = &self.graph.nodes[at];
        let input = |at: usize| node.inputs.get(at).copied().flatten();
        let constant = |id: ValueId| self.graph.value(id).constant.clone();
        if let Op::Gemm(gemm) = &node.op
            && (gemm.alpha != 1.0 || gemm.beta != 1.0 || gemm.trans_a)
        {
            return Err("it has factors, or its first operand is transposed");
        }
        let (Some(x), Some(w)) = (input(0), input(1)) else {
            return Err("an operand is missing");
        };
        let weights = constant(w).ok_or(match self.dequantised.contains(&w) {
            true => QUANTISED,
            false => "its second operand is no constant",
        })?;
        if constant(x).is_some() {
            return Err("what enters is a constant");
        }
        let y = self.end(at);
        let result = node.outputs.first().copied().flatten();
        let (Some(y), Some(result)) = (y, result) else {
            return Err("its result is an output");
        };
        if weights.dtype() != DType::F32 {
            return Err("its weights are not in f32");
        }
        let is_known = match kind {
            Kind::Conv(_) => matches!(weights.shape().len(), 3..=4),
            Kind::Matrix | Kind::Transposed => weights.shape().len() == 2,
        };
        if !is_known || weights.is_empty() {
            return Err("its weights are of a shape that integers have no product for");
        }
        let bias = match input(2) {
            None => None,
            Some(id) => Some(constant(id).ok_or("its bias is no constant")?),
        };
        let product = Product {
            name: node.name.clone(),
            kind,
            x,
            result,
            y,
            weights,
            bias,
            takes_bias: !matches!(node.op, Op::MatMul(_)),
        };
        if product.depth() > MAX_DEPTH {
            return Err("its sums may pass 32 bits");
        }
        let n = product.n_out();
        let is_per_channel = |bias: &Arc<Tensor>| {
            let (last, others) = match bias.shape() {
                [others @ .., last] => (*last, others),
                [] => (1, &[][..]),
            };
            bias.dtype() == DType::F32 && last == n && others.iter().all(|&extent| extent == 1)
        };
        if !product.bias.iter().all(is_per_channel) {
            return Err("its bias is not a value per output channel");
        }
        Ok(product)
    }

    /// Where the result of the product at `at` is quantised; none if that is an output.
    fn end(&self, at: usize) -> Option<ValueId> {
        let mut last = at;
        loop {
            let [Some(result)] = self.graph.nodes[last].outputs[..] else {
                return None;
            };
            if self.readers.is_output(result) {
                return None;
            }
            match self.readers.only(result) {
                Some(next) if self.is_range(next, result) => last = next,
                _ => return Some(result),
            }
        }
    }

    /// Whether the node at `next` does no more to `value` than a range of bytes does.
    fn is_range(&self, next: usize, value: ValueId) -> bool {
        let node = &self.graph.nodes[next];
        let is_constant = |id: &ValueId| self.graph.value(*id).constant.is_some();
        let first = node.inputs.first() == Some(&Some(value));
        let follows = match &node.op {
            Op::Unary(Unary::Relu) => true,
            Op::Clip(_) => node.inputs[1..].iter().flatten().all(is_constant),
            _ => false,
        };
        let is_output = |id: &ValueId| self.readers.is_output(*id);
        first && follows && !node.outputs.iter().flatten().any(is_output)
    }
}
