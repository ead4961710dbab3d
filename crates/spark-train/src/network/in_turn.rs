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
//! What is not seen: values that hang on nothing which differs between the two runs, as behind rectifiers that are zero in both; and
//! halves of rows that are alike.

use std::collections::{BTreeMap, BTreeSet};

use spark_onnx::{Model, RunOptions};
use spark_onnx_graph::graph::{Graph, ValueId};
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
    // Whole numbers may be indices, of which only zero is always there.
    let results = batches(&graph, one, true, options);
    let Ok(results) = results.or_else(|_| batches(&graph, one, false, options)) else {
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

/// Outputs of the batches (a, b), (b, b) and (a, a).
fn batches(
    graph: &Graph,
    one: &Named,
    varies_indices: bool,
    options: &RunOptions,
) -> Result<[Vec<Tensor>; 3], ModelError> {
    let model = Model::from_graph(graph.clone(), &in_f32(options))?;
    let mut session = model.session();
    let mut run = |of: [bool; 2]| -> Result<Vec<Tensor>, ModelError> {
        let inputs = one.iter().map(|(name, tensor)| {
            let parts = of
                .map(|is_other| numbers(tensor, is_other && (varies_indices || !is_index(tensor))));
            let mut shape = tensor.shape().to_vec();
            if let Some(first) = shape.first_mut() {
                *first *= 2;
            }
            // A scalar has no room for two.
            let both = Tensor::from_f64(tensor.dtype(), shape, parts.concat())?;
            Ok((name.clone(), both))
        });
        let inputs = inputs.collect::<Result<Named, ModelError>>()?;
        let results = session.run(&lent(&inputs))?;
        Ok(results.into_iter().map(|(_, tensor)| tensor).collect())
    };
    Ok([
        run([false, true])?,
        run([true, true])?,
        run([false, false])?,
    ])
}

fn is_index(tensor: &Tensor) -> bool {
    let dtype = tensor.dtype();
    matches!(
        dtype,
        DType::I16 | DType::U16 | DType::I32 | DType::U32 | DType::I64 | DType::U64
    )
}

/// The numbers of one run, or of another: floats half as large and the last first, bytes that differ, ones for zeros.
fn numbers(tensor: &Tensor, is_other: bool) -> Vec<f64> {
    let given = tensor.to_f64();
    match (tensor.dtype(), is_other) {
        (DType::F32 | DType::F64 | DType::F16 | DType::BF16, true) => {
            given.into_iter().rev().map(|x| 0.5 * x).collect()
        }
        (DType::U8 | DType::I8, _) => {
            let step = if is_other { 29 } else { 31 };
            (0..given.len())
                .map(|i| (i.wrapping_mul(step) % 101) as f64)
                .collect()
        }
        (_, true) => vec![1.0; given.len()],
        (_, false) => given,
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
    if both.len() == run.len {
        return both == first && both == second;
    }
    let is_doubled = both.len() == 2 * run.len && first_extent(ab) == Some(2 * run.first_extent);
    is_doubled && both[run.len..] == first[run.len..] && both[..run.len] == second[..run.len]
}
