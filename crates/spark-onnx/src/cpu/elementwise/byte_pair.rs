//! A sum, difference or product of two dequantised bytes, quantised again.
//!
//! ```text
//! a = (x_a - zero_a) * scale_a          one pass, 64 elements in registers:
//! b = (x_b - zero_b) * scale_b          what a program does in as many passes as it has instructions,
//! y = to_byte(round((a op b, ReLU) / scale) + zero)      operation by operation, so with its bits
//! ```
//!
//! In a network of integers these are residual sums and the gates of squeeze-and-excite blocks.
//!
//! A signed byte with its highest bit turned over is an unsigned one, 128 more, as is its zero point then.

use spark_quant::QuantError;

use super::pointwise::collapsed;
use crate::cpu::prepared::{Context, Kernel, PreparedStep, Problem, StepError};
use crate::cpu::simd::{Simd, dispatch};
use crate::graph::Unary;
use crate::plan::{Instruction, PointOp, PointwiseStep, Program, Storage};

/// Elements in registers.
const BLOCK: usize = 64;
/// Elements below which a second thread is not profitable.
const MIN_PER_TASK: usize = 32 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Add,
    Sub,
    Mul,
}

/// An operand: `(byte ^ flip - zero) * scale`.
#[derive(Debug, Clone, Copy)]
struct Operand {
    /// Which of the step's.
    input: usize,
    flip: u8,
    zero: f32,
    scale: f32,
}

/// The program, as what it computes.
#[derive(Debug, Clone, Copy)]
struct Pair {
    operation: Operation,
    a: Operand,
    b: Operand,
    /// Whether negative results become 0.
    is_positive: bool,
    scale: f32,
    zero: f32,
    low: f32,
    high: f32,
}

/// A program of two operands of bytes that is a [`Pair`].
pub(crate) struct BytePair {
    step: PointwiseStep,
    pair: Pair,
    /// Outermost first.
    extents: Vec<usize>,
    /// `[result, a, b][axis]`.
    strides: [Vec<isize>; 3],
}

/// A program in static single assignment: the operands of every instruction by the instructions that made them.
struct Definitions<'p> {
    instructions: &'p [Instruction],
    made_by: Vec<[usize; 3]>,
}

impl<'p> Definitions<'p> {
    fn of(program: &'p Program) -> Self {
        let mut last = vec![0; program.n_registers];
        let instructions = &program.instructions[..];
        let made_by = instructions.iter().enumerate().map(|(at, instruction)| {
            let operands = instruction.args.map(|register| last[usize::from(register)]);
            last[usize::from(instruction.to)] = at;
            operands
        });
        Self {
            made_by: made_by.collect(),
            instructions,
        }
    }

    fn op(&self, at: usize) -> PointOp {
        self.instructions[at].op
    }

    fn constant(&self, at: usize) -> Option<f32> {
        match self.op(at) {
            PointOp::ConstantF32(value) => Some(value),
            _ => None,
        }
    }

    /// What the instruction at `at` dequantises.
    fn operand(&self, at: usize, storage: impl Fn(usize) -> Storage) -> Option<Operand> {
        (self.op(at) == PointOp::Mul).then_some(())?;
        let [centred, scale, _] = self.made_by[at];
        let scale = self.constant(scale)?;
        let (load, zero) = match self.op(centred) {
            PointOp::Sub => {
                let [load, zero, _] = self.made_by[centred];
                (load, self.constant(zero)?)
            }
            _ => (centred, 0.0),
        };
        let PointOp::Load(input) = self.op(load) else {
            return None;
        };
        let input = usize::from(input);
        let (flip, zero) = match storage(input) {
            Storage::U8 => (0, zero),
            // Exact: both are whole, and zero points are bytes; what is none stays with the program.
            Storage::I8 if zero.fract() == 0.0 && zero.abs() <= 255.0 => (0x80, zero + 128.0),
            _ => return None,
        };
        Some(Operand {
            input,
            flip,
            zero,
            scale,
        })
    }

    /// The whole program as a pair.
    fn pair(&self, storage: impl Fn(usize) -> Storage) -> Option<Pair> {
        let mut at = self.instructions.len().checked_sub(1)?;
        let PointOp::ToByte { low, high } = self.op(at) else {
            return None;
        };
        at = self.made_by[at][0];
        let mut zero = 0.0;
        if self.op(at) == PointOp::Add {
            let [rounded, zero_at, _] = self.made_by[at];
            zero = self.constant(zero_at)?;
            at = rounded;
        }
        (self.op(at) == PointOp::Unary(Unary::Round)).then_some(())?;
        at = self.made_by[at][0];
        (self.op(at) == PointOp::Div).then_some(())?;
        let [value, scale, _] = self.made_by[at];
        let scale = self.constant(scale)?;
        at = value;
        let is_positive = self.op(at) == PointOp::Unary(Unary::Relu);
        if is_positive {
            at = self.made_by[at][0];
        }
        let operation = match self.op(at) {
            PointOp::Add => Operation::Add,
            PointOp::Sub => Operation::Sub,
            PointOp::Mul => Operation::Mul,
            _ => return None,
        };
        let [a, b, _] = self.made_by[at];
        Some(Pair {
            operation,
            a: self.operand(a, &storage)?,
            b: self.operand(b, &storage)?,
            is_positive,
            scale,
            zero,
            low,
            high,
        })
    }
}

impl BytePair {
    fn new(problem: &Problem<'_, PointwiseStep>) -> Option<Self> {
        let (step, plan) = (problem.step, problem.plan);
        plan.storage(&step.y).is_byte().then_some(())?;
        let definitions = Definitions::of(&step.program);
        let pair = definitions.pair(|input| plan.storage(&step.inputs[input]))?;
        let (extents, strides) = collapsed(step);
        let strides = [0, pair.a.input + 1, pair.b.input + 1].map(|at| strides[at].clone());
        let inner = extents.len() - 1;
        let is_dense = strides[0][inner] == 1 && strides.iter().all(|s| matches!(s[inner], 0 | 1));
        is_dense.then(|| Self {
            step: step.clone(),
            pair,
            extents,
            strides,
        })
    }

    /// Elements from the start of operand `which` to row `row`.
    fn offset(&self, which: usize, row: usize) -> isize {
        let (mut rest, mut offset) = (row, 0);
        for axis in (0..self.extents.len() - 1).rev() {
            offset += (rest % self.extents[axis]) as isize * self.strides[which][axis];
            rest /= self.extents[axis];
        }
        offset
    }
}

impl Kernel<PointwiseStep> for BytePair {
    fn can_implement(problem: &Problem<'_, PointwiseStep>) -> bool {
        Self::new(problem).is_some()
    }

    fn prepare(problem: &Problem<'_, PointwiseStep>) -> Result<Self, QuantError> {
        match Self::new(problem) {
            Some(prepared) => Ok(prepared),
            None => unreachable!("what `can_implement` lets through"),
        }
    }
}

impl PreparedStep for BytePair {
    fn run(&self, c: &Context<'_>) -> Result<(), StepError> {
        let total: usize = self.extents.iter().product();
        if total == 0 {
            return Ok(());
        }
        let inner = self.extents.len() - 1;
        let width = self.extents[inner];
        // Long rows are cut, short ones counted.
        let (rows, cuts) = match inner {
            0 => (1, (total / MIN_PER_TASK).clamp(1, c.pool.threads())),
            _ => (total / width, 1),
        };
        let tasks = (total / MIN_PER_TASK)
            .clamp(1, c.pool.threads())
            .min(rows * cuts);
        let [y, a, b] = [
            &self.step.y,
            &self.step.inputs[self.pair.a.input],
            &self.step.inputs[self.pair.b.input],
        ]
        .map(|view| c.memory.bytes(view));
        let places = &Places([y, a, b]);
        c.pool.run(tasks, |task| {
            let (first, last) = (rows * cuts * task / tasks, rows * cuts * (task + 1) / tasks);
            for part in first..last {
                let (row, cut) = (part / cuts, part % cuts);
                let (start, end) = (width * cut / cuts, width * (cut + 1) / cuts);
                let at: [*mut u8; 3] = std::array::from_fn(|which| {
                    let along = start as isize * self.strides[which][inner];
                    places.0[which].wrapping_offset(self.offset(which, row) + along)
                });
                let repeats = [1, 2].map(|which| self.strides[which][inner] == 0);
                let (pair, n) = (&self.pair, end - start);
                // SAFETY: rows are within the extents of views checked at load, tasks store disjoint parts, and
                // `isa` names a set that this processor has.
                unsafe {
                    match pair.operation {
                        Operation::Add => dispatch!(
                            c.isa,
                            run_row::<0>(pair: &Pair, at: [*mut u8; 3], repeats: [bool; 2], n: usize)
                                => (pair, at, repeats, n)
                        ),
                        Operation::Sub => dispatch!(
                            c.isa,
                            run_row::<1>(pair: &Pair, at: [*mut u8; 3], repeats: [bool; 2], n: usize)
                                => (pair, at, repeats, n)
                        ),
                        Operation::Mul => dispatch!(
                            c.isa,
                            run_row::<2>(pair: &Pair, at: [*mut u8; 3], repeats: [bool; 2], n: usize)
                                => (pair, at, repeats, n)
                        ),
                    }
                }
            }
        });
        Ok(())
    }

    fn operands(&self) -> &'static str {
        "bytes"
    }
}

/// First elements of the result and both operands.
struct Places([*mut u8; 3]);

// SAFETY: tasks read shared and write disjoint elements.
unsafe impl Sync for Places {}

/// `n` elements of the result at `at[0]`, of operands at `at[1]` and `at[2]`, which may repeat.
///
/// # Safety
///
/// They must be readable and writable; the result may be an operand.
#[inline(always)]
#[allow(
    clippy::extra_unused_type_parameters,
    reason = "it says which instruction set the function is compiled for"
)]
unsafe fn run_row<S: Simd, const OP: u8>(
    pair: &Pair,
    at: [*mut u8; 3],
    repeats: [bool; 2],
    n: usize,
) {
    let [y, a, b] = at;
    for start in (0..n).step_by(BLOCK) {
        let len = BLOCK.min(n - start);
        // SAFETY: guaranteed by the caller: `len` elements from `start` on, or one that repeats.
        unsafe {
            let a = load(a, repeats[0], start, len);
            let b = load(b, repeats[1], start, len);
            let bytes = block::<OP>(pair, &a, &b);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), y.add(start), len);
        }
    }
}

/// # Safety
///
/// `len` bytes from `start` on must be readable, or the first if it repeats.
#[inline(always)]
unsafe fn load(x: *const u8, repeats: bool, start: usize, len: usize) -> [u8; BLOCK] {
    // SAFETY: guaranteed by the caller.
    unsafe {
        if repeats {
            return [*x; BLOCK];
        }
        let mut bytes = [0; BLOCK];
        match len {
            BLOCK => bytes = x.add(start).cast::<[u8; BLOCK]>().read_unaligned(),
            _ => std::ptr::copy_nonoverlapping(x.add(start), bytes.as_mut_ptr(), len),
        }
        bytes
    }
}

/// One block, element by element; loops of constant length stay in registers.
#[inline(always)]
fn block<const OP: u8>(pair: &Pair, a: &[u8; BLOCK], b: &[u8; BLOCK]) -> [u8; BLOCK] {
    let mut bytes = [0; BLOCK];
    for ((byte, &a), &b) in bytes.iter_mut().zip(a).zip(b) {
        let a = (f32::from(a ^ pair.a.flip) - pair.a.zero) * pair.a.scale;
        let b = (f32::from(b ^ pair.b.flip) - pair.b.zero) * pair.b.scale;
        let value = match OP {
            0 => a + b,
            1 => a - b,
            _ => a * b,
        };
        // As the function ReLU does: NaN stays.
        let value = if pair.is_positive && value < 0.0 {
            0.0
        } else {
            value
        };
        let value = (value / pair.scale).round_ties_even() + pair.zero;
        let value = if value < pair.low { pair.low } else { value };
        let value = if value > pair.high { pair.high } else { value };
        let value = if value.is_nan() { 0.0 } else { value };
        // SAFETY: a whole number of nine bits.
        *byte = unsafe { value.to_int_unchecked::<i32>() } as u8;
    }
    bytes
}
