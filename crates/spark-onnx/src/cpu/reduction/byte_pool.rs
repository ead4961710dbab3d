//! Windowed maximum of bytes over channels-last images; lanes are channels.
//!
//! A window is clipped to the image first, so that padding is never read. One that is wholly padding has the least
//! byte.

use spark_quant::QuantError;

use super::pool2d::{Span, span};
use crate::cpu::prepared::{Context, Kernel, PreparedStep, Problem, StepError};
use crate::cpu::simd::{Simd, dispatch};
use crate::plan::{PoolStep, Storage};

/// Channels at once.
const BLOCK: usize = 64;

/// The maximum of bytes, a row of the result at a time.
pub(crate) struct BytePool {
    step: PoolStep,
    is_signed: bool,
}

impl Kernel<PoolStep> for BytePool {
    fn can_implement(problem: &Problem<'_, PoolStep>) -> bool {
        // Of bytes there are no averages.
        problem.plan.storage(&problem.step.x).is_byte()
    }

    fn prepare(problem: &Problem<'_, PoolStep>) -> Result<Self, QuantError> {
        Ok(Self {
            step: problem.step.clone(),
            is_signed: problem.plan.storage(&problem.step.x) == Storage::I8,
        })
    }
}

impl PreparedStep for BytePool {
    fn run(&self, c: &Context<'_>) -> Result<(), StepError> {
        let step = &self.step;
        let (n, height) = (step.y.axes[0].extent, step.y.axes[2].extent);
        let places = &Places {
            x: c.memory.bytes(&step.x),
            y: c.memory.bytes(&step.y),
        };
        c.pool.run(n * height, |task| {
            let (batch, row) = (task / height, task % height);
            // SAFETY: views were checked at load, channel strides are 1 by the step's contract, and every task writes
            // its own row; `isa` names a set this processor has.
            unsafe {
                match self.is_signed {
                    true => dispatch!(
                        c.isa,
                        pool_row::<i8>(step: &PoolStep, places: &Places, batch: usize, row: usize)
                            => (step, places, batch, row)
                    ),
                    false => dispatch!(
                        c.isa,
                        pool_row::<u8>(step: &PoolStep, places: &Places, batch: usize, row: usize)
                            => (step, places, batch, row)
                    ),
                }
            }
        });
        Ok(())
    }

    fn operands(&self) -> &'static str {
        "bytes"
    }
}

/// First elements of both views.
struct Places {
    x: *mut u8,
    y: *mut u8,
}

// SAFETY: tasks read shared and write disjoint rows.
unsafe impl Sync for Places {}

/// A byte of either kind.
trait Byte: Copy + PartialOrd {
    /// The least.
    const LEAST: Self;
}

impl Byte for i8 {
    const LEAST: Self = Self::MIN;
}

impl Byte for u8 {
    const LEAST: Self = Self::MIN;
}

/// Row `row` of picture `batch` of the result.
///
/// # Safety
///
/// It must exist, and be written by nobody else.
#[inline(always)]
#[allow(
    clippy::extra_unused_type_parameters,
    reason = "it says which instruction set the function is compiled for"
)]
unsafe fn pool_row<S: Simd, T: Byte>(step: &PoolStep, places: &Places, batch: usize, row: usize) {
    let (xa, ya) = (&step.x.axes, &step.y.axes);
    let x = places.x.wrapping_offset(batch as isize * xa[0].stride);
    let y = batch as isize * ya[0].stride + row as isize * ya[2].stride;
    let y = places.y.wrapping_offset(y);
    let vertical = span(step, 0, row);
    for ox in 0..ya[3].extent {
        let horizontal = span(step, 1, ox);
        let to = y.wrapping_offset(ox as isize * ya[3].stride);
        for channel in (0..ya[1].extent).step_by(BLOCK) {
            let len = BLOCK.min(ya[1].extent - channel);
            let x = x.wrapping_add(channel).cast::<T>();
            let mut greatest = [T::LEAST; BLOCK];
            // SAFETY: spans are clipped to the image; as many channels as are left are touched.
            unsafe {
                window(
                    &mut greatest,
                    x,
                    [xa[2].stride, xa[3].stride],
                    [vertical, horizontal],
                    len,
                );
                let to = to.wrapping_add(channel).cast::<T>();
                std::ptr::copy_nonoverlapping(greatest.as_ptr(), to, len);
            }
        }
    }
}

/// The greatest of each of `len` channels over the window that starts at `x`.
///
/// # Safety
///
/// Every position of the spans must be readable.
#[inline(always)]
unsafe fn window<T: Byte>(
    greatest: &mut [T; BLOCK],
    x: *const T,
    strides: [isize; 2],
    [vertical, horizontal]: [Span; 2],
    len: usize,
) {
    for ty in 0..vertical.taps {
        for tx in 0..horizontal.taps {
            let at = [
                (vertical.first + ty * vertical.step) as isize,
                (horizontal.first + tx * horizontal.step) as isize,
            ];
            let from = x.wrapping_offset(at[0] * strides[0] + at[1] * strides[1]);
            // SAFETY: guaranteed by the caller.
            let pixel = unsafe { std::slice::from_raw_parts(from, len) };
            match pixel.first_chunk::<BLOCK>() {
                // The constant length stays in registers.
                Some(pixel) => raise(greatest, pixel),
                None => raise(&mut greatest[..len], pixel),
            }
        }
    }
}

#[inline(always)]
fn raise<T: Byte>(greatest: &mut [T], values: &[T]) {
    for (greatest, &value) in greatest.iter_mut().zip(values) {
        *greatest = if value > *greatest { value } else { *greatest };
    }
}
