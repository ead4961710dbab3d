//! Float arithmetic of PTX: every result is the exact one, rounded once.
//!
//! ```text
//! bits --format--> exact numbers --exact--> exact result --format--> bits
//!                        \---- approximate: f64, for the .approx instructions
//! ```
//!
//! [`FloatForm`] is one instruction (`fma.rz.ftz.f32`), [`Comparison`] what `set` and `setp`
//! compare by. Integers belong to other modules.
//!
//! Source: PTX ISA 9.1, 9.7.3, 9.7.4 and 9.7.7. Deliberately absent: mixed precision
//! (`add.f32.f16`), out-of-bounds NaN (`fma.rn.oob`).

mod approximate;
mod arithmetic;
mod compare;
mod exact;
mod form;
pub(crate) mod format;
mod kind;

pub use compare::Comparison;
pub use form::FloatForm;
pub use format::Rounding;
pub use kind::FloatKind;

#[cfg(test)]
mod tests;
