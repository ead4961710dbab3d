//! A cut-in from above: one drive recorded, drawn as PNG, animated GIF and SVG.
//!
//! Run: `cargo run --release --features pictures --example replay_scenario -- [OUT_FOLDER]`

#![allow(clippy::print_stdout, reason = "an example's output is its product")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use spark_program::output;
use sparkpilot::sim::control::{
    Combined, LateralPid, LateralPidConfig, Longitudinal, LongitudinalConfig, named,
};
use sparkpilot::sim::report::{PictureOptions, replay_gif, replay_png, replay_svg};
use sparkpilot::sim::run::{RunOptions, Simulator};
use sparkpilot::sim::scenario::{Fuzzer, ScenarioKind};

/// Drive a cut-in and draw it as PNG, animated GIF and SVG
#[derive(Parser)]
#[command(
    name = "replay_scenario",
    after_help = "Examples:\n  \
        replay_scenario\n  \
        replay_scenario pictures"
)]
struct Arguments {
    /// Folder for moment.png, drive.gif and drive.svg
    #[arg(default_value = "target/replay", value_name = "OUT_FOLDER")]
    folder: PathBuf,
}

fn main() -> ExitCode {
    spark_program::run(|arguments: Arguments| replay(&arguments.folder))
}

fn replay(folder: &Path) -> Result<(), Box<dyn std::error::Error>> {
    output::folder(folder)?;
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
    let simulator = Simulator::new(RunOptions::default().with_record_interval_s(0.1))?;
    let mut report = simulator.run(std::slice::from_ref(&scenario), &controller);
    let result = report.results.remove(0);
    let trace = result.trace.ok_or("nothing was recorded")?;
    let options = PictureOptions::default();
    let png = replay_png(&scenario, &trace, 6.0, &options)?;
    let gif = replay_gif(&scenario, &trace, &options)?;
    output::write(&folder.join("moment.png"), &png)?;
    output::write(&folder.join("drive.gif"), &gif)?;
    output::write(&folder.join("drive.svg"), replay_svg(&scenario, &trace))?;
    println!("{}: {:?}", scenario.name, result.outcome?.collision);
    println!(
        "moment.png, drive.gif and drive.svg in {}",
        folder.display()
    );
    Ok(())
}
