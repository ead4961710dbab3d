//! What is told of the steps of a plan: what computes them, how many bytes, how long.

use std::time::Duration;

use crate::Precision;

/// What one step of a plan is and where it runs.
#[derive(Debug, Clone, PartialEq)]
pub struct StepInfo {
    /// Name of the node it came from.
    pub name: String,
    /// Kind of the step, a short name for tables; the operator's name where it is interpreted.
    pub kind: &'static str,
    /// Shapes, geometry and what was fused into it.
    pub detail: String,
    /// Format of the operands of its GEMM or convolution; fp32 where it has none.
    pub precision: Precision,
    /// The kernel that computes it, as `{isa}-{types}-{algorithm}`: `avx512-f32-winograd2x3`,
    /// `avx2-f32xbf16-gemm` for f32 activations and weights of bf16. A last part names the
    /// instruction of 16 bits (`dot`, `mmla`, `fmlal`), or says `wide` where weights of 16 bits are
    /// held as f32, or `by-transpose` where they are packed for a product with their transpose. `interpreted` is what runs operators behind results whose length values say, as `spark-onnx-graph`'s
    /// reference computes them. The names are stable.
    pub kernel: String,
    /// Why in this format.
    pub reason: &'static str,
    /// Bytes of its weights as they are held.
    pub weight_bytes: usize,
    /// Name of the device that the step runs on.
    pub device: &'static str,
    /// Multiply-accumulate operations of a GEMM, convolution, attention or recurrent cell; 0 of others.
    pub macs: u64,
    /// Bytes it reads and writes, its weights as they are held included.
    pub bytes: u64,
    /// Mean time of one run, if the plan was profiled.
    pub mean: Option<Duration>,
}

/// When a step ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Its place in [`Session::steps`](crate::Session::steps).
    pub step: usize,
    /// From the start of the first run to the start of the step.
    pub start: Duration,
    /// How long it took.
    pub duration: Duration,
}
