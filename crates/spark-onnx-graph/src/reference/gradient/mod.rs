//! Gradients of networks and operators, computed the obvious way in f64.
//!
//! ```text
//! gradients(graph, inputs, output gradients, wanted) -> gradient of each wanted value      a whole network
//! differentiate(op, operands, result gradients, operand) -> gradient by the operand        one operator
//! kind_of(op, operand, ...) -> computed, zero by definition, or refused                    before anything is run
//! ```
//!
//! This is the oracle for gradients that are computed fast. A network is run forth with floats carried as f64, and
//! back in the opposite order; every node on the way adds to the gradients of its operands. An operator is one `impl
//! Differentiate` (`operator.rs`) in a file named after that of its `impl Evaluate`.
//!
//! Where a function has a kink its slope is PyTorch's: that of Relu at 0 is 0, of LeakyRelu and PRelu the slope of negative
//! numbers, of Abs and of a norm of zeros 0; Clip hands the gradient on at its bounds; equal extremes of Max, Min, ReduceMax
//! and ReduceMin share it evenly, and of a window of MaxPool the first has it all. The heads of the operators' files say
//! the rest.
#![doc = include_str!("operators.md")]
//!
//! Deliberately absent: speed, training forms (of BatchNormalization), second derivatives, losses.

mod conv;
mod create;
mod differentiate;
mod elementwise;
mod error;
mod grid_sample;
mod kind_of;
mod kinds;
mod matrix;
mod movement;
mod network;
mod normalise;
mod operator;
mod path;
mod pool;
mod quantize;
mod recurrent;
mod reduce;
mod refused;
mod resample;
mod roi_align;
mod scatter;
mod search;
mod transform;
mod unary;

pub use differentiate::differentiate;
pub use error::GradientError;
pub use kind_of::kind_of;
pub use kinds::{GradientKind, GradientOptions};
pub use network::gradients;
pub(crate) use network::wanted_values;
pub(crate) use path::Path;
pub(crate) use resample::taps_of;

#[cfg(test)]
pub(crate) mod tests;
