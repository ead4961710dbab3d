//! Convolution of bytes in which every channel sees only itself.
//!
//! ```text
//! for each row of the result:
//!     lay the rows of the picture that its windows see            see `rows`
//!     for each block of 16 to 64 bytes of the row, pixel after pixel:
//!         sums = initial;  for each tap: sums += x * w            taps interleaved, see `instructions`
//!         y = saturate(round(sums * multiplier) + y_zero)
//! ```
//!
//! A row of pixels is one run of bytes in which a tap is an offset, so vectors are full however few channels there
//! are; weights repeat along it, see `packing`. Sums are those of the kernel for any groups, to the bit; that one
//! would multiply one column at a time.
//!
//! Deliberately absent: results that stay sums or become floats, and weights that are computed.

mod instructions;
#[cfg(target_arch = "aarch64")]
mod neon;
mod packing;
mod portable;
mod rows;
mod run;
#[cfg(target_arch = "x86_64")]
mod x86;

use spark_quant::QuantError;

use crate::DType;
use crate::cpu::prepared::{Context, Cpu, Kernel, PreparedStep, Problem, StepError};
use crate::cpu::workspace::WorkspaceSize;
use crate::plan::{Int8Step, Int8Weights, KnownQuantisation, LoweredStep, Quantisation, View};
use instructions::DepthwiseKernel;
use packing::{Numbers, Row, centred_weights};
use rows::RowLayout;

/// Channels are padded to a multiple of it, so that weights repeat soon.
const PITCH: usize = 16;
/// Pixels beyond the first that a window may reach, whatever the width of the picture.
const MOST_REACH: usize = 64;
/// Products below which a second thread is not profitable.
const MIN_PER_TASK: usize = 128 * 1024;

/// A depthwise convolution of bytes with its weights in order.
pub(crate) struct Int8Depthwise {
    /// Without its weights.
    step: Int8Step,
    kernel: DepthwiseKernel,
    numbers: Numbers,
    layout: RowLayout,
    /// Rows of the picture that are laid at a time.
    ring: usize,
    /// Turns a byte of `x` into an unsigned one.
    flip: u8,
    /// What stands for zero then.
    zero: u8,
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

    fn is_profitable(problem: &Problem<'_, Int8Step>) -> bool {
        let step = problem.step;
        let (kernel, dilation) = (step.window.kernel[1], step.window.dilation[1]);
        let reach = kernel.saturating_sub(1).saturating_mul(dilation);
        let widths = step.x.axes[3].extent.saturating_add(step.y.axes[3].extent);
        // Rows are laid as far as a window reaches, which may be far more than there is of the picture.
        reach <= MOST_REACH || reach <= widths.saturating_mul(4)
    }

    fn packing_bytes(problem: &Problem<'_, Int8Step>) -> usize {
        let step = problem.step;
        // Weights repeat after four pixels at most.
        let period = step.groups().next_multiple_of(PITCH).saturating_mul(4);
        let taps = step.taps().saturating_add(3);
        // Floats and words on the way, packed words, packed bytes; two lists.
        let weights = step.groups().saturating_mul(step.taps()).saturating_mul(6);
        let packed = period.saturating_mul(taps).saturating_mul(3);
        weights
            .saturating_add(packed)
            .saturating_add(period.saturating_mul(8))
    }

    fn prepare(problem: &Problem<'_, Int8Step>) -> Result<Self, QuantError> {
        let step = problem.step;
        let Some((numbers, weights)) = known(step) else {
            unreachable!("what `can_implement` lets through")
        };
        let weights = centred_weights(step, numbers, &weights.values());
        let has_byte_weights = weights.iter().all(|&w| i8::try_from(w).is_ok());
        let kernel = DepthwiseKernel::best(problem.cpu.isa, has_byte_weights);
        Ok(Self::new(step, kernel, numbers, &weights))
    }
}

impl Int8Depthwise {
    /// `step` by `kernel`, which takes such `weights`, `[channel][tap]` without their zero points.
    fn new(
        step: &Int8Step,
        kernel: DepthwiseKernel,
        numbers: &KnownQuantisation,
        weights: &[i16],
    ) -> Self {
        let channels = step.groups();
        let pitch = channels.next_multiple_of(PITCH);
        let window = &step.window;
        let layout = RowLayout::new(
            (channels, pitch),
            (step.x.axes[3].extent, step.y.axes[3].extent),
            (
                window.kernel[1],
                window.dilation[1],
                window.stride[1],
                window.pad[1],
            ),
            kernel.block(),
        );
        let span = window.kernel[0].saturating_sub(1) * window.dilation[0] + 1;
        // Rows far apart are laid anew for every row of the result.
        let ring = match span <= 2 * window.kernel[0] {
            true => span,
            false => window.kernel[0],
        };
        let flip = if step.x_type == DType::I8 { 0x80 } else { 0 };
        let packed = Numbers::new(kernel, step, numbers, weights, pitch);
        let mut step = step.clone();
        step.forget_weights();
        Self {
            step,
            kernel,
            numbers: packed,
            layout,
            ring,
            flip,
            zero: numbers.x_zero as u8 ^ flip,
        }
    }

    /// Taps, padded to whole steps of the kernel.
    fn padded_taps(&self) -> usize {
        self.numbers.steps * self.kernel.taps_of_step()
    }

    /// Blocks of one row of the result.
    fn blocks(&self) -> usize {
        let row = self.step.y.axes[3].extent * self.layout.pitch;
        row.div_ceil(self.kernel.block())
    }

    /// Bytes of scratch: pointers to taps, which row each place of the ring holds, the ring, a row outside of the
    /// picture, and a row of the result.
    fn scratch_bytes(&self) -> usize {
        let words = self.padded_taps().saturating_add(self.ring);
        let rows = self
            .layout
            .size_bytes()
            .saturating_mul(self.ring.saturating_add(1));
        words
            .saturating_mul(size_of::<usize>())
            .saturating_add(rows)
            .saturating_add(self.blocks().saturating_mul(self.kernel.block()))
    }
}

impl PreparedStep for Int8Depthwise {
    fn run(&self, c: &Context<'_>) -> Result<(), StepError> {
        let step = &self.step;
        let [n, channels, height, width] = std::array::from_fn(|a| step.y.axes[a].extent);
        let rows = n * height;
        let products = rows * width * channels * step.taps();
        if products == 0 {
            return Ok(());
        }
        let tasks = (products / MIN_PER_TASK).clamp(1, c.pool.threads().min(rows));
        let stride = |view: &View, axis: usize| view.axes[axis].stride;
        let pictures = &Pictures {
            x: c.memory.bytes(&step.x),
            x_strides: [0, 2, 3].map(|axis| stride(&step.x, axis)),
            y: c.memory.bytes(&step.y),
            y_strides: [0, 2, 3].map(|axis| stride(&step.y, axis)),
            height,
        };
        c.pool.run(tasks, |task| {
            let (first, last) = (rows * task / tasks, rows * (task + 1) / tasks);
            // SAFETY: views were checked at load and channel strides are 1 by the step's contract; every task writes
            // its own rows and has its own scratch, which is as large as `workspace_size` says and aligned for
            // pointers, as a cache line is.
            unsafe {
                let mut scratch = Laid::new(self, c.scratch.part(task).cast());
                for row in first..last {
                    self.run_row(pictures, row, &mut scratch);
                }
            }
        });
        Ok(())
    }

    fn operands(&self) -> &'static str {
        super::operands_of(&self.step)
    }

    fn variant(&self) -> &'static str {
        self.kernel.name()
    }

    fn weight_bytes(&self) -> usize {
        self.numbers.size_bytes()
    }

    fn workspace_size(&self, _: Cpu<'_>) -> WorkspaceSize {
        WorkspaceSize::scratch(self.scratch_bytes().div_ceil(size_of::<f32>()))
    }
}

/// What tasks share: pictures and results, with the bytes from one picture, row and pixel to the next.
struct Pictures {
    x: *const u8,
    x_strides: [isize; 3],
    y: *mut u8,
    y_strides: [isize; 3],
    /// Of the result.
    height: usize,
}

// SAFETY: the pointers go into buffers that outlive the run; tasks write disjoint rows.
unsafe impl Sync for Pictures {}

/// The scratch of one task.
struct Laid<'s> {
    taps: &'s mut [*const u8],
    /// Which row of all pictures each place of the ring holds, counted from 1; 0 is none.
    held: &'s mut [usize],
    ring: *mut u8,
    outside: *const u8,
    result: *mut u8,
}

impl Laid<'_> {
    /// # Safety
    ///
    /// [`Int8Depthwise::scratch_bytes`] must be writable at `memory`, aligned for pointers, set, and used by nobody
    /// else.
    unsafe fn new(prepared: &Int8Depthwise, memory: *mut u8) -> Self {
        let taps = prepared.padded_taps();
        let row = prepared.layout.size_bytes();
        // SAFETY: the parts lie one behind the other in the memory that the caller vouches for.
        unsafe {
            let held = memory.cast::<usize>().add(taps);
            let ring = held.add(prepared.ring).cast::<u8>();
            let outside = ring.add(prepared.ring * row);
            outside.write_bytes(prepared.zero, row);
            let held = std::slice::from_raw_parts_mut(held, prepared.ring);
            held.fill(0);
            Self {
                taps: std::slice::from_raw_parts_mut(memory.cast(), taps),
                held,
                ring,
                outside,
                result: outside.add(row),
            }
        }
    }
}

impl Int8Depthwise {
    /// Computes row `row` of all results.
    ///
    /// # Safety
    ///
    /// It must exist, and be written by nobody else.
    unsafe fn run_row(&self, pictures: &Pictures, row: usize, laid: &mut Laid<'_>) {
        let (step, layout) = (&self.step, &self.layout);
        let window = &step.window;
        let (picture, y) = (row / pictures.height, row % pictures.height);
        let x_height = step.x.axes[2].extent;
        let row_bytes = layout.size_bytes();
        for ky in 0..window.kernel[0] {
            let position = y * window.stride[0] + ky * window.dilation[0];
            let source = position.checked_sub(window.pad[0]);
            let from = match source.filter(|&source| source < x_height) {
                None => laid.outside,
                Some(source) => {
                    let place = match self.ring == window.kernel[0] {
                        true if window.dilation[0] > 1 => ky,
                        _ => source % self.ring,
                    };
                    let name = picture * x_height + source + 1;
                    let to = laid.ring.wrapping_add(place * row_bytes);
                    if laid.held[place] != name {
                        let [of_picture, of_row, of_pixel] = pictures.x_strides;
                        let at = picture as isize * of_picture + source as isize * of_row;
                        let x = pictures.x.wrapping_offset(at);
                        // SAFETY: the row is one of the picture; the ring has this place.
                        unsafe { layout.lay(x, of_pixel, to, self.flip, self.zero) };
                        laid.held[place] = name;
                    }
                    to.cast_const()
                }
            };
            let taps = &mut laid.taps[ky * window.kernel[1]..][..window.kernel[1]];
            for (tap, &offset) in taps.iter_mut().zip(&layout.tap_offsets) {
                *tap = from.wrapping_add(offset);
            }
        }
        // Weights of the taps behind the last are zero; what is read there must be readable.
        laid.taps[step.taps()..].fill(laid.outside);
        let [of_picture, of_row, of_pixel] = pictures.y_strides;
        let at = picture as isize * of_picture + y as isize * of_row;
        let to = pictures.y.wrapping_offset(at);
        // SAFETY: taps are runs of laid rows with a block to spare; the result is a row of its view.
        unsafe { self.run_blocks(laid, to, of_pixel) };
    }

    /// Computes the row whose taps are `laid`, `apart` bytes from one pixel of the result to the next.
    ///
    /// # Safety
    ///
    /// Taps must be readable for all blocks, and the row at `to` writable.
    unsafe fn run_blocks(&self, laid: &Laid<'_>, to: *mut u8, apart: isize) {
        let (layout, block, blocks) = (&self.layout, self.kernel.block(), self.blocks());
        let width = self.step.y.axes[3].extent;
        let is_dense = apart == layout.pitch as isize && layout.channels == layout.pitch;
        // Whole blocks go where they belong, if the row is one run of bytes.
        let whole = match is_dense {
            true => width * layout.pitch / block,
            false => 0,
        };
        let row = |first: usize, last: usize, y: *mut u8| Row {
            numbers: &self.numbers,
            taps: laid.taps,
            first,
            last,
            y,
        };
        // SAFETY: whole blocks lie in the row; the rest goes where all blocks have room.
        unsafe {
            run::run(self.kernel, &row(0, whole, to));
            run::run(self.kernel, &row(whole, blocks, laid.result));
            if is_dense {
                let rest = width * layout.pitch - whole * block;
                laid.result
                    .copy_to_nonoverlapping(to.add(whole * block), rest);
                return;
            }
            for x in 0..width {
                let from = laid.result.add(x * layout.pitch);
                let to = to.wrapping_offset(x as isize * apart);
                from.copy_to_nonoverlapping(to, layout.channels);
            }
        }
    }
}

#[cfg(test)]
mod tests;
