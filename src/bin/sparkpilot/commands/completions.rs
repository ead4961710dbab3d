//! `sparkpilot completions`: what a shell needs to complete command lines.

use std::error::Error;
use std::io::Write as _;
use std::process::ExitCode;

use clap::Command;
use clap_complete::Shell;

/// Print the completions of a shell
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    sparkpilot completions bash > ~/.local/share/bash-completion/completions/sparkpilot\n  \
    sparkpilot completions fish > ~/.config/fish/completions/sparkpilot.fish")]
pub(crate) struct Arguments {
    /// Which shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the script for this program.
pub(crate) fn run(arguments: &Arguments, mut program: Command) -> Result<ExitCode, Box<dyn Error>> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut program, "sparkpilot", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}
