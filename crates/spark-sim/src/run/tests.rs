//! The closed loop: same bits for any threads, symmetry, collisions, faults in their place.

use super::*;
use crate::control::{
    Action, ActionBatch, Algorithm, AlgorithmFactory, Combined, DoNothing, LaneAlgorithm,
    LaneSetup, LateralPid, LateralPidConfig, LateralTorque, LateralTorqueConfig, Longitudinal,
    LongitudinalConfig, PerLane, PerfectTracking, State, StateBatch, named,
};
use crate::integrate::Integrator;
use crate::metric::Metrics;
use crate::profile::Profile;
use crate::road::{RoadDescription, Segment};
use crate::scenario::{Scenario, SensorNoise};
use crate::traffic::{Actor, Lateral, Longitudinal as Speed, Shape, Trigger};
use crate::vehicle::{SteerInterface, VehicleModel, VehiclePreset};
use std::time::Duration;

fn bends() -> RoadDescription {
    RoadDescription {
        segments: vec![
            Segment::straight(60.0),
            Segment::clothoid(80.0, 0.0, 0.004),
            Segment::arc(120.0, 0.004),
            Segment::clothoid(160.0, 0.004, -0.004),
            Segment {
                grade: 0.03,
                bank: 0.02,
                ..Segment::arc(200.0, -0.004)
            },
        ],
        ..RoadDescription::default()
    }
}

/// Scenarios that differ in everything that a lane can differ in.
fn mixed(n: usize) -> Vec<Scenario> {
    (0..n)
        .map(|i| {
            let mut scenario = Scenario::straight(format!("mixed {i}"), 12.0 + (i % 7) as f64, 0.0);
            scenario.duration_s = 6.0 + (i % 5) as f64;
            scenario.seed = i as u64;
            scenario.dt_s = if i % 3 == 0 { 0.02 } else { 0.01 };
            scenario.vehicle.preset = VehiclePreset::ALL[i % 6];
            if i % 4 == 1 {
                scenario.vehicle.model = VehicleModel::SingleTrack;
                scenario.dt_s = 0.01;
            }
            if i % 2 == 0 {
                scenario.road = bends();
            }
            if i % 3 == 1 {
                scenario.environment.noise = SensorNoise {
                    offset: 0.05.into(),
                    speed: 0.1.into(),
                    ..SensorNoise::default()
                };
            }
            if i % 4 == 2 {
                scenario.environment.noise = SensorNoise::level(0.5 + 0.1 * (i % 16) as f64);
            }
            if i % 5 == 2 {
                scenario.actors.push(Actor {
                    shape: Shape::CAR,
                    distance: 50.0,
                    offset: 0.0,
                    speed: 10.0,
                    longitudinal: Speed::Brake {
                        trigger: Trigger::At(2.0),
                        deceleration: 4.0,
                        final_speed: 2.0,
                    },
                    lateral: Lateral::Keep,
                });
            }
            scenario
        })
        .collect()
}

fn driver() -> impl AlgorithmFactory {
    named("pid and long control", || {
        Combined::new(
            LateralPid::new(LateralPidConfig::default()),
            Longitudinal::new(LongitudinalConfig::default()),
        )
    })
}

fn run(options: RunOptions, scenarios: &[Scenario], factory: &dyn AlgorithmFactory) -> RunReport {
    Simulator::new(options)
        .expect("valid options")
        .run(scenarios, factory)
}

fn drive(scenario: Scenario, factory: &dyn AlgorithmFactory) -> Metrics {
    let mut report = run(RunOptions::default(), &[scenario], factory);
    report.results.remove(0).outcome.expect("a finished drive")
}

#[test]
fn results_have_the_same_bits_for_any_threads_and_blocks() {
    let scenarios = mixed(90);
    let bits = |options: RunOptions| {
        let options = RunOptions {
            record_interval_s: Some(0.5),
            ..options
        };
        let report = run(options, &scenarios, &driver());
        report
            .results
            .iter()
            .map(|r| format!("{} {:?} {:?}", r.name, r.outcome, r.trace))
            .collect::<Vec<_>>()
    };
    let one_by_one = bits(RunOptions {
        threads: Some(1),
        block_size: 1,
        ..RunOptions::default()
    });
    for (n_threads, block_size, chunk_size) in
        [(1, 64, 4096), (3, 7, 4096), (2, 17, 40), (4, 4096, 1)]
    {
        let other = bits(RunOptions {
            threads: Some(n_threads),
            block_size,
            chunk_size,
            ..RunOptions::default()
        });
        assert_eq!(
            one_by_one, other,
            "{n_threads} threads, blocks of {block_size}"
        );
    }
}

#[test]
fn streaming_gives_the_results_of_a_whole_run_in_order() {
    let scenarios = mixed(30);
    let whole = run(RunOptions::default(), &scenarios, &driver());
    let simulator = Simulator::new(RunOptions {
        chunk_size: 7,
        ..RunOptions::default()
    })
    .expect("valid options");
    let (mut results, mut progress) = (Vec::new(), Vec::new());
    let (n, _) = simulator.stream(
        scenarios.clone(),
        &driver(),
        |result| results.push(result),
        |n_done| progress.push(n_done),
    );
    assert_eq!(n, 30);
    assert_eq!(progress, [7, 14, 21, 28, 30]);
    for (i, (got, want)) in results.iter().zip(&whole.results).enumerate() {
        assert_eq!(got.index, i);
        assert_eq!(format!("{:?}", got.outcome), format!("{:?}", want.outcome));
    }
}

#[test]
fn built_in_controllers_follow_a_winding_road() {
    let check = |name: &str, factory: &dyn AlgorithmFactory, model, worst_m: f64| {
        let mut scenario = Scenario::straight("bends", 15.0, 40.0);
        scenario.road = bends();
        scenario.vehicle.model = model;
        let metrics = drive(scenario, factory);
        assert!(
            metrics.lateral_error_max < worst_m,
            "{name} {model:?}: {metrics:?}"
        );
        assert!(
            (metrics.distance_m - 600.0).abs() < 12.0,
            "{name}: {metrics:?}"
        );
    };
    let torque = named("torque", || {
        LateralTorque::new(LateralTorqueConfig::default())
    });
    let perfect = named("perfect", || PerfectTracking);
    for model in [VehicleModel::Kinematic, VehicleModel::SingleTrack] {
        check("perfect", &perfect, model, 0.4);
        check("pid", &driver(), model, 0.8);
        check("torque", &torque, model, 0.8);
    }
}

#[test]
fn doing_nothing_leaves_the_road_in_a_bend() {
    let mut scenario = Scenario::straight("bends", 20.0, 20.0);
    scenario.road = bends();
    let metrics = drive(scenario, &named("nothing", || DoNothing));
    assert!(metrics.lateral_error_max > 5.0 && metrics.off_road_ratio > 0.1);
}

#[test]
fn the_next_state_follows_from_the_command() {
    // Closed loop means: a constant steering command must bend the path.
    struct Steer(f32);
    impl Algorithm for Steer {
        fn reset(&mut self, _: &[LaneSetup]) {}
        fn update(&mut self, _: &StateBatch, action: &mut ActionBatch) {
            action.steer.fill(self.0);
        }
        fn steer_interface(&self) -> Option<SteerInterface> {
            Some(SteerInterface::Curvature)
        }
        fn controls_speed(&self) -> bool {
            false
        }
    }
    let left = drive(
        Scenario::straight("left", 10.0, 3.0),
        &named("left", || Steer(0.01)),
    );
    let straight = drive(
        Scenario::straight("straight", 10.0, 3.0),
        &named("no", || Steer(0.0)),
    );
    // Half a 1/100 m arc over the 30 m driven, less what delay and lag cost.
    assert!((2.5..4.5).contains(&left.lateral_error_max), "{left:?}");
    assert!(straight.lateral_error_max < 1e-4, "{straight:?}");
}

#[test]
fn road_coordinates_agree_with_world_coordinates() {
    // Drive along the road in f32, then rebuild the same motion in the world in f64.
    let mut scenario = Scenario::straight("bends", 15.0, 35.0);
    scenario.road = bends();
    scenario.start.offset = 0.5;
    let options = RunOptions {
        record_interval_s: Some(0.01),
        ..RunOptions::default()
    };
    let report = run(
        options,
        &[scenario.clone()],
        &named("perfect", || PerfectTracking),
    );
    let trace = report.results[0].trace.as_ref().expect("a trace");
    let road = crate::road::Road::new(&scenario.road).expect("a road");
    let first = &trace.rows[0];
    let mut pose = road.to_world(first.s, first.d, first.heading);
    for pair in trace.rows.windows(2) {
        // Midpoint rule with the recorded curvatures and speeds.
        let v = 0.5 * (pair[0].speed + pair[1].speed);
        let turn = 0.5 * (pair[0].curvature + pair[1].curvature) * v * 0.01;
        let heading = pose.heading + 0.5 * turn;
        pose.x += v * 0.01 * heading.cos();
        pose.y += v * 0.01 * heading.sin();
        pose.heading += turn;
    }
    let last = trace.rows.last().expect("rows");
    let want = road.to_world(last.s, last.d, last.heading);
    let distance = (pose.x - want.x).hypot(pose.y - want.y);
    assert!(distance < 0.03, "{distance} m apart after 525 m");
}

#[test]
fn following_stops_behind_a_braking_lead_and_collisions_end_a_drive() {
    let mut scenario = Scenario::straight("brake", 20.0, 20.0);
    scenario.actors.push(Actor {
        shape: Shape::CAR,
        distance: 50.0,
        offset: 0.0,
        speed: 20.0,
        longitudinal: Speed::Brake {
            trigger: Trigger::At(1.0),
            deceleration: 3.0,
            final_speed: 0.0,
        },
        lateral: Lateral::Keep,
    });
    let careful = drive(scenario.clone(), &driver());
    assert!(careful.collision.is_none(), "{careful:?}");
    assert!(careful.gap_min.expect("a lead") > 1.0, "{careful:?}");
    let careless = drive(scenario, &named("nothing", || DoNothing));
    let collision = careless.collision.expect("a collision");
    assert!(
        (15.0..=18.0).contains(&collision.closing_speed),
        "{collision:?}"
    );
    assert!(careless.duration_s < 20.0);
    assert_eq!(careless.ttc_min, Some(0.0));
}

/// Misbehaves in the scenarios whose start speed says so.
struct Faulty {
    speed: f32,
    n_updates: usize,
}

impl LaneAlgorithm for Faulty {
    fn reset(&mut self, _: &LaneSetup) {}
    fn update(&mut self, state: &State<f32>) -> Action<f32> {
        self.n_updates += 1;
        if self.n_updates == 1 {
            self.speed = state.v_ego;
        }
        if self.n_updates == 10 {
            assert!(self.speed != 11.0, "eleven is too fast for me");
            if self.speed == 12.0 {
                return Action {
                    steer: f32::NAN,
                    ..Action::default()
                };
            }
        }
        Action::default()
    }
}

#[test]
fn one_faulty_scenario_does_not_spoil_the_batch() {
    let mut scenarios: Vec<Scenario> = (0..20)
        .map(|i| Scenario::straight(format!("s{i}"), f64::from(i), 1.0))
        .collect();
    scenarios[3].vehicle.parameters = Some(crate::vehicle::VehicleParameters {
        mass: -1.0,
        ..VehiclePreset::Sedan.parameters()
    });
    scenarios[4].start.speed = f64::NAN;
    let factory = named("faulty", || {
        PerLane::new(Some(SteerInterface::Angle), true, || Faulty {
            speed: 0.0,
            n_updates: 0,
        })
    });
    let report = run(RunOptions::default(), &scenarios, &factory);
    for (i, result) in report.results.iter().enumerate() {
        let text = format!("{:?}", result.outcome);
        match i {
            3 | 4 => assert!(
                matches!(result.outcome, Err(ScenarioError::Invalid(_))),
                "{text}"
            ),
            11 => assert!(text.contains("eleven is too fast"), "{text}"),
            12 => assert!(
                matches!(
                    result.outcome,
                    Err(ScenarioError::ActionNotFinite { step_idx: 9, .. })
                ),
                "{text}"
            ),
            _ => assert!(result.outcome.is_ok(), "{i}: {text}"),
        }
    }
}

#[test]
fn a_controller_slower_than_the_deadline_fails_and_says_so() {
    struct Slow;
    impl Algorithm for Slow {
        fn reset(&mut self, _: &[LaneSetup]) {}
        fn update(&mut self, _: &StateBatch, _: &mut ActionBatch) {
            std::thread::sleep(Duration::from_millis(5));
        }
        fn steer_interface(&self) -> Option<SteerInterface> {
            None
        }
        fn controls_speed(&self) -> bool {
            false
        }
    }
    let options = RunOptions {
        deadline: Some(Duration::from_millis(1)),
        ..RunOptions::default()
    };
    let scenarios = [Scenario::straight("slow", 10.0, 1.0)];
    let report = run(options, &scenarios, &named("slow", || Slow));
    let error = report.results[0].outcome.as_ref().expect_err("a failure");
    assert!(matches!(
        error,
        ScenarioError::DeadlineMissed { step_idx: 0, .. }
    ));
}

/// A neighbour's many requests make the loop look at everybody's: that must change nothing, however
/// long the drive.
#[test]
fn results_do_not_depend_on_what_neighbours_ask_for() {
    let with_requests = |name: &str, every_s: f64| {
        let mut scenario = Scenario::straight(name, 20.0, 300.0);
        scenario.road = bends();
        let times = (1..(280.0 / every_s) as usize).map(|i| i as f64 * every_s);
        let speed = |t: f64| 20.0 + (t * 3.0).sin();
        let points = times.map(|t| [t, speed(t)]).collect();
        scenario.requests.cruise_speed = Some(crate::Profile::new(points).expect("rising times"));
        scenario
    };
    let own = with_requests("own", 7.013);
    let busy = with_requests("busy", 0.03);
    let alone = drive(own.clone(), &driver());
    let report = run(RunOptions::default(), &[own, busy], &driver());
    assert_eq!(
        report.results[0].outcome.as_ref().expect("finished"),
        &alone
    );
}

#[test]
fn an_empty_batch_has_no_results() {
    let report = run(RunOptions::default(), &[], &driver());
    assert!(report.results.is_empty());
}

#[cfg(not(feature = "cuda"))]
#[test]
fn a_gpu_is_refused_by_a_program_built_without_one() {
    let options = RunOptions {
        device: Some(spark_hal::config::DeviceChoice::Cuda(None)),
        ..RunOptions::default()
    };
    assert!(matches!(
        Simulator::new(options),
        Err(crate::SimError::NoGpu { .. })
    ));
}

#[test]
fn mirrored_roads_give_mirrored_drives() {
    let drive_along = |sign: f64| {
        let mut scenario = Scenario::straight("mirror", 15.0, 30.0);
        scenario.road = bends();
        for segment in &mut scenario.road.segments {
            segment.curvature_start *= sign;
            segment.curvature_end *= sign;
            segment.bank *= sign;
        }
        scenario.start.offset = 0.3 * sign;
        scenario.vehicle.model = VehicleModel::SingleTrack;
        drive(scenario, &driver())
    };
    assert_eq!(drive_along(1.0), drive_along(-1.0));
}

#[test]
fn single_track_cars_creep_stop_and_start_without_spinning() {
    let mut scenarios = Vec::new();
    for preset in VehiclePreset::ALL {
        for integrator in [Integrator::Rk4, Integrator::Euler] {
            // From 6 m/s down to creeping, past the stiff speeds slowly, to a stop, and on again.
            let points = vec![
                [0.0, 6.0],
                [5.0, 1.5],
                [20.0, 0.2],
                [25.0, 0.0],
                [28.0, 0.0],
                [34.0, 6.0],
            ];
            let mut scenario = Scenario::straight(format!("{preset:?} {integrator:?}"), 6.0, 40.0);
            scenario.vehicle.preset = preset;
            scenario.vehicle.model = VehicleModel::SingleTrack;
            scenario.vehicle.integrator = integrator;
            scenario.road.segments = vec![Segment::straight(20.0), Segment::arc(200.0, 0.01)];
            scenario.environment.crosswind = 8.0;
            scenario.requests.cruise_speed = Some(Profile::new(points).expect("a valid profile"));
            scenarios.push(scenario);
        }
    }
    let simulator = Simulator::new(RunOptions::default()).expect("valid options");
    let report = simulator.run(&scenarios, &named("perfect", || PerfectTracking));
    for result in &report.results {
        let metrics = result
            .outcome
            .as_ref()
            .unwrap_or_else(|e| panic!("{}: {e}", result.name));
        // A slow car is led back softly, and the wind keeps pushing.
        assert!(
            metrics.lateral_error_max < 0.65,
            "{}: {metrics:?}",
            result.name
        );
        assert!(
            metrics.lateral_jerk_max < 5.0,
            "{}: {metrics:?}",
            result.name
        );
        assert!(
            metrics.heading_error_rmse < 0.05,
            "{}: {metrics:?}",
            result.name
        );
    }
}
