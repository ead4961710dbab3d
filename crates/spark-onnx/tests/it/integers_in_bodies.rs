//! Products of 8-bit integers in bodies of control flow, to the bit.
//!
//! A body counts its values from zero, as the graph around it does: what one of them is as bytes says nothing of the
//! other.

use std::sync::Arc;

use spark_onnx::graph::{
    Binary, BodyId, Conv, ConvInteger, DequantizeLinear, Dim, Graph, If, Loop, Op, Padding,
    QLinearMatMul, QuantizeLinear, Reduce, ReduceKind, Scan, ScanAxis, ValueId, bind,
};
use spark_onnx::{DType, Model, Tensor, TensorData, reference};
use spark_onnx_graph::join_quantised;

use super::control_flow::{body, options, results};

/// Bytes all over their range, others for each `seed`.
fn bytes(dtype: DType, shape: &[usize], seed: usize) -> Tensor {
    let n: usize = shape.iter().product();
    let values = (0..n).map(|at| (at * 73 + seed * 41 + 17) as u8);
    let data = match dtype {
        DType::I8 => TensorData::I8(values.map(u8::cast_signed).collect()),
        _ => TensorData::U8(values.collect()),
    };
    Tensor::new(shape.to_vec(), data).expect("fits")
}

fn constant(graph: &mut Graph, name: &str, tensor: Tensor) -> Option<ValueId> {
    Some(graph.add_constant(name, tensor))
}

fn scale(graph: &mut Graph, name: &str, value: f32) -> Option<ValueId> {
    constant(
        graph,
        name,
        Tensor::from_f32([], vec![value]).expect("a scalar"),
    )
}

/// `x` of u8 times weights of i8, again as u8.
fn product(graph: &mut Graph, name: &str, x: ValueId, seed: usize) -> ValueId {
    let w = constant(graph, &format!("{name} w"), bytes(DType::I8, &[4, 4], seed));
    let (x_scale, y_scale) = (scale(graph, "in", 0.02), scale(graph, "out", 0.15));
    let zero = Tensor::new(vec![], TensorData::U8(vec![131])).expect("a scalar");
    let zero = constant(graph, "zero", zero);
    let w_zero = Tensor::new(vec![], TensorData::I8(vec![-3])).expect("a scalar");
    let w_zero = constant(graph, "w_zero", w_zero);
    let operands = [Some(x), x_scale, zero, w, x_scale, w_zero, y_scale, zero];
    graph.add_node(name, Op::QLinearMatMul(QLinearMatMul), &operands)
}

/// The same bits from the interpreter and from a session that runs each of these; what the session ran.
#[track_caller]
fn same_bits(graph: &Graph, runs: &[Vec<(&str, &Tensor)>]) -> Vec<String> {
    let mut joined = graph.clone();
    join_quantised(&mut joined);
    let bound = bind(&joined, &[]).unwrap_or_else(|e| panic!("{e}"));
    let model = Model::from_graph(graph.clone(), &options()).unwrap_or_else(|e| panic!("{e}"));
    let mut session = model.session();
    for inputs in runs {
        let want = reference::run(&bound, inputs).unwrap_or_else(|e| panic!("{e}"));
        let got = session.run(inputs).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(got, want);
    }
    let kernels = session.steps().into_iter().map(|step| step.kernel);
    kernels.filter(|kernel| kernel.contains("int8")).collect()
}

/// Whether any element of `x` is above a number.
fn is_any_above(graph: &mut Graph, x: ValueId, limit: f32) -> ValueId {
    let largest = Reduce {
        kind: ReduceKind::Max,
        keep_dims: false,
        noop_with_empty_axes: false,
    };
    let largest = graph.add_node("largest", Op::Reduce(largest), &[Some(x)]);
    let limit = scale(graph, "limit", limit);
    let greater = Op::Binary(Binary::Greater);
    graph.add_node("c", greater, &[Some(largest), limit])
}

#[test]
fn branches_multiply_bytes_of_their_own() {
    let mut graph = Graph::default();
    // Value 0 is there as bytes, when the branches are planned whose value 0 is another.
    let x = graph.add_input("x", DType::U8, vec![Dim::Known(3), Dim::Known(4)]);
    let switch = graph.add_input("switch", DType::F32, vec![Dim::Known(2)]);
    let c = is_any_above(&mut graph, switch, 0.0);
    let y = product(&mut graph, "outside", x, 1);
    let branch = |seed| {
        let (mut inner, [y]) = body(["y"]);
        let z = product(&mut inner, "inside", y, seed);
        inner.outputs = vec![product(&mut inner, "twice", z, seed + 1)];
        inner
    };
    graph.bodies = vec![Arc::new(branch(2)), Arc::new(branch(5))];
    let op = If {
        then_branch: BodyId(0),
        else_branch: BodyId(1),
    };
    results(&mut graph, op, &[Some(c), Some(y)], 1);
    // What the branches made of their values is nothing to what comes behind them.
    let after = graph.outputs[0];
    let last = product(&mut graph, "behind", after, 9);
    graph.outputs = vec![last, y];
    let x = bytes(DType::U8, &[3, 4], 7);
    let up = Tensor::from_f32([2], vec![1.0, -1.0]).expect("two");
    let down = Tensor::from_f32([2], vec![-2.0, -1.0]).expect("two");
    let runs = [&up, &down, &up].map(|switch| vec![("x", &x), ("switch", switch)]);
    assert_eq!(same_bits(&graph, &runs).len(), 6);
}

#[test]
fn bytes_go_from_one_iteration_to_the_next() {
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::U8, vec![Dim::Known(3), Dim::Known(4)]);
    let count = graph.add_input("count", DType::I64, vec![]);
    let y = product(&mut graph, "outside", x, 1);
    let (mut inner, [_, goes_on, state, fixed]) = body(["i", "goes_on", "state", "fixed"]);
    let next = product(&mut inner, "step", state, 3);
    let other = product(&mut inner, "other", fixed, 4);
    let most = Op::Variadic(spark_onnx::graph::Variadic::Max);
    let next = inner.add_node("most", most, &[Some(next), Some(other)]);
    inner.outputs = vec![goes_on, next];
    graph.bodies = vec![Arc::new(inner)];
    let op = Loop {
        body: BodyId(0),
        carried: 1,
    };
    results(&mut graph, op, &[Some(count), None, Some(y), Some(x)], 1);
    let x = bytes(DType::U8, &[3, 4], 2);
    let counts = [0, 1, 5].map(|n| Tensor::from_i64([], vec![n]).expect("a scalar"));
    let runs: Vec<_> = counts
        .iter()
        .map(|count| vec![("x", &x), ("count", count)])
        .collect();
    assert_eq!(same_bits(&graph, &runs).len(), 3);
}

#[test]
fn slices_of_bytes_are_convolved() {
    let mut graph = Graph::default();
    // More slices than a plan would spell out.
    let shape = [9000, 1, 3, 3, 4];
    let dims = shape.map(Dim::Known).to_vec();
    let x = graph.add_input("x", DType::U8, dims);
    let zero = graph.add_input("zero", DType::U8, vec![]);
    let (mut inner, [slice, x_zero]) = body(["slice", "x_zero"]);
    let w = constant(&mut inner, "w", bytes(DType::I8, &[7, 3, 3, 3], 4));
    let conv = Conv {
        strides: vec![2, 1],
        dilations: vec![],
        padding: Padding::Explicit(vec![1; 4]),
        groups: 1,
    };
    let op = Op::ConvInteger(ConvInteger { conv });
    let sums = inner.add_node("sums", op, &[Some(slice), w, Some(x_zero)]);
    inner.outputs = vec![sums];
    graph.bodies = vec![Arc::new(inner)];
    let axis = |is_reversed| ScanAxis {
        axis: 0,
        is_reversed,
    };
    let op = Scan {
        body: BodyId(0),
        carried: 0,
        inputs: vec![axis(true)],
        outputs: vec![axis(false)],
    };
    results(&mut graph, op, &[Some(x), Some(zero)], 1);
    let x = bytes(DType::U8, &shape, 3);
    let zeros = [0, 255].map(|z| Tensor::new(vec![], TensorData::U8(vec![z])).expect("a scalar"));
    let runs: Vec<_> = zeros
        .iter()
        .map(|zero| vec![("x", &x), ("zero", zero)])
        .collect();
    assert_eq!(same_bits(&graph, &runs).len(), 1);
}

/// A convolution between dequantisation and quantisation, with scales of the body or from outside.
fn spelled_out(scales_outside: bool) -> Graph {
    let (mut inner, [q, outside]) = body(["q", "scale"]);
    let zero = Tensor::new(vec![], TensorData::U8(vec![120])).expect("a scalar");
    let zero = constant(&mut inner, "zero", zero);
    let own = scale(&mut inner, "own", 0.03125);
    let x_scale = if scales_outside { Some(outside) } else { own };
    let dequantize = || Op::from(DequantizeLinear::along(1));
    let x = inner.add_node("floats", dequantize(), &[Some(q), x_scale, zero]);
    let w = constant(&mut inner, "w", bytes(DType::I8, &[5, 3, 3, 3], 6));
    let w = inner.add_node("weights", dequantize(), &[w, own]);
    let conv = Conv {
        strides: vec![],
        dilations: vec![],
        padding: Padding::Explicit(vec![1; 4]),
        groups: 1,
    };
    let y = inner.add_node("conv", Op::Conv(conv), &[Some(x), Some(w)]);
    let y_scale = scale(&mut inner, "result", 0.25);
    let quantize = Op::from(QuantizeLinear::along(1));
    inner.outputs = vec![inner.add_node("y", quantize, &[Some(y), y_scale, zero])];
    let (mut other, [q, _]) = body(["q", "scale"]);
    let w = constant(&mut other, "one", bytes(DType::U8, &[5, 3, 1, 1], 1));
    let op = Op::ConvInteger(ConvInteger {
        conv: Conv {
            strides: vec![],
            dilations: vec![],
            padding: Padding::Valid,
            groups: 1,
        },
    });
    let sums = other.add_node("sums", op, &[Some(q), w]);
    let to = DType::U8;
    let cast = Op::Cast(spark_onnx::graph::Cast { to });
    let least = constant(
        &mut other,
        "least",
        Tensor::new(vec![], TensorData::I32(vec![255])).expect("a scalar"),
    );
    let least_of = Op::Variadic(spark_onnx::graph::Variadic::Min);
    let sums = other.add_node("clipped", least_of, &[Some(sums), least]);
    other.outputs = vec![other.add_node("bytes", cast, &[Some(sums)])];
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::U8, [1, 3, 6, 7].map(Dim::Known).to_vec());
    let switch = graph.add_input("switch", DType::F32, vec![Dim::Known(2)]);
    let c = is_any_above(&mut graph, switch, 0.0);
    let x_scale = scale(&mut graph, "x_scale", 0.03125);
    graph.bodies = vec![Arc::new(inner), Arc::new(other)];
    let op = If {
        then_branch: BodyId(0),
        else_branch: BodyId(1),
    };
    results(&mut graph, op, &[Some(c), Some(x), x_scale], 1);
    graph
}

#[test]
fn products_of_a_body_become_integers_where_its_own_constants_say_so() {
    let x = bytes(DType::U8, &[1, 3, 6, 7], 5);
    let up = Tensor::from_f32([2], vec![1.0, -1.0]).expect("two");
    let down = Tensor::from_f32([2], vec![-2.0, -1.0]).expect("two");
    let runs = [&up, &down].map(|switch| vec![("x", &x), ("switch", switch)]);
    // The other branch has one in any case.
    assert_eq!(same_bits(&spelled_out(false), &runs).len(), 2);
    assert_eq!(same_bits(&spelled_out(true), &runs).len(), 1);
}

#[test]
fn a_body_of_several_nodes_is_joined_once_and_stays_one() {
    let mut graph = spelled_out(false);
    graph.bodies.push(Arc::clone(&graph.bodies[0]));
    join_quantised(&mut graph);
    assert!(Arc::ptr_eq(&graph.bodies[0], &graph.bodies[2]));
    assert_eq!(graph.bodies[0].nodes.len(), 1);
    // Bodies of which each has the next one twice: as many graphs as levels, not two to their power.
    let mut deep = Arc::new(spelled_out(false));
    for _ in 0..40 {
        let bodies = vec![Arc::clone(&deep), deep];
        deep = Arc::new(Graph {
            bodies,
            ..Graph::default()
        });
    }
    let mut graph = Graph::clone(&deep);
    join_quantised(&mut graph);
    assert!(Arc::ptr_eq(&graph.bodies[0], &graph.bodies[1]));
}

#[test]
fn a_body_that_is_no_graph_is_refused_and_not_looked_into() {
    let mut graph = spelled_out(false);
    let mut inner = Graph::clone(&graph.bodies[0]);
    inner.outputs = vec![ValueId(1000)];
    graph.bodies[0] = Arc::new(inner);
    let error = Model::from_graph(graph, &options()).expect_err("no graph");
    assert!(error.to_string().contains("the outputs"), "{error}");
}
