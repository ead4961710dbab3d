//! What a run is made of: network, teacher, samples, adapter.

use std::error::Error;
use std::ops::Range;
use std::path::{Path, PathBuf};

use spark_program::{about, tell};
use sparkpilot::dora::loss::{Head, HeadKind};
use sparkpilot::dora::{Adapter, Biases, DoraConfig};
use sparkpilot::onnx::graph::{Dim, Graph, Node, Op};
use sparkpilot::onnx::precision::Activations;
use sparkpilot::onnx::{Precision, RunOptions, Tensor};
use sparkpilot::train::{
    AdaptedNetwork, Deployment, LayerSummary, OutputHeads, SampleRange, Samples, StoredSamples,
    digest, driving_heads, layers,
};

use super::calibrated;
use super::networks::Network;
use super::run::{BiasesOf, Format, Options, Run, Taught, plain, usage};
use super::samples;

/// Everything that the options name.
pub(crate) struct Material {
    /// The network that is tuned.
    pub(crate) graph: Graph,
    /// The same before its weights were calibrated, if they were.
    pub(crate) uncalibrated: Option<Graph>,
    pub(crate) deployment: Deployment,
    /// What is taught: heads that weigh something.
    pub(crate) heads: Vec<OutputHeads>,
    /// What is judged: all heads.
    pub(crate) judged: Vec<OutputHeads>,
    samples: StoredSamples,
    training: Range<usize>,
    held_back: Range<usize>,
    /// Logs and videos of drives that could not be read.
    pub(crate) left_out: Vec<PathBuf>,
}

impl Material {
    pub(crate) fn read(run: &Run) -> Result<Self, Box<dyn Error>> {
        let Options {
            model,
            val_split,
            gap,
            batch_size,
            ..
        } = &run.options;
        let network = Network::load(model)?;
        let teacher = match &run.options.teacher {
            Some(path) => Network::load(path)?,
            None => network.clone(),
        };
        let graph = &network.graph;
        check_finite(graph, model)?;
        if let Some(path) = &run.options.teacher {
            check_finite(&teacher.graph, path)?;
            check_outputs([graph, &teacher.graph], [model, path])?;
        }
        let driving = match run.options.heads {
            Taught::Numbers => None,
            Taught::Driving => {
                let own = driving(graph, model)?;
                if let Some(path) = &run.options.teacher
                    && driving(&teacher.graph, path)? != own
                {
                    return usage(&format!(
                        "--teacher: the heads of `{}` do not lie where those of `{}` lie",
                        path.display(),
                        model.display()
                    ));
                }
                Some(own)
            }
        };
        check_weights(&run.options.head_weight, graph, driving.as_deref())?;
        // Before pictures are read, which takes long: it may refuse the network.
        let deployment = deployment(run, graph)?;
        let (samples, untaken) = samples::read(run, [&network, &teacher])?;
        let n = samples.len();
        let n_held_back = (n as f64 * val_split).round() as usize;
        let n_training = n.saturating_sub(n_held_back + gap);
        if n_training < *batch_size {
            let few = format!(
                "of {n} frames {n_held_back} are held back (--val-split) and {gap} left out (--gap): {n_training} are left, fewer than the {batch_size} of a step (--batch-size)"
            );
            return match untaken.left_out.len() + untaken.n_cut {
                0 => usage(&few),
                // With what cannot be read there would be more.
                n => Err(format!("{few}; {n} logs and videos cannot be read to their end").into()),
            };
        }
        if n_held_back == 0 && *val_split > 0.0 {
            let none = format!("--val-split: {val_split} of {n} frames holds back none");
            match run.json {
                Some(_) => return usage(&format!("{none}, so that --json has no result")),
                None => tell(none),
            }
        }
        let first = samples.sample(0).map_err(plain)?;
        let judged = judged(run, &network.graph, &first.targets)?;
        let heads = taught_of(judged.clone())?;
        Ok(Self {
            graph: network.graph,
            uncalibrated: None,
            deployment,
            heads,
            judged,
            training: 0..n_training,
            held_back: n - n_held_back..n,
            samples,
            left_out: untaken.left_out,
        })
    }

    /// Takes the network with calibrated weights, if the run has them: that in its folder, or a new one.
    pub(crate) fn calibrate(&mut self, run: &Run, begins: bool) -> Result<(), Box<dyn Error>> {
        let (Some(n), Some(precision)) = (run.options.calibrate, self.deployment.precision())
        else {
            return Ok(());
        };
        let n_training = self.training.len();
        if n > n_training {
            tell(format!(
                "--calibrate: there are {n_training} frames to train on, and all of them are taken"
            ));
        }
        let kept = match begins {
            true => None,
            false => calibrated::kept(&run.folder)?,
        };
        let graph = match kept {
            Some(graph) => graph,
            None => calibrated::made(&self.graph, &self.training(), n, precision)?,
        };
        self.uncalibrated = Some(std::mem::replace(&mut self.graph, graph));
        Ok(())
    }

    pub(crate) fn training(&self) -> SampleRange<'_> {
        SampleRange::new(&self.samples, self.training.clone())
    }

    pub(crate) fn held_back(&self) -> SampleRange<'_> {
        SampleRange::new(&self.samples, self.held_back.clone())
    }

    /// What tells the frames from others, of both parts.
    pub(crate) fn frames(&self) -> Result<[String; 2], Box<dyn Error>> {
        Ok([digest(&self.training())?, digest(&self.held_back())?])
    }

    /// The network under a new adapter.
    pub(crate) fn adapted(&self, run: &Run) -> Result<AdaptedNetwork, Box<dyn Error>> {
        let options = &run.options;
        let rank = options.dora_rank;
        let config = DoraConfig::builder(rank)
            .alpha(options.dora_alpha.unwrap_or(rank as f64))
            .seed(options.seed)
            .dropout(options.lora_dropout.unwrap_or(0.0))
            .modules_to_save(options.whole.clone())
            .biases(match options.biases {
                None => Biases::None,
                Some(BiasesOf::Adapted) => Biases::LoraOnly,
                Some(BiasesOf::All | BiasesOf::Alone) => Biases::All,
            });
        if options.biases == Some(BiasesOf::Alone) {
            if !options.targets.is_empty() {
                return usage("--targets: `--biases alone` has no adapters");
            }
            if options.lora_dropout.is_some() {
                return usage("--lora-dropout: `--biases alone` has no adapters");
            }
            if !layers(&self.graph).iter().any(|layer| layer.has_bias) {
                return no_bias(&self.graph);
            }
            let config = config.targets([""; 0]).build()?;
            let graph = self.graph.clone();
            return Ok(AdaptedNetwork::deployed(graph, config, &self.deployment)?);
        }
        if !options.targets.is_empty() {
            let config = config.targets(options.targets.clone()).build()?;
            let graph = self.graph.clone();
            return Ok(AdaptedNetwork::deployed(graph, config, &self.deployment)?);
        }
        let all = layers(&self.graph).into_iter();
        let whole = config.clone().build()?;
        let alone = all.filter(|layer| layer.groups == 1 && !whole.saves(&layer.name));
        let alone: Vec<_> = alone.collect();
        let fit = alone.iter().filter(|layer| layer.largest_rank() >= rank);
        let names: Vec<&str> = fit.map(|layer| layer.name.as_str()).collect();
        if alone.is_empty() && !options.whole.is_empty() {
            return usage(&format!(
                "--whole: no layer is left to adapt beside {}; name fewer",
                options.whole.join(", ")
            ));
        }
        if names.is_empty() {
            let largest = alone.iter().map(|layer| layer.largest_rank()).max();
            return usage(&format!(
                "--dora-rank: no layer holds rank {rank}; the largest holds {}",
                largest.unwrap_or(0)
            ));
        }
        // Another layer may end in the name of one that fits.
        let config = config.exact_targets(names).build()?;
        Ok(AdaptedNetwork::deployed(
            self.graph.clone(),
            config,
            &self.deployment,
        )?)
    }

    /// Refuses biases that are to be trained beside an adapter where it has none.
    pub(crate) fn check_biases(
        &self,
        run: &Run,
        network: &AdaptedNetwork,
    ) -> Result<(), Box<dyn Error>> {
        let is_biased = |layer: &LayerSummary| network.adapter().bias(&layer.name).is_some();
        match run.options.biases {
            Some(_) if !layers(&self.graph).iter().any(is_biased) => no_bias(&self.graph),
            _ => Ok(()),
        }
    }

    /// The run's adapter on the network.
    pub(crate) fn opened(&self, run: &Run) -> Result<AdaptedNetwork, Box<dyn Error>> {
        opened(run, self.graph.clone(), &self.deployment)
    }

    /// How the network is run without the adapter.
    pub(crate) fn options(&self) -> RunOptions {
        options(&self.deployment)
    }
}

/// Refuses biases of layers that have none.
fn no_bias<T>(graph: &Graph) -> Result<T, Box<dyn Error>> {
    let all = layers(graph);
    let n = all.iter().filter(|layer| layer.has_bias).count();
    let what = "a bias is one number in f32 for each output";
    usage(&match n {
        0 => format!(
            "--biases: none of the {} layers has a bias; {what}",
            all.len()
        ),
        n => format!("--biases: no adapted layer has a bias ({n} of the others); {what}"),
    })
}

/// How weights, and maybe activations, are rounded where the network will be run.
pub(crate) fn deployment(run: &Run, graph: &Graph) -> Result<Deployment, Box<dyn Error>> {
    let deployment = match run.options.qat {
        None => Deployment::exact(),
        Some(format) => Deployment::new(graph, precision(format), &[], &RunOptions::new())?,
    };
    Ok(
        deployment.with_activations(match run.options.qat_activations {
            true => Activations::Quantised,
            false => Activations::Exact,
        }),
    )
}

/// How a network is run without an adapter.
pub(crate) fn options(deployment: &Deployment) -> RunOptions {
    match deployment.precision() {
        None => RunOptions::new().with_precision(Precision::Fp32),
        Some(precision) => RunOptions::new()
            .with_precision(precision)
            .with_activations(deployment.activations()),
    }
}

/// A run's adapter on its network.
pub(crate) fn opened(
    run: &Run,
    graph: Graph,
    deployment: &Deployment,
) -> Result<AdaptedNetwork, Box<dyn Error>> {
    let folder = run.adapter();
    if !folder.exists() {
        return usage(&format!(
            "the run in `{}` has no adapter yet: `resume` ends it",
            run.folder.display()
        ));
    }
    let network = AdaptedNetwork::open(graph, &folder, deployment);
    Ok(network.map_err(about(&folder))?)
}

/// All heads of a run's network, with their weights: of one whose numbers are taught by what its outputs are.
pub(crate) fn judged(
    run: &Run,
    graph: &Graph,
    targets: &[(String, Tensor)],
) -> Result<Vec<OutputHeads>, Box<dyn Error>> {
    let heads = match run.options.heads {
        Taught::Numbers => numbers(targets),
        Taught::Driving => driving(graph, &run.options.model)?,
    };
    Ok(weighted(heads, &run.options.head_weight))
}

fn precision(format: Format) -> Precision {
    match format {
        Format::Fp8 => Precision::Fp8,
        Format::Fp4 => Precision::Fp4,
    }
}

/// Heads by the network's table.
fn driving(graph: &Graph, model: &Path) -> Result<Vec<OutputHeads>, Box<dyn Error>> {
    match driving_heads(graph).map_err(about(model))? {
        Some(heads) => Ok(vec![heads]),
        None => usage(&format!(
            "--heads driving: `{}` has no table of heads in its metadata, and is none of the networks of one output that are known by their length",
            model.display()
        )),
    }
}

/// Refuses weights that are no numbers, before pictures are read: nothing can be learnt behind them.
fn check_finite(graph: &Graph, path: &Path) -> Result<(), Box<dyn Error>> {
    let is_layer = |node: &&Node| matches!(node.op, Op::Conv(_) | Op::Gemm(_) | Op::MatMul(_));
    let layers = graph.nodes.iter().filter(is_layer);
    for &id in layers.flat_map(|node| node.inputs.iter().flatten()) {
        let value = graph.value(id);
        let Some(constant) = &value.constant else {
            continue;
        };
        let numbers = constant.to_f64();
        if let Some(index) = numbers.iter().position(|number| !number.is_finite()) {
            let (name, number) = (&value.name, numbers[index]);
            let why = format!("number {index} of `{name}`, counted from 0, is {number}");
            return Err(about(path)(why).into());
        }
    }
    Ok(())
}

/// Refuses a teacher whose outputs have other shapes than the network's, as far as both are known.
fn check_outputs(
    [graph, teacher]: [&Graph; 2],
    [model, path]: [&Path; 2],
) -> Result<(), Box<dyn Error>> {
    let shapes = |graph: &Graph| -> Vec<(String, Option<Vec<Dim>>)> {
        let outputs = graph.outputs.iter().map(|&id| graph.value(id));
        let named = outputs.map(|value| (value.name.clone(), value.shape.clone()));
        named.collect()
    };
    let extents = |shape: &[Dim]| -> Vec<String> {
        let one = |dim: &Dim| match dim {
            Dim::Known(extent) => extent.to_string(),
            _ => "?".to_owned(),
        };
        shape.iter().map(one).collect()
    };
    let of_teacher = shapes(teacher);
    for (name, shape) in shapes(graph) {
        let other = of_teacher.iter().find(|(other, _)| *other == name);
        let (Some(shape), Some((_, Some(other)))) = (shape, other) else {
            continue;
        };
        let is_like = |(a, b): (&Dim, &Dim)| match (a, b) {
            (Dim::Known(a), Dim::Known(b)) => a == b,
            _ => true,
        };
        if shape.len() != other.len() || !shape.iter().zip(other).all(is_like) {
            return usage(&format!(
                "--teacher: output `{name}` of `{}` is [{}], that of `{}` [{}]",
                path.display(),
                extents(other).join(", "),
                model.display(),
                extents(&shape).join(", ")
            ));
        }
    }
    Ok(())
}

/// Refuses weights of heads that there are not, before the teacher runs.
fn check_weights(
    weights: &[(String, f64)],
    graph: &Graph,
    driving: Option<&[OutputHeads]>,
) -> Result<(), Box<dyn Error>> {
    let names: Vec<&str> = match driving {
        Some(heads) => named(heads).map(|head| head.name.as_str()).collect(),
        None => graph
            .outputs
            .iter()
            .map(|&id| graph.value(id).name.as_str())
            .collect(),
    };
    for (at, (name, _)) in weights.iter().enumerate() {
        if !names.contains(&name.as_str()) {
            return usage(&format!(
                "--head-weight: there is no head `{name}`; there are {}",
                names.join(", ")
            ));
        }
        if weights[..at].iter().any(|(other, _)| other == name) {
            return usage(&format!("--head-weight: `{name}` has two weights"));
        }
    }
    Ok(())
}

fn named(heads: &[OutputHeads]) -> impl Iterator<Item = &Head> {
    heads.iter().flat_map(|of_output| &of_output.heads)
}

/// Heads with the weights that were asked for.
fn weighted(mut heads: Vec<OutputHeads>, weights: &[(String, f64)]) -> Vec<OutputHeads> {
    for (name, weight) in weights {
        let all = heads.iter_mut().flat_map(|of_output| &mut of_output.heads);
        for head in all.filter(|head| head.name == *name) {
            head.weight = *weight;
        }
    }
    heads
}

/// Those that weigh something.
fn taught_of(mut heads: Vec<OutputHeads>) -> Result<Vec<OutputHeads>, Box<dyn Error>> {
    for of_output in &mut heads {
        of_output.heads.retain(|head| head.weight > 0.0);
    }
    heads.retain(|of_output| !of_output.heads.is_empty());
    match heads.is_empty() {
        true => usage("every head weighs 0, so that nothing is taught"),
        false => Ok(heads),
    }
}

/// The heads with what they are taught by, in one line.
pub(crate) fn described_heads(heads: &[OutputHeads]) -> String {
    let one = |head: &Head| {
        let kind = match head.kind {
            HeadKind::Mdn => "distributions",
            HeadKind::Hypotheses { .. } => "hypotheses",
            HeadKind::Sigmoid => "probabilities",
            HeadKind::Softmax { .. } => "classes",
            HeadKind::Features { .. } => "softened",
            HeadKind::Squares => "squares",
            HeadKind::Distances => "distances",
        };
        let weight = match head.weight {
            1.0 => String::new(),
            weight => format!(" x {weight}"),
        };
        format!("{} ({kind}{weight})", head.name)
    };
    let heads: Vec<String> = named(heads).map(one).collect();
    format!("taught: {}", heads.join(", "))
}

/// All numbers of all outputs.
fn numbers(targets: &[(String, Tensor)]) -> Vec<OutputHeads> {
    let targets = targets.iter();
    targets
        .map(|(name, tensor)| OutputHeads::squares(name, tensor))
        .collect()
}

/// One line on an adapter that is going to be trained.
pub(crate) fn described_for_steps(adapter: &Adapter) -> String {
    let described = described(adapter);
    match adapter.config().lora_dropout {
        0.0 => described,
        dropout => format!("{described}; dropout of {dropout} in steps"),
    }
}

/// One line on an adapter. Which rank would be smaller is said when it is saved.
pub(crate) fn described(adapter: &Adapter) -> String {
    format!("{} layers, {}", adapter.adapted().count(), adapter.size())
}
