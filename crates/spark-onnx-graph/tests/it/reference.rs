//! The interpreter against outside truth: float64 evaluations of the real models by
//! PyTorch, and tensors inside one of them by onnxruntime.
//!
//! `SPARK_FULL_TESTS=1` runs every case of the large model instead of one.

use std::collections::BTreeMap;
use std::path::Path;

use safetensors::{Dtype, SafeTensors};
use spark_onnx_graph::graph::{Graph, StaticGraph, bind};
use spark_onnx_graph::{DType, Tensor, file, reference};

use spark_testing::test_data;

/// All tensors of a safetensors file, of floats and I64, as f64.
pub(crate) fn read_tensors(path: &Path) -> BTreeMap<String, Tensor> {
    let bytes = std::fs::read(path).expect("readable");
    let file = SafeTensors::deserialize(&bytes).expect("a safetensors file");
    file.tensors()
        .into_iter()
        .map(|(name, view)| {
            let data = view.data();
            let values: Vec<f64> = match view.dtype() {
                Dtype::F16 => chunks(data)
                    .map(|b| half::f16::from_le_bytes(b).to_f64())
                    .collect(),
                Dtype::F32 => chunks(data)
                    .map(|b| f64::from(f32::from_le_bytes(b)))
                    .collect(),
                Dtype::F64 => chunks(data).map(f64::from_le_bytes).collect(),
                Dtype::I64 => chunks(data).map(|b| i64::from_le_bytes(b) as f64).collect(),
                other => panic!("{name} is {other:?}"),
            };
            let tensor = Tensor::from_f64(DType::F64, view.shape(), values).expect("fits");
            (name, tensor)
        })
        .collect()
}

fn chunks<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> + '_ {
    bytes.as_chunks::<N>().0.iter().copied()
}

/// The tensors called `prefix/<name>`, by name.
fn under<'t>(
    tensors: &'t BTreeMap<String, Tensor>,
    prefix: &'t str,
) -> impl Iterator<Item = (&'t str, &'t Tensor)> {
    tensors
        .iter()
        .filter_map(move |(name, t)| Some((name.strip_prefix(prefix)?, t)))
}

/// Largest difference over the largest value wanted; infinite where either is no number.
pub(crate) fn relative_error(got: &[f64], want: &[f64]) -> f64 {
    assert_eq!(got.len(), want.len());
    let scale = want.iter().fold(0.0, |m: f64, v| m.max(v.abs()));
    let worst = got.iter().zip(want).fold(0.0, |m: f64, (g, w)| {
        let difference = (g - w).abs();
        if difference.is_finite() {
            m.max(difference)
        } else {
            f64::INFINITY
        }
    });
    worst / scale
}

fn run_case(
    graph: &StaticGraph,
    tensors: &BTreeMap<String, Tensor>,
    case: usize,
) -> Vec<(String, Tensor)> {
    let inputs: Vec<(&str, Tensor)> = under(tensors, &format!("case{case}/in/"))
        .map(|(name, t)| (name.to_owned(), t))
        .map(|(name, t)| {
            let id = graph
                .inputs()
                .iter()
                .find(|&&id| graph.value(id).name == name);
            let value = graph.value(*id.expect("an input of the model"));
            let tensor = Tensor::from_f64(value.ty.dtype, t.shape(), t.to_f64()).expect("fits");
            (value.name.as_str(), tensor)
        })
        .collect();
    let inputs: Vec<(&str, &Tensor)> = inputs.iter().map(|(name, t)| (*name, t)).collect();
    reference::run_wide(graph, &inputs).expect("runs")
}

/// Every output within 1e-12 of PyTorch's float64 result, relative to its largest value:
/// both sum in f64, in different orders.
fn check_golden(model: &str, cases: &[usize]) {
    let Some(path) = test_data(&format!("data/models/{model}.onnx")) else {
        return;
    };
    let Some(golden) = test_data(&format!("data/models/goldens/{model}.safetensors")) else {
        return;
    };
    let graph = bind(&file::load(&path).expect("loads"), &[]).expect("binds");
    let tensors = read_tensors(&golden);
    for &case in cases {
        let outputs = run_case(&graph, &tensors, case);
        let prefix = format!("case{case}/out64/");
        assert_eq!(under(&tensors, &prefix).count(), outputs.len());
        for (name, want) in under(&tensors, &prefix) {
            let got = &outputs
                .iter()
                .find(|(n, _)| n == name)
                .expect("an output")
                .1;
            assert_eq!(got.shape(), want.shape(), "{name}");
            let error = relative_error(&got.to_f64(), &want.to_f64());
            eprintln!("{model} case {case} {name}: {error:.1e}");
            assert!(error <= 1e-12, "{model} case {case} {name}: {error}");
        }
    }
}

#[test]
fn driver_monitoring_0_8_9_matches_float64() {
    check_golden("dmonitoring_0_8_9", &[0, 1, 2]);
}

#[test]
fn driver_monitoring_0_8_5_matches_float64() {
    check_golden("dmonitoring_0_8_5", &[0, 1, 2]);
}

#[test]
fn supercombo_matches_float64() {
    let full = spark_testing::settings::full_tests();
    check_golden(
        "supercombo_0_7_4_random_fp16",
        if full { &[0, 1, 2] } else { &[2] },
    );
}

/// `graph` with the named values as its outputs.
fn with_outputs(mut graph: Graph, names: &[String]) -> Graph {
    graph.outputs = names
        .iter()
        .map(|name| {
            let at = graph.values.iter().position(|v| v.name == *name);
            spark_onnx_graph::graph::ValueId(at.unwrap_or_else(|| panic!("no value {name}")))
        })
        .collect();
    graph
}

#[test]
fn tensors_inside_driver_monitoring_match_onnxruntime() {
    let Some(path) = test_data("data/models/dmonitoring_0_8_9.onnx") else {
        return;
    };
    let Some(inner) = test_data("data/models/goldens/dmonitoring_0_8_9.inner.safetensors") else {
        return;
    };
    let Some(golden) = test_data("data/models/goldens/dmonitoring_0_8_9.safetensors") else {
        return;
    };
    let (whole, first_channels) = ("case0/inner/", "case0/inner_c0_4/");
    let inner = read_tensors(&inner);
    let mut wanted = BTreeMap::new();
    wanted.extend(under(&inner, whole));
    wanted.extend(under(&inner, first_channels));
    assert!(wanted.len() >= 16, "only {} tensors", wanted.len());
    let names: Vec<String> = wanted.keys().map(|name| (*name).to_owned()).collect();
    let graph = with_outputs(file::load(&path).expect("loads"), &names);
    let graph = bind(&graph, &[]).expect("binds");
    for (name, got) in run_case(&graph, &read_tensors(&golden), 0) {
        let want = wanted[name.as_str()];
        // Only the first channels are kept of some; rows before them are the same.
        let got = &got.to_f64()[..want.len()];
        let error = relative_error(got, &want.to_f64());
        eprintln!("{name} {:?}: {error:.1e}", want.shape());
        // onnxruntime's own f32 error here is up to 1.1e-6 of the largest value.
        assert!(error <= 2e-6, "{name}: {error}");
    }
}
