//! A plan made ready for one instruction set: weights packed, kernels chosen, the arena laid out.
//!
//! ```text
//! Plan ──> PreparedPlan            nothing of it changes while it runs
//!              │  Arc
//!              ├──> Executor       each with an arena and a workspace of its own
//!              └──> Executor
//! ```
//!
//! Packed weights are the model's ([`WeightStore`]): plans for other shapes read the same, where the same kernel
//! computes them in the same format.
//!
//! Deliberately absent: memory that a run writes, which is an executor's.

use std::sync::Arc;

use spark_parallel::Pool;
use spark_quant::QuantError;

use super::bf16_storage;
use super::formats::{self, SixteenBitMatmuls};
use super::matmul::format::MatmulFormat;
use super::memory;
use super::prepared::{Cpu, Packing, PreparedStep, Problem};
use super::rounding::Runs;
use super::select;
use super::simd::Isa;
use super::weight_store::WeightStore;
use super::workspace::{self, WorkspaceSize};
use crate::budget::ModelBudget;
use crate::plan::ports::DirectPorts;
use crate::plan::{ArenaLayout, Plan, PlannedStep, Step, Storage};
use crate::precision::{Arithmetic, StepPrecision};
use crate::{ModelError, Precision};

/// What the memory of packing is for, in errors.
const PACKED: &str = "packing its weights";

/// One step, ready to run.
pub(super) struct ReadyStep {
    /// What its kernel is called, without the instruction set and types.
    algorithm: &'static str,
    pub(super) prepared: Box<dyn PreparedStep>,
    format: MatmulFormat,
    /// What to round to bf16 after it, where its kernel does not.
    pub(super) rounds: Vec<Runs>,
    /// Why it computes in this format.
    reason: &'static str,
    /// Whether the next step computes it, a tile at a time.
    pub(super) is_fused_into_next: bool,
    /// Bytes of its weights that are the model's, not the plan's.
    packed_bytes: usize,
}

/// What a plan is made ready with.
#[derive(Clone)]
pub(crate) struct Target {
    /// The instruction set of its kernels.
    pub(crate) isa: Isa,
    /// The threads that pack, and run it.
    pub(crate) pool: Arc<Pool>,
    /// Where packed weights are, and go.
    pub(crate) weights: Arc<WeightStore>,
}

/// A plan ready to run on this processor, by any number of executors.
pub(crate) struct PreparedPlan {
    pub(super) plan: Plan,
    pub(super) steps: Vec<ReadyStep>,
    /// By input of the plan: what to round to bf16 when it is set.
    pub(super) input_rounds: Vec<Option<Runs>>,
    /// Which ports the caller's memory can stand in for.
    pub(super) direct_ports: DirectPorts,
    pub(super) layout: ArenaLayout,
    pub(super) target: Target,
    /// By label, the step that has it.
    pub(super) labelled: Vec<usize>,
}

impl PreparedPlan {
    /// Packs the weights of `plan`, each in the format of its step, as [`crate::precision::Wanted::assign`]
    /// gives them, unless the target has them already.
    ///
    /// # Errors
    ///
    /// [`ModelError::PrecisionUnavailable`] if dot products of bf16 or GEMM of fp16 on both sides are wanted
    /// and the processor has none; [`ModelError::Quantise`] if weights cannot be quantised;
    /// [`ModelError::OverBudget`] or [`ModelError::OutOfMemory`] if the plan, with arena and outputs
    /// of one run, takes more memory than its budget or the system has.
    pub(crate) fn new(
        mut plan: Plan,
        target: Target,
        precisions: &[StepPrecision],
        arithmetic: Arithmetic,
    ) -> Result<Self, ModelError> {
        assert_eq!(precisions.len(), plan.steps.len(), "one format per step");
        let isa = target.isa;
        let products =
            SixteenBitMatmuls::resolve(isa, arithmetic, precisions).map_err(matmuls_unavailable)?;
        let precisions = formats::without_idle_bf16(&plan, precisions, products.bf16);
        let rounded = formats::bf16_buffers(&plan, &precisions, products);
        let formats = formats::choose(&plan, &precisions, products, &rounded);
        let cpu = Cpu {
            isa,
            pool: &target.pool,
        };
        bf16_storage::assign(
            &mut plan,
            &rounded,
            &formats,
            (cpu, &target.weights),
            arithmetic,
        );
        let may_run_with_next = |step| plan.can_fuse_with_depthwise(step);
        let layout = ArenaLayout::of(&plan, memory::ALIGNMENT, may_run_with_next);
        let mut budget = ModelBudget::new(plan.budget_bytes);
        plan.take_for_a_run(layout.bytes, &mut budget)?;
        plan.take_constants(&mut budget)?;
        rounded.round_constants(&mut plan);
        let mut steps = Vec::with_capacity(plan.steps.len());
        for (index, (format, wanted)) in formats.into_iter().zip(&precisions).enumerate() {
            let planned = &plan.steps[index];
            let step = &planned.step;
            let ready = ready(
                &target,
                (&plan, planned, step),
                format,
                arithmetic,
                &mut budget,
            )?;
            steps.push(ReadyStep {
                rounds: rounds_after(&plan, step, format, ready.prepared.rounds_results()),
                reason: wanted.reason,
                ..ready
            });
            // The packed copy serves from here on; both at once would be the most memory of all.
            plan.steps[index].step.forget_weights();
        }
        let inputs = plan.inputs.iter();
        let input_rounds: Vec<_> = inputs
            .map(|port| {
                // What is held as bf16 is rounded on its way in.
                let is_late =
                    rounded.contains(&port.view) && plan.storage(&port.view) == Storage::F32;
                is_late.then(|| Runs::of(&port.view))
            })
            .collect();
        let direct_ports = DirectPorts::of(&plan, |input| input_rounds[input].is_some());
        let labelled = plan.labelled();
        let mut prepared = Self {
            plan,
            steps,
            input_rounds,
            direct_ports,
            labelled,
            layout,
            target,
        };
        for index in 0..prepared.steps.len() {
            prepared.steps[index].is_fused_into_next = prepared.is_fused_into_next(index);
        }
        prepared.target.weights.give_back_rest();
        Ok(prepared)
    }

    /// Refuses a plan whose arena, outputs, constants and tables alone take more than its budget.
    ///
    /// # Errors
    ///
    /// [`ModelError::OverBudget`] or [`ModelError::OutOfMemory`].
    pub(crate) fn check_alone(plan: &Plan) -> Result<(), ModelError> {
        let may_run_with_next = |step| plan.can_fuse_with_depthwise(step);
        let layout = ArenaLayout::of(plan, memory::ALIGNMENT, may_run_with_next);
        let mut budget = ModelBudget::new(plan.budget_bytes);
        plan.take_for_a_run(layout.bytes, &mut budget)?;
        plan.take_constants(&mut budget)
    }

    /// The plan; its steps hold no weights any more.
    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// What computes.
    pub(super) fn cpu(&self) -> Cpu<'_> {
        Cpu {
            isa: self.target.isa,
            pool: &self.target.pool,
        }
    }

    /// Bytes that it holds besides packed weights, which are the model's: constants, tables, biases.
    pub(crate) fn own_bytes(&self) -> usize {
        let steps = self.steps.iter();
        let biases: usize = steps
            .map(|ready| {
                ready
                    .prepared
                    .weight_bytes()
                    .saturating_sub(ready.packed_bytes)
            })
            .sum();
        biases + self.plan.constant_bytes() + self.plan.table_bytes()
    }

    /// Bytes of the packed weights of step `index`.
    pub(crate) fn step_weight_bytes(&self, index: usize) -> usize {
        self.steps[index].prepared.weight_bytes()
    }

    /// Packs step `index` anew in another format; `step` is the plan's own, with its weights.
    ///
    /// # Errors
    ///
    /// [`ModelError::PrecisionUnavailable`] for bf16, which takes part of other steps as well, for a step whose
    /// operands or results are held as bf16, and
    /// for GEMM of fp16 on both sides that the processor does not have;
    /// [`ModelError::Quantise`] if its weights cannot be quantised; [`ModelError::OverBudget`] or
    /// [`ModelError::OutOfMemory`].
    pub(super) fn set_precision(
        &mut self,
        index: usize,
        step: &Step,
        wanted: StepPrecision,
        arithmetic: Arithmetic,
        budget: &mut ModelBudget,
    ) -> Result<(), ModelError> {
        let views = step.views_read().into_iter().chain(step.views_written());
        let mut storages = views.map(|view| self.plan.storage(view));
        if wanted.precision == Precision::Bf16 || storages.any(|held| held == Storage::Bf16) {
            return Err(ModelError::PrecisionUnavailable {
                precision: wanted.precision,
                device: "a single step",
                available: "fp32, fp16, fp8, fp4",
            });
        }
        let products = SixteenBitMatmuls::resolve(self.target.isa, arithmetic, &[wanted])
            .map_err(matmuls_unavailable)?;
        let before = &self.steps[index];
        let format = MatmulFormat {
            rounds_result: before.format.rounds_result,
            ..formats::of_step(step, wanted.precision, products)
        };
        let planned = &self.plan.steps[index];
        budget.give_back(before.prepared.weight_bytes());
        let ready = ready(
            &self.target,
            (&self.plan, planned, step),
            format,
            arithmetic,
            budget,
        )?;
        let rounds = std::mem::take(&mut self.steps[index].rounds);
        self.steps[index] = ReadyStep {
            rounds,
            reason: wanted.reason,
            ..ready
        };
        for at in [index.saturating_sub(1), index] {
            self.steps[at].is_fused_into_next = self.is_fused_into_next(at);
        }
        Ok(())
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
        let kernel = select::kernel_name(self.target.isa, step.algorithm, &*step.prepared, fused);
        (step.format.precision, kernel, step.reason)
    }

    /// Whether step `index` is computed by the next one, as both are prepared now: a block of the
    /// feature map between them at a time.
    fn is_fused_into_next(&self, index: usize) -> bool {
        let [Some(source), Some(reader)] = [index, index + 1].map(|at| self.steps.get(at)) else {
            return false;
        };
        let reader = reader.prepared.feature_map_reader();
        source.rounds.is_empty()
            && source.prepared.feature_map_source().is_some()
            && reader.is_some_and(|reader| reader.is_fusion_profitable(self.cpu()))
            && self.plan.can_fuse_with_depthwise(index)
    }

    /// By step, what it runs in; the first of two that run as one stands for both.
    pub(super) fn workspace_sizes(&self) -> impl Iterator<Item = (&PlannedStep, WorkspaceSize)> {
        let sizes = self.steps.iter().enumerate().map(|(index, ready)| {
            let next = self.steps.get(index + 1);
            let reader = next.and_then(|next| next.prepared.feature_map_reader());
            match reader.filter(|_| ready.is_fused_into_next) {
                Some(reader) => reader.fused_workspace_size(self.cpu()),
                None => ready.prepared.workspace_size(self.cpu()),
            }
        });
        self.plan.steps.iter().zip(sizes)
    }
}

/// Prepares `step`, which is `planned` with its weights, for the kernel that computes it, and takes what
/// is packed anew from `budget`.
fn ready(
    target: &Target,
    (plan, planned, step): (&Plan, &PlannedStep, &Step),
    format: MatmulFormat,
    arithmetic: Arithmetic,
    budget: &mut ModelBudget,
) -> Result<ReadyStep, ModelError> {
    let packing = Packing::into(&target.weights);
    let problem = Problem {
        cpu: Cpu {
            isa: target.isa,
            pool: &target.pool,
        },
        plan,
        step,
        whole: step,
        format,
        arithmetic,
        packing: &packing,
    };
    let asker = workspace::asker(planned, PACKED);
    let selected = select::select(&problem);
    let (algorithm, bound) = (selected.algorithm, selected.packing_bytes);
    let mut in_words = selected.never_bf16.iter();
    assert!(
        in_words.all(|view| plan.storage(view) != Storage::Bf16)
            && planned.step.is_held_rightly(&|view| plan.storage(view)),
        "{algorithm} takes no bf16 of {}",
        planned.name
    );
    budget.check(asker, bound)?;
    let prepared = (selected.prepare)();
    let prepared = prepared.map_err(|source| quantise_error(&planned.name, source))?;
    debug_assert!(prepared.weight_bytes() <= bound, "a bound");
    budget.take(
        asker,
        prepared
            .weight_bytes()
            .saturating_sub(packing.reused_bytes()),
    )?;
    Ok(ReadyStep {
        algorithm,
        format,
        rounds: Vec::new(),
        reason: "",
        is_fused_into_next: false,
        packed_bytes: packing.bytes(),
        prepared,
    })
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

pub(super) fn quantise_error(node: &str, source: QuantError) -> ModelError {
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
