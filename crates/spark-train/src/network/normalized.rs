//! Batch normalisations behind convolutions, as part of their weights.
//!
//! ```text
//! conv(x, W) + b --> norm:  (v - mean) * s + shift, s = scale / sqrt(variance + epsilon)
//! conv(x, W s) + (b - mean) s + shift
//! ```
//!
//! The trained graph alone is written so: a pass over the pictures forth and one back become products with a weight. The file's
//! own nodes and constants stay for merging. Means and variances are constants here, as in a network that is run.

use std::collections::BTreeMap;

use spark_onnx_graph::graph::{Graph, Node, Op, ValueId};
use spark_onnx_graph::{DType, Tensor};

use crate::error::Result;

/// A normalisation whose operand nothing but it reads.
pub(super) struct Norm {
    /// Its position among the nodes.
    pub(super) position: usize,
    pub(super) result: ValueId,
    /// By channel.
    pub(super) scale: Vec<f64>,
    shift: Vec<f64>,
}

impl Norm {
    /// The bias of a convolution with the normalisation in it.
    pub(super) fn bias(&self, of_convolution: Option<&Tensor>) -> Result<Tensor> {
        let before = match of_convolution {
            Some(bias) => bias.to_f64(),
            None => vec![0.0; self.scale.len()],
        };
        let terms = before.iter().zip(&self.scale).zip(&self.shift);
        let bias: Vec<f32> = terms.map(|((b, s), t)| (b * s + t) as f32).collect();
        Ok(Tensor::from_f32([bias.len()], bias)?)
    }

    /// A weight `[out, ..]` with the normalisation in it.
    pub(super) fn weight(&self, of_convolution: &Tensor) -> Result<Tensor> {
        let mut values = of_convolution.to_f32();
        let row = (values.len() / self.scale.len().max(1)).max(1);
        for (row, scale) in values.chunks_mut(row).zip(&self.scale) {
            for value in row {
                *value = (f64::from(*value) * scale) as f32;
            }
        }
        Ok(Tensor::from_f32(of_convolution.shape(), values)?)
    }

    /// The scales beside a weight of that many axes.
    pub(super) fn scales(&self, n_axes: usize) -> Result<Tensor> {
        let mut shape = vec![1; n_axes];
        shape[0] = self.scale.len();
        let scale = self.scale.iter().map(|&s| s as f32).collect();
        Ok(Tensor::from_f32(shape, scale)?)
    }
}

/// By the position of a convolution, the normalisation behind it. Biases of these convolutions are constants of f32 or absent.
pub(super) fn norms(graph: &Graph, nodes: &[Node]) -> BTreeMap<usize, Norm> {
    let mut makers: BTreeMap<usize, usize> = BTreeMap::new();
    let mut n_readers: BTreeMap<usize, usize> = BTreeMap::new();
    for (position, node) in nodes.iter().enumerate() {
        for id in node.outputs.iter().flatten() {
            makers.insert(id.0, position);
        }
        for id in node.inputs.iter().flatten() {
            *n_readers.entry(id.0).or_default() += 1;
        }
    }
    for id in &graph.outputs {
        *n_readers.entry(id.0).or_default() += 1;
    }
    let mut found = BTreeMap::new();
    for (position, node) in nodes.iter().enumerate() {
        let Some((x, norm)) = norm(graph, position, node) else {
            continue;
        };
        let maker = makers.get(&x.0).filter(|_| n_readers[&x.0] == 1);
        if let Some(&maker) = maker
            && takes(graph, &nodes[maker], norm.scale.len())
        {
            found.insert(maker, norm);
        }
    }
    found
}

fn floats(graph: &Graph, id: Option<ValueId>) -> Option<&Tensor> {
    let constant = graph.value(id?).constant.as_deref()?;
    (constant.dtype() == DType::F32).then_some(constant)
}

/// Operand and effect of a normalisation by constants.
fn norm(graph: &Graph, position: usize, node: &Node) -> Option<(ValueId, Norm)> {
    let Op::BatchNormalization(op) = &node.op else {
        return None;
    };
    let [Some(x), rest @ ..] = &node.inputs[..] else {
        return None;
    };
    let &[scale, shift, mean, variance] = rest else {
        return None;
    };
    let &[Some(result)] = &node.outputs[..] else {
        return None;
    };
    let of_channels = |id| floats(graph, id).map(Tensor::to_f64);
    let [scale, shift] = [of_channels(scale)?, of_channels(shift)?];
    let [mean, variance] = [of_channels(mean)?, of_channels(variance)?];
    let n = scale.len();
    if [shift.len(), mean.len(), variance.len()] != [n; 3] {
        return None;
    }
    let deviations = variance.iter().map(|v| (v + f64::from(op.epsilon)).sqrt());
    let scale: Vec<f64> = scale.iter().zip(deviations).map(|(s, d)| s / d).collect();
    let shift = shift.iter().zip(&mean).zip(&scale);
    let norm = Norm {
        position,
        result,
        shift: shift.map(|((t, m), s)| t - m * s).collect(),
        scale,
    };
    Some((*x, norm))
}

/// Whether a node is a convolution to that many channels whose bias, if it has one, is constant.
fn takes(graph: &Graph, node: &Node, channels: usize) -> bool {
    let bias = node.inputs.get(2).copied().flatten();
    let is_plain = match bias {
        None => true,
        Some(_) => floats(graph, bias).is_some_and(|bias| bias.len() == channels),
    };
    let weight = node.inputs.get(1).copied().flatten();
    let is_of_channels =
        floats(graph, weight).is_some_and(|weight| weight.shape().first() == Some(&channels));
    matches!(node.op, Op::Conv(_)) && is_plain && is_of_channels
}
