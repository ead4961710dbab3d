//! The fused depthwise tile: a GEMM or convolution and the depthwise convolution behind it, a few
//! rows of the feature map between them at a time.
//!
//! ```text
//! for each share: rows of the result, a panel of channels
//!     a few rows of them at a time:
//!         rows of the feature map under their windows     kept from before, or their kernel, into scratch
//!         those rows of y                                 the depthwise kernel, from there
//! ```
//!
//! The feature map between the two is several times what goes in and comes out. A few rows of it stay in the caches of
//! the thread that computes them. Rows under the windows of two shares are computed by each. Each element is computed by
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
/// Rows of the feature map that are computed, in percent of those that would be: where shares have few rows of the result,
/// most are under the windows of two or three of them.
const MOST_COMPUTED: usize = 125;
/// Shares per thread at least where all images are cut, so that one slow thread does not hold up the others.
const TASKS_PER_THREAD: usize = 4;

/// Channels of the widest panel.
fn panel_width(isa: Isa, step: &ConvStep) -> usize {
    let panels = panels(isa, step.x.axes[1].extent);
    panels.map(|p| p.vectors * isa.lanes()).max().unwrap_or(0)
}

/// How the images of a result, each a sample's channels of one panel, are shared out.
///
/// ```text
/// 7 images, 2 threads      A B C  G1 | D E F  G2       what is left over is cut by rows, one part for each thread
/// fewer than two for each  A1 B1 | A2 B2 | A3 B3 ..    all are, into more parts than threads
/// ```
#[derive(Clone, Copy)]
struct Shares {
    threads: usize,
    /// Whole images of every thread.
    whole: usize,
    /// Images that are cut.
    cut: usize,
    /// Parts of each of those.
    parts: usize,
}

impl Shares {
    fn of(Cpu { isa, pool }: Cpu<'_>, step: &ConvStep) -> Self {
        let images = step.y.axes[0].extent * panels(isa, step.x.axes[1].extent).count();
        Self::new(pool.threads(), images, step.y.axes[2].extent)
    }

    /// Of so many images of so many rows.
    fn new(threads: usize, images: usize, height: usize) -> Self {
        let whole = match threads {
            1 => images,
            _ if images >= 2 * threads => images / threads,
            _ => 0,
        };
        let parts = match whole {
            0 => (TASKS_PER_THREAD * threads)
                .div_ceil(images.max(1))
                .min(height.max(1)),
            // Of few rows some parts have none.
            _ => threads,
        };
        Self {
            threads,
            whole,
            cut: images - whole * threads,
            parts,
        }
    }

    fn images(&self) -> usize {
        self.whole * self.threads + self.cut
    }

    /// Shares, the same number for every thread, one thread's after the other's.
    fn count(&self) -> usize {
        self.whole * self.threads + self.cut * self.parts
    }

    /// The image of a share, and its part if it is cut.
    fn share(&self, index: usize) -> (usize, Option<usize>) {
        if self.whole == 0 {
            return (index % self.cut, Some(index / self.cut));
        }
        let of_thread = self.whole + self.cut;
        let (thread, own) = (index / of_thread, index % of_thread);
        match own.checked_sub(self.whole) {
            None => (thread * self.whole + own, None),
            Some(rest) => (self.whole * self.threads + rest, Some(thread)),
        }
    }

    /// Rows of the result, of `height`, in part `part` of an image; all of one that is not cut.
    fn rows(&self, height: usize, part: Option<usize>) -> Range<usize> {
        part.map_or(0..height, |part| {
            height * part / self.parts..height * (part + 1) / self.parts
        })
    }

    /// What images are made of: whole ones, and the parts of one that is cut.
    fn kinds(&self) -> impl Iterator<Item = (usize, Option<usize>)> + '_ {
        let whole = (self.whole > 0).then_some((self.whole * self.threads, None));
        let parts = if self.cut == 0 { 0 } else { self.parts };
        whole
            .into_iter()
            .chain((0..parts).map(|part| (self.cut, Some(part))))
    }
}

/// How the rows of a share are cut.
struct Rows {
    /// Of the result, computed at a time.
    at_a_time: usize,
    /// Most of the feature map under those.
    held: usize,
}

/// How `of_share` rows of the result are cut.
fn rows(isa: Isa, step: &ConvStep, of_share: usize) -> Rows {
    let window = &step.window;
    let row_len = panel_width(isa, step) * step.x.axes[3].extent;
    let reach = (window.kernel[0] - 1) * window.dilation[0] + 1;
    let of_share = of_share.max(1);
    let fitting = BLOCK_ELEMENTS / row_len.max(1);
    let at_a_time = (fitting.saturating_sub(reach) / window.stride[0] + 1).min(of_share);
    let under = (at_a_time - 1) * window.stride[0] + reach;
    Rows {
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
        let (height, shares) = (step.y.axes[2].extent, Shares::of(cpu, step));
        let mut computed = 0;
        let mut moves_little = true;
        for (images, part) in shares.kinds() {
            let of_share = shares.rows(height, part);
            if of_share.is_empty() {
                continue;
            }
            let cut = rows(cpu.isa, step, of_share.len());
            let new = cut.at_a_time * step.window.stride[0];
            moves_little &= cut.at_a_time == of_share.len() || cut.held <= 2 * new;
            computed += images * under(step, of_share.start, of_share.end).len();
        }
        let all = shares.images() * step.x.axes[2].extent;
        moves_little && computed * 100 <= all * MOST_COMPUTED
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
    let (height, shares) = (step.y.axes[2].extent, Shares::of(cpu, step));
    let shares = shares.kinds().map(|(_, part)| shares.rows(height, part));
    let held = shares.map(|of_share| rows(cpu.isa, step, of_share.len()).held);
    held.max().unwrap_or(0) * step.x.axes[3].extent * panel_width(cpu.isa, step)
}

/// Runs `source` and the convolution that reads its result; every thread takes a part of the
/// context's scratch.
fn run(
    source: &dyn FeatureMapSource,
    (step, depthwise): (&ConvStep, &PreparedDepthwise),
    context: &Context<'_>,
) {
    let Context { isa, pool, .. } = *context;
    let shares = Shares::of(context.cpu(), step);
    let height = step.y.axes[2].extent;
    let channels = step.x.axes[1].extent;
    let panels = panels(isa, channels);
    let n_panels = panels.clone().count();
    pool.run_in_slots(shares.count(), |slot, index| {
        let (image, part) = shares.share(index);
        let batch = image / n_panels;
        let Some(panel) = panels.clone().nth(image % n_panels) else {
            return;
        };
        let of_share = shares.rows(height, part);
        let cut = rows(isa, step, of_share.len());
        let width = panel.vectors * isa.lanes();
        let mut map = HeldRows {
            source,
            step,
            context,
            panel,
            batch,
            to: context.scratch.part(slot),
            rows: 0..0,
        };
        for first in of_share.clone().step_by(cut.at_a_time) {
            let part = Part {
                batch,
                rows: (first, of_share.end.min(first + cut.at_a_time)),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever there is of images, rows and threads, each row of each image is in one share, and threads have as much.
    #[test]
    fn every_row_is_shared_out_once() {
        for threads in 1..=6 {
            for images in 1..=20 {
                for height in [1, 2, 7, 30] {
                    let shares = Shares::new(threads, images, height);
                    assert_eq!(shares.images(), images);
                    let mut seen = vec![0; images * height];
                    let mut of_thread = vec![0; threads];
                    for index in 0..shares.count() {
                        let (image, part) = shares.share(index);
                        for row in shares.rows(height, part) {
                            seen[image * height + row] += 1;
                            of_thread[index * threads / shares.count()] += 1;
                        }
                    }
                    let case = format!("{images} images of {height} rows, {threads} threads");
                    assert!(seen.iter().all(|&n| n == 1), "{case}");
                    if shares.whole > 0 {
                        let (least, most) = (
                            of_thread.iter().min().unwrap(),
                            of_thread.iter().max().unwrap(),
                        );
                        // Parts of an image that rows do not divide differ by one.
                        assert!(most - least <= shares.cut, "{case}: {of_thread:?}");
                    }
                    let rows: usize = shares
                        .kinds()
                        .map(|(images, part)| images * shares.rows(height, part).len())
                        .sum();
                    assert_eq!(rows, images * height, "{case}");
                }
            }
        }
    }
}
