//! What is wrong with this machine for GPU work, and how to mend it.
//!
//! Run: `cargo run --example doctor`, with `-- --json` for programs; `-- --strict` ends
//! with 1 after a warning and 2 after an error; an unknown option ends with 64.

#![allow(clippy::print_stdout, reason = "an example shows what it found")]

use std::process::ExitCode;

use clap::Parser;
use spark_program::Manners;
use sparkpilot::hal::doctor::{Severity, examine};

/// Exit code for options that it does not know: 1 and 2 say what was found.
const WRONG_USAGE: u8 = 64;

/// Say what is wrong with this machine for GPU work, and how to mend it
#[derive(Parser)]
#[command(
    name = "doctor",
    after_help = "Examples:\n  \
        doctor\n  \
        doctor --json > findings.json\n  \
        doctor --strict > /dev/null || echo something is wrong"
)]
struct Arguments {
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
    /// End with 1 after a warning and with 2 after an error
    #[arg(long)]
    strict: bool,
}

fn main() -> ExitCode {
    let manners = Manners {
        wrong_usage: WRONG_USAGE,
        keeps_promise_of_cuda: false,
        ..Manners::default()
    };
    spark_program::run_with(manners, |arguments: Arguments| {
        let report = examine();
        if arguments.json {
            println!("{}", report.to_json());
        } else {
            print!("{}", report.to_text());
        }
        Ok(match report.worst() {
            Some(Severity::Warning) if arguments.strict => ExitCode::from(1),
            Some(Severity::Error) if arguments.strict => ExitCode::from(2),
            _ => ExitCode::SUCCESS,
        })
    })
}
