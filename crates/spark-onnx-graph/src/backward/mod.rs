//! Gradients of a network as a network: what computes them, written in the same operators.
//!
//! ```text
//! with_gradients(network, wanted)  ->  one graph
//!     inputs    those of the network, wanted constants, a gradient for each output
//!     outputs   those of the network, a gradient for each wanted value
//! ```
//!
//! An engine plans, lays out and runs it like any other, on every device that it has; what is computed on the way forth and
//! needed on the way back stays in its arena. Nothing between a wanted value and an output is written twice, nothing else is
//! differentiated. What the gradients are is said by [`reference::gradient`](crate::reference::gradient), which is also what
//! they are tested against.
//!
//! What is computed on the way forth and read on the way back is held in between; [`WithGradients::recomputed`] computes it a second time instead.
#![doc = include_str!("operators.md")]
//!
//! Deliberately absent: losses and optimisers, second derivatives.

mod elementwise;
mod movement;
mod network;
mod normalise;
mod operator;
mod others;
mod products;
mod quantize;
mod recompute;
mod reduce;
mod resample;
mod unary;
mod windows;

pub use network::{WithGradients, with_gradients};

#[cfg(test)]
mod tests;
