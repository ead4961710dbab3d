//! What is refused, by name.

use super::super::with_gradients;
use crate::graph::{
    Cell, Dim, Direction, Graph, Node, Op, Recurrent, Slice, StaticGraph, Value, bind, bind_within,
};
use crate::reference::gradient::tests::networks::squeeze_and_excitation;
use crate::reference::gradient::tests::random;
use crate::reference::gradient::{GradientError, GradientOptions};
use crate::tensor::{DType, Tensor};

fn refused(network: &StaticGraph, wanted: &[&str], outputs: &[&str]) -> GradientError {
    with_gradients(network, wanted, outputs, &[], GradientOptions::default()).expect_err("refused")
}

#[test]
fn names_that_are_none() {
    let network = bind(&squeeze_and_excitation().graph, &[]).expect("binds");
    let error = refused(&network, &["w9"], &["y"]);
    assert_eq!(error.to_string(), "the network has no value `w9`");
    for outputs in [&["z"][..], &["y", "y"], &["relu"]] {
        let error = refused(&network, &["w0"], outputs);
        assert!(
            matches!(error, GradientError::OutputUnknown { .. }),
            "{error}"
        );
    }
}

#[test]
fn an_operator_that_is_not_written_names_its_node() {
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, [3, 1, 4].map(Dim::Known).to_vec());
    let w = graph.add_constant("w", cast(&random(&[1, 2, 4], 1)));
    let r = graph.add_constant("r", cast(&random(&[1, 2, 2], 2)));
    let y = graph.add_value(Value {
        name: "y".to_owned(),
        dtype: None,
        shape: None,
        constant: None,
    });
    graph.nodes.push(Node {
        name: "states".to_owned(),
        op: Op::Recurrent(Recurrent {
            cell: Cell::Rnn,
            direction: Direction::Forward,
            hidden: 2,
            activations: Vec::new(),
            batch_first: false,
        }),
        inputs: vec![Some(x), Some(w), Some(r)],
        outputs: vec![Some(y)],
    });
    graph.outputs = vec![y];
    let error = refused(&bind(&graph, &[]).expect("binds"), &["w"], &["y"]);
    assert_eq!(
        error.to_string(),
        "node `states` (RNN): no gradient: its gradient is not written in operators yet"
    );
}

fn cast(tensor: &Tensor) -> Tensor {
    Tensor::from_f32(tensor.shape().to_vec(), tensor.to_f32()).expect("fits")
}

/// Of every second element of a line the positions are a table, which is asked for first.
#[test]
fn a_table_that_is_larger_than_the_budget_is_not_made() {
    let mut graph = Graph::default();
    let n = 1_usize << 30;
    let x = graph.add_input("x", DType::F32, vec![Dim::Known(n)]);
    let lists = [0, i64::MAX, 0, 2].map(|v| Tensor::from_i64([1], vec![v]).expect("one"));
    let mut operands = vec![Some(x)];
    for (i, list) in lists.into_iter().enumerate() {
        operands.push(Some(graph.add_constant(format!("list{i}"), list)));
    }
    let y = graph.add_node("y", Op::Slice(Slice), &operands);
    graph.outputs = vec![y];
    let error = refused(
        &bind_within(&graph, &[], 1 << 20).expect("binds"),
        &["x"],
        &["y"],
    );
    assert!(
        error
            .to_string()
            .contains("node `y` (Slice): no gradient: a table of"),
        "{error}"
    );
}
