//! A network under an adapter: its layers by name, the graph that is trained, the graph that is shipped.
//!
//! ```text
//! ONNX graph ──layers──> names and weights ──offered──> spark_dora::Adapter: variables, PEFT's files, merging
//!     │ rewrite
//!     ▼
//! adapted graph: factors are inputs            merged graph: the file's nodes with other constants
//! and another with dropout, for steps
//! ```

mod batch;
mod bias;
mod calibrated;
mod constant;
mod deployment;
mod dropped;
mod formed;
mod head;
mod in_turn;
mod inputs;
mod layer;
mod layers;
mod normalized;
mod observed;
mod port;
mod rewrite;
mod trunk;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use candle_core::{DType, Device, Tensor as Candle, Var};
use spark_dora::optim::Gradients;
use spark_dora::{Adapter, DoraConfig, DoraError, NetworkReport};
use spark_onnx::Precision;
use spark_onnx::precision::Activations;
use spark_onnx_graph::Tensor;
use spark_onnx_graph::graph::{Graph, ValueId};

use crate::error::{Result, TrainError};
pub use batch::with_free_batch;
pub use calibrated::with_calibrated_weights;
use constant::{Operand, replace};
pub use deployment::Deployment;
pub use head::{with_head, with_outputs};
use layer::{Trained, candle_weight, offer};
use layers::{Form, Layer};
use port::Port;
use rewrite::{Rewritten, Site, rewrite};
pub use trunk::Trunk;

/// A layer of a network that an adapter may mean.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LayerSummary {
    /// As in the program that exported the network: its weight's name without `.weight`.
    pub name: String,
    /// Shape of the weight, `[out, in]` or `[out, in / groups, kernel..]`.
    pub shape: Vec<usize>,
    /// Groups of channels that do not see each other.
    pub groups: usize,
    /// Whether it has a bias that can be trained: one number in f32 for each output, `[out]`, which a convolution or Gemm reads or an Add behind
    /// a MatMul adds.
    pub has_bias: bool,
}

impl LayerSummary {
    /// The largest rank of an update of the weight: that of the weight.
    pub fn largest_rank(&self) -> usize {
        let columns = self.shape[1..].iter().product();
        self.shape[0].min(columns)
    }
}

/// The layers of a network that an adapter may mean, in the order in which they compute.
///
/// # Examples
///
/// ```
/// use spark_onnx_graph::graph::{Dim, Graph, MatMul, Op};
/// use spark_onnx_graph::{DType, Tensor};
///
/// let mut graph = Graph::default();
/// let x = graph.add_input("x", DType::F32, vec![Dim::Known(1), Dim::Known(2)]);
/// let w = graph.add_constant("trunk.fc.weight", Tensor::from_f32([2, 3], vec![1.0; 6])?);
/// let y = graph.add_node("y", Op::MatMul(MatMul), &[Some(x), Some(w)]);
/// graph.outputs.push(y);
/// let layers = spark_train::layers(&graph);
/// assert_eq!((layers[0].name.as_str(), &layers[0].shape[..]), ("trunk.fc", &[3, 2][..]));
/// # Ok::<(), spark_onnx_graph::ModelError>(())
/// ```
pub fn layers(graph: &Graph) -> Vec<LayerSummary> {
    let found = layers::layers(graph).into_iter();
    let summary = |layer: Layer| {
        let stored = graph.value(layer.stored).constant.as_ref()?;
        let mut shape = stored.shape().to_vec();
        let groups = match &layer.form {
            Form::Conv(conv) => conv.groups,
            Form::Linear { is_transposed } => {
                if *is_transposed {
                    shape.reverse();
                }
                1
            }
        };
        Some(LayerSummary {
            has_bias: layer.bias.is_some(),
            name: layer.name,
            shape,
            groups,
        })
    };
    found.filter_map(summary).collect()
}

/// A network whose adapter is trained.
pub struct AdaptedNetwork {
    base: Graph,
    layers: Vec<Layer>,
    adapter: Adapter,
    /// What is trained, with the position of its layer.
    trained: Vec<(usize, Trained)>,
    graph: Graph,
    /// The graph of training and its input that counts passes, where that is another one.
    dropping: Option<(Graph, ValueId)>,
    ports: Vec<Port>,
    /// What weights are rounded to.
    precision: Option<Precision>,
    /// How activations enter layers of that format.
    activations: Activations,
    /// Values that the graph of training has in common with the other.
    n_common_values: usize,
    /// Names of layers whose operands are rounded in one run at a time alone.
    without_batches: Vec<String>,
}

impl fmt::Debug for AdaptedNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdaptedNetwork")
            .field("layers", &self.adapter.adapted().collect::<Vec<_>>())
            .field("size", &self.adapter.size())
            .finish_non_exhaustive()
    }
}

/// A network with the adapter in its weights.
#[derive(Debug, Clone)]
pub struct MergedNetwork {
    /// The network as it was, with other constants: no node more, none less. A weight that others read too stays for them.
    pub graph: Graph,
    /// What was changed, and how much.
    pub report: NetworkReport,
}

impl AdaptedNetwork {
    /// Puts a new adapter on a network.
    ///
    /// # Errors
    ///
    /// [`TrainError::Dora`] for settings that are refused and weights that are not finite numbers; [`TrainError::NoLayer`] for
    /// targets that no layer has; [`TrainError::NothingTrained`] if no layer is meant.
    pub fn new(graph: Graph, config: DoraConfig) -> Result<Self> {
        Self::deployed(graph, config, &Deployment::exact())
    }

    /// The same of a network that will be run with rounded weights, and maybe activations, which training then sees.
    ///
    /// # Errors
    ///
    /// As [`AdaptedNetwork::new`]; [`TrainError::FoldedBehind`].
    pub fn deployed(graph: Graph, config: DoraConfig, deployment: &Deployment) -> Result<Self> {
        let adapter = Adapter::new(config, DType::F32, &Device::Cpu)?;
        let available = || layers(&graph).into_iter().map(|layer| layer.name).collect();
        match Self::with(graph.clone(), adapter, deployment) {
            // Nothing is left over of files that there are none of.
            Err(TrainError::Dora(DoraError::Tensors { missing, .. })) => Err(TrainError::NoLayer {
                names: missing,
                available: available(),
            }),
            result => result,
        }
    }

    /// Puts the adapter in a folder, as PEFT or [`Adapter::save`] wrote it, on a network.
    ///
    /// # Errors
    ///
    /// As [`Adapter::open`] and [`AdaptedNetwork::new`]; also if the adapter was trained on other weights.
    pub fn open(graph: Graph, folder: &Path, deployment: &Deployment) -> Result<Self> {
        let adapter = Adapter::open(folder, DType::F32, &Device::Cpu)?;
        Self::with(graph, adapter, deployment)
    }

    fn with(base: Graph, mut adapter: Adapter, deployment: &Deployment) -> Result<Self> {
        let layers = layers::layers(&base);
        let mut trained = Vec::new();
        for (position, layer) in layers.iter().enumerate() {
            if let Some(how) = offer(&mut adapter, &base, layer)? {
                trained.push((position, how));
            }
        }
        adapter.finish()?;
        if trained.is_empty() {
            return Err(TrainError::NothingTrained {
                available: layers.into_iter().map(|layer| layer.name).collect(),
            });
        }
        let mut batched = with_free_batch(base.clone());
        let mut sites = Vec::with_capacity(trained.len());
        let mut how = trained.iter().peekable();
        for (position, layer) in layers.iter().enumerate() {
            let rounding = deployment.rounding(&base, layer)?;
            let how = how.next_if(|(of, _)| *of == position).map(|(_, how)| how);
            if let (None | Some(Trained::Biased), Some(rounding)) = (how, &rounding) {
                rounding.round_constant(&mut batched, layer)?;
            }
            if let Some(trained) = how {
                sites.push(Site {
                    layer,
                    trained,
                    rounding,
                    bias: adapter.bias(&layer.name).cloned(),
                });
            }
        }
        let operands = deployment.operands(&mut batched);
        let alone = operands.iter().filter(|(_, it)| it.op.len.is_some());
        let name = |(node, _): (&usize, _)| {
            let of = layers.iter().find(|layer| layer.nodes.contains(node));
            of.map_or(&base.nodes[*node].name, |layer| &layer.name)
                .clone()
        };
        let without_batches = alone.map(name).collect();
        let n_common_values = batched.values.len();
        let drops = adapter.config().lora_dropout != 0.0;
        let dropping = match drops {
            true => {
                let written = rewrite(batched.clone(), &sites, &operands, true)?;
                written.pass.map(|pass| (written.graph, pass))
            }
            false => None,
        };
        let Rewritten { graph, ports, .. } = rewrite(batched, &sites, &operands, false)?;
        drop(sites);
        Ok(Self {
            base,
            layers,
            adapter,
            trained,
            graph,
            dropping,
            ports,
            precision: deployment.precision(),
            activations: deployment.activations(),
            n_common_values,
            without_batches,
        })
    }

    /// The network without its adapter.
    pub fn base(&self) -> &Graph {
        &self.base
    }

    /// The network with its adapter, [for any number of samples](with_free_batch), whose factors are inputs behind its own:
    /// [`AdaptedNetwork::factors`].
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The graph that steps of training compute: with dropout, if the adapter has any, and then one more input, `dropout.pass`, behind
    /// the factors. Everything else is as in [`AdaptedNetwork::graph`], which is what is evaluated.
    pub fn training_graph(&self) -> &Graph {
        self.dropping
            .as_ref()
            .map_or(&self.graph, |(graph, _)| graph)
    }

    /// The input of [`AdaptedNetwork::training_graph`] that says which masks a pass has.
    pub(crate) fn pass(&self) -> Option<&str> {
        let (graph, pass) = self.dropping.as_ref()?;
        Some(graph.value(*pass).name.as_str())
    }

    /// Layers for which the network takes one run at a time, though [its graph](AdaptedNetwork::graph) is one for any number of samples: what
    /// they read is [rounded](Deployment::with_activations), and the samples of a batch would share scales.
    pub fn layers_without_batches(&self) -> &[String] {
        &self.without_batches
    }

    /// The variables, their files and sizes.
    pub fn adapter(&self) -> &Adapter {
        &self.adapter
    }

    /// Inputs of [`AdaptedNetwork::graph`] for the present values of the variables.
    ///
    /// # Errors
    ///
    /// As candle's.
    pub fn factors(&self) -> Result<Vec<(String, Tensor)>> {
        let of = |port: &Port| {
            let (layer, trained) = self.trained_at(port);
            Ok((port.input.clone(), port.value(layer, trained)?))
        };
        self.ports.iter().map(of).collect()
    }

    fn trained_at(&self, port: &Port) -> (&Layer, &Trained) {
        let (layer, trained) = &self.trained[port.layer];
        (&self.layers[*layer], trained)
    }

    /// Cuts the network where its first adapted layers read: the trunk, and the network that is left, whose samples are those that
    /// [`Trunk::cached`] makes. `of_one` has the shapes of one sample's inputs.
    ///
    /// Steps of what is left are those of the whole, and it is merged into the whole; only what [`AdaptedNetwork::graph`] computes is less.
    ///
    /// # Errors
    ///
    /// [`TrainError::NoTrunk`] if every node hangs on an adapted layer; [`TrainError::NotBySample`] if the first extent of what would be kept is not the
    /// number of samples; [`TrainError::Model`] for inputs that the network does not have, and a trunk that does not take two samples.
    ///
    /// # Examples
    ///
    /// ```
    /// use spark_dora::DoraConfig;
    /// use spark_onnx::RunOptions;
    /// use spark_onnx_graph::graph::{Dim, Graph, MatMul, Op};
    /// use spark_onnx_graph::{DType, Tensor};
    /// use spark_train::{AdaptedNetwork, Sample, Samples};
    ///
    /// let mut graph = Graph::default();
    /// let x = graph.add_input("x", DType::F32, vec![Dim::Known(1), Dim::Known(2)]);
    /// let a = graph.add_constant("trunk.weight", Tensor::from_f32([2, 2], vec![1.0, 2.0, 3.0, 4.0])?);
    /// let b = graph.add_constant("head.weight", Tensor::from_f32([2, 2], vec![1.0, 0.0, 0.0, 1.0])?);
    /// let h = graph.add_node("h", Op::MatMul(MatMul), &[Some(x), Some(a)]);
    /// let y = graph.add_node("y", Op::MatMul(MatMul), &[Some(h), Some(b)]);
    /// graph.outputs.push(y);
    ///
    /// let network = AdaptedNetwork::new(graph, DoraConfig::builder(1).targets(["head"]).build()?)?;
    /// let (trunk, network) = network.cut(&[("x", vec![1, 2])])?;
    /// let x = Tensor::from_f32([1, 2], vec![1.0, 1.0])?;
    /// let samples = vec![Sample { inputs: vec![("x".into(), x)], targets: Vec::new() }];
    /// let cached = trunk.cached(&samples, &std::env::temp_dir(), &RunOptions::new(), |_| ())?;
    /// assert_eq!(cached.sample(0)?.inputs[0].1.to_f32(), [4.0, 6.0]); // `h`, which is all that the rest reads
    /// assert!(network.graph().nodes.iter().all(|node| node.name != "h"));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn cut(mut self, of_one: &[(&str, Vec<usize>)]) -> Result<(Trunk, Self)> {
        let names: BTreeSet<&str> = self.ports.iter().map(|port| port.input.as_str()).collect();
        let factors = |graph: &Graph, pass: Option<ValueId>| {
            let inputs = graph.inputs.iter().copied();
            let is_factor = |id: &ValueId| names.contains(graph.value(*id).name.as_str());
            inputs
                .filter(|id| is_factor(id) || Some(*id) == pass)
                .collect()
        };
        // Of the two graphs the one with dropout reads more: where a layer trains its magnitude alone, the other has no use for what the layer reads.
        let (mut same, mut kept) = (None, BTreeSet::new());
        if let Some((graph, pass)) = &mut self.dropping {
            let of_graph = factors(graph, Some(*pass));
            let (trunk, read) = trunk::cut(graph, (&of_graph, &kept), of_one)?;
            same = Some(trunk);
            // Those that were there before adapters were written are the same in both.
            kept = read
                .range(..ValueId(self.n_common_values))
                .copied()
                .collect();
        }
        let of_graph = factors(&self.graph, None);
        let (trunk, _) = trunk::cut(&mut self.graph, (&of_graph, &kept), of_one)?;
        debug_assert!(
            same.is_none_or(|same| same.is_cut_as(&trunk)),
            "one trunk for both graphs"
        );
        Ok((trunk, self))
    }

    /// What tells the network without its adapter from others: a CRC-32 of its nodes and constants.
    pub fn fingerprint(&self) -> String {
        let mut hash = crc32fast::Hasher::new();
        for node in &self.base.nodes {
            hash.update(format!("{:?} {:?} {:?}", node.op, node.inputs, node.outputs).as_bytes());
        }
        for constant in self.base.values.iter().filter_map(|v| v.constant.as_ref()) {
            for value in constant.to_f64() {
                hash.update(&value.to_le_bytes());
            }
        }
        format!("{:08x}", hash.finalize())
    }

    /// What tells the adapter's variables from others: a CRC-32 of all their bits.
    ///
    /// # Errors
    ///
    /// As candle's.
    pub fn fingerprint_of_variables(&self) -> Result<String> {
        let mut hash = crc32fast::Hasher::new();
        for var in self.adapter.variables().all() {
            for value in flat(var)? {
                hash.update(&value.to_le_bytes());
            }
        }
        Ok(format!("{:08x}", hash.finalize()))
    }

    /// What the numbers of training hang on here, by name: the network's nodes and constants, the adapter's settings, the precision.
    pub(crate) fn identity(&self) -> Vec<(String, String)> {
        let precision = self.precision.map(|precision| precision.to_string());
        let mut named = vec![("network".to_owned(), self.fingerprint())];
        named.extend(settings_of(self.adapter.config()));
        named.push((
            "precision of weights".to_owned(),
            precision.unwrap_or_else(|| "exact".to_owned()),
        ));
        // Runs that were begun before there was a choice have no such line.
        if self.activations == Activations::Quantised {
            named.push(("activations".to_owned(), "rounded".to_owned()));
        }
        named
    }

    /// The variables in the order in which optimisers have them, by the names of their inputs.
    pub(crate) fn named_variables(&self) -> Vec<(String, Var)> {
        let groups = self.adapter.variables();
        let name = |var: &Var| {
            let mut names = self.ports.iter().map(|port| port.name_of(var));
            names.find_map(|name| name).unwrap_or_default()
        };
        groups.all().map(|var| (name(var), var.clone())).collect()
    }

    /// Names of the inputs that the factors are.
    pub(crate) fn factor_names(&self) -> impl Iterator<Item = &str> {
        self.ports.iter().map(|port| port.input.as_str())
    }

    /// Gradients of the variables, from those of the inputs in the order of their names.
    pub(crate) fn gradients(&self, of_inputs: &[Tensor]) -> Result<Gradients> {
        let mut pairs = Vec::with_capacity(self.ports.len());
        for (port, gradient) in self.ports.iter().zip(of_inputs) {
            let (layer, trained) = self.trained_at(port);
            pairs.extend(port.gradients(layer, trained, gradient)?);
        }
        Ok(Gradients::from_pairs(pairs))
    }

    /// The network as it is shipped: the adapter is in the constants, which keep their shapes and element types.
    ///
    /// # Errors
    ///
    /// As [`Adapter::merge`].
    pub fn merged(&self) -> Result<MergedNetwork> {
        let mut weights = BTreeMap::new();
        for (position, _) in &self.trained {
            let layer = &self.layers[*position];
            if let Some(weight) = candle_weight(&self.base, layer)? {
                weights.insert(format!("{}.weight", layer.name), weight);
            }
            if let Some(bias) = layer
                .bias
                .as_ref()
                .and_then(|bias| self.base.value(bias.constant).constant.as_deref())
            {
                let bias = Candle::from_vec(bias.to_f32(), bias.len(), &Device::Cpu)?;
                weights.insert(format!("{}.bias", layer.name), bias);
            }
        }
        let (merged, report) = self.adapter.merge(weights)?;
        let mut graph = self.base.clone();
        for (position, how) in &self.trained {
            let layer = &self.layers[*position];
            if let Some(weight) = merged.get(&format!("{}.weight", layer.name)) {
                let values = flat(weight)?;
                let (shape, values) = layer.turned(weight.dims(), values);
                replace(&mut graph, layer, Operand::Weight, (shape, &values))?;
            }
            let bias = merged.get(&format!("{}.bias", layer.name));
            let is_trained =
                matches!(how, Trained::Saved(_)) || self.adapter.bias(&layer.name).is_some();
            if let (true, Some(bias)) = (is_trained, bias) {
                let values = flat(bias)?;
                let of_bias = (bias.dims().to_vec(), values.as_slice());
                replace(&mut graph, layer, Operand::Bias, of_bias)?;
            }
        }
        Ok(MergedNetwork { graph, report })
    }
}

fn flat(tensor: &Candle) -> Result<Vec<f32>> {
    Ok(tensor.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?)
}

/// An adapter's settings one by one, by PEFT's names, so that of two runs it can be told in which they differ.
fn settings_of(config: &DoraConfig) -> Vec<(String, String)> {
    let name = |setting: &str| format!("adapter's {setting}");
    // What its file does not hold.
    let mut named = vec![
        (name("initial values"), format!("{:?}", config.init)),
        (name("seed"), config.seed.to_string()),
    ];
    match serde_json::to_value(config) {
        Ok(serde_json::Value::Object(settings)) => {
            let settings = settings.into_iter();
            named.extend(settings.map(|(key, value)| (name(&key), value.to_string())));
        }
        _ => named.push((name("settings"), format!("{config:?}"))),
    }
    named
}
