//! One operator as a graph, with values for its inputs; and how samples are put together.

use self::Operand::{Absent, Fixed, Given};
use crate::graph::{Dim, Graph, Node, Op, Value, ValueId, bind};
use crate::tensor::{DType, Tensor};

/// A graph of one operator, and values for its inputs.
#[derive(Debug, Clone)]
pub struct Sample {
    /// Position among the samples and name of the operator, as in `007_Conv`.
    pub name: String,
    /// One node, its constants and inputs, and outputs with declared types and shapes.
    pub graph: Graph,
    /// A tensor for every input of the graph, by name.
    pub inputs: Vec<(String, Tensor)>,
}

/// An operand of a sample.
#[derive(Clone)]
pub(super) enum Operand {
    /// A graph input with this value.
    Given(Tensor),
    /// A constant of the graph.
    Fixed(Tensor),
    /// An optional operand that is left out.
    Absent,
}

/// Values between -1 and 1 that differ from place to place, the same in every run.
pub(super) fn wave(n: usize) -> impl Iterator<Item = f64> {
    (0..n).map(|i| ((i * 7919 + 13) % 1009) as f64 / 504.5 - 1.0)
}

pub(super) fn tensor(dtype: DType, shape: &[usize], values: Vec<f64>) -> Tensor {
    Tensor::from_f64(dtype, shape, values).expect("a sample's values fill its shape")
}

pub(super) fn float(shape: &[usize]) -> Tensor {
    tensor(DType::F32, shape, wave(shape.iter().product()).collect())
}

/// Between 0.5 and 1.5, for roots and logarithms.
pub(super) fn positive(shape: &[usize]) -> Tensor {
    let values = wave(shape.iter().product()).map(|v| 1.0 + v / 2.0);
    tensor(DType::F32, shape, values.collect())
}

pub(super) fn boolean(shape: &[usize]) -> Tensor {
    let values = wave(shape.iter().product()).map(|v| f64::from(v > 0.0));
    tensor(DType::Bool, shape, values.collect())
}

pub(super) fn ints(values: &[i64]) -> Tensor {
    Tensor::from_i64([values.len()], values.to_vec()).expect("a list")
}

pub(super) fn scalar(value: f32) -> Tensor {
    Tensor::from_f32([], vec![value]).expect("a scalar")
}

pub(super) fn int_scalar(value: i64) -> Tensor {
    Tensor::from_i64([], vec![value]).expect("a scalar")
}

#[derive(Default)]
pub(super) struct Samples(Vec<Sample>);

impl Samples {
    /// All that were added, in that order.
    pub(super) fn finish(self) -> Vec<Sample> {
        self.0
    }

    pub(super) fn add(&mut self, op: Op, operands: &[Operand]) {
        self.add_outputs(op, operands, &[true]);
    }

    /// Outputs that are `false` are left out. Their types are found by binding.
    pub(super) fn add_outputs(&mut self, op: Op, operands: &[Operand], outputs: &[bool]) {
        let mut graph = Graph::default();
        let mut inputs = Vec::new();
        let operands = operands
            .iter()
            .enumerate()
            .map(|(index, operand)| match operand {
                Absent => None,
                Fixed(value) => Some(graph.add_constant(format!("c{index}"), value.clone())),
                Given(value) => {
                    let input = format!("x{index}");
                    let shape = value.shape().iter().map(|&d| Dim::Known(d)).collect();
                    let id = graph.add_input(input.clone(), value.dtype(), shape);
                    inputs.push((input, value.clone()));
                    Some(id)
                }
            })
            .collect();
        let results: Vec<Option<ValueId>> = outputs
            .iter()
            .enumerate()
            .map(|(index, wanted)| {
                wanted.then(|| {
                    graph.add_value(Value {
                        name: format!("y{index}"),
                        dtype: None,
                        shape: None,
                        constant: None,
                    })
                })
            })
            .collect();
        graph.outputs = results.iter().copied().flatten().collect();
        graph.nodes.push(Node {
            name: "node".to_owned(),
            op,
            inputs: operands,
            outputs: results,
        });
        self.add_graph(graph, inputs);
    }

    /// Adds a graph, whose last node it is named after. The types of its outputs are found by binding.
    pub(super) fn add_graph(&mut self, mut graph: Graph, inputs: Vec<(String, Tensor)>) {
        let op = graph.nodes.last().map_or("", |node| node.op.name());
        let name = format!("{:03}_{op}", self.0.len());
        graph.name.clone_from(&name);
        let bound = bind(&graph, &[]).unwrap_or_else(|e| panic!("{name}: {e}"));
        for (id, bound_id) in graph.outputs.clone().into_iter().zip(&bound.outputs) {
            let ty = bound.value(*bound_id).ty.clone();
            graph.values[id.0].dtype = Some(ty.dtype);
            graph.values[id.0].shape = Some(ty.shape.into_iter().map(Dim::Known).collect());
        }
        self.0.push(Sample {
            name,
            graph,
            inputs,
        });
    }
}
