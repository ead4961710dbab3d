//! What a vehicle is made of: one set in f64, many sets as a structure of arrays.

use super::{GRAVITY, Tyre};
use crate::SimError;
use crate::columns::lane_tiles;
use crate::error::plausible;
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
    /// Width without mirrors, m.
    pub width: f64,
    /// Mass of the car, kg.
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
    /// Cornering stiffness of the front axle, 1/rad.
    pub cornering_front: f64,
    /// Cornering stiffness of the rear axle, 1/rad.
    pub cornering_rear: f64,
    /// Steering wheel angle over road wheel angle.
    pub steer_ratio: f64,
    /// Largest road wheel angle either way, rad.
    pub steer_max: f64,
    /// Largest road wheel rate either way, rad/s.
    pub steer_rate_max: f64,
    /// Fastest reverse, m/s, at most 0.
    pub speed_min: f64,
    /// Fastest speed forwards, m/s.
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

    /// Refuses what no road vehicle has, from a kart to a loaded truck: mostly a wrong unit.
    ///
    /// # Errors
    ///
    /// [`SimError::OutOfRange`] naming the first field outside its range, its unit and value.
    pub fn validate(&self) -> Result<(), SimError> {
        plausible! {
            "vehicle length (m)": self.length, 0.5, 30.0;
            "vehicle width (m)": self.width, 0.3, 4.0;
            "vehicle mass (kg)": self.mass, 30.0, 100_000.0;
            "vehicle yaw inertia (kg m^2)": self.yaw_inertia, 1.0, 5_000_000.0;
            "vehicle front axle distance (m)": self.front_axle, 0.0, 15.0;
            "vehicle rear axle distance (m)": self.rear_axle, 0.0, 15.0;
            "vehicle wheelbase (m)": self.wheelbase(), 0.3, 20.0;
            "vehicle centre of gravity height (m)": self.cog_height, 0.0, 5.0;
            "vehicle friction": self.friction, 0.01, 3.0;
            "vehicle front cornering stiffness (1/rad, per unit of load)": self.cornering_front, 0.5, 200.0;
            "vehicle rear cornering stiffness (1/rad, per unit of load)": self.cornering_rear, 0.5, 200.0;
            "vehicle steering ratio": self.steer_ratio, 0.5, 60.0;
            "vehicle largest steering angle (rad)": self.steer_max, 0.01, 1.5;
            "vehicle largest steering rate (rad/s)": self.steer_rate_max, 0.001, 20.0;
            "vehicle top reverse speed (m/s)": self.speed_min, -150.0, 0.0;
            "vehicle top speed (m/s)": self.speed_max, 1.0, 150.0;
            "vehicle power-limit speed (m/s)": self.switch_speed, 0.1, 150.0;
            "vehicle largest acceleration (m/s^2)": self.acceleration_max, 0.1, 100.0;
            "vehicle wheel radius (m)": self.wheel_radius, 0.05, 2.0;
            "vehicle wheel inertia (kg m^2)": self.wheel_inertia, 0.001, 500.0;
            "vehicle front brake share": self.brake_front, 0.0, 1.0;
            "vehicle front engine share": self.engine_front, 0.0, 1.0;
            "vehicle trailer wheelbase (m)": self.trailer_wheelbase, 0.3, 30.0;
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
            kinematic_below: e(super::model::KINEMATIC_BELOW),
        }
    }
}

lane_tiles! {
    /// The parameters that right-hand sides read; see [`VehicleParameters`] for units.
    pub struct Parameters;
    /// Parameters of many vehicles, one column each.
    pub struct ParameterBatch;
    {
        /// Mass of the vehicle, kg.
        mass,
        /// Moment of inertia about the vertical axis, kg m^2.
        yaw_inertia,
        /// Centre of gravity to front axle, m.
        front_axle,
        /// Centre of gravity to rear axle, m.
        rear_axle,
        /// Height of the sprung mass's centre of gravity, m.
        cog_height,
        /// Of the linear tyre.
        friction,
        /// Scale of the Pacejka tyre's forces: friction over the tyre's own.
        grip,
        /// Cornering stiffness of the front axle, 1/rad.
        cornering_front,
        /// Cornering stiffness of the rear axle, 1/rad.
        cornering_rear,
        /// Least road wheel angle, rad.
        steer_min,
        /// Largest road wheel angle, rad.
        steer_max,
        /// Least rate of the road wheel, rad/s.
        steer_rate_min,
        /// Largest rate of the road wheel, rad/s.
        steer_rate_max,
        /// Fastest reverse, m/s, at most 0.
        speed_min,
        /// Fastest speed forwards, m/s.
        speed_max,
        /// Speed above which engine power limits acceleration, m/s.
        switch_speed,
        /// Largest acceleration and deceleration, m/s^2.
        acceleration_max,
        /// Effective radius of a wheel, m.
        wheel_radius,
        /// One axle's wheels about their axis, kg m^2.
        wheel_inertia,
        /// Share of the brake torque at the front axle.
        brake_front,
        /// Share of the engine torque at the front axle.
        engine_front,
        /// Hitch to trailer axle, m.
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
