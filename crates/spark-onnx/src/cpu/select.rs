//! Which kernel computes a step: one ordered list per kind of step.
//!
//! ```text
//! for kernel in list:  can_implement(problem) and is_profitable(problem)?  -> prepare it
//! ```
//!
//! The first that suits is taken, by shapes, format and instruction set alone, never by a
//! stopwatch. The last of a list computes every step of its kind. What a fast product of 16 bits is
//! on this processor was measured before, once, by `formats`, and is part of the problem.

use spark_quant::QuantError;

use super::attention::Attention;
use super::conv::DirectConv;
use super::depthwise::Depthwise;
use super::few_bits::Quantised;
use super::gather::{Gather, GatherElements, GatherNd, ScatterElements, ScatterNd};
use super::matmul::{Linear, MatMul};
use super::movement::{CopyNest, FillNest};
use super::norm::{GroupNorm, RowNorm};
use super::pointwise::Pointwise;
use super::pool2d::Pool2d;
use super::prepared::{Cpu, Kernel, PreparedStep, Problem};
use super::recurrent::Recurrent;
use super::reduce::{ArgReduce, CumSum, Reduce, TopK};
use super::resample::{GridSample, Resample};
use super::softmax::Softmax;
use super::strip;
use super::winograd::Winograd;
use crate::plan::{ConvStep, LinearStep, Plan, Step};

/// A kernel for steps `S`.
struct Candidate<S> {
    suits: fn(&Problem<'_, S>) -> bool,
    prepare: fn(&Problem<'_, S>) -> Prepared,
}

type Prepared = Result<Box<dyn PreparedStep>, QuantError>;

impl<S> Candidate<S> {
    const fn of<K: Kernel<S>>() -> Self {
        Self {
            suits: |problem| K::can_implement(problem) && K::is_profitable(problem),
            prepare: boxed::<S, K>,
        }
    }
}

fn boxed<S, K: Kernel<S>>(problem: &Problem<'_, S>) -> Prepared {
    Ok(Box::new(K::prepare(problem)?))
}

const CONV: &[Candidate<ConvStep>] = &[
    Candidate::of::<Quantised>(),
    Candidate::of::<Depthwise>(),
    Candidate::of::<Winograd>(),
    Candidate::of::<DirectConv>(),
];
const LINEAR: &[Candidate<LinearStep>] = &[Candidate::of::<Quantised>(), Candidate::of::<Linear>()];

/// Prepares the step of `problem` for the kernel that computes it.
///
/// # Errors
///
/// [`QuantError`] if weights cannot be quantised.
pub(super) fn prepare(problem: &Problem<'_, Step>) -> Prepared {
    match problem.whole {
        Step::Conv(step) => first(CONV, problem, step),
        Step::Linear(step) => first(LINEAR, problem, step),
        Step::MatMul(step) => first(&[Candidate::of::<MatMul>()], problem, step),
        Step::Attention(step) => first(&[Candidate::of::<Attention>()], problem, step),
        Step::Pool(step) => first(&[Candidate::of::<Pool2d>()], problem, step),
        Step::Pointwise(step) => first(&[Candidate::of::<Pointwise>()], problem, step),
        Step::Reduce(step) => first(&[Candidate::of::<Reduce>()], problem, step),
        Step::ArgReduce(step) => first(&[Candidate::of::<ArgReduce>()], problem, step),
        Step::Softmax(step) => first(&[Candidate::of::<Softmax>()], problem, step),
        Step::Norm(step) => first(&[Candidate::of::<RowNorm>()], problem, step),
        Step::GroupNorm(step) => first(&[Candidate::of::<GroupNorm>()], problem, step),
        Step::Copy(step) => first(&[Candidate::of::<CopyNest>()], problem, step),
        Step::Fill(step) => first(&[Candidate::of::<FillNest>()], problem, step),
        Step::Gather(step) => first(&[Candidate::of::<Gather>()], problem, step),
        Step::GatherElements(step) => first(&[Candidate::of::<GatherElements>()], problem, step),
        Step::GatherNd(step) => first(&[Candidate::of::<GatherNd>()], problem, step),
        Step::ScatterElements(step) => first(&[Candidate::of::<ScatterElements>()], problem, step),
        Step::ScatterNd(step) => first(&[Candidate::of::<ScatterNd>()], problem, step),
        Step::Resample(step) => first(&[Candidate::of::<Resample>()], problem, step),
        Step::GridSample(step) => first(&[Candidate::of::<GridSample>()], problem, step),
        Step::CumSum(step) => first(&[Candidate::of::<CumSum>()], problem, step),
        Step::TopK(step) => first(&[Candidate::of::<TopK>()], problem, step),
        Step::Recurrent(step) => first(&[Candidate::of::<Recurrent>()], problem, &**step),
    }
}

/// Prepares the first kernel of `list` that suits; the last one suits everything.
fn first<S>(list: &[Candidate<S>], problem: &Problem<'_, Step>, step: &S) -> Prepared {
    let problem = Problem {
        cpu: problem.cpu,
        plan: problem.plan,
        step,
        whole: problem.whole,
        format: problem.format,
        arithmetic: problem.arithmetic,
    };
    let suits = |candidate: &&Candidate<S>| (candidate.suits)(&problem);
    let found = list.iter().find(suits).unwrap_or(&list[list.len() - 1]);
    (found.prepare)(&problem)
}

/// Whether the steps at `index`, prepared as `source`, and behind it, as `reader`, are computed
/// together, a block of the feature map between them at a time.
pub(super) fn are_fused(
    cpu: Cpu<'_>,
    plan: &Plan,
    index: usize,
    source: &dyn PreparedStep,
    reader: &dyn PreparedStep,
) -> bool {
    source.map_source().is_some()
        && reader.map_reader().is_some()
        && strip::pays(cpu.isa, plan, index, cpu.pool.threads())
}
