//! Functions of one byte, looked up.
//!
//! ```text
//! at load   table[b] = program(b) for all 256 bytes b, by the code that runs programs: the same bits
//! run       y[i] = table[x[i]]
//!
//!           bytes to bytes   AVX-512 VBMI: VPERMI2B over each half of the table, one chosen by the highest bit
//!                            NEON: TBL and TBX over 64 entries each
//!           any other        a load per element
//! ```
//!
//! In a network of integers this is every activation between two products (dequantise, function, quantise), and
//! every quantised value that is needed as floats.
//!
//! Deliberately absent: functions of two values, which `pointwise` computes.

use spark_quant::QuantError;

use super::program::{BLOCK, evaluate};
use crate::cpu::data_movement::copy::{Nest, strides};
use crate::cpu::prepared::{Context, Kernel, PreparedStep, Problem, StepError};
use crate::cpu::simd::Isa;
use crate::plan::{PointOp, PointwiseStep, Storage};

/// A program of one operand of bytes, as the values of all of them.
pub(crate) struct ByteTable {
    /// Without its program.
    step: PointwiseStep,
    nest: Nest,
    table: Table,
}

/// Results by byte.
enum Table {
    Bytes(Box<[u8; BLOCK]>),
    Floats(Box<[f32; BLOCK]>),
}

/// Every byte as a float, by its bits.
fn all_bytes(storage: Storage) -> [f32; BLOCK] {
    let mut values = [0.0; BLOCK];
    for (bits, value) in (0..=u8::MAX).zip(&mut values) {
        *value = match storage {
            Storage::I8 => f32::from(bits.cast_signed()),
            _ => f32::from(bits),
        };
    }
    values
}

impl Kernel<PointwiseStep> for ByteTable {
    fn can_implement(problem: &Problem<'_, PointwiseStep>) -> bool {
        let (step, plan) = (problem.step, problem.plan);
        let [x] = &step.inputs[..] else {
            return false;
        };
        let instructions = &step.program.instructions;
        let is_function = instructions
            .iter()
            .any(|i| !matches!(i.op, PointOp::Load(_)));
        plan.storage(x).is_byte()
            && plan.storage(&step.y) != Storage::I64
            && step.program.divisions.is_empty()
            && is_function
    }

    fn packing_bytes(_: &Problem<'_, PointwiseStep>) -> usize {
        BLOCK * size_of::<f32>()
    }

    fn prepare(problem: &Problem<'_, PointwiseStep>) -> Result<Self, QuantError> {
        let mut step = problem.step.clone();
        let program = std::mem::take(&mut step.program);
        let x = &step.inputs[0];
        let from = all_bytes(problem.plan.storage(x));
        let Some(values) = evaluate(&program, &from, problem.cpu.isa) else {
            unreachable!("a program without divisions is not stopped by a zero")
        };
        let table = match problem.plan.storage(&step.y) {
            Storage::F32 => Table::Floats(Box::new(values)),
            _ => Table::Bytes(Box::new(values.map(|v| v as i32 as u8))),
        };
        let nest = Nest::new(&step.y.shape(), &strides(x), &strides(&step.y));
        Ok(Self { step, nest, table })
    }
}

impl PreparedStep for ByteTable {
    fn run(&self, c: &Context<'_>) -> Result<(), StepError> {
        let x = c.memory.bytes(&self.step.inputs[0]).cast_const();
        let y = &self.step.y;
        // SAFETY: views were checked at load; the result is dense, or the operand's very view: then an element is
        // read before it is written.
        unsafe {
            match &self.table {
                Table::Floats(table) => {
                    let look_up = |b: u8| table[usize::from(b)];
                    self.nest.copy_shared(x, c.memory.f32(y), look_up, c.pool);
                }
                Table::Bytes(table) => {
                    let look_up = |b: u8| table[usize::from(b)];
                    let to = c.memory.bytes(y);
                    match self.nest.has_runs() {
                        true => self.nest.runs_shared(
                            x,
                            to,
                            |from, to, n| look_up_run(c.isa, table, from, to, n),
                            c.pool,
                        ),
                        false => self.nest.copy_shared(x, to, look_up, c.pool),
                    }
                }
            }
        }
        Ok(())
    }

    fn operands(&self) -> &'static str {
        "bytes"
    }
}

/// `to[i] = table[from[i]]` for `n` bytes; `to` may be `from`.
///
/// # Safety
///
/// As many bytes must be readable and writable.
unsafe fn look_up_run(isa: Isa, table: &[u8; BLOCK], from: *const u8, to: *mut u8, n: usize) {
    #[cfg(target_arch = "x86_64")]
    if spark_simd::Avx512Bytes::of(isa).is_some() {
        // SAFETY: guaranteed by the caller; the token proves that the processor has the instructions.
        return unsafe { x86::look_up(table, from, to, n) };
    }
    #[cfg(target_arch = "aarch64")]
    if spark_simd::Neon::of(isa).is_some() {
        // SAFETY: as above.
        return unsafe { arm::look_up(table, from, to, n) };
    }
    let _ = isa;
    // SAFETY: guaranteed by the caller.
    unsafe { one_by_one(table, from, to, n) }
}

/// # Safety
///
/// As [`look_up_run`].
unsafe fn one_by_one(table: &[u8; BLOCK], from: *const u8, to: *mut u8, n: usize) {
    for i in 0..n {
        // SAFETY: guaranteed by the caller.
        unsafe { *to.add(i) = table[usize::from(*from.add(i))] }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::BLOCK;

    spark_simd::features! { compile Avx512Bytes
        /// # Safety
        ///
        /// As [`super::look_up_run`].
        pub(super) unsafe fn look_up(table: &[u8; BLOCK], from: *const u8, to: *mut u8, n: usize) {
            // SAFETY: the table has four vectors; loads and stores of a part touch the bytes of the mask alone.
            unsafe {
                let quarter = |at: usize| _mm512_loadu_si512(table.as_ptr().add(64 * at).cast());
                let [a, b, c, d] = [quarter(0), quarter(1), quarter(2), quarter(3)];
                let mut i = 0;
                while i < n {
                    let mask = match n - i {
                        64.. => u64::MAX,
                        rest => (1 << rest) - 1,
                    };
                    let x = _mm512_maskz_loadu_epi8(mask, from.add(i).cast());
                    let low = _mm512_permutex2var_epi8(a, x, b);
                    let high = _mm512_permutex2var_epi8(c, x, d);
                    let y = _mm512_mask_blend_epi8(_mm512_movepi8_mask(x), low, high);
                    _mm512_mask_storeu_epi8(to.add(i).cast(), mask, y);
                    i += 64;
                }
            }
        }
    }
}

#[cfg(target_arch = "aarch64")]
mod arm {
    use std::arch::aarch64::*;

    use super::BLOCK;

    spark_simd::features! { compile Neon
        /// # Safety
        ///
        /// As [`super::look_up_run`].
        pub(super) unsafe fn look_up(table: &[u8; BLOCK], from: *const u8, to: *mut u8, n: usize) {
            // SAFETY: the table has four times four vectors; whole vectors of the run are loaded and stored, the
            // rest one by one.
            unsafe {
                let quarter = |at: usize| vld1q_u8_x4(table.as_ptr().add(64 * at));
                let [a, b, c, d] = [quarter(0), quarter(1), quarter(2), quarter(3)];
                let width = vdupq_n_u8(64);
                let mut i = 0;
                while i + 16 <= n {
                    let x = vld1q_u8(from.add(i));
                    // An index beyond 63 gives 0, or leaves what is there.
                    let mut y = vqtbl4q_u8(a, x);
                    let x = vsubq_u8(x, width);
                    y = vqtbx4q_u8(y, b, x);
                    let x = vsubq_u8(x, width);
                    y = vqtbx4q_u8(y, c, x);
                    let x = vsubq_u8(x, width);
                    y = vqtbx4q_u8(y, d, x);
                    vst1q_u8(to.add(i), y);
                    i += 16;
                }
                super::one_by_one(table, from.add(i), to.add(i), n - i);
            }
        }
    }
}
