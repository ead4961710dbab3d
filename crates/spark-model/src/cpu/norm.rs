//! Softmax and normalisations over rows.
//!
//! Sums run over 16 partial sums, one per lane position, combined in f64 at the end:
//! fast, and the same on every thread count. They are combined in halves, and rows of a
//! softmax, which attention makes short and many, go through whole vectors and a masked one.

use super::math;
use super::matmul::TASKS_PER_THREAD;
use super::memory::Memory;
use super::simd::{Isa, Simd, dispatch};
use super::threads::Pool;
use crate::plan::{GroupNormStep, NormKind, NormStep, SoftmaxStep, View};
use std::ops::Range;

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
    sum_of(&partial)
}

/// The sum of partial sums.
#[inline(always)]
fn sum_of(partial: &[f32; LANES]) -> f64 {
    let mut wide = partial.map(f64::from);
    let mut half = LANES / 2;
    while half > 0 {
        for i in 0..half {
            wide[i] += wide[i + half];
        }
        half /= 2;
    }
    wide[0]
}

/// The greatest of partial maxima, none of which is NaN.
#[inline(always)]
fn greatest_of(mut partial: [f32; LANES]) -> f32 {
    let mut half = LANES / 2;
    while half > 0 {
        for i in 0..half {
            let (a, b) = (partial[i], partial[i + half]);
            partial[i] = if a > b { a } else { b };
        }
        half /= 2;
    }
    partial[0]
}

/// `partial_vectors!(S, len, (at, p, n) => body)` runs `body` for every vector of a row:
/// `at` is where it begins, `n` its elements, fewer than `S::LANES` at the row's end, and `p`
/// which part of the `LANES` partial results it belongs to.
///
/// A macro for the reason that `math` gives: closures lack the kernel's instruction set.
macro_rules! partial_vectors {
    ($S:ident, $len:expr, ($at:ident, $p:ident, $n:ident) => $body:expr) => {
        let whole = $len / LANES * LANES;
        for first in (0..whole).step_by(LANES) {
            for $p in 0..LANES / $S::LANES {
                let ($at, $n) = (first + $p * $S::LANES, $S::LANES);
                $body
            }
        }
        for $p in 0..LANES / $S::LANES {
            let $at = whole + $p * $S::LANES;
            let $n = $S::LANES.min($len.saturating_sub($at));
            if $n > 0 {
                $body
            }
        }
    };
}

/// The first `n` elements at `x`, and `fill` in the lanes beyond.
#[inline(always)]
unsafe fn load_or<S: Simd>(x: *const f32, n: usize, fill: f32) -> S::V {
    const POSITIONS: [f32; LANES] = {
        let mut positions = [0.0; LANES];
        let mut i = 0;
        while i < LANES {
            positions[i] = i as f32;
            i += 1;
        }
        positions
    };
    // SAFETY: the caller vouches for `n` elements and for the instruction set.
    unsafe {
        if n == S::LANES {
            return S::load(x);
        }
        let positions = S::load(POSITIONS.as_ptr());
        let here = S::load_first(x, n);
        S::select_less(positions, S::splat(n as f32), here, S::splat(fill))
    }
}

/// Parts of partial results as one array.
#[inline(always)]
unsafe fn lanes_of<S: Simd>(parts: [S::V; 4]) -> [f32; LANES] {
    let mut lanes = [0.0; LANES];
    for (to, part) in lanes.chunks_exact_mut(S::LANES).zip(parts) {
        // SAFETY: a chunk has room for a vector; the caller has the instruction set.
        unsafe { S::store(to.as_mut_ptr(), part) };
    }
    lanes
}

/// The greatest element; NaN is passed over.
#[inline(always)]
unsafe fn row_max<S: Simd>(x: &[f32]) -> f32 {
    // SAFETY: vectors lie inside the row; the caller's processor has the instruction set.
    unsafe {
        let mut parts = [S::splat(f32::NEG_INFINITY); 4];
        partial_vectors!(S, x.len(), (at, p, n) => {
            let v = load_or::<S>(x.as_ptr().add(at), n, f32::NEG_INFINITY);
            parts[p] = S::max(v, parts[p]);
        });
        greatest_of(lanes_of::<S>(parts))
    }
}

/// Replaces every element by `e^(element - shift)` and gives their sum. Less than `e^-87` is 0:
/// beside the greatest, which is 1, it is nothing, and processors take a hundred times longer over
/// subnormal results. Attention masks a score by a large negative number.
#[inline(always)]
unsafe fn exp_row<S: Simd>(x: &mut [f32], shift: f32) -> f64 {
    // SAFETY: vectors lie inside the row; the caller's processor has the instruction set.
    unsafe {
        let (row, len, shift) = (x.as_mut_ptr(), x.len(), S::splat(shift));
        let (least, zero) = (S::splat(-87.0), S::splat(0.0));
        let mut parts = [zero; 4];
        partial_vectors!(S, len, (at, p, n) => {
            let here = row.add(at);
            // Beyond the row's end, e to the power of minus infinity adds nothing.
            let v = load_or::<S>(here, n, f32::NEG_INFINITY);
            let v = S::sub(v, shift);
            // Nothing is above the greatest, so no power is above 0.
            let e = S::select_less(v, least, zero, math::exp_bounded::<S>(S::max(least, v)));
            match n == S::LANES {
                true => S::store(here, e),
                false => S::store_first(here, e, n),
            }
            parts[p] = S::add(parts[p], e);
        });
        sum_of(&lanes_of::<S>(parts))
    }
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
            .clamp(1, TASKS_PER_THREAD * pool.threads())
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
        let rows = pair.rows * task / tasks..pair.rows * (task + 1) / tasks;
        let log = step.log;
        // SAFETY: rows are split between tasks; `isa` names a set this processor has.
        unsafe {
            dispatch!(isa, softmax_rows(pair: &RowPair, rows: Range<usize>, log: bool) => (pair, rows, log));
        }
    });
}

/// Rows one after the other: a short one does not wait for the one before.
#[inline(always)]
unsafe fn softmax_rows<S: Simd>(pair: &RowPair, rows: Range<usize>, log: bool) {
    for row in rows {
        // SAFETY: the rows are this task's; the caller's processor has the instruction set.
        unsafe { softmax_row::<S>(pair.row(row), log) };
    }
}

#[inline(always)]
unsafe fn softmax_row<S: Simd>(values: &mut [f32], log: bool) {
    // All minus infinity (a fully masked row) gives NaN, as the formula does.
    // SAFETY: the caller's processor has the instruction set.
    unsafe {
        let max = row_max::<S>(values);
        if log {
            let mut sum = 0.0;
            for chunk in values.chunks(4 * LANES) {
                let mut block = [0.0; 4 * LANES];
                let block = &mut block[..chunk.len()];
                block.copy_from_slice(chunk);
                sum += exp_row::<S>(block, max);
            }
            let shift = (sum.ln() + f64::from(max)) as f32;
            values.iter_mut().for_each(|v| *v -= shift);
            return;
        }
        let scale = (1.0 / exp_row::<S>(values, max)) as f32;
        math::scale::<S>(values, scale);
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn softmax(isa: Isa, values: &mut [f32], log: bool) {
        // SAFETY: `isa` is one of those that this processor has.
        unsafe { dispatch!(isa, softmax_row(values: &mut [f32], log: bool) => (values, log)) }
    }

    #[test]
    fn softmax_of_every_width_is_right_with_masked_scores() {
        for isa in Isa::available() {
            for width in 1..=70 {
                let score = |i: usize| match i % 5 {
                    4 => -1e9,
                    3 if i > 3 => f32::NEG_INFINITY,
                    _ => ((i * 37) % 11) as f32 - 5.0,
                };
                let x: Vec<f32> = (0..width).map(score).collect();
                let exp = |&v: &f32| f64::from(v).exp();
                let sum: f64 = x.iter().map(exp).sum();
                let (mut plain, mut log) = (x.clone(), x.clone());
                softmax(isa, &mut plain, false);
                softmax(isa, &mut log, true);
                for (i, v) in x.iter().enumerate() {
                    let error = (f64::from(plain[i]) - exp(v) / sum).abs();
                    assert!(error <= 3e-7, "{isa:?} {width} {i}: {}", plain[i]);
                    let want = f64::from(*v) - sum.ln();
                    let close = (f64::from(log[i]) - want).abs() <= 1e-6 * want.abs().max(1.0);
                    assert!(close || f64::from(log[i]) == want, "{isa:?} {width} {i}");
                }
            }
        }
    }

    #[test]
    fn softmax_of_nothing_but_masks_or_of_nan_is_nan() {
        for isa in Isa::available() {
            for width in [1, 4, 16, 20, 33] {
                let mut masked = vec![f32::NEG_INFINITY; width];
                softmax(isa, &mut masked, false);
                let mut poisoned = vec![0.5; width];
                poisoned[width / 2] = f32::NAN;
                softmax(isa, &mut poisoned, false);
                let all = masked.iter().chain(&poisoned);
                assert!(all.copied().all(f32::is_nan), "{isa:?} {width}");
            }
        }
    }
}
