//! Vehicle models: right-hand sides `dx/dt = f(x, u)`.
//!
//! ```text
//! u = [steering rate (rad/s), longitudinal acceleration (m/s^2)]
//!
//! index   0  1  2      3      4        5         6     7      8
//! KS      x  y  steer  speed  heading                               rear axle
//! KST     x  y  steer  speed  heading  hitch                        rear axle
//! ST      x  y  steer  speed  heading  yaw rate  slip               centre of gravity
//! STD     x  y  steer  speed  heading  yaw rate  slip  wheel f, r   centre of gravity
//! ```
//!
//! x forward at heading 0, y left, angles counter-clockwise, SI units. Limits of
//! steering and acceleration are applied inside every right-hand side.
//!
//! Models: Althoff, Wuersching, *CommonRoad: Vehicle Models* (2020a). Their
//! 29-state multi-body model is not here.

mod actuator;
mod constraint;
mod drift;
mod kinematic;
mod openpilot;
mod parameters;
mod presets;
mod single_track;
mod tyre;

pub use actuator::{Actuator, ActuatorBatch, ActuatorParameters, SteerInterface};
pub use constraint::{limited_acceleration, limited_steering_rate};
pub use drift::DriftSingleTrack;
pub use kinematic::{KinematicSingleTrack, KinematicTrailer};
pub use openpilot::{OpenpilotVehicle, OpenpilotVehicleParameters, hold_inputs};
pub use parameters::{ParameterBatch, Parameters, VehicleParameters};
pub use presets::{CommonRoadVehicle, VehiclePreset};
pub use single_track::{DynamicSingleTrack, slowest_slip};
pub use tyre::Tyre;

use crate::real::Real;
use serde::{Deserialize, Serialize};

/// Standard gravity as the published models use it, m/s^2.
pub const GRAVITY: f64 = 9.81;

/// Number of control inputs: steering rate and acceleration.
pub const N_INPUTS: usize = 2;

/// A vehicle model with `N` state variables.
pub trait Dynamics<const N: usize> {
    /// Time derivative of the state.
    ///
    /// `u` is `[steering rate rad/s, acceleration m/s^2]`; it is limited to what
    /// the vehicle can do before it is used.
    fn derivative<R: Real>(p: &Parameters<R>, x: &[R; N], u: [R; N_INPUTS]) -> [R; N];

    /// The same bits, for a caller that has the state's [`Direction`] at hand. Models whose
    /// derivative is not made of it do not look at it.
    #[inline(always)]
    fn derivative_toward<R: Real>(
        p: &Parameters<R>,
        x: &[R; N],
        u: [R; N_INPUTS],
        _direction: &Direction<R>,
    ) -> [R; N] {
        Self::derivative(p, x, u)
    }
}

/// Where a car without slip is going, from its heading and steering angle.
#[derive(Debug, Clone, Copy)]
pub struct Direction<R> {
    /// Sine of the heading.
    pub sin_heading: R,
    /// Cosine of the heading.
    pub cos_heading: R,
    /// Curvature of its path, 1/m; see [`path_curvature`].
    pub path_curvature: R,
}

/// Curvature of the path of a car without slip, `tan(steer) / wheelbase`, 1/m.
#[inline(always)]
pub fn path_curvature<R: Real>(p: &Parameters<R>, steer: R) -> R {
    let (sin, cos) = steer.sin_cos();
    sin / (cos * p.wheelbase())
}

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
    /// [`slowest_slip`] says from which speed on they can be stepped at all.
    pub const fn longest_step_s(self) -> f64 {
        match self {
            Self::Kinematic | Self::KinematicTrailer => 0.1,
            Self::SingleTrack => 0.01,
            Self::Drift => 0.001,
        }
    }
}
