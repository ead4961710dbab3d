//! Wind, bank and the limits that follow from them: each acts, in its direction and size.

use spark_hal::config::DeviceChoice;
use spark_sim::Profile;
use spark_sim::control::{DoNothing, PerfectTracking, named};
use spark_sim::metric::Metrics;
use spark_sim::road::Segment;
use spark_sim::run::{RunOptions, Simulator, TraceRow};
use spark_sim::scenario::Scenario;
use spark_sim::vehicle::VehicleModel;

/// Drives one scenario with the wheel held straight, or with perfect tracking.
fn drive(scenario: Scenario, is_steered: bool) -> (Metrics, Vec<TraceRow>) {
    let options = RunOptions::default()
        .with_device(DeviceChoice::Cpu)
        .with_record_interval_s(0.01);
    let simulator = Simulator::new(options).expect("valid options");
    let mut report = if is_steered {
        simulator.run(&[scenario], &named("perfect", || PerfectTracking))
    } else {
        simulator.run(&[scenario], &named("held", || DoNothing))
    };
    let result = report.results.remove(0);
    let rows = result.trace.expect("recorded").rows;
    (result.outcome.expect("finished"), rows)
}

fn held(speed: f64, s: f64, model: VehicleModel, change: impl Fn(&mut Scenario)) -> Vec<TraceRow> {
    let mut scenario = Scenario::straight("held", speed, s);
    scenario.vehicle.model = model;
    change(&mut scenario);
    drive(scenario, false).1
}

/// 1.2 kg/m^3 and 0.7 m^2 over 1,500 kg, by half, 1/m.
const DRAG: f64 = 0.5 * 1.2 * 0.7 / 1500.0;

/// Deceleration by the relative wind beyond that of still air, m/s^2.
fn drag(speed: f64, headwind: f64, crosswind: f64) -> f64 {
    let air = speed + headwind;
    DRAG * (air.hypot(crosswind) * air - speed * speed)
}

/// How far aside a car whose wheel is held straight is after 2 s of wind, m. The road falls as much as the wind
/// slows the car: a deceleration would load the front tyres, which turns a slipping car.
fn aside(model: VehicleModel, speed: f64, headwind: f64, crosswind: f64) -> f64 {
    let rows = held(speed, 2.0, model, |scenario| {
        scenario.road.segments = vec![Segment {
            grade: -drag(speed, headwind, crosswind) / 9.81,
            ..Segment::straight(2000.0)
        }];
        scenario.environment.headwind = headwind;
        scenario.environment.crosswind = crosswind;
    });
    rows.last().expect("rows").d
}

/// The same from a push in m/s^2: the saloon does not turn, as its centre of gravity is in the middle between equal axles, and
/// slips until tyres of 4e5 N/rad push 1,500 kg back.
fn expected_aside(speed: f64, push: f64) -> f64 {
    let slip = push * 1500.0 / 4e5;
    let settling_s = 1500.0 * speed / 4e5;
    speed * slip * (2.0 - settling_s * (1.0 - (-2.0 / settling_s).exp()))
}

#[track_caller]
fn check(what: &str, got: f64, want: f64) {
    println!("{what}: {got:.4}, expected {want:.4}");
    assert!(
        (got / want - 1.0).abs() < 0.04,
        "{what}: {got}, expected {want}"
    );
}

#[test]
fn wind_from_the_right_pushes_left_by_the_relative_wind() {
    for (speed, headwind, crosswind) in [
        (15.0, 0.0, 10.0),
        (30.0, 0.0, 10.0),
        (15.0, 0.0, -10.0),
        (15.0, 10.0, 10.0),
        (30.0, -10.0, 10.0),
        (15.0, 0.0, 20.0),
    ] {
        let airspeed = f64::hypot(speed + headwind, crosswind);
        // 1.2 kg/m^3 and 2.5 m^2.
        let push = 0.5 * 1.2 * 2.5 * airspeed * crosswind / 1500.0;
        assert_eq!(push > 0.0, crosswind > 0.0);
        let got = aside(VehicleModel::SingleTrack, speed, headwind, crosswind);
        let what = format!("{speed} m/s, headwind {headwind}, crosswind {crosswind}");
        check(&what, got, expected_aside(speed, push));
    }
    assert_eq!(aside(VehicleModel::Kinematic, 15.0, 0.0, 10.0), 0.0);
}

#[test]
fn a_headwind_slows_a_tailwind_speeds_up_and_a_crosswind_slows_too() {
    // Nothing asks for acceleration; still air is the powertrain's to overcome.
    let change = |headwind: f64, crosswind: f64| {
        let rows = held(30.0, 1.0, VehicleModel::Kinematic, |scenario| {
            scenario.environment.headwind = headwind;
            scenario.environment.crosswind = crosswind;
        });
        rows.last().expect("rows").speed - 30.0
    };
    assert_eq!(change(0.0, 0.0), 0.0);
    for (headwind, crosswind) in [(10.0, 0.0), (-10.0, 0.0), (0.0, 15.0), (-40.0, 0.0)] {
        let (got, want) = (
            change(headwind, crosswind),
            -drag(30.0, headwind, crosswind),
        );
        assert!(
            (got / want - 1.0).abs() < 0.02,
            "{headwind} {crosswind}: {got} {want}"
        );
    }
    assert!(change(10.0, 0.0) < 0.0 && change(-10.0, 0.0) > 0.0);
}

/// A bank without a wind.
fn banked(bank: f64) -> impl Fn(&mut Scenario) {
    move |scenario| {
        scenario.road.segments = vec![Segment {
            bank,
            ..Segment::straight(2000.0)
        }];
    }
}

#[test]
fn a_bank_with_its_left_side_up_pulls_a_held_car_to_the_right() {
    let end = |bank: f64, model| held(20.0, 2.0, model, banked(bank)).last().expect("rows").d;
    for bank in [0.05, -0.05] {
        let got = end(bank, VehicleModel::SingleTrack);
        check(
            &format!("bank {bank}"),
            got,
            expected_aside(20.0, -9.81 * bank),
        );
        assert_eq!(end(bank, VehicleModel::Kinematic), 0.0);
    }
}

/// openpilot's limit is 3 m/s^2 of what tyres carry: less curvature uphill, more downhill.
#[test]
fn on_a_bank_the_planner_asks_for_less_curvature_uphill_than_downhill() {
    for (bank, side) in [(0.06, 1.0), (0.06, -1.0), (-0.06, 1.0), (-0.06, -1.0)] {
        let mut scenario = Scenario::straight("bank", 20.0, 4.0);
        banked(bank)(&mut scenario);
        let k = side * 4.5 / 400.0;
        scenario.requests.curvature = Some(Profile::constant(k));
        let (_, rows) = drive(scenario, true);
        let asked = rows.last().expect("rows").desired_curvature * 400.0;
        let wanted = side * 3.0 - 9.81 * bank;
        assert!(
            (asked - wanted).abs() < 0.01,
            "{bank} {side}: {asked}, expected {wanted}"
        );
    }
}

#[test]
fn a_car_is_off_its_lane_as_soon_as_one_side_is() {
    // 1.85 m wide in a lane of 3.5 m: 0.825 m from the centre a side is on the line.
    for (offset, is_off) in [(0.80, false), (0.85, true), (-0.80, false), (-0.85, true)] {
        let mut scenario = Scenario::straight("beside", 20.0, 1.0);
        scenario.start.offset = offset;
        assert_eq!(scenario.road.lane_width, 3.5);
        let (metrics, _) = drive(scenario, false);
        let wanted = if is_off { 1.0 } else { 0.0 };
        assert_eq!(metrics.off_lane_ratio, wanted, "{offset} m");
    }
}
