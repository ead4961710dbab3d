//! A part of `sim run`: drives by their numbers in the whole run, chunk by chunk into a folder.
//!
//! ```text
//! drive d = replicate d mod R of scenario d / R      chunk = 64 drives      shard = every Nth chunk
//! chunks that the folder lacks ──eight at a time──> simulator ──> one file each
//! ```
//!
//! A drive's noise hangs on its scenario's seed and its replicate, so on its number in the whole run; what process
//! drove it, and beside which others, changes nothing.
//!
//! The exit code is 0 as soon as all chunks of the shard are there, also where drives failed: launchers end all
//! processes of a job if one ends otherwise. `sim merge` says what failed.

use std::error::Error;
use std::fmt::Debug;
use std::path::Path;

use spark_program::shards::{Part, identity};
use sparkpilot::shards::{Fingerprint, Plan, Run, Shard};
use sparkpilot::sim::control::AlgorithmFactory;
use sparkpilot::sim::run::{DRIVES_FORMAT, RunOptions, Simulator, drives_to_bytes};
use sparkpilot::sim::scenario::Scenario;

use super::platform::hash_of_functions;
use super::suites::words_of;

/// Drives of a chunk, whatever the number of processes: a block of the simulator.
const N_DRIVES_PER_CHUNK: usize = 64;
/// Chunks that are driven together, so that threads have blocks to share.
const N_CHUNKS_AT_ONCE: usize = 8;

/// What `sim merge` reads, and what it reads of it.
pub(super) const WORK: &str = "sparkpilot sim run";
pub(super) const CONTROLLER: &str = "controller";
pub(super) const REPLICATES: &str = "replicates";
pub(super) const DEVICE: &str = "device";
pub(super) const SCENARIOS: &str = "scenarios";
pub(super) const DRIVES: &str = "format of drives";

/// What every shard of a run is told alike.
pub(super) struct Whole<'a> {
    pub(super) scenarios: &'a [Scenario],
    pub(super) n_replicates: usize,
    pub(super) factory: &'a dyn AlgorithmFactory,
    pub(super) options: RunOptions,
}

/// Drives what the shard still lacks, and says what it did.
pub(super) fn drive(
    whole: &Whole<'_>,
    simulator: &Simulator,
    shard: Shard,
    folder: &Path,
) -> Result<(), Box<dyn Error>> {
    let run = run_of(whole, simulator)?;
    let part = Part::open(folder, &run, shard, run.plan.chunks_of(shard))?;
    let bar = spark_program::progress(Some(part.n_items(part.left()))).with_message("drives");
    let pulse = spark_program::Pulse::of(&bar);
    for some in part.left().chunks(N_CHUNKS_AT_ONCE) {
        let drives = some.iter().flat_map(|&chunk| run.plan.items(chunk));
        let (all, replicates) = (whole.scenarios, whole.n_replicates);
        let numbers = drives.map(|drive| drive as usize);
        let report = simulator.run_drives(all, replicates, numbers, whole.factory, |_| {});
        let mut results = &report.results[..];
        for &chunk in some {
            let (own, others) = results.split_at(part.n_items(&[chunk]) as usize);
            results = others;
            part.write(chunk, &drives_to_bytes(own))?;
        }
        bar.inc(part.n_items(some));
    }
    drop(pulse);
    bar.finish_and_clear();
    println!("{}", part.finish("driven", "drives")?);
    Ok(())
}

/// Which run it is: all that a drive's figures hang on.
fn run_of(whole: &Whole<'_>, simulator: &Simulator) -> Result<Run, Box<dyn Error>> {
    // Their number changes no drive.
    let mut options = whole.options;
    options.threads = None;
    let identity = identity(WORK, (DRIVES, DRIVES_FORMAT), env!("CARGO_PKG_VERSION"))?
        .with(DEVICE, simulator.device())
        .with("elementary functions", hash_of_functions())
        .with(CONTROLLER, whole.factory.name())
        .with("options", hash_of(&options))
        .with(REPLICATES, whole.n_replicates.to_string())
        .with(SCENARIOS, words_of(whole.scenarios)?);
    let n_drives = whole.scenarios.len() as u64 * whole.n_replicates as u64;
    Ok(Run {
        identity,
        plan: Plan::new(n_drives, N_DRIVES_PER_CHUNK as u64)?,
    })
}

fn hash_of(value: &impl Debug) -> String {
    let mut hash = Fingerprint::new();
    hash.add(format!("{value:?}"));
    hash.hex()
}
