//! Which memory an instruction goes to, how much of it, and how strongly.

use super::rows::{R32, R64};

/// Where an access goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AccessSpace {
    Generic,
    Global,
    /// Global memory that may not be written.
    Const,
    Shared,
    Local,
    /// Parameters of the kernel.
    KernelParam,
    /// Parameters of calls, in the frame.
    FrameParam,
}

/// How memory is accessed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Access {
    pub(crate) space: AccessSpace,
    /// Bytes of one element.
    pub(crate) size: u8,
    /// Elements.
    pub(crate) count: u8,
    /// Whether a loaded element is sign-extended.
    pub(crate) signed: bool,
    /// Volatile, relaxed and stronger: with whom its like does not race; none for an ordinary access.
    pub(crate) scope: Option<Scope>,
    /// `.nc`: nobody writes what is read while the kernel runs.
    pub(crate) read_only: bool,
}

/// Whose threads see an access as one of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// `.cta`, and `.cluster`, as every block is a cluster of its own.
    Block,
    /// `.gpu` and `.sys`.
    Device,
}

impl Access {
    /// Whether it is none of the ordinary ones.
    pub(crate) fn is_strong(&self) -> bool {
        self.scope.is_some()
    }

    /// Bytes of all elements.
    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.size) * u64::from(self.count)
    }
}

/// What an address starts from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum AddressBase {
    None,
    W32(R32),
    W64(R64),
    /// Local memory of the frame.
    Frame,
}

/// Base and offset.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AddressOperand {
    pub(crate) base: AddressBase,
    pub(crate) offset: i64,
}
