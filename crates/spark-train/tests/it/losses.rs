//! Losses in the graph against those of spark-dora in candle.

use candle_core::{DType, Device, Tensor as Candle, Var};
use spark_dora::DoraConfig;
use spark_dora::loss::{Head, HeadKind, distil};
use spark_onnx::RunOptions;
use spark_onnx_graph::graph::{Dim, Graph, MatMul, Op};
use spark_onnx_graph::{DType as Type, Tensor};
use spark_testing::numbers;
use spark_train::{AdaptedNetwork, OutputHeads, TrainError, TrainingStep};

const OUTPUTS: usize = 12;
const BATCH: usize = 3;

fn network() -> AdaptedNetwork {
    let mut graph = Graph::default();
    let shape = vec![Dim::Known(BATCH), Dim::Known(2)];
    let x = graph.add_input("x", Type::F32, shape);
    let w = Tensor::from_f32([2, OUTPUTS], numbers(2 * OUTPUTS, 1)).expect("fits");
    let w = graph.add_constant("head.weight", w);
    let y = graph.add_node("y", Op::MatMul(MatMul), &[Some(x), Some(w)]);
    graph.outputs.push(y);
    // Trained whole, the gradient of the weight is x^T times that of the outputs.
    let config = DoraConfig::builder(1).targets([""; 0]);
    let config = config.modules_to_save(["head"]).build().expect("settings");
    AdaptedNetwork::new(graph, config).expect("is adapted")
}

fn head(name: &str, range: std::ops::Range<usize>, kind: HeadKind, weight: f64) -> Head {
    Head {
        name: name.to_owned(),
        range,
        kind,
        weight,
    }
}

fn heads() -> Vec<Head> {
    vec![
        head("squares", 0..3, HeadKind::Squares, 1.0),
        head("distances", 1..4, HeadKind::Distances, 0.5),
        head("mdn", 2..8, HeadKind::Mdn, 2.0),
        head(
            "hypotheses",
            0..12,
            HeadKind::Hypotheses {
                hypotheses: 2,
                selections: 2,
            },
            1.25,
        ),
        head("sigmoid", 8..11, HeadKind::Sigmoid, 0.25),
        head("softmax", 4..12, HeadKind::Softmax { classes: 4 }, 1.5),
        head(
            "features",
            0..12,
            HeadKind::Features { temperature: 3.0 },
            0.75,
        ),
    ]
}

fn off(got: &Candle, want: &Candle) -> f64 {
    let values = |t: &Candle| -> Vec<f32> {
        t.flatten_all()
            .and_then(|t| t.to_vec1())
            .expect("is in f32")
    };
    let (got, want) = (values(got), values(want));
    let scale = want.iter().fold(0f32, |m, v| m.max(v.abs()));
    assert!(scale > 0.0, "nothing to compare");
    let pairs = got.iter().zip(&want);
    f64::from(pairs.fold(0.0, |m: f32, (g, w)| m.max((g - w).abs())) / scale)
}

/// All heads together and each alone, with outputs far apart and near.
#[test]
fn losses_and_their_gradients_are_those_of_candle() {
    let all = heads();
    let sets = all
        .iter()
        .map(|head| vec![head.clone()])
        .chain([all.clone()]);
    for heads in sets {
        for size in [0.1f32, 1.0, 30.0] {
            agrees(&heads, size);
        }
    }
}

fn agrees(heads: &[Head], size: f32) {
    let network = network();
    let large = |n, seed| {
        numbers(n, seed)
            .iter()
            .map(|v| v * size)
            .collect::<Vec<_>>()
    };
    let x = Tensor::from_f32([BATCH, 2], large(BATCH * 2, 2)).expect("fits");
    let target = Tensor::from_f32([BATCH, OUTPUTS], large(BATCH * OUTPUTS, 3)).expect("fits");
    let what: Vec<&str> = heads.iter().map(|head| head.name.as_str()).collect();
    let of_output = OutputHeads {
        output: "y".to_owned(),
        heads: heads.to_vec(),
    };
    let step = TrainingStep::new(&network, &[of_output], &[], &RunOptions::new());
    let mut step = step.expect("plans");
    let got = step
        .run(&network, &[("x", &x)], &[("y", &target)])
        .expect("runs");

    let candle = |t: &Tensor| Candle::from_vec(t.to_f32(), t.shape(), &Device::Cpu);
    let student = Var::from_tensor(&candle(&got.outputs[0].1).expect("fits")).expect("is one");
    let target = candle(&target).expect("fits");
    let (loss, parts) = distil(&target, student.as_tensor(), heads).expect("has a loss");
    let want: f32 = loss.to_scalar().expect("is one number");
    let near = |got: f64, want: f32| {
        (got - f64::from(want)).abs() <= 2e-5 * f64::from(want.abs().max(0.02))
    };
    assert!(
        near(got.loss, want),
        "{what:?}, {size}: {} for {want}",
        got.loss
    );
    assert_eq!(got.parts.len(), parts.len());
    for ((name, got), (want_name, want)) in got.parts.iter().zip(&parts) {
        let want: f32 = want.to_scalar().expect("is one number");
        assert_eq!(name, want_name);
        assert!(near(*got, want), "{name}, {size}: {got} for {want}");
    }
    let dy = loss.backward().expect("goes back");
    let dy = dy.get(&student).expect("a gradient");
    // As trainers have it: [out, in].
    let x = candle(&x).expect("fits");
    let want = dy.t().and_then(|dy| dy.matmul(&x)).expect("multiplies");
    let variables = network.adapter().variables();
    let weight = &variables.whole[0];
    let got = got.gradients.get(weight).expect("a gradient");
    assert_eq!(got.dtype(), DType::F32);
    let off = off(got, &want);
    assert!(off < 5e-5, "{what:?}, {size}: gradients are off by {off:e}");
}

#[test]
fn heads_that_do_not_fit_are_refused_by_name() {
    let refused = |output: &str, head: Head| {
        let of_output = OutputHeads {
            output: output.to_owned(),
            heads: vec![head],
        };
        let step = TrainingStep::new(&network(), &[of_output], &[], &RunOptions::new());
        step.expect_err("does not fit").to_string()
    };
    let said = refused("z", head("a", 0..1, HeadKind::Squares, 1.0));
    assert_eq!(said, "the network has no output `z`; it has y");
    for (head, reason) in [
        (
            head("a", 3..13, HeadKind::Squares, 1.0),
            "it is at 3..13 of 12 numbers",
        ),
        (
            head("a", 3..3, HeadKind::Squares, 1.0),
            "it is at 3..3 of 12 numbers",
        ),
        (
            head("a", 0..3, HeadKind::Mdn, 1.0),
            "centres and log widths are 3 numbers, an odd count",
        ),
        (
            head(
                "a",
                0..10,
                HeadKind::Hypotheses {
                    hypotheses: 2,
                    selections: 2,
                },
                1.0,
            ),
            "10 numbers are no 2 hypotheses of centres, log widths and 2 logits",
        ),
        (
            head(
                "a",
                0..3,
                HeadKind::Hypotheses {
                    hypotheses: 0,
                    selections: 1,
                },
                1.0,
            ),
            "3 numbers are no 0 hypotheses of centres, log widths and 1 logits",
        ),
        (
            head("a", 0..3, HeadKind::Softmax { classes: 2 }, 1.0),
            "3 numbers are no rows of 2 classes",
        ),
        (
            head("a", 0..3, HeadKind::Squares, f64::NAN),
            "its weight is NaN, wanted 0 to 1e6",
        ),
        (
            head("a", 0..3, HeadKind::Features { temperature: 0.0 }, 1.0),
            "its temperature is 0, wanted 1e-6 to 1e6",
        ),
    ] {
        assert_eq!(
            refused("y", head),
            format!("head `a` of output `y`: {reason}")
        );
    }
    let none = OutputHeads {
        output: "y".to_owned(),
        heads: Vec::new(),
    };
    let step = TrainingStep::new(&network(), &[none], &[], &RunOptions::new());
    assert!(matches!(step, Err(TrainError::Head { .. })));
}
