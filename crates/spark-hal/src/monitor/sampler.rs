//! Looking at GPUs when told to.

use std::time::{Duration, Instant};

use crate::gpu::Gpu;
use crate::machine::{Machine, Sources, machine};
use crate::memory::Memory;
use crate::nvml::{self, NvmlApi};
use crate::reading::{Failure, Reading};
use crate::root::Root;

use super::sample::Sample;

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
        sampler.unified = unified(&machine().gpus);
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
pub(super) fn following(last: Instant, interval: Duration) -> Instant {
    (last + interval).max(Instant::now())
}
