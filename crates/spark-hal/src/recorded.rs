//! A recorded machine as a tree of files, to be looked at elsewhere.
//!
//! ```text
//! record ──unpack──> folder/proc/cpuinfo, folder/sys/…  ──Root──> Machine, doctor
//! ```
//!
//! Records come from strangers: nothing is written outside the folder, no link leads out of it, and no file is
//! written through a link. What the drivers said is in no record, so a machine read from one has no such answers.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Component, Path, PathBuf};

use crate::root::Root;

/// Why a text cannot be unpacked as a recorded machine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// It holds no file.
    #[error("it is no record of a machine: no line begins with `== /`")]
    NoFile,
    /// A path that is not absolute, or leaves the tree.
    #[error("line {line}: `{path}` is no path in the record")]
    Path {
        /// Line of the record, from 1.
        line: usize,
        /// What stands there.
        path: String,
    },
    /// A path that is there already, or leads through a file or a link.
    #[error("line {line}: `{path}` is there already, or lies below a file or a link")]
    Clash {
        /// Line of the record, from 1.
        line: usize,
        /// What stands there.
        path: String,
    },
    /// A file cannot be written.
    #[error("cannot write `{}`: {source}", path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
}

/// Writes what [`record`](crate::record) has written down into an empty folder; the root that leads there.
///
/// # Errors
///
/// [`RecordError`]; the folder may then hold a part of it.
pub fn unpack_record(record: &str, folder: &Path) -> Result<Root, RecordError> {
    let mut entry: Option<Entry> = None;
    for (index, text) in record.lines().enumerate() {
        let Some(header) = text.strip_prefix("== ") else {
            // Before the first file stand remarks.
            if let Some(entry) = &mut entry {
                entry.content.push_str(text);
                entry.content.push('\n');
            }
            continue;
        };
        let next = Entry {
            line: index + 1,
            header: header.to_owned(),
            content: String::new(),
        };
        if let Some(entry) = entry.replace(next) {
            entry.write(folder)?;
        }
    }
    entry.ok_or(RecordError::NoFile)?.write(folder)?;
    Ok(Root::at(folder))
}

struct Entry {
    line: usize,
    header: String,
    content: String,
}

impl Entry {
    fn write(&self, folder: &Path) -> Result<(), RecordError> {
        let (path, target) = match self.header.split_once(" -> ") {
            Some((path, target)) => (path, Some(target)),
            None => (self.header.as_str(), None),
        };
        let not_a_path = || RecordError::Path {
            line: self.line,
            path: self.header.clone(),
        };
        let names = names_of(path).ok_or_else(not_a_path)?;
        let (name, parents) = names.split_last().ok_or_else(not_a_path)?;
        let mut place = folder.to_owned();
        for parent in parents {
            place.push(parent);
            match fs::create_dir(&place) {
                Ok(()) => {}
                Err(_) if is_folder(&place) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    return Err(self.clash());
                }
                Err(source) => {
                    return Err(RecordError::Io {
                        path: place,
                        source,
                    });
                }
            }
        }
        place.push(name);
        let written = match target {
            Some(target) if stays_within(target, parents.len()) => link(target, &place),
            Some(_) => return Err(not_a_path()),
            None => fs::File::create_new(&place)
                .and_then(|mut file| file.write_all(self.content.as_bytes())),
        };
        written.map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => self.clash(),
            _ => RecordError::Io {
                path: place,
                source,
            },
        })
    }

    fn clash(&self) -> RecordError {
        RecordError::Clash {
            line: self.line,
            path: self.header.clone(),
        }
    }
}

/// The names of an absolute path that goes nowhere else.
/// Folders that a file of a record may lie in.
const MOST_FOLDERS: usize = 64;

fn names_of(path: &str) -> Option<Vec<&str>> {
    let mut names = Vec::new();
    for (index, component) in Path::new(path).components().enumerate() {
        // No file of a machine lies so deep, and each folder is made by a walk from the first one.
        if index > MOST_FOLDERS {
            return None;
        }
        match component {
            Component::RootDir if index == 0 => {}
            Component::Normal(name) if index > 0 => names.push(name.to_str()?),
            _ => return None,
        }
    }
    (!path.contains('\0')).then_some(names)
}

/// Whether a link, so many folders deep, leads to something in the tree. `..` may stand at the beginning alone: behind a name that is a
/// link itself it would go up from where that leads.
fn stays_within(target: &str, depth: usize) -> bool {
    let (mut n_up, mut is_down) = (0, false);
    for component in Path::new(target).components() {
        match component {
            Component::ParentDir if !is_down => n_up += 1,
            Component::Normal(_) => is_down = true,
            _ => return false,
        }
    }
    is_down && n_up <= depth && !target.contains('\0')
}

/// A folder itself, no link to one.
fn is_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
}

#[cfg(unix)]
fn link(target: &str, place: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, place)
}

#[cfg(not(unix))]
fn link(_: &str, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
