//! What a vehicle is made of: one set in f64, many sets as a structure of arrays.

use super::{GRAVITY, Tyre};
use crate::SimError;
use crate::columns::lane_tiles;
use crate::real::{Element, Real};
use serde::{Deserialize, Serialize};

/// One vehicle's parameters.
///
/// Axle distances are from the centre of gravity. Cornering stiffness is per unit
/// of load and friction, 1/rad: an axle under load `F` makes `friction * c * F` N
/// per rad of slip.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VehicleParameters {
    /// Bumper to bumper, m.
    pub length: f64,
    /// Without mirrors, m.
    pub width: f64,
    /// kg.
    pub mass: f64,
    /// About the vertical axis, kg m^2.
    pub yaw_inertia: f64,
    /// Centre of gravity to front axle, m.
    pub front_axle: f64,
    /// Centre of gravity to rear axle, m.
    pub rear_axle: f64,
    /// Height of the sprung mass's centre of gravity, m.
    pub cog_height: f64,
    /// Friction coefficient of the linear tyre.
    pub friction: f64,
    /// Front axle, 1/rad.
    pub cornering_front: f64,
    /// Rear axle, 1/rad.
    pub cornering_rear: f64,
    /// Steering wheel angle over road wheel angle.
    pub steer_ratio: f64,
    /// Largest road wheel angle either way, rad.
    pub steer_max: f64,
    /// Largest road wheel rate either way, rad/s.
    pub steer_rate_max: f64,
    /// Fastest reverse, m/s, at most 0.
    pub speed_min: f64,
    /// Fastest, m/s.
    pub speed_max: f64,
    /// Above this speed engine power limits acceleration, m/s.
    pub switch_speed: f64,
    /// Largest acceleration and deceleration, m/s^2.
    pub acceleration_max: f64,
    /// Effective wheel radius, m.
    pub wheel_radius: f64,
    /// One axle's wheels about their axis, kg m^2.
    pub wheel_inertia: f64,
    /// Share of the brake torque at the front axle.
    pub brake_front: f64,
    /// Share of the engine torque at the front axle.
    pub engine_front: f64,
    /// Hitch to trailer axle, m; only the trailer model reads it.
    pub trailer_wheelbase: f64,
}

impl VehicleParameters {
    /// Front axle to rear axle, m.
    pub fn wheelbase(&self) -> f64 {
        self.front_axle + self.rear_axle
    }

    /// Refuses what has no physical meaning.
    ///
    /// # Errors
    ///
    /// [`SimError::OutOfRange`] naming the first field that is not finite or has the wrong sign.
    pub fn validate(&self) -> Result<(), SimError> {
        let positive = [
            ("vehicle length (m)", self.length),
            ("vehicle width (m)", self.width),
            ("vehicle mass (kg)", self.mass),
            ("vehicle yaw inertia (kg m^2)", self.yaw_inertia),
            ("vehicle wheelbase (m)", self.wheelbase()),
            ("vehicle friction", self.friction),
            (
                "vehicle front cornering stiffness (1/rad)",
                self.cornering_front,
            ),
            (
                "vehicle rear cornering stiffness (1/rad)",
                self.cornering_rear,
            ),
            ("vehicle steering ratio", self.steer_ratio),
            ("vehicle largest steering angle (rad)", self.steer_max),
            ("vehicle largest steering rate (rad/s)", self.steer_rate_max),
            ("vehicle top speed (m/s)", self.speed_max),
            ("vehicle power-limit speed (m/s)", self.switch_speed),
            (
                "vehicle largest acceleration (m/s^2)",
                self.acceleration_max,
            ),
            ("vehicle wheel radius (m)", self.wheel_radius),
            ("vehicle wheel inertia (kg m^2)", self.wheel_inertia),
            ("vehicle trailer wheelbase (m)", self.trailer_wheelbase),
        ];
        for (what, got) in positive {
            if !(got.is_finite() && got > 0.0) {
                let want = "a finite number above zero";
                return Err(SimError::OutOfRange { what, got, want });
            }
        }
        let not_negative = [
            ("vehicle front axle distance (m)", self.front_axle),
            ("vehicle rear axle distance (m)", self.rear_axle),
            ("vehicle centre of gravity height (m)", self.cog_height),
            ("vehicle front brake share", self.brake_front),
            ("vehicle front engine share", self.engine_front),
            ("vehicle reverse speed, sign turned (m/s)", -self.speed_min),
        ];
        for (what, got) in not_negative {
            if !(got.is_finite() && got >= 0.0) {
                let want = "a finite number of at least zero";
                return Err(SimError::OutOfRange { what, got, want });
            }
        }
        if self.steer_max >= std::f64::consts::FRAC_PI_2 {
            return Err(SimError::OutOfRange {
                what: "vehicle largest steering angle (rad)",
                got: self.steer_max,
                want: "less than a quarter turn",
            });
        }
        Ok(())
    }

    /// Steady-state understeer: road wheel angle beyond the kinematic one per lateral acceleration, rad s^2/m.
    pub fn understeer_gradient(&self) -> f64 {
        (1.0 / self.cornering_front - 1.0 / self.cornering_rear) / (self.friction * GRAVITY)
    }

    /// Rounded to the precision of the simulation.
    pub fn rounded<E: Element>(&self) -> Parameters<E> {
        let e = E::from_f64;
        Parameters {
            mass: e(self.mass),
            yaw_inertia: e(self.yaw_inertia),
            front_axle: e(self.front_axle),
            rear_axle: e(self.rear_axle),
            cog_height: e(self.cog_height),
            friction: e(self.friction),
            grip: e(self.friction / Tyre::COMMONROAD.p_dy1),
            cornering_front: e(self.cornering_front),
            cornering_rear: e(self.cornering_rear),
            steer_min: e(-self.steer_max),
            steer_max: e(self.steer_max),
            steer_rate_min: e(-self.steer_rate_max),
            steer_rate_max: e(self.steer_rate_max),
            speed_min: e(self.speed_min),
            speed_max: e(self.speed_max),
            switch_speed: e(self.switch_speed),
            acceleration_max: e(self.acceleration_max),
            wheel_radius: e(self.wheel_radius),
            wheel_inertia: e(self.wheel_inertia),
            brake_front: e(self.brake_front),
            engine_front: e(self.engine_front),
            trailer_wheelbase: e(self.trailer_wheelbase),
            kinematic_below: e(super::single_track::KINEMATIC_BELOW),
        }
    }
}

lane_tiles! {
    /// The parameters that right-hand sides read; see [`VehicleParameters`] for units.
    pub struct Parameters;
    /// Parameters of many vehicles, one column each.
    pub struct ParameterBatch;
    {
        /// kg.
        mass,
        /// kg m^2.
        yaw_inertia,
        /// m.
        front_axle,
        /// m.
        rear_axle,
        /// m.
        cog_height,
        /// Of the linear tyre.
        friction,
        /// Scale of the Pacejka tyre's forces: friction over the tyre's own.
        grip,
        /// 1/rad.
        cornering_front,
        /// 1/rad.
        cornering_rear,
        /// rad.
        steer_min,
        /// rad.
        steer_max,
        /// rad/s.
        steer_rate_min,
        /// rad/s.
        steer_rate_max,
        /// m/s.
        speed_min,
        /// m/s.
        speed_max,
        /// m/s.
        switch_speed,
        /// m/s^2.
        acceleration_max,
        /// m.
        wheel_radius,
        /// kg m^2.
        wheel_inertia,
        /// Share.
        brake_front,
        /// Share.
        engine_front,
        /// m.
        trailer_wheelbase,
        /// Speed below which ST is kinematic, m/s: 0.1 as published, more where a step asks for it
        /// ([`slowest_slip`](super::slowest_slip)).
        kinematic_below,
    }
}

impl<R: Real> Parameters<R> {
    /// Front axle to rear axle, m.
    #[inline(always)]
    pub fn wheelbase(&self) -> R {
        self.front_axle + self.rear_axle
    }
}
