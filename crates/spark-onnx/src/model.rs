//! A model that any number of sessions run: its weights are packed once, its plans kept by shape.
//!
//! ```text
//! Model ──── graph, packed weights, plans by input shapes, budget          Send + Sync, shared
//!   │
//!   ├──> Session   an arena per plan that it uses                          one per thread, cheap
//!   └──> Session
//! ```
//!
//! A plan is made when a session first meets its shapes, or by [`Model::prepare`]; at load, where all shapes
//! are fixed. Where the elements of an input decide shapes ([`deciding_inputs`]), such as the `sizes` of a
//! Resize, a plan is for one value of it, and made when a run brings that value. Plans for several shapes read the same packed weights, as far as they choose the same kernels.
//! Plans and arenas are held against one budget.
//!
//! Deliberately absent: what is written while running, which is a session's.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::budget::ModelBudget;
use crate::calibration::{Calibration, of_integers};
use crate::cpu::{Executor, Isa, Peaks, PreparedPlan, Target};
use crate::graph::{
    self, Dim, Graph, bind_taking, bind_with_values, check_graph, check_input_shapes,
    deciding_inputs,
};
use crate::options::RunOptions;
use crate::plan::{Plan, lower};
use crate::plan_key::{PlanKey, may_decide};
use crate::precision::{Arithmetic, Wanted};
use crate::{ModelError, Precision, file};
use spark_onnx_graph::join_quantised;

/// Bytes that a model and its sessions hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ModelMemory {
    /// Packed weights, each counted once, with biases, other constants and tables of every plan that the
    /// model or a session keeps. Where an input shape is open, the model's own constants are there besides.
    pub weight_bytes: usize,
    /// Intermediate results, scratch and outputs of all sessions.
    pub session_bytes: usize,
    /// Plans that the model keeps; sessions may have others still.
    pub plans: usize,
}

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

struct Shared {
    graph: Graph,
    /// Numbers of the inputs whose elements decide shapes.
    deciding: Vec<usize>,
    wanted: Wanted,
    /// Until no other plan can be made.
    calibration: Option<Arc<Calibration>>,
    arithmetic: Arithmetic,
    target: Target,
    /// Bytes that all plans and sessions may take together.
    budget_bytes: usize,
    max_plans: usize,
    /// Bytes of all sessions.
    session_bytes: Arc<AtomicUsize>,
    /// Bytes of all plans that somebody holds, besides packed weights.
    plan_bytes: Arc<AtomicUsize>,
    /// Most recently used last.
    plans: Mutex<Vec<Arc<ShapedPlan>>>,
}

/// A network with its weights packed, ready for any number of sessions.
///
/// Cloning gives another handle on the same model.
///
/// # Examples
///
/// One set of weights, a session per thread:
///
/// ```
/// use spark_onnx::graph::{Dim, Graph, MatMul, Op};
/// use spark_onnx::{DType, Model, RunOptions, Tensor};
///
/// // y = x W; `Model::load(path, &options)` reads a network from a file.
/// let mut graph = Graph::default();
/// let x = graph.add_input("x", DType::F32, vec![Dim::Symbol("batch".to_owned()), Dim::Known(2)]);
/// let w = Tensor::from_f32([2, 3], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?;
/// let w = graph.add_constant("w", w);
/// let y = graph.add_node("y", Op::MatMul(MatMul), &[Some(x), Some(w)]);
/// graph.outputs.push(y);
///
/// let model = Model::from_graph(graph, &RunOptions::new())?;
/// std::thread::scope(|scope| {
///     for batch in 1..4 {
///         let mut session = model.session();
///         scope.spawn(move || {
///             let x = Tensor::from_f32([batch, 2], vec![1.0; 2 * batch]).expect("fits");
///             let outputs = session.run(&[("x", &x)]).expect("runs");
///             assert_eq!(outputs[0].1.to_f32()[..3], [5.0, 7.0, 9.0]);
///         });
///     }
/// });
/// assert_eq!(model.memory().plans, 3);
/// # Ok::<(), spark_onnx::ModelError>(())
/// ```
#[derive(Clone)]
pub struct Model(Arc<Shared>);

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model")
            .field("name", &self.0.graph.name)
            .field("precision", &self.precision())
            .field("memory", &self.memory())
            .finish_non_exhaustive()
    }
}

impl Model {
    /// Reads an ONNX file and makes it ready; where all input shapes are fixed, its plan is made
    /// at once, else when shapes are first met.
    ///
    /// # Errors
    ///
    /// As [`file::load_with`] and [`Model::from_graph`].
    pub fn load(path: &Path, options: &RunOptions) -> Result<Self, ModelError> {
        Self::from_graph(file::load_with(path, &options.read_options())?, options)
    }

    /// The same from the bytes of a file, whose constants must all be in it.
    ///
    /// # Errors
    ///
    /// As [`file::parse_with`] and [`Model::from_graph`].
    pub fn from_bytes(bytes: &[u8], options: &RunOptions) -> Result<Self, ModelError> {
        let graph = file::parse_with(bytes, None, &options.read_options())?;
        Self::from_graph(graph, options)
    }

    /// Makes `graph` ready.
    ///
    /// # Errors
    ///
    /// [`ModelError::DeviceUnavailable`] and [`ModelError::PrecisionUnavailable`] for what this
    /// build or machine cannot do; [`ModelError::OverBudget`] or [`ModelError::OutOfMemory`] for a
    /// model that takes more memory than [`RunOptions::memory_budget`] or than there is;
    /// [`ModelError::Quantise`] for weights that cannot be packed; [`ModelError::Uncalibrated`] for int8 without a
    /// calibration of products on integers, unless the network has some of its own; [`ModelError::Calibration`] for a
    /// calibration of another network, and for single steps in int8; any error of binding or lowering the graph.
    pub fn from_graph(mut graph: Graph, options: &RunOptions) -> Result<Self, ModelError> {
        options.cpu_or_refuse()?;
        check_graph(&graph)?;
        let budget_bytes = options.budget_bytes(&graph);
        let calibration = options.calibration.as_ref();
        if let Some(calibration) = calibration.filter(|c| c.is_of_integers()) {
            graph = of_integers(&graph, calibration)?;
        }
        join_quantised(&mut graph);
        options.check_integers(&graph)?;
        let (isa, pool) = options.isa_and_pool();
        let mut shared = Shared {
            deciding: deciding_inputs(&graph),
            graph,
            wanted: Wanted {
                precision: options.asked_precision(),
                by_step: options.by_step.clone(),
                calibrated: formats(options.calibration.as_deref()),
            },
            // What it chose of integers is in the graph by now.
            calibration: calibration.filter(|c| !c.is_of_integers()).cloned(),
            arithmetic: options.arithmetic,
            target: Target {
                isa,
                pool,
                weights: Arc::default(),
            },
            budget_bytes,
            max_plans: options.max_plans.max(1),
            session_bytes: Arc::default(),
            plan_bytes: Arc::default(),
            plans: Mutex::default(),
        };
        if let Some(shapes) = shared.fixed_shapes() {
            // No other plan can be made, so each constant goes when this one has packed it.
            let plan = lower(&bind_taking(&mut shared.graph, budget_bytes)?)?;
            let plan = calibrated(plan, shared.calibration.take().as_deref())?;
            let plan = shared.shaped(PlanKey::of_shapes(shapes), plan)?;
            shared.plans = Mutex::new(vec![plan]);
        }
        Ok(Self(Arc::new(shared)))
    }

    /// Makes the plan for inputs of these shapes now, so that no run has to; inputs that are not listed
    /// take their declared shape, which must be fixed or follow from the symbols of the others.
    ///
    /// # Errors
    ///
    /// Those of binding and lowering, and of memory, as for [`Model::from_graph`];
    /// [`ModelError::InputDecides`] where the plan hangs on the elements of an input too.
    pub fn prepare(&self, input_shapes: &[(&str, Vec<usize>)]) -> Result<(), ModelError> {
        let shapes = graph::input_shapes(&self.0.graph, input_shapes)?;
        let mut deciding = self.0.deciding.iter();
        if let Some(&number) = deciding.find(|&&number| may_decide(&shapes[number])) {
            let id = self.0.graph.inputs[number];
            return Err(ModelError::InputDecides {
                name: self.0.graph.value(id).name.clone(),
            });
        }
        self.plan_for(&PlanKey::of_shapes(shapes)).map(drop)
    }

    /// The model as it was read, but that products between dequantisation and quantisation are products of
    /// integers. Where all input shapes are fixed, and the elements of no input decide others, it has given its constants up,
    /// for the only plan holds what it needs of them: they keep name, type and shape, and
    /// [`Value::constant`](crate::graph::Value::constant) is `None`. Where a shape is open they
    /// stay, for the plans to come.
    pub fn graph(&self) -> &Graph {
        &self.0.graph
    }

    /// The precision asked for; [`Session::steps`](crate::Session::steps) says which step computes in what.
    pub fn precision(&self) -> Precision {
        self.0.wanted.precision
    }

    /// Where the model runs.
    pub fn device(&self) -> &'static str {
        "cpu"
    }

    /// Instruction set the kernels use.
    pub fn isa(&self) -> Isa {
        self.0.target.isa
    }

    /// Threads that take part in a run.
    pub fn threads(&self) -> usize {
        self.0.target.pool.threads()
    }

    /// Bytes held now by the model and all of its sessions, but for states that are carried.
    pub fn memory(&self) -> ModelMemory {
        let own = self.0.plan_bytes.load(Ordering::Relaxed);
        ModelMemory {
            weight_bytes: own + self.0.target.weights.bytes(),
            session_bytes: self.0.session_bytes.load(Ordering::Relaxed),
            plans: self.0.plans().len(),
        }
    }

    /// What the processor can do at most on this model's threads; measures for a few tenths of a
    /// second and takes 256 MB meanwhile.
    pub fn peaks(&self) -> Peaks {
        Peaks::measure(self.0.target.isa, &self.0.target.pool)
    }

    /// Numbers of the inputs whose elements decide shapes.
    pub(crate) fn deciding(&self) -> &[usize] {
        &self.0.deciding
    }

    /// The declared shapes of all inputs, if none is open and no elements decide others.
    pub(crate) fn fixed_shapes(&self) -> Option<Vec<Vec<usize>>> {
        self.0.fixed_shapes()
    }

    /// How many plans a session keeps memory for.
    pub(crate) fn max_plans(&self) -> usize {
        self.0.max_plans
    }

    /// The plan for `key`, made if need be, which makes it the most recently used one.
    ///
    /// Another one that is used least recently goes where there are too many, or too little memory for
    /// this one.
    pub(crate) fn plan_for(&self, key: &PlanKey) -> Result<Arc<ShapedPlan>, ModelError> {
        let shared = &*self.0;
        let mut plans = shared.plans();
        if let Some(at) = plans.iter().position(|plan| plan.key == *key) {
            let plan = plans.remove(at);
            plans.push(Arc::clone(&plan));
            return Ok(plan);
        }
        // Before anything is evicted: a plan whose constants are gone cannot be made again.
        check_input_shapes(&shared.graph, &shared.named(&key.shapes))?;
        while plans.len() >= shared.max_plans {
            plans.remove(0);
        }
        let mut may_fit = false;
        let plan = loop {
            let left = shared.left();
            let made = shared
                .lowered(key, left)
                .and_then(|plan| shared.shaped(key.clone(), plan));
            match made.map_err(|error| of_whole_budget(error, shared.budget_bytes)) {
                // Plans for other shapes give their memory back, unless that would not do.
                Err(ModelError::OverBudget { .. }) if !plans.is_empty() => {
                    if !may_fit {
                        shared.check_alone(key)?;
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
        self.0.check_alone(key)
    }

    /// Memory to run `plan` in, and the bytes of it held against the budget.
    pub(crate) fn executor(
        &self,
        plan: &ShapedPlan,
    ) -> Result<(Executor, Reservation), ModelError> {
        let shared = &*self.0;
        // Held while the bytes are counted and taken, so that no two sessions take the same ones.
        let _plans = shared.plans();
        let held = shared.budget_bytes - shared.left();
        let budget = ModelBudget::with_taken(shared.budget_bytes, held);
        let executor = Executor::on(Arc::clone(&plan.prepared), budget)?;
        let reservation = Reservation::of(executor.own_bytes(), &shared.session_bytes);
        Ok((executor, reservation))
    }
}

impl Shared {
    fn plans(&self) -> MutexGuard<'_, Vec<Arc<ShapedPlan>>> {
        self.plans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of the budget that nothing holds.
    fn left(&self) -> usize {
        let plans = self.plan_bytes.load(Ordering::Relaxed);
        let sessions = self.session_bytes.load(Ordering::Relaxed);
        let held = plans + sessions + self.target.weights.bytes();
        self.budget_bytes.saturating_sub(held)
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

    fn check_alone(&self, key: &PlanKey) -> Result<(), ModelError> {
        let plan = self.lowered(key, self.budget_bytes)?;
        PreparedPlan::check_alone(&plan)
    }

    fn shaped(&self, key: PlanKey, plan: Plan) -> Result<Arc<ShapedPlan>, ModelError> {
        let precisions = self.wanted.assign(&plan);
        let target = self.target.clone();
        let prepared = PreparedPlan::new(plan, target, &precisions, self.arithmetic)?;
        Ok(Arc::new(ShapedPlan {
            key,
            _reservation: Reservation::of(prepared.own_bytes(), &self.plan_bytes),
            prepared: Arc::new(prepared),
        }))
    }

    /// The shapes of all inputs, if none is open and no elements decide others.
    fn fixed_shapes(&self) -> Option<Vec<Vec<usize>>> {
        if !self.deciding.is_empty() {
            return None;
        }
        let ids = self.graph.inputs.iter();
        ids.map(|&id| declared_shape(self.graph.value(id).shape.as_deref()))
            .collect()
    }

    /// `shapes` with the names of their inputs.
    fn named(&self, shapes: &[Vec<usize>]) -> Vec<(&str, Vec<usize>)> {
        let ids = self.graph.inputs.iter().zip(shapes);
        ids.map(|(&id, shape)| (self.graph.value(id).name.as_str(), shape.clone()))
            .collect()
    }
}

/// `plan` with what `calibration` chose for its steps.
fn calibrated(mut plan: Plan, calibration: Option<&Calibration>) -> Result<Plan, ModelError> {
    if let Some(calibration) = calibration {
        calibration.apply(&mut plan)?;
    }
    Ok(plan)
}

/// The format of each calibrated step.
fn formats(calibration: Option<&Calibration>) -> BTreeMap<String, Precision> {
    let formats = calibration.into_iter().flat_map(Calibration::formats);
    formats
        .map(|(name, precision)| (name.to_owned(), precision))
        .collect()
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
