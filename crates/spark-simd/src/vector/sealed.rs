//! Which types have lanes is decided in this crate: others could name instructions that nobody detected.

/// Cannot be named outside of the crate.
pub trait Sealed {}
