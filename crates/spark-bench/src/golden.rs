//! Files of inputs with the outputs a model must give for them.
//!
//! ```text
//! caseN/in/<input>       what to feed; f16 is converted where the model wants f32
//! caseN/out64/<output>   the same network evaluated in f64: the reference, where present
//! caseN/out/<output>     what another engine gave in f32: the reference otherwise
//! caseN/inner/<value>    what it gave for a value between two layers; any number of them, the same in every case
//!
//! in.<input>  out.<output>  inner.<value>   one case, as a few lines of Python write it
//! ```
//!
//! Every input and every output of the model must be there, and nothing of another
//! model: a file that fits by half would check by half. Inner values tell where two engines part: they are made outputs
//! of the network, whose layers are then not fused across them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use spark_onnx::ModelError;
use spark_onnx::ModelRunner;
use spark_onnx::graph::{Graph, Node, ValueId};
use spark_onnx::tensor::Tensor;

use crate::accuracy::Accuracy;
use crate::error::BenchError;
use crate::inputs::{self, Inputs};
use crate::tensor_file::{self, TensorMap};

/// One set of inputs with its outputs.
#[derive(Debug, Clone)]
pub struct GoldenCase {
    pub(crate) inputs: Inputs,
    /// Inner values too.
    outputs: BTreeMap<String, Tensor>,
    inner: BTreeSet<String>,
}

impl GoldenCase {
    /// Whether it has references for values between layers.
    pub fn has_inner_values(&self) -> bool {
        !self.inner.is_empty()
    }
}

/// Reads the cases of `path` for `graph`, in the order of their numbers.
///
/// # Errors
///
/// [`BenchError::Io`] or [`BenchError::NotTensors`] if the file cannot be read,
/// [`BenchError::Misfit`] if it belongs to another model, [`BenchError::NotFinite`] if it
/// holds NaN.
pub fn read(path: &Path, model: &str, graph: &Graph) -> Result<Vec<GoldenCase>, BenchError> {
    let misfit = |reason: String| BenchError::Misfit {
        path: path.to_owned(),
        model: model.to_owned(),
        reason,
    };
    let mut by_case: BTreeMap<usize, TensorMap> = BTreeMap::new();
    for (name, tensor) in tensor_file::read(path)? {
        let Some((number, rest)) = place(&name) else {
            return Err(misfit(format!(
                "tensor `{name}` is named neither caseN/in/..., caseN/out/..., caseN/inner/... nor in..., out..., inner..."
            )));
        };
        if by_case
            .entry(number)
            .or_default()
            .insert(rest, tensor)
            .is_some()
        {
            return Err(misfit(format!("tensor `{name}` is there in both forms")));
        }
    }
    if by_case.is_empty() {
        return Err(misfit("it holds no case".to_owned()));
    }
    let cases = by_case.into_iter();
    let cases = cases.map(|(number, tensors)| case(path, number, tensors, graph, &misfit));
    let cases: Vec<GoldenCase> = cases.collect::<Result<_, _>>()?;
    match cases.iter().all(|case| case.inner == cases[0].inner) {
        true => Ok(cases),
        false => Err(misfit("its cases have other inner values".to_owned())),
    }
}

/// The case that a tensor belongs to and its name there; the form without cases is case 0.
fn place(name: &str) -> Option<(usize, String)> {
    if let Some(rest) = name.strip_prefix("case") {
        let (number, rest) = rest.split_once('/')?;
        return Some((number.parse().ok()?, rest.to_owned()));
    }
    let (kind, port) = name.split_once('.')?;
    let is_kind = matches!(kind, "in" | "out" | "out64" | "inner");
    is_kind.then(|| (0, format!("{kind}/{port}")))
}

fn case(
    path: &Path,
    number: usize,
    mut tensors: TensorMap,
    graph: &Graph,
    misfit: &impl Fn(String) -> BenchError,
) -> Result<GoldenCase, BenchError> {
    let mut inputs = Inputs::new();
    for &id in &graph.inputs {
        let value = graph.value(id);
        let tensor = tensors
            .remove(&format!("in/{}", value.name))
            .ok_or_else(|| misfit(format!("case {number} has no input `{}`", value.name)))?;
        let key = format!("case{number}/in/{}", value.name);
        let tensor = inputs::usable((path, &key), value, tensor)?;
        inputs.push((value.name.clone(), tensor));
    }
    let mut outputs = BTreeMap::new();
    for &id in &graph.outputs {
        let name = &graph.value(id).name;
        let plain = tensors.remove(&format!("out/{name}"));
        let tensor = tensors
            .remove(&format!("out64/{name}"))
            .or(plain)
            .ok_or_else(|| misfit(format!("case {number} has no output `{name}`")))?;
        let tensor = finite(path, number, &format!("out/{name}"), tensor)?;
        outputs.insert(name.clone(), tensor);
    }
    let mut inner = BTreeSet::new();
    for (_, id) in computed(graph) {
        let name = &graph.value(id).name;
        let Some(tensor) = tensors.remove(&format!("inner/{name}")) else {
            continue;
        };
        // What is an output has its reference already.
        if !outputs.contains_key(name) {
            let tensor = finite(path, number, &format!("inner/{name}"), tensor)?;
            outputs.insert(name.clone(), tensor);
            inner.insert(name.clone());
        }
    }
    match tensors.keys().next() {
        Some(extra) => Err(misfit(format!(
            "case {number} has `{extra}`, which the model does not"
        ))),
        None => Ok(GoldenCase {
            inputs,
            outputs,
            inner,
        }),
    }
}

fn finite(path: &Path, number: usize, name: &str, tensor: Tensor) -> Result<Tensor, BenchError> {
    match tensor_file::count_non_finite(&tensor) {
        0 => Ok(tensor),
        count => Err(BenchError::NotFinite {
            path: path.to_owned(),
            tensor: format!("case{number}/{name}"),
            count,
        }),
    }
}

/// The values that nodes make, in the order in which they are made.
fn computed(graph: &Graph) -> impl Iterator<Item = (&Node, ValueId)> {
    let nodes = graph.nodes.iter();
    nodes.flat_map(|node| node.outputs.iter().flatten().map(move |&id| (node, id)))
}

/// Which node makes the value of this name: its name and operator.
pub fn maker<'a>(graph: &'a Graph, value: &str) -> Option<(&'a str, &'a str)> {
    let (node, _) = computed(graph).find(|&(_, id)| graph.value(id).name == value)?;
    Some((&node.name, node.op.name()))
}

/// The network with the inner values of the cases as outputs, all outputs in the order in which they are made: the first
/// of them that is far from its reference is where two engines part.
pub fn with_inner_values(graph: &Graph, cases: &[GoldenCase]) -> Graph {
    let is_asked = |&(_, id): &(&Node, ValueId)| {
        let name = &graph.value(id).name;
        graph.outputs.contains(&id) || cases.iter().any(|case| case.inner.contains(name))
    };
    let outputs = computed(graph).filter(is_asked).map(|(_, id)| id);
    Graph {
        outputs: outputs.collect(),
        ..graph.clone()
    }
}

/// How far an output is, the worst over all cases.
#[derive(Debug, Clone, PartialEq)]
pub struct OutputDistance {
    /// Name of the output.
    pub name: String,
    /// The worst of each figure.
    pub worst: Accuracy,
}

/// Runs every case and gives the worst distance of each output, in the order of the model.
///
/// # Errors
///
/// [`BenchError::Model`] if a case cannot run, [`BenchError::Misfit`] if an output has
/// another number of values than the file.
pub fn distances(
    path: &Path,
    model: &str,
    cases: &[GoldenCase],
    mut run: impl FnMut(&[(&str, &Tensor)]) -> Result<Vec<(String, Tensor)>, ModelError>,
) -> Result<Vec<OutputDistance>, BenchError> {
    let mut distances: Vec<OutputDistance> = Vec::new();
    for case in cases {
        let results = run(&inputs::borrowed(&case.inputs));
        let results = results.map_err(|source| BenchError::Model {
            model: model.to_owned(),
            source,
        })?;
        for (name, result) in &results {
            let Some(reference) = case.outputs.get(name) else {
                continue;
            };
            if result.shape() != reference.shape() {
                return Err(BenchError::Misfit {
                    path: path.to_owned(),
                    model: model.to_owned(),
                    reason: format!(
                        "output `{name}` has shape {:?} there, the model gives {:?}",
                        reference.shape(),
                        result.shape()
                    ),
                });
            }
            let distance = Accuracy::of(&result.to_f64(), &reference.to_f64());
            match distances.iter_mut().find(|known| known.name == *name) {
                Some(known) => known.worst = known.worst.worst(distance),
                None => distances.push(OutputDistance {
                    name: name.clone(),
                    worst: distance,
                }),
            }
        }
    }
    Ok(distances)
}

/// The worst distance over all outputs and cases; the errors of [`distances`].
pub(crate) fn compare(
    path: &Path,
    model: &str,
    cases: &[GoldenCase],
    runner: &mut ModelRunner,
) -> Result<Accuracy, BenchError> {
    let distances = distances(path, model, cases, |inputs| runner.run(inputs))?;
    let worst = distances.iter().map(|output| output.worst);
    Ok(worst.fold(Accuracy::EXACT, Accuracy::worst))
}
