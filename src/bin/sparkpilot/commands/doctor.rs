//! `sparkpilot doctor`: what is wrong with this machine for GPU work, and how to mend it.

use std::error::Error;
use std::process::ExitCode;

use sparkpilot::hal::doctor::{Severity, examine};

/// Say what is wrong with this machine for GPU work, and how to mend it
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    sparkpilot doctor\n  \
    sparkpilot doctor --json > findings.json\n  \
    sparkpilot doctor --strict > /dev/null || echo something is wrong")]
pub(crate) struct Arguments {
    /// Print the findings as JSON (schema spark-doctor/2)
    #[arg(long)]
    json: bool,
    /// End with 1 after a warning or an error
    #[arg(long)]
    strict: bool,
}

/// Examines the machine and prints the findings.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    let report = examine();
    if arguments.json {
        println!("{}", report.to_json());
    } else {
        print!("{}", report.to_text());
    }
    let is_wrong = matches!(report.worst(), Some(Severity::Warning | Severity::Error));
    Ok(ExitCode::from(u8::from(arguments.strict && is_wrong)))
}
