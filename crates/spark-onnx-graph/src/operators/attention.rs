//! Attention and rotary embeddings, spelled out in matmuls, a softmax and element-wise functions.
//!
//! ```text
//! q, k, v   [batch, heads, steps, width]; given as [batch, steps, heads * width] they are split
//! k, v      behind what a cache held of them, where one is given
//! scores  = cap((q * scale) k') + mask
//! result  = softmax(scores) v          zeros for a query that may attend to no key
//! ```
//!
//! Source: ONNX operators Attention, versions 23 to 25, and RotaryEmbedding, version 23.
//!
//! Deliberately absent: kernels; the executor joins what is spelled out here.

use crate::ModelError;
use crate::file::import::call::{Call, Translated, Translator};
use crate::graph::{
    Binary, Cast, CastLike, Concat, ConstantOfShape, Dim, Expand, Gather, MaskedSoftmax, MatMul,
    Op, Pad, PadMode, Range, Reshape, Shape, Slice, Transpose, Trilu, Unary, Unsqueeze, ValueId,
    Variadic, Where,
};
use crate::tensor::{DType, Tensor};

pub(super) const OPERATORS: &[Translator] =
    &[("Attention", attention), ("RotaryEmbedding", rotary)];

/// What the fourth result of an attention is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Exposed {
    Product,
    Capped,
    Masked,
    Weights,
}

fn attention(call: &mut Call<'_, '_>) -> Translated {
    call.operands(3, if call.opset() < 24 { 6 } else { 7 })?;
    call.only_results(4)?;
    // Scores and softmax are never narrower than the values themselves.
    call.ignore(&["softmax_precision"]);
    let exposed = match call.int_or("qk_matmul_output_mode", 0)? {
        0 => Exposed::Product,
        1 => Exposed::Capped,
        2 => Exposed::Masked,
        3 => Exposed::Weights,
        other => {
            let reason = format!("attribute `qk_matmul_output_mode` is {other}, not one of 0 to 3");
            return Err(call.error(reason));
        }
    };
    if call.input(4).is_some() != call.input(5).is_some() {
        return Err(call.error("a cache of keys and one of values come together"));
    }
    if call.input(6).is_some() && call.input(4).is_some() {
        return Err(call.error("lengths of keys and a cache of them exclude each other"));
    }
    let q_heads = call.count("q_num_heads", 0)?;
    let kv_heads = call.count("kv_num_heads", 0)?;
    if (q_heads == 0) != (kv_heads == 0) || (kv_heads != 0 && !q_heads.is_multiple_of(kv_heads)) {
        return Err(call.error(format!("{q_heads} heads of queries and {kv_heads} of keys")));
    }
    let q = split_heads(call, 0, q_heads)?;
    let k = split_heads(call, 1, kv_heads)?;
    let v = split_heads(call, 2, kv_heads)?;
    let k = behind_cache(call, 4, k)?;
    let v = behind_cache(call, 5, v)?;
    call.finish_value(1, k)?;
    call.finish_value(2, v)?;
    let shared = heads_per_key(call, q_heads, kv_heads)?;
    let (k, v) = (repeated(call, k, shared)?, repeated(call, v, shared)?);
    let product = scores(call, q, k)?;
    let capped = capped(call, product)?;
    let masked = masked(call, capped, q, k)?;
    let weights = call.step(Op::MaskedSoftmax(MaskedSoftmax), &[Some(masked)])?;
    let shown = match exposed {
        Exposed::Product => product,
        Exposed::Capped => capped,
        Exposed::Masked => masked,
        Exposed::Weights => weights,
    };
    call.finish_value(3, shown)?;
    if q_heads == 0 {
        return call.finish_result(0, Op::MatMul(MatMul), vec![Some(weights), Some(v)]);
    }
    let result = call.step(Op::MatMul(MatMul), &[Some(weights), Some(v)])?;
    let joined = call.step(swap_heads(), &[Some(result)])?;
    let shape = call.new_ints("joined_shape", &[0, 0, -1])?;
    call.finish_result(0, reshape(), vec![Some(joined), Some(shape)])
}

fn reshape() -> Op {
    Op::Reshape(Reshape { allow_zero: false })
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
    let split = call.step(reshape(), &[Some(x), Some(shape)])?;
    call.step(swap_heads(), &[Some(split)])
}

/// `x` behind what operand `index` holds of earlier steps, where that is given.
fn behind_cache(call: &mut Call<'_, '_>, index: usize, x: ValueId) -> Result<ValueId, ModelError> {
    let Some(past) = call.input(index) else {
        return Ok(x);
    };
    let joined = Op::Concat(Concat { axis: 2 });
    call.step(joined, &[Some(past), Some(x)])
}

/// How many heads of the queries share one of the keys; where only the shapes of values in between
/// would say it, 1: one head of keys is then broadcast, and other numbers of them are refused.
fn heads_per_key(
    call: &Call<'_, '_>,
    q_heads: usize,
    kv_heads: usize,
) -> Result<usize, ModelError> {
    if let Some(shared) = q_heads.checked_div(kv_heads) {
        return Ok(shared);
    }
    let heads = |index| {
        let value = call.builder.graph.value(call.input(index)?);
        match value.shape.as_deref()? {
            [_, Dim::Known(heads), _, _] => Some(*heads),
            _ => None,
        }
    };
    match (heads(0), heads(1)) {
        (Some(q), Some(k)) if k != 0 && q.is_multiple_of(k) => Ok(q / k),
        (Some(q), Some(k)) => Err(call.error(format!("{q} heads of queries and {k} of keys"))),
        _ => Ok(1),
    }
}

/// Every head `times` over, side by side.
fn repeated(call: &mut Call<'_, '_>, x: ValueId, times: usize) -> Result<ValueId, ModelError> {
    if times == 1 {
        return Ok(x);
    }
    let axis = call.new_ints("shared_axis", &[2])?;
    let apart = call.step(Op::Unsqueeze(Unsqueeze), &[Some(x), Some(axis)])?;
    let wide = call.new_ints("shared", &[1, 1, times as i64, 1, 1])?;
    let wide = call.step(Op::Expand(Expand), &[Some(apart), Some(wide)])?;
    // Batch and the last two axes as they were: heads and copies are joined.
    let batch = part_of_shape(call, x, 0, Some(1))?;
    let joined = call.new_ints("joined_heads", &[-1])?;
    let rest = part_of_shape(call, x, 2, None)?;
    let concat = Op::Concat(Concat { axis: 0 });
    let shape = call.step(concat, &[Some(batch), Some(joined), Some(rest)])?;
    call.step(reshape(), &[Some(wide), Some(shape)])
}

fn part_of_shape(
    call: &mut Call<'_, '_>,
    x: ValueId,
    start: i64,
    end: Option<i64>,
) -> Result<ValueId, ModelError> {
    call.step(Op::Shape(Shape { start, end }), &[Some(x)])
}

/// `(q * scale) k'`; the scale is one over the root of the width unless it is stated.
fn scores(call: &mut Call<'_, '_>, q: ValueId, k: ValueId) -> Result<ValueId, ModelError> {
    let scale = match call.float("scale")? {
        Some(scale) => call.scalar_like("scale", f64::from(scale), q)?,
        None => {
            let width = part_of_shape(call, q, -1, None)?;
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

/// `cap * tanh(scores / cap)`, where a cap is stated.
fn capped(call: &mut Call<'_, '_>, scores: ValueId) -> Result<ValueId, ModelError> {
    let cap = call.float_or("softcap", 0.0)?;
    if cap == 0.0 {
        return Ok(scores);
    }
    if !(cap > 0.0 && cap.is_finite()) {
        return Err(call.error(format!("attribute `softcap` is {cap}")));
    }
    let cap = call.scalar_like("softcap", f64::from(cap), scores)?;
    let fraction = call.binary_step(Binary::Div, scores, cap)?;
    let bent = call.step(Op::Unary(Unary::Tanh), &[Some(fraction)])?;
    call.binary_step(Binary::Mul, bent, cap)
}

/// Adds the mask, and hides keys that are later than the query, too far from it, or padding.
fn masked(
    call: &mut Call<'_, '_>,
    mut scores: ValueId,
    q: ValueId,
    k: ValueId,
) -> Result<ValueId, ModelError> {
    let lengths = call.input(6);
    let causal = call.flag("is_causal", false)?;
    if causal && lengths.is_none() {
        let n_queries = part_of_shape(call, q, 2, Some(3))?;
        let n_keys = part_of_shape(call, k, 2, Some(3))?;
        let shape = call.step(
            Op::Concat(Concat { axis: 0 }),
            &[Some(n_queries), Some(n_keys)],
        )?;
        let ones = Op::ConstantOfShape(ConstantOfShape {
            value: Tensor::from_i64([1], vec![1])?,
        });
        let ones = call.step(ones, &[Some(shape)])?;
        let mut triangle = vec![Some(ones)];
        if let Some(past) = call.input(4) {
            triangle.push(Some(part_of_shape(call, past, 2, Some(3))?));
        }
        let lower = call.step(Op::Trilu(Trilu { upper: false }), &triangle)?;
        let seen = call.step(Op::Cast(Cast { to: DType::Bool }), &[Some(lower)])?;
        scores = hide(call, "hidden_later", seen, scores)?;
    }
    scores = within_windows(call, scores, q, k, causal)?;
    let Some(mask) = call.input(3) else {
        return Ok(scores);
    };
    let dtype = call.builder.dtype(mask);
    let mask = match call.input(4).or(lengths) {
        Some(_) => up_to_keys(call, mask, k)?,
        None => mask,
    };
    match dtype {
        Some(DType::Bool) => hide(call, "hidden", mask, scores),
        Some(_) => call.binary_step(Binary::Add, scores, mask),
        None => Err(call.error("the element type of the mask is not known")),
    }
}

/// Hides keys by their distance from the query and, where lengths are given, behind those.
fn within_windows(
    call: &mut Call<'_, '_>,
    mut scores: ValueId,
    q: ValueId,
    k: ValueId,
    causal: bool,
) -> Result<ValueId, ModelError> {
    let lengths = call.input(6);
    let mut bounds = [None, None];
    if call.opset() >= 25 {
        for (bound, name) in bounds
            .iter_mut()
            .zip(["left_window_size", "right_window_size"])
        {
            *bound = match call.int_or(name, -1)? {
                -1 => None,
                size if size >= 0 => Some(size),
                size => return Err(call.error(format!("attribute `{name}` is {size}"))),
            };
        }
    }
    let [left, mut right] = bounds;
    if causal && lengths.is_some() {
        right = Some(0);
    }
    if lengths.is_none() && left.is_none() && right.is_none() {
        return Ok(scores);
    }
    let keys = positions(call, k)?;
    let lengths = match lengths {
        None => None,
        Some(lengths) => {
            let lengths = call.step(Op::Cast(Cast { to: DType::I64 }), &[Some(lengths)])?;
            let shape = call.new_ints("lengths_shape", &[-1, 1, 1, 1])?;
            Some(call.step(reshape(), &[Some(lengths), Some(shape)])?)
        }
    };
    if let Some(lengths) = lengths {
        let seen = call.binary_step(Binary::Less, keys, lengths)?;
        scores = hide(call, "hidden_padding", seen, scores)?;
    }
    if left.is_none() && right.is_none() {
        return Ok(scores);
    }
    let queries = positions(call, q)?;
    let column = call.new_ints("column", &[-1, 1])?;
    let mut at = call.step(reshape(), &[Some(queries), Some(column)])?;
    if let Some(lengths) = lengths {
        let n_queries = part_of_shape(call, q, 2, Some(3))?;
        let before = call.binary_step(Binary::Sub, lengths, n_queries)?;
        at = call.binary_step(Binary::Add, at, before)?;
    } else if let Some(past) = call.input(4) {
        let before = part_of_shape(call, past, 2, Some(3))?;
        at = call.binary_step(Binary::Add, at, before)?;
    }
    // Distances of 63 bits beyond any key hide none, and must not wrap around.
    let distance = |size: i64| size.min(1 << 40);
    if let Some(left) = left {
        let left = call.new_ints("left", &[distance(left)])?;
        let first = call.binary_step(Binary::Sub, at, left)?;
        let seen = call.binary_step(Binary::GreaterOrEqual, keys, first)?;
        scores = hide(call, "hidden_left", seen, scores)?;
    }
    if let Some(right) = right {
        let right = call.new_ints("right", &[distance(right)])?;
        let last = call.binary_step(Binary::Add, at, right)?;
        let seen = call.binary_step(Binary::LessOrEqual, keys, last)?;
        scores = hide(call, "hidden_right", seen, scores)?;
    }
    Ok(scores)
}

/// 0, 1, ... of the steps of `[batch, heads, steps, width]`.
fn positions(call: &mut Call<'_, '_>, x: ValueId) -> Result<ValueId, ModelError> {
    let n = part_of_shape(call, x, 2, Some(3))?;
    let zero = call.new_ints("first", &[0])?;
    let one = call.new_ints("one", &[1])?;
    call.step(Op::Range(Range), &[Some(zero), Some(n), Some(one)])
}

/// A mask that may speak of fewer keys than there are; it hides the rest.
fn up_to_keys(call: &mut Call<'_, '_>, mask: ValueId, k: ValueId) -> Result<ValueId, ModelError> {
    let n_keys = part_of_shape(call, k, 2, Some(3))?;
    let n_masked = part_of_shape(call, mask, -1, None)?;
    let missing = call.binary_step(Binary::Sub, n_keys, n_masked)?;
    let zero = call.new_ints("none", &[0])?;
    let missing = call.step(Op::Variadic(Variadic::Max), &[Some(missing), Some(zero)])?;
    let concat = Op::Concat(Concat { axis: 0 });
    let widths = call.step(concat, &[Some(zero), Some(missing)])?;
    let last = call.new_ints("last", &[-1])?;
    let hidden = match call.builder.dtype(mask) {
        Some(DType::Bool) => call.new_constant("unseen", Tensor::zeros(DType::Bool, [])?)?,
        _ => call.scalar_like("unseen", f64::NEG_INFINITY, mask)?,
    };
    let pad = Op::Pad(Pad {
        mode: PadMode::Constant,
    });
    let operands = [Some(mask), Some(widths), Some(hidden), Some(last)];
    call.step(pad, &operands)
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

/// Pairs of elements turned by an angle per position:
///
/// ```text
/// (a, b) -> (a cos - b sin, a sin + b cos)     a, b: the two halves, or neighbours
/// ```
fn rotary(call: &mut Call<'_, '_>) -> Translated {
    call.operands(3, 4)?;
    let interleaved = call.flag("interleaved", false)?;
    let heads = call.count("num_heads", 0)?;
    let n_rotated = call.int_or("rotary_embedding_dim", 0)?;
    if n_rotated < 0 || n_rotated % 2 != 0 {
        return Err(call.error(format!("attribute `rotary_embedding_dim` is {n_rotated}")));
    }
    let input = call.required(0)?;
    let rank = call.builder.graph.value(input).shape.as_ref().map(Vec::len);
    // Only three axes need the number of heads, but four may come with it.
    let is_flat = heads != 0 && rank != Some(4);
    let x = if is_flat {
        // Nothing but a check that there are three axes.
        let as_is = Op::Transpose(Transpose {
            perm: Some(vec![0, 1, 2]),
        });
        let flat = call.step(as_is, &[Some(input)])?;
        let shape = call.new_ints("split_shape", &[0, 0, heads as i64, -1])?;
        call.step(reshape(), &[Some(flat), Some(shape)])?
    } else {
        let as_is = Op::Transpose(Transpose {
            perm: Some(vec![0, 1, 2, 3]),
        });
        call.step(as_is, &[Some(input)])?
    };
    let heads_axis = call.new_ints("heads_axis", &[if is_flat { 2 } else { 1 }])?;
    let mut angles = [1, 2].map(|_| None);
    for (angle, index) in angles.iter_mut().zip([1, 2]) {
        let mut table = call.required(index)?;
        if let Some(positions) = call.input(3) {
            let gather = Op::Gather(Gather { axis: 0 });
            table = call.step(gather, &[Some(table), Some(positions)])?;
        }
        let unsqueeze = Op::Unsqueeze(Unsqueeze);
        *angle = Some(call.step(unsqueeze, &[Some(table), Some(heads_axis)])?);
    }
    let [Some(cos), Some(sin)] = angles else {
        return Err(call.error("a table of angles is missing"));
    };
    let end = if n_rotated == 0 { i64::MAX } else { n_rotated };
    let turned = if n_rotated == 0 {
        x
    } else {
        last_axis(call, x, 0, end, 1)?
    };
    let (a, b) = if interleaved {
        let a = last_axis(call, turned, 0, i64::MAX, 2)?;
        (a, last_axis(call, turned, 1, i64::MAX, 2)?)
    } else {
        halves(call, turned)?
    };
    let (ac, bs) = (
        call.binary_step(Binary::Mul, a, cos)?,
        call.binary_step(Binary::Mul, b, sin)?,
    );
    let (as_, bc) = (
        call.binary_step(Binary::Mul, a, sin)?,
        call.binary_step(Binary::Mul, b, cos)?,
    );
    let mut pair = [
        call.binary_step(Binary::Sub, ac, bs)?,
        call.binary_step(Binary::Add, as_, bc)?,
    ];
    let last = call.new_ints("last", &[-1])?;
    if interleaved {
        for part in &mut pair {
            *part = call.step(Op::Unsqueeze(Unsqueeze), &[Some(*part), Some(last)])?;
        }
    }
    let concat = Op::Concat(Concat { axis: -1 });
    let mut result = call.step(concat.clone(), &pair.map(Some))?;
    if interleaved {
        let shape = part_of_shape(call, turned, 0, None)?;
        result = call.step(reshape(), &[Some(result), Some(shape)])?;
    }
    if n_rotated != 0 {
        let rest = last_axis(call, x, end, i64::MAX, 1)?;
        result = call.step(concat, &[Some(result), Some(rest)])?;
    }
    let shape = part_of_shape(call, input, 0, None)?;
    call.finish(reshape(), vec![Some(result), Some(shape)])
}

/// `x[..., start..end by step]`.
fn last_axis(
    call: &mut Call<'_, '_>,
    x: ValueId,
    start: i64,
    end: i64,
    step: i64,
) -> Result<ValueId, ModelError> {
    let mut operands = vec![Some(x)];
    for (suffix, value) in [("start", start), ("end", end), ("axis", -1), ("step", step)] {
        operands.push(Some(call.new_ints(suffix, &[value])?));
    }
    call.step(Op::Slice(Slice), &operands)
}

/// The two halves of the last axis.
fn halves(call: &mut Call<'_, '_>, x: ValueId) -> Result<(ValueId, ValueId), ModelError> {
    let width = part_of_shape(call, x, -1, None)?;
    let two = call.new_ints("two", &[2])?;
    let half = call.binary_step(Binary::Div, width, two)?;
    let zero = call.new_ints("zero", &[0])?;
    let axis = call.new_ints("axis", &[-1])?;
    let slice = Op::Slice(Slice);
    let a = call.step(
        slice.clone(),
        &[Some(x), Some(zero), Some(half), Some(axis)],
    )?;
    let b = call.step(slice, &[Some(x), Some(half), Some(width), Some(axis)])?;
    Ok((a, b))
}
