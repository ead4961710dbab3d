//! What is wrong with this machine for GPU work, and how to mend it.
//!
//! Run: `cargo run --example doctor`, with `-- --json` for programs; `-- --strict` ends
//! with 1 after a warning and 2 after an error; an unknown option ends with 64.

#![allow(clippy::print_stdout, reason = "an example shows what it found")]

use std::process::ExitCode;

use spark::hal::doctor::{Severity, examine};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let is_known = |argument: &&String| ["--json", "--strict"].contains(&argument.as_str());
    if let Some(unknown) = arguments.iter().find(|argument| !is_known(argument)) {
        eprintln!("`{unknown}` is neither --json nor --strict");
        return ExitCode::from(64);
    }
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
