//! Rounding to bf16 in place: what a tensor goes through when a product of bf16 reads it.
//!
//! ```text
//! v -> the nearest f32 whose low 16 bits are zero, ties to even; NaN stays NaN
//! ```
//!
//! Products round while they store. Everything else that writes such a tensor is followed by
//! one pass over what it wrote.

use spark_parallel::Pool;

use super::memory::Memory;
use super::simd::{Isa, Simd, dispatch};
use crate::plan::View;

/// Elements below which a second thread does not pay.
const MIN_PER_TASK: usize = 16 * 1024;

/// Rounds `columns` elements of every row.
///
/// # Safety
///
/// Every row must be readable and writable for `columns` elements, and `isa` a set this
/// processor has.
pub(crate) unsafe fn round_rows(isa: Isa, rows: &[*mut f32], columns: usize) {
    // SAFETY: the caller's word.
    unsafe { dispatch!(isa, rows_kernel(rows: &[*mut f32], columns: usize) => (rows, columns)) }
}

#[inline(always)]
unsafe fn rows_kernel<S: Simd>(rows: &[*mut f32], columns: usize) {
    for &row in rows {
        // SAFETY: the caller vouches for `columns` elements of every row.
        unsafe {
            let mut i = 0;
            while i + S::LANES <= columns {
                S::store(row.add(i), S::round_bf16(S::load(row.add(i))));
                i += S::LANES;
            }
            let rest = columns - i;
            if rest > 0 {
                let v = S::round_bf16(S::load_first(row.add(i), rest));
                S::store_first(row.add(i), v, rest);
            }
        }
    }
}

/// The elements of a view as runs side by side in memory.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Runs {
    view: View,
    /// Axes over the runs: extents and strides, outermost first.
    outer: Vec<(usize, isize)>,
    /// Elements of one run.
    length: usize,
}

impl Runs {
    /// The runs of `view`.
    pub(crate) fn of(view: &View) -> Self {
        let order = view.memory_order();
        let axes = order.into_iter().map(|axis| view.axes[axis]);
        // A repeated element needs rounding once.
        let mut axes: Vec<(usize, isize)> = axes
            .filter(|a| a.extent != 1 && (a.stride != 0 || a.extent == 0))
            .map(|a| (a.extent, a.stride))
            .collect();
        let mut length = 1;
        while let Some(&(extent, stride)) = axes.last() {
            if stride != length as isize {
                break;
            }
            length *= extent;
            axes.pop();
        }
        Self {
            view: view.clone(),
            outer: axes,
            length,
        }
    }

    /// Rounds every element.
    pub(crate) fn round(&self, isa: Isa, memory: &Memory, pool: &Pool) {
        let base = Base(memory.f32(&self.view));
        let n_runs: usize = self.outer.iter().map(|(extent, _)| extent).product();
        // One long run is cut, many short ones are shared out.
        let pieces = match n_runs {
            1 => (self.length / MIN_PER_TASK).clamp(1, 2 * pool.threads()),
            _ => 1,
        };
        let parts = match n_runs {
            1 => 1,
            _ => (n_runs * self.length / MIN_PER_TASK)
                .clamp(1, (2 * pool.threads()).min(n_runs.max(1))),
        };
        pool.run(parts * pieces, |task| {
            let (part, piece) = (task / pieces, task % pieces);
            let (first, last) = (
                self.length * piece / pieces,
                self.length * (piece + 1) / pieces,
            );
            for run in n_runs * part / parts..n_runs * (part + 1) / parts {
                let row = base.at(self.offset(run) + first as isize);
                // SAFETY: runs lie inside a view checked at load; tasks have disjoint elements.
                unsafe { round_rows(isa, &[row], last - first) };
            }
        });
    }

    fn offset(&self, run: usize) -> isize {
        let (mut rest, mut offset) = (run, 0);
        for &(extent, stride) in self.outer.iter().rev() {
            offset += (rest % extent) as isize * stride;
            rest /= extent;
        }
        offset
    }
}

/// Start of the view.
struct Base(*mut f32);

// SAFETY: tasks write disjoint elements.
unsafe impl Sync for Base {}

impl Base {
    fn at(&self, offset: isize) -> *mut f32 {
        self.0.wrapping_offset(offset)
    }
}

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::*;
    use crate::plan::{Axis, BufferId};

    #[test]
    fn values_round_as_half_rounds_them() {
        let mut values: Vec<f32> = (0..4096u32)
            .map(|i| f32::from_bits(i.wrapping_mul(0x9e37_79b9)))
            .filter(|v| !v.is_nan())
            .collect();
        values.extend([0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, 1e-45]);
        // Ties: one goes down, one up.
        values.extend([1.0 + 1.0 / 256.0, 1.0 + 3.0 / 256.0]);
        for isa in Isa::available() {
            let mut got = values.clone();
            // SAFETY: one row of exactly that many elements.
            unsafe { round_rows(isa, &[got.as_mut_ptr()], values.len()) };
            for (&value, &got) in values.iter().zip(&got) {
                let want = bf16::from_f32(value).to_f32();
                assert_eq!(got.to_bits(), want.to_bits(), "{value:e} on {isa:?}");
            }
            let mut nan = [f32::NAN, f32::from_bits(0x7f80_0001), -f32::NAN];
            // SAFETY: as above.
            unsafe { round_rows(isa, &[nan.as_mut_ptr()], nan.len()) };
            let high_halves = nan.map(|v| f32::from_bits(v.to_bits() & 0xffff_0000));
            assert!(high_halves.iter().all(|v| v.is_nan()), "{isa:?}");
        }
    }

    #[test]
    fn runs_join_axes_that_lie_side_by_side() {
        let dense = View::dense(BufferId(0), &[2, 8, 4, 5], &[0, 2, 3, 1]);
        let runs = Runs::of(&dense);
        assert_eq!((runs.outer.len(), runs.length), (0, 320));
        // Half of the channels of an image: one run per pixel.
        let half = View {
            axes: vec![
                Axis {
                    extent: 1,
                    stride: 160,
                },
                Axis {
                    extent: 4,
                    stride: 1,
                },
                Axis {
                    extent: 4,
                    stride: 40,
                },
                Axis {
                    extent: 5,
                    stride: 8,
                },
            ],
            ..dense
        };
        let runs = Runs::of(&half);
        assert_eq!((runs.outer, runs.length), (vec![(4, 40), (5, 8)], 4));
    }
}
