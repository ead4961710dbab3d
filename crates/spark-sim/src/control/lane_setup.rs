//! What controllers are told of a car when a drive begins.

use crate::vehicle::{ActuatorParameters, VehicleModel, VehicleParameters};

/// What a controller may know about a car before it drives it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LaneSetup {
    /// Size, mass, tyres and limits of the car.
    pub vehicle: VehicleParameters,
    /// Delays, lags and limits of steering and powertrain.
    pub actuators: ActuatorParameters,
    /// Equations of motion that the car follows.
    pub model: VehicleModel,
    /// Length of a step, s.
    pub dt_s: f64,
}

impl LaneSetup {
    /// Understeer as openpilot's slip factor, s^2/m^2; 0 for kinematic models, which do not slip.
    pub fn slip_factor(&self) -> f64 {
        match self.model {
            VehicleModel::Kinematic | VehicleModel::KinematicTrailer => 0.0,
            VehicleModel::SingleTrack | VehicleModel::Drift => {
                -self.vehicle.understeer_gradient() / self.vehicle.wheelbase()
            }
        }
    }
}
