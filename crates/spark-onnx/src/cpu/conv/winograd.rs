//! 3x3 convolution by Winograd's transform: 16 products where the sum over taps takes 36.
//!
//! ```text
//! tile     2x2 results of a 4x4 part of the image, neighbours two pixels apart
//!
//! U[p] = (G w G')[p]            16 matrices [in, out], at load, in f64, of rounded weights
//! V[p] = (B' d B)[p]            16 matrices [tiles, in], for a block of tiles
//! M[p] = V[p] U[p]              16 GEMM on the micro-kernel
//! y    = epilogue(A' M A)       2x2 results of every tile
//!
//!      | 1   0   0  |        | 1  0 -1  0 |
//!  G = | .5  .5  .5 |   B' = | 0  1  1  0 |   A' = | 1  1  1  0 |
//!      | .5 -.5  .5 |        | 0 -1  1  0 |        | 0  1 -1 -1 |
//!      | 0   0   1  |        | 0  1  0 -1 |
//! ```
//!
//! The transforms of this size only add, and halve weights, so that results are held to the bound
//! of the sum over taps in the tests. Larger tiles save more products and lose digits.
//!
//! A block's `V` and `M` stay in a core's L2 cache; the order of additions is that of the
//! micro-kernel, so no result depends on its block or on the number of threads.
//!
//! Source: A. Lavin, S. Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016,
//! F(2x2, 3x3).
//!
//! Deliberately absent: strides and dilation, groups, weights packed in 16 bits.

use std::sync::Mutex;

use spark_gemm::{
    FloatFormat, Gemm, PackedLayout, TileEpilogue, TileOutput, WeightMemory,
    apply_epilogue_and_store, gemm_panel, init_accumulators, packed_len, panels,
};
use spark_quant::QuantError;

use super::winograd_shape::{LEAST_TILES, has_shape, tiles};
use crate::cpu::math;
use crate::cpu::matmul::format::MatmulFormat;
use crate::cpu::memory::AlignedF32;
use crate::cpu::prepared::{Context, Cpu, Kernel, PreparedStep, Problem, StepError};
use crate::cpu::simd::{Isa, Simd, dispatch};
use crate::cpu::weight_store::Packed;
use crate::cpu::workspace::WorkspaceSize;
use crate::plan::LoweredStep;
use crate::plan::{ConvStep, Weights};
use crate::precision::sixteen_bits::round_values;

/// Positions of a transformed tile.
const POSITIONS: usize = 16;
/// Positions of the window.
const TAPS: usize = 9;
/// Elements of a block's `V` and `M`: half an L2 cache.
const BLOCK_ELEMENTS: usize = 256 << 10;
/// Most tiles of a block.
const MOST_TILES: usize = 96;

/// Tiles of a block: as many as the cache holds, as even as possible, one block per thread at
/// least while blocks are not small.
fn tiles_per_block(step: &ConvStep, threads: usize) -> usize {
    let channels = step.weights.in_per_group + step.weights.out_per_group;
    let most = (BLOCK_ELEMENTS / (POSITIONS * channels)).clamp(LEAST_TILES, MOST_TILES);
    let tiles = tiles(step).iter().product::<usize>();
    let blocks = tiles.div_ceil(most).max(threads.min(tiles / 8)).max(1);
    tiles.div_ceil(blocks)
}

/// Elements of scratch a thread needs if the step is ever computed here: `V`, `M`, and a row for
/// results beyond the image.
fn scratch_len(isa: Isa, step: &ConvStep, threads: usize) -> usize {
    if !has_shape(step) {
        return 0;
    }
    let (depth, n) = (step.weights.in_per_group, step.weights.out_per_group);
    let block = tiles_per_block(step, threads);
    POSITIONS * (apart(block * depth) + apart(block * n)) + n.next_multiple_of(isa.lanes())
}

/// Elements from one of 16 matrices of `len` elements to the next: an odd number of cache lines,
/// so that the places a tile is written to do not all fall into one set of the L1 cache.
fn apart(len: usize) -> usize {
    const LINE: usize = 16;
    (len.div_ceil(LINE) | 1) * LINE
}

/// A convolution step with its weights transformed.
struct PreparedWinograd {
    /// 16 packed matrices, one after the other.
    weights: Packed<AlignedF32>,
    /// Padded to whole vectors.
    bias: Option<AlignedF32>,
    /// A pixel outside the image.
    zeros: AlignedF32,
    format: MatmulFormat,
}

impl PreparedWinograd {
    /// Transforms the weights of `step`, which [`Winograd`] can implement.
    fn new(problem: &Problem<'_, ConvStep>) -> Result<Self, QuantError> {
        let (cpu, step, format) = (problem.cpu, problem.step, problem.format);
        let isa = cpu.isa;
        let (depth, n) = (step.weights.in_per_group, step.weights.out_per_group);
        let bias = step.epilogue.bias.as_ref();
        let bias = bias.map(|bias| AlignedF32::padded(bias, n.next_multiple_of(isa.lanes())));
        let weights = &step.weights;
        let weights = problem
            .packing
            .packed("winograd2x3", weights, (format, 0..n), |memory| {
                Ok(transformed(cpu, weights, format, memory))
            })?;
        Ok(Self {
            weights,
            format,
            bias,
            zeros: AlignedF32::zeros(depth),
        })
    }

    /// Bytes of transformed weights.
    fn weight_bytes(&self) -> usize {
        4 * (self.weights.len() + self.bias.as_ref().map_or(0, AlignedF32::len))
    }

    /// Runs the step; every thread takes [`scratch_len`] elements of the scratch.
    fn run(&self, step: &ConvStep, c: &Context<'_>) {
        let Context {
            isa,
            memory,
            pool,
            scratch,
        } = *c;
        let residual = step.epilogue.residual.as_ref();
        let image = Image {
            step,
            x: memory.f32(&step.x),
            y: memory.f32(&step.y),
            residual: residual.map_or(std::ptr::null(), |r| memory.f32(r).cast_const()),
            zeros: self.zeros.as_slice().as_ptr(),
            epilogue: TileEpilogue {
                bias: self
                    .bias
                    .as_ref()
                    .map_or(std::ptr::null(), |b| b.as_slice().as_ptr()),
                activation: math::activation(step.epilogue.activation),
                residual_first: step.epilogue.residual_first,
                rounds_to_bf16: self.format.rounds_result,
                ..TileEpilogue::none(isa)
            },
        };
        let per_image = tiles(step).iter().product::<usize>();
        let per_block = tiles_per_block(step, pool.threads());
        let blocks = per_image.div_ceil(per_block);
        let count = step.y.axes[0].extent * blocks;
        let image = &image;
        pool.run_in_slots(count, |slot, index| {
            let (batch, block) = (index / blocks, index % blocks);
            let first = block * per_block;
            let last = per_image.min(first + per_block);
            // SAFETY: views were checked at load and channel strides are 1 by the step's contract;
            // slots have scratch of their own, blocks results of their own.
            unsafe { self.block(isa, image, batch, first..last, scratch.part(slot)) };
        });
    }

    /// # Safety
    ///
    /// The image's pointers must be valid for its step, its results in these tiles not be touched
    /// elsewhere, and `scratch` be writable for [`scratch_len`] elements.
    unsafe fn block(
        &self,
        isa: Isa,
        image: &Image<'_>,
        batch: usize,
        tiles: std::ops::Range<usize>,
        scratch: *mut f32,
    ) {
        let (depth, n) = (
            image.step.weights.in_per_group,
            image.step.weights.out_per_group,
        );
        let rows = tiles.len();
        let (v_apart, m_apart) = (apart(rows * depth), apart(rows * n));
        let v = scratch;
        let m = v.wrapping_add(POSITIONS * v_apart);
        let sink = m.wrapping_add(POSITIONS * m_apart);
        for (row, tile) in tiles.clone().enumerate() {
            let pixels = image.pixels(batch, tile);
            let to = v.wrapping_add(row * depth);
            // SAFETY: pixels are in the image or zeros; `to` is a row of `V`.
            unsafe {
                dispatch!(isa, transform_image(
                    pixels: &[*const f32; POSITIONS], to: *mut f32, apart: usize, depth: usize,
                ) => (&pixels, to, v_apart, depth));
            }
        }
        let product = Gemm {
            x: v,
            x_format: FloatFormat::F32,
            x_stride: depth as isize,
            y: m,
            y_stride: n as isize,
            residual: std::ptr::null(),
            residual_stride: 0,
            m: rows,
            k: depth,
            n,
            layout: PackedLayout::F32,
            epilogue: TileEpilogue::none(isa),
        };
        let matrix = packed_len(isa, depth, n);
        for position in 0..POSITIONS {
            let product = Gemm {
                x: v.wrapping_add(position * v_apart),
                y: m.wrapping_add(position * m_apart),
                ..product
            };
            let w = self.weights.as_slice()[position * matrix..].as_ptr();
            for panel in panels(isa, n) {
                // SAFETY: `V`, `M` and the packed matrix are as long as the product says.
                unsafe { gemm_panel(isa, &product, w, panel, (0, rows)) };
            }
        }
        for (row, tile) in tiles.enumerate() {
            let results = image.results(batch, tile, sink);
            let from = m.wrapping_add(row * n);
            // SAFETY: results are in the image or the row for those beyond it.
            unsafe {
                dispatch!(isa, transform_results(
                    from: *const f32, apart: usize, n: usize, results: &TileOutput<'_>,
                ) => (from, m_apart, n, &results));
            }
        }
    }
}

/// An image and the result made of it.
struct Image<'a> {
    step: &'a ConvStep,
    x: *const f32,
    y: *mut f32,
    residual: *const f32,
    zeros: *const f32,
    epilogue: TileEpilogue,
}

// SAFETY: the pointers go into buffers that outlive the run; blocks write disjoint parts.
unsafe impl Sync for Image<'_> {}

impl Image<'_> {
    /// Row and column of a tile's first result.
    fn origin(&self, tile: usize) -> [usize; 2] {
        let across = tiles(self.step)[1];
        [tile / across * 2, tile % across * 2]
    }

    /// The 4x4 pixels under a tile, row by row.
    fn pixels(&self, batch: usize, tile: usize) -> [*const f32; POSITIONS] {
        let (axes, pad) = (&self.step.x.axes, self.step.window.pad);
        let origin = self.origin(tile);
        let [top, left] = [0, 1].map(|a| origin[a] as isize - pad[a] as isize);
        let image = self.x.wrapping_offset(batch as isize * axes[0].stride);
        std::array::from_fn(|position| {
            let (y, x) = (
                top + (position / 4) as isize,
                left + (position % 4) as isize,
            );
            let inside = (0..axes[2].extent as isize).contains(&y)
                && (0..axes[3].extent as isize).contains(&x);
            match inside {
                true => image.wrapping_offset(y * axes[2].stride + x * axes[3].stride),
                false => self.zeros,
            }
        })
    }

    /// The 2x2 results of a tile; `sink` takes those beyond the image.
    fn results(&self, batch: usize, tile: usize, sink: *mut f32) -> TileOutput<'_> {
        let axes = &self.step.y.axes;
        let [top, left] = self.origin(tile);
        let places: [Option<[isize; 3]>; 4] = std::array::from_fn(|i| {
            let (y, x) = (top + i / 2, left + i % 2);
            let inside = y < axes[2].extent && x < axes[3].extent;
            inside.then_some([batch as isize, y as isize, x as isize])
        });
        let offset = |view: &crate::plan::View, [n, y, x]: [isize; 3]| {
            n * view.axes[0].stride + y * view.axes[2].stride + x * view.axes[3].stride
        };
        let residual = self.step.epilogue.residual.as_ref();
        TileOutput {
            y: std::array::from_fn(|i| match places[i.min(3)] {
                Some(place) => self.y.wrapping_offset(offset(&self.step.y, place)),
                None => sink,
            }),
            residual: std::array::from_fn(|i| match (residual, places[i.min(3)]) {
                (Some(view), Some(place)) => self.residual.wrapping_offset(offset(view, place)),
                (Some(_), None) => sink,
                (None, _) => std::ptr::null(),
            }),
            columns: self.step.weights.out_per_group,
            epilogue: &self.epilogue,
        }
    }
}

/// `G w G'` of every pair of channels, packed as 16 matrices; sums in f64, rounded once.
fn transformed(
    cpu: Cpu<'_>,
    weights: &Weights,
    format: MatmulFormat,
    memory: &WeightMemory,
) -> AlignedF32 {
    let Cpu { isa, pool } = cpu;
    let (depth, n) = (weights.in_per_group, weights.out_per_group);
    let matrix = packed_len(isa, depth, n);
    let mut packed = memory.zeros(POSITIONS * matrix);
    // A job is a panel of every matrix.
    let mut jobs: Vec<_> = panels(isa, n).map(|panel| (panel, Vec::new())).collect();
    for matrix in packed.as_mut_slice().chunks_exact_mut(matrix) {
        let mut rest = matrix;
        for (panel, parts) in &mut jobs {
            let (part, after) = rest.split_at_mut(depth * panel.vectors * isa.lanes());
            parts.push(part);
            rest = after;
        }
    }
    let jobs: Vec<_> = jobs.into_iter().map(Mutex::new).collect();
    pool.run(jobs.len(), |index| {
        let mut job = match jobs[index].lock() {
            Ok(job) => job,
            Err(poisoned) => poisoned.into_inner(),
        };
        let (panel, parts) = &mut *job;
        let width = panel.vectors * isa.lanes();
        let columns = panel.column..n.min(panel.column + width);
        let mut taps = vec![0.0_f32; TAPS * depth * width];
        weights.write(0, columns, &mut taps, width);
        round_values(format.precision, &mut taps);
        for channel in 0..depth {
            let of_channel: [&[f32]; TAPS] =
                std::array::from_fn(|tap| &taps[(tap * depth + channel) * width..][..width]);
            let at = channel * width;
            // SAFETY: `isa` names a set this processor has.
            unsafe {
                dispatch!(isa, transform_weights(
                    taps: &[&[f32]; TAPS], parts: &mut [&mut [f32]], at: usize, width: usize,
                ) => (&of_channel, parts, at, width));
            }
        }
    });
    drop(jobs);
    packed
}

/// `G w G'` of `width` columns of one input channel: position `p` goes to `parts[p]` from `at` on.
#[inline(always)]
#[allow(
    clippy::needless_range_loop,
    reason = "constant bounds unroll, iterators may not"
)]
#[allow(
    clippy::extra_unused_type_parameters,
    reason = "it says which instruction set the function is compiled for"
)]
unsafe fn transform_weights<S: Simd>(
    taps: &[&[f32]; TAPS],
    parts: &mut [&mut [f32]],
    at: usize,
    width: usize,
) {
    const STEP: usize = 8;
    let mut first = 0;
    while first < width {
        // Panels are whole vectors, whose lanes divide or are a multiple of a step's.
        let n = STEP.min(width - first);
        let mut tap = [[0.0_f64; STEP]; TAPS];
        for t in 0..TAPS {
            for j in 0..n {
                tap[t][j] = f64::from(taps[t][first + j]);
            }
        }
        for y in 0..4 {
            let mut column = [[0.0_f64; STEP]; 3];
            for x in 0..3 {
                column[x] = row_of_g(y, [&tap[x], &tap[3 + x], &tap[6 + x]]);
            }
            for x in 0..4 {
                let result = row_of_g(x, [&column[0], &column[1], &column[2]]);
                let to = &mut parts[y * 4 + x][at + first..][..n];
                for j in 0..n {
                    to[j] = result[j] as f32;
                }
            }
        }
        first += n;
    }
}

/// A row of `G` times three values, of several columns.
#[inline(always)]
fn row_of_g<const N: usize>(row: usize, [a, b, c]: [&[f64; N]; 3]) -> [f64; N] {
    let mut result = [0.0; N];
    for j in 0..N {
        result[j] = match row {
            0 => a[j],
            1 => 0.5 * (a[j] + b[j] + c[j]),
            2 => 0.5 * (a[j] - b[j] + c[j]),
            _ => c[j],
        };
    }
    result
}

/// `B' d B` of the pixels of a tile: position `p` goes to `to + p * apart`.
#[inline(always)]
#[allow(
    clippy::needless_range_loop,
    reason = "constant bounds unroll, iterators may not"
)]
unsafe fn transform_image<S: Simd>(
    pixels: &[*const f32; POSITIONS],
    to: *mut f32,
    apart: usize,
    depth: usize,
) {
    // SAFETY: every pixel and row of `V` has `depth` elements guaranteed by the caller.
    unsafe {
        let mut channel = 0;
        while channel < depth {
            let lanes = (depth - channel).min(S::LANES);
            // Loops, not closures, which are compiled without the instruction set.
            let mut d = [S::splat(0.0); POSITIONS];
            for p in 0..POSITIONS {
                d[p] = load_some::<S>(pixels[p].add(channel), lanes);
            }
            let mut t = d;
            for x in 0..4 {
                let column = [d[x], d[4 + x], d[8 + x], d[12 + x]];
                let transposed = image_line::<S>(column);
                for y in 0..4 {
                    t[4 * y + x] = transposed[y];
                }
            }
            for y in 0..4 {
                let line = image_line::<S>([t[4 * y], t[4 * y + 1], t[4 * y + 2], t[4 * y + 3]]);
                for x in 0..4 {
                    let place = to.add((4 * y + x) * apart + channel);
                    match lanes == S::LANES {
                        true => S::store(place, line[x]),
                        false => S::store_first(place, line[x], lanes),
                    }
                }
            }
            channel += lanes;
        }
    }
}

/// `B'` times four values.
#[inline(always)]
unsafe fn image_line<S: Simd>(d: [S::V; 4]) -> [S::V; 4] {
    // SAFETY: the caller's processor has the instruction set.
    unsafe {
        [
            S::sub(d[0], d[2]),
            S::add(d[1], d[2]),
            S::sub(d[2], d[1]),
            S::sub(d[1], d[3]),
        ]
    }
}

/// `A' M A` of one tile, whose position `p` starts at `from + p * apart`, and what follows.
#[inline(always)]
#[allow(
    clippy::needless_range_loop,
    reason = "constant bounds unroll, iterators may not"
)]
unsafe fn transform_results<S: Simd>(
    from: *const f32,
    apart: usize,
    n: usize,
    results: &TileOutput<'_>,
) {
    // SAFETY: rows of `M` and results have `n` elements guaranteed by the caller, the bias is padded.
    unsafe {
        let mut column = 0;
        while column < n {
            let lanes = (n - column).min(S::LANES);
            let mut m = [S::splat(0.0); POSITIONS];
            for p in 0..POSITIONS {
                m[p] = load_some::<S>(from.add(p * apart + column), lanes);
            }
            let mut top = [[S::splat(0.0); 2]; 4];
            for x in 0..4 {
                top[x] = result_line::<S>([m[x], m[4 + x], m[8 + x], m[12 + x]]);
            }
            let epilogue = TileEpilogue {
                bias: match results.epilogue.bias.is_null() {
                    true => results.epilogue.bias,
                    false => results.epilogue.bias.add(column),
                },
                ..*results.epilogue
            };
            let mut acc = init_accumulators::<S, 1, 4>(&epilogue);
            for y in 0..2 {
                let line = result_line::<S>([top[0][y], top[1][y], top[2][y], top[3][y]]);
                for x in 0..2 {
                    acc[2 * y + x][0] = S::add(acc[2 * y + x][0], line[x]);
                }
            }
            let part = TileOutput {
                y: results.y.map(|y| y.wrapping_add(column)),
                residual: match results.residual[0].is_null() {
                    true => results.residual,
                    false => results.residual.map(|r| r.wrapping_add(column)),
                },
                columns: lanes,
                epilogue: &epilogue,
            };
            apply_epilogue_and_store::<S, 1, 4>(&part, acc);
            column += lanes;
        }
    }
}

/// `A'` times four values.
#[inline(always)]
unsafe fn result_line<S: Simd>(m: [S::V; 4]) -> [S::V; 2] {
    // SAFETY: the caller's processor has the instruction set.
    unsafe {
        [
            S::add(S::add(m[0], m[1]), m[2]),
            S::sub(S::sub(m[1], m[2]), m[3]),
        ]
    }
}

/// The first `lanes` elements, zero in the others.
#[inline(always)]
unsafe fn load_some<S: Simd>(from: *const f32, lanes: usize) -> S::V {
    // SAFETY: the caller vouches for `lanes` elements.
    unsafe {
        match lanes == S::LANES {
            true => S::load(from),
            false => S::load_first(from, lanes),
        }
    }
}

/// 3x3 convolution by the transform of 2x2 results.
pub(crate) struct Winograd {
    /// Without its weights.
    step: ConvStep,
    prepared: PreparedWinograd,
}

impl Kernel<ConvStep> for Winograd {
    fn can_implement(problem: &Problem<'_, ConvStep>) -> bool {
        problem.format.layout == PackedLayout::F32 && has_shape(problem.step)
    }

    fn packing_bytes(problem: &Problem<'_, ConvStep>) -> usize {
        let weights = &problem.step.weights;
        problem.format.packing_bytes(problem.cpu, weights)
    }

    fn prepare(problem: &Problem<'_, ConvStep>) -> Result<Self, QuantError> {
        let prepared = PreparedWinograd::new(problem)?;
        let mut step = problem.step.clone();
        step.forget_weights();
        Ok(Self { step, prepared })
    }
}

impl PreparedStep for Winograd {
    fn run(&self, c: &Context<'_>) -> Result<(), StepError> {
        self.prepared.run(&self.step, c);
        Ok(())
    }

    fn operands(&self) -> &'static str {
        self.prepared.format.operands()
    }

    fn weight_bytes(&self) -> usize {
        self.prepared.weight_bytes()
    }

    fn workspace_size(&self, cpu: Cpu<'_>) -> WorkspaceSize {
        WorkspaceSize::scratch(scratch_len(cpu.isa, &self.step, cpu.pool.threads()))
    }

    fn rounds_results(&self) -> bool {
        true
    }
}
