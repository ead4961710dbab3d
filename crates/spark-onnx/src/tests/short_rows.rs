//! What training runs most: element-wise programs whose rows are channels, and products over many pixels.

use proptest::prelude::*;
use spark_onnx::graph::{Binary, Cast, Dim, Graph, MatMul, Op, Transpose, Unary, ValueId, Where};
use spark_onnx::{DType, ModelRunner, Precision, RunOptions, Tensor};
use spark_testing::numbers;

use super::operators::{cases, compare, graph_of, unary};

fn tensor(shape: &[usize], seed: u64) -> Tensor {
    Tensor::from_f32(shape, numbers(shape.iter().product(), seed)).expect("fits")
}

/// A constant of `shape`, with extents of 1 where `along` has a zero bit: it broadcasts.
fn part(graph: &mut Graph, name: &str, shape: &[usize], along: usize, seed: u64) -> ValueId {
    let axes = shape.iter().enumerate();
    let shape: Vec<usize> = axes
        .map(|(axis, &n)| if along >> axis & 1 == 1 { n } else { 1 })
        .collect();
    graph.add_constant(name, tensor(&shape, seed))
}

/// Its sign as an integer, which no rounding changes.
fn whole_if(graph: &mut Graph, is_integer: bool, x: ValueId) -> ValueId {
    if !is_integer {
        return x;
    }
    let name = format!("{}.sign", graph.value(x).name);
    let sign = unary(graph, &name, Unary::Sign, x);
    let to = DType::I64;
    graph.add_node(
        format!("{name}.whole"),
        Op::Cast(Cast { to }),
        &[Some(sign)],
    )
}

proptest! {
    #![proptest_config(cases(96))]

    /// Rows shorter than a block, operands that repeat along any axes, results in another order than the operand.
    #[test]
    fn programs_over_short_rows(
        shape in [1usize..4, 1usize..40, 1usize..9, 1usize..9],
        perm in Just(vec![0usize, 1, 2, 3]).prop_shuffle(),
        along in [0usize..16, 0usize..16, 0usize..16],
        is_integer in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let (mut graph, x) = graph_of(&shape);
        let turn = Op::Transpose(Transpose { perm: Some(perm.clone()) });
        let x = graph.add_node("turned", turn, &[Some(x)]);
        let x = whole_if(&mut graph, is_integer, x);
        let turned: Vec<usize> = perm.iter().map(|&axis| shape[axis]).collect();
        let [a, b, c] = [0, 1, 2].map(|i| {
            let name = ["a", "b", "c"][i];
            let part = part(&mut graph, name, &turned, along[i], seed ^ (i as u64 + 1));
            whole_if(&mut graph, is_integer, part)
        });
        let scaled = graph.add_node("scaled", Op::Binary(Binary::Mul), &[Some(x), Some(a)]);
        let moved = graph.add_node("moved", Op::Binary(Binary::Add), &[Some(scaled), Some(b)]);
        let is_on = graph.add_node("on", Op::Binary(Binary::Less), &[Some(c), Some(moved)]);
        let y = graph.add_node("kept", Op::Where(Where), &[Some(is_on), Some(moved), Some(c)]);
        graph.outputs.push(y);
        let inputs = [("x".to_owned(), tensor(&shape, seed))];
        compare(&graph, &inputs, 1e-5).map_err(TestCaseError::fail)?;
    }
}

/// What a power is hangs on its own exponent alone, not on what stands in the same block.
#[test]
fn powers_of_mixed_exponents_are_those_of_each() {
    let values = [
        5.319_336,
        0.1,
        -0.0,
        f32::NEG_INFINITY,
        f32::INFINITY,
        3.0,
        0.7,
    ];
    let exponents = [2.0, 0.5, 1.0, 3.0, -1.0];
    let power = |exponents: &[f32]| -> Vec<f32> {
        let shape = [exponents.len(), values.len()];
        let (mut graph, x) = graph_of(&shape);
        let e = Tensor::from_f32([exponents.len(), 1], exponents.to_vec()).expect("fits");
        let e = graph.add_constant("e", e);
        let y = graph.add_node("y", Op::Binary(Binary::Pow), &[Some(x), Some(e)]);
        graph.outputs.push(y);
        let x = Tensor::from_f32(shape, values.repeat(exponents.len())).expect("fits");
        let options = RunOptions::new().with_precision(Precision::Fp32);
        let mut runner = ModelRunner::from_graph(graph, &options).expect("plans");
        runner.run(&[("x", &x)]).expect("runs")[0].1.to_f32()
    };
    let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    let mixed = power(&exponents);
    for (row, exponent) in exponents.iter().enumerate() {
        let alone = power(&[*exponent]);
        let of_row = &mixed[row * values.len()..][..values.len()];
        assert_eq!(bits(of_row), bits(&alone), "exponent {exponent}");
    }
    let roots = power(&[0.5]);
    assert_eq!(
        bits(&roots[2..5]),
        bits(&[0.0, f32::INFINITY, f32::INFINITY])
    );
}

/// `x^T b` over `k` rows, for every sample.
fn deep(samples: usize, [m, k, n]: [usize; 3], is_turned: bool) -> (Graph, [(String, Tensor); 2]) {
    let shape = match is_turned {
        true => vec![samples, k, m],
        false => vec![samples, m, k],
    };
    let (mut graph, mut x) = graph_of(&shape);
    if is_turned {
        let op = Op::Transpose(Transpose {
            perm: Some(vec![0, 2, 1]),
        });
        x = graph.add_node("turned", op, &[Some(x)]);
    }
    let b_shape = [samples, k, n];
    let b = graph.add_input("b", DType::F32, b_shape.map(Dim::Known).to_vec());
    let y = graph.add_node("product", Op::MatMul(MatMul), &[Some(x), Some(b)]);
    graph.outputs.push(y);
    let inputs = [("x", tensor(&shape, 7)), ("b", tensor(&b_shape, 3))];
    (graph, inputs.map(|(name, t)| (name.to_owned(), t)))
}

#[test]
fn small_products_over_many_terms() {
    let shapes = [
        (1, 16, 5001, 96, true),
        (1, 3, 4096, 5, false),
        (2, 9, 5000, 33, true),
        (4, 1, 4500, 1, false),
        (1, 7, 4097, 300, true),
    ];
    for (samples, m, k, n, is_turned) in shapes {
        let (graph, inputs) = deep(samples, [m, k, n], is_turned);
        compare(&graph, &inputs, 1e-5).unwrap_or_else(|e| panic!("{m} x {k} x {n}: {e}"));
    }
}

/// Whose kernel is told by shape, so that bits do not change from one process to the next.
#[test]
fn products_over_many_terms_have_a_kernel_of_their_own() {
    let options = RunOptions::new().with_precision(Precision::Fp32);
    let kernel = |m, k, n| {
        let (graph, _) = deep(1, [m, k, n], true);
        let runner = ModelRunner::from_graph(graph, &options).expect("plans");
        let steps = runner.steps();
        let product = steps.iter().find(|step| step.kind == "matmul");
        product.expect("a product").kernel.clone()
    };
    assert!(kernel(16, 4096, 96).ends_with("-f32-deep-gemm"));
    assert!(kernel(16, 4095, 96).ends_with("-f32-batched-gemm"));
    assert!(kernel(256, 4096, 256).ends_with("-f32-batched-gemm"));
}
