//! A learned model of a car, stepped in batches: what the controls challenge spends its time on.
//!
//! One model step is one answer for one car: twenty steps of history in, 1024 logits out. The
//! network has the challenge's shape and random weights; its inputs are random, too.

use crate::timing::Timing;
use spark_onnx::{Precision, RunOptions, Tensor, graph::bind, reference};
use spark_sim::learned::{
    CONTEXT, LearnedDynamics, ModelDynamics, N_BINS, STATE_SIZE, random_dynamics,
};
use spark_sim::random::Philox;

const BATCH: usize = 100;

pub(crate) fn run(timing: &Timing) {
    let (f32, bf16) = (Precision::Fp32, Precision::Bf16);
    for (name, n_threads, precision, most_error) in [
        ("sim/learned_dynamics/1t", 1, f32, 1e-4),
        ("sim/learned_dynamics/2t", 2, f32, 1e-4),
        ("sim/learned_dynamics_bf16/1t", 1, bf16, 0.2),
        ("sim/learned_dynamics_bf16/2t", 2, bf16, 0.2),
    ] {
        if !timing.wants(name) {
            continue;
        }
        let options = RunOptions::new()
            .with_threads(n_threads)
            .with_precision(precision);
        let mut model =
            ModelDynamics::from_graph(random_dynamics(1), &options).expect("a valid network");
        let inputs = Inputs::random();
        let mut logits = vec![0.0; BATCH * N_BINS];
        inputs.ask(&mut model, BATCH, &mut logits);
        check(name, &inputs, &logits, most_error);
        timing.measure(name, "model_steps", BATCH as f64, || {
            inputs.ask(&mut model, BATCH, &mut logits);
        });
    }
}

struct Inputs {
    states: Vec<f32>,
    tokens: Vec<i64>,
}

impl Inputs {
    fn random() -> Self {
        let mut random = Philox::new(3, 0);
        let states = (0..BATCH * CONTEXT * STATE_SIZE).map(|_| random.next_in(-1.0, 1.0) as f32);
        let states = states.collect();
        let tokens = (0..BATCH * CONTEXT).map(|_| random.next_in(0.0, N_BINS as f64) as i64);
        Self {
            states,
            tokens: tokens.collect(),
        }
    }

    fn ask(&self, model: &mut ModelDynamics, n: usize, logits: &mut [f32]) {
        let states = &self.states[..n * CONTEXT * STATE_SIZE];
        let tokens = &self.tokens[..n * CONTEXT];
        model
            .predict(n, states, tokens, logits)
            .expect("an answer to valid inputs");
    }
}

/// The first two cars against the interpreter, which computes in f64. Logits are of order one.
fn check(name: &str, inputs: &Inputs, got: &[f32], most_error: f64) {
    let n = 2;
    let states = inputs.states[..n * CONTEXT * STATE_SIZE].to_vec();
    let states = Tensor::from_f32([n, CONTEXT, STATE_SIZE], states).expect("a full tensor");
    let tokens = inputs.tokens[..n * CONTEXT].to_vec();
    let tokens = Tensor::from_i64([n, CONTEXT], tokens).expect("a full tensor");
    let shapes = [
        ("states", states.shape().to_vec()),
        ("tokens", tokens.shape().to_vec()),
    ];
    let graph = bind(&random_dynamics(1), &shapes).expect("a valid network");
    let outputs = reference::run_wide(&graph, &[("states", &states), ("tokens", &tokens)]);
    let outputs = outputs.expect("an answer to valid inputs");
    let want = outputs[0].1.to_f64();
    for car in 0..n {
        let row = &want[((car + 1) * CONTEXT - 1) * N_BINS..(car + 1) * CONTEXT * N_BINS];
        for (bin, (w, g)) in row.iter().zip(&got[car * N_BINS..]).enumerate() {
            let difference = (w - f64::from(*g)).abs();
            assert!(
                difference < most_error,
                "{name}: car {car} bin {bin}: {g} != {w}"
            );
        }
    }
}
