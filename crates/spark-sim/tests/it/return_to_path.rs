//! Coming back to the path from any offset: no controller keeps swinging, and where each ends.
//!
//! ```text
//! straight road, no noise, a car 0.4 to 3 m beside its lane's centre
//! swing    peak to peak lateral acceleration of the last third, m/s^2
//! away     largest distance from the centre in it, m
//! ```
//!
//! The signals are large here: torque saturates and its rate is limited, which a small pulse
//! (`steering.rs`) does not reach. Every test prints what it found.
//!
//! What remains with torque and PID is hunting: near the centre corrections are smaller than friction, so the wheel stays
//! until they have grown, and the car passes the middle. Torque goes little beyond friction, from side to side takes 8 s.

use crate::steering::{QUIET, lateral_acceleration, torque_controller, traces_with};
use crate::support::worse;
use spark_hal::config::DeviceChoice;
use spark_sim::control::planner::PlannerConfig;
use spark_sim::control::{
    AlgorithmFactory, LateralPid, LateralPidConfig, Lqr, LqrConfig, PerfectTracking, PurePursuit,
    PurePursuitConfig, named,
};
use spark_sim::run::{RunOptions, Simulator, TraceRow};
use spark_sim::scenario::Scenario;
use spark_sim::vehicle::{VehicleModel, VehiclePreset};
use std::collections::HashMap;

const SPEEDS: [f64; 12] = [
    3.0, 4.0, 5.0, 6.0, 7.5, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0,
];
const OFFSETS: [f64; 4] = [0.4, 1.0, 2.0, 3.0];
/// Where torque control and PID stay in the end, m.
const NEAR_TORQUE: f64 = 0.5;
const NEAR_PID: f64 = 0.9;
/// Most torque beyond friction that the end of a drive may take, share of full torque.
const MOST_TORQUE: f64 = 0.05;

/// The figure that was largest, and in which drive.
#[derive(Default)]
struct Largest(f64, String);

impl Largest {
    fn see(&mut self, size: f64, name: &str) {
        if self.1.is_empty() || size.is_nan() || size > self.0 {
            *self = Self(size, name.to_owned());
        }
    }
}

/// Largest swing, distance from the centre, and torque beyond the friction (share of full torque) in the last third.
#[derive(Default)]
struct Outcome {
    swing: Largest,
    away: Largest,
    torque: Largest,
}

fn beside(preset: VehiclePreset, model: VehicleModel, speed: f64, offset: f64, s: f64) -> Scenario {
    let name = format!("{preset:?} {model:?} {speed} m/s, {offset} m beside");
    let mut scenario = Scenario::straight(name, speed, s);
    scenario.vehicle.preset = preset;
    scenario.vehicle.model = model;
    scenario.start.offset = offset;
    scenario
}

/// Smallest and largest of some figures.
fn range(figures: impl Iterator<Item = f64>) -> [f64; 2] {
    figures.fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], x| {
        [-worse(-low, -x), worse(high, x)]
    })
}

fn outcome(
    planner: PlannerConfig,
    scenarios: Vec<Scenario>,
    factory: &dyn AlgorithmFactory,
) -> Outcome {
    let mut found = Outcome::default();
    let friction: HashMap<String, f64> = scenarios
        .iter()
        .map(|scenario| {
            let actuators = scenario.vehicle.actuators();
            let share = actuators.torque_friction / actuators.lateral_acceleration_at_full_torque;
            (scenario.name.clone(), share)
        })
        .collect();
    traces_with(planner, scenarios, factory, |name, rows: &[TraceRow]| {
        let last = rows.last().expect("rows").time;
        let late = || rows.iter().filter(|row| row.time > last * 2.0 / 3.0);
        let [low, high] = range(late().map(lateral_acceleration));
        found.swing.see(high - low, name);
        let [_, farthest] = range(late().map(|row| row.d.abs()));
        found.away.see(farthest, name);
        let [right, left] = range(late().map(|row| row.steer_command));
        found
            .torque
            .see(0.5 * (left - right) - friction[name], name);
    });
    found
}

fn print(what: &str, found: &Outcome) {
    println!(
        "{what}: swing {:.3} m/s^2 ({}), away {:.2} m ({}), torque {:.3} beyond friction ({})",
        found.swing.0, found.swing.1, found.away.0, found.away.1, found.torque.0, found.torque.1
    );
}

/// Every built-in lateral controller, and how near the centre it stays in the end, m.
fn controllers() -> [(Box<dyn AlgorithmFactory>, f64); 5] {
    let pid = named("pid", || LateralPid::new(LateralPidConfig::default()));
    let perfect = named("perfect", || PerfectTracking);
    let lqr = named("lqr", || Lqr::new(LqrConfig::default()));
    let pursuit = named("pure pursuit", || {
        PurePursuit::new(PurePursuitConfig::default())
    });
    // Where friction holds the wheel, a small offset moves nothing; nothing makes up for friction in a PID.
    [
        (Box::new(torque_controller(1.0, 0.0, 1.0)), NEAR_TORQUE),
        (Box::new(pid), NEAR_PID),
        (Box::new(perfect), 0.1),
        (Box::new(lqr), 0.15),
        (Box::new(pursuit), 0.1),
    ]
}

#[test]
fn no_controller_swings_after_any_offset_in_any_preset_at_any_speed() {
    let mut broken = Vec::new();
    for (factory, near) in controllers() {
        let mut scenarios = Vec::new();
        for preset in VehiclePreset::ALL {
            for model in [VehicleModel::Kinematic, VehicleModel::SingleTrack] {
                for speed in SPEEDS {
                    for offset in OFFSETS {
                        scenarios.push(beside(preset, model, speed, offset, 60.0));
                    }
                }
            }
        }
        let found = outcome(PlannerConfig::default(), scenarios, &*factory);
        print(factory.name(), &found);
        // Written so that NaN does not pass.
        let is_quiet = found.swing.0 < QUIET && found.torque.0 < MOST_TORQUE;
        if !(is_quiet && found.away.0 < near) {
            broken.push(factory.name().to_owned());
        }
    }
    assert!(broken.is_empty(), "{broken:?}");
}

/// Pure pursuit plans for itself: with too short a look ahead wheels turn too slowly for it.
#[test]
fn pure_pursuit_that_looks_too_little_ahead_swings_far_beside_its_path() {
    let scenario = beside(
        VehiclePreset::Truck,
        VehicleModel::Kinematic,
        6.0,
        3.0,
        60.0,
    );
    let check = |time: f64| {
        let config = PurePursuitConfig {
            time,
            ..PurePursuitConfig::default()
        };
        let pursuit = named("pure pursuit", move || PurePursuit::new(config));
        let found = outcome(PlannerConfig::default(), vec![scenario.clone()], &pursuit);
        print("pure pursuit", &found);
        found.swing.0
    };
    assert!(check(0.9) > 5.0);
    assert!(check(PurePursuitConfig::default().time) < 0.01);
}

/// The planner of a car that comes back in seconds, whatever its speed, and at any angle.
const HASTY: PlannerConfig = PlannerConfig {
    path_frequency: 0.6,
    path_length: 1e-3,
    path_damping: 1.0,
    approach_angle: 10.0,
    preview_s: 0.2,
    personality: spark_sim::control::planner::Personality::Standard,
};

/// Without the planner's length and angle the same cars do swing: the test above can fail.
#[test]
fn coming_back_as_fast_when_slow_as_when_fast_swings_at_full_torque() {
    let torque = torque_controller(1.0, 0.0, 1.0);
    for preset in [
        VehiclePreset::Sedan,
        VehiclePreset::Suv,
        VehiclePreset::Truck,
    ] {
        let scenario = beside(preset, VehicleModel::Kinematic, 5.0, 1.0, 120.0);
        let found = outcome(HASTY, vec![scenario.clone()], &torque);
        print("hasty", &found);
        assert!(found.swing.0 > 1.0, "{}", found.swing.0);
        let found = outcome(PlannerConfig::default(), vec![scenario], &torque);
        print("default", &found);
        assert!(found.swing.0 < 0.05, "{}", found.swing.0);
    }
}

/// `SPARK_FULL_TESTS=1` drives every speed and offset, and prints what other lengths would do.
#[test]
fn mistaken_controllers_do_not_swing_after_any_offset_either() {
    let full = spark_testing::settings::full_tests();
    let default = PlannerConfig::default().path_length;
    let (lengths, offsets, step) = match full {
        true => (
            vec![default, 16.0, 14.0, 12.5, 10.0],
            vec![0.4, 1.0, 2.0, 3.0, 7.0],
            1,
        ),
        false => (vec![default], vec![1.0, 3.0], 4),
    };
    let mistakes = [
        (1.0, 0.0, 1.0),
        (1.0, 0.05, 0.7),
        (1.0, 0.05, 1.0),
        (1.0, 0.05, 1.3),
        (0.5, 0.05, 1.0),
        (1.5, 0.05, 1.0),
    ];
    let mut broken = 0;
    for path_length in lengths {
        let planner = PlannerConfig {
            path_length,
            ..PlannerConfig::default()
        };
        for (friction_share, late_s, gain) in mistakes {
            for model in [VehicleModel::Kinematic, VehicleModel::SingleTrack] {
                let mut scenarios = Vec::new();
                for preset in VehiclePreset::ALL {
                    let mut actuators = preset.actuators();
                    actuators.steer_delay_s += late_s;
                    actuators.lateral_acceleration_at_full_torque *= gain;
                    for half in (2..=24).step_by(step) {
                        for &offset in &offsets {
                            let speed = 0.5 * f64::from(half);
                            let mut scenario = beside(preset, model, speed, offset, 120.0);
                            scenario.vehicle.actuators = Some(actuators);
                            scenarios.push(scenario);
                        }
                    }
                }
                let torque = torque_controller(friction_share, late_s, gain);
                let found = outcome(planner, scenarios, &torque);
                let what = format!(
                    "length {path_length} m, {model:?}, friction x {friction_share}, {late_s} s late, gain {gain}"
                );
                print(&what, &found);
                broken += usize::from(path_length == default && found.swing.0 >= QUIET);
            }
        }
    }
    assert_eq!(broken, 0);
}

#[test]
fn a_planner_that_leads_nowhere_is_refused() {
    type Set = fn(&mut PlannerConfig, f64);
    let set: [(Set, &str); 5] = [
        (|p, v| p.path_frequency = v, "path frequency"),
        (|p, v| p.path_length = v, "path length"),
        (|p, v| p.approach_angle = v, "approach angle"),
        (|p, v| p.path_damping = v, "path damping"),
        (|p, v| p.preview_s = v, "preview"),
    ];
    for (set, name) in set {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 1e30] {
            let mut planner = PlannerConfig::default();
            set(&mut planner, value);
            let options = RunOptions::default()
                .with_planner(planner)
                .with_device(DeviceChoice::Cpu);
            let refused = Simulator::new(options).expect_err("refused").to_string();
            assert!(refused.contains(name), "{name} {value}: {refused}");
        }
    }
    let options = RunOptions::default()
        .with_planner(PlannerConfig::default())
        .with_device(DeviceChoice::Cpu);
    assert!(Simulator::new(options).is_ok());
}
