//! Why an instruction with these modifiers does not exist, or not here.
//!
//! Source: the syntax paragraphs of PTX ISA 9.1 and, where the manual is silent, what ptxas 13.0
//! accepts. A form that exists in PTX and is not interpreted says so: it is never guessed.

use crate::target::Target;

/// Why the modifiers of an opcode were refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormError {
    /// No instruction of this opcode has the modifier, or not beside the others.
    #[error("`{form}` has a modifier `.{modifier}` that does not belong there")]
    Modifier {
        /// The whole instruction.
        form: String,
        /// The modifier.
        modifier: String,
    },
    /// A modifier that PTX requires is not there.
    #[error("`{form}` lacks {what}")]
    Missing {
        /// The whole instruction.
        form: String,
        /// What is missing.
        what: &'static str,
    },
    /// Every modifier is known, together they name no instruction.
    #[error("`{form}` does not exist: {reason}")]
    Combination {
        /// The whole instruction.
        form: String,
        /// Which rule it breaks.
        reason: &'static str,
    },
    /// The target has no such instruction.
    #[error("`{form}` needs {needs}, the target is {target}")]
    Target {
        /// The instruction.
        form: String,
        /// The first targets that have it.
        needs: &'static str,
        /// The target at hand.
        target: Target,
    },
    /// PTX has this instruction, the interpreter does not.
    #[error("`{form}` is not interpreted: {reason}")]
    NotInterpreted {
        /// The whole instruction.
        form: String,
        /// Why it is left out.
        reason: &'static str,
    },
}

/// The modifiers of an opcode, taken one after the other; what is left at the end is an error.
pub(crate) struct Modifiers<'a> {
    opcode: &'a str,
    all: &'a [&'a str],
    left: Vec<&'a str>,
}

impl<'a> Modifiers<'a> {
    pub(crate) fn new(opcode: &'a str, all: &'a [&'a str]) -> Modifiers<'a> {
        Modifiers {
            opcode,
            all,
            left: all.to_vec(),
        }
    }

    /// The instruction as it is written.
    pub(crate) fn form(&self) -> String {
        let mut form = self.opcode.to_owned();
        for modifier in self.all {
            form.push('.');
            form.push_str(modifier);
        }
        form
    }

    /// Takes the modifier, if it is there.
    pub(crate) fn take(&mut self, name: &str) -> bool {
        let found = self.left.iter().position(|modifier| *modifier == name);
        if let Some(idx) = found {
            self.left.remove(idx);
        }
        found.is_some()
    }

    /// Takes the first modifier that means something to `read`.
    pub(crate) fn take_first<T>(&mut self, read: impl Fn(&str) -> Option<T>) -> Option<T> {
        let idx = self.left.iter().position(|name| read(name).is_some())?;
        read(self.left.remove(idx))
    }

    /// Takes the last modifier, if it means something to `read`.
    pub(crate) fn take_last<T>(&mut self, read: impl Fn(&str) -> Option<T>) -> Option<T> {
        let value = read(self.left.last()?)?;
        self.left.pop();
        Some(value)
    }

    /// Refuses whatever nobody has taken.
    pub(crate) fn finish(&self) -> Result<(), FormError> {
        match self.left.first() {
            None => Ok(()),
            Some(modifier) => Err(FormError::Modifier {
                form: self.form(),
                modifier: (*modifier).to_owned(),
            }),
        }
    }

    pub(crate) fn missing(&self, what: &'static str) -> FormError {
        FormError::Missing {
            form: self.form(),
            what,
        }
    }

    pub(crate) fn combination(&self, reason: &'static str) -> FormError {
        FormError::Combination {
            form: self.form(),
            reason,
        }
    }

    pub(crate) fn not_interpreted(&self, reason: &'static str) -> FormError {
        FormError::NotInterpreted {
            form: self.form(),
            reason,
        }
    }
}
