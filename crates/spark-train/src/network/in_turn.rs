//! Which values of a network have the runs of a batch one after the other.
//!
//! ```text
//! inputs a ─────> x of a      wanted of a and b in one batch:  x of a, then x of b, along the first axis
//! inputs b ─────> x of b                                 or:  x of a, where it does not hang on the inputs
//! inputs a, b ──> x of both
//! ```
//!
//! Shapes do not tell: two axes in the wrong order may have been flattened into the first. So the network is run.
//!
//! Deliberately absent: inputs that are not batched along their first axis; samples are not ([`Samples`](crate::Samples)).

use std::collections::BTreeSet;

use spark_onnx::{Model, RunOptions};
use spark_onnx_graph::graph::{Graph, ValueId};
use spark_onnx_graph::{ModelError, Tensor};

use super::batch::with_free_batch;
use super::inputs::{Named, is_float, lent};
use crate::exact::in_f32;

/// What a value may differ by between batches, for a largest magnitude of 1: other kernels add up in another order.
const MOST_OFF: f32 = 1e-3;

/// Other numbers of the same shapes: half as large, the last first.
fn another(made: &Named) -> Result<Named, ModelError> {
    let another = |(name, tensor): &(String, Tensor)| {
        let (dtype, shape) = (tensor.dtype(), tensor.shape().to_vec());
        let numbers = tensor.to_f64().into_iter().rev().map(|x| 0.5 * x);
        let other = match is_float(dtype) {
            true => Tensor::from_f64(dtype, shape, numbers.collect())?,
            false => tensor.clone(),
        };
        Ok((name.clone(), other))
    };
    made.iter().map(another).collect()
}

/// Both along the first axis; nothing for an input that has none.
fn batched(a: &Named, b: &Named) -> Option<Result<Named, ModelError>> {
    let mut both = Vec::with_capacity(a.len());
    for ((name, a), (_, b)) in a.iter().zip(b) {
        let mut shape = a.shape().to_vec();
        *shape.first_mut()? *= 2;
        let numbers = a.to_f64().into_iter().chain(b.to_f64());
        match Tensor::from_f64(a.dtype(), shape, numbers.collect()) {
            Ok(tensor) => both.push((name.clone(), tensor)),
            Err(why) => return Some(Err(why)),
        }
    }
    Some(Ok(both))
}

/// Names of these values that do not have the runs of a batch one after the other. `one` has inputs of one run.
///
/// There are none where the network takes no batch.
pub(super) fn others(
    graph: &Graph,
    values: impl Iterator<Item = ValueId>,
    one: &Named,
    options: &RunOptions,
) -> Result<BTreeSet<String>, ModelError> {
    let mut free = with_free_batch(graph.clone());
    let is_computed = |id: &ValueId| {
        let is_given = graph.inputs.contains(id) || graph.value(*id).constant.is_some();
        !is_given
    };
    let wanted: BTreeSet<ValueId> = values.filter(is_computed).collect();
    if wanted.is_empty() {
        return Ok(BTreeSet::new());
    }
    free.outputs = wanted.into_iter().collect();
    let model = Model::from_graph(free, &in_f32(options))?;
    let run = |inputs: &Named| model.session().run(&lent(inputs));
    let another = another(one)?;
    let Some(both) = batched(one, &another) else {
        return Ok(BTreeSet::new());
    };
    let Ok(of_both) = run(&both?) else {
        return Ok(BTreeSet::new());
    };
    let (of_one, of_another) = (run(one)?, run(&another)?);
    let mut found = BTreeSet::new();
    for (((name, both), (_, a)), (_, b)) in of_both.iter().zip(&of_one).zip(&of_another) {
        let one_after_other = [a.to_f32(), b.to_f32()].concat();
        let is_both =
            is_doubled(a.shape(), both.shape()) && is_like(&both.to_f32(), &one_after_other);
        let is_either = a.shape() == both.shape()
            && is_like(&both.to_f32(), &a.to_f32())
            && is_like(&both.to_f32(), &b.to_f32());
        if !(is_both || is_either) {
            found.insert(name.clone());
        }
    }
    Ok(found)
}

fn is_doubled(one: &[usize], both: &[usize]) -> bool {
    match (one, both) {
        ([first, rest @ ..], [of_both, others @ ..]) => 2 * first == *of_both && rest == others,
        _ => false,
    }
}

fn is_like(got: &[f32], want: &[f32]) -> bool {
    let scale = want.iter().fold(0.0, |m: f32, x| m.max(x.abs()));
    let mut pairs = got.iter().zip(want);
    pairs.all(|(got, want)| {
        got == want || (got - want).abs() <= MOST_OFF * scale || got.is_nan() && want.is_nan()
    })
}
