//! Whole networks in every number format: what each step says about itself, and the same bits on any
//! number of threads. How far they are from f32 is tested where that is measured, in `spark-bench`.

use spark_onnx::graph::{Dim, Graph};
use spark_onnx::precision::Bf16Products;
use spark_onnx::{DType, ModelRunner, Precision, RunOptions, Tensor};
use spark_openpilot::zoo::{Stream, ZooModel};

#[test]
fn steps_say_what_computes_them_and_why() {
    let options = RunOptions::new().with_precision(Precision::Bf16);
    let both = options
        .clone()
        .with_bf16_products(Bf16Products::MultiplyAdd);
    let runner = ModelRunner::from_graph(ZooModel::ALL[0].build(0), &both).expect("bf16");
    let steps = runner.steps();
    let of = |kind: &str| steps.iter().find(|s| s.kind == kind).expect(kind);
    assert_eq!(of("linear").precision, Precision::Bf16);
    assert!(of("linear").kernel.contains("-bf16-gemm"));
    assert_eq!(of("depthwise").precision, Precision::Fp32);
    assert!(of("depthwise").reason.contains("depthwise"));
    assert!(steps.iter().all(|step| !step.reason.is_empty()));

    let weights = options.with_bf16_products(Bf16Products::WeightsOnly);
    let runner = ModelRunner::from_graph(ZooModel::ALL[0].build(0), &weights).expect("bf16");
    for step in runner.steps() {
        let is_product = matches!(step.kind, "linear" | "conv");
        match step.precision {
            Precision::Bf16 if step.kernel.ends_with("-fused-depthwise") => {}
            Precision::Bf16 => assert!(step.kernel.contains("-f32xbf16-")),
            _ if is_product => assert!(step.reason.contains("rows"), "{}", step.reason),
            _ => {}
        }
    }
}

/// Numbers of every input's type and shape, which are all known.
fn drawn_inputs(graph: &Graph) -> Vec<(String, Tensor)> {
    let draw = |&id| {
        let value = graph.value(id);
        let (dtype, dims) = (value.dtype, value.shape.as_ref());
        let dims = dims.expect("declared").iter().map(|dim| match dim {
            Dim::Known(extent) => *extent,
            other => panic!("{other:?}"),
        });
        let shape: Vec<usize> = dims.collect();
        let stream = Stream::new(3, &value.name);
        let n = shape.iter().product::<usize>() as u64;
        let scale = if dtype == Some(DType::U8) { 127.0 } else { 1.0 };
        let values = (0..n).map(|i| scale * f64::from(stream.signed_unit(i)).abs());
        let tensor = Tensor::from_f64(dtype.expect("declared"), shape, values.collect());
        (value.name.clone(), tensor.expect("fits"))
    };
    graph.inputs.iter().map(draw).collect()
}

fn bits(graph: &Graph, options: &RunOptions) -> Vec<u32> {
    let mut runner = ModelRunner::from_graph(graph.clone(), options).expect("available");
    let inputs = drawn_inputs(graph);
    let inputs: Vec<(&str, &Tensor)> = inputs.iter().map(|(n, t)| (n.as_str(), t)).collect();
    let outputs = runner.run(&inputs).expect("runs");
    let values = outputs
        .iter()
        .flat_map(|(_, tensor)| tensor.to_f32().to_vec());
    values.map(f32::to_bits).collect()
}

#[test]
fn no_precision_depends_on_the_number_of_threads() {
    for model in ZooModel::ALL {
        let graph = model.build(1);
        let available = |precision: &Precision| !precision.needs_calibration();
        for precision in Precision::ALL.into_iter().filter(available) {
            let weights_only = RunOptions::new().with_precision(precision);
            let both_sides = weights_only
                .clone()
                .with_bf16_products(Bf16Products::MultiplyAdd);
            let ways = [weights_only, both_sides];
            let differ = usize::from(precision == Precision::Bf16);
            for options in ways.into_iter().take(1 + differ) {
                let want = bits(&graph, &options.clone().with_threads(1));
                assert!(want.iter().any(|&bits| bits != 0));
                for threads in [2, 3, 7] {
                    let got = bits(&graph, &options.clone().with_threads(threads));
                    assert!(got == want, "{} in {precision} on {threads}", model.name());
                }
            }
        }
    }
}
