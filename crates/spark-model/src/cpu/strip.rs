//! A product and the depthwise convolution behind it, some rows at a time.
//!
//! ```text
//! for each strip of result rows:
//!     strip = rows of the map under its windows       product_rows, into scratch
//!     rows of y                                       the depthwise kernel, from there
//! ```
//!
//! The map between the two is several times what goes in and comes out, and too large for a
//! core's own cache; in strips it never leaves it. Rows under the windows of two strips are
//! computed twice. Each element is computed by the kernels that compute it otherwise, so results
//! are the same bits.
//!
//! Which steps can go together is the plan's to say ([`Plan::expands`]).

use super::depthwise::{ImageRows, PreparedDepthwise, rows_per_task};
use super::gemm::{RowsProduct, panels, product_rows};
use super::matmul::{PreparedLinear, ROWS_PER_TASK, Shared};
use super::memory::Memory;
use super::pointwise::Scratch;
use super::simd::Isa;
use super::threads::Pool;
use crate::plan::{ConvStep, LinearStep, Plan, Step};

/// Elements of a strip of the map: three eighths of a core's second cache of 2 MB.
const STRIP_ELEMENTS: usize = 192 << 10;
/// Rows of the map that are computed, in percent of those that would be: on wide maps a strip has
/// few rows, and most are computed for two or three strips.
const MOST_COMPUTED: usize = 125;
/// Strips per thread at least, so that one slow thread does not hold up the others.
const STRIPS_PER_THREAD: usize = 2;

/// A product with the convolution that reads it.
pub(super) struct Strips<'a> {
    pub(super) expand: (&'a LinearStep, &'a PreparedLinear),
    pub(super) depthwise: (&'a ConvStep, &'a PreparedDepthwise),
}

/// How many rows of the result a strip has, and the most rows of the map under it.
fn strip_rows(step: &ConvStep, threads: usize) -> (usize, usize) {
    let window = &step.window;
    let row_len = step.x.axes[1].extent * step.x.axes[3].extent;
    let reach = (window.kernel[0] - 1) * window.dilation[0] + 1;
    let map_rows = STRIP_ELEMENTS / row_len.max(1);
    let rows = map_rows.saturating_sub(reach) / window.stride[0] + 1;
    let (n, height) = (step.y.axes[0].extent, step.y.axes[2].extent);
    let shared = match threads {
        1 => height,
        _ => (n * height).div_ceil(STRIPS_PER_THREAD * threads),
    };
    let rows = rows.min(shared).clamp(1, height.max(1));
    let under = (rows - 1) * window.stride[0] + reach;
    (rows, under.min(step.x.axes[2].extent))
}

/// Whether steps `index` and `index + 1` of `plan` are a pair that gains by strips.
pub(super) fn pays(plan: &Plan, index: usize, threads: usize) -> bool {
    let Some(Step::Conv(step)) = plan.steps.get(index + 1).map(|planned| &planned.step) else {
        return false;
    };
    let (rows, under) = strip_rows(step, threads);
    under * 100 <= rows * step.window.stride[0] * MOST_COMPUTED && plan.expands(index)
}

/// Elements of scratch a thread needs for step `index` of `plan`, if it begins such a pair.
pub(super) fn scratch_len(plan: &Plan, index: usize, threads: usize) -> usize {
    match plan.steps.get(index + 1).map(|planned| &planned.step) {
        Some(Step::Conv(step)) if pays(plan, index, threads) => {
            strip_rows(step, threads).1 * step.x.axes[3].extent * step.x.axes[1].extent
        }
        _ => 0,
    }
}

impl Strips<'_> {
    /// Runs both steps; every thread takes a part of `scratch`.
    pub(super) fn run(&self, isa: Isa, memory: &Memory, pool: &Pool, scratch: &Scratch) {
        let (linear, expand) = self.expand;
        let (step, depthwise) = self.depthwise;
        let threads = pool.threads();
        let (rows, _) = strip_rows(step, threads);
        let (n, height) = (step.y.axes[0].extent, step.y.axes[2].extent);
        let strips = height.div_ceil(rows);
        let product = expand.product(isa, linear, memory);
        let shared = &Shared(&product);
        let near = rows_per_task(isa, step, threads);
        pool.run_in_slots(n * strips, |slot, index| {
            let (batch, strip) = (index / strips, index % strips);
            let (first, last) = (strip * rows, height.min((strip + 1) * rows));
            // SAFETY: views were checked at load; slots have scratch of their own, strips rows of
            // the result of their own, and the convolution reads rows just computed only.
            unsafe {
                let (product, place) = (shared.0, (batch, first, last));
                let map = self.map_rows(isa, product, expand, place, scratch.part(slot));
                for row in (first..last).step_by(near) {
                    let range = (row, last.min(row + near));
                    depthwise.rows(isa, step, memory, (batch, map), range);
                }
            }
        });
    }

    /// Computes the rows of image `batch` under rows `first..last` of the result.
    ///
    /// # Safety
    ///
    /// `product` must be valid for the whole map, and `to` be writable for [`scratch_len`] elements.
    unsafe fn map_rows(
        &self,
        isa: Isa,
        product: &RowsProduct,
        expand: &PreparedLinear,
        (batch, first, last): (usize, usize, usize),
        to: *mut f32,
    ) -> ImageRows {
        let step = self.depthwise.0;
        let window = &step.window;
        let [height, width] = [2, 3].map(|axis| step.x.axes[axis].extent);
        let begin = (first * window.stride[0]).saturating_sub(window.pad[0]);
        let reach = (window.kernel[0] - 1) * window.dilation[0] + 1;
        let end = ((last - 1) * window.stride[0] + reach)
            .saturating_sub(window.pad[0])
            .min(height);
        let row_len = (width * product.n) as isize;
        let skipped = ((batch * height + begin) * width) as isize;
        let part = RowsProduct {
            x: product.x.wrapping_offset(skipped * product.x_stride),
            y: to,
            y_stride: product.n as isize,
            m: end.saturating_sub(begin) * width,
            ..*product
        };
        for row in (0..part.m).step_by(ROWS_PER_TASK) {
            let range = (row, part.m.min(row + ROWS_PER_TASK));
            for panel in panels(isa, part.n) {
                // SAFETY: the rows exist in the operand, and in scratch by the caller's word.
                unsafe { product_rows(isa, &part, expand.packed().as_ptr(), panel, range) };
            }
        }
        ImageRows {
            x: to.wrapping_offset(-(begin as isize) * row_len),
            strides: [row_len, product.n as isize],
        }
    }
}
