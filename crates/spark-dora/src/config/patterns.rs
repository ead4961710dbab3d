//! Values by pattern, found as PEFT finds them.
//!
//! ```text
//! for key in patterns, in the file's order:
//!     if re.match(rf"(.*\.)?({key})$", name): return patterns[key]
//! return patterns.get(name, default)
//! ```
//!
//! So `.` stands for any character, a pattern matches whole dotted parts at the end of a name, and the
//! first of several decides, not the longest: `get_pattern_key` of PEFT 0.21.2.

use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};

use super::python_regex::{self, PythonRegex, Reason};

/// Values by pattern, in the order they were inserted or a file lists them.
///
/// # Examples
///
/// ```
/// let mut ranks = spark_dora::Patterns::default();
/// ranks.insert("fc", 4);
/// ranks.insert("head.fc", 8);
/// // Both match; the first decides.
/// assert_eq!(ranks.find("head.fc")?, Some(&4));
/// assert_eq!(ranks.find("head.fc_out")?, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Patterns<T>(Vec<(String, T)>);

/// A pattern that this crate cannot match.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{pattern}` cannot be matched: {reason}")]
pub struct PatternError {
    /// The regular expression as the settings have it.
    pub pattern: String,
    /// What it uses that is not supported, or what is wrong with it.
    pub reason: &'static str,
}

impl PatternError {
    pub(crate) fn of(pattern: &str) -> impl FnOnce(Reason) -> Self {
        let pattern = pattern.to_owned();
        move |reason| Self { pattern, reason }
    }
}

impl<T> Default for Patterns<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Patterns<T> {
    /// Adds a pattern at the end; one that is there already keeps its place and gets the new value.
    pub fn insert(&mut self, pattern: impl Into<String>, value: T) {
        let pattern = pattern.into();
        match self.0.iter_mut().find(|(known, _)| *known == pattern) {
            Some((_, known)) => *known = value,
            None => self.0.push((pattern, value)),
        }
    }

    /// Patterns with their values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.0
            .iter()
            .map(|(pattern, value)| (pattern.as_str(), value))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value for module `name`: that of the first pattern that matches.
    ///
    /// # Errors
    ///
    /// [`PatternError`] for a pattern that would have to be tried and cannot be.
    pub fn find(&self, name: &str) -> Result<Option<&T>, PatternError> {
        for (pattern, value) in &self.0 {
            if ends_in(pattern, name)? {
                return Ok(Some(value));
            }
        }
        // PEFT falls back to the name itself as a key, which matters where it is no pattern of itself.
        let literal = self.0.iter().find(|(pattern, _)| pattern == name);
        Ok(literal.map(|(_, value)| value))
    }

    /// Refuses patterns that cannot be matched.
    pub(crate) fn check(&self) -> Result<(), PatternError> {
        self.iter()
            .try_for_each(|(pattern, _)| ends_in(pattern, "").map(drop))
    }
}

/// Whether `re.match(rf"(.*\.)?({pattern})$", name)` finds something.
pub(crate) fn ends_in(pattern: &str, name: &str) -> Result<bool, PatternError> {
    if python_regex::is_plain(pattern) {
        return Ok(plain_ends_in(pattern, name));
    }
    let run = || PythonRegex::at_start(&format!("(.*\\.)?({pattern})$"))?.is_match(name);
    run().map_err(PatternError::of(pattern))
}

/// The same for a pattern without special characters but points.
fn plain_ends_in(pattern: &str, name: &str) -> bool {
    let mut rest = name.chars().rev();
    for want in pattern.chars().rev() {
        match rest.next() {
            Some(c) if c == want || (want == '.' && c != '\n') => {}
            _ => return false,
        }
    }
    matches!(rest.next(), None | Some('.'))
}

/// Whether module `name` is one that `pattern` of `modules_to_save` means, or within one:
/// `re.match(rf"(^|.*\.){pattern}($|\..*)", name)`.
pub(super) fn is_inside(pattern: &str, name: &str) -> Result<bool, PatternError> {
    let run = || PythonRegex::at_start(&format!("(^|.*\\.){pattern}($|\\..*)"))?.is_match(name);
    run().map_err(PatternError::of(pattern))
}

impl<T: Serialize> Serialize for Patterns<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.iter())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Patterns<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(InOrder(PhantomData))
    }
}

struct InOrder<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for InOrder<T> {
    type Value = Patterns<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of patterns")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Patterns::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        // As `insert`, which looks through all for each.
        let mut patterns: Vec<(String, T)> = Vec::new();
        let mut places = HashMap::new();
        while let Some((pattern, value)) = map.next_entry::<String, T>()? {
            match places.get(&pattern) {
                Some(&place) => patterns[place] = (pattern, value),
                None => {
                    places.insert(pattern.clone(), patterns.len());
                    patterns.push((pattern, value));
                }
            }
        }
        Ok(Patterns(patterns))
    }
}

#[cfg(test)]
mod tests;
