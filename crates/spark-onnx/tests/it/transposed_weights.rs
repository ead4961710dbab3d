//! A matrix and its transpose in one network, as the ways forth and back of training have them: packed once, with the bits of
//! two copies.

use spark_onnx::graph::{Dim, Gemm, Graph, Op, Unary};
use spark_onnx::{DType, Model, Precision, RunOptions, Tensor};
use spark_testing::numbers;

const INPUTS: usize = 150;
const OUTPUTS: usize = 70;

fn gemm(alpha: f32, trans_b: bool) -> Op {
    Op::Gemm(Gemm {
        alpha,
        beta: 1.0,
        trans_a: false,
        trans_b,
    })
}

/// `y = alpha tanh(x W) W'`, the second W another constant of the same values where it is `apart`.
fn network(rows: usize, alpha: f32, apart: bool) -> Graph {
    let mut graph = Graph::default();
    let dims = vec![Dim::Known(rows), Dim::Known(INPUTS)];
    let x = graph.add_input("x", DType::F32, dims);
    let values = || Tensor::from_f32([INPUTS, OUTPUTS], numbers(INPUTS * OUTPUTS, 3));
    let w = graph.add_constant("w", values().expect("fits"));
    let again = match apart {
        true => graph.add_constant("w.again", values().expect("fits")),
        false => w,
    };
    let forth = graph.add_node("forth", gemm(1.0, false), &[Some(x), Some(w)]);
    let bent = graph.add_node("bent", Op::Unary(Unary::Tanh), &[Some(forth)]);
    let back = graph.add_node("back", gemm(alpha, true), &[Some(bent), Some(again)]);
    graph.outputs.push(back);
    graph
}

/// Its result, the bytes of its weights, and the kernel of the way back.
fn run(graph: Graph, rows: usize, threads: usize) -> (Tensor, usize, String) {
    let options = RunOptions::new()
        .with_precision(Precision::Fp32)
        .with_threads(threads);
    let model = Model::from_graph(graph, &options).expect("plans");
    let mut session = model.session();
    let x = Tensor::from_f32([rows, INPUTS], numbers(rows * INPUTS, 7)).expect("fits");
    let results = session.run(&[("x", &x)]).expect("runs");
    let kernel = session.steps().last().expect("a step").kernel.clone();
    (
        results[0].1.clone(),
        model.memory().weight_bytes,
        kernel.to_string(),
    )
}

#[test]
fn a_matrix_that_is_packed_serves_its_transpose() {
    let of_matrix = 4 * INPUTS * OUTPUTS;
    for rows in [1, 3, 8, 96] {
        for threads in [1, 2] {
            let (got, bytes, kernel) = run(network(rows, 1.0, false), rows, threads);
            let (want, bytes_apart, own) = run(network(rows, 1.0, true), rows, threads);
            assert_eq!(got, want, "{rows} rows, {threads} threads");
            assert!(kernel.ends_with("gemm-by-transpose"), "{kernel}");
            assert!(own.ends_with("-gemm"), "{own}");
            assert!(
                bytes + of_matrix <= bytes_apart,
                "{bytes} and {bytes_apart}: a copy of the matrix less"
            );
        }
    }
}

/// Many rows are worth a copy, and a factor makes other weights.
#[test]
fn other_products_have_their_own_copy() {
    for (rows, alpha) in [(97, 1.0), (3, 0.5)] {
        let (got, _, kernel) = run(network(rows, alpha, false), rows, 2);
        let (want, _, _) = run(network(rows, alpha, true), rows, 2);
        assert_eq!(got, want, "{rows} rows, times {alpha}");
        assert!(kernel.ends_with("-gemm"), "{kernel}");
    }
}
