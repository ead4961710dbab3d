//! The chain of vision and policy, on networks small enough to know every answer.
//!
//! ```text
//! vision   hidden_state[k] = mean of channel k of img; the rest of its output is 0
//! policy   outputs[0..25]  = features_buffer[:, 6]   (means of the newest picture's plane 0)
//!          outputs[25..50] = features_buffer[:, 0]   (means of the picture of 0.2 s ago)
//!          outputs[50..75] = desire_pulse[:, 3]
//! ```

use spark_onnx::graph::{
    Cast, Concat, Conv, Dim, Flatten, Gather, Gemm, GlobalPool, Graph, Op, Padding, PoolKind,
    ValueId,
};
use spark_onnx::{DType, ModelRunner, RunOptions, Tensor, file};
use spark_openpilot::frame::FRAME_BYTES;
use spark_openpilot::recurrent::{RecurrentNetwork, STATE_0_7_4};
use spark_openpilot::slices::OutputLayout;
use spark_openpilot::{DrivingInput, DrivingPipeline, OpenpilotError, slices};

use spark_testing::test_data;

fn known(shape: &[usize]) -> Vec<Dim> {
    shape.iter().map(|&d| Dim::Known(d)).collect()
}

fn node(graph: &mut Graph, name: &str, op: Op, inputs: &[ValueId]) -> ValueId {
    let inputs: Vec<_> = inputs.iter().copied().map(Some).collect();
    graph.add_node(name, op, &inputs)
}

fn finish(mut graph: Graph, output: ValueId, n: usize) -> Graph {
    graph.values[output.0].dtype = Some(DType::F32);
    graph.values[output.0].shape = Some(known(&[1, n]));
    graph.outputs.push(output);
    graph
}

fn vision() -> Graph {
    let mut graph = Graph {
        name: "vision".to_owned(),
        ..Graph::default()
    };
    let shape = [1, 12, 128, 256];
    let img = graph.add_input("img", DType::U8, known(&shape));
    let big = graph.add_input("big_img", DType::U8, known(&shape));
    let both = node(
        &mut graph,
        "both",
        Op::Concat(Concat { axis: 1 }),
        &[img, big],
    );
    let cast = node(
        &mut graph,
        "cast",
        Op::Cast(Cast { to: DType::F32 }),
        &[both],
    );
    let mean = node(
        &mut graph,
        "mean",
        Op::GlobalPool(GlobalPool {
            kind: PoolKind::Average,
        }),
        &[cast],
    );
    let total = slices::total(slices::VISION);
    let hidden = total - 512;
    let mut weights = vec![0.0; total * 24];
    for channel in 0..24 {
        weights[(hidden + channel) * 24 + channel] = 1.0;
    }
    let weights = Tensor::from_f32([total, 24, 1, 1], weights).expect("as many as the shape says");
    let weights = graph.add_constant("weights", weights);
    let conv = Conv {
        strides: vec![1; 2],
        dilations: vec![1; 2],
        padding: Padding::Explicit(vec![0; 4]),
        groups: 1,
    };
    let maps = node(&mut graph, "maps", Op::Conv(conv), &[mean, weights]);
    let outputs = node(
        &mut graph,
        "outputs",
        Op::Flatten(Flatten { axis: 1 }),
        &[maps],
    );
    finish(graph, outputs, total)
}

fn policy() -> Graph {
    let mut graph = Graph {
        name: "policy".to_owned(),
        ..Graph::default()
    };
    let desire = graph.add_input("desire_pulse", DType::F32, known(&[1, 25, 8]));
    let traffic = graph.add_input("traffic_convention", DType::F32, known(&[1, 2]));
    let features = graph.add_input("features_buffer", DType::F32, known(&[1, 25, 512]));
    let column = |graph: &mut Graph, name: &str, x: ValueId, position: i64| {
        let index = Tensor::from_i64([], vec![position]).expect("a scalar");
        let index = graph.add_constant(format!("{name}.index"), index);
        node(graph, name, Op::Gather(Gather { axis: 2 }), &[x, index])
    };
    let new = column(&mut graph, "new", features, 6);
    let old = column(&mut graph, "old", features, 0);
    let pulses = column(&mut graph, "pulses", desire, 3);
    // The traffic convention passes through an identity, so that every input is used.
    let identity = Tensor::from_f32([2, 2], vec![1.0, 0.0, 0.0, 1.0]).expect("two by two");
    let identity = graph.add_constant("identity", identity);
    let gemm = Gemm {
        alpha: 1.0,
        beta: 1.0,
        trans_a: false,
        trans_b: false,
    };
    let side = node(&mut graph, "side", Op::Gemm(gemm), &[traffic, identity]);
    let total = slices::total(slices::POLICY);
    let rest = Tensor::zeros(DType::F32, [1, total - 77]).expect("a thousand");
    let rest = graph.add_constant("rest", rest);
    let outputs = node(
        &mut graph,
        "outputs",
        Op::Concat(Concat { axis: 1 }),
        &[new, old, pulses, side, rest],
    );
    finish(graph, outputs, total)
}

fn runner(graph: Graph) -> ModelRunner {
    ModelRunner::from_graph(graph, &RunOptions::default()).expect("fp32 runs everywhere")
}

fn pipeline() -> DrivingPipeline {
    DrivingPipeline::new(runner(vision()), runner(policy())).expect("openpilot's interfaces")
}

fn input<'a>(road: &'a [u8], wide: &'a [u8], desire: usize) -> DrivingInput<'a> {
    let mut held = [0.0; 8];
    held[desire] = 1.0;
    DrivingInput {
        road,
        wide,
        desire: held,
        traffic_convention: [0.0, 1.0],
    }
}

#[test]
fn history_reaches_the_policy_every_fifth_of_a_second() {
    let mut pipeline = pipeline();
    let wide = vec![200; FRAME_BYTES];
    let mut last = None;
    for step in 1..=30u8 {
        let road = vec![step; FRAME_BYTES];
        let desire = if step >= 22 { 3 } else { 0 };
        last = Some(
            pipeline
                .step(&input(&road, &wide, desire))
                .expect("sound planes"),
        );
    }
    let output = last.expect("thirty steps");
    // Picture means: this step's 30 and that of four steps ago, 26; wide planes follow.
    assert_eq!(output.vision.hidden_state[..2], [26.0, 26.0]);
    assert_eq!(output.vision.hidden_state[6..8], [30.0, 30.0]);
    assert_eq!(output.vision.hidden_state[12..14], [200.0, 200.0]);
    // Every fourth hidden state counted from the newest: 2, 6, ..., 30 in the last 8 of 25 slots.
    let new = &output.policy_values[..25];
    assert_eq!(new[..17], [0.0; 17]);
    assert_eq!(new[17..], [2.0, 6.0, 10.0, 14.0, 18.0, 22.0, 26.0, 30.0]);
    let old = &output.policy_values[25..50];
    assert_eq!(old[17..], [0.0, 2.0, 6.0, 10.0, 14.0, 18.0, 22.0, 26.0]);
    // The desire rose at step 22: in the run of steps 19 to 22, third from the end.
    let pulses = &output.policy_values[50..75];
    assert_eq!(pulses.iter().sum::<f32>(), 1.0);
    assert_eq!(pulses[22], 1.0);
    assert_eq!(output.policy_values[75..77], [0.0, 1.0]);
    // The plan's first numbers are the parsed form of the same values.
    assert_eq!(output.policy.plan.position[0], [0.0, 0.0, 0.0]);
    assert_eq!(output.policy.plan.position[1][2], 2.0);
}

#[test]
fn reset_forgets_everything() {
    let mut pipeline = pipeline();
    let planes = vec![100; FRAME_BYTES];
    let first = pipeline
        .step(&input(&planes, &planes, 4))
        .expect("sound planes");
    pipeline
        .step(&input(&planes, &planes, 4))
        .expect("sound planes");
    pipeline.reset();
    let again = pipeline
        .step(&input(&planes, &planes, 4))
        .expect("sound planes");
    assert_eq!(first.policy_values, again.policy_values);
    assert_eq!(first.vision_values, again.vision_values);
}

#[test]
fn planes_of_another_size_change_nothing() {
    let mut pipeline = pipeline();
    let planes = vec![7; FRAME_BYTES];
    let short = vec![7; FRAME_BYTES - 1];
    let error = pipeline.step(&input(&planes, &short, 0)).unwrap_err();
    assert!(matches!(error, OpenpilotError::Length { .. }), "{error}");
    let output = pipeline
        .step(&input(&planes, &planes, 0))
        .expect("sound planes");
    assert_eq!(
        output.vision.hidden_state[0], 0.0,
        "the refused step left no picture behind"
    );
}

#[test]
fn networks_of_another_kind_are_refused() {
    let swapped = DrivingPipeline::new(runner(policy()), runner(vision()))
        .err()
        .expect("another kind");
    assert!(
        matches!(swapped, OpenpilotError::Interface { .. }),
        "{swapped}"
    );
    let mut unknown_heads = vision();
    let output = unknown_heads.outputs[0];
    unknown_heads.outputs = vec![unknown_heads.nodes[2].outputs[0].expect("one result")];
    unknown_heads.values[output.0].shape = None;
    let refused = DrivingPipeline::new(runner(unknown_heads), runner(policy()))
        .err()
        .expect("another kind");
    assert!(
        matches!(refused, OpenpilotError::Interface { .. }),
        "{refused}"
    );
}

#[test]
fn driver_monitoring_of_0_8_is_known_by_its_input_and_length() {
    for name in ["dmonitoring_0_8_5", "dmonitoring_0_8_9"] {
        let Some(file) = test_data(&format!("data/models/{name}.onnx")) else {
            return;
        };
        let graph = file::load(&file).expect("loads");
        let layout = OutputLayout::of(&graph).expect("sound").expect("known");
        let place = |name: &str| {
            let part = layout.parts().iter().find(|(n, _)| n == name);
            part.map(|(_, range)| range.clone())
        };
        assert_eq!(place("face_position"), Some(3..5));
        assert_eq!(place("face_prob"), Some(12..13));
        assert_eq!(place("right_eye_prob"), Some(30..31));
        assert_eq!(place("distracted_eyes_prob"), Some(37..38));
        assert_eq!(place("occluded_prob"), None);
    }
}

#[test]
fn the_state_of_an_old_supercombo_goes_round() {
    let Some(file) = test_data("data/models/supercombo_0_7_4_random_fp16.onnx") else {
        return;
    };
    let options = RunOptions::new().with_precision(spark_onnx::Precision::Fp32);
    let load = || ModelRunner::load(&file, &options).expect("loads");
    let (output, input) = STATE_0_7_4;
    let mut network = RecurrentNetwork::new(load(), &[(output, input)]).expect("it has both");
    let picture = |frame: usize| {
        let n = 12 * 128 * 256;
        let values = (0..n)
            .map(|i| ((i + 977 * frame) * 31 % 255) as f32)
            .collect();
        Tensor::from_f32([1, 12, 128, 256], values).expect("fits")
    };
    let desire = Tensor::zeros(DType::F32, [1, 8]).expect("fits");
    // By hand: the state is taken from the outputs and given back.
    let mut plain = load();
    let mut state = Tensor::zeros(DType::F32, [1, 512]).expect("fits");
    for frame in 0..3 {
        let image = picture(frame);
        let given = [("vision_input_imgs", &image), ("desire", &desire)];
        let got = network.step(&given).expect("sound inputs");
        let by_hand = [given[0], given[1], (input, &state)];
        let want = plain.run(&by_hand).expect("sound inputs");
        assert!(got == want, "frame {frame}");
        let next = want
            .into_iter()
            .find(|(name, _)| name == output)
            .expect("an output")
            .1;
        assert!(next != state, "the state moves");
        state = next;
    }
}
