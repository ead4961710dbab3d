//! Operators of an embedder's own, which see tensors in the model's types, row-major.
//!
//! ```text
//! operand of f32 or i64, row-major in the arena     lent where it lies
//!            else                                   converted into the workspace, and lent from there
//! result     of f32 or i64                          set to zero, lent where it lies
//!            else                                   zeros in the workspace, lent, converted into the arena
//! ```
//!
//! What is lent are slices with the types and shapes that inference found. Operands are lent to be read, results to be
//! written, and no result lies where anything else that is lent does, which is checked before every run.
//!
//! Deliberately absent: catching panics. One passes through the run that it happens in, which lends nothing further.
#![allow(
    unsafe_code,
    reason = "slices are made of the arena and the workspace, whose views were checked at load"
)]

use half::{bf16, f16};
use spark_quant::QuantError;

use super::data_movement::copy::{Nest, strides};
use super::prepared::{Context, Cpu, Kernel, PreparedStep, Problem, StepError};
use super::workspace::WorkspaceSize;
use crate::DType;
use crate::graph::Custom;
use crate::plan::ports::{Declared, Held};
use crate::plan::{CustomStep, Storage, TypedView, View};
use crate::tensor::ElementsMut;
use crate::tensor_view::{Elements, TensorView, TensorViewMut};

/// Every tensor of the workspace starts at a multiple of this many bytes, a cache line.
const ALIGNMENT: usize = 64;

/// Operands, and results, for which nothing is taken while running.
const FEW: usize = 16;

/// What computes a [`CustomStep`].
pub(crate) struct CustomKernel {
    op: Custom,
    operands: Vec<Option<Lent>>,
    results: Vec<Option<Lent>>,
    /// Bytes of the workspace.
    workspace_bytes: usize,
}

/// A tensor that is lent.
struct Lent {
    view: View,
    shape: Vec<usize>,
    dtype: DType,
    len: usize,
    /// Where it is in the workspace, in bytes, and how it gets there or from there; else it is lent where it lies.
    converted: Option<(usize, Nest)>,
}

impl Kernel<CustomStep> for CustomKernel {
    fn prepare(problem: &Problem<'_, CustomStep>) -> Result<Self, QuantError> {
        let step = problem.step;
        let mut end = 0usize;
        let mut lent = |of: &TypedView, is_result: bool| {
            let shape = of.view.shape();
            let len = of.view.len();
            let is_own_type = matches!(of.dtype, DType::F32 | DType::I64);
            let is_lent = is_own_type && of.view.is_row_major();
            assert!(
                !is_result || of.view.is_row_major(),
                "results are row-major"
            );
            let converted = (!is_lent).then(|| {
                let start = end;
                let bytes = len.saturating_mul(of.dtype.size_bytes());
                end =
                    end.saturating_add(bytes).saturating_add(ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
                let dense = strides(&View::dense(
                    of.view.buffer,
                    &shape,
                    &(0..shape.len()).collect::<Vec<_>>(),
                ));
                let held = strides(&of.view);
                let nest = match is_result {
                    true => Nest::new(&shape, &dense, &held),
                    false => Nest::new(&shape, &held, &dense),
                };
                (start, nest)
            });
            Lent {
                view: of.view.clone(),
                shape,
                dtype: of.dtype,
                len,
                converted,
            }
        };
        let operands = step.operands.iter();
        let operands = operands
            .map(|of| of.as_ref().map(|of| lent(of, false)))
            .collect();
        let results = step.results.iter();
        let results = results
            .map(|of| of.as_ref().map(|of| lent(of, true)))
            .collect();
        Ok(Self {
            op: step.op.clone(),
            operands,
            results,
            workspace_bytes: end,
        })
    }
}

/// Runs `$body` with `$t` as the type of elements of `$dtype`.
macro_rules! for_type {
    ($dtype:expr, $t:ident => $body:expr) => {
        for_type!(@each $dtype, $t, $body; F32: f32, F64: f64, F16: f16, BF16: bf16, I8: i8, I16: i16, I32: i32, I64: i64,
            U8: u8, U16: u16, U32: u32, U64: u64, Bool: bool)
    };
    (@each $dtype:expr, $t:ident, $body:expr; $($variant:ident: $own:ty),*) => {
        match $dtype {
            $(DType::$variant => {
                type $t = $own;
                $body
            })*
        }
    };
}

impl Lent {
    /// Where the elements are that are lent.
    fn start(&self, c: &Context<'_>) -> *mut u8 {
        match (&self.converted, c.memory.storage(&self.view)) {
            (Some((offset, _)), _) => c.scratch.shared.cast::<u8>().wrapping_add(*offset),
            (None, Storage::I64) => c.memory.i64(&self.view).cast(),
            (None, _) => c.memory.f32(&self.view).cast(),
        }
    }

    /// Converts an operand into the workspace, where it is not lent as it lies.
    fn bring(&self, c: &Context<'_>) {
        let Some((_, nest)) = &self.converted else {
            return;
        };
        let (memory, start) = (c.memory, self.start(c));
        if self.len == 0 {
            return;
        }
        for_type!(self.dtype, T => {
            let to = start.cast::<T>();
            // SAFETY: the view was checked at load; the workspace has room for as many elements of the type, at a
            // multiple of `ALIGNMENT`, which nothing else of the step uses.
            unsafe {
                match memory.storage(&self.view) {
                    Storage::I64 => {
                        let from = memory.i64(&self.view).cast_const();
                        nest.copy_shared(from, to, <T as Declared>::of_i64, c.pool);
                    }
                    _ => {
                        let from = memory.f32(&self.view).cast_const();
                        nest.copy_shared(from, to, <T as Declared>::of_f32, c.pool);
                    }
                }
            }
        });
    }

    /// Converts a result out of the workspace, where it was not lent as it lies.
    fn take_back(&self, c: &Context<'_>) {
        let Some((_, nest)) = &self.converted else {
            return;
        };
        let (memory, start) = (c.memory, self.start(c));
        if self.len == 0 {
            return;
        }
        for_type!(self.dtype, T => {
            let from = start.cast_const().cast::<T>();
            // SAFETY: as in `bring`, the other way; the elements were written by `zeroed` at least.
            unsafe {
                match memory.storage(&self.view) {
                    Storage::I64 => nest.copy_shared(from, memory.i64(&self.view), <T as Held>::i64, c.pool),
                    _ => nest.copy_shared(from, memory.f32(&self.view), <T as Held>::f32, c.pool),
                }
            }
        });
    }

    /// The elements, to be read.
    ///
    /// # Safety
    ///
    /// They must have been written, as elements of the type, and nothing may write them for as long as they are lent.
    unsafe fn elements<'l>(&self, start: *mut u8) -> Elements<'l> {
        for_type!(self.dtype, T => match self.len {
            0 => Elements::from(&[] as &'l [T]),
            // SAFETY: `len` elements of the type from there, aligned for any: the view was checked at load and is dense, or
            // the workspace has room for them; the caller says the rest.
            len => Elements::from(unsafe { std::slice::from_raw_parts(start.cast_const().cast::<T>(), len) }),
        })
    }

    /// The elements, all set to zero, to be written.
    ///
    /// # Safety
    ///
    /// Nothing else may read or write them for as long as they are lent.
    unsafe fn zeroed<'l>(&self, start: *mut u8) -> ElementsMut<'l> {
        for_type!(self.dtype, T => match self.len {
            0 => ElementsMut::from(&mut [] as &'l mut [T]),
            // SAFETY: as in `elements`; zero bytes are zero in every type, and false. They are written before a slice is
            // made: memory of an output that is new was never written.
            len => ElementsMut::from(unsafe {
                std::ptr::write_bytes(start.cast::<T>(), 0, len);
                std::slice::from_raw_parts_mut(start.cast::<T>(), len)
            }),
        })
    }

    /// The addresses that are lent.
    fn bytes(&self, c: &Context<'_>) -> std::ops::Range<usize> {
        let start = self.start(c) as usize;
        start..start + self.len * self.dtype.size_bytes()
    }
}

impl CustomKernel {
    /// Panics where a result lies in what else is lent: a defect of the plan, which would give two borrowers one element.
    fn check_apart(&self, c: &Context<'_>) {
        let results = || self.results.iter().flatten();
        for (index, result) in results().enumerate() {
            let own = result.bytes(c);
            let before = results().take(index);
            for other in self.operands.iter().flatten().chain(before) {
                let other = other.bytes(c);
                let is_apart = own.end <= other.start || other.end <= own.start;
                assert!(
                    is_apart || own.is_empty() || other.is_empty(),
                    "a result of its own memory"
                );
            }
        }
    }
}

/// As many places as are needed, of a few on the stack or of a vector.
fn places<'p, T>(
    few: &'p mut [Option<T>; FEW],
    many: &'p mut Vec<Option<T>>,
    n: usize,
) -> &'p mut [Option<T>] {
    if n <= FEW {
        return &mut few[..n];
    }
    many.resize_with(n, || None);
    many
}

impl PreparedStep for CustomKernel {
    fn run(&self, c: &Context<'_>) -> Result<(), StepError> {
        self.check_apart(c);
        for operand in self.operands.iter().flatten() {
            operand.bring(c);
        }
        let (mut few, mut many) = ([None; FEW], Vec::new());
        let operands = places(&mut few, &mut many, self.operands.len());
        for (place, of) in operands.iter_mut().zip(&self.operands) {
            *place = of.as_ref().map(|of| {
                // SAFETY: what was in the arena has been written, as steps and ports do, or was zero from the start; what is
                // in the workspace `bring` has. Until the operator returns only it runs, and what it may write are
                // the results, which lie elsewhere (`check_apart`).
                let elements = unsafe { of.elements(of.start(c)) };
                match TensorView::new(elements, &of.shape) {
                    Ok(view) => view,
                    Err(_) => unreachable!("as many elements as the shape has"),
                }
            });
        }
        let (mut few, mut many) = ([const { None }; FEW], Vec::new());
        let results = places(&mut few, &mut many, self.results.len());
        for (place, of) in results.iter_mut().zip(&self.results) {
            *place = of.as_ref().map(|of| {
                // SAFETY: each result lies apart from all else that is lent (`check_apart`), and nothing else runs.
                let elements = unsafe { of.zeroed(of.start(c)) };
                match TensorViewMut::new(elements, &of.shape) {
                    Ok(view) => view,
                    Err(_) => unreachable!("as many elements as the shape has"),
                }
            });
        }
        let done = self.op.operator().run(operands, results);
        done.map_err(StepError::Custom)?;
        for (index, of) in self.results.iter().enumerate() {
            let Some(of) = of else { continue };
            // SAFETY: nobody writes what was lent any more.
            if let Elements::F64(values) = unsafe { of.elements(of.start(c)) }
                && let Some(value) = values
                    .iter()
                    .find(|v| v.is_finite() && (**v as f32).is_infinite())
            {
                let what = format!(
                    "result {index} holds {value:e}; f64 values are held in f32, which ends at 3.4e38"
                );
                return Err(StepError::Custom(what.into()));
            }
            of.take_back(c);
        }
        Ok(())
    }

    fn operands(&self) -> &'static str {
        "any"
    }

    fn workspace_size(&self, _: Cpu<'_>) -> WorkspaceSize {
        WorkspaceSize {
            scratch: 0,
            shared: self.workspace_bytes.div_ceil(size_of::<f32>()),
        }
    }
}

#[cfg(test)]
mod tests;
