//! Models in f64 are computed in f32: numbers that f32 does not reach are refused, never infinite.

use spark_onnx::graph::{Binary, Dim, Graph, Op, bind};
use spark_onnx::{DType, ModelError, ModelRunner, RunOptions, Tensor, reference};

fn doubles(values: [f64; 2]) -> Tensor {
    Tensor::from_f64(DType::F64, [2], values.to_vec()).expect("two")
}

/// The graph of `x + constant`, both f64.
fn sum(constant: [f64; 2]) -> Graph {
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F64, vec![Dim::Known(2)]);
    let constant = graph.add_constant("bias", doubles(constant));
    let add = Op::Binary(Binary::Add);
    let result = graph.add_node("add", add, &[Some(x), Some(constant)]);
    graph.outputs.push(result);
    graph
}

fn run(constant: [f64; 2], x: [f64; 2]) -> Result<Vec<f64>, ModelError> {
    let mut runner = ModelRunner::from_graph(sum(constant), &RunOptions::new())?;
    let outputs = runner.run(&[("x", &doubles(x))])?;
    Ok(outputs[0].1.to_f64())
}

#[test]
fn numbers_that_f32_reaches_are_computed() {
    let largest = f64::from(f32::MAX);
    assert_eq!(
        run([1.0, 0.0], [2.0, largest]).expect("fits"),
        [3.0, largest]
    );
    let infinite = run([0.0; 2], [f64::INFINITY, f64::NEG_INFINITY]).expect("infinities are f32's");
    assert_eq!(infinite, [f64::INFINITY, f64::NEG_INFINITY]);
}

#[test]
fn an_input_beyond_f32_is_refused_where_the_interpreter_computes_it() {
    let message = run([1.0; 2], [0.0, 9.0e223])
        .expect_err("beyond")
        .to_string();
    assert_eq!(
        message,
        "input `x` holds 9e223; f64 values are computed in f32, which ends at 3.4e38"
    );
    let bound = bind(&sum([1.0; 2]), &[]).expect("binds");
    let x = doubles([0.0, 9.0e223]);
    let outputs = reference::run(&bound, &[("x", &x)]).expect("in f64");
    assert_eq!(outputs[0].1.to_f64(), [1.0, 9.0e223]);
}

#[test]
fn a_constant_beyond_f32_is_refused_at_load() {
    let graph = sum([-1e39, 0.0]);
    let Err(ModelError::BeyondF32 { what, name, value }) =
        ModelRunner::from_graph(graph, &RunOptions::new()).map(drop)
    else {
        panic!("loaded");
    };
    assert_eq!((what, name.as_str(), value), ("constant", "bias", -1e39));
}
