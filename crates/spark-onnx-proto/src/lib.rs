//! The messages of an ONNX file, read and written without copies and without an engine.
//!
//! ```text
//! bytes ──decode──> ModelProto ──encode──> bytes          names and elements borrow the file
//!                       ├─ flatten ──> FlatNode[]         calls of the model's own functions replaced
//!                       │     └─ execution_order          every value is made before it is used
//!                       └─ read_constant ──> Constant     shape and numbers; in the file or beside it
//! bytes ──replace_constants──> bytes                      every other byte as it was
//! ```
//!
//! [`ModelProto::decode`] reads what is in memory. [`ModelFile`] reads a file without the elements of
//! its large constants, which [`read_constant`] takes from there, one at a time.
//!
//! Files come from strangers: every count is held against what backs it before memory is taken,
//! messages are nested at most 100 deep, calls of functions at most 32, graphs within graphs 16, and constants outside the model stay
//! inside its folder. What is refused is a [`ProtoError`].
//!
//! Deliberately absent: what an operator means, and types and shapes that are not stated, which are
//! `spark-onnx-graph`'s, and running anything, which is the engine's, `spark-onnx`. Training information is dropped when read.

mod constant;
mod edit;
mod element;
mod error;
mod external;
mod functions;
mod model_file;
mod narrow;
mod numbers;
mod order;
mod proto;
mod source;
mod wire;

pub use constant::{Constant, read_constant, read_sparse_constant};
pub use edit::replace_constants;
pub use element::{ElementProblem, ElementType, MAX_ELEMENTS, MAX_RANK, checked_elements};
pub use error::{ProtoError, WireProblem};
pub use functions::{FlatGraph, FlatNode, flatten, is_graph};
pub use model_file::ModelFile;
pub use narrow::NarrowType;
pub use numbers::Numbers;
pub use order::execution_order;
pub use proto::{
    AttributeProto, DimensionProto, FunctionProto, GraphProto, ModelProto, NodeProto,
    OperatorSetIdProto, SparseTensorProto, StringStringEntryProto, TensorAnnotation, TensorProto,
    TensorShapeProto, TensorTypeProto, TypeProto, ValueInfoProto, attribute_type, data_type, text,
};
pub use source::ConstantSource;
pub use wire::{Bytes, Packed, Text};

#[cfg(doctest)]
mod sealed;

/// The README's example, so that it is compiled and run with the others.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(test)]
mod tests;
