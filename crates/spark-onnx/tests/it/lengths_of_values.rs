//! Lengths that hang on values where it is easy to overlook: of inputs of open length, and behind a stage that is planned anew.
//!
//! The oracle is the reference, which runs the whole network as it is (`reference::run_unbound`).

use std::sync::Arc;

use spark_onnx::graph::{
    Binary, Cast, Concat, ConstantOfShape, Custom, CustomAttributes, CustomOperator, Dim, Expand,
    Gather, Graph, MatMul, NonZero, Op, Operand, OperatorError, Range, Reduce, ReduceKind, Reshape,
    Shape, Slice, Squeeze, TensorType, Tile, Transpose, Unary, Unique, Unsqueeze, ValueId,
};
use spark_onnx::precision::INTERPRETED;
use spark_onnx::{DType, Model, Precision, RunOptions, Tensor, TensorView, TensorViewMut};
use spark_onnx_graph::reference::run_unbound;

fn list(values: &[i64]) -> Tensor {
    Tensor::from_i64([values.len()], values.to_vec()).expect("a list")
}

fn floats(shape: &[usize], values: Vec<f32>) -> Tensor {
    Tensor::from_f32(shape, values).expect("fits")
}

fn options() -> RunOptions {
    RunOptions::new()
        .with_precision(Precision::Fp32)
        .with_threads(1)
}

fn open() -> Dim {
    Dim::Symbol("n".to_owned())
}

#[track_caller]
fn check(what: &str, graph: &Graph, inputs: &[(&str, &Tensor)]) {
    let want = run_unbound(graph, inputs, 1 << 26).expect("interprets");
    let model = Model::from_graph(graph.clone(), &options());
    let got = model.and_then(|model| model.session().run(inputs));
    assert_eq!(
        got.unwrap_or_else(|error| panic!("{what}: {error}")),
        want,
        "{what}"
    );
}

/// As many ones as the elements of the operand add up to.
struct Ones;

impl CustomOperator for Ones {
    fn infer(
        &self,
        operands: &[Option<Operand<'_>>],
        _: usize,
    ) -> Result<Vec<TensorType>, OperatorError> {
        let Some(Some(Operand {
            constant: Some(x), ..
        })) = operands.first()
        else {
            return Err("must be constant".into());
        };
        Ok(vec![TensorType {
            dtype: DType::F32,
            shape: vec![x.to_f64().iter().sum::<f64>() as usize],
        }])
    }

    fn run(
        &self,
        _: &[Option<TensorView<'_>>],
        results: &mut [Option<TensorViewMut<'_>>],
    ) -> Result<(), OperatorError> {
        let [Some(y)] = results else {
            return Err("one result".into());
        };
        y.as_slice_mut::<f32>().ok_or("f32")?.fill(1.0);
        Ok(())
    }

    fn deciding_operands(&self) -> &[usize] {
        &[0]
    }
}

fn ones(graph: &mut Graph, x: ValueId) -> ValueId {
    let ones = Custom::new(
        "com.example",
        "Ones",
        CustomAttributes::default(),
        Arc::new(Ones),
    );
    graph.add_node("ones", Op::Custom(ones), &[Some(x)])
}

fn transpose(graph: &mut Graph, x: ValueId) -> ValueId {
    let op = Op::Transpose(Transpose { perm: None });
    graph.add_node("turned", op, &[Some(x)])
}

#[test]
fn inputs_of_open_length_have_any_number_of_elements() {
    type Build = fn(&mut Graph, ValueId) -> ValueId;
    let builds: [(&str, Build); 7] = [
        ("NonZero", |g, x| {
            g.add_node("y", Op::NonZero(NonZero), &[Some(x)])
        }),
        ("NonZero behind Relu", |g, x| {
            let x = g.add_node("relu", Op::Unary(Unary::Relu), &[Some(x)]);
            g.add_node("y", Op::NonZero(NonZero), &[Some(x)])
        }),
        ("Unique", |g, x| {
            let unique = Unique {
                axis: None,
                sorted: true,
            };
            g.add_node("y", Op::Unique(unique), &[Some(x)])
        }),
        ("Gather at NonZero", |g, x| {
            let at = g.add_node("at", Op::NonZero(NonZero), &[Some(x)]);
            g.add_node("y", Op::Gather(Gather { axis: 0 }), &[Some(x), Some(at)])
        }),
        ("NonZero of a product", |g, x| {
            let axis = g.add_constant("axis", list(&[0]));
            let row = g.add_node("row", Op::Unsqueeze(Unsqueeze), &[Some(x), Some(axis)]);
            let column = transpose(g, row);
            let square = g.add_node("square", Op::MatMul(MatMul), &[Some(row), Some(column)]);
            g.add_node("y", Op::NonZero(NonZero), &[Some(square)])
        }),
        ("an operator of one's own", ones),
        ("Range to the largest", |g, x| {
            let reduce = Reduce {
                kind: ReduceKind::Max,
                keep_dims: false,
                noop_with_empty_axes: false,
            };
            let most = g.add_node("most", Op::Reduce(reduce), &[Some(x)]);
            let zero = g.add_constant("zero", floats(&[], vec![0.0]));
            let one = g.add_constant("one", floats(&[], vec![1.0]));
            g.add_node("y", Op::Range(Range), &[Some(zero), Some(most), Some(one)])
        }),
    ];
    for (name, build) in builds {
        for dim in [open(), Dim::Unknown] {
            for n in [0, 1, 64, 65, 300] {
                if name == "Range to the largest" && n == 0 {
                    continue;
                }
                let mut graph = Graph::default();
                let x = graph.add_input("x", DType::F32, vec![dim.clone()]);
                let y = build(&mut graph, x);
                graph.outputs.push(y);
                let x = floats(&[n], (0..n).map(|i| (i % 3) as f32).collect());
                check(&format!("{name} of {n}"), &graph, &[("x", &x)]);
            }
        }
    }
}

#[test]
fn steps_are_told_where_nothing_stands_before_a_length() {
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, vec![open()]);
    let y = graph.add_node("y", Op::NonZero(NonZero), &[Some(x)]);
    graph.outputs.push(y);
    let mut session = Model::from_graph(graph, &options())
        .expect("ready")
        .session();
    assert!(session.steps().is_empty(), "before a plan");
    let x = floats(&[3], vec![1.0, 0.0, 2.0]);
    let steps = session.profile(&[("x", &x)], 2).expect("runs");
    let names: Vec<&str> = steps.iter().map(|step| step.name.as_str()).collect();
    assert_eq!(names, ["y"]);
    assert!(steps[0].mean.is_some());
}

#[test]
fn a_shape_of_open_length_is_planned_by_value() {
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, vec![Dim::Known(6)]);
    let shape = graph.add_input("shape", DType::I32, vec![open()]);
    let wide = graph.add_node("wide", Op::Cast(Cast { to: DType::I64 }), &[Some(shape)]);
    let rest = graph.add_constant("rest", list(&[-1]));
    let joined = graph.add_node(
        "joined",
        Op::Concat(Concat { axis: 0 }),
        &[Some(wide), Some(rest)],
    );
    let reshape = Op::Reshape(Reshape { allow_zero: false });
    let y = graph.add_node("y", reshape, &[Some(x), Some(joined)]);
    graph.outputs.push(y);
    let model = Model::from_graph(graph, &options()).expect("ready");
    let mut session = model.session();
    let x = floats(&[6], (0..6).map(|i| i as f32).collect());
    for shape in [&[2i32][..], &[3], &[1, 2], &[]] {
        let values = shape.iter().map(|&v| f64::from(v)).collect();
        let shape = Tensor::from_f64(DType::I32, [shape.len()], values).expect("a list");
        let got = session.run(&[("x", &x), ("shape", &shape)]).expect("runs");
        assert_eq!(got[0].1.shape().len(), shape.len() + 1);
    }
    assert_eq!(model.memory().plans, 4);
    assert!(
        session
            .steps()
            .iter()
            .all(|step| step.reason != INTERPRETED)
    );
}

/// The product of as many ones as `x` is not 0 with their transpose, which is a stage that is planned.
fn product(graph: &mut Graph, from_shape: bool) -> ValueId {
    let x = graph.add_input("x", DType::F32, vec![Dim::Known(2), Dim::Known(2)]);
    let at = graph.add_node("at", Op::NonZero(NonZero), &[Some(x)]);
    let rows = match from_shape {
        true => {
            let shape = Shape {
                start: 0,
                end: None,
            };
            let shape = graph.add_node("shape", Op::Shape(shape), &[Some(at)]);
            let value = floats(&[1], vec![1.0]);
            let op = Op::ConstantOfShape(ConstantOfShape { value });
            graph.add_node("rows", op, &[Some(shape)])
        }
        false => graph.add_node("rows", Op::Cast(Cast { to: DType::F32 }), &[Some(at)]),
    };
    let columns = transpose(graph, rows);
    graph.add_node("m", Op::MatMul(MatMul), &[Some(rows), Some(columns)])
}

#[test]
fn what_a_planned_stage_computes_says_lengths_behind_it() {
    type Build = fn(&mut Graph, ValueId, ValueId) -> ValueId;
    let builds: [(&str, Build); 7] = [
        ("NonZero", |g, m, _| {
            g.add_node("y", Op::NonZero(NonZero), &[Some(m)])
        }),
        ("Unique", |g, m, _| {
            let unique = Unique {
                axis: None,
                sorted: true,
            };
            g.add_node("y", Op::Unique(unique), &[Some(m)])
        }),
        ("ConstantOfShape", |g, _, first| {
            let value = floats(&[1], vec![1.0]);
            let op = Op::ConstantOfShape(ConstantOfShape { value });
            g.add_node("y", op, &[Some(first)])
        }),
        ("Slice", |g, m, first| {
            let zero = g.add_constant("y.zero", list(&[0]));
            let operands = [m, zero, first, zero].map(Some);
            g.add_node("y", Op::Slice(Slice), &operands)
        }),
        ("Expand", |g, _, first| {
            g.add_node("y", Op::Expand(Expand), &[Some(first), Some(first)])
        }),
        ("Tile", |g, _, first| {
            g.add_node("y", Op::Tile(Tile), &[Some(first), Some(first)])
        }),
        ("Range", |g, _, first| {
            let end = g.add_node("y.end", Op::Squeeze(Squeeze), &[Some(first)]);
            let zero = g.add_constant("y.zero", Tensor::from_i64([], vec![0]).expect("one"));
            let one = g.add_constant("y.one", Tensor::from_i64([], vec![1]).expect("one"));
            g.add_node("y", Op::Range(Range), &[Some(zero), Some(end), Some(one)])
        }),
    ];
    for (name, build) in builds {
        for from_shape in [true, false] {
            for twice in [false, true] {
                let mut graph = Graph::default();
                let m = product(&mut graph, from_shape);
                let m = match twice {
                    true => graph.add_node("m2", Op::MatMul(MatMul), &[Some(m), Some(m)]),
                    false => m,
                };
                let whole = graph.add_node("whole", Op::Cast(Cast { to: DType::I64 }), &[Some(m)]);
                let flat = graph.add_constant("flat", list(&[-1]));
                let reshape = Op::Reshape(Reshape { allow_zero: false });
                let flat = graph.add_node("all", reshape, &[Some(whole), Some(flat)]);
                let zero = graph.add_constant("zero", list(&[0]));
                let one = graph.add_constant("one", list(&[1]));
                let operands = [flat, zero, one, zero].map(Some);
                let first = graph.add_node("first", Op::Slice(Slice), &operands);
                let y = build(&mut graph, m, first);
                graph.outputs.push(y);
                let x = floats(&[2, 2], vec![1.0, 2.0, 0.0, 3.0]);
                let what = format!("{name}, from_shape {from_shape}, twice {twice}");
                check(&what, &graph, &[("x", &x)]);
            }
        }
    }
}

#[test]
fn shapes_that_an_interpreted_stage_hands_over_are_planned_by_value() {
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, vec![Dim::Known(2), Dim::Known(2)]);
    let positive = graph.add_node("positive", Op::Unary(Unary::Relu), &[Some(x)]);
    let at = graph.add_node("at", Op::NonZero(NonZero), &[Some(positive)]);
    let rows = graph.add_node("rows", Op::Cast(Cast { to: DType::F32 }), &[Some(at)]);
    let shape = Shape {
        start: 0,
        end: None,
    };
    let shape = graph.add_node("shape", Op::Shape(shape), &[Some(at)]);
    let second = graph.add_constant("second", Tensor::from_i64([], vec![1]).expect("one"));
    let count = graph.add_node(
        "count",
        Op::Gather(Gather { axis: 0 }),
        &[Some(shape), Some(second)],
    );
    let zero = graph.add_constant("zero", list(&[0]));
    let count = graph.add_node(
        "listed",
        Op::Unsqueeze(Unsqueeze),
        &[Some(count), Some(zero)],
    );
    let columns = transpose(&mut graph, rows);
    let m = graph.add_node("m", Op::MatMul(MatMul), &[Some(columns), Some(rows)]);
    // One factor is the interpreted stage's, the other the planned one's.
    let own = Shape {
        start: 0,
        end: Some(1),
    };
    let own = graph.add_node("own", Op::Shape(own), &[Some(m)]);
    let area = graph.add_node("area", Op::Binary(Binary::Mul), &[Some(own), Some(count)]);
    let reshape = Op::Reshape(Reshape { allow_zero: false });
    let y = graph.add_node("y", reshape, &[Some(m), Some(area)]);
    graph.outputs.push(y);
    let x = floats(&[2, 2], vec![1.0, 2.0, 0.0, 3.0]);
    check("Reshape", &graph, &[("x", &x)]);
    let mut session = Model::from_graph(graph, &options())
        .expect("ready")
        .session();
    session.run(&[("x", &x)]).expect("runs");
    let steps = session.steps();
    let interpreted = steps.iter().filter(|step| step.reason == INTERPRETED);
    assert!(interpreted.clone().all(|step| step.name != "y"));
    assert!(interpreted.clone().any(|step| step.name == "listed"));
}
