//! What a run of a whole network may not do: take memory beyond its outputs, or depend on the number
//! of threads. Each network has many kinds of step.

use spark_onnx::cpu::Isa;
use spark_onnx::graph::{Dim, Graph};
use spark_onnx::{DType, ModelRunner, Precision, RunOptions, Tensor};
use spark_openpilot::zoo::ZooModel;
use spark_testing::Watch;

/// Numbers of every input's type and shape, which are all known.
fn inputs(graph: &Graph) -> Vec<(String, Tensor)> {
    let fill = |&id| {
        let value = graph.value(id);
        let dtype = value.dtype.expect("declared");
        let dims = value.shape.iter().flatten().map(|dim| match dim {
            Dim::Known(extent) => *extent,
            other => panic!("{other:?}"),
        });
        let shape: Vec<usize> = dims.collect();
        let n: usize = shape.iter().product();
        let scale = if dtype == DType::U8 { 1.0 } else { 251.0 };
        let values: Vec<f64> = (0..n).map(|i| (i * 37 % 251) as f64 / scale).collect();
        let tensor = Tensor::from_f64(dtype, shape, values).expect("fits");
        (value.name.clone(), tensor)
    };
    graph.inputs.iter().map(fill).collect()
}

#[test]
fn a_run_takes_memory_for_its_outputs_alone() {
    for model in ZooModel::ALL {
        let graph = model.build(1);
        let inputs = inputs(&graph);
        let given: Vec<(&str, &Tensor)> = inputs.iter().map(|(n, t)| (n.as_str(), t)).collect();
        for isa in Isa::available() {
            let available = |precision: &Precision| !precision.needs_calibration();
            for precision in Precision::ALL.into_iter().filter(available) {
                let options = RunOptions::new()
                    .with_precision(precision)
                    .with_isa(isa)
                    .with_threads(1);
                let runner = ModelRunner::from_graph(graph.clone(), &options);
                let mut runner = runner.expect("available");
                let watch = Watch::start();
                let outputs = runner.run(&given).expect("runs");
                // Names, shapes and the lists of them.
                let (requests, peak) = (watch.requests(), watch.peak());
                let result: usize = outputs.iter().map(|(_, t)| t.size_bytes()).sum();
                let name = model.name();
                assert!(
                    requests < 32,
                    "{name} in {precision} on {isa}: {requests} requests"
                );
                assert!(
                    peak < result + 1024,
                    "{name} in {precision} on {isa}: {peak} bytes"
                );
            }
        }
    }
}

#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    for model in ZooModel::ALL {
        let graph = model.build(1);
        let inputs = inputs(&graph);
        let given: Vec<(&str, &Tensor)> = inputs.iter().map(|(n, t)| (n.as_str(), t)).collect();
        let outputs = |threads| -> Vec<Vec<u32>> {
            let options = RunOptions::new().with_precision(Precision::Fp32);
            let runner = ModelRunner::from_graph(graph.clone(), &options.with_threads(threads));
            let outputs = runner.expect("fp32").run(&given).expect("runs");
            let bits = |tensor: &Tensor| tensor.to_f32().iter().map(|v| v.to_bits()).collect();
            outputs.iter().map(|(_, tensor)| bits(tensor)).collect()
        };
        let want = outputs(1);
        assert!(want.iter().flatten().any(|&bits| bits != 0));
        for threads in [2, 3, 7] {
            let name = model.name();
            assert!(outputs(threads) == want, "{name} on {threads} threads");
        }
    }
}
