//! `sparkpilot info`: which machine this is, by what evidence, and what it has for models.

mod describe;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;
use spark_program::{output, place};
use sparkpilot::hal::{Root, machine};

use crate::recorded_machine::RecordedMachine;
use describe::describe;

/// Say which machine this is, by what evidence, and what it has for models
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    sparkpilot info\n  \
    sparkpilot info --json > machine.json\n  \
    sparkpilot info --record machine.txt\n  \
    sparkpilot info --from machine.txt")]
pub(crate) struct Arguments {
    /// Print everything that is known of it as JSON (schema sparkpilot-info/1)
    #[arg(long)]
    json: bool,
    /// Say it of a machine that somebody has recorded; what drivers say is in no record
    #[arg(long, value_name = "RECORD", conflicts_with = "record")]
    from: Option<PathBuf>,
    /// Write down the files that detection reads, for a report or a test, here or with `-` to stdout; no serial numbers,
    /// but paths of control groups
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    record: Option<PathBuf>,
}

/// Prints what the machine is, or writes down what it is known by.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    if let Some(path) = &arguments.record {
        let to_stdout = path.as_os_str() == "-";
        if !to_stdout {
            place::file(path)?;
        }
        let record = sparkpilot::hal::record(&Root::host());
        match to_stdout {
            true => print!("{record}"),
            false => output::write(path, record)?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    let recorded = RecordedMachine::read_if(arguments.from.as_deref())?;
    let (root, machine) = match &recorded {
        Some(recorded) => (&recorded.root, &recorded.machine),
        None => (&Root::host(), machine()),
    };
    if arguments.json {
        let told = json!({ "schema": "sparkpilot-info/1", "machine": machine });
        println!("{told:#}");
    } else {
        print!("{}", describe(root, machine));
    }
    Ok(ExitCode::SUCCESS)
}
