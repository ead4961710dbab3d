//! The edge of a plan: the caller's tensors and the buffers that ports are held in.
//!
//! ```text
//! check    is this tensor what the port was made for?      before it is written or bound
//! direct   can the caller's memory stand in for a buffer?  once, when a plan is made ready
//! convert  elements between the model's types and f32 or i64, in which they are held
//! ```
//!
//! What an executor must do with it: call [`check_input`] for every input before it writes
//! that one; convert what is not direct, element by element through [`Held`], into the port's view; and
//! make each output that is not direct with
//! [`tensor_of`] from its elements in row-major order, or in the caller's memory through [`Declared`].
//!
//! Deliberately absent: moving elements, which an executor does where its memory is.

mod check;
mod convert;
mod direct;

pub(crate) use check::{check_input, check_output, output_refused};
pub(crate) use convert::{Declared, Held, HeldValues, tensor_of};
pub(crate) use direct::{DirectPorts, has_layout_of};
