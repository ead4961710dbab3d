//! Reduced precisions: how far from f32, and the same bits on any number of threads.
//!
//! bf16 keeps a cosine of 0.999 on every output slice of every network. Where both sides of all
//! products are rounded, as a bf16 unit would have them, the supercombo with random weights has less:
//! its fifty convolutions one after the other amplify any rounding, each a little.

use std::path::Path;
use std::sync::Arc;

use half::{bf16, f16};
use spark_onnx::bench::{Accuracy, made_up_inputs, read_tensors};
use spark_onnx::cpu::{Executor, Isa, Pool};
use spark_onnx::graph::{Conv, Dim, Graph, Op, Padding, bind};
use spark_onnx::openpilot::slices::OutputLayout;
use spark_onnx::plan::lower;
use spark_onnx::precision::{Activations, Arithmetic, Bf16Products, Fp16Products, Wanted, mixed};
use spark_onnx::zoo::{Stream, ZooModel};
use spark_onnx::{DType, ModelError, ModelRunner, Precision, RunOptions, Tensor, file};
use spark_quant::{Cpu, Quantizer, Recipe};

use spark_testing::test_data;

type Named = Vec<(String, Tensor)>;

fn run(graph: &Graph, options: &RunOptions, inputs: &Named) -> Named {
    let mut runner = ModelRunner::from_graph(graph.clone(), options).expect("available");
    let inputs: Vec<(&str, &Tensor)> = inputs.iter().map(|(n, t)| (n.as_str(), t)).collect();
    runner.run(&inputs).expect("inputs that fit")
}

/// The smallest cosine over outputs, and over the slices of an output that has a layout.
fn smallest_cosine(graph: &Graph, got: &Named, want: &Named) -> f64 {
    let layout = OutputLayout::of(graph).expect("a sound layout");
    let mut smallest = 1.0f64;
    for ((_, got), (_, want)) in got.iter().zip(want) {
        let (got, want) = (got.to_f64(), want.to_f64());
        let whole = [("all".to_owned(), 0..want.len())];
        let parts = match &layout {
            Some(layout) if layout.output_len() == want.len() => layout.parts(),
            _ => &whole[..],
        };
        for (name, range) in parts.iter().filter(|(name, _)| !name.starts_with("unused")) {
            let cosine = Accuracy::of(&got[range.clone()], &want[range.clone()]).cosine;
            assert!(cosine > 0.9, "{name}: {cosine}");
            smallest = smallest.min(cosine);
        }
    }
    smallest
}

#[test]
fn sixteen_bits_keep_every_slice_of_the_built_in_networks() {
    for model in ZooModel::ALL {
        let graph = model.build(0);
        let inputs = made_up_inputs(model.name(), &graph, 0).expect("declared").0;
        let fp32 = RunOptions::new().precision(Precision::Fp32);
        let want = run(&graph, &fp32, &inputs);
        for (precision, bar) in [(Precision::Bf16, 0.999), (Precision::Fp16, 0.999_99)] {
            let options = RunOptions::new().precision(precision);
            let got = run(&graph, &options, &inputs);
            let cosine = smallest_cosine(&graph, &got, &want);
            assert!(cosine >= bar, "{} in {precision}: {cosine}", model.name());
            let differs = |((_, a), (_, b)): (&(String, Tensor), &(String, Tensor))| a != b;
            assert!(got.iter().zip(&want).any(differs), "{precision} is not f32");
        }
    }
}

/// Every golden case in bf16, against the float64 outputs.
#[track_caller]
fn golden_cosine(model: &str, products: Bf16Products, bar: f64) {
    let (Some(file), Some(golden)) = (
        test_data(&format!("data/models/{model}.onnx")),
        test_data(&format!("data/models/goldens/{model}.safetensors")),
    ) else {
        return;
    };
    let graph = file::load(Path::new(&file)).expect("loads");
    let options = RunOptions::new()
        .precision(Precision::Bf16)
        .bf16_products(products);
    if let Err(ModelError::PrecisionUnavailable { .. }) =
        ModelRunner::from_graph(graph.clone(), &options)
    {
        eprintln!("skipped: this processor has no dot products of bf16");
        return;
    }
    let tensors = read_tensors(&golden).expect("a golden file");
    for case in 0..3 {
        let inputs = graph.inputs.iter().map(|&id| {
            let value = graph.value(id);
            let tensor = &tensors[&format!("case{case}/in/{}", value.name)];
            let dtype = value.dtype.expect("declared");
            let tensor = Tensor::from_f64(dtype, tensor.shape().to_vec(), tensor.to_f64());
            (value.name.clone(), tensor.expect("the same elements"))
        });
        let inputs: Named = inputs.collect();
        let got = run(&graph, &options, &inputs);
        let want = got.iter().map(|(name, _)| {
            let key = format!("case{case}/out64/{name}");
            (name.clone(), tensors[&key].clone())
        });
        let cosine = smallest_cosine(&graph, &got, &want.collect());
        assert!(cosine >= bar, "{model} case {case}, {products:?}: {cosine}");
    }
}

#[test]
fn bf16_weights_keep_every_output() {
    for model in [
        "dmonitoring_0_8_5",
        "dmonitoring_0_8_9",
        "supercombo_0_7_4_random_fp16",
    ] {
        golden_cosine(model, Bf16Products::WeightsOnly, 0.999);
    }
}

#[test]
fn bf16_on_both_sides_keeps_trained_outputs_and_comes_close_on_random_ones() {
    for products in [Bf16Products::MultiplyAdd, Bf16Products::DotProduct] {
        golden_cosine("dmonitoring_0_8_5", products, 0.999);
        golden_cosine("dmonitoring_0_8_9", products, 0.999);
        golden_cosine("supercombo_0_7_4_random_fp16", products, 0.99);
    }
}

#[test]
fn dot_products_agree_with_f32_arithmetic_on_the_same_operands() {
    let model = ZooModel::ALL[1];
    let graph = model.build(0);
    let inputs = made_up_inputs(model.name(), &graph, 0).expect("declared").0;
    let options = |products| {
        let options = RunOptions::new().precision(Precision::Bf16);
        options.bf16_products(products)
    };
    let want = run(&graph, &options(Bf16Products::MultiplyAdd), &inputs);
    match ModelRunner::from_graph(graph.clone(), &options(Bf16Products::DotProduct)) {
        Ok(runner) => {
            let kernels = runner.steps();
            assert!(
                kernels
                    .iter()
                    .any(|step| step.kernel.starts_with("bf16 dot"))
            );
            let got = run(&graph, &options(Bf16Products::DotProduct), &inputs);
            assert!(smallest_cosine(&graph, &got, &want) > 0.9999);
        }
        Err(ModelError::PrecisionUnavailable { .. }) => {
            eprintln!("skipped: this processor has no dot products of bf16");
        }
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn steps_say_what_computes_them_and_why() {
    let options = RunOptions::new().precision(Precision::Bf16);
    let both = options.clone().bf16_products(Bf16Products::MultiplyAdd);
    let runner = ModelRunner::from_graph(ZooModel::ALL[0].build(0), &both).expect("bf16");
    let steps = runner.steps();
    let of = |kind: &str| steps.iter().find(|s| s.kind == kind).expect(kind);
    assert_eq!(of("linear").precision, Precision::Bf16);
    assert!(of("linear").kernel.contains("bf16 operands"));
    assert_eq!(of("depthwise").precision, Precision::Fp32);
    assert!(of("depthwise").reason.contains("depthwise"));
    assert!(steps.iter().all(|step| !step.reason.is_empty()));

    let weights = options.bf16_products(Bf16Products::WeightsOnly);
    let runner = ModelRunner::from_graph(ZooModel::ALL[0].build(0), &weights).expect("bf16");
    for step in runner.steps() {
        let is_product = matches!(step.kind, "linear" | "conv");
        match step.precision {
            Precision::Bf16 if step.kernel.starts_with("in strips") => {}
            Precision::Bf16 => assert!(step.kernel.contains("bf16 weights, held as bf16")),
            _ if is_product => assert!(step.reason.contains("rows"), "{}", step.reason),
            _ => {}
        }
    }
}

fn bits(graph: &Graph, precision: Precision, arithmetic: Arithmetic, threads: usize) -> Vec<u32> {
    let bound = bind(graph, &[]).expect("the zoo's shapes are fixed");
    let plan = lower(&bound).expect("lowers");
    let precisions = Wanted::from(precision).assign(&plan);
    let pool = Arc::new(Pool::new(threads));
    let mut executor =
        Executor::with_precisions(plan, Isa::detect(), pool, &precisions, arithmetic)
            .expect("fits");
    let inputs = made_up_inputs("bits", graph, 3).expect("declared").0;
    for (i, (_, tensor)) in inputs.iter().enumerate() {
        executor.set_input(i, tensor).expect("fits");
    }
    executor.run().expect("runs");
    let ports = 0..executor.plan().outputs.len();
    let outputs = ports.map(|i| executor.output(i).expect("fits").to_f32());
    outputs
        .flat_map(|v| v.iter().map(|v| v.to_bits()).collect::<Vec<_>>())
        .collect()
}

#[test]
fn no_precision_depends_on_the_number_of_threads() {
    for model in ZooModel::ALL {
        let graph = model.build(1);
        for precision in Precision::ALL {
            let both_sides = Arithmetic {
                bf16_products: Bf16Products::MultiplyAdd,
                ..Arithmetic::default()
            };
            let ways = [Arithmetic::default(), both_sides];
            let differ = usize::from(precision == Precision::Bf16);
            for arithmetic in ways.into_iter().take(1 + differ) {
                let want = bits(&graph, precision, arithmetic, 1);
                for threads in [2, 3, 7] {
                    let got = bits(&graph, precision, arithmetic, threads);
                    assert!(got == want, "{} in {precision} on {threads}", model.name());
                }
            }
        }
    }
}

/// A convolution at whose borders taps are missing.
fn convolution(
    [channels, out]: [usize; 2],
    [height, width]: [usize; 2],
    round: impl Fn(f32) -> f32,
) -> (Graph, Named) {
    let draw = |name: &str, shape: &[usize]| {
        let stream = Stream::new(1, name);
        let n: usize = shape.iter().product();
        let values = (0..n as u64).map(|i| round(stream.signed_unit(i)));
        Tensor::from_f32(shape, values.collect::<Vec<_>>()).expect("fits")
    };
    let (image, window) = ([1, channels, height, width], [out, channels, 3, 3]);
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, image.map(Dim::Known).to_vec());
    let w = graph.add_constant("w", draw("w", &window));
    let conv = Conv {
        strides: vec![1, 1],
        dilations: vec![1, 1],
        padding: Padding::Explicit(vec![1; 4]),
        groups: 1,
    };
    let y = graph.add_node("conv", Op::Conv(conv), &[Some(x), Some(w)]);
    graph.outputs.push(y);
    (graph, vec![("x".to_owned(), draw("x", &image))])
}

#[test]
fn operands_that_fit_sixteen_bits_give_the_bits_of_f32() {
    // The second is computed by Winograd's transform.
    for (isa, channels, image) in Isa::available()
        .into_iter()
        .flat_map(|isa| [(isa, 5, [7, 9]), (isa, 32, [16, 17])])
    {
        let options = |precision| {
            let options = RunOptions::new().precision(precision).isa(isa);
            let options = options.bf16_products(Bf16Products::MultiplyAdd);
            options.fp16_products(Fp16Products::WeightsOnly)
        };
        for precision in [Precision::Bf16, Precision::Fp16] {
            let (graph, inputs) =
                convolution([channels, channels.max(20)], image, |v| match precision {
                    Precision::Bf16 => bf16::from_f32(v).to_f32(),
                    _ => f16::from_f32(v).to_f32(),
                });
            let want = run(&graph, &options(Precision::Fp32), &inputs);
            let runner = ModelRunner::from_graph(graph.clone(), &options(precision));
            let kernel = runner.expect("available").steps()[0].kernel;
            let said = if channels == 32 {
                "Winograd"
            } else {
                "held as"
            };
            assert!(kernel.contains(said), "{kernel}");
            let got = run(&graph, &options(precision), &inputs);
            assert!(got == want, "{precision} on {isa:?}");
        }
    }
}

#[test]
fn convolutions_by_dot_products_match_the_reference() {
    let (graph, inputs) = convolution([5, 20], [7, 9], |v| bf16::from_f32(v).to_f32());
    let options = RunOptions::new().precision(Precision::Bf16);
    let dot = options.bf16_products(Bf16Products::DotProduct);
    if ModelRunner::from_graph(graph.clone(), &dot).is_err() {
        eprintln!("skipped: this processor has no dot products of bf16");
        return;
    }
    let bound = bind(&graph, &[]).expect("fixed shapes");
    let given: Vec<(&str, &Tensor)> = inputs.iter().map(|(n, t)| (n.as_str(), t)).collect();
    let want = spark_onnx::reference::run(&bound, &given).expect("runs");
    let got = run(&graph, &dot, &inputs);
    // 45 products of values below 1, each addition rounding once to 24 bits.
    let accuracy = Accuracy::of(&got[0].1.to_f64(), &want[0].1.to_f64());
    assert!(
        accuracy.max_abs < 45.0 * 45.0 * f64::from(f32::EPSILON),
        "{accuracy:?}"
    );
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
        .round_trip(Cpu::one_thread(), &rows, &shape_of_rows, 1)
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
        .precision(precision)
        .activations(activations);
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
    let accuracy = Accuracy::of(&got[0].1.to_f64(), &want[0].1.to_f64());
    // 288 products, each f32 addition and scale rounding once.
    assert!(
        accuracy.max_rel < 300.0 * f64::from(f32::EPSILON),
        "{accuracy:?}"
    );
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
fn fewer_bits_are_farther_from_f32_and_smaller() {
    let model = ZooModel::ALL[1];
    let graph = model.build(0);
    let inputs = made_up_inputs(model.name(), &graph, 0).expect("declared").0;
    let options = RunOptions::new();
    let want = run(&graph, &options.clone().precision(Precision::Fp32), &inputs);
    let quality = |precision, activations| {
        let options = options
            .clone()
            .precision(precision)
            .activations(activations);
        let got = run(&graph, &options, &inputs);
        let runner = ModelRunner::from_graph(graph.clone(), &options).expect("available");
        let sqnr = Accuracy::of(&got[0].1.to_f64(), &want[0].1.to_f64()).sqnr_db;
        (sqnr, runner.memory().weight_bytes)
    };
    let (fp16, fp16_bytes) = quality(Precision::Fp16, Activations::Quantised);
    let (fp8, fp8_bytes) = quality(Precision::Fp8, Activations::Quantised);
    let (fp4, fp4_bytes) = quality(Precision::Fp4, Activations::Quantised);
    assert!(fp16 > fp8 && fp8 > fp4 && fp4 > 8.0, "{fp16} {fp8} {fp4}");
    assert!(fp16_bytes * 9 > fp8_bytes * 16 && fp8_bytes * 9 > fp4_bytes * 14);
    let (fp4_exact, _) = quality(Precision::Fp4, Activations::Exact);
    assert!(fp4_exact > fp4 + 1.0, "{fp4_exact} {fp4}");
}

#[test]
fn a_mixed_plan_keeps_the_error_asked_for_in_fewer_bytes() {
    let model = ZooModel::ALL[1];
    let graph = model.build(0);
    let inputs = made_up_inputs(model.name(), &graph, 0).expect("declared").0;
    let given: Vec<(&str, &Tensor)> = inputs.iter().map(|(n, t)| (n.as_str(), t)).collect();
    let options = RunOptions::new().precision(Precision::Fp32);
    let mut steps = Vec::new();
    let mixed = mixed::choose(&graph, &given, &options, 20.0, |done, total| {
        steps.push((done, total))
    });
    let mixed = mixed.expect("fp32 keeps any error");
    assert!(mixed.sqnr_db >= 20.0, "{}", mixed.sqnr_db);
    assert_eq!(steps.last().map(|&(done, total)| done == total), Some(true));
    let formats: std::collections::BTreeSet<_> = mixed.by_step.values().copied().collect();
    assert!(formats.len() > 1, "{formats:?}");

    let runner = ModelRunner::from_graph(graph.clone(), &options).expect("fp32");
    let all = runner.memory().weight_bytes;
    let options = options.by_step(mixed.by_step.clone());
    let runner = ModelRunner::from_graph(graph.clone(), &options).expect("every format");
    assert!(runner.memory().weight_bytes < all / 2);
    for step in runner.steps() {
        if let Some(&precision) = mixed.by_step.get(&step.name) {
            assert_eq!(
                (step.precision, step.reason),
                (precision, "as the mixed plan says")
            );
        }
    }
    let impossible = mixed::choose(&graph, &given, &options, 1e9, |_, _| ());
    assert!(impossible.is_ok_and(|m| m.by_step.values().all(|&p| p == Precision::Fp32)));
}

#[test]
fn an_activation_that_is_not_finite_is_an_error_in_fp4() {
    let (graph, _) = convolution([16, 20], [7, 9], |v| v);
    let x = Tensor::from_f32([1, 16, 7, 9], vec![f32::NAN; 16 * 63]).expect("fits");
    let options = RunOptions::new().precision(Precision::Fp4);
    let mut runner = ModelRunner::from_graph(graph, &options).expect("available");
    let error = runner.run(&[("x", &x)]).expect_err("NaN has no code");
    assert!(matches!(error, ModelError::Quantise { .. }), "{error}");
}

/// `rows` rows times a matrix of 40 by 50.
fn rows_product(rows: usize, round: fn(f32) -> f32) -> (Graph, Named) {
    let draw = |name: &str, shape: [usize; 2], round: fn(f32) -> f32| {
        let stream = Stream::new(1, name);
        let values = (0..(shape[0] * shape[1]) as u64).map(|i| round(stream.signed_unit(i)));
        Tensor::from_f32(shape, values.collect::<Vec<_>>()).expect("fits")
    };
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, vec![Dim::Known(rows), Dim::Known(40)]);
    let w = graph.add_constant("w", draw("w", [40, 50], round));
    let y = graph.add_node("product", Op::MatMul, &[Some(x), Some(w)]);
    graph.outputs.push(y);
    let input = draw("x", [rows, 40], |v| v);
    (graph, vec![("x".to_owned(), input)])
}

#[test]
fn weights_that_are_halves_take_two_bytes_and_change_no_bit() {
    let half = |v| f16::from_f32(v).to_f32();
    for isa in Isa::available() {
        let options = RunOptions::new().precision(Precision::Fp32).isa(isa);
        let step = |graph: &Graph| {
            let runner = ModelRunner::from_graph(graph.clone(), &options).expect("available");
            runner.steps()[0].clone()
        };
        let (few, inputs) = rows_product(4, half);
        let (many, all_inputs) = rows_product(16, half);
        let (other, _) = rows_product(4, |v| v);
        let (narrow, wide) = (step(&few), step(&many));
        assert_eq!(wide.kernel, "f32");
        assert_eq!(step(&other).kernel, "f32");
        if isa != Isa::portable() {
            assert!(narrow.kernel.contains("without loss"), "{}", narrow.kernel);
            assert_eq!(2 * narrow.weight_bytes, wide.weight_bytes);
        }
        // A row's result does not depend on the rows beside it: the first four are the same.
        let got = run(&few, &options, &inputs)[0].1.to_f32();
        let want = run(&many, &options, &all_inputs)[0].1.to_f32();
        let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&got), bits(&want[..got.len()]), "{isa:?}");
    }
}
