//! The two ends of the scale: what a perfect controller and an absent one would do.

use super::{ActionBatch, Algorithm, LaneSetup, StateBatch};
use crate::vehicle::SteerInterface;

/// Passes the desired curvature and the target acceleration on unchanged.
///
/// Its errors are those of planner, actuators and vehicle alone: no controller behind
/// the same interface can be expected to do much better.
#[derive(Debug, Clone, Copy, Default)]
pub struct PerfectTracking;

impl Algorithm for PerfectTracking {
    fn reset(&mut self, _lanes: &[LaneSetup]) {}

    fn update(&mut self, state: &StateBatch, action: &mut ActionBatch) {
        action.steer.copy_from_slice(&state.desired_curvature);
        action.accel.copy_from_slice(&state.a_target);
    }

    fn steer_interface(&self) -> Option<SteerInterface> {
        Some(SteerInterface::Curvature)
    }

    fn controls_speed(&self) -> bool {
        true
    }
}

/// Steers straight and neither accelerates nor brakes.
#[derive(Debug, Clone, Copy, Default)]
pub struct DoNothing;

impl Algorithm for DoNothing {
    fn reset(&mut self, _lanes: &[LaneSetup]) {}

    fn update(&mut self, _state: &StateBatch, action: &mut ActionBatch) {
        action.steer.fill(0.0);
        action.accel.fill(0.0);
    }

    fn steer_interface(&self) -> Option<SteerInterface> {
        Some(SteerInterface::Angle)
    }

    fn controls_speed(&self) -> bool {
        true
    }
}
