//! How many bytes a model may take, and asking for them without ending the process.
//!
//! ```text
//! default  the smaller of  half of what the process can still get (control groups included)
//!                     and  64 x (bytes of the file) + 1 GiB
//!                          a graph without a file counts its constants instead
//! held against it          folded constants; every value the reference interpreter holds; in an engine
//!                          a plan's constants, packed weights, arena, scratch and outputs
//! ```
//!
//! Small files can ask for gigabytes (`ConstantOfShape`, `Expand`, ...), and a failed allocation
//! ends a Rust process. So a size that comes from a file or a caller's shapes is first held against
//! the budget, then asked of the system in a way that can fail.
//!
//! Deliberately absent: what the operating system gives later on; an overcommitting one may still
//! run out where others take the memory meanwhile.

use spark_hal::{Memory, Root};
use zerocopy::FromZeros;

use crate::ModelError;

/// Bytes allowed per byte of the file.
const PER_FILE_BYTE: usize = 64;
/// Bytes allowed whatever the file.
const BASE_BYTES: usize = 1 << 30;
/// Below this the system is not asked beforehand.
const ASKED_BYTES: usize = 16 << 20;

/// The budget of a model from a file of so many bytes, where nobody set one: what
/// [`Graph::source_bytes`](crate::graph::Graph::source_bytes) says of its network.
pub fn default_bytes(file_bytes: usize) -> usize {
    let by_file = by_file(file_bytes);
    half_of_available().map_or(by_file, |half| half.min(by_file))
}

/// What a file of so many bytes may take, however much memory there is.
pub(crate) fn by_file(file_bytes: usize) -> usize {
    file_bytes
        .saturating_mul(PER_FILE_BYTE)
        .saturating_add(BASE_BYTES)
}

/// Half of what this process can still get; `None` where the system does not say.
fn half_of_available() -> Option<usize> {
    let memory = Memory::read(&Root::host());
    let bytes = *memory.available_to_cpu_bytes().as_value()?;
    Some(usize::try_from(bytes / 2).unwrap_or(usize::MAX))
}

/// Who asks for memory, for the error.
#[derive(Debug, Clone, Copy)]
pub struct Asker<'a> {
    /// Name of the node or step.
    pub node: &'a str,
    /// Name of the node's operator, or of the step's kind.
    pub op: &'a str,
    /// What the memory is for.
    pub what: &'static str,
}

impl Asker<'_> {
    /// The error for memory that the system refuses, which the budget would allow.
    pub fn refused(self, wanted: usize) -> ModelError {
        ModelError::OutOfMemory {
            node: self.node.to_owned(),
            op: self.op.to_owned(),
            what: self.what,
            wanted,
        }
    }
}

/// Bytes allowed and bytes taken.
///
/// # Examples
///
/// ```
/// use spark_onnx_graph::budget::{Asker, ModelBudget};
///
/// let asker = Asker { node: "conv1", op: "Conv", what: "its weights" };
/// let mut budget = ModelBudget::new(1000);
/// budget.take(asker, 600)?;
/// assert_eq!(budget.left(), 400);
/// assert!(budget.check(asker, 500).is_err()); // names the node, what was asked and what is taken
/// # Ok::<(), spark_onnx_graph::ModelError>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct ModelBudget {
    bytes: usize,
    held: usize,
}

impl ModelBudget {
    /// A budget of `bytes`, of which nothing is taken.
    pub fn new(bytes: usize) -> Self {
        Self { bytes, held: 0 }
    }

    /// A budget of `bytes`, of which `taken` are.
    pub fn with_taken(bytes: usize, taken: usize) -> Self {
        Self { bytes, held: taken }
    }

    /// Bytes that are left.
    pub fn left(&self) -> usize {
        self.bytes.saturating_sub(self.held)
    }

    /// Holds `wanted` bytes against what is left, and asks the system for them; nothing is taken.
    ///
    /// # Errors
    ///
    /// [`ModelError::OverBudget`] or [`ModelError::OutOfMemory`].
    pub fn check(&self, asker: Asker<'_>, wanted: usize) -> Result<(), ModelError> {
        if wanted > self.left() {
            return Err(ModelError::OverBudget {
                node: asker.node.to_owned(),
                op: asker.op.to_owned(),
                what: asker.what,
                wanted,
                held: self.held,
                budget: self.bytes,
            });
        }
        match can_get(wanted) {
            true => Ok(()),
            false => Err(asker.refused(wanted)),
        }
    }

    /// Takes `wanted` bytes.
    ///
    /// # Errors
    ///
    /// As [`ModelBudget::check`].
    pub fn take(&mut self, asker: Asker<'_>, wanted: usize) -> Result<(), ModelError> {
        self.check(asker, wanted)?;
        self.held = self.held.saturating_add(wanted);
        Ok(())
    }

    /// Takes `bytes` off what is held; more than is held leaves none.
    pub fn give_back(&mut self, bytes: usize) {
        self.held = self.held.saturating_sub(bytes);
    }
}

/// Whether the system has `bytes` in one piece now. They are given back at once; code that then
/// takes no more than that in several pieces finds them, unless another thread was faster.
pub fn can_get(bytes: usize) -> bool {
    bytes < ASKED_BYTES || Vec::<u8>::new().try_reserve_exact(bytes).is_ok()
}

/// `len` zeros, or nothing where the system refuses. Pages come cleared when they are first
/// touched.
pub fn zeros<T: FromZeros>(len: usize) -> Option<Vec<T>> {
    T::new_vec_zeroed(len).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKER: Asker<'_> = Asker {
        node: "y",
        op: "Expand",
        what: "its result",
    };

    #[test]
    fn the_default_follows_the_file_until_half_of_the_memory() {
        let tiny = default_bytes(100);
        assert!(tiny <= 6400 + (1 << 30), "{tiny}");
        let half = half_of_available().expect("a system that says");
        let all = default_bytes(usize::MAX);
        assert!(all <= 2 * half && all >= half / 2, "{all} of {half}");
    }

    #[test]
    fn what_is_beyond_the_budget_is_refused_with_its_numbers() {
        let mut budget = ModelBudget::new(1000);
        budget.take(ASKER, 600).expect("fits");
        let error = budget.take(ASKER, 600).unwrap_err();
        assert_eq!(
            error.to_string(),
            "node `y` (Expand): its result takes 600 bytes, of the budget of 1000 bytes 600 are taken"
        );
        budget.give_back(600);
        budget.take(ASKER, 600).expect("fits again");
    }

    #[test]
    fn what_the_system_refuses_is_an_error() {
        // More than any address space.
        let bytes = usize::MAX / 4;
        assert!(!can_get(bytes) && zeros::<f32>(bytes / 4).is_none());
        let error = ModelBudget::new(usize::MAX)
            .check(ASKER, bytes)
            .unwrap_err();
        assert!(matches!(error, ModelError::OutOfMemory { .. }), "{error}");
    }
}
