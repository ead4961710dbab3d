//! Pixels that nothing reads are not computed.
//!
//! ```text
//! x --Conv 3x3--Elu--+--Add--Elu--+--Conv 1x1, stride 2       three quarters of the pixels of
//! z -----------------+            +--Conv 1x1, stride 2       everything in front are skipped
//!
//! x --Conv 3x3, stride 2--Elu--+--Add--Elu--+--Conv 1x1
//! z --Slice every second-------+            +--Conv 1x1
//! ```
//!
//! Residual networks end a stage this way. The stride moves up as long as a value has no other
//! reader: through element-wise operators to a convolution, which takes it over. What others read
//! too is sliced. The pixels that remain are computed from the same operands.
//!
//! Deliberately absent: pooling and transposed convolutions, windows with automatic padding, which
//! depends on the stride.

use std::collections::HashMap;
use std::sync::Arc;

use crate::graph::{
    Clip, Conv, Node, Op, Padding, Slice, StaticGraph, StaticValue, TensorType, ValueId,
};
use crate::tensor::{DType, MAX_ELEMENTS, Tensor};

/// Rewrites every place found; values and results of the graph keep their names.
pub(super) fn subsample(graph: &mut StaticGraph) {
    let strided = (0..graph.nodes.len()).filter_map(|at| Some((at, pixel_stride(graph, at)?)));
    let mut wanted: Vec<ValueId> = strided
        .filter(|(_, stride)| *stride != [1, 1])
        .filter_map(|(at, _)| graph.nodes[at].inputs[0])
        .collect();
    if wanted.is_empty() {
        return;
    }
    let mut rewrite = Rewrite::of(graph);
    // Last first: a pointwise convolution that takes a stride over reads less of its own operand.
    while let Some(value) = wanted.pop() {
        wanted.extend(rewrite.try_value(value));
    }
    rewrite.insert_slices();
}

/// The stride at which node `at` reads pixels of its first operand, if it is a pointwise
/// convolution without a border.
fn pixel_stride(graph: &StaticGraph, at: usize) -> Option<[usize; 2]> {
    let node = &graph.nodes[at];
    let Op::Conv(conv) = &node.op else {
        return None;
    };
    let weights = node.inputs.get(1).copied().flatten()?;
    let is_padded = match &conv.padding {
        Padding::Explicit(pads) => pads.iter().any(|&pad| pad != 0),
        Padding::Valid => false,
        Padding::SameUpper | Padding::SameLower => true,
    };
    let is_pointwise = graph.value(weights).ty.shape.get(2..)? == [1, 1];
    (is_pointwise && !is_padded).then(|| strides(conv))
}

fn strides(conv: &Conv) -> [usize; 2] {
    std::array::from_fn(|axis| conv.strides.get(axis).copied().unwrap_or(1))
}

/// The graph with its edges both ways, and what is to be added to it.
struct Rewrite<'g> {
    graph: &'g mut StaticGraph,
    /// The node that makes a value.
    maker: Vec<Option<usize>>,
    /// The nodes that read a value, once for every operand.
    readers: Vec<Vec<usize>>,
    /// Slices by what they are of, each with its node.
    slices: HashMap<(ValueId, [usize; 2]), Node>,
}

impl<'g> Rewrite<'g> {
    fn of(graph: &'g mut StaticGraph) -> Self {
        let mut maker = vec![None; graph.values.len()];
        let mut readers = vec![Vec::new(); graph.values.len()];
        for (at, node) in graph.nodes.iter().enumerate() {
            for id in node.inputs.iter().flatten() {
                readers[id.0].push(at);
            }
            for id in node.outputs.iter().flatten() {
                maker[id.0] = Some(at);
            }
        }
        // A value the caller gets has a reader that wants it whole.
        for id in &graph.outputs {
            readers[id.0].push(usize::MAX);
        }
        Self {
            graph,
            maker,
            readers,
            slices: HashMap::new(),
        }
    }

    /// Makes less of `value` if that is all its readers want, and gives the operand of the
    /// pointwise convolution that then wants less itself, if there is one.
    fn try_value(&mut self, value: ValueId) -> Option<ValueId> {
        let stride = self.wanted_stride(value)?;
        self.is_made_anew(value).then_some(())?;
        for &at in &self.readers[value.0] {
            if let Op::Conv(conv) = &mut self.graph.nodes[at].op {
                conv.strides = vec![1, 1];
            }
        }
        self.make_less(value, stride)
    }

    /// The stride at which all readers of `value` read it, if they agree on one that leaves pixels
    /// out.
    fn wanted_stride(&self, value: ValueId) -> Option<[usize; 2]> {
        let mut strides = self.readers[value.0].iter().map(|&at| {
            let node = self.graph.nodes.get(at)?;
            (node.inputs[0] == Some(value)).then(|| pixel_stride(self.graph, at))?
        });
        let first = strides.next()??;
        (first != [1, 1] && strides.all(|stride| stride == Some(first))).then_some(first)
    }

    /// Whether `value` is an image that a convolution or element-wise node makes.
    fn is_made_anew(&self, value: ValueId) -> bool {
        let ty = &self.graph.value(value).ty;
        let Some(node) = self.maker[value.0].map(|at| &self.graph.nodes[at]) else {
            return false;
        };
        let makes_images = match &node.op {
            Op::Conv(conv) => matches!(&conv.padding, Padding::Explicit(_) | Padding::Valid),
            Op::Unary(_) | Op::Clip(Clip) | Op::BatchNormalization(_) => true,
            Op::Binary(_) => node.inputs.iter().flatten().all(|&operand| {
                let shape = &self.graph.value(operand).ty.shape;
                *shape == ty.shape || is_per_channel(shape)
            }),
            _ => false,
        };
        makes_images && node.outputs.len() == 1 && ty.shape.len() == 4 && ty.dtype == DType::F32
    }

    /// Leaves out the pixels of `value` between those `stride` visits; gives what
    /// [`Rewrite::try_value`] gives.
    fn make_less(&mut self, value: ValueId, stride: [usize; 2]) -> Option<ValueId> {
        let full = self.graph.value(value).ty.shape.clone();
        self.graph.values[value.0].ty.shape = subsampled(&full, stride);
        let at = self.maker[value.0]?;
        if let Op::Conv(conv) = &mut self.graph.nodes[at].op {
            let own = strides(conv);
            // A stride beyond every extent leaves one pixel, however long it is.
            let longer = |axis: usize| own[axis].saturating_mul(stride[axis]).min(MAX_ELEMENTS);
            conv.strides = vec![longer(0), longer(1)];
            return pixel_stride(self.graph, at).and(self.graph.nodes[at].inputs[0]);
        }
        let mut next = None;
        for index in 0..self.graph.nodes[at].inputs.len() {
            let operand = self.graph.nodes[at].inputs[index];
            let Some(operand) = operand.filter(|&id| self.graph.value(id).ty.shape == full) else {
                continue;
            };
            if self.readers[operand.0].len() == 1 && self.is_made_anew(operand) {
                // Of two chains, one is followed further.
                next = self.make_less(operand, stride).or(next);
            } else {
                self.graph.nodes[at].inputs[index] = self.sliced(operand, stride);
            }
        }
        next
    }

    /// `value[:, :, ::stride, ::stride]`.
    fn sliced(&mut self, value: ValueId, stride: [usize; 2]) -> Option<ValueId> {
        if let Some(known) = self.slices.get(&(value, stride)) {
            return known.outputs[0];
        }
        let StaticValue { name, ty, .. } = self.graph.value(value).clone();
        let mut name = format!("{name}[::{}, ::{}]", stride[0], stride[1]);
        while self.graph.values.iter().any(|v| v.name == name) {
            name.push('\'');
        }
        let shape = subsampled(&ty.shape, stride);
        let bounds = [
            ("starts", [0, 0]),
            ("ends", [ty.shape[2] as i64, ty.shape[3] as i64]),
            ("axes", [2, 3]),
            ("steps", stride.map(|s| s as i64)),
        ];
        let mut inputs = vec![Some(value)];
        for (what, numbers) in bounds {
            let tensor = Tensor::from_i64([2], numbers.to_vec()).ok()?;
            let ty = TensorType {
                dtype: DType::I64,
                shape: vec![2],
            };
            inputs.push(Some(self.add(
                format!("{name}.{what}"),
                ty,
                Some(Arc::new(tensor)),
            )));
        }
        let ty = TensorType { shape, ..ty };
        let node = Node {
            name: name.clone(),
            op: Op::Slice(Slice),
            inputs,
            outputs: vec![Some(self.add(name, ty, None))],
        };
        let result = node.outputs[0];
        self.slices.insert((value, stride), node);
        result
    }

    fn add(&mut self, name: String, ty: TensorType, constant: Option<Arc<Tensor>>) -> ValueId {
        self.graph.values.push(StaticValue { name, ty, constant });
        ValueId(self.graph.values.len() - 1)
    }

    /// Puts every slice right behind the node that makes what it is of.
    fn insert_slices(self) {
        let mut slices: Vec<(usize, Node)> = self
            .slices
            .into_iter()
            .map(|((value, _), node)| (self.maker[value.0].map_or(0, |at| at + 1), node))
            .collect();
        slices.sort_by(|(a, x), (b, y)| (a, &x.name).cmp(&(b, &y.name)));
        for (at, node) in slices.into_iter().rev() {
            self.graph.nodes.insert(at, node);
        }
    }
}

/// Whether an operand of this shape is the same for all pixels.
fn is_per_channel(shape: &[usize]) -> bool {
    shape.iter().rev().take(2).all(|&extent| extent == 1)
}

fn subsampled(shape: &[usize], stride: [usize; 2]) -> Vec<usize> {
    let mut shape = shape.to_vec();
    for (extent, stride) in shape[2..].iter_mut().zip(stride) {
        *extent = extent.div_ceil(stride);
    }
    shape
}

#[cfg(test)]
mod tests;
