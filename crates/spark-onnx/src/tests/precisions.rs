//! Reduced precisions: what the reference gives for the same operands.
//!
//! That whole networks give the same bits on any number of threads is tested in `spark-openpilot`,
//! how far they are from f32 where that is measured, in `spark-bench`.

use std::sync::Arc;

use half::{bf16, f16};
use spark_onnx::cpu::Isa;
use spark_onnx::graph::{Conv, ConvTranspose, Dim, Graph, MatMul, Op, Padding, bind};
use spark_onnx::precision::{Activations, Bf16Products, Fp16Products};
use spark_onnx::{DType, ModelError, ModelRunner, Precision, RunOptions, Tensor};
use spark_quant::{ExecutionPolicy, Quantizer, Recipe};
use spark_testing::numbers;

type Named = Vec<(String, Tensor)>;

fn run(graph: &Graph, options: &RunOptions, inputs: &Named) -> Named {
    let mut runner = ModelRunner::from_graph(graph.clone(), options).expect("available");
    let inputs: Vec<(&str, &Tensor)> = inputs.iter().map(|(n, t)| (n.as_str(), t)).collect();
    runner.run(&inputs).expect("inputs that fit")
}

/// The largest difference, and that over the largest value of `want`.
fn largest_error(got: &Named, want: &[(String, Tensor)]) -> (f64, f64) {
    let (got, want) = (got[0].1.to_f64(), want[0].1.to_f64());
    let largest = |values: &mut dyn Iterator<Item = f64>| {
        values.fold(0.0, |most: f64, value| match value.abs() {
            value if value.is_nan() => f64::INFINITY,
            value => most.max(value),
        })
    };
    let error = largest(&mut got.iter().zip(&want).map(|(got, want)| got - want));
    (error, error / largest(&mut want.iter().copied()))
}

/// A convolution at whose borders taps are missing.
fn convolution(
    [channels, out]: [usize; 2],
    [height, width]: [usize; 2],
    round: impl Fn(f32) -> f32,
) -> (Graph, Named) {
    let draw = |seed: u64, shape: &[usize]| {
        let values = numbers(shape.iter().product(), seed)
            .into_iter()
            .map(&round);
        Tensor::from_f32(shape, values.collect::<Vec<_>>()).expect("fits")
    };
    let (image, window) = ([1, channels, height, width], [out, channels, 3, 3]);
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, image.map(Dim::Known).to_vec());
    let w = graph.add_constant("w", draw(1, &window));
    let conv = Conv {
        strides: vec![1, 1],
        dilations: vec![1, 1],
        padding: Padding::Explicit(vec![1; 4]),
        groups: 1,
    };
    let y = graph.add_node("conv", Op::Conv(conv), &[Some(x), Some(w)]);
    graph.outputs.push(y);
    (graph, vec![("x".to_owned(), draw(2, &image))])
}

#[test]
fn operands_that_fit_sixteen_bits_give_the_bits_of_f32() {
    // The second is computed by Winograd's transform.
    for (isa, channels, image) in Isa::available()
        .into_iter()
        .flat_map(|isa| [(isa, 5, [7, 9]), (isa, 32, [16, 17])])
    {
        let options = |precision| {
            let options = RunOptions::new().with_precision(precision).with_isa(isa);
            let options = options.with_bf16_products(Bf16Products::MultiplyAdd);
            options.with_fp16_products(Fp16Products::WeightsOnly)
        };
        for precision in [Precision::Bf16, Precision::Fp16] {
            let (graph, inputs) =
                convolution([channels, channels.max(20)], image, |v| match precision {
                    Precision::Bf16 => bf16::from_f32(v).to_f32(),
                    _ => f16::from_f32(v).to_f32(),
                });
            let want = run(&graph, &options(Precision::Fp32), &inputs);
            let runner = ModelRunner::from_graph(graph.clone(), &options(precision));
            let kernel = runner.expect("available").steps()[0].kernel.clone();
            let named = match (channels == 32, precision) {
                (true, Precision::Bf16) => format!("{isa}-bf16-winograd2x3"),
                (true, _) => format!("{isa}-f32xf16-winograd2x3"),
                (false, Precision::Bf16) => format!("{isa}-bf16-direct"),
                (false, _) => format!("{isa}-f32xf16-direct"),
            };
            assert!(kernel.starts_with(&named), "{kernel}, not {named}");
            let got = run(&graph, &options(precision), &inputs);
            assert!(got == want, "{precision} on {isa:?}");
        }
    }
}

#[test]
fn convolutions_by_dot_products_match_the_reference() {
    // The last two have rows so long that the pixels inside are computed in one call, taps of whole and of half pairs.
    for (channels, image) in [([5, 20], [7, 9]), ([6, 20], [5, 70]), ([5, 70], [4, 61])] {
        let (graph, inputs) = convolution(channels, image, |v| bf16::from_f32(v).to_f32());
        let options = RunOptions::new().with_precision(Precision::Bf16);
        let dot = options.with_bf16_products(Bf16Products::DotProduct);
        if ModelRunner::from_graph(graph.clone(), &dot).is_err() {
            eprintln!("skipped: this processor has no dot products of bf16");
            return;
        }
        let bound = bind(&graph, &[]).expect("fixed shapes");
        let given: Vec<(&str, &Tensor)> = inputs.iter().map(|(n, t)| (n.as_str(), t)).collect();
        let want = spark_onnx::reference::run(&bound, &given).expect("runs");
        let got = run(&graph, &dot, &inputs);
        // Nine products of values below 1 for every channel, each addition rounding once to 24 bits.
        let (error, products) = (largest_error(&got, &want).0, 9.0 * channels[0] as f64);
        let bound = products * products * f64::from(f32::EPSILON);
        assert!(error < bound, "{channels:?}, {image:?}: {error}");
        // Parts of rows are tiles: shared out to other numbers of threads, others are.
        let on = |threads| run(&graph, &dot.clone().with_threads(threads), &inputs);
        assert!(on(1) == got && on(3) == got, "{channels:?}, {image:?}");
    }
}

/// `values` `[outer][channels][inner]` after a round trip along the channels, `[inner]` rows apart,
/// as an image is quantised: pixel by pixel.
fn through(
    recipe: Recipe,
    tensor: &Tensor,
    rows_are: impl Fn(usize, usize, usize) -> usize,
) -> Tensor {
    let shape = tensor.shape();
    let (outer, channels, inner) = (shape[0], shape[1], shape[2] * shape[3]);
    let values = tensor.to_f32();
    let mut rows = vec![0.0; values.len()];
    for o in 0..outer {
        for c in 0..channels {
            for i in 0..inner {
                rows[rows_are(o, c, i)] = values[(o * channels + c) * inner + i];
            }
        }
    }
    let depth = match outer {
        1 => channels,
        _ => channels * inner,
    };
    let quantizer = Quantizer::new(recipe);
    let shape_of_rows = [values.len() / depth, depth];
    let back = quantizer
        .round_trip(ExecutionPolicy::one_thread(), &rows, &shape_of_rows, 1)
        .expect("finite");
    let mut result = values;
    for o in 0..outer {
        for c in 0..channels {
            for i in 0..inner {
                result[(o * channels + c) * inner + i] = back[rows_are(o, c, i)];
            }
        }
    }
    Tensor::from_f32(shape, result).expect("the same shape")
}

/// A convolution in `precision` against the f64 reference on operands quantised beforehand.
#[track_caller]
fn quantised_convolution(
    precision: Precision,
    weights: Recipe,
    image: Recipe,
    activations: Activations,
) {
    let channels = 32;
    let (graph, inputs) = convolution([channels, 20], [7, 9], |v| v);
    let options = RunOptions::new()
        .with_precision(precision)
        .with_activations(activations);
    let got = run(&graph, &options, &inputs);

    let mut graph = graph;
    let taps = 9;
    for value in &mut graph.values {
        if let Some(constant) = &value.constant {
            // Filters are rows of [tap][channel].
            let rows = |o, c, tap| o * channels * taps + tap * channels + c;
            value.constant = Some(Arc::new(through(weights, constant, rows)));
        }
    }
    let pixels = |_, c, pixel| pixel * channels + c;
    let x = match activations {
        Activations::Quantised => through(image, &inputs[0].1, pixels),
        Activations::Exact => inputs[0].1.clone(),
    };
    let bound = bind(&graph, &[]).expect("fixed shapes");
    let want = spark_onnx::reference::run(&bound, &[("x", &x)]).expect("runs");
    let (_, error) = largest_error(&got, &want);
    // 288 products, each f32 addition and scale rounding once.
    assert!(error < 300.0 * f64::from(f32::EPSILON), "{error}");
}

#[test]
fn eight_and_four_bits_compute_with_the_operands_of_tensor_cores() {
    use spark_quant::block::Granularity;
    use spark_quant::scalar::MiniFormat;
    let per_tensor = Recipe::Fp8 {
        format: MiniFormat::E4m3,
        granularity: Granularity::Tensor,
    };
    for activations in [Activations::Quantised, Activations::Exact] {
        quantised_convolution(Precision::Fp8, Recipe::FP8, per_tensor, activations);
        let (weights, image) = (Recipe::NVFP4_SWEEP, Recipe::NVFP4);
        quantised_convolution(Precision::Fp4, weights, image, activations);
    }
}

#[test]
fn an_activation_that_is_not_finite_is_an_error_in_fp4() {
    let (graph, _) = convolution([16, 20], [7, 9], |v| v);
    let x = Tensor::from_f32([1, 16, 7, 9], vec![f32::NAN; 16 * 63]).expect("fits");
    let options = RunOptions::new().with_precision(Precision::Fp4);
    let mut runner = ModelRunner::from_graph(graph, &options).expect("available");
    let error = runner.run(&[("x", &x)]).expect_err("NaN has no code");
    assert!(matches!(error, ModelError::Quantise { .. }), "{error}");
}

/// `rows` rows times a matrix of 40 by 50.
fn rows_product(rows: usize, round: fn(f32) -> f32) -> (Graph, Named) {
    let draw = |seed: u64, shape: [usize; 2], round: fn(f32) -> f32| {
        let values = numbers(shape[0] * shape[1], seed).into_iter().map(round);
        Tensor::from_f32(shape, values.collect::<Vec<_>>()).expect("fits")
    };
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, vec![Dim::Known(rows), Dim::Known(40)]);
    let w = graph.add_constant("w", draw(1, [40, 50], round));
    let y = graph.add_node("product", Op::MatMul(MatMul), &[Some(x), Some(w)]);
    graph.outputs.push(y);
    let input = draw(2, [rows, 40], |v| v);
    (graph, vec![("x".to_owned(), input)])
}

#[test]
fn weights_that_are_halves_take_two_bytes_and_change_no_bit() {
    let half = |v| f16::from_f32(v).to_f32();
    for isa in Isa::available() {
        let options = RunOptions::new()
            .with_precision(Precision::Fp32)
            .with_isa(isa);
        let step = |graph: &Graph| {
            let runner = ModelRunner::from_graph(graph.clone(), &options).expect("available");
            runner.steps()[0].clone()
        };
        let (few, inputs) = rows_product(4, half);
        let (many, all_inputs) = rows_product(16, half);
        let (other, _) = rows_product(4, |v| v);
        let (narrow, wide) = (step(&few), step(&many));
        assert_eq!(wide.kernel, format!("{isa}-f32-gemm"));
        assert_eq!(step(&other).kernel, format!("{isa}-f32-gemm"));
        if isa != Isa::portable() {
            assert_eq!(narrow.kernel, format!("{isa}-f32xf16-gemm"));
            assert_eq!(2 * narrow.weight_bytes, wide.weight_bytes);
        }
        // A row's result does not depend on the rows beside it: the first four are the same.
        let got = run(&few, &options, &inputs)[0].1.to_f32();
        let want = run(&many, &options, &all_inputs)[0].1.to_f32();
        let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&got), bits(&want[..got.len()]), "{isa:?}");
    }
}

/// Their weights are of another form than those that are rounded.
#[test]
fn transposed_convolutions_stay_in_f32_where_weights_have_few_bits() {
    let tensor = |shape: &[usize], seed| {
        Tensor::from_f32(shape, numbers(shape.iter().product(), seed)).expect("fits")
    };
    for groups in [1, 32] {
        let shape = [1, 32, 4, 5];
        let (mut graph, x) = super::operators::graph_of(&shape);
        let w = graph.add_constant("w", tensor(&[32, 32 / groups, 3, 3], 1));
        let op = Op::ConvTranspose(ConvTranspose {
            conv: Conv {
                strides: vec![2, 2],
                dilations: Vec::new(),
                padding: Padding::Valid,
                groups,
            },
            output_padding: Vec::new(),
            output_shape: None,
        });
        let y = graph.add_node("y", op, &[Some(x), Some(w)]);
        graph.outputs.push(y);
        for precision in [Precision::Fp8, Precision::Fp4] {
            let options = RunOptions::new().with_precision(precision);
            let model = crate::Model::from_graph(graph.clone(), &options).expect("plans");
            let mut session = model.session();
            session.run(&[("x", &tensor(&shape, 2))]).expect("runs");
            for step in session.steps() {
                assert_eq!(step.precision, Precision::Fp32, "{}", step.name);
            }
        }
    }
}
