//! Samples and answers as bytes: they come back as they were, and whatever else is read is refused.

use spark_dora::DoraConfig;
use spark_dora::loss::{Head, HeadKind};
use spark_onnx::RunOptions;
use spark_onnx_graph::graph::{Dim, Graph, MatMul, Op, Unary};
use spark_onnx_graph::{DType, Tensor};
use spark_testing::numbers;
use spark_train::{
    AdaptedNetwork, Answer, Examination, Judgement, OutputHeads, PackedAnswers, PackedSamples,
    Sample, SamplePacker, Samples, TrainError, answers_to_bytes, compare,
};

/// A tensor of every type.
fn sample(seed: u64) -> Sample {
    let inputs = DType::ALL.iter().enumerate().map(|(i, &dtype)| {
        let values = numbers(6, seed * 31 + i as u64).into_iter();
        let values = values.map(|v| f64::from(v) * 100.0);
        let values = values.map(|v| if dtype.is_float() { v } else { v.abs().floor() });
        let values = values.map(|v| if dtype == DType::Bool { v % 2.0 } else { v });
        let tensor = Tensor::from_f64(dtype, vec![1, 2, 3], values.collect());
        (format!("x{i}"), tensor.expect("fits"))
    });
    let target = Tensor::from_f32([1, 4], numbers(4, seed)).expect("fits");
    Sample {
        inputs: inputs.collect(),
        targets: vec![("y".to_owned(), target)],
    }
}

fn packed(samples: &[Sample]) -> Vec<u8> {
    let mut packer = SamplePacker::default();
    packer.leave_out_unseen("2023--3/qlog.bz2");
    for sample in samples {
        packer.push(sample).expect("is like the first");
        packer.leave_out("2023--1/qcamera.ts");
    }
    assert_eq!(packer.len(), samples.len());
    packer.into_bytes()
}

#[test]
fn packed_samples_come_back_as_they_were() {
    let all: Vec<Sample> = (0..3).map(sample).collect();
    let samples = PackedSamples::from_bytes(&packed(&all)).expect("reads");
    assert_eq!(samples.len(), 3);
    for (index, want) in all.iter().enumerate() {
        assert_eq!(samples.sample(index).expect("reads"), *want);
    }
    assert!(samples.sample(3).is_err());
    let left_out = samples.left_out().iter();
    let left_out: Vec<_> = left_out.map(|it| (&*it.name, it.n_frames)).collect();
    assert_eq!(
        left_out,
        [("2023--3/qlog.bz2", 0), ("2023--1/qcamera.ts", 3)]
    );
    // What NaNs hold is theirs, and kept.
    let odd = f32::from_bits(0x7fc0_1234);
    let x = Tensor::from_f32([1, 2], vec![odd, -0.0]).expect("fits");
    let one = Sample {
        inputs: vec![("x".to_owned(), x)],
        targets: Vec::new(),
    };
    let samples = PackedSamples::from_bytes(&packed(&[one])).expect("reads");
    let bits = |tensor: &Tensor| -> Vec<u32> {
        tensor
            .to_f32()
            .iter()
            .map(|value| value.to_bits())
            .collect()
    };
    let got = samples.sample(0).expect("reads");
    assert_eq!(bits(&got.inputs[0].1), [0x7fc0_1234, 0x8000_0000]);
    let none = PackedSamples::from_bytes(&packed(&[])).expect("reads");
    assert!(none.is_empty() && none.sample(0).is_err());
}

#[test]
fn samples_unlike_the_first_are_not_packed() {
    let mut packer = SamplePacker::default();
    packer.push(&sample(0)).expect("is the first");
    let mut other = sample(1);
    other.inputs[3].1 = Tensor::from_f32([1, 5], vec![0.0; 5]).expect("fits");
    assert!(matches!(
        packer.push(&other),
        Err(TrainError::UnlikeSamples { other: 1, name, .. }) if name == "x3"
    ));
    packer.push(&sample(2)).expect("is like the first");
    let bytes = packer.into_bytes();
    let samples = PackedSamples::from_bytes(&bytes).expect("reads");
    assert_eq!(samples.sample(1).expect("reads"), sample(2));
}

#[test]
fn packed_samples_cut_or_lengthened_anywhere_are_refused() {
    let bytes = packed(&[sample(0), sample(1)]);
    for end in 0..bytes.len() {
        let refused = PackedSamples::from_bytes(&bytes[..end]);
        assert!(matches!(refused, Err(TrainError::Packed { .. })), "{end}");
    }
    let longer = [&bytes[..], &[0]].concat();
    assert!(PackedSamples::from_bytes(&longer).is_err());
    // Any byte may be another one: what is read then is read to its end.
    for at in 0..bytes.len() {
        for flip in [1, 0x80, 0xff] {
            let mut other = bytes.clone();
            other[at] ^= flip;
            if let Ok(samples) = PackedSamples::from_bytes(&other) {
                for index in 0..samples.len() {
                    let _ = samples.sample(index); // an error, or values
                }
            }
        }
    }
}

/// Bytes of a head that states what is not there.
#[test]
fn counts_that_nothing_stands_behind_take_no_memory() {
    let words = |words: &[u32]| -> Vec<u8> { words.iter().flat_map(|w| w.to_le_bytes()).collect() };
    const MANY: u32 = u32::MAX;
    // Nothing left out; version 1; two groups; one tensor `x` of f32.
    let x = [0, 1, 2, 1, 1];
    let tensor = |extents: &[u64], records: u64| {
        let mut bytes = words(&x);
        bytes.push(b'x');
        bytes.extend(words(&[1, extents.len() as u32]));
        bytes.extend(extents.iter().flat_map(|e| e.to_le_bytes()));
        bytes.extend(words(&[0]));
        bytes.extend(records.to_le_bytes());
        bytes
    };
    for (bytes, what) in [
        (words(&[MANY]), "left out"),
        (words(&[1, MANY]), "name"),
        (words(&[0, 2]), "version"),
        (words(&[0, 1, MANY]), "number of groups"),
        (words(&[0, 1, 4097]), "number of groups"),
        (words(&[0, 1, 1, MANY]), "number of tensors"),
        (words(&[0, 1, 1, 1, MANY]), "name"),
        (words(&[0, 1, 1, 1, 0, 8]), "type"),
        (words(&[0, 1, 1, 1, 0, 1, MANY]), "extent"),
        (tensor(&[1, u64::MAX, 2], 1), "elements"),
        (tensor(&[1 << 62], 1), "elements"),
        (tensor(&[1 << 32, 1 << 32], 1), "elements"),
        (tensor(&[0], u64::MAX), "elements"),
        (tensor(&[0], 1), "elements"),
        (tensor(&[1], u64::MAX), "elements"),
        (tensor(&[1], 1), "elements"),
        (words(&[0, 1, 0, MANY, MANY]), "elements"),
    ] {
        let refused = PackedSamples::from_bytes(&bytes);
        let Err(TrainError::Packed { what: got }) = refused else {
            panic!("{what}: {refused:?}");
        };
        assert!(got.contains(what), "{got}, not {what}");
    }
    assert!(PackedSamples::from_bytes(&tensor(&[0], 0)).is_ok());
    // A record of three groups is no sample.
    let mut three = words(&[0, 1, 3, 1, 1]);
    three.push(b'x');
    three.extend(words(&[1, 0, 0, 0, 1, 0, 0]));
    assert!(matches!(
        PackedSamples::from_bytes(&three),
        Err(TrainError::Packed {
            what: "number of groups"
        })
    ));
}

/// Two layers of 8 numbers; every head but one of what they say.
fn judged() -> (AdaptedNetwork, Vec<OutputHeads>, [Vec<Sample>; 2]) {
    let random = |shape: &[usize], seed| {
        let n = shape.iter().product();
        Tensor::from_f32(shape, numbers(n, seed)).expect("fits")
    };
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, vec![Dim::Known(1), Dim::Known(8)]);
    let w = graph.add_constant("first.weight", random(&[8, 8], 1));
    let y = graph.add_node("first", Op::MatMul(MatMul), &[Some(x), Some(w)]);
    let y = graph.add_node("tanh", Op::Unary(Unary::Tanh), &[Some(y)]);
    let w = graph.add_constant("y.weight", random(&[8, 8], 2));
    let y = graph.add_node("y", Op::MatMul(MatMul), &[Some(y), Some(w)]);
    let z = graph.add_node("z", Op::Unary(Unary::Neg), &[Some(y)]);
    graph.outputs.extend([y, z]);
    let config = DoraConfig::builder(2).targets(["first"]).build();
    let network = AdaptedNetwork::new(graph, config.expect("settings")).expect("is adapted");
    let head = |name: &str, range, kind, weight| Head {
        name: name.to_owned(),
        range,
        kind,
        weight,
    };
    let heads = vec![OutputHeads {
        output: "y".to_owned(),
        heads: vec![
            head("left", 0..4, HeadKind::Squares, 2.0),
            head("right", 4..8, HeadKind::Mdn, 1.0),
        ],
    }];
    let sample = |seed| Sample {
        inputs: vec![("x".to_owned(), random(&[1, 8], seed))],
        targets: vec![
            ("z".to_owned(), random(&[1, 8], seed + 100)),
            ("y".to_owned(), random(&[1, 8], seed + 200)),
        ],
    };
    let samples = [10..17, 30..35].map(|seeds| seeds.map(sample).collect());
    (network, heads, samples)
}

#[test]
fn answers_judged_later_are_the_comparison_of_one_process_bit_for_bit() {
    let (network, heads, [training, held_back]) = judged();
    let options = RunOptions::new();
    let want = compare(
        &network,
        network.base(),
        &heads,
        [&training, &held_back],
        &options,
    )
    .expect("is judged");
    // Each chunk is asked about by a process of its own, the last one first.
    let all: Vec<(&Sample, bool)> = training
        .iter()
        .map(|it| (it, false))
        .chain(held_back.iter().map(|it| (it, true)))
        .collect();
    let untouched = [network.base(), network.base()];
    let chunks: Vec<Vec<u8>> = all
        .chunks(5)
        .rev()
        .map(|chunk| {
            let asked = Examination::new(&network, &untouched, &heads, &options);
            let mut examination = asked.expect("is planned");
            let answers = chunk
                .iter()
                .map(|(sample, is_held_back)| examination.answer(sample, *is_held_back));
            let answers: Result<Vec<Answer>, _> = answers.collect();
            answers_to_bytes(&answers.expect("answers")).expect("are alike")
        })
        .collect();
    for which in 0..2 {
        let counts = [training.len(), held_back.len()];
        let mut judgement = Judgement::new(&heads, counts, &options).expect("there are some");
        for bytes in chunks.iter().rev() {
            let answers = PackedAnswers::from_bytes(bytes).expect("reads");
            for answer in answers.answers() {
                let answer = answer.expect("reads");
                // Of outputs without heads nothing is kept.
                assert_eq!(answer.targets.len(), 1);
                judgement.take(&answer, which).expect("is judged");
            }
        }
        assert_eq!(judgement.finish().expect("is whole"), want);
    }
}

#[test]
fn answers_that_lack_something_are_not_judged() {
    let (network, heads, [training, held_back]) = judged();
    let options = RunOptions::new();
    let asked = Examination::new(&network, &[network.base()], &heads, &options);
    let mut examination = asked.expect("is planned");
    let trained_on = examination.answer(&training[0], false).expect("answers");
    let held_back = examination.answer(&held_back[0], true).expect("answers");
    let judgement = || Judgement::new(&heads, [1, 1], &options).expect("there are some");
    let mut short = judgement();
    short.take(&trained_on, 0).expect("is judged");
    assert!(matches!(
        short.take(&trained_on, 0),
        Err(TrainError::Answer {
            index: 1,
            what: "trained network"
        })
    ));
    let refused = short.finish();
    assert!(matches!(
        refused,
        Err(TrainError::TooFewSamples { got: 1, want: 2 })
    ));
    let mut whole = judgement();
    assert!(matches!(
        whole.take(&trained_on, 1),
        Err(TrainError::Answer {
            index: 0,
            what: "network without adapter"
        })
    ));
    for answer in [&trained_on, &held_back] {
        whole.take(answer, 0).expect("is judged");
    }
    assert!(matches!(
        whole.take(&held_back, 0),
        Err(TrainError::Answer {
            index: 2,
            what: "place"
        })
    ));
    assert!(whole.finish().is_ok());
    assert!(Judgement::new(&heads, [0, 1], &options).is_err());

    let bytes = answers_to_bytes(&[trained_on, held_back]).expect("are alike");
    for end in 0..bytes.len() {
        let refused = PackedAnswers::from_bytes(&bytes[..end]);
        assert!(matches!(refused, Err(TrainError::Packed { .. })), "{end}");
    }
    for at in 0..bytes.len() {
        for flip in [1, 0x80, 0xff] {
            let mut other = bytes.clone();
            other[at] ^= flip;
            if let Ok(answers) = PackedAnswers::from_bytes(&other) {
                let mut judgement = judgement();
                for answer in answers.answers().flatten() {
                    let _ = judgement.take(&answer, 0); // an error, or sums
                }
            }
        }
    }
}
