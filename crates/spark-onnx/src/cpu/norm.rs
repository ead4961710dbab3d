//! Normalisations over rows, and over groups of channels.
//!
//! ```text
//! mean = sum x / n        variance = sum (x - mean)^2 / n        y = (x - mean) / deviation * s + b
//! ```
//!
//! Sums over rows are those of `rows`, over groups in f64. The variance is taken of the differences, not of squares, which would
//! cancel.

use std::ops::Range;

use spark_parallel::Pool;
use spark_quant::QuantError;

use super::memory::Memory;
use super::prepared::{Context, Kernel, PreparedStep, Problem, StepError};
use super::rows::{LANES, RowPair, lanes_of, load_or, partial_vectors, sum_of};
use super::simd::{Isa, Simd, dispatch};
use crate::plan::{GroupNormStep, NormKind, NormStep, View};

/// What every row of a normalisation shares.
#[derive(Clone, Copy)]
struct Norm {
    /// As wide as a row; may be null.
    scale: *const f32,
    /// As wide as a row; may be null.
    bias: *const f32,
    kind: NormKind,
    epsilon: f64,
}

// SAFETY: scale and bias are only read.
unsafe impl Sync for Norm {}

/// Runs a layer or root-mean-square normalisation.
pub(crate) fn run_norm(isa: Isa, step: &NormStep, memory: &Memory, pool: &Pool) {
    let pair = &RowPair::new(&step.x, &step.y, memory);
    let vector = |view: &Option<View>| match view {
        Some(view) => memory.f32(view).cast_const(),
        None => std::ptr::null(),
    };
    let norm = &Norm {
        scale: vector(&step.scale),
        bias: vector(&step.bias),
        kind: step.kind,
        epsilon: f64::from(step.epsilon),
    };
    let tasks = pair.tasks(pool);
    pool.run(tasks, |task| {
        let rows = pair.rows * task / tasks..pair.rows * (task + 1) / tasks;
        // SAFETY: rows are split between tasks; scale and bias are dense and as wide as a row by
        // the step's contract; `isa` names a set this processor has.
        unsafe {
            dispatch!(isa, norm_rows(pair: &RowPair, rows: Range<usize>, norm: &Norm) => (pair, rows, norm));
        }
    });
}

#[inline(always)]
unsafe fn norm_rows<S: Simd>(pair: &RowPair, rows: Range<usize>, norm: &Norm) {
    for row in rows {
        let (x, y) = pair.pointers(row);
        // SAFETY: the rows are this task's; the caller's processor has the instruction set.
        unsafe { norm_row::<S>(x, y, pair.width, norm) };
    }
}

/// One row of `width` elements; `x` may be `y`.
#[inline(always)]
unsafe fn norm_row<S: Simd>(x: *const f32, y: *mut f32, width: usize, norm: &Norm) {
    // SAFETY: the caller vouches for `width` elements everywhere and for the instruction set.
    unsafe {
        let n_elements = width as f64;
        let zero = S::splat(0.0);
        let mean = match norm.kind {
            NormKind::MeanVariance => {
                let mut parts = [zero; 4];
                partial_vectors!(S, width, (at, p, n) => {
                    parts[p] = S::add(parts[p], load_or::<S>(x.add(at), n, 0.0));
                });
                (f64::from(sum_of(&lanes_of::<S>(parts))) / n_elements) as f32
            }
            NormKind::MeanSquare => 0.0,
        };
        let middle = S::splat(mean);
        let mut parts = [zero; 4];
        partial_vectors!(S, width, (at, p, n) => {
            let difference = S::sub(load_or::<S>(x.add(at), n, mean), middle);
            parts[p] = S::fma(difference, difference, parts[p]);
        });
        let variance = f64::from(sum_of(&lanes_of::<S>(parts))) / n_elements;
        let inverse = S::splat((1.0 / (variance + norm.epsilon).sqrt()) as f32);
        partial_vectors!(S, width, (at, _p, n) => {
            let v = S::mul(S::sub(load_or::<S>(x.add(at), n, mean), middle), inverse);
            let result = S::fma(v, at_or::<S>(norm.scale, at, n, 1.0), at_or::<S>(norm.bias, at, n, 0.0));
            match n == S::LANES {
                true => S::store(y.add(at), result),
                false => S::store_first(y.add(at), result, n),
            }
        });
    }
}

/// `n` elements from `at` on, or `neutral` where there is no such vector.
#[inline(always)]
unsafe fn at_or<S: Simd>(vector: *const f32, at: usize, n: usize, neutral: f32) -> S::V {
    // SAFETY: the caller vouches for the elements and for the instruction set.
    unsafe {
        match vector.is_null() {
            true => S::splat(neutral),
            false => load_or::<S>(vector.add(at), n, neutral),
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

/// Layer or root-mean-square normalisation, a row at a time.
pub(crate) struct RowNorm(NormStep);

impl Kernel<NormStep> for RowNorm {
    fn prepare(problem: &Problem<'_, NormStep>) -> Result<Self, QuantError> {
        Ok(Self(problem.step.clone()))
    }
}

impl PreparedStep for RowNorm {
    fn run(&self, c: &Context<'_>) -> Result<(), StepError> {
        run_norm(c.isa, &self.0, c.memory, c.pool);
        Ok(())
    }
}

/// Instance or group normalisation, a group of a sample at a time.
pub(crate) struct GroupNorm(GroupNormStep);

impl Kernel<GroupNormStep> for GroupNorm {
    fn prepare(problem: &Problem<'_, GroupNormStep>) -> Result<Self, QuantError> {
        Ok(Self(problem.step.clone()))
    }
}

impl PreparedStep for GroupNorm {
    fn run(&self, c: &Context<'_>) -> Result<(), StepError> {
        run_group_norm(&self.0, c.memory, c.pool);
        Ok(())
    }
}
