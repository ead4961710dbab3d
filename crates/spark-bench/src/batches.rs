//! Inputs of many frames in one file, as calibrations take them.
//!
//! ```text
//! caseN/in/<input>     what to feed in frame N; f16 is converted where the model wants f32
//! caseN/out..., out64  what a model must give (`golden`): not looked at here
//! ```

use std::collections::BTreeMap;
use std::path::Path;

use spark_onnx::graph::Graph;

use crate::error::BenchError;
use crate::inputs::{self, Inputs};
use crate::tensor_file::{self, TensorMap};

/// Reads the inputs of every case of `path` for `graph`, called `model`, in the order of their numbers.
///
/// # Errors
///
/// [`BenchError::Io`] or [`BenchError::NotTensors`] if the file cannot be read, [`BenchError::Misfit`] for a case
/// without one of the model's inputs or with another, and a file without cases, [`BenchError::NotFinite`] for NaN.
pub fn read(path: &Path, model: &str, graph: &Graph) -> Result<Vec<Inputs>, BenchError> {
    let misfit = |reason: String| BenchError::Misfit {
        path: path.to_owned(),
        model: model.to_owned(),
        reason,
    };
    let mut cases: BTreeMap<usize, TensorMap> = BTreeMap::new();
    for (name, tensor) in tensor_file::read(path)? {
        let Some((number, kind, port)) = place(&name) else {
            return Err(misfit(format!("tensor `{name}` is not named caseN/in/...")));
        };
        match kind {
            "in" => {
                let case = cases.entry(number).or_default();
                if case.insert(port.to_owned(), tensor).is_some() {
                    let reason = format!("case {number} has `{port}` twice, once as `{name}`");
                    return Err(misfit(reason));
                }
            }
            "out" | "out64" => {}
            _ => return Err(misfit(format!("tensor `{name}` is not named caseN/in/..."))),
        }
    }
    if cases.is_empty() {
        return Err(misfit("it holds no case".to_owned()));
    }
    let cases = cases.into_iter().map(|(number, mut tensors)| {
        let mut case = Inputs::new();
        for &id in &graph.inputs {
            let value = graph.value(id);
            let tensor = tensors.remove(&value.name);
            let missing = || misfit(format!("case {number} has no input `{}`", value.name));
            let key = format!("case{number}/in/{}", value.name);
            let tensor = inputs::usable((path, &key), value, tensor.ok_or_else(missing)?)?;
            case.push((value.name.clone(), tensor));
        }
        match tensors.keys().next() {
            Some(extra) => Err(misfit(format!(
                "case {number} has `{extra}`, which is no input of the model"
            ))),
            None => Ok(case),
        }
    });
    cases.collect()
}

/// Number of the case, whether inputs or outputs, and which.
fn place(name: &str) -> Option<(usize, &str, &str)> {
    let (number, rest) = name.strip_prefix("case")?.split_once('/')?;
    let (kind, port) = rest.split_once('/')?;
    Some((number.parse().ok()?, kind, port))
}
