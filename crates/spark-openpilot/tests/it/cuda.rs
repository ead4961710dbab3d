//! The zoo's networks on a GPU, whole, on the stand-in driver: close to the CPU in fp16, products on tensor cores.

#![allow(clippy::print_stdout, reason = "tests tell what they measured")]

use std::path::Path;

use spark_mem::{Device, DeviceOptions};
use spark_onnx::cuda::CudaSession;
use spark_onnx::graph::{Dim, Graph};
use spark_onnx::tensor::TensorData;
use spark_onnx::{DType, ModelRunner, Precision, RunOptions, Tensor};
use spark_openpilot::zoo::ZooModel;
use spark_testing::driver::{Build, Persona, StandInDriver, kernels_in};
use spark_testing::numbers;

fn driver() -> StandInDriver {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folder = crates.join("spark-onnx/kernels");
    let kernels = kernels_in(&folder).expect("the kernels are there");
    let kernels: Vec<&Path> = kernels.iter().map(|path| path.as_path()).collect();
    let build = Build {
        kernels: &kernels,
        includes: &[&folder, &crates.join("spark-mem/kernels")],
        ..Build::default()
    };
    StandInDriver::load(&build).expect("the stand-in driver builds")
}

/// Random inputs of the declared types and shapes.
fn inputs(graph: &Graph) -> Vec<(String, Tensor)> {
    let input = |id: &spark_onnx::graph::ValueId| {
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

#[test]
fn whole_networks_in_fp16_are_those_of_the_cpu() {
    let driver = driver();
    let posed = driver.pose(Persona::Spark);
    let device = Device::cuda(0, DeviceOptions::new()).expect("the stand-in driver has a device");
    // As code of the host kernels take minutes for a network on pictures.
    let models = match driver.runs_ptx() {
        true => ZooModel::ALL.to_vec(),
        false => vec![ZooModel::DrivingPolicy],
    };
    for model in models {
        let graph = model.build(1);
        let inputs = inputs(&graph);
        let given: Vec<(&str, &Tensor)> = inputs.iter().map(|(n, t)| (n.as_str(), t)).collect();
        let options = RunOptions::new().with_precision(Precision::Fp16);
        let mut cpu = ModelRunner::from_graph(graph.clone(), &options).expect("the CPU runs it");
        let want = cpu.run(&given).expect("runs");
        let mut session = CudaSession::from_graph(graph, &device, &options).expect("loads");
        let got = session.run(&given).expect("runs");
        for ((name, got), (_, want)) in got.iter().zip(&want) {
            let (got, want) = (got.to_f64(), want.to_f64());
            let scale = want.iter().fold(0.0f64, |most, v| most.max(v.abs()));
            for (at, (got, want)) in got.iter().zip(&want).enumerate() {
                let is_close = (got - want).abs() <= 2e-3 * scale; // never true of NaN
                assert!(is_close, "{}: {name} {at}: {got}, not {want}", model.name());
            }
        }
        let kernels = session.steps().iter().map(|step| step.kernel);
        let n_tiles = kernels
            .filter(|name| name.starts_with("plan_tiles"))
            .count();
        assert!(
            n_tiles > 10,
            "{}: {n_tiles} products in tiles",
            model.name()
        );
        println!("{}: {n_tiles} products in tiles", model.name());
    }
    drop(device);
    posed.assert_clean();
}
