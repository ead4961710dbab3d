//! A session's memory for one network: an arena for each of the plans that it used last.
//!
//! Deliberately absent: names of inputs, and state from run to run.

use std::sync::Arc;

use crate::ModelError;
use crate::cpu::Executor;
use crate::plan_key::PlanKey;
use crate::planned::{Planned, Reservation, ShapedPlan};
use crate::step_info::StepInfo;
use crate::tensor_view::TensorView;

/// Memory for one set of input shapes.
struct Shaped {
    plan: Arc<ShapedPlan>,
    executor: Executor,
    _reservation: Reservation,
}

/// Memory for the shapes that a network was run with.
pub(crate) struct Arenas {
    planned: Arc<Planned>,
    /// Most recently used last.
    shaped: Vec<Shaped>,
}

impl Arenas {
    /// None yet.
    pub(crate) fn new(planned: Arc<Planned>) -> Self {
        Self {
            planned,
            shaped: Vec::new(),
        }
    }

    /// What it runs.
    pub(crate) fn planned(&self) -> &Planned {
        &self.planned
    }

    /// Bytes of intermediate results and scratch, for all shapes that it keeps.
    pub(crate) fn bytes(&self) -> usize {
        let arenas = self.shaped.iter().map(|s| s.executor.arena_bytes());
        arenas.sum()
    }

    /// Input shapes that it keeps memory for.
    pub(crate) fn shapes(&self) -> Vec<&Vec<Vec<usize>>> {
        let kept = self.shaped.iter();
        kept.map(|kept| &kept.plan.key().shapes).collect()
    }

    /// Takes memory for inputs of the declared shapes now, where none is open and nothing was run yet.
    ///
    /// # Errors
    ///
    /// [`ModelError::OverBudget`] or [`ModelError::OutOfMemory`].
    pub(crate) fn warm_up(&mut self) -> Result<(), ModelError> {
        match self.planned.fixed_shapes() {
            Some(shapes) if self.shaped.is_empty() => self.make(&PlanKey::of_shapes(shapes)),
            _ => Ok(()),
        }
    }

    /// Puts the memory for the shapes of these inputs last, made if need be.
    ///
    /// # Errors
    ///
    /// Those of planning, [`ModelError::OverBudget`] or [`ModelError::OutOfMemory`].
    pub(crate) fn make_for<'t>(
        &mut self,
        input: impl Fn(usize) -> Option<TensorView<'t>>,
    ) -> Result<(), ModelError> {
        let is_for = |kept: &Shaped| kept.plan.key().is_of_inputs(&input);
        if let Some(at) = self.shaped.iter().position(is_for) {
            self.shaped[at..].rotate_left(1);
            return Ok(());
        }
        let n_inputs = self.planned.graph.inputs.len();
        let key = PlanKey::of_inputs(n_inputs, &self.planned.deciding, input)?;
        self.make(&key)
    }

    /// What runs in the memory that was put last.
    pub(crate) fn last(&mut self) -> &mut Executor {
        match self.shaped.last_mut() {
            Some(last) => &mut last.executor,
            None => unreachable!("memory was just put there"),
        }
    }

    /// Keeps no memory but the one that was put last; whether there was other.
    pub(crate) fn keep_last(&mut self) -> bool {
        let others = self.shaped.len().saturating_sub(1);
        self.shaped.drain(..others);
        others > 0
    }

    /// The steps of the plan used last; empty before the first plan.
    pub(crate) fn steps(&self, device: &'static str) -> Vec<StepInfo> {
        let Some(shaped) = self.shaped.last() else {
            return Vec::new();
        };
        let prepared = shaped.executor.prepared();
        let steps = prepared.plan().steps.iter().enumerate();
        steps
            .map(|(index, planned)| {
                let (precision, kernel, reason) = prepared.format(index);
                let weight_bytes = prepared.step_weight_bytes(index);
                StepInfo {
                    name: planned.name.clone(),
                    kind: planned.step.kind(),
                    detail: planned.step.describe(),
                    precision,
                    kernel,
                    reason,
                    weight_bytes,
                    device,
                    macs: planned.step.macs(),
                    bytes: prepared.plan().step_bytes(index) + weight_bytes as u64,
                    mean: None,
                }
            })
            .collect()
    }

    /// Memory for inputs of `key`, put last. Memory for the one that was used least recently goes
    /// where there is too much of it.
    fn make(&mut self, key: &PlanKey) -> Result<(), ModelError> {
        if self.shaped.len() >= self.planned.common.max_plans {
            self.shaped.remove(0);
        }
        let mut may_fit = false;
        let made = loop {
            let plan = self.planned.plan_for(key);
            let made = plan.and_then(|plan| {
                let (executor, reservation) = self.planned.common.executor(&plan)?;
                Ok(Shaped {
                    plan,
                    executor,
                    _reservation: reservation,
                })
            });
            match made {
                Err(ModelError::OverBudget { .. }) if !self.shaped.is_empty() => {
                    if !may_fit {
                        self.planned.check_alone(key)?;
                        may_fit = true;
                    }
                    self.shaped.remove(0);
                }
                made => break made?,
            }
        };
        self.shaped.push(made);
        Ok(())
    }
}
