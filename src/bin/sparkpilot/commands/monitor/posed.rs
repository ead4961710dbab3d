//! Looks at a machine without a GPU, for tests: of the numbers that matter to them.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use sparkpilot::hal::Root;
use sparkpilot::hal::memory::Meminfo;
use sparkpilot::hal::monitor::{GpuAnswer, HostSampler, KnownGpus, Look};

/// A machine of 128 GiB, so many milliseconds into a watch, with so many MiB available.
pub(super) fn look(at_ms: u64, available_mib: u64) -> Look {
    let mut host = HostSampler::open(Root::at("no such folder")).look();
    host.at_ms = at_ms;
    let text = format!(
        "MemTotal: 134217728 kB\nMemAvailable: {} kB\n",
        available_mib << 10
    );
    host.memory.meminfo = Meminfo::parse(&text);
    Look {
        time: UNIX_EPOCH + Duration::from_millis(1_772_348_709_040 + at_ms),
        host,
        processes: Vec::new(),
        gpus: GpuAnswer {
            known: Arc::new(KnownGpus::default()),
            samples: Err("there is no driver".to_owned()),
            unanswered: None,
        },
    }
}
