//! What runs a prepared plan: an arena, a workspace, and the loop over the steps.
//!
//! ```text
//! for step in plan:  kernel reads and writes the arena;  nothing is allocated
//!                    the next step is the one behind it, or where control flow leads
//! ```
//!
//! Results are the same bits whatever the number of threads: work is split so that
//! each element is computed by one thread in an order that the shapes alone decide.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use spark_parallel::Pool;

use super::matmul::inputs::ProductInputs;
use super::memory::Memory;
use super::prepared::{Context, StepError};
use super::prepared_plan::{PreparedPlan, Target, quantise_error};
use super::simd::Isa;
use super::workspace::Workspace;
use crate::budget::ModelBudget;
use crate::graph::{DIVIDED_BY_ZERO, MAX_ITERATIONS};
use crate::plan::{Plan, PlannedStep, Step};
use crate::precision::{Arithmetic, StepPrecision, Wanted};
use crate::{ModelError, Precision};

/// A prepared plan with memory to run in.
pub(crate) struct Executor {
    pub(super) prepared: Arc<PreparedPlan>,
    pub(super) memory: Memory,
    workspace: Workspace,
    /// What is left for this executor.
    budget: ModelBudget,
    /// Bytes that it took.
    own_bytes: usize,
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
    /// Those of [`PreparedPlan::new`] and [`Executor::on`].
    pub(crate) fn with_precisions(
        plan: Plan,
        isa: Isa,
        pool: Arc<Pool>,
        precisions: &[StepPrecision],
        arithmetic: Arithmetic,
    ) -> Result<Self, ModelError> {
        let target = Target {
            isa,
            pool,
            weights: Arc::default(),
        };
        let budget_bytes = plan.budget_bytes;
        let prepared = PreparedPlan::new(plan, target, precisions, arithmetic)?;
        let held = prepared.own_bytes() + prepared.target.weights.bytes();
        let budget = ModelBudget::with_taken(budget_bytes, held);
        Self::on(Arc::new(prepared), budget)
    }

    /// Takes what a run of `prepared` needs from `budget`: arena, scratch, outputs.
    ///
    /// # Errors
    ///
    /// [`ModelError::View`] if the plan contradicts itself; [`ModelError::OverBudget`] or
    /// [`ModelError::OutOfMemory`] if it takes more memory than there is.
    pub(crate) fn on(
        prepared: Arc<PreparedPlan>,
        mut budget: ModelBudget,
    ) -> Result<Self, ModelError> {
        let before = budget.left();
        prepared
            .plan
            .take_for_a_run(prepared.layout.bytes, &mut budget)?;
        let mut workspace = Workspace::empty();
        let threads = prepared.target.pool.threads();
        workspace.grow(threads, prepared.workspace_sizes(), &mut budget)?;
        let memory = Memory::new(&prepared.plan, &prepared.layout)?;
        Ok(Self {
            memory,
            workspace,
            own_bytes: before - budget.left(),
            budget,
            prepared,
        })
    }

    /// The instruction set of its kernels.
    pub(crate) fn isa(&self) -> Isa {
        self.prepared.target.isa
    }

    /// What it runs.
    pub(crate) fn prepared(&self) -> &Arc<PreparedPlan> {
        &self.prepared
    }

    /// The plan; its steps hold no weights any more.
    pub(crate) fn plan(&self) -> &Plan {
        &self.prepared.plan
    }

    /// Bytes that it took: arena, scratch and outputs.
    pub(crate) fn own_bytes(&self) -> usize {
        self.own_bytes
    }

    /// Bytes of intermediate results and scratch.
    pub(crate) fn arena_bytes(&self) -> usize {
        self.memory.arena_bytes() + self.workspace.size_bytes()
    }

    /// Packs step `index` anew in another format; `step` is the plan's own, with its weights.
    ///
    /// # Errors
    ///
    /// As [`PreparedPlan::set_precision`].
    ///
    /// # Panics
    ///
    /// If another executor runs the same plan.
    pub(crate) fn set_precision(
        &mut self,
        index: usize,
        step: &Step,
        wanted: StepPrecision,
        arithmetic: Arithmetic,
    ) -> Result<(), ModelError> {
        let Some(prepared) = Arc::get_mut(&mut self.prepared) else {
            panic!("a plan of several executors is changed");
        };
        prepared.set_precision(index, step, wanted, arithmetic, &mut self.budget)?;
        let threads = prepared.target.pool.threads();
        self.workspace
            .grow(threads, prepared.workspace_sizes(), &mut self.budget)
    }

    /// Runs every step.
    ///
    /// # Errors
    ///
    /// [`ModelError::IndexOutside`] if an index computed by the model points outside its axis;
    /// [`ModelError::Operator`] if it divides an integer by zero; [`ModelError::Quantise`] if an activation to be quantised is not finite;
    /// [`ModelError::Custom`] where an embedder's own operator says so.
    pub(crate) fn run(&mut self) -> Result<(), ModelError> {
        self.each_step(|executor, i| executor.step(i))
    }

    /// Calls `run` with every step in the order in which control flow runs them; it gives the next.
    fn each_step(
        &mut self,
        mut run: impl FnMut(&mut Self, usize) -> Result<usize, ModelError>,
    ) -> Result<(), ModelError> {
        let (mut at, mut iterations) = (0, 0);
        while at < self.prepared.steps.len() {
            let next = run(self, at)?;
            if next <= at {
                iterations += 1;
                if iterations == MAX_ITERATIONS {
                    let planned = &self.prepared.plan.steps[at];
                    return Err(ModelError::Operator {
                        node: planned.name.clone(),
                        op: planned.step.kind().to_owned(),
                        reason: format!("more than {MAX_ITERATIONS} iterations in one run"),
                    });
                }
            }
            at = next;
        }
        Ok(())
    }

    /// Runs until step `index` is next for the first time, and lends what its product then gets; nothing if it is no
    /// product with weights in one group, or control flow passes it by.
    ///
    /// # Errors
    ///
    /// As [`Executor::run`].
    pub(crate) fn run_before(
        &mut self,
        index: usize,
    ) -> Result<Option<ProductInputs<'_>>, ModelError> {
        let mut is_reached = false;
        self.each_step(|executor, i| {
            is_reached = i == index;
            match is_reached {
                true => Ok(usize::MAX),
                false => executor.step(i),
            }
        })?;
        if !is_reached {
            return Ok(None);
        }
        let step = &self.prepared.plan.steps[index].step;
        Ok(ProductInputs::of(step, &self.memory))
    }

    /// [`Executor::run`] until `stop` is set, which unsets it; looked at before every step and after the
    /// last.
    ///
    /// # Errors
    ///
    /// As [`Executor::run`], and [`ModelError::Cancelled`].
    pub(crate) fn run_until(&mut self, stop: &AtomicBool) -> Result<(), ModelError> {
        let go_on = || match stop.load(Ordering::Relaxed) && stop.swap(false, Ordering::Relaxed) {
            true => Err(ModelError::Cancelled),
            false => Ok(()),
        };
        self.each_step(|executor, i| {
            go_on()?;
            executor.step(i)
        })?;
        go_on()
    }

    /// Runs every step and adds the time each took to `times`, which must have one entry per step.
    ///
    /// # Errors
    ///
    /// As [`Executor::run`].
    pub(crate) fn run_timed(&mut self, times: &mut [Duration]) -> Result<(), ModelError> {
        self.each_step(|executor, i| {
            let start = Instant::now();
            let next = executor.step(i)?;
            if let Some(time) = times.get_mut(i) {
                *time += start.elapsed();
            }
            Ok(next)
        })
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
        self.each_step(|executor, i| {
            let start = Instant::now();
            let next = executor.step(i)?;
            done(i, start);
            Ok(next)
        })
    }

    /// Runs step `index` and says which one is next.
    fn step(&mut self, index: usize) -> Result<usize, ModelError> {
        let prepared = &*self.prepared;
        let ready = &prepared.steps[index];
        if ready.is_fused_into_next {
            return Ok(index + 1);
        }
        let context = Context {
            isa: prepared.target.isa,
            pool: &prepared.target.pool,
            memory: &self.memory,
            scratch: &self.workspace.scratch(),
        };
        let before = index.checked_sub(1).map(|before| &prepared.steps[before]);
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
        done.map_err(|error| step_error(&prepared.plan.steps[index], error))?;
        for runs in &ready.rounds {
            runs.round(context.cpu(), context.memory);
        }
        let goes_to = ready.prepared.goes_to(&context);
        Ok(goes_to.map_or(index, |label| prepared.labelled[label]) + 1)
    }
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
        StepError::Refused(reason) => ModelError::Operator {
            node: planned.name.clone(),
            op: planned.step.kind().to_owned(),
            reason,
        },
        StepError::Quantise(source) => quantise_error(&planned.name, source),
        StepError::Custom(source) => ModelError::Custom {
            node: planned.name.clone(),
            op: match &planned.step {
                Step::Custom(step) => step.op.qualified().to_owned(),
                step => step.kind().to_owned(),
            },
            source,
        },
    }
}
