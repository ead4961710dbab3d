//! Finding segments below a folder.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::name::{SegmentName, is_dongle, is_log, parse_number, split_segment};

/// How many folders deep segments are looked for: `segments/<dongle id>/<log id>/<n>/file`.
const DEPTH: usize = 5;

/// A kind of file of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum SegmentFile {
    /// The full log.
    Rlog,
    /// The log thinned out.
    Qlog,
    /// The road camera.
    Fcamera,
    /// The wide road camera.
    Ecamera,
    /// The driver camera.
    Dcamera,
    /// The road camera, small.
    Qcamera,
}

impl SegmentFile {
    /// Names of files that hold it, the best first.
    const fn names(self) -> &'static [&'static str] {
        match self {
            Self::Rlog => &["rlog.zst", "rlog.bz2", "rlog", "raw_log.bz2"],
            Self::Qlog => &["qlog.zst", "qlog.bz2", "qlog"],
            Self::Fcamera => &["fcamera.hevc", "video.hevc"],
            Self::Ecamera => &["ecamera.hevc"],
            Self::Dcamera => &["dcamera.hevc"],
            Self::Qcamera => &["qcamera.ts"],
        }
    }

    const ALL: [Self; 6] = [
        Self::Rlog,
        Self::Qlog,
        Self::Fcamera,
        Self::Ecamera,
        Self::Dcamera,
        Self::Qcamera,
    ];

    /// The kind of a file of this name, and how good it is among files of that kind, the best 0.
    fn of(name: &str) -> Option<(Self, usize)> {
        let found = |kind: Self| {
            kind.names()
                .iter()
                .position(|it| *it == name)
                .map(|rank| (kind, rank))
        };
        Self::ALL.into_iter().find_map(found)
    }
}

/// A segment that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Segment {
    /// Which one.
    pub name: SegmentName,
    /// Its files, one of each kind.
    pub files: BTreeMap<SegmentFile, PathBuf>,
    /// Files that are still being written, or whose writer lost power: they are not among `files`.
    pub locked: Vec<PathBuf>,
}

impl Segment {
    /// The file of a kind.
    pub fn file(&self, kind: SegmentFile) -> Option<&Path> {
        self.files.get(&kind).map(PathBuf::as_path)
    }

    /// The fullest log there is.
    pub fn log(&self) -> Option<&Path> {
        self.file(SegmentFile::Rlog)
            .or_else(|| self.file(SegmentFile::Qlog))
    }
}

/// Why segments cannot be found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FindError {
    /// A folder cannot be listed.
    #[error("cannot list `{}`: {source}", folder.display())]
    List {
        /// Which one.
        folder: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// There are no files of segments.
    #[error("no segments below `{}`: no rlog, qlog or camera file in a folder named after one", .0.display())]
    None(PathBuf),
    /// Two folders hold the same file of a segment.
    #[error("segment {name} is there twice: `{}` and `{}`", one.display(), other.display())]
    Twice {
        /// The segment.
        name: SegmentName,
        /// A file.
        one: PathBuf,
        /// Another of the same kind.
        other: PathBuf,
    },
}

/// What was found of a segment, with the rank of each file's name.
#[derive(Default)]
struct Found {
    files: BTreeMap<SegmentFile, (usize, PathBuf)>,
    locked: Vec<PathBuf>,
}

/// All segments below a folder, in order of device, drive and number.
///
/// # Errors
///
/// [`FindError`]: a folder that cannot be listed, none at all, or one that is there twice.
pub fn find_segments(root: &Path) -> Result<Vec<Segment>, FindError> {
    let mut found = BTreeMap::new();
    walk(root, DEPTH, &mut found)?;
    if found.is_empty() {
        return Err(FindError::None(root.to_owned()));
    }
    let segment = |((dongle, log, number), found): (Key, Found)| Segment {
        name: SegmentName {
            log,
            dongle,
            number,
        },
        files: found
            .files
            .into_iter()
            .map(|(kind, (_, path))| (kind, path))
            .collect(),
        locked: found.locked,
    };
    Ok(found.into_iter().map(segment).collect())
}

/// Device, drive and number: the order of segments.
type Key = (Option<String>, String, u32);

fn walk(folder: &Path, depth: usize, found: &mut BTreeMap<Key, Found>) -> Result<(), FindError> {
    let error = |source| FindError::List {
        folder: folder.to_owned(),
        source,
    };
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder).map_err(error)? {
        entries.push(entry.map_err(error)?.path());
    }
    entries.sort();
    for path in &entries {
        if path.is_dir() {
            if depth > 0 {
                walk(path, depth - 1, found)?;
            }
        } else if let Some((key, kind, rank)) = segment_of(path) {
            let lock = PathBuf::from(format!("{}.lock", path.display()));
            let found = found.entry(key.clone()).or_default();
            if entries.binary_search(&lock).is_ok() {
                found.locked.push(path.clone());
                continue;
            }
            match found.files.get(&kind) {
                Some((_, other)) if other.parent() != path.parent() => {
                    let (dongle, log, number) = key;
                    return Err(FindError::Twice {
                        name: SegmentName {
                            log,
                            dongle,
                            number,
                        },
                        one: other.clone(),
                        other: path.clone(),
                    });
                }
                Some((other, _)) if *other <= rank => {}
                _ => {
                    found.files.insert(kind, (rank, path.clone()));
                }
            }
        }
    }
    Ok(())
}

/// Which segment a file belongs to, by its name and its folders'.
fn segment_of(path: &Path) -> Option<(Key, SegmentFile, usize)> {
    let name = path.file_name()?.to_str()?;
    let mut folders = path
        .ancestors()
        .skip(1)
        .filter_map(|it| it.file_name()?.to_str());
    let dongle_of = |text: &str| {
        let tail = text.trim_end_matches(['|', '_', '/']);
        let at = tail.len().checked_sub(16)?;
        let dongle = tail.get(at..)?;
        is_dongle(dongle).then(|| dongle.to_owned())
    };
    // `<dongle>_<log>--<n>--<file>`
    if let Some((before, file)) = name.rsplit_once("--")
        && let Some((kind, rank)) = SegmentFile::of(file)
    {
        let (before, log, number) = split_segment(before)?;
        return Some(((dongle_of(before), log.to_owned(), number), kind, rank));
    }
    let (kind, rank) = SegmentFile::of(name)?;
    let folder = folders.next()?;
    // `<log>--<n>/<file>`, whatever stands before the log id.
    if let Some((before, log, number)) = split_segment(folder) {
        return Some(((dongle_of(before), log.to_owned(), number), kind, rank));
    }
    // `<dongle>/<log>/<n>/<file>` and `<dongle>|<log>/<n>/<file>`
    let number = parse_number(folder)?;
    let route = folders.next()?;
    if is_log(route) {
        let dongle = folders.next().and_then(dongle_of);
        return Some(((dongle, route.to_owned(), number), kind, rank));
    }
    let at = route.len().checked_sub(20)?;
    let (before, log) = route.split_at_checked(at)?;
    is_log(log).then(|| ((dongle_of(before), log.to_owned(), number), kind, rank))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(path: &str) -> Option<(Option<String>, String, u32)> {
        segment_of(Path::new(path)).map(|(key, ..)| key)
    }

    #[test]
    fn every_layout_names_the_same_segment() {
        let want = Some((
            Some("a2a0ccea32023010".to_owned()),
            "2023-07-27--13-01-19".to_owned(),
            3,
        ));
        for path in [
            "x/a2a0ccea32023010/2023-07-27--13-01-19/3/rlog.bz2",
            "x/a2a0ccea32023010|2023-07-27--13-01-19/3/qlog",
            "x/a2a0ccea32023010_2023-07-27--13-01-19--3--rlog.zst",
            "x/a2a0ccea32023010|2023-07-27--13-01-19--3/qcamera.ts",
        ] {
            assert_eq!(key(path), want, "{path}");
        }
        let own = key("data/2023-07-27--13-01-19--3/rlog");
        assert_eq!(own, Some((None, "2023-07-27--13-01-19".to_owned(), 3)));
        for path in [
            "rlog",
            "3/rlog",
            "x/y/3/rlog",
            "2023-07-27--13-01-19--3/notes.txt",
        ] {
            assert_eq!(key(path), None, "{path}");
        }
    }
}
