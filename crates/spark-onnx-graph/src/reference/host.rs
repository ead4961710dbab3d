//! What a run asks of whoever runs a network: memory, and whether to go on.

use crate::ModelError;
use crate::budget::{Asker, ModelBudget};

/// Who runs a network: gives memory, and may end the run.
///
/// [`ModelBudget`] is one that never ends it.
pub trait Host {
    /// Gives `bytes`.
    ///
    /// # Errors
    ///
    /// [`ModelError::OverBudget`] or [`ModelError::OutOfMemory`]; nothing is given then.
    fn take(&mut self, asker: Asker<'_>, bytes: usize) -> Result<(), ModelError>;

    /// Gets back `bytes` that it gave.
    fn give_back(&mut self, bytes: usize);

    /// Asked before every node, those of bodies too.
    ///
    /// # Errors
    ///
    /// [`ModelError::Cancelled`] to end the run.
    fn go_on(&mut self) -> Result<(), ModelError> {
        Ok(())
    }
}

impl Host for ModelBudget {
    fn take(&mut self, asker: Asker<'_>, bytes: usize) -> Result<(), ModelError> {
        ModelBudget::take(self, asker, bytes)
    }

    fn give_back(&mut self, bytes: usize) {
        ModelBudget::give_back(self, bytes);
    }
}
