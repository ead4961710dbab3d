//! What the screen remembers between looks: the last look, histories, and what keys have chosen.

use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sparkpilot::hal::Reading;
use sparkpilot::hal::monitor::{Look, RateKind, Sample};

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

/// By what processes are sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    GpuMemory,
    Share,
    Memory,
    Number,
    Name,
}

impl Order {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::GpuMemory => "memory of GPUs",
            Self::Share => "share of the CPU",
            Self::Memory => "memory",
            Self::Number => "number",
            Self::Name => "name",
        }
    }
}

/// A process of the machine, of GPUs, or of both.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Process {
    pub(super) pid: u32,
    /// `?` for one that is only known by a GPU, as those of other containers are.
    pub(super) name: String,
    pub(super) busy_percent: Option<f32>,
    pub(super) resident_bytes: Option<u64>,
    /// The GPUs that it uses.
    pub(super) gpus: Vec<u32>,
    /// Its memory on them together, where any of them tells.
    pub(super) gpu_bytes: Option<u64>,
}

pub(super) struct State {
    pub(super) interval: Duration,
    pub(super) last: Option<Arc<Look>>,
    /// The newest samples of GPUs, which the last look may lack.
    pub(super) samples: Vec<Sample>,
    taken: Instant,
    /// For how long nothing has been seen, where that is longer than it should be.
    pub(super) silence: Option<Duration>,
    /// Share of the processors' time, in percent.
    pub(super) busy: History,
    /// Share of the memory in use, in percent.
    pub(super) memory: History,
    /// Bytes per second in and out of networks and RDMA ports together.
    pub(super) networks: History,
    /// The same of disks.
    pub(super) disks: History,
    /// Utilisation in percent, by NVML's numbers.
    pub(super) gpus: BTreeMap<u32, History>,
    pub(super) is_paused: bool,
    pub(super) order: Order,
    /// Rows of GPUs that lie above the screen.
    pub(super) n_scrolled: usize,
    /// What the recorder and the metrics have to say.
    pub(super) said: String,
}

impl State {
    pub(super) fn new(interval: Duration) -> Self {
        Self {
            interval,
            last: None,
            samples: Vec::new(),
            taken: Instant::now(),
            silence: None,
            busy: History::default(),
            memory: History::default(),
            networks: History::default(),
            disks: History::default(),
            gpus: BTreeMap::new(),
            is_paused: false,
            order: Order::GpuMemory,
            n_scrolled: 0,
            said: String::new(),
        }
    }

    /// Takes a look over. False while the screen stands still.
    pub(super) fn take(&mut self, look: Arc<Look>) -> bool {
        (self.taken, self.silence) = (Instant::now(), None);
        if self.is_paused {
            return false;
        }
        let busy = look.host.mean_busy_percent();
        self.busy
            .push(busy.map(|percent| percent.round() as u64).value());
        let used = look.host.memory_used_of_total();
        let used = used.map(|(used, total)| used * 100 / total.max(1));
        self.memory.push(used.value());
        let sum = |kinds: &[RateKind]| {
            let sums = kinds
                .iter()
                .filter_map(|kind| look.host.sum_of(*kind).value());
            sums.map(|(into, out)| (into + out) as u64)
                .reduce(u64::saturating_add)
        };
        self.networks
            .push(sum(&[RateKind::Interface, RateKind::RdmaPort]));
        self.disks.push(sum(&[RateKind::Disk]));
        match &look.gpus.samples {
            Ok(samples) => self.samples.clone_from(samples),
            // Nothing was told of this moment: a gap, and no number of before.
            Err(_) => self
                .gpus
                .values_mut()
                .for_each(|history| history.push(None)),
        }
        for sample in look.gpus.samples.iter().flatten() {
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
            Order::GpuMemory => Order::Share,
            Order::Share => Order::Memory,
            Order::Memory => Order::Number,
            Order::Number => Order::Name,
            Order::Name => Order::GpuMemory,
        };
    }

    pub(super) fn scroll_down(&mut self) {
        let n_gpus = self.gpus.len();
        self.n_scrolled = (self.n_scrolled + 1).min(n_gpus.saturating_sub(1));
    }

    pub(super) fn scroll_up(&mut self) {
        self.n_scrolled = self.n_scrolled.saturating_sub(1);
    }

    /// The processes of the machine and of its GPUs in the order that was chosen, and why those of GPUs are not known,
    /// if so.
    pub(super) fn processes(&self) -> (Vec<Process>, Option<String>) {
        let Some(look) = &self.last else {
            return (Vec::new(), None);
        };
        let mut all: BTreeMap<u32, Process> = BTreeMap::new();
        for process in &look.processes {
            let known = Process {
                pid: process.pid,
                name: process.name.clone(),
                busy_percent: process.busy_percent,
                resident_bytes: Some(process.resident_bytes),
                gpus: Vec::new(),
                gpu_bytes: None,
            };
            all.insert(process.pid, known);
        }
        let mut unknown = None;
        for sample in &self.samples {
            let processes = match &sample.processes {
                Reading::Value(processes) => processes,
                Reading::NotSupported => continue,
                Reading::Failed(why) => {
                    unknown = Some(why.to_string());
                    continue;
                }
            };
            for process in processes {
                let here = all.entry(process.pid).or_insert_with(|| Process {
                    pid: process.pid,
                    name: "?".to_owned(),
                    busy_percent: None,
                    resident_bytes: None,
                    gpus: Vec::new(),
                    gpu_bytes: None,
                });
                here.gpus.push(sample.gpu);
                if let Reading::Value(bytes) = process.memory_bytes {
                    here.gpu_bytes = Some(here.gpu_bytes.unwrap_or(0).saturating_add(bytes));
                }
            }
        }
        let mut all: Vec<Process> = all.into_values().collect();
        let share = |process: &Process| process.busy_percent.unwrap_or(0.0);
        all.sort_by(|a, b| {
            let by_share = share(b).total_cmp(&share(a));
            let chosen = match self.order {
                Order::GpuMemory => (b.gpu_bytes, b.gpus.len())
                    .cmp(&(a.gpu_bytes, a.gpus.len()))
                    .then(by_share),
                Order::Share => by_share,
                Order::Memory => b.resident_bytes.cmp(&a.resident_bytes),
                Order::Number => Ordering::Equal,
                Order::Name => a.name.cmp(&b.name),
            };
            chosen.then(a.pid.cmp(&b.pid))
        });
        (all, unknown)
    }
}
