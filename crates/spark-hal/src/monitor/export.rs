//! Samples as CSV and as JSON.

use std::fmt::Display;

use crate::json::{Object, array, quoted};
use crate::nvml::{GpuProcess, ThrottleReason};
use crate::reading::Reading;

use super::sample::Sample;

pub(super) fn csv(samples: &[Sample]) -> String {
    let mut text = format!("{}\n", Sample::CSV_HEADER);
    for sample in samples {
        text.push_str(&row(sample));
        text.push('\n');
    }
    text
}

/// Cells of one row, collecting what failed.
#[derive(Debug, Clone, Default)]
pub(super) struct Row {
    pub(super) cells: Vec<String>,
    pub(super) failures: Vec<String>,
}

impl Row {
    pub(super) fn cell<T: Display>(&mut self, name: &str, reading: &Reading<T>) {
        match reading {
            Reading::Value(value) => self.cells.push(value.to_string()),
            Reading::NotSupported => self.cells.push(String::new()),
            Reading::Failed(why) => {
                self.cells.push(String::new());
                self.failures.push(format!("{name}: {why}"));
            }
        }
    }

    /// What NVML tells of a GPU, from its utilisation to its energy.
    pub(super) fn readings(&mut self, sample: &Sample) {
        const N_CELLS: usize = 10;
        match &sample.readings {
            Ok(readings) => {
                self.cell("utilization", &readings.utilization_percent);
                self.cell("memory", &sample.memory_used_bytes());
                self.cell("temperature", &readings.temperature_c);
                self.cell("power", &readings.power_mw);
                self.cell("power limit", &readings.power_limit_mw);
                self.cell("clock", &readings.sm_clock_mhz);
                self.cell("memory clock", &readings.memory_clock_mhz);
                self.cell("performance state", &readings.performance_state);
                let reasons = readings.throttle.as_ref().map(|reasons| joined(reasons));
                self.cell("throttle", &reasons);
                self.cell("energy", &readings.energy_mj);
            }
            Err(why) => {
                self.cells.extend(vec![String::new(); N_CELLS]);
                self.failures.push(why.clone());
            }
        }
    }
}

fn row(sample: &Sample) -> String {
    let cells = vec![sample.at_ms.to_string(), sample.gpu.to_string()];
    let mut row = Row {
        cells,
        failures: Vec::new(),
    };
    row.readings(sample);
    row.cell("machine memory", &sample.machine_available_bytes);
    row.cell("processes", &sample.processes.as_ref().map(Vec::len));
    row.cells.push(quoted_cell(&row.failures.join("; ")));
    row.cells.join(",")
}

fn joined(reasons: &[ThrottleReason]) -> String {
    let names: Vec<&str> = reasons.iter().map(|reason| reason.name()).collect();
    names.join("+")
}

/// Quotes a cell where it needs it (RFC 4180).
pub(super) fn quoted_cell(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

impl Sample {
    /// Names of the columns of [`Self::to_csv_row`], without a line end.
    pub const CSV_HEADER: &str = "at_ms,gpu,utilization_percent,memory_used_bytes,temperature_c,power_mw,\
        power_limit_mw,sm_clock_mhz,memory_clock_mhz,performance_state,throttle,energy_mj,\
        machine_available_bytes,n_processes,failures";

    /// Comma-separated values, without a line end; an unknown value is an empty cell, and the last
    /// column tells what failed.
    #[must_use]
    pub fn to_csv_row(&self) -> String {
        row(self)
    }

    /// One JSON object: a value, `null` for "not supported", `{"failed": why}`.
    #[must_use]
    pub fn to_json(&self) -> String {
        self.to_json_with(None)
    }

    /// The same with the GPU's name, where it is known.
    pub(super) fn to_json_with(&self, name: Option<&str>) -> String {
        let object = Object::new()
            .number("at_ms", self.at_ms)
            .number("gpu", u64::from(self.gpu));
        let object = match name {
            Some(name) => object.text("name", name),
            None => object,
        };
        let object = object.raw(
            "unified_memory",
            if self.is_unified { "true" } else { "false" },
        );
        let object = match &self.readings {
            Err(why) => object.text("failed", why),
            Ok(readings) => {
                let throttle = readings
                    .throttle
                    .as_ref()
                    .map(|reasons| array(reasons.iter().map(|reason| quoted(reason.name()))));
                object
                    .reading("utilization_percent", &readings.utilization_percent)
                    .reading("memory_used_bytes", &self.memory_used_bytes())
                    .reading("temperature_c", &readings.temperature_c)
                    .reading("power_mw", &readings.power_mw)
                    .reading("power_limit_mw", &readings.power_limit_mw)
                    .reading("sm_clock_mhz", &readings.sm_clock_mhz)
                    .reading("memory_clock_mhz", &readings.memory_clock_mhz)
                    .reading("performance_state", &readings.performance_state)
                    .reading("throttle", &throttle)
                    .reading("energy_mj", &readings.energy_mj)
            }
        };
        let processes = self
            .processes
            .as_ref()
            .map(|processes| array(processes.iter().map(process)));
        object
            .reading("machine_available_bytes", &self.machine_available_bytes)
            .reading("processes", &processes)
            .finish()
    }
}

fn process(process: &GpuProcess) -> String {
    Object::new()
        .number("pid", u64::from(process.pid))
        .reading("memory_bytes", &process.memory_bytes)
        .finish()
}
