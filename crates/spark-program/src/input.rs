//! Files that a program reads for libraries that would open anything, and stdin, which may have no end.

use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::path::{Path, PathBuf};

/// A file that could not be read.
#[derive(Debug)]
pub struct Unread {
    path: PathBuf,
    source: io::Error,
}

impl std::fmt::Display for Unread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cannot read `{}`: {}", self.path.display(), self.source)
    }
}

impl std::error::Error for Unread {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// A regular file and its size in bytes; pipes and devices, which may never end, are refused.
///
/// # Errors
///
/// What the operating system said, or that it is no regular file.
pub fn open(path: &Path) -> io::Result<(File, u64)> {
    spark_files::open(path)
}

/// The bytes of a regular file; pipes and devices, which may never end, are refused.
///
/// # Errors
///
/// [`Unread`] with the path and why.
pub fn read(path: &Path) -> Result<Vec<u8>, Unread> {
    spark_files::read(path).map_err(|source| Unread {
        path: path.to_owned(),
        source,
    })
}

/// The bytes of stdin, at most so many: what the program before this one in a pipe wrote.
///
/// # Errors
///
/// [`Unread`] with what the operating system said, or that there are more.
pub fn stdin(most_bytes: u64) -> Result<Vec<u8>, Unread> {
    let read = || {
        let mut bytes = Vec::new();
        let stdin = io::stdin().lock();
        stdin.take(most_bytes + 1).read_to_end(&mut bytes)?;
        match bytes.len() as u64 > most_bytes {
            true => Err(io::Error::new(
                ErrorKind::InvalidData,
                format!("it has more than {most_bytes} bytes"),
            )),
            false => Ok(bytes),
        }
    };
    read().map_err(|source| Unread {
        path: PathBuf::from("stdin"),
        source,
    })
}

/// Bytes from the beginning of a file by which one of another kind is told.
const N_FIRST_BYTES: u64 = 64;

/// As [`read`], of at most `most_bytes` bytes, and only if `begins_well` accepts the first 64 of them as those of
/// `what`: a file of another kind costs neither memory nor time.
///
/// # Errors
///
/// [`Unread`] with the path and why.
pub fn read_limited(
    path: &Path,
    most_bytes: u64,
    what: &str,
    begins_well: impl Fn(&[u8]) -> bool,
) -> Result<Vec<u8>, Unread> {
    let refused = |reason: String| io::Error::new(ErrorKind::InvalidData, reason);
    let read = || {
        let (mut file, n_bytes) = spark_files::open(path)?;
        if n_bytes > most_bytes {
            return Err(refused(format!(
                "it has {n_bytes} bytes, at most {most_bytes} are read"
            )));
        }
        let mut bytes = Vec::new();
        file.by_ref().take(N_FIRST_BYTES).read_to_end(&mut bytes)?;
        if !begins_well(&bytes) {
            return Err(refused(format!("it does not begin as {what} does")));
        }
        let n_left = n_bytes.saturating_sub(bytes.len() as u64);
        bytes.try_reserve_exact(usize::try_from(n_left).unwrap_or(usize::MAX))?;
        // No more than was asked for, should the file grow meanwhile.
        file.take(n_left).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    read().map_err(|source| Unread {
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_files_and_those_of_another_kind_are_refused_by_their_first_bytes() {
        let path = std::env::temp_dir().join(format!("spark-input-{}", std::process::id()));
        let is_list = |first: &[u8]| first.starts_with(b"[");
        for n_bytes in [1, 63, 64, 65, 5000] {
            let text = format!("[{}", "x".repeat(n_bytes - 1));
            std::fs::write(&path, &text).unwrap();
            let bytes = read_limited(&path, n_bytes as u64, "a list", is_list).unwrap();
            assert_eq!(bytes, text.as_bytes());
            let told = read_limited(&path, n_bytes as u64 - 1, "a list", is_list).unwrap_err();
            assert!(told.to_string().contains("bytes, at most"), "{told}");
        }
        // A file of holes takes no disk, and would take as much memory as it is long.
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(1 << 40).unwrap();
        let told = read_limited(&path, 1 << 41, "a list", is_list)
            .unwrap_err()
            .to_string();
        assert!(told.contains("does not begin as a list"), "{told}");
        std::fs::remove_file(&path).unwrap();
    }
}
