//! The processor: kinds of cores, clusters, features, and what this process may use.
//!
//! ```text
//! GB10   CPUs 0-4, 10-14   Cortex-A725   efficient     two clusters, with 8 MB
//!        CPUs 5-9, 15-19   Cortex-X925   fast          and 16 MB of L3
//! ```
//!
//! The picture is what owners' dumps show; nothing here relies on it. Kinds are
//! read for every CPU from its MIDR (tools that read the first entry of
//! `/proc/cpuinfo` call a GB10 "20 x Cortex-A725"), clusters from the L3 cache's
//! `shared_cpu_list` (on GB10 `topology/cluster_id` is the same for all).
//!
//! Linux only: `/proc/cpuinfo` and `/sys/devices/system/cpu`.

mod kind;
mod limits;
mod list;

use std::collections::{BTreeMap, BTreeSet};

pub use kind::CoreKind;
pub use limits::CpuLimits;
pub use list::{format_cpu_list, parse_cpu_list};

use crate::reading::Reading;
use crate::root::Root;
use kind::CpuinfoEntry;
use list::parse_cpu_ranges;

const DIRECTORY: &str = "/sys/devices/system/cpu";

/// The processor as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Cpu {
    /// The marketing name, where `/proc/cpuinfo` has one (not on Arm).
    pub model_name: Option<String>,
    /// Every online logical CPU, by number.
    pub cores: Vec<Core>,
    /// Sets of CPUs that share a last-level cache, in order of their first CPU.
    pub clusters: Vec<Vec<u32>>,
    /// Instruction set features as the kernel names them (`avx512f`, `sve2`, ...).
    pub features: BTreeSet<String>,
    /// How many CPUs this process may use.
    pub limits: CpuLimits,
}

/// One logical CPU, as the scheduler counts them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Core {
    /// Number of the logical CPU.
    pub id: u32,
    /// The design of the core, by its identification register or vendor.
    pub kind: CoreKind,
    /// Highest clock in kHz.
    pub max_khz: Reading<u64>,
    /// The scheduler's relative capacity, 1024 for the strongest.
    pub capacity: Reading<u32>,
    /// Lowest-numbered CPU on the same physical core (itself without SMT).
    pub first_sibling: u32,
}

/// What a thread pool should know: see [`Cpu::plan`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ThreadPlan {
    /// How many threads keep the allowed cores busy without sharing one.
    pub n_threads: usize,
    /// The allowed CPUs, one per physical core first, fast ones first.
    pub order: Vec<u32>,
    /// How many of the first entries of `order` are fast cores.
    pub n_fast: usize,
}

impl Cpu {
    /// Reads `/proc/cpuinfo` and the CPU directories of sysfs.
    #[must_use]
    pub fn read(root: &Root) -> Self {
        let cpuinfo = root.text("/proc/cpuinfo").value().unwrap_or_default();
        let entries = kind::parse_cpuinfo(&cpuinfo);
        let cores = read_cores(root, &entries);
        let features = entries.values().next().map(|entry| entry.features.clone());
        Self {
            model_name: entries.values().find_map(|entry| entry.model_name.clone()),
            clusters: read_clusters(root, &cores),
            limits: CpuLimits::read(root),
            features: features.unwrap_or_default(),
            cores,
        }
    }

    /// The processor in a few words: `10 x Cortex-X925 + 10 x Cortex-A725`.
    #[must_use]
    pub fn summary(&self) -> String {
        match &self.model_name {
            Some(name) => format!(
                "{name} ({} cores, {} CPUs)",
                self.n_physical(),
                self.cores.len()
            ),
            None => {
                // No chip mixes more than a few designs; a damaged table may claim it.
                const MOST_KINDS: usize = 4;
                let kinds = self.kinds();
                let words: Vec<String> = kinds
                    .iter()
                    .take(MOST_KINDS)
                    .map(|(kind, ids)| format!("{} x {kind}", ids.len()))
                    .collect();
                match kinds.len() {
                    0 => "unknown processor".to_owned(),
                    n if n > MOST_KINDS => format!("{} + others", words.join(" + ")),
                    _ => words.join(" + "),
                }
            }
        }
    }

    /// Whether the kernel lists this feature.
    #[must_use]
    pub fn has_feature(&self, name: &str) -> bool {
        self.features.contains(name)
    }

    /// Number of physical cores: SMT siblings count once.
    #[must_use]
    pub fn n_physical(&self) -> usize {
        self.cores
            .iter()
            .filter(|core| core.id == core.first_sibling)
            .count()
    }

    /// The kinds of cores, strongest first, with the CPUs of each.
    #[must_use]
    pub fn kinds(&self) -> Vec<(CoreKind, Vec<u32>)> {
        let mut by_kind: BTreeMap<CoreKind, Vec<u32>> = BTreeMap::new();
        for core in &self.cores {
            by_kind.entry(core.kind).or_default().push(core.id);
        }
        let mut kinds: Vec<_> = by_kind.into_iter().collect();
        kinds.sort_by_key(|(_, ids)| {
            let strongest = ids
                .iter()
                .filter_map(|id| self.core(*id))
                .map(Core::strength)
                .max();
            std::cmp::Reverse(strongest)
        });
        kinds
    }

    /// The CPU with this number.
    #[must_use]
    pub fn core(&self, id: u32) -> Option<&Core> {
        let idx = self.cores.binary_search_by_key(&id, |core| core.id).ok()?;
        self.cores.get(idx)
    }

    /// The fast CPUs: those of the strongest design. All of them if there is one design.
    #[must_use]
    pub fn fast_cpus(&self) -> Vec<u32> {
        self.kinds()
            .into_iter()
            .next()
            .map(|(_, ids)| ids)
            .unwrap_or_default()
    }

    /// How to use the CPUs this process is allowed: physical cores before their
    /// siblings, fast before efficient, at most the container's quota.
    ///
    /// Always at least one thread, also if nothing could be read.
    #[must_use]
    pub fn plan(&self) -> ThreadPlan {
        let allowed = self.limits.allowed.as_value();
        let is_allowed = |id: u32| allowed.is_none_or(|set| set.binary_search(&id).is_ok());
        let fast: BTreeSet<u32> = self.fast_cpus().into_iter().collect();
        let mut order: Vec<&Core> = self
            .cores
            .iter()
            .filter(|core| is_allowed(core.id))
            .collect();
        // A sibling is secondary only if a lower-numbered one of its core is allowed too.
        let mut first_of_core: BTreeMap<u32, u32> = BTreeMap::new();
        for core in &order {
            first_of_core.entry(core.first_sibling).or_insert(core.id);
        }
        let is_second = |core: &Core| first_of_core.get(&core.first_sibling) != Some(&core.id);
        order.sort_by_key(|core| (is_second(core), !fast.contains(&core.id), core.id));
        let n_cores = order.iter().filter(|core| !is_second(core)).count();
        let n_fast = order
            .iter()
            .take_while(|core| !is_second(core) && fast.contains(&core.id))
            .count();
        let quota = self
            .limits
            .quota_cpus
            .as_value()
            .map_or(usize::MAX, |cpus| {
                // Half a CPU of quota still needs a thread to run on.
                usize::try_from(cpus.div_ceil(1000)).unwrap_or(usize::MAX)
            });
        ThreadPlan {
            n_threads: n_cores.min(quota).max(1),
            order: order.into_iter().map(|core| core.id).collect(),
            n_fast,
        }
    }
}

impl Core {
    /// Orders cores by what they can do: capacity, then clock, then design.
    fn strength(&self) -> (u32, u32, u64) {
        let capacity = self.capacity.as_value().copied().unwrap_or(0);
        let khz = self.max_khz.as_value().copied().unwrap_or(0);
        (self.kind.rank(), capacity, khz)
    }
}

fn read_cores(root: &Root, entries: &BTreeMap<u32, CpuinfoEntry>) -> Vec<Core> {
    let online = root.line(&format!("{DIRECTORY}/online"));
    let listed = online
        .as_value()
        .and_then(|text| parse_cpu_list(text))
        .unwrap_or_default();
    let mut ids: BTreeSet<u32> = listed.into_iter().collect();
    ids.extend(entries.keys());
    ids.into_iter()
        .map(|id| read_core(root, id, entries.get(&id)))
        .collect()
}

fn read_core(root: &Root, id: u32, entry: Option<&CpuinfoEntry>) -> Core {
    let path = |leaf: &str| format!("{DIRECTORY}/cpu{id}/{leaf}");
    let midr = root.hexadecimal(&path("regs/identification/midr_el1"));
    let kind = match midr {
        Reading::Value(midr) => CoreKind::from_midr(midr),
        _ => entry.map_or(CoreKind::Unknown, |entry| entry.kind),
    };
    let siblings = root.line(&path("topology/thread_siblings_list"));
    let first_sibling = siblings
        .as_value()
        .and_then(|text| parse_cpu_ranges(text)?.into_iter().min())
        .map(|(first, _)| first)
        .filter(|first| *first <= id)
        .unwrap_or(id);
    Core {
        id,
        kind,
        max_khz: root.number(&path("cpufreq/cpuinfo_max_freq")),
        capacity: root.number(&path("cpu_capacity")),
        first_sibling,
    }
}

fn read_clusters(root: &Root, cores: &[Core]) -> Vec<Vec<u32>> {
    let mut clusters = Vec::new();
    // By position in `cores`.
    let mut is_assigned = vec![false; cores.len()];
    for idx in 0..cores.len() {
        if is_assigned[idx] {
            continue;
        }
        let id = cores[idx].id;
        let mut shared = last_level_ranges(root, id).unwrap_or_default();
        shared.push((id, id));
        let mut cluster = Vec::new();
        for (first, last) in shared {
            let begin = cores.partition_point(|core| core.id < first);
            let end = cores.partition_point(|core| core.id <= last);
            for member in begin..end {
                if !is_assigned[member] {
                    is_assigned[member] = true;
                    cluster.push(cores[member].id);
                }
            }
        }
        cluster.sort_unstable();
        clusters.push(cluster);
    }
    clusters.sort_unstable();
    clusters
}

/// The CPUs sharing the highest-level cache of this one.
fn last_level_ranges(root: &Root, id: u32) -> Option<Vec<(u32, u32)>> {
    let caches = format!("{DIRECTORY}/cpu{id}/cache");
    let highest = root
        .entries(&caches)
        .value()?
        .into_iter()
        .filter(|name| name.starts_with("index"))
        .filter_map(|name| {
            let level: u8 = root.number(&format!("{caches}/{name}/level")).value()?;
            (level >= 3).then_some((level, name))
        })
        .max()?;
    let list = root
        .line(&format!("{caches}/{}/shared_cpu_list", highest.1))
        .value()?;
    parse_cpu_ranges(&list)
}
