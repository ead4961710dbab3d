//! Statistics of a recording.
//!
//! Percentiles are nearest-rank: of n sorted values the one at position ceil(0.95 n).
//! A sample without an answer counts for nothing; how many had one is told.

use std::fmt;

use crate::nvml::{GpuSample, ThrottleReason};
use crate::reading::Reading;

use super::sample::Sample;

/// Statistics of one metric.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct MetricSummary {
    /// Samples that had a value.
    pub n: usize,
    /// Smallest of the values, in the unit of the metric.
    pub min: f64,
    /// Arithmetic mean of the values.
    pub mean: f64,
    /// 95th percentile: the smallest value that at least 95 of 100 do not exceed.
    pub p95: f64,
    /// Largest of the values.
    pub max: f64,
}

impl MetricSummary {
    /// Of these values; `None` without any.
    #[must_use]
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let n = values.len();
        let (min, max) = (*values.first()?, *values.last()?);
        let rank = (95 * n).div_ceil(100);
        Some(Self {
            n,
            min,
            mean: values.iter().sum::<f64>() / n as f64,
            p95: values[rank - 1],
            max,
        })
    }
}

impl MetricSummary {
    fn scaled(self, factor: f64) -> Self {
        Self {
            n: self.n,
            min: self.min * factor,
            mean: self.mean * factor,
            p95: self.p95 * factor,
            max: self.max * factor,
        }
    }
}

/// Statistics of one GPU; `None` where no sample had a value.
#[derive(Debug, Clone, PartialEq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Summary {
    /// Samples taken, those included in which the GPU could not be asked.
    pub n_samples: usize,
    /// Samples in which the GPU could not be asked.
    pub n_failed: usize,
    /// Percent of time in which a kernel ran.
    pub utilization_percent: Option<MetricSummary>,
    /// Memory in use in bytes (the machine's on unified memory).
    pub memory_used_bytes: Option<MetricSummary>,
    /// Temperature of the GPU in degrees Celsius.
    pub temperature_c: Option<MetricSummary>,
    /// Power draw in watts.
    pub power_w: Option<MetricSummary>,
    /// MHz of the multiprocessors.
    pub sm_clock_mhz: Option<MetricSummary>,
    /// Reasons for low clocks with the number of samples that had each, idle left out.
    pub throttle: Vec<(ThrottleReason, usize)>,
    /// Energy between the first and the last sample in joules, by the GPU's own counter.
    pub energy_j: Option<f64>,
}

impl Summary {
    pub(super) fn of<'a>(samples: impl Iterator<Item = &'a Sample>) -> Self {
        let samples: Vec<&Sample> = samples.collect();
        let good: Vec<&GpuSample> = samples
            .iter()
            .filter_map(|sample| sample.readings.as_ref().ok())
            .collect();
        let metric = |get: fn(&GpuSample) -> &Reading<u32>, scale: f64| {
            let values = good.iter().filter_map(|sample| get(sample).as_value());
            MetricSummary::of(values.map(|value| f64::from(*value) * scale).collect())
        };
        let memory = samples
            .iter()
            .filter_map(|sample| sample.memory_used_bytes().value());
        Self {
            n_samples: samples.len(),
            n_failed: samples.len() - good.len(),
            utilization_percent: metric(|sample| &sample.utilization_percent, 1.0),
            memory_used_bytes: MetricSummary::of(memory.map(|bytes| bytes as f64).collect()),
            temperature_c: metric(|sample| &sample.temperature_c, 1.0),
            power_w: metric(|sample| &sample.power_mw, 1e-3),
            sm_clock_mhz: metric(|sample| &sample.sm_clock_mhz, 1.0),
            throttle: throttle(&good),
            energy_j: energy(&good),
        }
    }
}

/// `mean 4.5, p95 4.5, max 4.5`
impl fmt::Display for MetricSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mean, p95, max, .. } = self;
        write!(f, "mean {mean:.1}, p95 {p95:.1}, max {max:.1}")
    }
}

/// One line per metric that has values.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "samples      {}, {} failed",
            self.n_samples, self.n_failed
        )?;
        let mebibytes = self
            .memory_used_bytes
            .map(|bytes| bytes.scaled(f64::from(1 << 20).recip()));
        let metrics = [
            ("busy         %", self.utilization_percent),
            ("memory       MiB", mebibytes),
            ("temperature  C", self.temperature_c),
            ("power        W", self.power_w),
            ("clock        MHz", self.sm_clock_mhz),
        ];
        for (name, metric) in metrics {
            if let Some(metric) = metric {
                writeln!(f, "{name:<16} {metric}")?;
            }
        }
        if let Some(joules) = self.energy_j {
            writeln!(f, "energy       J   {joules:.1}")?;
        }
        for (reason, count) in &self.throttle {
            writeln!(f, "slowed by    {reason} in {count} samples")?;
        }
        Ok(())
    }
}

fn throttle(samples: &[&GpuSample]) -> Vec<(ThrottleReason, usize)> {
    let mut counts: Vec<(ThrottleReason, usize)> = Vec::new();
    let reasons = samples
        .iter()
        .filter_map(|sample| sample.throttle.as_value())
        .flatten();
    for reason in reasons.filter(|reason| **reason != ThrottleReason::Idle) {
        match counts.iter_mut().find(|(known, _)| known == reason) {
            Some((_, count)) => *count += 1,
            None => counts.push((*reason, 1)),
        }
    }
    counts
}

fn energy(samples: &[&GpuSample]) -> Option<f64> {
    let mut counters = samples
        .iter()
        .filter_map(|sample| sample.energy_mj.as_value());
    let first = *counters.next()?;
    let last = *counters.next_back()?;
    // The counter starts again when the driver is reloaded.
    Some(last.checked_sub(first)? as f64 * 1e-3)
}
