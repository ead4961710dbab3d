//! What one step of a plan does.
//!
//! Every step reads whole views and writes one view (two for a few), none of which
//! overlap unless said.

use std::sync::Arc;

use super::attention_step::AttentionStep;
use super::pointwise::Program;
use super::view::View;
use super::weights::Weights;
use crate::graph::{
    ArgReduce, Cell, Direction, GridPadding, Interpolation, PoolKind, ReduceKind, ScatterReduction,
    Unary,
};

/// A function applied to every result of a product before it is stored.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Activation {
    /// Nothing.
    None,
    /// `min(max(x, low), high)`; ReLU is `(0, inf)`.
    Clamp {
        /// Lower bound.
        low: f32,
        /// Upper bound.
        high: f32,
    },
    /// Any other function.
    Function(Unary),
}

/// What happens to a product's results before they are stored:
/// `activation(product + bias + residual)` or `activation(product + bias) + residual`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Epilogue {
    /// One value per output channel.
    pub(crate) bias: Option<Arc<Vec<f32>>>,
    /// A tensor of the result's shape with unit stride along its channels.
    pub(crate) residual: Option<View>,
    /// Whether the activation comes after the residual.
    pub(crate) residual_first: bool,
    /// The function.
    pub(crate) activation: Activation,
}

impl Default for Epilogue {
    fn default() -> Self {
        Self {
            bias: None,
            residual: None,
            residual_first: true,
            activation: Activation::None,
        }
    }
}

/// How a two-dimensional window moves over an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    /// Extent, height then width.
    pub(crate) kernel: [usize; 2],
    /// Step.
    pub(crate) stride: [usize; 2],
    /// Step between taps.
    pub(crate) dilation: [usize; 2],
    /// Border before the first row and column.
    pub(crate) pad: [usize; 2],
}

/// Convolution, plain or transposed. `x` and `y` are `[n, c, h, w]` with unit channel stride.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ConvStep {
    /// Image.
    pub(crate) x: View,
    /// Result.
    pub(crate) y: View,
    /// Weights, taps in row-major order of the window.
    pub(crate) weights: Weights,
    /// Geometry.
    pub(crate) window: Window,
    /// Whether the window is turned round (transposed convolution).
    pub(crate) transposed: bool,
    /// After the product.
    pub(crate) epilogue: Epilogue,
}

/// `y[m, n] = x[m, k] w[k, n]`, one weight matrix known at load. `x` is `[m, k]` and
/// `y` `[m, n]`, both with unit stride along the last axis.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LinearStep {
    /// Rows.
    pub(crate) x: View,
    /// Result.
    pub(crate) y: View,
    /// One tap, one group.
    pub(crate) weights: Weights,
    /// After the product.
    pub(crate) epilogue: Epilogue,
}

/// `y[b, m, n] = scale * a[b, m, k] b[b, k, n]` for every batch index. `a` has unit stride
/// along `k`, `y` along `n`; `b` any strides. Operands have the same rank, and batch axes are
/// already broadcast.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MatMulStep {
    /// First operand.
    pub(crate) a: View,
    /// Second operand.
    pub(crate) b: View,
    /// Result.
    pub(crate) y: View,
    /// Factor of the product.
    pub(crate) scale: f32,
}

/// Windowed maximum or average of `[n, c, h, w]` with unit channel stride.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PoolStep {
    /// Image.
    pub(crate) x: View,
    /// Result.
    pub(crate) y: View,
    /// Maximum or average.
    pub(crate) kind: PoolKind,
    /// Geometry.
    pub(crate) window: Window,
    /// Border after the last row and column, which counts in averages that count padding.
    pub(crate) pad_end: [usize; 2],
    /// Whether padded elements count in an average.
    pub(crate) count_include_pad: bool,
}

/// Element-wise program over broadcast operands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PointwiseStep {
    /// Operands, already broadcast to the result's shape.
    pub(crate) inputs: Vec<View>,
    /// Result; dense, and may be the very view of an operand.
    pub(crate) y: View,
    /// What to compute.
    pub(crate) program: Program,
}

/// Reduction over some axes of `x`; `y` has those axes with extent 1.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ReduceStep {
    /// Operand.
    pub(crate) x: View,
    /// Result, of the same rank.
    pub(crate) y: View,
    /// What is taken.
    pub(crate) kind: ReduceKind,
}

/// Position of the extreme value along an axis; `y` is i64 with that axis of extent 1.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ArgReduceStep {
    /// Operand.
    pub(crate) x: View,
    /// Result, of the same rank.
    pub(crate) y: View,
    /// Which extreme; `axis` is not negative.
    pub(crate) params: ArgReduce,
}

/// Softmax over the last axis of rows `[rows, width]` with unit stride along it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SoftmaxStep {
    /// Operand.
    pub(crate) x: View,
    /// Result; may be the very view of the operand.
    pub(crate) y: View,
    /// The logarithm of it.
    pub(crate) log: bool,
    /// Rows of nothing but minus infinity give zeros; else NaN, as the formula does.
    pub(crate) masked: bool,
}

/// Which statistics a normalisation uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NormKind {
    /// Mean and variance.
    MeanVariance,
    /// Mean square only.
    MeanSquare,
}

/// Normalisation of every row of `[rows, width]`, then `* scale + bias` along the width.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NormStep {
    /// Operand, unit stride along the width.
    pub(crate) x: View,
    /// Result, unit stride along the width.
    pub(crate) y: View,
    /// `[width]`, row-major.
    pub(crate) scale: Option<View>,
    /// `[width]`, row-major.
    pub(crate) bias: Option<View>,
    /// Statistics.
    pub(crate) kind: NormKind,
    /// Added to the variance or mean square.
    pub(crate) epsilon: f32,
}

/// Normalisation of `[n, c, positions]` per sample and group of channels, then per channel
/// `* scale + bias`. `x` and `y` have any strides.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GroupNormStep {
    /// Operand.
    pub(crate) x: View,
    /// Result.
    pub(crate) y: View,
    /// `[c]`.
    pub(crate) scale: View,
    /// `[c]`.
    pub(crate) bias: View,
    /// Groups; as many as channels for instance normalisation.
    pub(crate) groups: usize,
    /// Added to the variance.
    pub(crate) epsilon: f32,
}

/// Indexing along one axis: `y[.., i, ..] = x[.., index[i], ..]`, negative indices counting
/// from the end. `x` is `[outer, extent, inner]`, `index` `[count]`, `y` `[outer, count, inner]`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GatherStep {
    /// Operand.
    pub(crate) x: View,
    /// i64.
    pub(crate) index: View,
    /// Result.
    pub(crate) y: View,
}

/// `y[i...] = x[i... with index[i...] along axis]`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GatherElementsStep {
    /// Operand.
    pub(crate) x: View,
    /// i64, of the result's shape.
    pub(crate) index: View,
    /// Result.
    pub(crate) y: View,
    /// Axis indexed.
    pub(crate) axis: usize,
}

/// Index tuples along the last axis of `index`; see ONNX GatherND. `y`'s axes are the batch and
/// index axes, then what remains of `x`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GatherNdStep {
    /// Operand.
    pub(crate) x: View,
    /// i64.
    pub(crate) index: View,
    /// Result.
    pub(crate) y: View,
    /// Leading axes shared.
    pub(crate) batch_dims: usize,
}

/// Writes `updates` into `y`, which already holds the operand.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ScatterElementsStep {
    /// i64.
    pub(crate) index: View,
    /// Same shape as `index`.
    pub(crate) updates: View,
    /// Written in place.
    pub(crate) y: View,
    /// Axis indexed.
    pub(crate) axis: usize,
    /// How an update meets what is there.
    pub(crate) reduction: ScatterReduction,
}

/// Writes blocks of `updates` into `y`, which already holds the operand; see ONNX ScatterND.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ScatterNdStep {
    /// i64.
    pub(crate) index: View,
    /// Blocks.
    pub(crate) updates: View,
    /// Written in place.
    pub(crate) y: View,
    /// How an update meets what is there.
    pub(crate) reduction: ScatterReduction,
}

/// Weighted sums of positions along one axis:
/// `y[.., o, ..] = sum over t of weight[o, t] * x[.., index[o, t], ..]`.
/// Interpolation, padding by reflection or edge, and nearest-neighbour resizing are all this.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ResampleStep {
    /// Operand.
    pub(crate) x: View,
    /// Result; equal to `x` in every other axis.
    pub(crate) y: View,
    /// The axis.
    pub(crate) axis: usize,
    /// Positions per result.
    pub(crate) taps: usize,
    /// `[extent of y][taps]`.
    pub(crate) index: Arc<Vec<u32>>,
    /// `[extent of y][taps]`; `None` means all ones with one tap (a plain copy).
    pub(crate) weight: Option<Arc<Vec<f32>>>,
}

/// Samples `[n, c, h, w]` at `grid` `[n, oh, ow, 2]` (x then y, in -1..1).
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GridSampleStep {
    /// Image.
    pub(crate) x: View,
    /// Coordinates.
    pub(crate) grid: View,
    /// Result.
    pub(crate) y: View,
    /// Interpolation.
    pub(crate) mode: Interpolation,
    /// What lies outside.
    pub(crate) padding: GridPadding,
    /// Whether -1 and 1 are corner centres.
    pub(crate) align_corners: bool,
}

/// Running sum along an axis.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CumSumStep {
    /// Operand.
    pub(crate) x: View,
    /// Result.
    pub(crate) y: View,
    /// The axis.
    pub(crate) axis: usize,
    /// Leave the element itself out.
    pub(crate) exclusive: bool,
    /// From the end.
    pub(crate) reverse: bool,
}

/// The `k` extreme values along an axis, ordered, first positions winning ties.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TopKStep {
    /// Operand.
    pub(crate) x: View,
    /// Values, if wanted.
    pub(crate) values: Option<View>,
    /// i64 positions, if wanted.
    pub(crate) indices: Option<View>,
    /// The axis.
    pub(crate) axis: usize,
    /// Largest or smallest.
    pub(crate) largest: bool,
}

/// A recurrent network over `[time, batch, in]`, one direction.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RecurrentStep {
    /// Sequence `[time, batch, in]`.
    pub(crate) x: View,
    /// Input weights, one tap: `[in][gates * hidden]`.
    pub(crate) w: Weights,
    /// Recurrent weights, one tap: `[hidden][gates * hidden]`.
    pub(crate) r: Weights,
    /// Input bias `[gates * hidden]`.
    pub(crate) w_bias: Arc<Vec<f32>>,
    /// Recurrent bias `[gates * hidden]`.
    pub(crate) r_bias: Arc<Vec<f32>>,
    /// Peephole weights `[3 * hidden]` of an LSTM.
    pub(crate) peephole: Option<Arc<Vec<f32>>>,
    /// First state `[batch, hidden]`; zeros where left out.
    pub(crate) h0: Option<View>,
    /// First cell `[batch, hidden]`; zeros where left out.
    pub(crate) c0: Option<View>,
    /// All states `[time, batch, hidden]`, if wanted.
    pub(crate) y: Option<View>,
    /// Last state `[batch, hidden]`, dense.
    pub(crate) h: View,
    /// Last cell `[batch, hidden]`, dense.
    pub(crate) c: Option<View>,
    /// Gates of every time step, `[time * batch, gates * hidden]`, scratch.
    pub(crate) gates: View,
    /// Recurrent product of one time step, `[batch, gates * hidden]`, scratch.
    pub(crate) recurrent: View,
    /// Cell.
    pub(crate) cell: Cell,
    /// Forward or reverse.
    pub(crate) direction: Direction,
    /// Activations of this direction in ONNX's order.
    pub(crate) activations: [Unary; 3],
}

/// One step.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
#[allow(
    missing_docs,
    reason = "each variant is described at the struct it holds"
)]
pub(crate) enum Step {
    Conv(ConvStep),
    Linear(LinearStep),
    MatMul(MatMulStep),
    Attention(AttentionStep),
    Pool(PoolStep),
    Pointwise(PointwiseStep),
    Reduce(ReduceStep),
    ArgReduce(ArgReduceStep),
    Softmax(SoftmaxStep),
    Norm(NormStep),
    GroupNorm(GroupNormStep),
    /// Element by element from one view to another of the same shape and storage.
    Copy {
        x: View,
        y: View,
    },
    /// One value everywhere.
    Fill {
        y: View,
        value: f64,
    },
    Gather(GatherStep),
    GatherElements(GatherElementsStep),
    GatherNd(GatherNdStep),
    ScatterElements(ScatterElementsStep),
    ScatterNd(ScatterNdStep),
    Resample(ResampleStep),
    GridSample(GridSampleStep),
    CumSum(CumSumStep),
    TopK(TopKStep),
    Recurrent(Box<RecurrentStep>),
}

impl Step {
    /// Short name for reports.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Conv(c) if c.transposed => "conv_transpose",
            Self::Conv(c) if c.is_depthwise() => "depthwise",
            Self::Conv(_) => "conv",
            Self::Linear(_) => "linear",
            Self::MatMul(_) => "matmul",
            Self::Attention(_) => "attention",
            Self::Pool(_) => "pool",
            Self::Pointwise(_) => "pointwise",
            Self::Reduce(_) => "reduce",
            Self::ArgReduce(_) => "arg_reduce",
            Self::Softmax(_) => "softmax",
            Self::Norm(_) => "norm",
            Self::GroupNorm(_) => "group_norm",
            Self::Copy { .. } => "copy",
            Self::Fill { .. } => "fill",
            Self::Gather(_) => "gather",
            Self::GatherElements(_) => "gather_elements",
            Self::GatherNd(_) => "gather_nd",
            Self::ScatterElements(_) => "scatter_elements",
            Self::ScatterNd(_) => "scatter_nd",
            Self::Resample(_) => "resample",
            Self::GridSample(_) => "grid_sample",
            Self::CumSum(_) => "cumsum",
            Self::TopK(_) => "top_k",
            Self::Recurrent(_) => "recurrent",
        }
    }

    /// Bytes of the weights and biases this step holds, as f32.
    pub(crate) fn weight_bytes(&self) -> usize {
        let bias = |e: &Epilogue| e.bias.as_ref().map_or(0, |b| b.len());
        4 * match self {
            Self::Conv(c) => c.weights.len() + bias(&c.epilogue),
            Self::Linear(l) => l.weights.len() + bias(&l.epilogue),
            Self::Recurrent(r) => {
                r.w.len()
                    + r.r.len()
                    + r.w_bias.len()
                    + r.r_bias.len()
                    + r.peephole.as_ref().map_or(0, |p| p.len())
            }
            _ => 0,
        }
    }

    /// Bytes of positions and weights made when the step was.
    pub(crate) fn table_bytes(&self) -> usize {
        let Self::Resample(step) = self else {
            return 0;
        };
        let weights = step.weight.as_ref().map_or(0, |weights| weights.len());
        (step.index.len() + weights).saturating_mul(4)
    }

    /// Drops weights, once an executor holds packed copies.
    pub(crate) fn forget_weights(&mut self) {
        match self {
            Self::Conv(ConvStep { weights, .. }) | Self::Linear(LinearStep { weights, .. }) => {
                weights.forget();
            }
            Self::Recurrent(s) => {
                s.w.forget();
                s.r.forget();
            }
            _ => {}
        }
    }

    /// Multiply-accumulate operations of the products in this step.
    pub(crate) fn macs(&self) -> u64 {
        match self {
            Self::Conv(c) if c.transposed => {
                (c.x.len() * c.weights.taps * c.weights.out_per_group) as u64
            }
            Self::Conv(c) => (c.y.len() * c.weights.taps * c.weights.in_per_group) as u64,
            Self::Linear(l) => (l.y.len() * l.weights.in_per_group) as u64,
            Self::MatMul(m) => m.a.axes.last().map_or(0, |k| m.y.len() * k.extent) as u64,
            Self::Attention(s) => s.macs(),
            Self::Recurrent(r) => {
                let rows = r.gates.axes[0].extent;
                (rows * r.gates.axes[1].extent * (r.w.in_per_group + r.r.in_per_group)) as u64
            }
            _ => 0,
        }
    }

    /// Views read; `views_written` of a scatter are read as well.
    pub(crate) fn views_read(&self) -> Vec<&View> {
        let mut views = Vec::new();
        match self {
            Self::Conv(s) => {
                views.push(&s.x);
                views.extend(&s.epilogue.residual);
            }
            Self::Linear(s) => {
                views.push(&s.x);
                views.extend(&s.epilogue.residual);
            }
            Self::MatMul(s) => views.extend([&s.a, &s.b]),
            Self::Attention(s) => {
                views.extend([&s.q, &s.k, &s.v]);
                views.extend(s.mask.view());
            }
            Self::Pool(s) => views.push(&s.x),
            Self::Pointwise(s) => views.extend(&s.inputs),
            Self::Reduce(s) => views.push(&s.x),
            Self::ArgReduce(s) => views.push(&s.x),
            Self::Softmax(s) => views.push(&s.x),
            Self::Norm(s) => {
                views.push(&s.x);
                views.extend(&s.scale);
                views.extend(&s.bias);
            }
            Self::GroupNorm(s) => views.extend([&s.x, &s.scale, &s.bias]),
            Self::Copy { x, .. } => views.push(x),
            Self::Fill { .. } => {}
            Self::Gather(s) => views.extend([&s.x, &s.index]),
            Self::GatherElements(s) => views.extend([&s.x, &s.index]),
            Self::GatherNd(s) => views.extend([&s.x, &s.index]),
            Self::ScatterElements(s) => views.extend([&s.index, &s.updates]),
            Self::ScatterNd(s) => views.extend([&s.index, &s.updates]),
            Self::Resample(s) => views.push(&s.x),
            Self::GridSample(s) => views.extend([&s.x, &s.grid]),
            Self::CumSum(s) => views.push(&s.x),
            Self::TopK(s) => views.push(&s.x),
            Self::Recurrent(s) => {
                views.push(&s.x);
                views.extend(&s.h0);
                views.extend(&s.c0);
            }
        }
        views
    }

    /// Calls `f` with every view of the step.
    pub(crate) fn for_each_view_mut(&mut self, mut f: impl FnMut(&mut View)) {
        match self {
            Self::Conv(ConvStep { x, y, epilogue, .. })
            | Self::Linear(LinearStep { x, y, epilogue, .. }) => {
                f(x);
                f(y);
                epilogue.residual.iter_mut().for_each(f);
            }
            Self::MatMul(s) => [&mut s.a, &mut s.b, &mut s.y].into_iter().for_each(f),
            Self::Attention(s) => {
                let views = [&mut s.q, &mut s.k, &mut s.v, &mut s.y];
                views.into_iter().chain(s.mask.view_mut()).for_each(f);
            }
            Self::Pool(PoolStep { x, y, .. })
            | Self::Reduce(ReduceStep { x, y, .. })
            | Self::ArgReduce(ArgReduceStep { x, y, .. })
            | Self::Softmax(SoftmaxStep { x, y, .. })
            | Self::Copy { x, y }
            | Self::Resample(ResampleStep { x, y, .. })
            | Self::CumSum(CumSumStep { x, y, .. }) => {
                f(x);
                f(y);
            }
            Self::Pointwise(s) => {
                s.inputs.iter_mut().for_each(&mut f);
                f(&mut s.y);
            }
            Self::Norm(s) => {
                f(&mut s.x);
                f(&mut s.y);
                s.scale.iter_mut().chain(&mut s.bias).for_each(f);
            }
            Self::GroupNorm(s) => [&mut s.x, &mut s.y, &mut s.scale, &mut s.bias]
                .into_iter()
                .for_each(f),
            Self::Fill { y, .. } => f(y),
            Self::Gather(s) => [&mut s.x, &mut s.index, &mut s.y].into_iter().for_each(f),
            Self::GatherElements(s) => [&mut s.x, &mut s.index, &mut s.y].into_iter().for_each(f),
            Self::GatherNd(s) => [&mut s.x, &mut s.index, &mut s.y].into_iter().for_each(f),
            Self::ScatterElements(s) => [&mut s.index, &mut s.updates, &mut s.y]
                .into_iter()
                .for_each(f),
            Self::ScatterNd(s) => [&mut s.index, &mut s.updates, &mut s.y]
                .into_iter()
                .for_each(f),
            Self::GridSample(s) => [&mut s.x, &mut s.grid, &mut s.y].into_iter().for_each(f),
            Self::TopK(s) => {
                f(&mut s.x);
                s.values.iter_mut().chain(&mut s.indices).for_each(f);
            }
            Self::Recurrent(s) => {
                [&mut s.x, &mut s.h, &mut s.gates, &mut s.recurrent]
                    .into_iter()
                    .for_each(&mut f);
                let optional = [&mut s.h0, &mut s.c0, &mut s.y, &mut s.c];
                optional.into_iter().flatten().for_each(f);
            }
        }
    }

    /// Views written, scratch included.
    pub(crate) fn views_written(&self) -> Vec<&View> {
        match self {
            Self::Conv(s) => vec![&s.y],
            Self::Linear(s) => vec![&s.y],
            Self::MatMul(s) => vec![&s.y],
            Self::Attention(s) => vec![&s.y],
            Self::Pool(s) => vec![&s.y],
            Self::Pointwise(s) => vec![&s.y],
            Self::Reduce(s) => vec![&s.y],
            Self::ArgReduce(s) => vec![&s.y],
            Self::Softmax(s) => vec![&s.y],
            Self::Norm(s) => vec![&s.y],
            Self::GroupNorm(s) => vec![&s.y],
            Self::Copy { y, .. } | Self::Fill { y, .. } => vec![y],
            Self::Gather(s) => vec![&s.y],
            Self::GatherElements(s) => vec![&s.y],
            Self::GatherNd(s) => vec![&s.y],
            Self::ScatterElements(s) => vec![&s.y],
            Self::ScatterNd(s) => vec![&s.y],
            Self::Resample(s) => vec![&s.y],
            Self::GridSample(s) => vec![&s.y],
            Self::CumSum(s) => vec![&s.y],
            Self::TopK(s) => s.values.iter().chain(&s.indices).collect(),
            Self::Recurrent(s) => {
                let mut views = vec![&s.h, &s.gates, &s.recurrent];
                views.extend(&s.y);
                views.extend(&s.c);
                views
            }
        }
    }
}

impl ConvStep {
    /// Whether every channel sees only itself.
    pub(crate) fn is_depthwise(&self) -> bool {
        !self.transposed
            && self.weights.groups > 1
            && self.weights.in_per_group == 1
            && self.weights.out_per_group == 1
    }
}
