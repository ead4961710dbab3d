//! A cut-in from above: one drive recorded, drawn as PNG, animated GIF and SVG.
//!
//! Run: `cargo run --release --features pictures --example replay_scenario -- [OUT_FOLDER]`

#![allow(clippy::print_stdout, reason = "an example's output is its product")]

use spark::sim::control::{
    Combined, LateralPid, LateralPidConfig, Longitudinal, LongitudinalConfig, named,
};
use spark::sim::report::{PictureOptions, replay_gif, replay_png, replay_svg};
use spark::sim::run::{RunOptions, Simulator};
use spark::sim::scenario::file::write_atomically;
use spark::sim::scenario::{Fuzzer, ScenarioKind};
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1);
    let folder = PathBuf::from(folder.unwrap_or_else(|| "target/replay".to_owned()));
    std::fs::create_dir_all(&folder)?;
    let fuzzer = Fuzzer::new(3);
    let scenario = fuzzer
        .iter(1000)
        .find(|s| s.kind == ScenarioKind::CutIn && s.start.speed > 15.0)
        .ok_or("no cut-in among a thousand random scenarios")?;
    let controller = named("pid", || {
        Combined::new(
            LateralPid::new(LateralPidConfig::default()),
            Longitudinal::new(LongitudinalConfig::default()),
        )
    });
    let simulator = Simulator::new(RunOptions {
        record_interval_s: Some(0.1),
        ..RunOptions::default()
    })?;
    let mut report = simulator.run(std::slice::from_ref(&scenario), &controller);
    let result = report.results.remove(0);
    let trace = result.trace.ok_or("nothing was recorded")?;
    let options = PictureOptions::default();
    let png = replay_png(&scenario, &trace, 6.0, &options)?;
    let gif = replay_gif(&scenario, &trace, &options)?;
    write_atomically(&folder.join("moment.png"), &png)?;
    write_atomically(&folder.join("drive.gif"), &gif)?;
    let svg = replay_svg(&scenario, &trace);
    write_atomically(&folder.join("drive.svg"), svg.as_bytes())?;
    println!("{}: {:?}", scenario.name, result.outcome?.collision);
    println!(
        "moment.png, drive.gif and drive.svg in {}",
        folder.display()
    );
    Ok(())
}
