//! `sparkpilot doctor`: what is wrong with this machine for GPU work, and how to mend it.
//!
//! ```text
//! facts ──> spark_hal::doctor ──> findings: text, --json, --report (report)
//!                                     └──> --hardware (hardware): what of the checklist is done
//! ```

mod hardware;
mod load;
mod report;
mod verify;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use spark_program::{Usage, output, place};
use sparkpilot::hal::doctor::{Check, Facts, Report, Severity, checks, examine_facts};

use crate::exit_code;
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
    sparkpilot doctor --load 10s\n  \
    sparkpilot doctor --verify\n  \
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
    /// Write what is asked for here instead, or with `-` to stdout
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Go through the checklist of a new machine: what is done, what has failed, what a person has to do; end with 1 if something has failed
    #[arg(long, conflicts_with_all = ["report", "strict"])]
    hardware: bool,
    /// Examine a machine that somebody has recorded with `info --record`, from a file or with `-` from stdin; what a record does not hold is not examined
    #[arg(long, value_name = "RECORD")]
    from: Option<PathBuf>,
    /// Work on GPU and processors for this long (10s, 2m; 10s if none is said) and judge clock, power and rates meanwhile; ends with 4 where no GPU can be loaded
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "10s", value_parser = load::duration, conflicts_with = "from")]
    load: Option<Duration>,
    /// Try the device that the settings choose, and nothing else: a kernel, copies, a small network, each against results that are known (JSON: schema spark-verify/1)
    #[arg(long, conflicts_with_all = ["strict", "from", "load", "report", "hardware"])]
    verify: bool,
    /// Say what a check looks for and where its trap is described, or with `all` what checks there are
    #[arg(long, value_name = "ID", conflicts_with_all = ["json", "strict", "from", "report", "hardware", "load", "verify", "output"])]
    explain: Option<String>,
}

/// Examines the machine and prints the findings.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    if let Some(id) = &arguments.explain {
        print!("{}", explain(id, &checks())?);
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(path) = &arguments.output {
        output::keep_apart(file(&arguments.from), file(&arguments.output))?;
        place::file(path)?;
    }
    if arguments.verify {
        return verify::run(arguments.json, arguments.place());
    }
    let recorded = RecordedMachine::read_if(arguments.from.as_deref())?;
    let loaded = arguments.load.map(load::run);
    let mut facts = match &recorded {
        None => Facts::gather(),
        Some(recorded) => Facts::of(recorded.root.clone(), recorded.machine.clone()),
    };
    facts.load = loaded.as_ref().map(|loaded| loaded.load.clone());
    let examined = examine_facts(facts.clone());
    let (text, is_wrong) = match arguments.hardware {
        true => checklist(arguments.json, &facts, &examined),
        false => {
            let worst = examined.worst();
            let is_wrong = matches!(worst, Some(Severity::Warning | Severity::Error));
            let text = findings(arguments, &facts, &examined);
            (text, arguments.strict && is_wrong)
        }
    };
    output::write(arguments.place(), text)?;
    let signal = loaded.as_ref().and_then(|loaded| loaded.signal);
    let is_refused = loaded.is_some_and(|loaded| loaded.load.gpu.is_err());
    Ok(ExitCode::from(match signal {
        Some(code) => code,
        None if is_wrong => exit_code::NO,
        None if is_refused => exit_code::REFUSED,
        None => 0,
    }))
}

impl Arguments {
    /// Where the answer goes.
    fn place(&self) -> &Path {
        self.output.as_deref().unwrap_or(Path::new("-"))
    }
}

/// A path that is a file's, and not stdin or stdout.
fn file(path: &Option<PathBuf>) -> Option<&Path> {
    path.as_deref().filter(|path| !output::is_stdout(path))
}

/// The checklist, as text or JSON, and whether an item has failed.
fn checklist(is_json: bool, facts: &Facts, examined: &Report) -> (String, bool) {
    let items = hardware::checklist(facts, examined);
    let text = match is_json {
        true => format!("{:#}\n", hardware::to_json(facts, &items)),
        false => hardware::to_text(facts, &items),
    };
    (text, items.iter().any(hardware::Item::has_failed))
}

/// The findings: to publish, as JSON or as text.
fn findings(arguments: &Arguments, facts: &Facts, examined: &Report) -> String {
    if arguments.report {
        report::to_markdown(facts, examined)
    } else if arguments.json {
        examined.to_json() + "\n"
    } else {
        examined.to_text()
    }
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
