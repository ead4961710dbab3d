//! Logs: files of events.
//!
//! ```text
//! rlog, qlog ── compression, by content ──> messages, one after the other ──> events
//!               bzip2, zstd or none         each at most a limit of bytes      time, validity, one struct or list
//! ```

mod body;
mod compression;
mod error;
mod event;
mod names;
mod reader;

pub use body::Body;
pub use compression::Compression;
pub use error::LogError;
pub use event::Event;
pub use names::event_name;
pub use reader::LogReader;
