//! Files that a program writes: whole or not at all.
//!
//! ```text
//! write("report.json", …)   the whole file or none           Words::beside(["report.json"])   words on stdout
//! write("-", …)             stdout, for the next program      Words::beside(["-"])             words on stderr
//! ```

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::failure::Usage;
use crate::signals::postponed;

/// A file or folder that could not be written, or cannot be.
#[derive(Debug)]
pub struct Unwritten {
    pub(crate) path: PathBuf,
    pub(crate) source: io::Error,
}

impl std::fmt::Display for Unwritten {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cannot write `{}`: {}", self.path.display(), self.source)
    }
}

impl std::error::Error for Unwritten {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Whether this name stands for stdout: `-`, as for other programs, or the system's names of it, where a file that is written
/// anew would begin above the words. A file of the name `-` is `./-`.
pub fn is_stdout(path: &Path) -> bool {
    let names = ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];
    names.iter().any(|name| path.as_os_str() == *name)
}

/// Writes a file whole or not at all, or what [`is_stdout`] to stdout; devices and pipes are written to, links are
/// followed. Ctrl-C meanwhile waits for that, but not for stdout, which nobody may read.
///
/// # Errors
///
/// [`Unwritten`] with the path and what the system said; then nothing stays behind.
pub fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Result<(), Unwritten> {
    let written = match is_stdout(path) {
        true => to_stdout(bytes.as_ref()),
        false => postponed(|| spark_files::write(path, bytes)),
    };
    written.map_err(|source| Unwritten {
        path: path.to_owned(),
        source,
    })
}

/// All of it, with the end of its last line.
fn to_stdout(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()
}

/// What a program says beside its files: on stdout, or on stderr where one of the files is stdout.
#[derive(Debug, Clone, Copy)]
pub struct Words {
    are_on_stderr: bool,
}

impl Words {
    /// Beside these files.
    pub fn beside<'a>(outputs: impl IntoIterator<Item = &'a Path>) -> Self {
        Self {
            are_on_stderr: outputs.into_iter().any(is_stdout),
        }
    }

    /// Says it, ended as it is: a line brings its own end.
    ///
    /// # Errors
    ///
    /// What the operating system said of stdout. Of stderr nobody can be told.
    pub fn say(self, text: &str) -> io::Result<()> {
        if self.are_on_stderr {
            crate::failure::tell(text.trim_end_matches('\n'));
            return Ok(());
        }
        to_stdout(text.as_bytes())
    }
}

/// Refuses two outputs in one file, and an output in the place of an input.
///
/// # Errors
///
/// [`Usage`] with both names.
pub fn keep_apart<'a>(
    inputs: impl IntoIterator<Item = &'a Path>,
    outputs: impl IntoIterator<Item = &'a Path>,
) -> Result<(), Usage> {
    let Some(clash) = spark_files::clash(inputs, outputs) else {
        return Ok(());
    };
    Err(Usage(format!(
        "`{}` is to be written and is `{}`, which is {}",
        clash.output.display(),
        clash.other.display(),
        if clash.is_written { "written" } else { "read" }
    )))
}

/// Makes a folder and those above it; one that is there is fine.
///
/// # Errors
///
/// [`Unwritten`] with the path and what the system said.
pub fn folder(path: &Path) -> Result<(), Unwritten> {
    fs::create_dir_all(path).map_err(|source| Unwritten {
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_kept_apart_whatever_they_are_called() {
        let place =
            std::env::temp_dir().join(format!("spark-program-apart-{}", std::process::id()));
        folder(&place.join("sub")).unwrap();
        let model = place.join("model");
        write(&model, "weights").unwrap();
        let again = place.join("sub/../model");
        let refused = keep_apart([&*model], [&*again]).unwrap_err().to_string();
        assert!(refused.contains("which is read"), "{refused}");
        let (new, same) = (place.join("new"), place.join("sub/../new"));
        let refused = keep_apart([&*model], [&*new, &*same])
            .unwrap_err()
            .to_string();
        assert!(refused.contains("which is written"), "{refused}");
        assert!(
            keep_apart([&*model, &*again], [&*new]).is_ok(),
            "inputs may be one file"
        );
        let null = Path::new("/dev/null");
        assert!(keep_apart([], [null, null]).is_ok());
        fs::remove_dir_all(&place).unwrap();
    }

    #[test]
    fn a_file_is_replaced_whole_and_a_failure_leaves_nothing() {
        let place = std::env::temp_dir().join(format!("spark-program-{}", std::process::id()));
        folder(&place).unwrap();
        let path = place.join("report.txt");
        write(&path, "one").unwrap();
        write(&path, "two").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        let failure = write(&place, "a folder is no file")
            .unwrap_err()
            .to_string();
        assert!(
            failure.contains("cannot write") && failure.contains("directory"),
            "{failure}"
        );
        assert_eq!(fs::read_dir(&place).unwrap().count(), 1);
        fs::remove_dir_all(&place).unwrap();
        assert!(
            !place
                .with_extension(format!("{}.tmp", std::process::id()))
                .exists()
        );
    }
}
