//! Products of 8-bit integers whose windows, lists and sizes are huge or empty: an answer or an error, soon and
//! in little memory.

use spark_onnx::graph::{
    Conv, ConvInteger, Graph, MatMulInteger, Op, Padding, QLinearConv, QLinearMatMul, ValueId,
};
use spark_onnx::{DType, Tensor};

use super::hostile_sizes::{HUGE, check, floats, input, output};

/// A constant of the least bytes.
fn bytes(graph: &mut Graph, name: &str, shape: &[usize]) -> Option<ValueId> {
    let tensor = Tensor::zeros(DType::I8, shape).expect("fits");
    Some(graph.add_constant(name, tensor))
}

/// An input of floats as bytes.
fn quantised(graph: &mut Graph, shape: &[usize]) -> Option<ValueId> {
    let x = input(graph, shape);
    let to = DType::I8;
    Some(graph.add_node("q", Op::Cast(spark_onnx::graph::Cast { to }), &[x]))
}

/// Both convolutions of a picture by weights.
fn convolutions(conv: &Conv, shape: &[usize], weights: &[usize]) {
    let name = format!("{conv:?} of {shape:?} by {weights:?}");
    let mut graph = Graph::default();
    let (x, w) = (
        quantised(&mut graph, shape),
        bytes(&mut graph, "w", weights),
    );
    let op = Op::ConvInteger(ConvInteger { conv: conv.clone() });
    check(&name, &output(graph, op, &[x, w]));
    let mut graph = Graph::default();
    let (x, w) = (
        quantised(&mut graph, shape),
        bytes(&mut graph, "w", weights),
    );
    let scale = floats(&mut graph, "scale", &[1]);
    let zero = bytes(&mut graph, "zero", &[]);
    let op = Op::QLinearConv(QLinearConv { conv: conv.clone() });
    let operands = [x, scale, zero, w, scale, zero, scale, zero];
    check(&name, &output(graph, op, &operands));
}

fn conv() -> Conv {
    Conv {
        strides: vec![],
        dilations: vec![],
        padding: Padding::Valid,
        groups: 1,
    }
}

#[test]
fn windows_of_bytes() {
    for huge in HUGE.map(|n| n as usize) {
        let odd = [
            Conv {
                strides: vec![huge; 2],
                ..conv()
            },
            Conv {
                dilations: vec![huge; 2],
                padding: Padding::Explicit(vec![huge; 4]),
                ..conv()
            },
            Conv {
                padding: Padding::Explicit(vec![huge; 4]),
                strides: vec![huge; 2],
                dilations: vec![huge; 2],
                ..conv()
            },
            Conv {
                padding: Padding::SameUpper,
                dilations: vec![huge; 2],
                ..conv()
            },
            Conv {
                groups: huge,
                ..conv()
            },
        ];
        for conv in odd {
            convolutions(&conv, &[1, 3, 8, 8], &[2, 3, 3, 3]);
        }
        // Weights without elements may have windows of any extent.
        let wide = Conv {
            padding: Padding::Explicit(vec![huge, 0, huge, 0]),
            ..conv()
        };
        let long = 1 << 29;
        for (shape, weights) in [
            ([1, 0, 4, 4], [1, 0, long, 1]),
            ([1, 0, 4, 4], [0, 0, long, 1]),
            ([0, 1, long, 4], [1, 1, 1, 1]),
        ] {
            convolutions(&wide, &shape, &weights);
        }
    }
}

#[test]
fn matrices_of_bytes_without_elements() {
    for huge in HUGE.map(|n| n as usize) {
        for (shape, weights) in [
            ([0, 0], [0, huge]),
            ([3, 0], [0, 4]),
            ([3, 0], [0, huge]),
            ([0, huge], [huge, 0]),
            ([0, 4], [4, 4]),
            ([huge, 0], [0, 4]),
            ([huge, 0], [0, 0]),
        ] {
            let Ok(tensor) = Tensor::zeros(DType::I8, weights) else {
                continue;
            };
            let name = format!("{shape:?} by {weights:?}");
            let mut graph = Graph::default();
            let x = quantised(&mut graph, &shape);
            let w = Some(graph.add_constant("w", tensor.clone()));
            let op = Op::MatMulInteger(MatMulInteger);
            check(&name, &output(graph, op, &[x, w]));
            let mut graph = Graph::default();
            let x = quantised(&mut graph, &shape);
            let w = Some(graph.add_constant("w", tensor));
            let scale = floats(&mut graph, "scale", &[]);
            let zero = bytes(&mut graph, "zero", &[]);
            let op = Op::QLinearMatMul(QLinearMatMul);
            let operands = [x, scale, zero, w, scale, zero, scale, zero];
            check(&name, &output(graph, op, &operands));
        }
    }
}
