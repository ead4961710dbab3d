//! No car turns or brakes beyond the grip of its tyres, and none has impossible figures, unnoticed.

use spark_hal::config::DeviceChoice;
use spark_sim::control::{AlgorithmFactory, LateralPid, LateralPidConfig, PerfectTracking, named};
use spark_sim::metric::Metrics;
use spark_sim::road::Segment;
use spark_sim::run::{RunOptions, Simulator};
use spark_sim::scenario::Scenario;
use spark_sim::vehicle::{ActuatorParameters, VehicleModel, VehicleParameters, VehiclePreset};
use spark_sim::{Profile, SimError, integrate::Integrator};

fn drive(scenario: &Scenario, factory: &dyn AlgorithmFactory) -> Metrics {
    let options = RunOptions::default().with_device(DeviceChoice::Cpu);
    let simulator = Simulator::new(options).expect("valid options");
    let mut report = simulator.run(std::slice::from_ref(scenario), factory);
    report.results.remove(0).outcome.expect("a finished drive")
}

fn perfect() -> impl AlgorithmFactory {
    named("perfect", || PerfectTracking)
}

/// A controller that wants to drive circles of 20 m, whatever the speed.
fn circles() -> impl AlgorithmFactory {
    use spark_sim::control::{Action, LaneAlgorithm, LaneSetup, PerLane, State};
    use spark_sim::vehicle::SteerInterface;
    struct Circle;
    impl LaneAlgorithm for Circle {
        fn reset(&mut self, _: &LaneSetup) {}
        fn update(&mut self, _: &State<f32>) -> Action<f32> {
            Action {
                steer: 0.05,
                ..Action::default()
            }
        }
    }
    named("circles", || {
        PerLane::new(Some(SteerInterface::Curvature), false, || Circle)
    })
}

#[test]
fn a_kinematic_car_turns_no_sharper_than_its_grip_and_says_how_long_it_was_at_it() {
    for integrator in [Integrator::Euler, Integrator::Rk4] {
        for (friction, grip) in [(1.0, 9.81), (0.3, 2.943)] {
            let mut scenario = Scenario::straight("circle", 42.0, 2.0);
            scenario.vehicle.integrator = integrator;
            scenario.environment.friction = friction;
            let metrics = drive(&scenario, &circles());
            let most = metrics.lateral_acceleration_max;
            assert!(
                (most - grip).abs() < 0.01 * grip,
                "{integrator:?} {friction}: {most}"
            );
            assert!(metrics.grip_limit_ratio > 0.5, "{metrics:?}");
            // It drives the circle of its grip, of radius v^2 / (mu g), not that of 20 m.
            let turned = metrics.lateral_error_max;
            let radius = 42.0 * 42.0 / grip;
            assert!(
                turned < 0.5 * 84.0 * 84.0 / radius,
                "{turned} m, radius {radius} m"
            );
            assert!(
                turned > 0.5 * 60.0 * 60.0 / radius,
                "{turned} m, radius {radius} m"
            );
        }
    }
    // Slow enough, the same circle is within the grip.
    let metrics = drive(&Scenario::straight("slow", 10.0, 2.0), &circles());
    assert_eq!(metrics.grip_limit_ratio, 0.0);
    assert!((metrics.lateral_acceleration_max - 5.0).abs() < 0.1);
}

#[test]
fn braking_takes_grip_from_turning() {
    let mut scenario = Scenario::straight("brake in a bend", 30.0, 3.0);
    scenario.environment.friction = 0.5;
    let mut actuators = VehiclePreset::Sedan.actuators();
    actuators.deceleration_max = 4.5;
    scenario.vehicle.actuators = Some(actuators);
    let rolling = drive(&scenario, &circles());
    scenario.requests.acceleration = Some(Profile::constant(-4.5));
    scenario.requests.acceleration_limits = Some([-4.5, 2.0]);
    let braking = drive(&scenario, &circles());
    assert!(braking.deceleration_max > 4.4, "{braking:?}");
    assert!(braking.grip_limit_ratio > 0.5);
    // The circle leaves sqrt(4.905^2 - 4.5^2) m/s^2 for turning.
    assert!(braking.lateral_error_max < 0.6 * rolling.lateral_error_max);
}

#[test]
fn slippery_tyres_brake_no_harder_than_they_grip() {
    let mut scenario = Scenario::straight("worn tyres", 30.0, 3.0);
    scenario.requests.acceleration = Some(Profile::constant(-3.5));
    let dry = drive(&scenario, &perfect());
    assert!(dry.deceleration_max > 3.4, "{dry:?}");
    let mut parameters = VehiclePreset::Sedan.parameters();
    parameters.friction = 0.2;
    scenario.vehicle.parameters = Some(parameters);
    let worn = drive(&scenario, &perfect());
    assert!(
        (worn.deceleration_max - 1.962).abs() < 0.01,
        "{} m/s^2",
        worn.deceleration_max
    );
}

#[test]
fn linear_tyres_beyond_their_grip_are_marked_and_ordinary_drives_are_not() {
    let mut scenario = Scenario::straight("st", 42.0, 2.0);
    scenario.vehicle.model = VehicleModel::SingleTrack;
    let metrics = drive(&scenario, &circles());
    assert!(metrics.grip_limit_ratio > 0.3, "{metrics:?}");
    let mut ordinary = Scenario::straight("ordinary", 20.0, 20.0);
    ordinary.road.segments = vec![
        Segment::clothoid(80.0, 0.0, 0.005),
        Segment::arc(100.0, 0.005),
    ];
    let pid = named("pid", || LateralPid::new(LateralPidConfig::default()));
    assert_eq!(drive(&ordinary, &pid).grip_limit_ratio, 0.0);
    assert_eq!(drive(&ordinary, &perfect()).grip_limit_ratio, 0.0);
}

/// What validation says of a scenario changed in one place.
#[track_caller]
fn refused(change: impl FnOnce(&mut Scenario)) -> String {
    let mut scenario = Scenario::straight("x", 20.0, 5.0);
    change(&mut scenario);
    match scenario.validate() {
        Err(error @ SimError::OutOfRange { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

fn car(change: impl FnOnce(&mut VehicleParameters)) -> impl FnOnce(&mut Scenario) {
    move |scenario| {
        let mut car = VehiclePreset::Sedan.parameters();
        change(&mut car);
        scenario.vehicle.parameters = Some(car);
    }
}

fn actuators(change: impl FnOnce(&mut ActuatorParameters)) -> impl FnOnce(&mut Scenario) {
    move |scenario| {
        let mut own = VehiclePreset::Sedan.actuators();
        change(&mut own);
        scenario.vehicle.actuators = Some(own);
    }
}

#[test]
fn figures_that_no_car_has_are_refused_with_quantity_unit_value_and_range() {
    let check = |said: String, parts: &[&str]| {
        assert!(parts.iter().all(|part| said.contains(part)), "{said}");
    };
    let axles =
        |length: f64| car(move |p| (p.front_axle, p.rear_axle) = (0.5 * length, 0.5 * length));
    check(
        refused(axles(1e-6)),
        &["wheelbase (m)", "0.000001", "0.3 and 20"],
    );
    check(
        refused(car(|p| p.steer_ratio = 1e-9)),
        &["steering ratio", "0.5 and 60"],
    );
    let stiff = refused(car(|p| p.cornering_front = 2e5));
    check(
        stiff,
        &[
            "front cornering stiffness (1/rad, per unit of load)",
            "200000",
            "0.5 and 200",
        ],
    );
    check(
        refused(car(|p| p.cornering_rear = 2e5)),
        &["rear cornering stiffness"],
    );
    check(
        refused(car(|p| p.mass = 1.5)),
        &["mass (kg)", "1.5", "30.0 and 100000"],
    );
    check(refused(car(|p| p.mass = 1.5e6)), &["mass (kg)"]);
    check(
        refused(car(|p| p.yaw_inertia = f64::NAN)),
        &["yaw inertia (kg m^2)", "NaN"],
    );
    check(refused(car(|p| p.length = 4700.0)), &["length (m)"]);
    check(refused(car(|p| p.width = 1850.0)), &["width (m)"]);
    check(
        refused(car(|p| p.front_axle = -1.0)),
        &["front axle distance (m)"],
    );
    check(
        refused(car(|p| p.rear_axle = -1.0)),
        &["rear axle distance (m)"],
    );
    check(
        refused(car(|p| p.cog_height = 55.0)),
        &["centre of gravity height (m)"],
    );
    check(refused(car(|p| p.friction = 0.0)), &["friction"]);
    check(
        refused(car(|p| p.steer_max = 36.0)),
        &["steering angle (rad)"],
    );
    check(
        refused(car(|p| p.steer_rate_max = 400.0)),
        &["steering rate (rad/s)"],
    );
    check(refused(car(|p| p.speed_max = 220.0)), &["top speed (m/s)"]);
    check(
        refused(car(|p| p.speed_min = 5.0)),
        &["reverse speed (m/s)"],
    );
    check(
        refused(car(|p| p.switch_speed = 0.0)),
        &["power-limit speed (m/s)"],
    );
    check(
        refused(car(|p| p.acceleration_max = 0.0)),
        &["largest acceleration (m/s^2)"],
    );
    check(
        refused(car(|p| p.wheel_radius = 33.0)),
        &["wheel radius (m)"],
    );
    check(
        refused(car(|p| p.wheel_inertia = 0.0)),
        &["wheel inertia (kg m^2)"],
    );
    check(refused(car(|p| p.brake_front = 66.0)), &["brake share"]);
    check(refused(car(|p| p.engine_front = -0.1)), &["engine share"]);
    check(
        refused(car(|p| p.trailer_wheelbase = 8100.0)),
        &["trailer wheelbase (m)"],
    );

    check(
        refused(actuators(|a| a.steer_delay_s = 100.0)),
        &["steering delay (s)", "0.0 and 2"],
    );
    check(
        refused(actuators(|a| a.steer_lag_s = -0.1)),
        &["steering lag (s)"],
    );
    check(
        refused(actuators(|a| a.acceleration_delay_s = 20.0)),
        &["acceleration delay (s)"],
    );
    check(
        refused(actuators(|a| a.acceleration_lag_s = 20.0)),
        &["acceleration lag (s)"],
    );
    check(
        refused(actuators(|a| a.acceleration_max = 200.0)),
        &["acceleration (m/s^2)"],
    );
    check(
        refused(actuators(|a| a.deceleration_max = -4.0)),
        &["deceleration (m/s^2)"],
    );
    let full = refused(actuators(|a| a.lateral_acceleration_at_full_torque = 0.0));
    check(full, &["at full torque (m/s^2)"]);
    check(
        refused(actuators(|a| a.torque_friction = 100.0)),
        &["friction (m/s^2)"],
    );
    check(
        refused(actuators(|a| a.torque_lateral_acceleration_max = 0.0)),
        &["by torque (m/s^2)"],
    );
    check(
        refused(actuators(|a| a.torque_damping = 0.0)),
        &["damping (m/s^2 per rad/s)"],
    );
    check(
        refused(actuators(|a| a.torque_understeer = 1.0)),
        &["understeer", "(rad s^2/m)"],
    );
    check(
        refused(actuators(|a| a.torque_up = 0.0)),
        &["growth", "(share per s)"],
    );
    check(
        refused(actuators(|a| a.torque_down = f64::INFINITY)),
        &["fall", "(share per s)"],
    );

    check(
        refused(|s| s.start.speed = 99.0),
        &["start speed (m/s)", "99", "top speed"],
    );
    check(
        refused(|s| s.start.speed = 130.0),
        &["start speed (m/s)", "130", "0.0 and 100"],
    );
    let constant = |x: f64| Some(Profile::constant(x));
    check(
        refused(|s| s.requests.cruise_speed = constant(-10.0)),
        &["cruise speed (m/s)"],
    );
    check(
        refused(|s| s.requests.curvature = constant(1e9)),
        &["curvature to drive (1/m)"],
    );
    check(
        refused(|s| s.requests.offset = constant(1e9)),
        &["offset to hold (m)"],
    );
    check(
        refused(|s| s.requests.acceleration = constant(1e9)),
        &["acceleration to drive (m/s^2)"],
    );
}

#[test]
fn karts_and_loaded_trucks_are_plausible() {
    let kart = VehicleParameters {
        length: 1.8,
        width: 1.3,
        mass: 150.0,
        yaw_inertia: 25.0,
        front_axle: 0.6,
        rear_axle: 0.45,
        cog_height: 0.2,
        friction: 1.3,
        steer_ratio: 1.5,
        steer_rate_max: 5.0,
        wheel_radius: 0.13,
        wheel_inertia: 0.05,
        ..VehiclePreset::Sports.parameters()
    };
    let truck = VehicleParameters {
        length: 16.5,
        width: 2.55,
        mass: 40_000.0,
        yaw_inertia: 600_000.0,
        front_axle: 3.5,
        rear_axle: 2.5,
        cog_height: 2.0,
        cornering_front: 5.0,
        cornering_rear: 6.0,
        steer_ratio: 25.0,
        wheel_radius: 0.52,
        wheel_inertia: 30.0,
        ..VehiclePreset::Truck.parameters()
    };
    for car in [kart, truck] {
        car.validate().expect("a vehicle that exists");
    }
    for preset in VehiclePreset::ALL {
        preset.parameters().validate().expect("plausible");
        preset.actuators().validate().expect("plausible");
    }
    ActuatorParameters::IDEAL.validate().expect("usable");
}
