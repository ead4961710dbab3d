//! openpilot's LatControlPID: steering wheel angle by proportional, integral and feed-forward torque.
//!
//! ```text
//! wanted = deg((k (1 - sf v^2) - g roll sf) sR L) + offset          VehicleModel, inverted
//! e      = wanted - angle
//! torque = clip(kp(v) e + i + kf wanted v^2)
//! i     += ki(v) e dt    unless frozen (driver steers, output limited, v < 5 m/s)
//!                        or the output is clipped and i would push it further
//! saturated: |torque| = 1 above 10 m/s for steer_limit_timer seconds
//! ```
//!
//! Source: openpilot `latcontrol_pid.py`, `pid.py`. Its gains come per car; the
//! defaults here are this crate's, for the sedan preset.

use super::{ActionBatch, Algorithm, LaneSetup, StateBatch, Table};
use crate::columns::lane_tiles;
use crate::real::{Element, Kernel, Lanes};
use crate::vehicle::{GRAVITY, SteerInterface};
use serde::{Deserialize, Serialize};

/// Gains over speed; errors in degrees of steering wheel, torque in [-1, 1].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LateralPidConfig {
    /// Proportional gain over speed, 1/deg.
    pub kp: Table,
    /// Integral gain over speed, 1/(deg s).
    pub ki: Table,
    /// Gain of the feed-forward, 1/(deg m^2/s^2): times angle and squared speed.
    pub kf: f64,
    /// Seconds at full torque until it counts as saturated.
    pub steer_limit_timer_s: f64,
    /// Angle at which the car drives straight, degrees.
    pub angle_offset_deg: f64,
}

impl Default for LateralPidConfig {
    fn default() -> Self {
        Self {
            kp: Table::new(vec![(5.0, 0.03), (10.0, 0.045), (20.0, 0.10), (30.0, 0.18)]),
            ki: Table::new(vec![
                (5.0, 0.002),
                (10.0, 0.004),
                (20.0, 0.01),
                (30.0, 0.02),
            ]),
            kf: 1.75e-4,
            steer_limit_timer_s: 4.0,
            angle_offset_deg: 0.0,
        }
    }
}

lane_tiles! {
    struct PidLane;
    struct PidLanes;
    {
        /// Steering ratio times wheelbase, in degrees per unit of curvature.
        degrees_per_curvature,
        slip_factor,
        integral,
        saturated_s,
    }
}

/// openpilot's LatControlPID for many cars at once.
#[derive(Debug, Clone)]
pub struct LateralPid {
    config: LateralPidConfig,
    lanes: PidLanes,
}

impl LateralPid {
    /// A controller with the given gains.
    pub fn new(config: LateralPidConfig) -> Self {
        Self {
            config,
            lanes: PidLanes::filled(0, PidLane::default()),
        }
    }
}

impl Algorithm for LateralPid {
    fn reset(&mut self, lanes: &[LaneSetup]) {
        self.lanes = PidLanes::filled(lanes.len(), PidLane::default());
        for (lane, setup) in lanes.iter().enumerate() {
            let ratio = setup.vehicle.steer_ratio * setup.vehicle.wheelbase();
            *self.lanes.degrees_per_curvature(lane) = ratio.to_degrees() as f32;
            *self.lanes.slip_factor(lane) = setup.slip_factor() as f32;
        }
    }

    fn update(&mut self, state: &StateBatch, action: &mut ActionBatch) {
        f32::dispatch_pairs(
            state.n_lanes(),
            Update {
                config: &self.config,
                lanes: &mut self.lanes,
                state,
                action,
            },
        );
    }

    fn steer_interface(&self) -> Option<SteerInterface> {
        Some(SteerInterface::Torque)
    }

    fn controls_speed(&self) -> bool {
        false
    }
}

struct Update<'a> {
    config: &'a LateralPidConfig,
    lanes: &'a mut PidLanes,
    state: &'a StateBatch,
    action: &'a mut ActionBatch,
}

impl Kernel for Update<'_> {
    type Elem = f32;
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes<Elem = f32>>(self) {
        let (zero, one) = (L::zero(), L::one());
        let half = L::splat(0.5);
        let config = self.config;
        let timer = L::splat(config.steer_limit_timer_s);
        for first in (0..self.lanes.n_lanes()).step_by(L::N) {
            let mut lane = self.lanes.load::<L>(first);
            let v = L::load(&self.state.v_ego, first);
            let dt = L::load(&self.state.dt, first);
            let roll = L::load(&self.state.roll, first);
            let curvature = L::load(&self.state.desired_curvature, first);
            let angle = L::load(&self.state.steering_angle_deg, first);
            let active = L::load(&self.state.active, first).gt(half);
            let limited = L::load(&self.state.steer_limited_by_safety, first).gt(half);
            let pressed = L::load(&self.state.steering_pressed, first).gt(half);

            let straightened = curvature * (one - lane.slip_factor * v * v)
                - L::splat(GRAVITY) * roll * lane.slip_factor;
            let wanted =
                straightened * lane.degrees_per_curvature + L::splat(config.angle_offset_deg);
            let error = wanted - angle;
            let direct = config.kp.at(v) * error + L::splat(config.kf) * wanted * v * v;

            let step = config.ki.at(v) * error * dt;
            let grown = (lane.integral + step).clamp(-one, one);
            let total = direct + grown;
            let pushes_out = (total.gt(one) & step.gt(zero)) | (total.lt(-one) & step.lt(zero));
            let frozen = limited | pressed | v.lt(L::splat(5.0)) | pushes_out;
            let integral = L::select(frozen, lane.integral, grown);
            let torque = (direct + integral).clamp(-one, one);

            let at_limit =
                torque.abs().gt(L::splat(1.0 - 1e-3)) & v.gt(L::splat(10.0)) & !limited & !pressed;
            let counted = lane.saturated_s + L::select(at_limit, dt, -dt);
            let counted = counted.clamp(zero, timer);

            lane.integral = L::select(active, integral, zero);
            lane.saturated_s = L::select(active, counted, zero);
            self.lanes.store(first, lane);
            L::select(active, torque, zero).store(&mut self.action.steer, first);
            let saturated = counted.gt(timer - L::splat(1e-3)) & active;
            L::select(saturated, one, zero).store(&mut self.action.saturated, first);
        }
    }
}
