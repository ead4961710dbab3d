//! The lowered plan: what an executor runs, step by step.
//!
//! ```text
//! buffers  b0 input | b1 conv1 | b2 conv2 | ...     constants, and what an executor puts in its arena
//! views    (buffer, offset, [(extent, stride)...])  reshapes, slices, transposes cost nothing
//! steps    Conv(b0 -> b1), Pointwise(b1, b2 -> b3), ...     no step allocates (operators of an embedder's own aside)
//! ```
//!
//! Images are stored channels-last (NHWC): a pointwise convolution is then a
//! GEMM, depthwise kernels vectorise over channels, and it is what
//! tensor cores want. Shapes stay in ONNX order; only strides say where
//! elements lie, so most operators that move data lower to a view.
//!
//! The plan knows no processor: it says where in the model's constants the weights of a GEMM
//! are, and an executor packs them for itself; it says which buffers there are, and an executor
//! lays out its memory for them ([`ArenaLayout`]). What an executor does with a plan, in this order:
//!
//! ```text
//! ArenaLayout::of, take_for_a_run,      its arena and constants, held against the budget before anything
//! take_constants                        is taken
//! precision::sixteen_bits               constants rounded that GEMM read in 16 bits
//! its kernels, precision::recipes       weights packed step by step, each step's own then dropped
//! ports::DirectPorts                    which inputs and outputs need no copy
//! Plan::check_views                     views in their buffers, before a pointer is made of one
//! run                                   inputs in (`ports`), steps in their order, outputs out
//! ```
//!
//! Control flow that only a run decides is in the plan too: bodies among the other steps, and between them
//! steps that say which one is next (`lower/control.rs`). So everything above holds for bodies; what takes steps
//! to run one after the other is left out of such plans.
//!
//! Deliberately absent: arithmetic (`crate::cpu`), dynamic shapes.

mod arena;
mod attention;
mod bounds;
mod budget;
mod calibrated;
mod definition;
mod depthwise_fusion;
mod held;
mod lower;
mod pointwise;
pub(crate) mod ports;
mod step;
mod storage;
mod traffic;
mod view;
mod weights;

pub(crate) use arena::ArenaLayout;
pub(crate) use calibrated::{CalibratedWeights, digest};
pub(crate) use definition::{Buffer, ConstantData, Place, Plan, PlannedStep, Port};
pub(crate) use lower::lower;
pub(crate) use pointwise::{Instruction, PointOp, Program, RegisterKind, inverse_of_power_of_two};
pub(crate) use step::*;
pub(crate) use storage::Storage;
pub(crate) use view::{Axis, BufferId, MAX_RANK, View};
pub(crate) use weights::{WeightIdentity, WeightOrder, Weights};
