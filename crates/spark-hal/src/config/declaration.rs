//! What is said of an environment variable, and of a value that it does not take.

/// One environment variable: its name, what it accepts, its default, its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Declaration {
    /// Name in the environment.
    pub name: &'static str,
    /// Words it accepts, for people.
    pub accepts: &'static str,
    /// What is used when it is not set or invalid; empty if "not set" is a state of its own.
    pub default: &'static str,
    /// What the default means, for people, where the text alone does not say it.
    pub default_meaning: &'static str,
    /// What it does: one or two sentences.
    pub doc: &'static str,
}

impl Declaration {
    /// The default as a reader of the page or of a warning is told it.
    pub(super) fn default_words(&self) -> String {
        if self.default_meaning.is_empty() {
            format!("`{}`", self.default)
        } else {
            self.default_meaning.to_owned()
        }
    }
}

/// A variable whose value was not understood; its default is used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name}=`{got}` is not understood (accepts {accepts}); using the default: {default}")]
pub struct InvalidValue {
    /// Name of the variable in the environment.
    pub name: &'static str,
    /// The value that was found, shortened.
    pub got: String,
    /// What the variable accepts, in words for people.
    pub accepts: &'static str,
    /// What is used instead, in the words of `docs/environment.md`.
    pub default: String,
}
