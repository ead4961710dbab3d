//! A network and its plans, by the shapes of its inputs, and what all plans of a model share.
//!
//! ```text
//! Common ──── precision, threads, packed weights, budget            one per model
//!   │
//!   ├──> Planned   a network's graph, its plans by shape            the model's, or one for each stage of it
//!   └──> RunAccount                                                 what a run takes while it interprets
//! ```
//!
//! Plans, arenas and what is interpreted are held against one budget.
//!
//! Deliberately absent: what is written while running, which is a session's.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::ModelError;
use crate::budget::{Asker, ModelBudget, can_get};
use crate::calibration::Calibration;
use crate::cpu::{Executor, PreparedPlan, Target};
use crate::graph::{
    Dim, Graph, bind_taking, bind_with_values, check_input_shapes, deciding_inputs,
};
use crate::plan::{Plan, lower};
use crate::plan_key::PlanKey;
use crate::precision::{Arithmetic, Wanted};
use spark_onnx_graph::reference::Host;

/// A plan for one set of input shapes, and of elements that decide shapes.
pub(crate) struct ShapedPlan {
    key: PlanKey,
    prepared: Arc<PreparedPlan>,
    /// Goes with the last session that keeps the plan. Of what it holds besides packed weights.
    _reservation: Reservation,
}

impl ShapedPlan {
    /// What it is for.
    pub(crate) fn key(&self) -> &PlanKey {
        &self.key
    }
}

/// Bytes held for as long as it is there.
pub(crate) struct Reservation {
    bytes: usize,
    total: Arc<AtomicUsize>,
}

impl Reservation {
    fn of(bytes: usize, total: &Arc<AtomicUsize>) -> Self {
        total.fetch_add(bytes, Ordering::Relaxed);
        Self {
            bytes,
            total: Arc::clone(total),
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.total.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// What all plans of a model share.
pub(crate) struct Common {
    pub(crate) wanted: Wanted,
    pub(crate) arithmetic: Arithmetic,
    pub(crate) target: Target,
    /// Bytes that all plans and sessions may take together.
    pub(crate) budget_bytes: usize,
    /// Plans that are kept of one network, and memory for so many in a session.
    pub(crate) max_plans: usize,
    /// Held while bytes are counted and taken, so that no two plans or sessions take the same ones.
    taking: Mutex<()>,
    /// Bytes of all sessions.
    session_bytes: Arc<AtomicUsize>,
    /// Bytes of all plans that somebody holds, besides packed weights.
    plan_bytes: Arc<AtomicUsize>,
}

impl Common {
    pub(crate) fn new(
        wanted: Wanted,
        arithmetic: Arithmetic,
        target: Target,
        budget_bytes: usize,
        max_plans: usize,
    ) -> Self {
        Self {
            wanted,
            arithmetic,
            target,
            budget_bytes,
            max_plans: max_plans.max(1),
            taking: Mutex::default(),
            session_bytes: Arc::default(),
            plan_bytes: Arc::default(),
        }
    }

    /// Bytes of packed weights, constants and tables of all plans.
    pub(crate) fn weight_bytes(&self) -> usize {
        self.plan_bytes.load(Ordering::Relaxed) + self.target.weights.bytes()
    }

    /// Bytes of all sessions.
    pub(crate) fn session_bytes(&self) -> usize {
        self.session_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of the budget that nothing holds.
    fn left(&self) -> usize {
        let held = self.weight_bytes() + self.session_bytes();
        self.budget_bytes.saturating_sub(held)
    }

    fn taking(&self) -> MutexGuard<'_, ()> {
        self.taking.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Memory to run `plan` in, and the bytes of it held against the budget.
    ///
    /// # Errors
    ///
    /// [`ModelError::OverBudget`] or [`ModelError::OutOfMemory`].
    pub(crate) fn executor(
        &self,
        plan: &ShapedPlan,
    ) -> Result<(Executor, Reservation), ModelError> {
        let _taking = self.taking();
        let held = self.budget_bytes - self.left();
        let budget = ModelBudget::with_taken(self.budget_bytes, held);
        let executor = Executor::on(Arc::clone(&plan.prepared), budget)?;
        let reservation = Reservation::of(executor.own_bytes(), &self.session_bytes);
        Ok((executor, reservation))
    }
}

/// A network and its plans.
pub(crate) struct Planned {
    pub(crate) common: Arc<Common>,
    pub(crate) graph: Graph,
    /// Numbers of the inputs whose elements decide shapes.
    pub(crate) deciding: Vec<usize>,
    /// Until no other plan can be made.
    calibration: Option<Arc<Calibration>>,
    /// Most recently used last.
    plans: Mutex<Vec<Arc<ShapedPlan>>>,
}

impl Planned {
    /// Without a plan yet.
    pub(crate) fn open(
        common: Arc<Common>,
        graph: Graph,
        calibration: Option<Arc<Calibration>>,
    ) -> Self {
        Self {
            common,
            deciding: deciding_inputs(&graph),
            graph,
            calibration,
            plans: Mutex::default(),
        }
    }

    /// Makes the only plan that can be made, for its [`Self::fixed_shapes`]. Each constant of the graph goes when the plan
    /// has packed it.
    ///
    /// # Errors
    ///
    /// Those of binding and lowering, and of memory.
    pub(crate) fn make_only_plan(&mut self, shapes: Vec<Vec<usize>>) -> Result<(), ModelError> {
        let budget_bytes = self.common.budget_bytes;
        let plan = lower(&bind_taking(&mut self.graph, budget_bytes)?)?;
        let plan = calibrated(plan, self.calibration.take().as_deref())?;
        let plan = self.shaped(PlanKey::of_shapes(shapes), plan)?;
        self.plans = Mutex::new(vec![plan]);
        Ok(())
    }

    /// The declared shapes of all inputs, if none is open and no elements decide others.
    pub(crate) fn fixed_shapes(&self) -> Option<Vec<Vec<usize>>> {
        if !self.deciding.is_empty() {
            return None;
        }
        let ids = self.graph.inputs.iter();
        ids.map(|&id| declared_shape(self.graph.value(id).shape.as_deref()))
            .collect()
    }

    /// How many plans it keeps.
    pub(crate) fn n_plans(&self) -> usize {
        self.plans().len()
    }

    /// The plan for `key`, made if need be, which makes it the most recently used one.
    ///
    /// Another one that is used least recently goes where there are too many, or too little memory for
    /// this one.
    ///
    /// # Errors
    ///
    /// Those of binding and lowering, and of memory.
    pub(crate) fn plan_for(&self, key: &PlanKey) -> Result<Arc<ShapedPlan>, ModelError> {
        let common = &*self.common;
        let mut plans = self.plans();
        if let Some(at) = plans.iter().position(|plan| plan.key == *key) {
            let plan = plans.remove(at);
            plans.push(Arc::clone(&plan));
            return Ok(plan);
        }
        // Before anything is evicted: a plan whose constants are gone cannot be made again.
        check_input_shapes(&self.graph, &self.named(&key.shapes))?;
        while plans.len() >= common.max_plans {
            plans.remove(0);
        }
        let _taking = common.taking();
        let mut may_fit = false;
        let plan = loop {
            let left = common.left();
            let made = self
                .lowered(key, left)
                .and_then(|plan| self.shaped(key.clone(), plan));
            match made.map_err(|error| of_whole_budget(error, common.budget_bytes)) {
                // Plans for other shapes give their memory back, unless that would not do.
                Err(ModelError::OverBudget { .. }) if !plans.is_empty() => {
                    if !may_fit {
                        self.check_alone(key)?;
                        may_fit = true;
                    }
                    plans.remove(0);
                }
                made => break made?,
            }
        };
        plans.push(Arc::clone(&plan));
        Ok(plan)
    }

    /// Refuses what a plan for would take more than the budget even if nothing else did.
    pub(crate) fn check_alone(&self, key: &PlanKey) -> Result<(), ModelError> {
        let plan = self.lowered(key, self.common.budget_bytes)?;
        PreparedPlan::check_alone(&plan)
    }

    /// Keeps no plan but the one that was used last; whether there were others.
    pub(crate) fn keep_last(&self) -> bool {
        let mut plans = self.plans();
        let others = plans.len().saturating_sub(1);
        plans.drain(..others);
        others > 0
    }

    fn plans(&self) -> MutexGuard<'_, Vec<Arc<ShapedPlan>>> {
        self.plans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lowered(&self, key: &PlanKey, budget_bytes: usize) -> Result<Plan, ModelError> {
        let name_of = |number: usize| self.graph.value(self.graph.inputs[number]).name.as_str();
        let values = key.values.iter();
        let values: Vec<_> = values
            .map(|(number, tensor)| (name_of(*number), Arc::clone(tensor)))
            .collect();
        let shapes = self.named(&key.shapes);
        let bound = bind_with_values(&self.graph, &shapes, &values, budget_bytes)?;
        calibrated(lower(&bound)?, self.calibration.as_deref())
    }

    fn shaped(&self, key: PlanKey, plan: Plan) -> Result<Arc<ShapedPlan>, ModelError> {
        let common = &*self.common;
        let precisions = common.wanted.assign(&plan);
        let target = common.target.clone();
        let prepared = PreparedPlan::new(plan, target, &precisions, common.arithmetic)?;
        Ok(Arc::new(ShapedPlan {
            key,
            _reservation: Reservation::of(prepared.own_bytes(), &common.plan_bytes),
            prepared: Arc::new(prepared),
        }))
    }

    /// `shapes` with the names of their inputs.
    fn named(&self, shapes: &[Vec<usize>]) -> Vec<(&str, Vec<usize>)> {
        let ids = self.graph.inputs.iter().zip(shapes);
        ids.map(|(&id, shape)| (self.graph.value(id).name.as_str(), shape.clone()))
            .collect()
    }
}

/// What one run takes while it interprets, held against the model's budget until it is dropped.
///
/// It asks without waiting for plans that are made meanwhile: what one of these takes counts once it is there.
pub(crate) struct RunAccount<'r> {
    common: &'r Common,
    /// What ends the run.
    stop: Option<&'r AtomicBool>,
    held: usize,
}

impl<'r> RunAccount<'r> {
    pub(crate) fn new(common: &'r Common, stop: Option<&'r AtomicBool>) -> Self {
        Self {
            common,
            stop,
            held: 0,
        }
    }

    /// Bytes that it holds.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// Gives back what it holds beyond `held` bytes.
    pub(crate) fn back_to(&mut self, held: usize) {
        self.give_back(self.held.saturating_sub(held));
    }
}

impl Host for RunAccount<'_> {
    fn take(&mut self, asker: Asker<'_>, bytes: usize) -> Result<(), ModelError> {
        let common = self.common;
        let budget = common.budget_bytes;
        let others = common.weight_bytes();
        let total = &common.session_bytes;
        let taken = total.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| {
            let sum = held.checked_add(bytes)?;
            (sum.saturating_add(others) <= budget).then_some(sum)
        });
        if let Err(held) = taken {
            return Err(ModelError::OverBudget {
                node: asker.node.to_owned(),
                op: asker.op.to_owned(),
                what: asker.what,
                wanted: bytes,
                held: held.saturating_add(others),
                budget,
            });
        }
        self.held += bytes;
        if can_get(bytes) {
            return Ok(());
        }
        self.give_back(bytes);
        Err(asker.refused(bytes))
    }

    fn give_back(&mut self, bytes: usize) {
        let bytes = bytes.min(self.held);
        self.held -= bytes;
        self.common
            .session_bytes
            .fetch_sub(bytes, Ordering::Relaxed);
    }

    fn go_on(&mut self) -> Result<(), ModelError> {
        let stop = self.stop;
        let is_set =
            |stop: &AtomicBool| stop.load(Ordering::Relaxed) && stop.swap(false, Ordering::Relaxed);
        match stop.is_some_and(is_set) {
            true => Err(ModelError::Cancelled),
            false => Ok(()),
        }
    }
}

impl Drop for RunAccount<'_> {
    fn drop(&mut self) {
        self.give_back(self.held);
    }
}

/// `plan` with what `calibration` chose for its steps.
fn calibrated(mut plan: Plan, calibration: Option<&Calibration>) -> Result<Plan, ModelError> {
    if let Some(calibration) = calibration {
        calibration.apply(&mut plan)?;
    }
    Ok(plan)
}

/// An error about what was left of a budget of `bytes`, as one about all of it.
fn of_whole_budget(mut error: ModelError, bytes: usize) -> ModelError {
    if let ModelError::OverBudget { held, budget, .. } = &mut error {
        *held += bytes.saturating_sub(*budget);
        *budget = bytes;
    }
    error
}

/// A declared shape without open extents.
fn declared_shape(dims: Option<&[Dim]>) -> Option<Vec<usize>> {
    let dims = dims?.iter().map(|dim| match dim {
        Dim::Known(extent) => Some(*extent),
        _ => None,
    });
    dims.collect()
}
