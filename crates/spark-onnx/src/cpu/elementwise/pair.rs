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

use half::bf16;
use spark_gemm::FloatFormat;

use crate::cpu::prepared::Context;
use crate::cpu::simd::{Simd, dispatch};
use crate::plan::{Plan, PointOp, PointwiseStep, RegisterKind, View};

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
            || views.iter().any(|v| !plan.storage(v).is_float())
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
            let [a, b] = self.inputs.map(|input| &step.inputs[input]);
            let at = |view: &View, which: usize| {
                let format = memory.float_format(view);
                (format.offset_mut(memory.floats(view), start(which)), format)
            };
            let ((y, y_format), (a, a_format), (b, b_format)) =
                (at(&step.y, 0), at(a, 1), at(b, 2));
            let rows = &Rows {
                y,
                y_format,
                y_stride: sy[0],
                a,
                a_format,
                a_strides: sa,
                b,
                b_format,
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
    y_format: FloatFormat,
    y_stride: isize,
    a: *const f32,
    a_format: FloatFormat,
    a_strides: [isize; 2],
    b: *const f32,
    b_format: FloatFormat,
    b_strides: [isize; 2],
    rows: usize,
    width: usize,
}

/// One row of an operand.
#[derive(Clone, Copy)]
struct Operand {
    start: *const f32,
    format: FloatFormat,
    /// Whether its first element stands for all.
    repeats: bool,
}

impl Operand {
    /// Elements from `i` on: all of a vector's, or the first `n`.
    ///
    /// # Safety
    ///
    /// They must be readable; the first of the row, where it repeats.
    #[inline(always)]
    unsafe fn load<S: Simd>(self, i: usize, n: usize) -> S::V {
        // SAFETY: guaranteed by the caller.
        unsafe {
            match (self.format, n == S::LANES) {
                (FloatFormat::F32, _) if self.repeats => S::splat(*self.start),
                (FloatFormat::Bf16, _) if self.repeats => {
                    S::splat((*self.start.cast::<bf16>()).to_f32())
                }
                (FloatFormat::F32, true) => S::load(self.start.add(i)),
                (FloatFormat::F32, false) => S::load_first(self.start.add(i), n),
                (FloatFormat::Bf16, true) => S::load_bf16(self.start.cast::<u16>().add(i)),
                (FloatFormat::Bf16, false) => {
                    S::load_first_bf16(self.start.cast::<u16>().add(i), n)
                }
            }
        }
    }
}

/// Sum (0), difference (1) or product (2) of every row.
#[inline(always)]
unsafe fn combine<S: Simd, const OP: u8>(r: &Rows) {
    use FloatFormat::{Bf16, F32};
    for row in 0..r.rows as isize {
        let y = r.y_format.offset_mut(r.y, row * r.y_stride);
        let operand = |start, format: FloatFormat, strides: [isize; 2]| Operand {
            start: format.offset(start, row * strides[0]),
            format,
            repeats: strides[1] == 0,
        };
        let a = operand(r.a, r.a_format, r.a_strides);
        let b = operand(r.b, r.b_format, r.b_strides);
        // What a row is made of is known here, so that no element asks.
        macro_rules! row {
            ($y:expr, $a:expr, $b:expr, $repeats_a:literal, $repeats_b:literal) => {
                combine_row::<S, OP>(
                    (y, $y),
                    Operand {
                        format: $a,
                        repeats: $repeats_a,
                        ..a
                    },
                    Operand {
                        format: $b,
                        repeats: $repeats_b,
                        ..b
                    },
                    r.width,
                )
            };
        }
        // SAFETY: rows and elements exist guaranteed by the caller. The result may be an operand's
        // very view: elements are read before they are written.
        unsafe {
            match ((r.y_format, a.format, b.format), (a.repeats, b.repeats)) {
                ((F32, F32, F32), (false, false)) => row!(F32, F32, F32, false, false),
                ((F32, F32, F32), (false, true)) => row!(F32, F32, F32, false, true),
                ((F32, F32, F32), (true, false)) => row!(F32, F32, F32, true, false),
                ((Bf16, F32, F32), (false, false)) => row!(Bf16, F32, F32, false, false),
                ((Bf16, Bf16, Bf16), (false, false)) => row!(Bf16, Bf16, Bf16, false, false),
                _ => combine_row::<S, OP>((y, r.y_format), a, b, r.width),
            }
        }
    }
}

#[inline(always)]
unsafe fn combine_row<S: Simd, const OP: u8>(
    (y, y_format): (*mut f32, FloatFormat),
    a: Operand,
    b: Operand,
    width: usize,
) {
    let mut i = 0;
    // SAFETY: the caller vouches for `width` elements, or one where an operand repeats.
    unsafe {
        while i < width {
            let n = S::LANES.min(width - i);
            // Of whole vectors the length is a constant.
            let v = match n == S::LANES {
                true => operate::<S, OP>(a.load::<S>(i, S::LANES), b.load::<S>(i, S::LANES)),
                false => operate::<S, OP>(a.load::<S>(i, n), b.load::<S>(i, n)),
            };
            match (y_format, n == S::LANES) {
                (FloatFormat::F32, true) => S::store(y.add(i), v),
                (FloatFormat::F32, false) => S::store_first(y.add(i), v, n),
                (FloatFormat::Bf16, true) => S::store_bf16(y.cast::<u16>().add(i), v),
                (FloatFormat::Bf16, false) => S::store_first_bf16(y.cast::<u16>().add(i), v, n),
            }
            i += S::LANES;
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
