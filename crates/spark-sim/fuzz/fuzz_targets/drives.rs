//! Any bytes as drives of a run, and as a run's JSON: refused, or written as the same bytes.
//!
//! ```text
//! bytes ──drives_from_bytes──> drives ──drives_to_bytes──> the same bytes
//! text  ──read_run_json──> report ──run_json──> text, which is read and written as itself
//! ```

#![no_main]

use libfuzzer_sys::fuzz_target;
use spark_sim::control::{PerfectTracking, named};
use spark_sim::report::{read_run_json, run_json};
use spark_sim::run::{RunOptions, Simulator, drives_from_bytes, drives_to_bytes};
use spark_sim::scenario::Scenario;

fuzz_target!(
    init: write_seeds(),
    |bytes: &[u8]| {
        if let Ok(drives) = drives_from_bytes(bytes) {
            assert_eq!(drives_to_bytes(&drives), bytes);
        }
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        let Ok(report) = read_run_json(text) else { return };
        // Sums of large figures may be infinite, of which there is no JSON.
        let Ok(written) = run_json(&report) else { return };
        let again = read_run_json(&written).expect("what was written is read");
        assert_eq!(run_json(&again).expect("expressible"), written);
    }
);

/// Puts the first inputs into the folder that libFuzzer is started with.
fn write_seeds() {
    let Some(folder) = std::env::args().skip(1).find(|word| !word.starts_with('-')) else {
        return;
    };
    let folder = std::path::Path::new(&folder);
    if !folder.is_dir() {
        return;
    }
    let mut scenarios = [1.0, -1.0].map(|s| Scenario::straight("straight", 20.0, s));
    scenarios[1].family = Some("of two".to_owned());
    let simulator = Simulator::new(RunOptions::default().with_measured_latency());
    let simulator = simulator.expect("valid options");
    let report = simulator.run(&scenarios, &named("perfect", || PerfectTracking));
    let json = run_json(&report).expect("expressible");
    let drives = drives_to_bytes(&report.results);
    for (name, bytes) in [("seed-drives", drives), ("seed-json", json.into_bytes())] {
        std::fs::write(folder.join(name), bytes).expect("writable");
    }
}
