//! Looks as rows of CSV and as lines of JSON, with the wall clock's time and the name of their schema in each.
//!
//! ```text
//! CSV    a row for each GPU, with the machine's columns in each; one row where no GPU answers
//! JSON   an object for each look, with everything
//! ```
//!
//! A row says of which schema it is, so that the end of a file is enough to read it. An unknown value is an empty
//! cell, or `null`; what failed stands in the last column, or in its place as `{"failed": why}`.

use std::fmt::Display;

use crate::json::{Object, array, quoted};
use crate::reading::Reading;

use super::clock::utc;
use super::export::{Row, quoted_cell};
use super::host::{HostSample, Rate, RateKind};
use super::looker::Look;
use super::processes::Process;

/// The name and version of what a row or line is.
pub const SCHEMA: &str = "sparkpilot-monitor/1";

/// Processes in a line: so many that keep processors busy, and so many that are large.
const MOST_PROCESSES: usize = 8;

/// Columns of the machine, before those of the GPU.
const HOST_COLUMNS: &str = "schema,time,at_ms,cpu_busy_percent,cpu_some_avg10_percent,\
    memory_total_bytes,memory_available_bytes,swap_used_bytes,memory_some_avg10_percent,memory_full_avg10_percent,\
    disk_some_avg10_percent,disk_full_avg10_percent,network_in_bytes_per_s,network_out_bytes_per_s,\
    rdma_in_bytes_per_s,rdma_out_bytes_per_s,disk_read_bytes_per_s,disk_written_bytes_per_s,\
    hottest_c,hottest_sensor";
const GPU_COLUMNS: &str = "gpu,gpu_name,gpu_utilization_percent,gpu_memory_used_bytes,gpu_temperature_c,\
    gpu_power_mw,gpu_power_limit_mw,gpu_sm_clock_mhz,gpu_memory_clock_mhz,gpu_performance_state,gpu_throttle,\
    gpu_energy_mj,gpu_processes,failures";
/// Those of `GPU_COLUMNS` but the last, which is there without a GPU too.
const N_GPU_CELLS: usize = 13;

impl Look {
    /// Names of the columns of [`Self::to_csv`], with a line end.
    #[must_use]
    pub fn csv_header() -> String {
        format!("{HOST_COLUMNS},{GPU_COLUMNS}\n")
    }

    /// A row for each GPU, or one without a GPU's values; each with a line end.
    #[must_use]
    pub fn to_csv(&self) -> String {
        let host = self.host_cells();
        let finished = |mut row: Row| {
            let failures = quoted_cell(&row.failures.join("; "));
            row.cells.push(failures);
            row.cells.join(",") + "\n"
        };
        let samples = match &self.gpus.samples {
            Ok(samples) if !samples.is_empty() => samples,
            none => {
                let mut row = host;
                row.cells.extend(vec![String::new(); N_GPU_CELLS]);
                let why = none.as_ref().err();
                row.failures.extend(why.map(|why| format!("GPUs: {why}")));
                return finished(row);
            }
        };
        let row = |sample| {
            let mut row = host.clone();
            self.gpu_cells(sample, &mut row);
            finished(row)
        };
        samples.iter().map(row).collect()
    }

    fn host_cells(&self) -> Row {
        let host = &self.host;
        let mut row = Row::default();
        row.cells.push(SCHEMA.to_owned());
        row.cells.push(utc(self.time));
        row.cells.push(host.at_ms.to_string());
        row.cell("CPU", &host.mean_busy_percent().map(tenths));
        row.cell(
            "CPU pressure",
            &host.cpu_stall.as_ref().map(|some| some.avg10_percent),
        );
        let info = &host.memory.meminfo;
        row.cell("memory", &info.total_bytes);
        row.cell("memory available", &info.available_bytes);
        row.cell("swap", &host.swap_used_of_total().map(|(used, _)| used));
        for (name, pressure) in [
            ("memory pressure", &host.memory.pressure),
            ("disk pressure", &host.disk_pressure),
        ] {
            row.cell(name, &pressure.as_ref().map(|it| it.some.avg10_percent));
            row.cell(
                "",
                &pressure
                    .as_ref()
                    .map(|it| it.full.avg10_percent)
                    .value()
                    .into(),
            );
        }
        for (name, kind) in [
            ("network", RateKind::Interface),
            ("RDMA", RateKind::RdmaPort),
            ("disks", RateKind::Disk),
        ] {
            let sum = host.sum_of(kind);
            row.cell(name, &sum.as_ref().map(|sum| sum.0.round()));
            row.cell("", &sum.map(|sum| sum.1.round()).value().into());
        }
        let hottest = host.hottest();
        let celsius = hottest.map(|it| it.celsius.to_string());
        row.cells.push(celsius.unwrap_or_default());
        row.cells
            .push(hottest.map_or_else(String::new, |it| quoted_cell(&it.sensor)));
        row
    }

    fn gpu_cells(&self, sample: &super::Sample, row: &mut Row) {
        let name = self.gpus.known.names.get(&sample.gpu);
        row.cells.push(sample.gpu.to_string());
        row.cells
            .push(name.map_or_else(String::new, |name| quoted_cell(name)));
        row.readings(sample);
        row.cell("processes", &sample.processes.as_ref().map(Vec::len));
    }

    /// One JSON object, without a line end: [`SCHEMA`], the time, the machine, its GPUs, and the processes that
    /// keep processors busiest or are largest.
    #[must_use]
    pub fn to_json(&self) -> String {
        let gpus = match &self.gpus.samples {
            Ok(samples) => array(samples.iter().map(|sample| {
                let name = self.gpus.known.names.get(&sample.gpu);
                sample.to_json_with(name.map(String::as_str))
            })),
            Err(why) => Object::new().text("failed", why).finish(),
        };
        let processes = self.notable_processes();
        host_members(
            &self.host,
            Object::new()
                .text("schema", SCHEMA)
                .text("time", &utc(self.time)),
        )
        .raw("gpus", &gpus)
        .raw("processes", &array(processes.into_iter().map(process)))
        .finish()
    }

    /// The processes that keep processors busiest, that are largest, and that use GPUs, in the order of their numbers.
    #[must_use]
    pub fn notable_processes(&self) -> Vec<&Process> {
        let mut by_share: Vec<&Process> = self.processes.iter().collect();
        let mut by_size = by_share.clone();
        by_share.retain(|it| it.busy_percent.is_some_and(|percent| percent > 0.0));
        by_share.sort_by(|a, b| {
            b.busy_percent
                .partial_cmp(&a.busy_percent)
                .unwrap_or(a.pid.cmp(&b.pid))
        });
        by_size.sort_by_key(|it| std::cmp::Reverse(it.resident_bytes));
        let samples = self.gpus.samples.iter().flatten();
        let on_gpus = samples.flat_map(|sample| sample.processes.as_value().into_iter().flatten());
        let on_gpus: Vec<u32> = on_gpus.map(|it| it.pid).collect();
        let mut notable: Vec<&Process> = by_share.into_iter().take(MOST_PROCESSES).collect();
        notable.extend(by_size.into_iter().take(MOST_PROCESSES));
        notable.extend(self.processes.iter().filter(|it| on_gpus.contains(&it.pid)));
        notable.sort_by_key(|it| it.pid);
        notable.dedup_by_key(|it| it.pid);
        notable
    }
}

/// A share with one digit behind the point.
fn tenths(percent: f32) -> String {
    format!("{percent:.1}")
}

fn host_members(host: &HostSample, object: Object) -> Object {
    let each = host.busy_percent.as_ref().map(|each| {
        let members = each
            .iter()
            .fold(Object::new(), |object, (number, percent)| {
                object.raw(&number.to_string(), &tenths(*percent))
            });
        members.finish()
    });
    let cpu = Object::new()
        .reading("busy_percent", &host.mean_busy_percent().map(tenths))
        .reading("each_percent", &each)
        .reading(
            "some_avg10_percent",
            &host.cpu_stall.as_ref().map(|it| it.avg10_percent),
        );
    let swap = host.swap_used_of_total();
    let info = &host.memory.meminfo;
    let memory = Object::new()
        .reading("total_bytes", &info.total_bytes)
        .reading("available_bytes", &info.available_bytes)
        .reading("swap_total_bytes", &swap.as_ref().map(|swap| swap.1))
        .reading("swap_used_bytes", &swap.map(|swap| swap.0));
    let memory = pressure_members(&host.memory.pressure, memory);
    let disks = Object::new().raw("each", &rates(&host.disks));
    let disks = pressure_members(&host.disk_pressure, disks);
    let temperatures = host.temperatures.iter().map(|one| {
        Object::new()
            .text("sensor", &one.sensor)
            .raw("celsius", &one.celsius.to_string())
            .finish()
    });
    object
        .number("at_ms", host.at_ms)
        .raw("cpu", &cpu.finish())
        .raw("memory", &memory.finish())
        .raw("networks", &rates(&host.networks))
        .raw("disks", &disks.finish())
        .raw("temperatures", &array(temperatures))
}

fn pressure_members(pressure: &Reading<crate::memory::Pressure>, object: Object) -> Object {
    object
        .reading(
            "some_avg10_percent",
            &pressure.as_ref().map(|it| it.some.avg10_percent),
        )
        .reading(
            "full_avg10_percent",
            &pressure.as_ref().map(|it| it.full.avg10_percent),
        )
}

fn rates(rates: &Reading<Vec<Rate>>) -> String {
    let rate = |rate: &Rate| {
        Object::new()
            .text("name", &rate.name)
            .text("kind", rate.kind.name())
            .raw("in_bytes_per_s", &format!("{:.0}", rate.in_bytes_per_s))
            .raw("out_bytes_per_s", &format!("{:.0}", rate.out_bytes_per_s))
            .finish()
    };
    let json = rates.as_ref().map(|rates| array(rates.iter().map(rate)));
    json_of(&json)
}

fn process(process: &Process) -> String {
    let share: Reading<String> = process.busy_percent.map(tenths).into();
    Object::new()
        .number("pid", u64::from(process.pid))
        .text("name", &process.name)
        .reading("busy_percent", &share)
        .number("resident_bytes", process.resident_bytes)
        .finish()
}

/// A reading whose value is JSON already.
fn json_of<T: Display>(reading: &Reading<T>) -> String {
    match reading {
        Reading::Value(json) => json.to_string(),
        Reading::NotSupported => "null".to_owned(),
        Reading::Failed(why) => format!("{{\"failed\":{}}}", quoted(&why.to_string())),
    }
}

#[cfg(test)]
mod tests;
