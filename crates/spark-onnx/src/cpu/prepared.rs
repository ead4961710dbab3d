//! What the executor knows of a kernel, and what a kernel is given.
//!
//! ```text
//! Problem  --Kernel::can_implement, is_profitable, prepare-->  PreparedStep      once, at load
//! Context  --PreparedStep::run-->  results in memory                             every run
//! ```
//!
//! A kernel is a struct in the file of its code that implements both traits; `select` lists it, and
//! nothing else names it.

use spark_parallel::Pool;
use spark_quant::QuantError;

use super::matmul::format::MatmulFormat;
use super::memory::Memory;
use super::simd::Isa;
use super::workspace::{Scratch, WorkspaceSize};
use crate::plan::{Plan, Step};
use crate::precision::Arithmetic;
use spark_gemm::Panel;

/// What computes: an instruction set and threads.
#[derive(Clone, Copy)]
pub(crate) struct Cpu<'a> {
    pub(crate) isa: Isa,
    pub(crate) pool: &'a Pool,
}

/// What is to be computed, and how exactly.
pub(crate) struct Problem<'a, S> {
    pub(crate) cpu: Cpu<'a>,
    pub(crate) plan: &'a Plan,
    /// With its weights.
    pub(crate) step: &'a S,
    /// The same step as a plan holds it.
    pub(crate) whole: &'a Step,
    pub(crate) format: MatmulFormat,
    pub(crate) arithmetic: Arithmetic,
}

/// What a kernel runs with.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) isa: Isa,
    pub(crate) pool: &'a Pool,
    pub(crate) memory: &'a Memory,
    /// How the buffers are held.
    pub(crate) plan: &'a Plan,
    /// Per thread, at least what the step's [`WorkspaceSize`] asks for.
    pub(crate) scratch: &'a Scratch,
    /// Shared by all threads, at least what the step's [`WorkspaceSize`] asks for.
    pub(crate) activations: *mut f32,
}

/// Why a step stopped.
#[derive(Debug)]
pub(crate) enum StepError {
    /// An index computed by the model is not in the axis it points into.
    IndexOutside { index: i64, extent: usize },
    /// An integer was divided by zero, by a node joined into the step where it is known.
    DividedByZero { node: Option<String>, op: String },
    /// An activation cannot be quantised.
    Quantise(QuantError),
}

/// One step, ready to run: its views, and whatever was made of its weights.
pub(crate) trait PreparedStep: Send + Sync {
    /// Computes the step.
    ///
    /// # Errors
    ///
    /// [`StepError`], for values known only while running.
    fn run(&self, context: &Context<'_>) -> Result<(), StepError>;

    /// Types of its operands in its kernel's name, such as `f32xbf16` for f32 activations and
    /// weights of bf16; `f32` too where a kernel serves f32 and integers alike.
    fn operands(&self) -> &'static str {
        "f32"
    }

    /// What tells its kernel from others of the same algorithm and types; mostly nothing.
    fn variant(&self) -> &'static str {
        ""
    }

    /// Bytes of packed weights.
    fn weight_bytes(&self) -> usize {
        0
    }

    /// Memory it runs in.
    fn workspace_size(&self, _cpu: Cpu<'_>) -> WorkspaceSize {
        WorkspaceSize::default()
    }

    /// Whether results are rounded to bf16 while they are stored, if its format asks for it.
    fn rounds_results(&self) -> bool {
        false
    }

    /// The step as what computes any block of a feature map, if it can.
    fn map_source(&self) -> Option<&dyn MapSource> {
        None
    }

    /// The step as what reads a feature map block by block, if it can.
    fn map_reader(&self) -> Option<&dyn MapReader> {
        None
    }
}

/// A block of a feature map: the pixels `first..last` of one image, the channels of one panel.
#[derive(Clone, Copy)]
pub(crate) struct MapBlock {
    pub(crate) batch: usize,
    pub(crate) panel: Panel,
    /// Pixels of one image of the map.
    pub(crate) image: usize,
    pub(crate) first: usize,
    pub(crate) last: usize,
}

/// A kernel that computes any block of its result alone.
pub(crate) trait MapSource: Sync {
    /// Computes `block` and puts it at `to`, a pixel every `pixel_len` elements.
    ///
    /// # Safety
    ///
    /// The step must have one group and no residual, the pixels and channels exist, and `to` be
    /// writable for them.
    unsafe fn block(&self, context: &Context<'_>, block: MapBlock, to: *mut f32, pixel_len: usize);
}

/// A kernel that can read its operand while another one computes it.
pub(crate) trait MapReader {
    /// Runs both steps; the map between them is not stored.
    fn run_fused(&self, source: &dyn MapSource, context: &Context<'_>);
}

/// What selection asks of a kernel for steps `S`.
pub(crate) trait Kernel<S>: PreparedStep + Sized + 'static {
    /// Whether it computes such a step at all.
    fn can_implement(_problem: &Problem<'_, S>) -> bool {
        true
    }

    /// Whether it is the way to compute it, by shapes alone.
    fn is_profitable(_problem: &Problem<'_, S>) -> bool {
        true
    }

    /// Packs weights and orders loops.
    ///
    /// # Errors
    ///
    /// [`QuantError`] if weights cannot be quantised.
    fn prepare(problem: &Problem<'_, S>) -> Result<Self, QuantError>;
}
