//! One model, several sessions: weights once, the same bits on every thread, memory of the caller's, state from
//! frame to frame, runs that are ended.

use std::time::Duration;

use spark_onnx::graph::{
    Binary, Cast, Conv, Dim, Gather, Graph, MatMul, Op, Padding, Unary, ValueId,
};
use spark_onnx::{
    DType, Model, ModelError, ModelRunner, PortTraffic, Precision, RunOptions, SharedPool, Tensor,
    TensorView, TensorViewMut,
};
use spark_testing::{Watch, numbers};

fn drawn(seed: u64, shape: &[usize]) -> Tensor {
    let n = shape.iter().product();
    Tensor::from_f32(shape, numbers(n, seed)).expect("fits")
}

fn options() -> RunOptions {
    RunOptions::new()
        .with_precision(Precision::Fp32)
        .with_threads(1)
}

/// Convolutions of all kinds and a product, for any batch of pictures.
fn open_batch() -> Graph {
    let mut graph = Graph::default();
    let dims = vec![
        Dim::Symbol("batch".to_owned()),
        Dim::Known(32),
        Dim::Known(16),
        Dim::Known(16),
    ];
    let mut x = graph.add_input("x", DType::F32, dims);
    for (i, (shape, groups)) in [
        ([64, 32, 3, 3], 1),
        ([64, 1, 3, 3], 64),
        ([64, 64, 1, 1], 1),
        ([16, 64, 16, 16], 1),
    ]
    .into_iter()
    .enumerate()
    {
        let w = graph.add_constant(format!("w{i}"), drawn(i as u64, &shape));
        let conv = Conv {
            strides: vec![],
            dilations: vec![],
            padding: Padding::Explicit(match shape[2] {
                3 => vec![1; 4],
                _ => vec![0; 4],
            }),
            groups,
        };
        x = graph.add_node(format!("conv{i}"), Op::Conv(conv), &[Some(x), Some(w)]);
    }
    graph.outputs.push(x);
    graph
}

/// `h = tanh(x A + before B)`, `y = h C`.
fn recurrent() -> Graph {
    let mut graph = Graph::default();
    let dims = |n| vec![Dim::Known(1), Dim::Known(n)];
    let x = graph.add_input("x", DType::F32, dims(24));
    let before = graph.add_input("before", DType::F32, dims(48));
    let product = |graph: &mut Graph, name: &str, x: ValueId, shape: [usize; 2]| {
        let w = drawn(name.len() as u64, &shape);
        let w = graph.add_constant(format!("{name}.w"), w);
        graph.add_node(name, Op::MatMul(MatMul), &[Some(x), Some(w)])
    };
    let a = product(&mut graph, "a", x, [24, 48]);
    let b = product(&mut graph, "bb", before, [48, 48]);
    let sum = graph.add_node("sum", Op::Binary(Binary::Add), &[Some(a), Some(b)]);
    let h = graph.add_node("h", Op::Unary(Unary::Tanh), &[Some(sum)]);
    let y = product(&mut graph, "y", h, [48, 8]);
    graph.outputs.extend([y, h]);
    graph
}

#[test]
fn eight_shapes_and_eight_sessions_hold_one_set_of_weights() {
    for precision in [
        Precision::Fp32,
        Precision::Bf16,
        Precision::Fp8,
        Precision::Fp4,
    ] {
        let options = options().with_precision(precision);
        let model = Model::from_graph(open_batch(), &options).expect("any batch");
        model.prepare(&[("x", vec![1, 32, 16, 16])]).expect("fits");
        let of_one = model.memory();
        let mut sessions: Vec<_> = (0..8).map(|_| model.session()).collect();
        let mut arenas = Vec::new();
        for batch in 1..=8 {
            let x = drawn(9, &[batch, 32, 16, 16]);
            for session in &mut sessions {
                session.run(&[("x", &x)]).expect("runs");
            }
            arenas.push(model.memory().session_bytes);
        }
        let of_all = model.memory();
        assert_eq!((of_one.plans, of_all.plans), (1, 8));
        assert_eq!(of_all.weight_bytes, of_one.weight_bytes, "{precision}");
        assert!(arenas.is_sorted_by(|a, b| a < b), "{arenas:?}");
        drop(sessions);
        assert_eq!(model.memory().session_bytes, 0);
    }
}

#[test]
fn weights_go_with_the_last_plan_that_reads_them() {
    let model = Model::from_graph(open_batch(), &options().with_max_plans(1)).expect("any batch");
    let run = |batch| {
        let mut session = model.session();
        let x = drawn(9, &[batch, 32, 16, 16]);
        session.run(&[("x", &x)]).expect("runs");
        session
    };
    let first = run(1);
    let bytes = model.memory().weight_bytes;
    let second = run(2);
    assert_eq!(model.memory().plans, 1, "a model keeps no more than it may");
    assert_eq!(model.memory().weight_bytes, bytes);
    drop((first, second));
    assert_eq!(model.memory().weight_bytes, bytes);
}

#[test]
fn eight_threads_get_the_bits_of_one() {
    let pool = SharedPool::new(2);
    let model = Model::from_graph(open_batch(), &options().with_pool(pool)).expect("any batch");
    let x = drawn(5, &[3, 32, 16, 16]);
    let want = model.session().run(&[("x", &x)]).expect("runs");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut session = model.session();
                for _ in 0..20 {
                    assert!(session.run(&[("x", &x)]).expect("runs") == want);
                }
            });
        }
    });
    assert_eq!(model.memory().plans, 1);
}

#[test]
fn plans_can_be_made_beforehand() {
    let model = Model::from_graph(open_batch(), &options()).expect("any batch");
    model.prepare(&[("x", vec![4, 32, 16, 16])]).expect("fits");
    assert_eq!(model.memory().plans, 1);
    let refused = |shapes: &[(&str, Vec<usize>)]| model.prepare(shapes).expect_err("refused");
    assert_eq!(
        refused(&[("x", vec![4, 31, 16, 16])]).to_string(),
        "input `x` has shape [4, 31, 16, 16], the model wants [batch, 32, 16, 16] with batch = 4"
    );
    assert!(matches!(refused(&[]), ModelError::InputOpen { .. }));
    assert!(matches!(
        refused(&[("z", vec![])]),
        ModelError::InputUnknown { .. }
    ));
    assert_eq!(model.memory().plans, 1);
}

#[test]
fn state_goes_from_frame_to_frame_without_a_copy_or_memory() {
    let frames: Vec<Tensor> = (0..20).map(|i| drawn(i, &[1, 24])).collect();
    let initial = drawn(77, &[1, 48]);
    // By hand: what came out goes in.
    let mut runner = ModelRunner::from_graph(recurrent(), &options()).expect("fits");
    let mut before = initial.clone();
    let by_hand = frames.iter().map(|x| {
        let mut outputs = runner.run(&[("x", x), ("before", &before)]).expect("runs");
        before = outputs.pop().expect("two").1;
        outputs.remove(0).1.to_f32()
    });
    let by_hand: Vec<_> = by_hand.collect();
    // In the session.
    let model = runner.model();
    let mut session = model.session();
    session
        .carry("h", "before", initial.clone())
        .expect("both are there");
    session.warm_up().expect("fits");
    for _drive in 0..2 {
        let mut y = [0.0f32; 8];
        for (x, want) in frames.iter().zip(&by_hand) {
            let watch = Watch::start();
            let memory = TensorViewMut::new(&mut y[..], &[1, 8]).expect("fits");
            session
                .run_into(&[("x", x.into())], &mut [("y", memory)])
                .expect("runs");
            assert_eq!(watch.requests(), 0, "memory is taken between frames");
            assert_eq!(session.last_traffic(), PortTraffic::default());
            assert_eq!(y[..], want[..]);
        }
        let last = session.state("before").expect("carried");
        assert_eq!(*last, before, "the state is what came out last");
        session
            .set_state("before", initial.clone())
            .expect("carried");
    }
    // The same by way of new tensors, which the state is not among.
    for (x, want) in frames.iter().zip(&by_hand) {
        let outputs = session.run(&[("x", x)]).expect("runs");
        assert_eq!(outputs.len(), 1);
        assert_eq!((&*outputs[0].0, outputs[0].1.to_f32()), ("y", want.clone()));
    }
}

#[test]
fn what_is_carried_is_not_given() {
    let model = Model::from_graph(recurrent(), &options()).expect("fits");
    let mut session = model.session();
    let (x, state) = (drawn(1, &[1, 24]), drawn(2, &[1, 48]));
    let name = |error: ModelError| error.to_string();
    let refused = session.carry("z", "before", state.clone()).map_err(name);
    assert_eq!(refused, Err("the model has no output `z`".to_owned()));
    let refused = session.carry("h", "z", state.clone()).map_err(name);
    assert_eq!(refused, Err("the model has no input `z`".to_owned()));
    session.carry("h", "before", state.clone()).expect("there");
    let carried_in = Err("input `before` is carried from run to run: it is not given".to_owned());
    let carried_out = Err("output `h` is carried to the next run: it is not handed out".to_owned());
    let refused = session.carry("y", "before", state.clone()).map_err(name);
    assert_eq!(refused, carried_in);
    let refused = session.carry("h", "x", state.clone()).map_err(name);
    assert_eq!(refused, carried_out);
    let refused = session.run(&[("x", &x), ("before", &state)]).map_err(name);
    assert_eq!(refused.map(drop), carried_in);
    let mut h = state.clone();
    let refused = session.run_into(&[("x", (&x).into())], &mut [("h", (&mut h).into())]);
    assert_eq!(refused.map_err(name), carried_out);
    let refused = session.set_state("x", x).map_err(name);
    assert_eq!(refused, Err("no output is carried to input `x`".to_owned()));
    let whole = Tensor::from_i64([1, 48], vec![0; 48]).expect("fits");
    let refused = session.set_state("before", whole).map_err(name);
    assert_eq!(
        refused,
        Err("input `before` is i64, the model wants f32".to_owned())
    );
    // A state of another shape is refused by the run, and stays.
    let mut session = model.session();
    let short = drawn(3, &[1, 47]);
    session.carry("h", "before", short.clone()).expect("there");
    let x = drawn(1, &[1, 24]);
    assert!(session.run_into(&[("x", (&x).into())], &mut []).is_err());
    assert_eq!(session.state("before"), Some(&short));
}

/// `y = relu6(x)`, handed out as another type.
fn casting(to: DType) -> Graph {
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, vec![Dim::Known(3), Dim::Known(5)]);
    let y = graph.add_node("y", Op::Unary(Unary::Abs), &[Some(x)]);
    let z = graph.add_node("z", Op::Cast(Cast { to }), &[Some(y)]);
    graph.outputs.extend([y, z]);
    graph
}

#[test]
fn memory_of_the_caller_s_gets_what_new_tensors_do() {
    let values = (0..15).map(|i| i as f32 * 37.3 - 250.0).collect();
    let x = Tensor::from_f32([3, 5], values).expect("fits");
    for to in DType::ALL {
        let mut session = Model::from_graph(casting(to), &options())
            .expect("fits")
            .session();
        let want = session.run(&[("x", &x)]).expect("runs");
        let mut z = Tensor::zeros(to, [3, 5]).expect("fits");
        let mut y = Tensor::zeros(DType::F32, [3, 5]).expect("fits");
        let inputs: [(&str, TensorView<'_>); 1] = [("x", (&x).into())];
        let mut both = [("z", (&mut z).into()), ("y", (&mut y).into())];
        session.run_into(&inputs, &mut both).expect("runs");
        assert_eq!([&y, &z], [&want[0].1, &want[1].1], "{to:?}");
        // One of the two.
        let mut alone = Tensor::zeros(to, [3, 5]).expect("fits");
        session
            .run_into(&inputs, &mut [("z", (&mut alone).into())])
            .expect("runs");
        assert_eq!(alone, z, "{to:?}");
        session.run_into(&inputs, &mut []).expect("runs");
    }
}

#[test]
fn memory_that_does_not_fit_is_refused_before_anything_runs() {
    let mut session = Model::from_graph(casting(DType::I8), &options())
        .expect("fits")
        .session();
    let x = drawn(1, &[3, 5]);
    let mut refused = |name: &'static str, dtype, shape: &[usize]| {
        let mut memory = Tensor::zeros(dtype, shape).expect("fits");
        let mut outputs = [(name, TensorViewMut::from(&mut memory))];
        let error = session.run_into(&[("x", (&x).into())], &mut outputs);
        error.expect_err("does not fit").to_string()
    };
    assert_eq!(
        refused("z", DType::U8, &[3, 5]),
        "output `z` is i8 of shape [3, 5], its memory u8 of [3, 5]"
    );
    assert_eq!(
        refused("z", DType::I8, &[5, 3]),
        "output `z` is i8 of shape [3, 5], its memory i8 of [5, 3]"
    );
    assert_eq!(
        refused("x", DType::F32, &[3, 5]),
        "the model has no output `x`"
    );
    let mut short = [0.0f32; 14];
    assert!(TensorViewMut::new(&mut short[..], &[3, 5]).is_err());
}

#[test]
fn a_run_ends_between_two_steps_and_the_next_one_runs() {
    let model = Model::from_graph(open_batch(), &options()).expect("any batch");
    let mut session = model.session();
    let x = drawn(5, &[32, 32, 16, 16]);
    let want = session.run(&[("x", &x)]).expect("runs");
    let canceller = session.canceller();
    canceller.cancel();
    let error = session.run(&[("x", &x)]).expect_err("was ended");
    assert!(matches!(error, ModelError::Cancelled), "{error}");
    assert!(session.run(&[("x", &x)]).expect("runs again") == want);
    // While it runs: it ends, or had ended already; then nothing is left over after one more run.
    let (mut ended, mut done) = (0, 0);
    for micros in 0..40 {
        std::thread::scope(|scope| {
            let canceller = session.canceller();
            scope.spawn(move || {
                std::thread::sleep(Duration::from_micros(100 * micros));
                canceller.cancel();
            });
            match session.run(&[("x", &x)]) {
                Ok(got) => {
                    assert!(got == want);
                    done += 1;
                }
                Err(ModelError::Cancelled) => ended += 1,
                Err(other) => panic!("{other}"),
            }
        });
        let _ = session.run(&[("x", &x)]);
        assert!(session.run(&[("x", &x)]).expect("runs") == want);
    }
    assert!(ended > 0, "{ended} ended, {done} done");
}

#[test]
fn a_run_that_is_ended_leaves_the_state_as_it_was() {
    let mut session = Model::from_graph(recurrent(), &options())
        .expect("fits")
        .session();
    let state = drawn(2, &[1, 48]);
    session.carry("h", "before", state.clone()).expect("there");
    let x = drawn(1, &[1, 24]);
    session.canceller().cancel();
    assert!(session.run_into(&[("x", (&x).into())], &mut []).is_err());
    assert_eq!(session.state("before"), Some(&state));
    session
        .run_into(&[("x", (&x).into())], &mut [])
        .expect("runs");
    assert_ne!(session.state("before"), Some(&state));
}

#[test]
fn sessions_share_the_budget_and_give_it_back() {
    let probe = Model::from_graph(open_batch(), &options()).expect("any batch");
    let x = drawn(5, &[4, 32, 16, 16]);
    let mut session = probe.session();
    session.run(&[("x", &x)]).expect("runs");
    let (weights, each) = (probe.memory().weight_bytes, probe.memory().session_bytes);
    // Room for packing, for a few sessions, not for all.
    let budget = weights * 9 + each * 2;
    let model = Model::from_graph(open_batch(), &options().with_memory_budget(budget));
    let model = model.expect("any batch");
    let mut sessions: Vec<_> = (0..64).map(|_| model.session()).collect();
    let mut held = 0;
    let error = loop {
        match sessions[held].run(&[("x", &x)]) {
            Ok(_) => held += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, ModelError::OverBudget { .. }), "{error}");
    assert!(held >= 2, "{held}: {error}");
    assert!(model.memory().session_bytes + weights <= budget);
    drop(sessions.drain(..1));
    let last = sessions.len() - 1;
    sessions[last].run(&[("x", &x)]).expect("room again");
}

/// `y = x + h` of any number of rows.
fn sum_of_rows(second: DType) -> Graph {
    let mut graph = Graph::default();
    let dims = |name: &str| vec![Dim::Symbol(name.to_owned()), Dim::Known(2)];
    let x = graph.add_input("x", DType::F32, dims("b"));
    let h = graph.add_input("h", DType::F32, dims("c"));
    let sum = graph.add_node("sum", Op::Binary(Binary::Add), &[Some(x), Some(h)]);
    let y = graph.add_node("y", Op::Cast(Cast { to: second }), &[Some(sum)]);
    graph.outputs.push(y);
    graph
}

#[test]
fn a_state_may_grow() {
    let x = drawn(1, &[3, 2]);
    let model = Model::from_graph(sum_of_rows(DType::F32), &options()).expect("any rows");
    let zero = Tensor::zeros(DType::F32, [1, 2]).expect("fits");
    let mut by_run = model.session();
    let mut by_run_into = model.session();
    for session in [&mut by_run, &mut by_run_into] {
        session.carry("y", "h", zero.clone()).expect("there");
    }
    for _ in 0..3 {
        by_run.run(&[("x", &x)]).expect("runs");
        by_run_into
            .run_into(&[("x", (&x).into())], &mut [])
            .expect("runs");
        assert_eq!(by_run.state("h"), by_run_into.state("h"));
    }
    assert_eq!(by_run.state("h").map(Tensor::shape), Some(&[3, 2][..]));
}

#[test]
fn a_state_of_another_type_is_refused_and_stays() {
    let x = drawn(1, &[3, 2]);
    let model = Model::from_graph(sum_of_rows(DType::F16), &options()).expect("any rows");
    let mut session = model.session();
    let state = drawn(2, &[3, 2]);
    session.carry("y", "h", state.clone()).expect("there");
    for _ in 0..2 {
        let error = session.run(&[("x", &x)]).expect_err("f16 is no f32");
        assert_eq!(error.to_string(), "input `h` is f16, the model wants f32");
        let refused = session.run_into(&[("x", (&x).into())], &mut []);
        assert!(refused.is_err());
        assert_eq!(session.state("h"), Some(&state));
    }
}

#[test]
fn every_cancel_ends_one_run() {
    // No step at all: the output is the input.
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, vec![Dim::Known(2)]);
    graph.outputs.push(x);
    let mut session = Model::from_graph(graph, &options())
        .expect("fits")
        .session();
    let x = drawn(1, &[2]);
    session.canceller().cancel();
    assert!(session.run(&[("x", &x)]).is_err());
    assert!(session.run(&[("x", &x)]).is_ok());
    // One step that takes a while: one that is under way ends as well.
    let model = Model::from_graph(open_batch(), &options()).expect("any batch");
    let mut session = model.session();
    let x = drawn(5, &[16, 32, 16, 16]);
    session.run(&[("x", &x)]).expect("runs");
    for micros in 0..60 {
        let canceller = session.canceller();
        let waiting = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_micros(60 * micros));
            canceller.cancel();
        });
        let first = session.run(&[("x", &x)]).is_err();
        waiting.join().expect("cancels");
        let second = session.run(&[("x", &x)]).is_err();
        assert!(first != second, "{first}, {second} after {micros}");
    }
}

#[test]
fn a_cancel_ends_with_a_run_that_fails_for_another_reason() {
    let mut session = Model::from_graph(open_batch(), &options())
        .expect("any batch")
        .session();
    let x = drawn(5, &[1, 32, 16, 16]);
    let wrong = drawn(5, &[1, 31, 16, 16]);
    for into in [false, true] {
        session.canceller().cancel();
        let error = match into {
            true => session.run_into(&[("x", (&wrong).into())], &mut []),
            false => session.run(&[("x", &wrong)]).map(drop),
        };
        let error = error.expect_err("31 channels");
        assert!(!matches!(error, ModelError::Cancelled), "{error}");
        session.run(&[("x", &x)]).expect("the next one runs");
    }
}

/// 16 MB of constants that are not packed, so that each plan has its own.
fn table() -> Graph {
    let mut graph = Graph::default();
    let i = graph.add_input("i", DType::I64, vec![Dim::Symbol("n".to_owned())]);
    let rows = Tensor::zeros(DType::F32, [4 << 20]).expect("fits");
    let rows = graph.add_constant("rows", rows);
    let gather = Op::Gather(spark_onnx::graph::Gather { axis: 0 });
    let y = graph.add_node("y", gather, &[Some(rows), Some(i)]);
    graph.outputs.push(y);
    graph
}

#[test]
fn plans_that_sessions_keep_count_after_the_model_has_given_them_up() {
    let indices = |n: usize| Tensor::from_i64([n], vec![0; n]).expect("fits");
    for max_plans in [1, 40] {
        let budget = 90 << 20;
        let options = options()
            .with_memory_budget(budget)
            .with_max_plans(max_plans);
        let watch = Watch::start();
        let model = Model::from_graph(table(), &options).expect("any number");
        let constants = watch.held_now();
        // One session gives the memory of old shapes back.
        let mut session = model.session();
        for n in 1..=12 {
            session.run(&[("i", &indices(n))]).expect("runs");
            assert!(watch.held_now() - constants <= budget, "{n} shapes");
        }
        drop(session);
        // Many sessions are refused at the limit.
        let mut sessions: Vec<_> = (0..20).map(|_| model.session()).collect();
        let runs = sessions.iter_mut().enumerate();
        let refused = runs.map(|(n, session)| {
            let refused = session.run(&[("i", &indices(n + 1))]).is_err();
            assert!(watch.held_now() - constants <= budget);
            usize::from(refused)
        });
        assert!(refused.sum::<usize>() > 0);
    }
}

#[test]
fn what_can_never_fit_takes_nothing_from_what_does() {
    let options = options().with_memory_budget(64 << 20);
    let model = Model::from_graph(open_batch(), &options).expect("any batch");
    let x = drawn(5, &[2, 32, 16, 16]);
    let mut session = model.session();
    session.run(&[("x", &x)]).expect("runs");
    let before = (model.memory(), session.arena_bytes());
    let error = model.prepare(&[("x", vec![40_000, 32, 16, 16])]);
    let error = error.expect_err("too much").to_string();
    assert!(error.contains("of the budget of 67108864 bytes"), "{error}");
    let ints = Tensor::from_i64([1, 32, 16, 16], vec![0; 8192]).expect("fits");
    assert!(session.run(&[("x", &ints)]).is_err());
    assert_eq!((model.memory(), session.arena_bytes()), before);
}

/// Rows of a table by number, and products of them: where the numbers lay, a product may be.
fn embedded() -> Graph {
    let mut graph = Graph::default();
    let tokens = graph.add_input("tokens", DType::I64, vec![Dim::Known(64)]);
    let table = graph.add_constant("table", drawn(1, &[8, 16]));
    let gather = Op::Gather(Gather { axis: 0 });
    let mut x = graph.add_node("rows", gather, &[Some(table), Some(tokens)]);
    for i in 0..3 {
        let w = graph.add_constant(format!("w{i}"), drawn(2 + i, &[16, 16]));
        x = graph.add_node(format!("x{i}"), Op::MatMul(MatMul), &[Some(x), Some(w)]);
    }
    graph.outputs.push(x);
    graph
}

#[test]
fn every_run_of_a_profile_has_its_inputs() {
    let mut session = Model::from_graph(embedded(), &options())
        .expect("loads")
        .session();
    let tokens = Tensor::from_i64([64], (0..64).map(|i| i % 8).collect()).expect("fits");
    let inputs = [("tokens", &tokens)];
    let steps = session.profile(&inputs, 3).expect("every run finds rows");
    assert!(!steps.is_empty() && steps.iter().all(|step| step.mean.is_some()));
    let spans = session.spans(&inputs, 3).expect("every run finds rows");
    assert_eq!(spans.len(), 3 * steps.len());
}
