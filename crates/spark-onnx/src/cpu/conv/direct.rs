//! Convolution, plain and transposed, grouped or not, without unrolling the image.
//!
//! ```text
//! pixel m of the result -> MR pixels make a tile
//! inside  every tap of every pixel is in the image: row pointer + constant offset per tap
//! border  per tap and pixel: a row of the image, or a row of zeros
//! ```
//!
//! Where a row of the result has many pixels, those inside are evenly spaced rows of a GEMM whose depth is summed over
//! taps: one call computes them (`gemm_panel_taps`), with the bits of tiles.
//!
//! Where the result has few channels, segments of a row are computed instead (`register_tiled`).
//!
//! A transposed convolution is the same sum over the taps whose stride lands on a
//! source pixel; the others read zeros.

use std::ops::Range;

use spark_gemm::{
    FloatFormat, Gemm, MAX_ROWS, PackedLayout, Panel, Prefetch, TapRows, Tile, TileEpilogue,
    TileOutput, TileShape, full_rows, gemm_panel_taps, has_panel_taps, next_rows, panel_offset,
    panels, panels_of_part,
};
use spark_quant::QuantError;

use super::register_tiled::{self, Segment};
use crate::cpu::math;
use crate::cpu::matmul::format::MatmulFormat;
use crate::cpu::matmul::gemm::{TASKS_PER_THREAD, unless_in_pairs};
use crate::cpu::memory::{AlignedF32, Memory};
use crate::cpu::prepared::{
    Context, FeatureMapBlock, FeatureMapSource, Kernel, PreparedStep, Problem, StepError,
};
use crate::cpu::simd::Isa;
use crate::cpu::weight_store::Packed;
use crate::plan::LoweredStep;
use crate::plan::{ConvStep, View, Window};

/// Rows of one thread's share: small enough that its part of the image stays in the L2 cache.
const ROWS_PER_TASK: usize = 192;

/// Pixels inside of a row of the result from which on they are computed in one call: the last few of a row are a smaller tile,
/// which reads the weights more often than tiles across rows would.
const MANY_INSIDE: usize = 3 * MAX_ROWS;

/// A convolution step with its weights packed.
struct PreparedConv {
    format: MatmulFormat,
    /// One packed matrix per group, one after the other.
    weights: Packed<AlignedF32>,
    group_len: usize,
    /// Per group, padded to whole vectors.
    bias: Option<AlignedF32>,
    bias_stride: usize,
    /// A row for taps outside the image.
    zeros: AlignedF32,
    /// Elements from a pixel's first tap to each tap.
    tap_offsets: Vec<isize>,
    /// The same to each row of taps, where a row is one run of elements; else empty.
    row_offsets: Vec<isize>,
    /// Whether segments of rows are computed instead of tiles.
    is_register_tiled: bool,
}

impl PreparedConv {
    /// Packs the weights of `step`.
    fn new(problem: &Problem<'_, ConvStep>) -> Result<Self, QuantError> {
        let (cpu, step, format) = (problem.cpu, problem.step, problem.format);
        let isa = cpu.isa;
        let w = &step.weights;
        let group_len = format
            .layout
            .packed_len(isa, w.taps, w.in_per_group, w.out_per_group);
        let columns = 0..w.out_per_group;
        let weights = problem
            .packing
            .packed("direct", w, (format, columns.clone()), |memory| {
                Ok(format.pack(cpu, w, columns, memory))
            })?;
        let bias_stride = w.out_per_group.next_multiple_of(isa.lanes());
        let bias = step.epilogue.bias.as_ref().map(|bias| {
            let mut padded = AlignedF32::zeros(bias_stride * w.groups);
            let rows = padded.as_mut_slice().chunks_exact_mut(bias_stride.max(1));
            for (to, from) in rows.zip(bias.chunks_exact(w.out_per_group.max(1))) {
                to[..from.len()].copy_from_slice(from);
            }
            padded
        });
        let window = &step.window;
        let tap_offsets: Vec<isize> = (0..w.taps)
            .map(|tap| {
                let (ky, kx) = (tap / window.kernel[1], tap % window.kernel[1]);
                (ky * window.dilation[0]) as isize * step.x.axes[2].stride
                    + (kx * window.dilation[1]) as isize * step.x.axes[3].stride
            })
            .collect();
        let rows_are_runs = step.x.axes[3].stride == w.in_per_group as isize
            && window.dilation[1] == 1
            && !step.transposed
            && format.layout.is_without_gaps(w.in_per_group);
        let row_offsets = match rows_are_runs {
            true => {
                let rows = tap_offsets.iter().copied();
                rows.step_by(window.kernel[1].max(1)).collect()
            }
            false => Vec::new(),
        };
        Ok(Self {
            format,
            weights,
            group_len,
            bias,
            bias_stride,
            zeros: AlignedF32::zeros(w.in_per_group),
            tap_offsets,
            row_offsets,
            is_register_tiled: register_tiled::can_implement(isa, step, format.layout),
        })
    }

    /// Bytes of packed weights.
    fn weight_bytes(&self) -> usize {
        4 * (self.weights.len() + self.bias.as_ref().map_or(0, AlignedF32::len))
    }

    /// Runs the step.
    fn run(&self, step: &ConvStep, c: &Context<'_>) {
        let Context {
            isa, memory, pool, ..
        } = *c;
        let w = &step.weights;
        let [n, _, oh, ow] = std::array::from_fn(|a| step.y.axes[a].extent);
        let pixels = oh * ow;
        // Many pixels are shared out by rows, few by panels of channels.
        let by_rows = pixels.div_ceil(ROWS_PER_TASK);
        let n_panels = panels(isa, w.out_per_group).count();
        let split_panels = by_rows * n * w.groups < pool.threads() && n_panels > 1;
        let panel_parts = match split_panels {
            true => n_panels.min(TASKS_PER_THREAD * pool.threads()),
            false => 1,
        };
        let row_parts = if split_panels {
            by_rows
        } else {
            by_rows.max((2 * pool.threads()).min(pixels.div_ceil(4 * MAX_ROWS)))
        };
        let image = &self.image(step, memory);
        pool.run(n * w.groups * row_parts * panel_parts, |task| {
            let (rest, panel_part) = (task / panel_parts, task % panel_parts);
            let (rest, row_part) = (rest / row_parts, rest % row_parts);
            let (batch, group) = (rest / w.groups, rest % w.groups);
            let first = pixels * row_part / row_parts;
            let last = pixels * (row_part + 1) / row_parts;
            let part = image.part(batch, group * w.in_per_group, group * w.out_per_group);
            for panel in panels_of_part(isa, w.out_per_group, (panel_part, panel_parts)) {
                let job = self.job(isa, step, &part, group, panel);
                // SAFETY: views were checked at load and channel strides are 1 by the step's
                // contract; every task writes its own pixels and channels.
                unsafe { job.run(isa, panel.vectors, first, last) };
            }
        });
    }

    /// Computes `block` of the result and puts it at `to`, a pixel every `pixel_len` elements.
    ///
    /// # Safety
    ///
    /// The step must have one group and no residual, and `to` be writable for the pixels.
    unsafe fn run_block(
        &self,
        step: &ConvStep,
        &Context { isa, memory, .. }: &Context<'_>,
        block: FeatureMapBlock,
        (to, pixel_len): (*mut f32, usize),
    ) {
        let FeatureMapBlock {
            batch,
            panel,
            first,
            last,
            ..
        } = block;
        let image = self.image(step, memory);
        let row_len = image.width * pixel_len;
        let image = Image {
            // Results are counted from the image's first pixel and channel.
            y: to.wrapping_sub(first * pixel_len + panel.column),
            y_format: FloatFormat::F32,
            y_strides: [0, 1, row_len as isize, pixel_len as isize],
            ..image.part(batch, 0, 0)
        };
        let job = self.job(isa, step, &image, 0, panel);
        // SAFETY: views were checked at load; the results are guaranteed by the caller.
        unsafe { job.run(isa, panel.vectors, first, last) };
    }

    /// What the step reads and writes.
    fn image(&self, step: &ConvStep, memory: &Memory) -> Image {
        let residual = step.epilogue.residual.as_ref();
        Image {
            x: memory.floats(&step.x),
            x_format: memory.float_format(&step.x),
            x_strides: strides(&step.x),
            y: memory.floats(&step.y),
            y_format: memory.float_format(&step.y),
            y_strides: strides(&step.y),
            residual: residual.map_or(std::ptr::null(), |r| memory.floats(r).cast_const()),
            residual_format: residual.map_or(FloatFormat::F32, |r| memory.float_format(r)),
            residual_strides: residual.map_or([0; 4], strides),
            extent: [
                step.x.axes[2].extent as isize,
                step.x.axes[3].extent as isize,
            ],
            width: step.y.axes[3].extent,
            window: step.window,
            transposed: step.transposed,
            zeros: self.zeros.as_slice().as_ptr(),
        }
    }

    /// What there is to do for one panel of one group, whose part of the image is `image`.
    fn job<'a>(
        &'a self,
        isa: Isa,
        step: &ConvStep,
        image: &'a Image,
        group: usize,
        panel: Panel,
    ) -> Job<'a> {
        let w = &step.weights;
        let packed = self.weights.as_slice()[group * self.group_len..].as_ptr();
        let depth = w.taps * self.format.layout.words(w.in_per_group);
        let bias = self.bias.as_ref().map_or(std::ptr::null(), |b| {
            b.as_slice()[group * self.bias_stride + panel.column..].as_ptr()
        });
        Job {
            image,
            is_register_tiled: self.is_register_tiled,
            tap_offsets: &self.tap_offsets,
            row_offsets: &self.row_offsets,
            w: packed.wrapping_add(panel_offset(panel, depth)),
            layout: self.format.layout,
            column: panel.column,
            shape: TileShape {
                taps: w.taps,
                depth: w.in_per_group,
            },
            n_columns: (panel.vectors * isa.lanes()).min(w.out_per_group - panel.column),
            epilogue: TileEpilogue {
                bias,
                activation: math::activation(step.epilogue.activation),
                residual_first: step.epilogue.residual_first,
                rounds_to_bf16: self.format.rounds_result,
                y_format: image.y_format,
                residual_format: image.residual_format,
                isa,
            },
        }
    }
}

fn strides(view: &View) -> [isize; 4] {
    std::array::from_fn(|a| view.axes[a].stride)
}

/// One image and the result made of it.
#[derive(Clone, Copy)]
struct Image {
    x: *const f32,
    x_format: FloatFormat,
    x_strides: [isize; 4],
    y: *mut f32,
    y_format: FloatFormat,
    y_strides: [isize; 4],
    residual: *const f32,
    residual_format: FloatFormat,
    residual_strides: [isize; 4],
    /// Height and width of `x`.
    extent: [isize; 2],
    /// Width of `y`.
    width: usize,
    window: Window,
    transposed: bool,
    zeros: *const f32,
}

// SAFETY: the pointers go into buffers that outlive the run; tasks write disjoint parts.
unsafe impl Sync for Image {}

impl Image {
    /// The image of one sample, from one input and one output channel on.
    fn part(&self, batch: usize, channel_in: usize, channel_out: usize) -> Self {
        let offset = |strides: &[isize; 4], channel: usize| {
            batch as isize * strides[0] + channel.cast_signed()
        };
        let (x, y) = (
            offset(&self.x_strides, channel_in),
            offset(&self.y_strides, channel_out),
        );
        let residual = offset(&self.residual_strides, channel_out);
        Self {
            x: self.x_format.offset(self.x, x),
            y: self.y_format.offset_mut(self.y, y),
            residual: self.residual_at(residual),
            ..*self
        }
    }

    /// The residual `offset` elements on; null if there is none.
    fn residual_at(&self, offset: isize) -> *const f32 {
        match self.residual.is_null() {
            true => self.residual,
            false => self.residual_format.offset(self.residual, offset),
        }
    }
}

/// All tiles of one panel over a range of pixels.
struct Job<'a> {
    image: &'a Image,
    is_register_tiled: bool,
    tap_offsets: &'a [isize],
    /// Offsets of rows of taps that are runs of elements; or none.
    row_offsets: &'a [isize],
    w: *const f32,
    layout: PackedLayout,
    column: usize,
    /// Columns of the panel that exist.
    n_columns: usize,
    shape: TileShape,
    epilogue: TileEpilogue,
}

/// Rows of `n` that come to tiles of one.
fn single_rows(vectors: usize, n: usize) -> usize {
    let mut left = n;
    loop {
        match left {
            0 => return 0,
            _ if next_rows(vectors, left) == 1 => return left,
            _ => left -= next_rows(vectors, left),
        }
    }
}

/// Pixels that are not computed with the others of their row, by row and column, until they fill a tile: their windows reach over
/// the left or right border, or they are the odd ones out.
#[derive(Default)]
struct Edges {
    pixels: [[isize; 2]; MAX_ROWS],
    len: usize,
}

impl Edges {
    /// Adds a pixel; there is room for one.
    fn push(&mut self, pixel: [isize; 2]) {
        self.pixels[self.len] = pixel;
        self.len += 1;
    }
}

/// Rows of a tile at the border: taps outside the image read zeros.
struct BorderRows<'a> {
    image: &'a Image,
    /// Coordinates of the first tap (plain), or of the result plus padding (transposed).
    origin: [[isize; 2]; MAX_ROWS],
}

impl BorderRows<'_> {
    /// The source coordinate of `tap` along `axis`, if it is in the image.
    #[inline(always)]
    fn source(&self, origin: isize, tap: isize, axis: usize) -> Option<isize> {
        let window = &self.image.window;
        let reach = tap * window.dilation[axis] as isize;
        let at = if self.image.transposed {
            let stride = window.stride[axis] as isize;
            let at = origin - reach;
            if at % stride != 0 {
                return None;
            }
            at / stride
        } else {
            origin + reach
        };
        (0..self.image.extent[axis]).contains(&at).then_some(at)
    }
}

// SAFETY: `source` gives pixels that are in the image, whose channels are as many as the tile is deep; the row
// of zeros is as long.
unsafe impl TapRows for BorderRows<'_> {
    fn at(&self, tap: usize, rows: &mut [*const f32; MAX_ROWS]) {
        let columns = self.image.window.kernel[1];
        let (ky, kx) = ((tap / columns) as isize, (tap % columns) as isize);
        for (row, origin) in rows.iter_mut().zip(&self.origin) {
            let y = self.source(origin[0], ky, 0);
            let x = self.source(origin[1], kx, 1);
            *row = match (y, x) {
                (Some(y), Some(x)) => {
                    let offset = y * self.image.x_strides[2] + x * self.image.x_strides[3];
                    self.image.x_format.offset(self.image.x, offset)
                }
                _ => self.image.zeros,
            };
        }
    }
}

impl Job<'_> {
    /// Runs pixels `first..last`.
    ///
    /// # Safety
    ///
    /// Pointers must be valid for the step's shapes and the pixels not written elsewhere.
    unsafe fn run(&self, isa: Isa, vectors: usize, first: usize, last: usize) {
        if self.is_register_tiled {
            // SAFETY: forwarded.
            return unsafe { self.segments(isa, vectors, first, last) };
        }
        if let Some(inside) = self.inside() {
            // SAFETY: forwarded.
            return unsafe { self.rows(isa, vectors, (first, last), inside) };
        }
        // SAFETY: forwarded.
        unsafe { self.tiles(isa, vectors, (first, last)) };
    }

    /// Columns of the result whose windows lie inside the image, if they are so many that a row of them is computed in
    /// one call.
    fn inside(&self) -> Option<Range<usize>> {
        let (image, window) = (self.image, &self.image.window);
        let stride = window.stride[1];
        let reach = (window.kernel[1] - 1) * window.dilation[1];
        let begin = window.pad[1].div_ceil(stride);
        // Windows that begin at this column of the padded image, or before it, end inside.
        let last = (image.extent[1].cast_unsigned() + window.pad[1]).checked_sub(reach + 1)?;
        let end = image.width.min(last / stride + 1);
        let is_long = end.saturating_sub(begin) >= MANY_INSIDE;
        let is_implemented = has_panel_taps(self.layout, image.x_format, &self.epilogue);
        (is_long && !image.transposed && is_implemented).then_some(begin..end)
    }

    /// Pixels `first..last`, row by row of the result: those inside in one call, the others in tiles; what is left and right of
    /// the inside goes together with that of other rows, as a tile of one pixel takes as long as one of three.
    ///
    /// # Safety
    ///
    /// As [`Job::run`]; `inside` is what [`Job::inside`] says.
    unsafe fn rows(
        &self,
        isa: Isa,
        vectors: usize,
        (first, last): (usize, usize),
        inside: Range<usize>,
    ) {
        let (image, window) = (self.image, &self.image.window);
        let reach = ((window.kernel[0] - 1) * window.dilation[0]) as isize;
        let (offsets, depth) = self.row_taps();
        let gemm = Gemm {
            x: image.x,
            x_format: image.x_format,
            x_stride: window.stride[1] as isize * image.x_strides[3],
            y: image.y,
            y_stride: image.y_strides[3],
            residual: image.residual,
            residual_stride: image.residual_strides[3],
            m: 0,
            k: depth,
            n: self.n_columns,
            layout: self.layout,
            epilogue: self.epilogue,
        };
        let panel = Panel { column: 0, vectors };
        let mut edges = Edges::default();
        let mut m = first;
        while m < last {
            let (row, column) = (m / image.width, m % image.width);
            let of_row = last.min(m - column + image.width);
            let top = (row * window.stride[0]) as isize - window.pad[0] as isize;
            let is_inside = top >= 0 && top + reach < image.extent[0];
            let begin = column.max(inside.start);
            let end = inside.end.min(of_row - m + column);
            // What would be tiles of one pixel is left to the edges.
            let end = end - single_rows(vectors, end.saturating_sub(begin));
            // SAFETY: pixels up to `of_row` are among those of the caller, and `begin..end` of them have their windows
            // inside the image.
            unsafe {
                if !is_inside || end < begin + MAX_ROWS {
                    self.tiles(isa, vectors, (m, of_row));
                } else {
                    let left = (begin * window.stride[1]) as isize - window.pad[1] as isize;
                    let place = |strides: &[isize; 4]| {
                        let at = row as isize * strides[2] + begin as isize * strides[3];
                        at + self.column as isize
                    };
                    let x = top * image.x_strides[2] + left * image.x_strides[3];
                    let many = Gemm {
                        x: image.x_format.offset(image.x, x),
                        y: image.y_format.offset_mut(image.y, place(&image.y_strides)),
                        residual: image.residual_at(place(&image.residual_strides)),
                        m: end - begin,
                        ..gemm
                    };
                    gemm_panel_taps(isa, &many, offsets, self.w, panel, (0, many.m));
                    let beside = (column..begin).chain(end..of_row - m + column);
                    for column in beside {
                        edges.push([row as isize, column as isize]);
                        if edges.len == full_rows(vectors) {
                            self.edges(isa, vectors, &mut edges);
                        }
                    }
                }
            }
            m = of_row;
        }
        // SAFETY: pixels of the caller's, as all before.
        unsafe { self.edges(isa, vectors, &mut edges) };
    }

    /// The pixels of `edges`, of which none are left.
    ///
    /// # Safety
    ///
    /// As [`Job::run`].
    unsafe fn edges(&self, isa: Isa, vectors: usize, edges: &mut Edges) {
        let mut done = 0;
        while done < edges.len {
            let rows = next_rows(vectors, edges.len - done);
            let last = done + rows - 1;
            let pixels = std::array::from_fn(|i| edges.pixels[(done + i).min(last)]);
            // SAFETY: forwarded.
            unsafe { self.tile(isa, vectors, pixels, rows, Prefetch::none(self.w)) };
            done += rows;
        }
        edges.len = 0;
    }

    /// Offsets of the taps inside the image, and their depth: rows of taps in one go where the columns lie in this order.
    fn row_taps(&self) -> (&[isize], usize) {
        match self.row_offsets.is_empty() {
            true => (self.tap_offsets, self.shape.depth),
            false => {
                let depth = self.image.window.kernel[1] * self.shape.depth;
                (self.row_offsets, depth)
            }
        }
    }

    /// Pixels `first..last` in tiles, which go on from one row of the result to the next.
    ///
    /// # Safety
    ///
    /// As [`Job::run`].
    unsafe fn tiles(&self, isa: Isa, vectors: usize, (first, last): (usize, usize)) {
        let steps = self.shape.taps * self.layout.words(self.shape.depth);
        let panel_len = steps * vectors * isa.lanes();
        let (mut m, mut index) = (first, 0);
        while m < last {
            let rows = next_rows(vectors, last - m);
            let prefetch = Prefetch::share(self.w.wrapping_add(panel_len), panel_len, steps, index);
            let pixels = self.pixels(m, rows);
            // SAFETY: pixels first..last exist guaranteed by the caller.
            unsafe { self.tile(isa, vectors, pixels, rows, prefetch) };
            m += rows;
            index += 1;
        }
    }

    /// # Safety
    ///
    /// As [`Job::run`]; [`register_tiled::can_implement`] must hold for the step.
    unsafe fn segments(&self, isa: Isa, vectors: usize, first: usize, last: usize) {
        let image = self.image;
        let window = &image.window;
        let mut m = first;
        while m < last {
            let [y, x] = [m / image.width, m % image.width].map(|i| i as isize);
            let len = Segment::most(vectors)
                .min(last - m)
                .min(image.width - x as usize);
            let top = y * window.stride[0] as isize - window.pad[0] as isize;
            let dilation = window.dilation[0] as isize;
            let is_inside =
                |row: &usize| (0..image.extent[0]).contains(&(top + *row as isize * dilation));
            let height = window.kernel[0];
            let begin = (0..height).find(is_inside).unwrap_or(height);
            let end = (begin..height)
                .rfind(is_inside)
                .map_or(begin, |row| row + 1);
            let at = |strides: &[isize; 4]| y * strides[2] + x * strides[3] + self.column as isize;
            let segment = Segment {
                x: image.x.wrapping_offset(top * image.x_strides[2]),
                x_strides: [dilation * image.x_strides[2], image.x_strides[3]],
                rows: begin..end,
                first: x * window.stride[1] as isize - window.pad[1] as isize,
                width: image.extent[1],
                depth: self.shape.depth,
                w: self.w,
                y: image.y_format.offset_mut(image.y, at(&image.y_strides)),
                y_stride: image.y_strides[3],
                residual: image.residual_at(at(&image.residual_strides)),
                residual_stride: image.residual_strides[3],
                len,
                columns: self.n_columns,
                epilogue: &self.epilogue,
            };
            // SAFETY: the window's rows are in the image, and results first..last are
            // guaranteed by the caller.
            unsafe { segment.run(isa, vectors, window.kernel[1], window.stride[1]) };
            m += len;
        }
    }

    /// Where pixels `m..m + rows` are, by row and column; those beyond repeat the last one.
    fn pixels(&self, m: usize, rows: usize) -> [[isize; 2]; MAX_ROWS] {
        let width = self.image.width;
        let mut at = [(m / width) as isize, (m % width) as isize];
        std::array::from_fn(|i| {
            let here = at;
            if i + 1 < rows {
                at[1] += 1;
                if at[1] == width as isize {
                    at = [at[0] + 1, 0];
                }
            }
            here
        })
    }

    /// Computes `rows` pixels, the first of `pixel`.
    ///
    /// # Safety
    ///
    /// As [`Job::run`], for these pixels.
    unsafe fn tile(
        &self,
        isa: Isa,
        vectors: usize,
        pixel: [[isize; 2]; MAX_ROWS],
        rows: usize,
        prefetch: Prefetch,
    ) {
        let image = self.image;
        let window = &image.window;
        let place = |strides: &[isize; 4], i: usize| {
            pixel[i][0] * strides[2] + pixel[i][1] * strides[3] + self.column as isize
        };
        let origin: [[isize; 2]; MAX_ROWS] = pixel.map(|p| {
            std::array::from_fn(|a| {
                let pad = window.pad[a] as isize;
                match image.transposed {
                    true => p[a] + pad,
                    false => p[a] * window.stride[a] as isize - pad,
                }
            })
        });
        let reach = [0, 1].map(|a| ((window.kernel[a] - 1) * window.dilation[a]) as isize);
        let in_image =
            |o: &[isize; 2]| (0..2).all(|a| o[a] >= 0 && o[a] + reach[a] < image.extent[a]);
        let inside = !image.transposed && origin.iter().all(in_image);
        let border = BorderRows { image, origin };
        let (offsets, shape) = match inside {
            true => {
                let (offsets, depth) = self.row_taps();
                let taps = offsets.len();
                (offsets, TileShape { taps, depth })
            }
            false => (self.tap_offsets, self.shape),
        };
        let tile = Tile {
            x: origin.map(|o| {
                let offset = o[0] * image.x_strides[2] + o[1] * image.x_strides[3];
                image.x_format.offset(image.x, offset)
            }),
            x_format: image.x_format,
            offsets,
            border: if inside { None } else { Some(&border) },
            w: self.w,
            layout: self.layout,
            converted: std::ptr::null_mut(),
            prefetch,
            shape,
            output: TileOutput {
                y: std::array::from_fn(|i| {
                    image
                        .y_format
                        .offset_mut(image.y, place(&image.y_strides, i))
                }),
                residual: std::array::from_fn(|i| {
                    image.residual_at(place(&image.residual_strides, i))
                }),
                columns: self.n_columns,
                epilogue: &self.epilogue,
            },
        };
        // SAFETY: rows point at in-image pixels or at the row of zeros, all of `depth` channels;
        // results and residuals are pixels of their views.
        unsafe { tile.run(isa, vectors, rows) };
    }
}

/// Convolution without unrolling the image.
pub(crate) struct DirectConv {
    /// Without its weights.
    step: ConvStep,
    prepared: PreparedConv,
}

impl Kernel<ConvStep> for DirectConv {
    fn packing_bytes(problem: &Problem<'_, ConvStep>) -> usize {
        let weights = &problem.step.weights;
        problem.format.packing_bytes(problem.cpu, weights)
    }

    fn never_bf16<'p>(problem: &Problem<'p, ConvStep>) -> Vec<&'p View> {
        unless_in_pairs(problem.format.layout, &problem.step.x)
    }

    fn prepare(problem: &Problem<'_, ConvStep>) -> Result<Self, QuantError> {
        let prepared = PreparedConv::new(problem)?;
        let mut step = problem.step.clone();
        step.forget_weights();
        Ok(Self { step, prepared })
    }
}

impl PreparedStep for DirectConv {
    fn run(&self, c: &Context<'_>) -> Result<(), StepError> {
        self.prepared.run(&self.step, c);
        Ok(())
    }

    fn operands(&self) -> &'static str {
        self.prepared.format.operands()
    }

    fn variant(&self) -> &'static str {
        match (
            self.prepared.is_register_tiled,
            self.prepared.format.variant(),
        ) {
            (true, "wide") => "register-tiled-wide",
            (true, _) => "register-tiled",
            (false, variant) => variant,
        }
    }

    fn weight_bytes(&self) -> usize {
        self.prepared.weight_bytes()
    }

    fn rounds_results(&self) -> bool {
        true
    }

    fn feature_map_source(&self) -> Option<&dyn FeatureMapSource> {
        Some(self)
    }
}

impl FeatureMapSource for DirectConv {
    unsafe fn block(
        &self,
        c: &Context<'_>,
        block: FeatureMapBlock,
        to: *mut f32,
        pixel_len: usize,
    ) {
        // SAFETY: forwarded.
        unsafe {
            self.prepared
                .run_block(&self.step, c, block, (to, pixel_len));
        }
    }
}
