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

/// Where [`optimised`] programs lie, below the folder for what is built: the one of `cargo test`.
pub(crate) const OPTIMISED: &str = "debug";

/// Adds what builds with every feature, and members that compute as users have them: optimised, without assertions and checks
/// of overflow. All else is built as `cargo test` does it, and mostly is built already: dependencies, and members that compute little.
pub(crate) fn optimised<'command>(
    command: &'command mut Command,
    workspace: &Workspace,
) -> &'command mut Command {
    command.args(["--profile", "test", "--all-features"]);
    for name in COMPUTING {
        for setting in [
            "opt-level=3",
            "debug-assertions=false",
            "overflow-checks=false",
        ] {
            let setting = format!("profile.test.package.{name}.{setting}");
            command.arg("--config").arg(setting);
        }
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
