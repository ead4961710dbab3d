//! `SHA256SUMS` beside what is released, as `sha256sum --check` reads it.

use std::path::Path;
use std::process::Command;

use super::stage::put;
use crate::command;
use crate::error::Error;

/// The file of checksums.
pub(super) const NAME: &str = "SHA256SUMS";

/// Writes the sums of files of one folder, in the order of their names.
///
/// # Errors
///
/// What sha256sum refuses, or that it cannot be written.
pub(super) fn write(folder: &Path, names: &[String]) -> Result<(), Error> {
    let mut names: Vec<&String> = names.iter().collect();
    names.sort();
    let mut sha256sum = Command::new("sha256sum");
    sha256sum.current_dir(folder).arg("--").args(names);
    let sums = command::output_of(&mut sha256sum)?;
    put(&folder.join(NAME), sums.as_bytes(), 0o644)
}

/// Holds the files of a folder against its sums.
///
/// # Errors
///
/// A file that is missing or has changed.
pub(super) fn check(folder: &Path) -> Result<(), Error> {
    let mut sha256sum = Command::new("sha256sum");
    sha256sum.args(["--check", "--strict", "--quiet", NAME]);
    command::run(sha256sum.current_dir(folder))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::stage::tests::scratch;
    use super::*;

    #[test]
    fn a_changed_file_is_found() {
        let folder = scratch("checksums");
        fs::write(folder.join("b"), "two").unwrap();
        fs::write(folder.join("a"), "one").unwrap();
        write(&folder, &["b".to_owned(), "a".to_owned()]).unwrap();
        let sums = fs::read_to_string(folder.join(NAME)).unwrap();
        let names: Vec<&str> = sums.lines().map(|line| &line[66..]).collect();
        assert_eq!(names, ["a", "b"]);
        check(&folder).unwrap();
        fs::write(folder.join("a"), "on").unwrap();
        assert!(check(&folder).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }
}
