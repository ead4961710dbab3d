//! What other crates cannot name, each beside the nearest thing that they can: a test that fails
//! to compile for another reason than its twin would show nothing.
//!
//! Kernels trust all of this, so that safe code from outside may not make or change it.

/// Plans and lowering. A graph can be bound and run:
///
/// ```
/// use spark_onnx::graph::bind;
/// use spark_onnx::{ModelRunner, RunOptions};
/// ```
///
/// ```compile_fail,E0603
/// use spark_onnx::graph::bind;
/// use spark_onnx::plan::lower;
/// ```
///
/// ```compile_fail,E0603
/// use spark_onnx::graph::bind;
/// use spark_onnx::plan::Plan;
/// ```
mod plans {}

/// Executors and pools. Instruction sets and the checked product can be named:
///
/// ```
/// use spark_onnx::cpu::Isa;
/// use spark_onnx::cpu::product::BlockProduct;
/// ```
///
/// ```compile_fail,E0603
/// use spark_onnx::cpu::Isa;
/// use spark_onnx::cpu::Executor;
/// ```
///
/// ```compile_fail,E0603
/// use spark_onnx::cpu::Isa;
/// use spark_onnx::cpu::Pool;
/// ```
///
/// ```compile_fail,E0603
/// use spark_onnx::cpu::product::BlockProduct;
/// use spark_onnx::cpu::memory::Memory;
/// ```
mod executors {}

/// An instruction set is what detection found:
///
/// ```
/// let isa = spark_onnx::cpu::Isa::portable();
/// ```
///
/// ```compile_fail,E0599
/// let isa = spark_onnx::cpu::Isa::Scalar;
/// ```
///
/// ```compile_fail
/// let isa = spark_onnx::cpu::Isa { ..spark_onnx::cpu::Isa::portable() };
/// ```
mod instruction_sets {}

/// Formats of steps, which belong to one plan. What is asked for can be named:
///
/// ```
/// use spark_onnx::precision::Arithmetic;
/// ```
///
/// ```compile_fail,E0603
/// use spark_onnx::precision::Wanted;
/// ```
///
/// ```compile_fail,E0603
/// use spark_onnx::precision::StepPrecision;
/// ```
mod formats_of_steps {}

/// What kernels on a GPU are told, and the memory they work on. A session can be named:
///
/// ```
/// use spark_onnx::cuda::CudaSession;
/// ```
///
/// ```compile_fail,E0603
/// use spark_onnx::cuda::structures::Conv;
/// ```
///
/// ```compile_fail,E0603
/// use spark_onnx::cuda::recording::Recording;
/// ```
///
/// ```compile_fail,E0616
/// fn blocks(session: &spark_onnx::cuda::CudaSession) {
///     let _ = &session.recording;
/// }
/// ```
#[cfg(feature = "cuda")]
mod launches {}
