//! A graph with its edges both ways, and what its quantised values are.

use std::collections::HashMap;
use std::sync::Arc;

use crate::graph::{Dim, Graph, Node, Op, QuantizeLinear, ValueId};
use crate::tensor::{DType, Tensor};

pub(super) fn count_readers(graph: &Graph) -> Vec<usize> {
    let mut readers = vec![0; graph.values.len()];
    let read = graph.nodes.iter().flat_map(|n| n.inputs.iter().flatten());
    for id in read.chain(&graph.outputs) {
        readers[id.0] += 1;
    }
    readers
}

/// Bytes with their scale and zero point.
#[derive(Clone)]
pub(super) struct Quantised {
    pub(super) value: ValueId,
    pub(super) scale: ValueId,
    pub(super) zero: Option<ValueId>,
    pub(super) dtype: DType,
}

/// The graph with its edges both ways.
pub(super) struct Neighbours<'g> {
    pub(super) graph: &'g Graph,
    pub(super) made_by: HashMap<ValueId, usize>,
    pub(super) read_by: HashMap<ValueId, usize>,
    pub(super) readers: Vec<usize>,
}

impl<'g> Neighbours<'g> {
    pub(super) fn of(graph: &'g Graph) -> Self {
        let (mut made_by, mut read_by) = (HashMap::new(), HashMap::new());
        for (at, node) in graph.nodes.iter().enumerate() {
            for id in node.outputs.iter().flatten() {
                made_by.insert(*id, at);
            }
            for id in node.inputs.iter().flatten() {
                read_by.insert(*id, at);
            }
        }
        Self {
            graph,
            made_by,
            read_by,
            readers: count_readers(graph),
        }
    }

    pub(super) fn maker(&self, id: ValueId) -> Option<&'g Node> {
        self.made_by.get(&id).map(|&at| &self.graph.nodes[at])
    }

    pub(super) fn constant(&self, id: ValueId) -> Option<&'g Arc<Tensor>> {
        self.graph.value(id).constant.as_ref()
    }

    /// The one value of a constant of f32.
    pub(super) fn scalar(&self, id: ValueId) -> Option<f32> {
        match self.constant(id)?.as_f32()? {
            [value] => Some(*value),
            _ => None,
        }
    }

    /// The type of quantised elements: 8 bits, or nothing.
    pub(super) fn byte_type(&self, id: ValueId, zero: Option<ValueId>) -> Option<DType> {
        let of_zero = zero.and_then(|zero| self.graph.value(zero).dtype);
        let declared = || self.graph.value(id).dtype;
        let of_constant = || self.constant(id).map(|tensor| tensor.dtype());
        let made = || match self.maker(id).map(|node| (&node.op, &node.inputs)) {
            Some((Op::QuantizeLinear(QuantizeLinear { float: None, .. }), inputs)) => {
                match inputs.get(2).copied().flatten() {
                    Some(zero) => self.graph.value(zero).dtype,
                    None => Some(DType::U8),
                }
            }
            _ => None,
        };
        let dtype = of_zero
            .or_else(of_constant)
            .or_else(declared)
            .or_else(made)?;
        matches!(dtype, DType::I8 | DType::U8).then_some(dtype)
    }

    /// Whether scale and zero point are constants of one value, or of as many as `axis` says of a constant.
    pub(super) fn is_known(
        &self,
        quantised: &Quantised,
        axis: Option<(i64, usize)>,
        own: i64,
    ) -> bool {
        let shape = |id: ValueId| self.constant(id).map(|tensor| tensor.shape());
        let Some(scales) = self.constant(quantised.scale).and_then(|t| t.as_f32()) else {
            return false;
        };
        // One value is a scalar, or a list of one: quantisers write both, side by side.
        let list = |id: ValueId| shape(id).filter(|shape| shape.len() <= 1);
        let len = |shape: &[usize]| shape.first().copied().unwrap_or(1);
        let of_scale = list(quantised.scale).map(len);
        let of_zero = quantised.zero.map_or(of_scale, |zero| list(zero).map(len));
        let fits = match (scales.len(), axis) {
            (1, _) => true,
            (n, Some((axis, rank))) => {
                let extent = |axis: i64| {
                    let axis = if axis < 0 { axis + rank as i64 } else { axis };
                    (0..rank as i64).contains(&axis).then_some(axis as usize)
                };
                let shape = self.constant(quantised.value).map(|t| t.shape());
                let at = extent(axis).filter(|_| extent(axis) == extent(own));
                at.zip(shape).is_some_and(|(at, shape)| shape[at] == n)
            }
            _ => false,
        };
        let positive = |&s: &f32| s.is_finite() && s > 0.0;
        fits && scales.iter().all(positive) && of_scale.is_some() && of_zero == of_scale
    }

    /// The extents of a value as they are declared, there or where it was quantised.
    pub(super) fn declared(&self, id: ValueId) -> Option<Vec<Option<usize>>> {
        let known = |dim: &Dim| match dim {
            Dim::Known(extent) => Some(*extent),
            _ => None,
        };
        let shape_of = |id: ValueId| {
            let value = self.graph.value(id);
            let constant = value.constant.as_ref().map(|tensor| tensor.shape());
            match constant {
                Some(shape) => Some(shape.iter().map(|&extent| Some(extent)).collect()),
                None => Some(value.shape.as_ref()?.iter().map(known).collect()),
            }
        };
        shape_of(id).or_else(|| match self.maker(id)? {
            node if matches!(node.op, Op::QuantizeLinear(_)) => shape_of(node.inputs[0]?),
            _ => None,
        })
    }

    /// What `id` was before it was dequantised.
    pub(super) fn dequantised(&self, id: ValueId) -> Option<(Quantised, i64)> {
        let node = self.maker(id)?;
        let Op::DequantizeLinear(parameters) = &node.op else {
            return None;
        };
        if parameters.block_size > 0 || parameters.float.is_some() {
            return None;
        }
        let input = |at: usize| node.inputs.get(at).copied().flatten();
        let (value, scale, zero) = (input(0)?, input(1)?, input(2));
        let dtype = self.byte_type(value, zero)?;
        let quantised = Quantised {
            value,
            scale,
            zero,
            dtype,
        };
        Some((quantised, parameters.axis))
    }
}
