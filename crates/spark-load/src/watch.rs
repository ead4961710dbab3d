//! Looks at a GPU beside the work that it does.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use spark_hal::monitor::{Monitor, MonitorOptions, Sample, Sampler};
use spark_hal::nvml::GpuSample;

/// NVML averages over some tenths of a second; more looks repeat its answers.
const INTERVAL: Duration = Duration::from_millis(100);
/// Looks of the longest load, with room.
const CAPACITY: usize = 8192;

/// A monitor of one GPU.
pub(crate) struct Watch {
    monitor: Monitor,
    n_looks: Arc<AtomicU64>,
}

impl Watch {
    /// Watches through this sampler, which looks at one GPU; `None` where no thread can be had.
    pub(crate) fn start(sampler: Sampler) -> Option<Self> {
        let options = MonitorOptions::default()
            .with_interval(INTERVAL)
            .with_capacity(CAPACITY);
        let n_looks = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&n_looks);
        let counted = move |_: &Sample| {
            count.fetch_add(1, Ordering::Relaxed);
        };
        let monitor = Monitor::start_with(sampler, &options, counted).ok()?;
        Some(Self { monitor, n_looks })
    }

    /// How many looks there were so far, those that were dropped counted. Asked after every batch of work, so nothing is copied.
    pub(crate) fn n_looks(&self) -> u64 {
        self.n_looks.load(Ordering::Relaxed)
    }

    /// What was seen since there were `n` looks.
    pub(crate) fn since(&self, n: u64) -> Vec<GpuSample> {
        let seen = self.monitor.snapshot();
        let skipped = usize::try_from(n.saturating_sub(seen.n_dropped)).unwrap_or(usize::MAX);
        seen.samples
            .into_iter()
            .skip(skipped)
            .filter_map(readings)
            .collect()
    }

    pub(crate) fn stop(self) {
        // What is of use was taken phase by phase.
        let _ = self.monitor.stop();
    }
}

pub(crate) fn readings(sample: Sample) -> Option<GpuSample> {
    sample.readings.ok()
}
