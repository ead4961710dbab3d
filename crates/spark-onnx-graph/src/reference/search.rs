//! Positions of extreme values along an axis.
//!
//! Values are ordered as numbers, NaN above all; equal ones by position. Of extremes NaN is the
//! smallest as well as the greatest, as it is in NumPy and onnxruntime.

use std::cmp::Ordering;

use super::index::Lines;
use super::movement::{pick, positions};
use super::numbers::Numbers;
use super::operator::{Evaluate, Evaluated, Inputs, Working, one, times};
use crate::graph::{ArgReduce, OpError, TensorType, TopK, resolve_axis};
use crate::tensor::Tensor;

/// Compares two elements of one tensor.
fn compare(values: &Numbers, a: usize, b: usize) -> Ordering {
    match values {
        Numbers::Whole(v) => v[a].cmp(&v[b]),
        Numbers::Float(v) => v[a]
            .partial_cmp(&v[b])
            .unwrap_or_else(|| v[a].is_nan().cmp(&v[b].is_nan())),
    }
}

fn is_nan(values: &Numbers, at: usize) -> bool {
    matches!(values, Numbers::Float(v) if v[at].is_nan())
}

impl Evaluate for ArgReduce {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        one(types, |ty| arg_reduce(self, inputs, ty))
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.computed()
    }
}

fn arg_reduce(arg: &ArgReduce, inputs: Inputs<'_>, ty: &TensorType) -> Result<Tensor, OpError> {
    let x = inputs.get(0)?;
    let axis = resolve_axis(arg.axis, x.shape().len())?;
    let values = Numbers::of(x);
    let wanted = if arg.max {
        Ordering::Greater
    } else {
        Ordering::Less
    };
    let mut found = Vec::with_capacity(ty.shape.iter().product());
    Lines::new(x.shape(), axis).for_each(|line| {
        let mut best = 0;
        for candidate in 1..line.len() {
            let mut order = compare(&values, line[candidate], line[best]);
            if !arg.max && (is_nan(&values, line[candidate]) || is_nan(&values, line[best])) {
                order = order.reverse();
            }
            if order == wanted || (order == Ordering::Equal && arg.select_last) {
                best = candidate;
            }
        }
        found.push(best);
    });
    positions(ty, found)
}

impl Evaluate for TopK {
    fn evaluate(&self, inputs: Inputs<'_>, types: &[TensorType]) -> Evaluated {
        top_k(self.axis, self.largest, inputs, types)
    }

    fn working_bytes(&self, working: &Working<'_>) -> usize {
        working.computed_with(times(working.read(), 160))
    }
}

fn top_k(
    axis: i64,
    largest: bool,
    inputs: Inputs<'_>,
    types: &[TensorType],
) -> Result<Vec<Tensor>, OpError> {
    let x = inputs.get(0)?;
    let axis = resolve_axis(axis, x.shape().len())?;
    let values = Numbers::of(x);
    let result_shape = &types[0].shape;
    let k = result_shape[axis];
    let n: usize = result_shape.iter().product();
    let (mut sources, mut indices) = (vec![(0, 0); n], vec![0; n]);
    let mut ranked_lines = Vec::new();
    Lines::new(x.shape(), axis).for_each(|line| {
        let mut order: Vec<usize> = (0..line.len()).collect();
        let ranked = |a: &usize, b: &usize| {
            let ascending = compare(&values, line[*a], line[*b]);
            let ordered = if largest {
                ascending.reverse()
            } else {
                ascending
            };
            ordered.then(a.cmp(b))
        };
        // Those behind the first `k` need no order.
        if k < order.len() {
            order.select_nth_unstable_by(k, ranked);
            order.truncate(k);
        }
        order.sort_unstable_by(ranked);
        ranked_lines.push((line.to_vec(), order));
    });
    let mut ranked = ranked_lines.into_iter();
    Lines::new(result_shape, axis).for_each(|targets| {
        if let Some((line, order)) = ranked.next() {
            for (&target, &position) in targets.iter().zip(&order) {
                sources[target] = (0, line[position]);
                indices[target] = position;
            }
        }
    });
    let mut results = vec![pick(&[x], &sources, &types[0])?];
    if let Some(ty) = types.get(1) {
        results.push(positions(ty, indices)?);
    }
    Ok(results)
}
