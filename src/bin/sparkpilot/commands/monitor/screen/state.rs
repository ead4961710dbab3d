//! What the screen remembers between looks: the last look, histories, and what keys have chosen.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use sparkpilot::hal::Reading;

use super::look::Look;

/// Looks that a history keeps; no terminal is wider.
const KEPT: usize = 512;

/// Numbers of the past, the newest first; `None` where nothing was told.
#[derive(Debug, Default)]
pub(super) struct History(VecDeque<Option<u64>>);

impl History {
    fn push(&mut self, value: Option<u64>) {
        self.0.push_front(value);
        self.0.truncate(KEPT);
    }

    pub(super) fn newest_first(&self) -> impl Iterator<Item = Option<u64>> + '_ {
        self.0.iter().copied()
    }
}

/// By what the processes of GPUs are sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Memory,
    Number,
    Name,
}

impl Order {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Number => "number",
            Self::Name => "name",
        }
    }
}

/// A process on a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: u32,
    pub(super) name: String,
    pub(super) gpu: u32,
    pub(super) memory_bytes: Option<u64>,
}

pub(super) struct State {
    pub(super) interval: Duration,
    pub(super) last: Option<Look>,
    taken: Instant,
    /// For how long nothing has been seen, where that is longer than it should be.
    pub(super) silence: Option<Duration>,
    /// Share of the processors' time, in percent.
    pub(super) busy: History,
    /// Share of the memory in use, in percent.
    pub(super) memory: History,
    /// Utilisation in percent, by NVML's numbers.
    pub(super) gpus: BTreeMap<u32, History>,
    pub(super) is_paused: bool,
    pub(super) order: Order,
    /// Rows of GPUs that lie above the screen.
    pub(super) n_scrolled: usize,
}

impl State {
    pub(super) fn new(interval: Duration) -> Self {
        Self {
            interval,
            last: None,
            taken: Instant::now(),
            silence: None,
            busy: History::default(),
            memory: History::default(),
            gpus: BTreeMap::new(),
            is_paused: false,
            order: Order::Memory,
            n_scrolled: 0,
        }
    }

    /// Takes a look over. False while the screen stands still.
    pub(super) fn take(&mut self, look: Look) -> bool {
        (self.taken, self.silence) = (Instant::now(), None);
        if self.is_paused {
            return false;
        }
        let busy = look.host.mean_busy_percent();
        self.busy
            .push(busy.map(|percent| percent.round() as u64).value());
        let used = used_of_total(&look).map(|(used, total)| used * 100 / total.max(1));
        self.memory.push(used.value());
        for sample in look.gpus.iter().flatten() {
            let busy = match &sample.readings {
                Ok(readings) => readings.utilization_percent.clone().map(u64::from).value(),
                Err(_) => None,
            };
            self.gpus.entry(sample.gpu).or_default().push(busy);
        }
        self.last = Some(look);
        true
    }

    /// Whether there is news of nothing having been seen for several intervals.
    pub(super) fn notices_silence(&mut self) -> bool {
        let passed = self.taken.elapsed();
        if passed < self.interval * 3 + Duration::from_secs(2) {
            return false;
        }
        let seconds = Duration::from_secs(passed.as_secs());
        self.silence.replace(seconds) != Some(seconds)
    }

    pub(super) fn pause_or_go_on(&mut self) {
        self.is_paused = !self.is_paused;
    }

    pub(super) fn sort_by_the_next(&mut self) {
        self.order = match self.order {
            Order::Memory => Order::Number,
            Order::Number => Order::Name,
            Order::Name => Order::Memory,
        };
    }

    pub(super) fn scroll_down(&mut self) {
        let n_gpus = self.gpus.len();
        self.n_scrolled = (self.n_scrolled + 1).min(n_gpus.saturating_sub(1));
    }

    pub(super) fn scroll_up(&mut self) {
        self.n_scrolled = self.n_scrolled.saturating_sub(1);
    }

    /// The processes of all GPUs, in the order that was chosen; or why they are not known.
    pub(super) fn processes(&self) -> Result<Vec<Process>, String> {
        let Some(look) = &self.last else {
            return Ok(Vec::new());
        };
        let samples = look.gpus.as_ref().map_err(Clone::clone)?;
        let mut all = Vec::new();
        for sample in samples {
            let processes = match &sample.processes {
                Reading::Value(processes) => processes,
                Reading::NotSupported => continue,
                Reading::Failed(why) => return Err(why.to_string()),
            };
            all.extend(processes.iter().map(|process| {
                Process {
                    pid: process.pid,
                    name: look
                        .process_names
                        .get(&process.pid)
                        .cloned()
                        .unwrap_or_else(|| "?".to_owned()),
                    gpu: sample.gpu,
                    memory_bytes: process.memory_bytes.as_value().copied(),
                }
            }));
        }
        all.sort_by(|a, b| {
            let chosen = match self.order {
                Order::Memory => b.memory_bytes.cmp(&a.memory_bytes),
                Order::Number => std::cmp::Ordering::Equal,
                Order::Name => a.name.cmp(&b.name),
            };
            chosen.then(a.pid.cmp(&b.pid)).then(a.gpu.cmp(&b.gpu))
        });
        Ok(all)
    }
}

/// Bytes of the machine's memory in use, and of all of it.
pub(super) fn used_of_total(look: &Look) -> Reading<(u64, u64)> {
    let available = look.host.memory.available_to_cpu_bytes();
    let total = look.host.memory.meminfo.total_bytes.clone();
    total.and_then(|total| available.map(|available| (total.saturating_sub(available), total)))
}
