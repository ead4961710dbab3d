//! The instructions of element-wise programs, on one block of elements.
//!
//! ```text
//! register     up to 256 elements, all f32 or all i64, somewhere in memory
//! execute      registers[to] = op(registers[args])
//! ```
//!
//! Where a register is, scratch, an operand or the result, whoever runs the program says.

use spark_simd::math::positive;

use super::round_float::round_float;
use crate::cpu::math;
use crate::cpu::simd::{Isa, Simd, dispatch};
use crate::graph::Unary;
use crate::plan::{Instruction, PointOp, Program, RegisterKind};

/// Elements of one block.
pub(super) const BLOCK: usize = 256;
/// f32 elements of a register, which is as wide as i64, so that both kinds fit.
pub(super) const WIDTH: usize = 2 * BLOCK;
/// f32 elements that a pointer takes.
const PLACE: usize = size_of::<*mut f32>().div_ceil(size_of::<f32>());

/// f32 elements of scratch that the registers of `program` take.
pub(super) fn scratch_len(program: &Program) -> usize {
    program.n_registers * (WIDTH + PLACE)
}

/// An integer was divided by zero, or zero raised to a negative power.
pub(super) struct Zero;

/// What `program` makes of a block of elements that every one of its loads gives; nothing if a zero stops it.
/// Its result must be f32.
pub(super) fn evaluate(program: &Program, from: &[f32; BLOCK], isa: Isa) -> Option<[f32; BLOCK]> {
    // Pointers, so that both are aligned.
    let mut scratch = vec![std::ptr::null_mut::<f32>(); scratch_len(program)];
    let places = scratch.as_mut_ptr();
    let registers = Registers {
        // SAFETY: the pointers take fewer elements than there are.
        scratch: unsafe { places.add(program.n_registers).cast() },
        places,
        len: BLOCK,
    };
    for &instruction in &program.instructions {
        // SAFETY: numbers of registers are below `n_registers`, and the memory behind the pointers holds as many
        // registers; a compiled program writes no register that it reads.
        unsafe {
            registers.place(instruction.to, registers.home(instruction.to));
            match (instruction.op, instruction.kind) {
                (PointOp::Load(_), _) => registers.write(instruction.to).copy_from_slice(from),
                (_, RegisterKind::I64) => execute_i64(instruction, registers).ok()?,
                (_, RegisterKind::F32) => dispatch!(
                    isa,
                    execute_f32(instruction: Instruction, registers: Registers, isa: Isa)
                        => (instruction, registers, isa)
                ),
            }
        }
    }
    let mut to = [0.0; BLOCK];
    // SAFETY: the program has written its result.
    to.copy_from_slice(unsafe { registers.read(program.result) });
    Some(to)
}

/// The registers of one task, of which `len` elements are in use.
#[derive(Clone, Copy)]
pub(super) struct Registers {
    /// Room of [`WIDTH`] for every register.
    pub(super) scratch: *mut f32,
    /// Where every register is at the moment: in its room, or in an operand or the result.
    pub(super) places: *mut *mut f32,
    pub(super) len: usize,
}

impl Registers {
    /// The room of a register in scratch.
    ///
    /// # Safety
    ///
    /// The register must exist.
    pub(super) unsafe fn home(&self, register: u16) -> *mut f32 {
        // SAFETY: guaranteed by the caller.
        unsafe { self.scratch.add(register as usize * WIDTH) }
    }

    /// # Safety
    ///
    /// The register must exist, and `place` hold `len` elements of what is read or written there.
    pub(super) unsafe fn place(&self, register: u16, place: *mut f32) {
        // SAFETY: guaranteed by the caller.
        unsafe { *self.places.add(register as usize) = place }
    }

    /// # Safety
    ///
    /// The register must exist, hold `len` elements of `T`, and not be written meanwhile.
    #[inline(always)]
    pub(super) unsafe fn read<T>(&self, register: u16) -> &[T] {
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
    pub(super) unsafe fn write<T>(&self, register: u16) -> &mut [T] {
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

/// As [`math::row_function`] has it of `Relu`.
///
/// # Safety
///
/// The processor must have the instruction set.
#[inline(always)]
unsafe fn positive_of<S: Simd>(from: &[f32], to: &mut [f32]) {
    let len = from.len().min(to.len());
    let whole = len / S::LANES * S::LANES;
    let (from, to) = (from.as_ptr(), to.as_mut_ptr());
    // SAFETY: both have `len` elements; the instruction set is guaranteed by the caller.
    unsafe {
        for i in (0..whole).step_by(S::LANES) {
            S::store(to.add(i), positive::<S>(S::load(from.add(i))));
        }
        if len > whole {
            let v = S::load_first(from.add(whole), len - whole);
            S::store_first(to.add(whole), positive::<S>(v), len - whole);
        }
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
pub(super) unsafe fn execute_f32<S: Simd>(instruction: Instruction, file: Registers, isa: Isa) {
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
            // What takes less than a pass over the block: without the copy that others are applied to.
            PointOp::Unary(Unary::Relu) => positive_of::<S>(x(), to),
            PointOp::Unary(Unary::Neg) => map(x(), to, |v| -v),
            PointOp::Unary(Unary::Abs) => map(x(), to, f32::abs),
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
                for (((to, &x), &yes), &no) in to.iter_mut().zip(x).zip(yes).zip(no) {
                    *to = if x != 0.0 { yes } else { no };
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

/// `a^b`; the common exponents 2, 0.5 and 1 without a library call, whatever stands beside them.
fn power(a: &[f32], b: &[f32], to: &mut [f32]) {
    let Some(&first) = b.first() else {
        return;
    };
    let same = b.iter().all(|&x| x == first);
    match first {
        2.0 if same => map(a, to, |v| v * v),
        0.5 if same => map(a, to, root),
        1.0 if same => to.copy_from_slice(a),
        _ => zip2(a, b, to, |a, b| match b {
            2.0 => a * a,
            0.5 => root(a),
            1.0 => a,
            _ => a.powf(b),
        }),
    }
}

/// `v^0.5`, which is not the root of -0 and of minus infinity.
fn root(v: f32) -> f32 {
    match v {
        0.0 => 0.0,
        f32::NEG_INFINITY => f32::INFINITY,
        _ => v.sqrt(),
    }
}

/// # Safety
///
/// As [`execute_f32`].
pub(super) unsafe fn execute_i64(instruction: Instruction, file: Registers) -> Result<(), Zero> {
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
