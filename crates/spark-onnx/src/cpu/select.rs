//! Which kernel computes a step: one ordered list per kind of step.
//!
//! ```text
//! for kernel in list:  can_implement(problem) and is_profitable(problem)?  -> selected
//! selected:            packing_bytes, held against the budget; then prepare
//! ```
//!
//! The first that accepts the problem is taken, never by a stopwatch. The last of a list computes every
//! step of its kind. How GEMM of 16 bits are computed was chosen before, by `formats`, and is part of
//! the problem.
//!
//! A kernel is shown to users as `{isa}-{types}-{algorithm}`, such as `avx2-f32xbf16-direct`. The
//! algorithms stand in the lists; names in use are not changed, as records are compared by them.

use spark_quant::QuantError;

use super::attention::Attention;
use super::control::Control;
use super::conv::depthwise::Depthwise;
use super::conv::direct::DirectConv;
use super::conv::winograd::Winograd;
use super::custom::CustomKernel;
use super::data_movement::copy::{CopyNest, FillNest};
use super::data_movement::gather::{Gather, GatherElements, GatherNd, ScatterElements, ScatterNd};
use super::data_movement::resample::{GridSample, Resample};
use super::data_movement::roi_align::RoiAlign;
use super::elementwise::byte_table::ByteTable;
use super::elementwise::dropout::Dropout;
use super::elementwise::pointwise::Pointwise;
use super::elementwise::quantised::Quantised as QuantisedPointwise;
use super::int8::depthwise::Int8Depthwise;
use super::int8::product::Int8Product;
use super::matmul::activations::RoundedActivations;
use super::matmul::deep::DeepMatMul;
use super::matmul::few_bits::Quantised;
use super::matmul::gemm::{Linear, MatMul};
use super::normalization::norm::{ChannelsLastGroupNorm, GroupNorm, RowNorm};
use super::normalization::softmax::Softmax;
use super::prepared::{Kernel, PreparedStep, Problem};
use super::recurrent::Recurrent;
use super::reduction::byte_mean::ByteMean;
use super::reduction::byte_pool::BytePool;
use super::reduction::pool2d::Pool2d;
use super::reduction::reduce::{ArgReduce, CumSum, Reduce, TopK};
use super::simd::Isa;
use crate::plan::{
    ConvStep, GroupNormStep, Int8Step, LinearStep, MatMulStep, PointwiseStep, PoolStep, ReduceStep,
    Step, View,
};

/// A kernel for steps `S`, with the last part of its name.
struct Candidate<S> {
    algorithm: &'static str,
    accepts: fn(&Problem<'_, S>) -> bool,
    packing_bytes: fn(&Problem<'_, S>) -> usize,
    never_bf16: for<'p> fn(&Problem<'p, S>) -> Vec<&'p View>,
    prepare: fn(&Problem<'_, S>) -> Boxed,
}

type Boxed = Result<Box<dyn PreparedStep>, QuantError>;

/// The kernel chosen for a step, not yet prepared.
pub(super) struct Selected<'p> {
    /// The last part of the kernel's name.
    pub(super) algorithm: &'static str,
    /// Bytes that preparing it takes at most, as [`Kernel::packing_bytes`] says.
    pub(super) packing_bytes: usize,
    /// The views that may not be held as bf16, as [`Kernel::never_bf16`] says.
    pub(super) never_bf16: Vec<&'p View>,
    /// Packs the step's weights and orders its loops, as [`Kernel::prepare`] does.
    pub(super) prepare: Box<dyn FnOnce() -> Boxed + 'p>,
}

impl<S> Candidate<S> {
    const fn of<K: Kernel<S>>(algorithm: &'static str) -> Self {
        Self {
            algorithm,
            accepts: |problem| K::can_implement(problem) && K::is_profitable(problem),
            packing_bytes: K::packing_bytes,
            never_bf16: K::never_bf16,
            prepare: boxed::<S, K>,
        }
    }
}

fn boxed<S, K: Kernel<S>>(problem: &Problem<'_, S>) -> Boxed {
    Ok(Box::new(K::prepare(problem)?))
}

const CONV: &[Candidate<ConvStep>] = &[
    Candidate::of::<Quantised>("panels"),
    Candidate::of::<Depthwise>("depthwise"),
    Candidate::of::<Winograd>("winograd2x3"),
    Candidate::of::<DirectConv>("direct"),
];
const LINEAR: &[Candidate<LinearStep>] = &[
    Candidate::of::<Quantised>("panels"),
    Candidate::of::<Linear>("gemm"),
];
const INT8: &[Candidate<Int8Step>] = &[
    Candidate::of::<Int8Depthwise>("int8-depthwise"),
    Candidate::of::<Int8Product>("int8-direct"),
];
const MATMUL: &[Candidate<MatMulStep>] = &[
    Candidate::of::<DeepMatMul>("deep-gemm"),
    Candidate::of::<MatMul>("batched-gemm"),
];
const POINTWISE: &[Candidate<PointwiseStep>] = &[
    Candidate::of::<ByteTable>("byte-table"),
    Candidate::of::<QuantisedPointwise>("quantised-pointwise"),
    Candidate::of::<Pointwise>("fused-pointwise"),
];
const POOL: &[Candidate<PoolStep>] = &[
    Candidate::of::<BytePool>("byte-pool"),
    Candidate::of::<Pool2d>("pool"),
];
const REDUCE: &[Candidate<ReduceStep>] = &[
    Candidate::of::<ByteMean>("byte-mean"),
    Candidate::of::<Reduce>("reduce"),
];
const GROUP_NORM: &[Candidate<GroupNormStep>] = &[
    Candidate::of::<ChannelsLastGroupNorm>("group-norm-channels-last"),
    Candidate::of::<GroupNorm>("group-norm"),
];

/// Chooses the kernel that computes the step of `problem`.
pub(super) fn select<'p>(problem: &Problem<'p, Step>) -> Selected<'p> {
    match problem.whole {
        Step::Conv(step) => first(CONV, problem, step),
        Step::Linear(step) => first(LINEAR, problem, step),
        Step::MatMul(step) => first(MATMUL, problem, step),
        Step::Attention(step) => first(
            &[Candidate::of::<Attention>("tiled-attention")],
            problem,
            step,
        ),
        Step::Int8(step) => first(INT8, problem, &**step),
        Step::Pool(step) => first(POOL, problem, step),
        Step::Pointwise(step) => first(POINTWISE, problem, step),
        Step::Dropout(step) => first(&[Candidate::of::<Dropout>("dropout")], problem, step),
        Step::RoundedActivations(step) => first(
            &[Candidate::of::<RoundedActivations>("rounded-activations")],
            problem,
            step,
        ),
        Step::Reduce(step) => first(REDUCE, problem, step),
        Step::ArgReduce(step) => first(&[Candidate::of::<ArgReduce>("arg-reduce")], problem, step),
        Step::Softmax(step) => first(&[Candidate::of::<Softmax>("softmax")], problem, step),
        Step::Norm(step) => first(&[Candidate::of::<RowNorm>("row-norm")], problem, step),
        Step::GroupNorm(step) => first(GROUP_NORM, problem, step),
        Step::Copy(step) => first(&[Candidate::of::<CopyNest>("copy")], problem, step),
        Step::Fill(step) => first(&[Candidate::of::<FillNest>("fill")], problem, step),
        Step::Gather(step) => first(&[Candidate::of::<Gather>("gather")], problem, step),
        Step::GatherElements(step) => first(
            &[Candidate::of::<GatherElements>("gather-elements")],
            problem,
            step,
        ),
        Step::GatherNd(step) => first(&[Candidate::of::<GatherNd>("gather-nd")], problem, step),
        Step::ScatterElements(step) => first(
            &[Candidate::of::<ScatterElements>("scatter-elements")],
            problem,
            step,
        ),
        Step::ScatterNd(step) => first(&[Candidate::of::<ScatterNd>("scatter-nd")], problem, step),
        Step::Resample(step) => first(&[Candidate::of::<Resample>("resample")], problem, step),
        Step::GridSample(step) => {
            first(&[Candidate::of::<GridSample>("grid-sample")], problem, step)
        }
        Step::RoiAlign(step) => first(&[Candidate::of::<RoiAlign>("roi-align")], problem, step),
        Step::Control(step) => first(&[Candidate::of::<Control>("control")], problem, step),
        Step::Custom(step) => first(&[Candidate::of::<CustomKernel>("custom")], problem, step),
        Step::CumSum(step) => first(&[Candidate::of::<CumSum>("cumsum")], problem, step),
        Step::TopK(step) => first(&[Candidate::of::<TopK>("top-k")], problem, step),
        Step::Recurrent(step) => {
            first(&[Candidate::of::<Recurrent>("recurrent")], problem, &**step)
        }
    }
}

/// The first kernel of `list` that accepts the problem; the last one can implement every step of
/// its kind.
fn first<'p, S>(list: &[Candidate<S>], problem: &Problem<'p, Step>, step: &'p S) -> Selected<'p> {
    let problem = Problem {
        cpu: problem.cpu,
        plan: problem.plan,
        step,
        whole: problem.whole,
        format: problem.format,
        arithmetic: problem.arithmetic,
        packing: problem.packing,
    };
    let accepts = |candidate: &&Candidate<S>| (candidate.accepts)(&problem);
    let found = list.iter().find(accepts).unwrap_or(&list[list.len() - 1]);
    let prepare = found.prepare;
    Selected {
        algorithm: found.algorithm,
        packing_bytes: (found.packing_bytes)(&problem),
        never_bf16: (found.never_bf16)(&problem),
        prepare: Box::new(move || prepare(&problem)),
    }
}

/// The stable name `{isa}-{types}-{algorithm}` of what computes `step`, prepared by `algorithm`, or
/// by `fused_algorithm` together with a step beside it.
pub(super) fn kernel_name(
    isa: Isa,
    algorithm: &str,
    step: &dyn PreparedStep,
    fused_algorithm: Option<&'static str>,
) -> String {
    let operands = step.operands();
    match (fused_algorithm, step.variant()) {
        (Some(fused), _) => format!("{isa}-{operands}-{fused}"),
        (None, "") => format!("{isa}-{operands}-{algorithm}"),
        (None, variant) => format!("{isa}-{operands}-{algorithm}-{variant}"),
    }
}
