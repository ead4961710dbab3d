//! `sparkpilot sim`: scenarios driven, controllers compared.
//!
//! ```text
//! run, merge ──drives.json──> report, compare        search ──scenario.toml──> run, replay
//! ```

mod bench;
mod compare;
mod controllers;
mod list;
mod merge;
mod platform;
mod replay;
mod report;
mod run;
mod saved;
mod search;
mod shards;
mod suites;
mod words;

use std::error::Error;
use std::process::ExitCode;

use clap::Subcommand;

/// Drive scenarios in a closed loop and compare controllers
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    sparkpilot sim list\n  \
    sparkpilot sim run --suite alks-cut-in --controller pid\n  \
    sparkpilot sim compare --suite random --scenarios 10000 --baseline pid --candidate torque --folder out")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    List(list::Arguments),
    Run(run::Arguments),
    Merge(merge::Arguments),
    Compare(compare::Arguments),
    Replay(replay::Arguments),
    Search(search::Arguments),
    Report(report::Arguments),
    Bench(bench::Arguments),
}

/// Runs one of the commands; those that drive do so on the CPU, and refuse to where a GPU is asked for.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    let drives = !matches!(
        arguments.command,
        Command::List(_) | Command::Merge(_) | Command::Report(_)
    );
    if drives {
        spark_program::check_devices(spark_program::Devices::Cpu)?;
    }
    match &arguments.command {
        Command::List(arguments) => list::run(arguments),
        Command::Run(arguments) => run::run(arguments),
        Command::Merge(arguments) => merge::run(arguments),
        Command::Compare(arguments) => compare::run(arguments),
        Command::Replay(arguments) => replay::run(arguments),
        Command::Search(arguments) => search::run(arguments),
        Command::Report(arguments) => report::run(arguments),
        Command::Bench(arguments) => bench::run(arguments),
    }
}
