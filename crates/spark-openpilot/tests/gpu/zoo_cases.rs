//! What a GPU must make of the zoo's networks: what the CPU makes of them in the same storage formats. Run on a stand-in driver
//! by the tests of `cuda` and on the GPU of the machine, where there is one, by those of `gpu`.

#![allow(clippy::print_stdout, reason = "tests tell what they measured")]

use spark_mem::Device;
use spark_onnx::cuda::CudaSession;
use spark_onnx::graph::{Dim, Graph, ValueId};
use spark_onnx::tensor::TensorData;
use spark_onnx::{DType, ModelRunner, Precision, RunOptions, Tensor};
use spark_openpilot::zoo::ZooModel;
use spark_testing::numbers;

/// Random inputs of the declared types and shapes.
pub(crate) fn inputs(graph: &Graph) -> Vec<(String, Tensor)> {
    let input = |id: &ValueId| {
        let value = graph.value(*id);
        let extents = value.shape.iter().flatten().map(|dim| match dim {
            Dim::Known(extent) => *extent,
            open => panic!("{}: {open:?}", value.name),
        });
        let shape: Vec<usize> = extents.collect();
        let values = numbers(shape.iter().product(), id.0 as u64);
        let tensor = match value.dtype {
            Some(DType::U8) => {
                let bytes = values.iter().map(|v| ((v + 1.0) * 127.5) as u8);
                Tensor::new(shape, TensorData::U8(bytes.collect()))
            }
            _ => Tensor::from_f32(shape, values),
        };
        (value.name.clone(), tensor.expect("fits"))
    };
    graph.inputs.iter().map(input).collect()
}

/// The greatest difference of an output, over its greatest number.
fn apart(got: &[(String, Tensor)], want: &[(String, Tensor)]) -> f64 {
    assert_eq!(got.len(), want.len());
    let outputs = got.iter().zip(want).map(|((_, got), (_, want))| {
        assert_eq!(got.shape(), want.shape());
        let (got, want) = (got.to_f64(), want.to_f64());
        let scale = want.iter().fold(0.0f64, |most, v| most.max(v.abs()));
        let apart = got.iter().zip(&want).map(|(g, w)| (g - w).abs());
        // NaN is apart from everything.
        apart.fold(0.0f64, |most, v| if v <= most { most } else { v }) / scale
    });
    outputs.fold(0.0, f64::max)
}

/// Holds a network against the CPU; the session that ran it.
pub(crate) fn agrees(model: ZooModel, precision: Precision, device: &Device) -> CudaSession {
    let at_most = match precision {
        Precision::Fp32 => 1e-5,
        _ => 2e-3,
    };
    let graph = model.build(1);
    let inputs = inputs(&graph);
    let given: Vec<(&str, &Tensor)> = inputs.iter().map(|(n, t)| (n.as_str(), t)).collect();
    let options = RunOptions::new().with_precision(precision);
    let mut cpu = ModelRunner::from_graph(graph.clone(), &options).expect("the CPU runs it");
    let want = cpu.run(&given).expect("runs");
    let mut session = CudaSession::from_graph(graph, device, &options).expect("loads");
    let got = session.run(&given).expect("runs");
    let apart = apart(&got, &want);
    assert!(
        apart <= at_most,
        "{} {precision}: {apart:.2e}",
        model.name()
    );
    let name = model.name();
    println!("figure: {name} {precision} from the CPU = {apart:.2e} of the scale");
    session
}
