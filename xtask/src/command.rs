//! Starting cargo and other programs, and adding up what tests say.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::error::Error;

/// The cargo that runs this program, with arguments.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    command.args(args);
    command
}

/// Whether a variable is set, and not to nothing.
pub(crate) fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty())
}

/// Gives a workspace of its own the versions that everything else is tested with; cargo adds what it alone needs.
pub(crate) fn copy_lock(ours: &Path, theirs: &Path) -> Result<(), Error> {
    let changed = |path: &Path| fs::metadata(path).and_then(|data| data.modified()).ok();
    if changed(theirs).is_none() || changed(theirs) < changed(ours) {
        fs::copy(ours, theirs).map_err(Error::io("write", theirs))?;
    }
    Ok(())
}

/// Runs with inherited streams; a failing status is an error.
pub(crate) fn run(command: &mut Command) -> Result<(), Error> {
    let status = command.status().map_err(|source| Error::Start {
        command: shown(command),
        source,
    })?;
    ended(command, status)
}

/// Runs and returns standard output; a failing status is an error.
pub(crate) fn output_of(command: &mut Command) -> Result<String, Error> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|source| Error::Start {
            command: shown(command),
            source,
        })?;
    ended(command, output.status)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn ended(command: &Command, status: std::process::ExitStatus) -> Result<(), Error> {
    if status.success() {
        return Ok(());
    }
    Err(Error::Command {
        command: shown(command),
        code: status.code(),
    })
}

/// The command as one would type it, with the environment variables it sets.
pub(crate) fn shown(command: &Command) -> String {
    let mut words = Vec::new();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            words.push(format!("{}=\"{}\"", name.display(), value.display()));
        }
    }
    let program = std::path::Path::new(command.get_program());
    words.push(
        program
            .file_name()
            .unwrap_or_default()
            .display()
            .to_string(),
    );
    words.extend(command.get_args().map(|arg| arg.display().to_string()));
    words.join(" ")
}

/// The kind of machine this is, as rustc names it.
pub(crate) fn host_triple() -> Result<String, Error> {
    let version = output_of(Command::new("rustc").arg("-vV"))?;
    let line = version.lines().find_map(|line| line.strip_prefix("host: "));
    line.map(str::to_owned).ok_or_else(|| Error::Shape {
        what: "the output of rustc -vV".to_owned(),
        field: "host".to_owned(),
    })
}

/// Runs a `cargo test` command, shows its output and adds up its results.
///
/// # Errors
///
/// A failing status, and also a run without a single test: a filter or a configuration
/// that runs nothing must not look like success.
pub(crate) fn run_tests(command: &mut Command) -> Result<TestCounts, Error> {
    let mut counts = TestCounts::default();
    for_each_line(command, |line| counts.add(line))?;
    if counts.n_passed == 0 {
        return Err(Error::Usage(format!("`{}` ran no test", shown(command))));
    }
    Ok(counts)
}

/// Runs a command, shows its output and hands each line of it on; a failing status is an
/// error.
pub(crate) fn for_each_line(
    command: &mut Command,
    mut look_at: impl FnMut(&str),
) -> Result<(), Error> {
    let failed = |command: &Command, source| Error::Start {
        command: shown(command),
        source,
    };
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|source| failed(command, source))?;
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).split(b'\n') {
            let line = line.map_err(|source| failed(command, source))?;
            let line = String::from_utf8_lossy(&line);
            // A closed pipe on our side must not end the program that is running.
            let _ = writeln!(std::io::stdout().lock(), "{line}");
            look_at(&line);
        }
    }
    let status = child.wait().map_err(|source| failed(command, source))?;
    ended(command, status)
}

/// Sums over the `test result:` lines of one `cargo test`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct TestCounts {
    n_passed: u64,
    n_failed: u64,
    n_ignored: u64,
    n_groups: u64,
}

impl TestCounts {
    /// Counts one line of output: `test result: ok. 3 passed; 0 failed; 1 ignored; …`.
    fn add(&mut self, line: &str) {
        let Some(rest) = line.strip_prefix("test result: ") else {
            return;
        };
        self.n_groups += 1;
        let words: Vec<&str> = rest
            .split([' ', ';'])
            .filter(|word| !word.is_empty())
            .collect();
        for pair in words.windows(2) {
            let Ok(count) = pair[0].parse::<u64>() else {
                continue;
            };
            match pair[1] {
                "passed" => self.n_passed += count,
                "failed" => self.n_failed += count,
                "ignored" => self.n_ignored += count,
                _ => {}
            }
        }
    }
}

impl std::fmt::Display for TestCounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} passed, {} failed, {} ignored in {} groups",
            self.n_passed, self.n_failed, self.n_ignored, self.n_groups
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_results_are_added_up() {
        let mut counts = TestCounts::default();
        counts.add("running 4 tests");
        counts.add("test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.10s");
        counts
            .add("test result: FAILED. 5 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out");
        assert_eq!(
            counts,
            TestCounts {
                n_passed: 8,
                n_failed: 2,
                n_ignored: 1,
                n_groups: 2
            }
        );
    }

    #[test]
    fn a_command_is_shown_as_typed() {
        let mut command = cargo(&["doc", "--no-deps"]);
        command.env("RUSTDOCFLAGS", "-D warnings");
        assert!(shown(&command).starts_with("RUSTDOCFLAGS=\"-D warnings\" cargo"));
        assert!(shown(&command).ends_with("doc --no-deps"));
    }
}
