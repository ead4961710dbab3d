//! GEMM over rows: by packed weights, and of two computed operands.
//!
//! Both are the micro-kernel of `spark-gemm`; a computed right operand is packed first, from
//! whatever strides it has, into scratch that was planned at load.

use std::ops::Range;

use spark_gemm::{
    FloatFormat, Gemm, PackedLayout, Panel, TileEpilogue, gemm_panel, gemm_panel_converting, pack,
    pack_panel_of_transpose, packed_len, panel_offset, panels, panels_of_part,
};
use spark_parallel::Pool;
use spark_quant::QuantError;

use super::format::MatmulFormat;
use crate::Precision;
use crate::cpu::math;
use crate::cpu::memory::AlignedF32;
use crate::cpu::prepared::{
    Context, Cpu, FeatureMapBlock, FeatureMapSource, Kernel, PreparedStep, Problem, StepError,
};
use crate::cpu::simd::Isa;
use crate::cpu::weight_store::Packed;
use crate::cpu::workspace::Scratch;
use crate::cpu::workspace::WorkspaceSize;
use crate::plan::LoweredStep;
use crate::plan::{LinearStep, MatMulStep, View, Weights};

/// Rows of one thread's share.
pub(crate) const ROWS_PER_TASK: usize = 96;
/// Shares of the columns, or of many rows or small GEMM, per thread, so that one slow thread
/// does not hold up the others.
pub(crate) const TASKS_PER_THREAD: usize = 4;

/// A GEMM that several threads read.
pub(crate) struct Shared<'a>(pub(crate) &'a Gemm);

// SAFETY: tasks write disjoint rows or columns, or to memory of their own.
unsafe impl Sync for Shared<'_> {}

/// Runs `product` over all panels of packed `w`, split between threads by rows, or by
/// columns where rows are few.
///
/// # Safety
///
/// The pointers of `product` must be valid for its shape and `w` packed for it.
pub(crate) unsafe fn run_gemm(cpu: Cpu<'_>, product: &Gemm, w: &[f32]) {
    // SAFETY: forwarded.
    unsafe { run_gemm_converting(cpu, product, w, None) }
}

/// The same; f16 weights are converted once for all tiles where threads have a `workspace` for a panel.
///
/// # Safety
///
/// As [`run_gemm`]; `workspace` must have [`converted_len`] elements per thread.
unsafe fn run_gemm_converting(
    Cpu { isa, pool }: Cpu<'_>,
    product: &Gemm,
    w: &[f32],
    workspace: Option<&Scratch>,
) {
    // As many rows for every thread, or one of them waits.
    let by_rows = product.m.div_ceil(ROWS_PER_TASK);
    let by_rows = match by_rows < pool.threads() || by_rows >= TASKS_PER_THREAD * pool.threads() {
        true => by_rows,
        false => by_rows.next_multiple_of(pool.threads()),
    };
    let n_panels = panels(isa, product.n).count();
    let split_columns = by_rows < pool.threads() && n_panels > 1;
    let rows = if split_columns { 1 } else { by_rows };
    let columns = match split_columns {
        true => n_panels.min(TASKS_PER_THREAD * pool.threads()),
        false => 1,
    };
    let shared = &Shared(product);
    pool.run_in_slots(rows * columns, |slot, task| {
        let product = shared.0;
        let converted = workspace.map_or(std::ptr::null_mut(), |workspace| workspace.part(slot));
        let (row, column) = (task / columns, task % columns);
        let range = (product.m * row / rows, product.m * (row + 1) / rows);
        for panel in panels_of_part(isa, product.n, (column, columns)) {
            // SAFETY: the caller vouches for the pointers; tasks have disjoint rows or panels, and
            // slots a workspace of their own.
            unsafe {
                gemm_panel_converting(isa, product, w.as_ptr(), panel, range, converted);
            }
        }
    });
}

/// Runs `product` over all panels of a matrix whose transpose is `packed`: each panel is put together by the thread that
/// multiplies by it, in its `workspace`.
///
/// # Safety
///
/// The pointers of `product` must be valid for its shape; `workspace` must have [`converted_len`] elements per thread.
unsafe fn run_gemm_by_transpose(
    Cpu { isa, pool }: Cpu<'_>,
    product: &Gemm,
    packed: &[f32],
    workspace: &Scratch,
) {
    let shape = (product.k, product.n);
    let n_panels = panels(isa, product.n).count();
    let tasks = n_panels.min(TASKS_PER_THREAD * pool.threads());
    let shared = &Shared(product);
    pool.run_in_slots(tasks, |slot, task| {
        let product = shared.0;
        for panel in panels_of_part(isa, product.n, (task, tasks)) {
            let len = product.k * panel.vectors * isa.lanes();
            // SAFETY: the slot's part of the workspace is this task's, and holds the widest panel.
            let to = unsafe { std::slice::from_raw_parts_mut(workspace.part(slot), len) };
            let columns = pack_panel_of_transpose(isa, packed, shape, panel, to).as_ptr();
            let first = columns.wrapping_sub(panel_offset(panel, product.k));
            // SAFETY: the caller vouches for the pointers; tasks have disjoint panels, and of the packed matrix only this
            // panel is read.
            unsafe { gemm_panel(isa, product, first, panel, (0, product.m)) };
        }
    });
}

/// Elements of the widest panel of `n` columns, `k` deep, as f32.
fn converted_len(isa: Isa, k: usize, n: usize) -> usize {
    let vectors = panels(isa, n).map(|panel| panel.vectors).max();
    k * vectors.unwrap_or(0) * isa.lanes()
}

/// A weight matrix packed for one instruction set.
pub(crate) struct PackedWeights {
    pub(crate) data: Packed<AlignedF32>,
    pub(crate) layout: PackedLayout,
    pub(crate) k: usize,
    pub(crate) n: usize,
}

impl PackedWeights {
    /// Packs columns `range` of a one-tap, one-group matrix, unless another plan has done so.
    ///
    /// # Errors
    ///
    /// None of its own.
    pub(crate) fn columns<S>(
        problem: &Problem<'_, S>,
        weights: &Weights,
        range: Range<usize>,
        format: MatmulFormat,
    ) -> Result<Self, QuantError> {
        let n = range.len();
        let form = (format, range.clone());
        let data = problem.packing.packed("gemm", weights, form, |memory| {
            Ok(format.pack(problem.cpu, weights, range, memory))
        })?;
        Ok(Self {
            n,
            data,
            layout: format.layout,
            k: weights.in_per_group,
        })
    }

    /// A one-tap, one-group matrix whose transpose is packed by now, as that; nothing if it is not.
    fn transpose<S>(
        problem: &Problem<'_, S>,
        weights: &Weights,
        format: MatmulFormat,
    ) -> Option<Self> {
        Some(Self {
            data: problem.packing.packed_transpose("gemm", weights, format)?,
            layout: format.layout,
            k: weights.in_per_group,
            n: weights.out_per_group,
        })
    }

    /// Packs all columns of a one-tap, one-group matrix, unless another plan has done so.
    ///
    /// # Errors
    ///
    /// None of its own.
    pub(crate) fn new<S>(
        problem: &Problem<'_, S>,
        weights: &Weights,
        format: MatmulFormat,
    ) -> Result<Self, QuantError> {
        Self::columns(problem, weights, 0..weights.out_per_group, format)
    }
}

/// Rows up to which a product reads weights that are packed for the product with their transpose: to put a panel together
/// costs as much as a few rows, and weights are much of what products of few rows keep in memory.
const MOST_ROWS_BY_TRANSPOSE: usize = ROWS_PER_TASK;

/// A linear step with its weights packed.
struct PreparedLinear {
    format: MatmulFormat,
    weights: PackedWeights,
    /// Whether they are packed as their transpose.
    is_transpose: bool,
    bias: Option<AlignedF32>,
}

impl PreparedLinear {
    /// Packs the weights of `step`.
    fn new(problem: &Problem<'_, LinearStep>) -> Result<Self, QuantError> {
        let (cpu, step, format) = (problem.cpu, problem.step, problem.format);
        let bias = step.epilogue.bias.as_ref();
        let whole = step.weights.out_per_group.next_multiple_of(cpu.isa.lanes());
        let bias = bias.map(|bias| AlignedF32::padded(bias, whole));
        let few = step.y.axes[0].extent <= MOST_ROWS_BY_TRANSPOSE;
        let reads_f32 = few && format.layout == PackedLayout::F32;
        let transpose = reads_f32
            .then(|| PackedWeights::transpose(problem, &step.weights, format))
            .flatten();
        let is_transpose = transpose.is_some();
        let weights = match transpose {
            Some(transpose) => transpose,
            None => PackedWeights::new(problem, &step.weights, format)?,
        };
        Ok(Self {
            format,
            weights,
            is_transpose,
            bias,
        })
    }

    /// Bytes of packed weights.
    fn weight_bytes(&self) -> usize {
        4 * (self.weights.data.len() + self.bias.as_ref().map_or(0, AlignedF32::len))
    }

    /// f32 elements of scratch a thread needs: a panel, where weights packed in f16 serve several tiles, and where they are
    /// packed as their transpose.
    fn scratch_len(&self, isa: Isa, step: &LinearStep) -> usize {
        let is_f16 = self.weights.layout == PackedLayout::F16;
        match self.is_transpose || is_f16 && step.y.axes[0].extent > 1 {
            true => converted_len(isa, self.weights.k, self.weights.n),
            false => 0,
        }
    }

    /// Runs the step; every thread takes [`PreparedLinear::scratch_len`] elements of the scratch.
    fn run(&self, step: &LinearStep, c: &Context<'_>) {
        let product = self.gemm(step, c);
        if self.is_transpose {
            // SAFETY: as below; the scratch is as long as asked for.
            return unsafe { run_gemm_by_transpose(c.cpu(), &product, self.packed(), c.scratch) };
        }
        let workspace = (self.scratch_len(c.isa, step) > 0).then_some(c.scratch);
        // SAFETY: views were checked at load, and innermost strides are 1 by the step's contract.
        unsafe { run_gemm_converting(c.cpu(), &product, self.packed(), workspace) };
    }

    /// The packed weights.
    fn packed(&self) -> &[f32] {
        self.weights.data.as_slice()
    }

    /// What [`PreparedLinear::run`] computes.
    fn gemm(&self, step: &LinearStep, &Context { isa, memory, .. }: &Context<'_>) -> Gemm {
        let residual = step.epilogue.residual.as_ref();
        Gemm {
            x: memory.floats(&step.x),
            x_format: memory.float_format(&step.x),
            x_stride: step.x.axes[0].stride,
            y: memory.floats(&step.y),
            y_stride: step.y.axes[0].stride,
            residual: residual.map_or(std::ptr::null(), |r| memory.floats(r).cast_const()),
            residual_stride: residual.map_or(0, |r| r.axes[0].stride),
            m: step.y.axes[0].extent,
            k: self.weights.k,
            n: self.weights.n,
            layout: self.weights.layout,
            epilogue: TileEpilogue {
                bias: self
                    .bias
                    .as_ref()
                    .map_or(std::ptr::null(), |b| b.as_slice().as_ptr()),
                activation: math::activation(step.epilogue.activation),
                residual_first: step.epilogue.residual_first,
                rounds_to_bf16: self.format.rounds_result,
                y_format: memory.float_format(&step.y),
                residual_format: residual.map_or(FloatFormat::F32, |r| memory.float_format(r)),
                isa,
            },
        }
    }
}

/// f32 elements of scratch one task of `step` needs.
fn scratch_len(isa: Isa, step: &MatMulStep) -> usize {
    let rank = step.b.rank();
    packed_len(
        isa,
        step.b.axes[rank - 2].extent,
        step.b.axes[rank - 1].extent,
    )
}

/// Runs a GEMM of two computed operands for every batch; `rounded` if its result is to be bf16.
fn run(step: &MatMulStep, rounded: bool, c: &Context<'_>) {
    let Context {
        isa,
        memory,
        scratch,
        ..
    } = *c;
    let rank = step.y.rank();
    let (m, n) = (step.y.axes[rank - 2].extent, step.y.axes[rank - 1].extent);
    let k = step.a.axes[rank - 1].extent;
    let batches: usize = step.y.axes[..rank - 2].iter().map(|a| a.extent).product();
    let packed_len = scratch_len(isa, step);
    let one = |batch: usize, slot: usize, pool: Option<&Pool>| {
        let (before, strides) = (step.b.batch_offset(batch), step.b.matrix_strides());
        let pack_panel = |panel: Panel| {
            let columns = (n - panel.column).min(panel.vectors * isa.lanes());
            let skipped = before + panel.column as isize * strides.1;
            let first = memory.f32(&step.b).wrapping_offset(skipped);
            let start = scratch.part(slot).wrapping_add(panel_offset(panel, k));
            // SAFETY: panels lie apart in the slot's memory, which is as long as planned; `b` was checked at load.
            unsafe {
                let to = std::slice::from_raw_parts_mut(start, k * panel.vectors * isa.lanes());
                pack(isa, first, strides, (k, columns), to);
                if step.scale != 1.0 {
                    to.iter_mut().for_each(|v| *v *= step.scale);
                }
            }
        };
        match pool {
            Some(pool) => {
                let count = panels(isa, n).count();
                pool.run(count, |task| {
                    panels_of_part(isa, n, (task, count)).for_each(pack_panel);
                });
            }
            None => panels(isa, n).for_each(pack_panel),
        }
        // SAFETY: slots are distinct per task and as long as planned; `b` was checked at load.
        unsafe {
            let packed = std::slice::from_raw_parts(scratch.part(slot), packed_len);
            let product = Gemm {
                x: memory
                    .f32(&step.a)
                    .wrapping_offset(step.a.batch_offset(batch)),
                x_format: FloatFormat::F32,
                x_stride: step.a.axes[rank - 2].stride,
                y: memory
                    .f32(&step.y)
                    .wrapping_offset(step.y.batch_offset(batch)),
                y_stride: step.y.axes[rank - 2].stride,
                residual: std::ptr::null(),
                residual_stride: 0,
                m,
                k,
                n,
                layout: PackedLayout::F32,
                epilogue: TileEpilogue {
                    rounds_to_bf16: rounded,
                    ..TileEpilogue::none(isa)
                },
            };
            match pool {
                Some(pool) => run_gemm(Cpu { isa, pool }, &product, packed),
                None => {
                    for panel in panels(isa, n) {
                        gemm_panel(isa, &product, packed.as_ptr(), panel, (0, m));
                    }
                }
            }
        }
    };
    if batches < c.pool.threads() {
        (0..batches).for_each(|batch| one(batch, 0, Some(c.pool)));
        return;
    }
    let tasks = batches.min(TASKS_PER_THREAD * c.pool.threads());
    c.pool.run_in_slots(tasks, |slot, task| {
        for batch in batches * task / tasks..batches * (task + 1) / tasks {
            one(batch, slot, None);
        }
    });
}

/// The kernel of a GEMM whose right operand is weights, packed at load.
pub(crate) struct Linear {
    /// Without its weights.
    step: LinearStep,
    prepared: PreparedLinear,
}

impl Kernel<LinearStep> for Linear {
    fn packing_bytes(problem: &Problem<'_, LinearStep>) -> usize {
        let weights = &problem.step.weights;
        problem.format.packing_bytes(problem.cpu, weights)
    }

    fn never_bf16<'p>(problem: &Problem<'p, LinearStep>) -> Vec<&'p View> {
        unless_in_pairs(problem.format.layout, &problem.step.x)
    }

    fn prepare(problem: &Problem<'_, LinearStep>) -> Result<Self, QuantError> {
        let prepared = PreparedLinear::new(problem)?;
        let mut step = problem.step.clone();
        step.forget_weights();
        Ok(Self { step, prepared })
    }
}

impl PreparedStep for Linear {
    fn run(&self, c: &Context<'_>) -> Result<(), StepError> {
        self.prepared.run(&self.step, c);
        Ok(())
    }

    fn operands(&self) -> &'static str {
        self.prepared.format.operands()
    }

    fn variant(&self) -> &'static str {
        match self.prepared.is_transpose {
            true => "by-transpose",
            false => self.prepared.format.variant(),
        }
    }

    fn weight_bytes(&self) -> usize {
        self.prepared.weight_bytes()
    }

    fn workspace_size(&self, cpu: Cpu<'_>) -> WorkspaceSize {
        WorkspaceSize::scratch(self.prepared.scratch_len(cpu.isa, &self.step))
    }

    fn rounds_results(&self) -> bool {
        true
    }

    fn feature_map_source(&self) -> Option<&dyn FeatureMapSource> {
        // A block would have its panel put together anew.
        (!self.prepared.is_transpose).then_some(self)
    }
}

impl FeatureMapSource for Linear {
    unsafe fn block(
        &self,
        c: &Context<'_>,
        block: FeatureMapBlock,
        to: *mut f32,
        pixel_len: usize,
    ) {
        let product = self.prepared.gemm(&self.step, c);
        let skipped = (block.batch * block.image + block.first) as isize;
        let rows = Gemm {
            x: product
                .x_format
                .offset(product.x, skipped * product.x_stride),
            y: to.wrapping_sub(block.panel.column),
            y_stride: pixel_len as isize,
            m: block.last - block.first,
            epilogue: TileEpilogue {
                y_format: FloatFormat::F32,
                ..product.epilogue
            },
            ..product
        };
        let packed = self.prepared.packed().as_ptr();
        // SAFETY: the rows exist in the operand, and at `to` guaranteed by the caller.
        unsafe { gemm_panel(c.isa, &rows, packed, block.panel, (0, rows.m)) };
    }
}

/// The kernel of a GEMM whose operands are both computed; the right one is packed at every run.
pub(crate) struct MatMul {
    step: MatMulStep,
    format: MatmulFormat,
}

impl Kernel<MatMulStep> for MatMul {
    fn prepare(problem: &Problem<'_, MatMulStep>) -> Result<Self, QuantError> {
        Ok(Self {
            step: problem.step.clone(),
            format: problem.format,
        })
    }
}

impl PreparedStep for MatMul {
    fn run(&self, c: &Context<'_>) -> Result<(), StepError> {
        run(&self.step, self.format.rounds_result, c);
        Ok(())
    }

    fn operands(&self) -> &'static str {
        operands_of_computed(self.format)
    }

    fn workspace_size(&self, cpu: Cpu<'_>) -> WorkspaceSize {
        WorkspaceSize::scratch(scratch_len(cpu.isa, &self.step))
    }

    fn rounds_results(&self) -> bool {
        true
    }
}

/// The left operand of a product with weights in `layout`, unless its kernel takes bf16 in pairs.
pub(crate) fn unless_in_pairs(layout: PackedLayout, x: &View) -> Vec<&View> {
    match layout {
        PackedLayout::Bf16Dot => Vec::new(),
        _ => vec![x],
    }
}

/// Types of two computed operands, for the name of what multiplies them.
pub(crate) fn operands_of_computed(format: MatmulFormat) -> &'static str {
    match format.precision {
        Precision::Bf16 => "bf16",
        _ => "f32",
    }
}
