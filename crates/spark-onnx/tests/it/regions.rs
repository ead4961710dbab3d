//! RoiAlign: the executor's kernel against the reference, and what is known only while it runs.

use spark_onnx::graph::{Dim, Graph, Op, PoolKind, RegionEdges, RoiAlign};
use spark_onnx::{DType, Model, ModelError, RunOptions, SharedPool, Tensor};
use spark_onnx_graph::reference::run_unbound;
use spark_testing::numbers;

/// Cells of regions of two pictures of 33 channels.
fn network(kind: PoolKind, samples: usize, is_open: bool) -> Graph {
    let mut graph = Graph::default();
    let n = if is_open { Dim::Unknown } else { Dim::Known(5) };
    let dims = [2, 33, 12, 17].map(Dim::Known);
    let x = graph.add_input("x", DType::F32, dims.to_vec());
    let regions = graph.add_input("regions", DType::F32, vec![n.clone(), Dim::Known(4)]);
    let of = graph.add_input("of", DType::I64, vec![n]);
    let op = Op::RoiAlign(RoiAlign {
        kind,
        edges: RegionEdges::HalfPixel,
        cells: [3, 4],
        samples,
        scale: 0.5,
    });
    let y = graph.add_node("y", op, &[Some(x), Some(regions), Some(of)]);
    graph.outputs.push(y);
    graph
}

fn inputs() -> [Tensor; 3] {
    let regions = vec![
        0.0,
        1.0,
        9.0,
        12.0, // within
        -50.0,
        -40.0,
        300.0,
        220.0, // beyond all sides
        18.0,
        18.0,
        12.0,
        13.0, // turned round
        30.0,
        20.0,
        31.0,
        21.0, // a corner
        f32::NAN,
        3.0,
        8.0,
        9.0, // nowhere
    ];
    [
        Tensor::from_f32([2, 33, 12, 17], numbers(2 * 33 * 12 * 17, 5)).expect("pictures"),
        Tensor::from_f32([5, 4], regions).expect("regions"),
        Tensor::from_i64([5], vec![0, 1, 0, 1, 0]).expect("of which"),
    ]
}

fn named([x, regions, of]: &[Tensor; 3]) -> [(&str, &Tensor); 3] {
    [("x", x), ("regions", regions), ("of", of)]
}

#[test]
fn cells_are_those_of_the_reference_on_any_number_of_threads() {
    let inputs = inputs();
    for kind in [PoolKind::Average, PoolKind::Max] {
        for samples in [0, 1, 3] {
            let graph = network(kind, samples, false);
            let want = run_unbound(&graph, &named(&inputs), 1 << 30).expect("interprets");
            let mut of_one: Option<Tensor> = None;
            for threads in 1..4 {
                let options = RunOptions::new().with_pool(SharedPool::new(threads));
                let model = Model::from_graph(graph.clone(), &options).expect("ready");
                let got = model
                    .session()
                    .run(&named(&inputs))
                    .expect("runs")
                    .remove(0)
                    .1;
                for (got, want) in got.to_f32().iter().zip(want[0].1.to_f32()) {
                    assert!(
                        (got - want).abs() < 1e-5,
                        "{kind:?}, {samples}: {got}, {want}"
                    );
                }
                let first = of_one.get_or_insert_with(|| got.clone());
                assert!(got.is_bitwise(first));
            }
        }
    }
}

#[test]
fn what_regions_ask_for_is_checked_while_it_runs() {
    let mut session = Model::from_graph(network(PoolKind::Average, 0, true), &RunOptions::new())
        .expect("ready")
        .session();
    let [x, regions, _] = inputs();
    let mut run = |regions: &Tensor, of: &[i64]| {
        let of = Tensor::from_i64([of.len()], of.to_vec()).expect("of which");
        let inputs = [x.clone(), regions.clone(), of];
        session
            .run(&named(&inputs))
            .map(|mut outputs| outputs.remove(0).1)
    };
    run(&regions, &[0, 1, 1, 1, 1]).expect("two pictures");
    for (wrong, index) in [([0, 1, 2, 1, 1], 2), ([0, 0, 0, 0, -1], -1)] {
        let error = run(&regions, &wrong).expect_err("no such picture");
        let is_it = matches!(&error, ModelError::IndexOutside { node, index: i, extent: 2 }
            if node == "y" && *i == index);
        assert!(is_it, "{error}");
    }
    let far = Tensor::from_f32([1, 4], vec![0.0, 0.0, 1e12, 1.0]).expect("a region");
    let error = run(&far, &[0])
        .expect_err("no part of a picture")
        .to_string();
    assert!(
        error.contains("`y`") && error.contains("samples in a cell"),
        "{error}"
    );
    let none = Tensor::from_f32([0, 4], vec![]).expect("no region");
    assert_eq!(run(&none, &[]).expect("nothing").shape(), [0, 33, 3, 4]);
}
