//! Scatters that add, multiply or compare integers: every type wraps to its width, in the executor
//! as in the interpreter; what the executor cannot do exactly it refuses.

use spark_onnx::graph::{Dim, Graph, Op, ScatterElements, ScatterNd, ScatterReduction, bind};
use spark_onnx::{DType, ModelError, ModelRunner, RunOptions, Tensor, reference};

use ScatterReduction::{Add, Max, Min, Mul};

fn tensor(dtype: DType, values: &[i64]) -> Tensor {
    let values = values.iter().map(|&v| v as f64).collect::<Vec<_>>();
    Tensor::from_f64(dtype, [values.len()], values).expect("fits")
}

/// Updates of element 0 of two, by both operators; as interpreted and as executed.
fn scattered(
    dtype: DType,
    reduction: ScatterReduction,
    start: i64,
    updates: &[i64],
) -> Vec<[Result<f64, ModelError>; 2]> {
    let n = updates.len();
    let by_tuple = Op::ScatterNd(ScatterNd { reduction });
    let by_element = Op::ScatterElements(ScatterElements { axis: 0, reduction });
    let cases = [(by_tuple, vec![n, 1]), (by_element, vec![n])];
    let run = |(op, index_shape): (Op, Vec<usize>)| {
        let mut graph = Graph::default();
        let x = graph.add_input("x", dtype, vec![Dim::Known(2)]);
        let indices = Tensor::from_i64(index_shape, vec![0; n]).expect("fits");
        let indices = graph.add_constant("indices", indices);
        let y = graph.add_input("updates", dtype, vec![Dim::Known(n)]);
        let out = graph.add_node("scatter", op, &[Some(x), Some(indices), Some(y)]);
        graph.outputs.push(out);
        let (x, y) = (tensor(dtype, &[start, 1]), tensor(dtype, updates));
        let given = [("x", &x), ("updates", &y)];
        let first = |outputs: Vec<(String, Tensor)>| outputs[0].1.to_f64()[0];
        let interpreted = bind(&graph, &[]).and_then(|bound| reference::run(&bound, &given));
        let executed = ModelRunner::from_graph(graph, &RunOptions::new())
            .and_then(|mut runner| runner.run(&given));
        [interpreted.map(first), executed.map(first)]
    };
    cases.into_iter().map(run).collect()
}

#[track_caller]
fn gives(dtype: DType, reduction: ScatterReduction, start: i64, updates: &[i64], want: i64) {
    for [interpreted, executed] in scattered(dtype, reduction, start, updates) {
        assert_eq!(interpreted.expect("interpreted"), want as f64, "{dtype}");
        assert_eq!(executed.expect("executed"), want as f64, "{dtype}");
    }
}

#[test]
fn sums_and_products_wrap_to_their_type() {
    gives(DType::I8, Add, 100, &[100, 3], 203 - 256);
    gives(DType::U8, Add, 200, &[100], 300 - 256);
    gives(DType::I16, Add, 30_000, &[30_000], 60_000 - 65_536);
    gives(DType::U16, Mul, 300, &[300], 90_000 - 65_536);
    gives(DType::I32, Add, 2_147_483_647, &[1], -2_147_483_648);
    gives(DType::U32, Add, 4_294_967_295, &[2], 1);
    gives(DType::U32, Mul, 65_536, &[65_536], 0);
}

#[test]
fn extremes_are_of_the_type() {
    gives(DType::I8, Max, -100, &[-5, 7], 7);
    gives(DType::U8, Min, 200, &[201, 3], 3);
    gives(DType::I32, Min, -7, &[5, -9], -9);
}

#[test]
fn what_would_be_rounded_or_misordered_is_refused() {
    let refused = |dtype, reduction, updates: &[i64]| {
        for [interpreted, executed] in scattered(dtype, reduction, 3, updates) {
            interpreted.expect("the interpreter has every type");
            let error = executed.expect_err("no step").to_string();
            assert!(error.contains("not supported"), "{error}");
        }
    };
    refused(DType::I8, Mul, &[1]);
    refused(DType::U8, Mul, &[1]);
    refused(DType::U64, Max, &[1]);
    refused(DType::U64, Min, &[1]);
    // 255 times as many are beyond what f32 counts.
    refused(DType::U8, Add, &vec![255; 65_793]);
    gives(DType::U8, Add, 3, &vec![255; 65_792], 3);
}
