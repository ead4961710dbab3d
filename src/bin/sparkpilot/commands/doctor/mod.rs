//! `sparkpilot doctor`: what is wrong with this machine for GPU work, and how to mend it.
//!
//! ```text
//! facts ──> spark_hal::doctor ──> findings: text, --json, --report (report)
//!                                     └──> --hardware (hardware): what of the checklist is done
//! ```

mod hardware;
mod report;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use spark_program::{Usage, output, place};
use sparkpilot::hal::doctor::{Check, Facts, Severity, checks, examine_facts};

use crate::recorded_machine::RecordedMachine;
use crate::tables;

/// Say what is wrong with this machine for GPU work, and how to mend it
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    sparkpilot doctor\n  \
    sparkpilot doctor --json > findings.json\n  \
    sparkpilot doctor --strict > /dev/null || echo something is wrong\n  \
    sparkpilot doctor --from machine.txt\n  \
    sparkpilot doctor --report --output report.md\n  \
    sparkpilot doctor --hardware\n  \
    sparkpilot doctor --explain gpu.usable")]
pub(crate) struct Arguments {
    /// Print the findings as JSON (schema spark-doctor/2), of --hardware the checklist (schema sparkpilot-hardware/1)
    #[arg(long)]
    json: bool,
    /// End with 1 after a warning or an error
    #[arg(long)]
    strict: bool,
    /// Print a report to paste into an issue or a forum (Markdown); names, addresses and serial numbers that the program knows are taken out: read it all the same
    #[arg(long, conflicts_with = "json")]
    report: bool,
    /// Write the report here instead
    #[arg(long, value_name = "FILE", requires = "report")]
    output: Option<PathBuf>,
    /// Go through the checklist of a new machine: what is done, what has failed, what a person has to do; end with 1 if something has failed
    #[arg(long, conflicts_with_all = ["report", "strict"])]
    hardware: bool,
    /// Examine a machine that somebody has recorded with `info --record`; what a record does not hold is not examined
    #[arg(long, value_name = "RECORD")]
    from: Option<PathBuf>,
    /// Say what a check looks for and where its trap is described, or with `all` what checks there are
    #[arg(long, value_name = "ID", conflicts_with_all = ["json", "strict", "from", "report", "hardware"])]
    explain: Option<String>,
}

/// Examines the machine and prints the findings.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    if let Some(id) = &arguments.explain {
        print!("{}", explain(id, &checks())?);
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(path) = &arguments.output {
        place::file(path)?;
    }
    let recorded = RecordedMachine::read_if(arguments.from.as_deref())?;
    let facts = match &recorded {
        None => Facts::gather(),
        Some(recorded) => Facts::of(recorded.root.clone(), recorded.machine.clone()),
    };
    let examined = examine_facts(facts.clone());
    if arguments.hardware {
        let items = hardware::checklist(&facts, &examined);
        match arguments.json {
            true => println!("{:#}", hardware::to_json(&facts, &items)),
            false => print!("{}", hardware::to_text(&facts, &items)),
        }
        let has_failed = items.iter().any(hardware::Item::has_failed);
        return Ok(ExitCode::from(u8::from(has_failed)));
    }
    if arguments.report {
        let report = report::to_markdown(&facts, &examined);
        match &arguments.output {
            Some(path) => output::write(path, report)?,
            None => print!("{report}"),
        }
    } else if arguments.json {
        println!("{}", examined.to_json());
    } else {
        print!("{}", examined.to_text());
    }
    let is_wrong = matches!(examined.worst(), Some(Severity::Warning | Severity::Error));
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
