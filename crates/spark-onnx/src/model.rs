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
//! are fixed. Where the elements of an input decide shapes ([`deciding_inputs`](crate::graph::deciding_inputs)), such as the `sizes` of a
//! Resize, a plan is for one value of it, and made when a run brings that value. Plans for several shapes read the same packed weights, as far as they choose the same kernels.
//! Plans and arenas are held against one budget.
//!
//! Where shapes hang on values that the network computes, as behind a NonMaxSuppression, it is cut there: the head is planned as
//! above, what stands behind runs in stages, interpreted or planned for the shapes of each run (`stages`).
//!
//! Deliberately absent: what is written while running, which is a session's.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::calibration::{Calibration, of_integers};
use crate::cpu::{Isa, Peaks, Target};
use crate::graph::{self, Graph, check_graph};
use crate::options::RunOptions;
use crate::plan_key::{PlanKey, may_decide};
use crate::planned::{Common, Planned};
use crate::precision::Wanted;
use crate::stages::Stages;
use crate::{ModelError, Precision, file};
use spark_onnx_graph::join_quantised;

/// Bytes that a model and its sessions hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ModelMemory {
    /// Packed weights, each counted once, with biases, other constants and tables of every plan that the
    /// model or a session keeps. Where an input shape is open, the model's own constants are there besides, and those of what
    /// stands behind results whose length values say.
    pub weight_bytes: usize,
    /// Intermediate results, scratch and outputs of all sessions; while they run, what they interpret.
    pub session_bytes: usize,
    /// Plans that the model keeps; sessions may have others still.
    pub plans: usize,
}

struct Shared {
    common: Arc<Common>,
    head: Arc<Planned>,
    /// What stands behind the head, where shapes hang on values.
    stages: Option<Stages>,
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
            .field("name", &self.graph().name)
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
    /// calibration of another network, and for single steps in int8; any error of binding or lowering the graph, of which
    /// what stands behind results whose length values say has its own when it runs.
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
        let wanted = Wanted {
            precision: options.asked_precision(),
            by_step: options.by_step.clone(),
            calibrated: formats(options.calibration.as_deref()),
        };
        let target = Target {
            isa,
            pool,
            weights: Arc::default(),
        };
        let common = Arc::new(Common::new(
            wanted,
            options.arithmetic,
            target,
            budget_bytes,
            options.max_plans,
        ));
        let (head, mut stages) = Stages::cut(graph)?;
        // What it chose of integers is in the graph by now.
        let calibration = calibration.filter(|c| !c.is_of_integers()).cloned();
        let mut head = Planned::open(Arc::clone(&common), head, calibration);
        if let Some(shapes) = head.fixed_shapes() {
            if let Some(stages) = &mut stages {
                stages.forget_constants();
            }
            head.make_only_plan(shapes)?;
        }
        Ok(Self(Arc::new(Shared {
            common,
            head: Arc::new(head),
            stages,
        })))
    }

    /// Makes the plan for inputs of these shapes now, so that no run has to; inputs that are not listed
    /// take their declared shape, which must be fixed or follow from the symbols of the others. Of a network whose lengths hang on
    /// values it is the plan of its head; what stands behind, a run makes.
    ///
    /// # Errors
    ///
    /// Those of binding and lowering, and of memory, as for [`Model::from_graph`];
    /// [`ModelError::InputDecides`] where the plan hangs on the elements of an input too.
    pub fn prepare(&self, input_shapes: &[(&str, Vec<usize>)]) -> Result<(), ModelError> {
        let head = &self.0.head;
        let shapes = graph::input_shapes(&head.graph, input_shapes)?;
        let mut deciding = head.deciding.iter();
        if let Some(&number) = deciding.find(|&&number| may_decide(&shapes[number])) {
            let id = head.graph.inputs[number];
            return Err(ModelError::InputDecides {
                name: head.graph.value(id).name.clone(),
            });
        }
        head.plan_for(&PlanKey::of_shapes(shapes)).map(drop)
    }

    /// The model as it was read, but that products between dequantisation and quantisation are products of
    /// integers. Where all input shapes are fixed, and the elements of no input decide others, it has given its constants up,
    /// for the only plan holds what it needs of them: they keep name, type and shape, and
    /// [`Value::constant`](crate::graph::Value::constant) is `None`. Where a shape is open they
    /// stay, for the plans to come.
    pub fn graph(&self) -> &Graph {
        match &self.0.stages {
            Some(stages) => &stages.whole,
            None => &self.0.head.graph,
        }
    }

    /// The precision asked for; [`Session::steps`](crate::Session::steps) says which step computes in what.
    pub fn precision(&self) -> Precision {
        self.0.common.wanted.precision
    }

    /// Where the model runs.
    pub fn device(&self) -> &'static str {
        "cpu"
    }

    /// Instruction set the kernels use.
    pub fn isa(&self) -> Isa {
        self.0.common.target.isa
    }

    /// Threads that take part in a run.
    pub fn threads(&self) -> usize {
        self.0.common.target.pool.threads()
    }

    /// Bytes held now by the model and all of its sessions, but for states that are carried.
    pub fn memory(&self) -> ModelMemory {
        let behind = self.0.stages.as_ref().map_or(0, Stages::n_plans);
        ModelMemory {
            weight_bytes: self.0.common.weight_bytes(),
            session_bytes: self.0.common.session_bytes(),
            plans: self.0.head.n_plans() + behind,
        }
    }

    /// What the processor can do at most on this model's threads; measures for a few tenths of a
    /// second and takes 256 MB meanwhile.
    pub fn peaks(&self) -> Peaks {
        let target = &self.0.common.target;
        Peaks::measure(target.isa, &target.pool)
    }

    /// What all of its plans share.
    pub(crate) fn common(&self) -> &Arc<Common> {
        &self.0.common
    }

    /// The network, or what of it stands before results whose length values say.
    pub(crate) fn head(&self) -> &Arc<Planned> {
        &self.0.head
    }

    /// What stands behind these.
    pub(crate) fn stages(&self) -> Option<&Stages> {
        self.0.stages.as_ref()
    }
}

/// The format of each calibrated step.
fn formats(calibration: Option<&Calibration>) -> BTreeMap<String, Precision> {
    let formats = calibration.into_iter().flat_map(Calibration::formats);
    formats
        .map(|(name, precision)| (name.to_owned(), precision))
        .collect()
}
