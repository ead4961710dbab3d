//! What networks say of a sample: the half of a comparison that costs time.

use spark_onnx::{Model, RunOptions, Session};
use spark_onnx_graph::graph::Graph;

use crate::error::Result;
use crate::exact::in_f32;
use crate::layout::{Named, lent};
use crate::loss::OutputHeads;
use crate::network::AdaptedNetwork;
use crate::step::Evaluation;
use crate::trainer::Sample;

/// What is said of one sample, output by output; of outputs without heads nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// What is taught.
    pub targets: Vec<Named>,
    /// What each of the networks without adapter says.
    pub untouched: Vec<Vec<Named>>,
    /// What the trained network says; of samples that are held back.
    pub trained: Option<Vec<Named>>,
}

/// Networks that are asked about samples, one after the other, in any order.
#[derive(Debug)]
pub struct Examination<'n> {
    network: &'n AdaptedNetwork,
    heads: Vec<OutputHeads>,
    untouched: Vec<Session>,
    /// Planned for the first sample that is held back.
    evaluation: Option<Evaluation>,
    exact: RunOptions,
}

impl<'n> Examination<'n> {
    /// The trained network beside some without adapter, as [`compare`](super::compare) has them.
    ///
    /// # Errors
    ///
    /// [`TrainError::Model`](crate::TrainError::Model) if one of them cannot be planned.
    pub fn new(
        network: &'n AdaptedNetwork,
        untouched: &[&Graph],
        heads: &[OutputHeads],
        options: &RunOptions,
    ) -> Result<Self> {
        let session = |graph: &&Graph| -> Result<Session> {
            let graph = Graph::clone(graph);
            Ok(Model::from_graph(graph, options)?.session())
        };
        Ok(Self {
            network,
            heads: heads.to_vec(),
            untouched: untouched.iter().map(session).collect::<Result<_>>()?,
            evaluation: None,
            exact: in_f32(options),
        })
    }

    /// Asks about a sample.
    ///
    /// # Errors
    ///
    /// [`TrainError::Model`](crate::TrainError::Model) if a network cannot be run on it; as [`Evaluation`]'s for heads that the trained one
    /// does not have.
    pub fn answer(&mut self, sample: &Sample, is_held_back: bool) -> Result<Answer> {
        let inputs = lent(&sample.inputs);
        let mut untouched = Vec::with_capacity(self.untouched.len());
        for session in &mut self.untouched {
            untouched.push(with_heads(&self.heads, session.run(&inputs)?));
        }
        let targets = with_heads(&self.heads, sample.targets.clone());
        let trained = match is_held_back {
            false => None,
            true => {
                let evaluation = match &mut self.evaluation {
                    Some(evaluation) => evaluation,
                    none => {
                        let shapes = inputs.iter();
                        let shapes = shapes.map(|(name, tensor)| (*name, tensor.shape().to_vec()));
                        let shapes: Vec<_> = shapes.collect();
                        let (network, exact) = (self.network, &self.exact);
                        none.insert(Evaluation::new(network, &self.heads, &shapes, exact)?)
                    }
                };
                let result = evaluation.run(self.network, &inputs, &lent(&targets))?;
                Some(with_heads(&self.heads, result.outputs))
            }
        };
        Ok(Answer {
            targets,
            untouched,
            trained,
        })
    }
}

fn with_heads(heads: &[OutputHeads], mut outputs: Vec<Named>) -> Vec<Named> {
    outputs.retain(|(name, _)| heads.iter().any(|heads| heads.output == *name));
    outputs
}
