//! Strided copies and fills.
//!
//! ```text
//! collapse axes both sides step through alike
//! both innermost strides 1     whole runs are copied
//! x runs along another axis    16 x 16 tiles, so that each cache line is used while it is near; 4 x 4 at a time in them
//! x stands still innermost     every element is written several times
//! few columns                  runs are interleaved
//! ```

use std::ops::Range;

use half::bf16;
use spark_parallel::Pool;
use spark_quant::QuantError;

use crate::cpu::bf16_runs::{NarrowTile, TILE, narrow, narrow_tile};
use crate::cpu::memory::Memory;
use crate::cpu::prepared::{Context, Cpu, Kernel, PreparedStep, Problem, StepError};
use crate::plan::{CopyStep, FillStep, MAX_RANK, Storage, View};

/// Elements below which a second thread is not profitable.
const MIN_PER_TASK: usize = 32 * 1024;

/// A loop nest over two operands, outermost first, axes of extent 1 left out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Nest {
    rank: usize,
    extents: [usize; MAX_RANK],
    from: [isize; MAX_RANK],
    to: [isize; MAX_RANK],
}

impl Nest {
    /// The nest that walks two sets of strides over `extents` in the order the second lies in memory.
    pub(crate) fn new(extents: &[usize], from: &[isize], to: &[isize]) -> Self {
        let mut order = [0; MAX_RANK];
        let mut n = 0;
        for (axis, &extent) in extents.iter().enumerate().take(MAX_RANK) {
            if extent != 1 {
                order[n] = axis;
                n += 1;
            }
        }
        order[..n].sort_by_key(|&a| std::cmp::Reverse(to[a].unsigned_abs()));
        let mut nest = Self {
            rank: 0,
            extents: [1; MAX_RANK],
            from: [0; MAX_RANK],
            to: [0; MAX_RANK],
        };
        for &axis in &order[..n] {
            let extent = extents[axis] as isize;
            if let Some(last) = nest.rank.checked_sub(1)
                && nest.from[last] == from[axis] * extent
                && nest.to[last] == to[axis] * extent
            {
                nest.extents[last] *= extents[axis];
                (nest.from[last], nest.to[last]) = (from[axis], to[axis]);
                continue;
            }
            nest.extents[nest.rank] = extents[axis];
            (nest.from[nest.rank], nest.to[nest.rank]) = (from[axis], to[axis]);
            nest.rank += 1;
        }
        nest
    }

    /// Number of elements.
    fn len(&self) -> usize {
        self.extents[..self.rank].iter().product()
    }

    /// Offsets of the `index`-th position over the first `axes` axes.
    fn offsets(&self, index: usize, axes: usize) -> (isize, isize) {
        let (mut rest, mut from, mut to) = (index, 0, 0);
        for axis in (0..axes).rev() {
            let at = (rest % self.extents[axis]) as isize;
            rest /= self.extents[axis];
            from += at * self.from[axis];
            to += at * self.to[axis];
        }
        (from, to)
    }

    /// Part `part` of `parts` of the nest, cut along its longest axis, and where it starts.
    fn part(&self, part: usize, parts: usize) -> (Self, [isize; 2]) {
        let longest = (0..self.rank).max_by_key(|&axis| self.extents[axis]);
        let Some(axis) = longest else {
            return (*self, [0; 2]);
        };
        let cut = |part: usize| self.extents[axis] * part / parts;
        let mut nest = *self;
        nest.extents[axis] = cut(part + 1) - cut(part);
        let starts = [self.from[axis], self.to[axis]].map(|stride| cut(part) as isize * stride);
        (nest, starts)
    }

    /// Applies `convert` to every element.
    ///
    /// # Safety
    ///
    /// All positions of both operands must be valid; they may not overlap.
    pub(crate) unsafe fn copy<A: Copy, B>(
        &self,
        from: *const A,
        to: *mut B,
        convert: impl Fn(A) -> B + Copy,
    ) {
        let inner = self.inner_axes().min(self.rank);
        let outer = self.rank - inner;
        let rows = self.extents[..outer].iter().product();
        for row in 0..rows {
            let (f, t) = self.offsets(row, outer);
            let (from, to) = (from.wrapping_offset(f), to.wrapping_offset(t));
            // SAFETY: the caller vouches for all positions of the nest.
            unsafe {
                match inner {
                    0 => *to = convert(*from),
                    1 => {
                        let (n, fs, ts) = (self.extents[outer], self.from[outer], self.to[outer]);
                        if fs == 1 && ts == 1 {
                            for i in 0..n {
                                *to.add(i) = convert(*from.add(i));
                            }
                        } else {
                            for i in 0..n as isize {
                                *to.offset(i * ts) = convert(*from.offset(i * fs));
                            }
                        }
                    }
                    _ => self.copy_tiles(from, to, convert, outer),
                }
            }
        }
    }

    /// [`Nest::copy`] by all threads of `pool`, if it is worth it.
    ///
    /// # Safety
    ///
    /// As [`Nest::copy`]; no element of the result may be another one too.
    pub(crate) unsafe fn copy_shared<A: Copy, B>(
        &self,
        from: *const A,
        to: *mut B,
        convert: impl Fn(A) -> B + Copy + Sync,
        pool: &Pool,
    ) {
        let parts = (self.len() / MIN_PER_TASK).clamp(1, pool.threads());
        let pointers = &Pointers { from, to };
        pool.run(parts, |part| {
            let Pointers { from, to } = *pointers;
            let (nest, starts) = self.part(part, parts);
            let (from, to) = (
                from.wrapping_offset(starts[0]),
                to.wrapping_offset(starts[1]),
            );
            // SAFETY: a part's positions are the nest's; parts write disjoint elements.
            unsafe { nest.copy(from, to, convert) };
        });
    }

    /// The nearest bf16 of every element, by all threads of `pool` if it is worth it.
    ///
    /// # Safety
    ///
    /// As [`Nest::copy_shared`].
    pub(crate) unsafe fn narrow_shared(
        &self,
        from: *const f32,
        to: *mut bf16,
        Cpu { isa, pool }: Cpu<'_>,
    ) {
        if self.has_runs() {
            let run = |from: *const f32, to: *mut bf16, n: usize| {
                // SAFETY: a run of the nest.
                let (from, to) = unsafe {
                    (
                        std::slice::from_raw_parts(from, n),
                        std::slice::from_raw_parts_mut(to, n),
                    )
                };
                narrow(isa, from, to);
            };
            // SAFETY: forwarded.
            return unsafe { self.runs_shared(from, to, run, pool) };
        }
        if self.inner_axes() != 2 || self.to[self.rank - 1] != 1 {
            // SAFETY: forwarded.
            return unsafe { self.copy_shared(from, to, bf16::from_f32, pool) };
        }
        let parts = (self.len() / MIN_PER_TASK).clamp(1, pool.threads());
        let pointers = &Pointers { from, to };
        let axis = self.rank - 2;
        pool.run(parts, |part| {
            let Pointers { from, to } = *pointers;
            let (nest, starts) = self.part(part, parts);
            let (n_rows, n_columns) = (nest.extents[axis], nest.extents[axis + 1]);
            for outer in 0..nest.extents[..axis].iter().product() {
                let (f, t) = nest.offsets(outer, axis);
                for row in (0..n_rows).step_by(TILE) {
                    for column in (0..n_columns).step_by(TILE) {
                        let [r, c] = [row, column].map(usize::cast_signed);
                        let tile = NarrowTile {
                            from: from.wrapping_offset(starts[0] + f + r + c * nest.from[axis + 1]),
                            from_column: nest.from[axis + 1],
                            to: to.wrapping_offset(starts[1] + t + r * nest.to[axis] + c),
                            to_row: nest.to[axis],
                            rows: TILE.min(n_rows - row),
                            columns: TILE.min(n_columns - column),
                        };
                        // SAFETY: a tile's positions are the nest's; parts write disjoint elements.
                        unsafe { narrow_tile(isa, &tile) };
                    }
                }
            }
        });
    }

    /// Whether the innermost elements lie side by side in both operands.
    pub(crate) fn has_runs(&self) -> bool {
        let last = self.rank.checked_sub(1);
        last.is_some_and(|last| self.from[last] == 1 && self.to[last] == 1)
    }

    /// Hands every run of innermost elements to `run`, with their number, by all threads of `pool` if it is worth it.
    ///
    /// # Safety
    ///
    /// As [`Nest::copy_shared`], for a nest that [has runs](Nest::has_runs); `run` touches no other elements.
    pub(crate) unsafe fn runs_shared<A: Copy, B>(
        &self,
        from: *const A,
        to: *mut B,
        run: impl Fn(*const A, *mut B, usize) + Sync,
        pool: &Pool,
    ) {
        let parts = (self.len() / MIN_PER_TASK).clamp(1, pool.threads());
        let pointers = &Pointers { from, to };
        let inner = self.rank - 1;
        pool.run(parts, |part| {
            let Pointers { from, to } = *pointers;
            let (nest, starts) = self.part(part, parts);
            let rows = nest.extents[..inner].iter().product();
            for row in 0..rows {
                let (f, t) = nest.offsets(row, inner);
                let from = from.wrapping_offset(starts[0] + f);
                run(from, to.wrapping_offset(starts[1] + t), nest.extents[inner]);
            }
        });
    }

    /// Axes walked by the innermost loop.
    fn inner_axes(&self) -> usize {
        let transposes =
            self.rank >= 2 && self.from[self.rank - 1] != 1 && self.from[self.rank - 2] == 1;
        if transposes { 2 } else { 1 }
    }

    /// # Safety
    ///
    /// As [`Nest::copy`], for the last two axes.
    unsafe fn copy_tiles<A: Copy, B>(
        &self,
        from: *const A,
        to: *mut B,
        convert: impl Fn(A) -> B + Copy,
        axis: usize,
    ) {
        let (rows, columns) = (self.extents[axis], self.extents[axis + 1]);
        let (fc, tr, tc) = (self.from[axis + 1], self.to[axis], self.to[axis + 1]);
        if fc == 0 && tc == 1 && tr == columns as isize {
            // SAFETY: the result is dense, and the source one element per row.
            unsafe {
                match columns {
                    2 => repeat(from, to, convert, rows, 2),
                    4 => repeat(from, to, convert, rows, 4),
                    _ => repeat(from, to, convert, rows, columns),
                }
            }
            return;
        }
        if tc == 1 && tr == columns as isize {
            // Few columns, as pictures have: a number known here makes it several times as quick.
            // SAFETY: as for the tiles.
            unsafe {
                match columns {
                    2 => return interleave::<A, B, 2>(from, fc, to, convert, rows),
                    3 => return interleave::<A, B, 3>(from, fc, to, convert, rows),
                    4 => return interleave::<A, B, 4>(from, fc, to, convert, rows),
                    6 => return interleave::<A, B, 6>(from, fc, to, convert, rows),
                    _ => {}
                }
            }
        }
        for row in (0..rows).step_by(TILE) {
            for column in (0..columns).step_by(TILE) {
                let rows = row..(row + TILE).min(rows);
                let columns = column..(column + TILE).min(columns);
                // SAFETY: rows and columns are below the extents; `from`'s row stride is 1.
                unsafe {
                    match tc {
                        1 => tile_of_blocks(from, fc, (to, tr), convert, rows, columns),
                        _ => tile(from, fc, (to, [tr, tc]), convert, rows, columns),
                    }
                }
            }
        }
    }
}

/// Copies an element at a time; rows of the source lie side by side.
///
/// # Safety
///
/// All positions of the tile must be valid in both operands.
unsafe fn tile<A: Copy, B>(
    from: *const A,
    from_column: isize,
    (to, strides): (*mut B, [isize; 2]),
    convert: impl Fn(A) -> B + Copy,
    rows: Range<usize>,
    columns: Range<usize>,
) {
    for r in rows {
        for c in columns.clone() {
            let (r, c) = (r as isize, c as isize);
            // SAFETY: guaranteed by the caller.
            unsafe {
                *to.offset(r * strides[0] + c * strides[1]) =
                    convert(*from.offset(r + c * from_column));
            }
        }
    }
}

/// The same where columns of the result lie side by side, 4 x 4 elements at a time, which vectors hold. Four columns go
/// down all rows before the next: planes of pictures lie a power of two apart, and few such lines fit the L1 cache.
///
/// # Safety
///
/// As [`tile`].
unsafe fn tile_of_blocks<A: Copy, B>(
    from: *const A,
    from_column: isize,
    (to, to_row): (*mut B, isize),
    convert: impl Fn(A) -> B + Copy,
    rows: Range<usize>,
    columns: Range<usize>,
) {
    const SIDE: usize = 4;
    let end = |range: &Range<usize>| range.end - range.len() % SIDE;
    let (whole_rows, whole_columns) = (end(&rows), end(&columns));
    // SAFETY: blocks are within rows and columns, whose positions the caller vouches for.
    unsafe {
        for c in (columns.start..whole_columns).step_by(SIDE) {
            for r in (rows.start..whole_rows).step_by(SIDE) {
                let from = from.offset(r as isize + c as isize * from_column);
                let block: [[A; SIDE]; SIDE] = std::array::from_fn(|c| {
                    from.wrapping_offset(c as isize * from_column)
                        .cast::<[A; SIDE]>()
                        .read_unaligned()
                });
                let to = to.offset(r as isize * to_row + c as isize);
                let turned: [[B; SIDE]; SIDE] =
                    std::array::from_fn(|i| std::array::from_fn(|c| convert(block[c][i])));
                for (i, row) in turned.into_iter().enumerate() {
                    let to = to.wrapping_offset(i as isize * to_row);
                    to.cast::<[B; SIDE]>().write_unaligned(row);
                }
            }
        }
        let strides = [to_row, 1];
        let rest = whole_columns..columns.end;
        tile(
            from,
            from_column,
            (to, strides),
            convert,
            rows.clone(),
            rest,
        );
        let (rest, columns) = (whole_rows..rows.end, columns.start..whole_columns);
        tile(from, from_column, (to, strides), convert, rest, columns);
    }
}

/// Writes `C` runs of `n` elements, `apart` from each other, as `n` rows of `C`.
///
/// # Safety
///
/// The runs must be readable and `n * C` elements writable.
#[inline(always)]
unsafe fn interleave<A: Copy, B, const C: usize>(
    from: *const A,
    apart: isize,
    to: *mut B,
    convert: impl Fn(A) -> B,
    n: usize,
) {
    for i in 0..n {
        for c in 0..C {
            // SAFETY: guaranteed by the caller.
            unsafe {
                *to.add(i * C + c) = convert(*from.wrapping_offset(c as isize * apart).add(i));
            }
        }
    }
}

/// Writes every one of `n` elements `times` times; a number known here makes it quick.
///
/// # Safety
///
/// `n` elements must be readable and `n * times` writable.
#[inline(always)]
unsafe fn repeat<A: Copy, B>(
    from: *const A,
    to: *mut B,
    convert: impl Fn(A) -> B,
    n: usize,
    times: usize,
) {
    for i in 0..n {
        for j in 0..times {
            // SAFETY: guaranteed by the caller.
            unsafe { *to.add(i * times + j) = convert(*from.add(i)) }
        }
    }
}

/// Strides of a view in the model's order.
pub(crate) fn strides(view: &View) -> Vec<isize> {
    view.axes.iter().map(|a| a.stride).collect()
}

/// The nest that copies one view to another of the same shape.
fn copy_nest(x: &View, y: &View) -> Nest {
    Nest::new(&y.shape(), &strides(x), &strides(y))
}

#[derive(Clone, Copy)]
struct Pointers<A, B> {
    from: *const A,
    to: *mut B,
}

// SAFETY: tasks read shared and write disjoint elements.
unsafe impl<A, B> Sync for Pointers<A, B> {}

/// Copies along a prepared nest.
fn run_copy(nest: &Nest, x: &View, y: &View, c: &Context<'_>) {
    let (memory, pool) = (c.memory, c.pool);
    // SAFETY: views were checked at load, a step's views do not overlap, and a written view has
    // no element twice.
    unsafe {
        match (memory.storage(x), memory.storage(y)) {
            (Storage::I64, _) => {
                let (from, to) = (memory.i64(x).cast_const(), memory.i64(y));
                nest.copy_shared(from, to, |v| v, pool);
            }
            (Storage::F32, Storage::I8 | Storage::U8) => {
                let (from, to) = (memory.f32(x).cast_const(), memory.bytes(y));
                nest.copy_shared(from, to, |v| v as i32 as u8, pool);
            }
            (Storage::F32, Storage::Bf16) => {
                let (from, to) = (memory.f32(x).cast_const(), memory.floats(y).cast());
                nest.narrow_shared(from, to, c.cpu());
            }
            (Storage::Bf16, Storage::F32) => {
                let (from, to) = (memory.floats(x).cast_const().cast(), memory.f32(y));
                nest.copy_shared(from, to, bf16::to_f32, pool);
            }
            (Storage::Bf16, _) => {
                let from = memory.floats(x).cast_const().cast::<u16>();
                let to = memory.floats(y).cast::<u16>();
                nest.copy_shared(from, to, |v| v, pool);
            }
            (Storage::F32, _) => {
                let (from, to) = (memory.f32(x).cast_const(), memory.f32(y));
                nest.copy_shared(from, to, |v| v, pool);
            }
            (Storage::I8, Storage::F32) => {
                let (from, to) = (memory.bytes(x).cast_const().cast::<i8>(), memory.f32(y));
                nest.copy_shared(from, to, f32::from, pool);
            }
            (Storage::U8, Storage::F32) => {
                let (from, to) = (memory.bytes(x).cast_const(), memory.f32(y));
                nest.copy_shared(from, to, f32::from, pool);
            }
            (Storage::I8 | Storage::U8, _) => {
                let (from, to) = (memory.bytes(x).cast_const(), memory.bytes(y));
                nest.copy_shared(from, to, |v| v, pool);
            }
        }
    }
}

/// The nest that reads one value again and again.
fn fill_nest(y: &View) -> Nest {
    let zeros = [0; MAX_RANK];
    Nest::new(&y.shape(), &zeros[..y.rank()], &strides(y))
}

/// Writes one value everywhere along a prepared nest.
fn run_fill(nest: &Nest, y: &View, value: f64, memory: &Memory) {
    // SAFETY: the view was checked at load; the source is one value read again and again.
    unsafe {
        match memory.storage(y) {
            Storage::F32 => {
                let value = value as f32;
                nest.copy(&raw const value, memory.f32(y), |v| v);
            }
            Storage::I64 => {
                let value = value as i64;
                nest.copy(&raw const value, memory.i64(y), |v| v);
            }
            Storage::Bf16 => {
                let value = bf16::from_f32(value as f32);
                nest.copy(&raw const value, memory.floats(y).cast(), |v| v);
            }
            Storage::I8 | Storage::U8 => {
                let value = value as i64 as u8;
                nest.copy(&raw const value, memory.bytes(y), |v| v);
            }
        }
    }
}

/// The kernel that copies one view to another of the same shape, element by element.
pub(crate) struct CopyNest {
    step: CopyStep,
    nest: Nest,
}

impl Kernel<CopyStep> for CopyNest {
    fn never_bf16<'p>(problem: &Problem<'p, CopyStep>) -> Vec<&'p View> {
        // No integers become bf16 on the way, and no bf16 integers.
        let (x, y) = (&problem.step.x, &problem.step.y);
        let storages = [x, y].map(|view| problem.plan.storage(view));
        match storages.into_iter().all(Storage::is_float) {
            true => Vec::new(),
            false => vec![x, y],
        }
    }

    fn prepare(problem: &Problem<'_, CopyStep>) -> Result<Self, QuantError> {
        let step = problem.step.clone();
        Ok(Self {
            nest: copy_nest(&step.x, &step.y),
            step,
        })
    }
}

impl PreparedStep for CopyNest {
    fn run(&self, c: &Context<'_>) -> Result<(), StepError> {
        run_copy(&self.nest, &self.step.x, &self.step.y, c);
        Ok(())
    }
}

/// The kernel that writes one value to every element of a view.
pub(crate) struct FillNest {
    step: FillStep,
    nest: Nest,
}

impl Kernel<FillStep> for FillNest {
    fn never_bf16<'p>(_: &Problem<'p, FillStep>) -> Vec<&'p View> {
        Vec::new()
    }

    fn prepare(problem: &Problem<'_, FillStep>) -> Result<Self, QuantError> {
        let step = problem.step.clone();
        Ok(Self {
            nest: fill_nest(&step.y),
            step,
        })
    }
}

impl PreparedStep for FillNest {
    fn run(&self, c: &Context<'_>) -> Result<(), StepError> {
        run_fill(&self.nest, &self.step.y, self.step.value, c.memory);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matrices_of_every_small_shape_are_transposed() {
        for (rows, columns, gap) in
            (1..40).flat_map(|r| (1..24).flat_map(move |c| [(r, c, 0), (r, c, 3)]))
        {
            // `from` is [columns][rows], `to` [rows][columns], rows of both `gap` further apart than they are long.
            let [from_row, to_row] = [rows + gap, columns + gap];
            let from: Vec<i32> = (0..(columns * from_row) as i32).collect();
            let mut to = vec![-1i64; rows * to_row];
            let strides = |row: usize, column: usize| [row as isize, column as isize];
            let nest = Nest::new(&[rows, columns], &strides(1, from_row), &strides(to_row, 1));
            // SAFETY: both hold every position of the nest.
            unsafe { nest.copy(from.as_ptr(), to.as_mut_ptr(), i64::from) };
            for (at, &got) in to.iter().enumerate() {
                let (row, column) = (at / to_row, at % to_row);
                let want = match column < columns {
                    true => i64::from(from[column * from_row + row]),
                    false => -1,
                };
                assert_eq!(got, want, "{rows} x {columns}, {gap}: {row}, {column}");
            }
        }
    }
}
