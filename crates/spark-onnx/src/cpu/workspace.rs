//! Memory that running takes beyond the arena: how much, and taking it.
//!
//! ```text
//! scratch    per thread, as much as the step that needs most
//! shared     by all threads, as much as the step that needs most
//! ```
//!
//! Deliberately absent: what packing weights takes, which each kernel knows
//! ([`super::prepared::Kernel::packing_bytes`]).

use super::memory::AlignedF32;
use crate::ModelError;
use crate::budget::{Asker, ModelBudget};
use crate::plan::PlannedStep;

/// What the memory of all threads is for, in errors.
const SCRATCH: &str = "its scratch on every thread";

/// `planned` as the one that wants memory, for errors.
pub(crate) fn asker<'a>(planned: &'a PlannedStep, what: &'static str) -> Asker<'a> {
    Asker {
        node: &planned.name,
        op: planned.step.kind(),
        what,
    }
}

/// `len` zeros, taken from `budget`.
fn take(budget: &mut ModelBudget, asker: Asker<'_>, len: usize) -> Result<AlignedF32, ModelError> {
    let bytes = len.saturating_mul(size_of::<f32>());
    budget.take(asker, bytes)?;
    AlignedF32::try_zeros(len).ok_or_else(|| asker.refused(bytes))
}

/// Memory that a step runs in, beside its views.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct WorkspaceSize {
    /// f32 elements on every thread.
    pub(crate) scratch: usize,
    /// f32 elements that all threads share: quantised activations.
    pub(crate) shared: usize,
}

impl WorkspaceSize {
    /// So many elements on every thread, and nothing shared.
    pub(crate) fn scratch(len: usize) -> Self {
        Self {
            scratch: len,
            shared: 0,
        }
    }
}

/// Memory of one run of a step, as its kernel sees it.
pub(crate) struct Scratch {
    base: *mut f32,
    /// Elements of each thread's part.
    stride: usize,
    /// What all threads share, at least [`WorkspaceSize::shared`] elements. The kernel says which of
    /// its tasks touches which of them.
    pub(crate) shared: *mut f32,
}

// SAFETY: every task uses its own part; a kernel's tasks write disjoint elements of what is shared.
unsafe impl Sync for Scratch {}

impl Scratch {
    /// The part of task or slot `task`, at least [`WorkspaceSize::scratch`] elements, which no other
    /// task that runs at the same time may touch.
    pub(crate) fn part(&self, task: usize) -> *mut f32 {
        self.base.wrapping_add(task * self.stride)
    }
}

/// The memory that steps run in, one after the other.
pub(crate) struct Workspace {
    scratch: AlignedF32,
    /// Elements of each thread's part of it.
    scratch_stride: usize,
    /// Shared by all threads.
    shared: AlignedF32,
}

impl Workspace {
    /// A workspace without memory, enough for no step.
    pub(crate) fn empty() -> Self {
        Self {
            scratch: AlignedF32::zeros(0),
            scratch_stride: 0,
            shared: AlignedF32::zeros(0),
        }
    }

    /// Bytes of the scratch of all threads and of what they share.
    pub(crate) fn size_bytes(&self) -> usize {
        4 * (self.scratch.len() + self.shared.len())
    }

    /// Takes from `budget` what `steps` need on `threads` threads beyond what there is.
    ///
    /// # Errors
    ///
    /// [`ModelError::OverBudget`] or [`ModelError::OutOfMemory`], naming the step that needs most.
    pub(crate) fn grow<'p>(
        &mut self,
        threads: usize,
        steps: impl Iterator<Item = (&'p PlannedStep, WorkspaceSize)>,
        budget: &mut ModelBudget,
    ) -> Result<(), ModelError> {
        let (mut scratch, mut shared) = ((0, None), (0, None));
        for (planned, size) in steps {
            // Of equal sizes the last one's step is named.
            let len = size.scratch.next_multiple_of(16);
            if len >= scratch.0 {
                scratch = (len, Some(planned));
            }
            if size.shared >= shared.0 {
                shared = (size.shared, Some(planned));
            }
        }
        if let (len, Some(planned)) = shared
            && len > self.shared.len()
        {
            let asker = asker(planned, "its activations");
            budget.give_back(4 * self.shared.len());
            self.shared = take(budget, asker, len)?;
        }
        if let (stride, Some(planned)) = scratch
            && stride > self.scratch_stride
        {
            let asker = asker(planned, SCRATCH);
            budget.give_back(4 * self.scratch.len());
            self.scratch = take(budget, asker, stride.saturating_mul(threads))?;
            self.scratch_stride = stride;
        }
        Ok(())
    }

    /// The memory for one run of a step.
    pub(crate) fn scratch(&mut self) -> Scratch {
        Scratch {
            base: self.scratch.as_mut_slice().as_mut_ptr(),
            stride: self.scratch_stride,
            shared: self.shared.as_mut_slice().as_mut_ptr(),
        }
    }
}
