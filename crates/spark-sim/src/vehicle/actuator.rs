//! Between a controller's command and what the vehicle model is told to do.
//!
//! ```text
//! angle      target = command * largest road wheel angle           } delay, first-order lag,
//! curvature  target = steering angle that holds this curvature     } rate limit of the wheel
//!
//! torque     u   = command, changing at most `up` and `down` per second     safety code, before the delay
//!            a_T = clip(a_full u, a_max + F)                                after the delay
//!            net = a_T - g(v) steer - (1 - K g(v)) sideways,  g(v) = v^2 / (L + K v^2)
//!            net = sign(net) max(|net| - F, 0)                              Coulomb friction
//!            steer' = net / c (L + K v^2) / (L + K_real v^2)                the column's damping
//!
//! speed      command --clip--> delay --> first-order lag --> acceleration
//! ```
//!
//! Steer to the left is positive. The angle that holds a lateral acceleration `a`
//! is `L a / v^2 + K a` with the understeer gradient `K` (0 for kinematic models).
//!
//! Under torque the wheel is held back by the aligning moment of the front tyres, which is as large
//! as the lateral force: full torque holds the same lateral acceleration at any speed, but reaches it
//! with a time constant `c (L + K_real v^2) / v^2`, 2 s at 5 m/s and 0.1 s at 30 m/s. The wheels of a
//! model that understeers less than the real car turn less for the same force, and so does their column. On a bank and in crosswind the
//! tyres carry the push sideways too.
//!
//! Source: column, rack and motor of a published electric power steering (doi
//! 10.1186/s10033-020-00477-9, table 4) reduced to the road wheel, without its inertia; limits
//! and figures of commaai/opendbc 7343a66d, as [`super::VehiclePreset`] lists them.

use super::{Parameters, VehicleModel, VehicleParameters};
use crate::SimError;
use crate::columns::lane_tiles;
use crate::error::plausible;
use crate::real::Real;
use serde::{Deserialize, Serialize};

/// What a steering command means. openpilot calls this the steer control type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SteerInterface {
    /// Share of the largest road wheel angle, in [-1, 1].
    #[default]
    Angle,
    /// Share of the largest steering torque, in [-1, 1].
    Torque,
    /// Curvature of the path, 1/m.
    Curvature,
}

/// Delays, lags and limits of steering and powertrain.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActuatorParameters {
    /// Dead time of steering, s.
    pub steer_delay_s: f64,
    /// Time constant of steering by angle or curvature after the dead time, s.
    pub steer_lag_s: f64,
    /// Dead time of acceleration, s.
    pub acceleration_delay_s: f64,
    /// Time constant of acceleration after the dead time, s.
    pub acceleration_lag_s: f64,
    /// Hardest acceleration that the powertrain gives, m/s^2.
    pub acceleration_max: f64,
    /// Hardest braking, m/s^2, positive.
    pub deceleration_max: f64,
    /// Lateral acceleration that full torque would hold if torque never saturated, m/s^2:
    /// openpilot's LAT_ACCEL_FACTOR, the slope near the centre.
    pub lateral_acceleration_at_full_torque: f64,
    /// Lateral acceleration's worth of torque lost to Coulomb friction, m/s^2: openpilot's
    /// FRICTION times LAT_ACCEL_FACTOR.
    pub torque_friction: f64,
    /// Most lateral acceleration at which torque held the car, m/s^2: openpilot's
    /// MAX_LAT_ACCEL_MEASURED. It was measured on the road, so friction has already taken its
    /// share: torque saturates at this and the friction, and holds this.
    #[serde(default = "torque_defaults::lateral_acceleration_max")]
    pub torque_lateral_acceleration_max: f64,
    /// Damping of the column, m/s^2 of lateral acceleration's worth of torque per rad/s of road wheel.
    #[serde(default = "torque_defaults::damping")]
    pub torque_damping: f64,
    /// Understeer gradient of the real car, rad s^2/m, whatever the vehicle model makes of it: how far
    /// the column turns per lateral acceleration.
    #[serde(default = "torque_defaults::understeer")]
    pub torque_understeer: f64,
    /// Fastest growth of the share of full torque, 1/s.
    #[serde(default = "torque_defaults::up")]
    pub torque_up: f64,
    /// Fastest fall of the share of full torque towards zero, 1/s.
    #[serde(default = "torque_defaults::down")]
    pub torque_down: f64,
}

/// What a description that names no figures of the torque interface gets: those of a car in the middle
/// of openpilot's.
mod torque_defaults {
    pub(super) fn lateral_acceleration_max() -> f64 {
        1.6
    }
    pub(super) fn damping() -> f64 {
        20.0
    }
    pub(super) fn understeer() -> f64 {
        0.0024
    }
    pub(super) fn up() -> f64 {
        1.0 / 1.2
    }
    pub(super) fn down() -> f64 {
        1.0 / 0.7
    }
}

impl ActuatorParameters {
    /// No delay, no lag, the accelerations openpilot allows: what the vehicle model is told, it is told at once.
    pub const IDEAL: Self = Self {
        steer_delay_s: 0.0,
        steer_lag_s: 0.0,
        acceleration_delay_s: 0.0,
        acceleration_lag_s: 0.0,
        acceleration_max: 2.0,
        deceleration_max: 3.5,
        lateral_acceleration_at_full_torque: 3.0,
        torque_friction: 0.0,
        torque_lateral_acceleration_max: 3.0,
        torque_damping: 0.05,
        torque_understeer: 0.0,
        torque_up: 1000.0,
        torque_down: 1000.0,
    };

    /// Most lateral acceleration that torque reaches and holds on a level road, m/s^2: what was
    /// measured, or full torque less friction where that is less.
    pub fn held_lateral_acceleration(&self) -> f64 {
        let by_full_torque = self.lateral_acceleration_at_full_torque - self.torque_friction;
        by_full_torque
            .min(self.torque_lateral_acceleration_max)
            .max(0.0)
    }

    /// Time constant, s, with which a wheel turned by torque follows at a speed in m/s; `wheelbase` in m.
    /// Infinite at rest.
    pub fn torque_lag_s(&self, wheelbase: f64, speed: f64) -> f64 {
        let square = speed * speed;
        self.torque_damping * (wheelbase + self.torque_understeer * square) / square
    }

    /// Longest dead time, s.
    pub const LONGEST_DELAY_S: f64 = 2.0;

    /// Refuses what no car has.
    ///
    /// # Errors
    ///
    /// [`SimError::OutOfRange`] naming the field, its unit, its value and the range.
    pub fn validate(&self) -> Result<(), SimError> {
        plausible! {
            "steering delay (s)": self.steer_delay_s, 0.0, 2.0;
            "steering lag (s)": self.steer_lag_s, 0.0, 2.0;
            "acceleration delay (s)": self.acceleration_delay_s, 0.0, 2.0;
            "acceleration lag (s)": self.acceleration_lag_s, 0.0, 2.0;
            "actuator acceleration (m/s^2)": self.acceleration_max, 0.1, 50.0;
            "actuator deceleration (m/s^2)": self.deceleration_max, 0.1, 50.0;
            "lateral acceleration at full torque (m/s^2)": self.lateral_acceleration_at_full_torque, 0.05, 50.0;
            "steering friction (m/s^2)": self.torque_friction, 0.0, 10.0;
            "largest lateral acceleration by torque (m/s^2)": self.torque_lateral_acceleration_max, 0.05, 50.0;
            "steering damping (m/s^2 per rad/s)": self.torque_damping, 0.05, 500.0;
            "understeer gradient of the real car (rad s^2/m)": self.torque_understeer, 0.0, 0.05;
            "growth of the steering torque (share per s)": self.torque_up, 0.01, 1000.0;
            "fall of the steering torque (share per s)": self.torque_down, 0.01, 1000.0;
        }
        Ok(())
    }

    /// One lane of an [`ActuatorBatch`], for a vehicle, its model and a time step in s.
    pub fn lane(&self, vehicle: &VehicleParameters, model: VehicleModel, dt: f64) -> Actuator<f32> {
        let understeer = match model {
            VehicleModel::Kinematic | VehicleModel::KinematicTrailer => 0.0,
            VehicleModel::SingleTrack | VehicleModel::Drift => vehicle.understeer_gradient(),
        };
        Actuator {
            steer_response: (1.0 / self.steer_lag_s.max(dt)) as f32,
            acceleration_share: (dt / self.acceleration_lag_s.max(dt)) as f32,
            acceleration_max: self.acceleration_max as f32,
            deceleration_max: self.deceleration_max as f32,
            full_torque: self.lateral_acceleration_at_full_torque as f32,
            torque_friction: self.torque_friction as f32,
            understeer: understeer as f32,
            torque_max: (self.torque_lateral_acceleration_max + self.torque_friction) as f32,
            inverse_damping: (1.0 / self.torque_damping) as f32,
            torque_understeer: self.torque_understeer as f32,
            torque_up: (self.torque_up * dt) as f32,
            torque_down: (self.torque_down * dt) as f32,
        }
    }
}

lane_tiles! {
    /// Actuator figures of one lane.
    pub struct Actuator;
    /// Actuator figures of many lanes.
    pub struct ActuatorBatch;
    {
        /// One over the time in which steering covers 1 - 1/e of its way, at least a step; 1/s.
        steer_response,
        /// Share of the way to the commanded acceleration covered per step.
        acceleration_share,
        /// Hardest acceleration of the powertrain, m/s^2.
        acceleration_max,
        /// Hardest braking, m/s^2, positive.
        deceleration_max,
        /// Lateral acceleration at full torque, m/s^2.
        full_torque,
        /// Torque lost to friction, as lateral acceleration, m/s^2.
        torque_friction,
        /// Understeer gradient of the model that drives the car, 0 if kinematic, rad s^2/m.
        understeer,
        /// Lateral acceleration's worth of torque at which it saturates, friction included, m/s^2.
        torque_max,
        /// Rate of the road wheel by torque that nothing holds back, rad/s per m/s^2.
        inverse_damping,
        /// Of the real car, rad s^2/m.
        torque_understeer,
        /// Largest growth of the torque's share per step.
        torque_up,
        /// Largest fall of it towards zero per step.
        torque_down,
    }
}

impl<R: Real> Actuator<R> {
    /// Steering rate, rad/s, that follows a command; the vehicle model limits it further.
    ///
    /// `sideways` is the acceleration, m/s^2, with which bank and wind push to the right: tyres, and
    /// so torque, have to hold the car against it. `dt` is the step in s.
    #[inline(always)]
    #[allow(clippy::too_many_arguments, reason = "the state of one wheel")]
    pub fn steering_rate(
        &self,
        p: &Parameters<R>,
        interface: SteerInterface,
        command: R,
        steer: R,
        speed: R,
        sideways: R,
        dt: R,
    ) -> R {
        let one = R::one();
        let target = match interface {
            SteerInterface::Angle => command.clamp(-one, one) * p.steer_max,
            SteerInterface::Torque => {
                return self.rate_by_torque(p, command, steer, speed, sideways, dt);
            }
            SteerInterface::Curvature => {
                command * (p.wheelbase() + self.understeer * speed * speed)
            }
        };
        (target.clamp(p.steer_min, p.steer_max) - steer) * self.steer_response
    }

    #[inline(always)]
    fn rate_by_torque(
        &self,
        p: &Parameters<R>,
        command: R,
        steer: R,
        speed: R,
        sideways: R,
        dt: R,
    ) -> R {
        let (one, zero) = (R::one(), R::zero());
        let torque =
            (command.clamp(-one, one) * self.full_torque).clamp(-self.torque_max, self.torque_max);
        let square = speed * speed;
        let length = p.wheelbase() + self.understeer * square;
        let real_length = p.wheelbase() + self.torque_understeer * square;
        let per_length = one / length;
        let per_real_length = one / real_length;
        let stiffness = square * per_length;
        // Steering for the bank's slip is part of `stiffness * steer`.
        let held = stiffness * steer + p.wheelbase() * per_length * sideways;
        let net = torque - held;
        let size = (net.abs() - self.torque_friction).maximum(zero);
        let moving = R::select(net.lt(zero), -size, size);
        // Over a step the wheel covers 1 - exp(-x) of its way: x / (1 - exp(-x)), by its
        // series up to 3 and within 5 % of it beyond.
        let x = dt * self.inverse_damping * square * per_real_length;
        let near = x.minimum(R::splat(3.0));
        let slower = one + near * (R::splat(0.5) + near * R::splat(1.0 / 12.0)) + (x - near);
        moving * self.inverse_damping * length * per_real_length / slower
    }

    /// The share of full torque that safety code lets through, from the last one and a command.
    ///
    /// It grows by at most `torque_up` per step; it falls by at most `torque_down`, and from
    /// beyond zero not further than `torque_up` to the other side. After opendbc's
    /// `apply_driver_steer_torque_limits`.
    #[inline(always)]
    pub fn limited_torque(&self, command: R, last: R) -> R {
        let (one, zero) = (R::one(), R::zero());
        let (up, down) = (self.torque_up, self.torque_down);
        let is_left = last.gt(zero);
        let lowest = R::select(is_left, (last - down).maximum(-up), last - up);
        let highest = R::select(is_left, last + up, (last + down).minimum(up));
        command.clamp(-one, one).clamp(lowest, highest)
    }

    /// The next acceleration, m/s^2, from the last one and a command.
    #[inline(always)]
    pub fn acceleration(&self, command: R, last: R) -> R {
        let wanted = command.clamp(-self.deceleration_max, self.acceleration_max);
        last + (wanted - last) * self.acceleration_share
    }
}
