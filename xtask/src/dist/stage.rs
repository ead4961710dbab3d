//! The folder that becomes a package: the program, manual, completions, guides and terms, where each belongs.
//!
//! ```text
//! bin/sparkpilot
//! share/man/man1/sparkpilot*.1
//! share/bash-completion/completions/sparkpilot
//! share/zsh/…/_sparkpilot
//! share/fish/vendor_completions.d/sparkpilot.fish
//! share/doc/sparkpilot/   README.md, CHANGELOG.md, docs/*.md, terms of ours and of the crates within
//! ```
//!
//! Modes are set whatever the umask is. What differs between an archive for any prefix and a package of Debian is [`Style`].

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command;
use crate::error::Error;

/// Where things stand that distributions have places of their own for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// To be unpacked under `/usr/local` or `~/.local`.
    AnyPrefix,
    /// Under `/usr`, by Debian's policy: pages of the manual and the changelog are compressed.
    Debian,
}

/// What is put there.
#[derive(Debug)]
pub(super) struct Content {
    /// The program of the package's target.
    pub(super) program: PathBuf,
    /// Pages of the manual, each with its file name.
    pub(super) manual: Vec<(String, Vec<u8>)>,
    /// What bash, zsh and fish read.
    pub(super) completions: [Vec<u8>; 3],
    /// Names below the folder of documentation, and texts.
    pub(super) documents: Vec<(String, Vec<u8>)>,
}

/// The shells, in the order of [`Content::completions`], by the names that `sparkpilot completions` knows.
pub(super) const SHELLS: [&str; 3] = ["bash", "zsh", "fish"];

/// Writes everything below `prefix`, which must not be there.
///
/// # Errors
///
/// [`Error::Io`] for what cannot be written; gzip's failures.
pub(super) fn fill(prefix: &Path, content: &Content, style: Style) -> Result<(), Error> {
    let program = fs::read(&content.program).map_err(Error::io("read", &content.program))?;
    put(&prefix.join("bin/sparkpilot"), &program, 0o755)?;
    for (name, page) in &content.manual {
        let path = prefix.join("share/man/man1").join(name);
        put(&path, page, 0o644)?;
        if style == Style::Debian {
            compress(&path)?;
        }
    }
    let of_zsh = match style {
        Style::AnyPrefix => "share/zsh/site-functions/_sparkpilot",
        Style::Debian => "share/zsh/vendor-completions/_sparkpilot",
    };
    let places = [
        "share/bash-completion/completions/sparkpilot",
        of_zsh,
        "share/fish/vendor_completions.d/sparkpilot.fish",
    ];
    for (place, script) in places.iter().zip(&content.completions) {
        put(&prefix.join(place), script, 0o644)?;
    }
    for (name, text) in &content.documents {
        let path = prefix.join("share/doc/sparkpilot").join(name);
        put(&path, text, 0o644)?;
        if style == Style::Debian && name.starts_with("changelog") {
            compress(&path)?;
        }
    }
    Ok(())
}

/// Writes a file with its folders, all of which anybody may read.
pub(super) fn put(path: &Path, bytes: &[u8], mode: u32) -> Result<(), Error> {
    let folder = path.parent().unwrap_or(path);
    let mut made: Vec<&Path> = folder.ancestors().take_while(|it| !it.exists()).collect();
    made.reverse();
    for folder in made {
        fs::create_dir(folder).map_err(Error::io("make", folder))?;
        allow(folder, 0o755)?;
    }
    fs::write(path, bytes).map_err(Error::io("write", path))?;
    allow(path, mode)
}

fn allow(path: &Path, mode: u32) -> Result<(), Error> {
    fs::set_permissions(path, Permissions::from_mode(mode))
        .map_err(Error::io("set the mode of", path))
}

/// `page` becomes `page.gz`, with neither name nor time in it.
fn compress(path: &Path) -> Result<(), Error> {
    command::run(Command::new("gzip").args(["-9", "-n"]).arg(path))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A small program that prints what it was asked, and everything around it.
    pub(in super::super) fn content(folder: &Path) -> Content {
        let program = folder.join("program");
        put(&program, b"#!/bin/sh\necho \"$@\"\n", 0o700).unwrap();
        Content {
            program,
            manual: vec![("sparkpilot.1".to_owned(), b".TH sparkpilot 1\n".to_vec())],
            completions: [b"bash".to_vec(), b"zsh".to_vec(), b"fish".to_vec()],
            documents: vec![
                ("copyright".to_owned(), b"MIT\n".to_vec()),
                ("changelog".to_owned(), b"0.1.0\n".to_vec()),
                ("docs/guide.md".to_owned(), b"# Guide\n".to_vec()),
            ],
        }
    }

    /// A folder of this test's own.
    pub(in super::super) fn scratch(name: &str) -> PathBuf {
        let name = format!("xtask-dist-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        if folder.exists() {
            fs::remove_dir_all(&folder).unwrap();
        }
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn everything_has_its_place_and_mode_in_both_styles() {
        let folder = scratch("stage");
        let content = content(&folder);
        for (style, pages, zsh, changelog) in [
            (
                Style::AnyPrefix,
                "sparkpilot.1",
                "site-functions",
                "changelog",
            ),
            (
                Style::Debian,
                "sparkpilot.1.gz",
                "vendor-completions",
                "changelog.gz",
            ),
        ] {
            let prefix = folder.join(format!("{style:?}"));
            fill(&prefix, &content, style).unwrap();
            for (path, mode) in [
                ("bin/sparkpilot".to_owned(), 0o100_755),
                (format!("share/man/man1/{pages}"), 0o100_644),
                (
                    "share/bash-completion/completions/sparkpilot".to_owned(),
                    0o100_644,
                ),
                (format!("share/zsh/{zsh}/_sparkpilot"), 0o100_644),
                (
                    "share/fish/vendor_completions.d/sparkpilot.fish".to_owned(),
                    0o100_644,
                ),
                ("share/doc/sparkpilot/copyright".to_owned(), 0o100_644),
                (format!("share/doc/sparkpilot/{changelog}"), 0o100_644),
                ("share/doc/sparkpilot/docs/guide.md".to_owned(), 0o100_644),
                ("share/doc".to_owned(), 0o040_755),
            ] {
                let found = fs::metadata(prefix.join(&path)).unwrap();
                assert_eq!(found.permissions().mode(), mode, "{path}");
            }
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
