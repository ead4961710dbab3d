//! What a container or a control group gives of the machine's memory.
//!
//! ```text
//! /proc/self/mounts   shm /dev/shm tmpfs rw,nosuid,nodev,noexec,relatime,size=65536k 0 0
//! memory.high         above it the kernel reclaims, and puts to sleep whoever allocates     (version 2)
//! memory.max          above it the kernel ends a process                                    (version 2)
//! memory.limit_in_bytes  the same                                                           (version 1)
//! ```
//!
//! What CUDA allocates on a DGX Spark no control group counts (lab-stack.com, "DGX Spark memory hard wall"), but weights that are
//! read into ordinary memory first, and the cache that they are read through, are counted.
//!
//! Sources: Linux, `Documentation/admin-guide/cgroup-v2.rst`, `filesystems/tmpfs.rst` (no `size=` is half of the memory).

use crate::bytes::gibibytes;
use crate::cgroup::{self, MemoryLimit};
use crate::doctor::facts::Facts;
use crate::doctor::verdict::{Seen, Severity, Verdict, found, not_applicable, not_examined, seen};
use crate::platform::ContainerKind;
use crate::platform::container::{MOUNTS, is_shared_memory};
use crate::reading::Reading;

use super::super::applies::no_gpu;

/// What docker, containerd and Podman give unless they are told otherwise.
const DEFAULT_SHARED_BYTES: u64 = 64 << 20;

pub(super) fn shared_memory(facts: &Facts) -> Verdict {
    let Some(container) = &facts.machine.platform.container else {
        return not_applicable("not in a container");
    };
    if let Some(verdict) = no_gpu(facts) {
        return verdict;
    }
    let mounts = match facts.root.text(MOUNTS) {
        Reading::Value(mounts) => mounts,
        other => return not_examined(format!("needs {MOUNTS}: {other}")),
    };
    // What is mounted last lies on top.
    let Some(line) = mounts.lines().rfind(|line| is_shared_memory(line)) else {
        return not_examined(format!("needs a mount of /dev/shm in {MOUNTS}"));
    };
    let mut fields = line.split(' ').skip(2);
    let (kind, options) = (fields.next(), fields.next().unwrap_or_default());
    if kind != Some("tmpfs") {
        return not_examined(format!(
            "needs a /dev/shm in memory: {MOUNTS} tells another"
        ));
    }
    let Some(size) = options
        .split(',')
        .find_map(|option| option.strip_prefix("size="))
    else {
        return Verdict::Passed;
    };
    match bytes_of(size) {
        None => not_examined(format!("needs a size of /dev/shm in {MOUNTS}")),
        Some(bytes) if bytes > DEFAULT_SHARED_BYTES => Verdict::Passed,
        Some(_) => found(
            Severity::Warning,
            "this container shares 64 MB of memory among its processes or less: NCCL, the workers of PyTorch's loaders and vLLM \
             fail or hang when it is full",
            vec![seen(format!("{MOUNTS} /dev/shm"), format!("size={size}"))],
            match container.kind {
                ContainerKind::Kubernetes => {
                    "mount a volume `emptyDir: {medium: Memory}` at /dev/shm in the pod"
                }
                _ => "start the container with `--ipc=host` or `--shm-size=16g`",
            },
        ),
    }
}

/// `65536k`
fn bytes_of(size: &str) -> Option<u64> {
    let end = size
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(size.len());
    let number: u64 = size[..end].parse().ok()?;
    let shift = match &size[end..] {
        "" => 0,
        "k" | "K" => 10,
        "m" | "M" => 20,
        "g" | "G" => 30,
        _ => return None,
    };
    number.checked_mul(1 << shift)
}

pub(super) fn memory(facts: &Facts) -> Verdict {
    if let Some(verdict) = no_gpu(facts) {
        return verdict;
    }
    let Some(total) = facts.machine.memory.meminfo.total_bytes.as_value() else {
        return not_examined("needs MemTotal in /proc/meminfo");
    };
    let limits = cgroup::memory_limits(&facts.root);
    let smallest = |is_throttle: bool| {
        let known = limits.iter().filter_map(|limit| {
            let bytes = (*limit.bytes.as_value()?)?;
            (limit.is_throttle == is_throttle && bytes < *total).then_some((bytes, limit))
        });
        known.min_by_key(|(bytes, _)| *bytes)
    };
    if let Some((bytes, limit)) = smallest(true) {
        return found(
            Severity::Warning,
            format!(
                "memory beyond {} of {} is throttled: the kernel reclaims and puts the process to sleep, so that loading crawls or \
                 stands still instead of failing; what the GPU allocates is not counted on a DGX Spark",
                gibibytes(bytes),
                gibibytes(*total)
            ),
            vec![of_limit(limit, bytes)],
            match facts.machine.platform.container.as_ref().map(|it| it.kind) {
                Some(ContainerKind::Kubernetes) => {
                    "raise the pod's memory limit, or turn off the kubelet's feature MemoryQoS, which sets memory.high"
                }
                _ => {
                    "set MemoryHigh=infinity for its unit or slice (systemctl set-property), or start the work in another"
                }
            },
        );
    }
    if let Some((bytes, limit)) = smallest(false) {
        return found(
            Severity::Note,
            format!(
                "a control group gives {} of {}: beyond it the kernel ends a process; what the GPU allocates is not counted on a \
                 DGX Spark",
                gibibytes(bytes),
                gibibytes(*total)
            ),
            vec![of_limit(limit, bytes)],
            "raise the limit of the container (--memory), pod or unit (MemoryMax=) if models are larger",
        );
    }
    if let Some(limit) = limits.iter().find(|limit| !limit.bytes.is_value()) {
        return not_examined(format!("needs a number of bytes in {}", limit.path));
    }
    match limits.is_empty() {
        false => Verdict::Passed,
        // Outside of containers groups without a controller of memory have no files.
        true if cgroup::is_visible(&facts.root) && !facts.machine.platform.is_container => {
            Verdict::Passed
        }
        true => {
            not_examined("needs /proc/self/cgroup and the files of that group in /sys/fs/cgroup")
        }
    }
}

fn of_limit(limit: &MemoryLimit, bytes: u64) -> Seen {
    seen(limit.path.clone(), bytes)
}
