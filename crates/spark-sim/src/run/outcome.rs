//! What becomes of a scenario.

use crate::SimError;
use crate::metric::Metrics;
use serde::{Deserialize, Serialize};

/// Why a scenario has no metrics.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScenarioError {
    /// It could not be started.
    #[error("the scenario is invalid: {0}")]
    Invalid(#[from] SimError),
    /// The controller answered something that is not a number.
    #[error("the controller's {what} at step {step_idx} is {got}")]
    ActionNotFinite {
        /// Which of the two: steering or acceleration.
        what: &'static str,
        /// Number of the step, from 0.
        step_idx: usize,
        /// What the controller answered.
        got: f32,
    },
    /// The car left what the model can describe.
    #[error("the vehicle's state at step {step_idx} is no longer finite")]
    StateNotFinite {
        /// Number of the step, from 0.
        step_idx: usize,
    },
    /// A metric of the finished drive is not a number, or infinite.
    #[error("the drive's {metric} is {got}")]
    MetricNotFinite {
        /// Name of the metric.
        metric: &'static str,
        /// Its value, NaN or infinite.
        got: f64,
    },
    /// Neither a GPU nor the CPU may or can run it.
    #[error("{reason}")]
    NotOnDevice {
        /// Why neither can, as a sentence.
        reason: &'static str,
    },
    /// The GPU failed while it ran the scenario's block.
    #[error("the GPU: {message}")]
    Gpu {
        /// What the driver or the kernel said.
        message: String,
    },
    /// The controller panicked while it drove the scenario's block.
    #[error("the controller panicked: {message}")]
    Panicked {
        /// The text of the panic.
        message: String,
    },
    /// A drive of a run that was written down and read back; which of the others it was is not kept.
    #[error("{text}")]
    ReadBack {
        /// What the error said.
        text: String,
    },
    /// The controller took too long.
    #[error("the controller took {took_s:.3e} s at step {step_idx}, allowed are {allowed_s:.3e} s")]
    DeadlineMissed {
        /// Number of the step, from 0.
        step_idx: usize,
        /// Wall-clock time per scenario of that update, s.
        took_s: f64,
        /// Longest time allowed per scenario, s.
        allowed_s: f64,
    },
}

/// What became of one drive of a scenario.
#[derive(Debug)]
pub struct ScenarioResult {
    /// Place of the scenario in the input; replicates of a scenario share it.
    pub index: usize,
    /// Which replicate of the scenario this is, from 0.
    pub replicate: usize,
    /// Name of the scenario.
    pub name: String,
    /// Family of the scenario, if it states one.
    pub family: Option<String>,
    /// Seed of the scenario's noise in this drive.
    pub seed: u64,
    /// Its metrics, or why it could not be driven to its end.
    pub outcome: Result<Metrics, ScenarioError>,
    /// The drive, if it was recorded.
    pub trace: Option<Trace>,
}

/// The world and the commands at one recorded step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TraceRow {
    /// Time since the start, s.
    pub time: f64,
    /// Distance along the road, m.
    pub s: f64,
    /// Offset from the centre of the lane, m, left positive.
    pub d: f64,
    /// Heading relative to the road, rad.
    pub heading: f64,
    /// Speed of the car, m/s.
    pub speed: f64,
    /// Longitudinal acceleration of the car, m/s^2.
    pub acceleration: f64,
    /// Road wheel angle, rad.
    pub steer: f64,
    /// Curvature that the planner wants, 1/m.
    pub desired_curvature: f64,
    /// Curvature that the car drives, 1/m.
    pub curvature: f64,
    /// The controller's steering command.
    pub steer_command: f64,
    /// The controller's acceleration command, m/s^2.
    pub accel_command: f64,
    /// Speed that the planner wants, m/s.
    pub v_target: f64,
    /// Offset that the scenario asks for, m.
    pub offset_target: f64,
    /// Free space to the car ahead, m.
    pub gap: Option<f64>,
    /// Distance, offset and heading of every actor.
    pub actors: Vec<TraceActor>,
}

/// Where an actor was.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TraceActor {
    /// Distance along the road, m.
    pub s: f64,
    /// Offset from the centre of the ego's lane, m.
    pub d: f64,
    /// Heading relative to the road, rad.
    pub heading: f64,
    /// Speed of the actor, m/s.
    pub speed: f64,
}

/// A recorded drive of one scenario.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Trace {
    /// In the order of time.
    pub rows: Vec<TraceRow>,
}
