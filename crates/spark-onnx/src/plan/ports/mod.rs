//! The edge of a plan: the caller's tensors and the buffers that ports are held in.
//!
//! ```text
//! check    is this tensor what the port was made for?      before anything is changed
//! direct   can the caller's memory stand in for a buffer?  once, when an executor is made
//! convert  elements between the model's types and f32 or i64, in which they are held
//! ```
//!
//! What an executor must do with it: call [`check_input`] for every input of a run before it writes
//! any; convert what is not direct, element by element through [`Held`], into the port's view; and
//! make each output with [`tensor_of`] from its elements in row-major order.
//!
//! Deliberately absent: moving elements, which an executor does where its memory is.

mod check;
mod convert;
mod direct;

pub(crate) use check::{check_input, check_output, output_refused};
pub(crate) use convert::{Declared, Held, HeldValues, tensor_of};
pub(crate) use direct::{DirectPorts, has_layout_of};
