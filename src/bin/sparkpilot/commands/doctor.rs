//! `sparkpilot doctor`: what is wrong with this machine for GPU work, and how to mend it.

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use spark_program::Usage;
use sparkpilot::hal::doctor::{Check, Facts, Severity, checks, examine, examine_facts};

use crate::recorded_machine::RecordedMachine;
use crate::tables;

/// Say what is wrong with this machine for GPU work, and how to mend it
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    sparkpilot doctor\n  \
    sparkpilot doctor --json > findings.json\n  \
    sparkpilot doctor --strict > /dev/null || echo something is wrong\n  \
    sparkpilot doctor --from machine.txt\n  \
    sparkpilot doctor --explain gpu.usable")]
pub(crate) struct Arguments {
    /// Print the findings as JSON (schema spark-doctor/2)
    #[arg(long)]
    json: bool,
    /// End with 1 after a warning or an error
    #[arg(long)]
    strict: bool,
    /// Examine a machine that somebody has recorded with `info --record`; what a record does not hold is not examined
    #[arg(long, value_name = "RECORD")]
    from: Option<PathBuf>,
    /// Say what a check looks for and where its trap is described, or with `all` what checks there are
    #[arg(long, value_name = "ID", conflicts_with_all = ["json", "strict", "from"])]
    explain: Option<String>,
}

/// Examines the machine and prints the findings.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    if let Some(id) = &arguments.explain {
        print!("{}", explain(id, &checks())?);
        return Ok(ExitCode::SUCCESS);
    }
    let recorded = RecordedMachine::read_if(arguments.from.as_deref())?;
    let report = match recorded {
        None => examine(),
        Some(recorded) => examine_facts(Facts::of(recorded.root.clone(), recorded.machine.clone())),
    };
    if arguments.json {
        println!("{}", report.to_json());
    } else {
        print!("{}", report.to_text());
    }
    let is_wrong = matches!(report.worst(), Some(Severity::Warning | Severity::Error));
    Ok(ExitCode::from(u8::from(arguments.strict && is_wrong)))
}

/// A check's title and source; of all of them a table.
pub(crate) fn explain(id: &str, all: &[&Check]) -> Result<String, Usage> {
    if id == "all" {
        let mut rows = vec![["check", "looks for"].map(str::to_owned)];
        rows.extend(
            all.iter()
                .map(|check| [check.id, check.title].map(str::to_owned)),
        );
        return Ok(tables::columns(&rows));
    }
    let found = all.iter().find(|check| check.id == id);
    let check =
        found.ok_or_else(|| Usage(format!("no check `{id}`; `--explain all` lists them")))?;
    Ok(format!(
        "{}: {}\n  described in {}\n",
        check.id, check.title, check.source
    ))
}
