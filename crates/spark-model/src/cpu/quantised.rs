//! Products whose weights have eight or four bits, by `spark-quant`'s kernels.
//!
//! ```text
//! weights      [out][tap][channels padded to 16]  -> E4M3, one scale per output channel, or NVFP4
//! activations  [pixel][channels]  -> quantised and back (or left alone)      once per run
//! task         some rows of patches [row][tap][channels] x some output channels -> results
//! ```
//!
//! Both sides hold exactly the values a tensor core would be given: E4M3 activations share one
//! scale per tensor, NVFP4 ones have a scale per 16 channels of a pixel and one per tensor.
//! Products and sums are f32 in `spark-quant`'s fixed order, where a tensor core has an order of
//! its own. Padding the channels keeps a block of scales inside one tap, as an image quantised
//! before its patches are gathered has it.
//!
//! This is for judging accuracy and for fewer bytes, not for speed. A run takes memory, unlike
//! other steps. Deliberately absent: groups and transposed convolutions.

use std::sync::Mutex;

use spark_quant::gemm::{Epilogue as QuantEpilogue, Input, InputMode};
use spark_quant::{Cpu, PackedTensor, QuantError, Quantizer, Recipe};

use super::math;
use super::memory::Memory;
use super::rounding::round_rows;
use super::simd::Isa;
use super::threads::Pool;
use crate::Precision;
use crate::plan::{Activation, ConvStep, Epilogue, LinearStep, View, Weights, Window};
use crate::precision::Activations;

/// Values that share a scale in NVFP4.
const BLOCK: usize = 16;
/// Rows of patches of one task.
const ROWS_PER_TASK: usize = 64;
/// Output channels of one task.
const CHANNELS_PER_TASK: usize = 64;

/// A linear or convolution step with packed weights.
pub(crate) struct PreparedQuantised {
    packed: PackedTensor,
    /// Channels per tap in the packed depth.
    padded: usize,
    /// What activations go through.
    activations: Option<Recipe>,
    rounds_result: bool,
}

/// Recipes of weights and activations.
fn recipes(precision: Precision) -> (Recipe, Recipe) {
    use spark_quant::block::Granularity;
    use spark_quant::scalar::MiniFormat;
    let fp8 = |granularity| Recipe::Fp8 {
        format: MiniFormat::E4m3,
        granularity,
    };
    match precision {
        Precision::Fp4 => (Recipe::NVFP4_SWEEP, Recipe::NVFP4),
        _ => (fp8(Granularity::Row), fp8(Granularity::Tensor)),
    }
}

impl PreparedQuantised {
    /// Packs `weights`, which have one group.
    ///
    /// # Errors
    ///
    /// As [`Quantizer::quantize`].
    pub(crate) fn new(
        weights: &Weights,
        precision: Precision,
        activations: Activations,
        rounds_result: bool,
    ) -> Result<Self, QuantError> {
        let (taps, depth, n) = (weights.taps, weights.in_per_group, weights.out_per_group);
        let padded = depth.next_multiple_of(BLOCK);
        let mut rows = vec![0.0; n * taps * padded];
        let values = weights.values();
        for (out, row) in rows.chunks_exact_mut((taps * padded).max(1)).enumerate() {
            for tap in 0..taps {
                for k in 0..depth {
                    row[tap * padded + k] = values[(tap * depth + k) * n + out];
                }
            }
        }
        drop(values);
        let (of_weights, of_activations) = recipes(precision);
        let quantizer = Quantizer::new(of_weights);
        Ok(Self {
            packed: quantizer.quantize(Cpu::one_thread(), &rows, &[n, taps * padded], 1)?,
            padded,
            activations: (activations == Activations::Quantised).then_some(of_activations),
            rounds_result,
        })
    }

    /// Bytes of codes and scales.
    pub(crate) fn weight_bytes(&self) -> usize {
        self.packed.size_bytes()
    }

    /// What computes the products, in words.
    pub(crate) fn kernel(&self) -> &'static str {
        match (self.activations, self.packed.format().code_bits()) {
            (Some(_), 4) => "f32 arithmetic on NVFP4 operands, weights held as NVFP4",
            (Some(_), _) => "f32 arithmetic on E4M3 operands, weights held as E4M3",
            (None, 4) => "f32 arithmetic on weights held as NVFP4",
            (None, _) => "f32 arithmetic on weights held as E4M3",
        }
    }

    /// Runs a linear step.
    ///
    /// # Errors
    ///
    /// [`QuantError::NotFinite`] if an activation to be quantised is not.
    pub(crate) fn run_linear(
        &self,
        isa: Isa,
        step: &LinearStep,
        memory: &Memory,
        pool: &Pool,
    ) -> Result<(), QuantError> {
        let row_strides = |view: &View| [0, view.axes[0].stride, 0];
        let geometry = Geometry {
            input: [1, step.x.axes[0].extent, 1],
            output: [1, step.y.axes[0].extent, 1],
            channels: [step.x.axes[1].extent, step.y.axes[1].extent],
            window: Window {
                kernel: [1, 1],
                stride: [1, 1],
                dilation: [1, 1],
                pad: [0, 0],
            },
        };
        let places = Places {
            x: memory.f32(&step.x),
            x_strides: row_strides(&step.x),
            y: memory.f32(&step.y),
            y_strides: row_strides(&step.y),
            residual: residual(&step.epilogue, memory, row_strides),
        };
        self.run(isa, &geometry, &places, &step.epilogue, pool)
    }

    /// Runs a convolution.
    ///
    /// # Errors
    ///
    /// As [`PreparedQuantised::run_linear`].
    pub(crate) fn run_conv(
        &self,
        isa: Isa,
        step: &ConvStep,
        memory: &Memory,
        pool: &Pool,
    ) -> Result<(), QuantError> {
        let strides = |view: &View| [0, 2, 3].map(|axis| view.axes[axis].stride);
        let extents = |view: &View| [0, 2, 3].map(|axis| view.axes[axis].extent);
        let geometry = Geometry {
            input: extents(&step.x),
            output: extents(&step.y),
            channels: [step.x.axes[1].extent, step.y.axes[1].extent],
            window: step.window,
        };
        let places = Places {
            x: memory.f32(&step.x),
            x_strides: strides(&step.x),
            y: memory.f32(&step.y),
            y_strides: strides(&step.y),
            residual: residual(&step.epilogue, memory, strides),
        };
        self.run(isa, &geometry, &places, &step.epilogue, pool)
    }

    fn run(
        &self,
        isa: Isa,
        geometry: &Geometry,
        places: &Places,
        epilogue: &Epilogue,
        pool: &Pool,
    ) -> Result<(), QuantError> {
        let image = self.image(geometry, places)?;
        let (image, image_ref) = (&image, places);
        let m: usize = geometry.output.iter().product();
        let n = geometry.channels[1];
        let row_parts = m.div_ceil(ROWS_PER_TASK).max(1);
        // Few rows: the work is shared out by channels as well.
        let channel_parts = match row_parts < 2 * pool.threads() {
            true => n.div_ceil(CHANNELS_PER_TASK).max(1),
            false => 1,
        };
        let failure = Mutex::new(None);
        pool.run(row_parts * channel_parts, |task| {
            let (row_part, channel_part) = (task / channel_parts, task % channel_parts);
            let rows = m * row_part / row_parts..m * (row_part + 1) / row_parts;
            let channels = n * channel_part / channel_parts..n * (channel_part + 1) / channel_parts;
            let job = Job {
                isa,
                geometry,
                places: image_ref,
                epilogue,
                rows,
                channels,
            };
            if let Err(error) = self.part(&job, image)
                && let Ok(mut failure) = failure.lock()
            {
                *failure = Some(error);
            }
        });
        match failure.into_inner() {
            Ok(Some(error)) => Err(error),
            _ => Ok(()),
        }
    }

    /// The left side, `[pixels][channels]`, as it enters the products.
    fn image(&self, geometry: &Geometry, places: &Places) -> Result<Vec<f32>, QuantError> {
        let [n, h, w] = geometry.input;
        let channels = geometry.channels[0];
        let mut values = Vec::with_capacity(n * h * w * channels);
        for pixel in 0..n * h * w {
            let [b, y, x] = [pixel / (h * w), pixel / w % h, pixel % w];
            let at = offset(places.x_strides, [b, y, x]);
            // SAFETY: the pixel lies inside a view checked at load, and channels have unit stride
            // by the step's contract.
            let row = unsafe { std::slice::from_raw_parts(places.x.offset(at), channels) };
            values.extend_from_slice(row);
        }
        if let Some(recipe) = self.activations
            && !values.is_empty()
        {
            let shape = [n * h * w, channels];
            Quantizer::new(recipe).round_trip_in_place(
                Cpu::one_thread(),
                &mut values,
                &shape,
                1,
            )?;
        }
        Ok(values)
    }

    /// Some rows and channels of the result.
    fn part(&self, job: &Job<'_>, image: &[f32]) -> Result<(), QuantError> {
        let (n_rows, n_channels) = (job.rows.len(), job.channels.len());
        if n_rows == 0 || n_channels == 0 {
            return Ok(());
        }
        let depth = self.packed.depth();
        let mut patches = vec![0.0; n_rows * depth];
        for (row, patch) in job.rows.clone().zip(patches.chunks_exact_mut(depth.max(1))) {
            job.geometry.gather(image, row, self.padded, patch);
        }
        let cpu = Cpu::one_thread();
        let input = Input::F32(&patches);
        let prepared = self.packed.prepare(cpu, input, n_rows, InputMode::Exact)?;
        let mut sums = vec![0.0; n_rows * n_channels];
        let first = job.channels.start;
        self.packed
            .gemm_rows(cpu, &prepared, first, QuantEpilogue::default(), &mut sums)?;
        for (i, row) in job.rows.clone().enumerate() {
            // SAFETY: the row lies inside views checked at load, results have unit channel stride
            // by the step's contract, and tasks have disjoint rows or channels.
            unsafe {
                job.finish(
                    row,
                    |channel| sums[channel * n_rows + i],
                    self.rounds_result,
                )
            };
        }
        Ok(())
    }
}

/// Shapes of one product; a matrix product is a convolution over `[1, rows, 1]`.
struct Geometry {
    /// Samples, height and width read.
    input: [usize; 3],
    /// Samples, height and width written.
    output: [usize; 3],
    /// Channels read and written.
    channels: [usize; 2],
    window: Window,
}

impl Geometry {
    /// The patch under result `row`, `[tap][padded channels]`; taps outside stay zero.
    fn gather(&self, image: &[f32], row: usize, padded: usize, patch: &mut [f32]) {
        let [_, oh, ow] = self.output;
        let [_, h, w] = self.input;
        let channels = self.channels[0];
        let (b, oy, ox) = (row / (oh * ow), row / ow % oh, row % ow);
        for (tap, to) in patch.chunks_exact_mut(padded).enumerate() {
            let (ky, kx) = (tap / self.window.kernel[1], tap % self.window.kernel[1]);
            let source = |out: usize, tap: usize, axis: usize, extent: usize| {
                let reach = out * self.window.stride[axis] + tap * self.window.dilation[axis];
                let at = reach.checked_sub(self.window.pad[axis])?;
                (at < extent).then_some(at)
            };
            if let (Some(y), Some(x)) = (source(oy, ky, 0, h), source(ox, kx, 1, w)) {
                let start = ((b * h + y) * w + x) * channels;
                to[..channels].copy_from_slice(&image[start..start + channels]);
            }
        }
    }
}

/// Where operands and results are; strides over samples, rows and columns.
struct Places {
    x: *const f32,
    x_strides: [isize; 3],
    y: *mut f32,
    y_strides: [isize; 3],
    residual: Option<(*const f32, [isize; 3])>,
}

// SAFETY: the pointers go into buffers that outlive the run; tasks write disjoint parts.
unsafe impl Sync for Places {}

fn residual(
    epilogue: &Epilogue,
    memory: &Memory,
    strides: impl Fn(&View) -> [isize; 3],
) -> Option<(*const f32, [isize; 3])> {
    let view = epilogue.residual.as_ref()?;
    Some((memory.f32(view).cast_const(), strides(view)))
}

fn offset(strides: [isize; 3], at: [usize; 3]) -> isize {
    strides
        .iter()
        .zip(at)
        .map(|(stride, i)| stride * i as isize)
        .sum()
}

/// One task.
struct Job<'a> {
    isa: Isa,
    geometry: &'a Geometry,
    places: &'a Places,
    epilogue: &'a Epilogue,
    rows: std::ops::Range<usize>,
    channels: std::ops::Range<usize>,
}

impl Job<'_> {
    /// Bias, residual, activation and rounding of the sums of one row, and storing them.
    ///
    /// # Safety
    ///
    /// `row` and the channels must exist in the views and not be written elsewhere.
    unsafe fn finish(&self, row: usize, sum: impl Fn(usize) -> f32, rounds: bool) {
        let [_, oh, ow] = self.geometry.output;
        let at = [row / (oh * ow), row / ow % oh, row % ow];
        let first = self.channels.start as isize;
        let n = self.channels.len();
        let epilogue = self.epilogue;
        let y = self
            .places
            .y
            .wrapping_offset(offset(self.places.y_strides, at) + first);
        let residual = self.places.residual.map(|(p, strides)| {
            let start = p.wrapping_offset(offset(strides, at) + first);
            // SAFETY: the residual has the result's shape and unit channel stride. It may be the
            // result's own memory, so it is read by value before that is written.
            (0..n).map(move |i| unsafe { *start.add(i) })
        });
        let late = residual.clone().filter(|_| !epilogue.residual_first);
        let late: Option<Vec<f32>> = late.map(Iterator::collect);
        let early = residual.filter(|_| epilogue.residual_first);
        let early: Vec<f32> = early.map_or_else(Vec::new, Iterator::collect);
        // SAFETY: by the caller's word.
        let out = unsafe { std::slice::from_raw_parts_mut(y, n) };
        for (i, value) in out.iter_mut().enumerate() {
            let bias = epilogue
                .bias
                .as_ref()
                .map_or(0.0, |b| b[self.channels.start + i]);
            *value = sum(i) + bias + early.get(i).copied().unwrap_or(0.0);
            if let Activation::Clamp { low, high } = epilogue.activation {
                // Comparisons that keep NaN.
                if *value < low {
                    *value = low;
                }
                if *value > high {
                    *value = high;
                }
            }
        }
        // SAFETY: `y` has `n` elements.
        unsafe {
            if let Activation::Function(function) = epilogue.activation {
                math::apply_rows(self.isa, function, &[y], n);
            }
            for (i, add) in late.iter().flatten().enumerate() {
                *y.add(i) += add;
            }
            if rounds {
                round_rows(self.isa, &[y], n);
            }
        }
    }
}
