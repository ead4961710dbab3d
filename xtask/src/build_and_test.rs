//! `cargo xtask build` and `cargo xtask test`: cargo with the workspace's usual flags.

use std::process::Command;

use crate::command::{cargo, run, run_tests};
use crate::error::Error;
use crate::workspace::Workspace;

/// Members that compute, or that tests wait for: optimised as users build them.
pub(crate) const COMPUTING: [&str; 11] = [
    "spark-dora",
    "spark-gemm",
    "spark-mem",
    "spark-onnx",
    "spark-onnx-graph",
    "spark-openpilot",
    "spark-parallel",
    "spark-ptx",
    "spark-quant",
    "spark-sim",
    "spark-simd",
];

/// Adds what builds the members in the release profile, with every feature: without assertions and checks of overflow, and
/// those that compute optimised as users build them, but for what the compiler does over the units of a crate once more. All
/// others are optimised less: they take half of the time, and what optimisation makes of them is not what is tested.
pub(crate) fn release<'command>(
    command: &'command mut Command,
    workspace: &Workspace,
) -> &'command mut Command {
    command.args(["--release", "--all-features"]);
    command.args(["--config", "profile.release.opt-level=1"]);
    command.args(["--config", "profile.release.lto=\"off\""]);
    for name in COMPUTING {
        let level = format!("profile.release.package.{name}.opt-level=3");
        command.arg("--config").arg(level);
    }
    command.current_dir(&workspace.root)
}

/// Generic functions that optimised crates take from dependencies that are not would be slow, and under a sanitiser
/// unwatched. Needs `RUSTC_BOOTSTRAP`.
pub(crate) const OWN_GENERICS: &str = "-Zshare-generics=no";

/// Builds these members without optimisation in the test profile: where that takes less time than tests lose.
pub(crate) fn unoptimised(test: &mut Command, members: &[&str]) {
    for name in members {
        let level = format!("profile.test.package.{name}.opt-level=0");
        test.arg("--config").arg(level);
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    /// A name that no member has would leave a crate that computes unoptimised, without a word.
    #[test]
    fn every_crate_that_computes_is_a_member() {
        let workspace = Workspace::load().expect("this workspace");
        for name in COMPUTING {
            let is_member = workspace
                .packages
                .iter()
                .any(|package| package.name == name);
            assert!(is_member, "{name}");
        }
    }
}
