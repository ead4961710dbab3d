//! Environments: determinism, the three ways to reset, refused actions.

use super::*;
use crate::random::Philox;
use crate::traffic::HighwayConfig;

fn lane_keeping(autoreset: Autoreset) -> LaneKeepingEnv {
    LaneKeepingEnv::new(LaneKeepingConfig {
        n_worlds: 40,
        n_steps: 60,
        autoreset,
    })
    .expect("valid")
}

fn highway(autoreset: Autoreset) -> HighwayEnv {
    HighwayEnv::new(HighwayEnvConfig {
        n_worlds: 3,
        n_agents: 4,
        n_steps: 80,
        autoreset,
        ..HighwayEnvConfig::default()
    })
    .expect("valid")
}

/// Random actions for some steps; every buffer of every step.
fn play(env: &mut dyn VectorEnv, seed: u64, n_steps: u64) -> Vec<StepBuffers> {
    let shape = env.shape();
    let mut buffers = StepBuffers::new(shape);
    env.reset(seed, &mut buffers.observations)
        .expect("the right size");
    (0..n_steps)
        .map(|step| {
            let mut random = Philox::new(99, step);
            let actions: Vec<f32> = (0..shape.n_rows() * shape.action_size)
                .map(|_| random.next_in(-1.0, 1.0) as f32)
                .collect();
            env.step(&actions, &mut buffers).expect("valid actions");
            buffers.clone()
        })
        .collect()
}

#[test]
fn the_same_seed_and_actions_give_the_same_bits() {
    let check = |mut a: Box<dyn VectorEnv>, mut b: Box<dyn VectorEnv>| {
        let (first, again) = (play(a.as_mut(), 5, 150), play(b.as_mut(), 5, 150));
        assert_eq!(format!("{first:?}"), format!("{again:?}"));
        // A used environment forgets everything on reset.
        assert_eq!(
            format!("{first:?}"),
            format!("{:?}", play(a.as_mut(), 5, 150))
        );
        assert_ne!(
            format!("{first:?}"),
            format!("{:?}", play(a.as_mut(), 6, 150))
        );
    };
    let mode = Autoreset::NextStep;
    check(Box::new(lane_keeping(mode)), Box::new(lane_keeping(mode)));
    check(Box::new(highway(mode)), Box::new(highway(mode)));
}

#[test]
fn a_world_that_ended_resets_on_the_next_step() {
    let steps = play(&mut lane_keeping(Autoreset::NextStep), 1, 200);
    let mut n_ends = 0;
    for pair in steps.windows(2) {
        for row in 0..40 {
            if pair[0].terminated[row] || pair[0].truncated[row] {
                n_ends += 1;
                assert!(!pair[1].terminated[row] && !pair[1].truncated[row]);
                assert_eq!(pair[1].rewards[row], 0.0);
                let offset = 2.0 * pair[1].observations[row * 7];
                assert!(
                    offset.abs() <= 0.8,
                    "a fresh start lies near the centre: {offset}"
                );
            }
            assert!(!(pair[0].terminated[row] && pair[0].truncated[row]));
        }
    }
    assert!(n_ends > 40);
}

#[test]
fn same_step_reset_keeps_the_final_observation() {
    let steps = play(&mut lane_keeping(Autoreset::SameStep), 1, 100);
    let mut n_ends = 0;
    for buffers in &steps {
        for row in (0..40).filter(|&row| buffers.terminated[row]) {
            n_ends += 1;
            assert!((2.0 * buffers.final_observations[row * 7]).abs() > 1.75);
            assert!((2.0 * buffers.observations[row * 7]).abs() <= 0.8);
        }
    }
    assert!(n_ends > 10);
}

#[test]
fn without_autoreset_ended_worlds_stand_still() {
    let steps = play(&mut lane_keeping(Autoreset::Disabled), 1, 120);
    let last = &steps[119];
    let ended = |row: usize| steps.iter().any(|b| b.terminated[row] || b.truncated[row]);
    assert!((0..40).all(ended));
    assert_eq!(last.observations, steps[100].observations);
    assert!(last.rewards.iter().all(|&r| r == 0.0));
}

#[test]
fn straight_ahead_drivers_of_the_highway_collide_and_careful_ones_do_not() {
    let run = |careful: bool| {
        let mut env = highway(Autoreset::NextStep);
        let mut buffers = StepBuffers::new(env.shape());
        env.reset(3, &mut buffers.observations)
            .expect("the right size");
        let mut n_collisions = 0;
        for _ in 0..300 {
            let actions: Vec<f32> = (0..12)
                .flat_map(|row| {
                    let o = &buffers.observations[row * 14..(row + 1) * 14];
                    let gap = 100.0 * o[2];
                    let wanted = 4.0 + 1.5 * 30.0 * o[0];
                    let cautious = (0.05 * (gap - wanted) + 5.0 * o[3]).clamp(-1.0, 1.0);
                    [if careful { cautious } else { 1.0 }, 0.0]
                })
                .collect();
            env.step(&actions, &mut buffers).expect("valid actions");
            n_collisions += buffers.terminated.iter().filter(|&&t| t).count();
        }
        n_collisions
    };
    assert!(run(false) > 0);
    assert_eq!(run(true), 0);
}

#[test]
fn wrong_sizes_and_nan_actions_are_refused() {
    let mut env = lane_keeping(Autoreset::NextStep);
    let mut buffers = StepBuffers::new(env.shape());
    assert!(env.reset(0, &mut [0.0; 3]).is_err());
    assert!(env.step(&[0.0; 39], &mut buffers).is_err());
    assert!(env.step(&[f32::NAN; 40], &mut buffers).is_err());
    let none = LaneKeepingConfig {
        n_worlds: 0,
        ..LaneKeepingConfig::default()
    };
    assert!(LaneKeepingEnv::new(none).is_err());
    let crowded = HighwayEnvConfig {
        n_agents: 9,
        highway: HighwayConfig {
            n_cars: 5,
            ..HighwayConfig::default()
        },
        ..HighwayEnvConfig::default()
    };
    assert!(HighwayEnv::new(crowded).is_err());
}
