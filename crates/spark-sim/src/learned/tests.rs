//! Learned dynamics: the challenge's random numbers, tokens, sampling and replay.

use super::challenge::sample;
use super::random::{Draws, seed_of};
use super::segment::parse;
use super::*;
use crate::SimError;

/// Lateral acceleration that follows steering with a lag, certain to a hundredth.
struct Lag;

impl LearnedDynamics for Lag {
    fn predict(
        &mut self,
        n: usize,
        states: &[f32],
        tokens: &[i64],
        logits: &mut [f32],
    ) -> Result<(), String> {
        assert_eq!(states.len(), n * CONTEXT * STATE_SIZE);
        assert_eq!(tokens.len(), n * CONTEXT);
        for i in 0..n {
            let steer = f64::from(states[(i * CONTEXT + CONTEXT - 1) * STATE_SIZE]);
            let last = decode(tokens[i * CONTEXT + CONTEXT - 1] as usize);
            let next = last + 0.4 * (2.0 * steer - last);
            for bin in 0..N_BINS {
                let distance = (decode(bin) - next) / 0.01;
                logits[i * N_BINS + bin] = (-0.5 * distance * distance).max(-1e4) as f32;
            }
        }
        Ok(())
    }
}

fn segment(name: &str, n_rows: usize) -> Segment {
    let rows = (0..n_rows).map(|i| SegmentRow {
        roll_lataccel: 0.0,
        v_ego: 25.0,
        a_ego: 0.0,
        target_lataccel: (i as f64 * 0.05).sin(),
        steer: 0.5 * (i as f64 * 0.05).sin(),
    });
    Segment {
        name: name.to_owned(),
        rows: rows.collect(),
    }
}

#[test]
fn the_seed_is_the_challenges() {
    // int(hashlib.md5(name.encode()).hexdigest(), 16) % 10**4
    for (name, want) in [("", 8_366), ("00000", 5_432), ("message digest", 4_400)] {
        assert_eq!(seed_of(name), want, "{name}");
    }
}

#[test]
fn the_generator_is_numpys() {
    // numpy.random.seed(0); numpy.random.random_sample(3)
    let mut random = Draws::new(0);
    for want in [
        0.548_813_503_927_324_8,
        0.715_189_366_372_419_5,
        0.602_763_376_071_643_9,
    ] {
        assert_eq!(random.uniform(), want);
    }
    // numpy.random.seed(1234); the 700th draw lies beyond the first refill of the state
    let mut random = Draws::new(1234);
    let last = (0..700).map(|_| random.uniform()).last();
    assert_eq!(last, Some(0.279_208_435_231_807_3));
}

#[test]
fn tokens_are_the_first_bin_not_below_the_value() {
    assert_eq!(decode(0), -5.0);
    assert_eq!(decode(N_BINS - 1), 5.0);
    for token in 0..N_BINS {
        assert_eq!(encode(decode(token)), token);
    }
    for (value, want) in [(-9.0, 0), (9.0, N_BINS - 1), (f64::NAN, 0)] {
        assert_eq!(encode(value), want);
    }
    assert_eq!(encode(decode(500) + 1e-9), 501);
}

#[test]
fn sampling_follows_the_cumulative_distribution() {
    let logits = [0.0_f32; 4];
    for (uniform, want) in [(0.0, 0), (0.249, 0), (0.25, 1), (0.76, 3), (0.999_999, 3)] {
        assert_eq!(sample(&logits, uniform), Some(want));
    }
    assert_eq!(sample(&[f32::NAN; 4], 0.5), None);
}

#[test]
fn pid_tracks_better_than_an_idle_controller() {
    struct Idle;
    impl ChallengeController for Idle {
        fn update(&mut self, _: f64, _: f64, _: &ChallengeState, _: &FuturePlan) -> f64 {
            0.0
        }
    }
    let segments = [segment("a", 550), segment("b", 300)];
    let total = |rollouts: Vec<Rollout>| rollouts.iter().map(|r| r.cost.total).sum::<f64>();
    let idle = total(
        Challenge::new(&mut Lag)
            .run(&segments, || Idle)
            .expect("driven"),
    );
    let pid = total(
        Challenge::new(&mut Lag)
            .run(&segments, ChallengePid::default)
            .expect("driven"),
    );
    assert!(pid < 0.2 * idle, "{pid} {idle}");
}

#[test]
fn a_segment_drives_the_same_alone_and_in_a_batch() {
    let segments = [segment("a", 550), segment("b", 300), segment("c", 550)];
    let batch = Challenge::new(&mut Lag)
        .run(&segments, ChallengePid::default)
        .expect("driven");
    for (i, segment) in segments.iter().enumerate() {
        let alone = Challenge::new(&mut Lag)
            .run(std::slice::from_ref(segment), ChallengePid::default)
            .expect("driven");
        assert_eq!(alone[0].lataccel, batch[i].lataccel);
    }
    // a and c differ in nothing but their name, hence their seed.
    assert_ne!(batch[0].lataccel, batch[2].lataccel);
    let other_seed = Challenge::new(&mut Lag)
        .with_seed_offset(1)
        .run(&segments, ChallengePid::default)
        .expect("driven");
    assert_ne!(other_seed[0].lataccel, batch[0].lataccel);
}

#[test]
fn before_step_100_the_log_is_replayed() {
    let rollouts = Challenge::new(&mut Lag)
        .run(&[segment("a", 200)], ChallengePid::default)
        .expect("driven");
    for i in 0..CONTROL_START {
        assert_eq!(rollouts[0].lataccel[i], (i as f64 * 0.05).sin());
    }
    assert_eq!(rollouts[0].lataccel.len(), 200);
}

#[test]
fn bad_segments_and_models_are_errors() {
    struct Broken;
    impl LearnedDynamics for Broken {
        fn predict(&mut self, _: usize, _: &[f32], _: &[i64], l: &mut [f32]) -> Result<(), String> {
            l.fill(f32::NAN);
            Ok(())
        }
    }
    let run = |model: &mut dyn LearnedDynamics, segment: Segment| {
        Challenge::new(model)
            .run(&[segment], ChallengePid::default)
            .expect_err("a refusal")
    };
    assert!(matches!(
        run(&mut Lag, segment("short", 50)),
        SimError::Segment { .. }
    ));
    let mut unknown = segment("unknown", 200);
    unknown.rows[30].steer = f64::NAN;
    assert!(matches!(run(&mut Lag, unknown), SimError::Segment { .. }));
    // Figures of no car overflow the sum of squares, and the network's f32 before that.
    for spoil in [
        |row: &mut SegmentRow| row.target_lataccel = 1e308,
        |row: &mut SegmentRow| row.v_ego = -1e6,
        |row: &mut SegmentRow| row.steer = f64::INFINITY,
    ] {
        let mut odd = segment("odd", 200);
        spoil(&mut odd.rows[150]);
        let error = run(&mut Lag, odd).to_string();
        assert!(error.contains("beyond 1000"), "{error}");
    }
    let mut fast = segment("fast", 200);
    fast.rows[150].v_ego = 999.0;
    fast.rows[150].steer = f64::NAN;
    assert!(fast.check().is_ok());
    let error = run(&mut Broken, segment("fine", 200));
    assert!(
        matches!(error, SimError::Model { step: 100, .. }),
        "{error}"
    );
}

#[test]
fn segments_are_parsed_by_column_name() {
    let text = "t,vEgo,aEgo,roll,targetLateralAcceleration,steerCommand\n\
                0.0,20.0,0.1,0.02,0.5,-0.3\n0.1,20.1,0.1,0.02,0.5,\n";
    let segment = parse(text, "s").expect("valid");
    assert_eq!(segment.rows.len(), 2);
    assert_eq!(segment.rows[0].steer, 0.3);
    assert!((segment.rows[0].roll_lataccel - 9.81 * 0.02_f64.sin()).abs() < 1e-15);
    assert!(segment.rows[1].steer.is_nan());
    for (text, reason) in [
        ("", "empty"),
        ("t,vEgo\n", "`aEgo` is missing"),
        (
            &text.replace("20.1", "fast"),
            "line 3: column `vEgo` holds `fast`",
        ),
    ] {
        let error = parse(text, "s").expect_err("a refusal");
        assert!(error.contains(reason), "{error}");
    }
}
