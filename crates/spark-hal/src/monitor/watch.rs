//! A thread that looks at GPUs until it is stopped.

use std::collections::VecDeque;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::reading::Failure;

use super::recording::Recording;
use super::sample::Sample;
use super::sampler::{SHORTEST_INTERVAL, Sampler, following};

/// Which GPUs to watch, how often, and how much to keep.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MonitorOptions {
    /// Time between two looks; at least [`SHORTEST_INTERVAL`].
    pub interval: Duration,
    /// Samples kept; the oldest are dropped.
    pub capacity: usize,
    /// NVML's numbers of the GPUs to watch; empty for all.
    pub gpus: Vec<u32>,
}

impl Default for MonitorOptions {
    /// Every 100 ms, one hour of one GPU, all GPUs.
    fn default() -> Self {
        Self {
            interval: Duration::from_millis(100),
            capacity: 36_000,
            gpus: Vec::new(),
        }
    }
}

impl MonitorOptions {
    /// With this time between two looks.
    #[must_use]
    pub fn with_interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// Keeping this many samples.
    #[must_use]
    pub fn with_capacity(mut self, capacity: usize) -> Self {
        self.capacity = capacity;
        self
    }

    /// Watching the GPUs with these numbers of NVML.
    #[must_use]
    pub fn with_gpus(mut self, gpus: impl Into<Vec<u32>>) -> Self {
        self.gpus = gpus.into();
        self
    }
}

#[derive(Debug, Default)]
struct Buffer {
    samples: VecDeque<Sample>,
    n_dropped: u64,
}

/// A thread that looks at GPUs until it is stopped.
#[derive(Debug)]
pub struct Monitor {
    buffer: Arc<Mutex<Buffer>>,
    stop: Sender<()>,
}

impl Monitor {
    /// Watches the GPUs of this machine.
    ///
    /// # Errors
    ///
    /// Why NVML cannot be asked.
    pub fn start(options: &MonitorOptions) -> Result<Self, Failure> {
        Self::start_with(Sampler::open(&options.gpus)?, options, |_| ())
    }

    /// Watches through this sampler; `on_sample` is called on the monitor's thread.
    ///
    /// # Errors
    ///
    /// [`Failure::Call`] if the system refuses another thread.
    pub fn start_with(
        mut sampler: Sampler,
        options: &MonitorOptions,
        mut on_sample: impl FnMut(&Sample) + Send + 'static,
    ) -> Result<Self, Failure> {
        let (stop, stopped) = mpsc::channel::<()>();
        let buffer = Arc::new(Mutex::new(Buffer::default()));
        let shared = Arc::clone(&buffer);
        let interval = options.interval.max(SHORTEST_INTERVAL);
        let capacity = options.capacity.max(1);
        let run = move || {
            let mut next = Instant::now();
            loop {
                let wait = next.saturating_duration_since(Instant::now());
                if stopped.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
                next = following(next, interval);
                for sample in sampler.look() {
                    on_sample(&sample);
                    let mut buffer = lock(&shared);
                    if buffer.samples.len() == capacity {
                        buffer.samples.pop_front();
                        buffer.n_dropped += 1;
                    }
                    buffer.samples.push_back(sample);
                }
            }
        };
        std::thread::Builder::new()
            .name("spark-hal-monitor".to_owned())
            .spawn(run)
            .map_err(|error| Failure::Call {
                call: "thread",
                reason: error.to_string(),
            })?;
        Ok(Self { buffer, stop })
    }

    /// What was seen so far, while watching goes on.
    #[must_use]
    pub fn snapshot(&self) -> Recording {
        let buffer = lock(&self.buffer);
        Recording {
            samples: buffer.samples.iter().cloned().collect(),
            n_dropped: buffer.n_dropped,
        }
    }

    /// Stops and hands over what was seen. Does not wait for a driver that hangs.
    #[must_use]
    pub fn stop(self) -> Recording {
        // The thread may be gone already.
        let _ = self.stop.send(());
        let mut buffer = lock(&self.buffer);
        Recording {
            samples: std::mem::take(&mut buffer.samples).into(),
            n_dropped: buffer.n_dropped,
        }
    }
}

/// A callback that panicked leaves the buffer whole: samples are pushed in one step.
fn lock(buffer: &Mutex<Buffer>) -> MutexGuard<'_, Buffer> {
    buffer.lock().unwrap_or_else(PoisonError::into_inner)
}
