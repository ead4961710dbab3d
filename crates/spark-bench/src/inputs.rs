//! What is fed to a model: tensors from a file, or made up from a seed.
//!
//! ```text
//! made up    u8                      bytes, uniform over 0..=255
//!            float, name has "img"   (byte - 128) / 128, as pictures come normalised
//!            "desire..."             one-hot along the last axis: one of 1..n, in one row
//!            "traffic_convention"    [1, 0]: traffic keeps right
//!            "features_buffer"       uniform in +-sqrt(3): unit variance, as hidden states have
//!            "calib"                 uniform in +-0.05 rad
//!            "..._state", "prev..."  zeros: nothing happened yet
//!            other floats            uniform in +-1
//!            other integers, bools   zeros
//! ```
//!
//! Free axes (a batch named `N`) are bound to 1, and the caller is told so.

use std::collections::BTreeSet;
use std::path::Path;

use spark_onnx::graph::{Dim, Graph, Value};
use spark_onnx::tensor::{DType, Tensor, TensorData};
use spark_openpilot::zoo::Stream;

use crate::error::BenchError;
use crate::tensor_file::{self, TensorMap, Tensors};

/// Most elements of an input that is made up: 2 GiB while it is, far more than any camera gives.
const MOST_ELEMENTS: usize = 1 << 28;

/// Inputs by name, in the order of the graph.
pub type Inputs = Vec<(String, Tensor)>;

/// Inputs in the form the runner takes.
pub(crate) fn borrowed(inputs: &Inputs) -> Vec<(&str, &Tensor)> {
    inputs
        .iter()
        .map(|(name, tensor)| (name.as_str(), tensor))
        .collect()
}

/// Made-up inputs for `graph`, and what the user should know about them, in which it is called `model`.
/// The same graph and seed give the same inputs on every machine, whatever a file of it is called; of two networks whose graphs have
/// names of their own the inputs differ.
///
/// # Errors
///
/// [`BenchError::NoDefaultInput`] for an input without declared type or shape, or of more than 2^28 elements.
pub fn made_up(model: &str, graph: &Graph, seed: u64) -> Result<(Inputs, Vec<String>), BenchError> {
    let mut notes = Vec::new();
    let mut inputs = Inputs::new();
    for &id in &graph.inputs {
        let value = graph.value(id);
        let (Some(dtype), Some(dims)) = (value.dtype, &value.shape) else {
            return Err(no_default(model, value));
        };
        let shape = bound_to_one(dims);
        if dims.iter().any(|dim| !matches!(dim, Dim::Known(_))) {
            notes.push(format!(
                "{model}: free axes of input `{}` bound to 1: {shape:?}",
                value.name
            ));
        }
        let stream = Stream::new(seed, &format!("{}/{}", graph.name, value.name));
        let n = spark_onnx::tensor::checked_elements(&shape).filter(|n| *n <= MOST_ELEMENTS);
        let n = n.ok_or_else(|| no_default(model, value))?;
        let tensor = if dtype == DType::U8 {
            let bytes = (0..n as u64).map(|i| stream.bits(i) as u8).collect();
            Tensor::new(shape, TensorData::U8(bytes))
        } else if dtype.is_float() {
            let values = made_up_floats(&value.name, &shape, n, stream);
            Tensor::from_f64(dtype, shape, values)
        } else {
            Tensor::zeros(dtype, shape)
        };
        let tensor = tensor.map_err(|_| no_default(model, value))?;
        inputs.push((value.name.clone(), tensor));
    }
    Ok((inputs, notes))
}

fn bound_to_one(dims: &[Dim]) -> Vec<usize> {
    dims.iter()
        .map(|dim| match dim {
            Dim::Known(extent) => *extent,
            Dim::Symbol(_) | Dim::Unknown => 1,
        })
        .collect()
}

fn no_default(model: &str, value: &Value) -> BenchError {
    BenchError::NoDefaultInput {
        model: model.to_owned(),
        input: value.name.clone(),
        dtype: value
            .dtype
            .map_or("no declared type".to_owned(), |dtype| dtype.to_string()),
    }
}

fn made_up_floats(name: &str, shape: &[usize], n: usize, stream: Stream) -> Vec<f64> {
    let uniform = |bound: f64| {
        (0..n as u64)
            .map(|i| f64::from(stream.signed_unit(i)) * bound)
            .collect::<Vec<f64>>()
    };
    let name = name.to_ascii_lowercase();
    if name.contains("img") || name.contains("image") {
        let pixel = |i: u64| (f64::from(stream.bits(i) as u8) - 128.0) / 128.0;
        return (0..n as u64).map(pixel).collect();
    }
    if name.contains("desire") && !name.contains("prev") {
        return one_hot(shape, n, stream);
    }
    if name.contains("traffic_convention") {
        return (0..n).map(|i| if i == 0 { 1.0 } else { 0.0 }).collect();
    }
    if name.contains("features_buffer") {
        return uniform(3.0f64.sqrt());
    }
    if name.contains("calib") {
        return uniform(0.05);
    }
    if name.contains("state") || name.contains("prev") {
        return vec![0.0; n];
    }
    uniform(1.0)
}

/// Zeros with a single 1: in a random row, at a random position of the last axis but never
/// the first, which means "no desire".
fn one_hot(shape: &[usize], n: usize, stream: Stream) -> Vec<f64> {
    let mut values = vec![0.0; n];
    let width = shape.last().copied().unwrap_or(1);
    if n == 0 || width < 2 {
        return values;
    }
    let row = stream.below(0, (n / width) as u32) as usize;
    let column = 1 + stream.below(1, (width - 1) as u32) as usize;
    values[row * width + column] = 1.0;
    values
}

/// The inputs of `graph` from a file, found as `NAME`, `in.NAME`, `case0/in/NAME` or, in files that serve several
/// models, `MODEL/NAME`, and what the user should know about them; the one tensor of an `.npy` file is a model's only
/// input. Floating-point values become the type that the model declares.
///
/// # Errors
///
/// [`BenchError::Io`] or [`BenchError::NotTensors`] if the file cannot be read, [`BenchError::Misfit`] if
/// one is missing, [`BenchError::Conversion`] or [`BenchError::NotFinite`] if one cannot be used.
pub fn read(path: &Path, model: &str, graph: &Graph) -> Result<(Inputs, Vec<String>), BenchError> {
    of_bytes(path, &tensor_file::bytes_of_file(path)?, model, graph)
}

/// As [`read`], of the bytes of a file, which errors call `path`.
///
/// # Errors
///
/// The same, without [`BenchError::Io`].
pub fn of_bytes(
    path: &Path,
    bytes: &[u8],
    model: &str,
    graph: &Graph,
) -> Result<(Inputs, Vec<String>), BenchError> {
    let tensors = match tensor_file::from_bytes(path, bytes)? {
        Tensors::Named(tensors) => tensors,
        Tensors::Single(tensor) => match &graph.inputs[..] {
            &[id] => TensorMap::from([(graph.value(id).name.clone(), tensor)]),
            inputs => {
                return Err(BenchError::Misfit {
                    path: path.to_owned(),
                    model: model.to_owned(),
                    reason: format!(
                        "it holds one tensor, and the model has {} inputs; an .npz file holds several by name",
                        inputs.len()
                    ),
                });
            }
        },
    };
    from_file(path, &tensors, model, graph)
}

/// The inputs of `graph` from `tensors`, found as `NAME`, `in.NAME`, `case0/in/NAME` or, for files
/// that serve several models, `MODEL/NAME`, and what the user should know: that other cases are left out.
///
/// # Errors
///
/// [`BenchError::Misfit`] if one is missing, [`BenchError::Conversion`] or
/// [`BenchError::NotFinite`] if one cannot be used.
pub(crate) fn from_file(
    path: &Path,
    tensors: &TensorMap,
    model: &str,
    graph: &Graph,
) -> Result<(Inputs, Vec<String>), BenchError> {
    let mut is_of_case = false;
    let mut find = |name: &str| {
        let keys = [
            format!("{model}/{name}"),
            name.to_owned(),
            format!("in.{name}"),
        ];
        let mut plain = keys.into_iter();
        plain
            .find_map(|key| tensors.get_key_value(&key))
            .or_else(|| {
                let found = tensors.get_key_value(&format!("case0/in/{name}"));
                is_of_case |= found.is_some();
                found
            })
    };
    let inputs = graph.inputs.iter().map(|&id| {
        let value = graph.value(id);
        let (key, tensor) = find(&value.name).ok_or_else(|| BenchError::Misfit {
            path: path.to_owned(),
            model: model.to_owned(),
            reason: format!("there is no tensor for input `{}`", value.name),
        })?;
        usable((path, key), value, tensor.clone()).map(|tensor| (value.name.clone(), tensor))
    });
    let inputs = inputs.collect::<Result<Inputs, _>>()?;
    let notes = other_cases(path, model, tensors, is_of_case);
    Ok((inputs, notes.into_iter().collect()))
}

/// Says so, if there are cases besides what is taken: `case0` where that `is_of_case`, tensors without a case elsewhere.
fn other_cases(path: &Path, model: &str, tensors: &TensorMap, is_of_case: bool) -> Option<String> {
    let number = |name: &String| {
        let (number, rest) = name.strip_prefix("case")?.split_once('/')?;
        rest.starts_with("in/")
            .then(|| number.parse::<usize>().ok())?
    };
    let others = tensors.keys().filter_map(number);
    let others: BTreeSet<usize> = others.filter(|&n| !is_of_case || n != 0).collect();
    let (n, path) = (others.len(), path.display());
    let taken = if is_of_case {
        "case 0"
    } else {
        "what is in no case"
    };
    (n > 0).then(|| format!("{model}: {taken} of {path} alone; it holds {n} more"))
}

/// `tensor`, which has the name `key` in its file, in the type `value` declares, if it is finite there.
pub(crate) fn usable(
    (path, key): (&Path, &str),
    value: &Value,
    tensor: Tensor,
) -> Result<Tensor, BenchError> {
    let is_finite = |tensor: Tensor| match tensor_file::count_non_finite(&tensor) {
        0 => Ok(tensor),
        count => Err(BenchError::NotFinite {
            path: path.to_owned(),
            tensor: key.to_owned(),
            count,
        }),
    };
    let tensor = is_finite(tensor)?;
    let (got, want) = (tensor.dtype(), value.dtype.unwrap_or(tensor.dtype()));
    let tensor = tensor_file::converted(path, key, tensor, want)?;
    // What was finite may be beyond the range of the model's type.
    match got == want {
        true => Ok(tensor),
        false => is_finite(tensor),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(inputs: &[(&str, DType, &[Dim])]) -> Graph {
        let mut graph = Graph::default();
        for (name, dtype, dims) in inputs {
            graph.add_input(*name, *dtype, dims.to_vec());
        }
        graph
    }

    fn made(name: &str, dtype: DType, shape: &[usize]) -> Tensor {
        let dims: Vec<Dim> = shape.iter().map(|&d| Dim::Known(d)).collect();
        let graph = graph(&[(name, dtype, &dims)]);
        let (mut inputs, notes) = made_up("m", &graph, 1).expect("a declared input");
        assert!(notes.is_empty());
        inputs.remove(0).1
    }

    #[test]
    fn made_up_inputs_are_of_the_kind_their_names_promise() {
        let pixels = made("img", DType::U8, &[2, 1000]).to_f64();
        assert!(pixels.iter().any(|&v| v < 10.0) && pixels.iter().any(|&v| v > 245.0));
        let normalised = made("input_imgs", DType::F32, &[1000]).to_f64();
        assert!(
            normalised
                .iter()
                .all(|v| (-1.0..1.0).contains(v) && (v * 128.0).fract() == 0.0)
        );
        let desire = made("desire_pulse", DType::F16, &[1, 25, 8]).to_f64();
        assert_eq!(desire.iter().sum::<f64>(), 1.0);
        assert!(
            desire.iter().step_by(8).all(|&v| v == 0.0),
            "entry 0 is no desire"
        );
        assert_eq!(
            made("traffic_convention", DType::F32, &[1, 2]).to_f64(),
            [1.0, 0.0]
        );
        assert_eq!(made("rnn_state", DType::F32, &[1, 4]).to_f64(), [0.0; 4]);
        assert_eq!(
            made("prev_desired_curv", DType::F32, &[1, 4]).to_f64(),
            [0.0; 4]
        );
        let features = made("features_buffer", DType::F32, &[1, 25, 512]).to_f64();
        let variance = features.iter().map(|v| v * v).sum::<f64>() / features.len() as f64;
        assert!((variance - 1.0).abs() < 0.05, "{variance}");
        assert_eq!(made("index", DType::I64, &[3]).to_f64(), [0.0; 3]);
    }

    #[test]
    fn the_seed_and_the_graph_decide() {
        let mut graph = graph(&[("img", DType::U8, &[Dim::Known(64)])]);
        let bytes = |graph: &Graph, model, seed| made_up(model, graph, seed).expect("declared").0;
        let first = bytes(&graph, "a", 1);
        assert_eq!(bytes(&graph, "b", 1), first, "a file that was copied");
        assert_ne!(bytes(&graph, "a", 2), first);
        graph.name = "another".to_owned();
        assert_ne!(bytes(&graph, "a", 1), first);
    }

    #[test]
    fn free_axes_become_one_and_are_told() {
        let dims = [Dim::Symbol("N".to_owned()), Dim::Known(3), Dim::Unknown];
        let graph = graph(&[("x", DType::F32, &dims)]);
        let (inputs, notes) = made_up("m", &graph, 0).expect("declared");
        assert_eq!(inputs[0].1.shape(), [1, 3, 1]);
        assert_eq!(notes, ["m: free axes of input `x` bound to 1: [1, 3, 1]"]);
    }

    #[test]
    fn undeclared_and_absurd_inputs_are_errors() {
        let mut undeclared = graph(&[("x", DType::F32, &[])]);
        undeclared.values[0].shape = None;
        assert!(made_up("m", &undeclared, 0).is_err());
        let absurd = graph(&[("x", DType::F32, &[Dim::Known(1 << 40), Dim::Known(1 << 40)])]);
        assert!(made_up("m", &absurd, 0).is_err());
        let large = graph(&[("x", DType::F32, &[Dim::Known(1 << 31)])]);
        assert!(made_up("m", &large, 0).is_err());
    }

    #[test]
    fn files_are_matched_by_name_and_checked() {
        let dims = [Dim::Known(2)];
        let graph = graph(&[("x", DType::F32, &dims), ("y", DType::F32, &dims)]);
        let half = Tensor::from_f64(DType::F16, [2], vec![1.0, 2.0]).expect("two");
        let single = Tensor::from_f32([2], vec![3.0, 4.0]).expect("two");
        let mut tensors = TensorMap::new();
        tensors.insert("case0/in/x".to_owned(), half);
        let path = Path::new("f");
        let error = from_file(path, &tensors, "m", &graph)
            .unwrap_err()
            .to_string();
        assert!(error.contains("no tensor for input `y`"), "{error}");
        tensors.insert("m/y".to_owned(), single);
        let (inputs, notes) = from_file(path, &tensors, "m", &graph).expect("both are there");
        assert_eq!(inputs[0].1.as_f32(), Some(&[1.0, 2.0][..]));
        assert!(notes.is_empty(), "{notes:?}");
        for name in ["case1/in/x", "case1/in/y", "case2/in/x", "case3/out/x"] {
            tensors.insert(name.to_owned(), inputs[0].1.clone());
        }
        let (_, notes) = from_file(path, &tensors, "m", &graph).expect("both are there");
        assert_eq!(notes, ["m: case 0 of f alone; it holds 2 more"]);
        let nan = Tensor::from_f32([2], vec![f32::NAN, 0.0]).expect("two");
        tensors.insert("m/y".to_owned(), nan);
        let error = from_file(path, &tensors, "m", &graph).expect_err("NaN");
        assert_eq!(
            error.to_string(),
            "`f`: tensor `m/y` holds 1 values that are not finite"
        );
    }
}
