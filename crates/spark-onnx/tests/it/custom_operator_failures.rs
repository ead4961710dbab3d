//! Operators of an embedder's own that fail, panic, take memory or ask for too much, and who else notices.

use std::panic::{AssertUnwindSafe, catch_unwind};

use spark_onnx::graph::{
    CustomOperator, Dim, Graph, Op, Operand, OperatorError, TensorType, Unary,
};
use spark_onnx::{
    DType, Model, ModelError, ModelRunner, PortTraffic, Session, Tensor, TensorView, TensorViewMut,
};
use spark_testing::Watch;

use super::custom_operators::{
    Reverse, among_layers, custom, drawn, fixed, function, options, reversed, single,
};

/// `y = x + before`, before it is carried from run to run; fails on a negative number, panics on a NaN.
fn stateful() -> Graph {
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, fixed(&[2]));
    let before = graph.add_input("before", DType::F32, fixed(&[2]));
    let sum = function("Sum", |operands, results| {
        let [Some(x), Some(before)] = operands else {
            return Err("two operands".into());
        };
        let (x, before) = (
            x.as_slice::<f32>().ok_or("f32")?,
            before.as_slice::<f32>().ok_or("f32")?,
        );
        let y = results[0]
            .as_mut()
            .and_then(|y| y.as_slice_mut::<f32>())
            .ok_or("f32")?;
        for (at, y) in y.iter_mut().enumerate() {
            assert!(!x[at].is_nan(), "a NaN at {at}");
            if x[at] < 0.0 {
                return Err(format!("{} is negative", x[at]).into());
            }
            *y = x[at] + before[at];
        }
        Ok(())
    });
    let sum = graph.add_node("sum", sum, &[Some(x), Some(before)]);
    let y = graph.add_node("y", Op::Unary(Unary::Neg), &[Some(sum)]);
    graph.outputs = vec![y, sum];
    graph
}

#[test]
fn an_error_names_the_node_and_a_panic_passes_through_and_the_session_goes_on() {
    let model = Model::from_graph(stateful(), &options()).expect("fixed shapes");
    let mut session = model.session();
    let zeros = || Tensor::from_f32([2], vec![0.0; 2]).expect("two");
    session.carry("sum", "before", zeros()).expect("they fit");
    let mut y = [0.0f32; 2];
    let mut run = |session: &mut Session, x: [f32; 2]| {
        let inputs = [("x", TensorView::new(&x[..], &[2])?)];
        let mut outputs = [("y", TensorViewMut::new(&mut y[..], &[2])?)];
        session.run_into(&inputs, &mut outputs)?;
        Ok::<_, ModelError>(y)
    };
    assert_eq!(run(&mut session, [1.0, 2.0]).expect("runs"), [-1.0, -2.0]);
    let error = run(&mut session, [5.0, -1.0]).expect_err("negative");
    assert_eq!(
        error.to_string(),
        "node `sum` (com.example::Sum): -1 is negative"
    );
    assert!(matches!(error, ModelError::Custom { .. }));
    for by_new_tensors in [false, true] {
        let nan = Tensor::from_f32([2], vec![7.0, f32::NAN]).expect("two");
        let panicked = catch_unwind(AssertUnwindSafe(|| match by_new_tensors {
            true => session.run(&[("x", &nan)]).map(drop),
            false => run(&mut session, [7.0, f32::NAN]).map(drop),
        }));
        let payload = panicked.expect_err("it panics");
        let message = payload.downcast_ref::<String>().map(String::as_str);
        assert_eq!(message, Some("a NaN at 1"), "the operator's own");
        // The state is what it was before either failed.
        let state = session.state("before").map(Tensor::to_f32);
        let want = if by_new_tensors {
            [2.0, 4.0]
        } else {
            [1.0, 2.0]
        };
        assert_eq!(state.as_deref(), Some(&want[..]));
        let next = run(&mut session, [1.0, 2.0]).expect("runs");
        assert_eq!(next, want.map(|v| -v - v / want[0]));
    }
    // Nor does another session of the model see any of it.
    let mut other = model.session();
    let x = Tensor::from_f32([2], vec![1.0, 2.0]).expect("two");
    let outputs = other.run(&[("x", &x), ("before", &zeros())]).expect("runs");
    assert_eq!(outputs[0].1.to_f32(), [-1.0, -2.0]);
}

#[test]
fn a_panic_while_shapes_are_inferred_leaves_the_model_as_it_was() {
    struct Even;
    impl CustomOperator for Even {
        fn infer(
            &self,
            operands: &[Option<Operand<'_>>],
            _: usize,
        ) -> Result<Vec<TensorType>, OperatorError> {
            let x = operands[0].ok_or("no operand")?;
            assert!(x.shape[0].is_multiple_of(2), "odd");
            Ok(vec![x.ty()])
        }

        fn run(
            &self,
            operands: &[Option<TensorView<'_>>],
            results: &mut [Option<TensorViewMut<'_>>],
        ) -> Result<(), OperatorError> {
            match (operands, results) {
                ([Some(x)], [Some(y)]) => reversed::<f32>(x, y),
                _ => Err("one of each".into()),
            }
        }
    }
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, vec![Dim::Symbol("n".to_owned())]);
    let y = graph.add_node("y", custom("Even", Even), &[Some(x)]);
    graph.outputs.push(y);
    let model = Model::from_graph(graph, &options()).expect("an open shape");
    let mut session = model.session();
    for n in [2, 3, 4, 5, 2] {
        let x = drawn(n as u64, &[n]);
        let ran = catch_unwind(AssertUnwindSafe(|| session.run(&[("x", &x)])));
        match (n % 2, ran) {
            (0, Ok(outputs)) => {
                let want: Vec<f32> = x.to_f32().into_iter().rev().collect();
                assert_eq!(outputs.expect("runs")[0].1.to_f32(), want);
            }
            (1, Err(_)) => {}
            (_, other) => panic!("{n}: {other:?}"),
        }
    }
    assert_eq!(model.memory().plans, 2);
}

#[test]
fn sessions_of_several_threads_share_it() {
    let model = Model::from_graph(among_layers(), &options()).expect("fixed shapes");
    let x = drawn(3, &[1, 16, 9, 10]);
    let want = model.session().run(&[("x", &x)]).expect("runs");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut session = model.session();
                for _ in 0..20 {
                    let got = session.run(&[("x", &x)]).expect("runs");
                    assert!(got[0].1.is_bitwise(&want[0].1));
                }
            });
        }
    });
}

#[test]
fn from_the_second_run_on_no_memory_is_taken_for_it() {
    // f32 is lent where it lies, the caller's own memory too.
    let model = Model::from_graph(
        single(custom("Reverse", Reverse), DType::F32, &[64]),
        &options().with_threads(1),
    );
    let mut session = model.expect("fixed shapes").session();
    let (x, mut y) = (drawn(1, &[64]), [0.0f32; 64]);
    for n in 0..3 {
        let watch = Watch::start();
        let memory = TensorViewMut::new(&mut y[..], &[64]).expect("fits");
        session
            .run_into(&[("x", (&x).into())], &mut [("y", memory)])
            .expect("runs");
        assert!(
            n == 0 || watch.requests() == 0,
            "{} requests",
            watch.requests()
        );
        assert_eq!(session.last_traffic(), PortTraffic::default());
    }
    // Other types go through the workspace; what is taken then is the ports', as in any network.
    let graph = single(custom("Reverse", Reverse), DType::U8, &[64]);
    let relu = single(Op::Unary(Unary::Identity), DType::U8, &[64]);
    let x = Tensor::from_values([64], (0..64).collect::<Vec<u8>>()).expect("as many");
    let mut requests = [graph, relu].map(|graph| {
        let model = Model::from_graph(graph, &options().with_threads(1)).expect("fixed shapes");
        let mut session = model.session();
        let mut y = [0u8; 64];
        let mut run = || {
            let watch = Watch::start();
            let memory = TensorViewMut::new(&mut y[..], &[64]).expect("fits");
            session
                .run_into(&[("x", (&x).into())], &mut [("y", memory)])
                .expect("runs");
            watch.requests()
        };
        run();
        run()
    });
    requests.sort_unstable();
    assert_eq!(requests[0], requests[1]);
}

#[test]
fn its_memory_is_of_the_budget() {
    let n = 4 << 20;
    let graph = single(custom("Reverse", Reverse), DType::F16, &[n]);
    // Operand and result in f32, both in f16 beside them, the output.
    let model =
        Model::from_graph(graph.clone(), &options().with_memory_budget(128 << 20)).expect("fits");
    let mut session = model.session();
    session.warm_up().expect("fits");
    let taken = model.memory().session_bytes;
    assert!(taken >= 2 * 4 * n + 2 * 2 * n, "{taken}");
    let refused =
        Model::from_graph(graph, &options().with_memory_budget(taken - 1)).and_then(|model| {
            let mut session = model.session();
            session.warm_up()
        });
    let error = refused.expect_err("too little");
    assert!(matches!(error, ModelError::OverBudget { .. }), "{error}");
}

#[test]
fn what_it_says_of_its_results_is_held_against_the_limits() {
    struct Makes(Vec<usize>);
    impl CustomOperator for Makes {
        fn infer(
            &self,
            _: &[Option<Operand<'_>>],
            _: usize,
        ) -> Result<Vec<TensorType>, OperatorError> {
            let shape = self.0.clone();
            let dtype = DType::F32;
            Ok(vec![TensorType { dtype, shape }])
        }

        fn run(
            &self,
            _: &[Option<TensorView<'_>>],
            _: &mut [Option<TensorViewMut<'_>>],
        ) -> Result<(), OperatorError> {
            unreachable!("it is refused before")
        }
    }
    let refused = |shape: &[usize]| {
        let graph = single(custom("Makes", Makes(shape.to_vec())), DType::F32, &[1]);
        let model = Model::from_graph(graph, &options().with_memory_budget(1 << 30));
        model.map(drop).expect_err("refused")
    };
    for shape in [&[usize::MAX, 2][..], &[1 << 20, 1 << 20]] {
        assert!(
            matches!(refused(shape), ModelError::Operator { .. }),
            "{shape:?}"
        );
    }
    assert!(matches!(refused(&[1 << 30]), ModelError::OverBudget { .. }));
    let axes = refused(&[1; 9]).to_string();
    assert_eq!(
        axes,
        "node `y` (com.example::Makes): result has 9 axes, at most 8"
    );
}

#[test]
fn a_number_beyond_f32_is_an_error_as_everywhere() {
    let op = function("Large", |_, results| {
        let y = results[0]
            .as_mut()
            .and_then(|y| y.as_slice_mut::<f64>())
            .ok_or("f64")?;
        y[1] = 1e300;
        Ok(())
    });
    let mut runner =
        ModelRunner::from_graph(single(op, DType::F64, &[2]), &options()).expect("fixed shapes");
    let x = Tensor::zeros(DType::F64, [2]).expect("two");
    let error = runner.run(&[("x", &x)]).expect_err("beyond").to_string();
    assert!(
        error.contains("com.example::Large") && error.contains("1e300"),
        "{error}"
    );
}
