//! Networks on a GPU, on the stand-in driver: against the reference operator by operator, against the CPU whole, and by
//! the calls that the driver records.
//!
//! With NVRTC at hand kernels run as the PTX that it makes of them, and what the interpreter finds wrong fails a test.

use std::path::Path;
use std::sync::OnceLock;

use spark_mem::{Device, DeviceOptions};
use spark_onnx::cuda::CudaSession;
use spark_onnx::graph::{Dim, Graph, MatMul, Op, Unary, bind};
use spark_onnx::{DType, ModelError, Precision, RunOptions, Tensor, reference};
use spark_testing::driver::{Build, Persona, Posed, StandInDriver};
use spark_testing::numbers;

use super::operators::same;

/// The driver of this process.
fn driver() -> &'static StandInDriver {
    static DRIVER: OnceLock<StandInDriver> = OnceLock::new();
    DRIVER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let files = ["plan_products.cu", "plan_rows.cu", "plan_elements.cu"];
        let kernels = files.map(|file| folder.join("kernels").join(file));
        let includes = [folder.join("kernels"), folder.join("../spark-mem/kernels")];
        let build = Build {
            kernels: &kernels.each_ref().map(|path| path.as_path()),
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
    test(&posed, &device);
    drop(device);
    posed.assert_clean();
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

/// `relu(x W)`.
fn tiny() -> Graph {
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, vec![Dim::Known(3), Dim::Known(5)]);
    let w = graph.add_constant("w", tensor(&[5, 7], 1));
    let product = graph.add_node("product", Op::MatMul(MatMul), &[Some(x), Some(w)]);
    let y = graph.add_node("y", Op::Unary(Unary::Relu), &[Some(product)]);
    graph.outputs.push(y);
    graph
}

#[test]
fn a_tiny_network_runs() {
    for persona in [Persona::Spark, Persona::Card] {
        on(persona, |_, device| {
            let inputs = [("x".to_owned(), tensor(&[3, 5], 2))];
            compare(device, &tiny(), &inputs, Precision::Fp32, 1e-6).unwrap();
            compare(device, &tiny(), &inputs, Precision::Fp16, 1e-3).unwrap();
        });
    }
}
