//! From the text of a variable to its value.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::reading::quote;

use super::declaration::{Declaration, InvalidValue};

/// An environment being read; collects what was not understood.
pub(super) struct Environment<F> {
    look_up: F,
    invalid: Vec<InvalidValue>,
}

impl<F: Fn(&str) -> Option<OsString>> Environment<F> {
    pub(super) fn new(look_up: F) -> Self {
        Self {
            look_up,
            invalid: Vec::new(),
        }
    }

    pub(super) fn into_invalid(self) -> Vec<InvalidValue> {
        self.invalid
    }

    /// The variable's value, or its default (noting an invalid value).
    pub(super) fn get<T>(
        &mut self,
        declaration: &Declaration,
        parse: impl Fn(&str) -> Option<T>,
    ) -> T {
        if let Some(raw) = (self.look_up)(declaration.name) {
            let text = raw.to_string_lossy();
            if !text.trim().is_empty() {
                // Bytes that are not UTF-8 are no word of any variable, and a
                // path mended by the lossy conversion would be another path.
                let parsed = raw.to_str().and_then(|text| parse(text.trim()));
                if let Some(value) = parsed {
                    return value;
                }
                self.invalid.push(InvalidValue {
                    name: declaration.name,
                    got: quote(&text),
                    accepts: declaration.accepts,
                    default: declaration.default_words(),
                });
            }
        }
        parse(declaration.default).expect("a test parses the default of every declaration")
    }

    /// `$XDG_CACHE_HOME/spark`, else `$HOME/.cache/spark`.
    ///
    /// Source: XDG Base Directory Specification 0.8 (a relative path is ignored).
    pub(super) fn user_cache_directory(&self) -> Option<PathBuf> {
        let absolute = |name: &str| {
            let path = PathBuf::from((self.look_up)(name)?);
            path.is_absolute().then_some(path)
        };
        let base = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
        Some(base.join("spark"))
    }
}

pub(super) fn flag(text: &str) -> Option<bool> {
    match text {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

pub(super) fn debug_level(text: &str) -> Option<u8> {
    text.parse().ok().filter(|level| *level <= 3)
}

/// An absolute directory, or nothing for an empty text.
#[expect(clippy::option_option, reason = "outer: understood; inner: given")]
pub(super) fn absolute_directory(text: &str) -> Option<Option<PathBuf>> {
    if text.is_empty() {
        return Some(None);
    }
    let path = PathBuf::from(text);
    path.is_absolute().then_some(Some(path))
}
