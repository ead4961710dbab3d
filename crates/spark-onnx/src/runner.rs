//! A model ready to run: the one type most users need.
//!
//! ```text
//! load(path) -> Graph --(shapes of the inputs)--> bind -> lower -> Executor     cached per set of shapes
//! run(inputs) -> outputs
//! ```
//!
//! What was asked for is what runs: a precision or device that cannot be had is an
//! error that says what can, never something else under its name.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use spark_hal::config::{CudaUse, DeviceChoice, PrecisionChoice};

use crate::budget;
use crate::cpu::{Executor, Isa, Peaks, Pool};
use crate::graph::{Dim, Graph, bind_taking, bind_within, check_graph, check_input_shapes};
use crate::plan::{Plan, lower};
use crate::precision::{Activations, Arithmetic, Bf16Products, Fp16Products, Wanted};
use crate::{ModelError, Precision, Tensor, TensorView, file};

/// Plans that are cached; one more evicts the least recently used.
const MAX_PLANS: usize = 8;

/// How a model is to be run; what is left out is decided by the environment and the machine.
///
/// # Examples
///
/// ```
/// use spark_onnx::{Precision, RunOptions};
///
/// let options = RunOptions::new().with_precision(Precision::Fp16).with_threads(4).with_memory_budget(1 << 30);
/// assert_eq!(options.precision, Some(Precision::Fp16));
/// assert_eq!(options.device, None); // `SPARK_DEVICE` and `CUDA` say where
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunOptions {
    /// Format of weights and activations; `None` takes `OPENPILOT_DGX_PRECISION`, whose `auto`
    /// is fp32, as models run on the CPU.
    pub precision: Option<Precision>,
    /// Device that the model runs on; `None` takes `SPARK_DEVICE` and `CUDA`.
    pub device: Option<DeviceChoice>,
    /// Threads on the CPU; `None` takes as many as this process may use with profit.
    pub threads: Option<usize>,
    /// Instruction set on the CPU, which only detection gives; `None` takes the best.
    pub isa: Option<Isa>,
    /// How reduced precisions are computed on the CPU.
    pub arithmetic: Arithmetic,
    /// Formats of single steps by name, as a mixed plan gives them; all others have `precision`.
    pub by_step: BTreeMap<String, Precision>,
    /// Bytes that all plans of a model may take together; `None` takes the smaller of half the
    /// memory this process can still get, control groups included, and 64 times the bytes of the
    /// file (of the constants, for a graph without a file) plus 1 GiB.
    pub memory_budget: Option<usize>,
}

impl RunOptions {
    /// Everything decided by the environment and the machine.
    pub fn new() -> Self {
        Self {
            precision: None,
            device: None,
            threads: None,
            isa: None,
            arithmetic: Arithmetic::default(),
            by_step: BTreeMap::new(),
            memory_budget: None,
        }
    }

    /// With at most so many bytes for folded constants, packed weights, intermediate results,
    /// scratch and outputs of all plans together; a model that takes more is refused.
    #[must_use]
    pub fn with_memory_budget(mut self, bytes: usize) -> Self {
        self.memory_budget = Some(bytes);
        self
    }

    /// Computes in this precision, whatever the environment says.
    #[must_use]
    pub fn with_precision(mut self, precision: Precision) -> Self {
        self.precision = Some(precision);
        self
    }

    /// Runs on this device, whatever the environment says; one that cannot be had is an error.
    #[must_use]
    pub fn with_device(mut self, device: DeviceChoice) -> Self {
        self.device = Some(device);
        self
    }

    /// Runs on this many threads of the CPU; 0 is taken as 1.
    #[must_use]
    pub fn with_threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// With this instruction set; [`Isa::named`] finds one by name and refuses what this processor
    /// lacks.
    #[must_use]
    pub fn with_isa(mut self, isa: Isa) -> Self {
        self.isa = Some(isa);
        self
    }

    /// Computes GEMM and convolutions of bf16 this way.
    #[must_use]
    pub fn with_bf16_products(mut self, products: Bf16Products) -> Self {
        self.arithmetic.bf16_products = products;
        self
    }

    /// Computes GEMM and convolutions of fp16 this way.
    #[must_use]
    pub fn with_fp16_products(mut self, products: Fp16Products) -> Self {
        self.arithmetic.fp16_products = products;
        self
    }

    /// Takes the activations of GEMM and convolutions in fp8 and fp4 this way: quantised, or exact.
    #[must_use]
    pub fn with_activations(mut self, activations: Activations) -> Self {
        self.arithmetic.activations = activations;
        self
    }

    /// Computes single steps, by name, in formats of their own, as a mixed plan gives them.
    #[must_use]
    pub fn with_by_step(mut self, by_step: BTreeMap<String, Precision>) -> Self {
        self.by_step = by_step;
        self
    }
}

impl RunOptions {
    /// Bytes that `graph` may take.
    pub(crate) fn budget_bytes(&self, graph: &Graph) -> usize {
        self.memory_budget
            .unwrap_or_else(|| budget::default_bytes(graph.source_bytes()))
    }

    /// Instruction set and threads after every default is filled in.
    pub(crate) fn isa_and_threads(&self) -> (Isa, usize) {
        let threads = match self.threads {
            Some(threads) => threads.max(1),
            None => spark_hal::machine().cpu.plan().n_threads,
        };
        (self.isa.unwrap_or_else(Isa::detect), threads)
    }
}

impl Default for RunOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// Bytes a runner holds; where an input shape is open, the model's own constants besides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunnerMemory {
    /// Intermediate results and scratch of all plans.
    pub arena_bytes: usize,
    /// Weights as the executor holds them.
    pub weight_bytes: usize,
    /// Memory of a device of its own; `None` on the CPU.
    pub device_bytes: Option<usize>,
}

/// What one step of a plan is and where it runs.
#[derive(Debug, Clone, PartialEq)]
pub struct StepInfo {
    /// Name of the node it came from.
    pub name: String,
    /// Kind of the step, a short name for tables.
    pub kind: &'static str,
    /// Shapes, geometry and what was fused into it.
    pub detail: String,
    /// Format of the operands of its GEMM or convolution; fp32 where it has none.
    pub precision: Precision,
    /// The kernel that computes it, as `{isa}-{types}-{algorithm}`: `avx512-f32-winograd2x3`,
    /// `avx2-f32xbf16-gemm` for f32 activations and weights of bf16. A last part names the
    /// instruction of 16 bits (`dot`, `mmla`, `fmlal`), or says `wide` where weights of 16 bits are
    /// held as f32. The names are stable.
    pub kernel: String,
    /// Why in this format.
    pub reason: &'static str,
    /// Bytes of its weights as they are held.
    pub weight_bytes: usize,
    /// Name of the device that the step runs on.
    pub device: &'static str,
    /// Multiply-accumulate operations of a GEMM, convolution, attention or recurrent cell; 0 of others.
    pub macs: u64,
    /// Bytes it reads and writes, its weights as they are held included.
    pub bytes: u64,
    /// Mean time of one run, if the plan was profiled.
    pub mean: Option<Duration>,
}

/// When a step ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Its place in [`ModelRunner::steps`].
    pub step: usize,
    /// From the start of the first run to the start of the step.
    pub start: Duration,
    /// How long it took.
    pub duration: Duration,
}

/// A plan for one set of input shapes.
struct Session {
    shapes: Vec<Vec<usize>>,
    executor: Executor,
}

/// A model ready to run.
///
/// # Examples
///
/// ```
/// use spark_onnx::graph::{Dim, Graph, MatMul, Op};
/// use spark_onnx::{DType, ModelRunner, RunOptions, Tensor};
///
/// // y = x W; `ModelRunner::load(path, &options)` reads a network from a file.
/// let mut graph = Graph::default();
/// let x = graph.add_input("x", DType::F32, vec![Dim::Known(1), Dim::Known(2)]);
/// let w = Tensor::from_f32([2, 3], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?;
/// let w = graph.add_constant("w", w);
/// let y = graph.add_node("y", Op::MatMul(MatMul), &[Some(x), Some(w)]);
/// graph.outputs.push(y);
///
/// let mut runner = ModelRunner::from_graph(graph, &RunOptions::new())?;
/// let x = Tensor::from_f32([1, 2], vec![1.0, 10.0])?;
/// let outputs = runner.run(&[("x", &x)])?;
/// assert_eq!(outputs[0].0, "y");
/// assert_eq!(outputs[0].1.to_f32(), [41.0, 52.0, 63.0]);
/// # Ok::<(), spark_onnx::ModelError>(())
/// ```
pub struct ModelRunner {
    graph: Graph,
    wanted: Wanted,
    arithmetic: Arithmetic,
    isa: Isa,
    pool: Arc<Pool>,
    /// Bytes that all sessions may take together.
    budget_bytes: usize,
    /// Most recently used last.
    sessions: Vec<Session>,
}

impl ModelRunner {
    /// Reads an ONNX file and makes it ready; where all input shapes are fixed, its plan is made
    /// at once, else at the first run.
    ///
    /// # Errors
    ///
    /// As [`file::load`] and [`ModelRunner::from_graph`].
    pub fn load(path: &Path, options: &RunOptions) -> Result<Self, ModelError> {
        Self::from_graph(file::load(path)?, options)
    }

    /// Makes `graph` ready.
    ///
    /// # Errors
    ///
    /// [`ModelError::DeviceUnavailable`] and [`ModelError::PrecisionUnavailable`] for what this
    /// build or machine cannot do; [`ModelError::OverBudget`] or [`ModelError::OutOfMemory`] for a
    /// model that takes more memory than [`RunOptions::memory_budget`] or than there is;
    /// [`ModelError::Quantise`] for weights that cannot be packed; any error of binding or lowering the graph.
    pub fn from_graph(graph: Graph, options: &RunOptions) -> Result<Self, ModelError> {
        cpu_or_refuse(options)?;
        check_graph(&graph)?;
        let precision = asked_precision(options);
        let (isa, threads) = options.isa_and_threads();
        let budget_bytes = options.budget_bytes(&graph);
        let mut runner = Self {
            graph,
            wanted: Wanted {
                precision,
                by_step: options.by_step.clone(),
            },
            arithmetic: options.arithmetic,
            isa,
            pool: Arc::new(Pool::new(threads)),
            budget_bytes,
            sessions: Vec::new(),
        };
        if let Some(shapes) = runner.fixed_shapes() {
            // No other plan can be made, so each constant goes when this one has packed it.
            let plan = lower(&bind_taking(&mut runner.graph, budget_bytes)?)?;
            let executor = runner.executor(plan)?;
            runner.sessions.push(Session { shapes, executor });
        }
        Ok(runner)
    }

    /// The model as it was read. Where all input shapes are fixed it has given its constants up,
    /// for the only plan holds what it needs of them: they keep name, type and shape, and
    /// [`Value::constant`](crate::graph::Value::constant) is `None`. Where a shape is open they
    /// stay, for the plans to come.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The precision asked for; [`ModelRunner::steps`] says which step computes in what.
    pub fn precision(&self) -> Precision {
        self.wanted.precision
    }

    /// Where the model runs.
    pub fn device(&self) -> &'static str {
        "cpu"
    }

    /// Instruction set the kernels use.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Threads that take part.
    pub fn threads(&self) -> usize {
        self.pool.threads()
    }

    /// Bytes held by all plans made so far.
    pub fn memory(&self) -> RunnerMemory {
        let sum = |f: fn(&Executor) -> usize| self.sessions.iter().map(|s| f(&s.executor)).sum();
        RunnerMemory {
            arena_bytes: sum(Executor::arena_bytes),
            weight_bytes: sum(Executor::weight_bytes),
            device_bytes: None,
        }
    }

    /// The steps of the plan used last; empty before the first plan.
    pub fn steps(&self) -> Vec<StepInfo> {
        let Some(session) = self.sessions.last() else {
            return Vec::new();
        };
        let steps = session.executor.plan().steps.iter().enumerate();
        steps
            .map(|(index, planned)| {
                let (precision, kernel, reason) = session.executor.format(index);
                StepInfo {
                    name: planned.name.clone(),
                    kind: planned.step.kind(),
                    detail: planned.step.describe(),
                    precision,
                    kernel,
                    reason,
                    weight_bytes: session.executor.step_weight_bytes(index),
                    device: self.device(),
                    macs: planned.step.macs(),
                    bytes: session.executor.plan().step_bytes(index)
                        + session.executor.step_weight_bytes(index) as u64,
                    mean: None,
                }
            })
            .collect()
    }

    /// Runs the model once.
    ///
    /// Inputs are named, in any order; results come in the model's order. Shapes may be any the
    /// model admits; a plan is made for each new set of them.
    ///
    /// # Errors
    ///
    /// [`ModelError::InputMissing`], [`ModelError::InputUnknown`], [`ModelError::InputTwice`],
    /// [`ModelError::InputType`] or [`ModelError::InputShape`] for inputs that do not fit; [`ModelError::IndexOutside`] if the
    /// model computes such an index; any error of planning for new shapes.
    pub fn run(&mut self, inputs: &[(&str, &Tensor)]) -> Result<Vec<(String, Tensor)>, ModelError> {
        self.run_views(&as_views(inputs))
    }

    /// [`ModelRunner::run`] on elements that the caller keeps, in the caller's layout.
    ///
    /// An input whose elements lie as the plan holds them is read where it is: row-major ones, unless
    /// convolutions, pooling or resizing follow, for which channels-last ones are. All others are
    /// converted.
    ///
    /// # Errors
    ///
    /// As [`ModelRunner::run`].
    pub fn run_views(
        &mut self,
        inputs: &[(&str, TensorView<'_>)],
    ) -> Result<Vec<(String, Tensor)>, ModelError> {
        let tensors = self.in_order(inputs)?;
        let session = self.session(&tensors)?;
        let outputs = session.executor.run_on(&tensors)?;
        let ports = session.executor.plan().outputs.iter();
        Ok(ports.map(|port| port.name.clone()).zip(outputs).collect())
    }

    /// Runs the model `runs` times and tells the mean time of every step.
    ///
    /// # Errors
    ///
    /// As [`ModelRunner::run`].
    pub fn profile(
        &mut self,
        inputs: &[(&str, &Tensor)],
        runs: u32,
    ) -> Result<Vec<StepInfo>, ModelError> {
        let executor = &mut self.prepared(inputs)?.executor;
        let mut times = vec![Duration::ZERO; executor.plan().steps.len()];
        for _ in 0..runs {
            executor.run_timed(&mut times)?;
        }
        let mut steps = self.steps();
        for (step, time) in steps.iter_mut().zip(times) {
            step.mean = (runs > 0).then(|| time / runs.max(1));
        }
        Ok(steps)
    }

    /// Runs the model `runs` times and tells when every step ran.
    ///
    /// # Errors
    ///
    /// As [`ModelRunner::run`].
    pub fn spans(
        &mut self,
        inputs: &[(&str, &Tensor)],
        runs: usize,
    ) -> Result<Vec<Span>, ModelError> {
        let executor = &mut self.prepared(inputs)?.executor;
        let mut spans = Vec::new();
        let begin = Instant::now();
        for _ in 0..runs {
            executor.run_spans(|step, start| {
                spans.push(Span {
                    step,
                    start: start.duration_since(begin),
                    duration: start.elapsed(),
                });
            })?;
        }
        Ok(spans)
    }

    /// What the processor can do at most on this runner's threads; measures for a few tenths of a
    /// second and takes 256 MB meanwhile.
    pub fn peaks(&self) -> Peaks {
        Peaks::measure(self.isa, &self.pool)
    }

    /// The session for `inputs`, with them written into it.
    fn prepared(&mut self, inputs: &[(&str, &Tensor)]) -> Result<&mut Session, ModelError> {
        let tensors = self.in_order(&as_views(inputs))?;
        let session = self.session(&tensors)?;
        for (index, &tensor) in tensors.iter().enumerate() {
            session.executor.set_input(index, tensor)?;
        }
        Ok(session)
    }

    /// The tensors of `inputs` in the model's order, each of its inputs once.
    fn in_order<'t>(
        &self,
        inputs: &[(&str, TensorView<'t>)],
    ) -> Result<Vec<TensorView<'t>>, ModelError> {
        let names = || {
            self.graph
                .inputs
                .iter()
                .map(|&id| &*self.graph.value(id).name)
        };
        for (index, (given, _)) in inputs.iter().enumerate() {
            let name = || (*given).to_owned();
            if !names().any(|name| name == *given) {
                return Err(ModelError::InputUnknown { name: name() });
            }
            if inputs[..index].iter().any(|(before, _)| before == given) {
                return Err(ModelError::InputTwice { name: name() });
            }
        }
        let tensor_of = |name: &str| {
            let found = inputs.iter().find(|(given, _)| *given == name);
            found.map(|(_, tensor)| *tensor)
        };
        names()
            .map(|name| {
                tensor_of(name).ok_or_else(|| ModelError::InputMissing {
                    name: name.to_owned(),
                })
            })
            .collect()
    }

    /// The shapes of all inputs, if none is open.
    fn fixed_shapes(&self) -> Option<Vec<Vec<usize>>> {
        let shape_of = |shape: &Vec<Dim>| {
            let dims = shape.iter().map(|dim| match dim {
                Dim::Known(extent) => Some(*extent),
                _ => None,
            });
            dims.collect::<Option<Vec<usize>>>()
        };
        let ids = self.graph.inputs.iter();
        ids.map(|&id| self.graph.value(id).shape.as_ref().and_then(shape_of))
            .collect()
    }

    /// The session for the shapes of `inputs`, made if need be and moved to the end.
    fn session(&mut self, inputs: &[TensorView<'_>]) -> Result<&mut Session, ModelError> {
        let is_for = |session: &Session| {
            let mut pairs = session.shapes.iter().zip(inputs);
            pairs.all(|(shape, tensor)| shape == tensor.shape())
        };
        let found = self.sessions.iter().position(is_for);
        let session = match found {
            Some(at) => self.sessions.remove(at),
            None => {
                let shapes: Vec<Vec<usize>> = inputs.iter().map(|t| t.shape().to_vec()).collect();
                // Before anything is evicted: a plan whose constants are gone cannot be made again.
                check_input_shapes(&self.graph, &self.named(&shapes))?;
                if self.sessions.len() == MAX_PLANS {
                    self.sessions.remove(0);
                }
                let executor = loop {
                    match self.plan(&shapes).and_then(|plan| self.executor(plan)) {
                        // Plans for other shapes give their memory back.
                        Err(ModelError::OverBudget { .. }) if !self.sessions.is_empty() => {
                            self.sessions.remove(0);
                        }
                        made => break made?,
                    }
                };
                Session { shapes, executor }
            }
        };
        self.sessions.push(session);
        let last = self.sessions.len() - 1;
        Ok(&mut self.sessions[last])
    }

    /// `shapes` with the names of their inputs.
    fn named(&self, shapes: &[Vec<usize>]) -> Vec<(&str, Vec<usize>)> {
        let ids = self.graph.inputs.iter().zip(shapes);
        ids.map(|(&id, shape)| (self.graph.value(id).name.as_str(), shape.clone()))
            .collect()
    }

    fn plan(&self, shapes: &[Vec<usize>]) -> Result<Plan, ModelError> {
        let held = self.sessions.iter().map(|s| s.executor.held_bytes());
        let left = self.budget_bytes.saturating_sub(held.sum());
        lower(&bind_within(&self.graph, &self.named(shapes), left)?)
    }

    fn executor(&self, plan: Plan) -> Result<Executor, ModelError> {
        let precisions = self.wanted.assign(&plan);
        let pool = Arc::clone(&self.pool);
        Executor::with_precisions(plan, self.isa, pool, &precisions, self.arithmetic)
    }
}

/// Named tensors as views of them.
fn as_views<'a>(inputs: &[(&'a str, &'a Tensor)]) -> Vec<(&'a str, TensorView<'a>)> {
    let views = inputs.iter();
    views.map(|&(name, tensor)| (name, tensor.into())).collect()
}

/// Only the CPU has an executor; a GPU asked for by name is refused.
fn cpu_or_refuse(options: &RunOptions) -> Result<(), ModelError> {
    let refuse = |device: String| {
        Err(ModelError::DeviceUnavailable {
            device,
            reason: "this build runs models on the CPU only",
        })
    };
    let config = spark_hal::config();
    let device = options.device.unwrap_or(config.device);
    match device {
        DeviceChoice::Cuda(None) => refuse("cuda".to_owned()),
        DeviceChoice::Cuda(Some(n)) => refuse(format!("cuda:{n}")),
        DeviceChoice::Auto if options.device.is_none() && config.cuda == CudaUse::Require => {
            refuse("cuda (required by CUDA=1)".to_owned())
        }
        DeviceChoice::Auto | DeviceChoice::Cpu => Ok(()),
    }
}

/// The precision asked for, by the options or else by the environment.
fn asked_precision(options: &RunOptions) -> Precision {
    match (options.precision, spark_hal::config().precision) {
        (Some(precision), _) | (None, PrecisionChoice::Fixed(precision)) => precision,
        (None, PrecisionChoice::Auto) => Precision::Fp32,
    }
}
