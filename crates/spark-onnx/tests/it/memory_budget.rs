//! Small files that ask for gigabytes: an error that names the node, soon and in little memory.
//!
//! ```text
//! graph --to_bytes--> a file of some hundred bytes --parse--> graph
//!     --bind, lower, make ready, run-->  error
//!     --bind, interpret------------->    error
//! ```

use std::time::{Duration, Instant};

use spark_onnx::graph::{
    AspectRatio, Binary, Concat, ConstantOfShape, Conv, CoordinateTransform, Dim, Expand, Gather,
    Graph, Interpolation, NearestRounding, OneHot, Op, Pad, PadMode, Padding, Range, Resize, Tile,
    Unary, ValueId, bind, bind_within,
};
use spark_onnx::{DType, ModelError, ModelRunner, RunOptions, Tensor, file, reference};
use spark_testing::Watch;

/// Bytes that a refusal may take.
const MOST_BYTES: usize = 64 << 20;
/// And time, in a build without optimisation on a machine that does other work as well.
const MOST_TIME: Duration = Duration::from_secs(20);

pub(super) fn ints(graph: &mut Graph, name: &str, values: &[i64]) -> Option<ValueId> {
    let tensor = Tensor::from_i64([values.len()], values.to_vec()).expect("a list");
    Some(graph.add_constant(name, tensor))
}

pub(super) fn scalar(graph: &mut Graph, name: &str, value: i64) -> Option<ValueId> {
    let tensor = Tensor::from_i64([], vec![value]).expect("one");
    Some(graph.add_constant(name, tensor))
}

fn input(graph: &mut Graph, shape: &[usize]) -> Option<ValueId> {
    let dims = shape.iter().map(|&n| Dim::Known(n)).collect();
    Some(graph.add_input("x", DType::F32, dims))
}

fn output(graph: &mut Graph, op: Op, inputs: &[Option<ValueId>]) {
    let y = graph.add_node("y", op, inputs);
    graph.outputs.push(y);
}

fn constant_of_shape(graph: &mut Graph, name: &str, n: i64) -> Option<ValueId> {
    let shape = ints(graph, &format!("{name}.shape"), &[n]);
    let value = Tensor::from_f32([1], vec![0.0]).expect("one");
    Some(graph.add_node(
        name,
        Op::ConstantOfShape(ConstantOfShape { value }),
        &[shape],
    ))
}

/// One graph per operator that makes much of little.
fn large() -> Vec<(&'static str, Graph)> {
    let mut graphs = Vec::new();
    // By reference: rustc 1.95 optimises closures that take a constant by value wrongly
    // (rust-lang/rust#155241), and all graphs would be one.
    let mut add = |name, make: &dyn Fn(&mut Graph)| {
        let mut graph = Graph::default();
        make(&mut graph);
        graphs.push((name, graph));
    };
    add("ConstantOfShape", &|g| {
        let shape = ints(g, "s", &[1 << 29]);
        let value = Tensor::from_f32([1], vec![0.0]).expect("one");
        output(g, Op::ConstantOfShape(ConstantOfShape { value }), &[shape])
    });
    add("Expand", &|g| {
        let x = input(g, &[1, 4, 8, 8]);
        let shape = ints(g, "s", &[3_000_000, 4, 8, 8]);
        output(g, Op::Expand(Expand), &[x, shape])
    });
    add("Tile", &|g| {
        let x = input(g, &[16, 16]);
        let repeats = ints(g, "r", &[2000, 1500]);
        output(g, Op::Tile(Tile), &[x, repeats])
    });
    add("Resize", &|g| {
        let x = input(g, &[1, 1, 8, 8]);
        let sizes = ints(g, "sizes", &[1, 1, 8, 1 << 27]);
        let resize = Op::Resize(Resize {
            mode: Interpolation::Linear,
            transform: CoordinateTransform::HalfPixel,
            rounding: NearestRounding::RoundPreferFloor,
            cubic_coeff: -0.75,
            exclude_outside: false,
            extrapolation: 0.0,
            antialias: false,
            axes: None,
            aspect: AspectRatio::Stretch,
        });
        output(g, resize, &[x, None, None, sizes])
    });
    add("Range", &|g| {
        let (start, end) = (scalar(g, "a", 0), scalar(g, "b", 1 << 30));
        let step = scalar(g, "c", 1);
        output(g, Op::Range(Range), &[start, end, step])
    });
    add("Pad", &|g| {
        let x = input(g, &[8, 8]);
        let pads = ints(g, "pads", &[0, 20_000, 40_000, 0]);
        output(
            g,
            Op::Pad(Pad {
                mode: PadMode::Constant,
            }),
            &[x, pads],
        )
    });
    add("Gather", &|g| {
        let x = input(g, &[4, 4096]);
        let shape = ints(g, "n", &[1 << 18]);
        let value = Tensor::from_i64([1], vec![1]).expect("one");
        let indices = g.add_node(
            "indices",
            Op::ConstantOfShape(ConstantOfShape { value }),
            &[shape],
        );
        output(g, Op::Gather(Gather { axis: 0 }), &[x, Some(indices)])
    });
    add("OneHot", &|g| {
        let dims = vec![Dim::Known(2000)];
        let x = Some(g.add_input("x", DType::I64, dims));
        let depth = scalar(g, "depth", 1 << 20);
        let values = Tensor::from_f32([2], vec![0.0, 1.0]).expect("two");
        let values = Some(g.add_constant("values", values));
        output(g, Op::OneHot(OneHot { axis: -1 }), &[x, depth, values])
    });
    add("Concat", &|g| {
        let parts: Vec<_> = (0..4)
            .map(|i| constant_of_shape(g, &format!("part{i}"), 120 << 20))
            .collect();
        output(g, Op::Concat(Concat { axis: 0 }), &parts)
    });
    add("Conv", &|g| {
        let x = input(g, &[1, 1, 8, 8]);
        let w = Tensor::from_f32([1, 1, 3, 3], vec![1.0; 9]).expect("nine");
        let w = Some(g.add_constant("w", w));
        let conv = Conv {
            strides: vec![1, 1],
            dilations: vec![1, 1],
            padding: Padding::Explicit(vec![20_000; 4]),
            groups: 1,
        };
        output(g, Op::Conv(conv), &[x, w])
    });
    graphs
}

/// The graph as a small file gives it.
fn read_again(name: &str, graph: &Graph) -> Graph {
    let bytes = file::to_bytes(graph).expect("writes");
    assert!(bytes.len() < 2000, "{name}: {} bytes", bytes.len());
    file::parse(&bytes, None).expect("reads")
}

fn inputs_of(graph: &Graph) -> Vec<(String, Tensor)> {
    let ids = graph.inputs.iter().map(|&id| graph.value(id));
    ids.map(|value| {
        let dims = value.shape.iter().flatten().map(|dim| match dim {
            Dim::Known(extent) => *extent,
            _ => 1,
        });
        let shape: Vec<usize> = dims.collect();
        let dtype = value.dtype.expect("declared");
        let zeros = Tensor::zeros(dtype, shape).expect("small");
        (value.name.clone(), zeros)
    })
    .collect()
}

/// The error of `run`, which must come soon and take little.
#[track_caller]
fn error_of<T>(name: &str, run: impl FnOnce() -> Result<T, ModelError>) -> ModelError {
    let (start, watch) = (Instant::now(), Watch::start());
    let result = run();
    let (peak, time) = (watch.peak(), start.elapsed());
    let Err(error) = result else {
        panic!("{name} runs");
    };
    assert!(peak < MOST_BYTES, "{name}: {peak} bytes, then {error}");
    assert!(time < MOST_TIME, "{name}: {time:?}, then {error}");
    error
}

#[test]
fn small_files_that_ask_for_gigabytes_are_errors_of_the_runner() {
    for (name, graph) in large() {
        let graph = read_again(name, &graph);
        let inputs = inputs_of(&graph);
        let error = error_of(name, || {
            let mut runner = ModelRunner::from_graph(graph, &RunOptions::new().with_threads(1))?;
            let given: Vec<_> = inputs.iter().map(|(n, t)| (n.as_str(), t)).collect();
            runner.run(&given)
        });
        // What has no step is refused for that.
        let ModelError::OverBudget {
            node,
            wanted,
            budget,
            ..
        } = &error
        else {
            assert!(
                matches!(error, ModelError::Operator { .. }),
                "{name}: {error}"
            );
            assert!(["Range", "Gather"].contains(&name), "{name}: {error}");
            continue;
        };
        assert!(!node.is_empty() && *wanted > 100_000_000, "{name}: {error}");
        assert!(*budget <= (1 << 30) + (64 * 2000), "{name}: {error}");
    }
}

#[test]
fn small_files_that_ask_for_gigabytes_are_errors_of_the_interpreter() {
    for (name, graph) in large() {
        let graph = read_again(name, &graph);
        let inputs = inputs_of(&graph);
        let error = error_of(name, || {
            let given: Vec<_> = inputs.iter().map(|(n, t)| (n.as_str(), t)).collect();
            reference::run(&bind(&graph, &[])?, &given)
        });
        let ModelError::OverBudget { node, op, .. } = &error else {
            panic!("{name}: {error}");
        };
        assert!(!node.is_empty() && !op.is_empty(), "{name}: {error}");
    }
}

/// Values that are all outputs, so that none makes room for another: none is large alone.
fn many() -> Graph {
    let mut graph = Graph::default();
    let x = input(&mut graph, &[4 << 20]);
    for i in 0..100 {
        let y = graph.add_node(format!("relu{i}"), Op::Unary(Unary::Relu), &[x]);
        graph.outputs.push(y);
    }
    graph
}

#[test]
fn many_nodes_that_together_exceed_the_budget_are_an_error() {
    let graph = many();
    let error = error_of("many", || {
        ModelRunner::from_graph(graph.clone(), &RunOptions::new())
    });
    assert!(matches!(error, ModelError::OverBudget { .. }), "{error}");
    // The interpreter gets as far as the budget goes.
    let bound = bind_within(&graph, &[], 300 << 20).expect("binds");
    let x = Tensor::zeros(DType::F32, [4 << 20]).expect("16 MiB");
    let error = reference::run(&bound, &[("x", &x)]).unwrap_err();
    assert!(matches!(error, ModelError::OverBudget { .. }), "{error}");
}

#[test]
fn folding_stops_where_the_budget_ends() {
    // Each is computed at binding, 1 MiB, and read together with what is known only when it runs.
    let mut graph = Graph::default();
    let x = input(&mut graph, &[1 << 18]);
    for i in 0..32 {
        let folded = constant_of_shape(&mut graph, &format!("folded{i}"), 1 << 18);
        output(&mut graph, Op::Binary(Binary::Add), &[x, folded]);
    }
    let bound_in = |budget| {
        let watch = Watch::start();
        let bound = bind_within(&graph, &[], budget);
        let peak = watch.peak();
        bound.expect("what is not folded is computed when it runs");
        peak
    };
    let (small, large) = (bound_in(4 << 20), bound_in(1 << 30));
    assert!(small < 6 << 20, "{small} bytes in a budget of 4 MiB");
    assert!(large >= 32 << 20, "{large} bytes: nothing was folded");
}

#[test]
fn plans_for_other_shapes_make_room_for_a_new_one() {
    let mut graph = Graph::default();
    let dims = vec![Dim::Symbol("n".to_owned()), Dim::Known(1 << 16)];
    let x = graph.add_input("x", DType::F32, dims);
    let y = graph.add_node("y", Op::Unary(Unary::Relu), &[Some(x)]);
    graph.outputs.push(y);
    let budget = 32 << 20;
    let options = RunOptions::new().with_threads(1).with_memory_budget(budget);
    let mut runner = ModelRunner::from_graph(graph, &options).expect("open");
    // Each takes a quarter of a MiB a row for the input, the result and its tensor.
    for n in [20, 21, 22, 23, 20, 24] {
        let x = Tensor::zeros(DType::F32, [n, 1 << 16]).expect("small");
        let outputs = runner.run(&[("x", &x)]).expect("fits alone");
        assert_eq!(outputs[0].1.shape(), [n, 1 << 16]);
        assert!(runner.memory().arena_bytes <= budget);
    }
    let x = Tensor::zeros(DType::F32, [80, 1 << 16]).expect("small");
    let error = runner.run(&[("x", &x)]).unwrap_err();
    assert!(matches!(error, ModelError::OverBudget { .. }), "{error}");
}
