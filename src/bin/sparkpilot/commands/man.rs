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
    // Building has given them the names of their pages: sparkpilot-info and its like.
    let commands = program
        .get_subcommands()
        .filter(|it| it.get_name() != "help");
    let name = |command: &Command| {
        command
            .get_display_name()
            .unwrap_or("sparkpilot")
            .to_owned()
    };
    let commands = commands.map(|it| (name(it), it.clone()));
    let all = std::iter::once(("sparkpilot".to_owned(), program.clone())).chain(commands);
    for (name, command) in all {
        output::write(&folder.join(format!("{name}.1")), page(command)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn page(command: Command) -> std::io::Result<Vec<u8>> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page)?;
    Ok(page)
}
