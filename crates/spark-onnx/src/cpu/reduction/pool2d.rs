//! Windowed maximum and average over channels-last images.
//!
//! Lanes are channels. A window is clipped to the image first, so that padding is never
//! read; an average divides by the elements inside, or by all of them if padding counts
//! (ONNX: then also the padding, but not what rounding the size up adds beyond it).

use spark_gemm::FloatFormat;
use spark_quant::QuantError;

use crate::cpu::memory::Memory;
use crate::cpu::prepared::{Context, Kernel, PreparedStep, Problem, StepError};
use crate::cpu::simd::{Simd, dispatch};
use crate::graph::PoolKind;
use crate::plan::{PoolStep, View};

/// Runs the step.
fn run(step: &PoolStep, c: &Context<'_>) {
    let Context {
        isa, memory, pool, ..
    } = *c;
    let (n, oh) = (step.y.axes[0].extent, step.y.axes[2].extent);
    pool.run(n * oh, |task| {
        let (batch, row) = (task / oh, task % oh);
        // SAFETY: views were checked at load, channel strides are 1 by the step's contract, and every
        // task writes its own row; `isa` names a set this processor has.
        unsafe {
            dispatch!(
                isa,
                row_kernel(step: &PoolStep, memory: &Memory, batch: usize, row: usize)
                    => (step, memory, batch, row)
            )
        }
    });
}

/// Source positions of one window along one axis, and how many count when padding does.
#[derive(Clone, Copy)]
pub(super) struct Span {
    pub(super) first: usize,
    pub(super) taps: usize,
    pub(super) step: usize,
    counted: usize,
}

pub(super) fn span(step: &PoolStep, axis: usize, position: usize) -> Span {
    let w = &step.window;
    let extent = step.x.axes[2 + axis].extent as isize;
    let d = w.dilation[axis] as isize;
    let origin = (position * w.stride[axis]) as isize - w.pad[axis] as isize;
    let taps = w.kernel[axis];
    // Most windows lie inside.
    if origin >= 0 && origin + (taps as isize - 1) * d < extent {
        return Span {
            first: origin as usize,
            taps,
            step: d as usize,
            counted: taps,
        };
    }
    // A window may be far wider than the image: taps are counted, not tried.
    let taps_before = |end: isize| {
        let distance = (end - origin).max(0) as usize;
        distance.div_ceil(w.dilation[axis]).min(taps)
    };
    let (first, end) = (taps_before(0), taps_before(extent));
    Span {
        first: (origin + first as isize * d).max(0) as usize,
        taps: end - first,
        step: d as usize,
        counted: taps_before(extent + step.pad_end[axis] as isize),
    }
}

#[inline(always)]
unsafe fn row_kernel<S: Simd>(step: &PoolStep, memory: &Memory, batch: usize, row: usize) {
    let (xa, ya) = (&step.x.axes, &step.y.axes);
    let formats = [memory.float_format(&step.x), memory.float_format(&step.y)];
    let x = formats[0].offset(memory.floats(&step.x), batch as isize * xa[0].stride);
    let at = batch as isize * ya[0].stride + row as isize * ya[2].stride;
    let y = formats[1].offset_mut(memory.floats(&step.y), at);
    let vertical = span(step, 0, row);
    for ox in 0..ya[3].extent {
        let horizontal = span(step, 1, ox);
        let count = if step.count_include_pad {
            vertical.counted * horizontal.counted
        } else {
            vertical.taps * horizontal.taps
        };
        let scale = inverse(count);
        let y = formats[1].offset_mut(y, ox as isize * ya[3].stride);
        let mut channel = 0;
        while channel < ya[1].extent {
            let lanes = S::LANES.min(ya[1].extent - channel);
            // SAFETY: spans are clipped to the image; partial vectors touch `lanes` elements only.
            unsafe {
                let average = step.kind == PoolKind::Average;
                let mut acc = S::splat(if average { 0.0 } else { f32::NEG_INFINITY });
                for ty in 0..vertical.taps {
                    for tx in 0..horizontal.taps {
                        let sy = (vertical.first + ty * vertical.step) as isize;
                        let sx = (horizontal.first + tx * horizontal.step) as isize;
                        let at = sy * xa[2].stride + sx * xa[3].stride + channel as isize;
                        let p = formats[0].offset(x, at);
                        let v = match (formats[0], lanes == S::LANES) {
                            (FloatFormat::F32, true) => S::load(p),
                            (FloatFormat::F32, false) => S::load_first(p, lanes),
                            (FloatFormat::Bf16, true) => S::load_bf16(p.cast()),
                            (FloatFormat::Bf16, false) => S::load_first_bf16(p.cast(), lanes),
                        };
                        acc = if average {
                            S::add(acc, v)
                        } else {
                            S::max(acc, v)
                        };
                    }
                }
                if average {
                    acc = S::mul(acc, S::splat(scale));
                }
                let to = formats[1].offset_mut(y, channel as isize);
                match (formats[1], lanes == S::LANES) {
                    (FloatFormat::F32, true) => S::store(to, acc),
                    (FloatFormat::F32, false) => S::store_first(to, acc, lanes),
                    (FloatFormat::Bf16, true) => S::store_bf16(to.cast(), acc),
                    (FloatFormat::Bf16, false) => S::store_first_bf16(to.cast(), acc, lanes),
                }
            }
            channel += S::LANES;
        }
    }
}

/// One over the number of elements; a window wholly outside the image averages to zero.
fn inverse(count: usize) -> f32 {
    if count == 0 { 0.0 } else { 1.0 / count as f32 }
}

/// Windowed maximum or average, a row of the result at a time.
pub(crate) struct Pool2d(PoolStep);

impl Kernel<PoolStep> for Pool2d {
    fn never_bf16<'p>(_: &Problem<'p, PoolStep>) -> Vec<&'p View> {
        Vec::new()
    }

    fn prepare(problem: &Problem<'_, PoolStep>) -> Result<Self, QuantError> {
        Ok(Self(problem.step.clone()))
    }
}

impl PreparedStep for Pool2d {
    fn run(&self, c: &Context<'_>) -> Result<(), StepError> {
        run(&self.0, c);
        Ok(())
    }
}
