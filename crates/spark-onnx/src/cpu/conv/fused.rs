//! The fused depthwise tile: a GEMM or convolution and the depthwise convolution behind it, a block
//! of the feature map between them at a time.
//!
//! ```text
//! for each tile of result rows, for each panel of channels:
//!     block = rows of the feature map under the tile's windows, the panel's channels of them
//!                                                     their kernel, into scratch
//!     tile and panel of y                             the depthwise kernel, from there
//! ```
//!
//! The feature map between the two is several times what goes in and comes out. In blocks it stays
//! in the L1 and L2 caches of the thread that computes it. The halo, rows under the windows of several
//! tiles, is computed for each of them. Each element is computed by the kernels that compute it otherwise, so
//! results are the same bits.
//!
//! Which steps can go together is the plan's to say (`Plan::can_fuse_with_depthwise`).

use spark_gemm::{Panel, panels};

use super::depthwise::{Depthwise, ImageRows, Part, PreparedDepthwise};
use crate::cpu::prepared::{Context, Cpu, FeatureMapBlock, FeatureMapReader, FeatureMapSource};
use crate::cpu::simd::Isa;
use crate::cpu::workspace::WorkspaceSize;
use crate::plan::ConvStep;

/// Elements of a block of the feature map, unless a row has more: 768 KB of a core's L2 cache.
const BLOCK_ELEMENTS: usize = 192 << 10;
/// Rows of the feature map that are computed, in percent of those that would be: on a wide one a tile
/// has few rows, and most are halo, computed for two or three tiles.
const MOST_COMPUTED: usize = 125;
/// Blocks per thread at least, so that one slow thread does not hold up the others.
const BLOCKS_PER_THREAD: usize = 4;

/// Channels of the widest panel.
fn panel_width(isa: Isa, step: &ConvStep) -> usize {
    let panels = panels(isa, step.x.axes[1].extent);
    panels.map(|p| p.vectors * isa.lanes()).max().unwrap_or(0)
}

/// How many rows of the result a tile has, and the most rows of the feature map under it.
fn tile_rows(Cpu { isa, pool }: Cpu<'_>, step: &ConvStep) -> (usize, usize) {
    let threads = pool.threads();
    let window = &step.window;
    let row_len = panel_width(isa, step) * step.x.axes[3].extent;
    let reach = (window.kernel[0] - 1) * window.dilation[0] + 1;
    let block_rows = BLOCK_ELEMENTS / row_len.max(1);
    let rows = block_rows.saturating_sub(reach) / window.stride[0] + 1;
    let (n, height) = (step.y.axes[0].extent, step.y.axes[2].extent);
    let panels = panels(isa, step.x.axes[1].extent).count();
    let tiles = match threads {
        1 => 1,
        _ => (BLOCKS_PER_THREAD * threads).div_ceil(n * panels),
    };
    // As many rows in every tile.
    let tiles = tiles.max(height.div_ceil(rows)).clamp(1, height.max(1));
    let rows = height.div_ceil(tiles).max(1);
    let under = (rows - 1) * window.stride[0] + reach;
    (rows, under.min(step.x.axes[2].extent))
}

impl FeatureMapReader for Depthwise {
    fn fused_algorithm(&self) -> &'static str {
        "fused-depthwise"
    }

    fn is_fusion_profitable(&self, cpu: Cpu<'_>) -> bool {
        let step = &self.step;
        let (rows, under) = tile_rows(cpu, step);
        let computed = step.y.axes[2].extent.div_ceil(rows) * under;
        computed * 100 <= step.x.axes[2].extent * MOST_COMPUTED
    }

    fn fused_workspace_size(&self, cpu: Cpu<'_>) -> WorkspaceSize {
        WorkspaceSize::scratch(scratch_len(cpu, &self.step))
    }

    fn run_fused(&self, source: &dyn FeatureMapSource, context: &Context<'_>) {
        run(source, (&self.step, &self.prepared), context);
    }
}

/// Elements of scratch a thread needs: the most rows of the feature map under a tile, of the widest
/// panel.
fn scratch_len(cpu: Cpu<'_>, step: &ConvStep) -> usize {
    tile_rows(cpu, step).1 * step.x.axes[3].extent * panel_width(cpu.isa, step)
}

/// Runs `source` and the convolution that reads its result; every thread takes a part of the
/// context's scratch.
fn run(
    source: &dyn FeatureMapSource,
    (step, depthwise): (&ConvStep, &PreparedDepthwise),
    context: &Context<'_>,
) {
    let Context { isa, pool, .. } = *context;
    let (rows, _) = tile_rows(context.cpu(), step);
    let (n, height) = (step.y.axes[0].extent, step.y.axes[2].extent);
    let tiles = height.div_ceil(rows);
    let channels = step.x.axes[1].extent;
    let panels = panels(isa, channels);
    let n_panels = panels.clone().count();
    pool.run_in_slots(n * tiles * n_panels, |slot, index| {
        let (tile, panel) = (index / n_panels, index % n_panels);
        let Some(panel) = panels.clone().nth(panel) else {
            return;
        };
        let (batch, tile) = (tile / tiles, tile % tiles);
        let width = panel.vectors * isa.lanes();
        let part = Part {
            batch,
            rows: (tile * rows, height.min((tile + 1) * rows)),
            channels: (panel.column, channels.min(panel.column + width)),
        };
        // SAFETY: views were checked at load; slots have scratch of their own, tasks a part of
        // the result of their own, and the convolution reads what was just computed only.
        unsafe {
            let block = block(
                source,
                step,
                context,
                panel,
                part,
                context.scratch.part(slot),
            );
            depthwise.run_part(step, context, block, part);
        }
    });
}

/// Computes the part of the feature map under `part` of the result of `step`, which has the channels of
/// `panel`.
///
/// # Safety
///
/// `to` must be writable for [`scratch_len`] elements.
unsafe fn block(
    source: &dyn FeatureMapSource,
    step: &ConvStep,
    context: &Context<'_>,
    panel: Panel,
    part: Part,
    to: *mut f32,
) -> ImageRows {
    let window = &step.window;
    let [height, width] = [2, 3].map(|axis| step.x.axes[axis].extent);
    let begin = (part.rows.0 * window.stride[0]).saturating_sub(window.pad[0]);
    let reach = (window.kernel[0] - 1) * window.dilation[0] + 1;
    let end = ((part.rows.1 - 1) * window.stride[0] + reach)
        .saturating_sub(window.pad[0])
        .min(height);
    let pixel_len = panel.vectors * context.isa.lanes();
    let block = FeatureMapBlock {
        batch: part.batch,
        panel,
        image: height * width,
        first: begin * width,
        last: end.max(begin) * width,
    };
    // SAFETY: the pixels exist in the operand, and in scratch guaranteed by the caller; the plan
    // lets no step through that has a residual or groups.
    unsafe { source.block(context, block, to, pixel_len) };
    let row_len = (width * pixel_len) as isize;
    ImageRows {
        x: to
            .wrapping_sub(panel.column)
            .wrapping_offset(-(begin as isize) * row_len),
        strides: [row_len, pixel_len as isize],
    }
}
