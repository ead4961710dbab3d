//! `sparkpilot sim merge`: the chunks that shards of `sim run` wrote, as the report of one run.

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use sparkpilot::shards::{Merge, Run};
use sparkpilot::sim::run::{DRIVES_FORMAT, RunReport, ScenarioResult, drives_from_bytes};

use super::run::tell;
use super::shards::{CONTROLLER, DEVICE, DRIVES, REPLICATES, WORK};

/// Put the shards of a run together
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    sparkpilot sim merge chunks\n  \
    sparkpilot sim merge from-spark-1 from-spark-2 --json drives.json\n\n\
    The report is that of one process, without its time and threads. What is missing, damaged, or of another run\n\
    is refused. The exit code is 1 if a drive failed, as that of `sim run`.")]
pub(crate) struct Arguments {
    /// Folders that shards wrote to
    #[arg(required = true, value_name = "DIR")]
    folders: Vec<PathBuf>,
    /// Write every drive's figures as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Merges, writes, prints.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    if let Some(path) = &arguments.json {
        spark_program::place::file(path)?;
    }
    let merge = Merge::of(&arguments.folders)?;
    let identity = &merge.run().identity;
    let line = |name| identity.value(name).unwrap_or("unknown");
    if line("work") != WORK || line(DRIVES) != DRIVES_FORMAT.to_string() {
        let (work, format) = (line("work"), line(DRIVES));
        return Err(format!(
            "the chunks are of `{work}`, format of drives {format}; `{WORK}`, format {DRIVES_FORMAT}, is merged"
        )
        .into());
    }
    let mut results = Vec::new();
    for payload in merge.payloads() {
        results.append(&mut drives_from_bytes(&payload?)?);
    }
    check(merge.run(), &results)?;
    let report = RunReport::of_drives(line(CONTROLLER), line(DEVICE), results);
    tell(&report, arguments.json.as_deref())
}

/// A whole chunk may still hold what its program should not have written.
fn check(run: &Run, results: &[ScenarioResult]) -> Result<(), Box<dyn Error>> {
    let replicates = run.identity.value(REPLICATES).and_then(|n| n.parse().ok());
    let replicates: usize = replicates.ok_or("the chunks do not say how many replicates")?;
    let number = |it: &ScenarioResult| {
        let before = it.index.checked_mul(replicates)?;
        before.checked_add(it.replicate)
    };
    let mut numbers = results.iter().enumerate();
    let is_in_order = numbers.all(|(place, it)| number(it) == Some(place));
    match is_in_order && results.len() as u64 == run.plan.n_items() {
        true => Ok(()),
        false => Err("the chunks hold other drives than they say".into()),
    }
}
