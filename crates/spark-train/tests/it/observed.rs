//! What linear layers read, and adapters begun by it (EVA).

use spark_dora::{DoraConfig, DoraConfigBuilder, DoraError, EvaSettings, ExplainedVariance, Init};
use spark_onnx::{Precision, RunOptions};
use spark_onnx_graph::graph::{
    Binary, Conv, Dim, Flatten, Gemm, Graph, MatMul, Op, Padding, Unary,
};
use spark_onnx_graph::{DType, Tensor};
use spark_testing::numbers;
use spark_train::{
    AdaptedNetwork, Deployment, Evaluation, Go, OutputHeads, Sample, TrainError, Trainer,
    TrainerSettings, with_outputs,
};

fn random(shape: &[usize], seed: u64) -> Tensor {
    Tensor::from_f32(shape, numbers(shape.iter().product(), seed)).expect("fits")
}

/// A convolution of `x`; of that `fc` and, twice, `twice`; `side` of the second input and `key` of what `fc` reads.
fn network() -> Graph {
    let mut graph = Graph::default();
    let mut input = |name: &str, shape: &[usize]| {
        let shape = shape.iter().map(|&extent| Dim::Known(extent)).collect();
        graph.add_input(name, DType::F32, shape)
    };
    let x = input("x", &[1, 3, 4, 4]);
    let state = input("state", &[1, 2, 32]);
    let w = graph.add_constant("conv.weight", random(&[8, 3, 3, 3], 1));
    let conv = Conv {
        strides: Vec::new(),
        dilations: Vec::new(),
        padding: Padding::Valid,
        groups: 1,
    };
    let h = graph.add_node("conv", conv.into(), &[Some(x), Some(w)]);
    let h = graph.add_node("tanh", Op::Unary(Unary::Tanh), &[Some(h)]);
    let flat = graph.add_node("flat", Op::Flatten(Flatten { axis: 1 }), &[Some(h)]);
    let gemm = || {
        Op::Gemm(Gemm {
            alpha: 1.0,
            beta: 1.0,
            trans_a: false,
            trans_b: true,
        })
    };
    let mut add = |op: Op, name: &str, shape: &[usize], seed: u64, of| {
        let w = graph.add_constant(format!("{name}.weight"), random(shape, seed));
        graph.add_node(name, op, &[Some(of), Some(w)])
    };
    let fc = add(gemm(), "fc", &[32, 32], 2, flat);
    let key = add(Op::MatMul(MatMul), "key", &[32, 32], 3, flat);
    let side = add(Op::MatMul(MatMul), "side", &[32, 32], 4, state);
    let fc = graph.add_node("relu", Op::Unary(Unary::Relu), &[Some(fc)]);
    let w = graph.add_constant("twice.weight", random(&[32, 32], 5));
    let once = graph.add_node("once", gemm(), &[Some(fc), Some(w)]);
    let twice = graph.add_node("twice", gemm(), &[Some(once), Some(w)]);
    let y = graph.add_node("y", Op::Binary(Binary::Add), &[Some(twice), Some(key)]);
    graph.outputs.extend([y, side]);
    graph
}

fn samples(n: u64) -> Vec<Sample> {
    let sample = |seed: u64| Sample {
        inputs: vec![
            ("x".to_owned(), random(&[1, 3, 4, 4], 10 + seed)),
            ("state".to_owned(), random(&[1, 2, 32], 100 + seed)),
        ],
        targets: vec![
            ("y".to_owned(), random(&[1, 32], 200 + seed)),
            ("side".to_owned(), random(&[1, 2, 32], 300 + seed)),
        ],
    };
    (0..n).map(sample).collect()
}

fn heads(sample: &Sample) -> Vec<OutputHeads> {
    let targets = sample.targets.iter();
    targets
        .map(|(name, of)| OutputHeads::squares(name, of))
        .collect()
}

fn config(builder: DoraConfigBuilder) -> DoraConfig {
    builder.build().expect("settings")
}

fn observed(network: &AdaptedNetwork, samples: &Vec<Sample>, n: usize) -> ExplainedVariance {
    let settings = EvaSettings::default();
    let options = RunOptions::new();
    let mut seen = Vec::new();
    let variance = network.observed(samples, n, settings, &options, |done| seen.push(done));
    assert_eq!(seen, (1..=n.min(samples.len())).collect::<Vec<_>>());
    variance.expect("observes")
}

/// The directions of values of the network, run by itself.
fn of_values(names: &[&str], samples: &[Sample], picked: &[usize]) -> ExplainedVariance {
    let graph = with_outputs(network(), names).expect("has them");
    let model = spark_onnx::Model::from_graph(graph, &RunOptions::new()).expect("plans");
    let mut variance = ExplainedVariance::new(EvaSettings::default()).expect("settings");
    for &index in picked {
        let given = samples[index].inputs.iter();
        let given: Vec<_> = given.map(|(name, t)| (name.as_str(), t)).collect();
        for (_, value) in model.session().run(&given).expect("runs") {
            let shape = value.shape().to_vec();
            let cpu = candle_core::Device::Cpu;
            let x = candle_core::Tensor::from_vec(value.to_f32(), shape, &cpu);
            variance.observe("it", &x.expect("fits")).expect("takes it");
        }
    }
    variance
}

#[test]
fn layers_are_observed_by_what_their_nodes_read() {
    let samples = samples(24);
    let network = AdaptedNetwork::new(network(), config(DoraConfig::builder(2)));
    let network = network.expect("is adapted");
    let mut all = observed(&network, &samples, 100);
    let names: Vec<String> = all.layers().map(str::to_owned).collect();
    assert_eq!(names, ["fc", "key", "side", "twice"]);
    let every: Vec<usize> = (0..24).collect();
    for (layer, values) in [
        ("fc", &["flat"][..]),
        ("key", &["flat"]),
        ("twice", &["relu", "once"]),
    ] {
        let want = of_values(values, &samples, &every).directions("it", 5);
        let got = all.directions(layer, 5).expect("is known");
        assert_eq!(got, want.expect("is known"), "{layer}");
    }
    // An input of the network itself: two rows of every sample.
    let mut side = ExplainedVariance::new(EvaSettings::default()).expect("settings");
    for sample in &samples {
        let x = sample.inputs[1].1.to_f32();
        let x = candle_core::Tensor::from_vec(x, (2, 32), &candle_core::Device::Cpu);
        side.observe("side", &x.expect("fits")).expect("takes it");
    }
    assert_eq!(
        all.directions("side", 5).expect("is known"),
        side.directions("side", 5).expect("is known")
    );
    // Some of them, evenly spread.
    let mut few = observed(&network, &samples, 5);
    let want = of_values(&["flat"], &samples, &[0, 4, 9, 14, 19]).directions("it", 3);
    assert_eq!(
        few.directions("fc", 3).expect("is known"),
        want.expect("is known")
    );
}

#[test]
fn a_network_begun_so_computes_what_it_did_and_learns() {
    let samples = samples(24);
    let exact = RunOptions::new();
    let shapes = [("x", vec![1, 3, 4, 4]), ("state", vec![1, 2, 32])];
    let heads = heads(&samples[0]);
    for precision in [None, Some(Precision::Fp4)] {
        let deployment = match precision {
            None => Deployment::exact(),
            Some(precision) => {
                let made = Deployment::new(&network(), precision, &shapes, &exact);
                made.expect("has layers")
            }
        };
        let builder = || DoraConfig::builder(2).seed(3);
        let new = |config| AdaptedNetwork::deployed(network(), config, &deployment);
        let plain = new(config(builder())).expect("is adapted");
        let mut variance = observed(&plain, &samples, 24);
        let ranks = variance.ranks(plain.adapter()).expect("has ranks");
        let mut network = new(ranks).expect("is adapted");
        let begun = network.begin(&mut variance).expect("begins");
        assert_eq!(begun.others, ["conv"]);
        let ranks: usize = begun.layers.iter().map(|layer| layer.rank).sum();
        assert_eq!(ranks, 8, "two for each of four layers");

        let inputs: Vec<_> = samples[3]
            .inputs
            .iter()
            .map(|(n, t)| (n.as_str(), t))
            .collect();
        let targets: Vec<_> = samples[3]
            .targets
            .iter()
            .map(|(n, t)| (n.as_str(), t))
            .collect();
        let evaluate = |network: &AdaptedNetwork| {
            let evaluation = Evaluation::new(network, &heads, &shapes, &exact);
            let mut evaluation = evaluation.expect("plans");
            let result = evaluation.run(network, &inputs, &targets).expect("runs");
            result.outputs[0].1.to_f32()
        };
        let bits = |values: Vec<f32>| values.into_iter().map(f32::to_bits).collect::<Vec<_>>();
        assert_eq!(bits(evaluate(&network)), bits(evaluate(&plain)));

        let before = network.fingerprint_of_variables().expect("has them");
        let settings = TrainerSettings {
            epochs: 2,
            batch: 4,
            ..TrainerSettings::default()
        };
        let trainer = Trainer::new(
            network,
            heads.clone(),
            &samples,
            None,
            settings,
            exact.clone(),
        );
        let mut trainer = trainer.expect("trains");
        trainer
            .run(&mut |_: &spark_train::Event| Go::On)
            .expect("runs");
        let after = trainer.network().fingerprint_of_variables();
        assert_ne!(before, after.expect("has them"));
    }
}

/// A run that is stopped and resumed, begun by the same samples again, has the bits of one that is not.
#[test]
fn a_run_that_is_resumed_has_the_bits_of_one_that_is_not() {
    let samples = samples(16);
    let heads = heads(&samples[0]);
    let begun = || {
        let network_of = |config| AdaptedNetwork::new(network(), config).expect("is adapted");
        let plain = network_of(config(DoraConfig::builder(2).seed(3).dropout(0.1)));
        let mut variance = observed(&plain, &samples, 10);
        let ranks = variance.ranks(plain.adapter()).expect("has ranks");
        let mut network = network_of(ranks);
        network.begin(&mut variance).expect("begins");
        network
    };
    let folder = tempfile::tempdir().expect("a folder");
    let settings = |folder: Option<&std::path::Path>| TrainerSettings {
        epochs: 3,
        batch: 4,
        save_every: Some(2),
        folder: folder.map(std::path::Path::to_owned),
        ..TrainerSettings::default()
    };
    let trainer = |network, folder| {
        let options = RunOptions::new();
        let made = Trainer::new(
            network,
            heads.clone(),
            &samples,
            None,
            settings(folder),
            options,
        );
        made.expect("trains")
    };
    let mut whole = trainer(begun(), None);
    whole
        .run(&mut |_: &spark_train::Event| Go::On)
        .expect("runs");
    let want = whole
        .network()
        .fingerprint_of_variables()
        .expect("has them");

    let mut first = trainer(begun(), Some(folder.path()));
    let stop = &mut |event: &spark_train::Event| match event {
        spark_train::Event::Step { step: 5, .. } => Go::Stop,
        _ => Go::On,
    };
    first.run(stop).expect("stops");
    drop(first);
    let mut second = trainer(begun(), Some(folder.path()));
    let step = second.resume(&mut |_: &spark_train::Event| Go::On);
    assert_eq!(step.expect("resumes"), 5);
    second
        .run(&mut |_: &spark_train::Event| Go::On)
        .expect("runs");
    let got = second.network().fingerprint_of_variables();
    assert_eq!(got.expect("has them"), want);
    drop(second);

    // One that began otherwise is another run.
    let plain = AdaptedNetwork::new(
        network(),
        config(DoraConfig::builder(2).seed(3).dropout(0.1)),
    );
    let mut other = trainer(plain.expect("is adapted"), Some(folder.path()));
    let error = other
        .resume(&mut |_: &spark_train::Event| Go::On)
        .unwrap_err();
    assert!(
        matches!(&error, TrainError::OtherRun { what, .. } if what.starts_with("adapter's ")),
        "{error}"
    );
}

#[test]
fn what_cannot_be_observed_is_refused() {
    let samples = samples(4);
    let new = |builder| AdaptedNetwork::new(network(), config(builder)).expect("is adapted");
    let observe = |network: &AdaptedNetwork, samples: &Vec<Sample>, options: &RunOptions| {
        network.observed(samples, 4, EvaSettings::default(), options, |_| ())
    };
    let options = RunOptions::new();
    let convolution = new(DoraConfig::builder(2).targets(["conv"]));
    let error = observe(&convolution, &samples, &options).unwrap_err();
    assert!(
        matches!(&error, TrainError::NothingObserved { available } if available.len() == 4),
        "{error}"
    );
    let magnitudes = DoraConfig::builder(2)
        .targets([""; 0])
        .magnitude_only(["fc"]);
    let error = observe(&new(magnitudes), &samples, &options).unwrap_err();
    assert!(matches!(error, TrainError::NothingObserved { .. }));
    let network = new(DoraConfig::builder(2));
    let error = observe(&network, &Vec::new(), &options).unwrap_err();
    assert!(matches!(error, TrainError::TooFewSamples { .. }));
    let fp8 = RunOptions::new().with_precision(Precision::Fp8);
    let error = observe(&network, &samples, &fp8).unwrap_err();
    assert!(matches!(error, TrainError::NotExact { .. }));
    let mut bad = samples.clone();
    bad[2].inputs[0].1 = Tensor::from_f32([1, 3, 4, 4], vec![f32::NAN; 48]).expect("fits");
    let error = observe(&network, &bad, &options).unwrap_err();
    assert!(
        matches!(&error, TrainError::Dora(DoraError::NotFinite { name, .. }) if name == "fc.input"),
        "{error}"
    );
    let mut other = samples.clone();
    other[1].inputs.truncate(1);
    let error = observe(&network, &other, &options).unwrap_err();
    assert!(matches!(error, TrainError::Model(_)), "{error}");
    // What was trained, or begun otherwise, does not begin.
    for init in [Init::Random, Init::Pissa] {
        let builder = DoraConfig::builder(2).targets(["fc"]).init(init);
        let mut network = new(builder);
        let mut variance = observed(&network, &samples, 4);
        let error = network.begin(&mut variance).unwrap_err();
        assert!(matches!(error, TrainError::Dora(_)), "{error}");
    }
}
