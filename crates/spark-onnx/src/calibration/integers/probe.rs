//! Runs parts of networks, to see what their values are.

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::{Graph, ValueId};
use crate::options::RunOptions;
use crate::{Model, ModelError, Precision, Session, Tensor};

/// Values of a network, and what of it makes them.
pub(super) struct Probe {
    /// None where all of them are inputs.
    session: Option<Session>,
    /// In the order in which the values were asked for.
    sources: Vec<Source>,
}

/// Where a value is to be had: a network's input need not be an output of it too, nor one output twice.
enum Source {
    Input(String),
    Output(usize),
}

impl Probe {
    /// For the values `ids` of `graph`, in f32 whatever `options` say.
    pub(super) fn new(
        graph: &Graph,
        ids: &[ValueId],
        options: &RunOptions,
    ) -> Result<Self, ModelError> {
        let mut made: Vec<ValueId> = Vec::new();
        let sources = ids.iter().map(|id| {
            if graph.inputs.contains(id) {
                return Source::Input(graph.value(*id).name.clone());
            }
            let there = made.iter().position(|made| made == id);
            Source::Output(there.unwrap_or_else(|| {
                made.push(*id);
                made.len() - 1
            }))
        });
        let sources = sources.collect();
        let mut options = options.clone().with_precision(Precision::Fp32);
        options.calibration = None;
        options.by_step = BTreeMap::new();
        let session = match made.is_empty() {
            true => None,
            false => Some(Model::from_graph(only(graph, &made), &options)?.session()),
        };
        Ok(Self { session, sources })
    }

    /// The values on one batch, in the order in which they were asked for.
    pub(super) fn values(&mut self, batch: &[(&str, &Tensor)]) -> Result<Vec<Tensor>, ModelError> {
        let outputs = match &mut self.session {
            None => Vec::new(),
            Some(session) => session.run(batch)?,
        };
        let values = self.sources.iter().map(|source| match source {
            Source::Output(at) => Ok(outputs[*at].1.clone()),
            Source::Input(wanted) => {
                let found = batch.iter().find(|(name, _)| name == wanted);
                let missing = || ModelError::InputMissing {
                    name: wanted.clone(),
                };
                found
                    .map(|(_, tensor)| (*tensor).clone())
                    .ok_or_else(missing)
            }
        });
        values.collect()
    }
}

/// What of `graph` makes the values `ids`, which become its outputs.
fn only(graph: &Graph, ids: &[ValueId]) -> Graph {
    let mut needed: BTreeSet<ValueId> = ids.iter().copied().collect();
    let mut nodes = Vec::new();
    for node in graph.nodes.iter().rev() {
        if node.outputs.iter().flatten().any(|id| needed.contains(id)) {
            needed.extend(node.inputs.iter().flatten());
            nodes.push(node.clone());
        }
    }
    nodes.reverse();
    Graph {
        nodes,
        outputs: ids.to_vec(),
        ..graph.clone()
    }
}
