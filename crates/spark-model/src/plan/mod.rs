//! The lowered plan: what an executor runs, step by step, in one arena.
//!
//! ```text
//! buffers  b0 input | b1 conv1 | b2 conv2 | ...     each with a place in the arena, reused when dead
//! views    (buffer, offset, [(extent, stride)...])  reshapes, slices, transposes cost nothing
//! steps    Conv(b0 -> b1), Pointwise(b1, b2 -> b3), ...     no step allocates
//! ```
//!
//! Images are stored channels-last (NHWC): a pointwise convolution is then a
//! matrix product, depthwise kernels vectorise over channels, and it is what
//! tensor cores want. Shapes stay in ONNX order; only strides say where
//! elements lie, so most operators that move data lower to a view.
//!
//! The plan knows no processor: it says where in the model's constants the weights of a product
//! are, and an executor puts them in order for itself.
//!
//! Deliberately absent: arithmetic (`crate::cpu`), control flow, dynamic shapes.

mod arena;
mod attention;
mod describe;
mod expand;
mod lower;
mod patterns;
mod pointwise;
mod steps;
mod subsample;
mod traffic;
mod view;
mod weights;

pub use arena::Arena;
pub use attention::{AttentionStep, Mask};
pub use lower::lower;
pub use pointwise::{Instruction, PointOp, Program, RegisterKind};
pub use steps::*;
pub use view::{Axis, BufferId, MAX_RANK, View};
pub use weights::{WeightOrder, Weights};

use std::sync::Arc;

use crate::tensor::DType;

/// How elements are held while running. Floats, booleans and 8-bit integers are
/// exact in f32; wider integers are held as i64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Storage {
    /// f32.
    F32,
    /// i64.
    I64,
}

impl Storage {
    /// How elements of `dtype` are held. `f64` is held as f32, which lowering logs.
    pub fn of(dtype: DType) -> Self {
        match dtype {
            DType::F32
            | DType::F64
            | DType::F16
            | DType::BF16
            | DType::I8
            | DType::U8
            | DType::Bool => Self::F32,
            _ => Self::I64,
        }
    }

    /// Bytes one element takes.
    pub const fn size_bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::I64 => 8,
        }
    }
}

/// Elements known at load.
#[derive(Debug, Clone, PartialEq)]
pub enum ConstantData {
    /// Held as f32.
    F32(Arc<Vec<f32>>),
    /// Held as i64.
    I64(Arc<Vec<i64>>),
}

/// Where a buffer's elements are.
#[derive(Debug, Clone, PartialEq)]
pub enum Place {
    /// In the arena, `offset_bytes` from its start; a multiple of 64.
    Arena {
        /// Bytes from the start of the arena.
        offset_bytes: usize,
    },
    /// Known at load.
    Constant(ConstantData),
}

/// A run of elements of one type.
#[derive(Debug, Clone, PartialEq)]
pub struct Buffer {
    /// Element type.
    pub storage: Storage,
    /// Number of elements.
    pub len: usize,
    /// Where they are.
    pub place: Place,
}

/// A named tensor at the plan's edge.
#[derive(Debug, Clone)]
pub struct Port {
    /// Name in the model.
    pub name: String,
    /// Element type in the model; the edge converts.
    pub dtype: DType,
    /// Shape in the model.
    pub shape: Vec<usize>,
    /// Where it is held.
    pub view: View,
}

/// One step with the node it came from.
#[derive(Debug, Clone)]
pub struct PlannedStep {
    /// Name of the (last) node lowered into this step.
    pub name: String,
    /// What to do.
    pub step: Step,
}

/// A network lowered for one set of shapes.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// All buffers.
    pub buffers: Vec<Buffer>,
    /// In execution order.
    pub steps: Vec<PlannedStep>,
    /// What the caller provides.
    pub inputs: Vec<Port>,
    /// What the caller gets.
    pub outputs: Vec<Port>,
    /// Bytes of the arena.
    pub arena_bytes: usize,
}

impl Plan {
    /// Bytes of all constants, weights included, in the storage steps read them from.
    pub fn constant_bytes(&self) -> usize {
        let buffers = self.buffers.iter().map(|b| match b.place {
            Place::Constant(_) => b.len * b.storage.size_bytes(),
            Place::Arena { .. } => 0,
        });
        let weights = self.steps.iter().map(|s| s.step.weight_bytes());
        buffers.sum::<usize>() + weights.sum::<usize>()
    }
}
