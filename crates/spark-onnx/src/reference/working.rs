//! How many bytes evaluating an operator takes while it runs, results included: an upper bound.
//!
//! ```text
//! every operand    16 bytes an element as a wide number (8 as f64), 8 for where it goes
//! every result     16 as a wide number, 16 for where it comes from, and itself
//! and              the lists that some operators make of elements, terms and windows
//! ```
//!
//! The interpreter is plain before it is thrifty; the bound is what keeps a small file from taking
//! all memory through it. Its tests measure it.

use crate::graph::{
    CastLike, Einsum, Expand, MatMul, NonZero, Op, Slice, Squeeze, TensorType, Tile, Unsqueeze,
    parse_einsum,
};
use crate::tensor::Tensor;

/// Names, shapes, strides and the like.
const SMALL: usize = 64 << 10;

/// Bytes that evaluating `op` takes at most.
pub(crate) fn working_bytes(op: &Op, inputs: &[Option<&Tensor>], types: &[TensorType]) -> usize {
    let given = || inputs.iter().copied().flatten();
    let elements = |ty: &TensorType| ty.shape.iter().fold(1, |n: usize, &d| n.saturating_mul(d));
    let of_results = |beside: usize| {
        let bytes = types.iter().map(|ty| {
            let each = beside + ty.dtype.size_bytes();
            elements(ty).saturating_mul(each)
        });
        bytes.fold(SMALL, usize::saturating_add)
    };
    let of_operands = |each: fn(&Tensor) -> usize| {
        let bytes = given().map(|t| t.len().saturating_mul(each(t)));
        bytes.fold(0, usize::saturating_add)
    };
    match op {
        Op::Reshape(_) | Op::Flatten(_) | Op::Squeeze(Squeeze) | Op::Unsqueeze(Unsqueeze) => {
            of_results(0)
        }
        Op::Cast(_) | Op::CastLike(CastLike) => {
            let wide = |t: &Tensor| if t.dtype().is_float() { 8 } else { 16 };
            of_results(0).saturating_add(of_operands(wide))
        }
        // Elements go from place to place; only lists of whole numbers are read.
        Op::Transpose(_)
        | Op::Concat(_)
        | Op::Split(_)
        | Op::Slice(Slice)
        | Op::Expand(Expand)
        | Op::Tile(Tile)
        | Op::Pad(_)
        | Op::DepthToSpace(_)
        | Op::SpaceToDepth(_)
        | Op::ConstantOfShape(_) => {
            let listed = |t: &Tensor| if t.dtype().is_float() { 0 } else { 32 };
            of_results(32).saturating_add(of_operands(listed))
        }
        _ => {
            let read = given().map(Tensor::len).fold(0, usize::saturating_add);
            let written = types.iter().map(elements).fold(0, usize::saturating_add);
            of_results(32)
                .saturating_add(of_operands(|_| 24))
                .saturating_add(lists(op, inputs, types, (read, written)))
        }
    }
}

/// Bytes of what is particular to an operator. A list that grows takes up to three times its
/// length while it is copied.
fn lists(
    op: &Op,
    inputs: &[Option<&Tensor>],
    types: &[TensorType],
    (read, written): (usize, usize),
) -> usize {
    let times = |n: usize, bytes: usize| n.saturating_mul(bytes);
    match op {
        // A list of members for every result.
        Op::Reduce(_) => times(read, 32).saturating_add(times(written, 64)),
        Op::TopK(_) => times(read, 160),
        Op::Pool(pool) => {
            let taps = pool
                .kernel
                .iter()
                .fold(1, |n: usize, &k| n.saturating_mul(k));
            times(written, times(taps.min(read), 8).saturating_add(128))
        }
        Op::GlobalPool(_) => times(read, 24),
        Op::MatMul(MatMul) | Op::Gemm(_) => times(read.saturating_add(written), 48),
        Op::Einsum(Einsum { equation }) => {
            let shapes: Vec<&[usize]> = inputs.iter().flatten().map(|t| t.shape()).collect();
            let terms = parse_einsum(equation, &shapes).map_or(0, |einsum| {
                let summed = (0..einsum.extents.len()).filter(|l| !einsum.output.contains(l));
                summed.fold(1, |n: usize, l| n.saturating_mul(einsum.extents[l]))
            });
            times(terms.saturating_add(written), times(shapes.len(), 24))
        }
        // Tables of every axis, at most as long as operand and result.
        Op::Resize(_) => {
            let axes = types.iter().flat_map(|ty| ty.shape.iter().copied());
            let long = axes.fold(0, usize::saturating_add);
            let tables = times(long.saturating_add(read), 256);
            tables.saturating_add(times(written, 64))
        }
        Op::NonZero(NonZero) => {
            let rank = inputs
                .first()
                .copied()
                .flatten()
                .map_or(0, |t| t.shape().len());
            times(read, times(rank, 48))
        }
        Op::ScatterElements(_) | Op::ScatterNd(_) => times(read, 32),
        Op::Recurrent(_) => times(read.saturating_add(written), 32),
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
