//! Products between dequantisation and quantisation, found and written as products of integers.
//!
//! What is taken, and why results may differ by one step, the module above says.

use std::collections::HashSet;

use super::neighbours::{Neighbours, Quantised};
use crate::graph::{
    Conv, DequantizeLinear, Gemm, Graph, Node, Op, Padding, QLinearConv, QLinearMatMul, Squeeze,
    Unary, Unsqueeze, Value, ValueId,
};
use crate::tensor::{DType, Tensor, TensorData};

/// What a product of two bytes without their zero points is at most.
const MAX_PRODUCT: i64 = 255 * 255;

/// How far a bias may be from a whole number of the scale of the sums, relative to that scale.
const BIAS_TOLERANCE: f64 = 1e-5;

/// What a product becomes.
enum Kind {
    Conv(Conv),
    MatMul,
    /// With the weights of a matrix.
    Gemm {
        trans_b: bool,
    },
}

/// A product between dequantisation and quantisation.
pub(super) struct Product {
    kind: Kind,
    /// Of the node that multiplies.
    name: String,
    x: Quantised,
    w: Quantised,
    /// In the scale of the sums.
    bias: Option<Vec<i32>>,
    y: Quantised,
    /// The quantisation, in whose place the product goes, and what goes with it.
    pub(super) quantize: usize,
    pub(super) between: Vec<usize>,
}

impl Neighbours<'_> {
    /// Whether what sums are multiplied by is neither infinite nor so small that it has lost digits.
    fn has_multipliers(&self, x: &Quantised, w: &Quantised, y: &Quantised) -> bool {
        let scales = self.constant(w.scale).and_then(|t| t.as_f32());
        let (Some(x), Some(w), Some(y)) = (self.scalar(x.scale), scales, self.scalar(y.scale))
        else {
            return false;
        };
        w.iter()
            .all(|w| (x * w).is_normal() && (x * w / y).is_normal())
    }

    /// How many products each sum has, as far as constants and declared shapes say so; at least 1.
    fn depth(&self, kind: &Kind, x: ValueId, w: ValueId) -> Option<usize> {
        let weights = self.constant(w).map(|tensor| tensor.shape());
        let extents = match (kind, weights) {
            (Kind::Conv(_), Some(shape)) => &shape[1..],
            (Kind::Gemm { trans_b: true }, Some(shape)) => &shape[1..],
            (Kind::Gemm { trans_b: false }, Some(shape)) => &shape[..1],
            (Kind::MatMul, Some(shape)) => {
                let from = shape.len().checked_sub(2)?;
                &shape[from..=from]
            }
            (Kind::MatMul, None) => {
                let of_x = self.declared(x).and_then(|dims| dims.last().copied());
                let of_w = || {
                    let dims = self.declared(w)?;
                    dims.get(dims.len().saturating_sub(2)).copied()
                };
                return of_x.flatten().or_else(|| of_w()?).map(|depth| depth.max(1));
            }
            _ => return None,
        };
        let extents = extents.iter().map(|&extent| extent.max(1));
        Some(extents.fold(1, usize::saturating_mul))
    }

    /// The node at `at` as a product of integers, if it is one.
    pub(super) fn product(&self, at: usize) -> Option<Product> {
        let node = &self.graph.nodes[at];
        let input = |at: usize| node.inputs.get(at).copied().flatten();
        let kind = match &node.op {
            Op::Conv(conv) => Kind::Conv(conv.clone()),
            Op::MatMul(_) => Kind::MatMul,
            Op::Gemm(Gemm {
                alpha: 1.0,
                beta: 1.0,
                trans_a: false,
                trans_b,
            }) => Kind::Gemm { trans_b: *trans_b },
            _ => return None,
        };
        let (x, _) = self.dequantised(input(0)?)?;
        let (w, axis) = self.dequantised(input(1)?)?;
        self.is_known(&x, None, 0).then_some(())?;
        let weights = self.constant(w.value);
        // The axis of the output channels.
        let own = match (&kind, weights.map(|t| t.shape().len())) {
            (Kind::Conv(_), Some(rank @ 3..=4)) => Some((0, rank)),
            (Kind::MatMul, Some(rank @ 2..)) => Some((rank as i64 - 1, rank)),
            (Kind::MatMul, None) => None,
            (Kind::Gemm { trans_b }, Some(2)) => Some((i64::from(!trans_b), 2)),
            _ => return None,
        };
        self.is_known(&w, own, axis).then_some(())?;
        let depth = self.depth(&kind, x.value, w.value)?;
        let of_products = i64::try_from(depth).ok()?.checked_mul(MAX_PRODUCT)?;
        let room = i64::from(i32::MAX).checked_sub(of_products)?;
        (room >= 0).then_some(())?;
        let bias = match input(2).filter(|_| !matches!(kind, Kind::MatMul)) {
            None => None,
            Some(bias) => {
                let shape = weights?.shape();
                let channels = own.map(|(axis, _)| shape[axis as usize])?;
                let bias = self.whole_bias(bias, &x, &w, channels)?;
                let fits = |&b: &i32| i64::from(b).abs() <= room;
                Some(bias.iter().all(fits).then_some(bias)?)
            }
        };
        let (between, quantize) = self.quantisation_after(at)?;
        let last = &self.graph.nodes[quantize];
        let parameter = |at: usize| last.inputs.get(at).copied().flatten();
        let y = Quantised {
            value: last.outputs.first().copied().flatten()?,
            scale: parameter(1)?,
            zero: parameter(2),
            dtype: match parameter(2) {
                Some(zero) => self.byte_type(zero, Some(zero))?,
                None => DType::U8,
            },
        };
        self.is_known(&y, None, 0).then_some(())?;
        self.has_multipliers(&x, &w, &y).then_some(())?;
        let implied = between.iter().skip(1).all(|&at| self.is_implied(at, &y));
        implied.then_some(())?;
        Some(Product {
            kind,
            name: node.name.clone(),
            x,
            w,
            bias,
            y,
            quantize,
            between,
        })
    }

    /// The nodes from the product at `at` to the one before its quantisation, and the quantisation.
    fn quantisation_after(&self, at: usize) -> Option<(Vec<usize>, usize)> {
        let mut between = vec![at];
        loop {
            let last = *between.last()?;
            let [Some(result)] = self.graph.nodes[last].outputs[..] else {
                return None;
            };
            let next = *self.read_by.get(&result)?;
            (self.readers[result.0] == 1).then_some(())?;
            match &self.graph.nodes[next].op {
                Op::QuantizeLinear(op) if self.graph.nodes[next].inputs[0] == Some(result) => {
                    let to_integers = op.block_size == 0 && op.float.is_none();
                    return to_integers.then_some((between, next));
                }
                Op::Unary(Unary::Relu | Unary::Identity) | Op::Clip(_) if between.len() < 4 => {
                    between.push(next);
                }
                _ => return None,
            }
        }
    }

    /// Whether the function at `at` changes nothing that the bytes of `y` can tell.
    fn is_implied(&self, at: usize, y: &Quantised) -> bool {
        let node = &self.graph.nodes[at];
        let (least, greatest) = match y.dtype {
            DType::I8 => (-128.0, 127.0),
            _ => (0.0, 255.0),
        };
        let zero = match y.zero.map(|zero| self.constant(zero)) {
            None => 0.0,
            Some(Some(tensor)) => tensor.to_f64()[0],
            Some(None) => return false,
        };
        let Some(scale) = self.scalar(y.scale) else {
            return false;
        };
        let byte = |bound: f32| f64::from((bound / scale).round_ties_even()) + zero;
        let bound = |index: usize| match node.inputs.get(index).copied().flatten() {
            None => Some(None),
            Some(id) => self.scalar(id).map(Some),
        };
        match &node.op {
            Op::Unary(Unary::Identity) => true,
            Op::Unary(Unary::Relu) => zero <= least,
            Op::Clip(_) => match (bound(1), bound(2)) {
                (Some(low), Some(high)) => {
                    low.is_none_or(|low| byte(low) <= least)
                        && high.is_none_or(|high| byte(high) >= greatest)
                }
                _ => false,
            },
            _ => false,
        }
    }

    /// Bias `id` in the scale of the sums, if it is whole there.
    fn whole_bias(
        &self,
        id: ValueId,
        x: &Quantised,
        w: &Quantised,
        channels: usize,
    ) -> Option<Vec<i32>> {
        let x_scale = self.scalar(x.scale)?;
        let w_scales = self.constant(w.scale)?.as_f32()?;
        // That of a matrix may be one per row as well.
        let is_per_channel = |bias: &Tensor| match bias.shape() {
            [rest @ .., last] => *last == channels && rest.iter().all(|&extent| extent == 1),
            [] => channels == 1,
        };
        let values: Vec<f64> = match self.constant(id) {
            Some(bias) => {
                is_per_channel(bias).then_some(())?;
                bias.as_f32()?.iter().map(|&b| f64::from(b)).collect()
            }
            None => {
                let node = self.maker(id)?;
                let Op::DequantizeLinear(DequantizeLinear {
                    block_size: 0,
                    float: None,
                    ..
                }) = &node.op
                else {
                    return None;
                };
                let input = |at: usize| node.inputs.get(at).copied().flatten();
                let bias = self.constant(input(0)?)?;
                is_per_channel(bias).then_some(())?;
                let scales = self.constant(input(1)?)?.as_f32()?;
                let zeros = match input(2) {
                    Some(zero) => self.constant(zero)?.to_f64(),
                    None => vec![0.0],
                };
                (scales.len() == 1 || scales.len() == bias.len()).then_some(())?;
                (zeros.len() == 1 || zeros.len() == bias.len()).then_some(())?;
                let pick = |list: &[f64], at: usize| list[if list.len() == 1 { 0 } else { at }];
                let scales: Vec<f64> = scales.iter().map(|&s| f64::from(s)).collect();
                let values = bias.to_f64().into_iter().enumerate();
                values
                    .map(|(i, b)| (b - pick(&zeros, i)) * pick(&scales, i))
                    .collect()
            }
        };
        let whole = values.into_iter().enumerate().map(|(channel, value)| {
            let w_scale = w_scales[if w_scales.len() == 1 { 0 } else { channel }];
            let quotient = value / f64::from(x_scale * w_scale);
            let whole = quotient.round();
            // The scale that a file gives a bias is the product, rounded.
            let room = BIAS_TOLERANCE.max(whole.abs() * 2.0 * f64::from(f32::EPSILON));
            let is_whole = (quotient - whole).abs() <= room && whole.abs() < 2f64.powi(31);
            is_whole.then_some(whole as i32)
        });
        whole.collect()
    }
}

impl Product {
    /// The nodes it becomes, with the constants they need added to `graph`.
    pub(super) fn write(&self, graph: &mut Graph, names: &mut Names) -> Vec<Node> {
        let mut constant = |graph: &mut Graph, suffix: &str, tensor: Tensor| {
            graph.add_constant(names.unused(format!("{}/{suffix}", self.name)), tensor)
        };
        let mut zero_of = |graph: &mut Graph, quantised: &Quantised, suffix: &str| {
            let zero = quantised.zero.map(Some);
            zero.unwrap_or_else(|| {
                let tensor = Tensor::zeros(quantised.dtype, []).ok()?;
                Some(constant(graph, suffix, tensor))
            })
        };
        let (x_zero, w_zero, y_zero) = (
            zero_of(graph, &self.x, "x_zero_point"),
            zero_of(graph, &self.w, "w_zero_point"),
            zero_of(graph, &self.y, "y_zero_point"),
        );
        let bias = self.bias.as_ref().and_then(|bias| {
            let tensor = Tensor::new(vec![bias.len()], TensorData::I32(bias.clone())).ok()?;
            Some(constant(graph, "bias", tensor))
        });
        let operands = |x: ValueId, w: ValueId| {
            let (x, w) = ([x, self.x.scale], [w, self.w.scale]);
            let mut operands = vec![
                Some(x[0]),
                Some(x[1]),
                x_zero,
                Some(w[0]),
                Some(w[1]),
                w_zero,
            ];
            operands.extend([Some(self.y.scale), y_zero]);
            operands.extend(bias.map(Some));
            operands
        };
        let node = |name: String, op: Op, inputs: Vec<Option<ValueId>>, output: ValueId| Node {
            name,
            op,
            inputs,
            outputs: vec![Some(output)],
        };
        match &self.kind {
            Kind::Conv(conv) => {
                let op = Op::QLinearConv(QLinearConv { conv: conv.clone() });
                let operands = operands(self.x.value, self.w.value);
                vec![node(self.name.clone(), op, operands, self.y.value)]
            }
            Kind::MatMul => {
                let op = Op::QLinearMatMul(QLinearMatMul);
                let operands = operands(self.x.value, self.w.value);
                vec![node(self.name.clone(), op, operands, self.y.value)]
            }
            Kind::Gemm { trans_b } => {
                let Some(weights) = graph.value(self.w.value).constant.clone() else {
                    return Vec::new();
                };
                let Some(filters) = as_filters(&weights, *trans_b) else {
                    return Vec::new();
                };
                let w = constant(graph, "filters", filters);
                let Ok(axes) = Tensor::from_i64([2], vec![2, 3]) else {
                    return Vec::new();
                };
                let axes = constant(graph, "axes", axes);
                let mut value = |graph: &mut Graph, suffix: &str| {
                    let name = names.unused(format!("{}/{suffix}", self.name));
                    let value = Value {
                        name: name.clone(),
                        dtype: None,
                        shape: None,
                        constant: None,
                    };
                    (name, graph.add_value(value))
                };
                let (to_pixels, wide) = value(graph, "pixels");
                let (to_rows, product) = value(graph, "product");
                let conv = Conv {
                    strides: Vec::new(),
                    dilations: Vec::new(),
                    padding: Padding::Explicit(Vec::new()),
                    groups: 1,
                };
                let unsqueeze = Op::Unsqueeze(Unsqueeze);
                let matrix = vec![Some(self.x.value), Some(axes)];
                let pixels = vec![Some(product), Some(axes)];
                vec![
                    node(to_pixels, unsqueeze, matrix, wide),
                    node(
                        self.name.clone(),
                        Op::QLinearConv(QLinearConv { conv }),
                        operands(wide, w),
                        product,
                    ),
                    node(to_rows, Op::Squeeze(Squeeze), pixels, self.y.value),
                ]
            }
        }
    }
}

/// The weights of a matrix as filters `[n, k, 1, 1]`.
fn as_filters(weights: &Tensor, is_transposed: bool) -> Option<Tensor> {
    let [rows, columns] = *weights.shape() else {
        return None;
    };
    let (n, k) = if is_transposed {
        (rows, columns)
    } else {
        (columns, rows)
    };
    let order = |at: usize| match is_transposed {
        true => at,
        false => at % k * n + at / k,
    };
    let data = match weights.data() {
        TensorData::I8(values) => TensorData::I8((0..n * k).map(|at| values[order(at)]).collect()),
        TensorData::U8(values) => TensorData::U8((0..n * k).map(|at| values[order(at)]).collect()),
        _ => return None,
    };
    Tensor::new(vec![n, k, 1, 1], data).ok()
}

/// Names of values, all different.
pub(super) struct Names(HashSet<String>);

impl Names {
    pub(super) fn of(graph: &Graph) -> Self {
        Self(graph.values.iter().map(|v| v.name.clone()).collect())
    }

    /// One like `base` that no value has.
    fn unused(&mut self, base: String) -> String {
        let mut name = base;
        while !self.0.insert(name.clone()) {
            name.push('_');
        }
        name
    }
}
