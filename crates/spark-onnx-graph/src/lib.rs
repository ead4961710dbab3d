//! ONNX networks: read, checked, evaluated plainly, written again. No executor.
//!
//! ```text
//! file ──file::load──> Graph ──graph::bind──> StaticGraph ──reference::run──> outputs
//!        <─file::save──            ▲                │
//!                   edited freely ─┘                └── what an engine lowers: shapes known, constants folded
//! ```
//!
//! [`graph`] is the network: values, nodes, one struct of parameters per operator in the form of its
//! newest ONNX version. [`file`](mod@file) translates from operator sets up to 28, and back
//! into 21, or the first that has every operator of the graph. [`graph::bind`] fixes the shapes, checks every operator
//! and folds constants. [`reference`](mod@reference) is what operators mean, in plain loops: the oracle of whatever
//! computes them fast.
//!
//! Files come from strangers: what is not understood is refused with the node's name, sizes are held
//! against a [`budget`] before memory is taken. No unsafe code.
//!
//! Deliberately absent: kernels, plans, threads, devices, which are an engine's (`spark-onnx`), and
//! the messages of files, which are `spark-onnx-proto`'s.

#![forbid(unsafe_code)]

pub mod backward;
pub mod budget;
pub mod file;
pub mod graph;
#[cfg(any(feature = "ndarray", feature = "safetensors"))]
pub mod interop;
pub mod reference;
pub mod tensor;

#[cfg(any(test, feature = "samples"))]
pub mod samples;

mod building;
mod computed_weights;
mod dtype;
mod element;
mod elements;
mod elements_mut;
mod error;
mod operators;
mod simplify;
mod stages;
mod tail;
mod tensor_view;
mod tensor_view_mut;

pub use computed_weights::{MOST_COMPUTED_TAPS, spell_out_computed_weights};
pub use element::Element;
pub use elements::Elements;
pub use error::{ModelError, ViewOutside};
pub use simplify::{join_quantised, simplify};
pub use stages::{Stage, stages_at_values};
pub use tail::{Tail, split_at_values};
pub use tensor::{DType, ElementsMut, Tensor, TensorData};
pub use tensor_view::{TensorView, row_major_strides};
pub use tensor_view_mut::TensorViewMut;

#[cfg(doctest)]
mod sealed;

/// The README's example, so that it is compiled and run with the others.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

// Tests that were written from outside keep their paths.
#[cfg(test)]
extern crate self as spark_onnx_graph;

#[cfg(test)]
mod tests;

/// What tests of memory watch.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: spark_testing::Measuring = spark_testing::Measuring;
