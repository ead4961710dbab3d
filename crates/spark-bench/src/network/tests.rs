//! Pictures of networks: nothing lies on something else, and nothing is left out.

use spark_onnx::graph::{Binary, Dim, Graph, Op, Unary};
use spark_onnx::tensor::DType;
use spark_openpilot::zoo::ZooModel;

use super::layers::Item;
use super::*;

#[track_caller]
fn check(graph: &Graph) {
    let blocks = blocks::of(graph);
    let layers = layers::of(&blocks);
    let places = places::of(&blocks, &layers);
    let n_lines: usize = blocks.iter().map(|block| block.lines.len()).sum();
    let n_ports = graph.inputs.len() + graph.outputs.len();
    assert_eq!(
        n_lines,
        graph.nodes.len() + n_ports,
        "every node has a line"
    );
    for order in &layers.order {
        for pair in order.windows(2) {
            let half = |item: usize| match layers.items[item] {
                Item::Block(block) => places::size_of(&blocks[block])[0] / 2.0,
                Item::Passed => 1.0,
            };
            let gap = places.x[pair[1]] - places.x[pair[0]] - half(pair[0]) - half(pair[1]);
            assert!(gap > 10.0, "two boxes of a layer keep apart: {gap}");
        }
    }
    for edge in &layers.edges {
        let steps = edge
            .windows(2)
            .map(|pair| layers.layer[pair[1]] - layers.layer[pair[0]]);
        assert!(steps.into_iter().all(|step| step == 1), "edges lead down");
    }
    let text = draw::picture(&blocks, &layers, &places).finish();
    assert!(text.starts_with("<svg") && !text.contains("NaN") && !text.contains("inf"));
}

#[test]
fn networks_of_openpilots_shapes_are_drawn() {
    for model in ZooModel::ALL {
        check(&model.build(0));
    }
    check(&Graph::default());
}

#[test]
fn a_chain_is_one_box_and_a_fork_is_not() {
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, vec![Dim::Known(4)]);
    let a = graph.add_node("a", Op::Unary(Unary::Relu), &[Some(x)]);
    let b = graph.add_node("b", Op::Unary(Unary::Exp), &[Some(a)]);
    let c = graph.add_node("c", Op::Unary(Unary::Relu), &[Some(b)]);
    let d = graph.add_node("d", Op::Binary(Binary::Add), &[Some(b), Some(c)]);
    graph.outputs.push(d);
    let blocks = blocks::of(&graph);
    let n_lines: Vec<usize> = blocks.iter().map(|block| block.lines.len()).collect();
    assert_eq!(n_lines, [1, 2, 1, 1, 1], "x | a b | c | d | the output");
    assert_eq!(
        blocks[1].readers.iter().copied().collect::<Vec<_>>(),
        [2, 3]
    );
    check(&graph);
}

#[test]
fn edges_that_need_not_cross_do_not() {
    let mut graph = Graph::default();
    // Two towers whose nodes come in turn, and in another order below.
    let mut towers: Vec<_> = (0..2)
        .map(|i| graph.add_input(format!("x{i}"), DType::F32, vec![Dim::Known(4)]))
        .collect();
    for step in 0..4 {
        for i in [step % 2, 1 - step % 2] {
            let name = format!("n{step}{i}");
            let value = towers[i];
            towers[i] =
                graph.add_node(&*name, Op::Binary(Binary::Add), &[Some(value), Some(value)]);
            graph.outputs.push(towers[i]);
        }
    }
    let layers = layers::of(&blocks::of(&graph));
    assert_eq!(layers.n_crossings(), 0);
    check(&graph);
}
