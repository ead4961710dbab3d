//! openpilot's LatControlTorque: torque that holds a lateral acceleration.
//!
//! ```text
//! request   a = k v^2, remembered for a second
//! measured  a = v^2 (steering angle - K g roll) / (L + K v^2)
//! setpoint  the request of one steering delay ago; error = setpoint - measured
//! jerk      central difference of the requests 0.19 s to either side of it, low-passed at 1.2 Hz
//! ff        request + g roll + friction(error + 0.3 jerk)      friction rises linearly to +-0.2
//! torque    clip(kp(v) error + i + ff) / (lateral acceleration at full torque)
//! ```
//!
//! Source: openpilot `latcontrol_torque.py` as of montge/openpilot 0450b81a: gains,
//! speeds, delays and thresholds are its own; left is positive here, so the roll's sign is the opposite.
//! The delay is the dead time and 0.1 s for the rack, one number for all speeds, as openpilot's
//! `lagd` learns it above 15 m/s. Not here: learned torque parameters (full torque and friction are
//! those of the car's actuators), and a steering angle whose offset is learned.

use super::torque_lane::{Ages, TorqueLane, TorqueLanes};
use super::{ActionBatch, Algorithm, LaneSetup, LateralTorqueConfig, StateBatch};
use crate::real::{Element, Kernel, Lanes};
use crate::vehicle::{GRAVITY, SteerInterface};

/// Lateral acceleration at which the friction term is full, m/s^2.
const FRICTION_THRESHOLD: f64 = 0.2;

/// openpilot's LatControlTorque for many cars at once.
#[derive(Debug, Clone)]
pub struct LateralTorque {
    config: LateralTorqueConfig,
    lanes: TorqueLanes,
    ages: Vec<Ages>,
    /// Ring of past requests, one row of lanes per step.
    memory: Vec<Vec<f32>>,
    newest: usize,
}

impl LateralTorque {
    /// A controller with the given gains.
    pub fn new(config: LateralTorqueConfig) -> Self {
        Self {
            config,
            lanes: TorqueLanes::filled(0, TorqueLane::default()),
            ages: Vec::new(),
            memory: Vec::new(),
            newest: 0,
        }
    }

    /// Stores this step's requests and fetches the old ones each lane needs.
    fn remember(&mut self, state: &StateBatch) {
        self.newest = (self.newest + 1) % self.memory.len();
        let n_rows = self.memory.len();
        for lane in 0..self.ages.len() {
            let v = state.v_ego[lane];
            self.memory[self.newest][lane] = state.desired_curvature[lane] * v * v;
        }
        let newest = self.newest;
        for (lane, ages) in self.ages.iter().enumerate() {
            let request = |age: usize| self.memory[(newest + n_rows - age) % n_rows][lane];
            *self.lanes.setpoint(lane) = request(ages.setpoint);
            *self.lanes.later(lane) = request(ages.later);
            *self.lanes.earlier(lane) = request(ages.earlier);
        }
    }
}

impl Algorithm for LateralTorque {
    fn reset(&mut self, lanes: &[LaneSetup]) {
        self.lanes = TorqueLanes::filled(lanes.len(), TorqueLane::default());
        self.ages.clear();
        let mut n_rows = 2;
        for (lane, setup) in lanes.iter().enumerate() {
            let (figures, ages) = self.config.for_car(setup);
            n_rows = n_rows.max(ages.earlier + 1);
            self.lanes.set(lane, figures);
            self.ages.push(ages);
        }
        self.memory = vec![vec![0.0; lanes.len()]; n_rows];
        self.newest = 0;
    }

    fn update(&mut self, state: &StateBatch, action: &mut ActionBatch) {
        if self.ages.is_empty() {
            return;
        }
        self.remember(state);
        f32::dispatch(Update {
            config: &self.config,
            lanes: &mut self.lanes,
            state,
            action,
        });
    }

    fn steer_interface(&self) -> Option<SteerInterface> {
        Some(SteerInterface::Torque)
    }

    fn controls_speed(&self) -> bool {
        false
    }
}

struct Update<'a> {
    config: &'a LateralTorqueConfig,
    lanes: &'a mut TorqueLanes,
    state: &'a StateBatch,
    action: &'a mut ActionBatch,
}

impl Kernel for Update<'_> {
    type Elem = f32;
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes<Elem = f32>>(self) {
        let (zero, one, half) = (L::zero(), L::one(), L::splat(0.5));
        let config = self.config;
        let timer = L::splat(config.steer_limit_timer_s);
        for first in (0..self.lanes.n_lanes()).step_by(L::N) {
            let mut lane = self.lanes.load::<L>(first);
            let v = L::load(&self.state.v_ego, first);
            let dt = L::load(&self.state.dt, first);
            let roll = L::load(&self.state.roll, first);
            let angle = L::load(&self.state.steering_angle_deg, first);
            let request = L::load(&self.state.desired_curvature, first) * v * v;
            let active = L::load(&self.state.active, first).gt(half);
            let limited = L::load(&self.state.steer_limited_by_safety, first).gt(half);
            let pressed = L::load(&self.state.steering_pressed, first).gt(half);

            // What the wheels' angle amounts to: the car's yaw comes later than its wheels.
            let gravity_share = L::splat(GRAVITY) * roll;
            let square = v * v;
            let straightened = angle * lane.per_degree - lane.understeer * gravity_share;
            let measured = square * straightened / (lane.wheelbase + lane.understeer * square);
            let error = lane.setpoint - measured;
            let raw_jerk = (lane.later - lane.earlier) * lane.inverse_window;
            let jerk = lane.jerk + (raw_jerk - lane.jerk) * lane.jerk_share;
            // A low-pass decays into subnormal numbers, which are slow; nobody feels 1e-9 m/s^3.
            let jerk = L::select(jerk.abs().lt(L::splat(1e-9)), zero, jerk);
            let threshold = L::splat(FRICTION_THRESHOLD);
            let share =
                ((error + L::splat(config.jerk_gain_s) * jerk) / threshold).clamp(-one, one);
            let feed_forward = request + gravity_share + lane.friction * share;

            // Torque to the left cannot exceed `full`, to the right `-full`, in m/s^2.
            let full = lane.full_torque.maximum(L::splat(0.1));
            let direct = config.kp.at(v) * error + feed_forward;
            let step = L::splat(config.ki) * error * dt;
            let grown = (lane.integral + step).clamp(-full, full);
            let total = direct + grown;
            let pushes_out = (total.gt(full) & step.gt(zero)) | (total.lt(-full) & step.lt(zero));
            let frozen = limited | pressed | v.lt(L::splat(5.0)) | pushes_out;
            let integral = L::select(frozen, lane.integral, grown);
            let torque = ((direct + integral) / full).clamp(-one, one);

            let at_limit =
                torque.abs().gt(L::splat(1.0 - 1e-3)) & v.gt(L::splat(10.0)) & !limited & !pressed;
            let counted = (lane.saturated_s + L::select(at_limit, dt, -dt)).clamp(zero, timer);
            lane.integral = L::select(active, integral, zero);
            lane.jerk = L::select(active, jerk, zero);
            lane.saturated_s = L::select(active, counted, zero);
            self.lanes.store(first, lane);
            L::select(active, torque, zero).store(&mut self.action.steer, first);
            let saturated = counted.gt(timer - L::splat(1e-3)) & active;
            L::select(saturated, one, zero).store(&mut self.action.saturated, first);
        }
    }
}
