//! What the interpreter knows of an operator: how to compute it, and what that takes at most.
//!
//! ```text
//! every operand    16 bytes an element as a wide number (8 as f64), 8 for where it goes
//! every result     16 as a wide number, 16 for where it comes from, and itself
//! and              the lists that some operators make of elements, terms and windows
//! ```
//!
//! The interpreter is plain before it is thrifty; the bound on its memory is what keeps a small
//! file from taking all memory through it. Its tests measure it.
//!
//! Deliberately absent: the operators, which are in the files beside this one by family.

use crate::ModelError;
use crate::graph::{OpError, Operand, TensorType};
use crate::tensor::{Tensor, TensorData};

/// Results in the order of the types they were asked for by.
pub(super) type Evaluated = Result<Vec<Tensor>, OpError>;

/// An operator that can be computed. Every parameter struct of an operator is one.
pub(super) trait Evaluate {
    /// The results, of the types given, which inference has made of the operands.
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated;

    /// Bytes that this takes at most, results included: a sum of the parts that [`Working`] has.
    fn working_bytes(&self, working: &Working<'_>) -> usize;

    /// How many elements or products go into one element of a result, about.
    fn reads_per_result(&self, _: &Working<'_>) -> usize {
        1
    }
}

/// The operands of one evaluation; their number and types have been checked.
#[derive(Clone, Copy)]
pub(super) struct Inputs<'a>(pub(super) &'a [Option<&'a Tensor>]);

impl<'a> Inputs<'a> {
    pub(super) fn optional(&self, index: usize) -> Option<&'a Tensor> {
        self.0.get(index).copied().flatten()
    }

    pub(super) fn get(&self, index: usize) -> Result<&'a Tensor, OpError> {
        self.optional(index).ok_or_else(|| OpError {
            reason: format!("operand {index} is missing"),
        })
    }

    /// An optional operand as inference wants it.
    pub(super) fn operand(&self, index: usize) -> Option<Operand<'a>> {
        self.optional(index).map(Operand::constant)
    }
}

/// The result of an operator that has one.
pub(super) fn one(
    types: &[TensorType],
    compute: impl FnOnce(&TensorType) -> Result<Tensor, OpError>,
) -> Evaluated {
    let [ty] = types else {
        return Err(OpError {
            reason: format!("makes one result, {} wanted", types.len()),
        });
    };
    let result = compute(ty)?;
    debug_assert_eq!((result.dtype(), result.shape()), (ty.dtype, &ty.shape[..]));
    Ok(vec![result])
}

/// A tensor of the inferred shape.
pub(super) fn make(ty: &TensorType, data: TensorData) -> Result<Tensor, OpError> {
    Tensor::new(ty.shape.clone(), data).map_err(|error: ModelError| OpError {
        reason: error.to_string(),
    })
}

/// Names, shapes, strides and the like.
pub(super) const SMALL: usize = 64 << 10;

/// `n` lists or elements of `bytes` each. A list that grows takes up to three times its length
/// while it is copied.
pub(super) fn times(n: usize, bytes: usize) -> usize {
    n.saturating_mul(bytes)
}

/// What the bound on the memory of one evaluation follows from.
pub(super) struct Working<'a> {
    inputs: &'a [Option<&'a Tensor>],
    types: &'a [TensorType],
}

impl<'a> Working<'a> {
    pub(super) fn new(inputs: &'a [Option<&'a Tensor>], types: &'a [TensorType]) -> Self {
        Self { inputs, types }
    }

    fn given(&self) -> impl Iterator<Item = &'a Tensor> {
        self.inputs.iter().copied().flatten()
    }

    /// Shapes of the operands that are there.
    pub(super) fn shapes(&self) -> Vec<&'a [usize]> {
        self.given().map(Tensor::shape).collect()
    }

    /// Elements of all operands.
    pub(super) fn read(&self) -> usize {
        self.given().map(Tensor::len).fold(0, usize::saturating_add)
    }

    /// Elements of all results.
    pub(super) fn written(&self) -> usize {
        let elements = self.types.iter().map(elements);
        elements.fold(0, usize::saturating_add)
    }

    /// Extents of all axes of the results, added up.
    pub(super) fn extents_written(&self) -> usize {
        let extents = self.types.iter().flat_map(|ty| ty.shape.iter().copied());
        extents.fold(0, usize::saturating_add)
    }

    /// Elements of the smaller of two factors; every result may read all of them.
    pub(super) fn smaller_factor(&self) -> usize {
        self.given().map(Tensor::len).take(2).min().unwrap_or(1)
    }

    fn of_results(&self, beside: usize) -> usize {
        let bytes = self.types.iter().map(|ty| {
            let each = beside + ty.dtype.size_bytes();
            elements(ty).saturating_mul(each)
        });
        bytes.fold(SMALL, usize::saturating_add)
    }

    fn of_operands(&self, each: fn(&Tensor) -> usize) -> usize {
        let bytes = self.given().map(|t| t.len().saturating_mul(each(t)));
        bytes.fold(0, usize::saturating_add)
    }

    /// Of an operator that copies the elements as they lie.
    pub(super) fn reshaped(&self) -> usize {
        self.of_results(0)
    }

    /// Of an operator that changes the element type alone.
    pub(super) fn cast(&self) -> usize {
        let wide = |t: &Tensor| if t.dtype().is_float() { 8 } else { 16 };
        self.of_results(0).saturating_add(self.of_operands(wide))
    }

    /// Of an operator whose elements go from place to place; only lists of whole numbers are read.
    pub(super) fn moved(&self) -> usize {
        let listed = |t: &Tensor| if t.dtype().is_float() { 0 } else { 32 };
        self.of_results(32).saturating_add(self.of_operands(listed))
    }

    /// Of an operator that reads its operands as wide numbers.
    pub(super) fn computed(&self) -> usize {
        self.of_results(32).saturating_add(self.of_operands(|_| 24))
    }

    /// [`Self::computed`] with lists of this many bytes.
    pub(super) fn computed_with(&self, lists: usize) -> usize {
        self.computed().saturating_add(lists)
    }
}

fn elements(ty: &TensorType) -> usize {
    ty.shape.iter().fold(1, |n: usize, &d| n.saturating_mul(d))
}

#[cfg(test)]
mod tests;
