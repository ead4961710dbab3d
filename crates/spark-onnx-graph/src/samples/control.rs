//! The samples of control flow: bodies, with conditions and counts that binding knows, and that only a run does.

use std::sync::Arc;

use crate::graph::{
    Binary, BodyId, Cast, Dim, Graph, If, Loop, Node, Op, Scan, ScanAxis, Unary, Value, ValueId,
};
use crate::tensor::{DType, Tensor, TensorData};

use super::sample::{Samples, float, int_scalar};

/// Adds all samples of this file.
pub(super) fn add(samples: &mut Samples) {
    for holds in [Some(true), Some(false), None] {
        branch(samples, holds);
    }
    // Few iterations, many, and a number that only a run knows.
    for count in [Some(3), Some(9000), None] {
        repeat(samples, count);
    }
    for columns in [4, 9000] {
        for is_reversed in [false, true] {
            scan(samples, columns, is_reversed);
        }
    }
}

fn truth(value: bool) -> Tensor {
    Tensor::new(Vec::new(), TensorData::Bool(vec![value])).expect("a scalar")
}

/// A body with inputs of these names, of which nothing is declared.
fn body<const N: usize>(names: [&str; N]) -> (Graph, [ValueId; N]) {
    let mut graph = Graph::default();
    let ids = names.map(|name| {
        let id = graph.add_value(Value {
            name: name.to_owned(),
            dtype: None,
            shape: None,
            constant: None,
        });
        graph.inputs.push(id);
        id
    });
    (graph, ids)
}

fn input(graph: &mut Graph, inputs: &mut Vec<(String, Tensor)>, name: &str, x: Tensor) -> ValueId {
    let shape = x.shape().iter().map(|&d| Dim::Known(d)).collect();
    let id = graph.add_input(name, x.dtype(), shape);
    inputs.push((name.to_owned(), x));
    id
}

fn results(graph: &mut Graph, op: Op, operands: &[Option<ValueId>], n: usize) {
    let outputs: Vec<Option<ValueId>> = (0..n)
        .map(|index| {
            Some(graph.add_value(Value {
                name: format!("y{index}"),
                dtype: None,
                shape: None,
                constant: None,
            }))
        })
        .collect();
    graph.outputs = outputs.iter().copied().flatten().collect();
    graph.nodes.push(Node {
        name: "node".to_owned(),
        op,
        inputs: operands.to_vec(),
        outputs,
    });
}

/// `c ? relu(x) : x + 1`; a condition that is not known is an input.
pub(super) fn branch(samples: &mut Samples, known: Option<bool>) {
    let (mut graph, mut inputs) = (Graph::default(), Vec::new());
    let condition = match known {
        Some(holds) => graph.add_constant("c", truth(holds)),
        None => {
            let c = input(&mut graph, &mut inputs, "c", float(&[1]));
            let zero = graph.add_constant("zero", float(&[1]));
            graph.add_node(
                "is_it",
                Op::Binary(Binary::GreaterOrEqual),
                &[Some(c), Some(zero)],
            )
        }
    };
    let x = input(&mut graph, &mut inputs, "x", float(&[2, 3]));
    let (mut then_branch, [a]) = body(["a"]);
    let y = then_branch.add_node("t", Op::Unary(Unary::Relu), &[Some(a)]);
    then_branch.outputs = vec![y];
    let (mut else_branch, [a]) = body(["a"]);
    let one = else_branch.add_constant("one", float(&[1]));
    let y = else_branch.add_node("t", Op::Binary(Binary::Add), &[Some(a), Some(one)]);
    else_branch.outputs = vec![y];
    graph.bodies = vec![Arc::new(then_branch), Arc::new(else_branch)];
    let op = If {
        then_branch: BodyId(0),
        else_branch: BodyId(1),
    };
    results(&mut graph, Op::If(op), &[Some(condition), Some(x)], 1);
    samples.add_graph(graph, inputs);
}

/// `count` times `before = before * w + number`, and what it was each time, where the count is known.
pub(super) fn repeat(samples: &mut Samples, count: Option<i64>) {
    let (mut graph, mut inputs) = (Graph::default(), Vec::new());
    let count_id = match count {
        Some(count) => graph.add_constant("count", int_scalar(count)),
        None => {
            // 3, from an input that decides nothing before it runs.
            let n = Tensor::from_i64([1, 1], vec![3]).expect("one element");
            input(&mut graph, &mut inputs, "n", n)
        }
    };
    let x = input(&mut graph, &mut inputs, "x", float(&[2, 3]));
    let w = input(&mut graph, &mut inputs, "w", float(&[3]));
    let (mut inner, [number, goes_on, before, w_inside]) = body(["i", "goes_on", "before", "w"]);
    let to_float = Op::Cast(Cast { to: DType::F32 });
    let number = inner.add_node("number", to_float, &[Some(number)]);
    let scaled = inner.add_node(
        "scaled",
        Op::Binary(Binary::Mul),
        &[Some(before), Some(w_inside)],
    );
    let after = inner.add_node(
        "after",
        Op::Binary(Binary::Add),
        &[Some(scaled), Some(number)],
    );
    inner.outputs = vec![goes_on, after];
    if count.is_some() {
        inner.outputs.push(before);
    }
    let n_results = inner.outputs.len() - 1;
    graph.bodies = vec![Arc::new(inner)];
    let op = Loop {
        body: BodyId(0),
        carried: 1,
    };
    let operands = [Some(count_id), None, Some(x), Some(w)];
    results(&mut graph, Op::Loop(op), &operands, n_results);
    samples.add_graph(graph, inputs);
}

/// Running sums of the columns of `x`, put together as columns.
pub(super) fn scan(samples: &mut Samples, columns: usize, is_reversed: bool) {
    let (mut graph, mut inputs) = (Graph::default(), Vec::new());
    let start = input(&mut graph, &mut inputs, "start", float(&[2]));
    let x = input(&mut graph, &mut inputs, "x", float(&[2, columns]));
    let (mut inner, [before, column]) = body(["before", "column"]);
    let after = inner.add_node(
        "after",
        Op::Binary(Binary::Add),
        &[Some(before), Some(column)],
    );
    inner.outputs = vec![after, after];
    graph.bodies = vec![Arc::new(inner)];
    let axis = |is_reversed| ScanAxis {
        axis: -1,
        is_reversed,
    };
    let op = Scan {
        body: BodyId(0),
        carried: 1,
        inputs: vec![axis(is_reversed)],
        outputs: vec![axis(!is_reversed)],
    };
    results(&mut graph, Op::Scan(op), &[Some(start), Some(x)], 2);
    samples.add_graph(graph, inputs);
}
