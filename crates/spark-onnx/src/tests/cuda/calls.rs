//! What the driver is asked: one launch a run, nothing taken after loading, nothing left behind where a call fails.

use spark_mem::{Device, DeviceOptions};
use spark_onnx::cuda::CudaSession;
use spark_onnx::graph::{Dim, Graph, MatMul, Op, Softmax, Unary};
use spark_onnx::{DType, ModelError, Precision, Tensor};
use spark_testing::driver::{Persona, Posed};

use super::{compare, driver, on, options, tensor};

/// `softmax(relu(x W))`.
pub(super) fn tiny() -> Graph {
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, vec![Dim::Known(3), Dim::Known(5)]);
    let w = graph.add_constant("w", tensor(&[5, 7], 1));
    let product = graph.add_node("product", Op::MatMul(MatMul), &[Some(x), Some(w)]);
    let y = graph.add_node("relu", Op::Unary(Unary::Relu), &[Some(product)]);
    let softmax = Op::Softmax(Softmax {
        axis: -1,
        log: false,
        flatten: false,
    });
    let y = graph.add_node("y", softmax, &[Some(y)]);
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

/// Calls that begin with one of `names`.
fn among<'c>(calls: &'c [String], names: &[&str]) -> Vec<&'c String> {
    let is_one = |call: &&String| names.iter().any(|name| call.starts_with(name));
    calls.iter().filter(is_one).collect()
}

#[test]
fn a_run_is_one_launch_and_takes_no_memory() {
    for persona in [Persona::Spark, Persona::Card] {
        on(persona, |posed, device| {
            let options = options(Precision::Fp16);
            let mut session = CudaSession::from_graph(tiny(), device, &options).expect("loads");
            let x = tensor(&[3, 5], 2);
            let before = device.stats();
            for _ in 0..3 {
                let first = posed.n_calls();
                session.run(&[("x", &x)]).expect("runs");
                let calls = posed.calls().split_off(first);
                assert_eq!(among(&calls, &["cuGraphLaunch"]).len(), 1, "{calls:?}");
                let others = [
                    "cuLaunch",
                    "cuMem",
                    "cuModule",
                    "cuStreamBegin",
                    "cuGraphInst",
                ];
                assert!(among(&calls, &others).is_empty(), "{calls:?}");
            }
            // On a card one in and one out, which the graph makes.
            let copies = device.stats().copies() - before.copies();
            let wanted = if persona == Persona::Card { 6 } else { 0 };
            assert_eq!(copies, wanted);
        });
    }
}

/// Loads and runs the tiny network on a device that is opened and closed, with a fault set in between.
fn program(posed: &Posed<'_>, set: impl FnOnce()) -> (Result<Vec<f32>, ModelError>, usize) {
    posed.forget();
    let device = Device::cuda(0, DeviceOptions::new()).expect("opens");
    set();
    let before = posed.n_calls();
    let loaded = CudaSession::from_graph(tiny(), &device, &options(Precision::Fp32));
    let x: Tensor = tensor(&[3, 5], 2);
    let result = loaded.and_then(|mut session| session.run(&[("x", &x)]));
    let n_calls = posed.n_calls() - before;
    let result = result.map(|outputs| outputs[0].1.to_f32());
    drop(device);
    (result, n_calls)
}

/// An error of the driver's that a lost device gives.
const CODE: i32 = 719;

#[test]
fn whatever_call_fails_nothing_is_left_behind() {
    for persona in [Persona::Spark, Persona::Card] {
        let posed = driver().pose(persona);
        let (want, n_calls) = program(&posed, || {});
        let want = want.expect("runs");
        let mut n_errors = 0;
        // The driver counts calls from 0.
        for nth in 0..n_calls {
            let (result, _) = program(&posed, || posed.fail_call(nth, CODE));
            match result {
                Ok(got) => assert_eq!(got, want, "call {nth}"),
                Err(ModelError::Device { .. }) => n_errors += 1,
                Err(other) => panic!("call {nth}: {other}"),
            }
            posed.assert_clean();
        }
        assert!(n_errors > n_calls / 2, "{n_errors} of {n_calls}");
    }
}

#[test]
fn whatever_memory_is_missing_is_an_error() {
    for persona in [Persona::Spark, Persona::Card] {
        let posed = driver().pose(persona);
        let mut nth = 1;
        while let (Err(error), _) = program(&posed, || posed.fail_allocation(nth)) {
            assert!(matches!(error, ModelError::Device { .. }), "{error}");
            posed.assert_clean();
            nth += 1;
        }
        assert!(nth > 2, "{nth} allocations");
    }
}
