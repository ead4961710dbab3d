//! Scales and weights chosen on real inputs: they act, they are kept in files, and what does not fit is refused.

use std::sync::Arc;

use spark_onnx::calibration::{
    Calibration, CalibrationOptions, WeightRounding, calibrate, calibrate_mixed, layer_errors,
};
use spark_onnx::graph::{Conv, Dim, Graph, MatMul, Op, Padding, Unary};
use spark_onnx::precision::{Activations, OutputErrors};
use spark_onnx::{DType, Model, ModelError, Precision, RunOptions, Tensor};
use spark_quant::calibration::ScaleMethod;
use spark_testing::numbers;

const CHANNELS: usize = 24;

fn drawn(seed: u64, shape: &[usize]) -> Tensor {
    let n = shape.iter().product();
    Tensor::from_f32(shape, numbers(n, seed)).expect("fits")
}

fn options() -> RunOptions {
    RunOptions::new()
        .with_precision(Precision::Fp32)
        .with_threads(1)
}

/// Two convolutions, one with a window, and a product, for any batch of pictures.
fn network() -> Graph {
    trained(0)
}

/// The same with the weights of another training.
fn trained(seed: u64) -> Graph {
    let mut graph = Graph::default();
    let dims = [None, Some(CHANNELS), Some(8), Some(8)];
    let dims = dims.map(|dim| dim.map_or(Dim::Symbol("batch".to_owned()), Dim::Known));
    let mut x = graph.add_input("x", DType::F32, dims.to_vec());
    for (i, kernel) in [3, 1].into_iter().enumerate() {
        let w = graph.add_constant(
            format!("w{i}"),
            drawn(seed + i as u64, &[CHANNELS, CHANNELS, kernel, kernel]),
        );
        let conv = Conv {
            strides: vec![],
            dilations: vec![],
            padding: Padding::Explicit(vec![kernel / 2; 4]),
            groups: 1,
        };
        x = graph.add_node(format!("conv{i}"), Op::Conv(conv), &[Some(x), Some(w)]);
        x = graph.add_node(format!("relu{i}"), Op::Unary(Unary::Relu), &[Some(x)]);
    }
    let w = graph.add_constant("w", drawn(9, &[8, 5]));
    let y = graph.add_node("y", Op::MatMul(MatMul), &[Some(x), Some(w)]);
    graph.outputs.push(y);
    graph
}

/// Pictures whose neighbouring channels are alike.
fn picture(seed: u64, batch: usize) -> Tensor {
    let mut values = numbers(batch * CHANNELS * 64, seed);
    for image in values.chunks_exact_mut(CHANNELS * 64) {
        for i in 64..image.len() {
            image[i] = 0.95 * image[i - 64] + 0.3 * image[i];
        }
    }
    Tensor::from_f32([batch, CHANNELS, 8, 8], values).expect("fits")
}

fn pictures(seeds: std::ops::Range<u64>) -> Vec<Tensor> {
    seeds.map(|seed| picture(seed, 1)).collect()
}

fn batches(pictures: &[Tensor]) -> Vec<Vec<(&str, &Tensor)>> {
    pictures.iter().map(|x| vec![("x", x)]).collect()
}

fn outputs(options: &RunOptions, pictures: &[Tensor]) -> Vec<Vec<f32>> {
    let mut session = Model::from_graph(network(), options)
        .expect("fits")
        .session();
    let run = |x: &Tensor| session.run(&[("x", x)]).expect("runs")[0].1.to_f32();
    pictures.iter().map(run).collect()
}

/// Signal to error on pictures that no calibration has seen.
fn decibels(options: &RunOptions) -> f64 {
    let fresh = pictures(100..108);
    let (got, want) = (outputs(options, &fresh), outputs(&self::options(), &fresh));
    let mut errors = OutputErrors::new([("y", got[0].len())], None);
    for (got, want) in got.into_iter().zip(want) {
        errors.add(&[got], &[want]);
    }
    errors.total_db()
}

/// On fourteen times as many rows as the longest product is deep: with twice as many, what the rounding learns is
/// mostly these pictures.
fn calibration(wanted: &CalibrationOptions) -> Calibration {
    let pictures = pictures(0..48);
    let made = calibrate(
        &network(),
        &batches(&pictures),
        &options(),
        wanted,
        |_, _| (),
    );
    made.expect("fits")
}

#[test]
fn fewer_bits_are_nearer_to_f32_with_it_on_pictures_that_were_not_seen() {
    for (precision, least, gain) in [(Precision::Fp8, 25.0, 0.7), (Precision::Fp4, 14.5, 1.2)] {
        let without = decibels(&options().with_precision(precision));
        let nearest = CalibrationOptions::new(precision).with_weights(WeightRounding::Nearest);
        let nearest = decibels(&options().with_calibration(calibration(&nearest)));
        let with = calibration(&CalibrationOptions::new(precision));
        let with = decibels(&options().with_calibration(with));
        assert!(
            with > least && with > without + gain,
            "{precision}: {without} {nearest} {with}"
        );
        assert!(
            (nearest - without).abs() < 1.0,
            "{precision}: {without} {nearest}"
        );
    }
}

#[test]
fn every_layer_says_its_format_and_progress_ends_with_the_last() {
    let pictures = pictures(0..2);
    let mut told = Vec::new();
    let wanted = CalibrationOptions::new(Precision::Fp8);
    let made = calibrate(
        &network(),
        &batches(&pictures),
        &options(),
        &wanted,
        |done, all| {
            told.push((done, all));
        },
    );
    let made = made.expect("fits");
    // Of the product, 8 inputs are too few.
    assert_eq!(told, [(1, 2), (2, 2)]);
    let (mut told, fresh) = (Vec::new(), self::pictures(50..53));
    let progress = |done, all| told.push((done, all));
    let layers = layer_errors(&network(), &batches(&fresh), &options(), &made, progress);
    let layers = layers.expect("the same network");
    assert_eq!(told, [(1, 2), (2, 2)]);
    let names: Vec<&str> = layers.iter().map(|layer| layer.name.as_str()).collect();
    let formats: Vec<(&str, Precision)> = made.formats().collect();
    assert_eq!(
        formats,
        [(names[0], Precision::Fp8), (names[1], Precision::Fp8)]
    );
    for layer in &layers {
        assert!(layer.input_db > 25.0 && layer.output_db > 22.0, "{layer:?}");
        let packed = made.weights(&layer.name).expect("chosen");
        assert_eq!(packed.shape()[0], CHANNELS);
        assert!(
            made.input_scale(&layer.name)
                .is_some_and(|scale| scale > 0.0)
        );
    }
    assert!(made.size_bytes() > CHANNELS * CHANNELS * 10);
    let model = Model::from_graph(network(), &options().with_calibration(made)).expect("fits");
    let mut session = model.session();
    session.run(&[("x", &pictures[0])]).expect("runs");
    let steps = session.steps();
    let calibrated = steps.iter().filter(|step| step.reason == "as calibrated");
    assert_eq!(
        calibrated
            .filter(|step| step.precision == Precision::Fp8)
            .count(),
        2,
        "{steps:?}"
    );
}

#[test]
fn a_fixed_scale_clips_what_is_larger_and_the_batch_is_free() {
    let chosen = Arc::new(calibration(&CalibrationOptions::new(Precision::Fp8)));
    let with = options().with_calibration(Arc::clone(&chosen));
    let huge: Vec<f32> = picture(5, 1).to_f32().iter().map(|x| x * 1e4).collect();
    let huge = [Tensor::from_f32([1, CHANNELS, 8, 8], huge).expect("fits")];
    let largest = |options: &RunOptions| -> f32 {
        let outputs = outputs(options, &huge);
        outputs[0]
            .iter()
            .fold(0.0, |largest, y| largest.max(y.abs()))
    };
    assert!(
        largest(&with) < 0.01 * largest(&options()),
        "nothing was clipped"
    );
    // Pictures in one batch and one by one: scales depend on neither.
    let two = picture(6, 2);
    let each: Vec<Tensor> = two
        .to_f32()
        .chunks_exact(CHANNELS * 64)
        .map(|image| Tensor::from_f32([1, CHANNELS, 8, 8], image.to_vec()).expect("fits"))
        .collect();
    assert_eq!(outputs(&with, &[two])[0], outputs(&with, &each).concat());
}

#[test]
fn a_file_gives_the_same_bits_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("chosen.safetensors");
    let fresh = pictures(200..202);
    for precision in [Precision::Fp8, Precision::Fp4] {
        let chosen = calibration(&CalibrationOptions::new(precision));
        chosen.write(&path).expect("writable");
        let read = Calibration::read(&path).expect("ours");
        assert_eq!(read, chosen);
        let bits =
            |calibration: Calibration| outputs(&options().with_calibration(calibration), &fresh);
        assert_eq!(bits(read), bits(chosen));
    }
}

#[test]
fn exact_activations_have_no_scale_and_every_method_gives_one() {
    let exact = options().with_activations(Activations::Exact);
    let pictures = pictures(0..4);
    let wanted = CalibrationOptions::new(Precision::Fp4);
    let made =
        calibrate(&network(), &batches(&pictures), &exact, &wanted, |_, _| ()).expect("fits");
    let fresh = self::pictures(50..53);
    let layers = layer_errors(&network(), &batches(&fresh), &exact, &made, |_, _| ());
    for layer in layers.expect("the same network") {
        assert_eq!(made.input_scale(&layer.name), None);
        assert!(layer.input_db.is_infinite());
    }
    let both = calibration(&wanted);
    let with = decibels(&exact.with_calibration(made));
    assert!(
        with > decibels(&options().with_calibration(both)) + 1.0,
        "{with}"
    );
    let mut scales = Vec::new();
    for method in [
        ScaleMethod::MaxAbs,
        ScaleMethod::Percentile(95.0),
        ScaleMethod::MeanSquaredError,
        ScaleMethod::Entropy,
    ] {
        let chosen = calibration(&CalibrationOptions::new(Precision::Fp8).with_scales(method));
        let name = chosen.formats().next().expect("a layer").0.to_owned();
        scales.push(chosen.input_scale(&name).expect("chosen"));
    }
    assert!(scales[1] < scales[0], "{scales:?}");
}

#[test]
fn a_mix_keeps_the_error_asked_for_and_says_what_it_chose() {
    let pictures = pictures(0..32);
    let settings = CalibrationOptions::new(Precision::Fp8);
    let mixed = |db| {
        calibrate_mixed(
            &network(),
            &batches(&pictures),
            None,
            &options(),
            &settings,
            db,
            |_, _| (),
        )
    };
    let mix = mixed(26.0).expect("fp32 keeps any");
    assert!(mix.sqnr_db >= 26.0, "{}", mix.sqnr_db);
    assert_eq!(
        mix.n_layers().values().sum::<usize>(),
        2,
        "{:?}",
        mix.n_layers()
    );
    let with = options().with_calibration(mix.calibration.clone());
    assert!(
        (decibels(&with) - mix.sqnr_db).abs() < 0.5,
        "{}",
        decibels(&with)
    );
    // Two layers in fp16 would have 60 dB: bytes are what it saves.
    assert!(mix.sqnr_db < 40.0, "{}", mix.sqnr_db);
    // The network is what it says: the same on the pictures that judged.
    let judges: Vec<Tensor> = pictures.iter().skip(1).step_by(3).cloned().collect();
    let (got, want) = (outputs(&with, &judges), outputs(&options(), &judges));
    let mut errors = OutputErrors::new([("y", got[0].len())], None);
    for (got, want) in got.into_iter().zip(want) {
        errors.add(&[got], &[want]);
    }
    assert!(
        (errors.mean_db() - mix.sqnr_db).abs() < 1e-9,
        "{} {}",
        errors.mean_db(),
        mix.sqnr_db
    );
    // 16 bits are two bytes a weight, also of a convolution whose weights this processor would hold in f32.
    let half = mixed(45.0).expect("fp16 keeps it");
    assert_eq!(half.n_layers(), [("fp16", 2)].into());
    let n_weights = CHANNELS * CHANNELS * (9 + 1);
    assert_eq!(half.plan.bytes, 2 * n_weights);
    assert_eq!(half.stored_bytes, 2 * n_weights + 4 * 8 * 5);
    let one = calibrate_mixed(
        &network(),
        &batches(&pictures[..1]),
        None,
        &options(),
        &settings,
        26.0,
        |_, _| (),
    );
    let text = one.expect_err("nothing judges").to_string();
    assert!(text.contains("both calibrate and judge"), "{text}");
    // Of a layer that stays in 16 bits, the file says so too.
    let fine = mixed(60.0).expect("fp16 or fp32");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("mix.safetensors");
    fine.calibration.write(&path).expect("writable");
    let read = Calibration::read(&path).expect("ours");
    assert_eq!(read, fine.calibration);
    assert!(
        read.formats()
            .all(|(_, precision)| matches!(precision, Precision::Fp16 | Precision::Fp32))
    );
    assert!(matches!(
        mixed(f64::INFINITY),
        Ok(_) | Err(ModelError::Mix { .. })
    ));
}

#[test]
fn weights_of_another_training_are_not_taken_for_the_same() {
    let chosen = calibration(&CalibrationOptions::new(Precision::Fp8));
    let other = trained(100);
    let model =
        Model::from_graph(other, &options().with_calibration(chosen)).expect("it has a free batch");
    let error = model.session().run(&[("x", &picture(1, 1))]);
    let text = error.expect_err("another network").to_string();
    assert!(text.contains("other weights"), "{text}");
}

#[test]
fn weights_chosen_for_exact_inputs_get_them() {
    let exact = options().with_activations(Activations::Exact);
    let pictures = pictures(0..4);
    let wanted = CalibrationOptions::new(Precision::Fp4);
    let made = calibrate(&network(), &batches(&pictures), &exact, &wanted, |_, _| ());
    let made = Arc::new(made.expect("fits"));
    let with =
        |options: RunOptions| outputs(&options.with_calibration(Arc::clone(&made)), &pictures);
    assert_eq!(with(options()), with(exact));
}

/// Weights that two steps share would be held twice.
#[test]
fn layers_that_share_their_weights_are_left_alone() {
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, vec![Dim::Known(64), Dim::Known(32)]);
    let (w, own) = (
        graph.add_constant("w", drawn(1, &[32, 32])),
        graph.add_constant("own", drawn(2, &[32, 32])),
    );
    let a = graph.add_node("a", Op::MatMul(MatMul), &[Some(x), Some(w)]);
    let b = graph.add_node("b", Op::MatMul(MatMul), &[Some(a), Some(w)]);
    let y = graph.add_node("y", Op::MatMul(MatMul), &[Some(b), Some(own)]);
    graph.outputs.push(y);
    let inputs: Vec<Tensor> = (0..4).map(|seed| drawn(10 + seed, &[64, 32])).collect();
    let wanted = CalibrationOptions::new(Precision::Fp8);
    let made = calibrate(&graph, &batches(&inputs), &options(), &wanted, |_, _| ());
    let made = made.expect("fits");
    assert_eq!(made.formats().collect::<Vec<_>>(), [("y", Precision::Fp8)]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let pictures = pictures(0..2);
    let fp8 = CalibrationOptions::new(Precision::Fp8);
    let refused = |batches: &[Vec<(&str, &Tensor)>], wanted: &CalibrationOptions| -> String {
        let made = calibrate(&network(), batches, &options(), wanted, |_, _| ());
        made.expect_err("does not fit").to_string()
    };
    assert!(refused(&[], &fp8).contains("no inputs to calibrate on"));
    let two = picture(3, 2);
    let uneven = [vec![("x", &pictures[0])], vec![("x", &two)]];
    assert!(
        refused(&uneven, &fp8).contains("batch 1"),
        "{}",
        refused(&uneven, &fp8)
    );
    let unknown = refused(&[vec![("z", &two)]], &fp8);
    assert!(unknown.contains("`z`"), "{unknown}");
    let beside = [vec![("x", &pictures[0]), ("zz", &two)]];
    assert!(refused(&beside, &fp8).contains("`zz`"));
    let all = batches(&pictures);
    for precision in [Precision::Fp16, Precision::Bf16] {
        let text = refused(&all, &CalibrationOptions::new(precision));
        assert!(text.contains("fp8, fp4"), "{text}");
    }
    assert!(refused(&all, &CalibrationOptions::new(Precision::Fp32)).contains("no layer"));
    let named = fp8
        .clone()
        .with_by_step([("nowhere".to_owned(), Precision::Fp8)].into());
    assert!(refused(&all, &named).contains("nowhere"));
    let nan = Tensor::from_f32([1, CHANNELS, 8, 8], vec![f32::NAN; CHANNELS * 64]).expect("fits");
    assert!(refused(&[vec![("x", &nan)]], &fp8).contains("not finite"));

    // A calibration of another network.
    let chosen = calibration(&fp8);
    let mut other = Graph::default();
    let x = other.add_input("x", DType::F32, vec![Dim::Known(2), Dim::Known(32)]);
    let w = other.add_constant("w", drawn(1, &[32, 8]));
    let y = other.add_node("y", Op::MatMul(MatMul), &[Some(x), Some(w)]);
    other.outputs.push(y);
    let error =
        Model::from_graph(other, &options().with_calibration(chosen)).expect_err("another network");
    assert!(matches!(error, ModelError::Calibration { .. }), "{error}");
}

#[test]
fn files_that_are_no_calibration_are_refused_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("chosen.safetensors");
    let write = |tensors: &[(&str, safetensors::Dtype, Vec<usize>, Vec<u8>)]| {
        let views = tensors.iter().map(|(name, dtype, shape, data)| {
            let view = safetensors::tensor::TensorView::new(*dtype, shape.clone(), data);
            (*name, view.expect("fits"))
        });
        let bytes = safetensors::serialize(views, None).expect("fits");
        std::fs::write(&path, bytes).expect("writable");
        Calibration::read(&path)
            .expect_err("no calibration")
            .to_string()
    };
    use safetensors::Dtype::{F32, U8};
    let scale = |x: f32| x.to_le_bytes().to_vec();
    assert!(write(&[("a.input_scale", F32, vec![1], scale(1.0))]).contains("without weights"));
    for bad in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        let text = write(&[("a.input_scale", F32, vec![1], scale(bad))]);
        assert!(text.contains("above zero"), "{text}");
    }
    assert!(write(&[("a.weight", F32, vec![1], scale(1.0))]).contains("a.weight"));
    assert!(write(&[("a.bits", F32, vec![1], scale(8.0))]).contains("16 and 32"));
    assert!(write(&[("a.bits", U8, vec![3], b"fp4".to_vec())]).contains("16 and 32"));
    assert!(write(&[]).contains("it holds no layer"));
    std::fs::write(&path, b"nothing").expect("writable");
    assert!(Calibration::read(&path).is_err());
    assert!(Calibration::read(&folder.path().join("absent")).is_err());
}
