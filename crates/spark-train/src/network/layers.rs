//! The layers of a network that an adapter may mean: by name, with the weight as trainers know it.
//!
//! ```text
//! Conv    W [out, in / groups, k..]                         as it is
//! Gemm    W [out, in] with trans_b, [in, out] without       [out, in]
//! MatMul  W [in, out]                                       [out, in]
//! ```
//!
//! A layer is called as in the program that exported it: by its weight without `.weight`, or, where the exporter wrote a number in
//! place of the name, by the path of its node. Nodes that share a weight are one layer.
//!
//! No layer: a weight that is computed, but for f16 that is cast to f32; a Gemm with factors or a transposed operand; a product
//! whose weight comes first. Such weights stay as they are, and a target that means them finds nothing.

use std::collections::{BTreeMap, BTreeSet};

use spark_onnx_graph::graph::{Conv, Graph, Node, Op, ValueId};
use spark_onnx_graph::{DType, Tensor};

use super::bias::{Additions, Bias};

/// What a layer's nodes do with its weight.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Form {
    /// A product with the weight, which the file has as `[in, out]` if it is transposed.
    Linear { is_transposed: bool },
    /// A convolution along so many axes.
    Conv(Conv),
}

/// A layer: nodes that compute with one weight in one way.
#[derive(Debug, Clone)]
pub(crate) struct Layer {
    pub(crate) name: String,
    pub(crate) form: Form,
    /// Positions of its nodes in the graph.
    pub(crate) nodes: Vec<usize>,
    /// The constant of its weight: not what its nodes read where a Cast lies between.
    pub(crate) stored: ValueId,
    /// Its bias, if all its nodes have the same.
    pub(crate) bias: Option<Bias>,
}

impl Layer {
    /// The weight as trainers know it, in f32, and its shape.
    pub(crate) fn weight(&self, graph: &Graph) -> Option<(Vec<usize>, Vec<f32>)> {
        let tensor = graph.value(self.stored).constant.as_ref()?;
        Some(self.turned(tensor.shape(), tensor.to_f32()))
    }

    /// Between the file's layout and that of trainers, either way.
    pub(crate) fn turned(&self, shape: &[usize], values: Vec<f32>) -> (Vec<usize>, Vec<f32>) {
        match self.form {
            Form::Linear {
                is_transposed: true,
            } => (vec![shape[1], shape[0]], transposed(&values, shape[1])),
            _ => (shape.to_vec(), values),
        }
    }
}

/// Rows of `n_columns` as columns.
pub(crate) fn transposed(values: &[f32], n_columns: usize) -> Vec<f32> {
    let columns = 0..n_columns;
    let of = |column| values.iter().skip(column).step_by(n_columns.max(1));
    columns.flat_map(of).copied().collect()
}

/// The layers of a graph, in the order of their first nodes.
pub(crate) fn layers(graph: &Graph) -> Vec<Layer> {
    let casts = casts(graph);
    let additions = Additions::of(graph);
    let mut found: Vec<Layer> = Vec::new();
    let mut by_weight: BTreeMap<ValueId, Option<usize>> = BTreeMap::new();
    for (position, node) in graph.nodes.iter().enumerate() {
        let Some((stored, form)) = weight_of(graph, node, &casts) else {
            continue;
        };
        let shape = graph.value(stored).constant.as_ref().map(|t| t.shape());
        let outputs = match (&form, shape) {
            (_, None) => continue,
            (
                Form::Linear {
                    is_transposed: true,
                },
                Some(shape),
            ) => shape[1],
            (_, Some(shape)) => shape[0],
        };
        match by_weight.get(&stored) {
            None => {
                by_weight.insert(stored, Some(found.len()));
                found.push(Layer {
                    name: name_of(graph, stored, node),
                    form,
                    nodes: vec![position],
                    stored,
                    bias: additions.bias(graph, position, outputs),
                });
            }
            Some(&Some(known)) => {
                let layer = &mut found[known];
                if layer.form == form {
                    layer.nodes.push(position);
                    let other = additions.bias(graph, position, outputs);
                    layer.bias = Bias::shared(layer.bias.take(), other);
                } else {
                    // Used in two ways: no layer that a trainer could have.
                    by_weight.insert(stored, None);
                }
            }
            Some(None) => {}
        }
    }
    let used: BTreeSet<usize> = by_weight.values().flatten().copied().collect();
    let mut position = 0;
    found.retain(|_| {
        position += 1;
        used.contains(&(position - 1))
    });
    name_apart(&mut found);
    found
}

/// f32 values that are casts of constants, with those.
fn casts(graph: &Graph) -> BTreeMap<ValueId, ValueId> {
    let mut found = BTreeMap::new();
    for node in &graph.nodes {
        if let (Op::Cast(cast), [Some(from)], [Some(to)]) =
            (&node.op, &node.inputs[..], &node.outputs[..])
            && cast.to == DType::F32
            && graph.value(*from).constant.is_some()
        {
            found.insert(*to, *from);
        }
    }
    found
}

fn weight_of(
    graph: &Graph,
    node: &Node,
    casts: &BTreeMap<ValueId, ValueId>,
) -> Option<(ValueId, Form)> {
    let weight = node.inputs.get(1).copied().flatten()?;
    let stored = casts.get(&weight).copied().unwrap_or(weight);
    let tensor = graph.value(stored).constant.as_ref()?;
    let form = match &node.op {
        Op::Conv(conv) if matches!(tensor.shape().len(), 3 | 4) => Form::Conv(conv.clone()),
        Op::Gemm(gemm) if gemm.alpha == 1.0 && gemm.beta == 1.0 && !gemm.trans_a => Form::Linear {
            is_transposed: !gemm.trans_b,
        },
        Op::MatMul(_) => Form::Linear {
            is_transposed: true,
        },
        _ => return None,
    };
    let is_matrix = tensor.shape().len() == 2 || matches!(form, Form::Conv(_));
    let is_float = stored != weight || tensor.dtype() == DType::F32;
    (is_matrix && is_float && is_numbers(tensor)).then_some((stored, form))
}

fn is_numbers(tensor: &Tensor) -> bool {
    matches!(tensor.dtype(), DType::F16 | DType::BF16 | DType::F32) && !tensor.is_empty()
}

/// As the program called it that made the file.
fn name_of(graph: &Graph, stored: ValueId, node: &Node) -> String {
    let weight = &graph.value(stored).name;
    if let Some(module) = weight.strip_suffix(".weight") {
        return module.to_owned();
    }
    let is_numbered = weight.contains("::") || weight.bytes().all(|b| b.is_ascii_digit());
    let path = node.name.trim_start_matches('/');
    match (is_numbered, path.rsplit_once('/')) {
        (true, Some((module, _))) => module.replace('/', "."),
        (true, None) if !path.is_empty() => path.to_owned(),
        _ => weight.clone(),
    }
}

/// A layer whose name another one in front of it has gets a number behind it.
fn name_apart(layers: &mut [Layer]) {
    let all: BTreeSet<String> = layers.iter().map(|layer| layer.name.clone()).collect();
    let mut taken = BTreeSet::new();
    for layer in layers {
        let mut count = 1;
        let wish = layer.name.clone();
        while !taken.insert(layer.name.clone()) {
            count += 1;
            let numbered = format!("{wish}_{count}");
            if !all.contains(&numbered) {
                layer.name = numbered;
            }
        }
    }
}
