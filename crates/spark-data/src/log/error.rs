//! Why a log cannot be read on.

use std::io;

/// Why a log ends, other than by its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The file cannot be read, or what compressed it is broken. A device that lost power leaves such a file.
    #[error("after {events} events, {at} bytes of log: {source}")]
    Read {
        /// Whole events before.
        events: u64,
        /// Bytes of log before, decompressed.
        at: u64,
        /// What was said.
        source: io::Error,
    },
    /// The last message is cut.
    #[error("after {events} events the log ends within a message, {got} bytes behind byte {at}")]
    Cut {
        /// Whole events before.
        events: u64,
        /// Where the message begins, decompressed.
        at: u64,
        /// What there is of it.
        got: u64,
    },
    /// What stands where a message begins is none.
    #[error("after {events} events there is no message at byte {at}: {why}")]
    NoMessage {
        /// Whole events before.
        events: u64,
        /// Where, decompressed.
        at: u64,
        /// What is wrong with it.
        why: String,
    },
    /// The log ended before its first event.
    #[error("there is no event in it")]
    Empty,
    /// A message without a root struct.
    #[error("event {event} is broken: {source}")]
    Event {
        /// Which one, from 0. Reading goes on behind it.
        event: u64,
        /// What is wrong with it.
        source: crate::wire::WireError,
    },
}
