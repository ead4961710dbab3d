//! Watching GPUs while something runs.
//!
//! ```text
//! Monitor::start --thread--> every interval: one Sample per GPU --> bounded buffer
//!                                                             \--> your callback
//! monitor.stop() --> Recording --> summary(), to_csv(), to_json_lines()
//! ```
//!
//! The buffer keeps the newest samples and counts those it had to drop. Stopping never
//! waits for the driver. On unified memory the GPU's memory is the machine's, so every
//! sample carries that too, and NVML's figures, where there are any, are left out.

mod export;
mod summary;

use std::collections::VecDeque;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub use summary::{MetricSummary, Summary};

use crate::gpu::Gpu;
use crate::machine::{Machine, Sources};
use crate::memory::Memory;
use crate::nvml::{self, GpuProcess, GpuSample, NvmlApi};
use crate::reading::{Failure, Reading};
use crate::root::Root;

/// One look at one GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Sample {
    /// Milliseconds since the monitor started.
    pub at_ms: u64,
    /// NVML's number of the GPU.
    pub gpu: u32,
    /// Whether it works in the machine's memory. NVML's memory figures are then not kept: they are
    /// those of no memory (an N1X answered 8128 MiB).
    pub is_unified: bool,
    /// What NVML told, or why it told nothing.
    pub readings: Result<GpuSample, String>,
    /// Processes that use the GPU.
    pub processes: Reading<Vec<GpuProcess>>,
    /// All of the machine's memory in bytes.
    pub machine_total_bytes: Reading<u64>,
    /// What of it is available, in bytes.
    pub machine_available_bytes: Reading<u64>,
}

impl Sample {
    /// Memory in use where the GPU works: its own, or the machine's on unified memory.
    /// In bytes.
    #[must_use]
    pub fn memory_used_bytes(&self) -> Reading<u64> {
        let own = match &self.readings {
            Ok(_) if self.is_unified => Reading::NotSupported,
            Ok(readings) => readings.memory.clone(),
            Err(why) => {
                return Reading::Failed(Failure::Call {
                    call: "nvml sample",
                    reason: why.clone(),
                });
            }
        };
        match own {
            Reading::Value(figures) if figures.total_bytes > 0 => {
                Reading::Value(figures.used_bytes)
            }
            Reading::Failed(why) => Reading::Failed(why),
            Reading::Value(_) | Reading::NotSupported => {
                let available = self.machine_available_bytes.clone();
                self.machine_total_bytes
                    .clone()
                    .and_then(|total| available.map(|available| total.saturating_sub(available)))
            }
        }
    }
}

/// How to watch.
#[derive(Debug, Clone, PartialEq, Eq)]
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

/// NVML's numbers of the GPUs that work in the machine's memory.
fn unified(gpus: &[Gpu]) -> Vec<u32> {
    let unified = gpus.iter().filter(|gpu| gpu.is_unified());
    unified.filter_map(|gpu| gpu.nvml_index).collect()
}

/// NVML itself averages over about this long; looking more often repeats its answers.
pub const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

/// Looks at GPUs when told to.
pub struct Sampler {
    nvml: Box<dyn NvmlApi + Send>,
    root: Root,
    gpus: Vec<u32>,
    /// Those of all GPUs that work in the machine's memory.
    unified: Vec<u32>,
    begin: Instant,
}

impl Sampler {
    /// Watches the GPUs of this machine.
    ///
    /// # Errors
    ///
    /// Why NVML cannot be asked: no library, no driver, no answer in time.
    pub fn open(gpus: &[u32]) -> Result<Self, Failure> {
        let mut sampler = Self::with(Box::new(nvml::open()?), Root::host(), gpus)?;
        // CUDA knows of every GPU whether it is integrated.
        sampler.unified = unified(&crate::machine().gpus);
        Ok(sampler)
    }

    /// Watches through this NVML and this root, which also tell which GPUs work in the machine's memory.
    ///
    /// # Errors
    ///
    /// The failure of counting the devices, or a number that is none of them.
    pub fn with(nvml: Box<dyn NvmlApi + Send>, root: Root, gpus: &[u32]) -> Result<Self, Failure> {
        let n_devices = nvml.device_count()?.min(256);
        if let Some(wrong) = gpus.iter().find(|gpu| **gpu >= n_devices) {
            let got = wrong.to_string();
            return Err(Failure::malformed(
                "GPU number",
                &got,
                "a number below the device count",
            ));
        }
        let gpus = if gpus.is_empty() {
            (0..n_devices).collect()
        } else {
            gpus.to_vec()
        };
        let sources = Sources {
            nvml: Ok(&*nvml),
            ..Sources::files(root.clone())
        };
        let unified = unified(&Machine::read(&sources).gpus);
        Ok(Self {
            nvml,
            root,
            gpus,
            unified,
            begin: Instant::now(),
        })
    }

    /// One look at every GPU.
    pub fn look(&mut self) -> Vec<Sample> {
        let memory = Memory::read(&self.root);
        let at_ms = u64::try_from(self.begin.elapsed().as_millis()).unwrap_or(u64::MAX);
        let sample = |gpu: &u32| {
            let is_unified = self.unified.contains(gpu);
            let mut readings = self.nvml.sample(*gpu).map_err(|why| why.to_string());
            if let (true, Ok(readings)) = (is_unified, &mut readings) {
                readings.memory = Reading::NotSupported;
            }
            Sample {
                at_ms,
                gpu: *gpu,
                is_unified,
                readings,
                processes: self.nvml.processes(*gpu),
                machine_total_bytes: memory.meminfo.total_bytes.clone(),
                machine_available_bytes: memory.available_to_gpu_bytes(),
            }
        };
        self.gpus.iter().map(sample).collect()
    }

    /// Looks every `interval`, without end; the iterator sleeps in between.
    pub fn every(mut self, interval: Duration) -> impl Iterator<Item = Vec<Sample>> {
        let interval = interval.max(SHORTEST_INTERVAL);
        let mut next = Instant::now();
        std::iter::from_fn(move || {
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
            next = following(next, interval);
            Some(self.look())
        })
    }
}

/// The next tick that is not in the past: late ticks are left out, not caught up with.
fn following(last: Instant, interval: Duration) -> Instant {
    (last + interval).max(Instant::now())
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

/// What a monitor saw.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Recording {
    /// Samples in the order they were taken.
    pub samples: Vec<Sample>,
    /// Older samples that the buffer had no room for.
    pub n_dropped: u64,
}

impl Recording {
    /// Statistics of one GPU.
    #[must_use]
    pub fn summary(&self, gpu: u32) -> Summary {
        Summary::of(self.samples.iter().filter(|sample| sample.gpu == gpu))
    }

    /// Comma-separated values with a header; an unknown value is an empty cell, and the
    /// last column tells what failed.
    #[must_use]
    pub fn to_csv(&self) -> String {
        export::csv(&self.samples)
    }

    /// One JSON object per line.
    #[must_use]
    pub fn to_json_lines(&self) -> String {
        self.samples
            .iter()
            .map(|sample| sample.to_json() + "\n")
            .collect()
    }
}
