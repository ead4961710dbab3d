//! Rounding to bf16 in place: what a tensor goes through when a GEMM of bf16 reads it.
//!
//! ```text
//! v -> the nearest f32 whose low 16 bits are zero, ties to even; NaN stays NaN
//! ```
//!
//! GEMM, convolutions and attention round while they store. Everything else that writes such a tensor is
//! followed by one pass over what it wrote.

use spark_gemm::round_rows;

use super::memory::Memory;
use super::processor::Cpu;
use crate::plan::View;

/// Elements below which a second thread is not profitable.
const MIN_PER_TASK: usize = 16 * 1024;

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
    /// The elements of `view`, each once, in as few runs as they lie in.
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

    /// Rounds every element of the view to the nearest bf16, on all threads of `cpu`.
    pub(crate) fn round(&self, Cpu { isa, pool }: Cpu<'_>, memory: &Memory) {
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
    use super::*;
    use crate::plan::{Axis, BufferId};

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
