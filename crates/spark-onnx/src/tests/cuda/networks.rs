//! Whole networks with the kinds of steps that driving models have, against the CPU.

use spark_mem::Device;
use spark_onnx::cuda::CudaSession;
use spark_onnx::graph::Graph;
use spark_onnx::tensor::TensorData;
use spark_onnx::{DType, ModelRunner, Precision, Tensor};
use spark_testing::driver::Persona;

use super::{on, options, tensor};
use crate::tests::networks::{attentive, convolutional};

/// The greatest difference of any output from the CPU's, over the greatest number of that output.
fn difference(
    device: &Device,
    graph: &Graph,
    inputs: &[(&str, &Tensor)],
    precision: Precision,
) -> f64 {
    let options = options(precision);
    let mut cpu = ModelRunner::from_graph(graph.clone(), &options).expect("the CPU runs it");
    let want = cpu.run(inputs).expect("runs");
    let mut session = CudaSession::from_graph(graph.clone(), device, &options).expect("loads");
    let got = session.run(inputs).expect("runs");
    let pairs = got.iter().zip(&want).map(|((_, got), (_, want))| {
        let (got, want) = (got.to_f64(), want.to_f64());
        let scale = want.iter().fold(0.0f64, |most, v| most.max(v.abs()));
        let apart = got.iter().zip(&want).map(|(g, w)| (g - w).abs());
        // NaN is apart from everything.
        apart.fold(0.0f64, |most, v| if v <= most { most } else { v }) / scale
    });
    pairs.fold(0.0, f64::max)
}

fn check(graph: &Graph, inputs: &[(&str, &Tensor)]) {
    // One precision as each: kernels are the same, and what differs, copies, is told by both.
    for (persona, precision, bar) in [
        (Persona::Spark, Precision::Fp32, 1e-5),
        (Persona::Card, Precision::Fp16, 2e-3),
    ] {
        on(persona, |_, device| {
            let got = difference(device, graph, inputs, precision);
            println!("{persona:?}: {precision} {got:.2e}");
            assert!(got <= bar, "{precision}: {got:e} of the scale");
        });
    }
}

#[test]
fn a_network_on_pictures() {
    let shape = [1, 12, 96, 96];
    let n = shape.iter().product::<usize>();
    let bytes = (0..n).map(|i| (i * 7919 % 251) as u8).collect();
    let img = Tensor::new(shape.to_vec(), TensorData::U8(bytes)).expect("fits");
    assert_eq!(img.dtype(), DType::U8);
    check(&convolutional(), &[("img", &img)]);
}

#[test]
fn a_network_of_attention() {
    let (tokens, side) = (tensor(&[1, 150, 64], 1), tensor(&[1, 2], 2));
    check(&attentive(), &[("tokens", &tokens), ("side", &side)]);
}
