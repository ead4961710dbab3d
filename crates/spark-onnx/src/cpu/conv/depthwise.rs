//! Depthwise convolution: every channel sees only itself.
//!
//! ```text
//! for vector of channels:  for R rows of y:  for tile of TX pixels:      R: at most 2; with 16 registers 1, but for 3x3
//!     acc[R][TX] = bias
//!     for row of the image under them:  xs = neighbours under the tile
//!         for row of y, tap row that falls here:  acc[i] += xs[i * SX + kx] * w[kx]
//!     y = epilogue(acc)
//! ```
//!
//! 1. Lanes are channels, which lie side by side, so nothing is shuffled.
//! 2. Under the windows that `block_kernel` lists, neighbouring pixels and rows share their taps in
//!    registers: of two rows, 3x3 with a step of one takes 24 loads for 72 products.
//! 3. One vector of channels goes over all rows of a task before the next: what one row of
//!    windows has read is still in the L1 cache for the next row.
//! 4. A tap left or right of the image reads zeros; tap rows above or below are skipped.
//! 5. The last tile of a row reaches back over the one before it; both give the same bits.
//! 6. A tile is four or five pixels wide: ten pixels are two tiles of five. Wide ones of one row have the weights of a tap
//!    row in registers.

use std::mem::MaybeUninit;

use spark_gemm::{FloatFormat, WeightMemory};
use spark_quant::QuantError;

use crate::cpu::math;
use crate::cpu::matmul::format::MatmulFormat;
use crate::cpu::memory::AlignedF32;
use crate::cpu::prepared::{Context, FeatureMapReader, Kernel, PreparedStep, Problem, StepError};
use crate::cpu::simd::{Isa, Simd, dispatch};
use crate::cpu::weight_store::Packed;
use crate::plan::LoweredStep;
use crate::plan::{Activation, ConvStep, View, Weights, Window};

/// Pixels of a narrow tile's row.
const LEAST_TX: usize = 4;
/// Pixels of a wide tile's row.
const MOST_TX: usize = 5;
/// Most pixels of one tile.
const MOST: usize = 2 * MOST_TX;
/// Most neighbours under a tile's row: a window of seven, a step of two.
const NEIGHBOURS: usize = 2 * (MOST_TX - 1) + 7;
/// Image elements under a task's rows, per vector of channels: half an L1 cache.
const L1_ELEMENTS: usize = 6 * 1024;
/// Tasks per thread, so that one slow thread does not hold up the others.
const TASKS_PER_THREAD: usize = 4;

/// What a tap outside the image reads.
static ZEROS: [f32; 16] = [0.0; 16];

/// `weights` as `[vector of channels][tap][lane]`.
fn interleaved(weights: &Weights, lanes: usize, memory: &WeightMemory) -> AlignedF32 {
    let taps = weights.taps;
    let mut packed = memory.zeros(taps * weights.groups.next_multiple_of(lanes));
    let to = packed.as_mut_slice();
    for (c, row) in weights.values().chunks_exact(taps.max(1)).enumerate() {
        let start = c / lanes * taps * lanes + c % lanes;
        for (tap, &w) in row.iter().enumerate() {
            to[start + tap * lanes] = w;
        }
    }
    packed
}

/// A depthwise step with its weights packed as `[vector of channels][tap][lane]`.
pub(crate) struct PreparedDepthwise {
    weights: Packed<AlignedF32>,
    bias: Option<AlignedF32>,
    /// Whether results are rounded to bf16, because a GEMM of bf16 reads them.
    rounds_to_bf16: bool,
}

impl PreparedDepthwise {
    /// Packs the weights of `step`.
    fn new(problem: &Problem<'_, ConvStep>) -> Result<Self, QuantError> {
        let (lanes, step) = (problem.cpu.isa.lanes(), problem.step);
        let padded = step.weights.groups.next_multiple_of(lanes);
        let form = (MatmulFormat::F32, 0..step.weights.out_per_group);
        let weights = problem
            .packing
            .packed("depthwise", &step.weights, form, |memory| {
                Ok(interleaved(&step.weights, lanes, memory))
            })?;
        let bias = step.epilogue.bias.as_ref();
        let bias = bias.map(|bias| AlignedF32::padded(bias, padded));
        Ok(Self {
            weights,
            bias,
            rounds_to_bf16: problem.format.rounds_result,
        })
    }

    /// Bytes of the packed weights and of the bias.
    fn weight_bytes(&self) -> usize {
        4 * (self.weights.len() + self.bias.as_ref().map_or(0, AlignedF32::len))
    }

    /// Runs the step.
    fn run(&self, step: &ConvStep, c: &Context<'_>) {
        let Context {
            isa, memory, pool, ..
        } = *c;
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
            unsafe { self.run_part(step, c, image, part) };
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
        step: &ConvStep,
        &Context { isa, memory, .. }: &Context<'_>,
        image: ImageRows,
        part: Part,
    ) {
        let y = &step.y;
        let residual = step.epilogue.residual.as_ref();
        let start = |v: &View| {
            let offset = part.batch as isize * v.axes[0].stride;
            memory.float_format(v).offset_mut(memory.floats(v), offset)
        };
        let job = Block {
            x: image.x,
            x_strides: image.strides,
            extent: [
                step.x.axes[2].extent as isize,
                step.x.axes[3].extent as isize,
            ],
            y: start(y),
            y_format: memory.float_format(y),
            y_strides: [y.axes[2].stride, y.axes[3].stride],
            rows: part.rows,
            width: y.axes[3].extent,
            residual: residual.map_or(std::ptr::null(), |r| start(r).cast_const()),
            residual_format: residual.map_or(FloatFormat::F32, |r| memory.float_format(r)),
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
            rounds_to_bf16: self.rounds_to_bf16,
            isa,
        };
        let job = &job;
        // SAFETY: guaranteed by the caller; `isa` names a set this processor has.
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

/// Rows of the result per task: what they read fits the L1 cache, and every thread has work.
fn rows_per_task(isa: Isa, step: &ConvStep, threads: usize) -> usize {
    let (n, height) = (step.y.axes[0].extent, step.y.axes[2].extent);
    let in_l1 = L1_ELEMENTS / (step.x.axes[3].extent * isa.lanes()).max(1);
    let reach = (step.window.kernel[0] - 1) * step.window.dilation[0];
    let rows = (in_l1.saturating_sub(reach) / step.window.stride[0]).max(1);
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
    y_format: FloatFormat,
    y_strides: [isize; 2],
    /// First row, and the row after the last.
    rows: (usize, usize),
    width: usize,
    residual: *const f32,
    residual_format: FloatFormat,
    residual_strides: [isize; 2],
    /// First channel, and the channel after the last.
    channels: (usize, usize),
    weights: *const f32,
    bias: *const f32,
    window: Window,
    activation: Activation,
    residual_first: bool,
    rounds_to_bf16: bool,
    isa: Isa,
}

impl Block {
    /// Tap rows inside the image, for a window that starts at `origin`.
    fn tap_rows(&self, origin: isize) -> (usize, usize) {
        let d = self.window.dilation[0] as isize;
        let first = if origin < 0 { (-origin + d - 1) / d } else { 0 };
        let below = self.extent[0] - origin;
        let last = if below <= 0 { 0 } else { (below + d - 1) / d };
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
#[derive(Clone, Copy)]
struct Line<'a> {
    block: &'a Block,
    /// Row of the window's first tap, which may lie above the image.
    origin: isize,
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

impl<'a> Line<'a> {
    /// Row `row` of the result, `lanes` channels from `channel` on.
    #[inline(always)]
    fn new(block: &'a Block, row: usize, channel: usize, lanes: usize) -> Self {
        let taps = block.window.kernel[0] * block.window.kernel[1];
        let at = |strides: [isize; 2]| row as isize * strides[0] + channel as isize;
        let or_null = |p: *const f32, format: FloatFormat, offset: isize| match p.is_null() {
            true => p,
            false => format.offset(p, offset),
        };
        Self {
            block,
            origin: (row * block.window.stride[0]) as isize - block.window.pad[0] as isize,
            x: block.x.wrapping_add(channel),
            y: block.y_format.offset_mut(block.y, at(block.y_strides)),
            residual: or_null(
                block.residual,
                block.residual_format,
                at(block.residual_strides),
            ),
            weights: block.weights.wrapping_add(channel * taps),
            bias: or_null(block.bias, FloatFormat::F32, channel as isize),
            lanes,
        }
    }
}

#[inline(always)]
unsafe fn block_kernel<S: Simd>(job: &Block) {
    let window = &job.window;
    let is_shared = window.dilation == [1, 1] && job.width >= LEAST_TX;
    let step = if is_shared { window.stride[1] } else { 0 };
    let mut channel = job.channels.0;
    while channel < job.channels.1 {
        let lanes = S::LANES.min(job.channels.1 - channel);
        // SAFETY: rows and channels exist; weights and bias are padded to whole vectors.
        unsafe {
            match (lanes == S::LANES, window.kernel[1], step) {
                (true, 3, 1) => shared_rows::<S, 3, 1>(job, channel),
                (true, 3, 2) => shared_rows::<S, 3, 2>(job, channel),
                (true, 5, 1) => shared_rows::<S, 5, 1>(job, channel),
                (true, 5, 2) => shared_rows::<S, 5, 2>(job, channel),
                (true, 7, 1) => shared_rows::<S, 7, 1>(job, channel),
                (true, 7, 2) => shared_rows::<S, 7, 2>(job, channel),
                (true, ..) => {
                    for row in job.rows.0..job.rows.1 {
                        walk::<S, true>(&Line::new(job, row, channel, lanes));
                    }
                }
                _ => {
                    for row in job.rows.0..job.rows.1 {
                        walk::<S, false>(&Line::new(job, row, channel, lanes));
                    }
                }
            }
        }
        channel += S::LANES;
    }
}

/// Whether tiles under a window `KW` wide that moves by `SX` have two rows. Sixteen registers hold eight sums and the six
/// neighbours under the smallest window.
const fn has_two_rows<S: Simd, const KW: usize, const SX: usize>() -> bool {
    S::REGISTERS > 16 || KW == 3 && SX == 1
}

/// Whether tiles under such a window may be [`MOST_TX`] pixels wide. With sixteen registers a row of them has the weights of
/// a tap row in registers, and is quicker where a window has so many products that the sums of four pixels wait for one
/// another.
const fn may_be_wide<S: Simd, const KW: usize>() -> bool {
    S::REGISTERS > 16 || KW > 3
}

/// Whether rows of `width` pixels are cut into tiles of [`MOST_TX`]: where they compute no more pixels than narrow ones.
fn is_wide_better(width: usize) -> bool {
    width >= MOST_TX && width.next_multiple_of(MOST_TX) <= width.next_multiple_of(LEAST_TX)
}

/// The rows of one vector of channels, under a window `KW` wide that moves by `SX`.
#[inline(always)]
unsafe fn shared_rows<S: Simd, const KW: usize, const SX: usize>(job: &Block, channel: usize) {
    // SAFETY: forwarded; rows have at least as many pixels as the tiles.
    unsafe {
        match may_be_wide::<S, KW>() && is_wide_better(job.width) {
            true => rows_of_tiles::<S, MOST_TX, KW, SX>(job, channel),
            false => rows_of_tiles::<S, LEAST_TX, KW, SX>(job, channel),
        }
    }
}

/// The same in tiles of `TX` pixels a row.
#[inline(always)]
unsafe fn rows_of_tiles<S: Simd, const TX: usize, const KW: usize, const SX: usize>(
    job: &Block,
    channel: usize,
) {
    if TX > LEAST_TX && !may_be_wide::<S, KW>() {
        // Never called; saying so keeps its code from being generated.
        return;
    }
    let line = |row| Line::new(job, row, channel, S::LANES);
    let (mut row, last) = job.rows;
    // SAFETY: rows stay below `last`.
    unsafe {
        while has_two_rows::<S, KW, SX>() && row + 2 <= last {
            tiles::<S, 2, TX, KW, SX>(&[line(row), line(row + 1)]);
            row += 2;
        }
        while row < last {
            tiles::<S, 1, TX, KW, SX>(&[line(row)]);
            row += 1;
        }
    }
}

/// Some rows in tiles of `TX` pixels.
#[inline(always)]
unsafe fn tiles<S: Simd, const R: usize, const TX: usize, const KW: usize, const SX: usize>(
    lines: &[Line<'_>; R],
) {
    let block = lines[0].block;
    let reach = (SX * (TX - 1) + KW) as isize;
    let mut ox = 0;
    // SAFETY: there are `TX` pixels at least, and tiles end at the last one.
    unsafe {
        loop {
            let first = (ox * SX) as isize - block.window.pad[1] as isize;
            if first >= 0 && first + reach <= block.extent[1] {
                tile::<S, R, TX, KW, SX, false>(lines, ox);
            } else {
                tile::<S, R, TX, KW, SX, true>(lines, ox);
            }
            if ox + TX == block.width {
                return;
            }
            ox = (ox + TX).min(block.width - TX);
        }
    }
}

/// `TX` pixels from `ox` on of every line.
#[inline(always)]
#[allow(
    clippy::needless_range_loop,
    reason = "constant bounds unroll, iterators may not"
)]
unsafe fn tile<
    S: Simd,
    const R: usize,
    const TX: usize,
    const KW: usize,
    const SX: usize,
    const BORDER: bool,
>(
    lines: &[Line<'_>; R],
    ox: usize,
) {
    let line = &lines[0];
    let block = line.block;
    let [height, step] = [block.window.kernel[0], block.window.stride[0]];
    let first = (ox * SX) as isize - block.window.pad[1] as isize;
    // Rows of the image under the lines' windows, from the first window's first.
    let begin = (-line.origin).max(0);
    let end = (block.extent[0] - line.origin).min(((R - 1) * step + height) as isize);
    // SAFETY: rows are inside the image, columns too or replaced by zeros.
    unsafe {
        let mut acc = [[init_accumulator::<S>(line); TX]; R];
        for y in begin..end {
            let row = line
                .x
                .wrapping_offset((line.origin + y) * block.x_strides[0]);
            if TX > LEAST_TX && !has_two_rows::<S, KW, SX>() {
                let w = line.weights.add(y as usize * KW * S::LANES);
                let w: [S::V; KW] = std::array::from_fn(|kx| S::load(w.add(kx * S::LANES)));
                do_for!(j in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 => {
                    if j < SX * (TX - 1) + KW {
                        let x = S::load(pixel::<BORDER>(block, row, first + j as isize));
                        for kx in 0..KW {
                            if j >= kx && (j - kx).is_multiple_of(SX) && (j - kx) / SX < TX {
                                let i = (j - kx) / SX;
                                acc[0][i] = S::fma(x, w[kx], acc[0][i]);
                            }
                        }
                    }
                });
                continue;
            }
            let mut xs = [S::splat(0.0); NEIGHBOURS];
            for j in 0..SX * (TX - 1) + KW {
                xs[j] = S::load(pixel::<BORDER>(block, row, first + j as isize));
            }
            for r in 0..R {
                let ky = (y as usize).wrapping_sub(r * step);
                if ky < height {
                    let w = line.weights.add(ky * KW * S::LANES);
                    for kx in 0..KW {
                        let weight = S::load(w.add(kx * S::LANES));
                        for i in 0..TX {
                            acc[r][i] = S::fma(xs[i * SX + kx], weight, acc[r][i]);
                        }
                    }
                }
            }
        }
        apply_epilogue_and_store::<S, R, TX, true>(lines, ox, acc);
    }
}

/// The bias of a line.
#[inline(always)]
unsafe fn init_accumulator<S: Simd>(line: &Line<'_>) -> S::V {
    // SAFETY: the bias, if any, is padded to whole vectors.
    unsafe {
        match line.bias.is_null() {
            true => S::splat(0.0),
            false => S::load(line.bias),
        }
    }
}

/// The pixels of a line under any window.
#[inline(always)]
unsafe fn walk<S: Simd, const WHOLE: bool>(line: &Line<'_>) {
    let width = line.block.width;
    // SAFETY: pixels stay below `width`.
    unsafe {
        for ox in (0..width / 4).map(|i| 4 * i) {
            run::<S, 4, WHOLE>(line, ox);
        }
        for ox in width / 4 * 4..width {
            run::<S, 1, WHOLE>(line, ox);
        }
    }
}

#[inline(always)]
unsafe fn load<S: Simd, const WHOLE: bool>(p: *const f32, lanes: usize) -> S::V {
    // SAFETY: guaranteed by the caller, `lanes` elements are readable.
    unsafe {
        if WHOLE {
            S::load(p)
        } else {
            S::load_first(p, lanes)
        }
    }
}

/// `N` pixels from `ox` on.
#[inline(always)]
unsafe fn run<S: Simd, const N: usize, const WHOLE: bool>(line: &Line<'_>, ox: usize) {
    // SAFETY: forwarded. Whether a tap can lie outside is decided here, not at every tap.
    unsafe {
        let mut acc = [init_accumulator::<S>(line); N];
        match line.block.is_inside(ox, N) {
            true => add_taps::<S, N, WHOLE, false>(line, ox, &mut acc),
            false => add_taps::<S, N, WHOLE, true>(line, ox, &mut acc),
        }
        apply_epilogue_and_store::<S, 1, N, WHOLE>(&[*line], ox, [acc]);
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

/// Adds all taps of any window.
#[inline(always)]
#[allow(
    clippy::needless_range_loop,
    reason = "constant bounds unroll, iterators may not"
)]
unsafe fn add_taps<S: Simd, const N: usize, const WHOLE: bool, const BORDER: bool>(
    line: &Line<'_>,
    ox: usize,
    acc: &mut [S::V; N],
) {
    let block = line.block;
    let window = &block.window;
    let origin = (ox * window.stride[1]) as isize - window.pad[1] as isize;
    // SAFETY: tap rows are inside the image, columns too or replaced by zeros.
    unsafe {
        let (first, last) = block.tap_rows(line.origin);
        for ky in first..last {
            let y = line.origin + (ky * window.dilation[0]) as isize;
            let row = line.x.wrapping_offset(y * block.x_strides[0]);
            let mut w = line.weights.add(ky * window.kernel[1] * S::LANES);
            for kx in 0..window.kernel[1] {
                let weight = S::load(w);
                let column = origin + (kx * window.dilation[1]) as isize;
                for i in 0..N {
                    let p = pixel::<BORDER>(block, row, column + (i * window.stride[1]) as isize);
                    acc[i] = S::fma(load::<S, WHOLE>(p, line.lanes), weight, acc[i]);
                }
                w = w.wrapping_add(S::LANES);
            }
        }
    }
}

/// Residual, activation, rounding, store.
#[inline(always)]
#[allow(
    clippy::needless_range_loop,
    reason = "constant bounds unroll, iterators may not"
)]
unsafe fn apply_epilogue_and_store<S: Simd, const R: usize, const N: usize, const WHOLE: bool>(
    lines: &[Line<'_>; R],
    ox: usize,
    mut acc: [[S::V; N]; R],
) {
    let block = lines[0].block;
    let lanes = lines[0].lanes;
    let has_residual = !lines[0].residual.is_null();
    let residual = |r: usize, i: usize| {
        let offset = (ox + i) as isize * block.residual_strides[1];
        let p = block.residual_format.offset(lines[r].residual, offset);
        // SAFETY: the caller vouches for pixels and channels.
        unsafe {
            match block.residual_format {
                FloatFormat::F32 => load::<S, WHOLE>(p, lanes),
                FloatFormat::Bf16 if WHOLE => S::load_bf16(p.cast()),
                FloatFormat::Bf16 => S::load_first_bf16(p.cast(), lanes),
            }
        }
    };
    // SAFETY: the caller vouches for pixels and channels.
    unsafe {
        if block.residual_first && has_residual {
            for r in 0..R {
                for i in 0..N {
                    acc[r][i] = S::add(acc[r][i], residual(r, i));
                }
            }
        }
        match block.activation {
            Activation::None => {}
            Activation::Clamp { low, high } => {
                // The bound first: `max` and `min` give the second operand for NaN.
                let bound = S::splat(low);
                for r in 0..R {
                    for i in 0..N {
                        acc[r][i] = S::max(bound, acc[r][i]);
                    }
                }
                // ReLU has one bound.
                if high < f32::INFINITY {
                    let bound = S::splat(high);
                    for r in 0..R {
                        for i in 0..N {
                            acc[r][i] = S::min(bound, acc[r][i]);
                        }
                    }
                }
            }
            Activation::Function(function) => {
                // One call for all, through memory that stays in the L1 cache.
                let mut values = [MaybeUninit::<f32>::uninit(); MOST * 16];
                let values = values.as_mut_ptr().cast::<f32>();
                for r in 0..R {
                    for i in 0..N {
                        S::store(values.add((r * N + i) * S::LANES), acc[r][i]);
                    }
                }
                let stored = std::slice::from_raw_parts_mut(values, R * N * S::LANES);
                math::apply(block.isa, function, stored);
                for r in 0..R {
                    for i in 0..N {
                        acc[r][i] = S::load(values.add((r * N + i) * S::LANES));
                    }
                }
            }
        }
        if !block.residual_first && has_residual {
            for r in 0..R {
                for i in 0..N {
                    acc[r][i] = S::add(acc[r][i], residual(r, i));
                }
            }
        }
        if block.y_format == FloatFormat::Bf16 {
            for r in 0..R {
                for i in 0..N {
                    let offset = (ox + i) as isize * block.y_strides[1];
                    let y = block.y_format.offset_mut(lines[r].y, offset).cast();
                    match WHOLE {
                        true => S::store_bf16(y, acc[r][i]),
                        false => S::store_first_bf16(y, acc[r][i], lanes),
                    }
                }
            }
            return;
        }
        if block.rounds_to_bf16 {
            for r in 0..R {
                for i in 0..N {
                    acc[r][i] = S::round_bf16(acc[r][i]);
                }
            }
        }
        for r in 0..R {
            for i in 0..N {
                let y = lines[r]
                    .y
                    .wrapping_offset((ox + i) as isize * block.y_strides[1]);
                if WHOLE {
                    S::store(y, acc[r][i]);
                } else {
                    S::store_first(y, acc[r][i], lanes);
                }
            }
        }
    }
}

/// The kernel of a convolution in which every channel sees only itself; it can also read its operand
/// while another kernel computes it (`fused`).
pub(crate) struct Depthwise {
    /// The step without its weights.
    pub(super) step: ConvStep,
    /// Its packed weights and bias.
    pub(super) prepared: PreparedDepthwise,
}

impl Kernel<ConvStep> for Depthwise {
    fn can_implement(problem: &Problem<'_, ConvStep>) -> bool {
        problem.step.is_depthwise()
    }

    fn packing_bytes(problem: &Problem<'_, ConvStep>) -> usize {
        let weights = &problem.step.weights;
        let padded = weights.groups.next_multiple_of(problem.cpu.isa.lanes());
        padded.saturating_mul(8 * weights.taps + 8)
    }

    fn never_bf16<'p>(problem: &Problem<'p, ConvStep>) -> Vec<&'p View> {
        vec![&problem.step.x]
    }

    fn prepare(problem: &Problem<'_, ConvStep>) -> Result<Self, QuantError> {
        let prepared = PreparedDepthwise::new(problem)?;
        let mut step = problem.step.clone();
        step.forget_weights();
        Ok(Self { step, prepared })
    }
}

impl PreparedStep for Depthwise {
    fn run(&self, c: &Context<'_>) -> Result<(), StepError> {
        self.prepared.run(&self.step, c);
        Ok(())
    }

    fn weight_bytes(&self) -> usize {
        self.prepared.weight_bytes()
    }

    fn rounds_results(&self) -> bool {
        true
    }

    fn feature_map_reader(&self) -> Option<&dyn FeatureMapReader> {
        Some(self)
    }
}
