//! The fused depthwise tile: a GEMM or convolution and the depthwise convolution behind it, a few
//! rows of the feature map between them at a time.
//!
//! ```text
//! for each task: rows of the result, a panel of channels
//!     a few rows of them at a time:
//!         rows of the feature map under their windows     kept from before, or their kernel, into scratch
//!         those rows of y                                 the depthwise kernel, from there
//! ```
//!
//! The feature map between the two is several times what goes in and comes out. A few rows of it stay in the caches of
//! the thread that computes them. Rows under the windows of two tasks are computed by each. Each element is computed by
//! the kernels that compute it otherwise, so results are the same bits.
//!
//! Which steps can go together is the plan's to say (`Plan::can_fuse_with_depthwise`).

use std::ops::Range;

use spark_gemm::{Panel, panels};

use super::depthwise::{Depthwise, ImageRows, Part, PreparedDepthwise};
use crate::cpu::prepared::{Context, Cpu, FeatureMapBlock, FeatureMapReader, FeatureMapSource};
use crate::cpu::simd::Isa;
use crate::cpu::workspace::WorkspaceSize;
use crate::plan::ConvStep;

/// Elements of the feature map that are held at a time, unless a window and its step have more: 384 KB of a core's L2
/// cache.
const BLOCK_ELEMENTS: usize = 96 << 10;
/// Rows of the feature map that are computed, in percent of those that would be: where tasks have few rows of the result,
/// most are under the windows of two or three of them.
const MOST_COMPUTED: usize = 125;
/// Tasks per thread at least, so that one slow thread does not hold up the others.
const TASKS_PER_THREAD: usize = 4;

/// Channels of the widest panel.
fn panel_width(isa: Isa, step: &ConvStep) -> usize {
    let panels = panels(isa, step.x.axes[1].extent);
    panels.map(|p| p.vectors * isa.lanes()).max().unwrap_or(0)
}

/// How the rows of a result are cut.
struct Rows {
    /// Of the result, in one task.
    of_task: usize,
    /// Of the result, computed at a time.
    at_a_time: usize,
    /// Most of the feature map under those.
    held: usize,
}

fn rows(Cpu { isa, pool }: Cpu<'_>, step: &ConvStep) -> Rows {
    let threads = pool.threads();
    let window = &step.window;
    let row_len = panel_width(isa, step) * step.x.axes[3].extent;
    let reach = (window.kernel[0] - 1) * window.dilation[0] + 1;
    let (n, height) = (step.y.axes[0].extent, step.y.axes[2].extent);
    let panels = panels(isa, step.x.axes[1].extent).count();
    let tasks = match threads {
        1 => 1,
        _ => (TASKS_PER_THREAD * threads).div_ceil(n * panels),
    };
    // As many rows in every task.
    let of_task = height.div_ceil(tasks.clamp(1, height.max(1))).max(1);
    let fitting = BLOCK_ELEMENTS / row_len.max(1);
    let at_a_time = (fitting.saturating_sub(reach) / window.stride[0] + 1).min(of_task);
    let under = (at_a_time - 1) * window.stride[0] + reach;
    Rows {
        of_task,
        at_a_time,
        held: under.min(step.x.axes[2].extent),
    }
}

/// Rows of the feature map under rows `first..last` of the result.
fn under(step: &ConvStep, first: usize, last: usize) -> Range<usize> {
    let window = &step.window;
    let reach = (window.kernel[0] - 1) * window.dilation[0] + 1;
    let begin = (first * window.stride[0]).saturating_sub(window.pad[0]);
    let end = ((last - 1) * window.stride[0] + reach)
        .saturating_sub(window.pad[0])
        .min(step.x.axes[2].extent);
    begin.min(end)..end
}

impl FeatureMapReader for Depthwise {
    fn fused_algorithm(&self) -> &'static str {
        "fused-depthwise"
    }

    fn is_fusion_profitable(&self, cpu: Cpu<'_>) -> bool {
        let step = &self.step;
        let (height, cut) = (step.y.axes[2].extent, rows(cpu, step));
        let tasks = (0..height).step_by(cut.of_task);
        let computed: usize = tasks
            .map(|first| under(step, first, height.min(first + cut.of_task)).len())
            .sum();
        let new = cut.at_a_time * step.window.stride[0];
        let moves_little = cut.at_a_time == cut.of_task || cut.held <= 2 * new;
        moves_little && computed * 100 <= step.x.axes[2].extent * MOST_COMPUTED
    }

    fn fused_workspace_size(&self, cpu: Cpu<'_>) -> WorkspaceSize {
        WorkspaceSize::scratch(scratch_len(cpu, &self.step))
    }

    fn run_fused(&self, source: &dyn FeatureMapSource, context: &Context<'_>) {
        run(source, (&self.step, &self.prepared), context);
    }
}

/// Elements of scratch a thread needs: the rows of the feature map that are held, of the widest panel.
fn scratch_len(cpu: Cpu<'_>, step: &ConvStep) -> usize {
    rows(cpu, step).held * step.x.axes[3].extent * panel_width(cpu.isa, step)
}

/// Runs `source` and the convolution that reads its result; every thread takes a part of the
/// context's scratch.
fn run(
    source: &dyn FeatureMapSource,
    (step, depthwise): (&ConvStep, &PreparedDepthwise),
    context: &Context<'_>,
) {
    let Context { isa, pool, .. } = *context;
    let cut = rows(context.cpu(), step);
    let (n, height) = (step.y.axes[0].extent, step.y.axes[2].extent);
    let tasks = height.div_ceil(cut.of_task);
    let channels = step.x.axes[1].extent;
    let panels = panels(isa, channels);
    let n_panels = panels.clone().count();
    pool.run_in_slots(n * tasks * n_panels, |slot, index| {
        let (task, panel) = (index / n_panels, index % n_panels);
        let Some(panel) = panels.clone().nth(panel) else {
            return;
        };
        let (batch, task) = (task / tasks, task % tasks);
        let width = panel.vectors * isa.lanes();
        let end = height.min((task + 1) * cut.of_task);
        let mut map = HeldRows {
            source,
            step,
            context,
            panel,
            batch,
            to: context.scratch.part(slot),
            rows: 0..0,
        };
        for first in (task * cut.of_task..end).step_by(cut.at_a_time) {
            let part = Part {
                batch,
                rows: (first, end.min(first + cut.at_a_time)),
                channels: (panel.column, channels.min(panel.column + width)),
            };
            // SAFETY: views were checked at load; slots have scratch of their own, which holds the rows under
            // so many of the result; tasks have a part of the result of their own, and the convolution reads
            // rows of the map that are held.
            unsafe {
                let rows = map.advance(under(step, part.rows.0, part.rows.1));
                depthwise.run_part(step, context, rows, part);
            }
        }
    });
}

/// Rows of the feature map of one panel, in scratch.
struct HeldRows<'a> {
    source: &'a dyn FeatureMapSource,
    step: &'a ConvStep,
    context: &'a Context<'a>,
    panel: Panel,
    batch: usize,
    to: *mut f32,
    /// Those that are there.
    rows: Range<usize>,
}

impl HeldRows<'_> {
    /// Computes what is not there of `wanted`, which begins no earlier than the rows before, and gives them as an
    /// image whose rows are numbered as in the map.
    ///
    /// # Safety
    ///
    /// Scratch must have room for the wanted rows and not be used elsewhere.
    unsafe fn advance(&mut self, wanted: Range<usize>) -> ImageRows {
        let [height, width] = [2, 3].map(|axis| self.step.x.axes[axis].extent);
        let pixel_len = self.panel.vectors * self.context.isa.lanes();
        let row_len = width * pixel_len;
        let kept = self.rows.end.min(wanted.end).saturating_sub(wanted.start);
        // SAFETY: the rows kept are in scratch, behind where they go or there already; the others exist in the
        // operand, and scratch has room for them; the plan lets no step through that has a residual or groups.
        unsafe {
            if kept > 0 {
                let from = self.to.add((wanted.start - self.rows.start) * row_len);
                std::ptr::copy(from, self.to, kept * row_len);
            }
            let block = FeatureMapBlock {
                batch: self.batch,
                panel: self.panel,
                image: height * width,
                first: (wanted.start + kept) * width,
                last: wanted.end * width,
            };
            let to = self.to.add(kept * row_len);
            self.source.block(self.context, block, to, pixel_len);
        }
        let first = wanted.start as isize * row_len as isize;
        self.rows = wanted;
        ImageRows {
            x: self
                .to
                .wrapping_sub(self.panel.column)
                .wrapping_offset(-first),
            strides: [row_len as isize, pixel_len as isize],
        }
    }
}
