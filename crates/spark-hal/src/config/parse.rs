//! From the text of a variable to its value.

use std::ffi::OsString;
use std::path::PathBuf;

use super::{CudaUse, Declaration, DeviceChoice, InvalidValue, PrecisionChoice};
use crate::reading::quote;

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
                    default: super::page::default_words(declaration),
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

pub(super) fn precision(text: &str) -> Option<PrecisionChoice> {
    if text.eq_ignore_ascii_case("auto") {
        return Some(PrecisionChoice::Auto);
    }
    text.parse().ok().map(PrecisionChoice::Fixed)
}

pub(super) fn cuda_use(text: &str) -> Option<CudaUse> {
    match text {
        "" => Some(CudaUse::Auto),
        "0" => Some(CudaUse::Never),
        "1" => Some(CudaUse::Require),
        _ => None,
    }
}

pub(super) fn device(text: &str) -> Option<DeviceChoice> {
    let lower = text.to_ascii_lowercase();
    match lower.as_str() {
        "auto" => Some(DeviceChoice::Auto),
        "cpu" => Some(DeviceChoice::Cpu),
        "cuda" => Some(DeviceChoice::Cuda(None)),
        other => {
            let digits = other.strip_prefix("cuda:")?;
            let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
            let number = digits.parse().ok().filter(|_| plain)?;
            Some(DeviceChoice::Cuda(Some(number)))
        }
    }
}

pub(super) fn debug_level(text: &str) -> Option<u8> {
    text.parse().ok().filter(|level| *level <= 3)
}

/// A directory, or nothing for an empty text.
#[expect(clippy::option_option, reason = "outer: understood; inner: given")]
pub(super) fn directory(text: &str) -> Option<Option<PathBuf>> {
    Some((!text.is_empty()).then(|| PathBuf::from(text)))
}

/// An absolute directory, or nothing for an empty text.
#[expect(clippy::option_option, reason = "outer: understood; inner: given")]
pub(super) fn absolute_directory(text: &str) -> Option<Option<PathBuf>> {
    let path = directory(text)?;
    match &path {
        Some(given) if !given.is_absolute() => None,
        _ => Some(path),
    }
}
