//! Controllers: what is under test, and what surrounds it.
//!
//! ```text
//! StateBatch --> Algorithm::update --> ActionBatch        one call per step, all lanes
//!
//! planner      road, lead and requests -> desired curvature, target acceleration
//! lateral      PID and torque controllers with openpilot's semantics, LQR, pure pursuit
//! longitudinal openpilot's stopping/starting/pid states
//! baselines    perfect tracking, doing nothing
//! r157         reference drivers of UN R157
//! policy       an ONNX network (feature `model`)
//! cuda         controllers for a GPU: some of the above, and snippets of CUDA C
//! ```
//!
//! Left is positive for offsets, angles, curvatures and torques; openpilot's own
//! curvature sign is the opposite.

mod algorithm;
mod baseline;
mod cuda;
mod device_code;
mod lane_setup;
mod lateral_pid;
mod lateral_torque;
mod longitudinal;
pub mod planner;
#[cfg(feature = "model")]
mod policy;
mod reference_driver;
mod state;
mod state_feedback;
mod table;
#[cfg(test)]
mod tests;
mod torque_lane;

pub use algorithm::{Algorithm, AlgorithmFactory, Combined, LaneAlgorithm, Named, PerLane, named};
pub use baseline::{DoNothing, PerfectTracking};
pub use cuda::{CudaOnly, cuda_only};
pub use device_code::CudaControl;
pub use lane_setup::LaneSetup;
pub use lateral_pid::{LateralPid, LateralPidConfig};
pub use lateral_torque::LateralTorque;
pub use longitudinal::{Longitudinal, LongitudinalConfig};
#[cfg(feature = "model")]
pub use policy::{Policy, PolicyConfig, PolicySignal};
pub use reference_driver::{ReferenceDriver, ReferenceDriverKind, minimum_following_distance};
pub use state::{Action, ActionBatch, State, StateBatch};
pub use state_feedback::{Lqr, LqrConfig, PurePursuit, PurePursuitConfig};
pub use table::Table;
pub use torque_lane::LateralTorqueConfig;
