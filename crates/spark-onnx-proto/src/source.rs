//! Where the elements of constants come from, and how much memory reading them may take.
//!
//! ```text
//! model in memory          elements stand in the message
//! ModelFile                large elements are read from the file when a constant is made
//! files beside the model   external data, confined to the model's folder
//! ```

use std::path::Path;

use crate::error::ProtoError;
use crate::external::ExternalFiles;
use crate::model_file::{LeftOut, ModelFile};
use crate::wire::ReadBudget;

/// What constants may take beyond the files they come from: lists of small integers
/// and sparse tensors grow when read.
pub(crate) const CONSTANT_BYTES: usize = 512 << 20;

/// Where constants of one model come from, and how much memory they may take.
#[derive(Debug)]
pub struct ConstantSource<'f> {
    /// Elements of the model itself that were not read with it.
    pub(crate) left_out: Option<LeftOut<'f>>,
    pub(crate) external: ExternalFiles<'f>,
    pub(crate) budget: ReadBudget,
    pub(crate) before_reading: fn(&[u8]),
    n_model_bytes: usize,
}

impl<'f> ConstantSource<'f> {
    /// Constants of the model in `bytes`. `folder` is where constants outside the model are looked
    /// for; without it such constants are an error.
    pub fn of_bytes(bytes: &[u8], folder: Option<&'f Path>) -> Self {
        Self::new(bytes.len(), None, folder)
    }

    /// Constants of the model in `file`, from the file and its folder.
    pub fn of_file(file: &'f ModelFile) -> Self {
        Self::new(file.n_bytes(), Some(file.left_out()), Some(file.folder()))
    }

    fn new(n_model_bytes: usize, left_out: Option<LeftOut<'f>>, folder: Option<&'f Path>) -> Self {
        Self {
            left_out,
            external: ExternalFiles::new(folder),
            budget: ReadBudget::new(n_model_bytes.saturating_add(CONSTANT_BYTES)),
            before_reading: |_| (),
            n_model_bytes,
        }
    }

    /// Calls `hint` with the memory of every constant before it is written from end to end, for
    /// hints to the system about its pages.
    pub fn with_hint(mut self, hint: fn(&[u8])) -> Self {
        self.before_reading = hint;
        self
    }

    /// Takes `n_bytes` off the memory that reading may take, before they are allocated.
    ///
    /// # Errors
    ///
    /// [`ProtoError::Memory`] if that many are not left.
    pub fn charge(&mut self, what: &'static str, n_bytes: usize) -> Result<(), ProtoError> {
        self.budget.charge(what, n_bytes)
    }

    /// Bytes of the model and of all files beside it that were opened so far.
    pub fn n_file_bytes(&self) -> usize {
        self.n_model_bytes.saturating_add(self.external.n_bytes())
    }
}
