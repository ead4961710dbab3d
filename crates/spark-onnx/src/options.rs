//! How a model is to be run, and what the environment and the machine say where nobody did.
//!
//! What was asked for is what runs: a precision or device that cannot be had is an
//! error that says what can, never something else under its name.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::Arc;

use spark_hal::config::{CudaUse, DeviceChoice, PrecisionChoice};

use crate::budget;
use crate::calibration::Calibration;
use crate::cpu::{Isa, Pool};
use crate::file::{OperatorRegistry, ReadOptions};
use crate::graph::{Graph, Node, Op};
use crate::precision::{Activations, Arithmetic, Bf16Products, Fp16Products};
use crate::{ModelError, Precision};

/// Plans that are kept where nobody says how many.
const MAX_PLANS: usize = 8;

/// Threads that several models run on, one after the other. A model that finds them busy works on the
/// thread that calls it.
///
/// # Examples
///
/// ```
/// use spark_onnx::{RunOptions, SharedPool};
///
/// let pool = SharedPool::new(2);
/// let vision = RunOptions::new().with_pool(pool.clone());
/// let policy = RunOptions::new().with_pool(pool);
/// assert_eq!(vision, policy);
/// ```
#[derive(Clone)]
pub struct SharedPool(Arc<Pool>);

impl SharedPool {
    /// A pool of so many threads, the caller's among them; 0 is taken as 1.
    pub fn new(threads: usize) -> Self {
        Self(Arc::new(Pool::new(threads.max(1))))
    }

    /// Threads that take part.
    pub fn threads(&self) -> usize {
        self.0.threads()
    }
}

impl PartialEq for SharedPool {
    /// Whether both are the same threads.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for SharedPool {}

impl fmt::Debug for SharedPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedPool({} threads)", self.threads())
    }
}

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
    /// is fp32, as models run on the CPU. int8 takes a [`RunOptions::calibration`] that has chosen it, or a network
    /// that is quantised in its file.
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
    /// Weights and scales of single steps, chosen on real inputs; they decide the format of those steps, and
    /// must fit the network.
    pub calibration: Option<Arc<Calibration>>,
    /// Bytes that all plans and sessions of a model may take together; `None` takes the smaller of half the
    /// memory this process can still get, control groups included, and 64 times the bytes of the
    /// file (of the constants, for a graph without a file) plus 1 GiB.
    pub memory_budget: Option<usize>,
    /// Plans that a model keeps, and a session: one for every set of input shapes, and of elements where an
    /// input decides shapes. One more takes the place of the one that was used least recently; 0 is taken as 1. Behind lengths that
    /// values say, each stage that is planned keeps as many.
    pub max_plans: usize,
    /// Threads that several models share; `None` makes a pool of [`RunOptions::threads`] for the model.
    pub pool: Option<SharedPool>,
    /// Operators of an embedder's own that files may hold, which are read with these options.
    pub operators: OperatorRegistry,
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
            calibration: None,
            memory_budget: None,
            max_plans: MAX_PLANS,
            pool: None,
            operators: OperatorRegistry::new(),
        }
    }

    /// Keeps plans for so many sets of input shapes, and of elements that decide shapes.
    #[must_use]
    pub fn with_max_plans(mut self, plans: usize) -> Self {
        self.max_plans = plans;
        self
    }

    /// Runs on the threads of `pool`, whatever [`RunOptions::threads`] says.
    #[must_use]
    pub fn with_pool(mut self, pool: SharedPool) -> Self {
        self.pool = Some(pool);
        self
    }

    /// Reads files that hold these operators too. A graph that is there already has its own.
    #[must_use]
    pub fn with_operators(mut self, operators: OperatorRegistry) -> Self {
        self.operators = operators;
        self
    }

    /// With at most so many bytes for folded constants, packed weights, intermediate results,
    /// scratch and outputs of all plans and sessions together; a model that takes more is refused.
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

    /// Computes single steps with the weights and input scales that were chosen for them, on exact inputs where they were
    /// chosen for those; all others have [`RunOptions::by_step`] and [`RunOptions::precision`]. Products in int8 are
    /// products of integers, whatever the precision of the others, with the bits of the file that
    /// [`quantise`](crate::calibration::quantise) gives. A network
    /// that has other weights in one of these layers refuses it when it is made (int8) or planned.
    #[must_use]
    pub fn with_calibration(mut self, calibration: impl Into<Arc<Calibration>>) -> Self {
        self.calibration = Some(calibration.into());
        self
    }
}

impl RunOptions {
    /// How files are read: with the operators that are an embedder's own.
    #[must_use]
    pub fn read_options(&self) -> ReadOptions {
        ReadOptions::new().with_operators(self.operators.clone())
    }

    /// Bytes that `graph` may take.
    pub(crate) fn budget_bytes(&self, graph: &Graph) -> usize {
        self.memory_budget
            .unwrap_or_else(|| budget::default_bytes(graph.source_bytes()))
    }

    /// Instruction set and threads after every default is filled in.
    pub(crate) fn isa_and_pool(&self) -> (Isa, Arc<Pool>) {
        let pool = match (&self.pool, self.threads) {
            (Some(SharedPool(pool)), _) => Arc::clone(pool),
            (None, Some(threads)) => Arc::new(Pool::new(threads.max(1))),
            (None, None) => Arc::new(Pool::new(spark_hal::machine().cpu.plan().n_threads)),
        };
        (self.isa.unwrap_or_else(Isa::detect), pool)
    }

    /// The precision asked for, by the options or else by the environment.
    pub(crate) fn asked_precision(&self) -> Precision {
        match (self.precision, spark_hal::config().precision) {
            (Some(precision), _) | (None, PrecisionChoice::Fixed(precision)) => precision,
            (None, PrecisionChoice::Auto) => Precision::Fp32,
        }
    }

    /// Refuses int8 where nothing has chosen scales for it: `graph`, whose products are joined, has none of integers.
    pub(crate) fn check_integers(&self, graph: &Graph) -> Result<(), ModelError> {
        let mut by_step = self.by_step.iter();
        if let Some((name, _)) = by_step.find(|(_, p)| p.needs_calibration()) {
            return Err(ModelError::Calibration {
                step: name.clone(),
                reason: "int8 is chosen by a calibration, not for single steps".to_owned(),
            });
        }
        let precision = self.asked_precision();
        if !precision.needs_calibration() || has_integers(graph) {
            return Ok(());
        }
        Err(ModelError::Uncalibrated {
            precision,
            why: match self.calibration {
                None if dequantises(graph) => {
                    "there is none, and what the file quantises is no product of integers"
                }
                None => "there is none, nor does the file quantise its products",
                Some(_) => "the one given is for other formats",
            },
        })
    }

    /// For what runs on the CPU alone; a GPU asked for by name is refused.
    pub(crate) fn cpu_or_refuse(&self) -> Result<(), ModelError> {
        let refuse = |device: String| {
            Err(ModelError::DeviceUnavailable {
                device,
                reason: "this runs on the CPU alone; on a GPU `spark_onnx::cuda::CudaSession` runs models",
            })
        };
        let config = spark_hal::config();
        match self.device.unwrap_or(config.device) {
            DeviceChoice::Cuda(None) => refuse("cuda".to_owned()),
            DeviceChoice::Cuda(Some(n)) => refuse(format!("cuda:{n}")),
            DeviceChoice::Auto if self.device.is_none() && config.cuda == CudaUse::Require => {
                refuse("cuda (required by CUDA=1)".to_owned())
            }
            DeviceChoice::Auto | DeviceChoice::Cpu => Ok(()),
        }
    }
}

/// Whether `graph` makes floats of integers, as files do that are quantised; bodies are not looked into.
fn dequantises(graph: &Graph) -> bool {
    let mut nodes = graph.nodes.iter();
    nodes.any(|node| matches!(node.op, Op::DequantizeLinear(_)))
}

/// Whether a product of `graph`, or of a body in it, is of integers.
pub(crate) fn has_integers(graph: &Graph) -> bool {
    let is_of_integers = |node: &Node| {
        matches!(
            node.op,
            Op::QLinearConv(_) | Op::QLinearMatMul(_) | Op::ConvInteger(_) | Op::MatMulInteger(_)
        )
    };
    // Each body once: several nodes may share one, at every depth.
    let (mut seen, mut left) = (HashSet::new(), vec![graph]);
    while let Some(graph) = left.pop() {
        if graph.nodes.iter().any(is_of_integers) {
            return true;
        }
        let bodies = graph.bodies.iter().map(Arc::as_ref);
        left.extend(bodies.filter(|body| seen.insert(std::ptr::from_ref(*body))));
    }
    false
}

impl Default for RunOptions {
    fn default() -> Self {
        Self::new()
    }
}
