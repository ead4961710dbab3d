//! What comes on top of dynamics: collisions, observations, environments.

use crate::timing::Timing;
use spark_sim::collision::Outline;
use spark_sim::env::{
    HighwayEnv, HighwayEnvConfig, LaneKeepingConfig, LaneKeepingEnv, StepBuffers, VectorEnv,
};
use spark_sim::random::Philox;

pub(crate) fn run(timing: &Timing) {
    collisions(timing);
    let lane_keeping = LaneKeepingEnv::new(LaneKeepingConfig::default()).expect("valid");
    environment(timing, "sim/env_lane_keeping/1t", lane_keeping);
    let highway = HighwayEnv::new(HighwayEnvConfig::default()).expect("valid");
    environment(timing, "sim/env_highway_4_agents_30_cars/1t", highway);
}

fn collisions(timing: &Timing) {
    let name = "sim/collision_and_ttc/1t";
    if !timing.wants(name) {
        return;
    }
    let mut random = Philox::new(1, 0);
    let cars: Vec<(Outline, [f64; 2])> = (0..1024)
        .map(|_| {
            let outline = Outline {
                x: random.next_in(-50.0, 50.0),
                y: random.next_in(-10.0, 10.0),
                heading: random.next_in(-0.5, 0.5),
                length: 4.5,
                width: 1.8,
            };
            (
                outline,
                [random.next_in(0.0, 30.0), random.next_in(-1.0, 1.0)],
            )
        })
        .collect();
    let own = Outline {
        x: 0.0,
        y: 0.0,
        ..cars[0].0
    };
    for (car, velocity) in &cars {
        // Touching now and a time of zero are the same thing.
        let now = own.time_to_collision([20.0, 0.0], car, *velocity, 10.0) == Some(0.0);
        assert_eq!(own.overlaps(car), now, "{name}");
    }
    let mut n_hits = 0;
    timing.measure(name, "pairs", cars.len() as f64, || {
        for (car, velocity) in &cars {
            let ttc = own.time_to_collision([20.0, 0.0], car, *velocity, 10.0);
            n_hits += usize::from(ttc.is_some_and(|t| t < 5.0)) + usize::from(own.overlaps(car));
        }
    });
    assert!(n_hits > 0);
}

/// Dynamics, traffic, observation and reward of a whole environment with random actions.
fn environment(timing: &Timing, name: &str, mut env: impl VectorEnv) {
    if !timing.wants(name) {
        return;
    }
    let shape = env.shape();
    let mut buffers = StepBuffers::new(shape);
    env.reset(1, &mut buffers.observations)
        .expect("the right size");
    let mut random = Philox::new(2, 0);
    let actions: Vec<f32> = (0..shape.n_rows() * shape.action_size)
        .map(|_| random.next_in(-0.3, 0.3) as f32)
        .collect();
    env.step(&actions, &mut buffers).expect("valid actions");
    assert!(buffers.observations.iter().all(|x| x.is_finite()), "{name}");
    timing.measure(name, "agent_steps", shape.n_rows() as f64 * 50.0, || {
        for _ in 0..50 {
            env.step(&actions, &mut buffers).expect("valid actions");
        }
    });
}
