//! Another network as the teacher: what it says of every input is what is taught.

use spark_onnx::{Model, RunOptions, Session};
use spark_onnx_graph::graph::Graph;
use spark_onnx_graph::{DType, Tensor};

use crate::error::Result;
use crate::trainer::Sample;

/// A network that says what is taught.
///
/// Floats are taught as f32, which losses are in.
#[derive(Debug)]
pub struct Teacher {
    session: Session,
}

impl Teacher {
    /// It runs in the precision of `options`.
    ///
    /// # Errors
    ///
    /// [`TrainError::Model`](crate::TrainError::Model) if it cannot be planned.
    pub fn new(teacher: &Graph, options: &RunOptions) -> Result<Self> {
        let session = Model::from_graph(teacher.clone(), options)?.session();
        Ok(Self { session })
    }

    /// The sample of these inputs, taught what the teacher gives for them.
    ///
    /// # Errors
    ///
    /// [`TrainError::Model`](crate::TrainError::Model) if it cannot be run.
    pub fn sample(&mut self, inputs: Vec<(String, Tensor)>) -> Result<Sample> {
        let lent: Vec<_> = inputs.iter().map(|(name, t)| (name.as_str(), t)).collect();
        let outputs = self.session.run(&lent)?;
        let targets = outputs
            .into_iter()
            .map(|(name, tensor)| Ok((name, in_f32(tensor)?)));
        let targets = targets.collect::<Result<_>>()?;
        Ok(Sample { inputs, targets })
    }
}

/// The samples of all these inputs, as [`Teacher::sample`] makes them; `seen` is told how many are done.
///
/// # Errors
///
/// As [`Teacher::new`] and [`Teacher::sample`].
pub fn taught(
    teacher: &Graph,
    inputs: Vec<Vec<(String, Tensor)>>,
    options: &RunOptions,
    mut seen: impl FnMut(usize),
) -> Result<Vec<Sample>> {
    let mut teacher = Teacher::new(teacher, options)?;
    let mut samples = Vec::with_capacity(inputs.len());
    for inputs in inputs {
        samples.push(teacher.sample(inputs)?);
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
