//! Operators of an embedder's own on the executor: in every type, in every place of a network, against the interpreter.
//!
//! What goes wrong in them is in `custom_operator_failures`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use spark_onnx::calibration::{CalibrationOptions, IntegerOptions, calibrate, quantise};
use spark_onnx::file::{self, OperatorRegistry};
use spark_onnx::graph::{
    AttributeValue, Conv, Custom, CustomAttributes, CustomOperator, Dim, Expand, Graph, Loop,
    MatMul, Node, Op, Operand, OperatorError, Padding, Slice, TensorType, Transpose, Unary, Value,
    ValueId, bind,
};
use spark_onnx::{
    DType, Element, Model, ModelRunner, Precision, RunOptions, Tensor, TensorView, TensorViewMut,
    reference,
};
use spark_testing::numbers;

use super::control_flow::body;

/// The elements in reverse order, of any type.
pub(super) struct Reverse;

pub(super) fn reversed<T: Element>(
    x: &TensorView<'_>,
    y: &mut TensorViewMut<'_>,
) -> Result<(), OperatorError> {
    let (x, y) = (
        x.as_slice::<T>().ok_or("the operand")?,
        y.as_slice_mut::<T>().ok_or("the result")?,
    );
    if y.iter().any(|&y| y != T::default()) {
        return Err("results are lent as zeros".into());
    }
    y.iter_mut().zip(x.iter().rev()).for_each(|(y, &x)| *y = x);
    Ok(())
}

impl CustomOperator for Reverse {
    fn infer(
        &self,
        operands: &[Option<Operand<'_>>],
        _: usize,
    ) -> Result<Vec<TensorType>, OperatorError> {
        match operands {
            [Some(x)] => Ok(vec![x.ty()]),
            _ => Err("takes one operand".into()),
        }
    }

    fn run(
        &self,
        operands: &[Option<TensorView<'_>>],
        results: &mut [Option<TensorViewMut<'_>>],
    ) -> Result<(), OperatorError> {
        let ([Some(x)], [Some(y)]) = (operands, results) else {
            return Err("one operand, one result".into());
        };
        match x.dtype() {
            DType::F32 => reversed::<f32>(x, y),
            DType::F64 => reversed::<f64>(x, y),
            DType::F16 => reversed::<half::f16>(x, y),
            DType::BF16 => reversed::<half::bf16>(x, y),
            DType::I8 => reversed::<i8>(x, y),
            DType::I16 => reversed::<i16>(x, y),
            DType::I32 => reversed::<i32>(x, y),
            DType::I64 => reversed::<i64>(x, y),
            DType::U8 => reversed::<u8>(x, y),
            DType::U16 => reversed::<u16>(x, y),
            DType::U32 => reversed::<u32>(x, y),
            DType::U64 => reversed::<u64>(x, y),
            DType::Bool => reversed::<bool>(x, y),
        }
    }
}

/// An operator of one operand of f32 and results of its type, as a function says.
struct Function<F>(F);

impl<F> CustomOperator for Function<F>
where
    F: Fn(&[Option<TensorView<'_>>], &mut [Option<TensorViewMut<'_>>]) -> Result<(), OperatorError>
        + Send
        + Sync,
{
    fn infer(
        &self,
        operands: &[Option<Operand<'_>>],
        n: usize,
    ) -> Result<Vec<TensorType>, OperatorError> {
        let first = operands.iter().flatten().next().ok_or("no operand")?;
        Ok(vec![first.ty(); n])
    }

    fn run(
        &self,
        operands: &[Option<TensorView<'_>>],
        results: &mut [Option<TensorViewMut<'_>>],
    ) -> Result<(), OperatorError> {
        (self.0)(operands, results)
    }
}

pub(super) fn custom(name: &str, operator: impl CustomOperator + 'static) -> Op {
    let attributes = CustomAttributes::default();
    Op::Custom(Custom::new(
        "com.example",
        name,
        attributes,
        Arc::new(operator),
    ))
}

pub(super) fn function<F>(name: &str, run: F) -> Op
where
    F: Fn(&[Option<TensorView<'_>>], &mut [Option<TensorViewMut<'_>>]) -> Result<(), OperatorError>
        + Send
        + Sync
        + 'static,
{
    custom(name, Function(run))
}

/// `y = x + 1`, of f32.
fn increment() -> Op {
    function("Increment", |operands, results| {
        let x = operands[0]
            .as_ref()
            .and_then(|x| x.as_slice::<f32>())
            .ok_or("f32")?;
        let y = results[0]
            .as_mut()
            .and_then(|y| y.as_slice_mut::<f32>())
            .ok_or("f32")?;
        y.iter_mut().zip(x).for_each(|(y, x)| *y = x + 1.0);
        Ok(())
    })
}

pub(super) fn fixed(shape: &[usize]) -> Vec<Dim> {
    shape.iter().map(|&n| Dim::Known(n)).collect()
}

/// A graph of one node.
pub(super) fn single(op: Op, dtype: DType, shape: &[usize]) -> Graph {
    let mut graph = Graph::default();
    let x = graph.add_input("x", dtype, fixed(shape));
    let y = graph.add_node("y", op, &[Some(x)]);
    graph.outputs.push(y);
    graph
}

pub(super) fn options() -> RunOptions {
    RunOptions::new()
        .with_precision(Precision::Fp32)
        .with_threads(2)
}

pub(super) fn drawn(seed: u64, shape: &[usize]) -> Tensor {
    let n = shape.iter().product();
    Tensor::from_f32(shape, numbers(n, seed)).expect("as many")
}

/// What executor and interpreter give.
#[track_caller]
fn both(graph: &Graph, x: &Tensor) -> (Tensor, Tensor) {
    let bound = bind(graph, &[]).unwrap_or_else(|error| panic!("{error}"));
    let want = reference::run(&bound, &[("x", x)]).unwrap_or_else(|error| panic!("{error}"));
    let mut runner =
        ModelRunner::from_graph(graph.clone(), &options()).unwrap_or_else(|e| panic!("{e}"));
    let got = runner
        .run(&[("x", x)])
        .unwrap_or_else(|error| panic!("{error}"));
    (got[0].1.clone(), want[0].1.clone())
}

#[test]
fn operands_and_results_are_of_the_models_types() {
    for dtype in DType::ALL {
        for shape in [&[2, 3, 5, 7][..], &[3, 4], &[70_000], &[1], &[], &[2, 0, 3]] {
            let n = shape.iter().product();
            let values = (0..n).map(|i: usize| {
                ((i * 37) % 120) as f64 - if dtype.is_float() { 50.25 } else { 0.0 }
            });
            let x = Tensor::from_f64(dtype, shape, values.collect()).expect("as many");
            let (got, want) = both(&single(custom("Reverse", Reverse), dtype, shape), &x);
            assert!(got.is_bitwise(&want), "{dtype} {shape:?}");
            assert_eq!((got.dtype(), got.shape()), (dtype, shape));
        }
    }
    let far = Tensor::from_values([3], vec![i64::MIN, -1, i64::MAX]).expect("three");
    let (got, want) = both(&single(custom("Reverse", Reverse), DType::I64, &[3]), &far);
    assert!(got.is_bitwise(&want));
}

#[test]
fn operands_lie_as_the_plan_has_them_and_are_seen_row_major() {
    let slice = |graph: &mut Graph, name: &str, x: ValueId, parts: [i64; 4]| {
        let parts = parts.map(|part| {
            let id = format!("{name}{part}_{}", graph.values.len());
            Some(graph.add_constant(id, Tensor::from_i64([1], vec![part]).expect("one")))
        });
        graph.add_node(
            name,
            Op::Slice(Slice),
            &[Some(x), parts[0], parts[1], parts[2], parts[3]],
        )
    };
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, fixed(&[6, 5]));
    let shape = graph.add_constant(
        "shape",
        Tensor::from_i64([3], vec![2, 6, 5]).expect("three"),
    );
    let views = [
        graph.add_node(
            "transposed",
            Op::Transpose(Transpose { perm: None }),
            &[Some(x)],
        ),
        slice(&mut graph, "rows", x, [2, 5, 0, 1]),
        slice(&mut graph, "columns", x, [1, 4, 1, 1]),
        slice(&mut graph, "reversed", x, [-1, -100, 0, -1]),
        slice(&mut graph, "every_second", x, [0, 6, 0, 2]),
        graph.add_node("repeated", Op::Expand(Expand), &[Some(x), Some(shape)]),
        graph.add_node("negated", Op::Unary(Unary::Neg), &[Some(x)]),
        x,
    ];
    for (index, view) in views.into_iter().enumerate() {
        let y = graph.add_node(
            format!("y{index}"),
            custom("Reverse", Reverse),
            &[Some(view)],
        );
        graph.outputs.push(y);
    }
    let x = drawn(1, &[6, 5]);
    let want = reference::run(&bind(&graph, &[]).expect("binds"), &[("x", &x)]).expect("runs");
    let mut runner = ModelRunner::from_graph(graph, &options()).expect("fixed shapes");
    for _ in 0..2 {
        let got = runner.run(&[("x", &x)]).expect("runs");
        for ((name, got), (_, want)) in got.iter().zip(&want) {
            assert!(got.is_bitwise(want), "{name}");
        }
    }
}

fn convolution(graph: &mut Graph, name: &str, x: ValueId, seed: u64) -> ValueId {
    let w = graph.add_constant(format!("{name}_w"), drawn(seed, &[16, 16, 3, 3]));
    let conv = Conv {
        strides: vec![],
        dilations: vec![],
        padding: Padding::Explicit(vec![1; 4]),
        groups: 1,
    };
    graph.add_node(name, Op::Conv(conv), &[Some(x), Some(w)])
}

/// Between layers that hold pictures channels-last, with a residual around it.
pub(super) fn among_layers() -> Graph {
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, fixed(&[1, 16, 9, 10]));
    let a = convolution(&mut graph, "a", x, 1);
    let b = graph.add_node("b", Op::Unary(Unary::Relu), &[Some(a)]);
    let c = graph.add_node("c", custom("Reverse", Reverse), &[Some(b)]);
    let d = convolution(&mut graph, "d", c, 2);
    let e = graph.add_node(
        "e",
        Op::Binary(spark_onnx::graph::Binary::Add),
        &[Some(d), Some(b)],
    );
    let f = graph.add_node("f", increment(), &[Some(e)]);
    graph.outputs.push(f);
    graph
}

#[test]
fn among_layers_it_sees_pictures_row_major_and_is_a_step_of_its_own() {
    let graph = among_layers();
    let x = drawn(3, &[1, 16, 9, 10]);
    let (got, want) = both(&graph, &x);
    let (got, want) = (got.to_f32(), want.to_f32());
    let largest = want.iter().fold(0.0f32, |largest, v| largest.max(v.abs()));
    let mut pairs = got.iter().zip(&want);
    assert!(pairs.all(|(a, b)| (a - b).abs() <= 1e-5 * largest));

    let model = Model::from_graph(graph, &options()).expect("fixed shapes");
    let mut session = model.session();
    let steps = session.profile(&[("x", &x)], 3).expect("runs");
    let own: Vec<_> = steps.iter().filter(|step| step.kind == "custom").collect();
    let [reverse, increment] = &own[..] else {
        panic!("{steps:?}");
    };
    assert_eq!((reverse.name.as_str(), increment.name.as_str()), ("c", "f"));
    assert_eq!(
        reverse.detail,
        "com.example::Reverse, 1x16x9x10 f32 -> 1x16x9x10 f32"
    );
    assert!(
        reverse.kernel.ends_with("-any-custom"),
        "{}",
        reverse.kernel
    );
    assert!(reverse.mean.is_some() && reverse.bytes == 2 * 4 * 1440);
}

#[test]
fn no_precision_changes_its_types_and_calibration_goes_through_it() {
    let x = drawn(3, &[1, 16, 9, 10]);
    let reverse = single(custom("Reverse", Reverse), DType::F32, &[1440]);
    let flat = x.clone().reshaped([1440]).expect("as many");
    for precision in [
        Precision::Bf16,
        Precision::Fp16,
        Precision::Fp8,
        Precision::Fp4,
    ] {
        let mut runner =
            ModelRunner::from_graph(among_layers(), &options().with_precision(precision))
                .expect("fits");
        runner.run(&[("x", &x)]).expect("runs");
        let steps = runner.steps();
        assert!(
            steps
                .iter()
                .filter(|s| s.kind == "custom")
                .all(|s| s.precision == Precision::Fp32)
        );
        let mut alone =
            ModelRunner::from_graph(reverse.clone(), &options().with_precision(precision))
                .expect("fits");
        let got = alone.run(&[("x", &flat)]).expect("runs");
        let want: Vec<f32> = flat.to_f32().into_iter().rev().collect();
        assert_eq!(got[0].1.to_f32(), want, "{precision:?}");
    }
    let batches: Vec<_> = (0..16).map(|seed| drawn(seed, &[1, 16, 9, 10])).collect();
    let batches: Vec<_> = batches.iter().map(|x| vec![("x", x)]).collect();
    let wanted = CalibrationOptions::new(Precision::Fp8);
    let made = calibrate(&among_layers(), &batches, &options(), &wanted, |_, _| ()).expect("fits");
    let mut runner = ModelRunner::from_graph(among_layers(), &options().with_calibration(made))
        .expect("the same network");
    runner.run(&[("x", &x)]).expect("runs");
    // The same on integers.
    let made = quantise(
        &among_layers(),
        &batches,
        &options(),
        &IntegerOptions::default(),
        |_, _| (),
    );
    let made = made.expect("fits").graph;
    let own = |node: &&Node| matches!(node.op, Op::Custom(_));
    assert_eq!(made.nodes.iter().filter(own).count(), 2);
    let mut runner = ModelRunner::from_graph(made, &options()).expect("fits");
    let got = runner.run(&[("x", &x)]).expect("runs")[0].1.to_f32();
    let steps = runner.steps();
    assert!(steps.iter().any(|step| step.kind.starts_with("int8")));
    let want = both(&among_layers(), &x).1.to_f32();
    let power = |values: &mut dyn Iterator<Item = f32>| values.map(|v| v * v).sum::<f32>();
    let error = power(&mut got.iter().zip(&want).map(|(a, b)| a - b));
    assert!(error < 0.01 * power(&mut want.iter().copied()), "{error}");
}

fn value(graph: &mut Graph, name: &str) -> ValueId {
    graph.add_value(Value {
        name: name.to_owned(),
        dtype: None,
        shape: None,
        constant: None,
    })
}

#[test]
fn operands_may_be_left_out_or_given_twice_and_results_not_wanted() {
    // y0 = a - b, not wanted; y1 = a + b, y2 = 2 a.
    let op = || {
        function("Sums", |operands, results| {
            let [Some(a), None, Some(b)] = operands else {
                return Err(format!("{operands:?}").into());
            };
            let (a, b) = (
                a.as_slice::<f32>().ok_or("f32")?,
                b.as_slice::<f32>().ok_or("f32")?,
            );
            let sums: [fn(f32, f32) -> f32; 3] = [|a, b| a - b, |a, b| a + b, |a, _| 2.0 * a];
            for (result, sum) in results.iter_mut().zip(sums) {
                let Some(result) = result else { continue };
                let y = result.as_slice_mut::<f32>().ok_or("f32")?;
                y.iter_mut()
                    .zip(a.iter().zip(b))
                    .for_each(|(y, (&a, &b))| *y = sum(a, b));
            }
            Ok(())
        })
    };
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, fixed(&[4]));
    let (y1, y2) = (value(&mut graph, "y1"), value(&mut graph, "y2"));
    graph.nodes.push(Node {
        name: "sums".to_owned(),
        op: op(),
        inputs: vec![Some(x), None, Some(x)],
        outputs: vec![None, Some(y1), Some(y2)],
    });
    graph.outputs = vec![y1, y2];
    let x = Tensor::from_f32([4], vec![1.0, 2.0, 3.0, 4.0]).expect("four");
    let mut runner = ModelRunner::from_graph(graph.clone(), &options()).expect("fixed shapes");
    let want = reference::run(&bind(&graph, &[]).expect("binds"), &[("x", &x)]).expect("runs");
    for _ in 0..2 {
        let got = runner.run(&[("x", &x)]).expect("runs");
        assert_eq!(got, want);
        assert_eq!(got[0].1.to_f32(), [2.0, 4.0, 6.0, 8.0]);
    }
    let detail = &runner.steps()[0].detail;
    assert_eq!(
        detail,
        "com.example::Sums, 4 f32, -, 4 f32 -> -, 4 f32, 4 f32"
    );
}

#[test]
fn more_operands_than_few_are_as_good() {
    let sum = function("Sum", |operands, results| {
        let y = results[0]
            .as_mut()
            .and_then(|y| y.as_slice_mut::<f32>())
            .ok_or("f32")?;
        for x in operands.iter().flatten() {
            y[0] += x.as_slice::<f32>().ok_or("f32")?[0];
        }
        Ok(())
    });
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, fixed(&[1]));
    let y = graph.add_node("y", sum, &[Some(x); 40]);
    graph.outputs.push(y);
    let (got, want) = both(&graph, &Tensor::from_f32([1], vec![2.5]).expect("one"));
    assert_eq!((got.to_f32(), want.to_f32()), (vec![100.0], vec![100.0]));
}

#[test]
fn it_runs_once_a_run_and_once_an_iteration() {
    let runs = Arc::new(AtomicUsize::new(0));
    let counting = |runs: &Arc<AtomicUsize>| {
        let runs = Arc::clone(runs);
        function("Count", move |operands, results| {
            runs.fetch_add(1, Ordering::Relaxed);
            let x = operands[0]
                .as_ref()
                .and_then(|x| x.as_slice::<f32>())
                .ok_or("f32")?;
            let y = results[0]
                .as_mut()
                .and_then(|y| y.as_slice_mut::<f32>())
                .ok_or("f32")?;
            y.iter_mut().zip(x).for_each(|(y, x)| *y = 2.0 * x);
            Ok(())
        })
    };
    let mut constant = Graph::default();
    let c = constant.add_constant("c", Tensor::from_f32([1], vec![3.0]).expect("one"));
    let y = constant.add_node("y", counting(&runs), &[Some(c)]);
    constant.outputs.push(y);
    let mut runner = ModelRunner::from_graph(constant, &options()).expect("fixed shapes");
    assert_eq!(runs.load(Ordering::Relaxed), 0, "not folded");
    for n in 1..3 {
        assert_eq!(runner.run(&[]).expect("runs")[0].1.to_f32(), [6.0]);
        assert_eq!(runs.load(Ordering::Relaxed), n);
    }

    runs.store(0, Ordering::Relaxed);
    let (mut inner, [_, condition, carried]) = body(["n", "holds", "carried"]);
    let doubled = inner.add_node("doubled", counting(&runs), &[Some(carried)]);
    inner.outputs = vec![condition, doubled];
    let mut graph = Graph::default();
    let count = graph.add_input("count", DType::I64, vec![]);
    let x = graph.add_input("x", DType::F32, fixed(&[2]));
    graph.bodies.push(Arc::new(inner));
    let repeat = Op::Loop(Loop {
        body: spark_onnx::graph::BodyId(0),
        carried: 1,
    });
    let y = graph.add_node("y", repeat, &[Some(count), None, Some(x)]);
    graph.outputs.push(y);
    let mut runner = ModelRunner::from_graph(graph, &options()).expect("fixed shapes");
    let x = Tensor::from_f32([2], vec![1.0, -1.0]).expect("two");
    for n in [0, 1, 5] {
        runs.store(0, Ordering::Relaxed);
        let count = Tensor::from_i64([], vec![n]).expect("one");
        let y = runner.run(&[("x", &x), ("count", &count)]).expect("runs")[0]
            .1
            .to_f32();
        let want = f32::from(1u16 << n);
        assert_eq!(
            (y, runs.load(Ordering::Relaxed)),
            (vec![want, -want], n as usize)
        );
    }
}

#[test]
fn a_file_with_such_operators_is_loaded_and_run() {
    /// `x + by`.
    struct Shift {
        by: f32,
    }
    impl CustomOperator for Shift {
        fn infer(
            &self,
            operands: &[Option<Operand<'_>>],
            _: usize,
        ) -> Result<Vec<TensorType>, OperatorError> {
            operands
                .iter()
                .map(|x| x.map(|x| x.ty()).ok_or("no operand".into()))
                .collect()
        }

        fn run(
            &self,
            operands: &[Option<TensorView<'_>>],
            results: &mut [Option<TensorViewMut<'_>>],
        ) -> Result<(), OperatorError> {
            let x = operands[0]
                .as_ref()
                .and_then(|x| x.as_slice::<f32>())
                .ok_or("f32")?;
            let y = results[0]
                .as_mut()
                .and_then(|y| y.as_slice_mut::<f32>())
                .ok_or("f32")?;
            y.iter_mut().zip(x).for_each(|(y, x)| *y = x + self.by);
            Ok(())
        }
    }
    let mut operators = OperatorRegistry::new();
    let make = |attributes: &CustomAttributes| {
        let by = attributes.float("by")?.ok_or("attribute `by` is missing")?;
        Ok(Shift { by })
    };
    operators
        .register("com.example", "Shift", make)
        .expect("new");

    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, fixed(&[1, 2]));
    let attributes = CustomAttributes::from([("by".to_owned(), AttributeValue::Float(0.5))]);
    let shift = Custom::new(
        "com.example",
        "Shift",
        attributes,
        Arc::new(Shift { by: 0.5 }),
    );
    let shifted = graph.add_node("shifted", Op::Custom(shift), &[Some(x)]);
    let w = graph.add_constant("w", Tensor::from_f32([2, 1], vec![2.0, 4.0]).expect("two"));
    let y = graph.add_node("y", Op::MatMul(MatMul), &[Some(shifted), Some(w)]);
    graph.values[y.0].dtype = Some(DType::F32);
    graph.outputs.push(y);
    let bytes = file::to_bytes(&graph).expect("written");

    let error = Model::from_bytes(&bytes, &options()).expect_err("not registered");
    assert!(error.to_string().contains("com.example::Shift"), "{error}");
    let options = options().with_operators(operators);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("shifted.onnx");
    std::fs::write(&path, &bytes).expect("writable");
    let x = Tensor::from_f32([1, 2], vec![1.0, 2.0]).expect("two");
    let mut runner = ModelRunner::load(&path, &options).expect("loads");
    assert_eq!(
        runner.run(&[("x", &x)]).expect("runs")[0].1.to_f32(),
        [13.0]
    );
    let mut session = Model::from_bytes(&bytes, &options)
        .expect("loads")
        .session();
    assert_eq!(
        session.run(&[("x", &x)]).expect("runs")[0].1.to_f32(),
        [13.0]
    );
    // What was read can be written, as by a calibration that gives a file.
    let read = Model::load(&path, &options).expect("loads");
    assert!(matches!(read.graph().nodes[0].op, Op::Custom(_)));
}
