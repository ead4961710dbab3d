//! Figures of a machine on disk.
//!
//! ```text
//! <cache>/memory/<id>.txt     id: SHA-256 of all that the figures depend on (`Machine`)
//!
//! spark-mem memory kinds 1
//! machine <id>                a file that was copied or renamed is another machine's
//! about NVIDIA GB10, compute capability 12.1, …        for people
//! round 4194304 9             bytes of a round, rounds
//! System 300000 90000 310000 700000 690000             nanoseconds, in the order of `KindSpeed`
//! Pinned …
//! sha256 <of the lines above>
//! ```
//!
//! The figures are kept and not the choice, so that the rule decides anew. Whatever is not exactly
//! right is as if it were not there, and is measured again. Files are written whole or not at all.

#![allow(unsafe_code, reason = "asks the C library for the size of a page")]

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use spark_hal::Root;

use crate::kind::BufferKind;

use super::choice::{KindMeasurement, KindSpeed};

const FIRST_LINE: &str = "spark-mem memory kinds 1";
/// More than any such file has; of a longer one nothing is read.
const LARGEST_BYTES: u64 = 4 << 10;

/// What figures depend on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Machine {
    /// Everything, one thing a line. Not kept as it is: it names the GPU.
    identity: String,
    /// Without what names this very GPU, for people.
    about: String,
}

impl Machine {
    /// The machine under `root`, with this GPU. `gpu` and `about` are the driver's words, the first
    /// with what tells the GPU from others of its model.
    pub(super) fn new(root: &Root, gpu: &str, about: &str) -> Self {
        let line = |path: &str| root.line(path).value().unwrap_or_default();
        let driver = line("/sys/module/nvidia/version");
        let kernel = line("/proc/sys/kernel/osrelease");
        let page_bytes = page_bytes();
        let about =
            format!("{about}, driver {driver}, Linux {kernel}, pages of {page_bytes} bytes");
        Self {
            identity: format!("{gpu}\n{about}"),
            about: one_line(&about),
        }
    }

    fn id(&self) -> String {
        hexadecimal(&Sha256::digest(&self.identity))
    }

    /// Where its figures are or would be.
    pub(super) fn path(&self, cache_dir: &Path) -> PathBuf {
        cache_dir.join("memory").join(format!("{}.txt", self.id()))
    }

    /// Its figures for these kinds, if they are kept and whole; a reason if there is a file that is
    /// not used.
    pub(super) fn read(
        &self,
        cache_dir: &Path,
        kinds: &[BufferKind],
    ) -> Result<Option<KindMeasurement>, String> {
        let text = match read_text(&self.path(cache_dir)) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        let measurement = self.parse(&text)?;
        let has_all = measurement.speeds.len() == kinds.len()
            && measurement
                .speeds
                .iter()
                .zip(kinds)
                .all(|(speed, kind)| speed.kind == *kind);
        if !has_all {
            return Err("it has figures of other kinds of memory".to_owned());
        }
        Ok(Some(measurement))
    }

    /// Keeps figures, replacing what is there.
    pub(super) fn write(&self, cache_dir: &Path, measurement: &KindMeasurement) -> io::Result<()> {
        let path = self.path(cache_dir);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        // A pipe or a link in its place is nobody's output: to write into a pipe is to wait for a reader.
        if fs::symlink_metadata(&path).is_ok_and(|metadata| !metadata.is_file()) {
            fs::remove_file(&path)?;
        }
        spark_files::write(&path, self.text(measurement))
    }

    fn text(&self, measurement: &KindMeasurement) -> String {
        let mut text = format!(
            "{FIRST_LINE}\nmachine {}\nabout {}\n",
            self.id(),
            self.about
        );
        let KindMeasurement {
            len_bytes,
            n_rounds,
            speeds,
        } = measurement;
        // Writing to a `String` cannot fail, here and below.
        let _ = writeln!(text, "round {len_bytes} {n_rounds}");
        for speed in speeds {
            let _ = write!(text, "{:?}", speed.kind);
            for time in times_of(speed) {
                let _ = write!(text, " {}", time.as_nanos());
            }
            text.push('\n');
        }
        let sum = hexadecimal(&Sha256::digest(&text));
        let _ = writeln!(text, "sha256 {sum}");
        text
    }

    fn parse(&self, text: &str) -> Result<KindMeasurement, String> {
        let damaged = || "it is damaged".to_owned();
        let (body, sum) = text.rsplit_once("sha256 ").ok_or_else(damaged)?;
        if sum.strip_suffix('\n') != Some(hexadecimal(&Sha256::digest(body)).as_str()) {
            return Err(damaged());
        }
        let mut lines = body.lines();
        if lines.next() != Some(FIRST_LINE) {
            return Err("it is of another version".to_owned());
        }
        let machine = lines.next().and_then(|line| line.strip_prefix("machine "));
        if machine != Some(self.id().as_str()) {
            return Err("it is of another machine".to_owned());
        }
        let _about = lines.next();
        let round = lines.next().and_then(|line| line.strip_prefix("round "));
        let (len_bytes, n_rounds) = round
            .and_then(|round| round.split_once(' '))
            .and_then(|(bytes, rounds)| Some((bytes.parse().ok()?, rounds.parse().ok()?)))
            .ok_or_else(damaged)?;
        Ok(KindMeasurement {
            len_bytes,
            n_rounds,
            speeds: lines
                .map(speed_of)
                .collect::<Option<_>>()
                .ok_or_else(damaged)?,
        })
    }
}

fn times_of(speed: &KindSpeed) -> [Duration; 5] {
    [
        speed.host_writes,
        speed.device_updates,
        speed.host_reads,
        speed.round,
        speed.fastest_round,
    ]
}

/// A line of figures.
fn speed_of(line: &str) -> Option<KindSpeed> {
    let mut words = line.split(' ');
    let name = words.next()?;
    let kind = BufferKind::ALL
        .into_iter()
        .find(|kind| format!("{kind:?}") == name)?;
    let mut next = || Some(Duration::from_nanos(words.next()?.parse().ok()?));
    let speed = KindSpeed {
        kind,
        host_writes: next()?,
        device_updates: next()?,
        host_reads: next()?,
        round: next()?,
        fastest_round: next()?,
    };
    words.next().is_none().then_some(speed)
}

fn read_text(path: &Path) -> io::Result<String> {
    let (file, len_bytes) = spark_files::open(path)?;
    if len_bytes > LARGEST_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is too long"));
    }
    let mut text = String::new();
    file.take(LARGEST_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

/// Bytes of a page, which the host's kernel is built for.
fn page_bytes() -> i64 {
    // SAFETY: a number of the C library, which takes and touches no memory.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) }
}

fn hexadecimal(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Words of the machine's, which may hold anything, without what would end the line.
fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}
