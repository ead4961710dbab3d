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

use super::{ActionBatch, Algorithm, LaneSetup, StateBatch, Table};
use crate::columns::lane_tiles;
use crate::real::{Element, Kernel, Lanes};
use crate::vehicle::{GRAVITY, SteerInterface};
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
    fn for_car(&self, setup: &LaneSetup) -> (TorqueLane<f32>, Ages) {
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
/// Lateral acceleration at which the friction term is full, m/s^2.
const FRICTION_THRESHOLD: f64 = 0.2;
/// What the rack adds to the dead time above 15 m/s, s.
const RACK_LAG_S: f64 = 0.1;
/// How long requests are remembered, s.
const MEMORY_S: f64 = 1.0;

lane_tiles! {
    struct TorqueLane;
    struct TorqueLanes;
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
struct Ages {
    setpoint: usize,
    later: usize,
    earlier: usize,
}

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
