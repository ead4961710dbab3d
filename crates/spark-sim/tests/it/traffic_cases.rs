//! What rollouts on any GPU must do where there are other road users: the same bits as the CPU, for every rule of
//! an actor. Run on a stand-in driver by `it` and on the GPU of the machine by `gpu`; that every figure of an actor
//! shows in the outcomes, so that equal bits mean something, is in `traffic_figures`.

#![allow(unsafe_code, reason = "vouches for a snippet of CUDA C")]

use crate::device_cases::{check_same_bits, on_cpu, own, pid_and_long};
use spark_mem::Device;
use spark_sim::Profile;
use spark_sim::control::{
    Action, AlgorithmFactory, CudaControl, LaneAlgorithm, LaneSetup, LateralTorque,
    LateralTorqueConfig, PerLane, PerfectTracking, State, named,
};
use spark_sim::integrate::Integrator;
use spark_sim::metric::{Collision, Metrics};
use spark_sim::random::Philox;
use spark_sim::run::{RunReport, ScenarioResult};
use spark_sim::scenario::{Fuzzer, Scenario, alks, ncap};
use spark_sim::traffic::{Actor, Idm, Krauss, Lateral, Longitudinal, ReplayPoint, Shape, Trigger};
use spark_sim::vehicle::VehicleModel;

fn perfect() -> impl AlgorithmFactory {
    named("perfect", || PerfectTracking).with_cuda(CudaControl::perfect_tracking())
}

fn torque() -> impl AlgorithmFactory {
    let config = LateralTorqueConfig::default();
    let control = CudaControl::lateral_torque(&config);
    named("torque", move || LateralTorque::new(config.clone())).with_cuda(control)
}

/// Sets the speed by everything that it is told of the car ahead.
const RADAR: &str = r"
struct Control {
  struct Memory {};
  __device__ static void update(const sim::State& s, const sim::Car& car, const float* gains,
                                Memory& memory, sim::Action& action) {
    action.accel = s.a_target + gains[0] * s.lead_present + gains[1] * (s.lead_d_rel - 200.0f)
                   + gains[2] * s.lead_v_rel + gains[3] * s.lead_a_rel;
  }
};
";
const RADAR_GAINS: [f32; 4] = [0.1, 1e-3, 0.03, 0.2];

/// The same in Rust.
struct Radar;

impl LaneAlgorithm for Radar {
    fn reset(&mut self, _setup: &LaneSetup) {}
    fn update(&mut self, s: &State<f32>) -> Action<f32> {
        let gains = RADAR_GAINS;
        let accel = s.a_target
            + gains[0] * s.lead_present
            + gains[1] * (s.lead_d_rel - 200.0)
            + gains[2] * s.lead_v_rel
            + gains[3] * s.lead_a_rel;
        Action {
            accel,
            ..Action::default()
        }
    }
}

pub(crate) fn radar_control() -> CudaControl {
    // SAFETY: the snippet writes its action only, and reads the four gains.
    unsafe { CudaControl::new(RADAR, RADAR_GAINS.to_vec(), None, true) }.expect("a valid snippet")
}

fn radar() -> impl AlgorithmFactory {
    named("radar", || PerLane::new(None, true, || Radar)).with_cuda(radar_control())
}

/// A few of every family of scenarios that has other road users.
fn standard() -> Vec<Scenario> {
    let some = |all: Vec<Scenario>, n: usize| {
        let every = (all.len() / n).max(1);
        all.into_iter().step_by(every)
    };
    let mut scenarios: Vec<Scenario> = Fuzzer::new(21).iter(60).collect();
    scenarios.extend(some(alks::cut_in(), 24));
    scenarios.extend(some(alks::cut_out(), 12));
    scenarios.extend(some(alks::lead_brake(), 8));
    scenarios.extend(some(alks::blocking_target(), 10));
    scenarios.extend(some(alks::swerving_lead(), 5));
    let protocol = ncap::Protocol::V2026;
    let tests = [
        ncap::standing(protocol),
        ncap::moving(protocol),
        ncap::braking(protocol),
    ];
    for test in tests {
        let all = test.iter().map(ncap::CarToCarRear::scenario);
        scenarios.extend(some(all.collect(), 4));
    }
    for (i, scenario) in scenarios.iter_mut().enumerate() {
        vary(scenario, i);
    }
    scenarios
}

/// Both models and rules; short enough to be interpreted.
fn vary(scenario: &mut Scenario, i: usize) {
    scenario.duration_s = scenario.duration_s.min(16.0);
    if i.is_multiple_of(2) {
        scenario.vehicle.model = VehicleModel::SingleTrack;
    }
    scenario.vehicle.integrator = match i / 2 % 3 {
        0 => Integrator::Rk4,
        _ => Integrator::Euler,
    };
}

const SHAPES: [Shape; 4] = [
    Shape::CAR,
    Shape::TRUCK,
    Shape::MOTORBIKE,
    Shape::PEDESTRIAN,
];

/// An actor of any kind, somewhere about a car that starts at `speed`.
fn any_actor(random: &mut Philox, speed: f64) -> Actor {
    let mut between = |low: f64, high: f64| random.next_in(low, high);
    let trigger = if between(0.0, 1.0) < 0.5 {
        Trigger::At(between(0.0, 4.0))
    } else {
        Trigger::GapBelow(between(0.0, 40.0))
    };
    let longitudinal = match between(0.0, 6.0) as usize {
        0 => Longitudinal::Speed(
            // A jump, and an end before the scenario's.
            Profile::new(vec![
                [0.5, between(0.0, speed)],
                [2.0, between(0.0, speed)],
                [2.0, between(0.0, speed)],
                [5.0, between(0.0, speed)],
            ])
            .expect("ordered"),
        ),
        1 => Longitudinal::Brake {
            trigger,
            deceleration: between(0.5, 9.0),
            final_speed: between(0.0, 5.0),
        },
        2 => Longitudinal::Idm(Idm {
            desired_speed: between(5.0, 1.3 * speed),
            time_gap: between(0.5, 2.0),
            ..Idm::default()
        }),
        3 => Longitudinal::Krauss(Krauss {
            desired_speed: between(5.0, 1.3 * speed),
            imperfection: between(0.0, 1.0),
            ..Krauss::default()
        }),
        4 => {
            let mut point = ReplayPoint {
                t: between(-1.0, 0.5),
                s: between(-20.0, 60.0),
                d: between(-4.0, 4.0),
            };
            let points = (0..12).map(|_| {
                point.t += between(0.01, 1.0);
                point.s += between(0.0, speed);
                point.d += between(-0.5, 0.5);
                point
            });
            Longitudinal::Replay(points.collect())
        }
        _ => Longitudinal::Hold,
    };
    let offset = [0.0, 3.5, -3.5][between(0.0, 3.0) as usize];
    let lateral = match between(0.0, 4.0) as usize {
        0 => Lateral::Change {
            trigger,
            to: between(-1.0, 1.0),
            peak_speed: between(0.3, 3.0),
            acceleration: between(-2.0, 2.0),
            speed_goal: between(0.0, 1.5 * speed),
        },
        1 => Lateral::Offset(
            Profile::new(vec![
                [0.0, offset],
                [between(0.5, 4.0), between(-2.0, 2.0)],
                [6.0, offset],
            ])
            .expect("ordered"),
        ),
        _ => Lateral::Keep,
    };
    Actor {
        shape: SHAPES[between(0.0, 4.0) as usize],
        distance: between(-30.0, 120.0),
        offset,
        speed: between(0.0, speed),
        longitudinal,
        lateral,
    }
}

/// Roads, cars and noise of the fuzzer with none to many actors of all kinds.
pub(crate) fn crowds() -> Vec<Scenario> {
    let mut random = Philox::new(5, 9);
    let mut scenarios: Vec<Scenario> = Fuzzer::new(33).iter(120).collect();
    for (i, scenario) in scenarios.iter_mut().enumerate() {
        let speed = scenario.start.speed;
        let n_actors = [0, 1, 1, 2, 3, 5, 9][random.next_index(7)];
        scenario.actors = (0..n_actors)
            .map(|_| any_actor(&mut random, speed))
            .collect();
        vary(scenario, i);
        scenario.duration_s = 8.0;
        let noise = &mut scenario.environment.noise;
        match i % 4 {
            0 => *noise = Default::default(),
            1 => {
                noise.lead_acceleration.white_sd = 0.3;
                noise.lead_distance.bias_sd = 0.5;
                noise.lead_speed.bias = -0.2;
            }
            // The lead's speed is told, the car's own is not, and the other way round.
            2 => noise.speed = Default::default(),
            _ => noise.lead_speed = Default::default(),
        }
    }
    // A street full of people, and followers in a row.
    let mut street = Scenario::straight("street", 10.0, 6.0);
    street.actors = (0..60).map(|_| any_actor(&mut random, 10.0)).collect();
    scenarios.push(street);
    let mut column = Scenario::straight("column", 25.0, 8.0);
    column.actors = (0..20)
        .map(|i| Actor {
            distance: 20.0 + 12.0 * f64::from(i),
            offset: 0.0,
            speed: 25.0 - f64::from(i),
            shape: SHAPES[i as usize % 2],
            longitudinal: match i % 2 {
                0 => Longitudinal::Idm(Idm::default()),
                _ => Longitudinal::Krauss(Krauss::default()),
            },
            lateral: Lateral::Keep,
        })
        .collect();
    scenarios.push(column);
    // The car follows a follower, whose leader is slower and brakes.
    for (i, longitudinal) in [
        Longitudinal::Idm(Idm::default()),
        Longitudinal::Krauss(Krauss::default()),
    ]
    .into_iter()
    .enumerate()
    {
        let mut row = Scenario::straight("row", 22.0, 12.0);
        let ahead = |distance: f64, speed: f64, longitudinal: Longitudinal| Actor {
            shape: SHAPES[i],
            distance,
            offset: 0.0,
            speed,
            longitudinal,
            lateral: Lateral::Keep,
        };
        let slows = Profile::new(vec![[2.0, 15.0], [5.0, 8.0], [9.0, 12.0]]).expect("ordered");
        row.actors = vec![
            ahead(45.0, 20.0, longitudinal),
            ahead(75.0, 15.0, Longitudinal::Speed(slows)),
        ];
        scenarios.push(row);
    }
    scenarios
}

/// The car drives into two others side by side, at speeds of their own, and touches both first in the same step; and into each of
/// them alone.
fn gates() -> Vec<Scenario> {
    let post = |offset: f64, speed: f64| Actor {
        shape: Shape::CAR,
        distance: 15.0,
        offset,
        speed,
        longitudinal: Longitudinal::Hold,
        lateral: Lateral::Keep,
    };
    let (left, right) = (post(1.2, 0.0), post(-1.2, 0.02));
    let gates = [
        vec![left.clone(), right.clone()],
        vec![right.clone(), left.clone()],
        vec![left],
        vec![right],
    ];
    let gate = |actors| {
        let mut gate = Scenario::straight("gate", 20.0, 4.0);
        // It sees them and does not mind, so that all drives are the same.
        gate.requests.acceleration = Some(Profile::constant(0.0));
        gate.actors = actors;
        gate
    };
    gates.map(gate).into()
}

/// Of two that are hit in one step the first in the list counts, with its speed.
fn the_first_of_two_counts(drives: &[ScenarioResult]) {
    let hit = |drive: &ScenarioResult| {
        let metrics = drive.outcome.as_ref().expect("a drive");
        metrics.collision.expect("a collision")
    };
    let hits: Vec<Collision> = drives.iter().map(hit).collect();
    let [both, turned, left, right] = hits[..] else {
        panic!("{} drives", hits.len());
    };
    for hit in [both, turned, left, right] {
        assert_eq!((hit.time_s, hit.actor_idx), (left.time_s, 0));
    }
    assert_eq!([both, turned], [left, right]);
    assert_ne!(left, right);
}

fn count(report: &RunReport, holds: impl Fn(&Metrics) -> bool) -> usize {
    let driven = report.results.iter().flat_map(|r| r.outcome.as_ref());
    driven.filter(|metrics| holds(metrics)).count()
}

/// The scenarios of every family of the library.
pub(crate) fn standard_scenarios_have_the_bits_of_the_cpu(device: &Device) {
    let scenarios = standard();
    check_same_bits(device, &pid_and_long(), &scenarios);
    check_same_bits(device, &perfect(), &scenarios);
    let drives = on_cpu().run(&scenarios, &pid_and_long());
    let seen = [
        ("collisions", count(&drives, |m| m.collision.is_some())),
        ("leads", count(&drives, |m| m.gap_min.is_some())),
        ("gaps in time", count(&drives, |m| m.headway_min.is_some())),
        (
            "times to collision",
            count(&drives, |m| m.ttc_min.is_some()),
        ),
        (
            "nobody",
            count(&drives, |m| m.ttc_min.is_none() && m.gap_min.is_none()),
        ),
    ];
    for (what, n) in seen {
        assert!(n >= 5, "{n} {what}");
    }
}

/// Actors of all kinds, from none to sixty of them.
pub(crate) fn any_actors_have_the_bits_of_the_cpu(device: &Device) {
    let mut scenarios = crowds();
    let n_crowds = scenarios.len();
    scenarios.extend(gates());
    check_same_bits(device, &pid_and_long(), &scenarios);
    check_same_bits(device, &torque(), &scenarios);
    check_same_bits(device, &own([1e-3, 1e-5, 4.0]), &scenarios);
    check_same_bits(device, &radar(), &scenarios);
    let drives = on_cpu().run(&scenarios, &pid_and_long());
    let n_hits = count(&drives, |m| m.collision.is_some());
    assert!(n_hits > 20 && n_hits < scenarios.len() / 2, "{n_hits}");
    the_first_of_two_counts(&drives.results[n_crowds..]);
    let later = |m: &Metrics| m.collision.is_some_and(|hit| hit.actor_idx > 0);
    assert!(count(&drives, later) > 3);
}

/// Figures that pass validation and make infinite or undefined numbers of an actor's place and speed.
pub(crate) fn actors_that_overflow_have_the_bits_of_the_cpu(device: &Device) {
    let lead = |longitudinal: Longitudinal, lateral: Lateral| Actor {
        shape: Shape::CAR,
        distance: 40.0,
        offset: 0.0,
        speed: 15.0,
        longitudinal,
        lateral,
    };
    let point = |t: f64, s: f64, d: f64| ReplayPoint { t, s, d };
    let huge = 1e308;
    let profile = |points: &[[f64; 2]]| Profile::new(points.to_vec()).expect("finite");
    let rules = [
        Longitudinal::Speed(profile(&[[0.0, 10.0], [1.0, huge], [1.5, 0.0]])),
        Longitudinal::Speed(profile(&[[0.0, 0.0], [1e-300, huge], [2.0, huge]])),
        Longitudinal::Replay(vec![
            point(0.0, 30.0, 0.0),
            point(1.0, huge, -huge),
            point(2.0, -huge, huge),
            point(3.0, 50.0, 0.0),
        ]),
        Longitudinal::Replay(vec![point(1e-9, -huge, 0.0), point(1e9, huge, 0.0)]),
        Longitudinal::Idm(Idm {
            acceleration: huge,
            ..Idm::default()
        }),
        Longitudinal::Idm(Idm {
            time_gap: f64::NAN,
            standstill_gap: f64::INFINITY,
            deceleration: huge,
            ..Idm::default()
        }),
        Longitudinal::Idm(Idm {
            desired_speed: 1e-308,
            standstill_gap: f64::NAN,
            ..Idm::default()
        }),
        Longitudinal::Krauss(Krauss {
            acceleration: huge,
            desired_speed: huge,
            ..Krauss::default()
        }),
        Longitudinal::Krauss(Krauss {
            imperfection: f64::NAN,
            reaction_time: f64::NEG_INFINITY,
            standstill_gap: f64::NAN,
            ..Krauss::default()
        }),
        Longitudinal::Brake {
            trigger: Trigger::At(f64::NAN),
            deceleration: 5.0,
            final_speed: f64::INFINITY,
        },
        Longitudinal::Brake {
            trigger: Trigger::GapBelow(f64::INFINITY),
            deceleration: 5.0,
            final_speed: 0.0,
        },
    ];
    let changes = [
        Lateral::Keep,
        Lateral::Change {
            trigger: Trigger::At(0.0),
            to: huge,
            peak_speed: 1e-308,
            acceleration: f64::INFINITY,
            speed_goal: f64::INFINITY,
        },
        Lateral::Change {
            trigger: Trigger::GapBelow(f64::NAN),
            to: 3.0,
            peak_speed: 1.0,
            acceleration: f64::NAN,
            speed_goal: f64::NAN,
        },
        Lateral::Change {
            trigger: Trigger::GapBelow(30.0),
            to: 3.0,
            peak_speed: 1.0,
            acceleration: f64::NEG_INFINITY,
            speed_goal: f64::NEG_INFINITY,
        },
        Lateral::Offset(profile(&[
            [0.0, 0.0],
            [1.0, huge],
            [2.0, -huge],
            [3.0, 0.0],
        ])),
    ];
    let mut scenarios = Vec::new();
    for rule in &rules {
        for change in &changes {
            let mut scenario = Scenario::straight("overflow", 20.0, 4.0);
            let follower = Actor {
                distance: 20.0,
                ..lead(Longitudinal::Krauss(Krauss::default()), Lateral::Keep)
            };
            // Who follows meets a leader whose place and speed are no numbers.
            let own = lead(rule.clone(), change.clone());
            scenario.actors = vec![own, follower];
            scenario.actors.push(Actor {
                distance: 10.0,
                ..lead(Longitudinal::Idm(Idm::default()), Lateral::Keep)
            });
            scenarios.push(scenario.clone());
            scenario.environment.noise.lead_speed = 0.2.into();
            scenario.environment.noise.lead_distance = 0.2.into();
            scenario.environment.noise.lead_acceleration = 0.2.into();
            scenario.actors.truncate(1);
            scenarios.push(scenario);
        }
    }
    check_same_bits(device, &pid_and_long(), &scenarios);
    check_same_bits(device, &radar(), &scenarios);
}
