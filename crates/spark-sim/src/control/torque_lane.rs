//! Gains of LatControlTorque, and what they amount to for one car: figures, and how far back it looks.
//!
//! CPU and GPU take the same figures. The controller itself and its source are in `lateral_torque`.

use super::{LaneSetup, Table};
use crate::columns::lane_tiles;
use serde::{Deserialize, Serialize};

/// Gains; errors in m/s^2 of lateral acceleration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LateralTorqueConfig {
    /// Proportional gain over speed.
    pub kp: Table,
    /// Gain of the integral, 1/s.
    pub ki: f64,
    /// Share of the actuators' friction that is made up for; openpilot's learned value is within
    /// half to one and a half times the truth.
    pub friction_share: f64,
    /// Weight of the lateral jerk in the friction term, s.
    pub jerk_gain_s: f64,
    /// Seconds at full torque until it counts as saturated.
    pub steer_limit_timer_s: f64,
}

impl Default for LateralTorqueConfig {
    fn default() -> Self {
        Self {
            kp: Table::new(vec![
                (1.0, 250.0),
                (1.5, 120.0),
                (2.0, 65.0),
                (3.0, 30.0),
                (5.0, 11.5),
                (7.5, 5.5),
                (10.0, 3.5),
                (15.0, 2.0),
                (30.0, 0.8),
            ]),
            ki: 0.15,
            friction_share: 1.0,
            jerk_gain_s: 0.3,
            steer_limit_timer_s: 4.0,
        }
    }
}

impl LateralTorqueConfig {
    /// What the controller knows of a car, and when it looks back at its requests.
    pub(super) fn for_car(&self, setup: &LaneSetup) -> (TorqueLane<f32>, Ages) {
        let dt = setup.dt_s;
        let steps = |seconds: f64| (seconds.min(MEMORY_S) / dt).round() as usize;
        let delay = setup.actuators.steer_delay_s + RACK_LAG_S;
        let setpoint = steps(delay) + 1;
        let ages = Ages {
            setpoint,
            later: setpoint.saturating_sub(steps(JERK_WINDOW_S)),
            earlier: setpoint + steps(JERK_WINDOW_S),
        };
        let window = (ages.earlier - ages.later).max(1) as f64 * dt;
        let time_constant = 1.0 / (2.0 * std::f64::consts::PI * JERK_CORNER_HZ);
        let figures = TorqueLane {
            full_torque: setup.actuators.lateral_acceleration_at_full_torque as f32,
            friction: (self.friction_share * setup.actuators.torque_friction) as f32,
            per_degree: (1.0 / setup.vehicle.steer_ratio.to_degrees()) as f32,
            wheelbase: setup.vehicle.wheelbase() as f32,
            understeer: (-setup.slip_factor() * setup.vehicle.wheelbase()) as f32,
            jerk_share: (dt / (time_constant + dt)) as f32,
            inverse_window: (1.0 / window) as f32,
            ..TorqueLane::default()
        };
        (figures, ages)
    }

    /// The same in the order of `sim::LateralTorque`'s figures, and how many requests it remembers.
    #[cfg_attr(not(feature = "cuda"), allow(dead_code, reason = "tables for a GPU"))]
    pub(crate) fn device_figures(&self, setup: &LaneSetup) -> ([f32; 10], usize) {
        let (car, ages) = self.for_car(setup);
        // Steps are 10 microseconds or longer, so ages are whole numbers that f32 holds exactly.
        let figures = [
            car.full_torque,
            car.friction,
            car.per_degree,
            car.wheelbase,
            car.understeer,
            car.jerk_share,
            car.inverse_window,
            ages.setpoint as f32,
            ages.later as f32,
            ages.earlier as f32,
        ];
        (figures, ages.earlier + 1)
    }
}

/// How far to either side of the setpoint the jerk looks, s.
const JERK_WINDOW_S: f64 = 0.19;
/// Corner frequency of the jerk's low-pass, Hz.
const JERK_CORNER_HZ: f64 = 1.2;
/// What the rack adds to the dead time above 15 m/s, s.
const RACK_LAG_S: f64 = 0.1;
/// How long requests are remembered, s.
const MEMORY_S: f64 = 1.0;

lane_tiles! {
    pub(super) struct TorqueLane;
    pub(super) struct TorqueLanes;
    {
        full_torque,
        friction,
        /// Road wheel angle in rad per degree of steering wheel.
        per_degree,
        wheelbase,
        /// Understeer of the car, rad s^2/m.
        understeer,
        jerk_share,
        inverse_window,
        integral,
        jerk,
        saturated_s,
        /// Requests at the times the update needs, gathered from the memory.
        setpoint,
        later,
        earlier,
    }
}

/// How many steps ago the three requests of a lane lie.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ages {
    pub(super) setpoint: usize,
    pub(super) later: usize,
    pub(super) earlier: usize,
}
