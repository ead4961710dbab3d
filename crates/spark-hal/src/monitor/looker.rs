//! One look at everything: the machine, its processes and its GPUs, never later than the caller has patience.
//!
//! ```text
//! look ── asks the GPUs' thread ── counters, memory, temperatures ── processes, where it is time ── the GPUs' answer
//!                                                                                                   or how long it is awaited
//! ```

use std::time::{Duration, Instant, SystemTime};

use crate::root::Root;

use super::gpu_worker::{self, GpuAnswer, GpuWorker, OpenGpus};
use super::host::{HostSample, HostSampler};
use super::processes::{Process, ProcessSampler};

/// Everything that was seen at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Look {
    /// By the wall clock, which people may set meanwhile.
    pub time: SystemTime,
    /// The machine around its GPUs.
    pub host: HostSample,
    /// Its processes, seen at most [`PROCESS_INTERVAL`] before.
    pub processes: Vec<Process>,
    /// Its GPUs.
    pub gpus: GpuAnswer,
}

/// Processes are looked at no more often: there may be hundreds, a file each.
pub const PROCESS_INTERVAL: Duration = Duration::from_secs(2);

/// Looks at everything when told to.
pub struct Looker {
    host: HostSampler,
    process_sampler: ProcessSampler,
    processes: Vec<Process>,
    seen_processes: Option<Instant>,
    gpus: GpuWorker,
}

impl Looker {
    /// Watches this machine. The driver's libraries are opened on a thread of their own, and nobody waits for them.
    #[must_use]
    pub fn open() -> Self {
        Self::with(Root::host(), Box::new(gpu_worker::of_this_machine))
    }

    /// Watches the machine that this root describes and the GPUs that `open` opens, on a thread of their own.
    #[must_use]
    pub fn with(root: Root, open: OpenGpus) -> Self {
        Self {
            gpus: GpuWorker::start(open),
            host: HostSampler::open(root.clone()),
            process_sampler: ProcessSampler::open(root),
            processes: Vec::new(),
            seen_processes: None,
        }
    }

    /// One look. GPUs that do not answer within `patience` are left out of it, with the reason in their place.
    pub fn look(&mut self, patience: Duration) -> Look {
        let now = Instant::now();
        self.gpus.ask();
        let time = SystemTime::now();
        let host = self.host.look();
        if self
            .seen_processes
            .is_none_or(|seen| now - seen >= PROCESS_INTERVAL)
        {
            self.processes = self.process_sampler.look();
            self.seen_processes = Some(now);
        }
        Look {
            time,
            host,
            processes: self.processes.clone(),
            gpus: self.gpus.answer(now + patience),
        }
    }
}
