//! When a machine comes into trouble while it is watched: the moment a limit is crossed.
//!
//! ```text
//! low memory       MemAvailable below 8 GiB, or below a tenth of the memory where that is less
//! stalled          every task waits for memory 10 % of ten seconds
//! hot              a GPU above 85 degrees
//! throttled        a GPU held back by heat, a power brake or a hardware slowdown; its power limit is everyday life
//! stuck clock      a GB10 busy below 1400 MHz in four looks running, cool, with no clock that somebody set
//! growing swap     256 MiB more of swap in use than at some moment of the last minute
//! silent           a GPU that answered before and does not, or not for five seconds
//! ```
//!
//! A limit is news when it is crossed and again after the figure has been well for ten seconds. The limits are the
//! doctor's (`limits`) but for swap and silence, which one look cannot tell; those are this crate's choice.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::capability::ComputeCapability;
use crate::gpu::known::is_gb10_name;
use crate::limits::{BUSY_PERCENT, HOT_C, LOW_MEMORY_BYTES, STALLED_PERCENT, STUCK_MHZ};
use crate::nvml::{GpuSample, ThrottleReason};
use crate::reading::Reading;

use super::looker::Look;

/// What was crossed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Limit {
    /// Little memory is available.
    LowMemory,
    /// Every task waits for memory.
    Stalled,
    /// A GPU is too hot.
    Hot,
    /// A GPU is held back by heat or its power supply.
    Throttled,
    /// A busy GPU stays at a low clock.
    StuckClock,
    /// More and more swap is in use.
    GrowingSwap,
    /// A GPU has stopped to answer.
    Silent,
}

impl Limit {
    /// A name without blanks for files, such as `low_memory`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::LowMemory => "low_memory",
            Self::Stalled => "stalled",
            Self::Hot => "hot",
            Self::Throttled => "throttled",
            Self::StuckClock => "stuck_clock",
            Self::GrowingSwap => "growing_swap",
            Self::Silent => "silent",
        }
    }
}

/// A limit that was crossed just now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crossing {
    /// Which one.
    pub limit: Limit,
    /// NVML's number of the GPU, where it is one's.
    pub gpu: Option<u32>,
    /// The figure and what it was held against.
    pub words: String,
}

/// How long a figure must have been well before crossing its limit is news again.
const CALM: Duration = Duration::from_secs(10);
/// Looks running in which a clock must be low: one may fall on the start of a kernel.
const LOOKS_OF_A_STUCK_CLOCK: u32 = 4;
/// Over so long swap in use is compared, and so much more of it counts.
const SWAP_SPAN: Duration = Duration::from_secs(60);
const SWAP_GROWTH_BYTES: u64 = 256 << 20;
/// Looks of swap in use that are kept, so that a short interval takes no memory; the oldest are left out.
const MOST_SWAP_LOOKS: usize = 4096;
/// How long a GPU may take to answer before it counts as silent.
const SILENCE: Duration = Duration::from_secs(5);

/// Holds one look after another against the limits.
#[derive(Debug, Default)]
pub struct Alarm {
    /// When limits were last found crossed, by the time of looks in milliseconds.
    crossed: BTreeMap<(Limit, Option<u32>), u64>,
    /// Looks running in which a GPU was busy, cool and slow.
    slow: BTreeMap<u32, u32>,
    /// Swap in use at the looks of the last minute, the newest at the end.
    swap: VecDeque<(u64, u64)>,
    has_heard: bool,
}

impl Alarm {
    /// What of this look is news.
    pub fn news(&mut self, look: &Look) -> Vec<Crossing> {
        let mut over = Vec::new();
        self.memory(look, &mut over);
        self.gpus(look, &mut over);
        let now = look.host.at_ms;
        let is_news = |crossing: &Crossing| {
            let before = self.crossed.insert((crossing.limit, crossing.gpu), now);
            before.is_none_or(|before| now.saturating_sub(before) > milliseconds(CALM))
        };
        over.into_iter().filter(is_news).collect()
    }

    fn memory(&mut self, look: &Look, over: &mut Vec<Crossing>) {
        let memory = &look.host.memory;
        let info = &memory.meminfo;
        let figures = (info.available_bytes.as_value(), info.total_bytes.as_value());
        if let (Some(available), Some(total)) = figures
            && *available < LOW_MEMORY_BYTES.min(total / 10)
        {
            let least = LOW_MEMORY_BYTES.min(total / 10);
            over.push(Crossing {
                limit: Limit::LowMemory,
                gpu: None,
                words: format!("{} MiB available, below {}", available >> 20, least >> 20),
            });
        }
        if let Reading::Value(pressure) = &memory.pressure
            && pressure.full.avg10_percent >= STALLED_PERCENT
        {
            over.push(Crossing {
                limit: Limit::Stalled,
                gpu: None,
                words: format!(
                    "every task waited for memory {} % of ten seconds, {STALLED_PERCENT} are the limit",
                    pressure.full.avg10_percent
                ),
            });
        }
        let Reading::Value((used, _)) = look.host.swap_used_of_total() else {
            return;
        };
        let now = look.host.at_ms;
        let is_old = |at: u64| now.saturating_sub(at) > milliseconds(SWAP_SPAN);
        while self.swap.len() >= MOST_SWAP_LOOKS
            || self.swap.front().is_some_and(|(at, _)| is_old(*at))
        {
            self.swap.pop_front();
        }
        let least = self
            .swap
            .iter()
            .map(|(_, used)| *used)
            .min()
            .unwrap_or(used);
        self.swap.push_back((now, used));
        let grown = used.saturating_sub(least);
        if grown >= SWAP_GROWTH_BYTES {
            over.push(Crossing {
                limit: Limit::GrowingSwap,
                gpu: None,
                words: format!("{} MiB more swap in use within a minute", grown >> 20),
            });
        }
    }

    fn gpus(&mut self, look: &Look, over: &mut Vec<Crossing>) {
        let samples = match &look.gpus.samples {
            Ok(samples) => samples,
            Err(why) => {
                let is_silent = look.gpus.unanswered.is_some_and(|since| since > SILENCE);
                if self.has_heard && is_silent {
                    over.push(Crossing {
                        limit: Limit::Silent,
                        gpu: None,
                        words: why.clone(),
                    });
                }
                return;
            }
        };
        for sample in samples {
            let gpu = sample.gpu;
            let mut cross = |limit, words| {
                over.push(Crossing {
                    limit,
                    gpu: Some(gpu),
                    words,
                });
            };
            let now = match &sample.readings {
                Ok(now) => now,
                Err(why) => {
                    if self.has_heard {
                        cross(Limit::Silent, why.clone());
                    }
                    continue;
                }
            };
            self.has_heard = true;
            if let Reading::Value(celsius) = now.temperature_c
                && celsius > HOT_C
            {
                cross(Limit::Hot, format!("{celsius} C, above {HOT_C}"));
            }
            let reasons: Vec<&str> = reasons(now)
                .iter()
                .filter(|reason| is_trouble(**reason))
                .map(|reason| reason.name())
                .collect();
            if !reasons.is_empty() {
                cross(
                    Limit::Throttled,
                    format!("held back by {}", reasons.join(", ")),
                );
            }
            let name = look.gpus.known.names.get(&gpu);
            let is_gb10 = name.is_some_and(|name| is_gb10_name(name, ComputeCapability::GB10));
            let n_slow = self.slow.entry(gpu).or_default();
            *n_slow = match is_gb10 && is_slow_without_cause(now) {
                true => n_slow.saturating_add(1),
                false => 0,
            };
            if *n_slow >= LOOKS_OF_A_STUCK_CLOCK {
                let clock = or_nothing(&now.sm_clock_mhz);
                cross(
                    Limit::StuckClock,
                    format!("busy at {clock} MHz, below {STUCK_MHZ}"),
                );
            }
        }
    }
}

fn milliseconds(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

fn or_nothing(reading: &Reading<u32>) -> u32 {
    reading.as_value().copied().unwrap_or(0)
}

fn reasons(now: &GpuSample) -> &[ThrottleReason] {
    now.throttle
        .as_value()
        .map(Vec::as_slice)
        .unwrap_or_default()
}

fn is_trouble(reason: ThrottleReason) -> bool {
    reason.is_thermal()
        || matches!(
            reason,
            ThrottleReason::HardwareSlowdown | ThrottleReason::PowerBrake
        )
}

fn is_slow_without_cause(now: &GpuSample) -> bool {
    let is_busy = now
        .utilization_percent
        .as_value()
        .is_some_and(|it| *it > BUSY_PERCENT);
    let is_slow = now
        .sm_clock_mhz
        .as_value()
        .is_some_and(|it| *it < STUCK_MHZ);
    let is_hot = now.temperature_c.as_value().is_some_and(|it| *it >= HOT_C);
    let is_meant = reasons(now)
        .iter()
        .any(|reason| reason.is_thermal() || *reason == ThrottleReason::ApplicationClocks);
    is_busy && is_slow && !is_hot && !is_meant
}

#[cfg(test)]
mod tests;
