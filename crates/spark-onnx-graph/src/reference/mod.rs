//! The reference interpreter: every operator computed the obvious way.
//!
//! ```text
//! evaluate(op, operands) -> results        one operator
//! run(graph, inputs)     -> outputs        a whole network, each result rounded to its type
//! run_wide(graph, ...)   -> outputs        the same, floats carried as f64 between operators
//! run_unbound(graph, ...) -> outputs        a network as it is: lengths may hang on values
//! gradient::gradients(graph, ...)           back from the outputs to inputs and constants
//! ```
//!
//! This is the oracle the executors are tested against, and what folds constants. As a rule floats
//! are computed and summed in f64 and rounded once, to nearest even, when an operator's result is
//! stored, and integers are computed exactly and wrap to their type; the files of operators that
//! need other roundings say so.
//!
//! Source: ONNX operator specification. Where it leaves a case open, the comment
//! at that operator says what is done here.
//!
//! An operator is one `impl Evaluate` (`operator.rs`) in the file of its family.
//!
//! Deliberately absent: speed, threads, and any code shared with the executors.
//! Shapes and operand checks come from `crate::operators`, the one place that knows
//! them.

mod bodies;
mod control;
mod conv;
mod create;
mod custom;
mod detection;
mod determinant;
mod elementwise;
mod evaluate;
mod fourier;
pub mod gradient;
mod grid_sample;
mod host;
mod index;
mod integers;
mod matrix;
mod movement;
mod network;
mod normalise;
mod numbers;
mod operator;
mod pool;
mod quantize;
mod random;
mod recurrent;
mod reduce;
mod resize;
mod roi_align;
mod round_float;
mod rounded_activations;
mod run;
mod scatter;
mod search;
mod unary;
mod unbound;
mod unique;

pub use evaluate::evaluate;
pub(crate) use evaluate::{Unevaluated, evaluate_within, folding_work};
pub use host::Host;
pub(crate) use pool::members as pool_members;
pub(crate) use random::drawn;
pub(crate) use resize::changes as resize_changes;
pub(crate) use round_float::rounds_within;
pub use run::{run, run_wide};
pub use unbound::{Made, Unbound, check_unbound, run_unbound};
