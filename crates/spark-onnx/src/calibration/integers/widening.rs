//! Products in 16 bits, as f16 and bf16 networks have them, as products in f32 between casts.
//!
//! ```text
//! x f16 ── Conv ── Relu ── y f16 ── Conv ──      x ─Cast─ Conv ── Relu ── y' ── Conv ──      f32
//!                             └─ Add                                      └─ Cast ── y ── Add
//! ```
//!
//! A product is taken with the normalisation and the range (Relu, Clip) that follow it, as far as nothing else reads what is
//! between. The engine computes 16 bits in f32 anyway, so what changes is where values are rounded. Which products become
//! integers is decided later: those that do not stay in f32.
//!
//! Deliberately absent: products whose result is an output, which stay as they are, as all do in f32; everything else of
//! the network, which goes on in 16 bits.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::names::Names;
use super::readers::Readers;
use crate::graph::{Cast, Graph, Node, Op, Unary, Value, ValueId};
use crate::{DType, ModelError, Tensor};

/// A product, and the nodes after it that go with it.
struct Chain {
    dtype: DType,
    nodes: Vec<usize>,
}

/// Widens every product of constants in 16 bits.
pub(super) fn widen(graph: &mut Graph) -> Result<(), ModelError> {
    let chains = Search {
        graph,
        readers: Readers::of(graph),
    };
    let chains = chains.all();
    if chains.is_empty() {
        return Ok(());
    }
    let members: BTreeSet<usize> = chains
        .iter()
        .flat_map(|c| c.nodes.iter().copied())
        .collect();
    let heads: BTreeSet<usize> = chains.iter().map(|chain| chain.nodes[0]).collect();
    let ends = chains.iter().map(|chain| {
        let last = chain.nodes[chain.nodes.len() - 1];
        (last, chain.dtype)
    });
    let ends: BTreeMap<usize, DType> = ends.collect();
    let mut widened = Widened {
        names: Names::of(graph),
        wide: HashMap::new(),
    };
    let nodes = std::mem::take(&mut graph.nodes).into_iter().enumerate();
    let mut written = Vec::new();
    for (at, mut node) in nodes {
        if !members.contains(&at) {
            written.push(node);
            continue;
        }
        if heads.contains(&at) {
            let x = node.inputs[0];
            node.inputs[0] = x.map(|x| widened.value(graph, x, &mut written));
        }
        for input in node.inputs[1..].iter_mut().flatten() {
            *input = widened.constant(graph, *input)?;
        }
        let cast = match ends.get(&at) {
            Some(&dtype) => widened.end(graph, &mut node, dtype),
            None => None,
        };
        for id in node.outputs.iter().flatten() {
            graph.values[id.0].dtype = None;
        }
        written.push(node);
        written.extend(cast);
    }
    graph.nodes = written;
    Ok(())
}

/// Values in f32 beside those in 16 bits.
struct Widened {
    names: Names,
    wide: HashMap<ValueId, ValueId>,
}

impl Widened {
    /// `x` in f32: what is cast to it, or else a cast of it.
    fn value(&mut self, graph: &mut Graph, x: ValueId, written: &mut Vec<Node>) -> ValueId {
        if let Some(&wide) = self.wide.get(&x) {
            return wide;
        }
        let wide = self.new_value(graph, x);
        let name = graph.value(wide).name.clone();
        written.push(cast(name, [x, wide], DType::F32));
        self.wide.insert(x, wide);
        wide
    }

    /// Constant `id` in f32.
    fn constant(&mut self, graph: &mut Graph, id: ValueId) -> Result<ValueId, ModelError> {
        if let Some(&wide) = self.wide.get(&id) {
            return Ok(wide);
        }
        let value = graph.value(id);
        let Some(tensor) = &value.constant else {
            return Ok(id);
        };
        let tensor = Tensor::from_f32(tensor.shape(), tensor.to_f32())?;
        let name = format!("{}_f32", value.name);
        let wide = self.names.constant(graph, &name, tensor);
        self.wide.insert(id, wide);
        Ok(wide)
    }

    /// Gives the last node of a chain a result in f32, and the cast of it that makes what it made before.
    fn end(&mut self, graph: &mut Graph, node: &mut Node, dtype: DType) -> Option<Node> {
        let y = node.outputs.first().copied().flatten()?;
        let wide = self.new_value(graph, y);
        node.outputs[0] = Some(wide);
        self.wide.insert(y, wide);
        let name = self.names.unused(&format!("{}_cast", graph.value(y).name));
        Some(cast(name, [wide, y], dtype))
    }

    fn new_value(&mut self, graph: &mut Graph, of: ValueId) -> ValueId {
        let name = format!("{}_f32", graph.value(of).name);
        graph.add_value(Value {
            name: self.names.unused(&name),
            dtype: None,
            shape: None,
            constant: None,
        })
    }
}

fn cast(name: String, [from, to]: [ValueId; 2], dtype: DType) -> Node {
    Node {
        name,
        op: Op::Cast(Cast { to: dtype }),
        inputs: vec![Some(from)],
        outputs: vec![Some(to)],
    }
}

/// A graph, and who reads each of its values.
struct Search<'g> {
    graph: &'g Graph,
    readers: Readers,
}

impl Search<'_> {
    fn all(&self) -> Vec<Chain> {
        let nodes = 0..self.graph.nodes.len();
        nodes.filter_map(|at| self.chain(at)).collect()
    }

    /// The product at `at` and what follows it, if it is one in 16 bits.
    fn chain(&self, at: usize) -> Option<Chain> {
        let node = &self.graph.nodes[at];
        matches!(node.op, Op::Conv(_) | Op::Gemm(_) | Op::MatMul(_)).then_some(())?;
        let x = node.inputs.first().copied().flatten()?;
        let weights = node.inputs.get(1).copied().flatten()?;
        let dtype = self.graph.value(weights).constant.as_ref()?.dtype();
        let is_computed = self.graph.value(x).constant.is_none();
        (is_computed && self.is_short(node, dtype)).then_some(())?;
        let mut nodes = vec![at];
        let mut result = self.result(at)?;
        while let Some(next) = self.follower(result, dtype) {
            nodes.push(next);
            result = self.result(next)?;
        }
        Some(Chain { dtype, nodes })
    }

    /// The one result of a node, which is no output.
    fn result(&self, at: usize) -> Option<ValueId> {
        match self.graph.nodes[at].outputs[..] {
            [Some(result)] if !self.readers.is_output(result) => Some(result),
            _ => None,
        }
    }

    /// The node that alone reads `value`, if it goes with the product before it.
    fn follower(&self, value: ValueId, dtype: DType) -> Option<usize> {
        let next = self.readers.only(value)?;
        let node = &self.graph.nodes[next];
        let follows = matches!(
            node.op,
            Op::BatchNormalization(_) | Op::Unary(Unary::Relu) | Op::Clip(_)
        );
        let is_first = node.inputs.first() == Some(&Some(value));
        // Normalisation belongs to the product: where its result is an output, so is the product's.
        let is_part = matches!(node.op, Op::BatchNormalization(_));
        let goes_on = is_part || self.result(next).is_some();
        (follows && is_first && goes_on && self.is_short(node, dtype)).then_some(next)
    }

    /// Whether all operands of `node` but the first are constants of `dtype`, which has 16 bits.
    fn is_short(&self, node: &Node, dtype: DType) -> bool {
        let is_constant = |id: &ValueId| {
            let constant = self.graph.value(*id).constant.as_ref();
            constant.is_some_and(|tensor| tensor.dtype() == dtype)
        };
        let others = node.inputs.get(1..).unwrap_or_default();
        matches!(dtype, DType::F16 | DType::BF16) && others.iter().flatten().all(is_constant)
    }
}
