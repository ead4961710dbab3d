//! Softmax and normalisations over rows.
//!
//! Sums run over 16 partial sums, one per lane position, combined in f64 at the end:
//! fast, and the same on every thread count.

use super::math;
use super::memory::Memory;
use super::simd::{Isa, Simd, dispatch};
use super::threads::Pool;
use crate::plan::{GroupNormStep, NormKind, NormStep, SoftmaxStep, View};

/// Partial sums of one row.
const LANES: usize = 16;
/// Elements below which a second thread does not pay.
const MIN_PER_TASK: usize = 8 * 1024;

/// Sum over a row of `f(element)`.
#[inline(always)]
fn row_sum(x: &[f32], f: impl Fn(f32) -> f32) -> f64 {
    let mut partial = [0.0f32; LANES];
    let chunks = x.chunks_exact(LANES);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (p, &v) in partial.iter_mut().zip(chunk) {
            *p += f(v);
        }
    }
    for (p, &v) in partial.iter_mut().zip(rest) {
        *p += f(v);
    }
    partial.iter().map(|&p| f64::from(p)).sum()
}

#[inline(always)]
fn row_max(x: &[f32]) -> f32 {
    let mut partial = [f32::NEG_INFINITY; LANES];
    let chunks = x.chunks_exact(LANES);
    let rest = chunks.remainder();
    let greater = |p: &mut f32, v: f32| *p = if v > *p { v } else { *p };
    for chunk in chunks {
        partial
            .iter_mut()
            .zip(chunk)
            .for_each(|(p, &v)| greater(p, v));
    }
    partial
        .iter_mut()
        .zip(rest)
        .for_each(|(p, &v)| greater(p, v));
    partial.into_iter().fold(f32::NEG_INFINITY, f32::max)
}

/// Rows of a `[rows, width]` view and its partner.
#[derive(Clone, Copy)]
struct RowPair {
    x: *const f32,
    x_stride: isize,
    y: *mut f32,
    y_stride: isize,
    rows: usize,
    width: usize,
}

// SAFETY: tasks write disjoint rows.
unsafe impl Sync for RowPair {}

impl RowPair {
    fn new(x: &View, y: &View, memory: &Memory) -> Self {
        Self {
            x: memory.f32(x),
            x_stride: x.axes[0].stride,
            y: memory.f32(y),
            y_stride: y.axes[0].stride,
            rows: y.axes[0].extent,
            width: y.axes[1].extent,
        }
    }

    fn tasks(&self, pool: &Pool) -> usize {
        (self.rows * self.width / MIN_PER_TASK)
            .clamp(1, pool.threads())
            .min(self.rows.max(1))
    }

    /// Copies row `row` of `x` to `y`, unless they are the same, and gives it for writing.
    ///
    /// # Safety
    ///
    /// The row must exist and belong to this task alone.
    #[inline(always)]
    #[allow(clippy::mut_from_ref, reason = "each task has its own rows")]
    unsafe fn row(&self, row: usize) -> &mut [f32] {
        let x = self.x.wrapping_offset(row as isize * self.x_stride);
        let y = self.y.wrapping_offset(row as isize * self.y_stride);
        // SAFETY: unit stride along the width by the steps' contract; `copy` allows overlap.
        unsafe {
            if x != y {
                std::ptr::copy(x, y, self.width);
            }
            std::slice::from_raw_parts_mut(y, self.width)
        }
    }
}

/// Runs a softmax step.
pub(crate) fn run_softmax(isa: Isa, step: &SoftmaxStep, memory: &Memory, pool: &Pool) {
    let pair = &RowPair::new(&step.x, &step.y, memory);
    let tasks = pair.tasks(pool);
    pool.run(tasks, |task| {
        for row in pair.rows * task / tasks..pair.rows * (task + 1) / tasks {
            // SAFETY: rows are split between tasks; `isa` names a set this processor has.
            unsafe {
                let values = pair.row(row);
                let log = step.log;
                dispatch!(isa, softmax_row(values: &mut [f32], log: bool) => (values, log));
            }
        }
    });
}

#[inline(always)]
unsafe fn softmax_row<S: Simd>(values: &mut [f32], log: bool) {
    let max = row_max(values);
    // All minus infinity (a fully masked row) gives NaN, as the formula does.
    // SAFETY: the caller's processor has the instruction set.
    unsafe {
        if log {
            let mut sum = 0.0;
            for chunk in values.chunks(4 * LANES) {
                let mut block = [0.0; 4 * LANES];
                let block = &mut block[..chunk.len()];
                block.copy_from_slice(chunk);
                math::exp_shifted::<S>(block, max);
                sum += row_sum(block, |v| v);
            }
            let shift = (sum.ln() + f64::from(max)) as f32;
            values.iter_mut().for_each(|v| *v -= shift);
            return;
        }
        math::exp_shifted::<S>(values, max);
    }
    let scale = (1.0 / row_sum(values, |v| v)) as f32;
    values.iter_mut().for_each(|v| *v *= scale);
}

/// Runs a layer or root-mean-square normalisation.
pub(crate) fn run_norm(isa: Isa, step: &NormStep, memory: &Memory, pool: &Pool) {
    let pair = &RowPair::new(&step.x, &step.y, memory);
    let tasks = pair.tasks(pool);
    let vector = |v: &Option<View>| v.as_ref().map(|v| memory.f32(v) as usize);
    let (scale, bias) = (vector(&step.scale), vector(&step.bias));
    pool.run(tasks, |task| {
        for row in pair.rows * task / tasks..pair.rows * (task + 1) / tasks {
            // SAFETY: rows are split between tasks; scale and bias are dense and as wide as a row by
            // the step's contract; `isa` names a set this processor has.
            unsafe {
                let values = pair.row(row);
                let slice = |p: usize| std::slice::from_raw_parts(p as *const f32, pair.width);
                let (scale, bias) = (scale.map(slice), bias.map(slice));
                let (kind, epsilon) = (step.kind, step.epsilon);
                dispatch!(
                    isa,
                    norm_row(values: &mut [f32], scale: Option<&[f32]>, bias: Option<&[f32]>, kind: NormKind, epsilon: f32)
                        => (values, scale, bias, kind, epsilon)
                );
            }
        }
    });
}

#[inline(always)]
unsafe fn norm_row<S: Simd>(
    values: &mut [f32],
    scale: Option<&[f32]>,
    bias: Option<&[f32]>,
    kind: NormKind,
    epsilon: f32,
) {
    let n = values.len() as f64;
    let mean = match kind {
        NormKind::MeanVariance => (row_sum(values, |v| v) / n) as f32,
        NormKind::MeanSquare => 0.0,
    };
    let variance = row_sum(values, |v| (v - mean) * (v - mean)) / n;
    let inverse = (1.0 / (variance + f64::from(epsilon)).sqrt()) as f32;
    match (scale, bias) {
        (Some(scale), Some(bias)) => {
            for ((v, &s), &b) in values.iter_mut().zip(scale).zip(bias) {
                *v = S::fma_one((*v - mean) * inverse, s, b);
            }
        }
        (Some(scale), None) => {
            for (v, &s) in values.iter_mut().zip(scale) {
                *v = (*v - mean) * inverse * s;
            }
        }
        (None, bias) => {
            for (i, v) in values.iter_mut().enumerate() {
                *v = (*v - mean) * inverse + bias.map_or(0.0, |b| b[i]);
            }
        }
    }
}

/// Runs an instance or group normalisation.
pub(crate) fn run_group_norm(step: &GroupNormStep, memory: &Memory, pool: &Pool) {
    let [n, c, p] = [0, 1, 2].map(|a| step.x.axes[a].extent);
    let per_group = c / step.groups.max(1);
    let xs = [0, 1, 2].map(|a| step.x.axes[a].stride);
    let ys = [0, 1, 2].map(|a| step.y.axes[a].stride);
    pool.run(n * step.groups, |task| {
        let (sample, group) = ((task / step.groups) as isize, task % step.groups);
        let first = group * per_group;
        let x = memory.f32(&step.x).wrapping_offset(sample * xs[0]);
        let y = memory.f32(&step.y).wrapping_offset(sample * ys[0]);
        let (scale, bias) = (memory.f32(&step.scale), memory.f32(&step.bias));
        let each = |f: &mut dyn FnMut(usize, f64)| {
            for channel in first..first + per_group {
                for position in 0..p {
                    let at = channel as isize * xs[1] + position as isize * xs[2];
                    // SAFETY: the view was checked at load.
                    f(channel, f64::from(unsafe { *x.offset(at) }));
                }
            }
        };
        let count = (per_group * p) as f64;
        let mut sum = 0.0;
        each(&mut |_, v| sum += v);
        let mean = sum / count;
        let mut square = 0.0;
        each(&mut |_, v| square += (v - mean) * (v - mean));
        let inverse = 1.0 / (square / count + f64::from(step.epsilon)).sqrt();
        for channel in first..first + per_group {
            let at = channel as isize;
            // SAFETY: views were checked at load; each task has its own sample and channels.
            unsafe {
                let s = f64::from(*scale.offset(at * step.scale.axes[0].stride)) * inverse;
                let b = f64::from(*bias.offset(at * step.bias.axes[0].stride)) - mean * s;
                let (s, b) = (s as f32, b as f32);
                for position in 0..p as isize {
                    let v = *x.offset(at * xs[1] + position * xs[2]);
                    *y.offset(at * ys[1] + position * ys[2]) = v * s + b;
                }
            }
        }
    });
}
