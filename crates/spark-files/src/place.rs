//! What lies where somebody wants to write.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Links that are followed; Linux gives up at as many.
const MOST_LINKS: usize = 40;

/// Bytes of a file's name that its temporary neighbour repeats: names end at 255.
const MOST_NAME_BYTES: usize = 200;

pub(crate) enum Place {
    /// A device, a pipe, or a stream that this process has open already.
    Stream,
    /// Where a file is, or will be.
    File {
        /// The path behind all links.
        path: PathBuf,
        /// Those of the file that is there.
        permissions: Option<Permissions>,
    },
}

impl Place {
    /// # Errors
    ///
    /// For folders, files that may not be written to, and links in a circle.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let Some(path) = behind_links(path)? else {
            return Ok(Self::Stream);
        };
        let metadata = match fs::metadata(&path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(Self::File {
                    path,
                    permissions: None,
                });
            }
            Err(error) => return Err(error),
        };
        if metadata.is_dir() {
            return Err(ErrorKind::IsADirectory.into());
        }
        if !metadata.is_file() {
            return Ok(Self::Stream);
        }
        // A folder that may be written to allows replacing files that may not.
        File::options().append(true).open(&path)?;
        Ok(Self::File {
            path,
            permissions: Some(metadata.permissions()),
        })
    }
}

/// Where a chain of links ends; nothing if it leads to a stream of this process, as `/dev/stdout`
/// and `/dev/fd/63` of a shell's `>(command)` do: whoever reads that stream reads on in the file that is open, not in one of its name.
fn behind_links(path: &Path) -> io::Result<Option<PathBuf>> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        // Linux shows both as links to names that need not lead anywhere, as `pipe:[123]`.
        if path.starts_with("/proc") || path.starts_with("/dev/fd") {
            return Ok(None);
        }
        match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_symlink() => {
                let target = fs::read_link(&path)?;
                path = path.parent().unwrap_or(Path::new("")).join(target);
            }
            // What else is wrong with it is told where it is opened.
            _ => return Ok(Some(path)),
        }
    }
    Err(io::Error::other("its symbolic links go round in a circle"))
}

/// The folder that a file lies in.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// As much of a name as leaves room for more.
pub(crate) fn beginning(name: &OsStr) -> &OsStr {
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt as _;
        let bytes = name.as_bytes();
        OsStr::from_bytes(&bytes[..bytes.len().min(MOST_NAME_BYTES)])
    }
    #[cfg(not(unix))]
    if name.len() > MOST_NAME_BYTES {
        OsStr::new("file")
    } else {
        name
    }
}
