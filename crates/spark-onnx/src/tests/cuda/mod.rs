//! Networks on a GPU, on the stand-in driver: against the reference operator by operator, against the CPU whole, and by
//! the calls that the driver records.
//!
//! With NVRTC at hand kernels run as the PTX that it makes of them, and what the interpreter finds wrong fails a test.

#![allow(clippy::print_stdout, reason = "tests tell what they measured")]

mod calls;
mod elements;
mod mutants;
mod networks;
mod operators;
mod refusals;
mod tiles;

use std::path::Path;
use std::sync::OnceLock;

use spark_mem::{Device, DeviceOptions};
use spark_onnx::cuda::CudaSession;
use spark_onnx::graph::{Graph, bind};
use spark_onnx::{Precision, RunOptions, Tensor, reference};
use spark_testing::driver::{Build, Persona, Posed, StandInDriver, kernels_in};
use spark_testing::numbers;

use crate::tests::operators::same;

/// The driver of this process.
fn driver() -> &'static StandInDriver {
    static DRIVER: OnceLock<StandInDriver> = OnceLock::new();
    DRIVER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let kernels = kernels_in(&folder.join("kernels")).expect("the kernels are there");
        let kernels: Vec<&Path> = kernels.iter().map(|path| path.as_path()).collect();
        let includes = [folder.join("kernels"), folder.join("../spark-mem/kernels")];
        let build = Build {
            kernels: &kernels,
            includes: &includes.each_ref().map(|path| path.as_path()),
            ..Build::default()
        };
        StandInDriver::load(&build).expect("the stand-in driver builds")
    })
}

/// Runs a test on a device of this persona and asserts that nothing is left behind.
#[track_caller]
fn on(persona: Persona, test: impl FnOnce(&Posed<'_>, &Device)) {
    let posed = driver().pose(persona);
    let device = Device::cuda(0, DeviceOptions::new()).expect("the stand-in driver has a device");
    let told = Told(&posed);
    test(&posed, &device);
    drop((told, device));
    posed.assert_clean();
}

/// Tells what the driver and the interpreter found wrong, where a test fails.
struct Told<'p>(&'p Posed<'p>);

impl Drop for Told<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("{:#?}", self.0.violations());
        }
    }
}

fn tensor(shape: &[usize], seed: u64) -> Tensor {
    Tensor::from_f32(shape, numbers(shape.iter().product(), seed)).expect("fits")
}

fn options(precision: Precision) -> RunOptions {
    RunOptions::new().with_precision(precision)
}

/// Runs `graph` on the device and as the reference does, and compares every output, relative to its largest value.
fn compare(
    device: &Device,
    graph: &Graph,
    inputs: &[(String, Tensor)],
    precision: Precision,
    bar: f64,
) -> Result<(), String> {
    let given: Vec<(&str, &Tensor)> = inputs.iter().map(|(n, t)| (n.as_str(), t)).collect();
    let bound = bind(graph, &[]).map_err(|e| format!("bind: {e}"))?;
    let want = reference::run(&bound, &given).map_err(|e| format!("reference: {e}"))?;
    let session = CudaSession::from_graph(graph.clone(), device, &options(precision));
    let mut session = session.map_err(|e| format!("load: {e}"))?;
    // Twice: a run that spoils its inputs or constants shows the second time.
    for _ in 0..2 {
        let got = session.run(&given).map_err(|e| format!("run: {e}"))?;
        for ((name, got), (_, want)) in got.iter().zip(&want) {
            same(got, want, bar).map_err(|e| format!("{name}: {e}"))?;
        }
    }
    Ok(())
}
