//! Which machine is this, and how can one tell?
//!
//! Run: `cargo run --example detect`; with `-- --record` it writes down the machine's files
//! (no serial numbers, but paths of control groups) for a report or a test.

#![allow(clippy::print_stdout, reason = "an example shows what it found")]

#[path = "../src/bin/sparkpilot/commands/info/describe.rs"]
mod describe;

use std::process::ExitCode;

use clap::Parser;
use spark_program::Manners;
use sparkpilot::hal::{Root, machine};

use describe::describe;

/// Say which machine this is, by what evidence, and what it has for models
#[derive(Parser)]
#[command(
    name = "detect",
    after_help = "Examples:\n  \
        detect\n  \
        detect --record > machine.txt"
)]
struct Arguments {
    /// Write down the files that detection reads, for a report or a test; no serial numbers, but paths of control groups
    #[arg(long)]
    record: bool,
}

fn main() -> ExitCode {
    let manners = Manners {
        keeps_promise_of_cuda: false,
        ..Manners::default()
    };
    spark_program::run_with(manners, |arguments: Arguments| {
        if arguments.record {
            print!("{}", sparkpilot::hal::record(&Root::host()));
        } else {
            print!("{}", describe(&Root::host(), machine()));
        }
        Ok(())
    })
}
