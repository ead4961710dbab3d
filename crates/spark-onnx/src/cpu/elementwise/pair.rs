//! `a + b`, `a - b` and `a * b` of two tensors, straight from memory to memory.
//!
//! ```text
//! for plane:  for row in plane:  y[row] = a[row] op b[row]      an operand may repeat along
//!                                                               a row, or from row to row
//! ```
//!
//! Most element-wise steps that are left after fusion are of this kind (a residual sum, the
//! gate of a squeeze-and-excite block), and with few channels a program's registers would
//! cost more than the arithmetic.
//!
//! Deliberately absent: operands gathered with a stride, integers.

use crate::cpu::prepared::Context;
use crate::cpu::simd::{Simd, dispatch};
use crate::plan::{Plan, PointOp, PointwiseStep, RegisterKind, Storage};

/// Elements below which a second thread is not profitable.
const MIN_PER_TASK: usize = 16 * 1024;

/// The operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Add,
    Sub,
    Mul,
}

/// A program that is one operation on two operands.
pub(crate) struct Pair {
    operation: Operation,
    /// Operands of the step.
    inputs: [usize; 2],
    /// Outer axes, not the last two.
    outer: Vec<usize>,
    rows: usize,
    width: usize,
    /// `[result, a, b][outer axis, ..., row, element]`.
    strides: [Vec<isize>; 3],
}

impl Pair {
    /// The pair `step` is, if it is one; `extents` and `strides` are its collapsed loops, the
    /// result's strides first.
    pub(crate) fn new(
        plan: &Plan,
        step: &PointwiseStep,
        extents: &[usize],
        strides: &[Vec<isize>],
    ) -> Option<Self> {
        let [first, second, last] = step.program.instructions.as_slice() else {
            return None;
        };
        let (PointOp::Load(a), PointOp::Load(b)) = (first.op, second.op) else {
            return None;
        };
        let operation = match last.op {
            PointOp::Add => Operation::Add,
            PointOp::Sub => Operation::Sub,
            PointOp::Mul => Operation::Mul,
            _ => return None,
        };
        let by_register = |register: u16| match register {
            r if r == second.to => usize::from(b),
            _ => usize::from(a),
        };
        let inputs = [by_register(last.args[0]), by_register(last.args[1])];
        let views = [&step.y, &step.inputs[inputs[0]], &step.inputs[inputs[1]]];
        if last.kind != RegisterKind::F32
            || first.to == second.to
            || views.iter().any(|v| plan.storage(v) != Storage::F32)
        {
            return None;
        }
        let mut strides = [0, inputs[0] + 1, inputs[1] + 1].map(|i| strides[i].clone());
        let mut extents = extents.to_vec();
        if extents.len() == 1 {
            extents.insert(0, 1);
            strides.iter_mut().for_each(|s| s.insert(0, 0));
        }
        let last = extents.len() - 1;
        let in_order = strides[0][last] == 1 && strides.iter().all(|s| matches!(s[last], 0 | 1));
        in_order.then(|| Self {
            operation,
            inputs,
            outer: extents[..last - 1].to_vec(),
            rows: extents[last - 1],
            width: extents[last],
            strides,
        })
    }

    /// Computes `step`, for which it was made, on all threads.
    pub(crate) fn run(&self, step: &PointwiseStep, c: &Context<'_>) {
        let Context {
            isa, memory, pool, ..
        } = *c;
        let planes: usize = self.outer.iter().product();
        let total = planes * self.rows * self.width;
        let parts = (total / MIN_PER_TASK)
            .clamp(1, pool.threads())
            .min(self.rows.max(1));
        pool.run(planes * parts, |task| {
            let (plane, part) = (task / parts, task % parts);
            let first = self.rows * part / parts;
            let n_rows = self.rows * (part + 1) / parts - first;
            let start = |which: usize| {
                let s = &self.strides[which];
                let mut offset = first as isize * s[s.len() - 2];
                let mut rest = plane;
                for (axis, extent) in self.outer.iter().enumerate().rev() {
                    offset += (rest % extent) as isize * s[axis];
                    rest /= extent;
                }
                offset
            };
            let [sy, sa, sb] = [0, 1, 2].map(|i| {
                let s = &self.strides[i];
                [s[s.len() - 2], s[s.len() - 1]]
            });
            let rows = &Rows {
                y: memory.f32(&step.y).wrapping_offset(start(0)),
                y_stride: sy[0],
                a: memory
                    .f32(&step.inputs[self.inputs[0]])
                    .wrapping_offset(start(1)),
                a_strides: sa,
                b: memory
                    .f32(&step.inputs[self.inputs[1]])
                    .wrapping_offset(start(2)),
                b_strides: sb,
                rows: n_rows,
                width: self.width,
            };
            // SAFETY: loops stay within the extents of views checked at load, tasks store disjoint
            // rows, and `isa` names a set this processor has.
            unsafe {
                match self.operation {
                    Operation::Add => dispatch!(isa, combine::<0>(r: &Rows) => (rows)),
                    Operation::Sub => dispatch!(isa, combine::<1>(r: &Rows) => (rows)),
                    Operation::Mul => dispatch!(isa, combine::<2>(r: &Rows) => (rows)),
                }
            }
        });
    }
}

/// Rows of one plane. Strides of operands: to the next row, to the next element (0 or 1).
struct Rows {
    y: *mut f32,
    y_stride: isize,
    a: *const f32,
    a_strides: [isize; 2],
    b: *const f32,
    b_strides: [isize; 2],
    rows: usize,
    width: usize,
}

/// Sum (0), difference (1) or product (2) of every row.
#[inline(always)]
unsafe fn combine<S: Simd, const OP: u8>(r: &Rows) {
    for row in 0..r.rows as isize {
        // SAFETY: rows and elements exist guaranteed by the caller. The result may be an operand's
        // very view: elements are read before they are written.
        unsafe {
            let y = r.y.offset(row * r.y_stride);
            let a = r.a.offset(row * r.a_strides[0]);
            let b = r.b.offset(row * r.b_strides[0]);
            match (r.a_strides[1], r.b_strides[1]) {
                (0, 0) => combine_row::<S, OP, true, true>(y, a, b, r.width),
                (0, _) => combine_row::<S, OP, true, false>(y, a, b, r.width),
                (_, 0) => combine_row::<S, OP, false, true>(y, a, b, r.width),
                _ => combine_row::<S, OP, false, false>(y, a, b, r.width),
            }
        }
    }
}

#[inline(always)]
unsafe fn combine_row<S: Simd, const OP: u8, const REPEAT_A: bool, const REPEAT_B: bool>(
    y: *mut f32,
    a: *const f32,
    b: *const f32,
    width: usize,
) {
    // SAFETY: the caller vouches for `width` elements, or one where an operand repeats.
    unsafe {
        let mut i = 0;
        while i + S::LANES <= width {
            let va = if REPEAT_A {
                S::splat(*a)
            } else {
                S::load(a.add(i))
            };
            let vb = if REPEAT_B {
                S::splat(*b)
            } else {
                S::load(b.add(i))
            };
            S::store(y.add(i), operate::<S, OP>(va, vb));
            i += S::LANES;
        }
        let rest = width - i;
        if rest > 0 {
            let va = if REPEAT_A {
                S::splat(*a)
            } else {
                S::load_first(a.add(i), rest)
            };
            let vb = if REPEAT_B {
                S::splat(*b)
            } else {
                S::load_first(b.add(i), rest)
            };
            S::store_first(y.add(i), operate::<S, OP>(va, vb), rest);
        }
    }
}

#[inline(always)]
unsafe fn operate<S: Simd, const OP: u8>(a: S::V, b: S::V) -> S::V {
    // SAFETY: the processor has the instruction set.
    unsafe {
        match OP {
            0 => S::add(a, b),
            1 => S::sub(a, b),
            _ => S::mul(a, b),
        }
    }
}
