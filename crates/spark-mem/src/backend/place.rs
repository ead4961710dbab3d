//! Where memory lies: raw addresses, the two ends of a copy, and hints to the driver.

use crate::kind::BufferKind;

/// Memory a backend handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RawMemory {
    /// Where the host finds it; null if it cannot.
    pub(crate) host: *mut u8,
    /// Where the device finds it; 0 if it cannot.
    pub(crate) device: u64,
    pub(crate) len_bytes: usize,
    pub(crate) kind: BufferKind,
}

impl RawMemory {
    /// No memory at all, for buffers of no elements.
    pub(crate) fn empty(kind: BufferKind) -> Self {
        Self {
            host: std::ptr::null_mut(),
            device: 0,
            len_bytes: 0,
            kind,
        }
    }
}

/// One end of a copy.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place {
    /// Host memory that the device cannot address.
    Host(*mut u8),
    /// An address of the device; pinned and shared memory have one too.
    Device(u64),
}

/// Which place a backend copies from or to.
pub(crate) fn place_of(memory: RawMemory, offset_bytes: usize) -> Place {
    if memory.device == 0 {
        // Wrapping arithmetic: the offset lies inside, which views check when made.
        Place::Host(memory.host.wrapping_add(offset_bytes))
    } else {
        Place::Device(memory.device + offset_bytes as u64)
    }
}

/// Where shared memory should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// In the CPU's memory.
    Host,
    /// In the memory next to the device.
    Device,
}

/// How memory will be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// Mostly read: each side may keep a copy of its own.
    MostlyRead,
    /// No longer mostly read.
    NotMostlyRead,
    /// Kept on this side where possible.
    PreferredSide(Side),
    /// Used from this side: mapped there, wherever it is.
    AccessedFrom(Side),
}

/// Whether a hint meant anything to this device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hint {
    /// Handed to the driver.
    Given,
    /// This kind of memory never moves, or there is no driver to tell.
    NotApplicable,
}
