//! The algorithm harness's five scenarios, as closed loops.
//!
//! ```text
//! straight        30 s at 30 m/s, curvature noise of 5e-4 per sample
//! s-curve         20 s at 20 m/s, 0.003 (as published 0.01) sin(2 pi 0.1 t)
//! lane change     15 s at 30 m/s, from 5 to 9 s 0.0013 (as published 0.005) sin(2 pi p)
//! low speed       30 s, up to 5 m/s and down again, two bends of 0.03 (as published 0.05)
//! emergency stop  10 s from 25 m/s, -6 m/s^2 from 3 s on
//! ```
//!
//! The harness replays states and ignores what the controller answers. Here its
//! curvature over time becomes a road, at the speed it was meant for, and the car has to
//! stay on it. As published three of the roads ask for more than the harness's car holds: 4 and 4.5 m/s^2 at openpilot's limit of
//! 3 m/s^2 and 2 m/s^2 by torque, and at 5 m/s 1.25 m/s^2 within 2.5 s of a wheel that takes 2 s to
//! follow. [`built_in`] asks for less than seven tenths of what torque holds, lag included; [`beyond_the_car`] has the
//! published three, which no torque controller can drive.
//!
//! Figures: montge/openpilot 0450b81a, scenario generator (MIT).

use super::{Difficulty, Scenario, ScenarioKind};
use crate::Profile;
use crate::random::Philox;
use crate::road::{RoadDescription, Segment};

const DT: f64 = 0.01;

/// The five scenarios, as sharp as the default car can drive them by torque. `seed` drives the
/// first one's curvature noise.
pub fn built_in(seed: u64) -> Vec<Scenario> {
    vec![
        highway_straight(seed),
        tight_s_curve(0.003, Difficulty::Hard),
        highway_lane_change(0.0013, Difficulty::Medium),
        low_speed_maneuver(0.03, Difficulty::Medium),
        emergency_stop(),
    ]
}

/// The three roads that are sharper as published than the default car can hold by torque: what a
/// controller does when it is asked for too much. Their names say so.
pub fn beyond_the_car() -> Vec<Scenario> {
    let extreme = Difficulty::Extreme;
    let mut all = vec![
        tight_s_curve(0.01, extreme),
        highway_lane_change(0.005, extreme),
        low_speed_maneuver(0.05, extreme),
    ];
    for scenario in &mut all {
        scenario.name.push_str(" beyond the car");
        scenario.description.push_str(", more than torque holds");
    }
    all
}

/// The road that a car drives whose curvature (1/m) and speed (m/s) over time are given.
///
/// One segment per `dt` s, curvature linear between samples, up to `duration` s.
/// Speeds below 0.1 m/s count as 0.1 m/s, so that the road goes on while a car stands. There are at most a
/// million segments, and none for a duration or step that is no positive number: such a road is no road.
pub fn road_from_curvature(
    duration: f64,
    dt: f64,
    curvature: impl Fn(f64) -> f64,
    speed: impl Fn(f64) -> f64,
) -> RoadDescription {
    let is_sound = duration > 0.0 && dt > 0.0;
    let n = if is_sound {
        (duration / dt).round().min(1e6) as usize
    } else {
        0
    };
    let segments = (0..n).map(|i| {
        let (from, to) = (i as f64 * dt, (i + 1) as f64 * dt);
        let v = 0.5 * (speed(from) + speed(to));
        Segment::clothoid(v.max(0.1) * dt, curvature(from), curvature(to))
    });
    RoadDescription {
        segments: segments.collect(),
        ..RoadDescription::default()
    }
}

fn scenario(
    name: &str,
    description: &str,
    kind: ScenarioKind,
    difficulty: Difficulty,
    speed: f64,
    duration: f64,
) -> Scenario {
    Scenario {
        description: description.to_owned(),
        kind,
        difficulty,
        ..Scenario::straight(name, speed, duration)
    }
}

fn highway_straight(seed: u64) -> Scenario {
    let noise: Vec<f64> = {
        let mut random = Philox::new(seed, 0);
        (0..=3000).map(|_| 5e-4 * random.next_normal()).collect()
    };
    Scenario {
        road: road_from_curvature(
            30.0,
            DT,
            |t| noise[((t / DT).round() as usize).min(3000)],
            |_| 30.0,
        ),
        seed,
        ..scenario(
            "highway_straight",
            "30 m/s on a straight road whose curvature jitters",
            ScenarioKind::HighwayStraight,
            Difficulty::Easy,
            30.0,
            30.0,
        )
    }
}

fn tight_s_curve(sharpest: f64, difficulty: Difficulty) -> Scenario {
    let curvature = |t: f64| sharpest * (std::f64::consts::TAU * 0.1 * t).sin();
    Scenario {
        road: road_from_curvature(20.0, DT, curvature, |_| 20.0),
        ..scenario(
            "tight_s_curve",
            &format!(
                "20 m/s through bends of {:.0} m radius, left and right",
                1.0 / sharpest
            ),
            ScenarioKind::HighwayCurve,
            difficulty,
            20.0,
            20.0,
        )
    }
}

fn highway_lane_change(sharpest: f64, difficulty: Difficulty) -> Scenario {
    let curvature = |t: f64| {
        if (5.0..9.0).contains(&t) {
            sharpest * (std::f64::consts::TAU * (t - 5.0) / 4.0).sin()
        } else {
            0.0
        }
    };
    Scenario {
        road: road_from_curvature(15.0, DT, curvature, |_| 30.0),
        ..scenario(
            "highway_lane_change",
            "30 m/s, one period of a sine of curvature",
            ScenarioKind::HighwayLaneChange,
            difficulty,
            30.0,
            15.0,
        )
    }
}

fn low_speed_maneuver(sharpest: f64, difficulty: Difficulty) -> Scenario {
    let points = vec![[0.0, 0.1], [5.0, 5.0], [25.0, 5.0], [30.0, 0.1]];
    let speed = Profile::new(points).expect("ordered, finite points");
    let bump = |t: f64, from: f64| (std::f64::consts::PI * (t - from) / 5.0).sin();
    let curvature = |t: f64| match t {
        t if (10.0..15.0).contains(&t) => sharpest * bump(t, 10.0),
        t if (20.0..25.0).contains(&t) => -sharpest * bump(t, 20.0),
        _ => 0.0,
    };
    let mut scenario = Scenario {
        road: road_from_curvature(30.0, DT, curvature, |t| speed.at(t)),
        ..scenario(
            "low_speed_maneuver",
            &format!(
                "up to 5 m/s and down again, two bends of {:.0} m radius",
                1.0 / sharpest
            ),
            ScenarioKind::LowSpeedManeuver,
            difficulty,
            0.1,
            30.0,
        )
    };
    scenario.requests.cruise_speed = Some(speed);
    scenario
}

fn emergency_stop() -> Scenario {
    let mut scenario = scenario(
        "emergency_stop",
        "25 m/s, then -6 m/s^2 to a stop",
        ScenarioKind::EmergencyStop,
        Difficulty::Hard,
        25.0,
        10.0,
    );
    let points = vec![[3.0, 0.0], [3.0, -6.0]];
    scenario.requests.acceleration = Some(Profile::new(points).expect("ordered, finite points"));
    scenario.requests.acceleration_limits = Some([-8.0, 2.0]);
    let stopped = 3.0 + 25.0 / 6.0;
    let speeds = vec![[3.0, 25.0], [stopped, 0.0]];
    scenario.requests.cruise_speed = Some(Profile::new(speeds).expect("ordered, finite points"));
    let mut actuators = scenario.vehicle.actuators();
    actuators.deceleration_max = 8.0;
    scenario.vehicle.actuators = Some(actuators);
    scenario
}
