//! Element-wise programs, a block of elements at a time.
//!
//! ```text
//! collapse axes all operands step through alike
//! for block of at most 256 elements along the innermost axis:
//!     for instruction in program: registers[to] = op(registers[args])    all in the L1 cache
//!
//!              a load of unit stride    the last instruction          any other
//! register     the operand itself       the result itself, if it      scratch
//!                                       is dense, in no operand's
//!                                       buffer
//! ```
//!
//! An operand is loaded by its stride: unit (read where it is), zero (one value repeated) or
//! any (gathered). A result may be the very view of an operand: then a block is computed in
//! scratch before it is stored.

use std::sync::atomic::{AtomicUsize, Ordering};

use spark_quant::QuantError;

use super::pair::Pair;
use super::round_float::round_float;
use crate::cpu::math;
use crate::cpu::memory::Memory;
use crate::cpu::prepared::{Context, Cpu, Kernel, PreparedStep, Problem, StepError};
use crate::cpu::simd::{Isa, Simd, dispatch};
use crate::cpu::workspace::WorkspaceSize;
use crate::graph::Unary;
use crate::plan::{
    Instruction, MAX_RANK, Plan, PointOp, PointwiseStep, RegisterKind, Storage, View,
};

/// Elements of one block.
const BLOCK: usize = 256;
/// f32 elements of a register, which is as wide as i64, so that both kinds fit.
const WIDTH: usize = 2 * BLOCK;
/// f32 elements that a pointer takes.
const PLACE: usize = size_of::<*mut f32>().div_ceil(size_of::<f32>());
/// Elements below which a second thread is not profitable.
const MIN_PER_TASK: usize = 16 * 1024;

/// Loop nest of one step: extents outermost first, and every operand's strides in it; the
/// result is operand 0.
pub(crate) struct PreparedPointwise {
    extents: Vec<usize>,
    /// `[operand][axis]`.
    strides: Vec<Vec<isize>>,
    storages: Vec<Storage>,
    /// Whether the last instruction may write where the result goes: along the innermost axis it
    /// is dense, and no operand lies in its buffer.
    direct: bool,
    /// A quicker way, where there is one.
    pair: Option<Pair>,
}

impl PreparedPointwise {
    /// Orders and collapses the axes of `step`.
    pub(crate) fn new(plan: &Plan, step: &PointwiseStep) -> Self {
        let views: Vec<&View> = std::iter::once(&step.y).chain(&step.inputs).collect();
        let order = step.y.memory_order();
        let mut extents: Vec<usize> = Vec::new();
        let mut strides: Vec<Vec<isize>> = vec![Vec::new(); views.len()];
        for &axis in &order {
            let extent = step.y.axes[axis].extent;
            if extent == 1 {
                continue;
            }
            let joins = extents.last().is_some_and(|_| {
                views.iter().zip(&strides).all(|(view, s)| {
                    s.last().copied() == Some(view.axes[axis].stride * extent as isize)
                })
            });
            if joins {
                if let Some(last) = extents.last_mut() {
                    *last *= extent;
                }
                for (view, s) in views.iter().zip(&mut strides) {
                    if let Some(last) = s.last_mut() {
                        *last = view.axes[axis].stride;
                    }
                }
            } else {
                extents.push(extent);
                for (view, s) in views.iter().zip(&mut strides) {
                    s.push(view.axes[axis].stride);
                }
            }
        }
        if extents.is_empty() {
            extents.push(1);
            strides.iter_mut().for_each(|s| s.push(0));
        }
        let storages: Vec<Storage> = views.iter().map(|v| plan.storage(v)).collect();
        let pair = Pair::new(plan, step, &extents, &strides);
        let dense = strides[0].last() == Some(&1);
        let direct = dense
            && !storages[0].is_byte()
            && step.inputs.iter().all(|x| x.buffer != step.y.buffer);
        Self {
            extents,
            strides,
            storages,
            direct,
            pair,
        }
    }

    /// f32 elements of scratch one thread needs.
    pub(crate) fn scratch_len(step: &PointwiseStep) -> usize {
        step.program.n_registers * (WIDTH + PLACE)
    }

    /// Runs the step; each task has its own registers in its part of the scratch.
    fn run(&self, step: &PointwiseStep, c: &Context<'_>) -> Result<(), DividedByZero> {
        let total: usize = self.extents.iter().product();
        if total == 0 {
            return Ok(());
        }
        if let Some(pair) = &self.pair {
            pair.run(step, c);
            return Ok(());
        }
        // The first instruction of the program that met a zero, whichever task finds it first.
        let stopped = AtomicUsize::new(usize::MAX);
        let inner = self.extents[self.extents.len() - 1];
        let rows = total / inner;
        let blocks_per_row = inner.div_ceil(BLOCK);
        let blocks = rows * blocks_per_row;
        let tasks = (total / MIN_PER_TASK).clamp(1, c.pool.threads());
        c.pool.run(tasks, |task| {
            let (first, last) = (blocks * task / tasks, blocks * (task + 1) / tasks);
            let scratch = c.scratch.part(task);
            let registers = Registers {
                scratch,
                // SAFETY: `scratch_len` counts a pointer for every register behind them all.
                places: unsafe { scratch.add(step.program.n_registers * WIDTH).cast() },
                len: 0,
            };
            for block in first..last {
                let (row, part) = (block / blocks_per_row, block % blocks_per_row);
                let start = part * BLOCK;
                let len = BLOCK.min(inner - start);
                // SAFETY: positions are within the extents, views were checked at load, tasks store
                // disjoint blocks, and each has its own registers.
                let done = unsafe {
                    let registers = Registers { len, ..registers };
                    self.block(step, c, registers, row, start)
                };
                if let Err(DividedByZero { instruction }) = done {
                    stopped.fetch_min(instruction, Ordering::Relaxed);
                    return;
                }
            }
        });
        match stopped.into_inner() {
            usize::MAX => Ok(()),
            instruction => Err(DividedByZero { instruction }),
        }
    }

    /// Elements from the start of operand `operand` to position `(row, start)`.
    fn offset(&self, operand: usize, row: usize, start: usize) -> isize {
        let strides = &self.strides[operand];
        let last = strides.len() - 1;
        let mut offset = start as isize * strides[last];
        let mut rest = row;
        for axis in (0..last).rev() {
            offset += (rest % self.extents[axis]) as isize * strides[axis];
            rest /= self.extents[axis];
        }
        offset
    }

    /// Computes `registers.len` elements from the position `(row, start)` on.
    ///
    /// # Safety
    ///
    /// They must be within the extents and `registers` large enough.
    unsafe fn block(
        &self,
        step: &PointwiseStep,
        &Context { isa, memory, .. }: &Context<'_>,
        registers: Registers,
        row: usize,
        start: usize,
    ) -> Result<(), DividedByZero> {
        let inner = self.extents.len() - 1;
        let offset = self.offset(0, row, start);
        let (result, stride) = (step.program.result, self.strides[0][inner]);
        let last = step.program.instructions.len().wrapping_sub(1);
        // SAFETY: register numbers are below `n_registers`; operands and result lie inside their
        // views for `len` elements from the position on. A register is scratch, an operand that
        // nothing writes, or the result that only the last instruction writes: no operand of it is
        // in the result's buffer.
        unsafe {
            let y = start_of(memory, &step.y, offset);
            for (position, &instruction) in step.program.instructions.iter().enumerate() {
                let direct = self.direct && position == last;
                let home = registers.home(instruction.to);
                registers.place(instruction.to, if direct { y } else { home });
                if let PointOp::Load(input) = instruction.op {
                    let operand = input as usize + 1;
                    let offset = self.offset(operand, row, start);
                    let stride = self.strides[operand][inner];
                    let view = &step.inputs[input as usize];
                    let from = start_of(memory, view, offset);
                    let to = instruction.to;
                    match self.storages[operand] {
                        Storage::I8 => {
                            load_bytes(from.cast::<i8>(), stride, registers.write(to));
                        }
                        Storage::U8 => {
                            load_bytes(from.cast::<u8>(), stride, registers.write(to));
                        }
                        _ if stride == 1 && !direct => registers.place(to, from),
                        Storage::I64 => load(from.cast::<i64>(), stride, registers.write(to)),
                        Storage::F32 => load(from, stride, registers.write(to)),
                    }
                } else if instruction.kind == RegisterKind::I64 {
                    execute_i64(instruction, registers).map_err(|Zero| DividedByZero {
                        instruction: position,
                    })?;
                } else {
                    dispatch!(
                        isa,
                        execute_f32(instruction: Instruction, registers: Registers, isa: Isa)
                            => (instruction, registers, isa)
                    );
                }
            }
            if self.direct {
                return Ok(());
            }
            match self.storages[0] {
                Storage::I64 => store(registers.read::<i64>(result), y.cast(), stride),
                Storage::F32 => store(registers.read::<f32>(result), y, stride),
                Storage::I8 | Storage::U8 => {
                    store_bytes(registers.read::<f32>(result), y.cast(), stride);
                }
            }
        }
        Ok(())
    }
}

/// An integer was divided by zero, or zero raised to a negative power.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DividedByZero {
    /// The instruction of the program.
    pub(crate) instruction: usize,
}

/// As [`DividedByZero`], by an instruction that does not know its position.
struct Zero;

/// The element `offset` elements from the first of `view`.
fn start_of(memory: &Memory, view: &View, offset: isize) -> *mut f32 {
    match memory.storage(view) {
        Storage::I64 => memory.i64(view).wrapping_offset(offset).cast(),
        Storage::F32 => memory.f32(view).wrapping_offset(offset),
        Storage::I8 | Storage::U8 => memory.bytes(view).wrapping_offset(offset).cast(),
    }
}

/// Bytes as floats.
unsafe fn load_bytes<T: Copy + Into<f32>>(from: *const T, stride: isize, to: &mut [f32]) {
    // SAFETY: the caller vouches for as many elements as `to` has, `stride` apart.
    unsafe {
        match stride {
            1 => {
                let from = std::slice::from_raw_parts(from, to.len());
                map(from, to, Into::into);
            }
            _ => {
                for (i, to) in to.iter_mut().enumerate() {
                    *to = (*from.offset(i as isize * stride)).into();
                }
            }
        }
    }
}

/// Whole floats as bytes; what is no number becomes 0.
unsafe fn store_bytes(from: &[f32], to: *mut u8, stride: isize) {
    // SAFETY: the caller vouches for as many elements as `from` has, `stride` apart.
    unsafe {
        match stride {
            1 => map(from, std::slice::from_raw_parts_mut(to, from.len()), |v| {
                v as i32 as u8
            }),
            _ => {
                for (i, &from) in from.iter().enumerate() {
                    *to.offset(i as isize * stride) = from as i32 as u8;
                }
            }
        }
    }
}

unsafe fn load<T: Copy>(from: *const T, stride: isize, to: &mut [T]) {
    // SAFETY: the caller vouches for as many elements as `to` has, `stride` apart.
    unsafe {
        match stride {
            1 => std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()),
            0 => to.fill(*from),
            _ => {
                for (i, to) in to.iter_mut().enumerate() {
                    *to = *from.offset(i as isize * stride);
                }
            }
        }
    }
}

/// `from` may be the very elements of `to`, where those are dense.
unsafe fn store<T: Copy>(from: &[T], to: *mut T, stride: isize) {
    // SAFETY: the caller vouches for as many elements as `from` has, `stride` apart.
    unsafe {
        if stride == 1 || from.len() == 1 {
            std::ptr::copy(from.as_ptr(), to, from.len());
        } else {
            for (i, &from) in from.iter().enumerate() {
                *to.offset(i as isize * stride) = from;
            }
        }
    }
}

/// The registers of one task, of which `len` elements are in use.
#[derive(Clone, Copy)]
struct Registers {
    /// Room of [`WIDTH`] for every register.
    scratch: *mut f32,
    /// Where every register is at the moment: in its room, or in an operand or the result.
    places: *mut *mut f32,
    len: usize,
}

impl Registers {
    /// The room of a register in scratch.
    ///
    /// # Safety
    ///
    /// The register must exist.
    unsafe fn home(&self, register: u16) -> *mut f32 {
        // SAFETY: guaranteed by the caller.
        unsafe { self.scratch.add(register as usize * WIDTH) }
    }

    /// # Safety
    ///
    /// The register must exist, and `place` hold `len` elements of what is read or written there.
    unsafe fn place(&self, register: u16, place: *mut f32) {
        // SAFETY: guaranteed by the caller.
        unsafe { *self.places.add(register as usize) = place }
    }

    /// # Safety
    ///
    /// The register must exist, hold `len` elements of `T`, and not be written meanwhile.
    #[inline(always)]
    unsafe fn read<T>(&self, register: u16) -> &[T] {
        // SAFETY: guaranteed by the caller; a register that is read was placed by the instruction
        // that made it.
        unsafe {
            let place = *self.places.add(register as usize);
            std::slice::from_raw_parts(place.cast(), self.len)
        }
    }

    /// # Safety
    ///
    /// The register must exist and be borrowed nowhere else; compiled programs never write a
    /// register they read in the same instruction.
    #[inline(always)]
    #[allow(
        clippy::mut_from_ref,
        reason = "registers are disjoint parts of one scratch"
    )]
    unsafe fn write<T>(&self, register: u16) -> &mut [T] {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let place = *self.places.add(register as usize);
            std::slice::from_raw_parts_mut(place.cast(), self.len)
        }
    }
}

#[inline(always)]
fn zip2<A: Copy, T>(a: &[A], b: &[A], to: &mut [T], f: impl Fn(A, A) -> T) {
    for ((to, &a), &b) in to.iter_mut().zip(a).zip(b) {
        *to = f(a, b);
    }
}

#[inline(always)]
fn map<A: Copy, T>(a: &[A], to: &mut [T], f: impl Fn(A) -> T) {
    for (to, &a) in to.iter_mut().zip(a) {
        *to = f(a);
    }
}

fn truth(b: bool) -> f32 {
    f32::from(u8::from(b))
}

/// # Safety
///
/// Register numbers must come from a compiled program, whose results are disjoint from its
/// operands.
#[inline(always)]
#[allow(
    clippy::extra_unused_type_parameters,
    reason = "it says which instruction set the function is compiled for"
)]
unsafe fn execute_f32<S: Simd>(instruction: Instruction, file: Registers, isa: Isa) {
    let [a, b, c] = instruction.args;
    // SAFETY: guaranteed by the caller.
    unsafe {
        let to: &mut [f32] = file.write(instruction.to);
        // What an instruction does not have is not looked at: it may be of another type.
        let x = || -> &[f32] { file.read(a) };
        let y = || -> &[f32] { file.read(b) };
        match instruction.op {
            PointOp::Load(_)
            | PointOp::ConstantI64(_)
            | PointOp::ToF32
            | PointOp::U64ToF32
            | PointOp::BitAnd
            | PointOp::BitOr
            | PointOp::BitXor
            | PointOp::ShiftLeft
            | PointOp::ShiftRight { .. }
            | PointOp::Saturate { .. } => {}
            PointOp::ConstantF32(value) => to.fill(value),
            PointOp::Unary(op) => {
                to.copy_from_slice(x());
                math::apply(isa, op, to);
            }
            PointOp::Add => zip2(x(), y(), to, |a, b| a + b),
            PointOp::Sub => zip2(x(), y(), to, |a, b| a - b),
            PointOp::Mul => zip2(x(), y(), to, |a, b| a * b),
            PointOp::Div => zip2(x(), y(), to, |a, b| a / b),
            PointOp::Pow => power(x(), y(), to),
            PointOp::RemainderTruncated => zip2(x(), y(), to, |a, b| a % b),
            PointOp::RemainderFloored => zip2(x(), y(), to, |a, b| match a % b {
                0.0 => 0f32.copysign(b),
                r if (r < 0.0) != (b < 0.0) => r + b,
                r => r,
            }),
            PointOp::PRelu => zip2(x(), y(), to, |a, b| if a < 0.0 { a * b } else { a }),
            PointOp::And => zip2(x(), y(), to, |a, b| truth(a != 0.0 && b != 0.0)),
            PointOp::Or => zip2(x(), y(), to, |a, b| truth(a != 0.0 || b != 0.0)),
            PointOp::Xor => zip2(x(), y(), to, |a, b| truth((a != 0.0) != (b != 0.0))),
            PointOp::Equal => zip2(x(), y(), to, |a, b| truth(a == b)),
            PointOp::Less => zip2(x(), y(), to, |a, b| truth(a < b)),
            PointOp::LessOrEqual => zip2(x(), y(), to, |a, b| truth(a <= b)),
            // NaN in either stays: the sum carries it.
            PointOp::Max => zip2(x(), y(), to, |a, b| {
                let m = if a > b { a } else { b };
                if a.is_nan() { a } else { m }
            }),
            PointOp::Min => zip2(x(), y(), to, |a, b| {
                let m = if a < b { a } else { b };
                if a.is_nan() { a } else { m }
            }),
            PointOp::Clamp { low, high } => map(x(), to, |v| math::clamp(v, low, high)),
            PointOp::ToByte { low, high } => map(x(), to, |v| {
                let byte = math::clamp(v, low, high);
                if v.is_nan() { 0.0 } else { byte }
            }),
            PointOp::Select => {
                let (x, yes, no): (_, _, &[f32]) = (x(), y(), file.read(c));
                for (i, to) in to.iter_mut().enumerate() {
                    *to = if x[i] != 0.0 { yes[i] } else { no[i] };
                }
            }
            PointOp::ToI64 => map(x(), file.write::<i64>(instruction.to), |v| v as i64),
            PointOp::ToU64 => {
                map(x(), file.write::<i64>(instruction.to), |v| v as u64 as i64);
            }
            PointOp::ToBool => map(x(), to, |v| truth(v != 0.0)),
            PointOp::RoundF16 => map(x(), to, |v| half::f16::from_f32(v).to_f32()),
            PointOp::RoundBf16 => map(x(), to, |v| half::bf16::from_f32(v).to_f32()),
            PointOp::RoundFloat(op) => map(x(), to, |v| round_float(v, op)),
            PointOp::Wrap { bits, signed } => {
                map(x(), to, |v| wrap(v as i64, bits, signed) as f32);
            }
        }
    }
}

/// `a^b`; the common exponents 2, 0.5 and -1 of a whole block without a library call.
fn power(a: &[f32], b: &[f32], to: &mut [f32]) {
    let Some(&first) = b.first() else {
        return;
    };
    let same = b.iter().all(|&x| x == first);
    match first {
        2.0 if same => map(a, to, |v| v * v),
        0.5 if same => map(a, to, f32::sqrt),
        1.0 if same => to.copy_from_slice(a),
        _ => zip2(a, b, to, f32::powf),
    }
}

/// # Safety
///
/// As [`execute_f32`].
unsafe fn execute_i64(instruction: Instruction, file: Registers) -> Result<(), Zero> {
    let [a, b, c] = instruction.args;
    // SAFETY: guaranteed by the caller; comparisons write f32 into a register no operand uses.
    unsafe {
        // As above: results and operands of other types are half as long.
        let to = || -> &mut [i64] { file.write(instruction.to) };
        let x = || -> &[i64] { file.read(a) };
        let y = || -> &[i64] { file.read(b) };
        let bits = |f: fn(i64, i64) -> bool| {
            zip2(x(), y(), file.write::<f32>(instruction.to), |a, b| {
                truth(f(a, b))
            });
        };
        match instruction.op {
            PointOp::ConstantI64(value) => to().fill(value),
            PointOp::Unary(Unary::Abs) => map(x(), to(), i64::wrapping_abs),
            PointOp::Unary(Unary::Neg) => map(x(), to(), i64::wrapping_neg),
            PointOp::Unary(Unary::Sign) => map(x(), to(), i64::signum),
            PointOp::Unary(Unary::Relu) => map(x(), to(), |v| v.max(0)),
            PointOp::Add => zip2(x(), y(), to(), i64::wrapping_add),
            PointOp::Sub => zip2(x(), y(), to(), i64::wrapping_sub),
            PointOp::Mul => zip2(x(), y(), to(), i64::wrapping_mul),
            PointOp::Div => try_zip2(x(), y(), to(), divided)?,
            PointOp::Pow => try_zip2(x(), y(), to(), whole_power)?,
            PointOp::RemainderTruncated => try_zip2(x(), y(), to(), remainder)?,
            PointOp::RemainderFloored => try_zip2(x(), y(), to(), |a, b| {
                let r = remainder(a, b)?;
                Some(if r != 0 && (r < 0) != (b < 0) {
                    r + b
                } else {
                    r
                })
            })?,
            PointOp::PRelu => zip2(
                x(),
                y(),
                to(),
                |a, b| if a < 0 { a.wrapping_mul(b) } else { a },
            ),
            PointOp::BitAnd => zip2(x(), y(), to(), |a, b| a & b),
            PointOp::BitOr => zip2(x(), y(), to(), |a, b| a | b),
            PointOp::BitXor => zip2(x(), y(), to(), |a, b| a ^ b),
            PointOp::ShiftLeft => zip2(x(), y(), to(), |a, b| match b {
                0..64 => a << b,
                _ => 0,
            }),
            PointOp::ShiftRight { logical: false } => zip2(x(), y(), to(), |a, b| match b {
                0..64 => a >> b,
                _ => a >> 63,
            }),
            PointOp::ShiftRight { logical: true } => zip2(x(), y(), to(), |a, b| match b {
                0..64 => (a as u64 >> b) as i64,
                _ => 0,
            }),
            PointOp::Equal => bits(|a, b| a == b),
            PointOp::Less => bits(|a, b| a < b),
            PointOp::LessOrEqual => bits(|a, b| a <= b),
            PointOp::Max => zip2(x(), y(), to(), i64::max),
            PointOp::Min => zip2(x(), y(), to(), i64::min),
            PointOp::Select => {
                let condition: &[f32] = file.read(a);
                let (yes, no): (&[i64], &[i64]) = (y(), file.read(c));
                for (i, to) in to().iter_mut().enumerate() {
                    *to = if condition[i] != 0.0 { yes[i] } else { no[i] };
                }
            }
            PointOp::ToF32 => map(x(), file.write::<f32>(instruction.to), |v| v as f32),
            PointOp::U64ToF32 => {
                map(x(), file.write::<f32>(instruction.to), |v| v as u64 as f32);
            }
            PointOp::ToBool => {
                map(x(), file.write::<f32>(instruction.to), |v| truth(v != 0));
            }
            PointOp::Wrap { bits, signed } => map(x(), to(), |v| wrap(v, bits, signed)),
            PointOp::Saturate { bits, signed } => {
                let (least, greatest) = match signed {
                    true => (-1 << (bits - 1), (1 << (bits - 1)) - 1),
                    false => (0, (1 << bits) - 1),
                };
                map(x(), to(), |v| v.clamp(least, greatest));
            }
            // Identity, and what lowering never emits for integers.
            _ => to().copy_from_slice(x()),
        }
    }
    Ok(())
}

/// `to = f(a, b)`, until it has no result.
#[inline(always)]
fn try_zip2(
    a: &[i64],
    b: &[i64],
    to: &mut [i64],
    f: impl Fn(i64, i64) -> Option<i64>,
) -> Result<(), Zero> {
    for ((to, &a), &b) in to.iter_mut().zip(a).zip(b) {
        *to = f(a, b).ok_or(Zero)?;
    }
    Ok(())
}

/// Towards zero; the least number by -1 wraps to itself.
fn divided(a: i64, b: i64) -> Option<i64> {
    (b != 0).then(|| a.wrapping_div(b))
}

/// With the sign of `a`.
fn remainder(a: i64, b: i64) -> Option<i64> {
    (b != 0).then(|| a.wrapping_rem(b))
}

/// `base^exponent`, wrapping; fractions truncate to zero, and 0 has no negative power.
fn whole_power(base: i64, exponent: i64) -> Option<i64> {
    if exponent < 0 {
        return match base {
            0 => None,
            1 => Some(1),
            -1 if exponent % 2 == 0 => Some(1),
            -1 => Some(-1),
            _ => Some(0),
        };
    }
    let (mut result, mut square, mut left) = (1i64, base, exponent);
    while left > 0 {
        if left & 1 == 1 {
            result = result.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        left >>= 1;
    }
    Some(result)
}

/// `v` modulo 2^bits in the range of an integer of that width.
fn wrap(v: i64, bits: u8, signed: bool) -> i64 {
    let shift = 64 - u32::from(bits);
    if signed {
        v << shift >> shift
    } else {
        ((v as u64) << shift >> shift) as i64
    }
}

const _: () = assert!(MAX_RANK <= 8);

/// An element-wise program, a block of elements at a time.
pub(crate) struct Pointwise {
    step: PointwiseStep,
    prepared: PreparedPointwise,
}

impl Kernel<PointwiseStep> for Pointwise {
    fn prepare(problem: &Problem<'_, PointwiseStep>) -> Result<Self, QuantError> {
        Ok(Self {
            prepared: PreparedPointwise::new(problem.plan, problem.step),
            step: problem.step.clone(),
        })
    }
}

impl PreparedStep for Pointwise {
    fn run(&self, c: &Context<'_>) -> Result<(), StepError> {
        let done = self.prepared.run(&self.step, c);
        done.map_err(|zero| {
            let mut divisions = self.step.program.divisions.iter();
            let of_node = divisions.find(|d| usize::from(d.instruction) == zero.instruction);
            StepError::DividedByZero {
                node: of_node.map(|d| d.node.clone()),
                op: of_node.map_or("Div", |d| d.op).to_owned(),
            }
        })
    }

    fn workspace_size(&self, _: Cpu<'_>) -> WorkspaceSize {
        WorkspaceSize::scratch(PreparedPointwise::scratch_len(&self.step))
    }
}
