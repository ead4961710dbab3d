//! What NVML said while a GPU was at work, in figures that verdicts hang on: the middle clock, the most power, how often a reason.

use crate::capability::ComputeCapability;
use crate::doctor::facts::Facts;
use crate::doctor::load::{GpuLoad, Phase, Work};
use crate::doctor::verdict::{Seen, Verdict, not_examined, seen};
use crate::limits::HOT_C;
use crate::nvml::{GpuSample, ThrottleReason};
use crate::reading::Reading;

use super::super::applies::{no_gpu, other_than_spark};

pub(super) const MEASURE: &str = "sparkpilot doctor --load 10s";
/// Percent of time with a kernel before anything was started.
const OTHERS_PERCENT: u32 = 10;

/// What a GPU did; or what it would take to say something of it.
fn loaded(facts: &Facts) -> Result<&GpuLoad, Verdict> {
    let Some(load) = &facts.load else {
        return Err(not_examined(format!("needs work on the GPU: {MEASURE}")));
    };
    let gpu = load
        .gpu
        .as_ref()
        .map_err(|why| not_examined(format!("needs a GPU that can be loaded: {why}")))?;
    let before = gpu
        .before
        .as_ref()
        .map(|before| &before.utilization_percent);
    match before {
        Some(Reading::Value(busy)) if *busy > OTHERS_PERCENT => Err(not_examined(format!(
            "needs a GPU that nobody else uses: it was {busy} % busy before"
        ))),
        _ => Ok(gpu),
    }
}

/// The same of a GB10, whose bands alone are known.
pub(super) fn loaded_spark(facts: &Facts) -> Result<&GpuLoad, Verdict> {
    other_than_spark(facts).map_or(Ok(()), Err)?;
    let gpu = loaded(facts)?;
    if gpu.compute == Some(ComputeCapability::GB10) {
        Ok(gpu)
    } else {
        Err(not_examined(format!(
            "needs a load of the GB10: {} was loaded",
            gpu.name
        )))
    }
}

pub(super) fn loaded_any(facts: &Facts) -> Result<&GpuLoad, Verdict> {
    no_gpu(facts).map_or(Ok(()), Err)?;
    loaded(facts)
}

/// Looks at a GPU while it computed.
pub(super) struct Looks<'a>(Vec<&'a GpuSample>);

impl<'a> Looks<'a> {
    pub(super) fn at_work(gpu: &'a GpuLoad) -> Self {
        let of_arithmetic =
            |phase: &&Phase| matches!(phase.work, Work::Arithmetic | Work::Product { .. });
        let phases = gpu.phases.iter().filter(of_arithmetic);
        Self(phases.flat_map(|phase| &phase.samples).collect())
    }

    pub(super) fn median_mhz(&self) -> Option<u32> {
        median_mhz(self.0.iter().copied())
    }

    pub(super) fn most_mw(&self) -> Option<u32> {
        let power = self.0.iter();
        power
            .filter_map(|sample| sample.power_mw.as_value().copied())
            .max()
    }

    /// Whether every look that tells it saw a GPU more than this busy.
    pub(super) fn are_busier_than(&self, percent: u32) -> bool {
        self.0.iter().all(|sample| {
            let busy = sample.utilization_percent.as_value();
            busy.is_none_or(|busy| *busy > percent)
        })
    }

    /// In how many looks one of these reasons was told, of how many.
    fn times(&self, wanted: fn(ThrottleReason) -> bool) -> (usize, usize) {
        let told = self.0.iter();
        let told = told.filter_map(|sample| sample.throttle.as_value());
        let said = told.clone().filter(|reasons| {
            let mut reasons = reasons.iter().copied();
            reasons.any(wanted)
        });
        (said.count(), told.count())
    }

    pub(super) fn is_said(&self, wanted: fn(ThrottleReason) -> bool) -> bool {
        self.times(wanted).0 > 0
    }

    /// In how many looks one of these reasons was told, if in more than a quarter: a moment at the begin of a kernel is no state.
    pub(super) fn often(&self, wanted: fn(ThrottleReason) -> bool) -> Option<String> {
        let (said, told) = self.times(wanted);
        (said * 4 > told).then(|| format!("{said} of {told} looks"))
    }

    /// What says that the GPU is hot: a reason, or its degrees.
    pub(super) fn heat(&self) -> Option<String> {
        let degrees = self.0.iter();
        let degrees = degrees.filter_map(|sample| sample.temperature_c.as_value());
        let most = degrees.max().copied().filter(|most| *most > HOT_C);
        if let Some(most) = most {
            return Some(format!("{most} C"));
        }
        self.is_said(ThrottleReason::is_thermal)
            .then(|| "its driver says that it is".to_owned())
    }

    /// What NVML said, each in one line.
    pub(super) fn seen(&self) -> Vec<Seen> {
        let mut evidence = Vec::new();
        if let Some(clock) = self.median_mhz() {
            evidence.push(seen(
                "nvmlDeviceGetClockInfo",
                format!("{clock} MHz, the median of {} looks", self.0.len()),
            ));
        }
        if let Some(power) = self.most_mw() {
            evidence.push(seen(
                "nvmlDeviceGetPowerUsage",
                format!("{:.1} W at most", f64::from(power) / 1e3),
            ));
        }
        if let Some(last) = self.0.last() {
            evidence.push(seen(
                "nvmlDeviceGetUtilizationRates",
                format!("{} %", last.utilization_percent),
            ));
            evidence.push(seen(
                "nvmlDeviceGetTemperature",
                format!("{} C", last.temperature_c),
            ));
        }
        evidence.push(seen(
            "nvmlDeviceGetCurrentClocksThrottleReasons",
            self.reasons(),
        ));
        evidence
    }

    /// Every reason that was told, and in how many looks.
    fn reasons(&self) -> String {
        let told = self.0.iter();
        let told: Vec<_> = told
            .filter_map(|sample| sample.throttle.as_value())
            .collect();
        if told.is_empty() {
            return "not told".to_owned();
        }
        let said = ThrottleReason::ALL.into_iter().filter_map(|reason| {
            let count = told.iter().filter(|reasons| reasons.contains(&reason));
            let count = count.count();
            (count > 0).then(|| format!("{reason} in {count} of {} looks", told.len()))
        });
        let said: Vec<String> = said.collect();
        if said.is_empty() {
            "none".to_owned()
        } else {
            said.join(", ")
        }
    }
}

pub(super) fn median_mhz<'a>(samples: impl IntoIterator<Item = &'a GpuSample>) -> Option<u32> {
    let clocks = samples.into_iter();
    let clocks = clocks.filter_map(|sample| sample.sm_clock_mhz.as_value().copied());
    let mut clocks: Vec<u32> = clocks.collect();
    clocks.sort_unstable();
    clocks.get(clocks.len().saturating_sub(1) / 2).copied()
}
