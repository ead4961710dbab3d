//! What the executor knows of a kernel, and what a kernel is given.
//!
//! ```text
//! Problem  --Kernel::can_implement, is_profitable, packing_bytes, prepare-->  PreparedStep   once, at load
//! Context  --PreparedStep::run-->  results in memory                                         every run
//! ```
//!
//! A kernel is a struct in the file of its code that implements both traits, and `select` lists it. Two
//! kernels can be run as one where the first is a [`FeatureMapSource`] and the second a [`FeatureMapReader`],
//! which says whether that is profitable, what it is called and what memory it takes.

use std::cell::Cell;
use std::ops::Range;

use spark_parallel::Pool;
use spark_quant::QuantError;

use super::matmul::format::MatmulFormat;
use super::memory::Memory;
pub(crate) use super::processor::Cpu;
use super::simd::Isa;
use super::weight_store::{Packed, PackedBytes, PackedKey, WeightStore};
use super::workspace::{Scratch, WorkspaceSize};
use crate::graph::OperatorError;
use crate::plan::{Plan, Step, View, Weights};
use crate::precision::Arithmetic;
use spark_gemm::{Panel, WeightMemory};

/// What is to be computed, and how exactly.
pub(crate) struct Problem<'a, S> {
    /// What it will be computed on.
    pub(crate) cpu: Cpu<'a>,
    /// The plan that the step belongs to, which says how its views are held.
    pub(crate) plan: &'a Plan,
    /// The step, with its weights.
    pub(crate) step: &'a S,
    /// The same step as a plan holds it.
    pub(crate) whole: &'a Step,
    /// How its weights are to be packed and its result rounded.
    pub(crate) format: MatmulFormat,
    /// How reduced precisions are computed.
    pub(crate) arithmetic: Arithmetic,
    /// Where packed weights are, and go.
    pub(crate) packing: &'a Packing<'a>,
}

/// Where a step's packed weights come from, and how much of them there was already.
pub(crate) struct Packing<'a> {
    store: &'a WeightStore,
    /// Bytes of all weights packed for the step.
    bytes: Cell<usize>,
    /// Bytes of those that another plan had packed before.
    reused_bytes: Cell<usize>,
}

impl<'a> Packing<'a> {
    /// For one step of a plan of the model whose packed weights are in `store`.
    pub(crate) fn into(store: &'a WeightStore) -> Self {
        Self {
            store,
            bytes: Cell::new(0),
            reused_bytes: Cell::new(0),
        }
    }

    /// Bytes of all weights that were packed or found.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.get()
    }

    /// Bytes of the weights that were found.
    pub(crate) fn reused_bytes(&self) -> usize {
        self.reused_bytes.get()
    }

    /// `columns` of every group of `weights` as `kernel` reads them in `format`: packed now, unless
    /// another plan of the model has done so.
    ///
    /// # Errors
    ///
    /// Those of `pack`.
    pub(crate) fn packed<T: PackedBytes>(
        &self,
        kernel: &'static str,
        weights: &Weights,
        (format, columns): (MatmulFormat, Range<usize>),
        pack: impl FnOnce(&WeightMemory) -> Result<T, QuantError>,
    ) -> Result<Packed<T>, QuantError> {
        let key = PackedKey {
            kernel,
            precision: format.precision,
            layout: format.layout,
            columns,
        };
        let (packed, is_reused) = self.store.packed(weights, key, pack)?;
        self.count(packed.packed_bytes(), is_reused);
        Ok(packed)
    }

    /// The transpose of the matrix `weights` as `kernel` reads it in `format`, if a plan of the model has packed it.
    pub(crate) fn packed_transpose<T: PackedBytes>(
        &self,
        kernel: &'static str,
        weights: &Weights,
        format: MatmulFormat,
    ) -> Option<Packed<T>> {
        let key = PackedKey {
            kernel,
            precision: format.precision,
            layout: format.layout,
            columns: 0..weights.in_per_group,
        };
        let packed: Packed<T> = self.store.packed_transpose(weights, &key)?;
        self.count(packed.packed_bytes(), true);
        Some(packed)
    }

    fn count(&self, bytes: usize, is_reused: bool) {
        self.bytes.set(self.bytes.get() + bytes);
        if is_reused {
            self.reused_bytes.set(self.reused_bytes.get() + bytes);
        }
    }
}

/// What a kernel runs with.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    /// The instruction set that the step was prepared for.
    pub(crate) isa: Isa,
    /// The pool that the step was prepared for.
    pub(crate) pool: &'a Pool,
    /// Where every buffer is and how it is held.
    pub(crate) memory: &'a Memory,
    /// At least what the step's [`WorkspaceSize`] asks for.
    pub(crate) scratch: &'a Scratch,
}

impl<'a> Context<'a> {
    /// What computes, for functions that need no memory.
    pub(crate) fn cpu(&self) -> Cpu<'a> {
        Cpu {
            isa: self.isa,
            pool: self.pool,
        }
    }
}

/// Why a step stopped while it ran: a value that is known only then.
#[derive(Debug)]
pub(crate) enum StepError {
    /// An index computed by the model is not in the axis it points into.
    IndexOutside { index: i64, extent: usize },
    /// An integer was divided by zero, by a node joined into the step where it is known.
    DividedByZero { node: Option<String>, op: String },
    /// An operand has elements that the operator does not take; why.
    Refused(String),
    /// An activation cannot be quantised.
    Quantise(QuantError),
    /// An embedder's own operator could not compute.
    Custom(OperatorError),
}

/// One step, ready to run: its views, and whatever was made of its weights.
pub(crate) trait PreparedStep: Send + Sync {
    /// Computes the step.
    ///
    /// # Errors
    ///
    /// [`StepError`], for values known only while running.
    fn run(&self, context: &Context<'_>) -> Result<(), StepError>;

    /// The label of the step behind which the run goes on, if that is not the next one; asked when it has run.
    fn goes_to(&self, _context: &Context<'_>) -> Option<usize> {
        None
    }

    /// Types of its operands in its kernel's name, such as `f32xbf16` for f32 activations and
    /// weights of bf16; `f32` too where a kernel serves f32 and integers alike.
    fn operands(&self) -> &'static str {
        "f32"
    }

    /// What tells its kernel from others of the same algorithm and types; mostly nothing.
    fn variant(&self) -> &'static str {
        ""
    }

    /// Bytes of the packed weights and biases that it holds.
    fn weight_bytes(&self) -> usize {
        0
    }

    /// Memory that it runs in beside its views; an executor takes as much when it is made.
    fn workspace_size(&self, _cpu: Cpu<'_>) -> WorkspaceSize {
        WorkspaceSize::default()
    }

    /// Whether results are rounded to bf16 while they are stored, if its format asks for it.
    fn rounds_results(&self) -> bool {
        false
    }

    /// The step as what computes any block of a feature map, if it can.
    fn feature_map_source(&self) -> Option<&dyn FeatureMapSource> {
        None
    }

    /// The step as what reads a feature map block by block, if it can.
    fn feature_map_reader(&self) -> Option<&dyn FeatureMapReader> {
        None
    }
}

/// A block of a feature map: the pixels `first..last` of one image, the channels of one panel.
#[derive(Clone, Copy)]
pub(crate) struct FeatureMapBlock {
    /// Which image of the batch.
    pub(crate) batch: usize,
    /// Which channels, as a panel of packed weights.
    pub(crate) panel: Panel,
    /// Pixels of one image of the feature map.
    pub(crate) image: usize,
    /// First pixel, counted row by row.
    pub(crate) first: usize,
    /// The pixel after the last.
    pub(crate) last: usize,
}

/// A kernel that computes any block of its result alone.
pub(crate) trait FeatureMapSource: Sync {
    /// Computes `block` and puts it at `to`, a pixel every `pixel_len` elements.
    ///
    /// # Safety
    ///
    /// The step must have one group and no residual, the pixels and channels exist, and `to` be
    /// writable for them.
    unsafe fn block(
        &self,
        context: &Context<'_>,
        block: FeatureMapBlock,
        to: *mut f32,
        pixel_len: usize,
    );
}

/// A kernel that can read its operand while another one computes it.
pub(crate) trait FeatureMapReader {
    /// The last part of the name of both kernels while they run as one.
    fn fused_algorithm(&self) -> &'static str;

    /// Whether both as one are faster than one after the other, by the shapes of the step and the number of
    /// threads.
    fn is_fusion_profitable(&self, cpu: Cpu<'_>) -> bool;

    /// Memory that both run in as one, in place of what each takes alone.
    fn fused_workspace_size(&self, cpu: Cpu<'_>) -> WorkspaceSize;

    /// Runs both steps; the feature map between them is not stored.
    fn run_fused(&self, source: &dyn FeatureMapSource, context: &Context<'_>);
}

/// What selection needs to know of a kernel for steps `S`.
pub(crate) trait Kernel<S>: PreparedStep + Sized + 'static {
    /// Whether it computes such a step at all.
    fn can_implement(_problem: &Problem<'_, S>) -> bool {
        true
    }

    /// Whether it is the way to compute it, by shapes alone.
    fn is_profitable(_problem: &Problem<'_, S>) -> bool {
        true
    }

    /// The views of the step that it takes as the plan's lowering held them; the others it takes as bf16 as well, if they
    /// are f32. All of them unless it says otherwise. Asked of the plan as lowering left it, and of the plan that will run.
    fn never_bf16<'p>(problem: &Problem<'p, S>) -> Vec<&'p View> {
        let read = problem.whole.views_read().into_iter();
        read.chain(problem.whole.views_written()).collect()
    }

    /// Bytes that [`Kernel::prepare`] takes at most while it packs the weights, the packed ones
    /// included. They are held against the budget, and asked of the system, before it is called.
    fn packing_bytes(_problem: &Problem<'_, S>) -> usize {
        0
    }

    /// Packs weights and orders loops.
    ///
    /// # Errors
    ///
    /// [`QuantError`] if weights cannot be quantised.
    fn prepare(problem: &Problem<'_, S>) -> Result<Self, QuantError>;
}
