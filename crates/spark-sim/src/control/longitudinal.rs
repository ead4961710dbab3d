//! openpilot's LongControl: off, stopping, starting, pid.
//!
//! ```text
//! off ----engaged----> stopping | starting
//! stopping --may go--> starting --v > v_starting--> pid --should stop--> stopping
//!
//! stopping  accel = min(accel, 0) - rate dt, down to stop_accel
//! starting  accel = start_accel
//! pid       accel = kp (a_target - a) + i + a_target
//! ```
//!
//! "May go" is: no stop asked for, the car does not hold itself, the driver does not
//! brake. Source: openpilot `longcontrol.py`; the defaults are those of the
//! algorithm harness in montge/openpilot 0450b81a.

use super::{ActionBatch, Algorithm, LaneSetup, StateBatch};
use crate::columns::lane_tiles;
use crate::real::{Element, Kernel, Lanes, Real};
use crate::vehicle::SteerInterface;
use serde::{Deserialize, Serialize};

/// Gains and thresholds, SI units.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LongitudinalConfig {
    /// Acceleration asked per acceleration missing.
    pub kp: f64,
    /// Gain of the integral, 1/s.
    pub ki: f64,
    /// Speed at which starting is done, m/s.
    pub v_ego_starting: f64,
    /// Hardest braking while stopping, m/s^2, negative.
    pub stop_accel: f64,
    /// How fast the braking becomes harder while stopping, m/s^3.
    pub stopping_decel_rate: f64,
    /// Acceleration asked for while starting, m/s^2.
    pub start_accel: f64,
}

impl Default for LongitudinalConfig {
    fn default() -> Self {
        Self {
            kp: 1.0,
            ki: 0.1,
            v_ego_starting: 0.3,
            stop_accel: -2.0,
            stopping_decel_rate: 0.8,
            start_accel: 1.2,
        }
    }
}

const OFF: f64 = 0.0;
const STOPPING: f64 = 1.0;
const STARTING: f64 = 2.0;
const PID: f64 = 3.0;

lane_tiles! {
    struct LongLane;
    struct LongLanes;
    {
        /// OFF, STOPPING, STARTING or PID.
        mode,
        accel,
        integral,
    }
}

/// openpilot's LongControl for many cars at once.
#[derive(Debug, Clone)]
pub struct Longitudinal {
    config: LongitudinalConfig,
    lanes: LongLanes,
}

impl Longitudinal {
    /// A controller with the given gains.
    pub fn new(config: LongitudinalConfig) -> Self {
        Self {
            config,
            lanes: LongLanes::filled(0, LongLane::default()),
        }
    }
}

impl Algorithm for Longitudinal {
    fn reset(&mut self, lanes: &[LaneSetup]) {
        self.lanes = LongLanes::filled(lanes.len(), LongLane::default());
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
        None
    }

    fn controls_speed(&self) -> bool {
        true
    }
}

struct Update<'a> {
    config: &'a LongitudinalConfig,
    lanes: &'a mut LongLanes,
    state: &'a StateBatch,
    action: &'a mut ActionBatch,
}

/// Whether a mode number is the given one.
#[inline(always)]
fn is<L: Real>(mode: L, which: f64) -> L::Mask {
    (mode - L::splat(which)).abs().lt(L::splat(0.5))
}

impl Kernel for Update<'_> {
    type Elem = f32;
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes<Elem = f32>>(self) {
        let (zero, one, half) = (L::zero(), L::one(), L::splat(0.5));
        let c = self.config;
        let (stopping, starting, pid) = (L::splat(STOPPING), L::splat(STARTING), L::splat(PID));
        for first in (0..self.lanes.n_lanes()).step_by(L::N) {
            let mut lane = self.lanes.load::<L>(first);
            let v = L::load(&self.state.v_ego, first);
            let dt = L::load(&self.state.dt, first);
            let target = L::load(&self.state.a_target, first);
            let error = target - L::load(&self.state.a_ego, first);
            let active = L::load(&self.state.active, first).gt(half);
            let stop = L::load(&self.state.should_stop, first).gt(half);
            let held = L::load(&self.state.cruise_standstill, first).gt(half);
            let braked = L::load(&self.state.brake_pressed, first).gt(half);
            let low = L::load(&self.state.accel_min, first);
            let high = L::load(&self.state.accel_max, first);

            let may_go = !stop & !held & !braked;
            let waiting = is(lane.mode, OFF) | is(lane.mode, STOPPING);
            let from_waiting = L::select(may_go, starting, stopping);
            let started = v.gt(L::splat(c.v_ego_starting));
            let driving = L::select(started, pid, lane.mode);
            let from_driving = L::select(stop, stopping, driving);
            let mode = L::select(waiting, from_waiting, from_driving);
            let mode = L::select(active, mode, L::splat(OFF));

            let brake_harder = lane.accel.minimum(zero) - L::splat(c.stopping_decel_rate) * dt;
            let stop_accel = L::splat(c.stop_accel);
            let while_stopping = L::select(
                lane.accel.gt(stop_accel),
                brake_harder.maximum(stop_accel),
                lane.accel,
            );

            let step = L::splat(c.ki) * error * dt;
            let direct = L::splat(c.kp) * error + target;
            let total = direct + lane.integral + step;
            let pushes_out = (total.gt(high) & step.gt(zero)) | (total.lt(low) & step.lt(zero));
            let integral = L::select(pushes_out, lane.integral, lane.integral + step);
            let while_pid = direct + integral;

            let in_pid = is(mode, PID);
            let accel = L::select(in_pid, while_pid, L::splat(c.start_accel));
            let accel = L::select(is(mode, STOPPING), while_stopping, accel);
            let accel = L::select(is(mode, OFF), zero, accel).clamp(low, high);
            let at_limit = in_pid & (while_pid.gt(high) | while_pid.lt(low));

            lane.mode = mode;
            lane.accel = accel;
            lane.integral = L::select(in_pid, integral, zero);
            self.lanes.store(first, lane);
            accel.store(&mut self.action.accel, first);
            L::select(at_limit, one, zero).store(&mut self.action.saturated, first);
        }
    }
}
