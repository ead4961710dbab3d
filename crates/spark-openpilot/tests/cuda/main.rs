//! The zoo's networks on a GPU, whole, on the stand-in driver: close to the CPU in fp16, products on tensor cores.
//!
//! A program of its own: the driver has to be there before anything asks for one, as other tests of this crate do.

#![cfg(feature = "cuda")]
#![allow(clippy::print_stdout, reason = "tests tell what they measured")]

use std::path::Path;

use spark_mem::{Device, DeviceOptions};
use spark_onnx::Precision;
use spark_openpilot::zoo::ZooModel;
use spark_testing::driver::{Build, Persona, StandInDriver, kernels_in};

#[path = "../gpu/zoo_cases.rs"]
mod zoo_cases;

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
        let session = zoo_cases::agrees(model, Precision::Fp16, &device);
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
