//! Numbers of a file that become sizes of tables and ends of loops: each is clipped to the tensor it
//! concerns, or refused. None costs more than the tensors do.
//!
//! ```text
//! every operator x every attribute that is a size, a step, an axis or a count
//!     x 2^31, 2^33, 2^40, 2^62, 2^63 - 1, and their negatives where a sign is allowed
//!     --> bind, lower, run; bind, interpret: an answer or an error, soon and in little memory
//! ```

use std::time::{Duration, Instant};

use spark_onnx::graph::*;
use spark_onnx::{DType, ModelError, ModelRunner, RunOptions, Tensor, file, reference};
use spark_testing::Watch;

use super::memory_budget::{ints, scalar};

/// Bytes that an answer or a refusal may take.
const MOST_BYTES: usize = 50 << 20;
/// And time, which is milliseconds without optimisation; the rest is for machines that do other work.
const MOST_TIME: Duration = Duration::from_secs(5);

pub(super) const HUGE: [i64; 6] = [1 << 29, 1 << 31, 1 << 33, 1 << 40, 1 << 62, i64::MAX];

pub(super) fn floats(graph: &mut Graph, name: &str, shape: &[usize]) -> Option<ValueId> {
    let n = shape.iter().product();
    let tensor = Tensor::from_f32(shape, vec![0.5; n]).expect("fits");
    Some(graph.add_constant(name, tensor))
}

pub(super) fn input(graph: &mut Graph, shape: &[usize]) -> Option<ValueId> {
    let dims = shape.iter().map(|&n| Dim::Known(n)).collect();
    Some(graph.add_input("x", DType::F32, dims))
}

/// `op` of an input of `shape` and lists of whole numbers.
pub(super) fn of_lists(op: Op, shape: &[usize], lists: &[&[i64]]) -> Graph {
    let mut graph = Graph::default();
    let mut inputs = vec![input(&mut graph, shape)];
    for (i, values) in lists.iter().enumerate() {
        inputs.push(ints(&mut graph, &format!("list{i}"), values));
    }
    output(graph, op, &inputs)
}

pub(super) fn output(mut graph: Graph, op: Op, inputs: &[Option<ValueId>]) -> Graph {
    let y = graph.add_node("y", op, inputs);
    graph.outputs.push(y);
    graph
}

pub(super) fn pool(kind: PoolKind, kernel: &[usize]) -> Pool {
    Pool {
        kind,
        kernel: kernel.to_vec(),
        strides: vec![],
        dilations: vec![],
        padding: Padding::Valid,
        count_include_pad: false,
        ceil_mode: false,
    }
}

fn conv() -> Conv {
    Conv {
        strides: vec![],
        dilations: vec![],
        padding: Padding::Valid,
        groups: 1,
    }
}

fn resize(mode: Interpolation, antialias: bool, aspect: AspectRatio) -> Op {
    Op::Resize(Resize {
        mode,
        transform: CoordinateTransform::HalfPixel,
        rounding: NearestRounding::RoundPreferFloor,
        cubic_coeff: -0.75,
        exclude_outside: false,
        extrapolation: 0.0,
        antialias,
        axes: None,
        aspect,
    })
}

fn lrn(size: usize) -> Op {
    Op::Lrn(Lrn {
        alpha: 0.5,
        beta: 0.75,
        bias: 1.0,
        size,
    })
}

fn as_file(graph: &Graph) -> Result<Graph, ModelError> {
    file::parse(&file::to_bytes(graph)?, None)
}

/// Inputs of zeros, where they are small enough to be given.
fn zeros(graph: &Graph) -> Option<Vec<(String, Tensor)>> {
    let ids = graph.inputs.iter().map(|&id| graph.value(id));
    ids.map(|value| {
        let dims = value.shape.iter().flatten().map(|dim| match dim {
            Dim::Known(extent) => *extent,
            _ => 1,
        });
        let shape: Vec<usize> = dims.collect();
        let elements = shape.iter().fold(1, |n: usize, &d| n.saturating_mul(d));
        (elements <= 1 << 16).then_some(())?;
        let zeros = Tensor::zeros(value.dtype?, shape).ok()?;
        Some((value.name.clone(), zeros))
    })
    .collect()
}

/// What runner and interpreter say of `graph`, from memory and as a file; soon and in little memory.
#[track_caller]
pub(super) fn check(name: &str, graph: &Graph) {
    let timed = |how: &str, run: &dyn Fn() -> Result<(), ModelError>| {
        let (start, watch) = (Instant::now(), Watch::start());
        let result = run();
        let (peak, time) = (watch.peak(), start.elapsed());
        assert!(peak < MOST_BYTES, "{name}, {how}: {peak} bytes, {result:?}");
        assert!(time < MOST_TIME, "{name}, {how}: {time:?}, {result:?}");
    };
    let inputs = zeros(graph);
    let given: Option<Vec<(&str, &Tensor)>> = inputs
        .as_ref()
        .map(|inputs| inputs.iter().map(|(n, t)| (n.as_str(), t)).collect());
    timed("read", &|| as_file(graph).map(drop));
    timed("runner", &|| {
        let options = RunOptions::new().with_threads(1);
        let mut runner = ModelRunner::from_graph(graph.clone(), &options)?;
        match &given {
            Some(given) => runner.run(given).map(drop),
            None => Ok(()),
        }
    });
    timed("interpreter", &|| {
        let bound = bind(graph, &[])?;
        match &given {
            Some(given) => reference::run(&bound, given).map(drop),
            None => Ok(()),
        }
    });
}

#[test]
fn windows() {
    for huge in HUGE.map(|v| v as usize) {
        for kind in [PoolKind::Max, PoolKind::Average] {
            for shape in [
                &[1, 3, 4][..],
                &[1, 3, 4, 4],
                &[1, 3, 4, 4, 4],
                &[0, 3, 4, 4],
            ] {
                let rank = shape.len() - 2;
                for padding in [
                    Padding::SameUpper,
                    Padding::SameLower,
                    Padding::Valid,
                    Padding::Explicit(vec![huge - 1; 2 * rank]),
                    Padding::Explicit(vec![huge; 2 * rank]),
                ] {
                    for (kernel, strides, dilations) in [
                        (huge, 1, 1),
                        (huge, huge, 1),
                        (huge, 1, huge),
                        (2, huge, 1),
                        (2, 1, huge),
                    ] {
                        let pool = Pool {
                            strides: vec![strides; rank],
                            dilations: vec![dilations; rank],
                            padding: padding.clone(),
                            count_include_pad: strides == 1,
                            ceil_mode: dilations == 1,
                            ..pool(kind, &vec![kernel; rank])
                        };
                        let name = format!("{pool:?} of {shape:?}");
                        check(&name, &of_lists(Op::Pool(pool), shape, &[]));
                    }
                }
            }
        }
    }
}

#[test]
fn convolutions() {
    let of_weights = |op: Op, shape: &[usize], weights: &[usize]| {
        let mut graph = Graph::default();
        let x = input(&mut graph, shape);
        let w = floats(&mut graph, "w", weights);
        output(graph, op, &[x, w])
    };
    for huge in HUGE.map(|v| v as usize) {
        let odd = |conv: &Conv| {
            [
                Conv {
                    strides: vec![huge; 2],
                    ..conv.clone()
                },
                Conv {
                    dilations: vec![huge; 2],
                    ..conv.clone()
                },
                Conv {
                    padding: Padding::Explicit(vec![huge; 4]),
                    ..conv.clone()
                },
                Conv {
                    padding: Padding::Explicit(vec![huge; 4]),
                    strides: vec![huge; 2],
                    dilations: vec![huge; 2],
                    ..conv.clone()
                },
                Conv {
                    padding: Padding::SameUpper,
                    dilations: vec![huge; 2],
                    ..conv.clone()
                },
                Conv {
                    groups: huge,
                    ..conv.clone()
                },
            ]
        };
        for conv in odd(&conv()) {
            let name = format!("{conv:?}");
            check(
                &name,
                &of_weights(Op::Conv(conv.clone()), &[1, 3, 8, 8], &[2, 3, 3, 3]),
            );
            for output_shape in [None, Some(vec![]), Some(vec![4, 4]), Some(vec![huge; 2])] {
                for output_padding in [vec![], vec![huge; 2]] {
                    let transpose = ConvTranspose {
                        conv: conv.clone(),
                        output_padding,
                        output_shape: output_shape.clone(),
                    };
                    let name = format!("{transpose:?}");
                    let op = Op::ConvTranspose(transpose);
                    check(&name, &of_weights(op, &[1, 3, 2, 2], &[3, 2, 3, 3]));
                }
            }
        }
        // Weights without elements may have windows of any extent.
        let wide = Conv {
            padding: Padding::Explicit(vec![huge, 0, huge, 0]),
            ..conv()
        };
        let long = 1 << 29;
        for (shape, weights) in [
            ([1, 0, 4, 4], [1, 0, long, 1]),
            ([1, 0, 4, 4], [0, 0, long, 1]),
            ([0, 1, long, 4], [1, 1, 1, 1]),
        ] {
            let name = format!("convolution of {shape:?} by {weights:?}, {wide:?}");
            check(&name, &of_weights(Op::Conv(wide.clone()), &shape, &weights));
        }
    }
}

#[test]
fn products_by_constants_of_no_elements() {
    for huge in HUGE.map(|v| v as usize) {
        // Huge in every place that a zero beside it leaves without elements.
        for (shape, weights) in [
            ([0, 0], [0, huge]),
            ([3, 0], [0, huge]),
            ([0, huge], [huge, 0]),
            ([huge, 0], [0, 4]),
            ([huge, 0], [0, 0]),
        ] {
            // A tensor itself has no axis of 2^32 and more.
            let can_be = Tensor::from_f32(weights, vec![]).is_ok();
            assert_eq!(can_be, weights.iter().all(|&n| n <= u32::MAX as usize));
            if !can_be {
                continue;
            }
            let mut graph = Graph::default();
            let x = input(&mut graph, &shape);
            let w = floats(&mut graph, "w", &weights);
            let product = output(graph, Op::MatMul(MatMul), &[x, w]);
            check(&format!("MatMul of {shape:?} by {weights:?}"), &product);
        }
    }
}

#[test]
fn sizes_of_normalisations() {
    for huge in HUGE.map(|v| v as usize) {
        for shape in [&[1, 3, 4, 4][..], &[1, 1 << 28, 0, 4], &[1, 0, 4, 4]] {
            check(
                &format!("Lrn of {huge} in {shape:?}"),
                &of_lists(lrn(huge), shape, &[]),
            );
            let mut graph = Graph::default();
            let x = input(&mut graph, shape);
            let (scale, bias) = (
                floats(&mut graph, "scale", &[3]),
                floats(&mut graph, "bias", &[3]),
            );
            let op = Op::GroupNormalization(GroupNormalization {
                epsilon: 1e-5,
                groups: huge,
            });
            let graph = output(graph, op, &[x, scale, bias]);
            check(&format!("{huge} groups of {shape:?}"), &graph);
        }
    }
    check(
        "Lrn of many channels",
        &of_lists(lrn(1 << 20), &[1, 20_000], &[]),
    );
}

#[test]
fn axes_and_counts() {
    let reduce = Op::Reduce(Reduce {
        kind: ReduceKind::Sum,
        keep_dims: true,
        noop_with_empty_axes: false,
    });
    let none = ScatterReduction::None;
    for huge in HUGE.into_iter().flat_map(|v| [v, -v, i64::MIN]) {
        let count = huge.unsigned_abs() as usize;
        let softmax = |flatten| {
            Op::Softmax(Softmax {
                axis: huge,
                log: false,
                flatten,
            })
        };
        let eye = EyeLike {
            dtype: None,
            k: huge,
        };
        let sum = CumSum {
            exclusive: false,
            reverse: true,
        };
        let ops: &[(Op, &[&[i64]])] = &[
            (softmax(false), &[]),
            (softmax(true), &[]),
            (
                Op::ArgReduce(ArgReduce {
                    max: true,
                    axis: huge,
                    keep_dims: true,
                    select_last: false,
                }),
                &[],
            ),
            (LpNormalization { axis: huge, p: 2 }.into(), &[]),
            (Op::Flatten(Flatten { axis: huge }), &[]),
            (Op::Concat(Concat { axis: huge }), &[]),
            (Op::Split(Split { axis: huge }), &[]),
            (
                Op::Transpose(Transpose {
                    perm: Some(vec![count, 0]),
                }),
                &[],
            ),
            (
                Op::Shape(Shape {
                    start: huge,
                    end: Some(huge.wrapping_neg()),
                }),
                &[],
            ),
            (
                Op::DepthToSpace(DepthToSpace {
                    block: count,
                    crd: true,
                }),
                &[],
            ),
            (Op::SpaceToDepth(SpaceToDepth { block: count }), &[]),
            (Op::EyeLike(eye), &[]),
            (reduce.clone(), &[&[huge]]),
            (Op::Unsqueeze(Unsqueeze), &[&[huge]]),
            (Op::Squeeze(Squeeze), &[&[huge]]),
            (Op::Trilu(Trilu { upper: true }), &[&[huge]]),
            (Op::CumSum(sum), &[&[huge]]),
            (Op::Gather(Gather { axis: 0 }), &[&[huge]]),
            (Op::Gather(Gather { axis: huge }), &[&[0]]),
            (Op::GatherElements(GatherElements { axis: huge }), &[&[0]]),
            (Op::GatherNd(GatherNd { batch_dims: count }), &[&[0]]),
            (Op::GatherNd(GatherNd { batch_dims: 0 }), &[&[huge]]),
            (
                Op::ScatterElements(ScatterElements {
                    axis: huge,
                    reduction: none,
                }),
                &[&[0], &[0]],
            ),
            (ScatterNd { reduction: none }.into(), &[&[huge], &[0]]),
            (Op::Expand(Expand), &[&[huge, 4]]),
            (Op::Expand(Expand), &[&[huge, 0, 4]]),
            (Op::Reshape(Reshape { allow_zero: true }), &[&[huge, 0]]),
            (Op::Reshape(Reshape { allow_zero: false }), &[&[huge, -1]]),
            (Op::Tile(Tile), &[&[huge, 1]]),
            (Op::Tile(Tile), &[&[huge, huge]]),
            (Op::Split(Split { axis: 0 }), &[&[huge]]),
        ];
        for (op, lists) in ops {
            for shape in [&[4, 4][..], &[0, 4], &[4, 0], &[1 << 29, 0], &[1, 4, 0, 0]] {
                let name = format!("{op:?} of {shape:?} and {lists:?}");
                check(&name, &of_lists(op.clone(), shape, lists));
            }
        }
        for largest in [true, false] {
            let op = Op::TopK(TopK {
                axis: 0,
                largest,
                sorted: true,
            });
            check("TopK", &of_lists(op.clone(), &[4, 4], &[&[huge]]));
            check("TopK", &of_lists(op, &[1 << 29, 0], &[&[huge]]));
        }
        let recurrent = Recurrent {
            cell: Cell::Lstm,
            direction: Direction::Forward,
            hidden: count,
            activations: vec![],
            batch_first: false,
        };
        let mut graph = Graph::default();
        let x = input(&mut graph, &[1, 1, 1]);
        let (w, r) = (
            floats(&mut graph, "w", &[1, 4, 1]),
            floats(&mut graph, "r", &[1, 4, 1]),
        );
        let graph = output(graph, Op::Recurrent(recurrent), &[x, w, r]);
        check(&format!("{count} wide"), &graph);
    }
}

#[test]
fn slices_and_pads() {
    for huge in HUGE.into_iter().flat_map(|v| [v, -v, i64::MIN]) {
        for shape in [&[4, 4][..], &[0, 4], &[1 << 29, 0]] {
            for (start, end) in [(0, i64::MAX), (-1, i64::MIN), (huge, 0), (1, huge)] {
                let lists = [&[start][..], &[end], &[0], &[huge]];
                let name = format!("slice of {shape:?} by {lists:?}");
                check(&name, &of_lists(Op::Slice(Slice), shape, &lists));
            }
            for mode in [
                PadMode::Constant,
                PadMode::Edge,
                PadMode::Reflect,
                PadMode::Wrap,
            ] {
                for pads in [[huge, 0, 0, 0], [0, huge, 0, huge], [1, huge, 0, -1]] {
                    let name = format!("{mode:?} of {shape:?} by {pads:?}");
                    check(&name, &of_lists(Op::Pad(Pad { mode }), shape, &[&pads]));
                }
            }
        }
    }
}

#[test]
fn made_of_numbers() {
    for huge in HUGE.into_iter().flat_map(|v| [v, -v, i64::MIN]) {
        for shape in [&[huge][..], &[huge, 0], &[huge, huge, 0]] {
            let mut graph = Graph::default();
            let list = ints(&mut graph, "shape", shape);
            let value = Tensor::from_f32([1], vec![0.0]).expect("one");
            let graph = output(
                graph,
                Op::ConstantOfShape(ConstantOfShape { value }),
                &[list],
            );
            check(&format!("ConstantOfShape {shape:?}"), &graph);
        }
        for (start, limit, delta) in [(0, huge, 1), (huge, 0, -1), (0, huge, huge), (huge, 1, 3)] {
            let mut graph = Graph::default();
            let start = scalar(&mut graph, "start", start);
            let limit = scalar(&mut graph, "limit", limit);
            let delta = scalar(&mut graph, "delta", delta);
            let graph = output(graph, Op::Range(Range), &[start, limit, delta]);
            check(&format!("Range to {huge}"), &graph);
        }
        for n_indices in [0, 2] {
            for is_constant in [true, false] {
                for axis in [0, -1] {
                    let mut graph = Graph::default();
                    let indices = match is_constant {
                        true => ints(&mut graph, "indices", &vec![1; n_indices]),
                        false => {
                            let dims = vec![Dim::Known(n_indices)];
                            Some(graph.add_input("x", DType::I64, dims))
                        }
                    };
                    let depth = scalar(&mut graph, "depth", huge);
                    let values = floats(&mut graph, "values", &[2]);
                    let graph = output(
                        graph,
                        Op::OneHot(OneHot { axis }),
                        &[indices, depth, values],
                    );
                    check(&format!("OneHot {huge} of {n_indices}"), &graph);
                }
            }
        }
    }
    // Matrices of which nothing but a table is made.
    for op in [
        Op::EyeLike(EyeLike { dtype: None, k: 0 }),
        Op::Trilu(Trilu { upper: false }),
    ] {
        let mut graph = Graph::default();
        let x = input(&mut graph, &[1 << 15, 1 << 15]);
        let y = graph.add_node("y", op, &[x]);
        let axes = ints(&mut graph, "axes", &[0, 1]);
        let sum = Op::Reduce(Reduce {
            kind: ReduceKind::Sum,
            keep_dims: true,
            noop_with_empty_axes: false,
        });
        check("a large matrix", &output(graph, sum, &[Some(y), axes]));
    }
}

#[test]
fn resizes() {
    use AspectRatio::{NotLarger, NotSmaller, Stretch};
    use Interpolation::{Cubic, Linear, Nearest};
    for (mode, antialias) in [
        (Nearest, false),
        (Linear, false),
        (Cubic, false),
        (Linear, true),
    ] {
        for aspect in [Stretch, NotLarger, NotSmaller] {
            for shape in [&[1, 4][..], &[0, 4], &[1 << 29, 0], &[4, 1 << 16]] {
                for huge in HUGE {
                    for sizes in [[1, huge], [huge, 1], [huge, huge]] {
                        let mut graph = Graph::default();
                        let x = input(&mut graph, shape);
                        let list = ints(&mut graph, "sizes", &sizes);
                        let op = resize(mode, antialias, aspect);
                        let name = format!("{op:?} of {shape:?} to {sizes:?}");
                        check(&name, &output(graph, op, &[x, None, None, list]));
                    }
                }
                for scale in [1e-30f32, 1e-9, 1e9, 1e30, f32::INFINITY, f32::NAN, -1.0] {
                    let mut graph = Graph::default();
                    let x = input(&mut graph, shape);
                    let scales = Tensor::from_f32([2], vec![1.0, scale]).expect("two");
                    let scales = Some(graph.add_constant("scales", scales));
                    let op = resize(mode, antialias, aspect);
                    let name = format!("{op:?} of {shape:?} by {scale}");
                    check(&name, &output(graph, op, &[x, None, scales]));
                }
            }
        }
    }
}

#[test]
fn empty_tensors_with_long_axes() {
    let sum = |keep_dims| {
        Op::Reduce(Reduce {
            kind: ReduceKind::Sum,
            keep_dims,
            noop_with_empty_axes: false,
        })
    };
    let long = 1 << 29;
    for shape in [
        &[long, 0][..],
        &[0, long],
        &[2, long, 0, 2],
        &[0, 1, long, 2],
    ] {
        for axis in 0..shape.len() as i64 {
            let arg = ArgReduce {
                max: true,
                axis,
                keep_dims: false,
                select_last: true,
            };
            let softmax = Softmax {
                axis,
                log: true,
                flatten: false,
            };
            for op in [
                Op::Softmax(softmax),
                Op::Softmax(Softmax {
                    flatten: true,
                    ..softmax
                }),
                Op::ArgReduce(arg),
                Op::LpNormalization(LpNormalization { axis, p: 1 }),
                Op::Concat(Concat { axis }),
                Op::Flatten(Flatten { axis }),
                Op::Transpose(Transpose { perm: None }),
                Op::MaskedSoftmax(MaskedSoftmax),
                Op::GlobalPool(GlobalPool {
                    kind: PoolKind::Average,
                }),
                Op::Shape(Shape {
                    start: 0,
                    end: None,
                }),
                Op::Size(Size),
            ] {
                let name = format!("{op:?} of {shape:?}");
                check(&name, &of_lists(op, shape, &[]));
            }
            let cum_sum = Op::CumSum(CumSum {
                exclusive: true,
                reverse: false,
            });
            let top = Op::TopK(TopK {
                axis,
                largest: true,
                sorted: true,
            });
            for (op, numbers) in [
                (cum_sum, [axis]),
                (sum(true), [axis]),
                (sum(false), [axis]),
                (top, [1]),
                (Op::Gather(Gather { axis }), [0]),
                (Op::Unsqueeze(Unsqueeze), [axis]),
            ] {
                let name = format!("{op:?} of {shape:?} and {numbers:?}");
                check(&name, &of_lists(op, shape, &[&numbers]));
            }
        }
    }
    // The same where everything is constant, so that binding evaluates it.
    let mut graph = Graph::default();
    let shape = ints(&mut graph, "shape", &[1 << 30, 0]);
    let value = Tensor::from_f32([1], vec![0.0]).expect("one");
    let x = graph.add_node(
        "x",
        Op::ConstantOfShape(ConstantOfShape { value }),
        &[shape],
    );
    let axis = scalar(&mut graph, "axis", 0);
    let op = Op::CumSum(CumSum {
        exclusive: true,
        reverse: false,
    });
    check("a folded sum", &output(graph, op, &[Some(x), axis]));
}

#[test]
fn inputs_nobody_reads() {
    for shape in [
        [1 << 62, 1 << 62, 0],
        [0, 1 << 62, 1 << 62],
        [1 << 32, 1 << 32, 0],
        [3, 0, usize::MAX >> 1],
    ] {
        for is_output in [false, true] {
            let mut graph = Graph::default();
            let dims = shape.iter().map(|&n| Dim::Known(n)).collect();
            let unread = graph.add_input("unread", DType::F32, dims);
            let x = input(&mut graph, &[2]);
            if is_output {
                graph.outputs.push(unread);
            }
            let graph = output(graph, Op::Unary(spark_onnx::graph::Unary::Relu), &[x]);
            check("an input nobody reads", &graph);
            let error = bind(&graph, &[]).map(drop).expect_err("too long");
            assert!(
                error.to_string().contains("at most 2147483648 elements"),
                "{error}"
            );
            ModelRunner::from_graph(graph, &RunOptions::new())
                .map(drop)
                .expect_err("too long");
        }
    }
}

#[test]
fn tables_are_part_of_the_budget() {
    let refused = |graph: Graph, budget: usize| {
        let options = RunOptions::new().with_threads(1).with_memory_budget(budget);
        let watch = Watch::start();
        let error = ModelRunner::from_graph(graph, &options).map(drop);
        let peak = watch.peak();
        let error = error.expect_err("beyond the budget");
        assert!(matches!(error, ModelError::OverBudget { .. }), "{error}");
        assert!(peak < budget + (1 << 20), "{peak} bytes of {budget}");
    };
    // Every channel looks at all of them: 4 GiB.
    refused(of_lists(lrn(1 << 20), &[1, 1 << 14], &[]), 1 << 30);
    // Many tables, each of a MiB.
    let mut graph = Graph::default();
    let x = input(&mut graph, &[1, 1 << 8, 1]);
    for i in 0..32 {
        let y = graph.add_node(format!("lrn{i}"), lrn(1 << 20), &[x]);
        graph.outputs.push(y);
    }
    refused(graph, 8 << 20);
    let pads: [i64; 2] = [1 << 26, 1 << 26];
    refused(
        of_lists(
            Op::Pad(Pad {
                mode: PadMode::Edge,
            }),
            &[4],
            &[&pads],
        ),
        256 << 20,
    );
    let mut graph = Graph::default();
    let shape = ints(&mut graph, "shape", &[1 << 13, 1 << 13]);
    let value = Tensor::from_f32([1], vec![0.0]).expect("one");
    let x = graph.add_node(
        "x",
        Op::ConstantOfShape(ConstantOfShape { value }),
        &[shape],
    );
    let eye = Op::EyeLike(EyeLike { dtype: None, k: 0 });
    refused(output(graph, eye, &[Some(x)]), 128 << 20);
}
