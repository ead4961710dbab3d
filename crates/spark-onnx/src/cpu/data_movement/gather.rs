//! Indexing with values known only while running: gathers and scatters.
//!
//! Every index is checked before it is used; one out of range stops the run with
//! [`StepError::IndexOutside`], and nothing outside a buffer is touched.

use spark_quant::QuantError;

use crate::cpu::memory::Memory;
use crate::cpu::prepared::{Context, Kernel, PreparedStep, Problem, StepError};
use crate::cpu::reduction::reduce::Walk;
use crate::graph::ScatterReduction;
use crate::plan::{
    GatherElementsStep, GatherNdStep, GatherStep, ScatterElementsStep, ScatterNdStep, Storage, View,
};

/// A possibly negative index as a position.
fn position(index: i64, extent: usize) -> Result<isize, StepError> {
    let at = if index < 0 {
        index + extent as i64
    } else {
        index
    };
    if (0..extent as i64).contains(&at) {
        return Ok(at as isize);
    }
    Err(StepError::IndexOutside { index, extent })
}

/// Copies one element of either storage.
///
/// # Safety
///
/// Both offsets must be inside their views.
unsafe fn copy_one(
    memory: &Memory,
    wide: bool,
    (x, from): (&View, isize),
    (y, to): (&View, isize),
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        if wide {
            *memory.i64(y).offset(to) = *memory.i64(x).offset(from);
        } else {
            *memory.f32(y).offset(to) = *memory.f32(x).offset(from);
        }
    }
}

/// Runs a gather along one axis of `[outer, extent, inner]`.
fn run(step: &GatherStep, memory: &Memory) -> Result<(), StepError> {
    let wide = memory.storage(&step.x) == Storage::I64;
    let [outer, count, inner] = [0, 1, 2].map(|a| step.y.axes[a].extent);
    let [xo, xc, xi] = [0, 1, 2].map(|a| step.x.axes[a].stride);
    let [yo, yc, yi] = [0, 1, 2].map(|a| step.y.axes[a].stride);
    let extent = step.x.axes[1].extent;
    for i in 0..count as isize {
        // SAFETY: the view was checked at load.
        let index = unsafe {
            *memory
                .i64(&step.index)
                .offset(i * step.index.axes[0].stride)
        };
        let at = position(index, extent)?;
        for o in 0..outer as isize {
            for j in 0..inner as isize {
                let from = o * xo + at * xc + j * xi;
                let to = o * yo + i * yc + j * yi;
                // SAFETY: `at` is in range, the rest by the views' extents.
                unsafe { copy_one(memory, wide, (&step.x, from), (&step.y, to)) };
            }
        }
    }
    Ok(())
}

/// Runs an element-wise gather.
fn run_elements(step: &GatherElementsStep, memory: &Memory) -> Result<(), StepError> {
    let wide = memory.storage(&step.x) == Storage::I64;
    let rank = step.y.rank();
    let walk = Walk::new(&step.y, &step.index, 0..rank);
    // Positions in `x`: the index's own, but along `axis`.
    let along_x = Walk::new(&step.y, &step.x, (0..rank).filter(|&a| a != step.axis));
    let others = Walk::new(&step.y, &step.index, (0..rank).filter(|&a| a != step.axis));
    let axis = step.axis;
    let line = step.y.axes[axis].extent;
    debug_assert_eq!(walk.len(), others.len() * line);
    for l in 0..others.len() {
        let (y0, index0) = others.offsets(l);
        let (_, x0) = along_x.offsets(l);
        for i in 0..line as isize {
            let from = index0 + i * step.index.axes[axis].stride;
            // SAFETY: the view was checked at load.
            let index = unsafe { *memory.i64(&step.index).offset(from) };
            let at = position(index, step.x.axes[axis].extent)?;
            let x = x0 + at * step.x.axes[axis].stride;
            let y = y0 + i * step.y.axes[axis].stride;
            // SAFETY: `at` is in range, the rest by the views' extents.
            unsafe { copy_one(memory, wide, (&step.x, x), (&step.y, y)) };
        }
    }
    Ok(())
}

/// Offset into `target` of the index tuple at `base` of `index`, whose first entry is for `axis`.
fn tuple_offset(
    memory: &Memory,
    index: &View,
    base: isize,
    target: &View,
    axis: usize,
) -> Result<isize, StepError> {
    let Some(last) = index.axes.last() else {
        return Ok(0);
    };
    let mut offset = 0;
    for k in 0..last.extent {
        // SAFETY: the view was checked at load.
        let i = unsafe { *memory.i64(index).offset(base + k as isize * last.stride) };
        let a = target.axes[axis + k];
        offset += position(i, a.extent)? * a.stride;
    }
    Ok(offset)
}

/// Runs a gather by index tuples.
fn run_nd(step: &GatherNdStep, memory: &Memory) -> Result<(), StepError> {
    let wide = memory.storage(&step.x) == Storage::I64;
    let tuples = step.index.rank() - 1;
    let depth = step.index.axes[tuples].extent;
    let batch = step.batch_dims;
    // Axes of `x` that remain become the last axes of `y`.
    let blocks = Walk::tails(&step.x, batch + depth, &step.y, tuples);
    let over = Walk::new(&step.index, &step.y, 0..tuples);
    let batches = Walk::new(&step.index, &step.x, 0..batch);
    let per_batch = over.len() / batches.len().max(1);
    for t in 0..over.len() {
        let (index, y) = over.offsets(t);
        let (_, x) = batches.offsets(t / per_batch.max(1));
        let x = x + tuple_offset(memory, &step.index, index, &step.x, batch)?;
        for b in 0..blocks.len() {
            let (xb, yb) = blocks.offsets(b);
            // SAFETY: the tuple is in range, the rest by the views' extents.
            unsafe { copy_one(memory, wide, (&step.x, x + xb), (&step.y, y + yb)) };
        }
    }
    Ok(())
}

/// Lets one update meet what is there.
///
/// # Safety
///
/// Both offsets must be inside their views.
unsafe fn scatter_one(
    memory: &Memory,
    wide: bool,
    reduction: ScatterReduction,
    (updates, from): (&View, isize),
    (y, to): (&View, isize),
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        if wide {
            let v = *memory.i64(updates).offset(from);
            let to = memory.i64(y).offset(to);
            *to = match reduction {
                ScatterReduction::None => v,
                ScatterReduction::Add => (*to).wrapping_add(v),
                ScatterReduction::Mul => (*to).wrapping_mul(v),
                ScatterReduction::Max => (*to).max(v),
                ScatterReduction::Min => (*to).min(v),
            };
        } else {
            let v = *memory.f32(updates).offset(from);
            let to = memory.f32(y).offset(to);
            *to = match reduction {
                ScatterReduction::None => v,
                ScatterReduction::Add => *to + v,
                ScatterReduction::Mul => *to * v,
                ScatterReduction::Max if v > *to || v.is_nan() => v,
                ScatterReduction::Min if v < *to || v.is_nan() => v,
                ScatterReduction::Max | ScatterReduction::Min => *to,
            };
        }
    }
}

/// Runs an element-wise scatter.
fn run_scatter_elements(step: &ScatterElementsStep, memory: &Memory) -> Result<(), StepError> {
    let wide = memory.storage(&step.y) == Storage::I64;
    let axis = step.axis;
    let others = || (0..step.index.rank()).filter(|&a| a != axis);
    let to_updates = Walk::new(&step.index, &step.updates, others());
    let to_y = Walk::new(&step.index, &step.y, others());
    for line in 0..to_updates.len() {
        let (index0, updates0) = to_updates.offsets(line);
        let (_, y0) = to_y.offsets(line);
        for i in 0..step.index.axes[axis].extent as isize {
            let from = index0 + i * step.index.axes[axis].stride;
            // SAFETY: the view was checked at load.
            let index = unsafe { *memory.i64(&step.index).offset(from) };
            let at = position(index, step.y.axes[axis].extent)?;
            let update = updates0 + i * step.updates.axes[axis].stride;
            let to = y0 + at * step.y.axes[axis].stride;
            // SAFETY: `at` is in range, the rest by the views' extents.
            unsafe {
                scatter_one(
                    memory,
                    wide,
                    step.reduction,
                    (&step.updates, update),
                    (&step.y, to),
                );
            }
        }
    }
    Ok(())
}

/// Runs a scatter by index tuples.
fn run_scatter_nd(step: &ScatterNdStep, memory: &Memory) -> Result<(), StepError> {
    let wide = memory.storage(&step.y) == Storage::I64;
    let tuples = step.index.rank() - 1;
    let depth = step.index.axes[tuples].extent;
    let blocks = Walk::tails(&step.updates, tuples, &step.y, depth);
    let over = Walk::new(&step.index, &step.updates, 0..tuples);
    for t in 0..over.len() {
        let (index, updates) = over.offsets(t);
        let y = tuple_offset(memory, &step.index, index, &step.y, 0)?;
        for b in 0..blocks.len() {
            let (ub, yb) = blocks.offsets(b);
            // SAFETY: the tuple is in range, the rest by the views' extents.
            unsafe {
                scatter_one(
                    memory,
                    wide,
                    step.reduction,
                    (&step.updates, updates + ub),
                    (&step.y, y + yb),
                );
            }
        }
    }
    Ok(())
}

/// The kernel of a gather along one axis.
pub(crate) struct Gather(GatherStep);

impl Kernel<GatherStep> for Gather {
    fn prepare(problem: &Problem<'_, GatherStep>) -> Result<Self, QuantError> {
        Ok(Self(problem.step.clone()))
    }
}

impl PreparedStep for Gather {
    fn run(&self, c: &Context<'_>) -> Result<(), StepError> {
        run(&self.0, c.memory)
    }
}

/// The kernel of a gather with an index per element of the result.
pub(crate) struct GatherElements(GatherElementsStep);

impl Kernel<GatherElementsStep> for GatherElements {
    fn prepare(problem: &Problem<'_, GatherElementsStep>) -> Result<Self, QuantError> {
        Ok(Self(problem.step.clone()))
    }
}

impl PreparedStep for GatherElements {
    fn run(&self, c: &Context<'_>) -> Result<(), StepError> {
        run_elements(&self.0, c.memory)
    }
}

/// The kernel of a gather by index tuples.
pub(crate) struct GatherNd(GatherNdStep);

impl Kernel<GatherNdStep> for GatherNd {
    fn prepare(problem: &Problem<'_, GatherNdStep>) -> Result<Self, QuantError> {
        Ok(Self(problem.step.clone()))
    }
}

impl PreparedStep for GatherNd {
    fn run(&self, c: &Context<'_>) -> Result<(), StepError> {
        run_nd(&self.0, c.memory)
    }
}

/// The kernel of a scatter with an index per update.
pub(crate) struct ScatterElements(ScatterElementsStep);

impl Kernel<ScatterElementsStep> for ScatterElements {
    fn prepare(problem: &Problem<'_, ScatterElementsStep>) -> Result<Self, QuantError> {
        Ok(Self(problem.step.clone()))
    }
}

impl PreparedStep for ScatterElements {
    fn run(&self, c: &Context<'_>) -> Result<(), StepError> {
        run_scatter_elements(&self.0, c.memory)
    }
}

/// The kernel of a scatter by index tuples.
pub(crate) struct ScatterNd(ScatterNdStep);

impl Kernel<ScatterNdStep> for ScatterNd {
    fn prepare(problem: &Problem<'_, ScatterNdStep>) -> Result<Self, QuantError> {
        Ok(Self(problem.step.clone()))
    }
}

impl PreparedStep for ScatterNd {
    fn run(&self, c: &Context<'_>) -> Result<(), StepError> {
        run_scatter_nd(&self.0, c.memory)
    }
}
