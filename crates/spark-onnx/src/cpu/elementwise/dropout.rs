//! Dropout by counting: masks are made where they are used, from the places of elements in the model's order.
//!
//! ```text
//! row-major       places 0 1 2 3 ..            a block of four words for four neighbours
//! channels last   places 0 n 2n ..             16 channels side by side; a block serves four pixels, if n is a
//!                        1 n+1 2n+1 ..         multiple of four, and one element otherwise
//! ```
//!
//! n is the number of pixels. Which word an element has hangs on its place alone: layouts, tasks and instruction sets change no bit.

use std::ops::Range;

use spark_quant::QuantError;

use crate::cpu::prepared::{Context, Kernel, PreparedStep, Problem, StepError};
use crate::cpu::simd::{Simd, dispatch};
use crate::graph::CountedDropout;
use crate::plan::{DropoutStep, View};

/// Counters side by side: a whole vector on AVX-512, two on AVX2.
const LANES: usize = 16;

/// Elements of a row that are one piece of work.
const PIECE: usize = 4096;

/// Elements below which a second thread is not profitable.
const MIN_PER_TASK: usize = 16 * 1024;

/// An axis, or several as one: positions, and places from one to the next.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Axis {
    extent: usize,
    places: u64,
}

/// How places go through memory.
#[derive(Debug, Clone, PartialEq)]
struct Layout {
    /// As they lie, outermost first; those that are one in both orders joined. One at least.
    axes: Vec<Axis>,
}

impl Layout {
    fn of(view: &View) -> Self {
        let shape = view.shape();
        let mut places = vec![1u64; shape.len()];
        for axis in (1..shape.len()).rev() {
            places[axis - 1] = places[axis] * shape[axis] as u64;
        }
        let mut axes: Vec<Axis> = Vec::new();
        for axis in view.memory_order() {
            let own = Axis {
                extent: shape[axis],
                places: places[axis],
            };
            match axes.last_mut() {
                _ if own.extent == 1 => {}
                Some(outer) if outer.places == own.places * own.extent as u64 => {
                    *outer = Axis {
                        extent: outer.extent * own.extent,
                        places: own.places,
                    };
                }
                _ => axes.push(own),
            }
        }
        if axes.is_empty() {
            axes.push(Axis {
                extent: 1,
                places: 1,
            });
        }
        Self { axes }
    }

    fn len(&self) -> usize {
        self.axes.iter().map(|axis| axis.extent).product()
    }

    fn inner(&self) -> Axis {
        self.axes[self.axes.len() - 1]
    }

    /// Pieces of work.
    fn n_pieces(&self) -> usize {
        if self.len() == 0 {
            return 0;
        }
        match self.by_four() {
            Some((pixels, channels)) => self.len() / (pixels * channels) * pixels.div_ceil(4),
            None => self.len() / self.inner().extent * self.inner().extent.div_ceil(PIECE),
        }
    }

    /// The elements of a piece, as they lie.
    fn piece(&self, index: usize) -> Range<usize> {
        let (from, n) = match self.by_four() {
            Some((pixels, channels)) => {
                let groups = pixels.div_ceil(4);
                let (outer, first) = (index / groups, index % groups * 4);
                let from = (outer * pixels + first) * channels;
                (from, (pixels - first).min(4) * channels)
            }
            None => {
                let row = self.inner().extent;
                let parts = row.div_ceil(PIECE);
                let (outer, first) = (index / parts, index % parts * PIECE);
                (outer * row + first, (row - first).min(PIECE))
            }
        };
        from..from + n
    }

    /// Extents of the last two axes, if four positions of the first have their words of the same blocks.
    fn by_four(&self) -> Option<(usize, usize)> {
        let [outer @ .., pixels, channels] = &self.axes[..] else {
            return None;
        };
        let mut others = outer.iter().chain([channels]);
        let is_by_four = pixels.places == 1 && others.all(|axis| axis.places.is_multiple_of(4));
        is_by_four.then_some((pixels.extent, channels.extent))
    }

    /// The place of the element at `offset` in memory.
    fn place(&self, offset: usize) -> u64 {
        let (mut rest, mut place) = (offset, 0);
        for axis in self.axes.iter().rev() {
            place += (rest % axis.extent) as u64 * axis.places;
            rest /= axis.extent;
        }
        place
    }
}

/// What every element of a run is computed by.
#[derive(Clone, Copy)]
struct Mask {
    op: CountedDropout,
    pass: u64,
    /// What kept words are at least.
    threshold: u32,
    kept: f32,
}

impl Mask {
    #[inline(always)]
    fn factor(&self, word: u32) -> f32 {
        if word < self.threshold {
            0.0
        } else {
            self.kept
        }
    }

    #[inline(always)]
    fn of_place(&self, place: u64) -> f32 {
        self.factor(self.op.words([place / 4], self.pass)[(place % 4) as usize][0])
    }
}

/// Neighbours in memory and in the model's order, from `place` on.
#[inline(always)]
#[allow(
    clippy::extra_unused_type_parameters,
    reason = "it says which instruction set the function is compiled for"
)]
unsafe fn neighbours<S: Simd>(mask: Mask, place: u64, x: &[f32], y: &mut [f32]) {
    let head = (place.wrapping_neg() % 4) as usize;
    let head = head.min(x.len());
    let whole = (x.len() - head) / (4 * LANES) * (4 * LANES);
    let single = |i: usize, x: f32| x * mask.of_place(place + i as u64);
    for i in (0..head).chain(head + whole..x.len()) {
        y[i] = single(i, x[i]);
    }
    let first = (place + head as u64) / 4;
    let (x, _) = x[head..head + whole].as_chunks::<{ 4 * LANES }>();
    let (y, _) = y[head..head + whole].as_chunks_mut::<{ 4 * LANES }>();
    for (group, (x, y)) in x.iter().zip(y).enumerate() {
        let first = first + (group * LANES) as u64;
        let blocks = std::array::from_fn(|lane| first + lane as u64);
        let words: [[u32; LANES]; 4] = mask.op.words(blocks, mask.pass);
        let (x, _) = x.as_chunks::<4>();
        let (y, _) = y.as_chunks_mut::<4>();
        for (lane, (x, y)) in x.iter().zip(y).enumerate() {
            for ((y, x), words) in y.iter_mut().zip(x).zip(&words) {
                *y = x * mask.factor(words[lane]);
            }
        }
    }
}

/// Up to four rows whose words are of the same blocks: elements of a row are `between` places apart, rows one.
#[inline(always)]
#[allow(
    clippy::extra_unused_type_parameters,
    reason = "it says which instruction set the function is compiled for"
)]
unsafe fn by_four<S: Simd>(
    mask: Mask,
    (place, between): (u64, u64),
    row: usize,
    x: &[f32],
    y: &mut [f32],
) {
    for from in (0..row).step_by(LANES) {
        let n = LANES.min(row - from);
        // Both are multiples of four.
        let blocks = std::array::from_fn(|lane| place / 4 + (from + lane) as u64 * (between / 4));
        let words: [[u32; LANES]; 4] = mask.op.words(blocks, mask.pass);
        let factors = words.map(|words| words.map(|word| mask.factor(word)));
        let rows = x.chunks_exact(row).zip(y.chunks_exact_mut(row));
        for (factors, (x, y)) in factors.iter().zip(rows) {
            let (x, y) = (&x[from..from + n], &mut y[from..from + n]);
            for ((y, x), factor) in y.iter_mut().zip(x).zip(factors) {
                *y = x * factor;
            }
        }
    }
}

/// Neighbours in memory that are `between` places apart.
#[inline(always)]
#[allow(
    clippy::extra_unused_type_parameters,
    reason = "it says which instruction set the function is compiled for"
)]
unsafe fn apart<S: Simd>(mask: Mask, (place, between): (u64, u64), x: &[f32], y: &mut [f32]) {
    for (group, (x, y)) in x.chunks(LANES).zip(y.chunks_mut(LANES)).enumerate() {
        let first = (group * LANES) as u64;
        let places: [u64; LANES] =
            std::array::from_fn(|lane| place + (first + lane as u64) * between);
        let words = mask.op.words(places.map(|place| place / 4), mask.pass);
        let own: [u32; LANES] = std::array::from_fn(|lane| match places[lane] % 4 {
            0 => words[0][lane],
            1 => words[1][lane],
            2 => words[2][lane],
            _ => words[3][lane],
        });
        for ((y, x), word) in y.iter_mut().zip(x).zip(own) {
            *y = x * mask.factor(word);
        }
    }
}

/// The kernel of dropout.
pub(crate) struct Dropout {
    step: DropoutStep,
    layout: Layout,
}

impl Dropout {
    fn run_piece(&self, c: &Context<'_>, mask: Mask, piece: Range<usize>) {
        let inner = self.layout.inner();
        let at = (self.layout.place(piece.start), inner.places);
        // SAFETY: both views are dense and lie alike, with as many elements as the layout, which the piece is within; the result
        // is in a buffer of its own, and every task writes pieces of its own. `isa` names a set that this processor has.
        unsafe {
            let x = c.memory.f32(&self.step.x).add(piece.start);
            let x = std::slice::from_raw_parts(x.cast_const(), piece.len());
            let y = c.memory.f32(&self.step.y).add(piece.start);
            let y = std::slice::from_raw_parts_mut(y, piece.len());
            match self.layout.by_four() {
                Some((_, row)) => dispatch!(
                    c.isa,
                    by_four(mask: Mask, at: (u64, u64), row: usize, x: &[f32], y: &mut [f32])
                        => (mask, at, row, x, y)
                ),
                None if inner.places == 1 => dispatch!(
                    c.isa,
                    neighbours(mask: Mask, place: u64, x: &[f32], y: &mut [f32])
                        => (mask, at.0, x, y)
                ),
                None => dispatch!(
                    c.isa,
                    apart(mask: Mask, at: (u64, u64), x: &[f32], y: &mut [f32]) => (mask, at, x, y)
                ),
            }
        }
    }
}

impl Kernel<DropoutStep> for Dropout {
    fn prepare(problem: &Problem<'_, DropoutStep>) -> Result<Self, QuantError> {
        Ok(Self {
            layout: Layout::of(&problem.step.x),
            step: problem.step.clone(),
        })
    }
}

impl PreparedStep for Dropout {
    fn run(&self, c: &Context<'_>) -> Result<(), StepError> {
        // SAFETY: the view was checked at load, and has one element.
        let pass = unsafe { *c.memory.i64(&self.step.pass) } as u64;
        let op = self.step.op;
        // 2^32 is above every word: then none is kept.
        let threshold = u32::try_from(op.threshold());
        let (threshold, kept) = threshold.map_or((0, 0.0), |least| (least, op.kept()));
        let mask = Mask {
            op,
            pass,
            threshold,
            kept,
        };
        let (len, pieces) = (self.layout.len(), self.layout.n_pieces());
        let tasks = (len / MIN_PER_TASK).clamp(1, c.pool.threads());
        c.pool.run(tasks, |task| {
            for piece in pieces * task / tasks..pieces * (task + 1) / tasks {
                self.run_piece(c, mask, self.layout.piece(piece));
            }
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::BufferId;

    fn layout(shape: &[usize], order: &[usize]) -> Layout {
        Layout::of(&View::dense(BufferId(0), shape, order))
    }

    /// Every element is in one piece, and its place is that of the model's order.
    #[test]
    fn pieces_cover_all_elements_and_places_are_the_models() {
        for (shape, order, is_by_four) in [
            (vec![3, 5], vec![0, 1], false),
            (vec![3, 5], vec![1, 0], false),
            (vec![2, 9, 4, 3], vec![0, 2, 3, 1], true),
            (vec![2, 9, 3, 3], vec![0, 2, 3, 1], false),
            (vec![1, 1, 1], vec![0, 1, 2], false),
            (vec![], vec![], false),
            (vec![2, 10_000], vec![0, 1], false),
            (vec![3, 8, 2], vec![1, 2, 0], true),
            (vec![2, 3, 5, 4], vec![3, 0, 2, 1], false),
        ] {
            let layout = layout(&shape, &order);
            assert_eq!(
                layout.by_four().is_some(),
                is_by_four,
                "{shape:?} {order:?}"
            );
            let pieces: Vec<_> = (0..layout.n_pieces())
                .flat_map(|i| layout.piece(i))
                .collect();
            let len: usize = shape.iter().product();
            assert_eq!(pieces, (0..len).collect::<Vec<_>>(), "{shape:?} {order:?}");
            let view = View::dense(BufferId(0), &shape, &order);
            for place in 0..len {
                let (mut rest, mut offset) = (place, 0);
                for axis in view.axes.iter().rev() {
                    offset += rest % axis.extent * axis.stride.unsigned_abs();
                    rest /= axis.extent;
                }
                assert_eq!(layout.place(offset), place as u64, "{shape:?} {order:?}");
            }
        }
    }
}
