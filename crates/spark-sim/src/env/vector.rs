//! What every environment is to its user: sizes, buffers, and the trait that steps worlds together.
//!
//! Deliberately absent: what any environment observes and rewards.

use crate::SimError;
use serde::{Deserialize, Serialize};

/// When a world that has ended starts again. The names are Gymnasium's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Autoreset {
    /// On the step after the end.
    #[default]
    NextStep,
    /// On the step of the end; see [`StepBuffers::final_observations`].
    SameStep,
    /// Never: ended worlds stand still until `reset`.
    Disabled,
}

/// Sizes of an environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EnvShape {
    /// Worlds that are stepped together and do not meet.
    pub n_worlds: usize,
    /// Agents in every world.
    pub n_agents: usize,
    /// Numbers that an agent observes at a step.
    pub observation_size: usize,
    /// Numbers per action, each in [-1, 1].
    pub action_size: usize,
}

impl EnvShape {
    /// Rows of every buffer.
    pub fn n_rows(&self) -> usize {
        self.n_worlds * self.n_agents
    }
}

/// Where a step writes. Row-major; one row per agent.
#[derive(Debug, Clone)]
pub struct StepBuffers {
    /// What the agents see after the step, `[rows, observation_size]`.
    pub observations: Vec<f32>,
    /// What the step was worth to each agent, `[rows]`.
    pub rewards: Vec<f32>,
    /// Whether the agent's world came to an end of its own, `[rows]`.
    pub terminated: Vec<bool>,
    /// Whether it was cut off by the number of steps, `[rows]`.
    pub truncated: Vec<bool>,
    /// `[rows, observation_size]`: with [`Autoreset::SameStep`], the last observation of the
    /// worlds that ended at this step; other rows are left alone.
    pub final_observations: Vec<f32>,
}

impl StepBuffers {
    /// Buffers for an environment.
    pub fn new(shape: EnvShape) -> Self {
        let rows = shape.n_rows();
        Self {
            observations: vec![0.0; rows * shape.observation_size],
            rewards: vec![0.0; rows],
            terminated: vec![false; rows],
            truncated: vec![false; rows],
            final_observations: vec![0.0; rows * shape.observation_size],
        }
    }

    pub(super) fn check(&self, shape: EnvShape, actions: &[f32]) -> Result<(), SimError> {
        let rows = shape.n_rows();
        let sizes = [
            ("actions", actions.len(), rows * shape.action_size),
            (
                "observations",
                self.observations.len(),
                rows * shape.observation_size,
            ),
            ("rewards", self.rewards.len(), rows),
            ("terminated", self.terminated.len(), rows),
            ("truncated", self.truncated.len(), rows),
            (
                "final observations",
                self.final_observations.len(),
                rows * shape.observation_size,
            ),
        ];
        for (what, got, want) in sizes {
            if got != want {
                return Err(SimError::LengthMismatch { what, got, want });
            }
        }
        if let Some(&got) = actions.iter().find(|a| !a.is_finite()) {
            return Err(SimError::OutOfRange {
                what: "action",
                got: f64::from(got),
                want: "a finite number",
            });
        }
        Ok(())
    }
}

/// Many worlds stepped together.
pub trait VectorEnv {
    /// Sizes of the environment, which never change.
    fn shape(&self) -> EnvShape;

    /// Starts every world anew and writes the first observations.
    ///
    /// # Errors
    ///
    /// [`SimError::LengthMismatch`] if `observations` is not `[rows, observation_size]`.
    fn reset(&mut self, seed: u64, observations: &mut [f32]) -> Result<(), SimError>;

    /// One step of every world; `actions` is `[rows, action_size]`, clipped to [-1, 1].
    ///
    /// # Errors
    ///
    /// [`SimError::LengthMismatch`] for a buffer of the wrong size, [`SimError::OutOfRange`]
    /// for an action that is not finite. Nothing moves on error.
    fn step(&mut self, actions: &[f32], buffers: &mut StepBuffers) -> Result<(), SimError>;
}

/// Whether `observations` is `[rows, observation_size]`.
pub(super) fn check_observations(shape: EnvShape, observations: &[f32]) -> Result<(), SimError> {
    let want = shape.n_rows() * shape.observation_size;
    if observations.len() == want {
        Ok(())
    } else {
        Err(SimError::LengthMismatch {
            what: "observations",
            got: observations.len(),
            want,
        })
    }
}
