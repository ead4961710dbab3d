//! Why a step has no kernel here, before the node's name is known.

use crate::ModelError;
use crate::plan::PlannedStep;

/// What kernels of a device are called in errors.
pub(super) const DEVICE: &str = "cuda";

/// Half a sentence: what is asked for that no kernel computes.
#[derive(Debug)]
pub(super) struct Refused(pub(super) String);

impl Refused {
    /// `Err`, of these words.
    pub(super) fn because<T>(reason: impl Into<String>) -> Result<T, Self> {
        Err(Self(reason.into()))
    }

    /// The error that names the step.
    pub(super) fn of_step(self, planned: &PlannedStep) -> ModelError {
        self.of_node(&planned.name, planned.step.kind())
    }

    /// The error that names a node, or a port, and what it is.
    pub(super) fn of_node(self, node: &str, kind: &str) -> ModelError {
        ModelError::StepUnsupported {
            node: node.to_owned(),
            step: kind.to_owned(),
            device: DEVICE,
            reason: self.0,
        }
    }
}
