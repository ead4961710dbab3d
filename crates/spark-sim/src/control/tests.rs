//! Controllers against the laws they implement: limits, timers, gains, sides.

use super::*;
use crate::vehicle::{VehicleModel, VehiclePreset};

fn setup() -> LaneSetup {
    LaneSetup {
        vehicle: VehiclePreset::Sedan.parameters(),
        actuators: VehiclePreset::Sedan.actuators(),
        model: VehicleModel::Kinematic,
        dt_s: 0.01,
    }
}

/// Feeds one state for some steps and returns the last answer.
fn run(algorithm: &mut dyn Algorithm, state: State<f32>, n_steps: usize) -> Action<f32> {
    algorithm.reset(&[setup()]);
    let states = StateBatch::filled(1, state);
    let mut actions = ActionBatch::filled(1, Action::default());
    for _ in 0..n_steps {
        algorithm.update(&states, &mut actions);
    }
    actions.get(0)
}

#[test]
fn pid_steers_towards_the_wanted_angle_and_saturates_after_its_timer() {
    let mut pid = LateralPid::new(LateralPidConfig::default());
    let state = State {
        v_ego: 20.0,
        desired_curvature: 0.01,
        ..State::at_rest()
    };
    let first = run(&mut pid, state, 1);
    assert!(first.steer > 0.9 && first.saturated == 0.0, "{first:?}");
    assert_eq!(run(&mut pid, state, 390).saturated, 0.0);
    assert_eq!(run(&mut pid, state, 410).saturated, 1.0);
    let right = State {
        desired_curvature: -0.01,
        ..state
    };
    assert_eq!(run(&mut pid, right, 1).steer, -first.steer);
}

#[test]
fn pid_integral_is_frozen_when_the_driver_steers_or_at_low_speed() {
    let mut pid = LateralPid::new(LateralPidConfig {
        kf: 0.0,
        ..LateralPidConfig::default()
    });
    let state = State {
        v_ego: 20.0,
        desired_curvature: 1e-4,
        ..State::at_rest()
    };
    let growth =
        |pid: &mut LateralPid, state| run(pid, state, 100).steer - run(pid, state, 1).steer;
    assert!(growth(&mut pid, state) > 0.0);
    let pressed = State {
        steering_pressed: 1.0,
        ..state
    };
    assert_eq!(growth(&mut pid, pressed), 0.0);
    let limited = State {
        steer_limited_by_safety: 1.0,
        ..state
    };
    assert_eq!(growth(&mut pid, limited), 0.0);
    let slow = State {
        v_ego: 4.0,
        ..state
    };
    assert_eq!(growth(&mut pid, slow), 0.0);
}

#[test]
fn disengaged_controllers_ask_for_nothing() {
    let state = State {
        v_ego: 20.0,
        desired_curvature: 0.01,
        a_target: 1.0,
        active: 0.0,
        ..State::at_rest()
    };
    let mut pid = LateralPid::new(LateralPidConfig::default());
    assert_eq!(run(&mut pid, state, 50).steer, 0.0);
    let mut torque = LateralTorque::new(LateralTorqueConfig::default());
    assert_eq!(run(&mut torque, state, 50).steer, 0.0);
    let mut speed = Longitudinal::new(LongitudinalConfig::default());
    assert_eq!(run(&mut speed, state, 50).accel, 0.0);
}

#[test]
fn torque_controller_feeds_the_wanted_lateral_acceleration_forward() {
    let mut torque = LateralTorque::new(LateralTorqueConfig::default());
    // Tracking perfectly for a second: what remains is request / full torque, plus no friction.
    let state = State {
        v_ego: 20.0,
        desired_curvature: 1.5 / 400.0,
        // The wheels are turned for it, the car has not begun to yaw.
        steering_angle_deg: (1.5_f32 / 400.0 * 2.7 * 15.0).to_degrees(),
        ..State::at_rest()
    };
    let answer = run(&mut torque, state, 400);
    // The error of the first fifth of a second, before the setpoint arrived, stays in the integral.
    assert!((answer.steer - 1.5 / 2.45).abs() < 0.03, "{answer:?}");
}

#[test]
fn long_control_starts_drives_stops_and_holds() {
    let mut control = Longitudinal::new(LongitudinalConfig::default());
    control.reset(&[setup()]);
    let mut actions = ActionBatch::filled(1, Action::default());
    let mut step = |state: State<f32>| {
        control.update(&StateBatch::filled(1, state), &mut actions);
        actions.accel[0]
    };
    let rest = State::at_rest();
    assert_eq!(step(rest), 1.2, "starting");
    let rolling = State {
        v_ego: 1.0,
        a_target: 0.5,
        a_ego: 0.5,
        ..rest
    };
    assert_eq!(step(rolling), 0.5, "pid with no error passes the target on");
    let stop = State {
        v_ego: 0.1,
        should_stop: 1.0,
        ..rest
    };
    let first = step(stop);
    assert!(
        (first + 0.008).abs() < 1e-6,
        "stopping begins gently: {first}"
    );
    for _ in 0..1000 {
        step(stop);
    }
    assert_eq!(step(stop), -2.0, "and ends at the stop acceleration");
    let held = State {
        cruise_standstill: 1.0,
        ..rest
    };
    assert_eq!(step(held), -2.0, "a car that holds itself does not start");
}

#[test]
fn lqr_gains_solve_the_riccati_equation() {
    let config = LqrConfig {
        offset_weight: 2.0,
        heading_weight: 30.0,
        curvature_weight: 500.0,
    };
    let [g1, g2] = config.gains();
    // P from the gains (P12 = r g1, P22 = r g2) and from the equations of the double integrator.
    let (q1, q2, r) = (2.0, 30.0, 500.0);
    let (p12, p22) = (r * g1, r * g2);
    assert!((p12 * p12 / r - q1).abs() < 1e-9);
    assert!((2.0 * p12 - p22 * p22 / r + q2).abs() < 1e-9);
}

#[test]
fn path_followers_steer_back_to_the_lane() {
    let left_of_lane = State {
        v_ego: 20.0,
        lateral_offset: 1.0,
        ..State::at_rest()
    };
    assert!(run(&mut Lqr::new(LqrConfig::default()), left_of_lane, 1).steer < 0.0);
    assert!(
        run(
            &mut PurePursuit::new(PurePursuitConfig::default()),
            left_of_lane,
            1
        )
        .steer
            < 0.0
    );
    let on_bend = State {
        v_ego: 20.0,
        road_curvature: 0.01,
        ..State::at_rest()
    };
    assert!((run(&mut Lqr::new(LqrConfig::default()), on_bend, 1).steer - 0.01).abs() < 1e-7);
    let pursuit = run(
        &mut PurePursuit::new(PurePursuitConfig::default()),
        on_bend,
        1,
    )
    .steer;
    assert!((pursuit - 0.01).abs() < 1e-3, "{pursuit}");
}

#[test]
fn regulation_driver_brakes_after_its_reaction_time() {
    let mut driver = PerLane::new(None, true, || {
        ReferenceDriver::new(ReferenceDriverKind::Regulation)
    });
    driver.reset(&[setup()]);
    let mut actions = ActionBatch::filled(1, Action::default());
    let mut accel_at = |time: f32, gap: f32| {
        let state = State {
            time,
            v_ego: 20.0,
            v_target: 20.0,
            lead_present: 1.0,
            lead_d_rel: gap,
            lead_v_rel: -10.0,
            ..State::at_rest()
        };
        driver.update(&StateBatch::filled(1, state), &mut actions);
        actions.accel[0]
    };
    assert_eq!(accel_at(0.0, 30.0), 0.0, "3 s to collision is not critical");
    assert_eq!(accel_at(0.1, 10.0), 0.0, "critical, but not reacted yet");
    assert_eq!(accel_at(0.4, 10.0), 0.0);
    assert_eq!(accel_at(0.5, 10.0), -6.0);
}

#[test]
fn curvature_limits_are_openpilots() {
    let (v, dt) = (20.0_f64, 0.01);
    let step = planner::clip_curvature(1.0, 0.0, v, 0.0, dt);
    assert!((step - 5.0 * dt / 400.0).abs() < 1e-15, "jerk");
    let bend = planner::clip_curvature(1.0, 0.0075, v, 0.0, dt);
    assert!((bend - 3.0 / 400.0).abs() < 1e-15, "lateral acceleration");
    assert_eq!(
        planner::clip_curvature(1.0, 0.2, 0.5, 0.0, dt),
        0.2,
        "absolute"
    );
}
