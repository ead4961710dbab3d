//! Batch normalisation into the weights of the convolution before it, so that bytes are what both give together.
//!
//! ```text
//! s = scale / sqrt(variance + epsilon)      w' = w s      b' = (b - mean) s + shift      in f64
//! ```
//!
//! Deliberately absent: normalisation after matrices, and of what something else reads too.

use std::collections::{BTreeMap, BTreeSet};

use super::names::Names;
use crate::graph::{BatchNormalization, Graph, Node, Op, ValueId};
use crate::{ModelError, Tensor};

/// Folds every normalisation on constants into a convolution with constant weights.
pub(super) fn fold(graph: &mut Graph) -> Result<(), ModelError> {
    let mut names = Names::of(graph);
    let mut readers: BTreeMap<ValueId, usize> = BTreeMap::new();
    let read = graph.nodes.iter().flat_map(|n| n.inputs.iter().flatten());
    for id in read.chain(&graph.outputs) {
        *readers.entry(*id).or_default() += 1;
    }
    let mut gone = BTreeSet::new();
    for at in 0..graph.nodes.len() {
        let Some((before, fold)) = Fold::of(graph, &readers, at) else {
            continue;
        };
        let result = graph.nodes[at].outputs[0];
        let name = graph.nodes[before].name.clone();
        let weights = names.constant(graph, &format!("{name}_weights"), fold.weights()?);
        let bias = names.constant(graph, &format!("{name}_bias"), fold.bias()?);
        let conv = &mut graph.nodes[before];
        conv.inputs = vec![conv.inputs[0], Some(weights), Some(bias)];
        conv.outputs = vec![result];
        gone.insert(at);
    }
    let mut at = 0..;
    let mut is_kept = || at.next().is_some_and(|at| !gone.contains(&at));
    graph.nodes.retain(|_| is_kept());
    Ok(())
}

/// A convolution and what normalises its result.
struct Fold {
    shape: Vec<usize>,
    weights: Vec<f32>,
    /// A factor and an addend per output channel.
    factors: Vec<f64>,
    addends: Vec<f64>,
}

impl Fold {
    /// The node before the normalisation at `at`, and both as one.
    fn of(graph: &Graph, readers: &BTreeMap<ValueId, usize>, at: usize) -> Option<(usize, Self)> {
        let node = &graph.nodes[at];
        let Op::BatchNormalization(BatchNormalization { epsilon }) = &node.op else {
            return None;
        };
        let [Some(x), scale, shift, mean, variance] = node.inputs[..] else {
            return None;
        };
        // Of a graph made by hand the result may be missing.
        node.outputs.first().copied().flatten()?;
        (readers.get(&x) == Some(&1)).then_some(())?;
        let makes = |node: &Node| node.outputs == [Some(x)] && matches!(node.op, Op::Conv(_));
        let before = graph.nodes[..at].iter().position(makes)?;
        let conv = &graph.nodes[before];
        let constant = |id: Option<ValueId>| graph.value(id?).constant.as_deref();
        let weights = constant(conv.inputs.get(1).copied().flatten())?;
        let n = *weights.shape().first()?;
        let values = |tensor: &Tensor| -> Option<Vec<f64>> {
            let values = tensor.as_f32().filter(|values| values.len() == n)?;
            Some(values.iter().map(|&value| f64::from(value)).collect())
        };
        let list = |id| values(constant(id)?);
        let (scale, shift) = (list(scale)?, list(shift)?);
        let (mean, variance) = (list(mean)?, list(variance)?);
        let bias = match conv.inputs.get(2).copied().flatten() {
            None => vec![0.0; n],
            own => list(own)?,
        };
        let factor = |out: usize| scale[out] / (variance[out] + f64::from(*epsilon)).sqrt();
        let factors: Vec<f64> = (0..n).map(factor).collect();
        let addend = |out: usize| (bias[out] - mean[out]) * factors[out] + shift[out];
        let fold = Self {
            shape: weights.shape().to_vec(),
            weights: weights.as_f32()?.to_vec(),
            addends: (0..n).map(addend).collect(),
            factors,
        };
        fold.is_finite().then_some((before, fold))
    }

    /// Weights as they are with the normalisation.
    fn values(&self) -> impl Iterator<Item = f32> {
        let depth = (self.weights.len() / self.factors.len().max(1)).max(1);
        let weights = self.weights.iter().enumerate();
        weights.map(move |(at, w)| (f64::from(*w) * self.factors[at / depth]) as f32)
    }

    fn is_finite(&self) -> bool {
        let addends = self.addends.iter().map(|&addend| addend as f32);
        self.values().chain(addends).all(f32::is_finite)
    }

    fn weights(&self) -> Result<Tensor, ModelError> {
        Tensor::from_f32(self.shape.clone(), self.values().collect())
    }

    fn bias(&self) -> Result<Tensor, ModelError> {
        let addends = self.addends.iter().map(|&addend| addend as f32);
        Tensor::from_f32([self.addends.len()], addends.collect())
    }
}
