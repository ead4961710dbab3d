//! A network drives like its twin in Rust, in any block, and faults stay in their place.

use super::*;
use crate::control::{Action, LaneAlgorithm, PerLane, State, named};
use crate::run::{RunOptions as SimOptions, RunReport, ScenarioError, Simulator};
use crate::scenario::{Fuzzer, Scenario};
use spark_hal::config::DeviceChoice;
use spark_onnx::DType;
use spark_onnx::graph::{Binary, Dim, MatMul, Op};

const GAINS: [f32; 3] = [1.0, -2e-3, -0.05];

/// `answers = signals * gains + 0`, each answer the same.
fn linear(gains: &[f32], n_answers: usize) -> Graph {
    let mut graph = Graph {
        name: "policy".to_owned(),
        ..Graph::default()
    };
    let batch = || Dim::Symbol("batch".to_owned());
    let shape = vec![batch(), Dim::Known(gains.len())];
    let input = graph.add_input("signals", DType::F32, shape);
    let weights = gains.iter().flat_map(|&gain| vec![gain; n_answers]);
    let weights = Tensor::from_f32([gains.len(), n_answers], weights.collect());
    let weights = graph.add_constant("gains", weights.expect("a full tensor"));
    let zeros = Tensor::from_f32([n_answers], vec![0.0; n_answers]);
    let zeros = graph.add_constant("zeros", zeros.expect("a full tensor"));
    let product = graph.add_node("product", Op::MatMul(MatMul), &[Some(input), Some(weights)]);
    let sum = Op::Binary(Binary::Add);
    let answer = graph.add_node("answer", sum, &[Some(product), Some(zeros)]);
    let output = &mut graph.values[answer.0];
    output.dtype = Some(DType::F32);
    output.shape = Some(vec![batch(), Dim::Known(n_answers)]);
    graph.outputs.push(answer);
    graph
}

fn config() -> PolicyConfig {
    PolicyConfig {
        name: "network".to_owned(),
        signals: vec![
            PolicySignal::new(|s| &s.road_curvature, 1.0),
            PolicySignal::new(|s| &s.lateral_offset, 1.0),
            PolicySignal::new(|s| &s.heading_error, 1.0),
        ],
        steer: Some(SteerInterface::Curvature),
        controls_speed: false,
    }
}

struct Twin;

impl LaneAlgorithm for Twin {
    fn reset(&mut self, _setup: &LaneSetup) {}
    fn update(&mut self, s: &State<f32>) -> Action<f32> {
        let signals = [s.road_curvature, s.lateral_offset, s.heading_error];
        let products = signals.iter().zip(GAINS).map(|(x, gain)| x * gain);
        Action {
            steer: products.sum(),
            ..Action::default()
        }
    }
}

fn scenarios() -> Vec<Scenario> {
    Fuzzer::new(11).iter(90).collect()
}

fn run(policy: &dyn AlgorithmFactory, n_threads: usize, block_size: usize) -> RunReport {
    let options = SimOptions {
        threads: Some(n_threads),
        block_size,
        device: Some(DeviceChoice::Cpu),
        ..SimOptions::default()
    };
    let simulator = Simulator::new(options).expect("valid options");
    simulator.run(&scenarios(), policy)
}

#[test]
fn a_network_from_a_file_drives_like_its_twin() {
    let folder = std::env::temp_dir().join(format!("spark-sim-policy-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a writable folder");
    let path = folder.join("policy.onnx");
    spark_onnx::file::save(&linear(&GAINS, 1), &path).expect("a writable file");
    let policy = Policy::load(&path, config(), &RunOptions::new()).expect("a valid network");
    std::fs::remove_dir_all(&folder).expect("our own folder");

    let twin = named("twin", || {
        PerLane::new(Some(SteerInterface::Curvature), false, || Twin)
    });
    let (got, want) = (run(&policy, 2, 64), run(&twin, 2, 64));
    for (g, w) in got.results.iter().zip(&want.results) {
        let (g, w) = (
            g.outcome.as_ref().expect("a drive"),
            w.outcome.as_ref().expect("a drive"),
        );
        // The network's products are fused, the twin's are not.
        let difference = (g.lateral_error_rmse - w.lateral_error_rmse).abs();
        assert!(difference < 1e-3, "{g:?} {w:?}");
        assert_eq!(g.n_steps, w.n_steps);
    }
}

#[test]
fn blocks_and_threads_do_not_change_a_bit() {
    let policy = Policy::from_graph(linear(&GAINS, 1), config(), &RunOptions::new());
    let policy = policy.expect("a valid network");
    let outcomes = |report: RunReport| -> Vec<String> {
        let results = report.results.iter();
        results.map(|r| format!("{:?}", r.outcome)).collect()
    };
    let want = outcomes(run(&policy, 1, 64));
    for (n_threads, block_size) in [(2, 64), (1, 1), (2, 7), (1, 90)] {
        assert_eq!(outcomes(run(&policy, n_threads, block_size)), want);
    }
}

#[test]
fn steering_and_speed_come_in_this_order() {
    let both = PolicyConfig {
        controls_speed: true,
        ..config()
    };
    let policy = Policy::from_graph(linear(&[0.0, 0.5, 0.0], 2), both, &RunOptions::new());
    let mut driver = policy
        .expect("a valid network")
        .create()
        .expect("a CPU version");
    let mut state = StateBatch::filled(70, State::at_rest());
    for lane in 0..70 {
        state.lateral_offset[lane] = lane as f32;
    }
    let mut action = ActionBatch::filled(70, Action::default());
    driver.update(&state, &mut action);
    for lane in 0..70 {
        assert_eq!(action.steer[lane], 0.5 * lane as f32);
        assert_eq!(action.accel[lane], 0.5 * lane as f32);
    }
}

#[test]
fn networks_of_another_shape_are_refused_and_nan_fails_the_scenario() {
    let options = RunOptions::new();
    let refused = |graph: Graph, config: PolicyConfig| {
        let answer = Policy::from_graph(graph, config, &options);
        matches!(answer, Err(SimError::Network { .. }))
    };
    assert!(refused(linear(&GAINS, 2), config()));
    assert!(refused(linear(&GAINS[..2], 1), config()));
    let nothing = PolicyConfig {
        steer: None,
        ..config()
    };
    assert!(refused(linear(&GAINS, 1), nothing));
    let missing = Policy::load(Path::new("no/such/file.onnx"), config(), &options);
    assert!(matches!(missing, Err(SimError::Network { .. })));

    let broken = Policy::from_graph(linear(&[f32::NAN; 3], 1), config(), &options);
    let report = run(&broken.expect("a network of the right shape"), 1, 64);
    for result in &report.results {
        let failed = matches!(result.outcome, Err(ScenarioError::ActionNotFinite { .. }));
        assert!(failed, "{:?}", result.outcome);
    }
}
