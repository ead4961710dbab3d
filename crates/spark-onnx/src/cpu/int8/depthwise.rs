//! Convolution of bytes in which every channel sees only itself.
//!
//! ```text
//! for each pixel, 64 channels at a time:
//!     sums[64] = initial[64]                                     bias - x_zero * sum over taps of w
//!     for each tap:  sums += x[tap][64] * w[tap][64]             bytes widened, products within 17 bits
//!     y[64] = saturate(round(sums * multiplier) + y_zero)
//! ```
//!
//! A tap outside of the picture reads a row of zero points. Sums are those of the kernel for any groups, to the
//! bit; that one would multiply one column at a time.

#![allow(
    unsafe_code,
    reason = "moves pointers through views that the plan has checked"
)]

use spark_quant::QuantError;
use spark_simd::{Simd, dispatch};

use crate::DType;
use crate::cpu::prepared::{Context, Kernel, PreparedStep, Problem, StepError};
use crate::plan::{Int8Step, Int8Weights, KnownQuantisation, LoweredStep, Quantisation, View};

/// Channels whose sums are in registers.
const CHUNK: usize = 64;
/// Pixels below which a second thread is not worth handing over.
const LEAST_PIXELS: usize = 32;

/// A depthwise convolution of bytes with its weights in order.
pub(crate) struct Int8Depthwise {
    /// Without its weights.
    step: Int8Step,
    /// `[tap][channels padded to chunks]`, without their zero points.
    weights: Vec<i16>,
    /// By channel, padded: where sums begin.
    initial: Vec<i32>,
    /// By channel, padded.
    multipliers: Vec<f32>,
    /// A pixel of zero points, padded.
    outside: Vec<u8>,
    zero: i32,
    bounds: (i32, i32),
}

/// The numbers of a step that this kernel can compute.
fn known(step: &Int8Step) -> Option<(&KnownQuantisation, &crate::plan::Weights)> {
    match (&step.quantisation, &step.weights) {
        (Quantisation::Known(known), Int8Weights::Known(weights)) => Some((known, weights)),
        _ => None,
    }
}

impl Kernel<Int8Step> for Int8Depthwise {
    fn can_implement(problem: &Problem<'_, Int8Step>) -> bool {
        let step = problem.step;
        known(step).is_some()
            && step.in_per_group() == 1
            && step.out_per_group() == 1
            && step.groups() > 1
            && matches!(step.y_type, DType::I8 | DType::U8)
    }

    fn packing_bytes(problem: &Problem<'_, Int8Step>) -> usize {
        let step = problem.step;
        let channels = step.groups().next_multiple_of(CHUNK);
        // Floats on the way, i16, and three lists.
        let taps = channels.saturating_mul(step.taps());
        taps.saturating_mul(6).saturating_add(channels * 13)
    }

    fn prepare(problem: &Problem<'_, Int8Step>) -> Result<Self, QuantError> {
        let step = problem.step;
        let Some((numbers, weights)) = known(step) else {
            unreachable!("what `can_implement` lets through")
        };
        let (channels, taps) = (step.groups(), step.taps());
        let padded = channels.next_multiple_of(CHUNK);
        let pick = |list: &[i32], channel: usize| match list {
            [] => 0,
            [one] => *one,
            all => all[channel],
        };
        let floats = weights.values(); // [channel][tap]
        let mut ordered = vec![0; taps * padded];
        let mut initial = vec![0i32; padded];
        let mut multipliers = vec![0.0; padded];
        for channel in 0..channels {
            let mut sum = 0;
            for tap in 0..taps {
                let weight = floats[channel * taps + tap] as i32 - pick(&numbers.w_zero, channel);
                ordered[tap * padded + channel] = weight as i16;
                sum += weight;
            }
            let bias = pick(&numbers.bias, channel);
            initial[channel] = bias.wrapping_sub(numbers.x_zero.wrapping_mul(sum));
            multipliers[channel] = match &numbers.multipliers[..] {
                [one] => *one,
                all => all[channel],
            };
        }
        let mut step = step.clone();
        step.forget_weights();
        Ok(Self {
            weights: ordered,
            initial,
            multipliers,
            outside: vec![numbers.x_zero as u8; padded],
            zero: numbers.y_zero,
            bounds: numbers.bounds,
            step,
        })
    }
}

impl PreparedStep for Int8Depthwise {
    fn run(&self, c: &Context<'_>) -> Result<(), StepError> {
        let step = &self.step;
        let [n, _, height, width] = std::array::from_fn(|a| step.y.axes[a].extent);
        let pixels = n * height * width;
        let tasks = (pixels / LEAST_PIXELS).clamp(1, 4 * c.pool.threads());
        let stride = |view: &View, axis: usize| view.axes[axis].stride;
        let job = &Job {
            prepared: self,
            x: c.memory.bytes(&step.x),
            x_strides: [0, 2, 3].map(|axis| stride(&step.x, axis)),
            y: c.memory.bytes(&step.y),
            y_strides: [0, 2, 3].map(|axis| stride(&step.y, axis)),
            height,
            width,
        };
        c.pool.run(tasks, |task| {
            let (first, last) = (pixels * task / tasks, pixels * (task + 1) / tasks);
            // SAFETY: views were checked at load and channel strides are 1 by the step's contract; every task
            // writes its own pixels; `isa` is what the processor has.
            unsafe {
                match step.x_type {
                    DType::I8 => dispatch!(
                        c.isa,
                        run_pixels::<i8>(job: &Job<'_>, first: usize, last: usize)
                            => (job, first, last)
                    ),
                    _ => dispatch!(
                        c.isa,
                        run_pixels::<u8>(job: &Job<'_>, first: usize, last: usize)
                            => (job, first, last)
                    ),
                }
            }
        });
        Ok(())
    }

    fn operands(&self) -> &'static str {
        super::operands_of(&self.step)
    }

    fn weight_bytes(&self) -> usize {
        2 * self.weights.len()
            + 4 * (self.initial.len() + self.multipliers.len())
            + self.outside.len()
    }
}

/// What tasks share.
struct Job<'a> {
    prepared: &'a Int8Depthwise,
    x: *const u8,
    /// From one picture, row and pixel to the next.
    x_strides: [isize; 3],
    y: *mut u8,
    y_strides: [isize; 3],
    height: usize,
    width: usize,
}

// SAFETY: the pointers go into buffers that outlive the run; tasks write disjoint pixels.
unsafe impl Sync for Job<'_> {}

/// Computes pixels `first..last` of all pictures, whose bytes are `T`.
///
/// # Safety
///
/// They must exist and not be written elsewhere; channels of a pixel must lie side by side.
#[inline(always)]
#[allow(
    clippy::extra_unused_type_parameters,
    reason = "it says which instruction set the function is compiled for"
)]
unsafe fn run_pixels<S: Simd, T: Copy + Into<i32>>(job: &Job<'_>, first: usize, last: usize) {
    let step = &job.prepared.step;
    let window = &step.window;
    let extent = [2, 3].map(|axis| step.x.axes[axis].extent as isize);
    let (channels, padded) = (step.groups(), job.prepared.initial.len());
    for pixel in first..last {
        let at = [
            pixel / (job.width * job.height),
            pixel / job.width % job.height,
            pixel % job.width,
        ];
        let origin: [isize; 2] =
            [0, 1].map(|a| (at[a + 1] * window.stride[a]) as isize - window.pad[a] as isize);
        let picture = job.x.wrapping_offset(at[0] as isize * job.x_strides[0]);
        let y_offset: isize = (0..3).map(|a| at[a] as isize * job.y_strides[a]).sum();
        let to = job.y.wrapping_offset(y_offset);
        for channel in (0..channels).step_by(CHUNK) {
            let list = channel..channel + CHUNK;
            let mut sums: [i32; CHUNK] = [0; CHUNK];
            sums.copy_from_slice(&job.prepared.initial[list.clone()]);
            let count = CHUNK.min(channels - channel);
            for ky in 0..window.kernel[0] {
                let row = origin[0] + (ky * window.dilation[0]) as isize;
                for kx in 0..window.kernel[1] {
                    let column = origin[1] + (kx * window.dilation[1]) as isize;
                    let is_inside =
                        (0..extent[0]).contains(&row) && (0..extent[1]).contains(&column);
                    let x = match is_inside {
                        true => picture
                            .wrapping_offset(row * job.x_strides[1] + column * job.x_strides[2])
                            .wrapping_add(channel),
                        false => job.prepared.outside[channel..].as_ptr(),
                    };
                    let tap = ky * window.kernel[1] + kx;
                    let weights = &job.prepared.weights[tap * padded..][list.clone()];
                    // SAFETY: as many channels as are left of a pixel of the picture, or of the row outside.
                    let x = unsafe { std::slice::from_raw_parts(x.cast::<T>(), count) };
                    add_products(&mut sums, x, weights);
                }
            }
            let multipliers = &job.prepared.multipliers[list];
            let bytes = requantised(job.prepared, &sums, multipliers);
            // SAFETY: as many channels as are left of a pixel of the result.
            unsafe {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.add(channel), count);
            }
        }
    }
}

/// Adds the products of one tap; there are as many bytes as channels.
#[inline(always)]
fn add_products<T: Copy + Into<i32>>(sums: &mut [i32; CHUNK], x: &[T], weights: &[i16]) {
    // The constant length unrolls and stays in registers.
    if let Some(x) = x.first_chunk::<CHUNK>() {
        for ((sum, &x), &w) in sums.iter_mut().zip(x).zip(weights) {
            *sum = sum.wrapping_add(x.into() * i32::from(w));
        }
        return;
    }
    for ((sum, &x), &w) in sums.iter_mut().zip(x).zip(weights) {
        *sum = sum.wrapping_add(x.into() * i32::from(w));
    }
}

/// Sums as bytes.
#[inline(always)]
fn requantised(prepared: &Int8Depthwise, sums: &[i32; CHUNK], multipliers: &[f32]) -> [u8; CHUNK] {
    let zero = prepared.zero;
    let low = (prepared.bounds.0 - zero) as f32;
    let high = (prepared.bounds.1 - zero) as f32;
    let mut bytes = [0; CHUNK];
    for ((byte, &sum), &multiplier) in bytes.iter_mut().zip(sums).zip(multipliers) {
        let value = sum as f32 * multiplier;
        // What is no number becomes the least.
        let value = if value > low { value } else { low };
        let value = if value < high { value } else { high };
        // SAFETY: between whole numbers of nine bits.
        let whole = unsafe { value.round_ties_even().to_int_unchecked::<i32>() };
        *byte = (whole + zero) as u8;
    }
    bytes
}
