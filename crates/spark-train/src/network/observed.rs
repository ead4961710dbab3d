//! What the linear layers of a network read, so that their adapters can begin by it (EVA).
//!
//! ```text
//! network, cut to what its adapted linear layers read ──some samples, one at a time──> ExplainedVariance
//! ```
//!
//! A layer whose weight stands at several places reads all of them. Layers that read the same value are observed once.
//!
//! Deliberately absent: convolutions, which begin as their settings say; [`spark_dora::eva`] says the same.

use std::collections::{BTreeMap, BTreeSet};

use candle_core::{Device, Tensor as Candle};
use spark_dora::eva::Begun;
use spark_dora::{EvaSettings, ExplainedVariance};
use spark_onnx::{Model, RunOptions, Session};
use spark_onnx_graph::Tensor;
use spark_onnx_graph::graph::{Graph, ValueId};

use super::head::without_unneeded;
use super::layer::{Adapted, Trained};
use super::{AdaptedNetwork, LayerSummary, layers};
use crate::error::{Result, TrainError};
use crate::exact::exact;
use crate::trainer::{Samples, evenly_spread};

impl AdaptedNetwork {
    /// What the adapted linear layers read on `n` of these samples, evenly spread, where training begins: with weights rounded as
    /// training sees them, and activations too, but for what enters the layer itself, which is taken before it is rounded. It is for a network that is not [cut](AdaptedNetwork::cut). Samples are read and run one at a time; `seen` is told how
    /// many are done.
    ///
    /// [`ExplainedVariance::ranks`] shares ranks out by it, for settings that a network is made with anew;
    /// [`AdaptedNetwork::begin`] sets A.
    ///
    /// # Errors
    ///
    /// [`TrainError::NothingObserved`] if no linear layer has an A; [`TrainError::TooFewSamples`] without samples, [`TrainError::Sample`] for one that
    /// cannot be read; [`TrainError::Model`] for one that the network does not take; [`TrainError::NotExact`] for options of another precision than
    /// fp32; [`TrainError::Dora`] as of [`ExplainedVariance::observe`].
    ///
    /// # Examples
    ///
    /// ```
    /// use spark_dora::{DoraConfig, EvaSettings};
    /// use spark_onnx::RunOptions;
    /// use spark_onnx_graph::graph::{Dim, Graph, MatMul, Op};
    /// use spark_onnx_graph::{DType, Tensor};
    /// use spark_train::{AdaptedNetwork, Sample};
    ///
    /// let mut graph = Graph::default();
    /// let x = graph.add_input("x", DType::F32, vec![Dim::Known(1), Dim::Known(2)]);
    /// let w = graph.add_constant("fc.weight", Tensor::from_f32([2, 3], vec![1.0; 6])?);
    /// let y = graph.add_node("y", Op::MatMul(MatMul), &[Some(x), Some(w)]);
    /// graph.outputs.push(y);
    /// let sample = |x: [f32; 2]| -> Result<Sample, spark_onnx::ModelError> {
    ///     let x = Tensor::from_f32([1, 2], x.to_vec())?;
    ///     Ok(Sample { inputs: vec![("x".into(), x)], targets: Vec::new() })
    /// };
    /// let samples = vec![sample([3.0, 4.0])?, sample([-3.0, -4.0])?];
    ///
    /// let mut network = AdaptedNetwork::new(graph, DoraConfig::builder(1).build()?)?;
    /// let mut variance = network.observed(&samples, 2, EvaSettings::default(), &RunOptions::new(), |_| ())?;
    /// let begun = network.begin(&mut variance)?;
    /// assert!((begun.layers[0].explained - 1.0).abs() < 1e-12);
    /// assert_eq!(network.factors()?[0].1.to_f32(), [0.6, 0.8]); // A
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn observed(
        &self,
        samples: &dyn Samples,
        n: usize,
        settings: EvaSettings,
        options: &RunOptions,
        mut seen: impl FnMut(usize),
    ) -> Result<ExplainedVariance> {
        let mut variance = ExplainedVariance::new(settings)?;
        let read = self.read_by_layers();
        if read.is_empty() {
            return Err(TrainError::NothingObserved {
                available: linear_layers(&self.base),
            });
        }
        let n = n.min(samples.len());
        if n == 0 {
            return Err(TrainError::TooFewSamples { got: 0, want: 1 });
        }
        let mut values = Values::new(&self.graph, &read, options, || self.factors())?;
        // Layers of the same values go with the first of them.
        let mut first: BTreeMap<&[ValueId], &str> = BTreeMap::new();
        let mut shared = Vec::new();
        for (name, ids) in &read {
            match first.get(ids.as_slice()) {
                Some(of) => shared.push((*name, *of)),
                None => drop(first.insert(ids, name)),
            }
        }
        for (done, index) in evenly_spread(n, samples.len()).enumerate() {
            let sample = samples.sample(index);
            let sample = sample.map_err(|source| TrainError::Sample { index, source })?;
            values.run(&sample.inputs)?;
            for (ids, name) in &first {
                for id in *ids {
                    let x = values.of(*id)?;
                    let shape = x.shape().to_vec();
                    variance.observe(name, &Candle::from_vec(x.to_f32(), shape, &Device::Cpu)?)?;
                }
            }
            seen(done + 1);
        }
        for (name, of) in shared {
            variance.reads_as(name, of)?;
        }
        Ok(variance)
    }

    /// Sets A of the adapted linear layers to the directions in which their inputs vary: [`ExplainedVariance::begin`].
    ///
    /// # Errors
    ///
    /// [`TrainError::Dora`] as there.
    pub fn begin(&mut self, variance: &mut ExplainedVariance) -> Result<Begun> {
        Ok(variance.begin(&mut self.adapter)?)
    }

    /// Names of the adapted linear layers with what their nodes read.
    fn read_by_layers(&self) -> Vec<(&str, Vec<ValueId>)> {
        let of = |(position, how): &(usize, Trained)| {
            let Trained::Adapted(Adapted::Linear(adapted)) = how else {
                return None;
            };
            adapted.factors().a()?;
            let layer = &self.layers[*position];
            let nodes = layer.nodes.iter().map(|&node| &self.base.nodes[node]);
            let read = nodes.filter_map(|node| node.inputs.first().copied().flatten());
            Some((layer.name.as_str(), read.collect()))
        };
        self.trained.iter().filter_map(of).collect()
    }
}

/// Names of the layers of a network that may be observed.
fn linear_layers(graph: &Graph) -> Vec<String> {
    let linear = layers(graph).into_iter();
    let linear = linear.filter(|layer: &LayerSummary| layer.shape.len() == 2);
    linear.map(|layer| layer.name).collect()
}

/// Some values of a network, for one sample after the other.
struct Values {
    graph: Graph,
    session: Session,
    factors: Vec<(String, Tensor)>,
    /// Of the last sample, by the value's position.
    computed: BTreeMap<ValueId, Tensor>,
}

impl Values {
    fn new(
        graph: &Graph,
        read: &[(&str, Vec<ValueId>)],
        options: &RunOptions,
        factors: impl FnOnce() -> Result<Vec<(String, Tensor)>>,
    ) -> Result<Self> {
        let mut graph = graph.clone();
        let wanted: BTreeSet<ValueId> = read.iter().flat_map(|(_, ids)| ids).copied().collect();
        let is_given =
            |id: &ValueId| graph.inputs.contains(id) || graph.value(*id).constant.is_some();
        let outputs = wanted.into_iter().filter(|id| !is_given(id));
        graph.outputs = outputs.collect();
        graph.nodes = without_unneeded(std::mem::take(&mut graph.nodes), &graph.outputs);
        let session = Model::from_graph(graph.clone(), &exact(options)?)?.session();
        Ok(Self {
            graph,
            session,
            factors: factors()?,
            computed: BTreeMap::new(),
        })
    }

    fn run(&mut self, sample: &[(String, Tensor)]) -> Result<()> {
        let given = sample.iter().chain(&self.factors);
        let given: Vec<(&str, &Tensor)> = given.map(|(name, t)| (name.as_str(), t)).collect();
        let results = self.session.run(&given)?;
        let ids = self.graph.outputs.iter().copied();
        self.computed = ids.zip(results.into_iter().map(|(_, t)| t)).collect();
        let inputs = self.graph.inputs.iter().copied();
        for id in inputs {
            let name = &self.graph.value(id).name;
            if let Some((_, tensor)) = sample.iter().find(|(of, _)| of == name) {
                self.computed.insert(id, tensor.clone());
            }
        }
        Ok(())
    }

    fn of(&self, id: ValueId) -> Result<&Tensor> {
        let value = self.graph.value(id);
        let found = self.computed.get(&id).or(value.constant.as_deref());
        found.ok_or_else(|| TrainError::NoValue {
            name: value.name.clone(),
        })
    }
}
