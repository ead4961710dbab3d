//! Reduced precisions: how far whole networks are from f32.
//!
//! bf16 keeps a cosine of 0.999 on every output slice of every network. Where both sides of all
//! products are rounded, as a bf16 unit would have them, the supercombo with random weights has less:
//! its fifty convolutions one after the other amplify any rounding, each a little.

use std::path::Path;

use spark_bench::{Accuracy, made_up_inputs, read_tensors};
use spark_onnx::graph::Graph;
use spark_onnx::precision::{Activations, Bf16Products, mixed};
use spark_onnx::{ModelError, ModelRunner, Precision, RunOptions, Tensor, file};
use spark_openpilot::slices::OutputLayout;
use spark_openpilot::zoo::ZooModel;

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
        let fp32 = RunOptions::new().with_precision(Precision::Fp32);
        let want = run(&graph, &fp32, &inputs);
        for (precision, bar) in [(Precision::Bf16, 0.999), (Precision::Fp16, 0.999_99)] {
            let options = RunOptions::new().with_precision(precision);
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
        .with_precision(Precision::Bf16)
        .with_bf16_products(products);
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
        let options = RunOptions::new().with_precision(Precision::Bf16);
        options.with_bf16_products(products)
    };
    let want = run(&graph, &options(Bf16Products::MultiplyAdd), &inputs);
    match ModelRunner::from_graph(graph.clone(), &options(Bf16Products::DotProduct)) {
        Ok(runner) => {
            let kernels = runner.steps();
            assert!(
                kernels
                    .iter()
                    .any(|step| step.kernel.ends_with("-dot") || step.kernel.ends_with("-mmla"))
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
fn fewer_bits_are_farther_from_f32_and_smaller() {
    let model = ZooModel::ALL[1];
    let graph = model.build(0);
    let inputs = made_up_inputs(model.name(), &graph, 0).expect("declared").0;
    let options = RunOptions::new();
    let want = run(
        &graph,
        &options.clone().with_precision(Precision::Fp32),
        &inputs,
    );
    let quality = |precision, activations| {
        let options = options
            .clone()
            .with_precision(precision)
            .with_activations(activations);
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
    let options = RunOptions::new().with_precision(Precision::Fp32);
    let mut steps = Vec::new();
    let layout = OutputLayout::of(&graph).expect("a sound layout");
    let parts = layout.as_ref().map(OutputLayout::output_parts);
    let mixed = mixed::choose(&graph, &given, parts, &options, 20.0, |done, total| {
        steps.push((done, total))
    });
    let mixed = mixed.expect("fp32 keeps any error");
    assert!(mixed.sqnr_db >= 20.0, "{}", mixed.sqnr_db);
    assert_eq!(steps.last().map(|&(done, total)| done == total), Some(true));
    let formats: std::collections::BTreeSet<_> = mixed.by_step.values().copied().collect();
    assert!(formats.len() > 1, "{formats:?}");

    let runner = ModelRunner::from_graph(graph.clone(), &options).expect("fp32");
    let all = runner.memory().weight_bytes;
    let options = options.with_by_step(mixed.by_step.clone());
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
    let impossible = mixed::choose(&graph, &given, parts, &options, 1e9, |_, _| ());
    assert!(impossible.is_ok_and(|m| m.by_step.values().all(|&p| p == Precision::Fp32)));
}
