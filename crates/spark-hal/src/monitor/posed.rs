//! Looks at machines that are not there, for tests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use crate::memory::{Meminfo, Memory, Pressure, Stall};
use crate::nvml::{GpuProcess, GpuSample, MemoryFigures, ThrottleReason};
use crate::reading::Reading;
use crate::root::Root;

use super::gpu_worker::{GpuAnswer, KnownGpus};
use super::host::{HostSample, Rate, RateKind, Temperature};
use super::looker::Look;
use super::processes::Process;
use super::sample::Sample;

/// A machine of 128 GiB with 20 GiB in use and so many GPUs at work.
pub(super) fn look(at_ms: u64, n_gpus: u32) -> Look {
    let names = (0..n_gpus).map(|gpu| (gpu, "NVIDIA \"GB10\", posed".to_owned()));
    Look {
        time: UNIX_EPOCH + Duration::from_millis(1_772_348_709_040 + at_ms),
        host: host(at_ms),
        processes: vec![Process {
            pid: 41,
            name: "py\"thon, 3".to_owned(),
            busy_percent: Some(250.0),
            resident_bytes: 1 << 30,
        }],
        gpus: GpuAnswer {
            known: Arc::new(KnownGpus {
                machine: "posed".to_owned(),
                names: names.collect::<BTreeMap<_, _>>(),
            }),
            samples: Ok((0..n_gpus).map(sample).collect()),
            unanswered: None,
        },
    }
}

fn stall(percent: f32) -> Stall {
    Stall {
        avg10_percent: percent,
        avg60_percent: 0.0,
        avg300_percent: 0.0,
        total_us: 1_500_000,
    }
}

fn host(at_ms: u64) -> HostSample {
    let rate = |name: &str, kind, into: f64| Rate {
        name: name.to_owned(),
        kind,
        in_bytes_per_s: into,
        out_bytes_per_s: 7.0,
        in_bytes: 4096,
        out_bytes: 512,
    };
    let mut memory = Memory::read(&Root::at("no such folder"));
    memory.meminfo = Meminfo::parse(
        "MemTotal: 134217728 kB\nMemAvailable: 113246208 kB\nSwapTotal: 16777216 kB\nSwapFree: 16777216 kB\n",
    );
    memory.pressure = Reading::Value(Pressure {
        some: stall(1.5),
        full: stall(0.0),
    });
    HostSample {
        at_ms,
        busy_percent: Reading::Value(vec![(0, 50.0), (1, 0.0)]),
        memory,
        cpu_stall: Reading::Value(stall(3.0)),
        disk_pressure: Reading::NotSupported,
        networks: Reading::Value(vec![
            rate("eth0", RateKind::Interface, 1000.0),
            rate("docker0", RateKind::VirtualInterface, 1000.0),
            rate("mlx5_0:1", RateKind::RdmaPort, 23.4e9),
        ]),
        disks: Reading::Value(vec![rate("nvme0n1", RateKind::Disk, 2e6)]),
        temperatures: vec![Temperature {
            sensor: "nvme Composite".to_owned(),
            celsius: 41.85,
        }],
    }
}

/// A GPU at work.
pub(super) fn sample(gpu: u32) -> Sample {
    let value = Reading::Value;
    Sample {
        at_ms: 0,
        gpu,
        is_unified: false,
        readings: Ok(GpuSample {
            utilization_percent: value(97),
            memory_utilization_percent: Reading::NotSupported,
            memory: Reading::Value(MemoryFigures {
                total_bytes: 80 << 30,
                free_bytes: 50 << 30,
                used_bytes: 30 << 30,
            }),
            temperature_c: value(64),
            power_mw: value(48_200),
            power_limit_mw: Reading::NotSupported,
            sm_clock_mhz: value(2411),
            memory_clock_mhz: Reading::NotSupported,
            performance_state: value(0),
            throttle: Reading::Value(vec![ThrottleReason::PowerCap]),
            energy_mj: Reading::Value(1500),
        }),
        processes: Reading::Value(vec![GpuProcess {
            pid: 41,
            memory_bytes: Reading::Value(1 << 30),
        }]),
        machine_total_bytes: Reading::Value(128 << 30),
        machine_available_bytes: Reading::Value(108 << 30),
    }
}
