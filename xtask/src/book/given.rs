//! Files that pages take as given: a network by some name, recorded drives, the record of a Spark.
//!
//! ```text
//! driving_policy.onnx …             written by `sparkpilot zoo`
//! NET.onnx, drives …                of the reference data ($SPARK_TEST_DATA); without it what names them is left out
//! spark.txt …                       a machine tree of spark-hal's tests, made from published dumps, as one file
//! ```
//!
//! A page finds in its folder those that its commands name.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::command;
use crate::error::Error;
use crate::workspace::Workspace;

use super::programs::Programs;

enum Source {
    /// A file of the zoo.
    Zoo(&'static str),
    /// A path in the reference data.
    Data(&'static str),
    /// A machine tree.
    Machine(&'static str),
}

const FILES: [(&str, Source); 12] = [
    ("driving_vision.onnx", Source::Zoo("driving_vision.onnx")),
    ("driving_policy.onnx", Source::Zoo("driving_policy.onnx")),
    (
        "dmonitoring_model.onnx",
        Source::Zoo("dmonitoring_model.onnx"),
    ),
    (
        "NET.onnx",
        Source::Data("data/models/dmonitoring_0_8_5.onnx"),
    ),
    (
        "dmonitoring.onnx",
        Source::Data("data/models/dmonitoring_0_8_5.onnx"),
    ),
    (
        "supercombo.onnx",
        Source::Data("data/models/supercombo_0_7_4_random_fp16.onnx"),
    ),
    (
        "golden.safetensors",
        Source::Data("data/models/goldens/dmonitoring_0_8_5.safetensors"),
    ),
    (
        "frames.safetensors",
        Source::Data("data/models/goldens/dmonitoring_0_8_5.safetensors"),
    ),
    ("drives", Source::Data("data/drive")),
    ("spark.txt", Source::Machine("nvidia-dgx-spark")),
    ("spark-1.txt", Source::Machine("nvidia-dgx-spark")),
    ("spark-2.txt", Source::Machine("asus-ascent-gx10")),
];

/// Files by their names on pages.
pub(super) struct Given {
    files: Vec<(&'static str, Option<PathBuf>)>,
}

impl Given {
    /// Makes what has to be made, in `folder`.
    pub(super) fn make(
        workspace: &Workspace,
        programs: &Programs,
        folder: &Path,
    ) -> Result<Self, Error> {
        fs::create_dir_all(folder).map_err(Error::io("create", folder))?;
        let mut zoo = Command::new(programs.sparkpilot());
        zoo.args(["zoo", "--folder"])
            .arg(folder)
            .env_remove("DEBUG");
        command::run(zoo.stdout(Stdio::null()))?;
        let data = std::env::var_os("SPARK_TEST_DATA").filter(|data| !data.is_empty());
        let data = data.map(|data| fs::canonicalize(data).unwrap_or_default());
        let mut files = Vec::new();
        for (name, source) in &FILES {
            let path = match source {
                Source::Zoo(file) => Some(folder.join(file)),
                Source::Data(path) => data.as_ref().map(|data| data.join(path)),
                Source::Machine(machine) => {
                    let path = folder.join(format!("{machine}.txt"));
                    let text = flat(workspace, &format!("{machine}/tree.txt"))?;
                    fs::write(&path, text).map_err(Error::io("write", &path))?;
                    Some(path)
                }
            };
            files.push((*name, path.filter(|path| path.exists())));
        }
        Ok(Self { files })
    }

    /// Puts what `commands` name into `folder`; what is not there is returned.
    pub(super) fn link(&self, commands: &str, folder: &Path) -> Result<Vec<&'static str>, Error> {
        let mut lacking = Vec::new();
        for (name, path) in &self.files {
            let link = folder.join(name);
            if !names(commands, name) || link.exists() {
                continue;
            }
            match path {
                Some(path) => symlink(path, &link).map_err(Error::io("link", &link))?,
                None => lacking.push(*name),
            }
        }
        Ok(lacking)
    }
}

/// Whether `name` stands in `commands` as a path of its own: neither in a folder nor as part of a longer name.
fn names(commands: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || "._-/".contains(c);
    commands.match_indices(name).any(|(start, _)| {
        let before = commands[..start].chars().next_back();
        let after = commands[start + name.len()..].chars().next();
        // A folder is named with what is in it.
        !before.is_some_and(is_part) && !after.is_some_and(|c| c != '/' && is_part(c))
    })
}

/// A machine tree with the parts that it includes.
fn flat(workspace: &Workspace, path: &str) -> Result<String, Error> {
    let machines = workspace.root.join("crates/spark-hal/tests/machines");
    let path = machines.join(path);
    let text = fs::read_to_string(&path).map_err(Error::io("read", &path))?;
    let mut whole = String::new();
    for line in text.lines() {
        match line.strip_prefix("@include ") {
            Some(part) => whole.push_str(&flat(workspace, &format!("parts/{part}.txt"))?),
            None => {
                whole.push_str(line);
                whole.push('\n');
            }
        }
    }
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_by_its_whole_path_alone() {
        assert!(names("sparkpilot run NET.onnx --x", "NET.onnx"));
        assert!(names("sparkpilot logs drives/", "drives"));
        assert!(!names("sparkpilot run out/NET.onnx", "NET.onnx"));
        assert!(!names("sparkpilot run NET.onnx.json", "NET.onnx"));
        assert!(!names("sparkpilot sim merge --json drives.json", "drives"));
    }
}
