//! The zoo's networks on the GPU of this machine, if there is one, against the CPU.
//!
//! `SPARK_REQUIRE_GPU=1` turns a skip into a failure. `cargo xtask gpu` makes a bundle of this
//! binary for a machine without cargo. It never loads the stand-in driver.

#![cfg(feature = "cuda")]
#![allow(
    clippy::print_stdout,
    reason = "a skipped test says so, a timed one says how fast"
)]

mod zoo_cases;

use std::time::Instant;

use spark_hal::config;
use spark_mem::kernel::ComputeCapability;
use spark_mem::{Device, DeviceOptions};
use spark_onnx::cuda::CudaSession;
use spark_onnx::{Precision, RunOptions, Tensor};
use spark_openpilot::zoo::ZooModel;
use spark_testing::settings::{keep_kernels, require_gpu};

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

/// Holds a network against the CPU in both formats, twice: nothing of the first run may be left in the second.
fn agrees(model: ZooModel, device: &Device) {
    for precision in [Precision::Fp32, Precision::Fp16] {
        let mut session = zoo_cases::agrees(model, precision, device);
        let inputs = zoo_cases::inputs(&model.build(1));
        let given: Vec<(&str, &Tensor)> = inputs.iter().map(|(n, t)| (n.as_str(), t)).collect();
        let again = session.run(&given).expect("the same inputs");
        assert_eq!(session.run(&given).expect("the same inputs"), again);
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
            let inputs = zoo_cases::inputs(&graph);
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

/// What a bundle brings along, so that nothing is compiled where it runs.
#[test]
fn kernels_are_kept_for_other_machines() {
    let Some(folder) = keep_kernels() else {
        return;
    };
    for (major, minor) in [(8, 0), (9, 0), (12, 0), (12, 1)] {
        let compute = ComputeCapability { major, minor };
        spark_onnx::cuda::precompile(compute, &folder).expect("NVRTC takes its own sources");
    }
}
