//! `sparkpilot man`: the manual's pages, one for each command.

use std::error::Error;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Command;
use spark_program::output;

/// Print the manual page, or write those of all commands
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    sparkpilot man | man -l -\n  \
    sparkpilot man --folder ~/.local/share/man/man1")]
pub(crate) struct Arguments {
    /// Write sparkpilot.1 and sparkpilot-COMMAND.1 for every command here
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
}

/// Prints a page of this program, or writes all of them.
pub(crate) fn run(arguments: &Arguments, mut program: Command) -> Result<ExitCode, Box<dyn Error>> {
    program.build();
    let Some(folder) = &arguments.folder else {
        std::io::stdout().write_all(&page(program)?)?;
        return Ok(ExitCode::SUCCESS);
    };
    output::folder(folder)?;
    let mut all = Vec::new();
    collect(program, &mut all);
    for (name, command) in all {
        output::write(&folder.join(format!("{name}.1")), page(command)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A command and those below it, each with the name of its page, which building has given it: sparkpilot-sim-run.
fn collect(command: Command, all: &mut Vec<(String, Command)>) {
    // Pages say what there is; `help` says it again.
    let command = command.disable_help_subcommand(true);
    let name = command
        .get_display_name()
        .unwrap_or("sparkpilot")
        .to_owned();
    let below: Vec<Command> = command.get_subcommands().cloned().collect();
    all.push((name, command));
    for command in below.into_iter().filter(|it| it.get_name() != "help") {
        collect(command, all);
    }
}

fn page(command: Command) -> std::io::Result<Vec<u8>> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page)?;
    Ok(page)
}
