//! Noise acts: every kind in every channel moves a drive, and has the statistics it is given.

use super::*;
use crate::Profile;
use crate::control::{
    Action, AlgorithmFactory, Combined, LaneAlgorithm, LaneSetup, LateralPid, LateralPidConfig,
    LateralTorque, LateralTorqueConfig, Longitudinal, LongitudinalConfig, PerLane, PerfectTracking,
    State, named,
};
use crate::metric::Metrics;
use crate::road::Segment;
use crate::run::{RunOptions, Simulator};
use crate::scenario::{Fuzzer, PresenceNoise, SensorNoise};
use crate::traffic::{Actor, Lateral, Longitudinal as Speed, Shape};
use crate::vehicle::SteerInterface;
use spark_hal::config::DeviceChoice;

/// Bends with banks, behind a car whose speed changes all the time.
fn winding(seed: u64) -> Scenario {
    let mut scenario = Scenario::straight("winding", 18.0, 12.0);
    scenario.seed = seed;
    scenario.start.offset = 0.3;
    // Short segments, so that every channel changes all the time.
    let curvature = |i: u32| 0.004 * (0.3 * f64::from(i)).sin();
    let segments = (0..60).map(|i| Segment {
        bank: 0.02 * f64::from(i).sin(),
        ..Segment::clothoid(4.3, curvature(i), curvature(i + 1))
    });
    scenario.road.segments = segments.collect();
    let speeds = (0..30).map(|i| [0.5 * f64::from(i), 16.0 + 3.0 * f64::from(i).sin()]);
    scenario.actors = vec![Actor {
        shape: Shape::CAR,
        distance: 45.0,
        offset: 0.0,
        speed: 16.0,
        longitudinal: Speed::Speed(Profile::new(speeds.collect()).expect("rising times")),
        lateral: Lateral::Keep,
    }];
    scenario
}

/// A controller that listens to every channel.
struct Listener;

impl LaneAlgorithm for Listener {
    fn reset(&mut self, _: &LaneSetup) {}
    fn update(&mut self, s: &State<f32>) -> Action<f32> {
        let heard = s.lateral_offset + 2.0 * s.heading_error + 3.0 * s.road_curvature;
        let heard = heard + 5.0 * s.yaw_rate + 0.7 * s.steering_angle_deg + 11.0 * s.roll;
        let ahead = s.lead_d_rel + 2.0 * s.lead_v_rel + 3.0 * s.lead_a_rel + 5.0 * s.lead_present;
        Action {
            steer: s.desired_curvature + 1e-5 * heard,
            accel: s.a_target + 1e-3 * ahead,
            saturated: 0.0,
        }
    }
}

fn listener() -> impl AlgorithmFactory {
    named("listener", || {
        PerLane::new(Some(SteerInterface::Curvature), true, || Listener)
    })
}

fn drive_all(scenarios: &[Scenario], factory: &dyn AlgorithmFactory) -> Vec<Metrics> {
    let options = RunOptions {
        device: Some(DeviceChoice::Cpu),
        ..RunOptions::default()
    };
    let report = Simulator::new(options)
        .expect("valid options")
        .run(scenarios, factory);
    let results = report.results.into_iter();
    results
        .map(|r| r.outcome.expect("a finished drive"))
        .collect()
}

type Change = fn(&mut ChannelNoise);

const KINDS: [(&str, Change); 7] = [
    ("bias", |n| n.bias = 0.02),
    ("bias_sd", |n| n.bias_sd = 0.02),
    ("white_sd", |n| n.white_sd = 0.02),
    ("ar1_sd", |n| n.ar1_sd = 0.02),
    ("rate_hz", |n| n.rate_hz = Some(4.0)),
    ("latency_s", |n| n.latency_s = 0.2),
    ("dropout", |n| n.dropout = 0.2),
];

/// The channels by name, for changing one of a scenario's.
fn channel_of<'a>(noise: &'a mut SensorNoise, name: &str) -> &'a mut ChannelNoise {
    match name {
        "offset" => &mut noise.offset,
        "heading" => &mut noise.heading,
        "curvature" => &mut noise.curvature,
        "speed" => &mut noise.speed,
        "yaw_rate" => &mut noise.yaw_rate,
        "steering_angle" => &mut noise.steering_angle,
        "roll" => &mut noise.roll,
        "lead_distance" => &mut noise.lead_distance,
        "lead_speed" => &mut noise.lead_speed,
        "lead_acceleration" => &mut noise.lead_acceleration,
        other => panic!("no channel {other}"),
    }
}

#[test]
fn every_kind_of_noise_of_every_channel_moves_the_drive() {
    let mut scenarios = vec![winding(1)];
    let mut names = vec!["none".to_owned()];
    let all = SensorNoise::default();
    for (channel, _) in all.channels() {
        for (kind, change) in KINDS {
            let mut scenario = winding(1);
            change(channel_of(&mut scenario.environment.noise, channel));
            scenarios.push(scenario);
            names.push(format!("{channel}.{kind}"));
        }
        // What modifies another kind: longer losses, a slower wander.
        for (what, change) in [
            (
                "dropout_frames",
                (|n| (n.dropout, n.dropout_frames) = (0.2, 9)) as Change,
            ),
            ("ar1_time_s", |n| (n.ar1_sd, n.ar1_time_s) = (0.02, 0.1)),
        ] {
            let mut scenario = winding(1);
            change(channel_of(&mut scenario.environment.noise, channel));
            scenarios.push(scenario);
            names.push(format!("{channel}.{what}"));
        }
    }
    let metrics = drive_all(&scenarios, &listener());
    for (i, name) in names.iter().enumerate() {
        let same = (0..i).find(|&j| metrics[i] == metrics[j]);
        assert_eq!(same.map(|j| &names[j]), None, "{name} drives like another");
    }
}

/// Who listens to the lead hears the same without one, whether or not a neighbour has one.
#[test]
fn a_neighbour_with_other_road_users_leaves_every_bit_of_a_noisy_car_alone() {
    let with_lead = winding(3);
    let mut alone = with_lead.clone();
    alone.actors.clear();
    alone.environment.noise.speed = 0.2.into();
    let by_itself = drive_all(&[alone.clone()], &listener());
    let beside = drive_all(&[alone, with_lead], &listener());
    assert_eq!(beside[0], by_itself[0]);
}

#[test]
fn every_field_of_lead_presence_moves_the_drive() {
    let with = |presence: PresenceNoise| {
        let mut scenario = winding(1);
        // The lead leaves the lane and comes back, so that there is something to see late.
        let offsets = vec![[3.1, 0.0], [4.3, 3.5], [6.2, 3.5], [7.4, 0.0]];
        scenario.actors[0].lateral = Lateral::Offset(Profile::new(offsets).expect("rising times"));
        scenario.environment.noise.lead_presence = presence;
        scenario
    };
    let none = PresenceNoise::NONE;
    let scenarios = [
        with(none),
        with(PresenceNoise {
            rate_hz: Some(2.0),
            ..none
        }),
        with(PresenceNoise {
            latency_s: 0.3,
            ..none
        }),
        with(PresenceNoise {
            dropout: 0.05,
            ..none
        }),
        with(PresenceNoise {
            dropout: 0.05,
            dropout_frames: 40,
            ..none
        }),
    ];
    let metrics = drive_all(&scenarios, &listener());
    for i in 0..metrics.len() {
        for j in 0..i {
            assert_ne!(metrics[i], metrics[j], "{i} and {j}");
        }
    }
}

/// A planner that plans from the truth would let this pass unnoticed.
#[test]
fn noise_of_what_the_planner_reads_reaches_the_built_in_controllers() {
    let pid = named("pid and long", || {
        Combined::new(
            LateralPid::new(LateralPidConfig::default()),
            Longitudinal::new(LongitudinalConfig::default()),
        )
    });
    let torque = named("torque", || {
        LateralTorque::new(LateralTorqueConfig::default())
    });
    let perfect = named("perfect", || PerfectTracking);
    let scenarios = |change: &dyn Fn(&mut SensorNoise)| -> Vec<Scenario> {
        let mut scenarios: Vec<Scenario> = Fuzzer::new(42).iter(20).collect();
        for scenario in &mut scenarios {
            scenario.duration_s = 4.0;
            scenario.environment.noise = SensorNoise::default();
            change(&mut scenario.environment.noise);
        }
        scenarios
    };
    let count = |factory: &dyn AlgorithmFactory, change: &dyn Fn(&mut SensorNoise)| {
        let quiet = drive_all(&scenarios(&|_| {}), factory);
        let noisy = drive_all(&scenarios(change), factory);
        let moved = quiet.iter().zip(&noisy).filter(|(q, n)| q != n);
        moved.count()
    };
    for factory in [&pid as &dyn AlgorithmFactory, &torque, &perfect] {
        for channel in ["offset", "heading", "curvature", "speed"] {
            let change = |n: &mut SensorNoise| *channel_of(n, channel) = 0.01.into();
            assert_eq!(count(factory, &change), 20, "{channel}");
        }
    }
    assert_eq!(count(&pid, &|n| n.steering_angle = 0.1.into()), 20);
    assert_eq!(count(&torque, &|n| n.roll = 0.01.into()), 20);
    let with_lead = scenarios(&|_| {})
        .iter()
        .filter(|s| !s.actors.is_empty())
        .count();
    for channel in ["lead_distance", "lead_speed", "lead_acceleration"] {
        let change = |n: &mut SensorNoise| *channel_of(n, channel) = 5.0.into();
        let moved = count(&pid, &change);
        assert!(
            2 * moved > with_lead && moved <= with_lead,
            "{channel}: {moved} of {with_lead}"
        );
    }
}

#[test]
fn a_car_that_believes_itself_half_a_metre_left_drives_half_a_metre_right() {
    let mut scenario = Scenario::straight("biased", 20.0, 30.0);
    scenario.environment.noise.offset.bias = 0.5;
    let metrics = &drive_all(&[scenario], &named("perfect", || PerfectTracking))[0];
    // Metrics follow the truth.
    assert!(
        (metrics.lateral_error_max - 0.5).abs() < 0.02,
        "{metrics:?}"
    );
}

#[test]
fn noise_of_size_zero_leaves_every_bit_also_beside_noisy_neighbours() {
    let quiet = winding(1);
    let mut zero = winding(1);
    zero.environment.noise = SensorNoise::level(0.0);
    zero.environment.noise.offset.ar1_time_s = 9.0;
    zero.environment.noise.offset.dropout_frames = 3;
    let mut loud = winding(1);
    loud.environment.noise = SensorNoise::level(2.0);
    let alone = drive_all(&[quiet], &listener());
    let together = drive_all(&[loud.clone(), zero.clone(), loud], &listener());
    assert_eq!(together[1], alone[0]);
    assert_ne!(together[0], alone[0]);
    assert_eq!(together[0], together[2]);
}

#[test]
fn a_seed_is_a_run_and_another_seed_another() {
    let noisy = |seed: u64| {
        let mut scenario = winding(seed);
        scenario.environment.noise = SensorNoise::level(1.0);
        scenario
    };
    let runs = drive_all(&[noisy(1), noisy(2), noisy(1)], &listener());
    assert_eq!(runs[0], runs[2]);
    assert_ne!(runs[0], runs[1]);
}

/// What a sensor tells of a constant, step by step.
fn tell(noise: ChannelNoise, seed: u64, n_steps: usize) -> Vec<f64> {
    let mut scenario = Scenario::straight("x", 10.0, 1.0);
    scenario.seed = seed;
    let mut sensor = Sensor::new(Channel::Offset, &noise, &scenario);
    let told = (0..n_steps).map(|i| f64::from(sensor.read(i, || [0.0; 2])[0]));
    told.collect()
}

fn sd(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares = values.iter().map(|x| (x - mean).powi(2));
    (squares.sum::<f64>() / values.len() as f64).sqrt()
}

#[test]
fn noise_has_the_spread_and_memory_it_is_given() {
    let white = tell(ChannelNoise::white(0.3), 1, 20_000);
    assert!((sd(&white) - 0.3).abs() < 0.01, "{}", sd(&white));
    let wander = ChannelNoise {
        ar1_sd: 0.5,
        ar1_time_s: 0.2,
        ..ChannelNoise::NONE
    };
    let wander = tell(wander, 1, 200_000);
    assert!((sd(&wander) - 0.5).abs() < 0.03, "{}", sd(&wander));
    // After its time constant, 20 steps, 1/e is left.
    let products = wander.iter().zip(&wander[20..]).map(|(a, b)| a * b);
    let correlation = products.sum::<f64>() / (199_980.0 * 0.25);
    assert!(
        (correlation - (-1.0_f64).exp()).abs() < 0.05,
        "{correlation}"
    );
    let biased = ChannelNoise {
        bias: 1.0,
        bias_sd: 0.2,
        ..ChannelNoise::NONE
    };
    let biases: Vec<f64> = (0..2000).map(|seed| tell(biased, seed, 3)[2]).collect();
    let mean = biases.iter().sum::<f64>() / 2000.0;
    assert!((mean - 1.0).abs() < 0.02 && (sd(&biases) - 0.2).abs() < 0.01);
}

#[test]
fn frames_hold_arrive_late_and_get_lost_as_described() {
    // The truth is the step, so that a reading says when it was taken.
    let read = |frames: Frames, channel: Channel, n_steps: usize| -> Vec<usize> {
        let mut sensor = Sensor::of_frames(channel, frames, &Scenario::straight("x", 1.0, 1.0));
        let told = (0..n_steps).map(|i| sensor.read(i, || [(i + 1) as f32; 2])[0] as usize);
        told.collect()
    };
    let camera = Frames {
        rate_hz: Some(20.0),
        latency_s: 0.0,
        dropout: 0.0,
        dropout_frames: 1,
    };
    let held = read(camera, Channel::Offset, 1000);
    assert!(held.iter().enumerate().all(|(i, &x)| x == i / 5 * 5 + 1));
    let late = Frames {
        latency_s: 0.03,
        ..camera
    };
    let late = read(late, Channel::Offset, 1000);
    // A frame of step 5 is told at step 8; before that, the first one.
    assert_eq!(&late[..15], [1, 1, 1, 1, 1, 1, 1, 1, 6, 6, 6, 6, 6, 11, 11]);
    let lossy = Frames {
        rate_hz: None,
        dropout: 0.02,
        dropout_frames: 5,
        ..camera
    };
    let told = read(lossy, Channel::Offset, 100_000);
    let lost = told
        .iter()
        .enumerate()
        .filter(|(i, x)| **x != i + 1)
        .count();
    // A step is told if none of the five before began a loss that reaches it.
    let told_share = (0..5).map(|j| 1.0 - 0.02 * f64::from(5 - j) / 5.0);
    let want = 1.0 - told_share.product::<f64>();
    let share = lost as f64 / 100_000.0;
    assert!((share - want).abs() < 0.005, "{share}, expected {want}");
    let seen = read(lossy, Channel::LeadPresence, 100_000);
    let unseen = seen.iter().filter(|x| **x == 0).count() as f64 / 100_000.0;
    assert!((unseen - want).abs() < 0.005, "{unseen}");
}

/// Correlation of two series.
fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let mean = |x: &[f64]| x.iter().sum::<f64>() / x.len() as f64;
    let (mean_a, mean_b) = (mean(a), mean(b));
    let mut sums = [0.0; 3];
    for (x, y) in a.iter().zip(b) {
        let (x, y) = (x - mean_a, y - mean_b);
        for (sum, product) in sums.iter_mut().zip([x * y, x * x, y * y]) {
            *sum += product;
        }
    }
    sums[0] / (sums[1] * sums[2]).sqrt()
}

/// Errors of one sensor alone, a frame per step.
fn errors(channel: Channel, noise: &ChannelNoise, n_frames: u64) -> Vec<f64> {
    let mut sensor = Sensor::new(channel, noise, &winding(3));
    (0..n_frames)
        .map(|frame| sensor.error(frame, frame == 0))
        .collect()
}

#[test]
fn noise_of_one_channel_says_nothing_about_another_nor_one_kind_about_another() {
    let n_frames = 4000;
    let white = ChannelNoise::white(1.0);
    let wandering = ChannelNoise {
        ar1_sd: 1.0,
        // Forgotten within a step: as white, from a stream of its own.
        ar1_time_s: 1e-3,
        ..ChannelNoise::NONE
    };
    let mut series = Vec::new();
    for channel in Channel::NUMBERS {
        series.push((
            format!("{channel:?} white"),
            errors(channel, &white, n_frames),
        ));
        series.push((
            format!("{channel:?} ar1"),
            errors(channel, &wandering, n_frames),
        ));
    }
    // Five standard errors of a correlation of independent series.
    let most = 5.0 / (n_frames as f64).sqrt();
    for (i, (name, one)) in series.iter().enumerate() {
        for (other_name, other) in &series[i + 1..] {
            let r = correlation(one, other);
            assert!(r.abs() < most, "{name}, {other_name}: {r}");
        }
    }
    // Constant errors of many seeds, likewise; 300 drives.
    let biased = ChannelNoise {
        bias_sd: 1.0,
        ..ChannelNoise::NONE
    };
    let biases = |channel: usize| -> Vec<f64> {
        (0..300).map(|seed| bias(&biased, channel, seed)).collect()
    };
    for channel in 1..10 {
        let r = correlation(&biases(0), &biases(channel));
        assert!(r.abs() < 5.0 / 300.0_f64.sqrt(), "channel {channel}: {r}");
    }
}

/// As its documentation says: a loss every 20 s, 0.3 s long in the mean; frames every 50 s.
#[test]
fn at_level_one_the_lead_and_frames_are_lost_as_often_as_documented() {
    let level = SensorNoise::level(1.0);
    let scenario = winding(5);
    let n_frames = 400_000;
    // Losses that begin and frames that are lost.
    let count = |mut sensor: Sensor| {
        let (mut n_begun, mut n_lost, mut was_lost) = (0, 0, false);
        for frame in 0..n_frames {
            let is_lost = sensor.is_lost(frame);
            n_begun += u64::from(is_lost && !was_lost);
            n_lost += u64::from(is_lost);
            was_lost = is_lost;
        }
        (n_begun as f64, n_lost as f64)
    };
    let presence = Sensor::of_frames(
        Channel::LeadPresence,
        level.lead_presence.frames(),
        &scenario,
    );
    let seconds = n_frames as f64 / 20.0;
    assert_eq!(level.lead_presence.rate_hz, Some(20.0));
    let (n_begun, n_lost) = count(presence);
    let (every_s, long_s) = (seconds / n_begun, n_lost / 20.0 / n_begun);
    assert!((18.5..22.0).contains(&every_s), "{every_s} s");
    assert!((0.28..0.33).contains(&long_s), "{long_s} s");
    for (channel, own) in [
        (Channel::Offset, &level.offset),
        (Channel::LeadDistance, &level.lead_distance),
    ] {
        let (n_begun, n_lost) = count(Sensor::new(channel, own, &scenario));
        let (every_s, long) = (seconds / n_begun, n_lost / n_begun);
        assert!((44.0..56.0).contains(&every_s), "{channel:?}: {every_s} s");
        assert!((2.2..2.8).contains(&long), "{channel:?}: {long} frames");
    }
}
