//! What the control group (container, systemd slice) allows this process.
//!
//! ```text
//! /proc/self/cgroup     0::/a/b            version 2
//!                       4:memory:/a/b      version 1, one line per controller
//! /sys/fs/cgroup/a/b/memory.max            limits count at every level up to the root
//! /sys/fs/cgroup/a/memory.max
//! ```
//!
//! In a container with its own cgroup namespace the path is `/`; in one without it
//! the path names a directory of the host that is not mounted, and the mounted root
//! is the container's own group, so levels that are missing are passed over.
//!
//! Linux only. Source: Linux `Documentation/admin-guide/cgroup-v2.rst` and `cgroup-v1/`.
//!
//! On a DGX Spark these limits do not bind GPU allocations
//! (lab-stack.com, "DGX Spark memory hard wall").

use crate::reading::{Failure, Reading};
use crate::root::Root;

const MEMBERSHIP: &str = "/proc/self/cgroup";
const MOUNT: &str = "/sys/fs/cgroup";
/// What is read of a group, for records of machines.
const VERSION_1_FILES: [&str; 5] = [
    "cpu.cfs_period_us",
    "cpu.cfs_quota_us",
    "memory.limit_in_bytes",
    "memory.stat",
    "memory.usage_in_bytes",
];
const VERSION_2_FILES: [&str; 5] = [
    "cpu.max",
    "memory.current",
    "memory.high",
    "memory.max",
    "memory.stat",
];
/// Version 1 writes "no limit" as the largest multiple of the page size; nothing that
/// large is a limit.
const NO_LIMIT: u64 = 1 << 60;
/// Most memberships that are looked at: version 1 has 14 controllers.
const MEMBERSHIPS_LIMIT: usize = 64;
/// Deepest nesting that is followed.
const DEPTH_LIMIT: usize = 32;

/// Limits and use of this process's control group.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Cgroup {
    /// Bytes that may still be allocated under the tightest limit of the hierarchy;
    /// not supported = no limit. Cache that the kernel would drop counts as free.
    pub memory_headroom_bytes: Reading<u64>,
    /// The tightest memory limit itself.
    pub memory_limit_bytes: Reading<u64>,
    /// CPU time, in thousandths of a CPU; not supported = no quota.
    pub cpu_quota_milli: Reading<u64>,
}

impl Cgroup {
    /// Reads the group of the running process.
    #[must_use]
    pub fn read(root: &Root) -> Self {
        let membership = root.text(MEMBERSHIP).value().unwrap_or_default();
        let memory = levels(&membership, "memory")
            .iter()
            .map(|level| level.memory(root))
            .reduce(tightest_memory)
            .unwrap_or((Reading::NotSupported, Reading::NotSupported));
        let cpu = levels(&membership, "cpu")
            .iter()
            .map(|level| level.cpu_quota(root))
            .reduce(tightest)
            .unwrap_or(Reading::NotSupported);
        Self {
            memory_limit_bytes: memory.0,
            memory_headroom_bytes: memory.1,
            cpu_quota_milli: cpu,
        }
    }
}

/// Every file that [`Cgroup::read`] may look at, for a record of the machine.
pub(crate) fn files(root: &Root) -> Vec<String> {
    let membership = root.text(MEMBERSHIP).value().unwrap_or_default();
    let mut files = vec![MEMBERSHIP.to_owned()];
    let levels = ["memory", "cpu"].map(|controller| levels(&membership, controller));
    for level in levels.iter().flatten() {
        let names = if level.is_version_1 {
            &VERSION_1_FILES[..]
        } else {
            &VERSION_2_FILES[..]
        };
        files.extend(
            names
                .iter()
                .map(|name| format!("{}/{name}", level.directory)),
        );
    }
    files.sort();
    files.dedup();
    files
}

/// One limit of memory of the process's groups.
pub(crate) struct MemoryLimit {
    /// The file.
    pub(crate) path: String,
    /// Whether it slows down (version 2, `memory.high`) and does not end.
    pub(crate) is_throttle: bool,
    /// In bytes; `None` for no limit.
    pub(crate) bytes: Reading<Option<u64>>,
}

/// Every limit of memory that has a file, of the process's group and those around it. Version 1 has none that slows down:
/// its soft limit says whom the kernel reclaims from first.
pub(crate) fn memory_limits(root: &Root) -> Vec<MemoryLimit> {
    let membership = root.text(MEMBERSHIP).value().unwrap_or_default();
    let mut limits = Vec::new();
    for level in levels(&membership, "memory") {
        let files: &[(&str, bool)] = match level.is_version_1 {
            true => &[("memory.limit_in_bytes", false)],
            false => &[("memory.high", true), ("memory.max", false)],
        };
        for (name, is_throttle) in files {
            let path = format!("{}/{name}", level.directory);
            let bytes = match bytes_or_max(root, &path) {
                Reading::NotSupported => continue,
                read => read.map(|bytes| (bytes < NO_LIMIT).then_some(bytes)),
            };
            limits.push(MemoryLimit {
                path,
                is_throttle: *is_throttle,
                bytes,
            });
        }
    }
    limits
}

/// Whether the groups of the process are known, and their hierarchy can be looked into.
pub(crate) fn is_visible(root: &Root) -> bool {
    let hierarchies = ["cgroup.controllers", "memory"].map(|name| format!("{MOUNT}/{name}"));
    root.text(MEMBERSHIP).is_value() && hierarchies.iter().any(|path| root.exists(path))
}

/// One directory of the hierarchy.
struct Level {
    directory: String,
    is_version_1: bool,
}

/// The directories from the process's group up to the root, for both versions.
fn levels(membership: &str, controller: &str) -> Vec<Level> {
    let mut found = Vec::new();
    for line in membership.lines().take(MEMBERSHIPS_LIMIT) {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let is_version_1 = !controllers.is_empty();
        if is_version_1 && !controllers.split(',').any(|name| name == controller) {
            continue;
        }
        let mount = if is_version_1 {
            format!("{MOUNT}/{controller}")
        } else {
            MOUNT.to_owned()
        };
        // A path with `..` (a group outside the namespace) is not followed.
        let parts: Vec<&str> = path
            .split('/')
            .filter(|part| !part.is_empty())
            .take(DEPTH_LIMIT)
            .collect();
        let n_parts = if parts.contains(&"..") {
            0
        } else {
            parts.len()
        };
        for depth in (0..=n_parts).rev() {
            let mut directory = mount.clone();
            for part in &parts[..depth] {
                directory.push('/');
                directory.push_str(part);
            }
            found.push(Level {
                directory,
                is_version_1,
            });
        }
    }
    found
}

impl Level {
    /// (limit, headroom) in bytes.
    fn memory(&self, root: &Root) -> (Reading<u64>, Reading<u64>) {
        let (limit_name, used_name, cache_key) = if self.is_version_1 {
            (
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
                "total_inactive_file",
            )
        } else {
            ("memory.max", "memory.current", "inactive_file")
        };
        let entry = |name: &str| format!("{}/{name}", self.directory);
        let limit = match bytes_or_max(root, &entry(limit_name)) {
            Reading::Value(limit) if limit < NO_LIMIT => limit,
            Reading::Value(_) => return (Reading::NotSupported, Reading::NotSupported),
            other => return (other.clone(), other),
        };
        let statistics = root.text(&entry("memory.stat")).value().unwrap_or_default();
        let reclaimable = statistics
            .lines()
            .find_map(|line| line.strip_prefix(cache_key)?.trim().parse::<u64>().ok())
            .unwrap_or(0);
        let headroom = root
            .number::<u64>(&entry(used_name))
            .map(|used| limit.saturating_sub(used.saturating_sub(reclaimable)));
        (Reading::Value(limit), headroom)
    }

    fn cpu_quota(&self, root: &Root) -> Reading<u64> {
        let entry = |name: &str| format!("{}/{name}", self.directory);
        if self.is_version_1 {
            let quota: i64 = match root.number(&entry("cpu.cfs_quota_us")) {
                Reading::Value(quota) => quota,
                other => return other.map(|_| 0),
            };
            // -1 means no quota.
            let Ok(quota) = u64::try_from(quota) else {
                return Reading::NotSupported;
            };
            return root
                .number(&entry("cpu.cfs_period_us"))
                .and_then(|period| milli_cpus(quota, period));
        }
        root.line(&entry("cpu.max")).and_then(|line| {
            let mut words = line.split_whitespace();
            match (words.next(), words.next()) {
                (Some("max"), _) => Reading::NotSupported,
                (Some(quota), Some(period)) => match (quota.parse(), period.parse()) {
                    (Ok(quota), Ok(period)) => milli_cpus(quota, period),
                    _ => malformed(&entry("cpu.max"), &line),
                },
                _ => malformed(&entry("cpu.max"), &line),
            }
        })
    }
}

fn malformed(path: &str, line: &str) -> Reading<u64> {
    Reading::Failed(Failure::malformed(
        path,
        line,
        "quota and period in microseconds",
    ))
}

fn milli_cpus(quota: u64, period: u64) -> Reading<u64> {
    match quota.saturating_mul(1000).checked_div(period) {
        Some(milli) if quota > 0 => Reading::Value(milli.max(1)),
        _ => Reading::NotSupported,
    }
}

fn bytes_or_max(root: &Root, path: &str) -> Reading<u64> {
    root.line(path).and_then(|line| {
        if line == "max" {
            return Reading::Value(u64::MAX);
        }
        match line.parse() {
            Ok(bytes) => Reading::Value(bytes),
            Err(_) => Reading::Failed(Failure::malformed(path, &line, "bytes or `max`")),
        }
    })
}

/// The smaller of two limits; "not supported" is no limit.
fn tightest(a: Reading<u64>, b: Reading<u64>) -> Reading<u64> {
    match (a, b) {
        (Reading::Value(a), Reading::Value(b)) => Reading::Value(a.min(b)),
        (Reading::Value(value), _) | (_, Reading::Value(value)) => Reading::Value(value),
        (Reading::Failed(why), _) | (_, Reading::Failed(why)) => Reading::Failed(why),
        (Reading::NotSupported, Reading::NotSupported) => Reading::NotSupported,
    }
}

type LimitAndHeadroom = (Reading<u64>, Reading<u64>);

fn tightest_memory(a: LimitAndHeadroom, b: LimitAndHeadroom) -> LimitAndHeadroom {
    (tightest(a.0, b.0), tightest(a.1, b.1))
}
