//! mdBook, from crates.io into a folder of the build on first use.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{self, cargo};
use crate::error::Error;

const VERSION: &str = "0.5.4";

/// The program, installed under `tools` if it is not there.
pub(super) fn get(tools: &Path) -> Result<PathBuf, Error> {
    let root = tools.join(format!("mdbook-{VERSION}"));
    let program = root.join("bin/mdbook");
    if program.is_file() {
        return Ok(program);
    }
    let built = tools.join("built");
    let mut install = cargo(&["install", "mdbook", "--locked", "--quiet", "--version"]);
    install.arg(format!("={VERSION}"));
    install.args(["--no-default-features", "--features", "search"]);
    // Without optimisation: compiling takes longer than pages.
    install.arg("--debug");
    install
        .arg("--root")
        .arg(&root)
        .arg("--target-dir")
        .arg(&built);
    command::run(&mut install)?;
    fs::remove_dir_all(&built).map_err(Error::io("remove", &built))?;
    Ok(program)
}

/// Makes a book of `source`, which holds book.toml, in `html`; returns what mdBook warns of.
pub(super) fn build(program: &Path, source: &Path, html: &Path) -> Result<Vec<String>, Error> {
    let mut build = Command::new(program);
    build.arg("build").arg(source).arg("--dest-dir").arg(html);
    build.env("MDBOOK_LOG", "warn");
    let output = build.output().map_err(|source| Error::Start {
        command: command::shown(&build),
        source,
    })?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        println!("{said}");
        return Err(Error::Command {
            command: command::shown(&build),
            code: output.status.code(),
        });
    }
    Ok(said.lines().map(str::to_owned).collect())
}
