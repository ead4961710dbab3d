//! Stages put together again are the network.

use std::collections::HashMap;

use super::*;
use crate::graph::{
    Binary, Cast, Concat, Dim, Gather, MatMul, NonZero, Op, Range, Reshape, Shape, Unary,
    bind_with_values,
};
use crate::reference;
use crate::tensor::{DType, Tensor};

fn list(values: &[i64]) -> Tensor {
    Tensor::from_i64([values.len()], values.to_vec()).expect("a list")
}

/// Rows of `x w` that are positive in the first column, times `v`, and the positions of what is positive then.
fn twice() -> Graph {
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, vec![Dim::Unknown, Dim::Known(3)]);
    let w = Tensor::from_f32([3, 2], vec![1.0, 0.5, -1.0, 2.0, 0.25, -0.5]).expect("weights");
    let w = graph.add_constant("w", w);
    let product = Op::MatMul(MatMul);
    let y = graph.add_node("y", product.clone(), &[Some(x), Some(w)]);
    let zero = graph.add_constant("zero", list(&[0]));
    let column = Op::Gather(Gather { axis: 1 });
    let first = graph.add_node("first", column, &[Some(y), Some(zero)]);
    let positive = graph.add_node("positive", Op::Unary(Unary::Relu), &[Some(first)]);
    let at = graph.add_node("at", Op::NonZero(NonZero), &[Some(positive)]);
    let rows = Op::Gather(Gather { axis: 0 });
    let at_rows = graph.add_node("at_rows", rows.clone(), &[Some(at), Some(zero)]);
    let chosen = graph.add_node("chosen", rows, &[Some(y), Some(at_rows)]);
    let v = Tensor::from_f32([2, 2], vec![2.0, -1.0, 0.5, 1.0]).expect("weights");
    let v = graph.add_constant("v", v);
    let z = graph.add_node("z", product, &[Some(chosen), Some(v)]);
    let sum = graph.add_node("sum", Op::Binary(Binary::Add), &[Some(z), Some(chosen)]);
    let end = graph.add_node("end", Op::NonZero(NonZero), &[Some(sum)]);
    graph.outputs = vec![end, y, x, sum];
    graph
}

fn is_product(_: &Graph, node: &Node) -> bool {
    matches!(node.op, Op::MatMul(_))
}

/// Runs stages one after the other, planned ones bound.
fn run(stages: &[Stage], outputs: &[ValueId], inputs: &[(ValueId, Tensor)]) -> Vec<Tensor> {
    let mut known: HashMap<ValueId, Tensor> = inputs.iter().cloned().collect();
    for stage in stages {
        let names = stage.graph.inputs.iter();
        let names = names.map(|&id| stage.graph.value(id).name.as_str());
        let given: Vec<(&str, &Tensor)> = names
            .zip(stage.inputs.iter().map(|id| &known[id]))
            .collect();
        let made = match stage.is_interpreted {
            true => reference::run_unbound(&stage.graph, &given, 1 << 24).expect("runs"),
            false => {
                let mut graph = stage.graph.clone();
                for (id, (_, tensor)) in stage.graph.inputs.iter().zip(&given) {
                    graph.values[id.0].dtype = Some(tensor.dtype());
                }
                let shapes: Vec<_> = given
                    .iter()
                    .map(|(n, t)| (*n, t.shape().to_vec()))
                    .collect();
                let deciding = crate::graph::deciding_inputs(&graph);
                let values: Vec<_> = deciding
                    .iter()
                    .map(|&number| (given[number].0, Arc::new(given[number].1.clone())))
                    .collect();
                let bound = bind_with_values(&graph, &shapes, &values, 1 << 24).expect("binds");
                reference::run(&bound, &given).expect("runs")
            }
        };
        let made = made.into_iter().map(|(_, tensor)| tensor);
        known.extend(stage.outputs.iter().copied().zip(made));
    }
    outputs.iter().map(|id| known[id].clone()).collect()
}

/// Checks the stages of `graph`, whose inputs are `inputs`, against a run of the whole.
#[track_caller]
fn check(graph: &Graph, n_nodes: &[usize], inputs: &[Tensor]) {
    let stages = stages_at_values(graph.clone(), is_product).expect("cuts");
    let counts: Vec<usize> = stages.iter().map(|stage| stage.graph.nodes.len()).collect();
    assert_eq!(counts, n_nodes);
    let interpreted: Vec<bool> = stages.iter().map(|stage| stage.is_interpreted).collect();
    assert!(
        interpreted
            .iter()
            .zip(0..)
            .all(|(is, at)| *is == (at % 2 == 1))
    );
    let ids = graph.inputs.iter().copied();
    let given: Vec<(ValueId, Tensor)> = ids.zip(inputs.iter().cloned()).collect();
    let got = run(&stages, &graph.outputs, &given);
    let named: Vec<(&str, &Tensor)> = given
        .iter()
        .map(|(id, tensor)| (graph.value(*id).name.as_str(), tensor))
        .collect();
    let whole = reference::run_unbound(graph, &named, 1 << 24).expect("runs");
    let want: Vec<Tensor> = whole.into_iter().map(|(_, tensor)| tensor).collect();
    assert_eq!(got, want);
}

#[test]
fn work_behind_a_length_that_values_say_is_a_stage_of_its_own() {
    for rows in [
        vec![],
        vec![1.0, 2.0, 3.0],
        vec![
            3.0, 1.0, 0.0, -1.0, 0.0, 0.0, 1.0, 0.5, 2.0, -3.0, -4.0, 1.0,
        ],
    ] {
        let x = Tensor::from_f32([rows.len() / 3, 3], rows).expect("rows");
        check(&twice(), &[3, 3, 2, 1], &[x]);
    }
}

#[test]
fn stages_hold_their_own_constants_alone() {
    let stages = stages_at_values(twice(), is_product).expect("cuts");
    let constants = stages.iter().map(|stage| {
        let values = stage.graph.values.iter();
        let held = values.filter(|value| value.constant.is_some());
        held.map(|value| value.name.as_str()).collect::<Vec<_>>()
    });
    let constants: Vec<_> = constants.collect();
    assert_eq!(
        constants,
        [vec!["w", "zero"], vec!["zero"], vec!["v"], vec![]]
    );
    // And no more values than they read and make.
    let n_values: Vec<usize> = stages[1..].iter().map(|s| s.graph.values.len()).collect();
    assert_eq!(n_values, [6, 4, 2]);
}

#[test]
fn what_leads_to_no_output_begins_no_stage() {
    let mut graph = twice();
    graph.outputs.truncate(2);
    graph.outputs.remove(0);
    let stages = stages_at_values(graph, is_product).expect("looks");
    assert_eq!(stages.len(), 1);
    assert!(stages[0].graph.nodes.iter().all(|node| node.name != "at"));
}

#[test]
fn shapes_that_follow_from_shapes_of_a_stage_stay_in_the_next() {
    // Behind a product, a reshape to a shape made of that of its rows.
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, vec![Dim::Unknown, Dim::Known(4)]);
    let at = graph.add_node("at", Op::NonZero(NonZero), &[Some(x)]);
    let floats = graph.add_node("floats", Op::Cast(Cast { to: DType::F32 }), &[Some(at)]);
    let w = Tensor::from_f32([2, 2], vec![1.0, 2.0, 3.0, 4.0]).expect("weights");
    let w = graph.add_constant("w", w);
    let y = graph.add_node("y", Op::MatMul(MatMul), &[Some(w), Some(floats)]);
    let last = Shape {
        start: 1,
        end: None,
    };
    let of_floats = graph.add_node("of_floats", Op::Shape(last), &[Some(floats)]);
    let one = graph.add_constant("one", list(&[1]));
    let two = graph.add_constant("two", list(&[2]));
    let shape = Op::Concat(Concat { axis: 0 });
    let shape = graph.add_node("shape", shape, &[Some(one), Some(two), Some(of_floats)]);
    let reshape = Op::Reshape(Reshape { allow_zero: false });
    let z = graph.add_node("z", reshape, &[Some(y), Some(shape)]);
    graph.outputs.push(z);
    let x = Tensor::from_f32([2, 4], vec![0.0, 1.0, 2.0, 0.0, 0.0, 0.0, 5.0, 6.0]).expect("rows");
    check(&graph, &[0, 4, 2], &[x]);
}

#[test]
fn lengths_that_stay_values_are_interpreted_to_the_end() {
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::I64, vec![Dim::Known(1), Dim::Known(1)]);
    let zero = graph.add_constant("zero", Tensor::from_i64([], vec![0]).expect("one"));
    let one = graph.add_constant("one", Tensor::from_i64([], vec![1]).expect("one"));
    let flat = graph.add_constant("flat", list(&[]));
    let reshape = Op::Reshape(Reshape { allow_zero: false });
    let n = graph.add_node("n", reshape, &[Some(x), Some(flat)]);
    let up_to = graph.add_node("up_to", Op::Range(Range), &[Some(zero), Some(n), Some(one)]);
    let sums = graph.add_node("sums", Op::Binary(Binary::Add), &[Some(up_to), Some(n)]);
    graph.outputs.push(sums);
    check(
        &graph,
        &[1, 2],
        &[Tensor::from_i64([1, 1], vec![4]).expect("one")],
    );
}

#[test]
fn bodies_go_with_their_nodes() {
    use crate::graph::If;
    let branch = |op: Op| {
        let mut body = Graph::default();
        let x = body.add_input("x", DType::F32, vec![Dim::Unknown, Dim::Unknown]);
        let y = body.add_node("y", op, &[Some(x)]);
        body.outputs.push(y);
        Arc::new(body)
    };
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, vec![Dim::Unknown, Dim::Unknown]);
    let condition = graph.add_input("condition", DType::Bool, vec![]);
    graph.bodies = vec![
        branch(Op::Unary(Unary::Relu)),
        branch(Op::Unary(Unary::Neg)),
        branch(Op::NonZero(NonZero)),
        branch(Op::NonZero(NonZero)),
    ];
    let op = |a, b| {
        Op::If(If {
            then_branch: BodyId(a),
            else_branch: BodyId(b),
        })
    };
    let y = graph.add_node("y", op(0, 1), &[Some(condition), Some(x)]);
    // What the branches make of `y` has a length that its values say.
    let z = graph.add_node("z", op(2, 3), &[Some(condition), Some(y)]);
    graph.outputs = vec![y, z];
    let stages = stages_at_values(graph, is_product).expect("cuts");
    let counts: Vec<_> = stages
        .iter()
        .map(|stage| (stage.graph.nodes.len(), stage.graph.bodies.len()))
        .collect();
    assert_eq!(counts, [(1, 4), (1, 2)]);
}

#[test]
fn many_stages_take_little_memory() {
    // Each product reads what the one before left; the values of all would be quadratic.
    let mut graph = Graph::default();
    let mut x = graph.add_input("x", DType::F32, vec![Dim::Known(1), Dim::Known(2)]);
    let w = Tensor::from_f32([2, 2], vec![1.0, 0.0, 0.0, 1.0]).expect("weights");
    let w = graph.add_constant("w", w);
    let n = 3000;
    for i in 0..n {
        let at = graph.add_node(format!("at{i}"), Op::NonZero(NonZero), &[Some(x)]);
        let cast = Op::Cast(Cast { to: DType::F32 });
        let floats = graph.add_node(format!("floats{i}"), cast, &[Some(at)]);
        x = graph.add_node(
            format!("x{i}"),
            Op::MatMul(MatMul),
            &[Some(w), Some(floats)],
        );
    }
    graph.outputs.push(x);
    let stages = stages_at_values(graph, is_product).expect("cuts");
    assert_eq!(stages.len(), 2 * n + 1);
    let behind = stages[1..].iter().map(|stage| stage.graph.values.len());
    assert_eq!(behind.sum::<usize>(), 6 * n);
}
