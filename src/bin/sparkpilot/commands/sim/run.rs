//! `sparkpilot sim run`: one controller in many scenarios.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use spark_program::output::Words;
use spark_program::shards::{refuse_name_of_chunk, this};
use spark_program::{Pulse, count, output, place, printable, tell as say};
use sparkpilot::hal::config::DeviceChoice;
use sparkpilot::shards::Asked;
use sparkpilot::sim::report::{run_json, run_markdown};
use sparkpilot::sim::run::{RunOptions, RunReport, Simulator};

use super::controllers::Controller;
use super::shards;
use super::suites::{Scenarios, check_replicates, words_of};

/// Drive scenarios with one controller
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    sparkpilot sim run --suite alks-cut-in --controller careful\n  \
    sparkpilot sim run --suite random --scenarios 10000 --controller pid --json drives.json\n  \
    sparkpilot sim run --file my-scenarios.toml --controller torque --replicates 8\n  \
    sparkpilot sim run --suite random --scenarios 10000 --controller pid --shard 1/2 --folder chunks\n  \
    mpirun -np 2 sparkpilot sim run --suite random --controller pid --shard auto --folder chunks\n\n\
    The exit code is 1 if a drive failed: its scenario could not be run, or its figures are not finite. With --shard\n\
    it is 0 once all chunks of the shard are written; `sim merge` prints the report, and says what failed.\n\
    --shard auto asks Open MPI, PMI, torchrun, Slurm (tasks, arrays) and Kubernetes (auto/N, N being the Job's completions).")]
pub(crate) struct Arguments {
    #[command(flatten)]
    scenarios: Scenarios,
    /// Who drives; `sim list` names them
    #[arg(long, value_enum, value_name = "CONTROLLER")]
    controller: Controller,
    /// Drives of each scenario, each with other noise; refused where no scenario has any
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = count(1, 10_000))]
    replicates: usize,
    /// Threads; as many as there are by default, and at most
    #[arg(long, value_name = "N", value_parser = count(1, 1024))]
    threads: Option<usize>,
    /// Write every drive's figures as JSON (schema spark-sim-run/1), here or with `-` to stdout
    #[arg(long, value_name = "FILE", conflicts_with = "shard")]
    json: Option<PathBuf>,
    /// Drive a part, from 1/N to N/N; auto: the one that the launcher says, or the launcher's name instead: open-mpi,
    /// pmi, torchrun, slurm, slurm-array, kubernetes. With /N behind it: auto/N, where the launcher does not say N
    #[arg(long, value_name = "K/N|auto", requires = "folder")]
    shard: Option<Asked>,
    /// Write the part's chunks here, and skip those that are there
    #[arg(long, value_name = "DIR", requires = "shard")]
    folder: Option<PathBuf>,
}

/// Drives, writes, prints.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    let read = arguments.scenarios.file().map(PathBuf::as_path);
    output::keep_apart(read, arguments.json.as_deref())?;
    if let Some(path) = &arguments.json {
        refuse_name_of_chunk(path)?;
        place::file(path)?;
    }
    let shard = arguments.shard.map(this).transpose()?;
    let scenarios = arguments.scenarios.load()?;
    check_replicates(&scenarios, arguments.replicates)?;
    let options = run_options(arguments.threads);
    let simulator = Simulator::new(options)?;
    say_threads(arguments.threads, &simulator);
    let factory = arguments.controller.factory();
    if let (Some(shard), Some(folder)) = (shard, &arguments.folder) {
        let whole = shards::Whole {
            scenarios: &scenarios,
            n_replicates: arguments.replicates,
            factory: &factory,
            options,
        };
        shards::drive(&whole, &simulator, shard, folder)?;
        return Ok(ExitCode::SUCCESS);
    }
    let n_drives = scenarios.len() * arguments.replicates;
    let bar = spark_program::progress(Some(n_drives as u64)).with_message("drives");
    let pulse = Pulse::of(&bar);
    let mut report =
        simulator.run_replicates_with_progress(&scenarios, arguments.replicates, &factory, |n| {
            bar.set_position(n as u64)
        });
    drop(pulse);
    bar.finish_and_clear();
    if arguments.json.is_some() {
        report.scenarios = Some(words_of(&scenarios)?);
    }
    tell(&report, arguments.json.as_deref())
}

/// Writes and prints a report; the exit code says whether a drive failed.
pub(super) fn tell(report: &RunReport, json: Option<&Path>) -> Result<ExitCode, Box<dyn Error>> {
    if let Some(path) = json {
        output::write(path, run_json(report)?)?;
    }
    Words::beside(json).say(&printable(&run_markdown(report)))?;
    let has_failed = report.results.iter().any(|it| it.outcome.is_err());
    Ok(ExitCode::from(u8::from(has_failed)))
}

/// Says that fewer threads drive than are asked for.
pub(super) fn say_threads(asked: Option<usize>, simulator: &Simulator) {
    let there = simulator.n_threads();
    if let Some(asked) = asked.filter(|asked| *asked > there) {
        say(format!(
            "warning: --threads {asked}: threads that drive: {there}, for no more run at a time here"
        ));
    }
}

/// On the CPU.
pub(super) fn run_options(threads: Option<usize>) -> RunOptions {
    let options = RunOptions::default()
        .with_device(DeviceChoice::Cpu)
        .with_chunk_size(512);
    match threads {
        Some(threads) => options.with_threads(threads),
        None => options,
    }
}
