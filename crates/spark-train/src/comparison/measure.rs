//! Losses of numbers that no network has just said: those of means, and of what a bias was taken off.

use spark_onnx::{Model, RunOptions, Session};
use spark_onnx_graph::graph::{Dim, Graph, bind};
use spark_onnx_graph::{DType, Tensor};

use super::numbers::Numbers;
use crate::error::Result;
use crate::layout::lent;
use crate::loss::{Losses, OutputHeads, add_losses};

/// Losses of any numbers.
#[derive(Debug)]
pub(super) struct Measure {
    session: Session,
    losses: Losses,
}

impl Measure {
    pub(super) fn new(
        heads: &[OutputHeads],
        numbers: &Numbers,
        options: &RunOptions,
    ) -> Result<Self> {
        let mut graph = Graph::default();
        for (name, shape) in &numbers.outputs {
            let dims = shape.iter().map(|&extent| Dim::Known(extent)).collect();
            let given = graph.add_input(name, DType::F32, dims);
            graph.outputs.push(given);
        }
        let bound = bind(&graph, &[])?;
        let losses = add_losses(&mut graph, &bound, heads)?;
        let session = Model::from_graph(graph, options)?.session();
        Ok(Self { session, losses })
    }

    /// The loss of each head, and behind them their weighted sum.
    pub(super) fn run(
        &mut self,
        numbers: &Numbers,
        values: &[Vec<f64>],
        targets: &[Vec<f64>],
    ) -> Result<Vec<f64>> {
        let as_tensors = |values: &[Vec<f64>]| -> Result<Vec<(String, Tensor)>> {
            let outputs = numbers.outputs.iter().zip(values);
            let tensor = |((name, shape), values): (&(String, Vec<usize>), &Vec<f64>)| {
                let values = values.iter().map(|&value| value as f32).collect();
                Ok((name.clone(), Tensor::from_f32(shape.clone(), values)?))
            };
            outputs.map(tensor).collect()
        };
        let (values, targets) = (as_tensors(values)?, as_tensors(targets)?);
        let mut given = lent(&values);
        given.extend(self.losses.given(&lent(&targets))?);
        let mut results = self.session.run(&given)?;
        let losses = results.split_off(numbers.outputs.len());
        let (loss, parts) = self.losses.read(losses);
        let parts = parts.into_iter().map(|(_, part)| part);
        Ok(parts.chain([loss]).collect())
    }
}
