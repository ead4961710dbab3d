//! Number formats a model can be asked to run in.

/// The format of weights (and, where the step allows, activations).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Precision {
    /// IEEE 754 binary32.
    Fp32,
    /// IEEE 754 binary16.
    Fp16,
    /// bfloat16.
    Bf16,
    /// FP8 E4M3 with scales.
    Fp8,
    /// NVFP4: E2M1 with E4M3 block scales.
    Fp4,
}
