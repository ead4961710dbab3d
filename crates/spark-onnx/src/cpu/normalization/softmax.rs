//! Softmax: powers of the distance to a row's greatest element, over their sum.
//!
//! ```text
//! m = max x          e[i] = 2^(c (x[i] - m))          y[i] = e[i] / sum e         c = scale / ln 2
//! ```
//!
//! One fused multiply-add takes the distance to the power of two and its whole part away at once,
//! so that a factor of all scores costs nothing. Attention (`attention`) divides its results by the
//! sum, not the row.
//!
//! Error of a weight: 2 units in its last place where no score is further than 16 from the
//! greatest, and for each 16 that it is further one more. A weight below `e^-87` is 0.

use std::ops::Range;

use spark_quant::QuantError;

use spark_simd::math::{exp2_small, negate};

use super::rows::{LANES, RowPair, greatest_of, lanes_of, load_or, partial_vectors, sum_of};
use crate::cpu::math;
use crate::cpu::prepared::{Context, Kernel, PreparedStep, Problem, StepError};
use crate::cpu::simd::{Simd, dispatch};
use crate::plan::SoftmaxStep;

/// The greatest element; NaN is passed over.
#[inline(always)]
pub(crate) unsafe fn row_max<S: Simd>(x: &[f32]) -> f32 {
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

/// Replaces every element by `e^(scale * (element - shift))` and gives their sum; `scale` is
/// positive and no element above `shift`. Less than `e^-87` is 0: beside the greatest, which is 1,
/// it is nothing, and processors take a hundred times longer over subnormal results. Attention
/// masks a score by a large negative number.
#[inline(always)]
pub(crate) unsafe fn exp_row<S: Simd>(x: &mut [f32], shift: f32, scale: f32) -> f32 {
    // Adding 1.5 * 2^23 leaves the nearest integer in the low bits.
    const MAGIC: f32 = 12_582_912.0;
    // SAFETY: vectors lie inside the row; the caller's processor has the instruction set.
    unsafe {
        let (row, len, shift) = (x.as_mut_ptr(), x.len(), S::splat(shift));
        let (least, zero) = (S::splat(-87.0 / scale), S::splat(0.0));
        let (magic, factor) = (
            S::splat(MAGIC),
            S::splat((f64::from(scale) * std::f64::consts::LOG2_E) as f32),
        );
        let mut parts = [zero; 4];
        partial_vectors!(S, len, (at, p, n) => {
            let here = row.add(at);
            // Beyond the row's end, two to the power of minus infinity adds nothing.
            let v = S::sub(load_or::<S>(here, n, f32::NEG_INFINITY), shift);
            let bounded = S::max(least, v);
            let whole = S::sub(S::fma(bounded, factor, magic), magic);
            let power = exp2_small::<S>(S::fma(bounded, factor, negate::<S>(whole)));
            let e = S::select_less(v, least, zero, S::scale(power, whole));
            match n == S::LANES {
                true => S::store(here, e),
                false => S::store_first(here, e, n),
            }
            parts[p] = S::add(parts[p], e);
        });
        sum_of(&lanes_of::<S>(parts))
    }
}

/// Runs a softmax step.
fn run_softmax(step: &SoftmaxStep, c: &Context<'_>) {
    let Context {
        isa, memory, pool, ..
    } = *c;
    let pair = &RowPair::new(&step.x, &step.y, memory);
    let tasks = pair.tasks(pool);
    pool.run(tasks, |task| {
        let rows = pair.rows * task / tasks..pair.rows * (task + 1) / tasks;
        let kind = Kind {
            log: step.log,
            masked: step.masked,
        };
        // SAFETY: rows are split between tasks; `isa` names a set this processor has.
        unsafe {
            dispatch!(isa, softmax_rows(pair: &RowPair, rows: Range<usize>, kind: Kind) => (pair, rows, kind));
        }
    });
}

/// Which softmax.
#[derive(Debug, Clone, Copy)]
struct Kind {
    log: bool,
    masked: bool,
}

/// Whether nothing of a row with the greatest element `greatest`, NaN passed over, may be attended
/// to. Only a row of that greatest element is read again.
#[inline(always)]
pub(crate) fn all_hidden(values: &[f32], greatest: f32) -> bool {
    greatest == f32::NEG_INFINITY && !values.iter().any(|v| v.is_nan())
}

/// Rows one after the other: a short one does not wait for the one before.
#[inline(always)]
unsafe fn softmax_rows<S: Simd>(pair: &RowPair, rows: Range<usize>, kind: Kind) {
    for row in rows {
        // SAFETY: the rows are this task's; the caller's processor has the instruction set.
        unsafe { softmax_row::<S>(pair.row(row), kind) };
    }
}

#[inline(always)]
unsafe fn softmax_row<S: Simd>(values: &mut [f32], kind: Kind) {
    // SAFETY: the caller's processor has the instruction set.
    unsafe {
        let max = row_max::<S>(values);
        if kind.masked && all_hidden(values, max) {
            values.fill(0.0);
            return;
        }
        if kind.log {
            let mut sum = 0.0;
            for chunk in values.chunks(4 * LANES) {
                let mut block = [0.0; 4 * LANES];
                let block = &mut block[..chunk.len()];
                block.copy_from_slice(chunk);
                sum += f64::from(exp_row::<S>(block, max, 1.0));
            }
            // The greatest goes first: added to the logarithm it would take its last bits.
            let log = sum.ln() as f32;
            values.iter_mut().for_each(|v| *v = (*v - max) - log);
            return;
        }
        let scale = 1.0 / exp_row::<S>(values, max, 1.0);
        math::scale::<S>(values, scale);
    }
}

/// Softmax, a row at a time.
pub(crate) struct Softmax(SoftmaxStep);

impl Kernel<SoftmaxStep> for Softmax {
    fn prepare(problem: &Problem<'_, SoftmaxStep>) -> Result<Self, QuantError> {
        Ok(Self(problem.step.clone()))
    }
}

impl PreparedStep for Softmax {
    fn run(&self, c: &Context<'_>) -> Result<(), StepError> {
        run_softmax(&self.0, c);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::simd::Isa;

    fn run(isa: Isa, values: &mut [f32], kind: Kind) {
        // SAFETY: `isa` is one of those that this processor has.
        unsafe { dispatch!(isa, softmax_row(values: &mut [f32], kind: Kind) => (values, kind)) }
    }

    fn softmax(isa: Isa, values: &mut [f32], log: bool) {
        let masked = false;
        run(isa, values, Kind { log, masked });
    }

    fn masked_softmax(isa: Isa, values: &mut [f32]) {
        let (log, masked) = (false, true);
        run(isa, values, Kind { log, masked });
    }

    #[test]
    fn a_masked_softmax_of_nothing_but_masks_is_zero_at_every_width() {
        for isa in Isa::available() {
            for width in 0..=70 {
                let mut hidden = vec![f32::NEG_INFINITY; width];
                masked_softmax(isa, &mut hidden);
                assert!(hidden.iter().all(|&v| v == 0.0), "{isa:?} {width}");
                for seen in 0..width {
                    let mut one = vec![f32::NEG_INFINITY; width];
                    one[seen] = -3e38;
                    masked_softmax(isa, &mut one);
                    let right = |(i, &v): (usize, &f32)| v == f32::from(u8::from(i == seen));
                    assert!(one.iter().enumerate().all(right), "{isa:?} {width} {seen}");
                    one.fill(f32::NEG_INFINITY);
                    one[seen] = f32::NAN;
                    masked_softmax(isa, &mut one);
                    assert!(one.iter().all(|v| v.is_nan()), "{isa:?} {width} {seen}");
                }
            }
        }
    }

    #[test]
    fn logarithms_of_a_softmax_of_large_scores_keep_their_bits() {
        for isa in Isa::available() {
            let mut values = [10_000.0, 10_000.0, 9_999.0];
            softmax(isa, &mut values, true);
            let sum = (2.0 + (-1.0f64).exp()).ln();
            for (got, want) in values.into_iter().zip([-sum, -sum, -1.0 - sum]) {
                assert!((f64::from(got) - want).abs() <= 3e-7, "{isa:?}: {got}");
            }
        }
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
