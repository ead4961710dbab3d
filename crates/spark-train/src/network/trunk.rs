//! A network cut in two: what training cannot change, and the rest.
//!
//! ```text
//! inputs ──trunk──> frontier ──rest: adapted layers and what is behind them──> outputs
//!           once for each sample, kept on the disk        every step
//! ```
//!
//! With adapters on the last layers alone, nearly all of a step is the same forward pass in every epoch. A node belongs to the rest if it
//! hangs on a factor, or if its operands are kept anyway, as those of an adapted layer's frozen product are. Extents that nodes compute of other
//! shapes are computed where they are read, as they are no sample's.
//!
//! Deliberately absent: a frontier of fewer bytes somewhere before the last frozen node.

use std::collections::BTreeSet;
use std::path::Path;

use spark_onnx::{Model, ModelError, RunOptions};
use spark_onnx_graph::Tensor;
use spark_onnx_graph::graph::{Dim, Graph, Node, Op, Value, ValueId, bind};

use super::head::without_unneeded;
use crate::error::{Result, TrainError};
use crate::exact::exact;
use crate::trainer::{Sample, SampleWriter, Samples, StoredSamples};

/// The part of a network that training cannot change: [`AdaptedNetwork::cut`](crate::AdaptedNetwork::cut).
#[derive(Debug, Clone)]
pub struct Trunk {
    graph: Graph,
    /// Inputs of the network that the rest reads too.
    carried: Vec<String>,
    /// All inputs of the network.
    known: Vec<String>,
}

/// Cuts a graph where nodes that hang on these inputs begin to read: what is left of it, the trunk, and what the rest reads that hangs on none of
/// them. What is `kept` the rest may read anyway.
pub(super) fn cut(
    graph: &mut Graph,
    (factors, kept): (&BTreeSet<ValueId>, &BTreeSet<ValueId>),
    of_one: &[(&str, Vec<usize>)],
) -> Result<(Trunk, BTreeSet<ValueId>)> {
    let Split {
        rest,
        frontier,
        read,
    } = split(graph, factors, kept);
    let mut trunk = graph.clone();
    let is_input = |id: &ValueId| graph.inputs.contains(id);
    let (carried, computed): (Vec<ValueId>, Vec<ValueId>) =
        frontier.iter().partition(|id| is_input(id));
    if computed.is_empty() {
        return Err(TrainError::NoTrunk);
    }
    trunk.outputs = computed.clone();
    trunk.nodes = without_unneeded(trunk.nodes, &trunk.outputs);
    let of_trunk: BTreeSet<ValueId> = operands(&trunk.nodes).collect();
    trunk.inputs.retain(|id| of_trunk.contains(id));

    let own = graph.inputs.iter().filter(|id| !factors.contains(id));
    let known: Vec<String> = own.map(|&id| graph.value(id).name.clone()).collect();
    if let Some((name, _)) = of_one
        .iter()
        .find(|(name, _)| !known.iter().any(|k| k == name))
    {
        let name = (*name).to_owned();
        return Err(ModelError::InputUnknown { name }.into());
    }
    declare(graph, &trunk, &computed, of_one)?;
    let name = |id: &ValueId| graph.value(*id).name.clone();
    let carried_names = carried.iter().map(name).collect();
    graph.nodes = rest;
    let mut inputs = computed;
    inputs.extend(carried);
    inputs.extend(graph.inputs.iter().filter(|id| factors.contains(id)));
    graph.inputs = inputs;
    let trunk = Trunk {
        graph: trunk,
        carried: carried_names,
        known,
    };
    Ok((trunk, read))
}

/// Gives values that the trunk computes the types that they have as inputs of `rest`.
fn declare(
    rest: &mut Graph,
    trunk: &Graph,
    computed: &[ValueId],
    of_one: &[(&str, Vec<usize>)],
) -> Result<()> {
    let is_read = |name: &str| trunk.inputs.iter().any(|&id| trunk.value(id).name == name);
    // An extent of 1 may be something else's: for two samples it is not 2.
    for n in [2, 1] {
        let read = of_one.iter().filter(|(name, _)| is_read(name));
        let shapes: Vec<(&str, Vec<usize>)> = read
            .map(|(name, shape)| {
                let others = shape.iter().skip(1).copied();
                (*name, std::iter::once(n).chain(others).collect())
            })
            .collect();
        let bound = bind(trunk, &shapes)?;
        for (&id, &as_bound) in computed.iter().zip(bound.outputs()) {
            let ty = &bound.value(as_bound).ty;
            let value: &mut Value = &mut rest.values[id.0];
            if ty.shape.first() != Some(&n) {
                return Err(TrainError::NotBySample {
                    name: value.name.clone(),
                    shape: ty.shape.clone(),
                    n,
                });
            }
            let others = ty.shape[1..].iter().map(|&extent| Dim::Known(extent));
            value.shape = Some(std::iter::once(Dim::Unknown).chain(others).collect());
            value.dtype = Some(ty.dtype);
        }
    }
    Ok(())
}

impl Trunk {
    /// What it computes; its outputs are what the rest of the network reads.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Whether both give the rest the same values.
    pub(super) fn is_cut_as(&self, other: &Self) -> bool {
        self.graph.outputs == other.graph.outputs && self.carried == other.carried
    }

    /// The samples of the rest: what the trunk makes of those of the whole network, one after the other, in a file without a name in `folder`.
    /// `seen` is told how many are done.
    ///
    /// # Errors
    ///
    /// [`TrainError::Sample`] for one that cannot be read; [`TrainError::Model`] for one that the network does not take;
    /// [`TrainError::NotExact`] for options of another precision than fp32; [`TrainError::Io`] naming the folder.
    pub fn cached(
        &self,
        samples: &dyn Samples,
        folder: &Path,
        options: &RunOptions,
        mut seen: impl FnMut(usize),
    ) -> Result<StoredSamples> {
        let mut session = Model::from_graph(self.graph.clone(), &exact(options)?)?.session();
        let mut writer = SampleWriter::new(folder)?;
        let read: BTreeSet<&str> = {
            let inputs = self.graph.inputs.iter();
            inputs
                .map(|&id| self.graph.value(id).name.as_str())
                .collect()
        };
        for index in 0..samples.len() {
            let sample = samples.sample(index);
            let sample = sample.map_err(|source| TrainError::Sample { index, source })?;
            self.check(&sample)?;
            let given = sample.inputs.iter();
            let given: Vec<(&str, &Tensor)> = given
                .filter(|(name, _)| read.contains(name.as_str()))
                .map(|(name, tensor)| (name.as_str(), tensor))
                .collect();
            let mut inputs = session.run(&given)?;
            let carried = sample.inputs.into_iter();
            inputs.extend(carried.filter(|(name, _)| self.carried.contains(name)));
            writer.push(&Sample {
                inputs,
                targets: sample.targets,
            })?;
            seen(index + 1);
        }
        writer.finish()
    }
}

impl Trunk {
    /// Refuses what the whole network would refuse.
    fn check(&self, sample: &Sample) -> Result<()> {
        let has = |name: &String| sample.inputs.iter().any(|(of, _)| of == name);
        if let Some(name) = self.known.iter().find(|name| !has(name)) {
            return Err(ModelError::InputMissing { name: name.clone() }.into());
        }
        let mut given = sample.inputs.iter();
        match given.find(|(name, _)| !self.known.contains(name)) {
            Some((name, _)) => Err(ModelError::InputUnknown { name: name.clone() }.into()),
            None => Ok(()),
        }
    }
}

/// Nodes of the rest, and what they read that they do not make, but for factors and constants.
struct Split {
    rest: Vec<Node>,
    frontier: BTreeSet<ValueId>,
    /// What it reads that hangs on no factor, made by it or not; no constants.
    read: BTreeSet<ValueId>,
}

fn split(graph: &Graph, factors: &BTreeSet<ValueId>, kept: &BTreeSet<ValueId>) -> Split {
    let mut trained = factors.clone();
    let is_constant = |id: &ValueId| graph.value(*id).constant.is_some();
    // Constants, and what hangs on extents and constants alone.
    let mut by_extents: BTreeSet<ValueId> = BTreeSet::new();
    for node in &graph.nodes {
        let mut operands = node.inputs.iter().flatten();
        let results = node.outputs.iter().flatten();
        if operands.clone().any(|id| trained.contains(id)) {
            trained.extend(results);
        } else if matches!(node.op, Op::Shape(_) | Op::Size(_))
            || operands.all(|id| is_constant(id) || by_extents.contains(id))
        {
            by_extents.extend(results);
        }
    }
    let mut needed: BTreeSet<ValueId> = graph.outputs.iter().chain(kept).copied().collect();
    let of_rest = |id: &ValueId| trained.contains(id) || by_extents.contains(id);
    let mut is_rest = vec![false; graph.nodes.len()];
    for (node, is_rest) in graph.nodes.iter().zip(&mut is_rest).rev() {
        let wanted = node.outputs.iter().flatten();
        let mut wanted = wanted.filter(|id| needed.contains(id)).peekable();
        *is_rest = wanted.peek().is_some() && wanted.all(of_rest);
        if *is_rest {
            needed.extend(node.inputs.iter().flatten());
        }
    }
    for (node, is_rest) in graph.nodes.iter().zip(&mut is_rest).rev() {
        let mut wanted = node.outputs.iter().flatten();
        let mut operands = node.inputs.iter().flatten();
        *is_rest |= wanted.any(|id| needed.contains(id))
            && operands.all(|id| is_constant(id) || needed.contains(id));
    }
    let of_rest = graph
        .nodes
        .iter()
        .zip(is_rest)
        .filter(|(_, is_rest)| *is_rest);
    let rest: Vec<Node> = of_rest.map(|(node, _)| node.clone()).collect();
    let hangs = |id: &ValueId| is_constant(id) || trained.contains(id);
    let read = operands(&rest).filter(|id| !hangs(id)).collect();
    for id in rest.iter().flat_map(|node| node.outputs.iter().flatten()) {
        needed.remove(id);
    }
    needed.retain(|id| !is_constant(id) && !factors.contains(id));
    Split {
        rest,
        frontier: needed,
        read,
    }
}

fn operands(nodes: &[Node]) -> impl Iterator<Item = ValueId> {
    nodes
        .iter()
        .flat_map(|node| node.inputs.iter().flatten().copied())
}
