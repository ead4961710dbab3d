//! Operators of an embedder's own: read from files by a registry, bound, interpreted, written again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use spark_onnx_graph::file::{
    OnnxError, OperatorRegistry, ReadOptions, parse, parse_with, to_bytes,
};
use spark_onnx_graph::graph::{
    AttributeValue, BodyId, Custom, CustomAttributes, CustomOperator, Dim, Graph, Loop, NonZero,
    Op, Operand, OperatorError, Reshape, TensorType, Transpose, Unary, Value, bind,
    deciding_inputs, infer,
};
use spark_onnx_graph::{
    DType, ModelError, Tensor, TensorView, TensorViewMut, reference, simplify, split_at_values,
};

/// `x * scale`, and how often it ran.
struct Scale {
    scale: f32,
    runs: Arc<AtomicUsize>,
}

impl CustomOperator for Scale {
    fn infer(
        &self,
        operands: &[Option<Operand<'_>>],
        _: usize,
    ) -> Result<Vec<TensorType>, OperatorError> {
        match operands {
            [Some(x)] if x.dtype == DType::F32 => Ok(vec![x.ty()]),
            _ => Err("takes one operand of f32".into()),
        }
    }

    fn run(
        &self,
        operands: &[Option<TensorView<'_>>],
        results: &mut [Option<TensorViewMut<'_>>],
    ) -> Result<(), OperatorError> {
        self.runs.fetch_add(1, Ordering::Relaxed);
        let ([Some(x)], [Some(y)]) = (operands, results) else {
            return Err("one operand, one result".into());
        };
        let (Some(x), Some(y)) = (x.as_slice::<f32>(), y.as_slice_mut::<f32>()) else {
            return Err("f32".into());
        };
        assert!(y.iter().all(|&y| y == 0.0), "results are lent as zeros");
        y.iter_mut().zip(x).for_each(|(y, x)| *y = x * self.scale);
        Ok(())
    }
}

fn scale_of(attributes: &CustomAttributes) -> Result<Scale, OperatorError> {
    attributes.only(&["scale"])?;
    let Some(scale) = attributes.float("scale")? else {
        return Err("attribute `scale` is missing".into());
    };
    let runs = Arc::default();
    Ok(Scale { scale, runs })
}

fn scaling(attributes: CustomAttributes, runs: &Arc<AtomicUsize>) -> Op {
    let scale = Scale {
        scale: 2.0,
        runs: Arc::clone(runs),
    };
    Op::Custom(Custom::new(
        "com.example",
        "Scale",
        attributes,
        Arc::new(scale),
    ))
}

fn by_two() -> CustomAttributes {
    CustomAttributes::from([("scale".to_owned(), AttributeValue::Float(2.0))])
}

fn registry() -> OperatorRegistry {
    let mut registry = OperatorRegistry::new();
    registry
        .register("com.example", "Scale", scale_of)
        .expect("new");
    registry
}

fn options() -> ReadOptions {
    ReadOptions::new().with_operators(registry())
}

/// `y = -scale(x)`.
fn network() -> Graph {
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, vec![Dim::Known(3)]);
    let scaled = graph.add_node("scaled", scaling(by_two(), &Arc::default()), &[Some(x)]);
    let y = graph.add_node("y", Op::Unary(Unary::Neg), &[Some(scaled)]);
    graph.outputs.push(y);
    // Types of such results nobody knows before shapes do.
    graph.values[y.0].dtype = Some(DType::F32);
    graph
}

fn run(graph: &Graph) -> Result<Vec<f32>, ModelError> {
    let x = Tensor::from_f32([3], vec![1.0, 2.0, 3.0])?;
    let outputs = reference::run(&bind(graph, &[])?, &[("x", &x)])?;
    Ok(outputs[0].1.to_f32())
}

#[test]
fn a_file_is_read_with_its_operators_and_written_with_their_domains() {
    let Op::Custom(op) = scaling(by_two(), &Arc::default()) else {
        unreachable!("it is one");
    };
    let mut graph = network();
    graph.nodes[0].op = Op::Custom(op.with_version(7));
    let bytes = to_bytes(&graph).expect("written");
    let read = parse_with(&bytes, None, &options()).expect("read");
    let Op::Custom(op) = &read.nodes[0].op else {
        panic!("{:?}", read.nodes[0].op);
    };
    let names = (op.domain(), op.name(), op.qualified(), op.version());
    assert_eq!(names, ("com.example", "Scale", "com.example::Scale", 7));
    assert_eq!(op.attributes(), &by_two());
    assert_eq!(read.nodes[0].op.name(), "com.example::Scale");
    assert_eq!(run(&read).expect("runs"), [-2.0, -4.0, -6.0]);
    assert_eq!(to_bytes(&read).expect("written"), bytes);

    let refused = parse(&bytes, None).expect_err("not registered");
    let is_unknown = |op: &str| matches!(&refused, ModelError::Onnx(OnnxError::UnknownOperator { op: got, opset: 7, .. }) if got == op);
    assert!(is_unknown("com.example::Scale"), "{refused}");
}

#[test]
fn attributes_of_every_kind_come_back_from_a_file() {
    let tensor = Tensor::from_values([2, 2], vec![1u8, 2, 3, 4]).expect("as many");
    let all: CustomAttributes = [
        ("int", AttributeValue::Int(-3)),
        ("float", AttributeValue::Float(0.5)),
        ("text", AttributeValue::Text("a ≤ b".to_owned())),
        ("tensor", AttributeValue::Tensor(tensor)),
        ("ints", AttributeValue::Ints(vec![1, i64::MIN])),
        ("floats", AttributeValue::Floats(vec![1.5, -0.0])),
        (
            "texts",
            AttributeValue::Texts(vec![String::new(), "b".to_owned()]),
        ),
        ("none", AttributeValue::Ints(vec![])),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into_iter()
    .collect();
    let mut graph = network();
    graph.nodes[0].op = scaling(all.clone(), &Arc::default());
    let mut registry = OperatorRegistry::new();
    let seen = Arc::new(std::sync::Mutex::new(None));
    let into = Arc::clone(&seen);
    let make = move |attributes: &CustomAttributes| {
        *into.lock().expect("whole") = Some(attributes.clone());
        let runs = Arc::default();
        Ok(Scale { scale: 1.0, runs })
    };
    registry
        .register("com.example", "Scale", make)
        .expect("new");
    let bytes = to_bytes(&graph).expect("written");
    parse_with(&bytes, None, &ReadOptions::new().with_operators(registry)).expect("read");
    assert_eq!(seen.lock().expect("whole").take(), Some(all));
}

#[test]
fn what_an_operator_refuses_names_the_node() {
    let refused = |attributes: CustomAttributes| {
        let mut graph = network();
        graph.nodes[0].op = scaling(attributes, &Arc::default());
        let bytes = to_bytes(&graph).expect("written");
        parse_with(&bytes, None, &options())
            .expect_err("refused")
            .to_string()
    };
    let node = "node `scaled` (com.example::Scale): ";
    assert_eq!(
        refused(CustomAttributes::default()),
        format!("{node}attribute `scale` is missing")
    );
    let whole = CustomAttributes::from([("scale".to_owned(), AttributeValue::Int(2))]);
    assert_eq!(
        refused(whole),
        format!("{node}attribute `scale` is an int, wanted a float")
    );
    let more = CustomAttributes::from([("axis".to_owned(), AttributeValue::Int(2))]);
    assert_eq!(
        refused(more),
        format!("{node}attribute `axis` is not known")
    );

    let mut graph = network();
    graph.values[0].dtype = Some(DType::I64);
    let error = run(&graph).expect_err("refused").to_string();
    assert_eq!(error, format!("{node}takes one operand of f32"));
}

#[test]
fn what_is_known_anyway_cannot_be_registered_and_nothing_twice() {
    let mut registry = registry();
    assert_eq!(registry.names(), ["com.example::Scale"]);
    for (domain, name, op) in [
        ("com.example", "Scale", "com.example::Scale"),
        ("", "Conv", "Conv"),
        ("ai.onnx", "Relu", "Relu"),
        ("com.microsoft", "FastGelu", "com.microsoft::FastGelu"),
    ] {
        let error = registry
            .register(domain, name, scale_of)
            .expect_err("refused");
        assert_eq!(error.to_string(), format!("operator {op} is there already"));
    }
    registry
        .register("ai.onnx", "DeformConv", scale_of)
        .expect("unknown so far");
    registry
        .register("com.microsoft", "Scale", scale_of)
        .expect("unknown so far");
    assert_eq!(
        registry.names(),
        ["DeformConv", "com.example::Scale", "com.microsoft::Scale"]
    );
    let copy = registry.clone();
    assert_eq!(copy, registry);
    assert_ne!(copy, self::registry());
}

#[test]
fn an_operator_that_onnx_has_and_this_crate_lacks_can_be_registered() {
    let mut graph = network();
    let scale = Scale {
        scale: 2.0,
        runs: Arc::default(),
    };
    let op = Custom::new("", "SwiGLU", by_two(), Arc::new(scale)).with_version(28);
    graph.nodes[0].op = Op::Custom(op);
    let bytes = to_bytes(&graph).expect("written");
    let mut registry = OperatorRegistry::new();
    registry
        .register("", "SwiGLU", scale_of)
        .expect("unknown so far");
    let read =
        parse_with(&bytes, None, &ReadOptions::new().with_operators(registry)).expect("read");
    assert_eq!(run(&read).expect("runs"), [-2.0, -4.0, -6.0]);
    let Op::Custom(op) = &read.nodes[0].op else {
        panic!("{:?}", read.nodes[0].op);
    };
    assert_eq!(
        (op.domain(), op.version()),
        ("", 28),
        "the file is of the operator's set"
    );
}

#[test]
fn a_file_has_one_version_of_each_domain() {
    let mut graph = network();
    let x = graph.inputs[0];
    for version in [1, 2] {
        let Op::Custom(op) = scaling(by_two(), &Arc::default()) else {
            unreachable!("it is one");
        };
        let name = format!("more{version}");
        graph.add_node(name, Op::Custom(op.with_version(version)), &[Some(x)]);
    }
    let error = to_bytes(&graph).expect_err("refused").to_string();
    let want = "node `more2` cannot be written: it is of version 2 of domain `com.example`, another node of version 1";
    assert_eq!(error, want);
}

#[test]
fn it_runs_every_time_and_is_never_folded() {
    let runs = Arc::default();
    let mut graph = Graph::default();
    let c = graph.add_constant("c", Tensor::from_f32([2], vec![1.0, 2.0]).expect("two"));
    let y = graph.add_node("y", scaling(by_two(), &runs), &[Some(c)]);
    graph.outputs.push(y);
    let bound = simplify(bind(&graph, &[]).expect("binds"));
    assert_eq!((runs.load(Ordering::Relaxed), bound.nodes().len()), (0, 1));
    for n in 1..4 {
        let outputs = reference::run(&bound, &[]).expect("runs");
        assert_eq!(outputs[0].1.to_f32(), [2.0, 4.0]);
        assert_eq!(runs.load(Ordering::Relaxed), n);
    }
    let empty = Tensor::zeros(DType::F32, [0]).expect("nothing");
    let nothing = reference::evaluate(&graph.nodes[0].op, &[Some(&empty)], 1).expect("nothing");
    assert_eq!(
        (nothing[0].shape(), runs.load(Ordering::Relaxed)),
        (&[0][..], 3)
    );
}

#[test]
fn rewrites_leave_it_where_it_is() {
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, vec![Dim::Known(2), Dim::Known(3)]);
    let transpose = || Op::Transpose(Transpose { perm: None });
    let a = graph.add_node("a", transpose(), &[Some(x)]);
    let b = graph.add_node("b", scaling(by_two(), &Arc::default()), &[Some(a)]);
    let c = graph.add_node("c", transpose(), &[Some(b)]);
    graph.outputs.push(c);
    let bound = simplify(bind(&graph, &[]).expect("binds"));
    let ops: Vec<&str> = bound.nodes().iter().map(|node| node.op.name()).collect();
    assert_eq!(ops, ["Transpose", "com.example::Scale", "Transpose"]);
}

#[test]
fn floats_in_f64_are_given_in_their_type_and_results_carried_on() {
    let graph = network();
    let x = Tensor::from_f32([3], vec![0.1, 0.2, 0.3]).expect("three");
    let wide = reference::run_wide(&bind(&graph, &[]).expect("binds"), &[("x", &x)]).expect("runs");
    assert_eq!(wide[0].1.dtype(), DType::F64);
    assert_eq!(wide[0].1.to_f32(), [-0.2, -0.4, -0.6]);
}

#[test]
fn the_operators_own_error_comes_with_the_node() {
    struct Fails;
    impl CustomOperator for Fails {
        fn infer(
            &self,
            operands: &[Option<Operand<'_>>],
            _: usize,
        ) -> Result<Vec<TensorType>, OperatorError> {
            Ok(operands.iter().flatten().map(Operand::ty).collect())
        }

        fn run(
            &self,
            _: &[Option<TensorView<'_>>],
            _: &mut [Option<TensorViewMut<'_>>],
        ) -> Result<(), OperatorError> {
            Err(Box::new(std::io::Error::other("no camera")))
        }
    }
    let mut graph = network();
    let fails = Custom::new(
        "com.example",
        "Camera",
        CustomAttributes::default(),
        Arc::new(Fails),
    );
    graph.nodes[0].op = Op::Custom(fails);
    let error = run(&graph).expect_err("fails");
    assert_eq!(
        error.to_string(),
        "node `scaled` (com.example::Camera): no camera"
    );
    let ModelError::Custom { source, .. } = error else {
        panic!("{error}");
    };
    assert!(source.downcast_ref::<std::io::Error>().is_some());
    // It tells the types of as many results as it has operands.
    let x = Operand {
        dtype: DType::F32,
        shape: &[3],
        constant: None,
    };
    let two = infer(&graph.nodes[0].op, &[Some(x)], 2).expect_err("two are wanted");
    assert_eq!(two.reason, "it tells the types of 1 results, 2 are wanted");
    let large = Operand {
        shape: &[1 << 20, 1 << 20],
        ..x
    };
    infer(&graph.nodes[0].op, &[Some(large)], 1).expect_err("more elements than a tensor may have");
}

/// `x` repeated as often as its second operand says, which shapes hang on.
struct Repeat;

impl CustomOperator for Repeat {
    fn infer(
        &self,
        operands: &[Option<Operand<'_>>],
        _: usize,
    ) -> Result<Vec<TensorType>, OperatorError> {
        let [Some(x), Some(count)] = operands else {
            return Err("takes two operands".into());
        };
        let Some(&[count]) = count.constant.and_then(Tensor::as_slice::<i64>) else {
            return Err("the count must be known".into());
        };
        let shape = vec![usize::try_from(count)?, x.shape.iter().product()];
        let dtype = x.dtype;
        Ok(vec![TensorType { dtype, shape }])
    }

    fn run(
        &self,
        operands: &[Option<TensorView<'_>>],
        results: &mut [Option<TensorViewMut<'_>>],
    ) -> Result<(), OperatorError> {
        let (Some(Some(x)), [Some(y)]) = (operands.first(), results) else {
            return Err("two operands, one result".into());
        };
        let x = x.as_slice::<f32>().ok_or("f32")?;
        let y = y.as_slice_mut::<f32>().ok_or("f32")?;
        y.chunks_exact_mut(x.len())
            .for_each(|row| row.copy_from_slice(x));
        Ok(())
    }

    fn deciding_operands(&self) -> &[usize] {
        &[1]
    }
}

#[test]
fn an_operand_that_decides_shapes_is_known_when_shapes_are() {
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, vec![Dim::Known(2)]);
    let count = graph.add_input("count", DType::I64, vec![Dim::Known(1)]);
    let repeat = Custom::new(
        "com.example",
        "Repeat",
        CustomAttributes::default(),
        Arc::new(Repeat),
    );
    let y = graph.add_node("y", Op::Custom(repeat), &[Some(x), Some(count)]);
    graph.outputs.push(y);
    assert_eq!(deciding_inputs(&graph), [1]);
    let error = bind(&graph, &[]).expect_err("not known").to_string();
    assert_eq!(
        error,
        "node `y` (com.example::Repeat): the count must be known"
    );
}

#[test]
fn behind_a_cut_it_is_interpreted_with_the_tail() {
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, vec![Dim::Known(1), Dim::Known(3)]);
    let places = graph.add_node("places", Op::NonZero(NonZero), &[Some(x)]);
    let to = graph.add_constant("to", Tensor::from_i64([1], vec![-1]).expect("one"));
    let reshape = Op::Reshape(Reshape { allow_zero: false });
    let flat = graph.add_node("flat", reshape, &[Some(places), Some(to)]);
    let cast = graph.add_node(
        "cast",
        Op::Cast(spark_onnx_graph::graph::Cast { to: DType::F32 }),
        &[Some(flat)],
    );
    let y = graph.add_node("y", scaling(by_two(), &Arc::default()), &[Some(cast)]);
    graph.outputs.push(y);
    let (_, tail) = split_at_values(graph).expect("cut");
    let x = Tensor::from_f32([1, 3], vec![1.0, 0.0, 3.0]).expect("three");
    let outputs = tail
        .expect("a tail")
        .run(Vec::new(), &[("x", &x)], 1 << 20)
        .expect("runs");
    assert_eq!(outputs[0].1.to_f32(), [0.0, 0.0, 0.0, 4.0]);
}

#[test]
fn the_body_of_a_loop_may_hold_one_in_a_file_too() {
    let mut inner = Graph::default();
    let ids = ["n", "holds", "carried"].map(|name| {
        let id = inner.add_value(Value {
            name: name.to_owned(),
            dtype: None,
            shape: None,
            constant: None,
        });
        inner.inputs.push(id);
        id
    });
    let doubled = inner.add_node(
        "doubled",
        scaling(by_two(), &Arc::default()),
        &[Some(ids[2])],
    );
    inner.outputs = vec![ids[1], doubled];
    let mut graph = Graph::default();
    let count = graph.add_input("count", DType::I64, vec![]);
    let x = graph.add_input("x", DType::F32, vec![Dim::Known(2)]);
    graph.bodies.push(Arc::new(inner));
    let repeat = Op::Loop(Loop {
        body: BodyId(0),
        carried: 1,
    });
    let y = graph.add_node("y", repeat, &[Some(count), None, Some(x)]);
    graph.values[y.0].dtype = Some(DType::F32);
    graph.outputs.push(y);

    let bytes = to_bytes(&graph).expect("written");
    parse(&bytes, None).expect_err("not registered");
    let read = parse_with(&bytes, None, &options()).expect("read");
    let bound = bind(&read, &[]).expect("binds");
    let count = Tensor::from_i64([], vec![3]).expect("one");
    let x = Tensor::from_f32([2], vec![1.0, -1.0]).expect("two");
    let outputs = reference::run(&bound, &[("count", &count), ("x", &x)]).expect("runs");
    assert_eq!(outputs[0].1.to_f32(), [8.0, -8.0]);
}

#[test]
fn operators_with_names_that_are_known_are_not_written() {
    let written = |domain: &str, name: &str| {
        let mut graph = Graph::default();
        let x = graph.add_input("x", DType::F32, vec![Dim::Known(2)]);
        let scale = Scale {
            scale: 2.0,
            runs: Arc::default(),
        };
        let op = Custom::new(domain, name, CustomAttributes::default(), Arc::new(scale));
        let y = graph.add_node("y", Op::Custom(op), &[Some(x)]);
        graph.values[y.0].dtype = Some(DType::F32);
        graph.values[y.0].shape = Some(vec![Dim::Known(2)]);
        graph.outputs.push(y);
        to_bytes(&graph)
    };
    // A reader would take them for the ones it knows.
    for (domain, name) in [
        ("", "Relu"),
        ("ai.onnx", "Relu"),
        ("", "If"),
        ("com.microsoft", "Gelu"),
    ] {
        let error = written(domain, name).expect_err(name).to_string();
        assert!(error.contains("is there already"), "{error}");
    }
    for (domain, name) in [
        ("", "Foo"),
        ("ai.onnx", "Foo"),
        ("com.microsoft", "Foo"),
        ("com.example", "Relu"),
    ] {
        let bytes = written(domain, name).expect("written");
        let mut operators = OperatorRegistry::new();
        let make = |_: &CustomAttributes| {
            let runs = Arc::default();
            Ok(Scale { scale: 2.0, runs })
        };
        operators.register(domain, name, make).expect("is free");
        let options = ReadOptions::new().with_operators(operators);
        let graph = parse_with(&bytes, None, &options).expect("read");
        assert!(matches!(graph.nodes[0].op, Op::Custom(_)));
    }
}
