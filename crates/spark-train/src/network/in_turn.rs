//! Which values of a network have the runs of a batch one after the other.
//!
//! ```text
//! two runs a, b, in one batch:   (a, b)      (b, b)      (a, a)
//! a value in turn:               [x | y]     [? | y]     [x | ?]       one half each, along the first axis
//! a value of no run:             x           x           x             as long as that of one run
//! ```
//!
//! Shapes do not tell: two axes in the wrong order may have been flattened into the first. So the network is run, three times by one
//! plan, whose numbers are the same to the last bit where nothing that they hang on has changed.
//!
//! What no run moves says nothing of its order, unless its halves are the same and the rows of each differ: it counts as across. Whole
//! numbers may be indices: of each input as large ones are taken as the network takes.
//!
//! What is not seen: values that these inputs do not reach, as behind a comparison with numbers that are never there; an order that
//! is right for two runs and for no other number.

use std::collections::{BTreeMap, BTreeSet};

use spark_onnx::{Model, RunOptions};
use spark_onnx_graph::graph::{Dim, Graph, ValueId};
use spark_onnx_graph::{DType, ModelError, Tensor};

use super::inputs::{Named, lent};
use crate::exact::in_f32;

/// A value in one run of the network.
#[derive(Debug, Clone, Copy)]
pub(super) struct OneRun {
    pub(super) first_extent: usize,
    pub(super) len: usize,
}

/// Those of these values that do not have the runs of a batch one after the other, by a graph that takes batches; `one` has inputs of one
/// run. Of a graph that refuses a batch of two they are all of those that are computed.
pub(super) fn others(
    graph: &Graph,
    values: BTreeMap<ValueId, OneRun>,
    one: &Named,
    options: &RunOptions,
) -> BTreeSet<ValueId> {
    // Inputs are batched along their first axis, and a constant is the same in every run.
    let is_computed = |id: &ValueId| {
        let is_given = graph.inputs.contains(id) || graph.value(*id).constant.is_some();
        !is_given
    };
    let wanted = values.into_iter().filter(|(id, _)| is_computed(id));
    let wanted: BTreeMap<ValueId, OneRun> = wanted.collect();
    let mut graph = graph.clone();
    graph.outputs = wanted.keys().copied().collect();
    if wanted.is_empty() {
        return BTreeSet::new();
    }
    let Ok(results) = batches(&graph, one, options) else {
        return wanted.into_keys().collect();
    };
    let mut found = BTreeSet::new();
    for (position, (id, run)) in wanted.into_iter().enumerate() {
        let of_batches = results.each_ref().map(|values| values.get(position));
        let is_in_turn = match of_batches {
            [Some(ab), Some(bb), Some(aa)] => is_in_turn(run, [ab, bb, aa]),
            _ => false,
        };
        if !is_in_turn {
            found.insert(id);
        }
    }
    found
}

/// Whole numbers are below the first of these that the network takes: 0 is always an index.
const BELOW: [usize; 4] = [256, 8, 2, 1];

/// Outputs of the batches (a, b), (b, b) and (a, a).
fn batches(
    graph: &Graph,
    one: &Named,
    options: &RunOptions,
) -> Result<[Vec<Tensor>; 3], ModelError> {
    let model = Model::from_graph(graph.clone(), &in_f32(options))?;
    let mut session = model.session();
    let mut run = |below: &[usize], of: [bool; 2]| -> Result<Vec<Tensor>, ModelError> {
        let mut inputs = Named::new();
        for ((name, tensor), &below) in one.iter().zip(below) {
            let mut shape = tensor.shape().to_vec();
            let both = match (shape.first_mut(), is_batched(graph, name)) {
                (Some(first), true) => {
                    *first *= 2;
                    of.map(|is_other| numbers(tensor, is_other, below)).concat()
                }
                _ => numbers(tensor, false, below),
            };
            inputs.push((name.clone(), Tensor::from_f64(tensor.dtype(), shape, both)?));
        }
        let results = session.run(&lent(&inputs))?;
        Ok(results.into_iter().map(|(_, tensor)| tensor).collect())
    };
    let mut below = vec![1; one.len()];
    for (position, (_, tensor)) in one.iter().enumerate() {
        if is_float(tensor) {
            continue;
        }
        for most in BELOW {
            below[position] = most;
            if run(&below, [false, true]).is_ok() && run(&below, [true, false]).is_ok() {
                break;
            }
        }
    }
    Ok([
        run(&below, [false, true])?,
        run(&below, [true, true])?,
        run(&below, [false, false])?,
    ])
}

/// Whether an input has as many samples as a batch.
fn is_batched(graph: &Graph, name: &str) -> bool {
    let values = graph.inputs.iter().map(|id| graph.value(*id));
    let mut shapes = values
        .filter(|value| value.name == name)
        .map(|value| &value.shape);
    let first = shapes.next().and_then(|shape| shape.as_ref()?.first());
    !matches!(first, Some(Dim::Known(_)))
}

fn is_float(tensor: &Tensor) -> bool {
    let dtype = tensor.dtype();
    matches!(dtype, DType::F32 | DType::F64 | DType::F16 | DType::BF16)
}

/// The numbers of one run, or of another: floats half as large and the last first, whole numbers below a bound that differ.
fn numbers(tensor: &Tensor, is_other: bool, below: usize) -> Vec<f64> {
    let given = tensor.to_f64();
    let below = match tensor.dtype() {
        DType::Bool => below.min(2),
        DType::I8 => below.min(128),
        _ => below,
    };
    let (step, from) = if is_other { (29, 100) } else { (31, 7) };
    match (is_float(tensor), is_other) {
        (true, true) => given.into_iter().rev().map(|x| 0.5 * x).collect(),
        (true, false) => given,
        (false, _) => {
            let number = |i: usize| (i.wrapping_mul(step) + from) % below;
            (0..given.len()).map(|i| number(i) as f64).collect()
        }
    }
}

/// Whether a value has a run in each half, given those of (a, b), (b, b) and (a, a).
fn is_in_turn(run: OneRun, [ab, bb, aa]: [&Tensor; 3]) -> bool {
    let bits =
        |tensor: &Tensor| -> Vec<u32> { tensor.to_f32().iter().map(|x| x.to_bits()).collect() };
    let first_extent = |tensor: &Tensor| tensor.shape().first().copied();
    let [both, first, second] = [ab, bb, aa].map(bits);
    if [first.len(), second.len()] != [both.len(); 2] {
        return false;
    }
    let is_still = both == first && both == second;
    if both.len() == run.len {
        return is_still;
    }
    if both.len() != 2 * run.len || first_extent(ab) != Some(2 * run.first_extent) {
        return false;
    }
    let (one, other) = both.split_at(run.len);
    if is_still {
        let row = (run.len / run.first_extent.max(1)).max(1);
        let mut rows = one.chunks(row);
        let differ = rows
            .next()
            .is_some_and(|row| rows.any(|other| other != row));
        return one == other && (run.first_extent == 1 || differ);
    }
    *other == first[run.len..] && *one == second[..run.len]
}
