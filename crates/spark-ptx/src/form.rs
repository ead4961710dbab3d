//! What forms of instructions share: the registers of a warp, and why a form is refused.

/// One 32-bit register of the 32 lanes of a warp.
pub type Lanes = [u32; 32];

/// A form of an instruction that is not known.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
#[error("the form `{form}` is not known")]
pub struct FormError {
    /// The modifiers, joined by dots.
    pub form: String,
}

impl FormError {
    /// The modifiers that make no known form.
    #[must_use]
    pub fn new(modifiers: &[&str]) -> FormError {
        let form = modifiers.join(".");
        FormError {
            form: form.chars().take(120).collect(),
        }
    }
}
