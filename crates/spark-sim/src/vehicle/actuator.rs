//! Between a controller's command and what the vehicle model is told to do.
//!
//! ```text
//! command --clip--> delay line --> target --first-order lag--> rate limit --> steering rate
//!                                                         \--> acceleration, clipped
//!
//! angle      target = command * largest road wheel angle
//! torque     a = command * a_full, shrunk by friction; target = steering angle that holds a at this speed
//! curvature  target = steering angle that holds this curvature at this speed
//! ```
//!
//! Steer to the left is positive. The angle that holds a lateral acceleration `a`
//! is `L a / v^2 + K a` with the understeer gradient `K` (0 for kinematic models).

use super::{Parameters, VehicleModel, VehicleParameters};
use crate::SimError;
use crate::columns::lane_tiles;
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
    /// Path curvature, 1/m.
    Curvature,
}

/// Delays, lags and limits of steering and powertrain.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActuatorParameters {
    /// Dead time of steering, s.
    pub steer_delay_s: f64,
    /// Time constant of steering after the dead time, s.
    pub steer_lag_s: f64,
    /// Dead time of acceleration, s.
    pub acceleration_delay_s: f64,
    /// Time constant of acceleration after the dead time, s.
    pub acceleration_lag_s: f64,
    /// Hardest acceleration, m/s^2.
    pub acceleration_max: f64,
    /// Hardest braking, m/s^2, positive.
    pub deceleration_max: f64,
    /// Lateral acceleration that full torque holds, m/s^2.
    pub lateral_acceleration_at_full_torque: f64,
    /// Lateral acceleration's worth of torque lost to friction, m/s^2.
    pub torque_friction: f64,
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
    };

    /// Longest dead time, s.
    pub const LONGEST_DELAY_S: f64 = 2.0;

    /// Refuses what has no physical meaning.
    ///
    /// # Errors
    ///
    /// [`SimError::OutOfRange`] naming the field.
    pub fn validate(&self) -> Result<(), SimError> {
        let delays = [
            ("steering delay (s)", self.steer_delay_s),
            ("steering lag (s)", self.steer_lag_s),
            ("acceleration delay (s)", self.acceleration_delay_s),
            ("acceleration lag (s)", self.acceleration_lag_s),
        ];
        for (what, got) in delays {
            if !(0.0..=Self::LONGEST_DELAY_S).contains(&got) {
                let want = "between 0 and 2 s";
                return Err(SimError::OutOfRange { what, got, want });
            }
        }
        let limits = [
            ("actuator acceleration (m/s^2)", self.acceleration_max),
            ("actuator deceleration (m/s^2)", self.deceleration_max),
            (
                "lateral acceleration at full torque (m/s^2)",
                self.lateral_acceleration_at_full_torque,
            ),
        ];
        for (what, got) in limits {
            if !(got.is_finite() && got > 0.0) {
                let want = "a finite number above zero";
                return Err(SimError::OutOfRange { what, got, want });
            }
        }
        if !(self.torque_friction.is_finite() && self.torque_friction >= 0.0) {
            return Err(SimError::OutOfRange {
                what: "steering friction (m/s^2)",
                got: self.torque_friction,
                want: "a finite number of at least zero",
            });
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
        /// m/s^2.
        acceleration_max,
        /// m/s^2, positive.
        deceleration_max,
        /// m/s^2.
        full_torque,
        /// m/s^2.
        torque_friction,
        /// rad s^2/m.
        understeer,
    }
}

impl<R: Real> Actuator<R> {
    /// Steering rate, rad/s, that follows a command; the vehicle model limits it further.
    #[inline(always)]
    pub fn steering_rate(
        &self,
        p: &Parameters<R>,
        interface: SteerInterface,
        command: R,
        steer: R,
        speed: R,
    ) -> R {
        let one = R::one();
        let target = match interface {
            SteerInterface::Angle => command.clamp(-one, one) * p.steer_max,
            SteerInterface::Torque => {
                let wanted = command.clamp(-one, one) * self.full_torque;
                let size = (wanted.abs() - self.torque_friction).maximum(R::zero());
                let lateral = R::select(wanted.lt(R::zero()), -size, size);
                // Below 1 m/s full torque still reaches the steering stop, no further.
                let v = speed.maximum(one);
                lateral * (p.wheelbase() / (v * v) + self.understeer)
            }
            SteerInterface::Curvature => {
                command * (p.wheelbase() + self.understeer * speed * speed)
            }
        };
        (target.clamp(p.steer_min, p.steer_max) - steer) * self.steer_response
    }

    /// The next acceleration, m/s^2, from the last one and a command.
    #[inline(always)]
    pub fn acceleration(&self, command: R, last: R) -> R {
        let wanted = command.clamp(-self.deceleration_max, self.acceleration_max);
        last + (wanted - last) * self.acceleration_share
    }
}
