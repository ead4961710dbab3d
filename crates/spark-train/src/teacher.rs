//! Another network as the teacher: what it says of every input is what is taught.

use spark_onnx::{Model, RunOptions};
use spark_onnx_graph::graph::Graph;
use spark_onnx_graph::{DType, Tensor};

use crate::error::Result;
use crate::trainer::Sample;

/// The samples of these inputs, taught what `teacher` gives for them.
///
/// Floats are taught as f32, which losses are in. The teacher runs once for each, in the precision of `options`; `seen` is told how many are done.
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
        let outputs = session.run(&lent)?;
        let targets = outputs
            .into_iter()
            .map(|(name, tensor)| Ok((name, in_f32(tensor)?)));
        let targets = targets.collect::<Result<_>>()?;
        samples.push(Sample { inputs, targets });
        seen(samples.len());
    }
    Ok(samples)
}

fn in_f32(tensor: Tensor) -> Result<Tensor> {
    match tensor.dtype() {
        DType::F16 | DType::BF16 | DType::F64 => {
            Ok(Tensor::from_f32(tensor.shape(), tensor.to_f32())?)
        }
        _ => Ok(tensor),
    }
}
