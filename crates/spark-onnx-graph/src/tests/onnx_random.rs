//! Random numbers of files: which are alike, and what is refused.

use std::sync::Arc;

use spark_onnx_graph::graph::{
    BodyId, Distribution, Graph, Loop, Op, RandomLike, Shape, Value, bind,
};
use spark_onnx_graph::{DType, Tensor, file, reference};
use spark_onnx_proto::{AttributeProto, NodeProto};

use crate::samples::messages::{float, graph, int, ints, model, node};

/// The result of these nodes where `x` is four zeros.
fn result(nodes: Vec<NodeProto<'static>>) -> Result<Vec<f64>, String> {
    let bytes = model(22, graph(&[4], nodes)).encode();
    let graph = file::parse(&bytes, None).map_err(|error| error.to_string())?;
    let bound = bind(&graph, &[]).map_err(|error| error.to_string())?;
    let x = Tensor::zeros(DType::F32, [4]).expect("four zeros");
    let outputs = reference::run(&bound, &[("x", &x)]).map_err(|error| error.to_string())?;
    Ok(outputs[0].1.to_f64())
}

/// The difference of two draws.
fn difference(a: Vec<AttributeProto<'static>>, b: Vec<AttributeProto<'static>>) -> Vec<f64> {
    let nodes = vec![
        node("RandomNormalLike", &["x"], &["a"], a),
        node("RandomNormalLike", &["x"], &["b"], b),
        node("Sub", &["a", "b"], &["y"], vec![]),
    ];
    result(nodes).expect("draws")
}

#[test]
fn one_seed_draws_one_list_and_nodes_without_a_seed_draw_their_own() {
    let seed = |seed| vec![float("seed", seed)];
    assert_eq!(difference(seed(1.5), seed(1.5)), [0.0; 4]);
    assert!(difference(seed(1.5), seed(2.5)).iter().all(|&d| d != 0.0));
    let unseeded = difference(vec![], vec![]);
    assert!(unseeded.iter().all(|&d| d != 0.0));
    assert_eq!(unseeded, difference(vec![], vec![]));
}

#[test]
fn what_is_no_distribution_is_refused() {
    let check = |op_type, inputs: &[&'static str], attributes, wanted: &str| {
        let nodes = vec![node(op_type, inputs, &["y"], attributes)];
        let error = result(nodes).expect_err(wanted);
        assert!(error.contains(wanted), "{error}");
    };
    let like = ["x"];
    check(
        "RandomNormalLike",
        &like,
        vec![float("scale", -1.0)],
        "no distribution",
    );
    check(
        "RandomNormalLike",
        &like,
        vec![float("mean", f32::NAN)],
        "no distribution",
    );
    check(
        "RandomUniformLike",
        &like,
        vec![float("low", 2.0)],
        "no distribution",
    );
    check(
        "RandomUniformLike",
        &like,
        vec![float("high", f32::INFINITY)],
        "no distribution",
    );
    check(
        "RandomUniformLike",
        &like,
        vec![int("dtype", 7)],
        "i64, wanted a float type",
    );
    check("RandomUniform", &[], vec![], "`shape` is missing");
    let shape = |shape: &[i64]| vec![ints("shape", shape)];
    check("RandomUniform", &[], shape(&[-1]), "wanted 0 to");
    check("RandomUniform", &[], shape(&[1 << 40]), "wanted 0 to");
    check(
        "RandomUniform",
        &[],
        shape(&[1 << 20, 1 << 10]),
        "more than are drawn",
    );
    check(
        "Multinomial",
        &like,
        vec![int("dtype", 1)],
        "wanted i32 or i64",
    );
    check(
        "Multinomial",
        &like,
        vec![int("sample_size", 0)],
        "`sample_size` is 0",
    );
}

#[test]
fn a_loop_that_would_draw_anew_is_refused() {
    let value = |name: &str| Value {
        name: name.to_owned(),
        dtype: None,
        shape: None,
        constant: None,
    };
    let mut body = Graph::default();
    let given = ["i", "goes_on", "before"].map(|name| body.add_value(value(name)));
    body.inputs = given.to_vec();
    let random = RandomLike {
        distribution: Distribution::Normal {
            mean: 0.0,
            scale: 1.0,
        },
        dtype: None,
        seed: 1.0,
    };
    let after = body.add_node("after", Op::RandomLike(random), &[Some(given[2])]);
    body.outputs = vec![given[1], after];
    for count in [2, 1 << 15] {
        let mut graph = Graph::default();
        let x = graph.add_input("x", DType::F32, vec![]);
        let count = Tensor::from_i64([], vec![count]).expect("a scalar");
        let count = graph.add_constant("count", count);
        graph.bodies = vec![Arc::new(body.clone())];
        let op = Op::Loop(Loop {
            body: BodyId(0),
            carried: 1,
        });
        let y = graph.add_node("y", op, &[Some(count), None, Some(x)]);
        graph.outputs.push(y);
        let error = bind(&graph, &[]).expect_err("refused").to_string();
        assert!(error.contains("each iteration draws anew"), "{error}");
    }
    // Its shape alone may be asked for, and numbers drawn before it may be given to it.
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, vec![]);
    let drawn = graph.add_node("drawn", Op::RandomLike(random), &[Some(x)]);
    let whole = Shape {
        start: 0,
        end: None,
    };
    let shape = graph.add_node("shape", Op::Shape(whole), &[Some(drawn)]);
    graph.outputs = vec![shape, drawn];
    let bound = bind(&graph, &[]).expect("binds");
    assert!(bound.nodes().is_empty());
}
