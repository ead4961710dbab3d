//! Attention, spelled out in two matmuls and a softmax.
//!
//! ```text
//! q, k, v   [batch, heads, steps, width]; given as [batch, steps, heads * width] they are split
//! scores  = (q * scale) k' + mask
//! result  = softmax(scores) v          zeros for a query that may attend to no key
//! ```
//!
//! Source: ONNX operator Attention, versions 23 and 24.
//!
//! Deliberately absent: caches of keys and values, soft caps, and heads of the queries
//! that share those of the keys (unless there is one of the latter).

use crate::ModelError;
use crate::file::import::call::{Call, Translated, Translator};
use crate::graph::{
    Binary, Cast, CastLike, Concat, ConstantOfShape, MaskedSoftmax, MatMul, Op, Reshape, Shape,
    Transpose, Trilu, Unary, ValueId, Where,
};
use crate::tensor::{DType, Tensor};

pub(super) const OPERATORS: &[Translator] = &[("Attention", attention)];

fn attention(call: &mut Call<'_, '_>) -> Translated {
    call.operands(3, 4)?;
    call.only_results(1)?;
    // Scores and softmax are never narrower than the values themselves; the mode is about
    // a result that is refused above.
    call.ignore(&["softmax_precision", "qk_matmul_output_mode"]);
    if call.float_or("softcap", 0.0)? != 0.0 {
        return Err(call.error("attribute `softcap` is not supported"));
    }
    let q_heads = call.count("q_num_heads", 0)?;
    let kv_heads = call.count("kv_num_heads", 0)?;
    if q_heads != kv_heads {
        return Err(call.error(format!("{q_heads} heads of queries and {kv_heads} of keys")));
    }
    let q = split_heads(call, 0, q_heads)?;
    let k = split_heads(call, 1, q_heads)?;
    let v = split_heads(call, 2, q_heads)?;
    let scores = scores(call, q, k)?;
    let scores = masked(call, scores, q, k)?;
    let weights = call.step(Op::MaskedSoftmax(MaskedSoftmax), &[Some(scores)])?;
    if q_heads == 0 {
        return call.finish(Op::MatMul(MatMul), vec![Some(weights), Some(v)]);
    }
    let result = call.step(Op::MatMul(MatMul), &[Some(weights), Some(v)])?;
    let joined = call.step(swap_heads(), &[Some(result)])?;
    let shape = call.new_ints("joined_shape", &[0, 0, -1])?;
    let reshape = Op::Reshape(Reshape { allow_zero: false });
    call.finish(reshape, vec![Some(joined), Some(shape)])
}

/// Between `[batch, steps, heads, width]` and `[batch, heads, steps, width]`.
fn swap_heads() -> Op {
    Op::Transpose(Transpose {
        perm: Some(vec![0, 2, 1, 3]),
    })
}

/// An operand as `[batch, heads, steps, width]`; `heads` is 0 where it is that already.
fn split_heads(call: &mut Call<'_, '_>, index: usize, heads: usize) -> Result<ValueId, ModelError> {
    let x = call.required(index)?;
    if heads == 0 {
        return Ok(x);
    }
    let shape = call.new_ints("split_shape", &[0, 0, heads as i64, -1])?;
    let reshape = Op::Reshape(Reshape { allow_zero: false });
    let split = call.step(reshape, &[Some(x), Some(shape)])?;
    call.step(swap_heads(), &[Some(split)])
}

/// `(q * scale) k'`; the scale is one over the root of the width unless it is stated.
fn scores(call: &mut Call<'_, '_>, q: ValueId, k: ValueId) -> Result<ValueId, ModelError> {
    let scale = match call.float("scale")? {
        Some(scale) => call.scalar_like("scale", f64::from(scale), q)?,
        None => {
            let width = Op::Shape(Shape {
                start: -1,
                end: None,
            });
            let width = call.step(width, &[Some(q)])?;
            let width = call.step(Op::Cast(Cast { to: DType::F32 }), &[Some(width)])?;
            let root = call.step(Op::Unary(Unary::Sqrt), &[Some(width)])?;
            let scale = call.step(Op::Unary(Unary::Reciprocal), &[Some(root)])?;
            call.step(Op::CastLike(CastLike), &[Some(scale), Some(q)])?
        }
    };
    let scaled = call.binary_step(Binary::Mul, q, scale)?;
    let swap_last = Op::Transpose(Transpose {
        perm: Some(vec![0, 1, 3, 2]),
    });
    let transposed = call.step(swap_last, &[Some(k)])?;
    call.step(Op::MatMul(MatMul), &[Some(scaled), Some(transposed)])
}

/// Adds the mask, and hides later keys where the operator is causal.
fn masked(
    call: &mut Call<'_, '_>,
    mut scores: ValueId,
    q: ValueId,
    k: ValueId,
) -> Result<ValueId, ModelError> {
    if call.flag("is_causal", false)? {
        let length = Op::Shape(Shape {
            start: 2,
            end: Some(3),
        });
        let n_queries = call.step(length.clone(), &[Some(q)])?;
        let n_keys = call.step(length, &[Some(k)])?;
        let shape = call.step(
            Op::Concat(Concat { axis: 0 }),
            &[Some(n_queries), Some(n_keys)],
        )?;
        let ones = Op::ConstantOfShape(ConstantOfShape {
            value: Tensor::from_i64([1], vec![1])?,
        });
        let ones = call.step(ones, &[Some(shape)])?;
        let lower = call.step(Op::Trilu(Trilu { upper: false }), &[Some(ones)])?;
        let seen = call.step(Op::Cast(Cast { to: DType::Bool }), &[Some(lower)])?;
        scores = hide(call, "hidden_later", seen, scores)?;
    }
    let Some(mask) = call.input(3) else {
        return Ok(scores);
    };
    match call.builder.dtype(mask) {
        Some(DType::Bool) => hide(call, "hidden", mask, scores),
        Some(_) => call.binary_step(Binary::Add, scores, mask),
        None => Err(call.error("the element type of the mask is not known")),
    }
}

/// `seen ? scores : -infinity`.
fn hide(
    call: &mut Call<'_, '_>,
    suffix: &str,
    seen: ValueId,
    scores: ValueId,
) -> Result<ValueId, ModelError> {
    let hidden = call.scalar_like(suffix, f64::NEG_INFINITY, scores)?;
    call.step(Op::Where(Where), &[Some(seen), Some(scores), Some(hidden)])
}
