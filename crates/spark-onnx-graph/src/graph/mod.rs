//! Networks as graphs of typed operators.
//!
//! ```text
//! Graph   values: [v0 "img", v1 "conv1.weight" = constant, v2 "conv1.out", ...]
//!         nodes:  [Conv(v0, v1) -> v2, Relu(v2) -> v3, ...]     in execution order
//!         inputs: [v0]      outputs: [vN]
//! ```
//!
//! Operators are in one normal form, that of the newest ONNX operator set this
//! crate knows; the importer translates older ones.
//!
//! An operator is one struct of parameters (`op.rs`); what is said of it stands elsewhere, one trait
//! per subject: `crate::operators` (ONNX), `crate::reference` (its meaning), and in an engine its steps.
//!
//! Names and semantics: ONNX operator specification, <https://onnx.ai/onnx/operators/>.
//!
//! If, Loop and Scan run other graphs ([`Graph::bodies`]), to which what they read is given as operands.
//! [`bind`] replaces them by what they do where that follows from shapes and constants, and binds their bodies
//! with fixed shapes where it does not.
//!
//! Deliberately absent: sequences, strings and training.

mod bind;
mod bound;
mod check;
mod control;
mod custom;
mod deciding;
mod definition;
pub(crate) mod infer;
mod kinds;
pub(crate) mod op;
mod quantization;
mod random;
mod regions;
mod rounded_activations;
mod selection;
mod types;

pub use crate::operators::infer;
pub use bind::{
    bind, bind_taking, bind_with_values, bind_within, check_input_shapes, input_shapes,
};
pub(crate) use bind::{describe_dims, may_be};
pub use bound::{StaticGraph, StaticValue};
pub(crate) use check::check_bodies;
pub use check::check_graph;
pub(crate) use control::MAX_BODY_DEPTH;
pub use control::{BodyId, If, Loop, MAX_ITERATIONS, Scan, ScanAxis};
pub use custom::{
    AttributeError, AttributeValue, Custom, CustomAttributes, CustomOperator, OperatorError,
};
pub(crate) use deciding::Elements;
pub use deciding::{MAX_DECIDING_ELEMENTS, deciding_inputs};
pub use definition::{Dim, Graph, Node, Value, ValueId};
pub use infer::{
    DIVIDED_BY_ZERO, DftAxis, EinsumLabels, Operand, PadAxis, RegionAxis, RegionTaps, ResizeAxis,
    SliceAxis, WindowAxis, broadcast_shapes, conv_transpose_windows, conv_windows, nearest_sources,
    parse_einsum, pool_windows, region_axes, resolve_axes, resolve_axis, resolve_dft, resolve_pads,
    resolve_resize, resolve_slice,
};
pub use kinds::*;
pub use op::*;
pub use quantization::{DequantizeLinear, QuantizeLinear, RoundFloat, SmallFloat};
pub use random::{CountedDropout, Distribution, RandomLike};
pub use regions::{RegionEdges, RoiAlign};
pub use rounded_activations::{ActivationFormat, RoundedActivations};
pub use selection::{NonMaxSuppression, TopK, Unique};
pub use types::{OpError, TensorType};
