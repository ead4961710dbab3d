//! Which vehicle models there are, and what they have in common before any of them is written down.

use serde::{Deserialize, Serialize};

/// Standard gravity as the published models use it, m/s^2.
pub const GRAVITY: f64 = 9.81;

/// Below this speed, in m/s, published dynamic models are kinematic.
pub(super) const KINEMATIC_BELOW: f64 = 0.1;

/// Which vehicle model moves a car.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Default,
)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum VehicleModel {
    /// Kinematic single-track, 5 states.
    #[default]
    Kinematic,
    /// Kinematic single-track with an on-axle trailer, 6 states.
    KinematicTrailer,
    /// Dynamic single-track with linear tyres and load transfer, 7 states.
    SingleTrack,
    /// Single-track drift model with Pacejka tyres and wheel speeds, 9 states.
    Drift,
}

impl VehicleModel {
    /// Number of state variables.
    pub const fn n_states(self) -> usize {
        match self {
            Self::Kinematic => 5,
            Self::KinematicTrailer => 6,
            Self::SingleTrack => 7,
            Self::Drift => 9,
        }
    }

    /// The longest Euler or RK4 step, in s, at which the model is stable above walking pace.
    ///
    /// The drift model's wheel dynamics are stiff. So are linear tyres at low speed, where
    /// [`slowest_slip`](super::slowest_slip) says from which speed on they can be stepped at all.
    pub const fn longest_step_s(self) -> f64 {
        match self {
            Self::Kinematic | Self::KinematicTrailer => 0.1,
            Self::SingleTrack => 0.01,
            Self::Drift => 0.001,
        }
    }
}
