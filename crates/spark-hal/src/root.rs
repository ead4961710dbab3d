//! Where files of the machine are read: `/`, or a recorded machine under a prefix.
//!
//! ```text
//! Root::host()            /sys/class/dmi/id/product_family
//! Root::at("machines/x")  machines/x/sys/class/dmi/id/product_family
//! ```
//!
//! Every read is bounded: only regular files, at most a few kilobytes for
//! one-value entries and a few megabytes for tables, so that a pipe, a device, a
//! symlink loop or an endless file gives a [`Failure`], never a hang.
//!
//! It is no sandbox: an absolute symbolic link inside a prefix leads out of it.

use std::fs::File;
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::reading::{Failure, Reading};

/// Longest one-value entry (`/sys/.../product_family`, a number, a link speed).
const LINE_LIMIT_BYTES: usize = 4 << 10;
/// Longest table (`/proc/cpuinfo` of a 512-CPU host has about one megabyte).
const TABLE_LIMIT_BYTES: usize = 4 << 20;
/// Most entries taken from one directory.
const ENTRIES_LIMIT: usize = 8192;

/// The directory that stands for `/`.
///
/// # Examples
///
/// ```
/// use spark_hal::{Memory, Root};
///
/// // A recorded machine: its `/proc/meminfo` lies below the folder.
/// let folder = std::env::temp_dir().join(format!("spark-hal-root-{}", std::process::id()));
/// std::fs::create_dir_all(folder.join("proc"))?;
/// std::fs::write(folder.join("proc/meminfo"), "MemTotal:       1024 kB\n")?;
/// let memory = Memory::read(&Root::at(&folder));
/// assert_eq!(memory.meminfo.total_bytes.value(), Some(1 << 20));
/// std::fs::remove_dir_all(folder)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    prefix: PathBuf,
}

impl Root {
    /// The running machine: paths as they are.
    #[must_use]
    pub fn host() -> Self {
        Self::at("/")
    }

    /// A recorded machine: `prefix` stands for `/`.
    #[must_use]
    pub fn at(prefix: impl Into<PathBuf>) -> Self {
        Self {
            prefix: prefix.into(),
        }
    }

    /// Whether this is the running machine and not a recorded one.
    #[must_use]
    pub fn is_host(&self) -> bool {
        self.prefix == Path::new("/")
    }

    /// Where `path` (absolute on the described machine) is found.
    #[must_use]
    pub fn path(&self, path: &str) -> PathBuf {
        self.prefix.join(path.trim_start_matches('/'))
    }

    /// A one-value entry, surrounding blanks removed.
    ///
    /// [`Reading::NotSupported`] if there is no such file.
    #[must_use]
    pub fn line(&self, path: &str) -> Reading<String> {
        self.read(path, LINE_LIMIT_BYTES)
            .map(|text| text.trim().to_owned())
    }

    /// A table of several lines, as it stands.
    ///
    /// [`Reading::NotSupported`] if there is no such file.
    #[must_use]
    pub fn text(&self, path: &str) -> Reading<String> {
        self.read(path, TABLE_LIMIT_BYTES)
    }

    /// The last `most_bytes` of a file that may be of any length, such as a log; bytes
    /// that are no UTF-8 are replaced.
    #[must_use]
    pub fn end(&self, path: &str, most_bytes: u64) -> Reading<String> {
        let length = match self.path(path).metadata() {
            Ok(metadata) if !metadata.is_file() => return not_regular(path),
            Ok(metadata) => metadata.len(),
            Err(error) => return unreadable(path, &error),
        };
        let read = || -> std::io::Result<Vec<u8>> {
            let mut file = File::open(self.path(path))?;
            file.seek(SeekFrom::Start(length.saturating_sub(most_bytes)))?;
            let mut bytes = Vec::new();
            file.take(most_bytes).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        match read() {
            Ok(bytes) => Reading::Value(String::from_utf8_lossy(&bytes).into_owned()),
            Err(error) => unreadable(path, &error),
        }
    }

    /// Those entries of a list that NUL bytes end, such as `/proc/1/environ`, that begin with one of these words; what else stands
    /// there may be secret and is not kept. In a recorded machine line feeds stand for the bytes.
    pub(crate) fn listed(&self, path: &str, begins: &[&str]) -> Reading<Vec<String>> {
        self.bytes(path, TABLE_LIMIT_BYTES).map(|bytes| {
            let end = if bytes.contains(&0) { 0 } else { b'\n' };
            let entries = bytes.split(|byte| *byte == end);
            let is_wanted = |entry: &&[u8]| begins.iter().any(|b| entry.starts_with(b.as_bytes()));
            let wanted = entries.filter(is_wanted).take(begins.len());
            wanted
                .map(|entry| String::from_utf8_lossy(entry).into_owned())
                .collect()
        })
    }

    /// A one-value entry holding a decimal number.
    #[must_use]
    pub fn number<T: FromStr>(&self, path: &str) -> Reading<T> {
        self.line(path).and_then(|line| match line.parse() {
            Ok(number) => Reading::Value(number),
            Err(_) => Reading::Failed(Failure::malformed(path, &line, "a decimal number in range")),
        })
    }

    /// A one-value entry holding a hexadecimal number, `0x` or not.
    #[must_use]
    pub fn hexadecimal(&self, path: &str) -> Reading<u64> {
        self.line(path).and_then(|line| {
            let digits = line.strip_prefix("0x").unwrap_or(&line);
            match u64::from_str_radix(digits, 16) {
                Ok(number) => Reading::Value(number),
                Err(_) => Reading::Failed(Failure::malformed(path, &line, "a hexadecimal number")),
            }
        })
    }

    /// Names in a directory, sorted; names that are not UTF-8 are left out.
    ///
    /// [`Reading::NotSupported`] if there is no such directory.
    #[must_use]
    pub fn entries(&self, path: &str) -> Reading<Vec<String>> {
        self.entries_where(path, |_| true)
    }

    /// As [`Root::entries`], only names that are wanted.
    #[must_use]
    pub fn entries_where(
        &self,
        path: &str,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Reading<Vec<String>> {
        let listing = match std::fs::read_dir(self.path(path)) {
            Ok(listing) => listing,
            Err(error) => return unreadable(path, &error),
        };
        let names = listing.take(ENTRIES_LIMIT);
        let names = names.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut wanted: Vec<String> = names.filter(|name| is_wanted(name)).collect();
        wanted.sort_unstable();
        Reading::Value(wanted)
    }

    /// The last component of the target of a symbolic link (a driver's or device's name).
    #[must_use]
    pub fn link_name(&self, path: &str) -> Reading<String> {
        match std::fs::read_link(self.path(path)) {
            Ok(target) => match target.file_name().and_then(|name| name.to_str()) {
                Some(name) => Reading::Value(name.to_owned()),
                None => Reading::Failed(Failure::NotText {
                    path: path.to_owned(),
                }),
            },
            // A plain directory where sysfs has a link.
            Err(error) if error.kind() == ErrorKind::InvalidInput => Reading::NotSupported,
            Err(error) => unreadable(path, &error),
        }
    }

    /// Whether something is there (following symbolic links).
    #[must_use]
    pub fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    fn read(&self, path: &str, limit_bytes: usize) -> Reading<String> {
        self.bytes(path, limit_bytes).and_then(|mut bytes| {
            // Firmware pads some entries with NUL (the device tree always ends with one).
            while bytes.last() == Some(&0) {
                bytes.pop();
            }
            match String::from_utf8(bytes) {
                Ok(text) if !text.contains('\0') => Reading::Value(text),
                _ => Reading::Failed(Failure::NotText {
                    path: path.to_owned(),
                }),
            }
        })
    }

    fn bytes(&self, path: &str, limit_bytes: usize) -> Reading<Vec<u8>> {
        let place = self.path(path);
        match std::fs::metadata(&place) {
            Ok(metadata) if !metadata.is_file() => return not_regular(path),
            Ok(_) => {}
            Err(error) => return unreadable(path, &error),
        }
        let mut bytes = Vec::new();
        let file = match File::open(&place) {
            Ok(file) => file,
            Err(error) => return unreadable(path, &error),
        };
        // One byte more than allowed, to notice that there is more.
        if let Err(error) = file.take(limit_bytes as u64 + 1).read_to_end(&mut bytes) {
            return unreadable(path, &error);
        }
        if bytes.len() > limit_bytes {
            return Reading::Failed(Failure::TooLong {
                path: path.to_owned(),
                limit_bytes,
            });
        }
        Reading::Value(bytes)
    }
}

fn not_regular<T>(path: &str) -> Reading<T> {
    Reading::Failed(Failure::Unreadable {
        path: path.to_owned(),
        reason: "not a regular file".to_owned(),
    })
}

fn unreadable<T>(path: &str, error: &std::io::Error) -> Reading<T> {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => Reading::NotSupported,
        _ => Reading::Failed(Failure::Unreadable {
            path: path.to_owned(),
            reason: error.to_string(),
        }),
    }
}
