//! What is wrong with this machine for GPU work, and how to mend it.
//!
//! Run: `cargo run --example doctor`, with `-- --json` for programs; `-- --strict` ends
//! with 1 after a warning and 2 after an error.

#![allow(clippy::print_stdout, reason = "an example shows what it found")]

use std::process::ExitCode;

use spark::hal::doctor::{Severity, examine};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let report = examine();
    if has("--json") {
        println!("{}", report.to_json());
    } else {
        print!("{}", report.to_text());
    }
    match report.worst() {
        Some(Severity::Warning) if has("--strict") => ExitCode::from(1),
        Some(Severity::Error) if has("--strict") => ExitCode::from(2),
        _ => ExitCode::SUCCESS,
    }
}
