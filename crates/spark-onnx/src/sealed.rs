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

/// A bound graph is read, not written:
///
/// ```
/// use spark_onnx::graph::StaticGraph;
/// fn names(bound: &StaticGraph) -> usize {
///     bound.values().len() + bound.nodes().len() + bound.outputs().len()
/// }
/// ```
///
/// ```compile_fail,E0616
/// use spark_onnx::graph::StaticGraph;
/// fn empty(bound: &mut StaticGraph) {
///     bound.nodes.clear()
/// }
/// ```
///
/// ```compile_fail
/// use spark_onnx::graph::StaticGraph;
/// fn made() -> StaticGraph {
///     StaticGraph { values: vec![], nodes: vec![], inputs: vec![], outputs: vec![] }
/// }
/// ```
mod bound_graphs {}

/// A tensor has as many elements as its shape says; they can be written in place:
///
/// ```
/// let mut tensor = spark_onnx::Tensor::from_f32([2], vec![1.0, 2.0])?;
/// tensor.as_f32_mut().expect("of f32")[0] = 3.0;
/// assert_eq!(tensor.as_f32(), Some(&[3.0, 2.0][..]));
/// # Ok::<(), spark_onnx::ModelError>(())
/// ```
///
/// ```compile_fail,E0616
/// let mut tensor = spark_onnx::Tensor::from_f32([2], vec![1.0, 2.0])?;
/// tensor.data = spark_onnx::TensorData::F32(vec![]);
/// # Ok::<(), spark_onnx::ModelError>(())
/// ```
mod tensors {}
