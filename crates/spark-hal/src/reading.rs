//! One thing asked of the machine: a value, "this machine has none", or why it failed.
//!
//! ```text
//! Value(t)      the machine answered
//! NotSupported  the machine says it has no such thing (no file, NVML "not supported")
//! Failed(why)   there may be such a thing, but it could not be read
//! ```
//!
//! Zero is never used for "unknown": on a GB10 the memory query, the power limit
//! and the PCIe link all have no answer, and a 0 would be taken for one.

use std::fmt;
use std::time::Duration;

/// An answer of the machine.
///
/// # Examples
///
/// ```
/// use spark_hal::{Reading, Root};
///
/// let answer: Reading<u64> = Root::at("a-folder-without-files").number("/proc/uptime");
/// match answer {
///     Reading::Value(seconds) => println!("up for {seconds} s"),
///     Reading::NotSupported => println!("no such file"),
///     Reading::Failed(why) => println!("{why}"),
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading<T> {
    /// What the machine answered.
    Value(T),
    /// The machine says that it has no such thing.
    NotSupported,
    /// The question could not be answered.
    Failed(Failure),
}

/// Why a question to the machine had no usable answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The operating system refused.
    #[error("cannot read {path}: {reason}")]
    Unreadable {
        /// The file or directory, without the root prefix.
        path: String,
        /// The operating system's words.
        reason: String,
    },
    /// The file is longer than anything of its kind can be.
    #[error("{path} is longer than {limit_bytes} bytes")]
    TooLong {
        /// The file, without the root prefix.
        path: String,
        /// Bytes read before giving up.
        limit_bytes: usize,
    },
    /// The file holds something else than text.
    #[error("{path} is not text")]
    NotText {
        /// The file, without the root prefix.
        path: String,
    },
    /// The text does not follow its format.
    #[error("{what} is `{got}`, expected {wanted}")]
    Malformed {
        /// The file, field or call.
        what: String,
        /// What stood there, shortened.
        got: String,
        /// What should stand there.
        wanted: &'static str,
    },
    /// A library call returned an error.
    #[error("{call}: {reason}")]
    Call {
        /// Name of the library's function.
        call: &'static str,
        /// The error in the library's words.
        reason: String,
    },
    /// A library call did not come back in time.
    #[error("{call} did not answer within {after:?}")]
    TimedOut {
        /// Name of the library's function.
        call: &'static str,
        /// How long was waited.
        after: Duration,
    },
    /// Nobody to ask: the library or driver is absent.
    #[error("nothing to ask: {reason}")]
    NoSource {
        /// Which library or driver is absent, and why.
        reason: String,
    },
}

impl Failure {
    /// A [`Failure::Malformed`] whose quotation is cut to a readable length.
    #[must_use]
    pub fn malformed(what: impl Into<String>, got: &str, wanted: &'static str) -> Self {
        Self::Malformed {
            what: what.into(),
            got: quote(got),
            wanted,
        }
    }
}

impl<T> Reading<T> {
    /// The value, if there is one.
    pub fn value(self) -> Option<T> {
        match self {
            Self::Value(value) => Some(value),
            Self::NotSupported | Self::Failed(_) => None,
        }
    }

    /// The value by reference, if there is one.
    pub fn as_value(&self) -> Option<&T> {
        match self {
            Self::Value(value) => Some(value),
            Self::NotSupported | Self::Failed(_) => None,
        }
    }

    /// Borrows what is inside.
    pub fn as_ref(&self) -> Reading<&T> {
        match self {
            Self::Value(value) => Reading::Value(value),
            Self::NotSupported => Reading::NotSupported,
            Self::Failed(why) => Reading::Failed(why.clone()),
        }
    }

    /// The same reading with its value converted; the other two states stay as they are.
    pub fn map<U>(self, convert: impl FnOnce(T) -> U) -> Reading<U> {
        match self {
            Self::Value(value) => Reading::Value(convert(value)),
            Self::NotSupported => Reading::NotSupported,
            Self::Failed(why) => Reading::Failed(why),
        }
    }

    /// Converts the value by something that may fail itself.
    pub fn and_then<U>(self, convert: impl FnOnce(T) -> Reading<U>) -> Reading<U> {
        match self {
            Self::Value(value) => convert(value),
            Self::NotSupported => Reading::NotSupported,
            Self::Failed(why) => Reading::Failed(why),
        }
    }

    /// Whether the machine answered.
    pub fn is_value(&self) -> bool {
        matches!(self, Self::Value(_))
    }

    /// Why there is no answer, if the question failed.
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Failed(why) => Some(why),
            Self::Value(_) | Self::NotSupported => None,
        }
    }
}

impl<T> From<Result<T, Failure>> for Reading<T> {
    fn from(result: Result<T, Failure>) -> Self {
        match result {
            Ok(value) => Self::Value(value),
            Err(why) => Self::Failed(why),
        }
    }
}

impl<T> From<Option<T>> for Reading<T> {
    /// `None` is "not supported".
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::NotSupported, Self::Value)
    }
}

/// The value, `not supported`, or `failed: why`.
impl<T: fmt::Display> fmt::Display for Reading<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(value) => value.fmt(f),
            Self::NotSupported => f.pad("not supported"),
            Self::Failed(why) => write!(f, "failed: {why}"),
        }
    }
}

/// The value itself, `null` for "not supported", `{"failed": why}` otherwise.
#[cfg(feature = "serde")]
impl<T: serde::Serialize> serde::Serialize for Reading<T> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap as _;
        match self {
            Self::Value(value) => value.serialize(serializer),
            Self::NotSupported => serializer.serialize_none(),
            Self::Failed(why) => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry("failed", &why.to_string())?;
                map.end()
            }
        }
    }
}

/// At most 100 characters of `text`, control characters shown as `?`.
pub(crate) fn quote(text: &str) -> String {
    const LIMIT: usize = 100;
    let mut quoted: String = text
        .chars()
        .take(LIMIT)
        .map(|c| if c.is_control() { '?' } else { c })
        .collect();
    if text.chars().nth(LIMIT).is_some() {
        quoted.push('…');
    }
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotation_is_short_and_printable() {
        assert_eq!(quote("a\nb\u{7}c"), "a?b?c");
        assert_eq!(quote(&"x".repeat(1_000_000)).chars().count(), 101);
    }

    #[test]
    fn display_never_shows_zero_for_unknown() {
        assert_eq!(Reading::<u32>::NotSupported.to_string(), "not supported");
        let failed = Reading::<u32>::Failed(Failure::NotText { path: "/a".into() });
        assert_eq!(failed.to_string(), "failed: /a is not text");
        assert_eq!(Reading::Value(3).to_string(), "3");
    }
}
