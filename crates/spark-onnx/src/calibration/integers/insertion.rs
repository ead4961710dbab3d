//! Writes quantisation and dequantisation around products.
//!
//! Deliberately absent: which, and with which scales.

use std::collections::BTreeMap;

use spark_quant::packed::Scales;

use super::super::integer_layer::{ByteScale, IntegerLayer};
use super::names::Names;
use super::products::Product;
use crate::graph::{DequantizeLinear, Graph, Node, Op, QuantizeLinear, Value, ValueId};
use crate::{ModelError, Tensor, TensorData};

/// A graph in which products become integers one after the other.
pub(super) struct Insertion {
    graph: Graph,
    names: Names,
    /// Values after their round trip.
    dequantised: BTreeMap<ValueId, ValueId>,
}

impl Insertion {
    pub(super) fn new(graph: &Graph) -> Self {
        Self {
            names: Names::of(graph),
            graph: graph.clone(),
            dequantised: BTreeMap::new(),
        }
    }

    /// The graph as it is now.
    pub(super) fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The graph without constants that nothing reads any more.
    pub(super) fn finish(self) -> Graph {
        let mut graph = self.graph;
        let mut is_read = vec![false; graph.values.len()];
        let read = graph.nodes.iter().flat_map(|n| n.inputs.iter().flatten());
        for id in read.chain(&graph.outputs) {
            is_read[id.0] = true;
        }
        for (value, is_read) in graph.values.iter_mut().zip(is_read) {
            if !is_read {
                value.constant = None;
            }
        }
        graph
    }

    /// `value` after its round trip through bytes.
    pub(super) fn round_trip(
        &mut self,
        value: ValueId,
        bytes: ByteScale,
    ) -> Result<ValueId, ModelError> {
        if let Some(&there) = self.dequantised.get(&value) {
            return Ok(there);
        }
        let name = self.graph.value(value).name.clone();
        let step = self.constant(
            &format!("{name}_scale"),
            Tensor::from_f32([], vec![bytes.scale])?,
        );
        let zero = TensorData::U8(vec![bytes.zero_point]);
        let zero = self.constant(
            &format!("{name}_zero_point"),
            Tensor::new(Vec::new(), zero)?,
        );
        let [step, zero] = [step, zero].map(Some);
        let made_by = |node: &Node| node.outputs.contains(&Some(value));
        let after = self.graph.nodes.iter().position(made_by);
        let at = after.map_or(0, |at| at + 1);
        let quantize = Op::QuantizeLinear(QuantizeLinear::along(1));
        let bytes = self.insert(
            at,
            &format!("{name}_quantized"),
            quantize,
            vec![Some(value), step, zero],
        );
        let dequantize = Op::DequantizeLinear(DequantizeLinear::along(1));
        let inputs = vec![Some(bytes), step, zero];
        let floats = self.insert(at + 1, &format!("{name}_dequantized"), dequantize, inputs);
        self.dequantised.insert(value, floats);
        Ok(floats)
    }

    /// Gives `product` the weights and the bias of `layer`, what enters after its round trip, and those that read its
    /// result the round trip of that, which is returned.
    pub(super) fn replace(
        &mut self,
        product: &Product,
        layer: &IntegerLayer,
    ) -> Result<ValueId, ModelError> {
        let operand = self.round_trip(product.x, layer.input)?;
        let rows: Vec<i8> = layer.weights.codes().iter().map(|&c| c as i8).collect();
        let factors = match layer.weights.scales() {
            Scales::F32 { values, .. } => values.clone(),
            _ => Vec::new(),
        };
        let sums: Vec<f32> = factors.iter().map(|w| layer.input.scale * w).collect();
        let codes = TensorData::I8(product.as_in_file(&rows));
        let codes = Tensor::new(product.weights.shape().to_vec(), codes)?;
        let factors = Tensor::from_f32([factors.len()], factors)?;
        let weights = (codes, factors);
        let weights = self.dequantized(&product.result, "weights", weights, product.axis())?;
        let bias = match &layer.bias {
            None => None,
            Some(bias) => Some(match whole(bias, &sums) {
                Some(whole) => {
                    let whole = Tensor::new(vec![whole.len()], TensorData::I32(whole))?;
                    let sums = Tensor::from_f32([sums.len()], sums)?;
                    self.dequantized(&product.result, "bias", (whole, sums), 0)?
                }
                None => {
                    let bias = Tensor::from_f32([bias.len()], bias.clone())?;
                    let name = self.graph.value(product.result).name.clone();
                    self.constant(&format!("{name}_bias"), bias)
                }
            }),
        };
        let result = Some(product.result);
        for node in &mut self.graph.nodes {
            if node.outputs.contains(&result) {
                node.inputs = vec![Some(operand), Some(weights)];
                node.inputs.extend(bias.map(Some));
            }
        }
        let own = self.round_trip(product.y, layer.output)?;
        let y = Some(product.y);
        for node in &mut self.graph.nodes {
            if matches!(node.op, Op::QuantizeLinear(_)) && node.inputs.first() == Some(&y) {
                continue;
            }
            for input in node.inputs.iter_mut().filter(|input| **input == y) {
                *input = Some(own);
            }
        }
        Ok(own)
    }

    /// A constant and the node that makes it one of floats.
    fn dequantized(
        &mut self,
        product: &ValueId,
        what: &str,
        (codes, factors): (Tensor, Tensor),
        axis: i64,
    ) -> Result<ValueId, ModelError> {
        let name = format!("{}_{what}", self.graph.value(*product).name);
        // Zeros, spelled out: without them onnxruntime leaves Gemm in f32.
        let zeros = Tensor::zeros(codes.dtype(), factors.shape().to_vec())?;
        let zeros = self.constant(&format!("{name}_zero_point"), zeros);
        let codes = self.constant(&format!("{name}_quantized"), codes);
        let factors = self.constant(&format!("{name}_scale"), factors);
        let op = Op::DequantizeLinear(DequantizeLinear::along(axis));
        let inputs = vec![Some(codes), Some(factors), Some(zeros)];
        Ok(self.insert(0, &name, op, inputs))
    }

    fn constant(&mut self, name: &str, tensor: Tensor) -> ValueId {
        self.names.constant(&mut self.graph, name, tensor)
    }

    /// Puts a node with one result at a position, and gives the result.
    fn insert(&mut self, at: usize, name: &str, op: Op, inputs: Vec<Option<ValueId>>) -> ValueId {
        let name = self.names.unused(name);
        let result = self.graph.add_value(Value {
            name: name.clone(),
            dtype: None,
            shape: None,
            constant: None,
        });
        let outputs = vec![Some(result)];
        let node = Node {
            name,
            op,
            inputs,
            outputs,
        };
        self.graph.nodes.insert(at, node);
        result
    }
}

/// `bias` in the scales of the sums, if all of it fits there.
fn whole(bias: &[f32], scales: &[f32]) -> Option<Vec<i32>> {
    let whole = bias.iter().zip(scales).map(|(bias, scale)| {
        let quotient = (f64::from(*bias) / f64::from(*scale)).round_ties_even();
        let fits = quotient.abs() <= f64::from(i32::MAX) && *scale >= f32::MIN_POSITIVE;
        fits.then_some(quotient as i32)
    });
    whole.collect()
}
