//! Events of a run as TensorBoard reads them.
//!
//! ```text
//! file     events.out.tfevents.<seconds>.<nanoseconds>.<process>      a new one each time, so that names are in the order of time
//! record   length u64 · masked CRC-32C of it · Event · masked CRC-32C of that            little-endian (TFRecord)
//! Event    1 wall_time double · 2 step int64 · one of
//!          3 file_version "brain.Event:2", the first record · 5 summary · 7 session_log { 1 status START }
//! summary  1 value { 1 tag string · 2 simple_value float }, for each scalar
//! mask     (crc >> 15 | crc << 17) + 0xA282EAD8
//! ```
//!
//! A run that is resumed writes a file of its own, and before its first event a start of the session at that step: TensorBoard then drops
//! what a run that was killed had shown from there on.
//!
//! Formats: TensorFlow's `tensorflow/core/lib/io/record_writer.h`, `tensorflow/core/util/event.proto` and `summary.proto`; CRC-32C is that
//! of RFC 3720, appendix B.4.
//!
//! Deliberately absent: histograms, pictures and graphs; the code that protobuf's compiler would make of four messages.

use std::fs::File;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::error::{Result, TrainError};
use crate::trainer::{Event, Go, Observer};

/// What writes a run's scalars for TensorBoard, one record an event; each is in the file when [`Observer::event`] returns.
///
/// | tag | of | |
/// |---|---|---|
/// | `loss/train`, `loss/<head>` | step | weighted sum; each head, unweighted |
/// | `loss/validation` | epoch | at the step that ended it, if samples are held back |
/// | `rate`, `gradient_norm`, `samples_per_second` | step | |
/// | `waiting_for_samples` | step | which part of its time, 0 to 1 |
/// | `skipped` | step that was not made | how many there were since the file was begun |
///
/// A head called `train` or `validation` is `loss/head/<head>`.
///
/// # Examples
///
/// ```
/// use spark_train::{Event, Observer, TensorBoard};
///
/// # let folder = std::env::temp_dir().join(format!("spark-tensorboard-{}", std::process::id()));
/// let mut board = TensorBoard::new(&folder)?;
/// board.event(&Event::Skipped { step: 3, loss: f64::NAN, in_a_row: 1 });
/// assert!(board.failure().is_none() && board.path().is_file());
/// # std::fs::remove_dir_all(&folder).unwrap();
/// # Ok::<(), spark_train::TrainError>(())
/// ```
#[derive(Debug)]
pub struct TensorBoard {
    path: PathBuf,
    file: File,
    /// The last step that was told of; `None` before the first.
    step: Option<u64>,
    n_skipped: u64,
    failure: Option<io::Error>,
}

impl TensorBoard {
    /// A new file in `folder`, which is made if it is not there.
    ///
    /// # Errors
    ///
    /// [`TrainError::Io`] naming the folder or the file.
    pub fn new(folder: &Path) -> Result<Self> {
        let io = |path: &Path| {
            let path = path.to_owned();
            move |source| TrainError::Io { path, source }
        };
        std::fs::create_dir_all(folder).map_err(io(folder))?;
        let (path, file) = new_file(folder).map_err(io(folder))?;
        let mut board = Self {
            path: path.clone(),
            file,
            step: None,
            n_skipped: 0,
            failure: None,
        };
        let version = field(3, b"brain.Event:2");
        board.write(None, &version).map_err(io(&path))?;
        Ok(board)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Why nothing more is written, if a record could not be: that is no reason to end a run.
    pub fn failure(&self) -> Option<&io::Error> {
        self.failure.as_ref()
    }

    fn add(&mut self, event: &Event) -> io::Result<()> {
        match event {
            Event::Step {
                step,
                loss,
                parts,
                rate,
                norm,
                samples_per_second,
                waiting,
                ..
            } => {
                let mut summary = scalar("loss/train", *loss);
                for (head, loss) in parts {
                    summary.extend(scalar(&tag_of(head), *loss));
                }
                summary.extend(scalar("rate", *rate));
                summary.extend(scalar("gradient_norm", *norm));
                summary.extend(scalar("samples_per_second", *samples_per_second));
                summary.extend(scalar("waiting_for_samples", *waiting));
                self.summary(*step, &summary)
            }
            Event::Skipped { step, .. } => {
                self.n_skipped += 1;
                let summary = scalar("skipped", self.n_skipped as f64);
                self.summary(*step, &summary)
            }
            Event::Epoch {
                validation: Some(loss),
                ..
            } => {
                let summary = scalar("loss/validation", *loss);
                self.summary(self.step.unwrap_or(0), &summary)
            }
            _ => Ok(()),
        }
    }

    fn summary(&mut self, step: u64, values: &[u8]) -> io::Result<()> {
        if self.step.is_none() {
            let start = [1 << 3, 1]; // status: START
            self.write(Some(step), &field(7, &start))?;
        }
        self.step = Some(step);
        self.write(Some(step), &field(5, values))
    }

    /// An event with the time and `what`, in one call to the system.
    fn write(&mut self, step: Option<u64>, what: &[u8]) -> io::Result<()> {
        let mut event = vec![(1 << 3) | FIXED_64];
        event.extend(since_1970().as_secs_f64().to_le_bytes());
        if let Some(step) = step {
            event.push(2 << 3);
            event.extend(varint(step));
        }
        event.extend(what);
        self.file.write_all(&record(&event))
    }
}

impl Observer for TensorBoard {
    /// Writes the event and goes on, whether or not that worked: [`TensorBoard::failure`] says so.
    fn event(&mut self, event: &Event) -> Go {
        if self.failure.is_none() {
            self.failure = self.add(event).err();
        }
        Go::On
    }
}

/// A file of a name that nothing in the folder has.
fn new_file(folder: &Path) -> io::Result<(PathBuf, File)> {
    loop {
        let now = since_1970();
        let (seconds, nanos) = (now.as_secs(), now.subsec_nanos());
        let process = std::process::id();
        let name = format!("events.out.tfevents.{seconds:010}.{nanos:09}.{process}");
        let path = folder.join(name);
        match File::create_new(&path) {
            // The clock goes on.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            file => return Ok((path, file?)),
        }
    }
}

/// 0 by a clock that stands before it.
fn since_1970() -> Duration {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default()
}

fn tag_of(head: &str) -> String {
    match head {
        "train" | "validation" => format!("loss/head/{head}"),
        _ => format!("loss/{head}"),
    }
}

/// Kinds of fields on the wire (protobuf, "Encoding").
const FIXED_64: u8 = 1;
const BYTES: u8 = 2;
const FIXED_32: u8 = 5;

/// A field of bytes: text or another message.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut field = vec![(number << 3) | BYTES];
    field.extend(varint(bytes.len() as u64));
    field.extend(bytes);
    field
}

/// A value of a summary.
fn scalar(tag: &str, value: f64) -> Vec<u8> {
    let mut message = field(1, tag.as_bytes());
    message.push((2 << 3) | FIXED_32);
    message.extend((value as f32).to_le_bytes());
    field(1, &message)
}

/// Seven bits a byte, the lowest first; the highest bit says that more follow.
fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(10);
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

fn record(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    let mut record = Vec::with_capacity(data.len() + 16);
    record.extend(length);
    record.extend(masked(crc_32c(&length)).to_le_bytes());
    record.extend(data);
    record.extend(masked(crc_32c(data)).to_le_bytes());
    record
}

/// So that a checksum of data that holds checksums is no constant.
fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xA282_EAD8)
}

fn crc_32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| (crc >> 8) ^ TABLE[usize::from(crc as u8 ^ byte)];
    !bytes.iter().fold(u32::MAX, step)
}

/// Remainder of each byte by Castagnoli's polynomial, its bits in reverse.
const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            let carry = crc & 1;
            crc = (crc >> 1) ^ (0x82F6_3B78 * carry);
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests;
