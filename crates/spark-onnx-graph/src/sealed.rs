//! What other crates cannot make or change, each beside the nearest thing that they can: a test that
//! fails to compile for another reason than its twin would show nothing.
//!
//! Kernels of an engine trust all of this.

/// A bound graph is read, not written:
///
/// ```
/// use spark_onnx_graph::graph::StaticGraph;
/// fn names(bound: &StaticGraph) -> usize {
///     bound.values().len() + bound.nodes().len() + bound.outputs().len()
/// }
/// ```
///
/// ```compile_fail,E0616
/// use spark_onnx_graph::graph::StaticGraph;
/// fn empty(bound: &mut StaticGraph) {
///     bound.nodes.clear()
/// }
/// ```
///
/// ```compile_fail
/// use spark_onnx_graph::graph::StaticGraph;
/// fn made() -> StaticGraph {
///     StaticGraph { values: vec![], nodes: vec![], inputs: vec![], outputs: vec![] }
/// }
/// ```
///
/// Simplifying one keeps what binding checked, and takes no other:
///
/// ```
/// use spark_onnx_graph::graph::{Graph, bind};
/// let bound = spark_onnx_graph::simplify(bind(&Graph::default(), &[])?);
/// # Ok::<(), spark_onnx_graph::ModelError>(())
/// ```
///
/// ```compile_fail,E0308
/// use spark_onnx_graph::graph::{Graph, bind};
/// let bound = spark_onnx_graph::simplify(Graph::default());
/// # Ok::<(), spark_onnx_graph::ModelError>(())
/// ```
mod bound_graphs {}

/// The rewrites themselves stay inside. What they are for can be named:
///
/// ```
/// use spark_onnx_graph::simplify;
/// ```
///
/// ```compile_fail,E0603
/// use spark_onnx_graph::simplify::subsample;
/// ```
mod rewrites {}

/// A value and its node are lent, not handed out for writing:
///
/// ```
/// use spark_onnx_graph::graph::StaticGraph;
/// fn first(bound: &StaticGraph) -> &[usize] {
///     &bound.values()[0].ty.shape
/// }
/// ```
///
/// ```compile_fail,E0594
/// use spark_onnx_graph::graph::StaticGraph;
/// fn longer(bound: &mut StaticGraph) {
///     bound.values()[0].ty.shape = vec![1 << 40];
/// }
/// ```
mod lent_values {}

/// A tensor has as many elements as its shape says; they can be written in place:
///
/// ```
/// let mut tensor = spark_onnx_graph::Tensor::from_f32([2], vec![1.0, 2.0])?;
/// tensor.as_f32_mut().expect("of f32")[0] = 3.0;
/// assert_eq!(tensor.as_f32(), Some(&[3.0, 2.0][..]));
/// # Ok::<(), spark_onnx_graph::ModelError>(())
/// ```
///
/// ```compile_fail,E0616
/// let mut tensor = spark_onnx_graph::Tensor::from_f32([2], vec![1.0, 2.0])?;
/// tensor.data = spark_onnx_graph::TensorData::F32(vec![]);
/// # Ok::<(), spark_onnx_graph::ModelError>(())
/// ```
mod tensors {}
