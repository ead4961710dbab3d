//! Which modules are meant, as PEFT decides it.
//!
//! ```text
//! names         module `a.b.fc` is meant by `fc`, `b.fc` and `a.b.fc`
//! text          a regular expression for the whole name, or "all-linear"
//! exclude       goes before both
//! modules_to_save       trained whole: never meant by the others, nor is anything within them
//! layers_to_transform   of the modules meant by a shorter name, those whose first number is listed
//! ```
//!
//! `check_target_module_exists` of PEFT 0.21.2.

use serde::{Deserialize, Serialize};

use super::patterns::PatternError;
use super::python_regex::PythonRegex;

/// Which modules are meant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Targets {
    /// Modules of these names, or whose name ends in `.` and one of them.
    Names(Vec<String>),
    /// `"all-linear"`, which is every layer offered here, or a regular expression of Python's that matches
    /// whole names.
    Text(String),
}

/// PEFT's word for every layer that can be adapted.
pub(super) const ALL_LINEAR: &str = "all-linear";

impl Targets {
    /// Whether it is PEFT's word for every layer.
    pub(crate) fn is_all(&self) -> bool {
        matches!(self, Self::Text(text) if text.eq_ignore_ascii_case(ALL_LINEAR))
    }

    /// Whether module `name` is meant.
    pub(crate) fn matches(&self, name: &str) -> Result<bool, PatternError> {
        match self {
            Self::Names(names) => Ok(names.iter().any(|n| is_suffix(name, n))),
            Self::Text(_) if self.is_all() => Ok(true),
            Self::Text(text) => {
                let run = || PythonRegex::whole(text)?.is_match(name);
                run().map_err(PatternError::of(text))
            }
        }
    }
}

/// Whether `suffix` is `name` or its last dotted parts.
pub(crate) fn is_suffix(name: &str, suffix: &str) -> bool {
    name.strip_suffix(suffix)
        .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// How names of modules that PEFT puts inside an adapted layer end. An entry of `modules_to_save` that is the end
/// of one makes PEFT train a base layer or an adapter whole.
pub(super) const PEFTS_OWN: [&str; 8] = [
    ".base_layer",
    ".lora_dropout",
    ".lora_A",
    ".lora_B",
    ".lora_embedding_A",
    ".lora_embedding_B",
    ".lora_magnitude_vector",
    ".default",
];

/// Whether `name` or a module that contains it ends in `end`, also in the middle of a dotted part: `head` means
/// `lm_head` too, as in `_set_trainable` of PEFT 0.21.2.
pub(crate) fn is_within(name: &str, end: &str) -> bool {
    let dots = name.match_indices('.').map(|(at, _)| &name[..at]);
    dots.chain([name]).any(|module| module.ends_with(end))
}

/// One value or a list of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum OneOrMany<T> {
    /// A single value, which files have without brackets.
    One(T),
    /// A list of values; may be empty.
    Many(Vec<T>),
}

impl<T> OneOrMany<T> {
    /// The values as a list: one, or those of [`OneOrMany::Many`].
    pub fn values(&self) -> &[T] {
        match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::Many(values) => values,
        }
    }
}

/// Whether the number of the layer in `name` is among `indices`, the number being that behind one of
/// `patterns`, or without any the first that is a part of its own behind another.
pub(super) fn is_transformed(
    name: &str,
    indices: &[i64],
    patterns: &[String],
) -> Result<bool, PatternError> {
    let any = r".*?\.[^.]*\.(?P<idx>\d+)\.".to_owned();
    let expressions = match patterns {
        [] => vec![any],
        patterns => patterns
            .iter()
            .map(|pattern| format!(r"(?:^|.*?\.){pattern}\.(?P<idx>\d+)\."))
            .collect(),
    };
    for expression in &expressions {
        let regex = PythonRegex::at_start(expression).map_err(PatternError::of(expression))?;
        let groups = regex.captures(name).map_err(PatternError::of(expression))?;
        if let Some(number) = groups.as_ref().and_then(|groups| groups.name("idx")) {
            // A number beyond 64 bits is in no list.
            return Ok(number
                .as_str()
                .parse()
                .is_ok_and(|n: i64| indices.contains(&n)));
        }
    }
    Ok(false)
}
