//! Means of bytes, over any axes.
//!
//! ```text
//! for every position of the remaining axes but the innermost of unit stride (a block of it):
//!     sums[block] = 0;  for every reduced position: sums += x        u32, moved to u64 before they overflow
//!     y[block] = sums / n                                            one rounding to f32
//! ```

use spark_quant::QuantError;

use super::reduce::Walk;
use crate::cpu::prepared::{Context, Kernel, PreparedStep, Problem, StepError};
use crate::cpu::simd::{Isa, Simd, dispatch};
use crate::plan::{ReduceStep, Storage};

/// Sums at once: a cache line of bytes.
const BLOCK: usize = 64;
/// Bytes whose sum fits 32 bits.
const MOST_BYTES: usize = 1 << 23;

/// The mean of bytes as f32.
pub(crate) struct ByteMean {
    step: ReduceStep,
    is_signed: bool,
}

impl Kernel<ReduceStep> for ByteMean {
    fn can_implement(problem: &Problem<'_, ReduceStep>) -> bool {
        // Of bytes there are no other reductions.
        problem.plan.storage(&problem.step.x).is_byte()
    }

    fn prepare(problem: &Problem<'_, ReduceStep>) -> Result<Self, QuantError> {
        Ok(Self {
            step: problem.step.clone(),
            is_signed: problem.plan.storage(&problem.step.x) == Storage::I8,
        })
    }
}

impl PreparedStep for ByteMean {
    fn run(&self, c: &Context<'_>) -> Result<(), StepError> {
        let step = &self.step;
        let rank = step.x.rank();
        let reduced = |a: usize| step.y.axes[a].extent == 1 && step.x.axes[a].extent != 1;
        let over = &Walk::new(&step.x, &step.y, (0..rank).filter(|&a| reduced(a)));
        // The innermost remaining axis, if its elements lie side by side.
        let inner = (0..rank)
            .find(|&a| !reduced(a) && step.x.axes[a].extent > 1 && step.x.axes[a].stride == 1);
        let width = inner.map_or(1, |a| step.x.axes[a].extent);
        let y_stride = inner.map_or(0, |a| step.y.axes[a].stride);
        let others = (0..rank).filter(|&a| !reduced(a) && Some(a) != inner);
        let remaining = Walk::new(&step.x, &step.y, others);
        let blocks = width.div_ceil(BLOCK);
        let (x, y) = (c.memory.bytes(&step.x), c.memory.f32(&step.y));
        // Signed bytes with the highest bit turned over are unsigned ones, 128 more.
        let (flip, offset) = if self.is_signed {
            (0x80, 128.0)
        } else {
            (0, 0.0)
        };
        let places = &Places { x, y };
        c.pool.run(remaining.len() * blocks, |task| {
            let (from, to) = remaining.offsets(task / blocks);
            let start = task % blocks * BLOCK;
            let len = BLOCK.min(width - start);
            let at = start as isize;
            let sums = sums(c.isa, over, places.x.wrapping_offset(from + at), len, flip);
            for (i, sum) in sums[..len].iter().enumerate() {
                let mean = *sum as f64 / over.len() as f64 - offset;
                let to = places.y.wrapping_offset(to + (at + i as isize) * y_stride);
                // SAFETY: offsets come from the views' extents, which were checked at load; every task writes its own
                // block.
                unsafe { *to = mean as f32 };
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
    y: *mut f32,
}

// SAFETY: tasks read shared and write disjoint elements.
unsafe impl Sync for Places {}

/// Sums over the positions of `over` of `len` bytes side by side, with the bits of `flip` turned over.
fn sums(isa: Isa, over: &Walk, x: *const u8, len: usize, flip: u8) -> [u64; BLOCK] {
    let mut sums = [0; BLOCK];
    let mut partial = [0; BLOCK];
    let mut left = MOST_BYTES;
    over.each(|offset| {
        // SAFETY: positions are of the view, which was checked at load; `isa` names a set this processor has.
        unsafe {
            let row = std::slice::from_raw_parts(x.wrapping_offset(offset), len);
            let partial = &mut partial;
            dispatch!(
                isa,
                add(sums: &mut [u32; BLOCK], row: &[u8], flip: u8) => (partial, row, flip)
            );
        }
        left -= 1;
        if left == 0 {
            carry(&mut sums, &mut partial);
            left = MOST_BYTES;
        }
    });
    carry(&mut sums, &mut partial);
    sums
}

/// Adds a row to sums.
#[inline(always)]
#[allow(
    clippy::extra_unused_type_parameters,
    reason = "it says which instruction set the function is compiled for"
)]
unsafe fn add<S: Simd>(sums: &mut [u32; BLOCK], row: &[u8], flip: u8) {
    // The constant length unrolls.
    if let Some(row) = row.first_chunk::<BLOCK>() {
        for (sum, &x) in sums.iter_mut().zip(row) {
            *sum += u32::from(x ^ flip);
        }
        return;
    }
    for (sum, &x) in sums.iter_mut().zip(row) {
        *sum += u32::from(x ^ flip);
    }
}

fn carry(sums: &mut [u64; BLOCK], partial: &mut [u32; BLOCK]) {
    for (sum, partial) in sums.iter_mut().zip(partial) {
        *sum += u64::from(std::mem::take(partial));
    }
}
