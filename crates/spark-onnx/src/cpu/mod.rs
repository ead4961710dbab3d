//! The CPU executor: a plan, prepared for one instruction set, run on a pool of threads.
//!
//! ```text
//! Plan --prepare--> arena laid out, weights packed, loops collapsed, arena and workspace taken
//!      --run------> one kernel per step; nothing is allocated
//! ```
//!
//! Results are the same bits whatever the number of threads: work is split so that
//! each element is computed by one thread in an order that the shapes alone decide.
//!
//! What computes a step is a `PreparedStep`, chosen in `select`; the executor knows no
//! kernel by name.
//!
//! Deliberately absent: knowledge of operators and graphs.

#![allow(
    unsafe_code,
    reason = "kernels move raw pointers through views checked at load, and use SIMD intrinsics"
)]

mod attention;
mod conv;
mod data_movement;
mod elementwise;
mod formats;
mod math;
mod matmul;
mod memory;
mod normalization;
mod ports;
mod prepared;
mod processor;
mod recurrent;
mod reduction;
mod rounding;
mod select;
mod simd;
mod workspace;

use std::sync::Arc;
use std::time::{Duration, Instant};

use formats::SixteenBitMatmuls;
use matmul::format::MatmulFormat;
use memory::Memory;
use prepared::{Context, Cpu, PreparedStep, Problem, StepError};
use rounding::Runs;
use spark_quant::QuantError;
use workspace::{Workspace, WorkspaceSize};

pub use crate::error::ViewOutside;
pub use simd::Isa;
pub use spark_gemm::Roofline as Peaks;
pub use spark_simd::IsaUnavailable;

/// GEMM of small blocks, which are `spark-gemm`'s.
pub mod product {
    pub use spark_gemm::block::{
        BlockMatmul as BlockProduct, matmul as multiply, max_columns as widest, row_len as width,
    };
}
pub(crate) use spark_parallel::Pool;

use crate::budget::ModelBudget;
use crate::graph::DIVIDED_BY_ZERO;
use crate::plan::ports::DirectPorts;
use crate::plan::{ArenaLayout, Plan, PlannedStep, Step, Storage};
use crate::precision::{Arithmetic, StepPrecision, Wanted};
use crate::{ModelError, Precision};

/// What the memory of packing is for, in errors.
const PACKED: &str = "packing its weights";

/// One step, ready to run.
struct ReadyStep {
    /// What its kernel is called, without the instruction set and types.
    algorithm: &'static str,
    prepared: Box<dyn PreparedStep>,
    format: MatmulFormat,
    /// What to round to bf16 after it, where its kernel does not.
    rounds: Vec<Runs>,
    /// Why it computes in this format.
    reason: &'static str,
    /// Whether the next step computes it, a tile at a time.
    is_fused_into_next: bool,
}

/// A plan ready to run on this processor.
pub(crate) struct Executor {
    plan: Plan,
    steps: Vec<ReadyStep>,
    /// By input of the plan: what to round to bf16 when it is set.
    input_rounds: Vec<Option<Runs>>,
    /// Which ports the caller's memory can stand in for.
    direct_ports: DirectPorts,
    memory: Memory,
    workspace: Workspace,
    /// What is left of the plan's bytes.
    budget: ModelBudget,
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
    /// dot products of bf16 or GEMM of fp16 on both sides are wanted and the processor has none;
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
        let may_run_with_next = |step| plan.can_fuse_with_depthwise(step);
        let layout = ArenaLayout::of(&plan, memory::ALIGNMENT, may_run_with_next);
        let mut budget = plan.take_budget(layout.bytes)?;
        let products =
            SixteenBitMatmuls::resolve(isa, arithmetic, precisions).map_err(matmuls_unavailable)?;
        let precisions = formats::without_idle_bf16(&plan, precisions, products.bf16);
        let rounded = formats::bf16_buffers(&plan, &precisions, products);
        rounded.round_constants(&mut plan);
        let formats = formats::choose(&plan, &precisions, products, &rounded);
        let cpu = Cpu { isa, pool: &pool };
        let mut steps = Vec::with_capacity(plan.steps.len());
        for (index, (format, wanted)) in formats.into_iter().zip(&precisions).enumerate() {
            let planned = &plan.steps[index];
            let problem = Problem {
                cpu,
                plan: &plan,
                step: &planned.step,
                whole: &planned.step,
                format,
                arithmetic,
            };
            let (algorithm, prepared) = prepare(&problem, planned, &mut budget, 0)?;
            steps.push(ReadyStep {
                rounds: rounds_after(&plan, &planned.step, format, prepared.rounds_results()),
                algorithm,
                prepared,
                format,
                reason: wanted.reason,
                is_fused_into_next: false,
            });
            // The packed copy serves from here on; both at once would be the most memory of all.
            plan.steps[index].step.forget_weights();
        }
        let inputs = plan.inputs.iter();
        let input_rounds: Vec<_> = inputs
            .map(|port| rounded.contains(&port.view).then(|| Runs::of(&port.view)))
            .collect();
        let direct_ports = DirectPorts::of(&plan, |input| input_rounds[input].is_some());
        for index in 0..steps.len() {
            steps[index].is_fused_into_next = is_fused_into_next(cpu, &plan, &steps, index);
        }
        let mut workspace = Workspace::empty();
        let sizes = plan.steps.iter().zip(workspace_sizes(cpu, &steps));
        workspace.grow(pool.threads(), sizes, &mut budget)?;
        let memory = Memory::new(&plan, &layout)?;
        Ok(Self {
            steps,
            input_rounds,
            direct_ports,
            memory,
            workspace,
            budget,
            isa,
            pool,
            plan,
        })
    }

    /// The plan; its steps hold no weights any more.
    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Bytes held against the plan's budget.
    pub(crate) fn held_bytes(&self) -> usize {
        self.plan.budget_bytes - self.budget.left()
    }

    /// Bytes of intermediate results and scratch.
    pub(crate) fn arena_bytes(&self) -> usize {
        self.memory.arena_bytes() + self.workspace.size_bytes()
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
    /// for GEMM of fp16 on both sides that the processor does not have;
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
        let products = SixteenBitMatmuls::resolve(self.isa, arithmetic, &[wanted])
            .map_err(matmuls_unavailable)?;
        let format = MatmulFormat {
            rounds_result: self.steps[index].format.rounds_result,
            ..formats::of_step(step, wanted.precision, products)
        };
        let planned = &self.plan.steps[index];
        // As `cpu` gives it, but of two fields, so that the others can change.
        let cpu = Cpu {
            isa: self.isa,
            pool: &self.pool,
        };
        let problem = Problem {
            cpu,
            plan: &self.plan,
            step,
            whole: step,
            format,
            arithmetic,
        };
        let before = self.steps[index].prepared.weight_bytes();
        let (algorithm, prepared) = prepare(&problem, planned, &mut self.budget, before)?;
        self.steps[index].algorithm = algorithm;
        self.steps[index].prepared = prepared;
        self.steps[index].format = format;
        self.steps[index].reason = wanted.reason;
        for at in [index.saturating_sub(1), index] {
            self.steps[at].is_fused_into_next =
                is_fused_into_next(cpu, &self.plan, &self.steps, at);
        }
        let sizes = workspace_sizes(cpu, &self.steps);
        let sizes = self.plan.steps.iter().zip(sizes);
        self.workspace
            .grow(self.pool.threads(), sizes, &mut self.budget)
    }

    /// What computes.
    fn cpu(&self) -> Cpu<'_> {
        Cpu {
            isa: self.isa,
            pool: &self.pool,
        }
    }

    /// Format of the operands of step `index`, the name of its kernel, and why in this format.
    pub(crate) fn format(&self, index: usize) -> (Precision, String, &'static str) {
        let step = &self.steps[index];
        // The step that reads the feature map, if this step is one of such a pair.
        let reader = match index.checked_sub(1) {
            _ if step.is_fused_into_next => self.steps.get(index + 1),
            Some(before) if self.steps[before].is_fused_into_next => Some(step),
            _ => None,
        };
        let fused = reader.and_then(|reader| reader.prepared.feature_map_reader());
        let fused = fused.map(|reader| reader.fused_algorithm());
        let kernel = select::kernel_name(self.isa, step.algorithm, &*step.prepared, fused);
        (step.format.precision, kernel, step.reason)
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
        let ready = &self.steps[index];
        if ready.is_fused_into_next {
            return Ok(());
        }
        let context = Context {
            isa: self.isa,
            pool: &self.pool,
            memory: &self.memory,
            scratch: &self.workspace.scratch(),
        };
        let before = index.checked_sub(1).map(|before| &self.steps[before]);
        let source = before
            .filter(|before| before.is_fused_into_next)
            .and_then(|before| before.prepared.feature_map_source());
        let done = match (source, ready.prepared.feature_map_reader()) {
            (Some(source), Some(reader)) => {
                reader.run_fused(source, &context);
                Ok(())
            }
            _ => ready.prepared.run(&context),
        };
        done.map_err(|error| step_error(&self.plan.steps[index], error))?;
        for runs in &ready.rounds {
            runs.round(context.cpu(), context.memory);
        }
        Ok(())
    }
}

/// Prepares the step of `problem`, which is `planned` with its weights, for the kernel that computes
/// it, and takes its packed weights from `budget`, to which it gives `replaced` bytes back.
fn prepare(
    problem: &Problem<'_, Step>,
    planned: &PlannedStep,
    budget: &mut ModelBudget,
    replaced: usize,
) -> Result<(&'static str, Box<dyn PreparedStep>), ModelError> {
    let asker = workspace::asker(planned, PACKED);
    let selected = select::select(problem);
    budget.check(asker, selected.packing_bytes)?;
    let prepared = (selected.prepare)();
    let prepared = prepared.map_err(|source| quantise_error(&planned.name, source))?;
    debug_assert!(prepared.weight_bytes() <= selected.packing_bytes, "a bound");
    budget.give_back(replaced);
    budget.take(asker, prepared.weight_bytes())?;
    Ok((selected.algorithm, prepared))
}

/// Whether step `index` is computed by the next one, as both are prepared now: a block of the
/// feature map between them at a time.
fn is_fused_into_next(cpu: Cpu<'_>, plan: &Plan, steps: &[ReadyStep], index: usize) -> bool {
    let [Some(source), Some(reader)] = [index, index + 1].map(|at| steps.get(at)) else {
        return false;
    };
    let reader = reader.prepared.feature_map_reader();
    source.rounds.is_empty()
        && source.prepared.feature_map_source().is_some()
        && reader.is_some_and(|reader| reader.is_fusion_profitable(cpu))
        && plan.can_fuse_with_depthwise(index)
}

/// By step, what it runs in; the first of two that run as one stands for both.
fn workspace_sizes(cpu: Cpu<'_>, steps: &[ReadyStep]) -> impl Iterator<Item = WorkspaceSize> {
    steps.iter().enumerate().map(move |(index, ready)| {
        let next = steps.get(index + 1);
        let reader = next.and_then(|next| next.prepared.feature_map_reader());
        match reader.filter(|_| ready.is_fused_into_next) {
            Some(reader) => reader.fused_workspace_size(cpu),
            None => ready.prepared.workspace_size(cpu),
        }
    })
}

/// `error` of `planned`, with the node it is about.
fn step_error(planned: &PlannedStep, error: StepError) -> ModelError {
    match error {
        StepError::IndexOutside { index, extent } => ModelError::IndexOutside {
            node: planned.name.clone(),
            index,
            extent,
        },
        StepError::DividedByZero { node, op } => ModelError::Operator {
            node: node.unwrap_or_else(|| planned.name.clone()),
            op,
            reason: DIVIDED_BY_ZERO.to_owned(),
        },
        StepError::Quantise(source) => quantise_error(&planned.name, source),
    }
}

/// GEMM of 16 bits that were asked for by name, where the processor has none.
fn matmuls_unavailable(precision: Precision) -> ModelError {
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

/// What is left to round after `step`: the written views of f32 that GEMM of bf16 read,
/// unless the step's kernel rounds while it stores.
fn rounds_after(plan: &Plan, step: &Step, format: MatmulFormat, in_kernel: bool) -> Vec<Runs> {
    if !format.rounds_result || in_kernel {
        return Vec::new();
    }
    let written = step.views_written().into_iter();
    written
        .filter(|view| plan.storage(view) == Storage::F32)
        .map(Runs::of)
        .collect()
}
