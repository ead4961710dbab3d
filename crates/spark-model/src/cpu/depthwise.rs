//! Depthwise convolution: every channel sees only itself.
//!
//! ```text
//! for row of y:  for block of channels:  for run of TX pixels:
//!     acc[TX] = bias;  for taps in the image:  acc[i] += x[pixel i + tap] * w[tap]
//! ```
//!
//! 1. Lanes are channels, which lie side by side, so nothing is shuffled.
//! 2. One weight vector serves TX pixels; the accumulators hide the latency of the FMA.
//! 3. Rows of taps above or below the image are skipped; only the few pixels whose window
//!    crosses the left or right border run one by one.

use super::math;
use super::memory::{AlignedF32, Memory};
use super::simd::{Isa, Simd, dispatch};
use super::threads::Pool;
use crate::plan::{Activation, ConvStep, Window};

/// Pixels of one run.
const RUN: usize = 8;

/// A depthwise step with its weights turned to `[taps][channels]`.
pub(crate) struct PreparedDepthwise {
    weights: AlignedF32,
    bias: Option<AlignedF32>,
    /// Channels rounded up to whole vectors.
    padded: usize,
}

impl PreparedDepthwise {
    /// Turns the weights of `step`.
    pub(crate) fn new(isa: Isa, step: &ConvStep) -> Self {
        let (channels, taps) = (step.weights.groups, step.weights.taps);
        let padded = channels.next_multiple_of(isa.lanes());
        let mut weights = AlignedF32::zeros(taps * padded);
        for tap in 0..taps {
            let row = &mut weights.as_mut_slice()[tap * padded..][..channels];
            for (c, to) in row.iter_mut().enumerate() {
                *to = step.weights.data[c * taps + tap];
            }
        }
        let bias = step.epilogue.bias.as_ref().map(|bias| {
            let mut v = AlignedF32::zeros(padded);
            v.as_mut_slice()[..channels].copy_from_slice(bias);
            v
        });
        Self {
            weights,
            bias,
            padded,
        }
    }

    /// Bytes of turned weights.
    pub(crate) fn weight_bytes(&self) -> usize {
        4 * (self.weights.len() + self.bias.as_ref().map_or(0, AlignedF32::len))
    }

    /// Runs the step.
    pub(crate) fn run(&self, isa: Isa, step: &ConvStep, memory: &Memory, pool: &Pool) {
        let y = &step.y;
        let (n, oh) = (y.axes[0].extent, y.axes[2].extent);
        let residual = step.epilogue.residual.as_ref();
        pool.run(n * oh, |task| {
            let (batch, row) = ((task / oh) as isize, (task % oh) as isize);
            let x = memory
                .f32(&step.x)
                .wrapping_offset(batch * step.x.axes[0].stride);
            let start = |v: &crate::plan::View| {
                memory
                    .f32(v)
                    .wrapping_offset(batch * v.axes[0].stride + row * v.axes[2].stride)
            };
            let job = RowJob {
                x,
                x_strides: [step.x.axes[2].stride, step.x.axes[3].stride],
                extent: [
                    step.x.axes[2].extent as isize,
                    step.x.axes[3].extent as isize,
                ],
                y: start(y),
                y_stride: y.axes[3].stride,
                width: y.axes[3].extent,
                residual: residual.map_or(std::ptr::null(), |r| start(r).cast_const()),
                residual_stride: residual.map_or(0, |r| r.axes[3].stride),
                row,
                channels: y.axes[1].extent,
                padded: self.padded,
                weights: self.weights.as_slice().as_ptr(),
                bias: self
                    .bias
                    .as_ref()
                    .map_or(std::ptr::null(), |b| b.as_slice().as_ptr()),
                window: step.window,
                activation: step.epilogue.activation,
                residual_first: step.epilogue.residual_first,
                isa,
            };
            let job = &job;
            // SAFETY: views were checked at load, channel strides are 1 by the step's contract, and
            // every task writes its own row; `isa` names a set this processor has.
            unsafe { dispatch!(isa, row_kernel(job: &RowJob) => (job)) }
        });
    }
}

/// One row of the result.
struct RowJob {
    x: *const f32,
    x_strides: [isize; 2],
    extent: [isize; 2],
    y: *mut f32,
    y_stride: isize,
    width: usize,
    residual: *const f32,
    residual_stride: isize,
    row: isize,
    channels: usize,
    padded: usize,
    weights: *const f32,
    bias: *const f32,
    window: Window,
    activation: Activation,
    residual_first: bool,
    isa: Isa,
}

impl RowJob {
    /// Taps along `axis` whose source is in the image, for a window that starts at `origin`.
    #[inline(always)]
    fn taps_inside(&self, origin: isize, axis: usize) -> (usize, usize) {
        let d = self.window.dilation[axis] as isize;
        let first = if origin < 0 { (-origin + d - 1) / d } else { 0 };
        let room = self.extent[axis] - origin;
        let last = if room <= 0 { 0 } else { (room + d - 1) / d };
        let last = last.min(self.window.kernel[axis] as isize);
        (first.min(last) as usize, last as usize)
    }

    /// Result of pixel `ox` from `channel` on.
    #[inline(always)]
    fn y_at(&self, ox: usize, channel: usize) -> *mut f32 {
        self.y
            .wrapping_offset(ox as isize * self.y_stride)
            .wrapping_add(channel)
    }

    /// Residual of pixel `ox` from `channel` on.
    #[inline(always)]
    fn residual_at(&self, ox: usize, channel: usize) -> *const f32 {
        self.residual
            .wrapping_offset(ox as isize * self.residual_stride)
            .wrapping_add(channel)
    }

    /// Results whose whole window is inside horizontally: `first..last`.
    fn inner_pixels(&self) -> (usize, usize) {
        let (stride, pad) = (self.window.stride[1], self.window.pad[1]);
        let reach = (self.window.kernel[1] - 1) * self.window.dilation[1];
        let first = pad.div_ceil(stride).min(self.width);
        let room = self.extent[1] + pad as isize - reach as isize - 1;
        let last = if room < 0 {
            0
        } else {
            (room as usize / stride + 1).min(self.width)
        };
        (first, last.max(first))
    }
}

#[inline(always)]
unsafe fn row_kernel<S: Simd>(job: &RowJob) {
    let origin = job.row * job.window.stride[0] as isize - job.window.pad[0] as isize;
    let rows = job.taps_inside(origin, 0);
    let (inner_first, inner_last) = job.inner_pixels();
    let mut channel = 0;
    while channel < job.channels {
        let lanes = S::LANES.min(job.channels - channel);
        let all = (0, job.window.kernel[1]);
        let border = |ox: usize| {
            let origin = (ox * job.window.stride[1]) as isize - job.window.pad[1] as isize;
            job.taps_inside(origin, 1)
        };
        // SAFETY: pixels are below `width`, channels below `channels`, and taps inside the image.
        unsafe {
            for ox in 0..inner_first {
                run::<S, 1>(job, origin, rows, border(ox), ox, channel, lanes);
            }
            let mut ox = inner_first;
            while ox + RUN <= inner_last {
                run::<S, RUN>(job, origin, rows, all, ox, channel, lanes);
                ox += RUN;
            }
            while ox + 4 <= inner_last {
                run::<S, 4>(job, origin, rows, all, ox, channel, lanes);
                ox += 4;
            }
            while ox < inner_last {
                run::<S, 1>(job, origin, rows, all, ox, channel, lanes);
                ox += 1;
            }
            for ox in inner_last..job.width {
                run::<S, 1>(job, origin, rows, border(ox), ox, channel, lanes);
            }
        }
        channel += S::LANES;
    }
}

/// `TX` pixels from `ox` on, one vector of channels.
#[inline(always)]
unsafe fn run<S: Simd, const TX: usize>(
    job: &RowJob,
    origin_y: isize,
    rows: (usize, usize),
    columns: (usize, usize),
    ox: usize,
    channel: usize,
    lanes: usize,
) {
    // SAFETY: forwarded. Whether the vector is whole is settled here, outside the loops.
    unsafe {
        if lanes == S::LANES {
            run_lanes::<S, TX, true>(job, origin_y, rows, columns, ox, channel, lanes);
        } else {
            run_lanes::<S, TX, false>(job, origin_y, rows, columns, ox, channel, lanes);
        }
    }
}

#[inline(always)]
unsafe fn load<S: Simd, const WHOLE: bool>(p: *const f32, lanes: usize) -> S::V {
    // SAFETY: by the caller's word, `lanes` elements are readable.
    unsafe {
        if WHOLE {
            S::load(p)
        } else {
            S::load_first(p, lanes)
        }
    }
}

#[inline(always)]
#[allow(
    clippy::needless_range_loop,
    reason = "constant bounds unroll, iterators may not"
)]
unsafe fn run_lanes<S: Simd, const TX: usize, const WHOLE: bool>(
    job: &RowJob,
    origin_y: isize,
    rows: (usize, usize),
    columns: (usize, usize),
    ox: usize,
    channel: usize,
    lanes: usize,
) {
    let window = &job.window;
    let origin_x = (ox * window.stride[1]) as isize - window.pad[1] as isize;
    let step = window.stride[1] as isize * job.x_strides[1];
    let tap_step = window.dilation[1] as isize * job.x_strides[1];
    // SAFETY: the caller vouches for pixels, channels and taps; weights and bias are padded to
    // whole vectors, and partial vectors touch `lanes` elements only.
    unsafe {
        let start = if job.bias.is_null() {
            S::splat(0.0)
        } else {
            S::load(job.bias.add(channel))
        };
        let mut acc = [start; TX];
        for ky in rows.0..rows.1 {
            let source_y = origin_y + (ky * window.dilation[0]) as isize;
            let mut x = job
                .x
                .offset(source_y * job.x_strides[0] + origin_x * job.x_strides[1])
                .offset(columns.0 as isize * tap_step)
                .add(channel);
            let first_tap = ky * window.kernel[1] + columns.0;
            let mut w = job.weights.add(first_tap * job.padded + channel);
            for _ in columns.0..columns.1 {
                let weight = S::load(w);
                for i in 0..TX {
                    let v = load::<S, WHOLE>(x.wrapping_offset(i as isize * step), lanes);
                    acc[i] = S::fma(v, weight, acc[i]);
                }
                x = x.wrapping_offset(tap_step);
                w = w.wrapping_add(job.padded);
            }
        }
        if job.residual_first && !job.residual.is_null() {
            for i in 0..TX {
                acc[i] = S::add(
                    acc[i],
                    load::<S, WHOLE>(job.residual_at(ox + i, channel), lanes),
                );
            }
        }
        if let Activation::Clamp { low, high } = job.activation {
            let (low, high) = (S::splat(low), S::splat(high));
            for i in 0..TX {
                // The bound first: `max` and `min` give the second operand for NaN.
                acc[i] = S::min(high, S::max(low, acc[i]));
            }
        }
        for i in 0..TX {
            let y = job.y_at(ox + i, channel);
            if WHOLE {
                S::store(y, acc[i]);
            } else {
                S::store_first(y, acc[i], lanes);
            }
        }
        if let Activation::Function(function) = job.activation {
            for i in 0..TX {
                let y = std::slice::from_raw_parts_mut(job.y_at(ox + i, channel), lanes);
                math::apply(job.isa, function, y);
            }
        }
        if !job.residual_first && !job.residual.is_null() {
            for i in 0..TX {
                let (y, r) = (job.y_at(ox + i, channel), job.residual_at(ox + i, channel));
                for k in 0..lanes {
                    *y.add(k) += *r.add(k);
                }
            }
        }
    }
}
