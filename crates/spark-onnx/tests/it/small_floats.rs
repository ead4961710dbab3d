//! Quantisation to floats of 8 bits and by blocks behind a product of integers, whose sums stay what they are.

use spark_onnx::graph::{
    DequantizeLinear, Dim, Graph, MatMul, Op, QuantizeLinear, RoundFloat, SmallFloat, ValueId, bind,
};
use spark_onnx::{DType, ModelRunner, RunOptions, Tensor, reference};

fn list(dtype: DType, shape: &[usize], values: &[f64]) -> Tensor {
    Tensor::from_f64(dtype, shape, values.to_vec()).expect("fills its shape")
}

/// A product of bytes, quantised and dequantised so, with these scales.
fn quantised_product(
    quantize: QuantizeLinear,
    dequantize: DequantizeLinear,
    scales: &Tensor,
) -> Graph {
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, vec![Dim::Known(1), Dim::Known(3)]);
    let mut constant =
        |name: &str, tensor| -> Option<ValueId> { Some(graph.add_constant(name, tensor)) };
    let x_scale = constant("x_scale", list(DType::F32, &[], &[0.25]));
    let zero = constant("zero", list(DType::I8, &[], &[0.0]));
    let w_values: Vec<f64> = (0..12).map(|i| f64::from(i * 37 % 23 - 11)).collect();
    let w = constant("w", list(DType::I8, &[3, 4], &w_values));
    let w_scale = constant("w_scale", list(DType::F32, &[], &[0.5]));
    let scales = constant("scales", scales.clone());
    let to_bytes = Op::from(QuantizeLinear::along(1));
    let from_bytes = || Op::from(DequantizeLinear::along(1));
    let q = graph.add_node("q", to_bytes, &[Some(x), x_scale, zero]);
    let dx = graph.add_node("dx", from_bytes(), &[Some(q), x_scale, zero]);
    let dw = graph.add_node("dw", from_bytes(), &[w, w_scale, zero]);
    let product = graph.add_node("product", Op::MatMul(MatMul), &[Some(dx), Some(dw)]);
    let small = graph.add_node("small", quantize.into(), &[Some(product), scales]);
    let y = graph.add_node("y", dequantize.into(), &[Some(small), scales]);
    graph.outputs = vec![y];
    graph
}

#[track_caller]
fn check(graph: Graph) {
    let x = list(DType::F32, &[1, 3], &[1.3, -2.6, 7.9]);
    let inputs = [("x", &x)];
    let bound = bind(&graph, &[]).expect("binds");
    let want = reference::run(&bound, &inputs).expect("runs").remove(0).1;
    let mut runner =
        ModelRunner::from_graph(graph, &RunOptions::new().with_threads(1)).expect("plans");
    let got = runner.run(&inputs).expect("runs").remove(0).1;
    assert_eq!(got.to_f32(), want.to_f32());
}

#[test]
fn a_product_of_bytes_becomes_floats_of_eight_bits() {
    for format in [SmallFloat::E4M3FN, SmallFloat::E5M2, SmallFloat::E2M1] {
        let saturate = true;
        let quantize = QuantizeLinear {
            float: Some(RoundFloat { format, saturate }),
            ..QuantizeLinear::along(1)
        };
        let dequantize = DequantizeLinear {
            float: Some(format),
            ..DequantizeLinear::along(1)
        };
        check(quantised_product(
            quantize,
            dequantize,
            &list(DType::F32, &[], &[0.125]),
        ));
    }
}

#[test]
fn a_product_of_bytes_is_quantised_by_blocks() {
    let block_size = 2;
    let quantize = QuantizeLinear {
        block_size,
        ..QuantizeLinear::along(1)
    };
    let dequantize = DequantizeLinear {
        block_size,
        ..DequantizeLinear::along(1)
    };
    check(quantised_product(
        quantize,
        dequantize,
        &list(DType::F32, &[1, 2], &[0.5, 0.125]),
    ));
}
