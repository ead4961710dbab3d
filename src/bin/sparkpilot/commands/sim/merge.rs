//! `sparkpilot sim merge`: the chunks that shards of `sim run` wrote, as the report of one run.

use std::error::Error;
use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;

use spark_program::shards::refuse_name_of_chunk;
use spark_program::{about, output, place};
use sparkpilot::shards::Merge;
use sparkpilot::sim::run::{DRIVES_FORMAT, RunReport, ScenarioResult, drives_from_bytes};

use super::run::tell;
use super::shards::{CONTROLLER, DEVICE, DRIVES, REPLICATES, SCENARIOS, WORK};

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
    /// Write every drive's figures as JSON (schema spark-sim-run/1), here or with `-` to stdout
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Merges, writes, prints.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    if let Some(path) = &arguments.json {
        refuse_name_of_chunk(path)?;
        place::file(path)?;
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
    let replicates = identity.value(REPLICATES).and_then(|n| n.parse().ok());
    let replicates: usize = replicates.ok_or("the chunks do not say how many replicates")?;
    for path in merge.paths() {
        output::keep_apart([path], arguments.json.as_deref())?;
    }
    let mut results = Vec::new();
    for (chunk, (path, payload)) in (0..).zip(merge.paths().zip(merge.payloads())) {
        let mut drives = drives_from_bytes(&payload?).map_err(about(path))?;
        let numbers = merge.run().plan.items(chunk);
        check(&drives, replicates, numbers).map_err(about(path))?;
        results.append(&mut drives);
    }
    let report = RunReport {
        scenarios: identity.value(SCENARIOS).map(str::to_owned),
        ..RunReport::of_drives(line(CONTROLLER), line(DEVICE), results)
    };
    tell(&report, arguments.json.as_deref())
}

/// A whole chunk may still hold what its program should not have written.
fn check(
    drives: &[ScenarioResult],
    replicates: usize,
    numbers: Range<u64>,
) -> Result<(), &'static str> {
    let number = |it: &ScenarioResult| {
        let before = it.index.checked_mul(replicates)?;
        before.checked_add(it.replicate).map(|number| number as u64)
    };
    match drives.iter().map(number).eq(numbers.map(Some)) {
        true => Ok(()),
        false => Err("the chunk holds other drives than it says"),
    }
}
