//! The CPU executor: a plan, prepared for one instruction set, run on a pool of threads.
//!
//! ```text
//! Plan --prepare--> weights packed, loops collapsed, arena and scratch taken
//!      --run------> one kernel per step; nothing is allocated
//! ```
//!
//! Results are the same bits whatever the number of threads: work is split so that
//! each element is computed by one thread in an order that the shapes alone decide.
//!
//! Deliberately absent: knowledge of operators and graphs.

#![allow(
    unsafe_code,
    reason = "kernels move raw pointers through views checked at load, and use SIMD intrinsics"
)]

mod attention;
mod columns;
mod conv;
mod depthwise;
mod formats;
mod gather;
mod gemm;
mod math;
mod matmul;
mod memory;
mod movement;
mod narrow;
mod norm;
mod pack;
mod pair;
mod peak;
mod pointwise;
mod pool2d;
pub mod product;
mod quantised;
mod recurrent;
mod reduce;
mod resample;
mod room;
mod rounding;
mod rows;
mod simd;
mod sliding;
mod softmax;
mod strip;
mod transfer;
mod winograd;

use std::sync::Arc;
use std::time::{Duration, Instant};

use formats::{ProductFormat, Products};
use gather::IndexOutside;
use memory::{AlignedF32, Memory};
use pointwise::{DividedByZero, PreparedPointwise, Scratch};
use rounding::Runs;
use spark_quant::QuantError;

pub use crate::error::ViewOutside;
pub use peak::Peaks;
pub use simd::Isa;
pub(crate) use spark_parallel::Pool;

use crate::budget::{Asker, Budget};
use crate::graph::infer::DIVIDED_BY_ZERO;
use crate::plan::{Plan, PlannedStep, PointwiseStep, Step, Storage};
use crate::precision::{Arithmetic, StepPrecision, Wanted};
use crate::{ModelError, Precision, Tensor};

/// What memory is for, in errors.
const PACKED: &str = "packing its weights";
const SCRATCH: &str = "its scratch on every thread";

/// What a step needs beyond the plan.
enum Prepared {
    Nothing,
    Conv(conv::PreparedConv),
    /// A 3x3 convolution with its weights transformed.
    Winograd(winograd::PreparedWinograd),
    Depthwise(depthwise::PreparedDepthwise),
    Linear(matmul::PreparedLinear),
    /// A linear step or convolution with weights of eight or four bits.
    Quantised(Box<quantised::PreparedQuantised>),
    Pointwise(PreparedPointwise),
    /// The loops of a copy, a fill or a resampling.
    Nest(movement::Nest),
    Recurrent(Box<recurrent::PreparedRecurrent>),
}

impl Prepared {
    fn new(
        isa: Isa,
        plan: &Plan,
        step: &Step,
        format: ProductFormat,
        arithmetic: Arithmetic,
        pool: &Pool,
    ) -> Result<Self, QuantError> {
        let quantised = quantised::PreparedQuantised::new(
            isa,
            step,
            format.precision,
            arithmetic.activations,
            format.rounds_result,
            pool.threads(),
        );
        if let Some(prepared) = quantised {
            return Ok(Self::Quantised(Box::new(prepared?)));
        }
        Ok(match step {
            Step::Conv(s) if s.is_depthwise() => {
                Self::Depthwise(depthwise::PreparedDepthwise::new(isa, s))
            }
            Step::Conv(s) if winograd::suits(s, format) => {
                Self::Winograd(winograd::PreparedWinograd::new(isa, s, format, pool))
            }
            Step::Conv(s) => Self::Conv(conv::PreparedConv::new(isa, s, format, pool)),
            Step::Linear(s) => Self::Linear(matmul::PreparedLinear::new(isa, s, format, pool)),
            Step::Pointwise(s) => Self::Pointwise(PreparedPointwise::new(plan, s)),
            Step::Copy(s) => Self::Nest(movement::copy_nest(&s.x, &s.y)),
            Step::Fill(s) => Self::Nest(movement::fill_nest(&s.y)),
            Step::Resample(s) => Self::Nest(resample::nest(s)),
            Step::Recurrent(s) => {
                Self::Recurrent(Box::new(recurrent::PreparedRecurrent::new(isa, s, pool)))
            }
            _ => Self::Nothing,
        })
    }

    fn weight_bytes(&self) -> usize {
        match self {
            Self::Conv(p) => p.weight_bytes(),
            Self::Winograd(p) => p.weight_bytes(),
            Self::Depthwise(p) => p.weight_bytes(),
            Self::Linear(p) => p.weight_bytes(),
            Self::Quantised(p) => p.weight_bytes(),
            Self::Recurrent(p) => p.weight_bytes(),
            Self::Nothing | Self::Pointwise(_) | Self::Nest(_) => 0,
        }
    }
}

/// One step, ready to run.
struct ReadyStep {
    prepared: Prepared,
    format: ProductFormat,
    /// What to round to bf16 after it, where its kernel does not.
    rounds: Vec<Runs>,
    /// Why it computes in this format.
    reason: &'static str,
    /// Whether the next step computes it, a strip at a time.
    goes_with_next: bool,
}

/// A plan ready to run on this processor.
pub(crate) struct Executor {
    plan: Plan,
    steps: Vec<ReadyStep>,
    /// By input of the plan: what to round to bf16 when it is set.
    input_rounds: Vec<Option<Runs>>,
    memory: Memory,
    scratch: AlignedF32,
    scratch_stride: usize,
    /// Activations of a product of eight or four bits.
    activations: AlignedF32,
    /// What is left of the plan's bytes.
    budget: Budget,
    isa: Isa,
    pool: Arc<Pool>,
}

impl Executor {
    /// Packs the weights of `plan` and takes all memory it runs in; everything computes in f32.
    ///
    /// # Errors
    ///
    /// As [`Executor::with_precisions`].
    pub(crate) fn new(plan: Plan, isa: Isa, pool: Arc<Pool>) -> Result<Self, ModelError> {
        let precisions = Wanted::from(Precision::Fp32).assign(&plan);
        Self::with_precisions(plan, isa, pool, &precisions, Arithmetic::default())
    }

    /// The same with a format per step, as [`Wanted::assign`] gives them.
    ///
    /// # Errors
    ///
    /// [`ModelError::View`] if the plan contradicts itself; [`ModelError::PrecisionUnavailable`] if
    /// dot products of bf16 or products of fp16 are asked for and the processor has none;
    /// [`ModelError::Quantise`] if weights cannot be quantised; [`ModelError::OverBudget`] or
    /// [`ModelError::OutOfMemory`] if it takes more memory than the plan's budget or the system has.
    pub(crate) fn with_precisions(
        mut plan: Plan,
        isa: Isa,
        pool: Arc<Pool>,
        precisions: &[StepPrecision],
        arithmetic: Arithmetic,
    ) -> Result<Self, ModelError> {
        assert_eq!(precisions.len(), plan.steps.len(), "one format per step");
        let products =
            Products::settle(isa, arithmetic, precisions).map_err(products_unavailable)?;
        let precisions = formats::without_idle_bf16(&plan, precisions, products.bf16);
        let inputs = formats::round_constants(&mut plan, &precisions, products.bf16);
        let formats = formats::choose(&plan, &precisions, products);
        let mut budget = plan.take_budget()?;
        let mut steps = Vec::with_capacity(plan.steps.len());
        for (index, (format, wanted)) in formats.into_iter().zip(&precisions).enumerate() {
            let planned = &plan.steps[index];
            let asker = room::asker(planned, PACKED);
            let packing = room::packing_bytes(isa, &planned.step, format, pool.threads());
            budget.check(asker, packing)?;
            let prepared = Prepared::new(isa, &plan, &planned.step, format, arithmetic, &pool);
            let prepared = prepared.map_err(|source| quantise_error(&planned.name, source))?;
            debug_assert!(prepared.weight_bytes() <= packing, "a bound");
            budget.take(asker, prepared.weight_bytes())?;
            steps.push(ReadyStep {
                prepared,
                format,
                rounds: rounds_after(&plan, &planned.step, format),
                reason: wanted.reason,
                goes_with_next: false,
            });
            // The packed copy serves from here on; both at once would be the most memory of all.
            plan.steps[index].step.forget_weights();
        }
        let ports = plan.inputs.iter().zip(inputs);
        let input_rounds = ports
            .map(|(port, rounded)| rounded.then(|| Runs::of(&port.view)))
            .collect();
        let threads = pool.threads();
        let needed = plan.steps.iter().enumerate().map(|(index, planned)| {
            let len = room::scratch_len(isa, &plan, index, threads);
            (len.next_multiple_of(16), room::asker(planned, SCRATCH))
        });
        let (scratch_stride, asker) = needed.max_by_key(|(len, _)| *len).unwrap_or((
            0,
            Asker {
                node: "",
                op: "",
                what: SCRATCH,
            },
        ));
        let scratch = room::take(&mut budget, asker, scratch_stride.saturating_mul(threads))?;
        let memory = Memory::new(&plan)?;
        for index in 0..steps.len() {
            steps[index].goes_with_next = goes_with_next(isa, &plan, &steps, index, threads);
        }
        let mut executor = Self {
            steps,
            input_rounds,
            memory,
            scratch,
            scratch_stride,
            budget,
            activations: AlignedF32::zeros(0),
            isa,
            pool,
            plan,
        };
        executor.make_room()?;
        Ok(executor)
    }

    /// Takes the memory that products of few bits run in and columns of f16 are widened in, where
    /// there is too little.
    fn make_room(&mut self) -> Result<(), ModelError> {
        let threads = self.pool.threads();
        for (ready, planned) in self.steps.iter().zip(&self.plan.steps) {
            let (scratch_len, activations_len) = match (&ready.prepared, &planned.step) {
                (Prepared::Quantised(p), _) => (p.scratch_len(self.isa), p.activations_len()),
                (Prepared::Linear(p), Step::Linear(s)) => (p.scratch_len(self.isa, s), 0),
                _ => continue,
            };
            if activations_len > self.activations.len() {
                let asker = room::asker(planned, "its activations");
                self.budget.give_back(4 * self.activations.len());
                self.activations = room::take(&mut self.budget, asker, activations_len)?;
            }
            let needed = scratch_len.next_multiple_of(16);
            if needed > self.scratch_stride {
                let asker = room::asker(planned, SCRATCH);
                self.budget.give_back(4 * self.scratch.len());
                let len = needed.saturating_mul(threads);
                self.scratch = room::take(&mut self.budget, asker, len)?;
                self.scratch_stride = needed;
            }
        }
        Ok(())
    }

    /// The plan; products hold no weights any more.
    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Bytes held against the plan's budget.
    pub(crate) fn held_bytes(&self) -> usize {
        self.plan.budget_bytes - self.budget.left()
    }

    /// Bytes of intermediate results and scratch.
    pub(crate) fn arena_bytes(&self) -> usize {
        self.memory.arena_bytes() + 4 * (self.scratch.len() + self.activations.len())
    }

    /// Bytes of packed weights and other constants.
    pub(crate) fn weight_bytes(&self) -> usize {
        let packed: usize = self.steps.iter().map(|s| s.prepared.weight_bytes()).sum();
        packed + self.plan.constant_bytes()
    }

    /// Bytes of the packed weights of step `index`.
    pub(crate) fn step_weight_bytes(&self, index: usize) -> usize {
        self.steps[index].prepared.weight_bytes()
    }

    /// Packs step `index` anew in another format; `step` is the plan's own, with its weights.
    ///
    /// # Errors
    ///
    /// [`ModelError::PrecisionUnavailable`] for bf16, which takes part of other steps as well, and
    /// for products of fp16 that the processor does not have;
    /// [`ModelError::Quantise`] if its weights cannot be quantised.
    pub(crate) fn set_precision(
        &mut self,
        index: usize,
        step: &Step,
        wanted: StepPrecision,
        arithmetic: Arithmetic,
    ) -> Result<(), ModelError> {
        if wanted.precision == Precision::Bf16 {
            return Err(ModelError::PrecisionUnavailable {
                precision: wanted.precision,
                device: "a single step",
                available: "fp32, fp16, fp8, fp4",
            });
        }
        let products =
            Products::settle(self.isa, arithmetic, &[wanted]).map_err(products_unavailable)?;
        let format = ProductFormat {
            rounds_result: self.steps[index].format.rounds_result,
            ..formats::of_step(step, wanted.precision, products)
        };
        let planned = &self.plan.steps[index];
        let asker = room::asker(planned, PACKED);
        let packing = room::packing_bytes(self.isa, step, format, self.pool.threads());
        self.budget.check(asker, packing)?;
        let prepared = Prepared::new(self.isa, &self.plan, step, format, arithmetic, &self.pool);
        let prepared = prepared.map_err(|source| quantise_error(&planned.name, source))?;
        self.budget
            .give_back(self.steps[index].prepared.weight_bytes());
        self.budget.take(asker, prepared.weight_bytes())?;
        self.steps[index].prepared = prepared;
        self.steps[index].format = format;
        self.steps[index].reason = wanted.reason;
        self.make_room()?;
        for at in [index.saturating_sub(1), index] {
            self.steps[at].goes_with_next =
                goes_with_next(self.isa, &self.plan, &self.steps, at, self.pool.threads());
        }
        Ok(())
    }

    /// Format of the operands of step `index`, what computes it, and why in this format.
    pub(crate) fn format(&self, index: usize) -> (Precision, &'static str, &'static str) {
        let step = &self.steps[index];
        let kernel = match &step.prepared {
            _ if step.goes_with_next => "in strips, with the step behind it",
            Prepared::Quantised(p) => p.kernel(),
            Prepared::Winograd(p) => p.kernel(),
            Prepared::Nothing if step.format.precision == Precision::Bf16 => {
                "f32 arithmetic on bf16 operands"
            }
            _ => step.format.kernel(),
        };
        (step.format.precision, kernel, step.reason)
    }

    /// Writes input number `index` of the plan.
    ///
    /// # Errors
    ///
    /// [`ModelError::InputType`] or [`ModelError::InputShape`] unless `tensor` is what the plan was
    /// made for.
    pub(crate) fn set_input(&mut self, index: usize, tensor: &Tensor) -> Result<(), ModelError> {
        transfer::write_input(
            &self.plan.inputs[index],
            tensor,
            &self.plan,
            &self.memory,
            &self.pool,
        )?;
        if let Some(runs) = &self.input_rounds[index] {
            runs.round(self.isa, &self.memory, &self.pool);
        }
        Ok(())
    }

    /// Output number `index` of the plan, as the model declares it.
    ///
    /// # Errors
    ///
    /// [`ModelError::ElementCount`] if memory for it cannot be described.
    pub(crate) fn output(&self, index: usize) -> Result<Tensor, ModelError> {
        transfer::read_output(&self.plan.outputs[index], &self.plan, &self.memory)
    }

    /// Runs every step.
    ///
    /// # Errors
    ///
    /// [`ModelError::IndexOutside`] if an index computed by the model points outside its axis;
    /// [`ModelError::Operator`] if it divides an integer by zero; [`ModelError::Quantise`] if an activation to be quantised is not finite.
    pub(crate) fn run(&mut self) -> Result<(), ModelError> {
        (0..self.steps.len()).try_for_each(|i| self.step(i))
    }

    /// Runs every step and adds the time each took to `times`, which must have one entry per step.
    ///
    /// # Errors
    ///
    /// As [`Executor::run`].
    pub(crate) fn run_timed(&mut self, times: &mut [Duration]) -> Result<(), ModelError> {
        for (i, time) in times.iter_mut().enumerate().take(self.steps.len()) {
            let start = Instant::now();
            self.step(i)?;
            *time += start.elapsed();
        }
        Ok(())
    }

    /// Runs every step and calls `done` after each with its number and when it began; it ends at
    /// the call.
    ///
    /// # Errors
    ///
    /// As [`Executor::run`].
    pub(crate) fn run_spans(
        &mut self,
        mut done: impl FnMut(usize, Instant),
    ) -> Result<(), ModelError> {
        for i in 0..self.steps.len() {
            let start = Instant::now();
            self.step(i)?;
            done(i, start);
        }
        Ok(())
    }

    fn step(&mut self, index: usize) -> Result<(), ModelError> {
        let (isa, pool, memory, plan) = (self.isa, &*self.pool, &self.memory, &self.plan);
        let scratch = Scratch {
            base: self.scratch.as_mut_slice().as_mut_ptr(),
            stride: self.scratch_stride,
        };
        let planned = &plan.steps[index];
        let ready = &self.steps[index];
        if ready.goes_with_next {
            return Ok(());
        }
        if let Some(strips) = self.strips(index) {
            strips.run(isa, memory, pool, &scratch);
            ready
                .rounds
                .iter()
                .for_each(|runs| runs.round(isa, memory, pool));
            return Ok(());
        }
        let checked = match (&planned.step, &ready.prepared) {
            (Step::Conv(s), Prepared::Conv(p)) => {
                p.run(isa, s, memory, pool);
                Ok(())
            }
            (Step::Conv(s), Prepared::Winograd(p)) => {
                p.run(isa, s, memory, pool, &scratch);
                Ok(())
            }
            (Step::Conv(s), Prepared::Depthwise(p)) => {
                p.run(isa, s, memory, pool);
                Ok(())
            }
            (Step::Linear(s), Prepared::Linear(p)) => {
                p.run(isa, s, memory, pool, &scratch);
                Ok(())
            }
            (step, Prepared::Quantised(p)) => {
                let room = quantised::Room {
                    scratch: &scratch,
                    activations: self.activations.as_mut_slice().as_mut_ptr(),
                };
                return p
                    .run(isa, step, memory, pool, &room)
                    .map_err(|source| quantise_error(&planned.name, source));
            }
            (Step::Pointwise(s), Prepared::Pointwise(p)) => {
                p.run(isa, s, memory, pool, &scratch)
                    .map_err(|zero| divided_by_zero(s, planned, zero))?;
                Ok(())
            }
            (Step::Copy(s), Prepared::Nest(nest)) => {
                movement::run_copy(plan, nest, &s.x, &s.y, memory, pool);
                Ok(())
            }
            (Step::Fill(s), Prepared::Nest(nest)) => {
                movement::run_fill(plan, nest, &s.y, s.value, memory);
                Ok(())
            }
            (Step::Resample(s), Prepared::Nest(nest)) => {
                resample::run(plan, nest, s, memory, pool);
                Ok(())
            }
            (Step::Recurrent(s), Prepared::Recurrent(p)) => {
                p.run(isa, s, memory, pool);
                Ok(())
            }
            (Step::MatMul(s), _) => {
                let rounded = ready.format.rounds_result;
                matmul::run(isa, s, memory, pool, (&scratch, rounded));
                Ok(())
            }
            (Step::Attention(s), _) => {
                attention::run(isa, s, memory, pool, (&scratch, ready.format));
                Ok(())
            }
            (step, _) => self.plain_step(step),
        };
        for runs in &ready.rounds {
            runs.round(isa, memory, pool);
        }
        checked.map_err(|outside| ModelError::IndexOutside {
            node: planned.name.clone(),
            index: outside.index,
            extent: outside.extent,
        })
    }

    /// Step `index` and the one before it, if they are computed together.
    fn strips(&self, index: usize) -> Option<strip::Strips<'_>> {
        let before = index.checked_sub(1)?;
        if !self.steps[before].goes_with_next {
            return None;
        }
        let parts = |at: usize| (&self.plan.steps[at].step, &self.steps[at].prepared);
        let expand = match parts(before) {
            (Step::Linear(step), Prepared::Linear(p)) => strip::Expand::Linear(step, p),
            (Step::Conv(step), Prepared::Conv(p)) => strip::Expand::Conv(step, p),
            _ => return None,
        };
        match parts(index) {
            (Step::Conv(step), Prepared::Depthwise(p)) => Some(strip::Strips {
                expand,
                depthwise: (step, p),
            }),
            _ => None,
        }
    }

    /// Steps that need nothing prepared.
    fn plain_step(&self, step: &Step) -> Result<(), IndexOutside> {
        let (isa, pool, memory, plan) = (self.isa, &*self.pool, &self.memory, &self.plan);
        match step {
            Step::Pool(s) => pool2d::run(isa, s, memory, pool),
            Step::Reduce(s) => reduce::run(isa, plan, s, memory, pool),
            Step::ArgReduce(s) => reduce::run_arg(plan, s, memory, pool),
            Step::Softmax(s) => softmax::run_softmax(isa, s, memory, pool),
            Step::Norm(s) => norm::run_norm(isa, s, memory, pool),
            Step::GroupNorm(s) => norm::run_group_norm(s, memory, pool),
            Step::Gather(s) => return gather::run(plan, s, memory),
            Step::GatherElements(s) => return gather::run_elements(plan, s, memory),
            Step::GatherNd(s) => return gather::run_nd(plan, s, memory),
            Step::ScatterElements(s) => return gather::run_scatter_elements(plan, s, memory),
            Step::ScatterNd(s) => return gather::run_scatter_nd(plan, s, memory),
            Step::GridSample(s) => resample::run_grid(s, memory, pool),
            Step::CumSum(s) => reduce::run_cum_sum(plan, s, memory, pool),
            Step::TopK(s) => reduce::run_top_k(plan, s, memory, pool),
            Step::Conv(_)
            | Step::Linear(_)
            | Step::MatMul(_)
            | Step::Attention(_)
            | Step::Pointwise(_)
            | Step::Copy(_)
            | Step::Fill(_)
            | Step::Resample(_)
            | Step::Recurrent(_) => unreachable!("prepared by Executor::new"),
        }
        Ok(())
    }
}

/// Whether step `index` is computed by the next one, as both are prepared now.
fn goes_with_next(
    isa: Isa,
    plan: &Plan,
    steps: &[ReadyStep],
    index: usize,
    threads: usize,
) -> bool {
    let [Some(expand), Some(next)] = [index, index + 1].map(|at| steps.get(at)) else {
        return false;
    };
    matches!(expand.prepared, Prepared::Linear(_) | Prepared::Conv(_))
        && matches!(next.prepared, Prepared::Depthwise(_))
        && expand.rounds.is_empty()
        && strip::pays(isa, plan, index, threads)
}

/// The node of a pointwise step that divided an integer by zero.
fn divided_by_zero(step: &PointwiseStep, planned: &PlannedStep, zero: DividedByZero) -> ModelError {
    let mut divisions = step.program.divisions.iter();
    let of_node = divisions.find(|d| usize::from(d.instruction) == zero.instruction);
    ModelError::Operator {
        node: of_node.map_or(&planned.name, |d| &d.node).clone(),
        op: of_node.map_or("Div", |d| d.op).to_owned(),
        reason: DIVIDED_BY_ZERO.to_owned(),
    }
}

/// Products of 16 bits that were asked for by name, where the processor has none.
fn products_unavailable(precision: Precision) -> ModelError {
    let (device, available) = match precision {
        Precision::Bf16 => (
            "a processor without AVX512_BF16 or FEAT_BF16, as dot products",
            "f32 arithmetic on bf16 operands",
        ),
        _ => (
            "a processor without FEAT_FHM, on both sides",
            "f32 arithmetic on fp16 weights",
        ),
    };
    ModelError::PrecisionUnavailable {
        precision,
        device,
        available,
    }
}

fn quantise_error(node: &str, source: QuantError) -> ModelError {
    ModelError::Quantise {
        node: node.to_owned(),
        source: source.into(),
    }
}

/// What is left to round after `step`: the written views of f32 that products of bf16 read,
/// unless the step's kernel rounds while it stores.
fn rounds_after(plan: &Plan, step: &Step, format: ProductFormat) -> Vec<Runs> {
    let in_kernel = match step {
        Step::Conv(s) => !s.is_depthwise(),
        Step::Linear(_) | Step::MatMul(_) | Step::Attention(_) => true,
        _ => false,
    };
    if !format.rounds_result || in_kernel {
        return Vec::new();
    }
    let written = step.views_written().into_iter();
    written
        .filter(|view| memory::storage(plan, view) == Storage::F32)
        .map(Runs::of)
        .collect()
}
