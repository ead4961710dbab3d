//! Reductions, extreme positions, running sums and sorted prefixes.
//!
//! ```text
//! for every position of the remaining axes but the innermost of unit stride (a block of it):
//!     acc[block] = start;  for every reduced position: acc = combine(acc, x)
//! ```
//!
//! Sums of floats are accumulated in f64; those over evenly spaced rows first take sixteen of them in f32.

use spark_quant::QuantError;

use crate::cpu::memory::Memory;
use crate::cpu::prepared::{Context, Kernel, PreparedStep, Problem, StepError};
use crate::cpu::simd::{Isa, Simd, dispatch};
use crate::graph::ReduceKind;
use crate::plan::{ArgReduceStep, Axis, CumSumStep, MAX_RANK, ReduceStep, Storage, TopKStep, View};

/// Accumulators at once.
const BLOCK: usize = 64;

/// An odometer over up to eight axes.
#[derive(Clone, Copy)]
pub(crate) struct Walk {
    rank: usize,
    extents: [usize; MAX_RANK],
    strides: [[isize; MAX_RANK]; 2],
}

impl Walk {
    /// Walks `axes` of two views.
    pub(crate) fn new(x: &View, y: &View, axes: impl Iterator<Item = usize>) -> Self {
        let mut walk = Self {
            rank: 0,
            extents: [1; MAX_RANK],
            strides: [[0; MAX_RANK]; 2],
        };
        for axis in axes {
            walk.push(x.axes[axis], y.axes[axis]);
        }
        walk
    }

    /// Walks the last axes of two views side by side: `x`'s from `from_x` on, `y`'s from `from_y` on.
    pub(crate) fn tails(x: &View, from_x: usize, y: &View, from_y: usize) -> Self {
        let mut walk = Self::new(x, y, std::iter::empty());
        for (&a, &b) in x.axes[from_x..].iter().zip(&y.axes[from_y..]) {
            walk.push(a, b);
        }
        walk
    }

    fn push(&mut self, x: Axis, y: Axis) {
        if x.extent != 1 {
            self.extents[self.rank] = x.extent;
            (self.strides[0][self.rank], self.strides[1][self.rank]) = (x.stride, y.stride);
            self.rank += 1;
        }
    }

    /// Number of positions that the walk visits.
    pub(crate) fn len(&self) -> usize {
        self.extents[..self.rank].iter().product()
    }

    /// Offsets of position `index` in both views.
    pub(crate) fn offsets(&self, index: usize) -> (isize, isize) {
        let (mut rest, mut x, mut y) = (index, 0, 0);
        for axis in (0..self.rank).rev() {
            let at = (rest % self.extents[axis]) as isize;
            rest /= self.extents[axis];
            x += at * self.strides[0][axis];
            y += at * self.strides[1][axis];
        }
        (x, y)
    }

    /// Number of positions and elements between them in the first view, if those are always the same.
    fn even(&self) -> Option<(usize, isize)> {
        let (mut n, mut stride) = (1, 0);
        for axis in (0..self.rank).rev() {
            if n == 1 {
                stride = self.strides[0][axis];
            } else if self.strides[0][axis] != stride * n as isize {
                return None;
            }
            n *= self.extents[axis];
        }
        Some((n, stride))
    }

    /// Calls `f` with the first view's offset of every position, in order.
    pub(crate) fn each(&self, mut f: impl FnMut(isize)) {
        let mut index = [0usize; MAX_RANK];
        let mut offset = 0isize;
        for _ in 0..self.len() {
            f(offset);
            for axis in (0..self.rank).rev() {
                index[axis] += 1;
                offset += self.strides[0][axis];
                if index[axis] < self.extents[axis] {
                    break;
                }
                offset -= self.extents[axis] as isize * self.strides[0][axis];
                index[axis] = 0;
            }
        }
    }
}

/// Runs a reduction.
fn run(step: &ReduceStep, c: &Context<'_>) {
    let Context {
        isa, memory, pool, ..
    } = *c;
    let rank = step.x.rank();
    let reduced = |a: usize| step.y.axes[a].extent == 1 && step.x.axes[a].extent != 1;
    let over = Walk::new(&step.x, &step.y, (0..rank).filter(|&a| reduced(a)));
    let empty = step.x.is_empty();
    // The innermost remaining axis, if its elements lie side by side.
    let inner =
        (0..rank).find(|&a| !reduced(a) && step.x.axes[a].extent > 1 && step.x.axes[a].stride == 1);
    let width = inner.map_or(1, |a| step.x.axes[a].extent);
    let y_stride = inner.map_or(0, |a| step.y.axes[a].stride);
    let remaining = Walk::new(
        &step.x,
        &step.y,
        (0..rank).filter(|&a| !reduced(a) && Some(a) != inner),
    );
    let blocks = width.div_ceil(BLOCK);
    let wide = memory.storage(&step.x) == Storage::I64;
    pool.run(remaining.len() * blocks, |task| {
        let (x, y) = remaining.offsets(task / blocks);
        let start = task % blocks * BLOCK;
        let len = BLOCK.min(width - start);
        let at = start as isize;
        // SAFETY: offsets come from the views' extents, which were checked at load; every task writes its
        // own block.
        unsafe {
            if wide {
                let x = memory.i64(&step.x).wrapping_offset(x + at);
                let y = memory.i64(&step.y).wrapping_offset(y + at * y_stride);
                reduce_i64(step.kind, &over, x, y, y_stride, len);
            } else {
                let x = memory.f32(&step.x).wrapping_offset(x + at);
                let y = memory.f32(&step.y).wrapping_offset(y + at * y_stride);
                let n = if empty { 0 } else { over.len() };
                reduce_f32(isa, step.kind, &over, n, x, y, y_stride, len);
            }
        }
    });
}

/// Adds `n` elements side by side to `sum`: sixteen vectors at a time in f32, then in f64.
#[inline(always)]
unsafe fn sum_run<S: Simd>(sum: &mut f64, x: *const f32, n: usize) {
    let mut first = 0;
    // SAFETY: the caller vouches for `n` elements.
    unsafe {
        while first < n {
            let last = n.min(first + 16 * S::LANES);
            let mut partial = S::splat(0.0);
            while first < last {
                let lanes = S::LANES.min(last - first);
                let v = match lanes == S::LANES {
                    true => S::load(x.add(first)),
                    false => S::load_first(x.add(first), lanes),
                };
                partial = S::add(partial, v);
                first += lanes;
            }
            let mut values = [0.0f32; 16];
            S::store(values.as_mut_ptr(), partial);
            *sum += values.iter().map(|&v| f64::from(v)).sum::<f64>();
        }
    }
}

/// Rows added up in f32 before they are in f64.
const ROWS_IN_F32: usize = 16;
/// Vectors side by side, so that the additions of one do not wait for each other.
const ABREAST: usize = 4;

/// Adds `rows` rows, `stride` apart, to `acc`: sixteen at a time in f32, then in f64.
#[inline(always)]
unsafe fn sum_rows<S: Simd>(acc: &mut [f64], x: *const f32, rows: usize, stride: isize) {
    let wide = ABREAST * S::LANES;
    let mut start = 0;
    // SAFETY: the caller vouches for `acc.len()` elements of every row.
    unsafe {
        while start < acc.len() {
            let from = x.add(start);
            let left = &mut acc[start..];
            if left.len() >= wide {
                sum_vectors::<S, ABREAST>(&mut left[..wide], from, rows, stride);
                start += wide;
            } else {
                let lanes = S::LANES.min(left.len());
                sum_vectors::<S, 1>(&mut left[..lanes], from, rows, stride);
                start += lanes;
            }
        }
    }
}

/// The same for `V` vectors, which are whole unless there is one.
#[inline(always)]
#[allow(
    clippy::needless_range_loop,
    reason = "constant bounds unroll, iterators may not"
)]
unsafe fn sum_vectors<S: Simd, const V: usize>(
    acc: &mut [f64],
    x: *const f32,
    rows: usize,
    stride: isize,
) {
    let lanes = acc.len() / V;
    let mut row = 0;
    // SAFETY: the caller vouches for `acc.len()` elements of every row.
    unsafe {
        while row < rows {
            let last = rows.min(row + ROWS_IN_F32);
            let mut partial = [S::splat(0.0); V];
            for r in row..last {
                let p = x.offset(r as isize * stride);
                for v in 0..V {
                    let values = match lanes == S::LANES {
                        true => S::load(p.add(v * S::LANES)),
                        false => S::load_first(p, lanes),
                    };
                    partial[v] = S::add(partial[v], values);
                }
            }
            let mut values = [0.0f32; BLOCK];
            for v in 0..V {
                S::store(values.as_mut_ptr().add(v * S::LANES), partial[v]);
            }
            for (a, &v) in acc.iter_mut().zip(&values) {
                *a += f64::from(v);
            }
            row = last;
        }
    }
}

/// # Safety
///
/// `x + offset + i` must be readable for every offset of `over` and `i < len`, and
/// `y + i * y_stride` writable.
#[allow(
    clippy::too_many_arguments,
    reason = "two strided operands and a shape"
)]
unsafe fn reduce_f32(
    isa: Isa,
    kind: ReduceKind,
    over: &Walk,
    n: usize,
    x: *const f32,
    y: *mut f32,
    y_stride: isize,
    len: usize,
) {
    // SAFETY: guaranteed by the caller.
    let row = |offset: isize| unsafe { std::slice::from_raw_parts(x.offset(offset), len) };
    let fold = |acc: &mut [f64; BLOCK], f: &dyn Fn(&mut f64, f64)| {
        if n > 0 {
            over.each(|offset| {
                for (a, &v) in acc.iter_mut().zip(row(offset)) {
                    f(a, f64::from(v));
                }
            });
        }
    };
    let sum = |acc: &mut [f64; BLOCK]| {
        match over.even() {
            _ if n == 0 => {}
            Some((rows, 1)) if len == 1 => {
                let sum = &mut acc[0];
                // SAFETY: the elements are those of `over`; `isa` names a set this processor has.
                unsafe {
                    dispatch!(isa, sum_run(sum: &mut f64, x: *const f32, n: usize) => (sum, x, rows));
                }
            }
            Some((rows, stride)) if len > 1 => {
                let acc = &mut acc[..len];
                // SAFETY: the rows are those of `over`; `isa` names a set this processor has.
                unsafe {
                    dispatch!(
                        isa,
                        sum_rows(acc: &mut [f64], x: *const f32, rows: usize, stride: isize) => (acc, x, rows, stride)
                    );
                }
            }
            _ => over.each(|offset| {
                for (a, &v) in acc.iter_mut().zip(row(offset)) {
                    *a += f64::from(v);
                }
            }),
        }
    };
    let mut acc = [0.0f64; BLOCK];
    match kind {
        ReduceKind::Sum | ReduceKind::Mean | ReduceKind::LogSum => sum(&mut acc),
        ReduceKind::L1 => fold(&mut acc, &|a, v| *a += v.abs()),
        ReduceKind::L2 | ReduceKind::SumSquare => fold(&mut acc, &|a, v| *a += v * v),
        ReduceKind::Prod => {
            acc = [1.0; BLOCK];
            fold(&mut acc, &|a, v| *a *= v);
        }
        ReduceKind::Max | ReduceKind::LogSumExp => {
            acc = [f64::NEG_INFINITY; BLOCK];
            fold(&mut acc, &|a, v| {
                if v > *a || v.is_nan() {
                    *a = v;
                }
            });
        }
        ReduceKind::Min => {
            acc = [f64::INFINITY; BLOCK];
            fold(&mut acc, &|a, v| {
                if v < *a || v.is_nan() {
                    *a = v;
                }
            });
        }
    }
    if kind == ReduceKind::LogSumExp {
        let max = acc.map(|m| if m.is_finite() { m } else { 0.0 });
        let mut sums = [0.0f64; BLOCK];
        if n > 0 {
            over.each(|offset| {
                for ((s, m), &v) in sums.iter_mut().zip(&max).zip(row(offset)) {
                    *s += (f64::from(v) - m).exp();
                }
            });
        }
        for ((a, s), m) in acc.iter_mut().zip(&sums).zip(&max) {
            *a = s.ln() + m;
        }
    }
    for (i, &a) in acc[..len].iter().enumerate() {
        let value = match kind {
            ReduceKind::Mean => a / n as f64,
            ReduceKind::L2 => a.sqrt(),
            ReduceKind::LogSum => a.ln(),
            _ => a,
        };
        // SAFETY: guaranteed by the caller.
        unsafe { *y.offset(i as isize * y_stride) = value as f32 };
    }
}

/// # Safety
///
/// As [`reduce_f32`].
unsafe fn reduce_i64(
    kind: ReduceKind,
    over: &Walk,
    x: *const i64,
    y: *mut i64,
    y_stride: isize,
    len: usize,
) {
    for i in 0..len {
        let mut acc = match kind {
            ReduceKind::Prod => 1,
            ReduceKind::Max => i64::MIN,
            ReduceKind::Min => i64::MAX,
            _ => 0,
        };
        over.each(|offset| {
            // SAFETY: guaranteed by the caller.
            let v = unsafe { *x.offset(offset + i as isize) };
            acc = match kind {
                ReduceKind::Prod => acc.wrapping_mul(v),
                ReduceKind::Max => acc.max(v),
                ReduceKind::Min => acc.min(v),
                _ => acc.wrapping_add(v),
            };
        });
        // SAFETY: guaranteed by the caller.
        unsafe { *y.offset(i as isize * y_stride) = acc };
    }
}

/// An element of either storage as something to order by: floats as the integers of their bits,
/// zeros of both signs alike and NaN where `nan` says.
///
/// # Safety
///
/// The offset must be inside the view.
unsafe fn key(memory: &Memory, view: &View, wide: bool, offset: isize, nan: i64) -> i64 {
    // SAFETY: guaranteed by the caller.
    let value = unsafe {
        if wide {
            return *memory.i64(view).offset(offset);
        }
        *memory.f32(view).offset(offset)
    };
    if value.is_nan() {
        return nan;
    }
    let magnitude = i64::from(value.abs().to_bits());
    if value < 0.0 { -magnitude } else { magnitude }
}

/// Runs an arg-reduction.
fn run_arg(step: &ArgReduceStep, c: &Context<'_>) {
    let (memory, pool) = (c.memory, c.pool);
    let axis = step.params.axis as usize;
    let wide = memory.storage(&step.x) == Storage::I64;
    let remaining = Walk::new(&step.x, &step.y, (0..step.x.rank()).filter(|&a| a != axis));
    let along = step.x.axes[axis];
    pool.run(remaining.len(), |task| {
        let (x, y) = remaining.offsets(task);
        // NaN is the extreme of either kind.
        let nan = if step.params.max { i64::MAX } else { i64::MIN };
        let mut best = (0, 0);
        for i in 0..along.extent {
            // SAFETY: the view was checked at load.
            let v = unsafe { key(memory, &step.x, wide, x + i as isize * along.stride, nan) };
            let better = if step.params.max {
                v > best.1
            } else {
                v < best.1
            };
            if i == 0 || better || (step.params.select_last && v == best.1) {
                best = (i, v);
            }
        }
        // SAFETY: every task writes its own element.
        unsafe { *memory.i64(&step.y).offset(y) = best.0 as i64 };
    });
}

/// Runs a running sum.
fn run_cum_sum(step: &CumSumStep, c: &Context<'_>) {
    let (memory, pool) = (c.memory, c.pool);
    let wide = memory.storage(&step.x) == Storage::I64;
    let axis = step.axis;
    let remaining = Walk::new(&step.x, &step.y, (0..step.x.rank()).filter(|&a| a != axis));
    let (xa, ya) = (step.x.axes[axis], step.y.axes[axis]);
    pool.run(remaining.len(), |task| {
        let (x0, y0) = remaining.offsets(task);
        let product = step.product;
        // What a sum or product of nothing is.
        let (mut sum, mut whole) = match product {
            true => (1.0f64, 1i64),
            false => (0.0, 0),
        };
        for i in 0..xa.extent {
            let i = if step.reverse { xa.extent - 1 - i } else { i } as isize;
            let (x, y) = (x0 + i * xa.stride, y0 + i * ya.stride);
            // SAFETY: the views were checked at load; every task has its own line.
            unsafe {
                if wide {
                    let v = *memory.i64(&step.x).offset(x);
                    let next = match product {
                        true => whole.wrapping_mul(v),
                        false => whole.wrapping_add(v),
                    };
                    *memory.i64(&step.y).offset(y) = if step.exclusive { whole } else { next };
                    whole = next;
                } else {
                    let v = f64::from(*memory.f32(&step.x).offset(x));
                    let next = if product { sum * v } else { sum + v };
                    let out = if step.exclusive { sum } else { next };
                    *memory.f32(&step.y).offset(y) = out as f32;
                    sum = next;
                }
            }
        }
    });
}

/// Runs a top-k by repeated selection: `k` passes over the axis, no memory taken.
fn run_top_k(step: &TopKStep, c: &Context<'_>) {
    let (memory, pool) = (c.memory, c.pool);
    let axis = step.axis;
    let Some(result) = step.values.as_ref().or(step.indices.as_ref()) else {
        return;
    };
    let wide = memory.storage(&step.x) == Storage::I64;
    let k = result.axes[axis].extent;
    let lines = || (0..step.x.rank()).filter(|&a| a != axis);
    let of = |v: &Option<View>| v.as_ref().map(|v| Walk::new(&step.x, v, lines()));
    let (values, indices) = (of(&step.values), of(&step.indices));
    let remaining = Walk::new(&step.x, result, lines());
    let along = step.x.axes[axis];
    pool.run(remaining.len(), |task| {
        let (x, _) = remaining.offsets(task);
        let nan = i64::MAX;
        let mut last: Option<(i64, usize)> = None;
        for rank in 0..k {
            let mut best: Option<(i64, usize)> = None;
            for i in 0..along.extent {
                // SAFETY: the view was checked at load.
                let v = unsafe { key(memory, &step.x, wide, x + i as isize * along.stride, nan) };
                // The complement reverses the order and has no overflow.
                let v = if step.largest { v } else { !v };
                let after = last.is_none_or(|(lv, li)| v < lv || (v == lv && i > li));
                if after && best.is_none_or(|(bv, _)| v > bv) {
                    best = Some((v, i));
                }
            }
            let (_, i) = best.unwrap_or((0, 0));
            last = best.or(last);
            // SAFETY: every task writes its own line, `rank < k`.
            unsafe {
                if let (Some(walk), Some(view)) = (&values, &step.values) {
                    let y = walk.offsets(task).1 + rank as isize * view.axes[axis].stride;
                    let from = x + i as isize * along.stride;
                    if wide {
                        *memory.i64(view).offset(y) = *memory.i64(&step.x).offset(from);
                    } else {
                        *memory.f32(view).offset(y) = *memory.f32(&step.x).offset(from);
                    }
                }
                if let (Some(walk), Some(view)) = (&indices, &step.indices) {
                    let y = walk.offsets(task).1 + rank as isize * view.axes[axis].stride;
                    *memory.i64(view).offset(y) = i as i64;
                }
            }
        }
    });
}

/// The kernel of a reduction over any axes.
pub(crate) struct Reduce(ReduceStep);

impl Kernel<ReduceStep> for Reduce {
    fn prepare(problem: &Problem<'_, ReduceStep>) -> Result<Self, QuantError> {
        Ok(Self(problem.step.clone()))
    }
}

impl PreparedStep for Reduce {
    fn run(&self, c: &Context<'_>) -> Result<(), StepError> {
        run(&self.0, c);
        Ok(())
    }
}

/// The kernel of the position of an extreme along one axis.
pub(crate) struct ArgReduce(ArgReduceStep);

impl Kernel<ArgReduceStep> for ArgReduce {
    fn prepare(problem: &Problem<'_, ArgReduceStep>) -> Result<Self, QuantError> {
        Ok(Self(problem.step.clone()))
    }
}

impl PreparedStep for ArgReduce {
    fn run(&self, c: &Context<'_>) -> Result<(), StepError> {
        run_arg(&self.0, c);
        Ok(())
    }
}

/// The kernel of a running sum along one axis.
pub(crate) struct CumSum(CumSumStep);

impl Kernel<CumSumStep> for CumSum {
    fn prepare(problem: &Problem<'_, CumSumStep>) -> Result<Self, QuantError> {
        Ok(Self(problem.step.clone()))
    }
}

impl PreparedStep for CumSum {
    fn run(&self, c: &Context<'_>) -> Result<(), StepError> {
        run_cum_sum(&self.0, c);
        Ok(())
    }
}

/// The kernel of the greatest or least few along one axis.
pub(crate) struct TopK(TopKStep);

impl Kernel<TopKStep> for TopK {
    fn prepare(problem: &Problem<'_, TopKStep>) -> Result<Self, QuantError> {
        Ok(Self(problem.step.clone()))
    }
}

impl PreparedStep for TopK {
    fn run(&self, c: &Context<'_>) -> Result<(), StepError> {
        run_top_k(&self.0, c);
        Ok(())
    }
}
