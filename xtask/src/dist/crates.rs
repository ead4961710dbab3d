//! Every crate that is published, packed as a registry takes it.
//!
//! Cargo packs those that need each other together. Deliberately absent: compiling what was packed, which
//! `cargo publish` does, and members with `publish = false`, which nothing published needs but in tests.

use crate::command::{self, cargo};
use crate::error::Error;
use crate::workspace::Workspace;

/// Packs them into `target/package`.
///
/// # Errors
///
/// A manifest or a file that cargo refuses.
pub(super) fn package(workspace: &Workspace) -> Result<(), Error> {
    let mut package = cargo(&["package", "--no-verify", "--locked", "--allow-dirty"]);
    let published = workspace
        .packages
        .iter()
        .filter(|package| package.is_published);
    let mut n_crates = 0;
    for name in published.map(|package| &package.name) {
        package.args(["--package", name]);
        n_crates += 1;
    }
    command::run(package.current_dir(&workspace.root))?;
    println!("{n_crates} crates are packed");
    Ok(())
}
