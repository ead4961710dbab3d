//! Programs that pages start, built before: the program `sparkpilot` and the examples.
//!
//! ```text
//! <folder>/sparkpilot            started by its name
//! <folder>/examples/NAME         started by `cargo run … --example NAME -- …`
//! ```
//!
//! A `cargo` in front of the real one hands such a line to the built example, so that no page waits for a compiler. Any
//! other call of cargo fails there: a page's block that needs one says why it is not run.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use crate::command::{self, cargo};
use crate::error::Error;
use crate::workspace::Workspace;

/// Stands before the real cargo where pages run.
const CARGO: &str = r#"#!/bin/bash
# `cargo run [...] --example NAME [-- ARGS]` as the example that is built already.
name=
all="$*"
if [ "$1" = run ]; then
  while [ $# -gt 0 ] && [ "$1" != -- ]; do
    if [ "$1" = --example ]; then name="$2"; fi
    shift
  done
fi
if [ -z "$name" ]; then
  echo "error: no program is built for \`cargo $all\`" >&2
  exit 2
fi
if [ $# -gt 0 ]; then shift; fi
exec "$(dirname "$0")/examples/$name" "$@"
"#;

/// Where they lie.
pub(super) struct Programs {
    folder: PathBuf,
}

impl Programs {
    /// Those of a folder.
    pub(super) fn of(folder: &Path) -> Result<Self, Error> {
        let folder = fs::canonicalize(folder).map_err(Error::io("find", folder))?;
        for needed in ["sparkpilot", "examples"] {
            let path = folder.join(needed);
            fs::metadata(&path).map_err(Error::io("find", &path))?;
        }
        Ok(Self { folder })
    }

    /// Builds them as people do.
    pub(super) fn build(workspace: &Workspace) -> Result<Self, Error> {
        for what in [&["--bin", "sparkpilot"][..], &["--workspace", "--examples"]] {
            let mut build = cargo(&["build", "--release", "--all-features"]);
            command::run(build.args(what).current_dir(&workspace.root))?;
        }
        Self::of(&workspace.target.join("release"))
    }

    pub(super) fn sparkpilot(&self) -> PathBuf {
        self.folder.join("sparkpilot")
    }

    /// Makes `folder` one for the search path: the program, the examples and the `cargo` that starts them.
    pub(super) fn link(&self, folder: &Path) -> Result<(), Error> {
        if folder.is_dir() {
            fs::remove_dir_all(folder).map_err(Error::io("remove", folder))?;
        }
        fs::create_dir_all(folder).map_err(Error::io("create", folder))?;
        for name in ["sparkpilot", "examples"] {
            let link = folder.join(name);
            symlink(self.folder.join(name), &link).map_err(Error::io("link", &link))?;
        }
        let cargo = folder.join("cargo");
        fs::write(&cargo, CARGO).map_err(Error::io("write", &cargo))?;
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&cargo, executable).map_err(Error::io("write", &cargo))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn an_example_that_is_built_is_started_with_its_words_and_nothing_else_is() {
        let folder = std::env::temp_dir().join(format!("xtask-programs-{}", std::process::id()));
        let built = folder.join("built");
        fs::create_dir_all(built.join("examples")).expect("a folder");
        for name in ["sparkpilot", "examples/show"] {
            fs::write(built.join(name), "#!/bin/sh\necho \"$@\"\n").expect("a file");
            let executable = fs::Permissions::from_mode(0o755);
            fs::set_permissions(built.join(name), executable).expect("a file");
        }
        let path = folder.join("path");
        Programs::of(&built)
            .and_then(|programs| programs.link(&path))
            .expect("links");
        let run = |args: &[&str]| {
            let output = Command::new(path.join("cargo"))
                .args(args)
                .output()
                .expect("starts");
            (
                output.status.code(),
                String::from_utf8_lossy(&output.stdout).into_owned(),
            )
        };
        let shown = run(&[
            "run",
            "--release",
            "--example",
            "show",
            "--",
            "--runs",
            "2 3",
        ]);
        assert_eq!(shown, (Some(0), "--runs 2 3\n".to_owned()));
        assert_eq!(
            run(&["run", "--example", "show"]),
            (Some(0), "\n".to_owned())
        );
        assert_eq!(run(&["test"]).0, Some(2));
        assert_eq!(run(&["run", "--example", "none"]).0, Some(126 + 1));
        assert!(Programs::of(&folder.join("none")).is_err());
        fs::remove_dir_all(&folder).expect("a folder");
    }
}
