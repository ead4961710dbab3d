//! Whether a file or a folder can be made where it is wanted, asked before the work whose result
//! goes there.
//!
//! ```text
//! file("missing/report.json")   cannot write `missing/report.json`: No such file or directory
//! file("report.json")           a probe is made beside it and removed: nothing stays behind
//! folder("a/b/c")               the nearest of a, a/b, a/b/c that is there must be a folder, and takes such a probe
//! ```
//!
//! Deliberately absent: any promise. A disk may fill while the work goes on, so that writing has
//! its own error.

use std::fs;
use std::io;
use std::path::Path;

use crate::output::{Unwritten, is_stdout};
use crate::signals::postponed;

/// Whether a file can be made at `path`, or the one that is there replaced or written to. Stdout, `-`, is there.
///
/// # Errors
///
/// [`Unwritten`] if `path` is a folder or may not be written to, or its folder is missing or may not.
pub fn file(path: &Path) -> Result<(), Unwritten> {
    if is_stdout(path) {
        return Ok(());
    }
    postponed(|| spark_files::check(path)).map_err(|source| Unwritten {
        path: path.to_owned(),
        source,
    })
}

/// Whether `path` is a folder that can be written to, or can become one.
///
/// # Errors
///
/// [`Unwritten`] if it, or what it would lie in, is there and no folder, or may not be written to.
pub fn folder(path: &Path) -> Result<(), Unwritten> {
    let no_place = |source| Unwritten {
        path: path.to_owned(),
        source,
    };
    for place in path.ancestors() {
        // A relative path of which nothing is there yet begins in the working directory.
        let place = match place.as_os_str().is_empty() {
            true => Path::new("."),
            false => place,
        };
        match fs::metadata(place) {
            Ok(there) if there.is_dir() => {
                let probe = place.join(format!("probe-{}", std::process::id()));
                return postponed(|| spark_files::check(&probe)).map_err(no_place);
            }
            Ok(_) => return Err(no_place(io::ErrorKind::NotADirectory.into())),
            // A link that leads nowhere is in the way of a folder of its name.
            Err(error) if error.kind() == io::ErrorKind::NotFound && !place.is_symlink() => {}
            Err(error) => return Err(no_place(error)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_told_from_none_and_nothing_stays_behind() {
        let base = std::env::temp_dir().join(format!("spark-place-{}", std::process::id()));
        fs::create_dir_all(&base).unwrap();
        let taken = base.join("taken");
        fs::write(&taken, "kept").unwrap();
        let longest = "n".repeat(255);
        for good in ["new", "taken", &longest] {
            file(&base.join(good)).unwrap();
        }
        let too_long = longest + "n";
        for (bad, word) in [
            ("missing/new", "No such file"),
            ("taken/new", "Not a directory"),
            (&*too_long, "too long"),
            ("", "is a directory"),
        ] {
            let error = file(&base.join(bad)).unwrap_err().to_string();
            assert!(error.starts_with("cannot write `"), "{error}");
            assert!(error.contains(word), "{error}");
        }
        folder(&base).unwrap();
        folder(&base.join("a/b/c")).unwrap();
        folder(Path::new("no-such-folder/inside")).unwrap();
        for bad in ["taken", "taken/inside", "taken/inside/more"] {
            let error = folder(&base.join(bad)).unwrap_err().to_string();
            let is_told = error.to_lowercase().contains("not a directory");
            assert!(is_told, "{error}");
        }
        let nowhere = base.join("nowhere");
        std::os::unix::fs::symlink(base.join("no-such"), &nowhere).unwrap();
        let error = folder(&nowhere.join("inside")).unwrap_err().to_string();
        assert!(error.contains("No such file"), "{error}");
        fs::remove_file(&nowhere).unwrap();
        // Nobody makes folders there, whatever their rights.
        let error = folder(Path::new("/sys/spark/inside")).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("cannot write `/sys/spark/inside`"),
            "{error}"
        );
        assert_eq!(fs::read_dir(&base).unwrap().count(), 1);
        assert_eq!(fs::read_to_string(&taken).unwrap(), "kept");
        fs::remove_dir_all(&base).unwrap();
    }
}
