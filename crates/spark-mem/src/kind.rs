//! The kinds of memory. Who allocates them and which side reaches them: [`buffer`](crate::buffer).

/// Where a buffer's memory lies. See [`buffer`](crate::buffer).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BufferKind {
    /// Host memory for the host alone.
    Host,
    /// Host memory that stays in place and that the device can reach.
    Pinned,
    /// Managed memory: one address for both sides, the driver moves pages.
    Unified,
    /// Plain memory of the system, which the device reads through the CPU's page tables.
    System,
    /// Memory of the device alone.
    Device,
}

impl BufferKind {
    /// Every kind of buffer, for tests and measurements that go through all.
    pub const ALL: [Self; 5] = [
        Self::Host,
        Self::Pinned,
        Self::Unified,
        Self::System,
        Self::Device,
    ];

    /// Whether the host can use it without a copy.
    #[must_use]
    pub fn is_host_visible(self) -> bool {
        self != Self::Device
    }

    /// Whether it is host memory first of all, so that copies from it cross to the device.
    #[must_use]
    pub fn is_host_memory(self) -> bool {
        matches!(self, Self::Host | Self::Pinned)
    }
}
