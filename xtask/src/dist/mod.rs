//! `cargo xtask dist`: what a release consists of, into `target/dist`.
//!
//! ```text
//! dependencies   licences, sources and duplicates of every crate that is locked, by deny.toml
//! toolchain      one program for each target, linked to glibc 2.28 by cargo-zigbuild
//! program        what it asks of a machine, held against what is promised
//! licences       whose work it holds
//! release, stage ─┬─> tarball   sparkpilot-<version>-<triple>.tar.gz
//!                 └─> deb       sparkpilot_<version>_<architecture>.deb
//! checksums      SHA256SUMS
//! smoke          with --check: what was packed is run, foreign programs under qemu, packages in a clean Debian
//! crates         with --check: cargo packs every crate that is published
//! ```
//!
//! With `--quick` nothing is built: what `cargo build --release` left is packed, twice, and must have the same bytes; so
//! `cargo xtask ci` sees each part in seconds, of the program that its tests were run with. That program is linked to this machine's C library, and is no release.
//!
//! Deliberately absent: signatures, uploads, and packages of other distributions.

mod checksums;
mod crates;
mod deb;
mod dependencies;
mod licences;
mod pages;
mod program;
mod release;
mod smoke;
mod stage;
mod tarball;
mod targets;
mod toolchain;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::build_and_test;
use crate::command;
use crate::error::{Error, LeftOut};
use crate::workspace::Workspace;

use deb::Effort;
use release::{Release, empty};
use targets::{TARGETS, Target};

/// The program, where it was built.
const PROGRAM: &str = "sparkpilot";

/// What is asked of `cargo xtask dist`.
#[derive(Debug, Default)]
pub(crate) struct Options {
    /// Triples; none for all.
    pub(crate) targets: Vec<String>,
    /// Whether what was packed is also run.
    pub(crate) is_checked: bool,
}

/// Builds and packs a release, and tries it where that is asked for.
///
/// # Errors
///
/// [`Error::Usage`] for an unknown target and for what is not installed, [`Error::Promise`] for a program that asks for too
/// much, [`Error::Dependencies`]; what builds and tools refuse. With `CI` set, a check that this machine cannot run.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<(), Error> {
    let targets = chosen(&options.targets)?;
    dependencies::check(workspace)?;
    dependencies::advisories(workspace)?;
    let host = command::host_triple()?;
    let folder = workspace.target.join("dist");
    let release = folder.join("release");
    empty(&release)?;
    let mut programs = Vec::new();
    for target in targets {
        let program = toolchain::build(workspace, target)?;
        program::check(&program, target, &toolchain::folders(workspace)?)?;
        programs.push((target, program));
    }
    let pages = pages::of_first_that_runs(&programs, &host)?;
    let parts = folder.join("parts");
    empty(&parts)?;
    let release = Release {
        workspace,
        parts,
        folder: release,
        effort: Effort::Release,
    };
    let mut packed = Vec::new();
    for (target, program) in programs {
        packed.push(release.pack(target, program, &pages)?);
    }
    release.sum_up(&packed)?;
    if !options.is_checked {
        return Ok(());
    }
    crates::package(workspace)?;
    let mut left_out = LeftOut::new();
    for package in &packed {
        left_out.extend(smoke::check(package, &folder.join("smoke"), &host)?);
    }
    said(left_out)
}

/// What was left out is said, and is an error where nobody reads that.
fn said(left_out: LeftOut) -> Result<(), Error> {
    for what in &left_out {
        println!("left out: {what}");
    }
    let is_automatic = command::is_set("CI");
    match is_automatic && !left_out.is_empty() {
        true => Err(Error::LeftOut(left_out)),
        false => Ok(()),
    }
}

/// [`quick`] of the program that the optimised tests were run with, or what this machine lacks for it.
///
/// # Errors
///
/// As [`quick`].
pub(crate) fn quick_if_possible(workspace: &Workspace) -> Result<LeftOut, Error> {
    if Command::new("dpkg-deb").arg("--version").output().is_err() {
        return Ok(vec![
            "packages: no dpkg-deb (apt-get install dpkg)".to_owned(),
        ]);
    }
    let program = workspace
        .target
        .join(build_and_test::OPTIMISED)
        .join(PROGRAM);
    pack_twice(workspace, program, false).map(|()| LeftOut::new())
}

/// Every part of [`run`] but the build, on the program that `cargo build --release` left; what takes minutes only where that is
/// asked for.
///
/// # Errors
///
/// As [`run`]; [`Error::Promise`] also if two packings differ.
pub(crate) fn quick(workspace: &Workspace, is_checked: bool) -> Result<(), Error> {
    let program = workspace.target.join("release").join(PROGRAM);
    pack_twice(workspace, program, is_checked)
}

fn pack_twice(workspace: &Workspace, program: PathBuf, is_checked: bool) -> Result<(), Error> {
    dependencies::check(workspace)?;
    let host = command::host_triple()?;
    let Some(target) = Target::named(&host) else {
        return Err(Error::Usage(format!("nothing is released for {host}")));
    };
    if !program.is_file() {
        return Err(Error::Usage(format!(
            "`{}` is not there: cargo build --release --features {}",
            program.display(),
            toolchain::FEATURES
        )));
    }
    let programs = [(target, program)];
    let pages = pages::of_first_that_runs(&programs, &host)?;
    let [(_, program)] = programs;
    let folder = workspace.target.join("dist/quick");
    let mut twice = Vec::new();
    for name in ["first", "second"] {
        let folder = folder.join(name);
        empty(&folder)?;
        let (parts, out) = (folder.join("parts"), folder.join("release"));
        empty(&parts)?;
        empty(&out)?;
        let release = Release {
            workspace,
            parts,
            folder: out.clone(),
            effort: Effort::Trial,
        };
        let packed = release.pack(target, program.clone(), &pages)?;
        release.sum_up(std::slice::from_ref(&packed))?;
        let sums = out.join(checksums::NAME);
        twice.push(fs::read(&sums).map_err(Error::io("read", &sums))?);
        match (name, is_checked) {
            ("first", true) => said(smoke::check(&packed, &folder.join("smoke"), &host)?)?,
            ("first", false) => smoke::starts(&packed, &folder.join("smoke"), &host)?,
            _ => {}
        }
    }
    if twice[0] != twice[1] {
        return Err(Error::Promise {
            path: folder,
            why: "the same files were packed twice, and not to the same bytes".to_owned(),
        });
    }
    Ok(())
}

/// Targets by name; all of them if none is named.
fn chosen(names: &[String]) -> Result<Vec<Target>, Error> {
    if names.is_empty() {
        return Ok(TARGETS.to_vec());
    }
    let find = |name: &String| {
        Target::named(name).ok_or_else(|| {
            let known = TARGETS.map(|target| target.triple).join(", ");
            Error::Usage(format!("no target `{name}`; there are {known}"))
        })
    };
    let mut targets = Vec::new();
    for name in names {
        let target = find(name)?;
        // Named twice it would be packed over itself.
        if !targets.contains(&target) {
            targets.push(target);
        }
    }
    Ok(targets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_targets_are_refused_and_none_are_all() {
        assert_eq!(chosen(&[]).unwrap(), TARGETS);
        let arm = TARGETS[1].triple.to_owned();
        assert_eq!(chosen(&[arm.clone(), arm]).unwrap(), [TARGETS[1]]);
        let error = chosen(&["windows".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("aarch64-unknown-linux-gnu"), "{error}");
    }
}
