//! Elements moved as they are: copies and one value everywhere.

use super::lowered_step::LoweredStep;
use crate::plan::storage::Storage;
use crate::plan::view::View;

/// Element by element from one view to another of the same shape; of the same storage too, or of floats that
/// are whole to bytes, or back.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CopyStep {
    pub(crate) x: View,
    pub(crate) y: View,
}

impl LoweredStep for CopyStep {
    fn kind(&self) -> &'static str {
        "copy"
    }

    fn views_read(&self) -> Vec<&View> {
        vec![&self.x]
    }

    fn views_written(&self) -> Vec<&View> {
        vec![&self.y]
    }

    fn views_mut(&mut self) -> Vec<&mut View> {
        vec![&mut self.x, &mut self.y]
    }

    fn is_held_rightly(&self, storage: &dyn Fn(&View) -> Storage) -> bool {
        let (x, y) = (storage(&self.x), storage(&self.y));
        let converts = (x == Storage::F32 && y.is_byte()) || (x.is_byte() && y == Storage::F32);
        x == y || converts || (x.is_float() && y.is_float())
    }
}

/// Writes one value to every element of a view.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FillStep {
    pub(crate) y: View,
    /// The value, converted to the storage of `y`.
    pub(crate) value: f64,
}

impl LoweredStep for FillStep {
    fn kind(&self) -> &'static str {
        "fill"
    }

    fn views_read(&self) -> Vec<&View> {
        Vec::new()
    }

    fn views_written(&self) -> Vec<&View> {
        vec![&self.y]
    }

    fn views_mut(&mut self) -> Vec<&mut View> {
        vec![&mut self.y]
    }

    fn is_held_rightly(&self, _: &dyn Fn(&View) -> Storage) -> bool {
        true
    }
}
