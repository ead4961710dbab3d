//! One file of systemd's journal: the messages of the kernel in it, newest first.
//!
//! ```text
//! header       "LPKSHHRH", flags, where the table of fields begins
//! field        _TRANSPORT --> its data objects, one for each value
//! data         _TRANSPORT=kernel --> its entries: one, and a chain of arrays of the others, each twice as long as the last
//! entry        realtime, time and number of the boot, and the data objects that make it up; one of them begins with MESSAGE=
//! ```
//!
//! Source: <https://systemd.io/JOURNAL_FILE_FORMAT>, and systemd 255's `journal-def.h` for what that leaves out. All
//! numbers are little-endian; in compact files references have 32 bits.
//!
//! Whoever writes to that folder writes anything: every reference is held against the file's length, chains only
//! lead forward and end after a bound, memory does not hang on what the file says, and behind the time limit nothing more is read.
//!
//! Not read: data objects that are compressed, which journald does from 512 bytes on (what the doctor looks for is
//! shorter); they are counted. Seals and hashes are not checked.

use std::collections::HashSet;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::time::Instant;

use super::super::log::Log;
use super::super::when::Moment;
use super::boots::{Boots, is_sleep};

const SIGNATURE: &[u8] = b"LPKSHHRH";
/// Compressed by XZ, LZ4 and ZSTD, keyed hashes, compact: what may be set among the incompatible flags.
const KNOWN_FLAGS: u32 = 0b1_1111;
const COMPACT: u32 = 1 << 4;
/// Of an object's flags: any of the three compressions.
const COMPRESSED: u8 = 0b111;

const DATA: u8 = 1;
const FIELD: u8 = 2;
const ENTRY: u8 = 3;
const ENTRY_ARRAY: u8 = 6;

const WINDOW_BYTES: usize = 64 << 10;
/// What of a window lies behind the place that was asked for: entries stand behind their data.
const BEHIND_BYTES: usize = 4 << 10;
/// Longest message that is taken.
const MESSAGE_BYTES: usize = 2 << 10;
const FIELDS_LIMIT: usize = 4096;
const VALUES_LIMIT: usize = 256;
const ITEMS_LIMIT: usize = 256;
const KNOWN_LIMIT: usize = 1 << 16;
/// Far more than twenty, which hold millions of entries.
const ARRAYS_LIMIT: usize = 1024;

/// Why a file is not read.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotRead {
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("it is no journal")]
    NoJournal,
    #[error("it has flags {0:#x} that are not known here")]
    Flags(u32),
}

pub(super) struct JournalFile {
    file: File,
    is_compact: bool,
    fields_offset: u64,
    fields_bytes: u64,
    window: Vec<u8>,
    window_from: u64,
    /// When reading ends, whatever is left.
    deadline: Option<Instant>,
    /// Whether it has ended so.
    is_late: bool,
}

/// The begin of an object.
struct Object {
    kind: u8,
    flags: u8,
    bytes: u64,
}

impl JournalFile {
    pub(super) fn open(path: &Path) -> Result<Self, NotRead> {
        if !path.metadata()?.is_file() {
            return Err(NotRead::NoJournal);
        }
        let mut journal = Self {
            file: File::open(path)?,
            is_compact: false,
            fields_offset: 0,
            fields_bytes: 0,
            window: Vec::new(),
            window_from: 0,
            deadline: None,
            is_late: false,
        };
        if journal.bytes(0, SIGNATURE.len()) != Some(SIGNATURE) {
            return Err(NotRead::NoJournal);
        }
        let flags = journal.u32(12).ok_or(NotRead::NoJournal)?;
        if flags & !KNOWN_FLAGS != 0 {
            return Err(NotRead::Flags(flags));
        }
        journal.is_compact = flags & COMPACT != 0;
        journal.fields_offset = journal.u64(120).ok_or(NotRead::NoJournal)?;
        journal.fields_bytes = journal.u64(128).ok_or(NotRead::NoJournal)?;
        Ok(journal)
    }

    /// Adds the kernel's messages to `log`, newest first, as long as there is time and `most` are not reached; whether all of
    /// them were read.
    pub(super) fn read_kernel(
        &mut self,
        log: &mut Log,
        boots: &mut Boots,
        most: usize,
        deadline: Instant,
    ) -> bool {
        self.deadline = Some(deadline);
        // When the file's last entry was made, of any program.
        let tail = self.u64(192).map(|at| at / 1_000_000);
        let tail = tail.and_then(|at| Some(Moment(i64::try_from(at).ok()?)));
        log.saw(tail);
        // A file that has no word of the kernel yet has no such data object either.
        let Some(data) = self.data_of(b"_TRANSPORT", b"_TRANSPORT=kernel") else {
            return !self.is_late;
        };
        let entries = self.kernel_entries(data, most, log).unwrap_or_default();
        let mut not_messages = HashSet::new();
        for offset in entries {
            let is_read = self.read_entry(offset, log, boots, &mut not_messages);
            self.is_late |= Instant::now() >= deadline;
            if self.is_late {
                break;
            }
            log.is_damaged |= is_read.is_none();
        }
        !self.is_late
    }

    /// Where the newest entries of the kernel are, newest first. Of each array but the last ones nothing but its begin is read.
    fn kernel_entries(&mut self, data: u64, most: usize, log: &mut Log) -> Option<Vec<u64>> {
        let first = self.u64(data + 40)?;
        let mut array = self.u64(data + 48)?;
        let mut arrays = Vec::new();
        while array != 0 {
            let object = self.object(array);
            let object = object.filter(|object| object.kind == ENTRY_ARRAY);
            let next = self.u64(array.saturating_add(16));
            let (Some(object), Some(next), true) = (object, next, arrays.len() < ARRAYS_LIMIT)
            else {
                log.is_damaged |= !self.is_late;
                break;
            };
            arrays.push((array, object.bytes.saturating_sub(24) / self.item_bytes()));
            // An array is made after the one before it: a chain that leads back would never end.
            if next != 0 && next <= array {
                log.is_damaged = true;
                break;
            }
            array = next;
        }
        let mut entries = Vec::new();
        for (array, n_items) in arrays.into_iter().rev() {
            let n_used = self.n_used(array, n_items);
            for number in (0..n_used).rev() {
                if entries.len() >= most || self.is_late {
                    return Some(entries);
                }
                entries.extend(self.item(array, number));
            }
        }
        if first != 0 && entries.len() < most {
            entries.push(first);
        }
        Some(entries)
    }

    fn item_bytes(&self) -> u64 {
        if self.is_compact { 4 } else { 8 }
    }

    /// An entry of an array; `None` where there is none yet.
    fn item(&mut self, array: u64, number: u64) -> Option<u64> {
        let at = number.checked_mul(self.item_bytes())?;
        let at = array.checked_add(24)?.checked_add(at)?;
        let item = if self.is_compact {
            self.u32(at).map(u64::from)
        } else {
            self.u64(at)
        };
        item.filter(|entry| *entry != 0)
    }

    /// How many items of an array are taken: they are filled from its begin on.
    fn n_used(&mut self, array: u64, n_items: u64) -> u64 {
        let (mut used, mut free) = (0, n_items);
        while used < free {
            let middle = used + (free - used) / 2;
            if self.item(array, middle).is_some() {
                used = middle + 1;
            } else {
                free = middle;
            }
        }
        used
    }

    /// The data object with this value of a field.
    fn data_of(&mut self, name: &[u8], value: &[u8]) -> Option<u64> {
        let mut data = self.field(name)?;
        let payload_at = self.payload_at();
        for _ in 0..VALUES_LIMIT {
            let object = self.object(data).filter(|object| object.kind == DATA)?;
            let is_it = object.flags & COMPRESSED == 0
                && object.bytes == payload_at + value.len() as u64
                && self.bytes(data + payload_at, value.len()) == Some(value);
            if is_it {
                return Some(data);
            }
            data = self.u64(data + 32).filter(|next| *next != 0)?;
        }
        None
    }

    /// The first data object of a field, found by looking through the whole table of fields, which is small.
    fn field(&mut self, name: &[u8]) -> Option<u64> {
        let mut n_seen = 0;
        for bucket in 0..(self.fields_bytes / 16).min(FIELDS_LIMIT as u64) {
            let mut field = self.u64(self.fields_offset.checked_add(bucket * 16)?)?;
            while field != 0 && n_seen < FIELDS_LIMIT {
                n_seen += 1;
                let object = self.object(field).filter(|object| object.kind == FIELD)?;
                let is_it = object.bytes == 40 + name.len() as u64
                    && self.bytes(field + 40, name.len()) == Some(name);
                if is_it {
                    return self.u64(field + 32).filter(|data| *data != 0);
                }
                field = self.u64(field + 24)?;
            }
        }
        None
    }

    fn read_entry(
        &mut self,
        entry: u64,
        log: &mut Log,
        boots: &mut Boots,
        not_messages: &mut HashSet<u64>,
    ) -> Option<()> {
        const MESSAGE: &[u8] = b"MESSAGE=";
        let object = self.object(entry).filter(|object| object.kind == ENTRY)?;
        let (stamped, counted) = (self.u64(entry + 24)?, self.u64(entry + 32)?);
        let boot: [u8; 16] = self.bytes(entry + 40, 16)?.try_into().ok()?;
        let microseconds = boots.time_of(boot, stamped, counted);
        let when = i64::try_from(microseconds / 1_000_000).ok().map(Moment);
        let item_bytes = if self.is_compact { 4 } else { 16 };
        let n_items = (object.bytes.saturating_sub(64) / item_bytes).min(ITEMS_LIMIT as u64);
        let payload_at = self.payload_at();
        let mut is_compressed = false;
        for number in 0..n_items {
            let at = entry + 64 + number * item_bytes;
            let data = if self.is_compact {
                u64::from(self.u32(at)?)
            } else {
                self.u64(at)?
            };
            if not_messages.contains(&data) {
                continue;
            }
            let Some(object) = self.object(data).filter(|object| object.kind == DATA) else {
                continue;
            };
            if object.flags & COMPRESSED != 0 {
                is_compressed = true;
                continue;
            }
            let length = object
                .bytes
                .saturating_sub(payload_at)
                .min(MESSAGE_BYTES as u64);
            let length = usize::try_from(length).ok()?;
            let payload = self.bytes(data + payload_at, length).unwrap_or_default();
            if let Some(message) = payload.strip_prefix(MESSAGE) {
                let message = String::from_utf8_lossy(message).into_owned();
                log.add(when, None, &message);
                if is_sleep(&message) {
                    boots.forget(boot);
                }
                return Some(());
            }
            if not_messages.len() < KNOWN_LIMIT {
                not_messages.insert(data);
            }
        }
        if is_compressed {
            log.n_unread += 1;
        }
        Some(())
    }

    fn payload_at(&self) -> u64 {
        if self.is_compact { 72 } else { 64 }
    }

    fn object(&mut self, offset: u64) -> Option<Object> {
        let header = self.bytes(offset, 16)?;
        let (kind, flags) = (header[0], header[1]);
        Some(Object {
            kind,
            flags,
            bytes: self.u64(offset + 8)?,
        })
    }

    fn u32(&mut self, offset: u64) -> Option<u32> {
        let bytes = self.bytes(offset, 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    }

    fn u64(&mut self, offset: u64) -> Option<u64> {
        let bytes = self.bytes(offset, 8)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }

    /// Bytes of the file, out of a window that is moved where they are not in it.
    fn bytes(&mut self, offset: u64, length: usize) -> Option<&[u8]> {
        let end = offset.checked_add(length as u64)?;
        let is_in =
            offset >= self.window_from && end <= self.window_from + self.window.len() as u64;
        if !is_in {
            if self.deadline.is_some_and(|end| Instant::now() >= end) {
                self.is_late = true;
                return None;
            }
            let reach = (WINDOW_BYTES - BEHIND_BYTES) as u64;
            self.window_from = end.saturating_sub(reach);
            self.window.clear();
            self.file.seek(SeekFrom::Start(self.window_from)).ok()?;
            let mut limited = (&mut self.file).take(WINDOW_BYTES as u64);
            limited.read_to_end(&mut self.window).ok()?;
        }
        let from = usize::try_from(offset.checked_sub(self.window_from)?).ok()?;
        self.window.get(from..from.checked_add(length)?)
    }
}
