//! `cargo xtask build` and `cargo xtask test`: cargo with the workspace's usual flags.

use crate::command::{cargo, run, run_tests};
use crate::error::Error;
use crate::workspace::Workspace;

/// Everything, optimised as users build it, with every feature. Crates of others are optimised less: they take half of
/// the time, and what they do is not what is tested.
pub(crate) const RELEASE: [&str; 5] = [
    "--release",
    "--workspace",
    "--all-features",
    "--config",
    "profile.release.package.\"*\".opt-level=1",
];

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
