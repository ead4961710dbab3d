//! `cargo xtask build` and `cargo xtask test`: cargo with the workspace's usual flags.

use std::process::Command;

use crate::command::{cargo, run, run_tests};
use crate::error::Error;
use crate::workspace::Workspace;

/// Adds what builds the members optimised as users build them, with every feature. Crates of others are optimised less,
/// and what only runs in the compiler not at all: they take half of the time, and what they do is not what is tested.
pub(crate) fn release<'command>(
    command: &'command mut Command,
    workspace: &Workspace,
) -> &'command mut Command {
    command.args(["--release", "--all-features"]);
    command.args(["--config", "profile.release.opt-level=1"]);
    for package in &workspace.packages {
        let level = format!("profile.release.package.{}.opt-level=3", package.name);
        command.arg("--config").arg(level);
    }
    command.current_dir(&workspace.root)
}

/// Generic functions that optimised crates take from dependencies that are not would be slow, and under a sanitiser
/// unwatched. Needs `RUSTC_BOOTSTRAP`.
pub(crate) const OWN_GENERICS: &str = "-Zshare-generics=no";

/// `cargo build` of everything.
pub(crate) fn build(workspace: &Workspace, release: bool) -> Result<(), Error> {
    let mut build = cargo(&["build", "--workspace", "--all-targets"]);
    if release {
        build.arg("--release");
    }
    run(build.current_dir(&workspace.root))
}

/// `cargo test` with arguments handed on, and the sum of what it ran.
pub(crate) fn test(workspace: &Workspace, args: &[String]) -> Result<(), Error> {
    let mut test = cargo(&["test"]);
    let counts = run_tests(test.args(args).current_dir(&workspace.root))?;
    println!("{counts}");
    Ok(())
}
