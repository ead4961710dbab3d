//! Reading a log, event by event, in constant memory.

use std::io::{self, Read};
use std::path::Path;

use super::compression::Compression;
use super::error::LogError;
use super::event::Event;
use crate::wire::Message;

/// Most segments of a message.
const MAX_SEGMENTS: u64 = 512;
/// Most bytes of a message; that of a log without video is far below.
const MAX_MESSAGE_BYTES: u64 = 64 << 20;

/// Reads events of a log.
///
/// Memory is that of the largest message, whatever the file says: bytes are taken as they come.
///
/// ```no_run
/// use spark_data::log::{Body, LogReader};
///
/// let mut log = LogReader::open("qlog.bz2".as_ref())?;
/// while let Some(event) = log.next_event() {
///     let event = event?;
///     if let Ok(Body::CarState(car)) = event.body() {
///         println!("{} ns: {} m/s", event.log_mono_time(), car.v_ego());
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct LogReader<'r> {
    from: Box<dyn Read + Send + 'r>,
    compression: Compression,
    message: Message,
    /// Sizes of the segments of the message that is read, as they stand in the file.
    sizes: Vec<u8>,
    events: u64,
    /// Bytes before the next message.
    at: u64,
    is_over: bool,
}

impl std::fmt::Debug for LogReader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("LogReader");
        shown.field("compression", &self.compression);
        shown.field("events", &self.events).field("at", &self.at);
        shown.finish_non_exhaustive()
    }
}

impl LogReader<'static> {
    /// Opens a file, which is to be a regular one.
    ///
    /// # Errors
    ///
    /// The operating system's; [`io::ErrorKind::InvalidInput`] for a pipe or device.
    pub fn open(path: &Path) -> io::Result<Self> {
        let (file, _) = spark_files::open(path)?;
        Self::new(file)
    }
}

impl<'r> LogReader<'r> {
    /// Reads what comes from `from`, compressed or not.
    ///
    /// # Errors
    ///
    /// Reading's.
    pub fn new(from: impl Read + Send + 'r) -> io::Result<Self> {
        let (compression, from) = Compression::reader(from)?;
        Ok(Self {
            from,
            compression,
            message: Message::default(),
            sizes: Vec::new(),
            events: 0,
            at: 0,
            is_over: false,
        })
    }

    /// What the log is compressed with.
    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// How many messages were read so far.
    pub fn events_read(&self) -> u64 {
        self.events
    }

    /// The next event; `None` behind the last one. Behind a cut message, or where no message begins, nothing more comes;
    /// behind a broken event ([`LogError::Event`]) reading goes on.
    pub fn next_event(&mut self) -> Option<Result<Event<'_>, LogError>> {
        if self.is_over {
            return None;
        }
        match self.read_message() {
            Ok(true) => {}
            Ok(false) => {
                self.is_over = true;
                return None;
            }
            Err(error) => {
                self.is_over = true;
                return Some(Err(error));
            }
        }
        let event = self.events;
        self.events += 1;
        self.message.begin();
        Some(Event::new(&self.message).map_err(|source| LogError::Event { event, source }))
    }

    /// Reads a message; false at the end of the log.
    fn read_message(&mut self) -> Result<bool, LogError> {
        self.sizes.clear();
        let got = self.fill_sizes(8)?;
        match got {
            0 => return Ok(false),
            8 => {}
            got => return Err(self.cut(got)),
        }
        let word = |bytes: &[u8], index: usize| {
            let bytes = bytes.get(index * 4..index * 4 + 4);
            bytes
                .and_then(|bytes| bytes.try_into().ok())
                .map_or(0, u32::from_le_bytes)
        };
        let n_segments = u64::from(word(&self.sizes, 0)) + 1;
        if n_segments > MAX_SEGMENTS {
            return Err(
                self.no_message(format!("{n_segments} segments, of at most {MAX_SEGMENTS}"))
            );
        }
        // The count and the sizes, padded to whole words.
        let header = (4 + 4 * n_segments).next_multiple_of(8);
        let got = 8 + self.fill_sizes(header - 8)?;
        if got < header {
            return Err(self.cut(got));
        }
        self.message.segments.clear();
        let mut end = 0u64;
        for index in 1..=n_segments as usize {
            let first = end;
            end += u64::from(word(&self.sizes, index)) * 8;
            if end > MAX_MESSAGE_BYTES {
                return Err(self.no_message(format!(
                    "{end} bytes or more, of at most {MAX_MESSAGE_BYTES}"
                )));
            }
            self.message.segments.push(first as usize..end as usize);
        }
        if end == 0 {
            return Err(self.no_message("it has no words".to_owned()));
        }
        self.message.bytes.clear();
        let body = self
            .from
            .by_ref()
            .take(end)
            .read_to_end(&mut self.message.bytes);
        let got = body.map_err(|source| self.read(source))? as u64;
        if got < end {
            return Err(self.cut(header + got));
        }
        self.at += header + end;
        Ok(true)
    }

    /// Reads so many bytes of a header, less at the end; how many.
    fn fill_sizes(&mut self, n_bytes: u64) -> Result<u64, LogError> {
        let got = self
            .from
            .by_ref()
            .take(n_bytes)
            .read_to_end(&mut self.sizes);
        got.map(|got| got as u64)
            .map_err(|source| self.read(source))
    }

    fn read(&self, source: io::Error) -> LogError {
        LogError::Read {
            events: self.events,
            at: self.at,
            source,
        }
    }

    fn cut(&self, got: u64) -> LogError {
        LogError::Cut {
            events: self.events,
            at: self.at,
            got,
        }
    }

    fn no_message(&self, why: String) -> LogError {
        LogError::NoMessage {
            events: self.events,
            at: self.at,
            why,
        }
    }
}
