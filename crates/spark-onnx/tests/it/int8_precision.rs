//! int8 as a precision: a calibration runs a network in f32 on integers, with the bits of the file that it would be.

use std::path::Path;
use std::sync::Arc;

use safetensors::{Dtype, SafeTensors};
use spark_onnx::calibration::{
    Calibration, CalibrationOptions, IntegerNetwork, IntegerOptions, WeightRounding, calibrate,
    layer_errors, quantise,
};
use spark_onnx::file::{OperatorRegistry, ReadOptions};
use spark_onnx::graph::{
    BatchNormalization, Binary, Cast, Clip, Conv, Dim, Gemm, Graph, MatMul, Op, Padding, Unary,
    ValueId,
};
use spark_onnx::{DType, Model, ModelError, Precision, RunOptions, Tensor, file};
use spark_testing::test_data;

use crate::custom_operators::{Reverse, custom};
use crate::goldens;
use crate::integer_networks::{batches, drawn, made, network, options, pictures, sqnr_db};

type Named = Vec<(String, Tensor)>;

fn int8(calibration: impl Into<Arc<Calibration>>) -> RunOptions {
    let options = options().with_precision(Precision::Int8);
    options.with_calibration(calibration)
}

/// Bits of all outputs on all batches.
#[track_caller]
fn bits(graph: &Graph, options: &RunOptions, batches: &[Vec<(&str, &Tensor)>]) -> Vec<u32> {
    let model = Model::from_graph(graph.clone(), options).expect("fits");
    let mut session = model.session();
    let mut run = |batch| session.run(batch).expect("runs");
    let outputs = batches.iter().flat_map(|batch| run(batch));
    let values = outputs.flat_map(|(_, tensor)| tensor.to_f32());
    values.map(f32::to_bits).collect()
}

/// Checks that `made` runs with the same bits from its file, and by its calibration, also read from a file.
#[track_caller]
fn check_ways(graph: &Graph, made: &IntegerNetwork, batches: &[Vec<(&str, &Tensor)>]) {
    check_ways_with(&OperatorRegistry::new(), graph, made, batches);
}

/// The same where the file holds operators of an embedder's own.
#[track_caller]
fn check_ways_with(
    operators: &OperatorRegistry,
    graph: &Graph,
    made: &IntegerNetwork,
    batches: &[Vec<(&str, &Tensor)>],
) {
    let bytes = file::to_bytes(&made.graph).expect("fits");
    let reading = ReadOptions::new().with_operators(operators.clone());
    let read = file::parse_with(&bytes, None, &reading).expect("what is written can be read");
    let want = bits(&read, &options(), batches);
    assert!(want.iter().any(|&bits| bits != 0));
    let chosen = made.calibration();
    assert_eq!(bits(graph, &int8(chosen.clone()), batches), want);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("chosen.safetensors");
    chosen.write(&path).expect("writable");
    let again = Calibration::read(&path).expect("ours");
    assert_eq!(again, chosen);
    assert_eq!(bits(graph, &int8(again), batches), want);
}

fn names(made: &IntegerNetwork) -> Vec<&str> {
    made.products().collect()
}

#[test]
fn a_calibration_gives_the_bits_of_the_file() {
    let made = made(&IntegerOptions::default());
    let fresh = pictures(50..54);
    let fresh = batches(&fresh);
    check_ways(&network(), &made, &fresh);
    let want = bits(&made.graph, &options(), &fresh);
    let chosen = Arc::new(made.calibration());
    // Whatever the others are in, as with every calibration, and on any number of threads.
    let fp32 = options().with_calibration(Arc::clone(&chosen));
    assert_eq!(bits(&network(), &fp32, &fresh), want);
    let threads = int8(Arc::clone(&chosen)).with_threads(3);
    assert_eq!(bits(&network(), &threads, &fresh), want);
    // It acts.
    assert_ne!(bits(&network(), &options(), &fresh), want);
    let nearest = IntegerOptions::default().with_weights(WeightRounding::Nearest);
    let other = crate::integer_networks::made(&nearest).calibration();
    assert_ne!(bits(&network(), &int8(other), &fresh), want);
}

#[test]
fn steps_say_that_they_are_of_integers_and_have_the_names_of_their_products() {
    let made = made(&IntegerOptions::default());
    let fresh = pictures(50..51);
    let steps = |graph: &Graph, options: &RunOptions| {
        let model = Model::from_graph(graph.clone(), options).expect("fits");
        let mut session = model.session();
        session.run(&batches(&fresh)[0]).expect("runs");
        session.steps()
    };
    for (steps, reason) in [
        (
            steps(&network(), &int8(made.calibration())),
            "as calibrated",
        ),
        (
            steps(&made.graph, &options()),
            "8-bit integers, as the file has it",
        ),
        (
            steps(&made.graph, &options().with_precision(Precision::Int8)),
            "as asked for",
        ),
    ] {
        let of_integers = steps.iter().filter(|s| s.precision == Precision::Int8);
        let of_integers: Vec<_> = of_integers.map(|s| (s.name.as_str(), s.reason)).collect();
        let want = ["stem", "depthwise", "pointwise", "head"].map(|name| (name, reason));
        assert_eq!(of_integers, want, "{steps:#?}");
    }
    let steps = steps(&network(), &int8(made.calibration()));
    let last = steps.iter().find(|step| step.name == "last").expect("runs");
    assert_eq!(
        (last.precision, last.reason),
        (
            Precision::Fp32,
            "left in f32 by the calibration or the file, or integers have no product for it"
        )
    );
}

#[test]
fn without_a_calibration_it_is_refused_and_says_what_to_do() {
    let int8 = options().with_precision(Precision::Int8);
    let refused = |options: &RunOptions| {
        let refused = Model::from_graph(network(), options).expect_err("refused");
        assert!(
            matches!(refused, ModelError::Uncalibrated { precision, .. } if precision == Precision::Int8),
            "{refused}"
        );
        refused.to_string()
    };
    let text = refused(&int8);
    for words in [
        "int8",
        "calibrate_model",
        "with_calibration",
        "there is none",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    // One of other formats is none of int8.
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, [16, 32].map(Dim::Known).to_vec());
    let w = graph.add_constant("w", drawn(1, &[32, 8]));
    let y = graph.add_node("y", Op::MatMul(MatMul), &[Some(x), Some(w)]);
    graph.outputs.push(y);
    let seen: Vec<Tensor> = (0..2).map(|seed| drawn(10 + seed, &[16, 32])).collect();
    let wanted = CalibrationOptions::new(Precision::Fp8);
    let fp8 = calibrate(&graph, &batches(&seen), &options(), &wanted, |_, _| ()).expect("fits");
    let other = int8.clone().with_calibration(fp8);
    let refused = Model::from_graph(graph, &other)
        .expect_err("refused")
        .to_string();
    assert!(refused.contains("for other formats"), "{refused}");
    // A network that is quantised already needs none.
    let made = made(&IntegerOptions::default());
    assert!(Model::from_graph(made.graph, &int8).is_ok());
    let one = [("stem".to_owned(), Precision::Int8)];
    let one = Model::from_graph(network(), &options().with_by_step(one.into()));
    let text = one.expect_err("refused").to_string();
    assert!(text.contains("`stem`") && text.contains("int8"), "{text}");
}

#[test]
fn calibrating_in_int8_is_quantising_and_fp32_keeps_layers() {
    let seen = pictures(0..6);
    let seen = batches(&seen);
    let run =
        |wanted: &CalibrationOptions| calibrate(&network(), &seen, &options(), wanted, |_, _| ());
    let wanted = CalibrationOptions::new(Precision::Int8);
    let chosen = run(&wanted).expect("fits");
    let made = made(&IntegerOptions::default());
    assert_eq!(chosen, made.calibration());
    let formats: Vec<_> = chosen.formats().collect();
    let want = ["depthwise", "head", "pointwise", "stem"].map(|name| (name, Precision::Int8));
    assert_eq!(formats, want);
    let head = chosen.integer_layer("head").expect("chosen");
    assert_eq!(chosen.weights("head"), Some(&head.weights));
    assert_eq!(chosen.input_scale("head"), Some(head.input.scale));
    assert_eq!(head.bias.as_ref().map(Vec::len), Some(16));
    assert!(chosen.size_bytes() > head.weights.size_bytes());

    let errors = layer_errors(&network(), &seen, &options(), &chosen, |_, _| ()).expect("fits");
    let want = made.errors(&seen, &options()).expect("fits");
    assert_eq!(errors.len(), want.len());
    for (error, want) in errors.iter().zip(&want) {
        assert_eq!(error.precision, Precision::Int8);
        assert_eq!(
            (&error.name, error.input_db, error.output_db),
            (&want.name, want.input_db, want.output_db)
        );
    }

    let one = |precision| [("stem".to_owned(), precision)].into();
    let kept = run(&wanted.clone().with_by_step(one(Precision::Fp32))).expect("fits");
    assert!(kept.integer_layer("stem").is_none() && kept.integer_layer("head").is_some());
    check_ways(
        &network(),
        &IntegerNetwork::of(&network(), &kept).expect("its own"),
        &seen,
    );
    let error = run(&wanted.with_by_step(one(Precision::Fp8))).expect_err("refused");
    assert!(error.to_string().contains("beside int8"), "{error}");
    let fp8 = CalibrationOptions::new(Precision::Fp8)
        .with_by_step([("head".to_owned(), Precision::Int8)].into());
    let one = &seen[..1];
    let error = calibrate(&network(), one, &options(), &fp8, |_, _| ()).expect_err("refused");
    assert!(error.to_string().contains("not for single ones"), "{error}");
}

#[test]
fn a_calibration_of_another_network_is_refused_by_name() {
    let chosen = Arc::new(made(&IntegerOptions::default()).calibration());
    let refused = |change: &dyn Fn(&mut Graph)| {
        let mut graph = network();
        change(&mut graph);
        let refused = Model::from_graph(graph, &int8(Arc::clone(&chosen))).expect_err("refused");
        assert!(
            matches!(refused, ModelError::Calibration { .. }),
            "{refused}"
        );
        refused.to_string()
    };
    let set = |graph: &mut Graph, name: &str, tensor: Tensor| {
        let value = graph.values.iter_mut().find(|value| value.name == name);
        value.expect(name).constant = Some(Arc::new(tensor));
    };
    let text = refused(&|graph| set(graph, "head.b", drawn(99, &[16])));
    assert!(
        text.contains("`head`") && text.contains("other weights"),
        "{text}"
    );
    let text = refused(&|graph| set(graph, "stem.w", drawn(99, &[8, 3, 3, 3])));
    assert!(
        text.contains("`stem`") && text.contains("other weights"),
        "{text}"
    );
    let text = refused(&|graph| set(graph, "stem.w", drawn(99, &[8, 3, 1, 1])));
    assert!(text.contains("`stem`") && text.contains("8, 27"), "{text}");
    let text = refused(&|graph| {
        let node = graph.nodes.iter_mut().find(|node| node.name == "pointwise");
        node.expect("there").name = "other".to_owned();
    });
    assert!(
        text.contains("`pointwise`") && text.contains("no product"),
        "{text}"
    );
    let text = refused(&|graph| {
        let head = graph.values.iter().position(|value| value.name == "head");
        graph.outputs.push(ValueId(head.expect("there")));
    });
    assert!(
        text.contains("`head`") && text.contains("its result is an output"),
        "{text}"
    );
}

/// The tensors of a file, to be changed.
struct Tensors(Vec<(String, Dtype, Vec<usize>, Vec<u8>)>);

impl Tensors {
    fn of(calibration: &Calibration, path: &Path) -> Self {
        calibration.write(path).expect("writable");
        let bytes = std::fs::read(path).expect("readable");
        let file = SafeTensors::deserialize(&bytes).expect("safetensors");
        let tensors = file.tensors().into_iter().map(|(name, view)| {
            (
                name,
                view.dtype(),
                view.shape().to_vec(),
                view.data().to_vec(),
            )
        });
        Self(tensors.collect())
    }

    fn without(mut self, name: &str) -> Self {
        let n = self.0.len();
        self.0.retain(|(own, ..)| own != name);
        assert_eq!(self.0.len() + 1, n, "{name}");
        self
    }

    fn with(mut self, name: &str, values: &[f32]) -> Self {
        self.0.retain(|(own, ..)| own != name);
        let data = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        self.0
            .push((name.to_owned(), Dtype::F32, vec![values.len()], data));
        self
    }

    /// What reading a file of them says.
    fn read(&self, path: &Path) -> Result<Calibration, ModelError> {
        let metadata = [(
            "spark_quant".to_owned(),
            "{\"layout\":\"native\"}".to_owned(),
        )];
        let views = self.0.iter().map(|(name, dtype, shape, data)| {
            let view = safetensors::tensor::TensorView::new(*dtype, shape.clone(), data);
            (name.as_str(), view.expect("fits"))
        });
        let bytes = safetensors::serialize(views, Some(metadata.into())).expect("fits");
        std::fs::write(path, bytes).expect("writable");
        Calibration::read(path)
    }
}

#[test]
fn files_that_are_damaged_are_refused_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("chosen.safetensors");
    let chosen = made(&IntegerOptions::default()).calibration();
    let tensors = || Tensors::of(&chosen, &path);
    assert_eq!(tensors().read(&path).expect("unchanged"), chosen);
    let refused = |tensors: Tensors, words: &str| {
        let text = tensors.read(&path).expect_err(words).to_string();
        assert!(
            text.contains("`stem`") && text.contains(words),
            "{words}: {text}"
        );
    };
    refused(tensors().without("stem.chosen_for"), "no digest");
    for part in [
        "input_scale",
        "input_zero_point",
        "output_scale",
        "output_zero_point",
    ] {
        let name = format!("stem.{part}");
        refused(tensors().without(&name), "on both sides");
        refused(tensors().with(&name, &[1.0, 2.0]), "put");
    }
    refused(tensors().with("stem.output_scale", &[0.0]), "above zero");
    refused(
        tensors().with("stem.output_scale", &[f32::INFINITY]),
        "above zero",
    );
    for zero_point in [-1.0, 256.0, 0.5, f32::NAN] {
        let tensors = tensors().with("stem.input_zero_point", &[zero_point]);
        refused(tensors, "no byte");
    }
    refused(tensors().with("stem.bias", &[f32::NAN; 8]), "finite");
    refused(tensors().with("stem.bits", &[16.0]), "bits and weights");
    refused(
        tensors()
            .without("stem.weight")
            .without("stem.weight_scale")
            .without("stem.weight_block"),
        "without weights",
    );
    let text = tensors().with("stem.weight_scale", &[0.0; 8]).read(&path);
    assert!(text.expect_err("no scales").to_string().contains("stem"));
    let text = tensors().with("other.bits", &[32.0]).read(&path);
    let text = text.expect_err("formats beside int8").to_string();
    assert!(text.contains("`other`") && text.contains("int8"), "{text}");
    // What only the network tells.
    let refused_by_network = |tensors: Tensors| {
        let read = tensors.read(&path).expect("a sound file");
        let refused = Model::from_graph(network(), &int8(read));
        refused.expect_err("does not fit").to_string()
    };
    let text = refused_by_network(tensors().with("stem.bias", &[0.0; 7]));
    assert!(
        text.contains("`stem`") && text.contains("bias per output"),
        "{text}"
    );
    let text = refused_by_network(tensors().without("stem.bias"));
    assert!(
        text.contains("`stem`") && text.contains("no bias"),
        "{text}"
    );
    let text = refused_by_network(tensors().with("depthwise.input_scale", &[123.0]));
    assert!(
        text.contains("`depthwise`") && text.contains("another scale") && text.contains("`stem`"),
        "{text}"
    );
}

/// Scales at the ends of f32, which no product of integers has: the values are rounded, and f32 multiplies.
#[test]
fn scales_that_integers_have_no_product_for_say_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("chosen.safetensors");
    let chosen = made(&IntegerOptions::default()).calibration();
    let strange = Tensors::of(&chosen, &path).with("head.output_scale", &[f32::MIN_POSITIVE]);
    let strange = strange.with("head.input_scale", &[3e38]);
    let strange = strange.read(&path).expect("a sound file");
    let fresh = pictures(50..51);
    let model = Model::from_graph(network(), &int8(strange)).expect("fits");
    let mut session = model.session();
    session.run(&batches(&fresh)[0]).expect("runs");
    let steps = session.steps();
    let head = steps.iter().find(|step| step.name == "head").expect("runs");
    assert_eq!(head.precision, Precision::Fp32);
    assert!(
        head.reason.contains("integers have no product"),
        "{}",
        head.reason
    );
}

#[test]
fn files_from_before_int8_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("chosen.safetensors");
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, [16, 32].map(Dim::Known).to_vec());
    let w = graph.add_constant("w", drawn(1, &[32, 8]));
    let y = graph.add_node("y", Op::MatMul(MatMul), &[Some(x), Some(w)]);
    graph.outputs.push(y);
    let seen: Vec<Tensor> = (0..2).map(|seed| drawn(10 + seed, &[16, 32])).collect();
    let wanted = CalibrationOptions::new(Precision::Fp8);
    let fp8 = calibrate(&graph, &batches(&seen), &options(), &wanted, |_, _| ()).expect("fits");
    // The tensors that such a file had, and no others.
    let tensors = Tensors::of(&fp8, &path);
    let mut names: Vec<&str> = tensors.0.iter().map(|(name, ..)| name.as_str()).collect();
    names.sort_unstable();
    let want = [
        "chosen_for",
        "input_scale",
        "weight",
        "weight_block",
        "weight_scale",
    ];
    assert_eq!(names, want.map(|part| format!("y.{part}")));
    let mixed = tensors.with("z.bits", &[16.0]).read(&path).expect("sound");
    let formats: Vec<_> = mixed.formats().collect();
    assert_eq!(formats, [("y", Precision::Fp8), ("z", Precision::Fp16)]);
    assert_eq!(mixed.weights("y"), fp8.weights("y"));
    assert_eq!(mixed.input_scale("y"), fp8.input_scale("y"));
    assert!(!mixed.is_of_integers());
    let other = Tensors::of(&fp8, &path).with("y.output_scale", &[1.0]);
    let text = other.read(&path).expect_err("not of fp8").to_string();
    assert!(text.contains("which only int8 has"), "{text}");
}

/// Two convolutions with normalisation, a range and a branch, as a file in `dtype` has them: cast where they are used, or
/// computed in it.
fn in_sixteen_bits(dtype: DType, is_cast: bool) -> Graph {
    let mut graph = Graph::default();
    let held = if is_cast { DType::F32 } else { dtype };
    let x = graph.add_input("x", held, [2, 6, 9, 9].map(Dim::Known).to_vec());
    let constant = |graph: &mut Graph, name: &str, tensor: Tensor| -> Option<ValueId> {
        let values = tensor.to_f64();
        let short = Tensor::from_f64(dtype, tensor.shape().to_vec(), values).expect("fits");
        let id = graph.add_constant(name, short);
        Some(match is_cast {
            true => graph.add_node(
                format!("{name}.cast"),
                Op::Cast(Cast { to: DType::F32 }),
                &[Some(id)],
            ),
            false => id,
        })
    };
    let positive = |seed| {
        let values = drawn(seed, &[8]).to_f32();
        let values = values.into_iter().map(|value| 0.5 + value.abs());
        Tensor::from_f32([8], values.collect()).expect("fits")
    };
    let conv = |pad: usize| Conv {
        strides: vec![],
        dilations: vec![],
        padding: Padding::Explicit(vec![pad; 4]),
        groups: 1,
    };
    let w = constant(&mut graph, "a.w", drawn(1, &[8, 6, 3, 3]));
    let a = graph.add_node("a", Op::Conv(conv(1)), &[Some(x), w]);
    let operands = [
        Some(a),
        constant(&mut graph, "a.scale", positive(2)),
        constant(&mut graph, "a.shift", drawn(3, &[8])),
        constant(&mut graph, "a.mean", drawn(4, &[8])),
        constant(&mut graph, "a.variance", positive(5)),
    ];
    let normalise = Op::BatchNormalization(BatchNormalization { epsilon: 1e-3 });
    let a = graph.add_node("a.normal", normalise, &operands);
    let a = graph.add_node("a.relu", Op::Unary(Unary::Relu), &[Some(a)]);
    let w = constant(&mut graph, "b.w", drawn(6, &[8, 8, 1, 1]));
    let b = constant(&mut graph, "b.b", drawn(7, &[8]));
    let b = graph.add_node("b", Op::Conv(conv(0)), &[Some(a), w, b]);
    let low = constant(
        &mut graph,
        "low",
        Tensor::from_f32([], vec![0.0]).expect("fits"),
    );
    let high = constant(
        &mut graph,
        "high",
        Tensor::from_f32([], vec![2.0]).expect("fits"),
    );
    let b = graph.add_node("b.clip", Op::Clip(Clip), &[Some(b), low, high]);
    let sum = graph.add_node("sum", Op::Binary(Binary::Add), &[Some(a), Some(b)]);
    let y = graph.add_node("y", Op::Unary(Unary::Tanh), &[Some(sum)]);
    graph.outputs.push(y);
    graph
}

#[test]
fn networks_in_sixteen_bits_become_integers() {
    for (dtype, is_cast) in [
        (DType::F16, true),
        (DType::BF16, true),
        (DType::F16, false),
        (DType::BF16, false),
    ] {
        let graph = in_sixteen_bits(dtype, is_cast);
        let held = if is_cast { DType::F32 } else { dtype };
        let picture = |seed| {
            let values = drawn(seed, &[2, 6, 9, 9]).to_f64();
            Tensor::from_f64(held, [2, 6, 9, 9], values).expect("fits")
        };
        let seen: Vec<Tensor> = (0..4).map(picture).collect();
        let fresh: Vec<Tensor> = (20..23).map(picture).collect();
        let (seen, fresh) = (batches(&seen), batches(&fresh));
        let wanted = IntegerOptions::default();
        let made = quantise(&graph, &seen, &options(), &wanted, |_, _| ()).expect("fits");
        assert_eq!(
            names(&made),
            ["a", "b"],
            "{dtype} {is_cast}: {:?}",
            made.kept
        );
        check_ways(&graph, &made, &fresh);
        let model = Model::from_graph(graph.clone(), &int8(made.calibration())).expect("fits");
        let mut session = model.session();
        let outputs = session.run(&fresh[0]).expect("runs");
        assert_eq!(outputs[0].1.dtype(), held, "outputs stay as they were");
        let steps = session.steps();
        let of_integers = steps
            .iter()
            .filter(|step| step.precision == Precision::Int8);
        assert_eq!(of_integers.count(), 2, "{dtype} {is_cast}: {steps:#?}");
        let run = |options: &RunOptions| -> Vec<Vec<f32>> {
            let model = Model::from_graph(graph.clone(), options).expect("fits");
            let mut session = model.session();
            let mut outputs = Vec::new();
            for batch in &fresh {
                let results = session.run(batch).expect("runs");
                outputs.push(results[0].1.to_f32());
            }
            outputs
        };
        let db = sqnr_db(&run(&options()), &run(&int8(made.calibration())));
        assert!(db > 28.0, "{dtype} {is_cast}: {db}");
    }
}

#[test]
fn a_product_in_sixteen_bits_whose_result_is_an_output_stays() {
    let picture = Tensor::from_f64(DType::F16, [2, 6, 9, 9], drawn(1, &[2, 6, 9, 9]).to_f64());
    let seen = [picture.expect("fits")];
    let wanted = IntegerOptions::default();
    for (output, product) in [("b", "a"), ("a.normal", "b")] {
        let mut graph = in_sixteen_bits(DType::F16, false);
        let id = graph.values.iter().position(|value| value.name == output);
        graph.outputs.push(ValueId(id.expect("there")));
        let made = quantise(&graph, &batches(&seen), &options(), &wanted, |_, _| ());
        let made = made.expect("fits");
        assert_eq!(names(&made), [product], "{output}");
        check_ways(&graph, &made, &batches(&seen));
    }
}

/// Two convolutions around an operator of an embedder's own, all in `dtype`.
fn around_an_own_operator(dtype: DType) -> Graph {
    let mut graph = Graph::default();
    let x = graph.add_input("x", dtype, [1, 16, 9, 10].map(Dim::Known).to_vec());
    let conv = |graph: &mut Graph, name: &str, x: ValueId, seed| {
        let w = Tensor::from_f64(dtype, [16, 16, 3, 3], drawn(seed, &[16, 16, 3, 3]).to_f64());
        let w = graph.add_constant(format!("{name}.w"), w.expect("fits"));
        let conv = Conv {
            strides: vec![],
            dilations: vec![],
            padding: Padding::Explicit(vec![1; 4]),
            groups: 1,
        };
        graph.add_node(name, Op::Conv(conv), &[Some(x), Some(w)])
    };
    let a = conv(&mut graph, "a", x, 1);
    let own = graph.add_node("own", custom("Reverse", Reverse), &[Some(a)]);
    let b = conv(&mut graph, "b", own, 2);
    let y = graph.add_node("y", Op::Unary(Unary::Tanh), &[Some(b)]);
    graph.outputs.push(y);
    graph
}

#[test]
fn an_operator_of_ones_own_between_products_of_integers_keeps_its_type() {
    let mut operators = OperatorRegistry::new();
    let registered = operators.register("com.example", "Reverse", |_| Ok(Reverse));
    registered.expect("new");
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let graph = around_an_own_operator(dtype);
        let picture = |seed| {
            let values = drawn(seed, &[1, 16, 9, 10]).to_f64();
            Tensor::from_f64(dtype, [1, 16, 9, 10], values).expect("fits")
        };
        let seen: Vec<Tensor> = (0..4).map(picture).collect();
        let fresh: Vec<Tensor> = (20..22).map(picture).collect();
        let (seen, fresh) = (batches(&seen), batches(&fresh));
        let wanted = IntegerOptions::default();
        let made = quantise(&graph, &seen, &options(), &wanted, |_, _| ()).expect("fits");
        assert_eq!(names(&made), ["a", "b"], "{dtype}: {:?}", made.kept);
        check_ways_with(&operators, &graph, &made, &fresh);
        let wanted = CalibrationOptions::new(Precision::Int8);
        let chosen = calibrate(&graph, &seen, &options(), &wanted, |_, _| ()).expect("fits");
        assert_eq!(chosen, made.calibration());
        let errors = layer_errors(&graph, &fresh, &options(), &chosen, |_, _| ()).expect("fits");
        assert!(
            errors.iter().all(|error| error.output_db > 28.0),
            "{errors:?}"
        );

        let mut session = Model::from_graph(graph, &int8(chosen))
            .expect("fits")
            .session();
        session.run(&fresh[0]).expect("runs");
        let steps = session.steps();
        let own: Vec<_> = steps.iter().filter(|step| step.kind == "custom").collect();
        let [own] = own[..] else { panic!("{steps:#?}") };
        let both = format!("1x16x9x10 {dtype}");
        assert_eq!(
            own.detail,
            format!("com.example::Reverse, {both} -> {both}")
        );
        assert_eq!((own.name.as_str(), own.precision), ("own", Precision::Fp32));
    }
}

#[test]
fn a_network_of_operators_of_ones_own_alone_has_nothing_for_integers() {
    let mut graph = Graph {
        name: "own".to_owned(),
        ..Graph::default()
    };
    let x = graph.add_input("x", DType::F32, vec![Dim::Known(4)]);
    let y = graph.add_node("y", custom("Reverse", Reverse), &[Some(x)]);
    graph.outputs.push(y);
    let seen = [drawn(1, &[4])];
    let wanted = IntegerOptions::default();
    let made = quantise(&graph, &batches(&seen), &options(), &wanted, |_, _| ());
    let text = made.expect_err("refused").to_string();
    assert!(
        text.contains("`own`") && text.contains("no Conv, Gemm or MatMul"),
        "{text}"
    );
}

#[test]
fn products_that_share_a_name_are_told_apart_by_their_results() {
    let mut graph = network();
    for node in &mut graph.nodes {
        if ["stem", "pointwise", "head"].contains(&node.name.as_str()) {
            node.name = "product".to_owned();
        }
    }
    let seen = pictures(0..3);
    let seen = batches(&seen);
    let wanted = IntegerOptions::default().with_weights(WeightRounding::Nearest);
    let made = quantise(&graph, &seen, &options(), &wanted, |_, _| ()).expect("fits");
    assert_eq!(names(&made), ["stem", "depthwise", "pointwise", "head"]);
    check_ways(&graph, &made, &seen);
}

/// A product by hand, with the arithmetic that the numerics page states.
#[test]
fn sums_are_of_integers_to_the_last_bit() {
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, [7, 16].map(Dim::Known).to_vec());
    let w = graph.add_constant("w", drawn(1, &[5, 16]));
    let b = graph.add_constant("b", drawn(2, &[5]));
    let gemm = Gemm {
        alpha: 1.0,
        beta: 1.0,
        trans_a: false,
        trans_b: true,
    };
    let y = graph.add_node("product", Op::Gemm(gemm), &[Some(x), Some(w), Some(b)]);
    let y = graph.add_node("y", Op::Unary(Unary::Neg), &[Some(y)]);
    graph.outputs.push(y);
    let seen = [drawn(3, &[7, 16])];
    let wanted = CalibrationOptions::new(Precision::Int8);
    let chosen = calibrate(&graph, &batches(&seen), &options(), &wanted, |_, _| ()).expect("fits");
    let layer = chosen.integer_layer("product").expect("chosen").clone();
    let scales = match layer.weights.scales() {
        spark_quant::packed::Scales::F32 { values, .. } => values.clone(),
        other => panic!("{other:?}"),
    };
    let byte = |value: f32, of: spark_onnx::calibration::ByteScale| {
        let byte = (value / of.scale).round_ties_even() + f32::from(of.zero_point);
        byte.clamp(0.0, 255.0) as i32
    };
    let (input, output) = (layer.input, layer.output);
    let bias = layer.bias.expect("it has one");
    let mut want = Vec::new();
    for row in seen[0].to_f32().chunks(16) {
        for out in 0..5 {
            let codes = &layer.weights.codes()[out * 16..][..16];
            let products = row.iter().zip(codes).map(|(&x, &code)| {
                (byte(x, input) - i32::from(input.zero_point)) * i32::from(code as i8)
            });
            let step = input.scale * scales[out];
            let whole = (f64::from(bias[out]) / f64::from(step)).round_ties_even() as i32;
            let sum = (products.sum::<i32>() + whole) as f32;
            let zero = f32::from(output.zero_point);
            let code = (sum * (step / output.scale)).round_ties_even() + zero;
            want.push(-((code.clamp(0.0, 255.0) - zero) * output.scale));
        }
    }
    let want: Vec<u32> = want.into_iter().map(f32::to_bits).collect();
    assert_eq!(bits(&graph, &int8(chosen), &batches(&seen)), want);
}

/// Every product of the network that can be, with the bits of the file; `kept` are left by name.
#[track_caller]
fn check_real(model: &str, n_products: usize) {
    let (Some(path), Some(golden)) = (
        test_data(&format!("data/models/{model}.onnx")),
        test_data(&format!("data/models/goldens/{model}.safetensors")),
    ) else {
        return;
    };
    let graph = file::load(Path::new(&path)).expect("loads");
    let bytes = std::fs::read(golden).expect("readable");
    let cases = goldens::inputs(&SafeTensors::deserialize(&bytes).expect("safetensors"));
    let cases: Vec<Vec<(&str, &Tensor)>> = cases
        .iter()
        .map(|case: &Named| case.iter().map(|(n, t)| (n.as_str(), t)).collect())
        .collect();
    let wanted = IntegerOptions::default().with_weights(WeightRounding::Nearest);
    let made = quantise(&graph, &cases, &options(), &wanted, |_, _| ()).expect("fits");
    assert_eq!(names(&made).len(), n_products, "{:?}", made.kept);
    check_ways(&graph, &made, &cases);
    let model = Model::from_graph(graph, &int8(made.calibration())).expect("fits");
    let mut session = model.session();
    session.run(&cases[0]).expect("runs");
    let steps = session.steps();
    let of_integers = steps
        .iter()
        .filter(|step| step.precision == Precision::Int8);
    assert_eq!(of_integers.count(), n_products, "{steps:#?}");
}

#[test]
fn trained_networks_and_one_stored_in_f16_run_on_integers() {
    check_real("dmonitoring_0_8_5", 58);
    check_real("dmonitoring_0_8_9", 58);
    check_real("supercombo_0_7_4_random_fp16", 103);
}
