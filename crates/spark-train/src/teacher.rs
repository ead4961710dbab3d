//! Another network as the teacher: what it says of every input is what is taught.

use spark_onnx::{Model, RunOptions};
use spark_onnx_graph::Tensor;
use spark_onnx_graph::graph::Graph;

use crate::error::Result;
use crate::trainer::Sample;

/// The samples of these inputs, taught what `teacher` gives for them.
///
/// The teacher runs once for each, in the precision of `options`; `seen` is told how many are done.
///
/// # Errors
///
/// [`TrainError::Model`](crate::TrainError::Model) if the teacher cannot be planned or run.
pub fn taught(
    teacher: &Graph,
    inputs: Vec<Vec<(String, Tensor)>>,
    options: &RunOptions,
    mut seen: impl FnMut(usize),
) -> Result<Vec<Sample>> {
    let mut session = Model::from_graph(teacher.clone(), options)?.session();
    let mut samples = Vec::with_capacity(inputs.len());
    for inputs in inputs {
        let lent: Vec<_> = inputs.iter().map(|(name, t)| (name.as_str(), t)).collect();
        let targets = session.run(&lent)?;
        samples.push(Sample { inputs, targets });
        seen(samples.len());
    }
    Ok(samples)
}
