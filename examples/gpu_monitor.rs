//! Watch the GPUs for a while: live lines, then a summary.
//!
//! Run: `cargo run --example gpu_monitor`, or with seconds and a form:
//! `cargo run --example gpu_monitor -- 10 csv` (or `json`).

#![allow(clippy::print_stdout, reason = "an example shows what it found")]

use std::collections::BTreeSet;
use std::time::Duration;

use spark::hal::monitor::{Monitor, MonitorOptions, Sample, Sampler};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let seconds = arguments.next().unwrap_or_else(|| "3".to_owned());
    let seconds: u64 = seconds
        .parse()
        .map_err(|_| format!("`{seconds}` is no number of seconds"))?;
    let form = arguments.next().unwrap_or_default();
    if !["", "csv", "json"].contains(&form.as_str()) {
        return Err(format!("`{form}` is neither csv nor json").into());
    }

    let options = MonitorOptions {
        interval: Duration::from_millis(500),
        ..Default::default()
    };
    let sampler = match Sampler::open(&options.gpus) {
        Ok(sampler) => sampler,
        Err(why) => {
            println!("There is no GPU to watch here: {why}.");
            return Ok(());
        }
    };
    let is_live = form.is_empty();
    let monitor = Monitor::start_with(sampler, &options, move |sample| {
        if is_live {
            println!("{}", line(sample));
        }
    })?;
    std::thread::sleep(Duration::from_secs(seconds));
    let recording = monitor.stop();

    match form.as_str() {
        "csv" => print!("{}", recording.to_csv()),
        "json" => print!("{}", recording.to_json_lines()),
        _ => {
            let gpus: BTreeSet<u32> = recording.samples.iter().map(|sample| sample.gpu).collect();
            for gpu in gpus {
                print!("GPU {gpu} in short:\n{}", recording.summary(gpu));
            }
        }
    }
    Ok(())
}

fn line(sample: &Sample) -> String {
    let Sample { gpu, readings, .. } = sample;
    match readings {
        Ok(now) => format!(
            "GPU {gpu}: busy {} %, {} MHz, {} C, {} W, {} MiB in use",
            now.utilization_percent,
            now.sm_clock_mhz,
            now.temperature_c,
            now.power_mw
                .as_ref()
                .map(|milliwatts| f64::from(*milliwatts) / 1e3),
            sample.memory_used_bytes().map(|bytes| bytes >> 20)
        ),
        Err(why) => format!("GPU {gpu}: {why}"),
    }
}
