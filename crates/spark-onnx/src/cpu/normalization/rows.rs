//! Rows of a view, one after the other, and sums over them.
//!
//! ```text
//! partial[p] = sum over the elements whose position is p modulo 16
//! sum        = partial sums in halves: 8 + 8, 4 + 4, ...
//! ```
//!
//! The same on every number of threads and, but for the rounding of each operation, on every
//! instruction set. A row's end is a masked vector.

use spark_parallel::Pool;

use crate::cpu::matmul::gemm::TASKS_PER_THREAD;
use crate::cpu::memory::Memory;
use crate::cpu::simd::Simd;
use crate::plan::View;

/// Partial results of one row.
pub(crate) const LANES: usize = 16;
/// Elements below which a second thread is not profitable.
const MIN_PER_TASK: usize = 8 * 1024;

/// The sum of partial sums.
#[inline(always)]
pub(crate) fn sum_of(partial: &[f32; LANES]) -> f32 {
    let mut partial = *partial;
    let mut half = LANES / 2;
    while half > 0 {
        for i in 0..half {
            partial[i] += partial[i + half];
        }
        half /= 2;
    }
    partial[0]
}

/// The greatest of partial maxima, none of which is NaN.
#[inline(always)]
pub(crate) fn greatest_of(mut partial: [f32; LANES]) -> f32 {
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
pub(crate) use partial_vectors;

/// The first `n` elements at `x`, and `fill` in the lanes beyond.
#[inline(always)]
pub(crate) unsafe fn load_or<S: Simd>(x: *const f32, n: usize, fill: f32) -> S::V {
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
pub(crate) unsafe fn lanes_of<S: Simd>(parts: [S::V; 4]) -> [f32; LANES] {
    let mut lanes = [0.0; LANES];
    for (to, part) in lanes.chunks_exact_mut(S::LANES).zip(parts) {
        // SAFETY: a chunk is as long as a vector; the caller has the instruction set.
        unsafe { S::store(to.as_mut_ptr(), part) };
    }
    lanes
}

/// Rows of a `[rows, width]` view and its partner.
#[derive(Clone, Copy)]
pub(crate) struct RowPair {
    x: *const f32,
    x_stride: isize,
    y: *mut f32,
    y_stride: isize,
    pub(crate) rows: usize,
    pub(crate) width: usize,
}

// SAFETY: tasks write disjoint rows.
unsafe impl Sync for RowPair {}

impl RowPair {
    /// The rows of `x` and `y`, which have the same two extents and unit stride along the second.
    pub(crate) fn new(x: &View, y: &View, memory: &Memory) -> Self {
        Self {
            x: memory.f32(x),
            x_stride: x.axes[0].stride,
            y: memory.f32(y),
            y_stride: y.axes[0].stride,
            rows: y.axes[0].extent,
            width: y.axes[1].extent,
        }
    }

    /// Into how many tasks the rows are split: as many as are worth a thread each.
    pub(crate) fn tasks(&self, pool: &Pool) -> usize {
        (self.rows * self.width / MIN_PER_TASK)
            .clamp(1, TASKS_PER_THREAD * pool.threads())
            .min(self.rows.max(1))
    }

    /// Where row `row` of both begins.
    pub(crate) fn pointers(&self, row: usize) -> (*const f32, *mut f32) {
        (
            self.x.wrapping_offset(row as isize * self.x_stride),
            self.y.wrapping_offset(row as isize * self.y_stride),
        )
    }

    /// Copies row `row` of `x` to `y`, unless they are the same, and gives it for writing.
    ///
    /// # Safety
    ///
    /// The row must exist and belong to this task alone.
    #[inline(always)]
    #[allow(clippy::mut_from_ref, reason = "each task has its own rows")]
    pub(crate) unsafe fn row(&self, row: usize) -> &mut [f32] {
        let (x, y) = self.pointers(row);
        // SAFETY: unit stride along the width by the steps' contract; `copy` allows overlap.
        unsafe {
            if x != y {
                std::ptr::copy(x, y, self.width);
            }
            std::slice::from_raw_parts_mut(y, self.width)
        }
    }
}
