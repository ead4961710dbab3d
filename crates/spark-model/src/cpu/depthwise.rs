//! Depthwise convolution: every channel sees only itself.
//!
//! ```text
//! for vector of channels:  for row of y:  for run of TX pixels:
//!     acc[TX] = bias
//!     for tap row:  xs = TX + KW - 1 neighbours;  acc[i] += xs[i + kx] * w[kx]
//!     y = epilogue(acc)
//! ```
//!
//! 1. Lanes are channels, which lie side by side, so nothing is shuffled.
//! 2. Where stride and dilation are 1 and the window is 3, 5 or 7 wide, neighbouring pixels
//!    share their taps in registers: a row of taps costs TX + KW - 1 loads, not TX * KW.
//! 3. One vector of channels goes over all rows of a task before the next: what one row of
//!    windows has read is still in the nearest cache for the next row.
//! 4. A tap left or right of the image reads zeros; tap rows above or below are skipped.

use super::math;
use super::memory::{AlignedF32, Memory};
use super::simd::{Isa, Simd, dispatch};
use super::threads::Pool;
use crate::plan::{Activation, ConvStep, View, Window};

/// Most pixels of one run.
const RUN: usize = 8;
/// Widest window whose taps are shared.
const SHARED: usize = 7;
/// Image elements under a task's rows, per vector of channels: half a nearest cache.
const NEAR_ELEMENTS: usize = 6 * 1024;
/// Tasks per thread, so that one slow thread does not hold up the others.
const TASKS_PER_THREAD: usize = 4;

/// What a tap outside the image reads.
static ZEROS: [f32; 16] = [0.0; 16];

/// A depthwise step with its weights turned to `[vector of channels][tap][lane]`.
pub(crate) struct PreparedDepthwise {
    weights: AlignedF32,
    bias: Option<AlignedF32>,
}

impl PreparedDepthwise {
    /// Turns the weights of `step`.
    pub(crate) fn new(isa: Isa, step: &ConvStep) -> Self {
        let (channels, taps, lanes) = (step.weights.groups, step.weights.taps, isa.lanes());
        let padded = channels.next_multiple_of(lanes);
        let mut weights = AlignedF32::zeros(taps * padded);
        let turned = weights.as_mut_slice();
        for (c, row) in step.weights.values().chunks_exact(taps.max(1)).enumerate() {
            let start = c / lanes * taps * lanes + c % lanes;
            for (tap, &w) in row.iter().enumerate() {
                turned[start + tap * lanes] = w;
            }
        }
        let bias = step.epilogue.bias.as_ref();
        let bias = bias.map(|bias| AlignedF32::padded(bias, padded));
        Self { weights, bias }
    }

    /// Bytes of turned weights.
    pub(crate) fn weight_bytes(&self) -> usize {
        4 * (self.weights.len() + self.bias.as_ref().map_or(0, AlignedF32::len))
    }

    /// Runs the step.
    pub(crate) fn run(&self, isa: Isa, step: &ConvStep, memory: &Memory, pool: &Pool) {
        let axes = &step.x.axes;
        let (n, height) = (step.y.axes[0].extent, step.y.axes[2].extent);
        let rows = rows_per_task(isa, step, pool.threads());
        let blocks = height.div_ceil(rows);
        pool.run(n * blocks, |task| {
            let (batch, block) = (task / blocks, task % blocks);
            let image = ImageRows {
                x: memory
                    .f32(&step.x)
                    .wrapping_offset(batch as isize * axes[0].stride),
                strides: [axes[2].stride, axes[3].stride],
            };
            let part = Part {
                batch,
                rows: (block * rows, height.min((block + 1) * rows)),
                channels: (0, step.y.axes[1].extent),
            };
            // SAFETY: views were checked at load, channel strides are 1 by the step's contract, and
            // every task writes its own rows.
            unsafe { self.run_part(isa, step, memory, image, part) };
        });
    }

    /// Computes a part of the result.
    ///
    /// # Safety
    ///
    /// The image under the windows of the part must be readable, the part not be touched
    /// elsewhere; both have unit stride along the channels, and the first channel begins a vector.
    pub(crate) unsafe fn run_part(
        &self,
        isa: Isa,
        step: &ConvStep,
        memory: &Memory,
        image: ImageRows,
        part: Part,
    ) {
        let y = &step.y;
        let residual = step.epilogue.residual.as_ref();
        let start = |v: &View| {
            memory
                .f32(v)
                .wrapping_offset(part.batch as isize * v.axes[0].stride)
        };
        let job = Block {
            x: image.x,
            x_strides: image.strides,
            extent: [
                step.x.axes[2].extent as isize,
                step.x.axes[3].extent as isize,
            ],
            y: start(y),
            y_strides: [y.axes[2].stride, y.axes[3].stride],
            rows: part.rows,
            width: y.axes[3].extent,
            residual: residual.map_or(std::ptr::null(), |r| start(r).cast_const()),
            residual_strides: residual.map_or([0; 2], |r| [r.axes[2].stride, r.axes[3].stride]),
            channels: part.channels,
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
        // SAFETY: the caller's word; `isa` names a set this processor has.
        unsafe { dispatch!(isa, block_kernel(job: &Block) => (job)) }
    }
}

/// A part of the result: of one image, from a first row and channel to before a last one.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    pub(crate) batch: usize,
    pub(crate) rows: (usize, usize),
    pub(crate) channels: (usize, usize),
}

/// Where an image's rows are.
#[derive(Clone, Copy)]
pub(crate) struct ImageRows {
    /// Row 0, channel 0, also where only rows and channels further on can be read.
    pub(crate) x: *const f32,
    /// Elements to the next row and the next pixel.
    pub(crate) strides: [isize; 2],
}

/// Rows of the result per task: what they read fits the nearest cache, and every thread has work.
pub(crate) fn rows_per_task(isa: Isa, step: &ConvStep, threads: usize) -> usize {
    let (n, height) = (step.y.axes[0].extent, step.y.axes[2].extent);
    let near = NEAR_ELEMENTS / (step.x.axes[3].extent * isa.lanes()).max(1);
    let reach = (step.window.kernel[0] - 1) * step.window.dilation[0];
    let rows = (near.saturating_sub(reach) / step.window.stride[0]).max(1);
    let shared = match threads {
        1 => height,
        _ => (n * height).div_ceil(TASKS_PER_THREAD * threads),
    };
    rows.min(shared).clamp(1, height.max(1))
}

/// Some rows of one image's result.
struct Block {
    x: *const f32,
    /// Elements to the next row and the next pixel.
    x_strides: [isize; 2],
    extent: [isize; 2],
    y: *mut f32,
    y_strides: [isize; 2],
    /// First row, and the row after the last.
    rows: (usize, usize),
    width: usize,
    residual: *const f32,
    residual_strides: [isize; 2],
    /// First channel, and the channel after the last.
    channels: (usize, usize),
    weights: *const f32,
    bias: *const f32,
    window: Window,
    activation: Activation,
    residual_first: bool,
    isa: Isa,
}

impl Block {
    /// Tap rows inside the image, for a window that starts at `origin`.
    fn tap_rows(&self, origin: isize) -> (usize, usize) {
        let d = self.window.dilation[0] as isize;
        let first = if origin < 0 { (-origin + d - 1) / d } else { 0 };
        let room = self.extent[0] - origin;
        let last = if room <= 0 { 0 } else { (room + d - 1) / d };
        let last = last.min(self.window.kernel[0] as isize);
        (first.min(last) as usize, last as usize)
    }

    /// Whether the windows of `n` pixels from `ox` on lie inside the image horizontally.
    #[inline(always)]
    fn is_inside(&self, ox: usize, n: usize) -> bool {
        let stride = self.window.stride[1];
        let reach = (self.window.kernel[1] - 1) * self.window.dilation[1];
        let pad = self.window.pad[1];
        ox * stride >= pad
            && ((ox + n - 1) * stride + reach) as isize - (pad as isize) < self.extent[1]
    }
}

/// One row of the result, one vector of channels.
struct Line<'a> {
    block: &'a Block,
    /// Row of the window's first tap, which may lie above the image.
    origin: isize,
    /// Tap rows inside the image.
    taps: (usize, usize),
    /// The image, at the vector's first channel.
    x: *const f32,
    /// Row of the result, at the vector's first channel.
    y: *mut f32,
    /// Row of the residual there; may be null.
    residual: *const f32,
    /// The vector's weights, `[tap][lane]`.
    weights: *const f32,
    /// The vector's bias; may be null.
    bias: *const f32,
    /// Channels that exist.
    lanes: usize,
}

#[inline(always)]
unsafe fn block_kernel<S: Simd>(job: &Block) {
    let taps = job.window.kernel[0] * job.window.kernel[1];
    let is_unit = job.window.stride[1] == 1 && job.window.dilation[1] == 1;
    let mut channel = job.channels.0;
    while channel < job.channels.1 {
        let lanes = S::LANES.min(job.channels.1 - channel);
        for row in job.rows.0..job.rows.1 {
            let origin = (row * job.window.stride[0]) as isize - job.window.pad[0] as isize;
            let at = |strides: [isize; 2]| row as isize * strides[0] + channel as isize;
            let or_null = |p: *const f32, offset: isize| match p.is_null() {
                true => p,
                false => p.wrapping_offset(offset),
            };
            let line = Line {
                block: job,
                origin,
                taps: job.tap_rows(origin),
                x: job.x.wrapping_add(channel),
                y: job.y.wrapping_offset(at(job.y_strides)),
                residual: or_null(job.residual, at(job.residual_strides)),
                weights: job.weights.wrapping_add(channel * taps),
                bias: or_null(job.bias, channel as isize),
                lanes,
            };
            // SAFETY: the row and the channels exist; weights and bias are padded to whole vectors.
            unsafe {
                match (lanes == S::LANES, is_unit, job.window.kernel[1]) {
                    (true, true, 3) => walk::<S, 3>(&line),
                    (true, true, 5) => walk::<S, 5>(&line),
                    (true, true, 7) => walk::<S, 7>(&line),
                    (true, ..) => walk::<S, 0>(&line),
                    _ => walk_partial::<S>(&line),
                }
            }
        }
        channel += S::LANES;
    }
}

/// The pixels of a line, in runs; `KW` is the width of a shared window, or 0.
#[inline(always)]
unsafe fn walk<S: Simd, const KW: usize>(line: &Line<'_>) {
    let width = line.block.width;
    let mut ox = 0;
    // SAFETY: pixels stay below `width`.
    unsafe {
        if S::MAX_PANEL > 2 {
            while ox + RUN <= width {
                run::<S, RUN, KW, true>(line, ox);
                ox += RUN;
            }
        }
        while ox + 4 <= width {
            run::<S, 4, KW, true>(line, ox);
            ox += 4;
        }
        if ox + 2 <= width {
            run::<S, 2, KW, true>(line, ox);
            ox += 2;
        }
        if ox < width {
            run::<S, 1, KW, true>(line, ox);
        }
    }
}

/// The pixels of a line whose vector is not whole.
#[inline(always)]
unsafe fn walk_partial<S: Simd>(line: &Line<'_>) {
    let width = line.block.width;
    // SAFETY: pixels stay below `width`.
    unsafe {
        for ox in (0..width / 4).map(|i| 4 * i) {
            run::<S, 4, 0, false>(line, ox);
        }
        for ox in width / 4 * 4..width {
            run::<S, 1, 0, false>(line, ox);
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

/// `TX` pixels from `ox` on.
#[inline(always)]
unsafe fn run<S: Simd, const TX: usize, const KW: usize, const WHOLE: bool>(
    line: &Line<'_>,
    ox: usize,
) {
    // SAFETY: forwarded. Whether a tap can lie outside is settled here, not at every tap.
    unsafe {
        let start = match line.bias.is_null() {
            true => S::splat(0.0),
            false => S::load(line.bias),
        };
        let mut acc = [start; TX];
        match (KW > 0, line.block.is_inside(ox, TX)) {
            (true, true) => add_shared::<S, TX, KW, false>(line, ox, &mut acc),
            (true, false) => add_shared::<S, TX, KW, true>(line, ox, &mut acc),
            (false, true) => add_taps::<S, TX, WHOLE, false>(line, ox, &mut acc),
            (false, false) => add_taps::<S, TX, WHOLE, true>(line, ox, &mut acc),
        }
        finish::<S, TX, WHOLE>(line, ox, acc);
    }
}

/// Pixel `column` of a row of the image; zeros where a border may and does lie there.
#[inline(always)]
fn pixel<const BORDER: bool>(block: &Block, row: *const f32, column: isize) -> *const f32 {
    if BORDER && !(0..block.extent[1]).contains(&column) {
        ZEROS.as_ptr()
    } else {
        row.wrapping_offset(column * block.x_strides[1])
    }
}

/// Adds all taps of a window `KW` wide with unit stride and dilation.
#[inline(always)]
#[allow(
    clippy::needless_range_loop,
    reason = "constant bounds unroll, iterators may not"
)]
unsafe fn add_shared<S: Simd, const TX: usize, const KW: usize, const BORDER: bool>(
    line: &Line<'_>,
    ox: usize,
    acc: &mut [S::V; TX],
) {
    let block = line.block;
    let origin = ox as isize - block.window.pad[1] as isize;
    // SAFETY: tap rows are inside the image, columns too or replaced by zeros.
    unsafe {
        for ky in line.taps.0..line.taps.1 {
            let y = line.origin + (ky * block.window.dilation[0]) as isize;
            let row = line.x.wrapping_offset(y * block.x_strides[0]);
            let w = line.weights.add(ky * KW * S::LANES);
            let mut xs = [S::splat(0.0); RUN + SHARED - 1];
            for j in 0..TX + KW - 1 {
                xs[j] = S::load(pixel::<BORDER>(block, row, origin + j as isize));
            }
            for kx in 0..KW {
                let weight = S::load(w.add(kx * S::LANES));
                for i in 0..TX {
                    acc[i] = S::fma(xs[i + kx], weight, acc[i]);
                }
            }
        }
    }
}

/// Adds all taps of any window.
#[inline(always)]
#[allow(
    clippy::needless_range_loop,
    reason = "constant bounds unroll, iterators may not"
)]
unsafe fn add_taps<S: Simd, const TX: usize, const WHOLE: bool, const BORDER: bool>(
    line: &Line<'_>,
    ox: usize,
    acc: &mut [S::V; TX],
) {
    let block = line.block;
    let window = &block.window;
    let origin = (ox * window.stride[1]) as isize - window.pad[1] as isize;
    // SAFETY: tap rows are inside the image, columns too or replaced by zeros.
    unsafe {
        for ky in line.taps.0..line.taps.1 {
            let y = line.origin + (ky * window.dilation[0]) as isize;
            let row = line.x.wrapping_offset(y * block.x_strides[0]);
            let mut w = line.weights.add(ky * window.kernel[1] * S::LANES);
            for kx in 0..window.kernel[1] {
                let weight = S::load(w);
                let column = origin + (kx * window.dilation[1]) as isize;
                for i in 0..TX {
                    let p = pixel::<BORDER>(block, row, column + (i * window.stride[1]) as isize);
                    acc[i] = S::fma(load::<S, WHOLE>(p, line.lanes), weight, acc[i]);
                }
                w = w.wrapping_add(S::LANES);
            }
        }
    }
}

/// Residual, activation, store.
#[inline(always)]
#[allow(
    clippy::needless_range_loop,
    reason = "constant bounds unroll, iterators may not"
)]
unsafe fn finish<S: Simd, const TX: usize, const WHOLE: bool>(
    line: &Line<'_>,
    ox: usize,
    mut acc: [S::V; TX],
) {
    let block = line.block;
    let residual = |i: usize| {
        line.residual
            .wrapping_offset((ox + i) as isize * block.residual_strides[1])
    };
    // SAFETY: the caller vouches for pixels and channels.
    unsafe {
        if block.residual_first && !line.residual.is_null() {
            for i in 0..TX {
                acc[i] = S::add(acc[i], load::<S, WHOLE>(residual(i), line.lanes));
            }
        }
        match block.activation {
            Activation::None => {}
            Activation::Clamp { low, high } => {
                let (low, high) = (S::splat(low), S::splat(high));
                for i in 0..TX {
                    // The bound first: `max` and `min` give the second operand for NaN.
                    acc[i] = S::min(high, S::max(low, acc[i]));
                }
            }
            Activation::Function(function) => {
                // One call for the whole run, through memory that stays in the nearest cache.
                let mut values = [0.0f32; RUN * 16];
                for i in 0..TX {
                    S::store(values.as_mut_ptr().add(i * S::LANES), acc[i]);
                }
                math::apply(block.isa, function, &mut values[..TX * S::LANES]);
                for i in 0..TX {
                    acc[i] = S::load(values.as_ptr().add(i * S::LANES));
                }
            }
        }
        if !block.residual_first && !line.residual.is_null() {
            for i in 0..TX {
                acc[i] = S::add(acc[i], load::<S, WHOLE>(residual(i), line.lanes));
            }
        }
        for i in 0..TX {
            let y = line
                .y
                .wrapping_offset((ox + i) as isize * block.y_strides[1]);
            if WHOLE {
                S::store(y, acc[i]);
            } else {
                S::store_first(y, acc[i], line.lanes);
            }
        }
    }
}
