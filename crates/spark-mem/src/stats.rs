//! What was copied and launched: the proof that nothing was copied where nothing had to be.

use std::sync::atomic::{AtomicU64, Ordering};

/// Copies in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Copies {
    /// Number of copies that were made.
    pub count: u64,
    /// How many bytes altogether.
    pub bytes: u64,
}

/// What a device has done since it was opened.
///
/// Clearing new memory is no copy and is not counted. What a graph copies is counted at each of its
/// launches, not when it is recorded. Pages that a driver moves by itself are not seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TransferStats {
    /// Copies from host memory into memory of the device alone.
    pub host_to_device: Copies,
    /// Copies from memory of the device alone into host memory.
    pub device_to_host: Copies,
    /// Copies that the device made within its own or shared memory.
    pub on_device: Copies,
    /// Copies that the CPU made, as when filling a shared buffer from a slice.
    pub on_host: Copies,
    /// Host guards that needed no copy.
    pub shared_accesses: u64,
    /// Kernels launched, those inside graphs not counted.
    pub launches: u64,
    /// Graphs launched; the kernels in them are not counted one by one.
    pub graph_launches: u64,
}

impl TransferStats {
    /// Copies of every direction.
    #[must_use]
    pub fn copies(&self) -> u64 {
        let all = [
            self.host_to_device,
            self.device_to_host,
            self.on_device,
            self.on_host,
        ];
        all.iter().map(|copies| copies.count).sum()
    }

    /// Copies across the bus, between host memory and memory of the device alone.
    #[must_use]
    pub fn copies_across(&self) -> u64 {
        self.host_to_device.count + self.device_to_host.count
    }

    /// What happened since `earlier`, an older reading of the same device.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let minus = |now: Copies, then: Copies| Copies {
            count: now.count.saturating_sub(then.count),
            bytes: now.bytes.saturating_sub(then.bytes),
        };
        Self {
            host_to_device: minus(self.host_to_device, earlier.host_to_device),
            device_to_host: minus(self.device_to_host, earlier.device_to_host),
            on_device: minus(self.on_device, earlier.on_device),
            on_host: minus(self.on_host, earlier.on_host),
            shared_accesses: self.shared_accesses.saturating_sub(earlier.shared_accesses),
            launches: self.launches.saturating_sub(earlier.launches),
            graph_launches: self.graph_launches.saturating_sub(earlier.graph_launches),
        }
    }
}

/// Which way a copy goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    HostToDevice,
    DeviceToHost,
    OnDevice,
    OnHost,
}

#[derive(Debug, Default)]
struct Counter {
    count: AtomicU64,
    bytes: AtomicU64,
}

impl Counter {
    fn read(&self) -> Copies {
        Copies {
            count: self.count.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }
}

/// The counters of one device.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    copies: [Counter; 4],
    shared_accesses: AtomicU64,
    launches: AtomicU64,
    graph_launches: AtomicU64,
}

impl Counters {
    pub(crate) fn copied(&self, direction: Direction, n_bytes: usize) {
        let counter = &self.copies[direction as usize];
        counter.count.fetch_add(1, Ordering::Relaxed);
        counter.bytes.fetch_add(n_bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn shared(&self) {
        self.shared_accesses.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn launched(&self) {
        self.launches.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn launched_graph(&self) {
        self.graph_launches.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> TransferStats {
        let of = |direction: Direction| self.copies[direction as usize].read();
        TransferStats {
            host_to_device: of(Direction::HostToDevice),
            device_to_host: of(Direction::DeviceToHost),
            on_device: of(Direction::OnDevice),
            on_host: of(Direction::OnHost),
            shared_accesses: self.shared_accesses.load(Ordering::Relaxed),
            launches: self.launches.load(Ordering::Relaxed),
            graph_launches: self.graph_launches.load(Ordering::Relaxed),
        }
    }
}
