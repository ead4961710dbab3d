//! Activations rounded by a step of their own: the reference's bits in every layout, and what a layer of few bits does itself.

use spark_onnx::graph::{
    ActivationFormat, Conv, Dim, Graph, MatMul, Op, Padding, RoundedActivations, Slice, Transpose,
    bind,
};
use spark_onnx::precision::Activations;
use spark_onnx::{DType, Model, ModelRunner, Precision, RunOptions, Tensor, reference};
use spark_simd::Isa;
use spark_testing::numbers;

const FORMATS: [ActivationFormat; 2] = [ActivationFormat::E4m3, ActivationFormat::Nvfp4];

fn known(shape: &[usize]) -> Vec<Dim> {
    shape.iter().map(|&extent| Dim::Known(extent)).collect()
}

fn op(format: ActivationFormat, axis: i64) -> RoundedActivations {
    RoundedActivations {
        format,
        axis,
        together: 1,
        scale: None,
        len: None,
    }
}

/// Numbers of many magnitudes, zeros of both signs among them, and a block of nothing else.
fn values(shape: &[usize]) -> Tensor {
    let len = shape.iter().product();
    let values = numbers(len, 5).into_iter().enumerate();
    let of = |(i, x): (usize, f32)| match i % 41 {
        0 => 0.0,
        1 => -0.0,
        2..8 => x * 2f32.powi(-((i % 23) as i32)),
        _ if (64..96).contains(&i) => 0.0,
        _ => x,
    };
    Tensor::from_f32(shape.to_vec(), values.map(of).collect()).expect("fits")
}

fn bits(tensor: &Tensor) -> Vec<u32> {
    tensor.to_f32().iter().map(|v| v.to_bits()).collect()
}

/// `x`, moved so that it lies in another order or with gaps, rounded.
fn network(shape: &[usize], moved: Option<Op>, op: RoundedActivations) -> Graph {
    let mut graph = Graph::default();
    let mut x = graph.add_input("x", DType::F32, known(shape));
    if let Some(op) = moved {
        let mut operands = vec![Some(x)];
        if matches!(op, Op::Slice(_)) {
            for (name, value) in [
                ("starts", 1),
                ("ends", i64::MAX),
                ("axes", -1),
                ("steps", 2),
            ] {
                let list = Tensor::from_i64([1], vec![value]).expect("one");
                operands.push(Some(graph.add_constant(name, list)));
            }
        }
        x = graph.add_node("moved", op, &operands);
    }
    let y = graph.add_node("y", op.into(), &[Some(x)]);
    graph.outputs.push(y);
    graph
}

#[track_caller]
fn check(shape: &[usize], moved: Option<Op>, op: RoundedActivations) {
    let graph = network(shape, moved, op);
    let x = values(shape);
    let inputs = [("x", &x)];
    let bound = bind(&graph, &[]).expect("binds");
    let want = reference::run(&bound, &inputs).expect("runs").remove(0).1;
    for isa in Isa::available() {
        for threads in [1, 2, 3] {
            let options = RunOptions::new().with_threads(threads).with_isa(isa);
            let mut runner = ModelRunner::from_graph(graph.clone(), &options).expect("plans");
            let got = runner.run(&inputs).expect("runs").remove(0).1;
            assert_eq!(got.shape(), want.shape());
            let (got, want) = (bits(&got), bits(&want));
            let wrong = got.iter().zip(&want).position(|(got, want)| got != want);
            assert!(
                wrong.is_none(),
                "{shape:?}, {op:?}, {isa}, {threads} threads: {wrong:?}"
            );
        }
    }
}

#[test]
fn every_layout_has_the_references_bits() {
    let transpose = |perm: &[usize]| {
        Some(Op::Transpose(Transpose {
            perm: Some(perm.to_vec()),
        }))
    };
    for (shape, moved, axis) in [
        (vec![300, 64], None, -1),
        (vec![5, 7, 37], None, -1),
        (vec![45], None, 0),
        (vec![3, 0, 5], None, 1),
        (vec![2, 33, 10, 37], None, 1),
        (vec![2, 48, 40, 41], None, 1),
        // Channels last already.
        (vec![2, 9, 10, 40], transpose(&[0, 3, 1, 2]), 1),
        (vec![9, 2, 10, 20], transpose(&[1, 3, 0, 2]), 1),
        (vec![64, 30], transpose(&[1, 0]), -1),
        (vec![4, 9, 71], Some(Op::Slice(Slice)), -1),
        (vec![3, 17, 29], None, 0),
    ] {
        for format in FORMATS {
            for together in [1, 2, usize::MAX] {
                let dynamic = RoundedActivations {
                    together,
                    ..op(format, axis)
                };
                check(&shape, moved.clone(), dynamic);
            }
            let scale = Some(0.3 / format.largest());
            let given = RoundedActivations {
                scale,
                ..op(format, axis)
            };
            check(&shape, moved.clone(), given);
        }
    }
}

/// A layer in few bits.
enum Layer {
    /// Rows times `[in, out]`.
    Linear([usize; 2]),
    /// A convolution with this weight, stride and groups.
    Conv([usize; 4], usize, usize),
}

/// The layer, behind rounded activations or not.
fn layer(shape: &[usize], layer: &Layer, rounded: Option<ActivationFormat>) -> Graph {
    let mut graph = Graph::default();
    let mut x = graph.add_input("x", DType::F32, known(shape));
    if let Some(format) = rounded {
        let axis = match layer {
            Layer::Linear(_) => -1,
            Layer::Conv(..) => 1,
        };
        let op = RoundedActivations {
            together: usize::MAX,
            ..op(format, axis)
        };
        x = graph.add_node("rounded", op.into(), &[Some(x)]);
    }
    let (shape, op): (Vec<usize>, Op) = match *layer {
        Layer::Linear(shape) => (shape.to_vec(), MatMul.into()),
        Layer::Conv(shape, stride, groups) => {
            let padding = Padding::Explicit(vec![shape[2] / 2; 4]);
            let conv = Conv {
                strides: vec![stride; 2],
                dilations: Vec::new(),
                padding,
                groups,
            };
            (shape.to_vec(), conv.into())
        }
    };
    let len = shape.iter().product();
    let w = Tensor::from_f32(shape, numbers(len, 9)).expect("fits");
    let w = graph.add_constant("w", w);
    let y = graph.add_node("layer", op, &[Some(x), Some(w)]);
    graph.outputs.push(y);
    graph
}

/// Kernels of few bits differ in what enters their GEMM alone, so that the results have the same bits.
#[test]
fn a_layer_behind_it_gives_the_bits_of_one_that_rounds_itself() {
    for (shape, of, is_rounded) in [
        (vec![1, 64], Layer::Linear([64, 24]), true),
        (vec![70, 40], Layer::Linear([40, 24]), true),
        (vec![2, 9, 50], Layer::Linear([50, 33]), true),
        (vec![1, 16, 7, 9], Layer::Conv([24, 16, 1, 1], 1, 1), true),
        (vec![2, 40, 9, 8], Layer::Conv([24, 40, 3, 3], 1, 1), true),
        (vec![1, 33, 9, 8], Layer::Conv([24, 33, 3, 3], 2, 1), true),
        (vec![1, 32, 30, 31], Layer::Conv([8, 32, 1, 1], 2, 1), true),
        // Groups are left as they are.
        (vec![1, 64, 9, 8], Layer::Conv([24, 32, 3, 3], 1, 2), false),
        (vec![1, 32, 9, 8], Layer::Conv([32, 1, 3, 3], 1, 32), false),
    ] {
        for (format, precision) in FORMATS.into_iter().zip([Precision::Fp8, Precision::Fp4]) {
            let x = values(&shape);
            let run = |rounded, activations, threads| {
                let options = RunOptions::new().with_precision(precision);
                let options = options.with_activations(activations).with_threads(threads);
                let model = Model::from_graph(layer(&shape, &of, rounded), &options);
                let mut session = model.expect("plans").session();
                let y = session.run(&[("x", &x)]).expect("runs").remove(0).1;
                let mut steps = session.steps().into_iter();
                let step = steps.find(|step| step.name == "layer").expect("a step");
                assert_eq!(step.precision == precision, is_rounded, "{shape:?}");
                bits(&y)
            };
            let want = run(None, Activations::Quantised, 1);
            let exact = run(None, Activations::Exact, 1);
            assert_eq!(want != exact, is_rounded, "{shape:?}, {precision}");
            if is_rounded {
                for threads in [1, 2] {
                    let got = run(Some(format), Activations::Exact, threads);
                    assert!(got == want, "{shape:?}, {precision}, {threads} threads");
                }
            }
        }
    }
}

#[test]
fn what_is_not_finite_or_no_setting_is_refused() {
    let options = RunOptions::new();
    for format in FORMATS {
        let graph = network(&[2, 3], None, op(format, -1));
        let mut runner = ModelRunner::from_graph(graph.clone(), &options).expect("plans");
        let mut values = vec![1.0; 6];
        values[4] = f32::NAN;
        let x = Tensor::from_f32([2, 3], values).expect("fits");
        let error = runner.run(&[("x", &x)]).unwrap_err().to_string();
        assert!(error.contains('y'), "{error}");
        // Counted from the first element, whichever part or task meets it.
        let parts = RoundedActivations {
            together: 2,
            ..op(format, -1)
        };
        let shape = [4, 40, 600];
        let mut runner =
            ModelRunner::from_graph(network(&shape, None, parts), &options).expect("plans");
        let mut values = vec![1.0; 4 * 40 * 600];
        values[84_007] = f32::INFINITY;
        let x = Tensor::from_f32(shape, values).expect("fits");
        let error = runner.run(&[("x", &x)]).unwrap_err().to_string();
        assert!(error.contains("inf at element 84007"), "{error}");
        // Channels of a convolution lie innermost in memory.
        let channels = network(&[2, 32, 2, 2], None, op(format, 1));
        let mut runner = ModelRunner::from_graph(channels, &options).expect("plans");
        let mut values = vec![1.0; 2 * 32 * 4];
        values[128 + 3 * 4 + 2] = f32::NEG_INFINITY;
        let x = Tensor::from_f32([2, 32, 2, 2], values).expect("fits");
        let error = runner.run(&[("x", &x)]).unwrap_err().to_string();
        assert!(error.contains("-inf at element 142"), "{error}");
        let one_run = RoundedActivations {
            len: Some(5),
            ..op(format, -1)
        };
        let error = ModelRunner::from_graph(network(&[2, 3], None, one_run), &options).err();
        let error = error.expect("is refused").to_string();
        assert!(
            error.contains("6 elements, wanted the 5 of one run"),
            "{error}"
        );
        let error = spark_onnx::file::to_bytes(&graph).unwrap_err().to_string();
        assert!(error.contains("training"), "{error}");
        let wrong = RoundedActivations {
            scale: Some(f32::INFINITY),
            ..op(format, -1)
        };
        let error = ModelRunner::from_graph(network(&[2, 3], None, wrong), &options).err();
        let error = error.expect("is refused").to_string();
        assert!(error.contains("a scale of inf"), "{error}");
    }
}
