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
mod dynamics;
mod kinematic;
mod model;
mod openpilot;
mod parameters;
mod presets;
mod single_track;
mod tyre;

pub use actuator::{Actuator, ActuatorBatch, ActuatorParameters, SteerInterface};
pub use constraint::{limited_acceleration, limited_steering_rate};
pub use drift::DriftSingleTrack;
pub use dynamics::{Direction, Dynamics, N_INPUTS, path_curvature};
pub use kinematic::{KinematicSingleTrack, KinematicTrailer};
pub use model::{GRAVITY, VehicleModel};
pub use openpilot::{OpenpilotVehicle, OpenpilotVehicleParameters, hold_inputs};
pub use parameters::{ParameterBatch, Parameters, VehicleParameters};
pub use presets::{CommonRoadVehicle, VehiclePreset};
pub use single_track::{DynamicSingleTrack, slowest_slip};
pub use tyre::Tyre;
