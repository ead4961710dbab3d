//! What stands between products of integers, in one pass: a sum, difference or product of two operands, or one
//! operand alone, of which some are bytes, or the result is.
//!
//! ```text
//! a = (x_a - zero_a) * scale_a,  or floats        64 elements in registers: what a program does in as many passes
//! b = (x_b - zero_b) * scale_b,  or floats        as it has instructions, operation by operation, so with its bits
//! y = to_byte(round((a op b, ReLU) / scale) + zero),  or a op b in floats
//! ```
//!
//! In a network of integers these are residual sums, the gates of squeeze-and-excite blocks, and floats that are
//! quantised.
//!
//! A signed byte with its highest bit turned over is an unsigned one, 128 more, as is its zero point then.
//!
//! Deliberately absent: functions of one byte, which `byte_table` looks up, and scales per channel.

use spark_quant::QuantError;

use super::pointwise::collapsed;
use crate::cpu::prepared::{Context, Kernel, PreparedStep, Problem, StepError};
use crate::cpu::simd::{Simd, dispatch};
use crate::graph::Unary;
use crate::plan::{Instruction, PointOp, PointwiseStep, Program, Storage, inverse_of_power_of_two};

/// Elements in registers.
const BLOCK: usize = 64;
/// Elements below which a second thread is not profitable.
const MIN_PER_TASK: usize = 32 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    /// The first operand alone.
    First,
    Add,
    Sub,
    Mul,
}

/// How an operand becomes floats.
#[derive(Debug, Clone, Copy)]
enum Source {
    Floats,
    /// `(byte ^ flip - zero) * scale`
    Bytes {
        flip: u8,
        zero: f32,
        scale: f32,
    },
}

/// How floats become the result.
#[derive(Debug, Clone, Copy)]
enum Target {
    Floats,
    Bytes {
        scale: f32,
        zero: f32,
        low: f32,
        high: f32,
    },
}

/// An operand of the step.
#[derive(Debug, Clone, Copy)]
struct Operand {
    /// Which one.
    input: usize,
    source: Source,
}

/// The program, as what it computes.
#[derive(Debug, Clone, Copy)]
struct Formula {
    operation: Operation,
    a: Operand,
    /// The first again, where there is one alone.
    b: Operand,
    /// Whether negative results become 0.
    is_positive: bool,
    target: Target,
}

/// A program that is a [`Formula`].
pub(crate) struct Quantised {
    step: PointwiseStep,
    formula: Formula,
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

    /// The operand that the instruction at `at` gives: loaded, or dequantised.
    fn operand(&self, at: usize, storage: &impl Fn(usize) -> Storage) -> Option<Operand> {
        if let PointOp::Load(input) = self.op(at) {
            let input = usize::from(input);
            let source = Source::Floats;
            return (storage(input) == Storage::F32).then_some(Operand { input, source });
        }
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
        let source = Source::Bytes { flip, zero, scale };
        Some(Operand { input, source })
    }

    /// How the instruction at `at` makes bytes, and the one that makes what they are made of.
    fn target(&self, at: usize) -> Option<(Target, usize)> {
        let PointOp::ToByte { low, high } = self.op(at) else {
            return Some((Target::Floats, at));
        };
        let mut at = self.made_by[at][0];
        let mut zero = 0.0;
        if self.op(at) == PointOp::Add {
            let [rounded, zero_at, _] = self.made_by[at];
            zero = self.constant(zero_at)?;
            at = rounded;
        }
        (self.op(at) == PointOp::Unary(Unary::Round)).then_some(())?;
        at = self.made_by[at][0];
        let [value, scale, _] = self.made_by[at];
        let scale = self.constant(scale)?;
        let scale = match self.op(at) {
            PointOp::Div => scale,
            PointOp::Mul => inverse_of_power_of_two(scale)?,
            _ => return None,
        };
        let target = Target::Bytes {
            scale,
            zero,
            low,
            high,
        };
        Some((target, value))
    }

    /// The whole program as a formula, if it reads or makes bytes.
    fn formula(&self, storage: impl Fn(usize) -> Storage) -> Option<Formula> {
        let (target, mut at) = self.target(self.instructions.len().checked_sub(1)?)?;
        let is_positive = self.op(at) == PointOp::Unary(Unary::Relu);
        if is_positive {
            // Of floats ReLU may tell zeros of either sign apart.
            matches!(target, Target::Bytes { .. }).then_some(())?;
            at = self.made_by[at][0];
        }
        // A dequantised operand ends in a product as well.
        if let Some(a) = self.operand(at, &storage) {
            return matches!(target, Target::Bytes { .. }).then_some(Formula {
                operation: Operation::First,
                a,
                b: a,
                is_positive,
                target,
            });
        }
        let operation = match self.op(at) {
            PointOp::Add => Operation::Add,
            PointOp::Sub => Operation::Sub,
            PointOp::Mul => Operation::Mul,
            _ => return None,
        };
        let [a, b, _] = self.made_by[at];
        let (a, b) = (self.operand(a, &storage)?, self.operand(b, &storage)?);
        let reads_bytes = [a, b]
            .iter()
            .any(|operand| matches!(operand.source, Source::Bytes { .. }));
        (reads_bytes || matches!(target, Target::Bytes { .. })).then_some(Formula {
            operation,
            a,
            b,
            is_positive,
            target,
        })
    }
}

impl Quantised {
    fn new(problem: &Problem<'_, PointwiseStep>) -> Option<Self> {
        let (step, plan) = (problem.step, problem.plan);
        let definitions = Definitions::of(&step.program);
        let formula = definitions.formula(|input| plan.storage(&step.inputs[input]))?;
        let storage = match formula.target {
            Target::Floats => Storage::F32,
            Target::Bytes { low, .. } if low < 0.0 => Storage::I8,
            Target::Bytes { .. } => Storage::U8,
        };
        (plan.storage(&step.y) == storage).then_some(())?;
        let (extents, strides) = collapsed(step);
        let strides = [0, formula.a.input + 1, formula.b.input + 1].map(|at| strides[at].clone());
        let inner = extents.len() - 1;
        let is_dense = strides[0][inner] == 1 && strides.iter().all(|s| matches!(s[inner], 0 | 1));
        is_dense.then(|| Self {
            step: step.clone(),
            formula,
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

impl Kernel<PointwiseStep> for Quantised {
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

impl PreparedStep for Quantised {
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
        let of_input = |input: usize| &self.step.inputs[input];
        let (a, b) = (
            of_input(self.formula.a.input),
            of_input(self.formula.b.input),
        );
        let views = [&self.step.y, a, b];
        let sizes = views.map(|view| c.memory.storage(view).size_bytes() as isize);
        let starts = views.map(|view| match c.memory.storage(view).is_byte() {
            true => c.memory.bytes(view),
            false => c.memory.f32(view).cast(),
        });
        let places = &Places(starts);
        c.pool.run(tasks, |task| {
            let (first, last) = (rows * cuts * task / tasks, rows * cuts * (task + 1) / tasks);
            for part in first..last {
                let (row, cut) = (part / cuts, part % cuts);
                let (start, end) = (width * cut / cuts, width * (cut + 1) / cuts);
                let mut at = places.0;
                for which in 0..3 {
                    let along = start as isize * self.strides[which][inner];
                    let offset = self.offset(which, row) + along;
                    at[which] = at[which].wrapping_offset(offset * sizes[which]);
                }
                let repeats = [1, 2].map(|which| self.strides[which][inner] == 0);
                let (formula, n) = (&self.formula, end - start);
                // SAFETY: rows are within the extents of views checked at load, tasks store disjoint parts, and
                // `isa` names a set that this processor has.
                unsafe {
                    dispatch!(
                        c.isa,
                        run_row(formula: &Formula, at: [*mut u8; 3], repeats: [bool; 2], n: usize)
                            => (formula, at, repeats, n)
                    );
                }
            }
        });
        Ok(())
    }

    fn operands(&self) -> &'static str {
        match (self.formula.operation, self.formula.a.source) {
            (Operation::First, Source::Floats) => "f32",
            _ => "bytes",
        }
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
unsafe fn run_row<S: Simd>(formula: &Formula, at: [*mut u8; 3], repeats: [bool; 2], n: usize) {
    let [y, a, b] = at;
    for start in (0..n).step_by(BLOCK) {
        let len = BLOCK.min(n - start);
        // SAFETY: guaranteed by the caller: `len` elements from `start` on, or one that repeats.
        unsafe {
            let mut values = load(formula.a.source, a, repeats[0], start, len);
            if formula.operation != Operation::First {
                let b = load(formula.b.source, b, repeats[1], start, len);
                combine(formula.operation, &mut values, &b);
            }
            if formula.is_positive {
                for value in &mut values {
                    // As the function ReLU does: NaN stays.
                    *value = if *value < 0.0 { 0.0 } else { *value };
                }
            }
            store(formula.target, &values, y, start, len);
        }
    }
}

/// # Safety
///
/// `len` elements from `start` on must be readable, or the first if it repeats.
#[inline(always)]
unsafe fn load(
    source: Source,
    x: *const u8,
    repeats: bool,
    start: usize,
    len: usize,
) -> [f32; BLOCK] {
    // SAFETY: guaranteed by the caller.
    unsafe {
        match source {
            Source::Floats => load_block(x.cast(), 0.0, repeats, start, len),
            Source::Bytes { flip, zero, scale } => {
                let bytes = load_block(x, 0, repeats, start, len);
                let mut values = [0.0; BLOCK];
                for (value, byte) in values.iter_mut().zip(bytes) {
                    *value = (f32::from(byte ^ flip) - zero) * scale;
                }
                values
            }
        }
    }
}

/// # Safety
///
/// As [`load`].
#[inline(always)]
unsafe fn load_block<T: Copy>(
    x: *const T,
    nothing: T,
    repeats: bool,
    start: usize,
    len: usize,
) -> [T; BLOCK] {
    // SAFETY: guaranteed by the caller.
    unsafe {
        if repeats {
            return [*x; BLOCK];
        }
        if len == BLOCK {
            return x.add(start).cast::<[T; BLOCK]>().read_unaligned();
        }
        let mut block = [nothing; BLOCK];
        std::ptr::copy_nonoverlapping(x.add(start), block.as_mut_ptr(), len);
        block
    }
}

#[inline(always)]
fn combine(operation: Operation, a: &mut [f32; BLOCK], b: &[f32; BLOCK]) {
    match operation {
        Operation::First => {}
        Operation::Add => a.iter_mut().zip(b).for_each(|(a, b)| *a += b),
        Operation::Sub => a.iter_mut().zip(b).for_each(|(a, b)| *a -= b),
        Operation::Mul => a.iter_mut().zip(b).for_each(|(a, b)| *a *= b),
    }
}

/// # Safety
///
/// `len` elements from `start` on must be writable.
#[inline(always)]
unsafe fn store(target: Target, values: &[f32; BLOCK], y: *mut u8, start: usize, len: usize) {
    // SAFETY: guaranteed by the caller; what is rounded is a whole number of nine bits.
    unsafe {
        match target {
            Target::Floats => {
                let to = y.cast::<f32>().add(start);
                std::ptr::copy_nonoverlapping(values.as_ptr(), to, len);
            }
            Target::Bytes {
                scale,
                zero,
                low,
                high,
            } => {
                let mut bytes = [0; BLOCK];
                for (byte, value) in bytes.iter_mut().zip(values) {
                    let value = (value / scale).round_ties_even() + zero;
                    let value = if value < low { low } else { value };
                    let value = if value > high { high } else { value };
                    let value = if value.is_nan() { 0.0 } else { value };
                    *byte = value.to_int_unchecked::<i32>() as u8;
                }
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), y.add(start), len);
            }
        }
    }
}
