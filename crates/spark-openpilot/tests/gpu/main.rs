//! The zoo's networks on the GPU of this machine, if there is one, against the CPU.
//!
//! `SPARK_REQUIRE_GPU=1` turns a skip into a failure. `cargo xtask gpu` makes a bundle of this
//! binary for a machine without cargo. It never loads the stand-in driver.

#![cfg(feature = "cuda")]
#![allow(
    clippy::print_stdout,
    reason = "a skipped test says so, a timed one says how fast"
)]

use std::time::Instant;

use spark_hal::config;
use spark_mem::{Device, DeviceOptions};
use spark_onnx::cuda::CudaSession;
use spark_onnx::graph::{Dim, Graph};
use spark_onnx::tensor::TensorData;
use spark_onnx::{DType, ModelRunner, Precision, RunOptions, Tensor};
use spark_openpilot::zoo::ZooModel;
use spark_testing::numbers;
use spark_testing::settings::require_gpu;

/// Runs a test on the first GPU.
#[track_caller]
fn with_gpu(name: &str, test: fn(&Device)) {
    // Tests of other threads would disturb a measurement, which is kept.
    let options = DeviceOptions::from_config(config()).with_measured_memory(false);
    match Device::cuda(0, options) {
        Ok(device) => test(&device),
        Err(why) if require_gpu() => panic!("{name}: {why}"),
        Err(why) => println!("skipped: {name} needs a GPU ({why})"),
    }
}

/// Random inputs of the declared types and shapes.
fn inputs(graph: &Graph, seed: u64) -> Vec<(String, Tensor)> {
    let input = |id| {
        let value = graph.value(id);
        let dims = value.shape.iter().flatten().map(|dim| match dim {
            Dim::Known(extent) => *extent,
            open => panic!("input `{}` is open: {open:?}", value.name),
        });
        let shape: Vec<usize> = dims.collect();
        let values = numbers(shape.iter().product(), seed ^ id.0 as u64);
        let tensor = match value.dtype {
            Some(DType::U8) => {
                let bytes = values.iter().map(|v| ((v + 1.0) * 127.5) as u8);
                Tensor::new(shape, TensorData::U8(bytes.collect()))
            }
            _ => Tensor::from_f32(shape, values),
        };
        (
            value.name.clone(),
            tensor.expect("as many values as places"),
        )
    };
    graph.inputs.iter().map(|&id| input(id)).collect()
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

/// Holds a network against the CPU in the same storage formats.
fn agrees(model: ZooModel, device: &Device) {
    let graph = model.build(1);
    let inputs = inputs(&graph, 1);
    let given: Vec<(&str, &Tensor)> = inputs.iter().map(|(n, t)| (n.as_str(), t)).collect();
    for (precision, at_most) in [(Precision::Fp32, 1e-5), (Precision::Fp16, 2e-3)] {
        let options = RunOptions::new().with_precision(precision);
        let mut runner = ModelRunner::from_graph(graph.clone(), &options).expect("a network");
        let want = runner.run(&given).expect("inputs that fit");
        let session = CudaSession::from_graph(graph.clone(), device, &options);
        let mut session = session.expect("a network that the GPU takes");
        let got = session.run(&given).expect("inputs that fit");
        let apart = apart(&got, &want);
        assert!(
            apart <= at_most,
            "{} {precision}: {apart:.2e}",
            model.name()
        );
        println!(
            "figure: {} {precision} from the CPU = {apart:.2e} of the scale",
            model.name()
        );
        // The same graph once more: nothing of the first run is left in it.
        assert_eq!(session.run(&given).expect("the same inputs"), got);
    }
}

#[test]
fn driving_policy_agrees_with_the_cpu() {
    with_gpu("driving_policy_agrees_with_the_cpu", |device| {
        agrees(ZooModel::DrivingPolicy, device);
    });
}

#[test]
fn driving_vision_agrees_with_the_cpu() {
    with_gpu("driving_vision_agrees_with_the_cpu", |device| {
        agrees(ZooModel::DrivingVision, device);
    });
}

#[test]
fn driver_monitoring_agrees_with_the_cpu() {
    with_gpu("driver_monitoring_agrees_with_the_cpu", |device| {
        agrees(ZooModel::DriverMonitoring, device);
    });
}

#[test]
fn frames_are_timed() {
    with_gpu("frames_are_timed", |device| {
        for model in ZooModel::ALL {
            let graph = model.build(1);
            let inputs = inputs(&graph, 1);
            let given: Vec<(&str, &Tensor)> = inputs.iter().map(|(n, t)| (n.as_str(), t)).collect();
            for precision in [Precision::Fp32, Precision::Fp16] {
                let options = RunOptions::new().with_precision(precision);
                let session = CudaSession::from_graph(graph.clone(), device, &options);
                let mut session = session.expect("a network that the GPU takes");
                let mut run = || {
                    let start = Instant::now();
                    session.run(&given).expect("inputs that fit");
                    start.elapsed().as_secs_f64() * 1e3
                };
                let _first = run();
                let mut times: Vec<f64> = (0..21).map(|_| run()).collect();
                times.sort_by(f64::total_cmp);
                println!(
                    "figure: {} {precision} on the GPU = {:.3} ms [{:.3}, {:.3}], inputs and outputs copied",
                    model.name(),
                    times[10],
                    times[0],
                    times[20]
                );
            }
        }
    });
}
