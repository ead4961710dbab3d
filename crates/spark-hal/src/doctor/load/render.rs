//! Figures under load as text and as JSON. Verdicts on them are those of the checks.

use std::fmt;

use crate::json::{Object, array};
use crate::nvml::GpuSample;
use crate::reading::{Reading, quote};

use super::{GpuLoad, HostLoad, LARGE, Load, Phase, Rate, Results, Work, in_digits};

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read => f.pad("read"),
            Self::Copy => f.pad("copy"),
            Self::Arithmetic => f.pad("arithmetic fp32"),
            Self::Product {
                precision,
                rows,
                columns,
                depth,
            } => f.pad(&format!("product {precision} {rows}x{columns}x{depth}")),
        }
    }
}

impl Load {
    /// For people: a line for each figure.
    pub(crate) fn to_text(&self) -> String {
        let ended = if self.is_partial {
            ", ended before it was over"
        } else {
            ""
        };
        let mut text = format!(
            "\nunder load ({:.1} of {} s{ended})\n",
            self.took.as_secs_f64(),
            self.asked.as_secs()
        );
        match &self.gpu {
            Ok(gpu) => write_gpu(&mut text, gpu),
            Err(why) => text.push_str(&format!("  GPU: not loaded: {why}\n")),
        }
        write_host(&mut text, &self.host);
        text
    }

    /// For programs: member `load` of the report.
    pub(crate) fn to_json(&self) -> String {
        let object = Object::new()
            .raw("asked_s", &figure(self.asked.as_secs_f64()))
            .raw("took_s", &figure(self.took.as_secs_f64()))
            .raw("is_partial", &self.is_partial.to_string());
        let object = match &self.gpu {
            Ok(gpu) => object.raw("gpu", &gpu_json(gpu)),
            Err(why) => object.raw("gpu", &Object::new().text("not_loaded", why).finish()),
        };
        let host = Object::new()
            .number("n_threads", self.host.n_threads as u64)
            .text("instructions", &self.host.instructions)
            .raw("read_gb_per_s", &optional(self.host.read_gb_per_s))
            .raw(
                "copy_by_one_gb_per_s",
                &optional(self.host.copy_by_one_gb_per_s),
            )
            .raw("gflops", &optional(self.host.gflops));
        object.raw("host", &host.finish()).finish()
    }
}

fn write_gpu(text: &mut String, gpu: &GpuLoad) {
    text.push_str(&format!("  GPU {}\n", gpu.name));
    for phase in &gpu.phases {
        let results = match &phase.results {
            Results::Right { .. } => "right".to_owned(),
            Results::Wrong { what, .. } => format!("WRONG: {what}"),
        };
        text.push_str(&format!(
            "    {:<28} {:>8} {:<6} {}; results {results}\n",
            phase.work.to_string(),
            short(phase.rate.median),
            phase.work.unit(),
            meanwhile(&phase.samples)
        ));
    }
    if let Some(failure) = &gpu.failure {
        text.push_str(&format!("    the rest was not done: {failure}\n"));
    }
}

fn write_host(text: &mut String, host: &HostLoad) {
    let line = |what: &str, rate: Option<Rate>, unit: &str| match rate {
        Some(rate) => format!("    {what:<28} {:>8} {unit}\n", short(rate.median)),
        None => format!("    {what:<28} not measured\n"),
    };
    text.push_str(&format!(
        "  CPU, {} threads, {}\n",
        host.n_threads, host.instructions
    ));
    text.push_str(&line("read, all threads", host.read_gb_per_s, "GB/s"));
    text.push_str(&line("copy, one thread", host.copy_by_one_gb_per_s, "GB/s"));
    text.push_str(&line("product fp32, all threads", host.gflops, "GFLOPS"));
}

/// `2411 MHz, 61.0 W, 71 C, 99 % busy, no throttling`, as far as it was said.
fn meanwhile(samples: &[GpuSample]) -> String {
    if samples.is_empty() {
        return "no looks at it".to_owned();
    }
    let mut said = Vec::new();
    let median = |of: fn(&GpuSample) -> &Reading<u32>| {
        let mut values: Vec<u32> = samples
            .iter()
            .filter_map(|sample| of(sample).as_value().copied())
            .collect();
        values.sort_unstable();
        values.get(values.len().saturating_sub(1) / 2).copied()
    };
    if let Some(clock) = median(|sample| &sample.sm_clock_mhz) {
        said.push(format!("{clock} MHz"));
    }
    if let Some(power) = median(|sample| &sample.power_mw) {
        said.push(format!("{:.1} W", f64::from(power) / 1e3));
    }
    if let Some(degrees) = median(|sample| &sample.temperature_c) {
        said.push(format!("{degrees} C"));
    }
    if let Some(busy) = median(|sample| &sample.utilization_percent) {
        said.push(format!("{busy} % busy"));
    }
    let mut reasons: Vec<&str> = samples
        .iter()
        .filter_map(|sample| sample.throttle.as_value())
        .flatten()
        .map(|reason| reason.name())
        .collect();
    reasons.sort_unstable();
    reasons.dedup();
    if !reasons.is_empty() {
        said.push(reasons.join(" "));
    }
    if said.is_empty() {
        "its driver says nothing of it".to_owned()
    } else {
        said.join(", ")
    }
}

/// Three digits.
fn short(value: f64) -> String {
    match value {
        100.0.. => in_digits(value, 0),
        10.0.. => format!("{value:.1}"),
        0.1.. => format!("{value:.2}"),
        _ => format!("{value:.6}"),
    }
}

/// A number as JSON has it.
fn figure(value: f64) -> String {
    if value.abs() < LARGE {
        format!("{value:.6}")
    } else if value.is_finite() {
        format!("{value:e}")
    } else {
        "null".to_owned()
    }
}

fn optional(rate: Option<Rate>) -> String {
    rate.map_or_else(|| "null".to_owned(), rate_json)
}

fn rate_json(rate: Rate) -> String {
    Object::new()
        .number("n", rate.n)
        .raw("min", &figure(rate.min))
        .raw("median", &figure(rate.median))
        .raw("max", &figure(rate.max))
        .finish()
}

fn gpu_json(gpu: &GpuLoad) -> String {
    let phases = gpu.phases.iter().map(phase_json);
    let object = Object::new().text("name", &gpu.name);
    let object = match gpu.compute {
        Some(compute) => object.text("compute_capability", &compute.to_string()),
        None => object.raw("compute_capability", "null"),
    };
    let object = object
        .number("n_multiprocessors", u64::from(gpu.n_multiprocessors))
        .raw(
            "before",
            &gpu.before
                .as_ref()
                .map_or_else(|| "null".to_owned(), sample_json),
        )
        .raw("phases", &array(phases));
    match &gpu.failure {
        Some(failure) => object.text("failure", &quote(failure)).finish(),
        None => object.raw("failure", "null").finish(),
    }
}

fn phase_json(phase: &Phase) -> String {
    let object = Object::new().text("work", &phase.work.to_string());
    let object = match phase.work {
        Work::Product { precision, .. } => object.text("precision", precision.name()),
        _ => object,
    };
    let object = object
        .text("unit", phase.work.unit())
        .raw("took_s", &figure(phase.took.as_secs_f64()))
        .raw("rate", &rate_json(phase.rate));
    let object = match &phase.results {
        Results::Right { against } => object.raw("is_right", "true").text("held_against", against),
        Results::Wrong { against, what } => object
            .raw("is_right", "false")
            .text("held_against", against)
            .text("wrong", what),
    };
    object
        .raw("samples", &array(phase.samples.iter().map(sample_json)))
        .finish()
}

fn sample_json(sample: &GpuSample) -> String {
    let object = Object::new()
        .reading("sm_clock_mhz", &sample.sm_clock_mhz)
        .reading("power_mw", &sample.power_mw)
        .reading("temperature_c", &sample.temperature_c)
        .reading("utilization_percent", &sample.utilization_percent);
    match &sample.throttle {
        Reading::Value(reasons) => {
            let names = reasons
                .iter()
                .map(|reason| format!("\"{}\"", reason.name()));
            object.raw("throttle", &array(names)).finish()
        }
        _ => object.raw("throttle", "null").finish(),
    }
}
