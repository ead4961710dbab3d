//! Element-wise programs, a block of elements at a time.
//!
//! ```text
//! collapse axes all operands step through alike
//! for block of at most 256 elements (4,096 of a program that needs no scratch), part of a row along the innermost axis or several whole ones:
//!     for instruction in program, once for all blocks if it is a constant: registers[to] = op(registers[args])    all in the L1 cache
//!
//!              a load of f32 or i64     the last instruction          any other
//!              that lie densely
//! register     the operand itself       the result itself, if it      scratch
//!                                       is dense, of f32 or i64, in
//!                                       no operand's buffer
//! ```
//!
//! An operand is loaded by its stride: unit, zero (one value repeated) or
//! any (gathered); a row that repeats, such as the scales of channels, is loaded once for a block. A result may be the very view of an operand: then a block is computed in
//! scratch before it is stored.

use std::sync::atomic::{AtomicUsize, Ordering};

use half::bf16;
use spark_quant::QuantError;

use super::pair::Pair;
use super::program::{BLOCK, Registers, WIDTH, Zero, execute_f32, execute_i64, scratch_len};
use crate::cpu::bf16_runs::{narrow as narrow_run, widen as widen_run};
use crate::cpu::memory::Memory;
use crate::cpu::prepared::{Context, Cpu, Kernel, PreparedStep, Problem, StepError};
use crate::cpu::simd::{Isa, Simd, dispatch};
use crate::cpu::workspace::WorkspaceSize;
use crate::plan::{
    Instruction, MAX_RANK, Plan, PointOp, PointwiseStep, Program, RegisterKind, Storage, View,
};

/// Elements of a block of a program that needs no scratch: beginning a block takes as long as a hundred elements.
const STREAM: usize = 16 * BLOCK;

/// Elements below which a second thread is not profitable.
const MIN_PER_TASK: usize = 16 * 1024;

/// Loop nest of one step: extents outermost first, two at least, and every operand's strides in it; the
/// result is operand 0.
pub(crate) struct PreparedPointwise {
    extents: Vec<usize>,
    /// Elements that a block has at most.
    block: usize,
    /// Whole rows, along the innermost axis, that a block has at most; 1 where a row has several blocks.
    rows_per_block: usize,
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
        let (extents, strides) = collapsed(step);
        let views = std::iter::once(&step.y).chain(&step.inputs);
        let storages: Vec<Storage> = views.map(|v| plan.storage(v)).collect();
        let pair = Pair::new(plan, step, &extents, &strides);
        let (extents, strides) = with_rows(extents, strides);
        let [.., inner] = extents[..] else {
            unreachable!("two axes at least");
        };
        let is_dense = |strides: &[isize]| strides.ends_with(&[inner as isize, 1]);
        let dense = strides[0].last() == Some(&1);
        let direct = dense
            && matches!(storages[0], Storage::F32 | Storage::I64)
            && step.inputs.iter().all(|x| x.buffer != step.y.buffer);
        // Loads of one row that lies as the result does, and one operation from them into it.
        let instructions = &step.program.instructions;
        let is_load = |op: PointOp| matches!(op, PointOp::Load(_));
        let is_stream = direct
            && extents[..extents.len() - 1]
                .iter()
                .all(|&extent| extent == 1)
            && strides.iter().all(|strides| strides.last() == Some(&1))
            && storages
                .iter()
                .all(|storage| matches!(storage, Storage::F32 | Storage::I64))
            && instructions.iter().filter(|i| !is_load(i.op)).count() == 1
            && instructions.last().is_some_and(|last| !is_load(last.op));
        let block = if is_stream { STREAM } else { BLOCK };
        let rows_per_block = match is_dense(&strides[0]) {
            true => (block / inner.max(1)).max(1),
            false => 1,
        };
        Self {
            extents,
            block,
            rows_per_block,
            strides,
            storages,
            direct,
            pair,
        }
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
        // The first instruction of the program that met a zero in any block.
        let stopped = AtomicUsize::new(usize::MAX);
        let [.., rows, inner] = self.extents[..] else {
            return Ok(());
        };
        let blocks_per_row = inner.div_ceil(self.block);
        let groups = rows.div_ceil(self.rows_per_block);
        let blocks = total / (rows * inner) * groups * blocks_per_row;
        let tasks = (total / MIN_PER_TASK).clamp(1, c.pool.threads());
        c.pool.run(tasks, |task| {
            let (first, last) = (blocks * task / tasks, blocks * (task + 1) / tasks);
            let scratch = c.scratch.part(task);
            let registers = Registers {
                scratch,
                // SAFETY: `scratch_len` counts a pointer for every register behind them all.
                places: unsafe { scratch.add(step.program.n_registers * WIDTH).cast() },
                len: BLOCK,
            };
            // SAFETY: registers as long as a block, which no other instruction writes.
            unsafe { fill_constants(&step.program, registers, c.isa) };
            for block in first..last {
                let (group, part) = (block / blocks_per_row, block % blocks_per_row);
                let (outer, start) = (group / groups, part * self.block);
                let row = group % groups * self.rows_per_block;
                let tile = Tile {
                    at: [outer, row, start],
                    rows: self.rows_per_block.min(rows - row),
                    width: self.block.min(inner - start),
                };
                // SAFETY: positions are within the extents, views were checked at load, tasks store
                // disjoint blocks, and each has its own registers.
                let done = unsafe {
                    let len = tile.rows * tile.width;
                    self.block(step, c, Registers { len, ..registers }, tile)
                };
                // Another block may fail in a node before that.
                if let Err(DividedByZero { instruction }) = done {
                    stopped.fetch_min(instruction, Ordering::Relaxed);
                }
            }
        });
        match stopped.into_inner() {
            usize::MAX => Ok(()),
            instruction => Err(DividedByZero { instruction }),
        }
    }

    /// Elements from the start of operand `operand` to the first of a tile.
    fn offset(&self, operand: usize, [outer, row, start]: [usize; 3]) -> isize {
        let strides = &self.strides[operand];
        let last = strides.len() - 1;
        let mut offset = start as isize * strides[last] + row as isize * strides[last - 1];
        let mut rest = outer;
        for axis in (0..last - 1).rev() {
            offset += (rest % self.extents[axis]) as isize * strides[axis];
            rest /= self.extents[axis];
        }
        offset
    }

    /// Computes the elements of a tile, as many as `registers` hold.
    ///
    /// # Safety
    ///
    /// They must be within the extents and `registers` large enough.
    unsafe fn block(
        &self,
        step: &PointwiseStep,
        &Context { isa, memory, .. }: &Context<'_>,
        registers: Registers,
        tile: Tile,
    ) -> Result<(), DividedByZero> {
        let inner = self.extents.len() - 1;
        let offset = self.offset(0, tile.at);
        let (result, stride) = (step.program.result, self.strides[0][inner]);
        let last = step.program.instructions.len().wrapping_sub(1);
        // SAFETY: register numbers are below `n_registers`; operands and result lie inside their
        // views for `len` elements from the position on. A register is scratch, an operand that
        // nothing writes, or the result that only the last instruction writes: no operand of it is
        // in the result's buffer. Where a block is longer than scratch (`STREAM`), every load is of a dense operand in f32 or i64, which
        // is read where it is, and the one other instruction writes the result.
        unsafe {
            let y = start_of(memory, &step.y, offset);
            let instructions = step.program.instructions.iter().enumerate();
            for (position, &instruction) in instructions.skip(step.program.n_constants) {
                let direct = self.direct && position == last;
                let home = registers.home(instruction.to);
                registers.place(instruction.to, if direct { y } else { home });
                let is_load = matches!(instruction.op, PointOp::Load(_));
                debug_assert!(
                    direct || is_load || registers.len <= BLOCK,
                    "no scratch is as long"
                );
                if let PointOp::Load(input) = instruction.op {
                    let operand = input as usize + 1;
                    let offset = self.offset(operand, tile.at);
                    let [.., between, stride] = self.strides[operand][..] else {
                        return Ok(());
                    };
                    let view = &step.inputs[input as usize];
                    let is_dense =
                        stride == 1 && (tile.rows == 1 || between == tile.width as isize);
                    let storage = self.storages[operand];
                    if is_dense && !direct && matches!(storage, Storage::F32 | Storage::I64) {
                        registers.place(instruction.to, start_of(memory, view, offset));
                        continue;
                    }
                    let to = instruction.to;
                    let from = |row: isize| start_of(memory, view, offset + row * between);
                    match storage {
                        Storage::I8 => load_rows(tile, between, registers.write(to), |row, to| {
                            load_bytes(isa, from(row).cast::<i8>(), stride, to);
                        }),
                        Storage::U8 => load_rows(tile, between, registers.write(to), |row, to| {
                            load_bytes(isa, from(row).cast::<u8>(), stride, to);
                        }),
                        Storage::Bf16 => {
                            load_rows(tile, between, registers.write(to), |row, to| {
                                load_bf16(isa, from(row).cast(), stride, to);
                            })
                        }
                        Storage::I64 => load_rows(tile, between, registers.write(to), |row, to| {
                            load(from(row).cast::<i64>(), stride, to);
                        }),
                        Storage::F32 => load_rows(tile, between, registers.write(to), |row, to| {
                            load(from(row), stride, to);
                        }),
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
                    store_bytes(isa, registers.read::<f32>(result), y.cast(), stride);
                }
                Storage::Bf16 => {
                    store_bf16(isa, registers.read::<f32>(result), y.cast(), stride);
                }
            }
        }
        Ok(())
    }
}

/// Fills the registers of constants, which every block reads.
///
/// # Safety
///
/// Numbers of registers are below `n_registers`, and `registers` has room for as many.
unsafe fn fill_constants(program: &Program, registers: Registers, isa: Isa) {
    for &instruction in &program.instructions[..program.n_constants] {
        // SAFETY: guaranteed by the caller; a constant has no operands.
        unsafe {
            registers.place(instruction.to, registers.home(instruction.to));
            match instruction.kind {
                RegisterKind::I64 => {
                    let done = execute_i64(instruction, registers);
                    debug_assert!(done.is_ok(), "nothing is divided");
                }
                RegisterKind::F32 => dispatch!(
                    isa,
                    execute_f32(instruction: Instruction, registers: Registers, isa: Isa)
                        => (instruction, registers, isa)
                ),
            }
        }
    }
}

/// What one block computes: a part of one row, or several whole ones.
#[derive(Clone, Copy)]
struct Tile {
    /// Which of the positions along the axes outside of rows, the first row of those, its first element.
    at: [usize; 3],
    rows: usize,
    /// Elements of a row.
    width: usize,
}

/// Fills a register row by row; rows that lie no step apart are the same.
fn load_rows<T: Copy>(tile: Tile, between: isize, to: &mut [T], load: impl Fn(isize, &mut [T])) {
    let (first, rest) = to.split_at_mut(tile.width);
    load(0, first);
    for (row, to) in rest.chunks_exact_mut(tile.width).enumerate() {
        match between {
            0 => to.copy_from_slice(first),
            _ => load(row as isize + 1, to),
        }
    }
}

/// The same loops with one of extent 1 in front, where there is only one.
fn with_rows(
    mut extents: Vec<usize>,
    mut strides: Vec<Vec<isize>>,
) -> (Vec<usize>, Vec<Vec<isize>>) {
    if let [inner] = extents[..] {
        extents.insert(0, 1);
        for (operand, strides) in strides.iter_mut().enumerate() {
            let between = if operand == 0 { inner as isize } else { 0 };
            strides.insert(0, between);
        }
    }
    (extents, strides)
}

/// The loops of `step`, outermost first, and every operand's strides in them, the result's first: axes that all
/// of them step through alike are one.
pub(super) fn collapsed(step: &PointwiseStep) -> (Vec<usize>, Vec<Vec<isize>>) {
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
    (extents, strides)
}

/// An integer was divided by zero, or zero raised to a negative power.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DividedByZero {
    /// The instruction of the program.
    pub(crate) instruction: usize,
}

/// The element `offset` elements from the first of `view`.
fn start_of(memory: &Memory, view: &View, offset: isize) -> *mut f32 {
    match memory.storage(view) {
        Storage::I64 => memory.i64(view).wrapping_offset(offset).cast(),
        Storage::F32 | Storage::Bf16 => {
            let format = memory.float_format(view);
            format.offset_mut(memory.floats(view), offset)
        }
        Storage::I8 | Storage::U8 => memory.bytes(view).wrapping_offset(offset).cast(),
    }
}

/// Bytes as floats.
unsafe fn load_bytes<T: Byte>(isa: Isa, from: *const T, stride: isize, to: &mut [f32]) {
    // SAFETY: the caller vouches for as many elements as `to` has, `stride` apart; `isa` names a set that this
    // processor has.
    unsafe {
        match stride {
            1 => T::widen(isa, std::slice::from_raw_parts(from, to.len()), to),
            0 => to.fill((*from).into()),
            _ => {
                for (i, to) in to.iter_mut().enumerate() {
                    *to = (*from.offset(i as isize * stride)).into();
                }
            }
        }
    }
}

/// An integer of 8 bits.
trait Byte: Copy + Into<f32> {
    /// Dense ones as floats.
    ///
    /// # Safety
    ///
    /// None: `isa` proves that the processor has its instructions.
    unsafe fn widen(isa: Isa, from: &[Self], to: &mut [f32]);
}

impl Byte for i8 {
    unsafe fn widen(isa: Isa, from: &[Self], to: &mut [f32]) {
        // SAFETY: `isa` names a set that this processor has.
        unsafe { dispatch!(isa, widen::<i8>(from: &[i8], to: &mut [f32]) => (from, to)) }
    }
}

impl Byte for u8 {
    unsafe fn widen(isa: Isa, from: &[Self], to: &mut [f32]) {
        // SAFETY: `isa` names a set that this processor has.
        unsafe { dispatch!(isa, widen::<u8>(from: &[u8], to: &mut [f32]) => (from, to)) }
    }
}

#[inline(always)]
#[allow(
    clippy::extra_unused_type_parameters,
    reason = "it says which instruction set the function is compiled for"
)]
unsafe fn widen<S: Simd, T: Copy + Into<f32>>(from: &[T], to: &mut [f32]) {
    for (to, &from) in to.iter_mut().zip(from) {
        *to = from.into();
    }
}

#[inline(always)]
#[allow(
    clippy::extra_unused_type_parameters,
    reason = "it says which instruction set the function is compiled for"
)]
unsafe fn narrow<S: Simd>(from: &[f32], to: &mut [u8]) {
    for (to, &from) in to.iter_mut().zip(from) {
        *to = from as i32 as u8;
    }
}

/// Whole floats as bytes; what is no number becomes 0.
unsafe fn store_bytes(isa: Isa, from: &[f32], to: *mut u8, stride: isize) {
    // SAFETY: the caller vouches for as many elements as `from` has, `stride` apart; `isa` names a set that this
    // processor has.
    unsafe {
        match stride {
            1 => {
                let to = std::slice::from_raw_parts_mut(to, from.len());
                dispatch!(isa, narrow(from: &[f32], to: &mut [u8]) => (from, to));
            }
            _ => {
                for (i, &from) in from.iter().enumerate() {
                    *to.offset(i as isize * stride) = from as i32 as u8;
                }
            }
        }
    }
}

/// bf16 as f32.
unsafe fn load_bf16(isa: Isa, from: *const bf16, stride: isize, to: &mut [f32]) {
    // SAFETY: the caller vouches for as many elements as `to` has, `stride` apart; `isa` names a set that this
    // processor has.
    unsafe {
        match stride {
            1 => widen_run(isa, std::slice::from_raw_parts(from, to.len()), to),
            0 => to.fill((*from).to_f32()),
            _ => {
                for (i, to) in to.iter_mut().enumerate() {
                    *to = (*from.offset(i as isize * stride)).to_f32();
                }
            }
        }
    }
}

/// The nearest bf16.
unsafe fn store_bf16(isa: Isa, from: &[f32], to: *mut bf16, stride: isize) {
    // SAFETY: the caller vouches for as many elements as `from` has, `stride` apart; `isa` names a set that this
    // processor has.
    unsafe {
        match stride {
            1 => narrow_run(isa, from, std::slice::from_raw_parts_mut(to, from.len())),
            _ => {
                for (i, &from) in from.iter().enumerate() {
                    *to.offset(i as isize * stride) = bf16::from_f32(from);
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

const _: () = assert!(MAX_RANK <= 8);

/// An element-wise program, a block of elements at a time.
pub(crate) struct Pointwise {
    step: PointwiseStep,
    prepared: PreparedPointwise,
}

impl Kernel<PointwiseStep> for Pointwise {
    fn never_bf16<'p>(_: &Problem<'p, PointwiseStep>) -> Vec<&'p View> {
        Vec::new()
    }

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
                op: of_node.map_or("Div", |d| &d.op).to_owned(),
            }
        })
    }

    fn workspace_size(&self, _: Cpu<'_>) -> WorkspaceSize {
        WorkspaceSize::scratch(scratch_len(&self.step.program))
    }
}
