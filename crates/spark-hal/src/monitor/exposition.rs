//! A look as Prometheus reads it: the text format 0.0.4.
//!
//! ```text
//! # HELP sparkpilot_gpu_temperature_celsius Temperature of the chip.
//! # TYPE sparkpilot_gpu_temperature_celsius gauge
//! sparkpilot_gpu_temperature_celsius{gpu="0",name="NVIDIA GB10"} 64
//! ```
//!
//! Units are base units: bytes, seconds, celsius, watts, hertz, ratios from 0 to 1. What is not known has no line: a
//! value that is missing is no zero.
//!
//! Sources: prometheus.io, *Exposition formats* and *Metric and label naming*.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::memory::Stall;
use crate::nvml::{GpuSample, MemoryFigures, ThrottleReason};
use crate::reading::Reading;

use super::host::{HostSample, Rate, RateKind};
use super::looker::Look;
use super::sample::Sample;

/// The media type of [`Look::to_prometheus`].
pub const PROMETHEUS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Text under way.
struct Text(String);

impl Text {
    /// A metric with its series; without any it is left out.
    fn metric(&mut self, name: &str, kind: &str, help: &str, series: Vec<(Labels<'_>, f64)>) {
        if series.is_empty() {
            return;
        }
        let _ = writeln!(
            self.0,
            "# HELP sparkpilot_{name} {help}\n# TYPE sparkpilot_{name} {kind}"
        );
        for (labels, value) in series {
            let _ = write!(self.0, "sparkpilot_{name}");
            for (idx, (label, text)) in labels.iter().enumerate() {
                let before = if idx == 0 { '{' } else { ',' };
                let _ = write!(self.0, "{before}{label}=\"{}\"", escaped(text));
            }
            let end = if labels.is_empty() { "" } else { "}" };
            let _ = writeln!(self.0, "{end} {value}");
        }
    }

    fn gauge(&mut self, name: &str, help: &str, series: Vec<(Labels<'_>, f64)>) {
        self.metric(name, "gauge", help, series);
    }

    fn counter(&mut self, name: &str, help: &str, series: Vec<(Labels<'_>, f64)>) {
        self.metric(name, "counter", help, series);
    }
}

type Labels<'a> = Vec<(&'static str, &'a str)>;

/// A label's value: backslashes, quotes and line ends have an escape each.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

impl Look {
    /// The look in Prometheus's text format 0.0.4, at `now`, which the age of the look is told by.
    #[must_use]
    pub fn to_prometheus(&self, now: SystemTime) -> String {
        let mut text = Text(String::new());
        let single = |value: f64| vec![(Labels::new(), value)];
        let since_1970 = self.time.duration_since(UNIX_EPOCH).unwrap_or_default();
        text.gauge(
            "look_timestamp_seconds",
            "When the figures were seen, in seconds since 1970.",
            single(since_1970.as_secs_f64()),
        );
        let age = now.duration_since(self.time).unwrap_or_default();
        text.gauge(
            "look_age_seconds",
            "How long ago that was.",
            single(age.as_secs_f64()),
        );
        host(&mut text, &self.host);
        gpus(&mut text, self);
        text.0
    }
}

fn known<T: Copy>(reading: &Reading<T>, number: fn(T) -> f64) -> Vec<(Labels<'static>, f64)> {
    let value = reading
        .as_value()
        .map(|value| (Labels::new(), number(*value)));
    value.into_iter().collect()
}

fn bytes(count: u64) -> f64 {
    count as f64
}

fn host(text: &mut Text, host: &HostSample) {
    let each = host.busy_percent.as_value().into_iter().flatten();
    let each: Vec<(String, f32)> = each
        .map(|(cpu, percent)| (cpu.to_string(), *percent))
        .collect();
    text.gauge(
        "cpu_busy_ratio",
        "Share of the time since the look before in which a processor was not idle.",
        each.iter()
            .map(|(cpu, percent)| (vec![("cpu", &**cpu)], f64::from(*percent) / 100.0))
            .collect(),
    );
    let info = &host.memory.meminfo;
    for (name, help, reading) in [
        (
            "memory_size_bytes",
            "All of the machine's memory.",
            &info.total_bytes,
        ),
        (
            "memory_available_bytes",
            "Memory that can be allocated without swapping.",
            &info.available_bytes,
        ),
        (
            "swap_size_bytes",
            "Size of all swap areas.",
            &info.swap_total_bytes,
        ),
        (
            "swap_free_bytes",
            "The unused part of them.",
            &info.swap_free_bytes,
        ),
    ] {
        text.gauge(name, help, known(reading, bytes));
    }
    let memory = host.memory.pressure.as_value();
    let disks = host.disk_pressure.as_value();
    let stalls = [
        ("cpu", "some", host.cpu_stall.as_value()),
        ("memory", "some", memory.map(|it| &it.some)),
        ("memory", "full", memory.map(|it| &it.full)),
        ("io", "some", disks.map(|it| &it.some)),
        ("io", "full", disks.map(|it| &it.full)),
    ];
    let series = |value: fn(&Stall) -> f64| -> Vec<(Labels<'static>, f64)> {
        let told = stalls.iter().filter_map(|(resource, kind, stall)| {
            Some((
                vec![("resource", *resource), ("kind", *kind)],
                value((*stall)?),
            ))
        });
        told.collect()
    };
    text.counter(
        "pressure_stalled_seconds_total",
        "Time in which some task, or all of them, waited for a resource.",
        series(|stall| Duration::from_micros(stall.total_us).as_secs_f64()),
    );
    text.gauge(
        "pressure_avg10_ratio",
        "Share of the last ten seconds in which some task, or all of them, waited for a resource.",
        series(|stall| f64::from(stall.avg10_percent) / 100.0),
    );
    let networks: Vec<&Rate> = host.networks.as_value().into_iter().flatten().collect();
    let disks: Vec<&Rate> = host.disks.as_value().into_iter().flatten().collect();
    let of =
        |rates: &[&Rate], count: fn(&Rate) -> u64| -> Vec<(Vec<(&'static str, String)>, f64)> {
            let series = |rate: &&Rate| {
                let mut labels = vec![("device", rate.name.clone())];
                if rate.kind != RateKind::Disk {
                    labels.push(("kind", rate.kind.name().to_owned()));
                }
                (labels, bytes(count(rate)))
            };
            rates.iter().map(series).collect()
        };
    for (name, help, series) in [
        (
            "network_receive_bytes_total",
            "Bytes received.",
            of(&networks, |it| it.in_bytes),
        ),
        (
            "network_transmit_bytes_total",
            "Bytes sent.",
            of(&networks, |it| it.out_bytes),
        ),
        (
            "disk_read_bytes_total",
            "Bytes read.",
            of(&disks, |it| it.in_bytes),
        ),
        (
            "disk_written_bytes_total",
            "Bytes written.",
            of(&disks, |it| it.out_bytes),
        ),
    ] {
        let borrowed = series.iter().map(|(labels, value)| {
            let labels = labels.iter().map(|(label, text)| (*label, &**text));
            (labels.collect(), *value)
        });
        text.counter(name, help, borrowed.collect());
    }
    let sensors = host.temperatures.iter();
    text.gauge(
        "temperature_celsius",
        "What a sensor of the machine says.",
        sensors
            .map(|it| (vec![("sensor", &*it.sensor)], it.celsius))
            .collect(),
    );
}

fn gpus(text: &mut Text, look: &Look) {
    let answered = f64::from(u8::from(look.gpus.samples.is_ok()));
    text.gauge(
        "gpus_answered",
        "Whether NVIDIA's library told of the GPUs in this look.",
        vec![(Labels::new(), answered)],
    );
    let unanswered = look
        .gpus
        .unanswered
        .map(|it| (Labels::new(), it.as_secs_f64()));
    text.gauge(
        "gpus_unanswered_seconds",
        "For how long its answer has been awaited.",
        unanswered.into_iter().collect(),
    );
    let samples: Vec<(String, &str, &Sample)> = look
        .gpus
        .samples
        .iter()
        .flatten()
        .map(|sample| {
            let name = look.gpus.known.names.get(&sample.gpu);
            (
                sample.gpu.to_string(),
                name.map_or("", String::as_str),
                sample,
            )
        })
        .collect();
    text.gauge(
        "gpu_answered",
        "Whether a GPU told of itself in this look.",
        samples
            .iter()
            .map(|(gpu, name, sample)| {
                let value = f64::from(u8::from(sample.readings.is_ok()));
                (vec![("gpu", &**gpu), ("name", *name)], value)
            })
            .collect(),
    );
    type Value = fn(&Sample, &GpuSample) -> Option<f64>;
    let gauges: [(&str, &str, Value); 9] = [
        (
            "gpu_busy_ratio",
            "Share of the time in which a kernel ran.",
            |_, it| scaled(&it.utilization_percent, |percent| percent / 100.0),
        ),
        ("gpu_memory_size_bytes", "Memory of its own.", |_, it| {
            own_memory(it).map(|figures| bytes(figures.total_bytes))
        }),
        (
            "gpu_memory_used_bytes",
            "Memory in use where the GPU works: its own, or the machine's.",
            |sample, _| sample.memory_used_bytes().value().map(bytes),
        ),
        (
            "gpu_temperature_celsius",
            "Temperature of the chip.",
            |_, it| scaled(&it.temperature_c, |celsius| celsius),
        ),
        ("gpu_power_watts", "Power drawn.", |_, it| {
            scaled(&it.power_mw, |milli| milli / 1e3)
        }),
        ("gpu_power_limit_watts", "Power limit in force.", |_, it| {
            scaled(&it.power_limit_mw, |milli| milli / 1e3)
        }),
        (
            "gpu_sm_clock_hertz",
            "Clock of the multiprocessors.",
            |_, it| scaled(&it.sm_clock_mhz, |mega| mega * 1e6),
        ),
        ("gpu_memory_clock_hertz", "Clock of the memory.", |_, it| {
            scaled(&it.memory_clock_mhz, |mega| mega * 1e6)
        }),
        (
            "gpu_processes",
            "Processes that use the GPU.",
            |sample, _| sample.processes.as_value().map(|all| all.len() as f64),
        ),
    ];
    let series = |value: Value| -> Vec<(Labels<'_>, f64)> {
        let told = samples.iter().filter_map(|(gpu, name, sample)| {
            let value = value(sample, sample.readings.as_ref().ok()?)?;
            Some((vec![("gpu", &**gpu), ("name", *name)], value))
        });
        told.collect()
    };
    for (name, help, value) in gauges {
        text.gauge(name, help, series(value));
    }
    text.counter(
        "gpu_energy_joules_total",
        "Energy since the driver was loaded.",
        series(|_, it| {
            it.energy_mj
                .as_value()
                .map(|millijoules| *millijoules as f64 / 1e3)
        }),
    );
    let mut throttled = Vec::new();
    for (gpu, name, sample) in &samples {
        let Some(Reading::Value(now)) = sample.readings.as_ref().ok().map(|it| &it.throttle) else {
            continue;
        };
        for reason in ThrottleReason::ALL {
            let labels = vec![("gpu", &**gpu), ("name", *name), ("reason", reason.name())];
            throttled.push((labels, f64::from(u8::from(now.contains(&reason)))));
        }
    }
    text.gauge(
        "gpu_throttled",
        "Whether this is a reason for clocks that are lower than they could be.",
        throttled,
    );
}

fn scaled(reading: &Reading<u32>, to_base_unit: fn(f64) -> f64) -> Option<f64> {
    reading
        .as_value()
        .map(|value| to_base_unit(f64::from(*value)))
}

fn own_memory(now: &GpuSample) -> Option<&MemoryFigures> {
    now.memory
        .as_value()
        .filter(|figures| figures.total_bytes > 0)
}

#[cfg(test)]
mod tests;
